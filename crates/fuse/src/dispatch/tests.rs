use super::*;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, Sender, channel};

const MEBIBYTE: usize = 1 << 20;

/// Where jobs wait until the sender is dropped.
fn gate() -> (Sender<()>, Arc<Mutex<Receiver<()>>>) {
    let (open, gate) = channel();
    (open, Arc::new(Mutex::new(gate)))
}

/// A job that waits at a gate, and then sends its number.
fn waits(gate: &Arc<Mutex<Receiver<()>>>, done: &Sender<usize>, number: usize) -> Work {
    let (gate, done) = (Arc::clone(gate), done.clone());
    Box::new(move |_lease| {
        let _ = gate.lock().recv();
        done.send(number).unwrap();
    })
}

fn sends(done: &Sender<usize>, number: usize) -> Work {
    let done = done.clone();
    Box::new(move |_| done.send(number).unwrap())
}

fn sorted(results: &Receiver<usize>, count: usize) -> Vec<usize> {
    let mut numbers: Vec<usize> = (0..count).map(|_| results.recv().unwrap()).collect();
    numbers.sort_unstable();
    numbers
}

#[test]
fn the_last_reader_never_waits() {
    let dispatch = Arc::new(Dispatch::new(3, 1));
    let here = || dispatch.here(Memory::None);
    let (one, two) = (here(), here());
    assert!(one.is_some() && two.is_some());
    assert!(here().is_none());
    drop(one);
    assert!(here().is_some());
    drop(two);
}

#[test]
fn handed_over_jobs_are_done_also_when_workers_are_few() {
    let dispatch = Arc::new(Dispatch::new(1, 2));
    let (done, results) = channel();
    let (open, gate) = gate();
    for number in 0..2 {
        dispatch.hand_over(Memory::Data(1), None, waits(&gate, &done, number));
    }
    // Both workers wait; what comes now stays in the queue.
    for number in 2..10 {
        dispatch.hand_over(Memory::Data(MEBIBYTE), None, sends(&done, number));
    }
    drop(open);
    assert_eq!(sorted(&results, 10), (0..10).collect::<Vec<_>>());
    dispatch.stop();
}

#[test]
fn writes_to_silent_storage_leave_the_reader_free() {
    let dispatch = Arc::new(Dispatch::new(1, 60));
    let (done, results) = channel();
    let (open, gate) = gate();
    let overdue = names::FUSE_WRITES_OVERDUE.get();
    for number in 0..200 {
        // Comes back although none is ever done.
        let held = Memory::Data(MEBIBYTE);
        dispatch.hand_over(held, None, waits(&gate, &done, number));
    }
    assert!(names::FUSE_WRITES_OVERDUE.get() >= overdue + 184);
    {
        let queue = dispatch.queue.lock();
        assert_eq!(queue.bytes, 200 * MEBIBYTE);
        assert!(queue.working_bytes <= HELD_BYTES_MAX);
    }
    // Workers are left for what holds no data.
    dispatch.hand_over(Memory::None, None, sends(&done, 777));
    assert_eq!(results.recv(), Ok(777));
    drop(open);
    assert_eq!(sorted(&results, 200), (0..200).collect::<Vec<_>>());
    dispatch.stop();
}

#[test]
fn while_storage_answers_no_more_data_is_held_than_the_bound() {
    let dispatch = Arc::new(Dispatch::new(1, 60));
    let (done, results) = channel();
    for number in 0..400 {
        dispatch.hand_over(Memory::Data(MEBIBYTE), None, sends(&done, number));
        assert!(dispatch.queue.lock().bytes <= HELD_BYTES_MAX);
    }
    assert_eq!(sorted(&results, 400), (0..400).collect::<Vec<_>>());
    dispatch.stop();
}

#[test]
fn reads_without_a_lease_keep_no_worker_and_begin_in_their_order() {
    let dispatch = Arc::new(Dispatch::new(2, 3));
    let (done, results) = channel();
    let (here, lease) = dispatch.here(Memory::Lease(READ_BYTES_MAX)).unwrap();
    assert!(dispatch.here(Memory::Lease(1)).is_none());
    for number in 0..20 {
        let done = done.clone();
        let read = Box::new(move |lease: Option<ReadLease>| {
            assert!(lease.is_some());
            done.send(number).unwrap();
        });
        // All of the budget, so that they are done one after the other.
        dispatch.hand_over(Memory::Lease(usize::MAX), None, read);
    }
    assert_eq!(dispatch.queue.lock().jobs.len(), 20);
    for number in 100..110 {
        dispatch.hand_over(Memory::None, None, sends(&done, number));
    }
    assert_eq!(sorted(&results, 10), (100..110).collect::<Vec<_>>());
    drop((here, lease));
    for number in 0..20 {
        assert_eq!(results.recv(), Ok(number));
    }
    dispatch.stop();
}

#[test]
fn jobs_of_killed_callers_are_dropped_with_their_data() {
    let dispatch = Arc::new(Dispatch::new(1, 1));
    let (done, results) = channel();
    let (open, gate) = gate();
    dispatch.hand_over(Memory::None, None, waits(&gate, &done, 0));
    let wanted = Arc::new(AtomicBool::new(true));
    for number in 1..5 {
        let wanted = Arc::clone(&wanted);
        let ask = Box::new(move || wanted.load(Ordering::SeqCst) || number == 3);
        dispatch.hand_over(Memory::Data(10), Some(ask), sends(&done, number));
    }
    dispatch.drop_unwanted();
    assert_eq!(dispatch.queue.lock().bytes, 40);
    wanted.store(false, Ordering::SeqCst);
    dispatch.drop_unwanted();
    assert_eq!(dispatch.queue.lock().bytes, 10);
    drop(open);
    assert_eq!(sorted(&results, 2), [0, 3]);
    drop(done);
    dispatch.stop();
}

#[test]
fn no_more_is_lent_than_there_is_and_all_of_it_comes_back() {
    let dispatch = Arc::new(Dispatch::new(usize::MAX, 1));
    let held = Arc::new(AtomicUsize::new(0));
    let threads: Vec<_> = (0..24)
        .map(|_| {
            let (dispatch, held) = (Arc::clone(&dispatch), Arc::clone(&held));
            std::thread::spawn(move || {
                for _ in 0..50 {
                    let here = dispatch.here(Memory::Lease(MEBIBYTE));
                    let Some((_here, Some(lease))) = here else {
                        std::thread::yield_now();
                        continue;
                    };
                    let now = held.fetch_add(lease.bytes, Ordering::SeqCst) + lease.bytes;
                    assert!(now <= READ_BYTES_MAX, "{now}");
                    std::thread::yield_now();
                    held.fetch_sub(lease.bytes, Ordering::SeqCst);
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    // More than there is can be had, alone.
    let all = dispatch.here(Memory::Lease(usize::MAX)).unwrap();
    assert_eq!(dispatch.queue.lock().lent_bytes, READ_BYTES_MAX);
    assert!(dispatch.here(Memory::Lease(1)).is_none());
    drop(all);
    assert_eq!(dispatch.queue.lock().lent_bytes, 0);
}

#[test]
fn a_lease_that_comes_back_starts_a_worker_when_all_others_wait() {
    let dispatch = Arc::new(Dispatch::new(2, 2));
    let (done, results) = channel();
    let (open, gate) = gate();
    let here = dispatch.here(Memory::Lease(READ_BYTES_MAX)).unwrap();
    dispatch.hand_over(Memory::None, None, waits(&gate, &done, 0));
    dispatch.hand_over(Memory::Lease(1), None, sends(&done, 1));
    drop(here);
    assert_eq!(results.recv(), Ok(1));
    drop(open);
    assert_eq!(results.recv(), Ok(0));
    dispatch.stop();
}
