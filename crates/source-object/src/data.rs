//! The bytes of objects in the page cache: a store for the remote, an object of it for each
//! version.

use std::sync::Arc;

use pagewell_cache::{Bounds, Cache, CachedStore, ReadAheadRule};
use pagewell_device::{Geometry, Object, Request, Store};
use pagewell_disk_tier::Tier;
use pagewell_fs::{Error, Payload, Result};
use pagewell_object_client::{Remote, Version};
use pagewell_source_bytes::{Bytes, Run};

use super::transfer::{GEOMETRY, REQUEST_BYTES, RemoteVersion};

/// What the objects of a remote share.
struct RemoteStore(String);

impl Store for RemoteStore {
    fn name(&self) -> &str {
        &self.0
    }

    fn geometry(&self) -> Geometry {
        GEOMETRY
    }
}

/// A version as an object of the cache.
struct CachedVersion(Arc<RemoteVersion>);

impl Object for CachedVersion {
    fn submit(&self, request: Request) {
        self.0.submit(request);
    }
}

/// The data of a remote.
pub(super) struct Data {
    remote: Arc<dyn Remote>,
    store: CachedStore,
    tier: Option<Arc<Tier>>,
}

/// The data of one version.
pub(super) struct VersionData {
    from: Arc<RemoteVersion>,
    bytes: Bytes,
}

impl Data {
    pub(super) fn new(remote: Arc<dyn Remote>, cache: &Cache, tier: Option<Arc<Tier>>) -> Self {
        let mut options = cache.open_options();
        // Switched off for the whole cache, it stays off.
        if options.read_ahead != ReadAheadRule::Off {
            options.read_ahead = ReadAheadRule::Server {
                request_bytes: REQUEST_BYTES,
            };
        }
        // How long to wait is decided by the client, which knows whether bytes come.
        options.read_timeout = std::time::Duration::from_secs(3600);
        let store = Arc::new(RemoteStore(remote.describe()));
        Self {
            store: cache.open_store(store, options),
            remote,
            tier,
        }
    }

    pub(super) fn remote(&self) -> &Arc<dyn Remote> {
        &self.remote
    }

    /// A version, from now on in the cache.
    pub(super) fn open(&self, key: &str, version: &Version) -> VersionData {
        let from = Arc::new(RemoteVersion::new(
            self.remote.clone(),
            (&self.remote.describe(), key),
            version.clone(),
            self.tier.clone(),
        ));
        let object = Arc::new(CachedVersion(from.clone()));
        let cached = self.store.open(object, Some(version.length_bytes));
        VersionData {
            from,
            bytes: Bytes::of(cached),
        }
    }
}

impl VersionData {
    pub(super) fn version(&self) -> &Version {
        self.from.version()
    }

    /// Whether the remote had another version, or none, when it was asked for bytes.
    pub(super) fn is_gone(&self) -> bool {
        self.from.is_gone()
    }

    /// Whether memory has any of it.
    pub(super) fn has_pages(&self) -> bool {
        self.bytes.object().has_pages()
    }

    /// `length` bytes from `offset`, both within the object.
    pub(super) fn read(&self, offset: u64, length: usize, may_block: bool) -> Result<Payload> {
        let run = Run {
            position: offset,
            length,
            bounds: Some(Bounds {
                start: 0,
                end: self.version().length_bytes,
            }),
        };
        self.bytes
            .payload(&[run], may_block)
            .map_err(|error| match error {
                // What the client says of it is more than a number.
                Error::Io(text) => Error::Io(self.from.failure().unwrap_or(text)),
                other => other,
            })
    }
}
