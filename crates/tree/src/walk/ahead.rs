//! Lists directories before a walk comes to them.
//!
//! A walk goes depth first: the next directories are those in the present one, then those beside
//! that, and so on up. Threads list [`FRAME_MAX`] of them at each depth, [`LISTINGS_MAX`] in all,
//! until the walk takes them.
//!
//! ```text
//!   a/    walk is in a/b/      listed ahead: a/b/x a/b/y ..., then a/c a/d ...
//!     b/  x/ y/ z/ ...
//!     c/  d/ e/ ...
//! ```
//!
//! A directory of more than [`NAMES_MAX`] names, or that cannot be listed, is left to the walk.
//!
//! Weaknesses: what was listed ahead is a moment older. Listings of directories that the visitor
//! does not enter keep their places until the walk ends.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Weak};
use std::thread::Scope;

use pagewell_base::sync::Mutex;
use pagewell_fs::FileId;

use crate::helpers::Helpers;
use crate::{Names, Tree};

/// In one directory.
pub(super) const FRAME_MAX: usize = 4;
/// In all.
const LISTINGS_MAX: usize = 16;
/// Of each: at worst some 200 MiB together.
const NAMES_MAX: usize = 1 << 16;

/// Nothing until it is made, if it cannot be, or if too long. The thread that makes it has the
/// lock.
type Listing = Mutex<Option<Names>>;

/// The walk's end.
pub(super) struct Ahead<'scope, 'env> {
    /// Helpers cannot reach what the walk has taken or dropped.
    helpers: Helpers<'scope, 'env, (FileId, Weak<Listing>)>,
    tree: &'scope Tree,
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

    /// Has a directory listed; false: no place.
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

    /// The listing of a directory, if there is one or one is being made, which is waited for.
    pub(super) fn take(&mut self, id: &FileId) -> Option<Names> {
        self.listings.remove(id)?.lock().take()
    }
}
