//! A connection as hyper needs it, without a runtime: its thread sleeps in poll(2) when hyper
//! cannot go on.
//!
//! One deadline holds for the whole connection.

use std::cell::Cell;
use std::io;
use std::os::fd::OwnedFd;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Instant;

use hyper::rt::{Read, ReadBufCursor, Write};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{SendFlags, Shutdown, send, shutdown};

/// Of one read; a browser's request is shorter.
const PIECE_BYTES: usize = 4 << 10;

/// Bound of discarded reads after the answer.
const DRAINED_PIECES_MAX: usize = 16;

/// A connection with a deadline.
#[derive(Clone)]
pub(super) struct Socket {
    stream: Arc<OwnedFd>,
    deadline: Instant,
    /// Events that the calls of the last poll wait for.
    wanted: Rc<Cell<PollFlags>>,
}

/// Polls again at once.
#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Socket {
    /// Takes a connection over.
    ///
    /// # Errors
    ///
    /// It cannot be made non-blocking.
    pub(super) fn new(stream: Arc<OwnedFd>, deadline: Instant) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&stream, true)?;
        Ok(Self {
            stream,
            deadline,
            wanted: Rc::new(Cell::new(PollFlags::empty())),
        })
    }

    /// Runs `work` on this connection to its end.
    ///
    /// # Errors
    ///
    /// The deadline is over.
    pub(super) fn drive<T>(&self, work: impl Future<Output = T>) -> io::Result<T> {
        let mut work = pin!(work);
        let woken = Arc::new(Woken::default());
        let waker = Waker::from(Arc::clone(&woken));
        let mut context = Context::from_waker(&waker);
        loop {
            self.wanted.set(PollFlags::empty());
            if let Poll::Ready(outcome) = work.as_mut().poll(&mut context) {
                return Ok(outcome);
            }
            if !woken.0.swap(false, Ordering::Relaxed) {
                self.wait(self.wanted.get())?;
            }
        }
    }

    /// Ends sending and reads the rest of the client's data: closing with unread bytes could reset
    /// the connection and lose the answer.
    pub(super) fn finish(&self) -> io::Result<()> {
        shutdown(&self.stream, Shutdown::Write)?;
        let mut piece = [0; PIECE_BYTES];
        for _ in 0..DRAINED_PIECES_MAX {
            match rustix::io::read(&self.stream, &mut piece) {
                Ok(0) => break,
                Ok(_) | Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => self.wait(PollFlags::IN)?,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn wait(&self, wanted: PollFlags) -> io::Result<()> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let left = left.try_into().ok();
        match poll(&mut [PollFd::new(&self.stream, wanted)], left.as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// The result of a call; one that would block is repeated when `wanted` comes.
    fn outcome(&self, got: Result<usize, Errno>, wanted: PollFlags) -> Poll<io::Result<usize>> {
        match got {
            Err(Errno::AGAIN) => {
                self.wanted.set(self.wanted.get() | wanted);
                Poll::Pending
            }
            got => Poll::Ready(got.map_err(io::Error::from)),
        }
    }
}

impl Read for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        mut buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let mut piece = [0; PIECE_BYTES];
        let most = buffer.remaining().min(PIECE_BYTES);
        let got = rustix::io::retry_on_intr(|| rustix::io::read(&self.stream, &mut piece[..most]));
        let got = self.outcome(got, PollFlags::IN);
        got.map_ok(|got| buffer.put_slice(&piece[..got]))
    }
}

impl Write for Socket {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let sent = rustix::io::retry_on_intr(|| send(&self.stream, bytes, SendFlags::NOSIGNAL));
        self.outcome(sent, PollFlags::OUT)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
