//! Stores: many objects behind one queue; and a device as a store of one object.
//!
//! The objects of a [`Store`] (a server, an export, a bucket) share a queue, a bandwidth, a latency
//! and promises. An [`Object`] is a run of bytes with an unknown or changing length; offsets of its
//! requests count from its first byte. Its implementation holds its address in the store: a handle,
//! a key, a version's tag.

use std::sync::Arc;

use crate::{Device, Geometry, Memory, Request};

/// The shared properties of objects.
pub trait Store: Send + Sync {
    /// Its name in messages. Part of every error.
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
    /// [`Device::submit`]. A flush makes at least the writes to this object durable. A read behind
    /// the end gives zeros, or ends with [`Error::PastEnd`] where the store knows the length; an
    /// object without writes in place fails them.
    ///
    /// [`Error::PastEnd`]: crate::Error::PastEnd
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
    /// The store and its object.
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
