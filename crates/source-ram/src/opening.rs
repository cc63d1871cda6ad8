//! What a program has open outlives its last name. A directory without one is empty and stays so.
//!
//! A hold is counted under the lock of the inode, so an unlink sees it or comes first. What has
//! neither name nor hold is gone: the call that takes the last of the two buries it.

use std::sync::Arc;

use pagewell_fs::{Call, FileId, Opened, Result};

use super::inode::Inode;
use super::quota::Storage;
use super::table::Table;
use super::tree::Tree;

struct Hold {
    inode: Arc<Inode>,
    storage: Arc<Storage>,
    table: Arc<Table>,
}

impl Tree {
    /// [`pagewell_fs::FileSystem::open`].
    pub(super) fn open(&self, _call: &Call<'_>, id: &FileId) -> Result<Opened> {
        let inode = self.inode(id)?;
        let mut state = inode.write()?;
        state.holds += 1;
        let attributes = self.attributes_of(&inode, &state);
        drop(state);
        Ok(Opened {
            hold: Some(self.held(inode)),
            ..Opened::plain(attributes)
        })
    }

    /// [`pagewell_fs::FileSystem::hold`].
    pub(super) fn hold(&self, _call: &Call<'_>, id: &FileId) -> Result<Option<pagewell_fs::Hold>> {
        let inode = self.inode(id)?;
        inode.write()?.holds += 1;
        Ok(Some(self.held(inode)))
    }

    fn held(&self, inode: Arc<Inode>) -> pagewell_fs::Hold {
        Box::new(Hold {
            inode,
            storage: Arc::clone(&self.storage),
            table: Arc::clone(&self.table),
        })
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut state = self.inode.lock();
        state.holds -= 1;
        if state.holds > 0 || state.metadata.link_count > 0 {
            return;
        }
        self.table.remove(self.inode.number);
        let buried = state.bury(&self.storage.quota);
        drop(state);
        drop(buried); // the pages of a big file, with no lock held
        self.table.trim_if_due();
    }
}
