use super::*;
use crate::testing::{
    Faulty, PATIENCE, flush, flush_request, pattern, read, request, write, write_durable,
};
use crate::{Buffer, Error, RamDevice, read_exact};
use proptest::prelude::*;

mod replaced;
mod suspected;

fn mirror_of(legs: Vec<Faulty>) -> (Mirror, Vec<Arc<Faulty>>) {
    let legs: Vec<Arc<Faulty>> = legs.into_iter().map(Arc::new).collect();
    let devices = legs.iter().cloned().map(|leg| leg as Arc<dyn Device>);
    let mirror = open(devices.collect()).unwrap();
    // The first write waits for a thread, which says that the legs are in use.
    let block = mirror.geometry().logical_block_bytes as usize;
    assert_eq!(write(&mirror, 0, &vec![0; block]).result, Ok(()));
    for leg in &legs {
        leg.seen.lock().unwrap().clear();
    }
    (mirror, legs)
}

/// Of equal legs.
fn open(devices: Vec<Arc<dyn Device>>) -> Result<Mirror, MirrorError> {
    let length_bytes = devices.first().map_or(0, |leg| leg.length_bytes());
    let record = MemoryRecord::of_equal(devices.len(), length_bytes);
    Ok(Mirror::open("mirror", devices, Arc::new(record), true)?.0)
}

fn two(length: u64) -> (Mirror, Vec<Arc<Faulty>>) {
    mirror_of(vec![
        Faulty::new("leg 0", length),
        Faulty::new("leg 1", length),
    ])
}

#[test]
fn reads_go_to_the_shorter_queue_and_take_turns() {
    let (mirror, legs) = two(1 << 20);
    legs.iter().for_each(|leg| leg.hold());
    let mut receivers = Vec::new();
    for index in 0..6 {
        let (one, receiver) = request(Operation::Read, index * 4096, Buffer::new(4096, 1));
        mirror.submit(one);
        receivers.push(receiver);
    }
    assert_eq!((legs[0].held(), legs[1].held()), (3, 3));
    legs[1].release();
    for index in 0..3 {
        assert_eq!(read(&mirror, index * 4096, 4096).0.result, Ok(()));
    }
    assert_eq!((legs[0].held(), legs[1].held()), (3, 0));
    legs[0].release();
    for receiver in receivers {
        assert_eq!(receiver.recv_timeout(PATIENCE).unwrap().0.result, Ok(()));
    }
    let way = |leg: &Leg| leg.on_their_way.load(Ordering::Relaxed);
    assert!(mirror.shared.legs.iter().all(|leg| way(leg) == 0));
    let seen = |index: usize| legs[index].seen.lock().unwrap().len();
    let (first, second) = (seen(0), seen(1));
    (0..10).for_each(|_| drop(read(&mirror, 0, 1)));
    assert_eq!((seen(0), seen(1)), (first + 5, second + 5));
}

#[test]
fn rotating_legs_keep_to_their_neighbourhood() {
    let disk = |name| {
        let mut disk = Faulty::new(name, 1 << 30);
        disk.geometry.rotational = true;
        disk
    };
    let (mirror, legs) = mirror_of(vec![disk("leg 0"), disk("leg 1")]);
    mirror.shared.legs[1]
        .last_end
        .store(1 << 29, Ordering::Relaxed);
    for index in 0..20u64 {
        let far = index.is_multiple_of(2);
        let offset = index * 512 + if far { 1 << 29 } else { 0 };
        assert_eq!(read(&mirror, offset, 512).0.result, Ok(()));
    }
    for (leg, near) in legs.iter().zip([0, 1 << 29]) {
        let seen = leg.seen.lock().unwrap();
        assert_eq!(seen.len(), 10);
        assert!(
            seen.iter()
                .all(|(_, offset, ..)| offset.abs_diff(near) < 1 << 20)
        );
    }
}

#[test]
fn a_bad_block_is_read_from_another_leg() {
    let (mirror, legs) = two(100_000);
    let bytes = pattern(100_000);
    assert_eq!(write(&mirror, 0, &bytes).result, Ok(()));
    legs[0]
        .bad
        .lock()
        .unwrap()
        .push((Operation::Read, 5000..5001));
    let retried = MIRROR_READS_RETRIED.get();
    for _ in 0..4 {
        let (outcome, buffer) = read(&mirror, 0, 10_000);
        assert_eq!(outcome.result, Ok(()));
        assert_eq!(buffer[..], bytes[..10_000]);
    }
    assert!(MIRROR_READS_RETRIED.get() >= retried + 2);
    assert_eq!(mirror.legs_in_service(), 2);
    // Bad on both: an error that names a leg and the place.
    legs[1]
        .bad
        .lock()
        .unwrap()
        .push((Operation::Read, 7000..7001));
    let (outcome, _) = read(&mirror, 0, 10_000);
    let Err(Error::Failed { offset, .. }) = outcome.result else {
        panic!("{outcome:?}");
    };
    assert!(offset == 5000 || offset == 7000);
    assert_eq!(outcome.transferred_bytes as u64, offset);
    assert_eq!(read(&mirror, 6000, 1000).0.result, Ok(()));
}

#[test]
fn a_leg_that_misses_a_write_is_never_read_again() {
    let (mirror, legs) = two(100_000);
    assert_eq!(write(&mirror, 0, &[1; 100_000]).result, Ok(()));
    legs[0]
        .bad
        .lock()
        .unwrap()
        .push((Operation::Write, 500..501));
    let failed = MIRROR_HALVES_FAILED.get();
    assert_eq!(write(&mirror, 0, &[2; 1000]).result, Ok(()));
    assert!(MIRROR_HALVES_FAILED.get() > failed);
    assert_eq!(mirror.legs_in_service(), 1);
    legs[0].bad.lock().unwrap().clear();
    let seen = legs[0].seen.lock().unwrap().len();
    for _ in 0..4 {
        assert!(read(&mirror, 0, 1000).1.iter().all(|byte| *byte == 2));
    }
    assert_eq!(write(&mirror, 0, &[3; 1000]).result, Ok(()));
    assert_eq!(legs[0].seen.lock().unwrap().len(), seen);
    // The last leg stays, whatever happens to it.
    legs[1]
        .bad
        .lock()
        .unwrap()
        .push((Operation::Write, 500..501));
    let outcome = write(&mirror, 0, &[4; 1000]);
    assert_eq!(outcome.transferred_bytes, 500);
    assert!(matches!(
        outcome.result,
        Err(Error::Failed { offset: 500, .. })
    ));
    assert_eq!(mirror.legs_in_service(), 1);
    assert_eq!(read(&mirror, 2000, 1000).0.result, Ok(()));
}

/// Two writes on their way, each failing on another leg: one leg has to stay, and the write
/// that it missed is an error.
#[test]
fn legs_do_not_fail_each_other() {
    let (mirror, legs) = two(10_000);
    legs[0].bad.lock().unwrap().push((Operation::Write, 0..1));
    legs[1]
        .bad
        .lock()
        .unwrap()
        .push((Operation::Write, 5000..5001));
    legs.iter().for_each(|leg| leg.hold());
    let (first, first_outcome) = request(Operation::Write, 0, Buffer::new(100, 1));
    let (second, second_outcome) = request(Operation::Write, 5000, Buffer::new(100, 1));
    mirror.submit(first);
    mirror.submit(second);
    assert!(first_outcome.try_recv().is_err());
    legs[0].release();
    assert!(first_outcome.try_recv().is_err());
    legs[1].release();
    let outcomes = [first_outcome, second_outcome]
        .map(|receiver| receiver.recv_timeout(PATIENCE).unwrap().0.result.is_ok());
    assert_eq!(outcomes.iter().filter(|ok| **ok).count(), 1);
    assert_eq!(mirror.legs_in_service(), 1);
}

fn spoil(leg: &Faulty, operation: Operation, first: u64) {
    leg.bad.lock().unwrap().push((operation, first..first + 1));
}

#[test]
fn writes_are_durable_on_all_legs_and_a_flush_goes_to_all() {
    let (mirror, legs) = two(10_000);
    assert_eq!(write_durable(&mirror, 0, &[1; 100]).result, Ok(()));
    let durable = |leg: &Faulty| leg.durable.load(Ordering::Relaxed);
    assert!(legs.iter().all(|leg| durable(leg) == 1));
    legs.iter().for_each(|leg| leg.hold());
    let (one, outcome) = flush_request();
    mirror.submit(one);
    for leg in &legs {
        assert_eq!(leg.held(), 1);
        assert!(outcome.try_recv().is_err());
        leg.release();
    }
    assert_eq!(outcome.try_recv().unwrap().result, Ok(()));
}

#[test]
fn a_leg_that_cannot_flush_is_never_read_again() {
    let (mirror, legs) = two(10_000);
    assert_eq!(write(&mirror, 0, &[1; 1000]).result, Ok(()));
    spoil(&legs[0], Operation::Flush, 0);
    let failed = MIRROR_HALVES_FAILED.get();
    assert_eq!(flush(&mirror).result, Ok(()));
    assert!(MIRROR_HALVES_FAILED.get() > failed);
    assert_eq!(mirror.legs_in_service(), 1);
    let seen = legs[0].seen.lock().unwrap().len();
    (0..4).for_each(|_| assert_eq!(read(&mirror, 0, 1000).0.result, Ok(())));
    assert_eq!(flush(&mirror).result, Ok(()));
    assert_eq!(legs[0].seen.lock().unwrap().len(), seen);
    // The last one stays, and says what is wrong with it.
    spoil(&legs[1], Operation::Flush, 0);
    let failed = MIRROR_FLUSHES_FAILED.get();
    let error = flush(&mirror).result.unwrap_err().to_string();
    assert!(error.contains("leg 1: at byte 0"), "{error}");
    assert!(MIRROR_FLUSHES_FAILED.get() > failed);
    assert_eq!(mirror.legs_in_service(), 1);
    assert_eq!(read(&mirror, 0, 1000).0.result, Ok(()));
}

#[test]
fn a_write_or_flush_that_no_leg_takes_changes_nobodys_service() {
    for operation in [Operation::Write, Operation::Flush] {
        let (mirror, legs) = two(10_000);
        spoil(&legs[0], operation, 600);
        spoil(&legs[1], operation, 500);
        let outcome = match operation {
            Operation::Flush => flush(&mirror),
            _ => write(&mirror, 0, &[1; 1000]),
        };
        assert!(matches!(outcome.result, Err(Error::Failed { .. })));
        assert_eq!(mirror.legs_in_service(), 2);
        legs.iter().for_each(|leg| leg.bad.lock().unwrap().clear());
        assert_eq!(write(&mirror, 0, &[2; 1000]).result, Ok(()));
        assert_eq!(flush(&mirror).result, Ok(()));
    }
}

/// One leg fails at a flush while the other fails at a write: one of them has to stay, and what
/// it missed is an error.
#[test]
fn a_flush_and_a_write_do_not_take_the_last_leg() {
    let (mirror, legs) = two(10_000);
    spoil(&legs[0], Operation::Write, 0);
    spoil(&legs[1], Operation::Flush, 0);
    legs.iter().for_each(|leg| leg.hold());
    let (one, written) = request(Operation::Write, 0, Buffer::new(100, 1));
    let (two, flushed) = flush_request();
    mirror.submit(one);
    mirror.submit(two);
    legs.iter().for_each(|leg| leg.release());
    let written = written.recv_timeout(PATIENCE).unwrap().0.result.is_ok();
    let flushed = flushed.recv_timeout(PATIENCE).unwrap().result.is_ok();
    assert!(written != flushed);
    assert_eq!(mirror.legs_in_service(), 1);
}

/// A read is on its way to a leg when that leg misses a write: what it brings is too old for
/// every reader that came after the write, and may be given to one of them.
#[test]
fn what_a_leg_brings_after_it_missed_a_write_is_read_again() {
    for bad_elsewhere in [false, true] {
        let (mirror, legs) = two(10_000);
        assert_eq!(write(&mirror, 0, &[1; 100]).result, Ok(()));
        legs.iter().for_each(|leg| leg.hold());
        let (one, done) = request(Operation::Read, 0, Buffer::new(100, 1));
        mirror.submit(one);
        let chosen = usize::from(legs[1].held() == 1);
        let (bad, good) = (&legs[chosen], &legs[1 - chosen]);
        spoil(bad, Operation::Write, 50);
        if bad_elsewhere {
            spoil(good, Operation::Read, 50);
        }
        let mut buffer = Buffer::new(100, 1);
        buffer.fill(2);
        let (one, written) = request(Operation::Write, 0, buffer);
        mirror.submit(one);
        good.release();
        assert!(written.try_recv().is_err());
        let stale = MIRROR_READS_STALE.get();
        // The write is answered first.
        bad.release();
        let outcome = written.recv_timeout(PATIENCE).unwrap().0;
        assert_eq!(outcome.result, Ok(()));
        assert_eq!(mirror.legs_in_service(), 1);
        assert!(MIRROR_READS_STALE.get() > stale);
        let (outcome, buffer) = done.try_recv().unwrap();
        if bad_elsewhere {
            // Rather nothing than bytes that are too old.
            let error = outcome.result.unwrap_err().to_string();
            assert!(error.contains(good.name()), "{error}");
        } else {
            assert_eq!(outcome.result, Ok(()));
            assert!(buffer.iter().all(|byte| *byte == 2));
        }
    }
}

/// What a leg lost that could not flush is not read from it while the other legs flush: neither by
/// reads that come later, nor by one that is on its way to it.
#[test]
fn a_leg_whose_flush_has_failed_is_not_read() {
    for is_on_its_way in [false, true] {
        let (mirror, legs) = two(10_000);
        assert_eq!(write(&mirror, 0, &[1; 100]).result, Ok(()));
        spoil(&legs[0], Operation::Flush, 0);
        // It is lost.
        assert_eq!(write(&legs[0].ram, 0, &[0; 100]).result, Ok(()));
        legs[1].hold();
        let (one, done) = request(Operation::Read, 0, Buffer::new(100, 1));
        let (two, flushed) = flush_request();
        if is_on_its_way {
            legs[0].hold();
            // Another one makes the queue of the other leg longer.
            mirror.shared.legs[1]
                .on_their_way
                .fetch_add(1, Ordering::Relaxed);
            mirror.submit(one);
            mirror.submit(two);
            assert_eq!(legs[0].held(), 2);
            mirror.shared.legs[1]
                .on_their_way
                .fetch_sub(1, Ordering::Relaxed);
            // The flush is answered first.
            legs[0].release();
        } else {
            mirror.submit(two);
            mirror.submit(one);
        }
        assert_eq!(mirror.legs_in_service(), 2);
        legs[1].release();
        let (outcome, buffer) = done.recv_timeout(PATIENCE).unwrap();
        assert_eq!(outcome.result, Ok(()));
        assert!(buffer.iter().all(|byte| *byte == 1), "{is_on_its_way}");
        assert_eq!(flushed.recv_timeout(PATIENCE).unwrap().result, Ok(()));
        assert_eq!(mirror.legs_in_service(), 1);
    }
}

/// When no leg could flush, none is better than the others.
#[test]
fn legs_that_all_failed_are_read() {
    let (mirror, legs) = two(10_000);
    legs.iter().for_each(|leg| spoil(leg, Operation::Flush, 0));
    for suspects in [[1, 1], [0, 0]] {
        for (leg, count) in mirror.shared.legs.iter().zip(suspects) {
            leg.suspected.store(count, Ordering::SeqCst);
        }
        assert_eq!(read(&mirror, 0, 100).0.result, Ok(()));
    }
    assert!(flush(&mirror).result.is_err());
    let suspected = |leg: &Arc<Leg>| leg.suspected.load(Ordering::SeqCst);
    assert!(mirror.shared.legs.iter().all(|leg| suspected(leg) == 0));
    assert_eq!(read(&mirror, 0, 100).0.result, Ok(()));
}

/// Threads that write, and read what they wrote, while legs fail: nobody ever reads anything
/// older than its last complete write.
#[test]
fn readers_see_their_last_write_while_legs_fail() {
    for round in 0..30u64 {
        let legs = (0..3).map(|index| Faulty::new(&format!("leg {index}"), 40_000));
        let (mirror, legs) = mirror_of(legs.collect());
        std::thread::scope(|scope| {
            for thread in 0..4u64 {
                let mirror = &mirror;
                scope.spawn(move || {
                    for value in 1..100u8 {
                        let start = thread * 10_000;
                        assert_eq!(write(mirror, start, &[value; 64]).result, Ok(()));
                        let (outcome, buffer) = read(mirror, start, 64);
                        assert_eq!(outcome.result, Ok(()));
                        assert!(buffer.iter().all(|byte| *byte == value));
                        if value % 16 == 0 {
                            assert_eq!(flush(mirror).result, Ok(()));
                        }
                    }
                });
            }
            spoil(
                &legs[(round % 3) as usize],
                Operation::Write,
                round % 4 * 10_000 + 5,
            );
            std::thread::yield_now();
            spoil(&legs[((round + 1) % 3) as usize], Operation::Flush, 0);
        });
        // Should they have been too quick.
        for thread in 0..4 {
            assert_eq!(write(&mirror, thread * 10_000, &[0; 64]).result, Ok(()));
        }
        assert_eq!(flush(&mirror).result, Ok(()));
        assert_eq!(mirror.legs_in_service(), 1);
    }
}

#[test]
fn a_partial_last_block_is_no_failure() {
    let file = |name| {
        let mut file = Faulty::new(name, 1000);
        file.geometry.logical_block_bytes = 512;
        file
    };
    let (mirror, legs) = mirror_of(vec![file("leg 0"), file("leg 1")]);
    // What a file answers to a request for its last block: all that is there.
    for leg in &legs {
        let mut bad = leg.bad.lock().unwrap();
        bad.extend([
            (Operation::Read, 1000..1024),
            (Operation::Write, 1000..1024),
        ]);
    }
    let retried = legs[0].seen.lock().unwrap().len();
    for outcome in [read(&mirror, 512, 512).0, write(&mirror, 512, &[1; 512])] {
        assert_eq!(outcome.transferred_bytes, 488);
        assert!(outcome.result.is_err());
    }
    assert_eq!(mirror.legs_in_service(), 2);
    assert!(legs[0].seen.lock().unwrap().len() <= retried + 2);
    let other = Arc::new(RamDevice::new("ram", 1000));
    let odd = open(vec![legs[0].clone(), other]);
    assert!(matches!(
        odd.err(),
        Some(MirrorError::Combine(CombineError::Tail { .. }))
    ));
}

#[test]
fn what_does_not_fit_together_is_refused() {
    let device = |length| Arc::new(RamDevice::new("ram", length)) as Arc<dyn Device>;
    let unequal = open(vec![device(1000), device(1001)]);
    assert!(unequal.err().unwrap().to_string().contains("1001"));
    let none = open(Vec::new());
    assert!(matches!(
        none.err(),
        Some(MirrorError::Combine(CombineError::Count { count: 0, .. }))
    ));
    let (mirror, _) = two(100);
    assert!(read(&mirror, 90, 20).0.result.is_err());
    assert_eq!(read(&mirror, 90, 0).0.result, Ok(()));
}

proptest! {
    /// Writes and reads with bad places that come and go on all legs but the last: every read
    /// is right, and what is in service at the end holds the same bytes.
    #[test]
    fn it_is_a_run_of_bytes_as_long_as_one_leg_is_good(
        steps in proptest::collection::vec(
            (0usize..4, 0usize..2000, 1usize..1000, 0usize..2, 1u64..200),
            1..40,
        ),
    ) {
        let legs = (0..3).map(|index| Faulty::new(&format!("leg {index}"), 3000));
        let (mirror, legs) = mirror_of(legs.collect());
        let mut model = vec![0; 3000];
        let bytes = pattern(4000);
        for (what, offset, length, leg, bad) in steps {
            let start = offset as u64;
            match what {
                0 => {
                    let outcome = write(&mirror, start, &bytes[length..2 * length]);
                    prop_assert_eq!(outcome.result, Ok(()));
                    model[offset..offset + length].copy_from_slice(&bytes[length..2 * length]);
                }
                1 | 2 => {
                    let (outcome, buffer) = read(&mirror, start, length);
                    prop_assert_eq!(outcome.result, Ok(()));
                    prop_assert!(buffer[..] == model[offset..offset + length]);
                }
                _ => {
                    let mut list = legs[leg].bad.lock().unwrap();
                    let operation = [Operation::Read, Operation::Write][length % 2];
                    if list.len() > 3 {
                        list.clear();
                    }
                    list.push((operation, start..start + bad));
                }
            }
        }
        for (index, leg) in legs.iter().enumerate() {
            if mirror.shared.in_service() & (1 << index) != 0 {
                let mut whole = vec![0; 3000];
                read_exact(&leg.ram, 0, &mut whole).unwrap();
                prop_assert!(whole == model);
            }
        }
    }
}
