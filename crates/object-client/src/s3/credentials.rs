//! Keys: those that were given, or what the chain of the AWS tools finds (environment, files, SSO,
//! web identity, a program, ECS, IMDS), by the library reqsign.
//!
//! They are kept until shortly before they expire. A program that is named in the files is run as
//! the tools run it.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use hyper::http;
use pagewell_base::line::one_line;
use reqsign_aws_core::{Credential, DefaultCredentialProvider, EnvCredentialProvider};
use reqsign_core::{
    CommandExecute, CommandOutput, Context, FileRead, HttpSend, OsEnv, ProvideCredential,
    SigningCredential,
};
use tokio::sync::Mutex;

use super::config::{self, Settings};
use crate::activity::Kind;
use crate::error::{Error, Result};
use crate::location::Origin;
use crate::options::{Keys, Options};
use crate::transport::{Call, Target, Transport};

/// Bytes of an answer with keys.
const ANSWER_BYTES_MAX: usize = 256 * 1024;
/// How long a server of keys may take: one that is not there should be known soon.
const PATIENCE: Duration = Duration::from_secs(5);

/// Where keys come from.
pub(crate) struct Credentials {
    given: Option<Keys>,
    provider: DefaultCredentialProvider,
    context: Context,
    known: Mutex<Option<Credential>>,
}

impl Credentials {
    pub(crate) fn new(options: &Options, settings: &Settings) -> Self {
        let mut builder = DefaultCredentialProvider::builder();
        if let Some(profile) = &settings.profile {
            builder = builder.with_profile(profile);
        }
        if options.profile.is_some() {
            // A profile that a URL names goes before what the environment holds.
            builder = builder.no_env();
        } else {
            builder = builder.env(EnvCredentialProvider::new());
        }
        let patient = Options {
            connect: PATIENCE.min(options.connect),
            stall: PATIENCE,
            ..options.clone()
        };
        let context = Context::new()
            .with_env(OsEnv)
            .with_file_read(Files)
            .with_command_execute(Programs)
            .with_http_send(Requests(Transport::new(&patient)));
        Self {
            given: options.keys.clone(),
            provider: builder.build(),
            context,
            known: Mutex::new(None),
        }
    }

    /// Keys that are good for a while.
    ///
    /// # Errors
    /// [`Error::Denied`] when there are none.
    pub(crate) async fn keys(&self) -> Result<Keys> {
        if let Some(keys) = &self.given {
            return Ok(keys.clone());
        }
        // Those that come at the same time wait for one look.
        let mut known = self.known.lock().await;
        if let Some(credential) = known.as_ref().filter(|found| found.is_valid()) {
            return Ok(keys(credential));
        }
        let found = self.provider.provide_credential(&self.context).await;
        let found = found.map_err(|error| {
            let text = one_line(&format!("keys of S3: {error}"));
            Error::Denied(text)
        })?;
        let credential = found.ok_or_else(|| {
            let text = "no keys of S3: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile of \
                        the AWS tools, or ?anonymous=true";
            Error::Denied(text.to_owned())
        })?;
        let found = keys(&credential);
        *known = Some(credential);
        Ok(found)
    }

    /// Forgets keys that a server calls expired, and says whether others may be found.
    pub(crate) fn forget(&self) -> bool {
        if self.given.is_some() {
            return false;
        }
        // Where it is locked, new ones are looked for already.
        self.known
            .try_lock()
            .map_or(true, |mut known| known.take().is_some())
    }
}

fn keys(credential: &Credential) -> Keys {
    Keys {
        access_key_id: credential.access_key_id.clone(),
        secret_access_key: credential.secret_access_key.clone(),
        session_token: credential.session_token.clone(),
    }
}

fn failed(text: impl fmt::Display) -> reqsign_core::Error {
    reqsign_core::Error::unexpected(text.to_string())
}

#[derive(Debug)]
struct Files;

impl FileRead for Files {
    async fn file_read(&self, path: &str) -> reqsign_core::Result<Vec<u8>> {
        config::read(path).map_err(failed)
    }
}

#[derive(Debug)]
struct Programs;

impl CommandExecute for Programs {
    async fn command_execute(
        &self,
        program: &str,
        arguments: &[&str],
    ) -> reqsign_core::Result<CommandOutput> {
        let mut command = std::process::Command::new(program);
        command.args(arguments).stdin(std::process::Stdio::null());
        let ran = tokio::task::spawn_blocking(move || command.output()).await;
        let output = ran.map_err(failed)?.map_err(failed)?;
        Ok(CommandOutput {
            status: output.status.code().unwrap_or(-1),
            stdout: output.stdout,
            stderr: output.stderr,
        })
    }
}

struct Requests(Transport);

impl fmt::Debug for Requests {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Requests")
    }
}

impl HttpSend for Requests {
    async fn http_send(
        &self,
        request: http::Request<Bytes>,
    ) -> reqsign_core::Result<http::Response<Bytes>> {
        let (parts, body) = request.into_parts();
        let (origin, _) = Origin::parse(&parts.uri.to_string()).map_err(failed)?;
        let path = parts.uri.path_and_query();
        let target = Target {
            origin,
            path_and_query: path.map_or("/", http::uri::PathAndQuery::as_str).to_owned(),
        };
        let mut call = Call::new(Kind::Get, parts.method, target);
        call.headers = parts.headers;
        call.body = body;
        let mut reply = self
            .0
            .follow(&mut call)
            .await
            .map_err(|failure| failed(failure.error))?;
        let head = reply.head().clone();
        let body = reply
            .collect(ANSWER_BYTES_MAX)
            .await
            .map_err(|failure| failed(failure.error))?
            .ok_or_else(|| failed("an answer is too long"))?;
        let mut response = http::Response::new(Bytes::from(body));
        *response.status_mut() = head.status;
        *response.headers_mut() = head.headers;
        Ok(response)
    }
}
