use std::sync::atomic::Ordering;

use super::super::{Condition, LegState, Mirror, MirrorError, MirrorRecord, Refusal};
use crate::testing::world::{NEVER, World};
use crate::testing::{flush, read, request, write, write_durable};
use crate::{Buffer, Device, Error, Operation, Outcome};
use rustix::io::Errno;

const CELLS: u64 = 8;
const CELL: usize = 512;

/// Writes that fill a cell with one byte, and a flush after each third.
fn run(mirror: &Mirror, mut seen: impl FnMut(u64, u8, Outcome)) {
    for step in 1..=12u8 {
        let cell = u64::from(step) * 5 % CELLS;
        let outcome = write(mirror, cell * CELL as u64, &[step; CELL]);
        seen(cell, step, outcome);
        if step.is_multiple_of(3) {
            flush(mirror);
        }
    }
}

/// What each cell may hold: the last byte that was acknowledged, or one that failed after it.
#[derive(Default)]
struct Model {
    cells: std::collections::BTreeMap<u64, Vec<u8>>,
}

impl Model {
    fn write(&mut self, cell: u64, byte: u8, outcome: &Outcome) {
        let allowed = self.cells.entry(cell).or_insert_with(|| vec![0]);
        if outcome.result.is_ok() {
            allowed.clear();
        }
        allowed.push(byte);
    }

    /// Every cell holds something it may hold, and always the same.
    fn check(&self, mirror: &Mirror, what: &str) {
        for cell in 0..CELLS {
            let look = || read(mirror, cell * CELL as u64, CELL).1[0];
            let first = look();
            let allowed = self.cells.get(&cell).map_or(&[0][..], Vec::as_slice);
            assert!(
                allowed.contains(&first),
                "{what}: cell {cell}: {first} of {allowed:?}"
            );
            (0..3).for_each(|_| assert_eq!(look(), first, "{what}: cell {cell}"));
        }
    }
}

#[test]
fn a_leg_that_missed_a_write_is_stale_after_a_restart() {
    for bad_leg in 0..2 {
        for bad_from in 0..16 {
            let mut world = World::new(2, CELLS * CELL as u64);
            let life = world.live(NEVER, false);
            life.bad_leg.store(bad_leg, Ordering::SeqCst);
            life.bad_from.store(bad_from, Ordering::SeqCst);
            let mut model = Model::default();
            let mirror = world.writable();
            run(&mirror, |cell, byte, outcome| {
                assert_eq!(outcome.result, Ok(()), "one leg is good");
                model.write(cell, byte, &outcome);
            });
            assert_eq!(mirror.legs_in_service(), 1);
            drop(mirror);
            // The leg that was left behind comes back, with other bytes.
            let other = write(&*world.rams[bad_leg], 0, &[0xEE; CELL]);
            assert_eq!(other.result, Ok(()));
            let life = world.live(NEVER, false);
            let (mirror, assessment) = world.open(true).unwrap();
            assert_eq!(assessment.conditions[bad_leg], Condition::Stale);
            assert_eq!(assessment.conditions[1 - bad_leg], Condition::Current);
            model.check(&mirror, "restart");
            let reads = life.reads.lock().unwrap().clone();
            assert!(reads.iter().all(|(leg, _)| *leg != bad_leg));
            drop(mirror);
            world.resync(None).unwrap();
            assert_eq!(world.bytes(0), world.bytes(1));
            assert_eq!(world.assessment().conditions, [Condition::Current; 2]);
        }
    }
}

/// The program dies at each step, with and without a leg that fails, with records that are
/// stored or not when it dies.
#[test]
fn whenever_it_dies_what_was_acknowledged_is_read_and_nothing_changes_back() {
    for lie in [false, true] {
        for bad_from in [NEVER, 0, 1, 4, 7] {
            for legs in [2, 3] {
                for steps in 0..45 {
                    let mut world = World::new(legs, CELLS * CELL as u64);
                    // Opening stores the record of each leg once.
                    let life = world.live(steps + legs as i64, lie);
                    life.bad_leg.store(1, Ordering::SeqCst);
                    life.bad_from.store(bad_from, Ordering::SeqCst);
                    let mut model = Model::default();
                    let mirror = world.writable();
                    run(&mirror, |cell, byte, outcome| {
                        model.write(cell, byte, &outcome)
                    });
                    drop(mirror);
                    let what = format!("{legs} legs, {lie}, {bad_from}, {steps}");
                    world.live(NEVER, false);
                    model.check(&world.open(false).unwrap().0, &what);
                    let mirror = world.writable();
                    model.check(&mirror, &what);
                    let outcome = write(&mirror, 0, &[99; CELL]);
                    model.write(0, 99, &outcome);
                    assert_eq!(outcome.result, Ok(()));
                    drop(mirror);
                    model.check(&world.open(false).unwrap().0, &what);
                    world.resync(None).unwrap();
                    assert_eq!(world.bytes(0), world.bytes(1), "{what}");
                    let mirror = world.writable();
                    assert_eq!(mirror.legs_in_service(), legs);
                    model.check(&mirror, &what);
                }
            }
        }
    }
}

#[test]
fn a_mirror_that_was_flushed_ends_clean() {
    let world = World::new(2, 4096);
    let in_use = |world: &World| world.standing(0).state == LegState::InUse;
    let mirror = world.writable();
    assert!(!in_use(&world), "nothing was written");
    assert_eq!(write(&mirror, 0, &[1; 512]).result, Ok(()));
    assert!(in_use(&world) && world.standing(1).state == LegState::InUse);
    assert_eq!(flush(&mirror).result, Ok(()));
    drop(mirror);
    assert!(!in_use(&world) && !world.assessment().is_in_use());
    assert_eq!(world.standing(0).generation, 1);
    // A durable write needs no flush.
    let mirror = world.writable();
    assert_eq!(write_durable(&mirror, 0, &[2; 512]).result, Ok(()));
    drop(mirror);
    assert!(!in_use(&world));
    // One that is not flushed may be lost on one leg: the other is not read.
    let mirror = world.writable();
    assert_eq!(flush(&mirror).result, Ok(()));
    assert_eq!(write(&mirror, 0, &[3; 512]).result, Ok(()));
    drop(mirror);
    let assessment = world.assessment();
    assert!(assessment.is_in_use());
    assert_eq!(
        assessment.conditions,
        [Condition::Current, Condition::Doubtful]
    );
    // Opened and written to, the first leg leaves the other behind for good.
    let mirror = world.writable();
    assert_eq!(mirror.legs_in_service(), 1);
    assert_eq!(write_durable(&mirror, 0, &[4; 512]).result, Ok(()));
    drop(mirror);
    assert_eq!(world.standing(0).generation, 2);
    assert_eq!(world.assessment().conditions[1], Condition::Stale);
}

#[test]
fn a_write_that_fails_everywhere_leaves_legs_that_are_not_taken_for_equal() {
    let world = World::new(2, 4096);
    let mirror = world.writable();
    assert_eq!(write_durable(&mirror, 0, &[1; 512]).result, Ok(()));
    world.life.steps.store(0, Ordering::SeqCst);
    assert!(write(&mirror, 0, &[2; 512]).result.is_err());
    assert_eq!(mirror.legs_in_service(), 2, "the last ones stay");
    world.life.steps.store(NEVER, Ordering::SeqCst);
    assert_eq!(flush(&mirror).result, Ok(()));
    drop(mirror);
    assert_eq!(world.assessment().bad(), 1);
}

#[test]
fn a_flush_that_a_leg_missed_is_recorded_too() {
    let mut world = World::new(2, 4096);
    let life = world.live(NEVER, false);
    let mirror = world.writable();
    assert_eq!(write(&mirror, 0, &[1; 512]).result, Ok(()));
    life.bad_leg.store(0, Ordering::SeqCst);
    life.bad_from.store(0, Ordering::SeqCst);
    assert_eq!(flush(&mirror).result, Ok(()));
    assert_eq!(mirror.legs_in_service(), 1);
    assert_eq!(
        (world.standing(0).generation, world.standing(1).generation),
        (1, 2)
    );
}

#[test]
fn nothing_of_a_mirror_outlives_it() {
    use std::sync::{Arc, mpsc};
    let mut world = World::new(2, 4096);
    let life = world.live(NEVER, false);
    let mirror = world.writable();
    let shared = Arc::downgrade(&mirror.shared);
    // The thread that recorded that the legs are in use is held up when it completes this.
    let (begun, has_begun) = mpsc::channel();
    let (go_on, may_go_on) = mpsc::channel::<()>();
    let done = move |_, _| {
        begun.send(()).unwrap();
        may_go_on.recv_timeout(crate::testing::PATIENCE).unwrap();
    };
    let (buffer, reader) = (Buffer::new(512, 1), crate::Issuer::Reader);
    mirror.submit(crate::Request::owned(
        Operation::Write,
        0,
        buffer,
        reader,
        done,
    ));
    has_begun.recv_timeout(crate::testing::PATIENCE).unwrap();
    // Another one records that a leg has failed.
    life.bad_leg.store(1, Ordering::SeqCst);
    life.bad_from.store(0, Ordering::SeqCst);
    assert_eq!(write(&mirror, 512, &[1; 512]).result, Ok(()));
    let later = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(100));
        go_on.send(()).unwrap();
    });
    drop(mirror);
    assert_eq!(
        shared.strong_count(),
        0,
        "it could mark legs of the next one clean"
    );
    later.join().unwrap();
}

#[test]
fn nobody_is_told_before_it_is_recorded() {
    let mut world = World::new(2, 4096);
    let life = world.live(NEVER, false);
    let mirror = world.writable();
    // The first write waits until the legs are known to be in use.
    *life.gate.lock().unwrap() = true;
    let (first, first_outcome) = request(Operation::Write, 0, Buffer::new(512, 1));
    mirror.submit(first);
    let (second, second_outcome) = request(Operation::Write, 512, Buffer::new(512, 1));
    mirror.submit(second);
    assert!(first_outcome.try_recv().is_err() && second_outcome.try_recv().is_err());
    assert_eq!(
        life.steps.load(Ordering::SeqCst),
        NEVER - 2,
        "no leg was written to"
    );
    life.open_gate();
    for outcome in [first_outcome, second_outcome] {
        let outcome = outcome.recv_timeout(crate::testing::PATIENCE).unwrap();
        assert_eq!(outcome.0.result, Ok(()));
    }
    // A write that one leg missed, and one that came after it.
    *life.gate.lock().unwrap() = true;
    life.bad_leg.store(1, Ordering::SeqCst);
    life.bad_from.store(0, Ordering::SeqCst);
    let mut outcomes = Vec::new();
    for offset in [0, 512] {
        let (one, outcome) = request(Operation::Write, offset, Buffer::new(512, 1));
        mirror.submit(one);
        assert!(outcome.try_recv().is_err());
        outcomes.push(outcome);
    }
    assert_eq!(world.standing(0).generation, 1);
    life.open_gate();
    for outcome in outcomes {
        let outcome = outcome.recv_timeout(crate::testing::PATIENCE).unwrap();
        assert_eq!(outcome.0.result, Ok(()));
        assert_eq!(world.standing(0).generation, 2);
    }
}

#[test]
fn what_cannot_be_recorded_fails_until_it_can() {
    let mut world = World::new(2, 4096);
    let life = world.live(NEVER, false);
    let mirror = world.writable();
    let refuse = |legs: &[usize]| *life.unrecorded.lock().unwrap() = legs.to_vec();
    // The mirror is not full: the place of the record is, and the text says so.
    let unrecorded = |outcome: Outcome| {
        assert!(
            matches!(&outcome.result, Err(Error::Failed { errno: Errno::IO, device, .. })
                if device.contains("record 1") && device.contains("No space left")),
            "{outcome:?}"
        );
    };
    refuse(&[0, 1]);
    unrecorded(write(&mirror, 0, &[1; 512]));
    unrecorded(write(&mirror, 0, &[1; 512]));
    assert_eq!((mirror.legs_in_service(), world.bytes(0)[0]), (2, 0));
    refuse(&[]);
    assert_eq!(write(&mirror, 0, &[1; 512]).result, Ok(()));
    // A leg fails, and nothing can be recorded of the other.
    refuse(&[0, 1]);
    life.bad_leg.store(0, Ordering::SeqCst);
    life.bad_from.store(0, Ordering::SeqCst);
    unrecorded(write(&mirror, 0, &[2; 512]));
    unrecorded(write(&mirror, 512, &[2; 512]));
    unrecorded(flush(&mirror));
    assert_eq!(mirror.legs_in_service(), 1);
    refuse(&[0]);
    assert_eq!(write(&mirror, 0, &[3; 512]).result, Ok(()));
    assert!(world.standing(1).generation > world.standing(0).generation);
    assert_eq!(flush(&mirror).result, Ok(()));
    drop(mirror);
    let conditions = world.assessment().conditions;
    assert_eq!(conditions, [Condition::Stale, Condition::Current]);
}

#[test]
fn a_leg_without_a_record_is_left_behind_when_another_has_one() {
    for lie in [false, true] {
        let mut world = World::new(2, 4096);
        let life = world.live(NEVER, lie);
        let mirror = world.writable();
        *life.unrecorded.lock().unwrap() = vec![0];
        assert_eq!(write(&mirror, 0, &[1; 512]).result, Ok(()));
        assert_eq!(mirror.legs_in_service(), 1);
        drop(mirror);
        let conditions = world.assessment().conditions;
        assert_eq!(conditions, [Condition::Stale, Condition::Current]);
        // Opening for writing wants to know beforehand: of the leg that would be written.
        *life.unrecorded.lock().unwrap() = vec![0];
        assert!(world.open(true).is_ok());
        *life.unrecorded.lock().unwrap() = vec![1];
        assert!(matches!(world.open(true), Err(MirrorError::Record(_))));
    }
}

#[test]
fn two_legs_that_fail_at_once_do_not_end_it() {
    let mut world = World::new(3, 4096);
    let life = world.live(NEVER, false);
    let mirror = world.writable();
    assert_eq!(write(&mirror, 0, &[1; 512]).result, Ok(()));
    // While the failure of leg 0 is being recorded, leg 1 fails.
    *life.gate.lock().unwrap() = true;
    let mut outcomes = Vec::new();
    for leg in [0, 1] {
        life.bad_leg.store(leg, Ordering::SeqCst);
        life.bad_from.store(0, Ordering::SeqCst);
        let (one, outcome) = request(Operation::Write, 0, Buffer::new(512, 1));
        mirror.submit(one);
        outcomes.push(outcome);
    }
    assert_eq!(mirror.legs_in_service(), 1);
    life.open_gate();
    for outcome in outcomes {
        let outcome = outcome.recv_timeout(crate::testing::PATIENCE).unwrap();
        assert_eq!(outcome.0.result, Ok(()));
    }
    let newest = world.standing(2).generation;
    assert!(world.standing(0).generation < newest && world.standing(1).generation < newest);
}

#[test]
fn without_a_record_nothing_is_written() {
    let mut world = World::new(2, 4096);
    world.record = std::sync::Arc::new(super::super::MemoryRecord::new(2));
    let refused = world.open(true).err();
    assert_eq!(refused, Some(MirrorError::Refused(Refusal::NeverCompared)));
    let (mirror, assessment) = world.open(false).unwrap();
    assert!(assessment.is_unknown());
    let outcome = write(&mirror, 0, &[1; 512]);
    assert!(matches!(
        outcome.result,
        Err(Error::Failed {
            errno: Errno::ROFS,
            ..
        })
    ));
    assert_eq!(flush(&mirror).result, Ok(()));
    assert_eq!(world.record.load(0), Ok(None));
}
