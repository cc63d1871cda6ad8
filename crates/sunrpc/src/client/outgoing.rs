//! A call on its way out: its record is encoded once, and sent as often as it takes.
//!
//! ```text
//!   [marker][xid][CALL][2][program][version][procedure][credential][verifier][arguments][data][0]
//!    \______ filled in by the client ______/ \________ encoded by `Outgoing::new` ____/ borrowed
//! ```

use super::memory::{DataSegments, Sink};
use crate::record::{LAST_FRAGMENT, MARKER_BYTES};
use crate::rpc::{Credential, MACHINE_NAME_BYTES_MAX, RPC_VERSION, SystemCredential};
use crate::xdr::{self, Encode, Encoder, Words};
use std::io::IoSlice;
use std::sync::Arc;

/// Bytes before the procedure: marker, xid, message type, RPC version, program, version.
const PREFIX_BYTES: usize = MARKER_BYTES + 20;

/// Zeros that may follow the data.
const PADDING: [u8; 3] = [0; 3];

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
            machine_name: &name[..name.len().min(MACHINE_NAME_BYTES_MAX)],
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
            gids: Words::default(),
        }))
    }
}

/// Where the data of a reply is, as far as its beginning tells. Positions count from the start of
/// the results, which is the end of the RPC head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    Malformed(xdr::Error),
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

    fn padding(&self) -> &'static [u8] {
        &PADDING[..self.data_bytes().wrapping_neg() & 3]
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

    /// Fills in what the client knows. The length was found to fit a marker.
    pub(super) fn address(&mut self, xid: u32, program: u32, version: u32) {
        let length = self.wire_bytes() - MARKER_BYTES;
        #[allow(clippy::cast_possible_truncation)] // checked by the client before
        let marker = length as u32 | LAST_FRAGMENT;
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
        if skip < self.message.len() && target.len() < slices_max {
            target.push(IoSlice::new(&self.message[skip..]));
        }
        let skip = skip.saturating_sub(self.message.len());
        if let Some(data) = &self.data
            && skip < data.len()
        {
            // SAFETY: our caller's promise.
            unsafe { data.gather(skip, target, slices_max) };
        }
        let padding = self.padding();
        let skip = skip.saturating_sub(self.data_bytes());
        if skip < padding.len() && target.len() < slices_max {
            target.push(IoSlice::new(&padding[skip..]));
        }
    }
}
