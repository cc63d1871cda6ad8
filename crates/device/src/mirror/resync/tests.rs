use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::super::{Assessment, Condition, LegState, MemoryRecord, Mirror, MirrorError, Refusal};
use super::{CHUNK_BYTES, CHUNKS_MAX, Resync};
use crate::testing::world::{NEVER, World};
use crate::testing::{Faulty, pattern, write};
use crate::{Device, Operation};

/// Three chunks and a part of one.
const LENGTH: u64 = 3 * CHUNK_BYTES + 700;
const CHUNK: usize = CHUNK_BYTES as usize;

/// Legs that differ in their second and in their last chunk, the second leg being stale.
fn world() -> World {
    let mut world = World::new(2, LENGTH);
    let life = world.live(NEVER, false);
    let bytes = pattern(CHUNK + 700);
    let mirror = world.writable();
    assert_eq!(write(&mirror, 5000, &bytes[..100]).result, Ok(()));
    life.bad_leg.store(1, Ordering::SeqCst);
    life.bad_from.store(0, Ordering::SeqCst);
    let last = 3 * CHUNK_BYTES;
    assert_eq!(
        write(&mirror, CHUNK_BYTES + 4096, &bytes[..10]).result,
        Ok(())
    );
    assert_eq!(write(&mirror, last, &bytes[..700]).result, Ok(()));
    drop(mirror);
    world.live(NEVER, false);
    world
}

#[test]
fn only_what_differs_is_copied() {
    let world = world();
    assert_ne!(world.bytes(0), world.bytes(1));
    let expected = world.bytes(0);
    let report = world.resync(None).unwrap();
    assert_eq!(report.compared_bytes, LENGTH);
    assert_eq!(report.copied_bytes, CHUNK_BYTES + 700);
    assert_eq!(report.differing_bytes, report.copied_bytes);
    assert_eq!(report.first, Some((1, CHUNK_BYTES)));
    assert!(world.bytes(0) == expected && world.bytes(1) == expected);
    assert_eq!(world.assessment().conditions, [Condition::Current; 2]);
    let generation = world.standing(0).generation;
    assert_eq!(generation, world.standing(1).generation);
    assert_eq!(world.resync(None).unwrap().copied_bytes, 0);
    assert_eq!(world.standing(0).generation, generation + 1);
}

#[test]
fn comparing_changes_nothing() {
    let world = world();
    let before = (world.bytes(1), world.standing(0), world.standing(1));
    let (legs, record) = (world.legs(), world.record.clone());
    let resync = Resync::plan("mirror", &legs, &*record, None, [1; 16]).unwrap();
    assert_eq!((resync.source(), resync.bytes()), (0, LENGTH));
    let mut told = 0;
    let report = resync.compare(&mut |bytes| told += bytes).unwrap();
    assert_eq!((told, report.compared_bytes), (LENGTH, LENGTH));
    assert_eq!(
        (report.differing_bytes, report.copied_bytes),
        (CHUNK_BYTES + 700, 0)
    );
    assert_eq!(
        before,
        (world.bytes(1), world.standing(0), world.standing(1))
    );
}

/// It is cut short at each flush, each record and each chunk, and begun again.
#[test]
fn a_leg_is_not_good_before_all_of_it_is() {
    for lie in [false, true] {
        for from in [None, Some(0), Some(1)] {
            for steps in 0.. {
                let mut world = world();
                let source = from.unwrap_or(0);
                let expected = world.bytes(source);
                world.live(steps, lie);
                let outcome = world.resync(from);
                world.live(NEVER, false);
                let assessment = world.assessment();
                let is_good = |leg: usize| assessment.conditions[leg].is_good();
                assert!(is_good(0) || is_good(1));
                if is_good(0) && is_good(1) {
                    assert_eq!(world.bytes(0), world.bytes(1), "{steps}");
                }
                assert!(is_good(source) || steps < 2, "{steps}: {assessment:?}");
                if let Ok(report) = outcome {
                    assert!(is_good(0) && is_good(1) && steps >= 5, "{report:?}");
                    break;
                }
                world.resync(from).unwrap();
                assert!(
                    world.bytes(0) == expected && world.bytes(1) == expected,
                    "{steps}"
                );
                assert_eq!(world.assessment().bad(), 0);
            }
        }
    }
}

#[test]
fn unknown_legs_are_a_mirror_when_they_are_equal() {
    let mut world = World::new(3, LENGTH);
    world.record = Arc::new(MemoryRecord::new(3));
    assert_eq!(world.resync(None).unwrap().copied_bytes, 0);
    assert_eq!(world.standing(2).identity, [9; 16]);
    assert_eq!(world.writable().legs_in_service(), 3);
    // They differ: nobody can tell which is right.
    let record = Arc::new(MemoryRecord::new(3));
    world.record = record;
    write(&*world.rams[1], 2 * CHUNK_BYTES, &[1]);
    let error = world.resync(None).unwrap_err();
    let expected = MirrorError::Differs {
        leg: "leg 1".to_owned(),
        other: "leg 0".to_owned(),
        offset: 2 * CHUNK_BYTES,
    };
    assert_eq!(error, expected);
    assert!(world.assessment().is_unknown() && world.bytes(1)[2 * CHUNK] == 1);
    let report = world.resync(Some(1)).unwrap();
    assert_eq!(report.copied_bytes, 2 * CHUNK_BYTES);
    assert!((0..3).all(|leg| world.bytes(leg)[2 * CHUNK] == 1));
    assert_eq!(world.assessment().bad(), 0);
}

#[test]
fn contradictions_are_resolved_by_naming_the_source() {
    use super::super::MirrorRecord;
    for source in 0..2 {
        let mut world = world();
        let mut foreign = world.standing(1);
        foreign.identity = [3; 16];
        world.record.store(1, &foreign).unwrap();
        let refused = world.resync(None).unwrap_err();
        assert!(matches!(
            refused,
            MirrorError::Refused(Refusal::Foreign { .. })
        ));
        let expected = world.bytes(source);
        world.resync(Some(source)).unwrap();
        assert!(world.bytes(1 - source) == expected);
        assert_eq!(world.standing(1 - source).identity, [9; 16]);
        assert_eq!(world.assessment().conditions, [Condition::Current; 2]);
        // The order on the command line does not matter.
        world.rams.reverse();
        let standings = [world.standing(1), world.standing(0)];
        for (leg, standing) in standings.iter().enumerate() {
            world.record.store(leg, standing).unwrap();
        }
        assert_eq!(world.resync(None).unwrap().copied_bytes, 0);
    }
}

#[test]
fn a_leg_that_is_a_mixture_is_no_source_while_another_is_good() {
    use super::super::MirrorRecord;
    let world = world();
    let (legs, record) = (world.legs(), world.record.clone());
    let plan = |from| Resync::plan("mirror", &legs, &*record, from, [1; 16]);
    assert_eq!(plan(Some(1)).unwrap().source_condition(), Condition::Stale);
    assert_eq!(plan(None).unwrap().source_condition(), Condition::Current);
    let mut mixture = world.standing(1);
    mixture.state = LegState::Resynchronising;
    record.store(1, &mixture).unwrap();
    let expected = Refusal::Unfinished("leg 1".to_owned(), "leg 0".to_owned());
    assert_eq!(plan(Some(1)).err(), Some(MirrorError::Refused(expected)));
    assert_eq!(plan(None).unwrap().source(), 0);
    // Nothing better is left: the operator has to choose.
    let mut other = world.standing(0);
    other.state = LegState::Resynchronising;
    record.store(0, &other).unwrap();
    assert!(plan(None).is_err());
    assert_eq!(plan(Some(1)).unwrap().source(), 1);
}

/// Memory with bad places.
fn faulty() -> (Vec<Arc<Faulty>>, Vec<Arc<dyn Device>>, MemoryRecord) {
    let leg = |index| Arc::new(Faulty::new(&format!("leg {index}"), LENGTH));
    let legs: Vec<Arc<Faulty>> = (0..2).map(leg).collect();
    let devices = legs.iter().cloned().map(|leg| leg as Arc<dyn Device>);
    (
        legs.clone(),
        devices.collect(),
        MemoryRecord::of_equal(2, LENGTH),
    )
}

#[test]
fn a_bad_place_of_the_target_is_written_again() {
    let (legs, devices, record) = faulty();
    let bad = (Operation::Read, CHUNK_BYTES + 5..CHUNK_BYTES + 6);
    legs[1].bad.lock().unwrap().push(bad);
    let resync = Resync::plan("mirror", &devices, &record, None, [1; 16]).unwrap();
    let report = resync.run(&mut |_| ()).unwrap();
    assert_eq!(report.copied_bytes, CHUNK_BYTES);
    let seen = legs[1].seen.lock().unwrap();
    let written = seen.iter().filter(|one| one.0 == Operation::Write);
    assert_eq!(written.map(|one| one.1).collect::<Vec<_>>(), [CHUNK_BYTES]);
}

/// More chunks than are on their way at a time.
#[test]
fn a_target_that_differs_from_end_to_end_is_copied() {
    const CHUNKS: u64 = 3 * CHUNKS_MAX as u64 + 1;
    let mut world = World::new(2, CHUNKS * CHUNK_BYTES + 700);
    let length = world.rams[0].length_bytes();
    let expected = pattern(usize::try_from(length).unwrap());
    write(&*world.rams[0], 0, &expected);
    write(&*world.rams[1], 0, &vec![1; expected.len()]);
    let life = world.live(NEVER, false);
    let report = world.resync(Some(0)).unwrap();
    assert_eq!(report.copied_bytes, length);
    assert_eq!(
        (report.differing_bytes, report.first),
        (length, Some((1, 0)))
    );
    assert!(world.bytes(0) == expected && world.bytes(1) == expected);
    let reads = life.reads.lock().unwrap();
    let chunks = (0..=CHUNKS).map(|chunk| chunk * CHUNK_BYTES);
    for leg in 0..2 {
        let read = reads.iter().filter(|(one, _)| *one == leg);
        assert!(read.map(|(_, offset)| *offset).eq(chunks.clone()));
    }
}

/// The second leg is a good source afterwards, unless it was made a mixture.
#[test]
fn a_source_that_cannot_be_read_ends_it() {
    use super::super::MirrorRecord;
    use Condition::{Current, Doubtful, Unfinished};
    let (clean, in_use) = (LegState::Clean, LegState::InUse);
    for (states, generation, differs, expected) in [
        ([clean; 2], 1, false, Current),
        ([clean; 2], 1, true, Unfinished),
        // Left without a goodbye: each block of either is right.
        ([in_use; 2], 1, false, Doubtful),
        ([in_use; 2], 1, true, Doubtful),
        // The second missed writes.
        ([in_use, clean], 2, true, Unfinished),
    ] {
        let (legs, devices, record) = faulty();
        for (leg, state) in states.into_iter().enumerate() {
            let mut standing = record.load(leg).unwrap().unwrap();
            standing.state = state;
            standing.generation = if leg == 0 { generation } else { 1 };
            record.store(leg, &standing).unwrap();
        }
        let bad = |leg: usize, at: u64| {
            let bad = (Operation::Read, at..at + 1);
            legs[leg].bad.lock().unwrap().push(bad);
        };
        bad(0, CHUNK_BYTES + 5);
        if differs {
            write(&legs[1].ram, 0, &[1]);
        } else {
            // What cannot be read is written again, and is right before and after.
            bad(1, 5);
        }
        let plan = |from| Resync::plan("mirror", &devices, &record, from, [1; 16]);
        let error = plan(None).unwrap().run(&mut |_| ()).unwrap_err();
        assert!(error.to_string().contains("leg 0"), "{error}");
        let assessment = Assessment::of(&record, &devices).unwrap();
        assert_eq!(assessment.conditions, [Current, expected], "{states:?}");
        let is_source = plan(Some(1)).is_ok();
        assert_eq!(is_source, expected != Unfinished, "{states:?}");
        if is_source {
            legs[1].bad.lock().unwrap().clear();
            plan(Some(1)).unwrap().run(&mut |_| ()).unwrap();
            let conditions = Assessment::of(&record, &devices).unwrap().conditions;
            assert_eq!(conditions, [Current; 2]);
            continue;
        }
        // It is not read, not even when the first leg cannot be.
        let record: Arc<MemoryRecord> = Arc::new(record);
        let (mirror, _) = Mirror::open("mirror", devices, record, false).unwrap();
        let (outcome, _) = crate::testing::read(&mirror, CHUNK_BYTES, 10);
        assert!(outcome.result.is_err());
    }
}

/// Legs that are both current and yet differ: one is what it was, or equal, or not read.
#[test]
fn a_current_leg_is_left_alone_or_marked() {
    for from in [0, 1] {
        for steps in 0.. {
            let mut world = World::new(2, LENGTH);
            write(&*world.rams[1], CHUNK_BYTES, &[1]);
            write(&*world.rams[1], 3 * CHUNK_BYTES, &[2]);
            let (before, expected) = (world.bytes(1 - from), world.bytes(from));
            world.live(steps, false);
            let outcome = world.resync(Some(from));
            world.live(NEVER, false);
            let conditions = world.assessment().conditions;
            assert_eq!(conditions[from], Condition::Current);
            let bytes = world.bytes(1 - from);
            let is_good = conditions[1 - from].is_good();
            assert!(!is_good || bytes == before || bytes == expected, "{steps}");
            world.resync(Some(from)).unwrap();
            assert!(world.bytes(0) == expected && world.bytes(1) == expected);
            if outcome.is_ok() {
                break;
            }
        }
    }
}

/// As they are after a kill, cut short at each step: either can be the source.
#[test]
fn legs_that_are_in_use_stay_so_until_they_are_equal() {
    use super::super::MirrorRecord;
    for from in [0, 1] {
        for steps in 0.. {
            let mut world = World::new(2, LENGTH);
            write(&*world.rams[1], CHUNK_BYTES, &[1]);
            for leg in 0..2 {
                let mut standing = world.standing(leg);
                standing.state = LegState::InUse;
                world.record.store(leg, &standing).unwrap();
            }
            let rights = [world.bytes(0)[CHUNK], world.bytes(1)[CHUNK]];
            world.live(steps, false);
            let outcome = world.resync(Some(from));
            world.live(NEVER, false);
            let conditions = world.assessment().conditions;
            assert!(!conditions.contains(&Condition::Unfinished), "{steps}");
            assert!(rights.contains(&world.bytes(1 - from)[CHUNK]));
            let is_whole = world.assessment().bad() == 0;
            assert!(!is_whole || world.bytes(0) == world.bytes(1), "{steps}");
            world.resync(Some(1 - from)).unwrap();
            assert_eq!(world.bytes(0), world.bytes(1));
            if outcome.is_ok() {
                break;
            }
        }
    }
}

#[test]
fn legs_of_different_lengths_are_refused() {
    let devices: Vec<Arc<dyn Device>> = vec![
        Arc::new(Faulty::new("leg 0", 1000)),
        Arc::new(Faulty::new("leg 1", 1001)),
    ];
    let record = MemoryRecord::new(2);
    let refused = Resync::plan("mirror", &devices, &record, Some(0), [1; 16]);
    assert!(matches!(refused.err(), Some(MirrorError::Combine(_))));
}
