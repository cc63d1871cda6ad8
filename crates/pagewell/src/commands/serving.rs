//! What `serve` and `mount` share.

use std::io::Write;
use std::net::SocketAddr;
use std::sync::mpsc::channel;
use std::time::Duration;

use anyhow::Context;
use pagewell_monitor::http::server::HttpServer;
use pagewell_nfsd::Network;

use crate::escape;
use crate::failure::report;

/// More threads than any storage has use for.
pub(super) const THREADS_MAX: u32 = 4096;

/// How long a source that is not used any more may take nothing of what was written. With what
/// clients are given to fetch their answers it is less than the time of a unit (OPERATING).
pub(super) const ANSWER_WAIT: Duration = Duration::from_secs(30);

/// What takes longer than this to stop is said.
const SLOW_AFTER: Duration = Duration::from_secs(2);

/// Starts what `--http` asks for.
pub(super) fn start_http(
    address: Option<SocketAddr>,
    allow: Vec<Network>,
) -> anyhow::Result<Option<HttpServer>> {
    let Some(address) = address else {
        return Ok(None);
    };
    let server = HttpServer::start(address, allow);
    let server = server.with_context(|| format!("cannot listen on {address} for HTTP"))?;
    Ok(Some(server))
}

/// Says to people what is there: the notes, `text`, and where the counters are.
pub(super) fn announce(notes: &[String], text: &str, http: Option<&HttpServer>) {
    let notes = notes
        .iter()
        .map(|note| escape::text(note.as_bytes()) + "\n");
    let metrics = http.map(|http| format!("metrics http://{}/metrics\n", http.address));
    let all = notes.collect::<String>() + text + &metrics.unwrap_or_default();
    // A closed standard error is no reason not to serve.
    let _ = std::io::stderr().write_all(all.as_bytes());
}

/// What comes of `work` on a thread of this name, which bounds its time by itself. `slow` is said
/// when it takes long.
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
        report(slow);
        outcome.recv()
    });
    outcome.context("the thread ended in a defect")
}
