//! The bytes of objects in the page cache: a cache store for the remote, and an object of it for
//! each version that is read and each file that is changed.

use std::sync::Arc;

use pagewell_cache::{Cache, CachedStore, ReadAheadRule};
use pagewell_device::{Geometry, Store};
use pagewell_disk_tier::{PAGE_BYTES, Tier};
use pagewell_object_client::{Remote, Version};
use pagewell_staging::{StagedFile, Staging};

use super::backing::{Backing, Draft};
use super::content::Content;
use super::transfer::{GEOMETRY, REQUEST_BYTES, RemoteVersion};

/// How long the staging folder's disk may take for what memory alone has: no limit in practice.
const DIRTY_TIME_MAX: std::time::Duration = std::time::Duration::from_secs(3600);

struct RemoteStore {
    name: String,
    geometry: Geometry,
}

impl Store for RemoteStore {
    fn name(&self) -> &str {
        &self.name
    }

    fn geometry(&self) -> Geometry {
        self.geometry
    }
}

pub(super) struct Place {
    remote: Arc<dyn Remote>,
    tier: Option<Arc<Tier>>,
    staging: Option<Arc<Staging>>,
}

pub(super) struct Data {
    place: Arc<Place>,
    store: CachedStore,
}

impl Place {
    /// The folder for bytes that the remote has not yet; `None`: read only.
    pub(super) fn staging(&self) -> Option<&Arc<Staging>> {
        self.staging.as_ref()
    }

    pub(super) fn version(&self, key: &str, version: Version) -> Arc<RemoteVersion> {
        Arc::new(RemoteVersion::new(
            self.remote.clone(),
            (&self.remote.describe(), key),
            version,
            self.tier.clone(),
        ))
    }
}

impl Data {
    /// A staging folder makes the data changeable.
    pub(super) fn new(
        remote: Arc<dyn Remote>,
        cache: &Cache,
        tier: Option<Arc<Tier>>,
        staging: Option<Arc<Staging>>,
    ) -> Self {
        let mut options = cache.open_options();
        // A cache without read-ahead keeps it off.
        if options.read_ahead != ReadAheadRule::Off {
            options.read_ahead = ReadAheadRule::Server {
                request_bytes: REQUEST_BYTES,
            };
        }
        // The client sees whether bytes come, and so decides how long to wait.
        options.read_timeout = std::time::Duration::from_secs(3600);
        options.unit_bytes = Some(PAGE_BYTES as u64);
        let mut geometry = GEOMETRY;
        if staging.is_some() {
            // A page that is written in part is not read first.
            geometry.logical_block_bytes = 1;
            // Changes are sent from memory: only what finds no room there is staged.
            options.writes_early = false;
            options.dirty_bytes_max = Some(u64::MAX);
            options.dirty_time_max = DIRTY_TIME_MAX;
        }
        let store = Arc::new(RemoteStore {
            name: remote.describe(),
            geometry,
        });
        Self {
            store: cache.open_store(store, options),
            place: Arc::new(Place {
                remote,
                tier,
                staging,
            }),
        }
    }

    pub(super) fn remote(&self) -> &Arc<dyn Remote> {
        &self.place.remote
    }

    pub(super) fn store(&self) -> &CachedStore {
        &self.store
    }

    pub(super) fn open(&self, key: &str, version: &Version) -> Content {
        let base = self.place.version(key, version.clone());
        self.content(Backing::of(&self.place, key, base))
    }

    pub(super) fn create(&self, key: &str) -> Content {
        self.content(Backing::empty(&self.place, key))
    }

    /// What an earlier run has left.
    pub(super) fn resume(&self, key: &str, draft: Draft, staged: StagedFile) -> Content {
        self.content(Backing::resumed(&self.place, key, draft, staged))
    }

    fn content(&self, backing: Backing) -> Content {
        let backing = Arc::new(backing);
        let length_bytes = match self.place.staging {
            // The length may change.
            Some(_) => None,
            None => Some(backing.length_bytes()),
        };
        let cached = self.store.open(backing.clone(), length_bytes);
        Content::new(backing, cached)
    }
}
