//! Replies of a connection, from building to sending.
//!
//! A [`Batch`] has replies that leave together: a block of bytes for small ones, pieces for file
//! data sent in place. A [`SendQueue`] sends them. Replies of several threads must leave whole,
//! those ready together with one system call, and no thread may wait for a client that does not
//! read.
//!
//! So a connection has a queue of pieces and a flag "sending". A thread that finds the flag clear
//! sends, without the lock, until the queue is empty or the socket full; others only append.
//!
//! ```text
//!   worker A ─┐ append            ┌─ flag clear: I send ──> sendmsg, sendfile ──> socket
//!   worker B ─┼──────> [queue] ───┤
//!   reader   ─┘                   └─ flag set: another thread sends mine too
//! ```
//!
//! sendfile(2) ends its segment, however short, and wakes the receiver. So the socket is corked
//! while pieces follow a file range: two system calls, useless for a single reply.

pub mod file_range;
pub mod unsent;

use std::collections::VecDeque;
use std::io::IoSlice;
use std::os::fd::AsFd;
use std::sync::Arc;

use pagewell_base::sync::{Mutex, MutexGuard};
use pagewell_fs::PageSlice;
use pagewell_sunrpc::record::{LAST_FRAGMENT, MARKER_BYTES};
use pagewell_sunrpc::xdr::{padded, padding};
use rustix::io::{Errno, retry_on_intr};
use rustix::ioctl::{Getter, Opcode, ioctl};
use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg, sockopt};

use crate::reply::file_range::FileRange;
use crate::reply::unsent::Unsent;
use crate::usage::Tally;

/// The head of a READ reply, and most whole replies.
const REPLY_BYTES: usize = 256;

/// Consecutive bytes of the stream.
pub enum Piece {
    /// Own memory.
    Bytes(Vec<u8>),
    /// Shared with other readers.
    Page(PageSlice),
    /// Sent from the kernel's cache.
    File(FileRange),
}

impl Piece {
    /// Of the stream.
    pub fn length(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Page(page) => page.len(),
            Self::File(range) => range.length,
        }
    }

    /// Of this reply alone; pages have their own bounds.
    pub fn memory_bytes(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.capacity(),
            Self::Page(_) | Self::File(_) => 0,
        }
    }
}

/// Replies that leave together.
#[derive(Default)]
pub struct Batch {
    bytes: Vec<u8>,
    /// Before `bytes`.
    pieces: Vec<Piece>,
    pieces_bytes: usize,
    pieces_memory_bytes: usize,
    /// For the connection.
    pub tally: Tally,
}

/// A start of a reply.
#[derive(Clone, Copy, Debug)]
pub struct Mark(usize);

impl Batch {
    /// Of the next reply.
    pub fn mark(&self) -> Mark {
        Mark(self.bytes.len())
    }

    /// Begins a reply in [`Batch::bytes`]; [`Batch::end`] or [`Batch::end_with`] ends it.
    pub fn begin(&mut self) -> Mark {
        let mark = self.mark();
        // Behind a payload the block is new and must not grow word by word.
        self.bytes.reserve(REPLY_BYTES);
        self.bytes.extend_from_slice(&[0; MARKER_BYTES]);
        mark
    }

    /// To append to.
    pub fn bytes(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Drops everything since `mark`.
    pub fn roll_back(&mut self, mark: Mark) {
        self.bytes.truncate(mark.0);
    }

    /// All of the reply is in the block. Returns its length with marker.
    pub fn end(&mut self, mark: Mark) -> usize {
        let length = self.bytes.len() - mark.0;
        self.set_marker(mark, length - MARKER_BYTES);
        length
    }

    /// `payload`, padded, follows the block. Returns the length with marker.
    pub fn end_with(
        &mut self,
        mark: Mark,
        payload: impl IntoIterator<Item = Piece>,
        payload_bytes: usize,
    ) -> usize {
        let length = self.bytes.len() - mark.0 + padded(payload_bytes);
        self.set_marker(mark, length - MARKER_BYTES);
        self.pieces_bytes += self.bytes.len() + payload_bytes;
        let head = Piece::Bytes(std::mem::take(&mut self.bytes));
        for piece in std::iter::once(head).chain(payload) {
            self.pieces_memory_bytes += piece.memory_bytes();
            self.pieces.push(piece);
        }
        self.bytes.extend_from_slice(padding(payload_bytes));
        length
    }

    /// A reply ended by [`Batch::end`], without marker.
    pub fn body(&self, mark: Mark) -> &[u8] {
        self.bytes.get(mark.0 + MARKER_BYTES..).unwrap_or_default()
    }

    /// Appends a complete reply without marker.
    pub fn push(&mut self, body: &[u8]) {
        let mark = self.begin();
        self.bytes.extend_from_slice(body);
        self.end(mark);
    }

    /// Of all replies.
    pub fn length(&self) -> usize {
        self.bytes.len() + self.pieces_bytes
    }

    /// Without pages and files.
    pub fn memory_bytes(&self) -> usize {
        self.bytes.len() + self.pieces_memory_bytes
    }

    /// Whether it has no reply.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty() && self.pieces.is_empty()
    }

    fn block(&mut self) -> Option<&mut Vec<u8>> {
        self.pieces.is_empty().then_some(&mut self.bytes)
    }

    fn take(&mut self) -> impl Iterator<Item = Piece> {
        self.pieces_bytes = 0;
        self.pieces_memory_bytes = 0;
        let rest = std::mem::take(&mut self.bytes);
        let last = (!rest.is_empty()).then_some(Piece::Bytes(rest));
        self.pieces.drain(..).chain(last)
    }

    fn set_marker(&mut self, mark: Mark, length: usize) {
        assert!(
            length < LAST_FRAGMENT as usize,
            "a reply of {length} bytes: the largest READ is far below 2^31"
        );
        #[allow(clippy::cast_possible_truncation)] // just checked
        let marker = (length as u32 | LAST_FRAGMENT).to_be_bytes();
        self.bytes[mark.0..mark.0 + MARKER_BYTES].copy_from_slice(&marker);
    }
}

/// A longer queue frees its memory when empty.
const PIECES_KEPT_MAX: usize = 64;

fn memory_bytes(pieces: &VecDeque<Piece>) -> usize {
    pieces.iter().map(Piece::memory_bytes).sum()
}

#[derive(Default)]
struct State {
    pieces: VecDeque<Piece>,
    /// Of the first piece.
    offset: usize,
    unsent_bytes: usize,
    queued_bytes: u64,
    charged_bytes: usize,
    sending: bool,
    writable_again: bool,
    dead: bool,
}

/// Of a connection.
#[derive(Default)]
pub struct SendQueue {
    state: Mutex<State>,
    unsent: Arc<Unsent>,
}

impl SendQueue {
    /// Charges `unsent`.
    pub fn new(unsent: Arc<Unsent>) -> Self {
        Self {
            state: Mutex::default(),
            unsent,
        }
    }

    /// Sends or queues the replies and empties the batch. False: the connection is dead.
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

    /// Of whole replies; sends what it can.
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

    /// From the caller's memory if nothing is queued.
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

    /// After a full socket. False: the connection is dead.
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

    /// Of all replies so far.
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
                    // Reuse the memory.
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

/// Of a sendmsg; more only make the kernel copy the list.
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

/// With one system call.
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

/// For a file that cannot be sent in place, or is truncated: its bytes, then zeros up to the
/// promised length.
fn fallen_back(bytes: Vec<u8>) -> Piece {
    Piece::Bytes(bytes)
}

fn transmit_bytes(socket: &impl AsFd, bytes: &[u8]) -> Result<usize, Errno> {
    send_ranges(socket, &[IoSlice::new(bytes)], false)
}

/// `more`: other bytes follow at once.
fn send_ranges(socket: &impl AsFd, ranges: &[IoSlice<'_>], more: bool) -> Result<usize, Errno> {
    let mut flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    if more {
        flags |= SendFlags::MORE;
    }
    retry_on_intr(|| sendmsg(socket, ranges, &mut SendAncillaryBuffer::default(), flags))
}

#[cfg(test)]
mod tests;
