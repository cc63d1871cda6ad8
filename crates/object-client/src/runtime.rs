//! The hidden asynchronous runtime: two threads for all remotes of the process.

use std::future::Future;
use std::sync::OnceLock;

use tokio::runtime::{Builder, Handle, Runtime};

use crate::error::{Error, Result};

/// Threads that wait for sockets and move bytes into sinks.
const THREADS: usize = 2;
/// Threads that look up names of hosts and run programs that give keys.
const HELPERS_MAX: usize = 8;

fn runtime() -> Result<&'static Runtime> {
    static RUNTIME: OnceLock<std::result::Result<Runtime, String>> = OnceLock::new();
    let made = RUNTIME.get_or_init(|| {
        Builder::new_multi_thread()
            .worker_threads(THREADS)
            .max_blocking_threads(HELPERS_MAX)
            .thread_name("object-client")
            .enable_io()
            .enable_time()
            .build()
            .map_err(|error| error.to_string())
    });
    made.as_ref()
        .map_err(|error| Error::Unreachable(format!("threads for requests: {error}")))
}

/// Waits for `future` on the thread of the caller.
///
/// When there are no threads, or the caller is one of them.
/// When there are no threads, or the caller is one of them.
pub(crate) fn wait<T>(future: impl Future<Output = Result<T>>) -> Result<T> {
    if Handle::try_current().is_ok() {
        let text = "a sink or a task of the runtime may not wait for a request";
        return Err(Error::Invalid(text.to_owned()));
    }
    runtime()?.block_on(future)
}

///
/// # Errors
/// When there are none; the future is dropped.
pub(crate) fn begin(future: impl Future<Output = ()> + Send + 'static) -> Result<()> {
    runtime()?.spawn(future);
    Ok(())
}

///
/// # Errors
/// When that fails.
pub(crate) fn ready() -> Result<()> {
    runtime().map(|_| ())
}
