//! A call to send: its record is encoded once, and sent as often as necessary.
//!
//! ```text
//!   [marker][xid][CALL][2][program][version][procedure][credential][verifier][arguments][data][0]
//!    \______ filled in by the client ______/ \________ encoded by `Outgoing::new` ____/ borrowed
//! ```
//!
//! **Memory of the caller.** A call borrows the data of a WRITE, and the memory for that of a READ.
//!
//! Data travels between the socket and this memory without a copy. Code that makes a
//! [`DataSegments`] or a [`Sink`] promises that the memory stays and nothing else touches it *until
//! the completion of the call has been called*. The client promises in turn not to touch it
//! afterwards:
//!
//! - A WRITE's data is read by the sending thread. A completion waits until that thread has left
//!   the memory, even when the reply comes before (a hostile server can do that).
//! - A READ's memory is written by the one receiving thread of the call's connection, which is also
//!   the one that makes the next connection. So there are never two that write to it.

use crate::record::{LAST_FRAGMENT, MARKER_BYTES};
use crate::rpc::{
    AUTHENTICATION_BYTES_MAX, Credential, GROUPS_MAX, MACHINE_NAME_BYTES_MAX, RPC_VERSION,
    SystemCredential,
};
use crate::xdr::{self, Decoder, Encode, Encoder, Words, padded, padding};
use std::io::{IoSlice, IoSliceMut};
use std::iter;
use std::ptr::NonNull;
use std::sync::{Arc, LazyLock};

/// Bytes before the procedure: marker, xid, message type, RPC version, program, version.
const PREFIX_BYTES: usize = MARKER_BYTES + 20;
/// Space for the arguments of nearly every call: those of READ and WRITE, which have at most 88
/// bytes before the data, and of a name of usual length.
const ARGUMENTS_BYTES: usize = 128;
/// Bytes of the longest credential: flavor, length and body.
const CREDENTIAL_BYTES_MAX: usize = 8 + AUTHENTICATION_BYTES_MAX;

/// The caller, encoded once for all its calls.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EncodedCredential(Arc<[u8]>);

impl EncodedCredential {
    /// AUTH_SYS with the user and group of this process, without other groups.
    #[must_use]
    pub fn of_process() -> Self {
        let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
        Self::of_user(uid.as_raw(), gid.as_raw(), &[])
    }

    /// AUTH_SYS with a user of this machine, and as many of the groups as it takes.
    #[must_use]
    pub fn of_user(uid: u32, gid: u32, groups: &[u32]) -> Self {
        static MACHINE_NAME: LazyLock<Vec<u8>> = LazyLock::new(|| {
            let mut name = rustix::system::uname().nodename().to_bytes().to_vec();
            name.truncate(MACHINE_NAME_BYTES_MAX);
            name
        });
        let credential = Credential::System(SystemCredential {
            stamp: 0,
            machine_name: &MACHINE_NAME,
            uid,
            gid,
            gids: Words::new(groups.get(..GROUPS_MAX).unwrap_or(groups)).unwrap_or_default(),
        });
        let mut bytes = Vec::with_capacity(CREDENTIAL_BYTES_MAX);
        credential.encode(&mut Encoder::new(&mut bytes));
        Self(bytes.into())
    }
}

/// A call to send.
#[derive(Debug)]
pub struct Outgoing {
    /// Identifies the call among those of its client, which sets it.
    pub(super) xid: u32,
    pub(super) procedure: u32,
    message: Vec<u8>,
    data: Option<DataSegments>,
    sink: Option<Sink>,
}

impl Outgoing {
    /// A call of `procedure` with this `credential`.
    pub fn new(procedure: u32, credential: &EncodedCredential, arguments: &impl Encode) -> Self {
        let length = PREFIX_BYTES + 12 + credential.0.len();
        let mut message = Vec::with_capacity(length + ARGUMENTS_BYTES);
        message.resize(PREFIX_BYTES, 0);
        let mut encoder = Encoder::new(&mut message);
        encoder.u32(procedure);
        encoder.raw(&credential.0);
        // The verifier: AUTH_NONE.
        encoder.u32(0);
        encoder.u32(0);
        arguments.encode(&mut encoder);
        Self {
            xid: 0,
            procedure,
            message,
            data: None,
            sink: None,
        }
    }

    /// Appends `data` to the arguments, and zeros up to a multiple of four. The last argument must
    /// be its length.
    #[must_use]
    pub fn with_data(mut self, data: DataSegments) -> Self {
        self.data = Some(data);
        self
    }

    /// Directs the data of the reply to `sink`.
    #[must_use]
    pub fn with_sink(mut self, sink: Sink) -> Self {
        self.sink = Some(sink);
        self
    }

    pub(super) const fn sink(&self) -> Option<&Sink> {
        self.sink.as_ref()
    }

    fn data_bytes(&self) -> usize {
        self.data.as_ref().map_or(0, |data| data.0.length)
    }

    /// Bytes on the wire, the marker included.
    pub(super) fn wire_bytes(&self) -> usize {
        padded(self.message.len().saturating_add(self.data_bytes()))
    }

    /// The load of the call on its connection, in bytes: the call, and the data of its reply.
    pub(super) fn load_bytes(&self) -> usize {
        let expected = self.sink.as_ref().map_or(0, Sink::len);
        self.wire_bytes().saturating_add(expected)
    }

    /// Sets the fields of the client. No call comes near the largest length of a marker.
    pub(super) fn address(&mut self, xid: u32, program: u32, version: u32) {
        self.xid = xid;
        let length = self.wire_bytes() - MARKER_BYTES;
        let marker = u32::try_from(length).unwrap_or(u32::MAX) | LAST_FRAGMENT;
        let words = [marker, xid, 0, RPC_VERSION, program, version];
        for (place, word) in self.message.chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&word.to_be_bytes());
        }
    }

    /// The record without its first `skip` bytes.
    ///
    /// # Safety
    /// The completion of the call has not been called, and is not called as long as the slices are
    /// in use.
    pub(super) unsafe fn slices(&self, skip: usize) -> impl Iterator<Item = IoSlice<'_>> {
        let message = self.message.get(skip..).unwrap_or_default();
        let skip = skip.saturating_sub(self.message.len());
        let data = self.data.iter().flat_map(move |data| data.0.behind(skip));
        // SAFETY: valid for reads and not written to until the completion has been called, by the
        // promise of `DataSegments::new`; that it is not called is that of our caller.
        let data = data.map(|slice| unsafe {
            std::slice::from_raw_parts(slice.start.as_ptr().cast_const(), slice.length)
        });
        let skip = skip.saturating_sub(self.data_bytes());
        let padding = padding(self.data_bytes()).get(skip..).unwrap_or_default();
        let all = iter::once(message).chain(data).chain(iter::once(padding));
        all.filter(|bytes| !bytes.is_empty()).map(IoSlice::new)
    }
}

/// An address and a length, safe to use by the promise of [`DataSegments::new`] or [`Sink::new`].
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

    /// The slice without what is left of the first `skip` bytes of a row of slices; takes its own
    /// off `skip`.
    fn behind(self, skip: &mut usize) -> Option<Self> {
        let skipped = self.length.min(*skip);
        *skip -= skipped;
        // SAFETY: `skipped` is at most the length, so the result is in the slice or one behind it.
        let start = unsafe { self.start.add(skipped) };
        let length = self.length - skipped;
        (length > 0).then_some(Self { start, length })
    }
}

/// Slices, one after the other.
#[derive(Debug)]
struct Borrowed {
    slices: Vec<BorrowedSlice>,
    length: usize,
}

impl Borrowed {
    /// The slices without their first `skip` bytes.
    fn new(slices: Vec<BorrowedSlice>, mut skip: usize) -> Self {
        let rest = slices
            .into_iter()
            .filter_map(|slice| slice.behind(&mut skip));
        let slices: Vec<_> = rest.collect();
        let lengths = slices.iter().map(|slice| slice.length);
        let length = lengths.fold(0, usize::saturating_add);
        Self { slices, length }
    }

    /// The slices without their first `skip` bytes.
    fn behind(&self, mut skip: usize) -> impl Iterator<Item = BorrowedSlice> {
        let slices = self.slices.iter();
        slices.filter_map(move |slice| slice.behind(&mut skip))
    }
}

/// Borrowed memory whose bytes follow the encoded arguments of a call.
#[derive(Debug)]
pub struct DataSegments(Borrowed);

impl DataSegments {
    /// The bytes of `slices`, one after the other, without the first `skip` of them.
    ///
    /// # Safety
    /// Until the completion of the call has been called, every slice must be valid for reads and
    /// nothing may write to it.
    #[must_use]
    pub unsafe fn new(slices: Vec<BorrowedSlice>, skip: usize) -> Self {
        Self(Borrowed::new(slices, skip))
    }
}

/// Reads the results of a reply up to the data. Returns how many bytes of data follow, if any.
pub type Locate = fn(&mut Decoder<'_>) -> xdr::Result<Option<usize>>;

/// Borrowed memory for the data of a reply.
#[derive(Debug)]
pub struct Sink {
    memory: Borrowed,
    locate: Locate,
}

impl Sink {
    /// Memory for as many bytes as `slices` have behind their first `skip` bytes, filled one after
    /// the other. `locate` finds the data in a reply.
    ///
    /// # Safety
    /// Until the completion of the call has been called, every slice must be initialised, valid
    /// for reads and writes, and nothing else may touch it.
    #[must_use]
    pub unsafe fn new(slices: Vec<BorrowedSlice>, skip: usize, locate: Locate) -> Self {
        let memory = Borrowed::new(slices, skip);
        Self { memory, locate }
    }

    /// The most bytes it takes.
    pub(super) const fn len(&self) -> usize {
        self.memory.length
    }

    pub(super) fn locate(&self, results: &mut Decoder<'_>) -> xdr::Result<Option<usize>> {
        (self.locate)(results)
    }

    /// Copies `bytes` behind the first `skip` bytes; what does not fit is left out.
    ///
    /// # Safety
    /// The caller is the receiving thread of the call's connection, and the completion has not
    /// been called.
    pub(super) unsafe fn put(&self, skip: usize, mut bytes: &[u8]) {
        for slice in self.memory.behind(skip) {
            let (now, rest) = bytes.split_at(slice.length.min(bytes.len()));
            // SAFETY: valid for writes and touched by nothing else, by the promise of `new`, until
            // the completion has been called, which it is not, by the promise of our caller.
            // `bytes` is not in it, since nothing else may have a reference to it.
            unsafe { std::ptr::copy_nonoverlapping(now.as_ptr(), slice.start.as_ptr(), now.len()) };
            bytes = rest;
            if bytes.is_empty() {
                break;
            }
        }
    }

    /// The `length` bytes behind the first `skip` bytes.
    ///
    /// # Safety
    /// As for [`Sink::put`], as long as the slices are in use; and nothing else of this sink is.
    pub(super) unsafe fn slices_mut(
        &self,
        skip: usize,
        mut length: usize,
    ) -> impl Iterator<Item = IoSliceMut<'_>> {
        self.memory.behind(skip).map_while(move |slice| {
            let now = slice.length.min(length);
            length -= now;
            // SAFETY: initialised, valid for reads and writes, and touched by nothing else, by the
            // promise of `new`, until the completion has been called, which it is not, by the
            // promise of our caller.
            let bytes = unsafe { std::slice::from_raw_parts_mut(slice.start.as_ptr(), now) };
            (now > 0).then(|| IoSliceMut::new(bytes))
        })
    }
}
