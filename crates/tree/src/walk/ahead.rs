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

use std::thread::{Builder, Scope};

use pagewell_base::sync::{Condvar, Mutex};
use pagewell_fs::FileId;

use crate::{Names, Tree};

/// Directories in one directory that are listed ahead.
pub(super) const FRAME_MAX: usize = 4;
/// In all.
const LISTINGS_MAX: usize = 16;
/// Names of each: in the worst case they fill some 200 MiB together.
const NAMES_MAX: usize = 1 << 16;

/// Where the listing of a directory is.
enum Listing {
    Waiting,
    InWork,
    /// Nothing when it could not be made, or is too long.
    Made(Option<Names>),
}

#[derive(Default)]
struct State {
    /// The first that is wanted comes first. They are few.
    listings: Vec<(FileId, Listing)>,
    has_ended: bool,
}

impl State {
    fn find(&self, id: &FileId) -> Option<usize> {
        self.listings.iter().position(|(listed, _)| listed == id)
    }
}

/// What the walk shares with the threads.
#[derive(Default)]
pub(super) struct Shared {
    state: Mutex<State>,
    wanted: Condvar,
    made: Condvar,
}

/// The walk's end.
pub(super) struct Ahead<'scope, 'env> {
    scope: &'scope Scope<'scope, 'env>,
    shared: &'scope Shared,
    tree: &'scope Tree,
    threads: usize,
    threads_max: usize,
}

impl Drop for Ahead<'_, '_> {
    fn drop(&mut self) {
        self.shared.state.lock().has_ended = true;
        self.shared.wanted.notify_all();
    }
}

impl<'scope, 'env> Ahead<'scope, 'env> {
    pub(super) fn new(
        scope: &'scope Scope<'scope, 'env>,
        (shared, tree): (&'scope Shared, &'scope Tree),
        threads_max: usize,
    ) -> Self {
        Self {
            scope,
            shared,
            tree,
            threads: 0,
            threads_max,
        }
    }

    /// Has a directory listed, unless that is so already; false when there is no place for it.
    pub(super) fn want(&mut self, id: &FileId) -> bool {
        let mut state = self.shared.state.lock();
        if state.listings.len() >= LISTINGS_MAX {
            return false;
        }
        if state.find(id).is_some() {
            return true;
        }
        state.listings.push((*id, Listing::Waiting));
        drop(state);
        self.shared.wanted.notify_one();
        if self.threads < self.threads_max {
            self.start();
        }
        true
    }

    fn start(&mut self) {
        let (shared, tree) = (self.shared, self.tree);
        let started = Builder::new()
            .name("lister".to_owned())
            .spawn_scoped(self.scope, move || serve(shared, tree));
        match started {
            Ok(_) => self.threads += 1,
            // The walk lists what waits.
            Err(_) => self.threads_max = self.threads,
        }
    }

    /// The listing of a directory, if there is one or one is being made.
    pub(super) fn take(&mut self, id: &FileId) -> Option<Names> {
        let mut state = self.shared.state.lock();
        loop {
            let at = state.find(id)?;
            match state.listings.get(at) {
                Some((_, Listing::InWork)) => state = self.shared.made.wait(state),
                // One that waits the walk lists by itself: it is here before a thread.
                _ => {
                    return match state.listings.remove(at) {
                        (_, Listing::Made(names)) => names,
                        _ => None,
                    };
                }
            }
        }
    }
}

/// Whatever happens, the walk does not wait for this listing any more.
struct InWork<'a> {
    shared: &'a Shared,
    id: FileId,
    names: Option<Names>,
}

impl Drop for InWork<'_> {
    fn drop(&mut self) {
        let mut state = self.shared.state.lock();
        let listing = state.listings.iter_mut().find(|(id, _)| *id == self.id);
        if let Some((_, listing)) = listing {
            *listing = Listing::Made(self.names.take());
        }
        drop(state);
        self.shared.made.notify_one();
    }
}

/// What a thread does until the walk ends.
fn serve(shared: &Shared, tree: &Tree) {
    let mut state = shared.state.lock();
    while !state.has_ended {
        let mut listings = state.listings.iter_mut();
        let Some((id, listing)) = listings.find(|(_, one)| matches!(one, Listing::Waiting)) else {
            state = shared.wanted.wait(state);
            continue;
        };
        let id = *id;
        *listing = Listing::InWork;
        drop(state);
        let mut work = InWork {
            shared,
            id,
            names: None,
        };
        work.names = tree.list_up_to(&id, false, NAMES_MAX).ok();
        drop(work);
        state = shared.state.lock();
    }
}
