//! What stands in for a leg that is missing.

use std::sync::Arc;

use pagewell_device::{Device, Error, Geometry, Request};
use rustix::io::Errno;

/// A device of which nothing is there.
pub(crate) struct Absent {
    name: String,
    length_bytes: u64,
    geometry: Geometry,
}

impl Absent {
    /// In a mirror with this leg.
    pub(crate) fn beside(other: &dyn Device, name: String) -> Arc<dyn Device> {
        Arc::new(Self {
            name,
            length_bytes: other.length_bytes(),
            geometry: other.geometry(),
        })
    }
}

impl Device for Absent {
    fn name(&self) -> &str {
        &self.name
    }

    fn length_bytes(&self) -> u64 {
        self.length_bytes
    }

    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn submit(&self, request: Request) {
        let offset = request.offset();
        request.fail(0, Error::failed(&self.name, offset, Errno::NODEV));
    }
}
