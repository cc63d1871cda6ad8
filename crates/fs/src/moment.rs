//! Moments: calls that were received together.
//!
//! A server receives many calls with one system call. All of them were sent before the first of
//! them is answered, so all of them may be told how a file is at one and the same time: one look
//! at it serves them all. The calls of a thread between [`begin`] and the drop of what it returns
//! are a *moment*; a call among them that changes something begins another one ([`change`]).
//!
//! A source that remembers what it saw does so for the thread alone, beside the number of the
//! moment, and looks again where that is another one. What other threads change meanwhile they
//! change at the same time as the calls of the moment are answered: either order is right.
//!
//! What a call found can also be kept for the calls behind it ([`keep`]): the thread need not touch
//! again what all threads share, a lock or a count of references. It is let go of with the moment.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::num::NonZeroU64;
use std::rc::Rc;

use crate::FileId;

/// Things kept at once, the latest; calls that come together are for few objects.
const KEPT_MAX: usize = 8;

/// Something kept, of the source at this address.
struct Kept {
    source: usize,
    id: FileId,
    thing: Rc<dyn Any>,
}

thread_local! {
    static NOW: Cell<Option<NonZeroU64>> = const { Cell::new(None) };
    static LAST: Cell<u64> = const { Cell::new(0) };
    static KEPT: RefCell<Vec<Kept>> = const { RefCell::new(Vec::new()) };
}

/// Keeps what `source` has found for `id` until the moment ends, if there is one.
pub fn keep<S, T: 'static>(source: &S, id: &FileId, thing: &Rc<T>) {
    if NOW.get().is_none() {
        return;
    }
    let oldest = KEPT.with_borrow_mut(|kept| {
        let oldest = (kept.len() == KEPT_MAX).then(|| kept.remove(0));
        kept.push(Kept {
            source: address_of(source),
            id: *id,
            thing: Rc::clone(thing) as Rc<dyn Any>,
        });
        oldest
    });
    drop(oldest); // which may call other code
}

/// What was kept for `id` in this moment.
pub fn kept<S, T: 'static>(source: &S, id: &FileId) -> Option<Rc<T>> {
    KEPT.with_borrow(|kept| {
        let source = address_of(source);
        let kept = kept
            .iter()
            .find(|kept| kept.source == source && kept.id == *id)?;
        Rc::clone(&kept.thing).downcast().ok()
    })
}

fn address_of<S>(source: &S) -> usize {
    std::ptr::from_ref(source).addr()
}

/// Lets go of everything, which may call other code, but for the memory of the list.
fn forget() {
    let mut kept = KEPT.take();
    kept.clear();
    KEPT.with_borrow_mut(|now| {
        if now.is_empty() {
            *now = kept;
        }
    });
}

/// A moment of this thread; dropping it ends the moment.
#[derive(Debug)]
pub struct Moment {
    /// It is of the thread that began it.
    _not_sent: std::marker::PhantomData<*const ()>,
}

/// Begins a moment of this thread.
#[must_use]
pub fn begin() -> Moment {
    NOW.set(Some(next()));
    Moment {
        _not_sent: std::marker::PhantomData,
    }
}

/// What this thread has seen in this moment may not be true any more.
pub fn change() {
    if NOW.get().is_some() {
        NOW.set(Some(next()));
        forget();
    }
}

/// The number of the moment that this thread is in; another one for each moment of a thread.
#[must_use]
pub fn current() -> Option<NonZeroU64> {
    NOW.get()
}

fn next() -> NonZeroU64 {
    let next = NonZeroU64::MIN.saturating_add(LAST.get());
    LAST.set(next.get());
    next
}

impl Drop for Moment {
    fn drop(&mut self) {
        NOW.set(None);
        forget();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_moment_has_a_number_of_its_own() {
        assert_eq!(current(), None);
        change();
        assert_eq!(current(), None, "there is none to end");
        let moment = begin();
        let first = current().unwrap();
        assert_eq!(current(), Some(first));
        change();
        let second = current().unwrap();
        drop(moment);
        assert_eq!(current(), None);
        let _moment = begin();
        let third = current().unwrap();
        assert!(first < second && second < third);
        let id = FileId::new(b"an object").unwrap();
        let other_id = FileId::new(b"another").unwrap();
        let (source, other_source) = (1, 2);
        keep(&source, &id, &Rc::new(5));
        assert_eq!(kept(&source, &id), Some(Rc::new(5)));
        assert_eq!(kept::<_, i32>(&source, &other_id), None);
        assert_eq!(kept::<_, i32>(&other_source, &id), None);
        assert_eq!(kept::<_, u64>(&source, &id), None, "of another type");
        for number in 0..=KEPT_MAX {
            let id = FileId::new(&number.to_be_bytes()).unwrap();
            keep(&source, &id, &Rc::new(number));
            assert_eq!(kept(&source, &id), Some(Rc::new(number)));
        }
        assert_eq!(kept::<_, i32>(&source, &id), None, "long ago");
        change();
        assert_eq!(kept::<_, i32>(&source, &other_id), None);
        let other = std::thread::spawn(current).join().unwrap();
        assert_eq!(other, None);
    }
}
