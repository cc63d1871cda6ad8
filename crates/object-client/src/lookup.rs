//! The files, programs and servers that the libraries for credentials reach.

use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use hyper::http;
use reqsign_core::{CommandExecute, CommandOutput, Context, Env, FileRead, HttpSend};

use crate::activity::Kind;
use crate::location::Origin;
use crate::options::Options;
use crate::transport::{Call, Target, Transport};

const FILE_BYTES_MAX: u64 = 1024 * 1024;
const ANSWER_BYTES_MAX: usize = 256 * 1024;
/// How long a server of credentials may take: an absent one should be known soon.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long a program that gives keys may take; it may ask a server itself.
const PROGRAM_PATIENCE: Duration = Duration::from_secs(60);

/// Reads a file that people write, bounded.
pub(crate) fn read(path: impl AsRef<Path>) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?
        .take(FILE_BYTES_MAX)
        .read_to_end(&mut bytes)?;
    Ok(bytes)
}

pub(crate) fn transport(options: &Options) -> Transport {
    let patient = Options {
        connect: PATIENCE.min(options.connect),
        stall: PATIENCE,
        ..options.clone()
    };
    Transport::new(&patient).of_web()
}

pub(crate) fn context(environment: impl Env, transport: Transport) -> Context {
    Context::new()
        .with_env(Filled(environment))
        .with_file_read(Files)
        .with_command_execute(Programs)
        .with_http_send(Requests(transport))
}

fn failed(text: impl fmt::Display) -> reqsign_core::Error {
    reqsign_core::Error::unexpected(text.to_string())
}

/// An environment in which an empty variable is as an absent one, as the clouds' tools take it: an
/// empty key opens nothing, and hides the file that has one.
#[derive(Debug)]
struct Filled<E>(E);

impl<E: Env> Env for Filled<E> {
    fn var(&self, name: &str) -> Option<String> {
        self.0.var(name).filter(|value| !value.is_empty())
    }

    fn vars(&self) -> HashMap<String, String> {
        let mut all = self.0.vars();
        all.retain(|_, value| !value.is_empty());
        all
    }

    fn home_dir(&self) -> Option<PathBuf> {
        self.0.home_dir()
    }
}

#[derive(Debug)]
struct Files;

impl FileRead for Files {
    async fn file_read(&self, path: &str) -> reqsign_core::Result<Vec<u8>> {
        read(path).map_err(failed)
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
        let ran = tokio::task::spawn_blocking(move || command.output());
        // A program that hangs holds one thread for such work, and no request.
        let ran = tokio::time::timeout(PROGRAM_PATIENCE, ran).await;
        let output = ran.map_err(failed)?.map_err(failed)?.map_err(failed)?;
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
        // Headers and body have secrets: redirects to other hosts are refused.
        for value in call.headers.values_mut() {
            value.set_sensitive(true);
        }
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
