//! Tests of the page table: threads against each other, and every order under loom.

#[cfg(not(feature = "loom"))]
mod threads {
    use crate::state::{AHEAD, FULL, PRESENT, State};
    use crate::table::{PageTable, Pinned, SlotIndex};
    use pagewell_policy::eviction::FrameIndex;

    fn pin(table: &PageTable, key: u64) -> Option<(SlotIndex, State)> {
        match table.pin(key) {
            Pinned::Yes(index, state) => Some((index, state)),
            _ => None,
        }
    }

    #[test]
    fn a_page_is_found_until_it_is_removed_and_not_removed_while_pinned() {
        let table = PageTable::new(8).unwrap();
        let slot = table.insert(7, FrameIndex(3), FULL).unwrap();
        assert!(table.remove(slot, FrameIndex(3)).is_none(), "pinned");
        table.unpin(slot);
        let (again, state) = pin(&table, 7).unwrap();
        assert_eq!((again, state.frame()), (slot, FrameIndex(3)));
        assert!(state.has(PRESENT | FULL) && !state.has(AHEAD));
        table.unpin(again);
        assert!(table.remove(slot, FrameIndex(4)).is_none(), "another page");
        assert_eq!(table.remove(slot, FrameIndex(3)).unwrap().0, 7);
        assert!(pin(&table, 7).is_none());
    }

    #[test]
    fn a_half_full_table_takes_every_key() {
        let table = PageTable::new(4096).unwrap();
        let mut refused: u32 = 0;
        for key in 1..=4096 {
            match table.insert(key, FrameIndex(u32::try_from(key).unwrap()), 0) {
                Some(slot) => table.unpin(slot),
                None => refused += 1,
            }
        }
        assert!(refused <= 2, "{refused}");
        for key in 1..=4096 {
            if let Some((slot, state)) = pin(&table, key) {
                assert_eq!(u64::from(state.frame().0), key);
                table.unpin(slot);
            } else {
                refused -= 1;
            }
        }
        assert_eq!(refused, 0, "others are lost");
    }

    #[test]
    fn too_many_pins_are_refused_and_taken_back() {
        let table = PageTable::new(2).unwrap();
        let slot = table.insert(1, FrameIndex(0), FULL).unwrap();
        let mut held = 1;
        while pin(&table, 1).is_some() {
            held += 1;
        }
        assert!(matches!(table.pin(1), Pinned::Refused));
        for _ in 0..held {
            table.unpin(slot);
        }
        assert_eq!(table.state(slot).pins(), 0);
        assert_eq!(table.state(slot).frame(), FrameIndex(0));
    }

    /// Readers check that a pinned page keeps its name while others remove and insert pages in
    /// the same few slots.
    #[test]
    fn a_pinned_page_is_the_one_that_was_asked_for() {
        let table = PageTable::new(4).unwrap();
        let frame_of = |key: u64| FrameIndex(u32::try_from(key).unwrap() * 10);
        std::thread::scope(|scope| {
            for lane in 0..2u64 {
                let table = &table;
                scope.spawn(move || {
                    for round in 0..200_000u64 {
                        let key = 1 + lane * 4 + round % 4;
                        if let Some(slot) = table.insert(key, frame_of(key), 0) {
                            table.unpin(slot);
                            while table.remove(slot, frame_of(key)).is_none() {
                                std::thread::yield_now();
                            }
                        }
                    }
                });
                scope.spawn(move || {
                    for round in 0..400_000u64 {
                        let key = 1 + round % 8;
                        if let Some((slot, state)) = pin(table, key) {
                            assert_eq!(state.frame(), frame_of(key));
                            assert_eq!(table.key(slot), key);
                            table.unpin(slot);
                        }
                    }
                });
            }
        });
    }
}

#[cfg(feature = "loom")]
mod orders {
    use crate::state::{DIRTY, FULL, PRESENT, WRITING};
    use crate::table::{PageTable, Pinned};
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use pagewell_policy::eviction::FrameIndex;

    /// One reader, and one who removes the page and puts another into the same slot.
    #[test]
    fn a_pin_is_of_the_page_that_was_asked_for_or_of_none() {
        loom::model(|| {
            let table = Arc::new(PageTable::new(2).unwrap());
            let slot = table.insert(1, FrameIndex(10), 0).unwrap();
            table.unpin(slot);
            let other = table.clone();
            let thread = loom::thread::spawn(move || {
                if other.remove(slot, FrameIndex(10)).is_some() {
                    let slot = other.insert(2, FrameIndex(20), 0).unwrap();
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
            let found = [1, 2].map(|key| match table.pin(key) {
                Pinned::Yes(slot, state) => {
                    assert_eq!(u64::from(state.frame().0), key * 10);
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

    /// One reader, and one who removes the page and puts the same one elsewhere.
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

    /// Bytes of frames 10 and 20, which loom watches: who reads while another writes, fails.
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

    /// A writer who is alone writes in place; where a reader holds the page he gives its name to
    /// a copy. The reader's bytes do not change while he holds them.
    #[test]
    fn a_held_page_does_not_change() {
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

    /// A dirty page stays, whoever wants its place.
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

    /// Two who remove: one succeeds.
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
}
