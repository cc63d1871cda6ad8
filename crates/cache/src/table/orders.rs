//! Tests of the page table in every order of its steps, under loom.

use crate::table::tests::rival_of;
use crate::table::{DIRTY, FULL, PRESENT, WRITING};
use crate::table::{PageTable, Pinned};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use pagewell_policy::eviction::FrameIndex;

/// One reader, and a thread that removes the page and puts another of its extent, or one of another
/// extent, into the same line.
#[test]
fn a_pin_is_of_the_page_that_was_asked_for_or_of_none() {
    let rival = std::sync::OnceLock::new();
    loom::model(move || {
        let table = Arc::new(PageTable::new(2).unwrap());
        let second = *rival.get_or_init(|| rival_of(&table, 1));
        let slot = table.insert(1, FrameIndex(10), 0).unwrap();
        table.unpin(slot);
        let other = table.clone();
        let thread = loom::thread::spawn(move || {
            if let Some((key, _)) = other.remove(slot, FrameIndex(10)) {
                assert_eq!(key, 1);
                assert_eq!(other.insert(second, FrameIndex(20), 0), Some(slot));
                other.unpin(slot);
            }
        });
        if let Pinned::Yes(slot, state) = table.pin(1) {
            assert_eq!(state.frame(), FrameIndex(10));
            assert!(table.remove(slot, FrameIndex(10)).is_none(), "pinned");
            assert_eq!(table.key(slot), 1);
            table.unpin(slot);
        }
        thread.join().unwrap();
        let found = [(1, 10), (second, 20)].map(|(key, frame)| match table.pin(key) {
            Pinned::Yes(slot, state) => {
                assert_eq!(state.frame().0, frame);
                assert_eq!(state.pins(), 0);
                table.unpin(slot);
                assert!(table.state(slot).has(PRESENT));
                true
            }
            _ => false,
        });
        assert_ne!(found[0], found[1]);
    });
}

/// An extent's line has lost its last page: a thread puts a page of it back there, and another
/// takes the line for another extent. Neither page is lost.
#[test]
fn a_line_is_one_extents_or_anothers() {
    let rival = std::sync::OnceLock::new();
    let mut orders = loom::model::Builder::new();
    orders.preemption_bound = Some(3);
    orders.check(move || {
        let table = Arc::new(PageTable::new(2).unwrap());
        let second = *rival.get_or_init(|| rival_of(&table, 1));
        let slot = table.insert(1, FrameIndex(10), 0).unwrap();
        table.unpin(slot);
        assert!(table.remove(slot, FrameIndex(10)).is_some());
        let other = table.clone();
        let thread = loom::thread::spawn(move || {
            let slot = other.insert(second, FrameIndex(20), 0).unwrap();
            assert_eq!(other.key(slot), second);
            other.unpin(slot);
        });
        let slot = table.insert(1, FrameIndex(11), 0).unwrap();
        assert_eq!(table.key(slot), 1);
        table.unpin(slot);
        thread.join().unwrap();
        for (key, frame) in [(1, 11), (second, 20)] {
            let Pinned::Yes(slot, state) = table.pin(key) else {
                panic!("{key} is lost");
            };
            assert_eq!((table.key(slot), state.frame().0), (key, frame));
        }
    });
}

/// Two pages of one extent come at the same time, while a reader looks for one of them.
#[test]
fn neighbours_come_at_the_same_time() {
    let mut orders = loom::model::Builder::new();
    orders.preemption_bound = Some(3);
    orders.check(|| {
        let table = Arc::new(PageTable::new(2).unwrap());
        let insert = |key: u64, frame: u32| {
            let table = table.clone();
            move || {
                let slot = table.insert(key, FrameIndex(frame), 0).unwrap();
                table.unpin(slot);
            }
        };
        let threads = [(2, 20), (3, 30)].map(|(key, frame)| {
            let insert = insert(key, frame);
            loom::thread::spawn(insert)
        });
        if let Pinned::Yes(slot, state) = table.pin(2) {
            assert_eq!((table.key(slot), state.frame().0), (2, 20));
            table.unpin(slot);
        }
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
        for (key, frame) in [(2, 20), (3, 30)] {
            let Pinned::Yes(_, state) = table.pin(key) else {
                panic!("{key} is lost");
            };
            assert_eq!((state.frame().0, state.pins()), (frame, 0));
        }
    });
}

/// Two threads remove a page, and one of them takes its line for another extent and removes that
/// again: the other never takes another page for the one it was to remove.
#[test]
fn a_page_that_is_removed_is_known() {
    let rival = std::sync::OnceLock::new();
    let mut orders = loom::model::Builder::new();
    orders.preemption_bound = Some(4);
    orders.check(move || {
        let table = Arc::new(PageTable::new(2).unwrap());
        let second = *rival.get_or_init(|| rival_of(&table, 1));
        let slot = table.insert(1, FrameIndex(10), 0).unwrap();
        table.unpin(slot);
        let other = table.clone();
        let thread = loom::thread::spawn(move || {
            let mut removed = Vec::new();
            if let Some((key, _)) = other.remove(slot, FrameIndex(10)) {
                removed.push(key);
                // The place is free, and the next page gets it.
                let slot = other.insert(second, FrameIndex(10), 0).unwrap();
                other.unpin(slot);
            }
            removed
        });
        let here = table.remove(slot, FrameIndex(10)).map(|(key, _)| key);
        let mut removed = thread.join().unwrap();
        removed.extend(here);
        let left: Vec<_> = [1, second]
            .into_iter()
            .filter(|key| table.locate(*key).is_some())
            .collect();
        let there = if removed.contains(&second) || left.contains(&second) {
            vec![1, second]
        } else {
            vec![1]
        };
        removed.extend(left);
        removed.sort_unstable();
        assert_eq!(removed, there);
    });
}

/// One reader, and a thread that removes the page and puts the same one elsewhere.
#[test]
fn a_page_that_went_and_came_again_is_found_where_it_is_or_not_at_all() {
    loom::model(|| {
        let table = Arc::new(PageTable::new(2).unwrap());
        let slot = table.insert(1, FrameIndex(10), 0).unwrap();
        table.unpin(slot);
        let other = table.clone();
        let thread = loom::thread::spawn(move || {
            if other.remove(slot, FrameIndex(10)).is_none() {
                return false;
            }
            let slot = other.insert(1, FrameIndex(11), 0).unwrap();
            other.unpin(slot);
            true
        });
        let mut seen = None;
        if let Pinned::Yes(slot, state) = table.pin(1) {
            seen = Some(state.frame().0);
            assert!(table.remove(slot, state.frame()).is_none(), "pinned");
            assert_eq!(table.state(slot).frame(), state.frame());
            table.unpin(slot);
        }
        let has_moved = thread.join().unwrap();
        assert!(has_moved || seen == Some(10), "{seen:?}");
        assert!(matches!(seen, None | Some(10 | 11)), "{seen:?}");
        let Pinned::Yes(slot, state) = table.pin(1) else {
            panic!("lost");
        };
        assert_eq!(state.frame().0, 10 + u32::from(has_moved));
        assert_eq!(state.pins(), 0);
        table.unpin(slot);
    });
}

/// Bytes of frames 10 and 20, which loom watches: a read while another thread writes fails.
struct Frames([UnsafeCell<u32>; 2]);

// SAFETY: loom sees every access.
unsafe impl Sync for Frames {}
// SAFETY: as above.
unsafe impl Send for Frames {}

impl Frames {
    fn of(&self, frame: FrameIndex) -> &UnsafeCell<u32> {
        &self.0[frame.0 as usize / 10 - 1]
    }

    fn read(&self, frame: FrameIndex) -> u32 {
        // SAFETY: the test is that nobody writes meanwhile.
        self.of(frame).with(|bytes| unsafe { *bytes })
    }

    fn write(&self, frame: FrameIndex, value: u32) {
        // SAFETY: the test is that nobody else is there.
        self.of(frame).with_mut(|bytes| unsafe { *bytes = value });
    }
}

fn frames() -> Frames {
    Frames([UnsafeCell::new(1), UnsafeCell::new(0)])
}

/// Of no object: only its place in the table matters.
const KEY: u64 = 7;

/// A writer that is alone writes in place; where a reader has pinned the page, its name goes to a
/// copy. The reader's bytes do not change while they are pinned.
#[test]
fn a_pinned_page_does_not_change() {
    let mut orders = loom::model::Builder::new();
    // All orders of so many steps, with a loop that waits in them, are too many.
    orders.preemption_bound = Some(5);
    orders.check(|| {
        let table = Arc::new(PageTable::new(2).unwrap());
        let bytes = Arc::new(frames());
        let slot = table.insert(KEY, FrameIndex(10), FULL).unwrap();
        table.unpin(slot);
        let (other, others) = (table.clone(), bytes.clone());
        let reader = loom::thread::spawn(move || {
            let Pinned::Yes(slot, state) = other.pin(KEY) else {
                // Between the names: the real one looks again under the lock of insertions.
                return;
            };
            let first = others.read(state.frame());
            let second = others.read(state.frame());
            assert_eq!(first, second);
            other.unpin(slot);
        });
        let Pinned::Yes(slot, _) = table.pin(KEY) else {
            panic!("nobody removes it");
        };
        table.set(slot, WRITING);
        if table.state(slot).pins() == 1 {
            bytes.write(FrameIndex(10), 2);
            table.clear(slot, WRITING);
            table.unpin(slot);
        } else {
            bytes.write(FrameIndex(20), bytes.read(FrameIndex(10)));
            table.unname(slot);
            let new = table.insert(KEY, FrameIndex(20), FULL | WRITING).unwrap();
            table.clear(slot, WRITING);
            table.unpin(slot);
            bytes.write(FrameIndex(20), 2);
            table.clear(new, WRITING);
            table.unpin(new);
            if table.remove_detached(slot, FrameIndex(10)) {
                // Free: it may be another's at once.
                bytes.write(FrameIndex(10), 9);
            }
            assert!(table.remove(slot, FrameIndex(10)).is_none());
        }
        reader.join().unwrap();
        let Pinned::Yes(slot, state) = table.pin(KEY) else {
            panic!("it has a name");
        };
        assert_eq!(bytes.read(state.frame()), 2);
        assert_eq!(state.pins(), 0);
        table.unpin(slot);
    });
}

/// An extent's line has lost its last page and still has its name, when another extent's page comes
/// into it and becomes dirty. A thread that looks for the page that is gone does not find that one,
/// nor take its flag.
#[test]
fn a_page_that_is_gone_is_not_mistaken_for_the_one_in_its_line() {
    let rival = std::sync::OnceLock::new();
    loom::model(move || {
        let table = Arc::new(PageTable::new(2).unwrap());
        let second = *rival.get_or_init(|| rival_of(&table, 1));
        let slot = table.insert(1, FrameIndex(10), 0).unwrap();
        table.unpin(slot);
        assert!(table.remove(slot, FrameIndex(10)).is_some());
        let other = table.clone();
        // Not the other way round: loom remembers the last access to a word only, and the thread
        // that inserts a page looks at it first, which hides that another has.
        let thread = loom::thread::spawn(move || {
            assert_eq!(other.locate(1), None);
            other.clear_of(1, DIRTY);
        });
        assert_eq!(table.insert(second, FrameIndex(20), DIRTY), Some(slot));
        table.unpin(slot);
        thread.join().unwrap();
        let state = table.state(slot);
        assert!(state.has(DIRTY) && state.pins() == 0, "{state:?}");
        table.clear_of(second, DIRTY);
        assert!(!table.state(slot).has(DIRTY));
    });
}

/// To take the flag from a page pins it for a moment: readers, and a thread that removes it, go on.
#[test]
fn a_page_whose_flag_is_taken_can_be_read_and_removed() {
    loom::model(|| {
        let table = Arc::new(PageTable::new(2).unwrap());
        let slot = table.insert(1, FrameIndex(10), DIRTY).unwrap();
        table.unpin(slot);
        let other = table.clone();
        let thread = loom::thread::spawn(move || {
            if let Pinned::Yes(slot, state) = other.pin(1) {
                assert_eq!(state.frame(), FrameIndex(10));
                other.unpin(slot);
            }
            other.remove(slot, FrameIndex(10)).is_some()
        });
        table.clear_of(1, DIRTY);
        if thread.join().unwrap() {
            assert_eq!(table.locate(1), None);
        } else {
            let (found, state) = table.locate(1).unwrap();
            assert_eq!(
                (found, state.0),
                (slot, crate::table::State::new(FrameIndex(10), 0).0)
            );
        }
        assert_eq!(table.state(slot).pins(), 0);
    });
}

/// A dirty page stays, whatever wants its frame.
#[test]
fn a_dirty_page_is_not_removed() {
    loom::model(|| {
        let table = Arc::new(PageTable::new(2).unwrap());
        let slot = table.insert(1, FrameIndex(10), 0).unwrap();
        let other = table.clone();
        let thread = loom::thread::spawn(move || other.remove(slot, FrameIndex(10)).is_some());
        table.set(slot, DIRTY);
        table.unpin(slot);
        assert!(!thread.join().unwrap());
        table.clear(slot, DIRTY);
        assert!(table.remove(slot, FrameIndex(10)).is_some());
    });
}

/// Two threads remove a page: one succeeds.
#[test]
fn a_page_is_removed_once() {
    loom::model(|| {
        let table = Arc::new(PageTable::new(2).unwrap());
        let slot = table.insert(1, FrameIndex(10), 0).unwrap();
        table.unpin(slot);
        let other = table.clone();
        let thread = loom::thread::spawn(move || other.remove(slot, FrameIndex(10)).is_some());
        let here = table.remove(slot, FrameIndex(10)).is_some();
        assert_ne!(here, thread.join().unwrap());
    });
}
