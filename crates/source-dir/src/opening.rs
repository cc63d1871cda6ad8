//! What a program has open stays there after its last name is gone.
//!
//! Problem: the identifier of an object without names is stale, as NFS wants it; but a program that
//! has a file or a directory open on this machine goes on using it.
//!
//! Rule: each hold counts at the object, and keeps it in the open-object cache (what is
//! held is not evicted). While there are holds, an object without names is not gone: the
//! descriptors that the cache has lead to it. The last hold lets go of it.

use super::object::Object;
use super::{Tree, blocking, identity::Acting};
use pagewell_fs::{self as fs, Call, Error, FileId, FileType, Opened, Result};
use std::sync::Arc;

struct Hold {
    tree: Arc<Tree>,
    object: Arc<Object>,
}

impl Drop for Hold {
    fn drop(&mut self) {
        if self.object.release() {
            let _ = self.tree.look(&self.object, true); // lets go of it if it has no name
        }
    }
}

impl Tree {
    /// [`pagewell_fs::FileSystem::open`].
    pub(super) fn open(self: &Arc<Self>, call: &Call<'_>, id: &FileId) -> Result<Opened> {
        let hold = self.held_object(call, id)?;
        let object = &hold.object;
        let attributes = self.look(object, true)?.attributes;
        // Opened as the server: good for a kernel that judges callers by itself, which only root
        // can tell it to do.
        let may_pass =
            matches!(self.acting, Acting::AsCaller) && object.file_type == FileType::Regular;
        let file = may_pass
            .then(|| self.readable(object, call.may_block).ok().cloned())
            .flatten();
        Ok(Opened {
            attributes,
            keep_cache: true,
            file,
            hold: Some(Box::new(hold)),
        })
    }

    /// [`pagewell_fs::FileSystem::hold`].
    pub(super) fn hold(self: &Arc<Self>, call: &Call<'_>, id: &FileId) -> Result<fs::Hold> {
        let hold = self.held_object(call, id)?;
        self.look(&hold.object, true)?; // it may have left the export
        Ok(Box::new(hold))
    }

    fn held_object(self: &Arc<Self>, call: &Call<'_>, id: &FileId) -> Result<Hold> {
        let found = self.object(call, id)?;
        let object = if Arc::ptr_eq(&found, &self.root) {
            self.root.hold();
            Arc::clone(&self.root)
        } else {
            // One that has lost its last name since was let go of: no call would find it again.
            self.cache
                .hold(&self.naming.key_of(id)?)
                .ok_or(Error::Stale)?
        };
        Ok(Hold {
            tree: Arc::clone(self),
            object,
        })
    }

    /// [`pagewell_fs::FileSystem::object_of`].
    pub(super) fn object_of(&self, id: &FileId) -> FileId {
        self.naming.key_of(id).unwrap_or(*id)
    }

    /// [`pagewell_fs::FileSystem::commit_metadata`].
    pub(super) fn commit_metadata(&self, call: &Call<'_>, id: &FileId) -> Result<()> {
        blocking::may_wait(call)?;
        let object = self.object(call, id)?;
        self.sync_object(&object)
    }
}
