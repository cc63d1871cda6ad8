//! A call on its way out: its record is encoded once, and sent as often as it takes.
//!
//! ```text
//!   [marker][xid][CALL][2][program][version][procedure][credential][verifier][arguments][data][0]
//!    \______ filled in by the client ______/ \________ encoded by `Outgoing::new` ____/ borrowed
//! ```
//!
//! **Memory of the caller.** A call borrows the data of a WRITE, and the place for that of a READ.
//!
//! Data travels between the socket and its memory without a copy in between, so the memory is
//! not the client's. Code that makes a [`DataSegments`] or a [`Sink`] promises that it stays and is
//! left alone *until the completion of the call has been called*. The client promises in turn not
//! to touch it afterwards:
//!
//! - A WRITE's data is read by the thread that sends. A completion waits until that thread has
//!   left the memory, even when the reply is there before (a hostile server can do that).
//! - A READ's memory is written by the one receiving thread of the call's connection, which is
//!   also the one that makes the next connection. So there are never two that write to it.

use crate::record::{LAST_FRAGMENT, MARKER_BYTES};
use crate::rpc::{Credential, MACHINE_NAME_BYTES_MAX, RPC_VERSION, SystemCredential};
use crate::xdr::{Encode, Encoder, Words, padding};
use std::io::{IoSlice, IoSliceMut};
use std::ptr::NonNull;
use std::sync::Arc;

/// Bytes before the procedure: marker, xid, message type, RPC version, program, version.
const PREFIX_BYTES: usize = MARKER_BYTES + 20;

/// The caller, encoded once for all its calls.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EncodedCredential(Arc<[u8]>);

impl EncodedCredential {
    /// Encodes a credential.
    #[must_use]
    pub fn new(credential: &Credential<'_>) -> Self {
        let mut bytes = Vec::with_capacity(credential.encoded_size());
        credential.encode(&mut Encoder::new(&mut bytes));
        Self(bytes.into())
    }

    /// AUTH_NONE: no user in particular.
    #[must_use]
    pub fn none() -> Self {
        Self::new(&Credential::None)
    }

    /// AUTH_SYS with the user and group of this process, without further groups.
    #[must_use]
    pub fn of_process() -> Self {
        let system = rustix::system::uname();
        let name = system.nodename().to_bytes();
        Self::new(&Credential::System(SystemCredential {
            stamp: 0,
            machine_name: name.get(..MACHINE_NAME_BYTES_MAX).unwrap_or(name),
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
            gids: Words::default(),
        }))
    }
}

/// Where the data of a reply is, as far as its beginning tells. Positions count from the start of
/// the results, which is the end of the RPC head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Locate {
    /// More bytes must be seen.
    More,
    /// This reply has no data (for example because it is an error).
    Absent,
    /// The data has `length` bytes from `start` on.
    Data {
        /// First byte of the data.
        start: usize,
        /// Bytes of the data, without padding.
        length: usize,
    },
    /// The results make no sense.
    Malformed(String),
}

/// A call, ready to be sent.
#[derive(Debug)]
pub struct Outgoing {
    procedure: u32,
    message: Vec<u8>,
    data: Option<DataSegments>,
    sink: Option<Sink>,
}

impl Outgoing {
    /// A call of `procedure` with this `credential`.
    pub fn new(procedure: u32, credential: &EncodedCredential, arguments: &impl Encode) -> Self {
        let length = PREFIX_BYTES + 12 + credential.0.len() + arguments.encoded_size();
        let mut message = Vec::with_capacity(length);
        message.resize(PREFIX_BYTES, 0);
        let mut encoder = Encoder::new(&mut message);
        encoder.u32(procedure);
        encoder.raw(&credential.0);
        // The verifier: AUTH_NONE.
        encoder.u32(0);
        encoder.u32(0);
        arguments.encode(&mut encoder);
        Self {
            procedure,
            message,
            data: None,
            sink: None,
        }
    }

    /// Lets `data` follow the arguments, and zeros up to a multiple of four. Their length is
    /// expected to be the last of the arguments.
    #[must_use]
    pub fn with_data(mut self, data: DataSegments) -> Self {
        self.data = Some(data);
        self
    }

    /// Lets the data of the reply go to `sink`.
    #[must_use]
    pub fn with_sink(mut self, sink: Sink) -> Self {
        self.sink = Some(sink);
        self
    }

    pub(super) const fn procedure(&self) -> u32 {
        self.procedure
    }

    pub(super) const fn sink(&self) -> Option<&Sink> {
        self.sink.as_ref()
    }

    fn data_bytes(&self) -> usize {
        self.data.as_ref().map_or(0, DataSegments::len)
    }

    /// Bytes on the wire, the marker included.
    pub(super) fn wire_bytes(&self) -> usize {
        self.message
            .len()
            .saturating_add(self.data_bytes())
            .saturating_add(3)
            & !3
    }

    /// Bytes that the connection is busy with because of it: the call, and the data of its reply.
    pub(super) fn load_bytes(&self) -> usize {
        let expected = self.sink.as_ref().map_or(0, Sink::len);
        self.wire_bytes().saturating_add(expected)
    }

    /// Fills in what the client knows. The client has found that the length fits a marker.
    pub(super) fn address(&mut self, xid: u32, program: u32, version: u32) {
        let length = self.wire_bytes() - MARKER_BYTES;
        let marker = u32::try_from(length).unwrap_or(u32::MAX) | LAST_FRAGMENT;
        let words = [marker, xid, 0, RPC_VERSION, program, version];
        for (place, word) in self.message.chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&word.to_be_bytes());
        }
    }

    /// Appends what is behind the first `skip` bytes of the record, as long as there are less
    /// than `slices_max`.
    ///
    /// # Safety
    /// The completion of the call has not been called, and is not called as long as `target` is
    /// in use.
    pub(super) unsafe fn gather<'a>(
        &'a self,
        skip: usize,
        target: &mut Vec<IoSlice<'a>>,
        slices_max: usize,
    ) {
        push_rest(&self.message, skip, target, slices_max);
        let skip = skip.saturating_sub(self.message.len());
        for (start, length) in self.data.iter().flat_map(|data| behind(&data.slices, skip)) {
            if target.len() == slices_max {
                break;
            }
            // SAFETY: valid for reads and not written to until the completion has been called, by
            // the promise of `DataSegments::new`; that it is not called is that of our caller.
            target.push(IoSlice::new(unsafe {
                std::slice::from_raw_parts(start, length)
            }));
        }
        let skip = skip.saturating_sub(self.data_bytes());
        push_rest(padding(self.data_bytes()), skip, target, slices_max);
    }
}

/// Appends what is behind the first `skip` bytes, if there is any and place for it.
fn push_rest<'a>(bytes: &'a [u8], skip: usize, target: &mut Vec<IoSlice<'a>>, slices_max: usize) {
    let rest = bytes.get(skip..).filter(|rest| !rest.is_empty());
    if let Some(rest) = rest.filter(|_| target.len() < slices_max) {
        target.push(IoSlice::new(rest));
    }
}

/// An address and a length. What makes it safe to use is the promise of [`DataSegments::new`] or
/// [`Sink::new`].
#[derive(Clone, Copy, Debug)]
pub struct BorrowedSlice {
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: it is an address and a length; the code that turns it into a reference owes the argument.
unsafe impl Send for BorrowedSlice {}
// SAFETY: as above.
unsafe impl Sync for BorrowedSlice {}

impl BorrowedSlice {
    /// `length` bytes at `start`.
    #[must_use]
    pub const fn new(start: NonNull<u8>, length: usize) -> Self {
        Self { start, length }
    }
}

fn total_bytes(slices: &[BorrowedSlice]) -> usize {
    slices
        .iter()
        .fold(0, |sum: usize, slice| sum.saturating_add(slice.length))
}

/// The parts of `slices` behind their first `skip` bytes, as pointers and lengths.
fn behind(slices: &[BorrowedSlice], mut skip: usize) -> impl Iterator<Item = (*mut u8, usize)> {
    slices.iter().filter_map(move |slice| {
        let skipped = skip.min(slice.length);
        skip -= skipped;
        let left = slice.length - skipped;
        // SAFETY: `skipped` is at most the length, so the result is in the slice or one behind it.
        (left > 0).then(|| (unsafe { slice.start.add(skipped) }.as_ptr(), left))
    })
}

/// Borrowed memory whose bytes follow the encoded arguments of a call.
#[derive(Debug)]
pub struct DataSegments {
    slices: Vec<BorrowedSlice>,
    length: usize,
}

impl DataSegments {
    /// The bytes of `slices`, one after the other.
    ///
    /// # Safety
    /// Until the completion of the call has been called, every slice must be valid for reads and
    /// nothing may write to it.
    #[must_use]
    pub unsafe fn new(slices: Vec<BorrowedSlice>) -> Self {
        let length = total_bytes(&slices);
        Self { slices, length }
    }

    /// Bytes in all.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.length
    }

    /// Whether there are no bytes.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.length == 0
    }
}

/// Borrowed memory for the data of a reply.
#[derive(Debug)]
pub struct Sink {
    slices: Vec<BorrowedSlice>,
    length: usize,
    locate: fn(&[u8]) -> Locate,
}

impl Sink {
    /// Memory for as many bytes as `slices` have, filled one after the other. `locate` finds the
    /// data in a reply.
    ///
    /// # Safety
    /// Until the completion of the call has been called, every slice must be initialised, valid
    /// for reads and writes, and nothing else may touch it.
    #[must_use]
    pub unsafe fn new(slices: Vec<BorrowedSlice>, locate: fn(&[u8]) -> Locate) -> Self {
        let length = total_bytes(&slices);
        Self {
            slices,
            length,
            locate,
        }
    }

    /// The most bytes it takes.
    pub(super) const fn len(&self) -> usize {
        self.length
    }

    pub(super) fn locate(&self, results: &[u8]) -> Locate {
        (self.locate)(results)
    }

    /// Copies `bytes` behind the first `skip` bytes; what does not fit is left out.
    ///
    /// # Safety
    /// The caller is the receiving thread of the call's connection, and the completion has not
    /// been called.
    pub(super) unsafe fn put(&self, skip: usize, mut bytes: &[u8]) {
        for (start, length) in behind(&self.slices, skip) {
            let (now, rest) = bytes.split_at(length.min(bytes.len()));
            // SAFETY: valid for writes and touched by nothing else, by the promise of `new`, until
            // the completion has been called, which it is not, by the promise of our caller.
            // `bytes` is not in it, since nothing else may have a reference to it.
            unsafe { std::ptr::copy_nonoverlapping(now.as_ptr(), start, now.len()) };
            bytes = rest;
            if bytes.is_empty() {
                break;
            }
        }
    }

    /// Appends the `length` bytes behind the first `skip` bytes, cut at `slices_max` slices.
    ///
    /// # Safety
    /// As for [`Sink::put`], as long as `target` is in use; and `target` holds nothing else of
    /// this sink.
    pub(super) unsafe fn scatter<'a>(
        &'a self,
        skip: usize,
        mut length: usize,
        target: &mut Vec<IoSliceMut<'a>>,
        slices_max: usize,
    ) {
        for (start, space) in behind(&self.slices, skip) {
            let now = space.min(length);
            if now == 0 || target.len() == slices_max {
                break;
            }
            length -= now;
            // SAFETY: initialised, valid for reads and writes, and touched by nothing else, by the
            // promise of `new`, until the completion has been called, which it is not, by the
            // promise of our caller.
            target.push(IoSliceMut::new(unsafe {
                std::slice::from_raw_parts_mut(start, now)
            }));
        }
    }
}
