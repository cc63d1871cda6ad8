//! The body of a request: memory, given to the connection in pieces, which shows whether it moves.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tokio::time::Instant;

const PIECE_BYTES: usize = 128 * 1024;

/// When a request moved last.
#[derive(Debug)]
pub(crate) struct Progress {
    began: Instant,
    /// Milliseconds after `began`.
    moved: AtomicU64,
    is_whole: AtomicBool,
}

impl Progress {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            began: Instant::now(),
            moved: AtomicU64::new(0),
            is_whole: AtomicBool::new(false),
        })
    }

    /// Whether all of the body was taken; else the connection still has bytes of it to send.
    pub(crate) fn is_whole(&self) -> bool {
        self.is_whole.load(Ordering::Relaxed)
    }

    fn note(&self) {
        let since = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.moved.store(since, Ordering::Relaxed);
    }

    pub(crate) async fn stalled(&self, limit: Duration) {
        loop {
            let moved = Duration::from_millis(self.moved.load(Ordering::Relaxed));
            let end = self.began + moved + limit;
            if end <= Instant::now() {
                return;
            }
            tokio::time::sleep_until(end).await;
        }
    }
}

#[derive(Debug)]
pub(crate) struct Payload {
    rest: [Bytes; 3],
    progress: Arc<Progress>,
}

impl Payload {
    pub(crate) fn new(rest: [Bytes; 3], progress: Arc<Progress>) -> Self {
        let payload = Self { rest, progress };
        let is_whole = payload.is_end_stream();
        payload.progress.is_whole.store(is_whole, Ordering::Relaxed);
        payload
    }
}

impl Body for Payload {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.progress.note();
        let Some(rest) = self.rest.iter_mut().find(|rest| !rest.is_empty()) else {
            return Poll::Ready(None);
        };
        let length = rest.len().min(PIECE_BYTES);
        let piece = rest.split_to(length);
        let is_whole = self.is_end_stream();
        self.progress.is_whole.store(is_whole, Ordering::Relaxed);
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.iter().all(Bytes::is_empty)
    }

    fn size_hint(&self) -> SizeHint {
        let length: usize = self.rest.iter().map(Bytes::len).sum();
        SizeHint::with_exact(u64::try_from(length).unwrap_or(u64::MAX))
    }
}
