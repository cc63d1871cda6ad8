//! Lists directories before a walk comes to them.
//!
//! **Problem.** A walk waits for each listing, and meanwhile nothing works for it.
//!
//! **Rule.** The walk goes depth first, so the next directories are those in the one that it was
//! last in, then those beside it, and so on up. Threads list [`FRAME_MAX`] of them at each depth,
//! [`LISTINGS_MAX`] in all, and keep each listing until the walk takes it.
//!
//! ```text
//!   a/    walk is in a/b/      listed ahead: a/b/x a/b/y ..., then a/c a/d ...
//!     b/  x/ y/ z/ ...
//!     c/  d/ e/ ...
//! ```
//!
//! A directory of more than [`NAMES_MAX`] names, and one that cannot be listed, is left to the
//! walk, which lists it again. What is listed for nothing, when the visitor does not enter a
//! directory, stays until the walk ends.
//!
//! **Known weakness.** What was listed ahead is a moment older than what the walk would have seen.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Weak};
use std::thread::Scope;

use pagewell_base::sync::Mutex;
use pagewell_fs::FileId;

use crate::helpers::Helpers;
use crate::{Names, Tree};

/// Directories in one directory that are listed ahead.
pub(super) const FRAME_MAX: usize = 4;
/// In all.
const LISTINGS_MAX: usize = 16;
/// Names of each: in the worst case they fill some 200 MiB together.
const NAMES_MAX: usize = 1 << 16;

/// Nothing until it is made, and when it could not be made or is too long. The thread that makes
/// it has the lock.
type Listing = Mutex<Option<Names>>;

/// The walk's end.
pub(super) struct Ahead<'scope, 'env> {
    /// A helper cannot reach what the walk has come to, or never will.
    helpers: Helpers<'scope, 'env, (FileId, Weak<Listing>)>,
    tree: &'scope Tree,
    /// Those that are wanted.
    listings: HashMap<FileId, Arc<Listing>>,
}

impl<'scope, 'env> Ahead<'scope, 'env> {
    pub(super) fn new(
        scope: &'scope Scope<'scope, 'env>,
        tree: &'scope Tree,
        threads_max: usize,
    ) -> Self {
        Self {
            helpers: Helpers::new(scope, "lister", threads_max),
            tree,
            listings: HashMap::new(),
        }
    }

    /// Has a directory listed, unless that is so already; false when there is no place for it.
    pub(super) fn want(&mut self, id: &FileId) -> bool {
        if self.listings.len() >= LISTINGS_MAX {
            return false;
        }
        if let Entry::Vacant(vacant) = self.listings.entry(*id) {
            let listing = Arc::downgrade(vacant.insert(Arc::default()));
            let tree = self.tree;
            self.helpers.give((*id, listing), move |wanted| {
                for (id, listing) in wanted {
                    if let Some(listing) = listing.upgrade() {
                        let mut names = listing.lock();
                        *names = tree.list_up_to(&id, false, NAMES_MAX).ok();
                    }
                }
            });
        }
        true
    }

    /// The listing of a directory, if there is one or one is being made. One that no thread has
    /// begun the walk makes by itself.
    pub(super) fn take(&mut self, id: &FileId) -> Option<Names> {
        self.listings.remove(id)?.lock().take()
    }
}
