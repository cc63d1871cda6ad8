use std::time::Duration;

use super::*;
use crate::writeback::{Admission, Extent, Tag, TagState, WriteBack};

const PAGE: u64 = 65_536;
const NOW: Duration = Duration::from_secs(1);

fn bytes(offset: u64, length: u64) -> Extent {
    Extent { offset, length }
}

/// Objects of a store that may have so many pages dirty.
fn objects(count: usize, pages: u64) -> Vec<WriteBack> {
    let settings = Settings::new(pages * PAGE);
    let share = StoreShare::new(settings);
    let object = |_| WriteBack::of_store(settings, &share);
    (0..count).map(object).collect()
}

#[test]
fn many_objects_together_have_the_memory_of_one() {
    let mut objects = objects(100, 16);
    let mut admitted = 0;
    for object in &mut objects {
        if object.admit(bytes(0, 10), true, NOW) != Admission::Refused {
            object.wrote(bytes(0, 10), NOW);
            admitted += 1;
        }
    }
    assert_eq!(admitted, 16);
    assert_eq!(objects[0].store_memory_bytes(), 16 * PAGE);
    // What of others is clean makes room.
    objects[99].admit(bytes(0, 10), true, NOW);
    let write = objects[3].next(NOW).unwrap();
    objects[3].finished(write.id, true, NOW);
    assert!(objects[3].take_waiting() && !objects[3].take_waiting());
    assert_ne!(
        objects[99].admit(bytes(0, 10), true, NOW),
        Admission::Refused
    );
    // So does what is given up.
    objects.drain(..50);
    assert!(objects[0].store_memory_bytes() <= 8 * PAGE);
    drop(objects.drain(1..));
    objects[0].forget();
    assert_eq!(objects[0].store_memory_bytes(), 0);
}

#[test]
fn a_commit_of_one_object_goes_before_what_another_has_in_plenty() {
    let mut objects = objects(2, 4096);
    let most = objects[0].limits().flight_bytes_max;
    objects[0].wrote(bytes(0, 2048 * PAGE), NOW);
    let mut flying = Vec::new();
    while let Some(write) = objects[0].next(NOW) {
        flying.push(write);
    }
    let length = flying.iter().map(|write| write.extent.length).sum::<u64>();
    assert!(length <= most && length > most / 2);
    objects[1].wrote(bytes(0, 10), NOW);
    let tag = objects[1].tag(bytes(0, 10), NOW);
    assert_eq!(objects[1].next(NOW), None, "no place");
    for write in flying.split_off(flying.len() / 2) {
        objects[0].finished(write.id, true, NOW);
    }
    assert_eq!(objects[0].next(NOW), None, "lets it go first");
    let write = objects[1].next(NOW).unwrap();
    assert!(objects[1].next(NOW).is_none());
    assert!(objects[0].take_waiting());
    assert!(objects[0].next(NOW).is_some());
    objects[1].finished(write.id, true, NOW);
    assert_eq!(objects[1].tag_state(tag), TagState::Written);
}

#[test]
fn an_object_with_nothing_to_write_takes_no_turn_of_others() {
    let mut objects = objects(3, 4096);
    let later = Duration::from_secs(40);
    objects[0].wrote(bytes(0, 10), later);
    objects[1].wrote(bytes(0, 10), NOW);
    objects[2].wrote(bytes(0, 1024 * PAGE), later);
    objects[2].tag(bytes(0, 1024 * PAGE), later);
    let flying: Vec<_> = std::iter::from_fn(|| objects[2].next(later)).collect();
    assert!(flying.len() as u64 > TAG_WRITES);
    for write in &flying[flying.len() / 2..] {
        objects[2].finished(write.id, true, later);
    }
    assert_eq!(objects[0].next(later), None, "nothing is due");
    let write = objects[1].next(later).expect("its turn");
    assert_eq!(write.extent, bytes(0, 10));
    assert_eq!(objects[1].next(later), None);
    objects[1].wrote(bytes(PAGE, 10), NOW);
    objects[0].wrote(bytes(PAGE, 10), NOW);
    let much_later = later * 2;
    assert_eq!(objects[0].next(much_later), None, "the turn is over");
}

#[test]
fn an_object_for_which_no_commit_waits_any_more_keeps_no_other_from_going() {
    let ends: [fn(&mut Vec<WriteBack>, Tag); 4] = [
        |objects, _| objects.truncate(1),
        |objects, tag| objects[1].untag(tag),
        |objects, _| assert_eq!(objects[1].discard(bytes(0, PAGE)), 10),
        |objects, _| assert_eq!(objects[1].forget(), 10),
    ];
    for end in ends {
        let mut objects = objects(2, 4096);
        objects[0].wrote(bytes(0, 2048 * PAGE), NOW);
        let flying: Vec<_> = std::iter::from_fn(|| objects[0].next(NOW)).collect();
        objects[1].wrote(bytes(0, 10), NOW);
        let tag = objects[1].tag(bytes(0, 10), NOW);
        assert_eq!(objects[1].next(NOW), None);
        end(&mut objects, tag);
        for write in flying {
            objects[0].finished(write.id, true, NOW);
        }
        assert!(objects[0].take_waiting());
        assert!(objects[0].next(NOW).is_some());
    }
}
