//! One version of one object as a device: an image by its address.

use std::sync::Arc;

use pagewell_device::{Device, Geometry, Request};
use pagewell_disk_tier::Tier;
use pagewell_object_client::{Remote, Version};

use super::transfer::{GEOMETRY, RemoteVersion};

/// One version of one object as a device. After the object is replaced, reads of what is not in
/// memory fail with `ESTALE`.
pub struct ObjectDevice(Arc<RemoteVersion>);

impl ObjectDevice {
    /// This version of the object at a key of the remote; `tier` keeps its pages on disk. The
    /// place, such as a URL, tells it from objects with that key elsewhere.
    #[must_use]
    pub fn new(
        remote: Arc<dyn Remote>,
        place_and_key: (&str, &str),
        version: Version,
        tier: Option<Arc<Tier>>,
    ) -> Self {
        Self(Arc::new(RemoteVersion::new(
            remote,
            place_and_key,
            version,
            tier,
        )))
    }
}

impl Device for ObjectDevice {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn length_bytes(&self) -> u64 {
        self.0.version().length_bytes
    }

    fn geometry(&self) -> Geometry {
        GEOMETRY
    }

    fn submit(&self, request: Request) {
        self.0.submit(request);
    }
}
