//! Devices and stores.
//!
//! The objects of a [`Store`] (a server, an export, a bucket) share a queue, a bandwidth, a latency
//! and promises. An [`Object`] is a run of bytes with an unknown or changing length. It knows its
//! address in the store: a handle, a key, a version's tag.

use std::ptr::NonNull;
use std::sync::Arc;

use rustix::io::Errno;

use crate::{Request, Segment};

/// Of every request.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a request failed; others are not affected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Not opened; `EINVAL`: neither a regular file nor a block device.
    #[error("{device}: {errno}")]
    Open {
        /// The path.
        device: String,
        /// The system's reason.
        errno: Errno,
    },
    /// Another program writes to it, or it is mounted.
    #[error("{device}: in use: another program writes to it, or it is mounted")]
    InUse {
        /// The path.
        device: String,
    },
    /// The request reaches past the end.
    #[error("{device}: {length} bytes at byte {offset} reach past the end")]
    PastEnd {
        /// [`Device::name`].
        device: String,
        /// First byte.
        offset: u64,
        /// Bytes asked for.
        length: usize,
    },
    /// The request was dropped without an answer.
    #[error("the request at byte {offset} was abandoned")]
    Abandoned {
        /// First byte.
        offset: u64,
    },
    /// No answer in time.
    #[error("{device}: at byte {offset}: no answer after {seconds} s")]
    TimedOut {
        /// [`Device::name`].
        device: String,
        /// First byte.
        offset: u64,
        /// Time waited.
        seconds: u64,
    },
    /// Of a flush, with [`Device::keeps_until_flush`]: the device lost unflushed writes and is
    /// working; write and flush again.
    #[error("{device}: what was not flushed is gone and has to be written again")]
    Replay {
        /// [`Device::name`].
        device: String,
    },
    /// The system refused.
    #[error("{device}: at byte {offset}: {errno}")]
    Failed {
        /// [`Device::name`].
        device: String,
        /// First byte not transferred; 0 of a flush.
        offset: u64,
        /// The system's reason.
        errno: Errno,
    },
}

impl Error {
    /// The system refused at byte `offset`.
    #[must_use]
    pub fn failed(device: &str, offset: u64, errno: Errno) -> Self {
        Self::Failed {
            device: device.to_owned(),
            offset,
            errno,
        }
    }

    /// `length` bytes from `offset` reach past the end.
    #[must_use]
    pub fn past_end(device: &str, offset: u64, length: usize) -> Self {
        Self::PastEnd {
            device: device.to_owned(),
            offset,
            length,
        }
    }
}

/// Alignment and limits of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Offsets and lengths of requests are multiples of it; a power of two. The last block may
    /// reach past the end.
    pub logical_block_bytes: u32,
    /// Addresses and lengths of segments are multiples of it; a power of two.
    pub memory_alignment_bytes: u32,
    /// Longer requests are split.
    pub transfer_bytes_max: u32,
    /// Whether seeking costs time.
    pub rotational: bool,
    /// Requests in progress; more only wait.
    pub queue_depth: u32,
}

impl Geometry {
    /// Memory: no alignment.
    pub const MEMORY: Self = Self {
        logical_block_bytes: 1,
        memory_alignment_bytes: 1,
        transfer_bytes_max: 1 << 30,
        rotational: false,
        queue_depth: 64,
    };
}

/// Memory of many requests.
#[derive(Clone)]
pub struct Memory {
    segment: Segment,
    _keeper: Arc<dyn Send + Sync>,
}

impl Memory {
    /// # Safety
    /// The bytes must stay mapped at this address, to the same memory, until the last clone of
    /// `keeper` is dropped.
    pub unsafe fn new(start: NonNull<u8>, length: usize, keeper: Arc<dyn Send + Sync>) -> Self {
        Self {
            segment: Segment::new(start, length),
            _keeper: keeper,
        }
    }

    /// All of it.
    #[must_use]
    pub fn segment(&self) -> Segment {
        self.segment
    }
}

/// A run of bytes with a fixed length.
pub trait Device: Send + Sync {
    /// Path or kind, part of every error.
    fn name(&self) -> &str;

    /// In bytes, at opening.
    fn length_bytes(&self) -> u64;

    /// Alignment and limits of its requests.
    fn geometry(&self) -> Geometry;

    /// Completes the request, now or later, on any thread. Does not wait for storage unless
    /// documented. A request that breaks the alignment of [`Device::geometry`] or reaches past the
    /// last block fails. One past the end within that block transfers the existing bytes and ends
    /// with [`Error::PastEnd`]: it was whole if `transferred_bytes` reaches the end.
    ///
    /// A device without volatile storage answers a flush at once.
    fn submit(&self, request: Request);

    /// [`Device::submit`] for each, in order, with one system call where possible.
    fn submit_many(&self, requests: Vec<Request>) {
        for request in requests {
            self.submit(request);
        }
    }

    /// Whether the writer keeps data until a good flush, as the device may lose it and return
    /// [`Error::Replay`] (a server that restarts).
    fn keeps_until_flush(&self) -> bool {
        false
    }

    /// Announces memory of most requests.
    fn register_memory(&self, _memory: &Memory) {}
}

/// Refuses wrong alignment (`EINVAL`) and what is past the last block ([`Error::PastEnd`]).
pub fn check(device: &dyn Device, request: &Request) -> Result<()> {
    let geometry = device.geometry();
    let block = u64::from(geometry.logical_block_bytes.max(1));
    let alignment = geometry.memory_alignment_bytes.max(1) as usize;
    let length = request.len() as u64;
    let ends = device.length_bytes().checked_next_multiple_of(block);
    let end = request.offset().checked_add(length);
    if end.is_none() || end > Some(ends.unwrap_or(u64::MAX)) {
        return Err(Error::past_end(
            device.name(),
            request.offset(),
            request.len(),
        ));
    }
    let aligned = request.segments().iter().all(|segment| {
        let address = segment.start().as_ptr() as usize;
        address.is_multiple_of(alignment) && segment.len().is_multiple_of(alignment)
    });
    if aligned && request.offset().is_multiple_of(block) && length.is_multiple_of(block) {
        return Ok(());
    }
    Err(Error::failed(device.name(), request.offset(), Errno::INVAL))
}

/// What objects share.
pub trait Store: Send + Sync {
    /// Part of every error.
    fn name(&self) -> &str;

    /// [`Device::geometry`], of all objects together.
    fn geometry(&self) -> Geometry;

    /// [`Device::keeps_until_flush`].
    fn keeps_until_flush(&self) -> bool {
        false
    }

    /// [`Device::register_memory`].
    fn register_memory(&self, _memory: &Memory) {}
}

/// A run of bytes of a store.
pub trait Object: Send + Sync {
    /// [`Device::submit`]. A flush makes at least the writes to this object durable. A read past
    /// the end gives zeros, or ends with [`Error::PastEnd`] where the store knows the length; an
    /// object without writes in place fails them.
    fn submit(&self, request: Request);

    /// [`Device::submit_many`].
    fn submit_many(&self, requests: Vec<Request>) {
        for request in requests {
            self.submit(request);
        }
    }
}

/// A device as a store of one object.
pub struct OneObject(Arc<dyn Device>);

impl OneObject {
    /// Of a device.
    #[must_use]
    pub fn new(device: Arc<dyn Device>) -> Self {
        Self(device)
    }
}

impl Store for OneObject {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn geometry(&self) -> Geometry {
        self.0.geometry()
    }

    fn keeps_until_flush(&self) -> bool {
        self.0.keeps_until_flush()
    }

    fn register_memory(&self, memory: &Memory) {
        self.0.register_memory(memory);
    }
}

impl Object for OneObject {
    fn submit(&self, request: Request) {
        self.0.submit(request);
    }

    fn submit_many(&self, requests: Vec<Request>) {
        self.0.submit_many(requests);
    }
}
