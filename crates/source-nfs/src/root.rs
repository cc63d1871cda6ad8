//! The root of an export, and what its server calls it now.
//!
//! **Problem.** The handles of some servers end with the server. Any other object whose handle is
//! stale after a restart is found again by its name; the root has none.
//!
//! **Rule.** For the rest of a mount the root is the identifier that it had at first; on the wire
//! it is the handle that MNT has given last. When a call about the root is answered with STALE, MNT
//! is asked once, and the call is made once more when the handle is another one. What was known of
//! the names in it is forgotten, as their handles are most likely stale, too. A call that was
//! answered with STALE was not done, so that nothing is done twice.
//!
//! **Known weakness.** A server that gives a handle of the time before to another object is not
//! found out.

use std::sync::atomic::{AtomicBool, Ordering};

use pagewell_base::sync::{Mutex, RwLock};
use pagewell_fs::{Call, Error, FileId, Result};
use pagewell_sunrpc::client::Mounted;
use pagewell_sunrpc::nfs3::{GetattrReply, Procedure};

use super::calls::whole;
use super::convert;
use super::filesystem::Shared;

/// See the module's text.
pub(super) struct Root {
    /// What the rest of the mount calls it.
    pub(super) id: FileId,
    pub(super) mounted: Mounted,
    handle: RwLock<FileId>,
    /// A thread asks for it anew.
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

    /// What the server calls an object.
    pub(super) fn on_wire(&self, id: &FileId) -> FileId {
        if *id == self.id {
            *self.handle.read()
        } else {
            *id
        }
    }

    /// The object that the server calls so.
    pub(super) fn object_of(&self, handle: FileId) -> FileId {
        let is_root = self.was_renewed.load(Ordering::Acquire) && *self.handle.read() == handle;
        if is_root { self.id } else { handle }
    }

    /// Asks for the root anew when its handle is `stale`. Whether it has another one now.
    fn renew(&self, stale: &FileId) -> bool {
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

impl Shared {
    /// Does `work` with these objects for a caller; once more when the root is among them, was
    /// stale, and has another handle now.
    pub(super) fn with_root<T>(
        &self,
        call: &Call<'_>,
        objects: &[&FileId],
        mut work: impl FnMut() -> Result<T>,
    ) -> Result<T> {
        if !objects.contains(&&self.root.id) {
            return work();
        }
        let before = self.root.on_wire(&self.root.id);
        let done = work();
        let is_stale = matches!(done, Err(Error::Stale));
        if !is_stale || !call.may_block || !self.root.renew(&before) {
            return done;
        }
        self.begin_anew(call)?;
        work()
    }

    /// Forgets what was known of the root under its last handle, and learns what the server calls
    /// its file system now.
    fn begin_anew(&self, call: &Call<'_>) -> Result<()> {
        let node = self.files.node(&self.root.id);
        let mut state = node.lock();
        state.changed_by_others();
        state.doubt();
        drop(state);
        let handle = self.root.on_wire(&self.root.id);
        let handle = convert::handle(&handle);
        let answer = self.ask(call, Procedure::Getattr, &handle, whole::<GetattrReply>)?;
        let found = answer.value;
        let found = found.map_err(|failure| convert::error_of_object(failure.status))?;
        self.calls.set_filesystem_id(found.filesystem_id);
        Ok(())
    }
}
