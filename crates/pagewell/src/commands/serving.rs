//! What `serve` and `mount` share.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use pagewell_base::network::Network;
use pagewell_monitor::http::place::Place;
use pagewell_monitor::http::server::{HttpServer, Options};
use pagewell_monitor::http::token::Token;
use pagewell_monitor::status::Status;

use crate::escape;
use crate::failure::{note, usage};
use crate::values;

/// How long a source may take nothing of what was written at the end. With the time for clients to
/// fetch answers it is less than a unit allows (OPERATING).
pub(super) const ANSWER_WAIT: Duration = Duration::from_secs(30);

/// A longer stop is reported.
const SLOW_AFTER: Duration = Duration::from_secs(2);

/// The live page.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct HttpArguments {
    /// Show this process at work on a page, with the counters for Prometheus at /metrics; port
    /// 20491 if left out, or a Unix socket
    #[arg(long, value_name = "ADDR[:PORT]|unix:PATH", value_parser = values::parse_http_place)]
    pub(crate) http: Option<Place>,
    /// Show it only to who has the token in this file: as `Authorization: Bearer`, or as a
    /// password, for which a browser asks
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub(crate) http_token: Option<PathBuf>,
}

pub(super) fn start_http(
    arguments: &HttpArguments,
    allow: Vec<Network>,
    status: &Arc<Status>,
) -> anyhow::Result<Option<HttpServer>> {
    let Some(place) = arguments.http.clone() else {
        return match arguments.http_token {
            None => Ok(None),
            Some(_) => Err(usage("--http-token: only with --http")),
        };
    };
    let token = arguments.http_token.as_deref().map(Token::read);
    let token = token.transpose().context("--http-token")?;
    let shown = place.to_string();
    let server = HttpServer::start(Options {
        place,
        allow,
        token,
        status: Arc::clone(status),
    });
    let server = server.with_context(|| format!("cannot listen on {shown} for HTTP"))?;
    Ok(Some(server))
}

/// Prints for people the notes, `text`, and where the page and the counters are.
pub(super) fn announce(notes: &[String], text: &str, http: Option<&HttpServer>) {
    let notes = notes
        .iter()
        .map(|note| escape::text(note.as_bytes()) + "\n");
    let pages = http.map(|http| {
        let (page, metrics) = (http.place.url("/"), http.place.url("/metrics"));
        format!("page {page}\nmetrics {metrics}\n")
    });
    say(&(notes.collect::<String>() + text + &pages.unwrap_or_default()));
}

/// Prints lines, or logs them where standard error is not for people.
pub(super) fn say(text: &str) {
    if pagewell_logging::is_text() {
        // A closed standard error is no reason not to serve.
        let _ = std::io::stderr().write_all(text.as_bytes());
    } else {
        text.lines().for_each(|line| tracing::info!("{line}"));
    }
}

/// Runs `work`, which bounds its own time, on a thread of this name. Notes `slow` if it takes long.
pub(super) fn wait_for<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
    slow: &str,
) -> anyhow::Result<T> {
    let (sender, outcome) = channel();
    let thread = std::thread::Builder::new().name(name.to_owned());
    thread
        .spawn(move || sender.send(work()))
        .context("cannot start a thread")?;
    let outcome = outcome.recv_timeout(SLOW_AFTER).or_else(|_| {
        note(slow);
        outcome.recv()
    });
    outcome.context("the thread ended in a defect")
}
