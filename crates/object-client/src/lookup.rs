//! The files, programs and servers that the libraries for credentials reach.

use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use bytes::Bytes;
use hyper::http;
use reqsign_core::{CommandExecute, CommandOutput, Context, Env, FileRead, HttpSend};
use rustix::process::{Pid, Signal, kill_process};

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
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().map_err(failed)?;
        let number = Pid::from_child(&child);
        let ran = tokio::task::spawn_blocking(move || child.wait_with_output());
        let Ok(ran) = tokio::time::timeout(PROGRAM_PATIENCE, ran).await else {
            // It would hold one of the few threads that also look up names of hosts.
            let _ = kill_process(number, Signal::KILL);
            return Err(failed(format_args!(
                "{program}: no end within {PROGRAM_PATIENCE:?}"
            )));
        };
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_program_that_hangs_is_ended() {
        let folder = tempfile::TempDir::new().expect("a folder");
        let path = folder.path().join("number");
        let script = format!("echo $$ > {}; exec sleep 1000", path.display());
        let running = tokio::spawn(async move {
            let ran = Programs.command_execute("sh", &["-c", &script]).await;
            ran.is_err()
        });
        let until = std::time::Instant::now() + Duration::from_secs(30);
        let number = loop {
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            if let Some(number) = text.strip_suffix('\n') {
                break number.to_owned();
            }
            assert!(std::time::Instant::now() < until, "it does not begin");
            tokio::task::yield_now().await;
        };
        tokio::time::advance(PROGRAM_PATIENCE).await;
        assert!(running.await.expect("an end"));
        while Path::new("/proc").join(&number).exists() {
            assert!(std::time::Instant::now() < until, "it runs on");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
