//! The exports that are in force, which can be replaced while calls are answered.
//!
//! Each call takes the exports once, as they are then, and keeps them to its end. Rule: a reader
//! notes in a slot of its own thread that it uses them (`arc-swap`: two atomic instructions on a
//! line that no other thread writes to), so that many readers share a pointer that they only read.
//! Replacing swaps that pointer. An export that is in force no longer ends with the last call that
//! took it; [`Retired`] waits for that.
//!
//! Known weakness: a thread that holds more than eight such notes at a time counts references
//! instead, which is a shared write. A call holds one.

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

/// Between two looks whether the last call has ended.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// What is served now.
pub struct InForce {
    served: ArcSwap<Served>,
    handle_key: HandleKey,
    /// What bounds the calls of the server.
    pub bounds: Arc<Bounds>,
    /// Whether nothing may be replaced any more, as the server stops.
    is_final: Mutex<bool>,
}

/// The source of an export that is not served any more. Dropping it closes the source, or leaves
/// that to the last call that uses it.
pub struct Retired {
    /// The name of the export.
    pub name: String,
    filesystem: Arc<dyn FileSystem>,
    place: Arc<Place>,
}

impl InForce {
    /// Serves `exports`, whose handles are signed with `key`.
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

    /// What is served now, for one call.
    pub fn now(&self) -> impl Deref<Target = Arc<Served>> + use<> {
        self.served.load()
    }

    /// The object of a handle.
    pub fn subject(&self, handle: &[u8]) -> Option<Subject> {
        let (export, id) = self.handle_key.decode(handle)?;
        Some(Subject {
            object: Some(id),
            export,
        })
    }

    /// Whether any export allows a client at `address`.
    pub fn allows(&self, address: IpAddr) -> bool {
        self.now().allows(address)
    }

    /// Serves `exports` from the next call on. An export that has the name and the file system of
    /// one that is served keeps its handles, and so does one of the same name and tree. Returns
    /// what is not served any more.
    ///
    /// # Errors
    ///
    /// What makes no sense together, or a server that stops: nothing has changed then.
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

    /// From here on nothing is replaced.
    pub fn make_final(&self) {
        *self.is_final.lock() = true;
    }
}

impl Retired {
    /// Waits until no call uses the source, for as long as `patience`; then has it bring what was
    /// written to its device, as long again, and ends what still waits for it. Returns what is
    /// lost.
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
