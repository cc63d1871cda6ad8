//! Replies on their way to a socket.
//!
//! Several threads answer calls of one connection. Replies must leave whole, those ready together
//! with one system call, file data without a copy, and no thread may wait for a client that does
//! not read.
//!
//! Each connection has a queue of pieces and a flag "sending". A thread that finds the flag clear
//! sends, without the lock, until the queue is empty or the socket full; others only append. The
//! reader continues when epoll says writable.
//!
//! ```text
//!   worker A ─┐ append            ┌─ flag clear: I send ──> sendmsg, sendfile ──> socket
//!   worker B ─┼──────> [queue] ───┤
//!   reader   ─┘                   └─ flag set: another thread sends mine too
//! ```
//!
//! sendfile(2) ends its segment, however short, and wakes the receiver. So the socket is corked
//! while pieces follow a file range, and the end of one reply shares a segment with the next head.
//! Two system calls, useless for a single reply.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::os::fd::AsFd;
use std::sync::Arc;

use pagewell_base::sync::{Mutex, MutexGuard};
use rustix::io::{Errno, retry_on_intr};
use rustix::ioctl::{Getter, Opcode, ioctl};
use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg, sockopt};

use crate::reply::batch::{Batch, Piece};
use crate::reply::unsent::Unsent;

/// A longer queue frees its memory when empty.
const PIECES_KEPT_MAX: usize = 64;

fn memory_bytes(pieces: &VecDeque<Piece>) -> usize {
    pieces.iter().map(Piece::memory_bytes).sum()
}

#[derive(Default)]
struct State {
    pieces: VecDeque<Piece>,
    /// Sent bytes of the first piece.
    offset: usize,
    unsent_bytes: usize,
    /// Bytes of all replies so far.
    queued_bytes: u64,
    charged_bytes: usize,
    sending: bool,
    writable_again: bool,
    dead: bool,
}

/// The queue of a connection.
#[derive(Default)]
pub struct SendQueue {
    state: Mutex<State>,
    unsent: Arc<Unsent>,
}

impl SendQueue {
    /// An empty queue that charges `unsent`.
    pub fn new(unsent: Arc<Unsent>) -> Self {
        Self {
            state: Mutex::default(),
            unsent,
        }
    }

    /// Sends or queues the replies and empties the batch; the reader sends queued ones later.
    /// False: the connection is dead.
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

    /// Queues pieces of whole replies and sends what it can.
    fn send_pieces(&self, socket: impl AsFd, pieces: impl IntoIterator<Item = Piece>) -> bool {
        let mut state = self.state.lock();
        if state.dead {
            return false;
        }
        for piece in pieces {
            state.unsent_bytes += piece.length();
            state.queued_bytes += piece.length() as u64;
            state.pieces.push_back(piece);
        }
        self.drain(state, &socket)
    }

    /// Sends a block straight from the caller's memory if nothing is queued.
    fn send_bytes(&self, socket: impl AsFd, bytes: &mut Vec<u8>) -> bool {
        let mut state = self.state.lock();
        if state.dead {
            return false;
        }
        state.queued_bytes += bytes.len() as u64;
        if state.sending || !state.pieces.is_empty() {
            state.unsent_bytes += bytes.len();
            state.pieces.push_back(kept(bytes));
            return self.drain(state, &socket);
        }
        state.sending = true;
        drop(state);
        let result = transmit_bytes(&socket, bytes);
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

    /// Continues after a full socket. False: the connection is dead.
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

    /// Bytes that have not left.
    pub fn unsent_bytes(&self) -> usize {
        self.state.lock().unsent_bytes
    }

    /// Bytes of all replies so far.
    pub fn queued_bytes(&self) -> u64 {
        self.state.lock().queued_bytes
    }

    /// Lower bound for the bytes that the client's kernel has acknowledged, and all bytes. `None`
    /// while a thread sends.
    pub fn acknowledged_bytes(&self, socket: impl AsFd) -> Option<(u64, u64)> {
        let state = self.state.lock();
        if state.sending || state.dead {
            return None;
        }
        let on_its_way = u64::try_from(unacknowledged_bytes(socket).ok()?).ok()?;
        let left = on_its_way + state.unsent_bytes as u64;
        Some((state.queued_bytes.saturating_sub(left), state.queued_bytes))
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
            let result = transmit(socket, &mut pieces, &mut offset);
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
                    // Reuse the memory for the next replies.
                    if state.pieces.is_empty() && pieces.capacity() <= PIECES_KEPT_MAX {
                        state.pieces = pieces;
                    }
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

    /// Charges what stays in the queue. Replies that leave at once are never charged: all threads
    /// would write to one cache line.
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
        // A panic during sending leaves the counts inconsistent.
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

/// A block that must wait, without spare capacity.
fn kept(bytes: &mut Vec<u8>) -> Piece {
    let mut bytes = std::mem::take(bytes);
    bytes.shrink_to_fit();
    Piece::Bytes(bytes)
}

/// Sent bytes that the peer's kernel has not acknowledged.
fn unacknowledged_bytes(socket: impl AsFd) -> Result<libc::c_int, Errno> {
    // SAFETY: TIOCOUTQ writes one int, the size of the getter's buffer.
    unsafe {
        let get = Getter::<{ libc::TIOCOUTQ as Opcode }, libc::c_int>::new();
        ioctl(socket, get)
    }
}

/// Most ranges of a sendmsg; more only make the kernel copy the list.
const RANGES_MAX: usize = 64;

fn transmit(
    socket: &impl AsFd,
    pieces: &mut VecDeque<Piece>,
    offset: &mut usize,
) -> Result<(), Errno> {
    // Only TCP can be corked.
    let is_corked = more_follows_a_file(pieces) && sockopt::set_tcp_cork(socket, true).is_ok();
    let result = transmit_all(socket, pieces, offset);
    if is_corked {
        // Fails only on a dead connection, which the next call reports.
        let _ = sockopt::set_tcp_cork(socket, false);
    }
    result
}

fn more_follows_a_file(pieces: &VecDeque<Piece>) -> bool {
    let mut from_file = pieces
        .iter()
        .skip_while(|piece| !matches!(piece, Piece::File(_)));
    from_file.nth(1).is_some()
}

fn transmit_all(
    socket: &impl AsFd,
    pieces: &mut VecDeque<Piece>,
    offset: &mut usize,
) -> Result<(), Errno> {
    loop {
        let Some(first) = pieces.front_mut() else {
            return Ok(());
        };
        if let Piece::File(range) = first {
            match range.send_to(socket) {
                Ok(()) => drop(pieces.pop_front()),
                Err(Errno::NODATA) => *first = fallen_back(range.copied()?),
                Err(errno) => return Err(errno),
            }
            continue;
        }
        *offset += send_memory(socket, pieces, *offset)?;
        while let Some(first) = pieces.front() {
            if matches!(first, Piece::File(_)) || *offset < first.length() {
                break;
            }
            *offset -= first.length();
            pieces.pop_front();
        }
    }
}

/// Sends the leading memory pieces with one system call.
fn send_memory(
    socket: &impl AsFd,
    pieces: &VecDeque<Piece>,
    offset: usize,
) -> Result<usize, Errno> {
    let mut ranges = [IoSlice::new(&[]); RANGES_MAX];
    let mut count = 0;
    // Less than the first piece, which would be gone otherwise.
    let mut skipped = offset;
    for (slot, piece) in ranges.iter_mut().zip(pieces) {
        let bytes: &[u8] = match piece {
            Piece::Bytes(bytes) => bytes,
            Piece::Page(page) => page,
            Piece::File(_) => break,
        };
        *slot = IoSlice::new(
            bytes
                .get(std::mem::take(&mut skipped)..)
                .unwrap_or_default(),
        );
        count += 1;
    }
    send_ranges(socket, &ranges[..count], count < pieces.len())
}

/// Replaces a truncated file, or one that cannot be sent in place: its bytes, then zeros, as the
/// reply has promised the length.
fn fallen_back(bytes: Vec<u8>) -> Piece {
    Piece::Bytes(bytes)
}

fn transmit_bytes(socket: &impl AsFd, bytes: &[u8]) -> Result<usize, Errno> {
    send_ranges(socket, &[IoSlice::new(bytes)], false)
}

/// One system call; `more`: other bytes follow at once.
fn send_ranges(socket: &impl AsFd, ranges: &[IoSlice<'_>], more: bool) -> Result<usize, Errno> {
    let mut flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    if more {
        flags |= SendFlags::MORE;
    }
    retry_on_intr(|| sendmsg(socket, ranges, &mut SendAncillaryBuffer::default(), flags))
}

#[cfg(test)]
mod tests;
