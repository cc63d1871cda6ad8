//! File data to a socket without a copy in user space.
//!
//! A READ reply says how many bytes follow before they follow. sendfile(2) finds out only while
//! it sends, and a file truncated in that moment would leave a promise that cannot be kept. So
//! the data is first spliced from the file into a pipe, which takes references to the pages and
//! tells the true count; then the reply's head is sent, then the pipe is spliced to the socket.
//! The cost is that of sendfile, which does the same inside with a pipe of 16 pages.
//!
//! Known weakness: the pages are the file's own. A file that is changed between the reply and
//! the client's receipt shows the newer bytes, as with every server that does not copy; a READ
//! is not atomic in NFSv3.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use pagewell_base::sync::Mutex;
use pagewell_counters::{Gauge, names};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};

/// Pipes at once; each is two descriptors. When all are in use, reads are copied.
const PIPES_MAX: usize = 96;

/// Asked for: the largest READ.
const PIPE_BYTES_WANTED: usize = 1 << 20;

/// A smaller pipe is not used.
const PIPE_BYTES_MIN: usize = 256 << 10;

/// Pipes for reuse.
pub struct PipePool {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    free: Vec<Pipe>,
    made: usize,
    /// The system gives no pipes of a useful size beyond those made.
    refused: bool,
}

struct Pipe {
    read: OwnedFd,
    write: OwnedFd,
    _open: Counted,
}

/// One more in a gauge for as long as this lives.
struct Counted(&'static Gauge);

impl Counted {
    fn new(gauge: &'static Gauge) -> Self {
        gauge.add(1);
        Self(gauge)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.add(-1);
    }
}

/// A pipe with file data in it. Goes back to its pool when empty, is closed otherwise.
pub struct FilledPipe {
    pipe: Option<Pipe>,
    length: usize,
    pool: Arc<PipePool>,
    _in_use: Counted,
}

impl PipePool {
    /// No pipes yet.
    #[must_use]
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(State::default()),
        })
    }

    /// Up to `length` bytes of `file` from `offset`, by reference. Fewer come at the end of the
    /// file, or when the pipe holds no more; waits for storage as read(2) does. `None` when no
    /// pipe is to be had or the file cannot be spliced: copy then.
    pub fn fill(
        self: &Arc<Self>,
        file: impl AsFd,
        offset: u64,
        length: usize,
    ) -> Result<Option<FilledPipe>, Errno> {
        let Some(pipe) = self.take() else {
            return Ok(None);
        };
        let mut filled = FilledPipe {
            pipe: Some(pipe),
            length: 0,
            pool: self.clone(),
            _in_use: Counted::new(&names::PIPES_IN_USE),
        };
        let mut from = offset;
        while filled.length < length {
            let Some(pipe) = &filled.pipe else { break };
            let flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK;
            let wanted = length - filled.length;
            let result = splice(&file, Some(&mut from), &pipe.write, None, wanted, flags);
            match result {
                Ok(0) => break,
                Ok(count) => filled.length += count,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(Errno::INVAL) if filled.length == 0 => return Ok(None),
                Err(_) if filled.length > 0 => break,
                Err(errno) => return Err(errno),
            }
        }
        Ok(Some(filled))
    }

    fn take(&self) -> Option<Pipe> {
        let mut state = self.state.lock();
        if let Some(pipe) = state.free.pop() {
            return Some(pipe);
        }
        if state.made >= PIPES_MAX || state.refused {
            names::PIPES_EXHAUSTED.add(1);
            return None;
        }
        // Out of descriptors now, perhaps not later.
        let (read, write) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).ok()?;
        // Without privilege the sum of all pipes of a user is limited, and past the limit a new one
        // holds a page or two: reads through it would come in crumbs.
        let granted = fcntl_setpipe_size(&write, PIPE_BYTES_WANTED);
        if granted.map_or(true, |bytes| bytes < PIPE_BYTES_MIN) {
            names::PIPES_EXHAUSTED.add(1);
            state.refused = true;
            return None;
        }
        state.made += 1;
        Some(Pipe {
            read,
            write,
            _open: Counted::new(&names::PIPES),
        })
    }

    fn give_back(&self, pipe: Pipe, empty: bool) {
        let mut state = self.state.lock();
        if empty {
            state.free.push(pipe);
        } else {
            assert!(state.made > 0, "a pipe is closed that was not made");
            state.made -= 1;
        }
    }
}

impl FilledPipe {
    /// Bytes still in it.
    #[must_use]
    pub fn length(&self) -> usize {
        self.length
    }

    /// Moves what the socket takes; [`Errno::AGAIN`] when it takes nothing. `more` says that
    /// other bytes follow at once: without them the last segment would be held back.
    pub fn splice_to(&mut self, socket: impl AsFd, more: bool) -> Result<usize, Errno> {
        let Some(pipe) = &self.pipe else { return Ok(0) };
        let mut flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK;
        flags.set(SpliceFlags::MORE, more);
        let mut moved = 0;
        while self.length > 0 {
            names::SEND_CALLS.add(1);
            match splice(&pipe.read, None, &socket, None, self.length, flags) {
                Ok(0) => return Err(Errno::PIPE),
                Ok(count) => {
                    assert!(count <= self.length, "more left a pipe than was in it");
                    self.length -= count;
                    moved += count;
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) if moved > 0 => break,
                Err(errno) => return Err(errno),
            }
        }
        Ok(moved)
    }
}

impl Drop for FilledPipe {
    fn drop(&mut self) {
        if let Some(pipe) = self.pipe.take() {
            self.pool.give_back(pipe, self.length == 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    #[test]
    fn file_data_passes_and_the_count_is_true() {
        let mut file = tempfile::tempfile().unwrap();
        let data: Vec<u8> = (0..200_000u32).map(|index| (index % 253) as u8).collect();
        file.write_all(&data).unwrap();
        let pool = PipePool::new();
        let mut filled = pool.fill(&file, 100_000, 150_000).unwrap().unwrap();
        assert_eq!(filled.length(), 100_000, "the file ends there");
        let (here, mut there) = UnixStream::pair().unwrap();
        let reader = std::thread::spawn(move || {
            let mut received = vec![0; 100_000];
            there.read_exact(&mut received).unwrap();
            received
        });
        while filled.length() > 0 {
            filled.splice_to(&here, false).unwrap();
        }
        assert!(reader.join().unwrap() == data[100_000..]);
        drop(filled);
        assert_eq!(pool.state.lock().free.len(), 1);
        drop(pool.fill(&file, 0, 10).unwrap());
        let state = pool.state.lock();
        assert_eq!(
            (state.made, state.free.len()),
            (0, 0),
            "a pipe with leftovers is closed"
        );
    }
}
