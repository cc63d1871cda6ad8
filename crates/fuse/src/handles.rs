//! Open files: what the kernel's file handles mean.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pagewell_base::shards::Shards;
use pagewell_counters::names;
use pagewell_fs::{Access, Call, Credentials, Error, FileId, Hold, Result};

use crate::caller::as_root;
use crate::passthrough::Pass;

/// Linux' flag of an open that is for running the file (`FMODE_EXEC`), seen in no header.
const OPEN_TO_RUN: i32 = 0x20;

/// An open for reading, or to run the file, allows to read it.
pub(crate) const READING: Access = Access(Access::READ.0 | Access::EXECUTE.0);

pub(crate) fn access_of(flags: i32) -> Access {
    let data = if flags & OPEN_TO_RUN != 0 {
        Access::EXECUTE
    } else {
        Access::READ
    };
    match flags & libc::O_ACCMODE {
        libc::O_RDONLY => data,
        libc::O_WRONLY => Access::MODIFY,
        _ => data | Access::MODIFY,
    }
}

pub(crate) struct OpenFile {
    id: FileId,
    /// What was allowed at the open is allowed for as long as it is open.
    credentials: Credentials,
    allowed: Access,
    /// The file's verifier at the last report of a loss, or at the open.
    verifier: AtomicU64,
    /// Keeps the object there.
    _hold: Option<Hold>,
    _pass: Option<Pass>,
}

impl OpenFile {
    pub(crate) fn new(
        (id, verifier): (FileId, [u8; 8]),
        (credentials, allowed): (Credentials, Access),
        hold: Option<Hold>,
        pass: Option<Pass>,
    ) -> Self {
        names::FUSE_OPEN_FILES.add(1);
        Self {
            id,
            credentials,
            allowed,
            verifier: AtomicU64::new(u64::from_ne_bytes(verifier)),
            _hold: hold,
            _pass: pass,
        }
    }

    pub(crate) fn id(&self) -> FileId {
        self.id
    }

    /// Whether it was opened for reading, or to be run.
    pub(crate) fn may_read(&self) -> bool {
        self.allowed.intersects(READING)
    }

    /// Whether the verifier has moved since this was asked last.
    pub(crate) fn has_moved(&self, verifier: [u8; 8]) -> bool {
        let verifier = u64::from_ne_bytes(verifier);
        self.verifier.swap(verifier, Ordering::Relaxed) != verifier
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        names::FUSE_OPEN_FILES.add(-1);
    }
}

pub(crate) struct Target {
    node: u64,
    file: Option<Arc<OpenFile>>,
}

impl Target {
    pub(crate) fn new(node: u64, file: Option<Arc<OpenFile>>) -> Self {
        Self { node, file }
    }

    pub(crate) fn node(&self) -> u64 {
        self.node
    }

    pub(crate) fn file(&self) -> Option<&OpenFile> {
        self.file.as_deref()
    }

    /// Makes a call through the open file: as the user that opened it, and as root if that is
    /// refused and any of `needed` was allowed at the open.
    pub(crate) fn ask<T>(
        &self,
        may_block: bool,
        needed: Access,
        operation: impl Fn(&Call<'_>) -> Result<T>,
    ) -> Result<T> {
        // Without an open file the kernel has judged, and names no caller.
        let Some(file) = &self.file else {
            return operation(&as_root(may_block));
        };
        match operation(&Call::new(&file.credentials, may_block)) {
            Err(Error::AccessDenied) if file.allowed.intersects(needed) => {
                operation(&as_root(may_block))
            }
            answer => answer,
        }
    }
}

pub(crate) struct Handles<T> {
    open: Shards<HashMap<u64, Arc<T>>>,
    /// The kernel uses 0 for files that it opened without asking.
    last: AtomicU64,
}

impl<T> Default for Handles<T> {
    fn default() -> Self {
        Self {
            open: Shards::default(),
            last: AtomicU64::new(0),
        }
    }
}

impl<T> Handles<T> {
    pub(crate) fn insert(&self, file: T) -> u64 {
        let handle = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let mut open = self.open.lock(handle);
        open.insert(handle, Arc::new(file));
        handle
    }

    pub(crate) fn get(&self, handle: u64) -> Option<Arc<T>> {
        let open = self.open.lock(handle);
        open.get(&handle).cloned()
    }

    pub(crate) fn remove(&self, handle: u64) -> Option<Arc<T>> {
        let mut open = self.open.lock(handle);
        open.remove(&handle)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_means_what_was_opened_until_it_is_closed() {
        let handles = Handles::default();
        let given: Vec<u64> = (0..1000).map(|number| handles.insert(number)).collect();
        assert!(!given.contains(&0) && handles.get(0).is_none());
        for (number, handle) in given.iter().enumerate() {
            assert_eq!(handles.get(*handle).as_deref(), Some(&number));
        }
        assert_eq!(handles.remove(given[7]).as_deref(), Some(&7));
        assert!(handles.get(given[7]).is_none() && handles.remove(given[7]).is_none());
    }

    #[test]
    #[cfg(debug_assertions)]
    fn two_files_are_found_without_a_lock_in_common() {
        let handles = Handles::default();
        let (one, other) = (handles.insert(1), handles.insert(2));
        let taken = |handle| pagewell_base::sync::locks_taken(|| drop(handles.get(handle)));
        assert_ne!(taken(one), taken(other));
    }
}
