//! Tests of the page table, some with threads against each other.

use crate::table::PageTable;
use crate::table::{EXTENT_PAGES, extent_of};

/// Another page that would rather be in the same word than anywhere else.
pub(crate) fn rival_of(table: &PageTable, key: u64) -> u64 {
    let home = |key| table.home(extent_of(key).0);
    let mut others = (1..).map(|extents| key + extents * EXTENT_PAGES);
    others.find(|other| home(*other) == home(key)).unwrap()
}

#[cfg(not(feature = "loom"))]
mod threads {
    use super::rival_of;
    use crate::page::key_of;
    use crate::table::{AHEAD, DETACHED, EXTENT_PAGES, FULL, PRESENT, State, WRITING};
    use crate::table::{NAMELESS, PageTable, Pinned, SlotIndex};
    use pagewell_policy::eviction::FrameIndex;

    fn pin(table: &PageTable, key: u64) -> Option<(SlotIndex, State)> {
        match table.pin(key) {
            Pinned::Yes(index, state) => Some((index, state)),
            _ => None,
        }
    }

    #[test]
    fn where_a_page_comes_is_known_before_it_can_be_found() {
        let table = PageTable::new(8).unwrap();
        for key in [7, 8, key_of(9, 7)] {
            let seen = std::cell::Cell::new(None);
            let slot = table.insert_with(key, FrameIndex(3), FULL, |slot| {
                assert!(!table.state(slot).has(PRESENT));
                seen.set(Some(slot));
            });
            assert!(slot.is_some() && slot == seen.get());
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

    /// Inserts pages, and says how many found no place; the others are where they should be.
    fn refused(keys: &[u64]) -> usize {
        let table = PageTable::new(keys.len()).unwrap();
        let mut refused = 0;
        for (frame, key) in (0..).map(FrameIndex).zip(keys) {
            match table.insert(*key, frame, 0) {
                Some(slot) => {
                    assert_eq!(table.key(slot), *key);
                    table.unpin(slot);
                }
                None => refused += 1,
            }
        }
        let mut lost = 0;
        for (frame, key) in (0..).map(FrameIndex).zip(keys) {
            match pin(&table, *key) {
                Some((slot, state)) => {
                    assert_eq!(state.frame(), frame);
                    assert_eq!(table.locate(*key).unwrap().0, slot);
                    table.unpin(slot);
                }
                None => lost += 1,
            }
        }
        assert_eq!(lost, refused, "others are lost");
        refused
    }

    #[test]
    fn a_table_takes_as_many_pages_as_it_is_for_in_order_or_not() {
        let in_order: Vec<_> = (1..=4096).map(|page| key_of(3, page)).collect();
        assert_eq!(refused(&in_order), 0);
        let every_other: Vec<_> = (1..=4096).map(|page| key_of(3, 2 * page)).collect();
        assert_eq!(refused(&every_other), 0);
        for stride in [EXTENT_PAGES, 16, 64, 1 << 14, 121_393 * EXTENT_PAGES] {
            let apart: Vec<_> = (1..=4096).map(|page| key_of(3, stride * page)).collect();
            assert!(refused(&apart) <= 8, "{stride}: {}", refused(&apart));
        }
        let objects: Vec<_> = (1..=4096).map(|object| key_of(object, 0)).collect();
        assert_eq!(refused(&objects), 0);
    }

    #[test]
    fn an_extent_keeps_its_line_until_another_wants_it() {
        let table = PageTable::new(8).unwrap();
        let (key, frame) = (key_of(1, 0), FrameIndex(3));
        let other = rival_of(&table, key);
        let slot = table.insert(key, frame, FULL).unwrap();
        let away = table.insert(other, FrameIndex(4), FULL).unwrap();
        assert_ne!(slot, away, "the line has a page");
        table.unpin(slot);
        assert_eq!(table.remove(slot, frame).unwrap().0, key);
        assert_eq!(table.key(slot), 0);
        assert!(pin(&table, key).is_none() && table.locate(key).is_none());
        assert_eq!(pin(&table, other).unwrap().0, away, "it stays where it is");
        let third = rival_of(&table, other);
        assert_eq!(table.insert(third, frame, FULL), Some(slot));
        assert_eq!(pin(&table, third).unwrap().0, slot);
        assert!(pin(&table, key).is_none());
    }

    #[test]
    fn a_page_without_a_name_keeps_its_word_and_its_copy_has_another() {
        let table = PageTable::new(8).unwrap();
        let key = key_of(1, 5);
        let old = table.insert(key, FrameIndex(1), FULL | WRITING).unwrap();
        table.unname(old);
        assert_eq!(table.key(old), NAMELESS);
        assert!(table.locate(key).is_none());
        table.rename(old);
        assert_eq!((table.key(old), table.locate(key).unwrap().0), (key, old));
        table.unname(old);
        let new = table.insert(key, FrameIndex(2), FULL).unwrap();
        assert_ne!(old, new);
        assert_eq!(pin(&table, key).unwrap().0, new);
        assert!(!table.remove_detached(old, FrameIndex(1)), "held");
        table.unpin(old);
        assert!(
            table.remove(old, FrameIndex(1)).is_none(),
            "not by its name"
        );
        assert!(table.remove_detached(old, FrameIndex(1)));
        assert!(!table.state(old).has(PRESENT) && !table.state(old).has(DETACHED));
        assert_eq!(table.locate(key).unwrap().0, new);
        // The others of the extent go on in the first line.
        let beside = table.insert(key - 1, FrameIndex(3), FULL).unwrap();
        assert_eq!(beside.0, old.0 - 1);
    }

    #[test]
    fn rivals_are_listed_line_by_line_the_fewest_first() {
        let table = PageTable::new(2).unwrap();
        let mut pages = 0;
        for key in (1..40).map(|page| key_of(1, page)) {
            pages += usize::from(table.insert(key, FrameIndex(7), 0).is_some());
        }
        let rivals = table.rivals(key_of(2, 0));
        assert!(rivals.windows(2).all(|pair| pair[0].len() <= pair[1].len()));
        assert!(rivals.iter().flatten().all(|(_, frame)| frame.0 == 7));
        assert!(pages >= rivals[rivals.len() - 1].len() && !rivals[0].is_empty());
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
    /// the same few lines.
    #[test]
    fn a_pinned_page_is_the_one_that_was_asked_for() {
        let table = PageTable::new(4).unwrap();
        let frame_of = |key: u64| FrameIndex(u32::try_from(key).unwrap() * 10);
        // Four pages of one extent each time, which take the lines from each other.
        let key_of = |index: u64| 1 + index % 4 + index / 4 % 32 * EXTENT_PAGES;
        std::thread::scope(|scope| {
            for lane in 0..2u64 {
                let table = &table;
                scope.spawn(move || {
                    for round in 0..200_000u64 {
                        // No key of the other's.
                        let key = key_of(round / 4 * 8 + lane * 4 + round % 4);
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
                        let key = key_of(round);
                        if let Some((slot, state)) = pin(table, key) {
                            assert_eq!(state.frame(), frame_of(key));
                            assert_eq!(table.key(slot), key);
                            table.unpin(slot);
                        }
                    }
                });
            }
        });
        for key in (0..128).map(key_of) {
            assert!(pin(&table, key).is_none(), "{key}");
        }
    }
}

#[cfg(not(feature = "loom"))]
mod words {
    use pagewell_policy::eviction::{FrameIndex, HEAT_MAX};

    use crate::table::{AHEAD, FULL, MARKER, PIN, PINS_MAX, PRESENT, State};

    #[test]
    fn the_fields_do_not_touch_each_other() {
        let state = State::new(FrameIndex(u32::MAX), FULL | MARKER);
        assert_eq!(state.frame(), FrameIndex(u32::MAX));
        assert_eq!((state.pins(), state.heat()), (0, 0));
        let state = State(state.0 + PINS_MAX * PIN).with_heat(3);
        assert_eq!((state.pins(), state.heat()), (PINS_MAX, 3));
        assert!(state.has(PRESENT | FULL | MARKER) && !state.has(AHEAD));
        assert_eq!(state.with_heat(15).heat(), HEAT_MAX);
        assert_eq!(state.with_heat(0).frame(), FrameIndex(u32::MAX));
    }
}

#[cfg(not(feature = "loom"))]
mod locality {
    use pagewell_policy::eviction::FrameIndex;

    use crate::page::key_of;
    use crate::table::Locality;

    #[test]
    fn pages_in_order_are_guessed_and_two_elsewhere_end_that() {
        let guesses = Locality::new(4096);
        let key = |page| key_of(1, page);
        assert_eq!(guesses.guess(key(300)), None);
        for page in 300..304 {
            guesses.learn(key(page), FrameIndex(1000 + u32::try_from(page).unwrap()));
        }
        assert_eq!(
            guesses.guess(key(383)),
            Some(FrameIndex(1383)),
            "its extent"
        );
        assert_eq!(guesses.guess(key(384)), None, "the next one");
        assert_eq!(guesses.guess(key_of(2, 300)), None, "another device");
        guesses.learn(key(310), FrameIndex(7));
        assert_eq!(guesses.guess(key(311)), Some(FrameIndex(1311)));
        guesses.learn(key(320), FrameIndex(9));
        assert_eq!(guesses.guess(key(311)), None);
    }

    #[test]
    fn an_extent_may_begin_before_the_first_frame() {
        let guesses = Locality::new(64);
        (0..4).for_each(|at| guesses.learn(100 + u64::from(at), FrameIndex(at)));
        assert_eq!(guesses.guess(105), Some(FrameIndex(5)));
    }

    #[test]
    fn pages_at_random_are_not_guessed() {
        let guesses = Locality::new(4096);
        for page in 0..128u32 {
            let elsewhere = FrameIndex(page.wrapping_mul(0x9e37_79b9) % 4096);
            guesses.learn(u64::from(page), elsewhere);
            assert_eq!(guesses.guess(u64::from(page)), None, "{page}");
        }
    }
}
