//! The root of an export, and what its server calls it now.
//!
//! **Problem.** Handles of some servers end with a restart. Other objects are found again by name;
//! the root has none.
//!
//! **Rule.** Inside a mount the root is the identifier that it had at first; on the wire it is the
//! handle that MNT gave last. When a call about the root is answered with STALE, and so was not
//! done, MNT is asked once, and the call is repeated if the handle is another one. The names in the
//! root are forgotten, as their handles are most likely stale, too.
//!
//! **Known weakness.** A server that gives an old handle to another object goes unnoticed.

use std::sync::atomic::{AtomicBool, Ordering};

use pagewell_base::sync::{Mutex, RwLock};
use pagewell_fs::FileId;
use pagewell_sunrpc::client::Mounted;

pub(super) struct Root {
    /// Inside the mount.
    id: FileId,
    mounted: Mounted,
    handle: RwLock<FileId>,
    /// Held while a thread asks for it again.
    asking: Mutex<()>,
    was_renewed: AtomicBool,
}

impl Root {
    pub(super) fn new(id: FileId, mounted: Mounted) -> Self {
        Self {
            id,
            mounted,
            handle: RwLock::new(id),
            asking: Mutex::default(),
            was_renewed: AtomicBool::new(false),
        }
    }

    pub(super) fn id(&self) -> &FileId {
        &self.id
    }

    pub(super) fn unmount(&self) {
        self.mounted.unmount();
    }

    /// The handle of an object.
    pub(super) fn on_wire(&self, id: &FileId) -> FileId {
        if *id == self.id {
            *self.handle.read()
        } else {
            *id
        }
    }

    /// The object of a handle.
    pub(super) fn object_of(&self, handle: FileId) -> FileId {
        let is_root = self.was_renewed.load(Ordering::Acquire) && *self.handle.read() == handle;
        if is_root { self.id } else { handle }
    }

    /// Asks for the root again when its handle is `stale`. Whether it has another one now.
    pub(super) fn renew(&self, stale: &FileId) -> bool {
        // Threads that meet it together ask once.
        let _alone = self.asking.lock();
        if *self.handle.read() == *stale
            && let Ok(given) = self.mounted.ask_again()
            && let Some(given) = FileId::new(&given)
        {
            *self.handle.write() = given;
            self.was_renewed.store(true, Ordering::Release);
        }
        *self.handle.read() != *stale
    }
}
