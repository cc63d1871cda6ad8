//! The programs that have a file open, wherever it is moved.

use std::sync::Arc;

use pagewell_base::sync::Mutex;
use pagewell_fs::{Error, Result};
use pagewell_object_client::Version;

use super::moves::Carried;
use super::node::Node;

/// A file that a program has open. Dropped, it is closed.
pub(super) struct Open(Arc<OpenFile>);

pub(super) struct OpenFile {
    /// What the file is now.
    node: Mutex<Arc<Node>>,
}

impl Open {
    /// Opens a file. Returns, too, whether what the kernel kept of an earlier open is still valid.
    ///
    /// # Errors
    /// [`Error::Stale`]: it was moved.
    pub(super) fn new(node: &Arc<Node>, has_pages: bool) -> Result<(Self, bool)> {
        let file = node.file().ok_or(Error::IsDirectory)?;
        let open = Arc::new(OpenFile {
            node: Mutex::new(node.clone()),
        });
        let is_kept = file.open(&open, has_pages)?;
        Ok((Self(open), is_kept))
    }
}

impl OpenFile {
    fn node(&self) -> Arc<Node> {
        self.node.lock().clone()
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let mut node = self.0.node();
        while node.file().is_some_and(|file| !file.close(&self.0)) {
            // It was moved in between.
            let now = self.0.node();
            if Arc::ptr_eq(&node, &now) {
                return;
            }
            node = now;
        }
    }
}

#[derive(Default)]
pub(super) struct Opens {
    files: Vec<Arc<OpenFile>>,
    /// The version that programs with the file open have bytes of, from here or from their kernel;
    /// while none has it open, the one that the kernel may have bytes of.
    given: Option<Box<Version>>,
}

impl Opens {
    pub(super) fn any(&self) -> bool {
        !self.files.is_empty()
    }

    /// The same programs, of what has taken the place of the file.
    pub(super) fn anew(&mut self) -> Self {
        Self {
            files: std::mem::take(&mut self.files),
            given: None,
        }
    }

    /// Whether what the kernel kept of an earlier open is still valid, as it is what was `seen`.
    pub(super) fn begin(&mut self, open: &Arc<OpenFile>, seen: Option<&Version>) -> bool {
        let is_kept = match (&self.given, seen) {
            (Some(given), Some(seen)) => given.is_same(seen),
            _ => false,
        };
        if !self.any() && !is_kept {
            self.given = None;
        }
        self.files.push(open.clone());
        is_kept
    }

    /// Whether it was one of these.
    pub(super) fn end(&mut self, open: &Arc<OpenFile>) -> bool {
        let mut files = self.files.iter();
        let at = files.position(|one| Arc::ptr_eq(one, open));
        at.map(|at| self.files.swap_remove(at)).is_some()
    }

    /// Whether programs may have bytes of this version.
    pub(super) fn accept(&self, version: &Version) -> bool {
        let given = self.given.as_ref().filter(|_| self.any());
        given.is_none_or(|given| given.is_same(version))
    }

    /// Notes that programs have bytes of this version, if they have none of another.
    pub(super) fn give(&mut self, version: &Version) {
        if self.any() {
            let given = &mut self.given;
            given.get_or_insert_with(|| Box::new(version.clone()));
        }
    }

    /// Notes that what programs have bytes of is this version now.
    pub(super) fn give_instead(&mut self, version: &Version) {
        if self.any() {
            self.given = Some(Box::new(version.clone()));
        }
    }

    /// Takes the opens of a file that is this one now.
    pub(super) fn take(&mut self, from: &mut Self, to: &Arc<Node>, carried: Option<&Carried>) {
        for open in &from.files {
            *open.node.lock() = to.clone();
        }
        self.files.append(&mut from.files);
        let given = from.given.take().map(|given| match carried {
            Some(carried) if given.is_same(&carried.of) => Box::new(carried.made.clone()),
            _ => given,
        });
        self.given = given.or(self.given.take());
    }
}
