//! Recent meanings of names, by thread.
//!
//! A shared table would move a cache line between processors at each lookup. So each thread has a
//! small one, direct-mapped. A later receive batch ([`BatchCache`]) verifies a meaning, with one
//! system call instead of three.
//!
//! Weakness: a removed name that the kernel has forgotten makes the thread wait for the directory
//! once.

use super::object::{Object, Status};
use pagewell_fs::{BatchCache, Call};
use std::cell::RefCell;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::num::NonZeroU64;
use std::sync::{Arc, Weak};

/// The names of a source tree's busiest directory.
const NAMES: usize = 256;

struct RecentName {
    directory: Weak<Object>,
    name: Box<[u8]>,
    object: Weak<Object>,
    /// The batch of the last look, and the status then.
    seen: Option<(NonZeroU64, Status)>,
}

impl RecentName {
    fn is_of(&self, directory: &Arc<Object>, name: &[u8]) -> bool {
        *self.name == *name && self.directory.as_ptr() == Arc::as_ptr(directory)
    }
}

thread_local! {
    static FOUND: RefCell<Vec<Option<RecentName>>> = const { RefCell::new(Vec::new()) };
}

/// With its status if this batch found it.
pub(super) fn named(
    call: &Call<'_>,
    directory: &Arc<Object>,
    name: &[u8],
) -> Option<(Arc<Object>, Option<Status>)> {
    let batch = call.batch().map(BatchCache::number);
    FOUND.with_borrow(|all| {
        let found = all.get(slot_of(directory, name))?.as_ref()?;
        let is_same = found.is_of(directory, name);
        let object = is_same.then(|| found.object.upgrade())??;
        let seen = found.seen.filter(|seen| batch == Some(seen.0));
        Some((object, seen.map(|seen| seen.1)))
    })
}

pub(super) fn note(
    call: &Call<'_>,
    (directory, name): (&Arc<Object>, &[u8]),
    object: &Arc<Object>,
    status: &Status,
) {
    let seen = call.batch().map(|batch| (batch.number(), *status));
    FOUND.with_borrow_mut(|all| {
        all.resize_with(NAMES, || None);
        match &mut all[slot_of(directory, name)] {
            Some(found)
                if found.is_of(directory, name) && found.object.as_ptr() == Arc::as_ptr(object) =>
            {
                found.seen = seen;
            }
            slot => {
                *slot = Some(RecentName {
                    directory: Arc::downgrade(directory),
                    name: name.into(),
                    object: Arc::downgrade(object),
                    seen,
                });
            }
        }
    });
}

#[allow(clippy::cast_possible_truncation)] // only the low bits are wanted
fn slot_of(directory: &Arc<Object>, name: &[u8]) -> usize {
    let mut hasher = DefaultHasher::new();
    directory.node().hash(&mut hasher);
    name.hash(&mut hasher);
    hasher.finish() as usize % NAMES
}
