//! Stores: what holds many objects behind one queue; and a device as a store of one.
//!
//! A server, an export or a bucket is a [`Store`]: its objects share how much it takes at a time,
//! how fast it is, and what it promises. An [`Object`] is a run of bytes of it with a length that
//! may change, or that nothing is known of. Requests are submitted to the object; their offsets
//! count from its first byte. What a store needs to reach an object, a handle, a key, the tag of a
//! version, is in its implementation of [`Object`].

use std::sync::Arc;

use crate::{Device, Geometry, Memory, Request};

/// What the objects of one place have in common.
pub trait Store: Send + Sync {
    /// What people call it. Part of every error.
    fn name(&self) -> &str;

    /// What requests have to respect, and what makes them fast: of all objects together.
    fn geometry(&self) -> Geometry;

    /// [`Device::keeps_until_flush`].
    fn keeps_until_flush(&self) -> bool {
        false
    }

    /// [`Device::register_memory`].
    fn register_memory(&self, _memory: &Memory) {}
}

/// Bytes of a store that are read and written by themselves.
pub trait Object: Send + Sync {
    /// [`Device::submit`]. A flush makes durable what was written to this object, and need not do
    /// more. A read behind the end gives zeros, or ends with [`Error::PastEnd`] where the store
    /// knows the length; an object that cannot be written in place answers a write with an error.
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
    /// The store, which is its object too.
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
