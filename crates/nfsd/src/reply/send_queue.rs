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
//!
//! sendfile(2) ends with a segment of its own, however short, and wakes the receiver for it. So a
//! connection is corked while ranges of files leave with other pieces behind them: the end of one
//! reply and the head of the next one share a segment. To cork and uncork costs two system calls,
//! which a single reply would gain nothing by.

use std::collections::VecDeque;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;

use pagewell_base::sync::{Mutex, MutexGuard};
use pagewell_counters::names;
use rustix::io::Errno;
use rustix::ioctl::{Getter, Opcode, ioctl};
use rustix::net::sockopt;

use crate::reply::batch::{Batch, Piece};
use crate::reply::unsent::Unsent;

/// A longer queue gives its memory back when it is empty.
const PIECES_KEPT_MAX: usize = 64;

fn memory_bytes(pieces: &VecDeque<Piece>) -> usize {
    pieces.iter().map(Piece::memory_bytes).sum()
}

#[derive(Default)]
struct State {
    pieces: VecDeque<Piece>,
    /// Bytes of the first piece that have left already.
    offset: usize,
    unsent_bytes: usize,
    /// Bytes of all replies that there have been.
    queued_bytes: u64,
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
            state.queued_bytes += piece.length() as u64;
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
    pub fn unsent_bytes(&self) -> usize {
        self.state.lock().unsent_bytes
    }

    /// Bytes of all replies that there have been.
    pub fn queued_bytes(&self) -> u64 {
        self.state.lock().queued_bytes
    }

    /// How many of these bytes the client's machine has acknowledged at least, of how many. Nothing
    /// is known while a thread sends.
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
                    // The next replies need no memory of their own.
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
fn unacknowledged_bytes(socket: impl AsFd) -> Result<libc::c_int, Errno> {
    // SAFETY: TIOCOUTQ writes one int, which is what the getter has space for.
    unsafe {
        let get = Getter::<{ libc::TIOCOUTQ as Opcode }, libc::c_int>::new();
        ioctl(socket, get)
    }
}

/// The most ranges of one sendmsg; more only make the kernel copy the list.
const RANGES_MAX: usize = 64;

/// Sends pieces until none is left; those that have left are removed.
fn transmit(
    socket: &impl AsFd,
    pieces: &mut VecDeque<Piece>,
    offset: &mut usize,
) -> Result<(), Errno> {
    // Only TCP can be corked.
    let is_corked = more_follows_a_file(pieces) && sockopt::set_tcp_cork(socket, true).is_ok();
    let result = transmit_all(socket, pieces, offset);
    if is_corked {
        // It fails only if the connection is dead, which the next call says, too.
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
        *offset += in_memory(socket, pieces, *offset)?;
        while let Some(first) = pieces.front() {
            if matches!(first, Piece::File(_)) || *offset < first.length() {
                break;
            }
            *offset -= first.length();
            pieces.pop_front();
        }
    }
}

/// Sends the leading pieces that are in memory with one system call.
fn in_memory(
    socket: &impl AsFd,
    pieces: &mut VecDeque<Piece>,
    offset: usize,
) -> Result<usize, Errno> {
    let mut ranges = [range_of(&[]); RANGES_MAX];
    let (mut count, mut mapped_bytes) = (0, 0);
    for (slot, piece) in ranges.iter_mut().zip(pieces.iter()) {
        *slot = match piece {
            Piece::Bytes(bytes) => range_of(bytes),
            Piece::Page(page) => range_of(page),
            Piece::Mapped(range) => {
                mapped_bytes += range.len();
                libc::iovec {
                    iov_base: range.address().cast_mut().cast(),
                    iov_len: range.len(),
                }
            }
            Piece::File(_) => break,
        };
        count += 1;
    }
    // All of the first piece has not left, or it would not be there.
    let [first, ..] = &mut ranges;
    first.iov_base = first.iov_base.wrapping_byte_add(offset);
    first.iov_len = first.iov_len.saturating_sub(offset);
    let more = count < pieces.len();
    // SAFETY: these are ranges of pieces, which stay until the call has returned. The memory of a
    // mapping may be nowhere: then the call answers EFAULT.
    match unsafe { send_ranges(socket, &ranges[..count], more) } {
        Err(Errno::FAULT) => {
            fill_first_mapped(pieces)?;
            Ok(0)
        }
        Ok(sent) => {
            names::MAPPED_BYTES.add(sent.min(mapped_bytes) as u64);
            Ok(sent)
        }
        Err(errno) => Err(errno),
    }
}

/// A file was cut short while it was to be sent from its mapping.
fn fill_first_mapped(pieces: &mut VecDeque<Piece>) -> Result<(), Errno> {
    for piece in pieces {
        if let Piece::Mapped(range) = piece {
            *piece = fallen_back(range.copied()?);
            break;
        }
    }
    Ok(())
}

/// The bytes of a file that was cut short while it was to be sent: what is there was read, and
/// zeros follow, because the reply has promised as many.
fn fallen_back(bytes: Vec<u8>) -> Piece {
    names::SEND_FAULTS.add(1);
    Piece::Bytes(bytes)
}

/// Sends bytes; returns how many left.
fn transmit_bytes(socket: &impl AsFd, bytes: &[u8]) -> Result<usize, Errno> {
    // SAFETY: the range is that of a slice.
    unsafe { send_ranges(socket, &[range_of(bytes)], false) }
}

fn range_of(bytes: &[u8]) -> libc::iovec {
    libc::iovec {
        iov_base: bytes.as_ptr().cast_mut().cast(),
        iov_len: bytes.len(),
    }
}

/// One system call. `more` says that other bytes follow at once.
///
/// # Safety
///
/// Each range is memory that can be read, or addresses of a mapping, until the call has returned.
unsafe fn send_ranges(
    socket: &impl AsFd,
    ranges: &[libc::iovec],
    more: bool,
) -> Result<usize, Errno> {
    let mut flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
    if more {
        flags |= libc::MSG_MORE;
    }
    // SAFETY: all zeros are a message without address, ranges and control data.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = ranges.as_ptr().cast_mut();
    // Its type differs between C libraries; there are at most RANGES_MAX.
    message.msg_iovlen = ranges.len() as _;
    names::SEND_CALLS.add(1);
    loop {
        // SAFETY: the message has nothing but ranges, for which the caller answers; the kernel
        // only reads it.
        let sent = unsafe { libc::sendmsg(socket.as_fd().as_raw_fd(), &raw const message, flags) };
        if let Ok(sent) = usize::try_from(sent) {
            return Ok(sent);
        }
        let error = std::io::Error::last_os_error();
        let errno = Errno::from_raw_os_error(error.raw_os_error().unwrap_or(libc::EIO));
        if errno != Errno::INTR {
            return Err(errno);
        }
    }
}

#[cfg(test)]
mod tests;
