//! Replies on their way to a socket.
//!
//! Problem: several threads answer calls of one connection; each reply must leave whole, replies
//! that are ready together should leave in one system call, file data should not be copied, and
//! no thread may wait for a client that does not read.
//!
//! Rule: a queue of pieces per connection and a flag that says a thread is sending. One that finds
//! the flag clear sends everything that is queued, without holding the lock, until the queue is
//! empty or the socket is full; all others only append. The reader goes on with a full socket when
//! epoll says that it takes more.
//!
//! ```text
//!   worker A ─┐ append            ┌─ flag clear: I send ──> sendmsg, sendfile ──> socket
//!   worker B ─┼──────> [queue] ───┤
//!   reader   ─┘                   └─ flag set: another thread sends mine too
//! ```

use std::collections::VecDeque;
use std::os::fd::AsFd;
use std::sync::Arc;

use pagewell_base::sync::{Mutex, MutexGuard};
use rustix::io::Errno;
use rustix::ioctl::{Getter, Opcode, ioctl};

use crate::reply::batch::{Batch, Piece};
use crate::reply::transmit;
use crate::reply::unsent::Unsent;

fn memory_bytes(pieces: &VecDeque<Piece>) -> usize {
    pieces.iter().map(Piece::memory_bytes).sum()
}

#[derive(Default)]
struct State {
    pieces: VecDeque<Piece>,
    /// Bytes of the first piece that have left already.
    offset: usize,
    unsent_bytes: usize,
    /// Memory that all connections together are charged for.
    charged_bytes: usize,
    sending: bool,
    writable_again: bool,
    dead: bool,
}

/// The queue of one connection.
#[derive(Default)]
pub struct SendQueue {
    state: Mutex<State>,
    unsent: Arc<Unsent>,
}

impl SendQueue {
    /// An empty queue, what is in it charged to `unsent`.
    #[must_use]
    pub fn new(unsent: Arc<Unsent>) -> Self {
        Self {
            state: Mutex::default(),
            unsent,
        }
    }

    /// Sends replies; what cannot leave is queued, and leaves when the reader finds that the socket
    /// takes more. The batch is empty afterwards. False: the connection is dead.
    #[must_use]
    pub fn send(&self, socket: impl AsFd, batch: &mut Batch) -> bool {
        match batch.block() {
            Some(bytes) => {
                let sent = self.send_bytes(socket, bytes);
                bytes.clear();
                sent
            }
            None => self.send_pieces(socket, batch.take()),
        }
    }

    /// Queues pieces that belong together and sends what can be sent.
    fn send_pieces(&self, socket: impl AsFd, pieces: impl IntoIterator<Item = Piece>) -> bool {
        let mut state = self.state.lock();
        if state.dead {
            return false;
        }
        for piece in pieces {
            state.unsent_bytes += piece.length();
            state.pieces.push_back(piece);
        }
        self.drain(state, &socket)
    }

    /// Sends one block of replies, straight from the caller's memory when nothing is queued.
    fn send_bytes(&self, socket: impl AsFd, bytes: &mut Vec<u8>) -> bool {
        let mut state = self.state.lock();
        if state.dead {
            return false;
        }
        if state.sending || !state.pieces.is_empty() {
            state.unsent_bytes += bytes.len();
            state.pieces.push_back(kept(bytes));
            return self.drain(state, &socket);
        }
        state.sending = true;
        drop(state);
        let result = transmit::bytes(&socket, bytes);
        let mut state = self.state.lock();
        state.sending = false;
        match result {
            Ok(count) if count == bytes.len() => bytes.clear(),
            Ok(_) | Err(Errno::AGAIN) => {
                let count = result.unwrap_or(0);
                state.unsent_bytes += bytes.len() - count;
                state.pieces.push_front(kept(bytes));
                state.offset = count;
            }
            Err(_) => {
                self.die(&mut state);
                return false;
            }
        }
        if state.pieces.is_empty() {
            true
        } else {
            self.drain(state, &socket)
        }
    }

    /// Goes on after the socket was full. False: the connection is dead.
    #[must_use]
    pub fn send_more(&self, socket: impl AsFd) -> bool {
        let mut state = self.state.lock();
        if state.dead {
            return false;
        }
        if state.sending {
            state.writable_again = true;
            return true;
        }
        self.drain(state, &socket)
    }

    /// Bytes that have not left yet.
    #[must_use]
    pub fn unsent_bytes(&self) -> usize {
        self.state.lock().unsent_bytes
    }

    fn drain<'a>(&'a self, mut state: MutexGuard<'a, State>, socket: &impl AsFd) -> bool {
        if state.sending {
            return true;
        }
        state.sending = true;
        loop {
            let mut pieces = std::mem::take(&mut state.pieces);
            let mut offset = state.offset;
            state.writable_again = false;
            drop(state);
            let before: usize = pieces.iter().map(Piece::length).sum::<usize>() - offset;
            let result = transmit::pieces(socket, &mut pieces, &mut offset);
            let left: usize = pieces.iter().map(Piece::length).sum::<usize>() - offset;
            state = self.state.lock();
            let sent = before - left;
            assert!(
                sent <= state.unsent_bytes,
                "{sent} bytes were sent, of {}",
                state.unsent_bytes
            );
            state.unsent_bytes -= sent;
            let is_full = match result {
                Ok(()) => {
                    state.offset = 0;
                    false
                }
                Err(Errno::AGAIN) => {
                    pieces.append(&mut state.pieces);
                    state.pieces = pieces;
                    state.offset = offset;
                    !state.writable_again
                }
                Err(_) => {
                    state.sending = false;
                    self.die(&mut state);
                    return false;
                }
            };
            if is_full || state.pieces.is_empty() {
                state.sending = false;
                self.settle(&mut state);
                return true;
            }
        }
    }

    /// Charges for what is left in the queue. What leaves at once is never charged for: that
    /// would have all threads write to one cache line for each reply.
    fn settle(&self, state: &mut State) {
        let bytes = memory_bytes(&state.pieces);
        let before = std::mem::replace(&mut state.charged_bytes, bytes);
        if bytes > before {
            self.unsent.add(bytes - before);
        } else if bytes < before {
            self.unsent.subtract(before - bytes);
        }
    }

    fn die(&self, state: &mut State) {
        state.dead = true;
        state.unsent_bytes = 0;
        state.pieces.clear();
        self.settle(state);
    }
}

impl Drop for SendQueue {
    fn drop(&mut self) {
        let mut state = self.state.lock();
        let queued: usize = state.pieces.iter().map(Piece::length).sum();
        // A thread that panicked while it sent has left things half done.
        if !state.sending {
            let offset = if state.dead { 0 } else { state.offset };
            assert!(
                queued == state.unsent_bytes + offset,
                "{queued} bytes are queued, {} of them sent, and {} are not",
                offset,
                state.unsent_bytes
            );
        }
        state.pieces.clear();
        self.settle(&mut state);
    }
}

/// A block that has to wait, in no more memory than it needs.
fn kept(bytes: &mut Vec<u8>) -> Piece {
    let mut bytes = std::mem::take(bytes);
    bytes.shrink_to_fit();
    Piece::Bytes(bytes)
}

/// Bytes that were sent and that the other side's machine has not acknowledged.
pub fn unacknowledged_bytes(socket: impl AsFd) -> Result<libc::c_int, Errno> {
    // SAFETY: TIOCOUTQ writes one int, which is what the getter has space for.
    unsafe {
        let get = Getter::<{ libc::TIOCOUTQ as Opcode }, libc::c_int>::new();
        ioctl(socket, get)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_full_socket_is_continued_and_nothing_is_lost() {
        let (here, mut there) = UnixStream::pair().unwrap();
        here.set_nonblocking(true).unwrap();
        let queue = SendQueue::default();
        let expected: Vec<u8> = (0..3_000_000u32).map(|index| (index % 251) as u8).collect();
        let mut blocked = false;
        for chunk in expected.chunks(70_000) {
            let (left, right) = chunk.split_at(1000);
            let pieces = [Piece::Bytes(left.to_vec()), Piece::Bytes(right.to_vec())];
            assert!(queue.send_pieces(&here, pieces));
            blocked |= queue.unsent_bytes() > 0;
        }
        assert!(blocked && queue.unsent_bytes() > 0);
        let mut received = Vec::new();
        let mut part = vec![0; 50_000];
        while received.len() < expected.len() {
            let count = there.read(&mut part).unwrap();
            received.extend_from_slice(&part[..count]);
            assert!(queue.send_more(&here));
        }
        assert!(received == expected);
        assert_eq!(queue.unsent_bytes(), 0);
        assert_eq!(queue.state.lock().charged_bytes, 0);
        drop(there);
        assert!(!queue.send_bytes(&here, &mut vec![1]));
    }

    #[test]
    fn what_waits_is_charged_to_all_until_it_has_left_or_the_connection_is_gone() {
        let unsent = Unsent::new();
        let charged = || unsent.page_bytes(usize::MAX);
        let nothing = charged();
        let (here, there) = UnixStream::pair().unwrap();
        here.set_nonblocking(true).unwrap();
        let queue = SendQueue::new(unsent.clone());
        for _ in 0..4 {
            queue.send_bytes(&here, &mut vec![7; 1 << 20]);
        }
        assert!(charged() < nothing && queue.state.lock().charged_bytes >= 3 << 20);
        drop(there);
        assert!(!queue.send_more(&here));
        assert_eq!(charged(), nothing);
        let (here, _there) = UnixStream::pair().unwrap();
        here.set_nonblocking(true).unwrap();
        let queue = SendQueue::new(unsent.clone());
        queue.send_pieces(&here, [Piece::Bytes(vec![7; 4 << 20])]);
        assert!(charged() < nothing);
        drop(queue);
        assert_eq!(charged(), nothing);
    }
}
