//! The exports in force, which can be replaced while calls run.
//!
//! Each call takes the exports once and keeps them to its end. `arc-swap` marks the use in a slot
//! of the reader's thread, so that readers share no written line. [`Retired`] waits for the last
//! call of an export that is no longer in force.
//!
//! Weakness: a thread with more than eight such marks counts references, a shared write; a call has
//! one.

use std::net::IpAddr;
use std::ops::Deref;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use pagewell_base::sync::Mutex;
use pagewell_fs::{FileSystem, Finish};

use crate::Error;
use crate::config::Export;
use crate::ending::{Loss, finish_all};
use crate::exports::{Place, Served};
use crate::handles::HandleKey;
use pagewell_rpcd::bounds::Bounds;
use pagewell_rpcd::slow::Subject;

const LOOK_EVERY: Duration = Duration::from_millis(2);

/// The exports in force.
pub struct InForce {
    served: ArcSwap<Served>,
    handle_key: HandleKey,
    /// Bounds of the server's calls.
    pub bounds: Arc<Bounds>,
    is_final: Mutex<bool>,
}

/// The source of a replaced export. The last call that uses it closes it.
pub struct Retired {
    /// The export's name.
    pub name: String,
    filesystem: Arc<dyn FileSystem>,
    place: Arc<Place>,
}

impl InForce {
    /// `key` signs the handles.
    pub fn new(exports: Vec<Export>, key: [u8; 16], bounds: Arc<Bounds>) -> Result<Self, Error> {
        let handle_key = HandleKey::new(key);
        let shared = (handle_key.clone(), bounds.totals.clone());
        let served = Served::new(exports, shared, &[])?;
        bounds.limits.limit_exports(served.limits());
        Ok(Self {
            served: ArcSwap::from_pointee(served),
            handle_key,
            bounds,
            is_final: Mutex::new(false),
        })
    }

    /// The exports for one call.
    pub fn now(&self) -> impl Deref<Target = Arc<Served>> + use<> {
        self.served.load()
    }

    /// The subject of a call for a handle.
    pub fn subject(&self, handle: &[u8]) -> Option<Subject> {
        let (export, id) = self.handle_key.decode(handle)?;
        Some(Subject {
            object: Some(id),
            export,
        })
    }

    /// Whether an export allows `address`.
    pub fn allows(&self, address: IpAddr) -> bool {
        self.now().allows(address)
    }

    /// Serves `exports` from the next call on; returns the sources out of service. Handles stay
    /// valid for exports of the same name and tree.
    ///
    /// # Errors
    ///
    /// Exports that contradict each other, or a stopping server: nothing changes.
    pub fn replace(&self, exports: Vec<Export>) -> Result<Vec<Retired>, Error> {
        let is_final = self.is_final.lock();
        if *is_final {
            return Err(Error("the server is stopping".to_owned()));
        }
        let before = self.served.load_full();
        let shared = (self.handle_key.clone(), self.bounds.totals.clone());
        let served = Arc::new(Served::new(exports, shared, &before.exports)?);
        self.served.store(served.clone());
        self.bounds.limits.limit_exports(served.limits());
        let is_served = |filesystem: &Arc<dyn FileSystem>| {
            let mut all = served.exports.iter();
            all.any(|export| Arc::ptr_eq(&export.config.filesystem, filesystem))
        };
        let gone = before.exports.iter();
        let gone = gone.filter(|export| !is_served(&export.config.filesystem));
        let retired = gone.map(|export| Retired {
            name: export.config.name.clone(),
            filesystem: export.config.filesystem.clone(),
            place: export.place.clone(),
        });
        Ok(retired.collect())
    }

    /// Refuses replacements from now on.
    pub fn make_final(&self) {
        *self.is_final.lock() = true;
    }
}

impl Retired {
    /// Waits up to `patience` for the last call, then as long for written data to reach the device,
    /// then ends the calls that remain. Returns what is lost.
    #[must_use]
    pub fn finish(self, patience: Duration) -> Option<Loss> {
        let deadline = Instant::now() + patience;
        let is_used = || Arc::strong_count(&self.place) > 1;
        while is_used() && Instant::now() < deadline {
            std::thread::sleep(LOOK_EVERY);
        }
        let losses = finish_all([(&*self.name, &*self.filesystem)], patience);
        if is_used() {
            let _ = self.filesystem.finish(Finish::Abandon);
        }
        losses.into_iter().next()
    }
}
