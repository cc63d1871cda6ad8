//! What the calling thread has seen lately: how objects are, and what names mean.
//!
//! Problem: calls that were received together often are for one object, or look up names that were
//! looked up a moment ago; each costs system calls that tell what is known already. What all
//! threads could share would have to be locked, and each use of it would move a cache line from
//! one processor to another.
//!
//! Rule: a small table for each thread, in which what is new overwrites what was at its place. How
//! an object is counts for the moment in which it was looked at ([`pagewell_fs::moment`]). What a
//! name means is only a guess: in a later moment it must be looked at, with one system call instead
//! of the three that open it. The table keeps nothing open.
//!
//! Weakness: a name that was taken away, and that the kernel does not remember, makes the thread
//! wait for the directory once.

use super::object::Object;
use super::status::Status;
use pagewell_fs::moment;
use std::cell::{Cell, RefCell};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::num::NonZeroU64;
use std::sync::{Arc, Weak};

/// Objects at one moment: a few files and their directories.
const OBJECTS: usize = 8;

/// Names: those of a source tree's busiest directory.
const NAMES: usize = 256;

#[derive(Clone, Copy)]
struct Seen {
    moment: NonZeroU64,
    status: Status,
}

struct Found {
    directory: Weak<Object>,
    name: Box<[u8]>,
    object: Weak<Object>,
    seen: Option<Seen>,
}

thread_local! {
    static SEEN: [Cell<Option<Seen>>; OBJECTS] = const { [const { Cell::new(None) }; OBJECTS] };
    static FOUND: RefCell<Vec<Option<Found>>> = const { RefCell::new(Vec::new()) };
}

/// How `object` was at `moment`, if this thread has looked.
pub(super) fn status(moment: NonZeroU64, object: &Object) -> Option<Status> {
    let seen = SEEN.with(|all| all.get(place_of(object.node.inode.number)).and_then(Cell::get))?;
    (seen.moment == moment && object.node == seen.status.node).then_some(seen.status)
}

/// An object is so at `moment`.
pub(super) fn seen(moment: NonZeroU64, status: &Status) {
    SEEN.with(|all| {
        if let Some(place) = all.get(place_of(status.node.inode.number)) {
            place.set(Some(Seen {
                moment,
                status: *status,
            }));
        }
    });
}

/// The object that `name` meant when this thread last found it, and how it is if that was in this
/// moment.
pub(super) fn named(directory: &Arc<Object>, name: &[u8]) -> Option<(Arc<Object>, Option<Status>)> {
    FOUND.with_borrow(|all| {
        let found = all.get(slot_of(directory, name))?.as_ref()?;
        let is_same = *found.name == *name && found.directory.as_ptr() == Arc::as_ptr(directory);
        let object = is_same.then(|| found.object.upgrade())??;
        let seen = found
            .seen
            .filter(|seen| moment::current() == Some(seen.moment));
        Some((object, seen.map(|seen| seen.status)))
    })
}

/// A name means this object, which is so.
pub(super) fn found(directory: &Arc<Object>, name: &[u8], object: &Arc<Object>, status: &Status) {
    let seen = moment::current().map(|moment| Seen {
        moment,
        status: *status,
    });
    FOUND.with_borrow_mut(|all| {
        all.resize_with(NAMES, || None);
        let Some(slot) = all.get_mut(slot_of(directory, name)) else {
            return;
        };
        match slot {
            Some(found) if found.is(directory, name, object) => found.seen = seen,
            _ => {
                *slot = Some(Found {
                    directory: Arc::downgrade(directory),
                    name: name.into(),
                    object: Arc::downgrade(object),
                    seen,
                });
            }
        }
    });
}

impl Found {
    fn is(&self, directory: &Arc<Object>, name: &[u8], object: &Arc<Object>) -> bool {
        *self.name == *name
            && self.directory.as_ptr() == Arc::as_ptr(directory)
            && self.object.as_ptr() == Arc::as_ptr(object)
    }
}

#[allow(clippy::cast_possible_truncation)] // only the low bits are wanted
fn place_of(inode: u64) -> usize {
    inode as usize % OBJECTS
}

#[allow(clippy::cast_possible_truncation)]
fn slot_of(directory: &Arc<Object>, name: &[u8]) -> usize {
    let mut hasher = DefaultHasher::new();
    directory.node.hash(&mut hasher);
    name.hash(&mut hasher);
    hasher.finish() as usize % NAMES
}
