use std::sync::mpsc;

use super::*;
use crate::{Fault, Pattern, Rule};
use pagewell_device::testing::{flush, write, write_durable};
use pagewell_device::{Buffer, RamDevice};
use rustix::io::Errno;

fn submit(device: &dyn Device, offset: u64, length: usize, issuer: Issuer, operation: Operation) {
    let (sender, receiver) = mpsc::channel();
    device.submit(Request::owned(
        operation,
        offset,
        Buffer::new(length, 512),
        issuer,
        move |_, _| sender.send(()).unwrap(),
    ));
    receiver.recv().unwrap();
}

fn read(device: &dyn Device, offset: u64, length: usize, issuer: Issuer) {
    submit(device, offset, length, issuer, Operation::Read);
}

#[test]
fn many_threads_add_up_and_issuers_stay_apart() {
    let stats = Stats::new(Arc::new(Pattern::new(1 << 40, 1)));
    std::thread::scope(|scope| {
        for thread in 0..8usize {
            let stats = &stats;
            scope.spawn(move || {
                let issuer = Issuer::ALL[thread % 4];
                for index in 0..500 {
                    read(stats, index * 4096, 2048 * (thread % 4 + 1), issuer);
                }
            });
        }
    });
    let snapshot = stats.snapshot();
    assert_eq!(snapshot.requests(), 4000);
    assert_eq!(snapshot.bytes(), 1000 * 2048 * (1 + 2 + 3 + 4));
    for (issuer, floor) in Issuer::ALL.into_iter().zip([2048, 4096, 6144, 8192]) {
        let sizes = snapshot.sizes(Some(issuer));
        assert_eq!(
            (sizes.between(floor, floor + 2048), sizes.total()),
            (1000, 1000)
        );
        let requests: u64 = snapshot.of(issuer).map(|flow| flow.requests).sum();
        assert_eq!(requests, 1000);
    }
    assert_eq!(snapshot.sizes(None).total(), 4000);
}

#[test]
fn places_of_the_first_requests_are_kept_in_their_order() {
    let stats = Stats::new(Arc::new(Pattern::new(1 << 30, 1)));
    read(&stats, 8192, 4096, Issuer::Reader);
    let before = stats.snapshot();
    let later = [(0, 2048), (1 << 20, 512)];
    for (offset, length) in later {
        read(&stats, offset, length, Issuer::ReadAhead);
    }
    assert_eq!(before.places, [(8192, 4096)]);
    assert_eq!(stats.snapshot().difference(&before).places, later);
    for _ in 0..queue::PLACES_MAX {
        read(&stats, 0, 512, Issuer::Reader);
    }
    let all = stats.snapshot();
    assert_eq!(all.places.len(), queue::PLACES_MAX);
    assert_eq!(all.difference(&all).places, []);
}

#[test]
fn a_difference_has_only_what_came_between() {
    let stats = Stats::new(Arc::new(Pattern::new(1 << 30, 1)));
    read(&stats, 0, 4096, Issuer::Reader);
    let before = stats.snapshot();
    read(&stats, 4096, 4096, Issuer::ReadAhead);
    read(&stats, 8192, 4096, Issuer::ReadAhead);
    read(&stats, 0, 4096, Issuer::ReadAhead);
    submit(&stats, 1 << 20, 512, Issuer::Flusher, Operation::Write);
    let between = stats.snapshot().difference(&before);
    assert_eq!((between.requests(), between.bytes()), (4, 3 * 4096));
    assert_eq!(
        between
            .of(Issuer::Reader)
            .map(|flow| flow.requests)
            .sum::<u64>(),
        0
    );
    assert_eq!(between.backward, 1);
    assert_eq!(between.difference(&between).requests(), 0);
}

#[test]
fn what_is_outstanding_is_seen() {
    let pattern = Arc::new(Pattern::new(1 << 30, 1));
    let rules = [
        Rule::stall().within(0..4096),
        Rule::error(Errno::IO).within(8192..u64::MAX),
    ];
    let fault = Fault::new(pattern, rules).unwrap();
    let handle = fault.handle();
    let stats = Stats::new(Arc::new(fault));
    let (sender, receiver) = mpsc::channel();
    for offset in [0, 512, 1024] {
        let sender = sender.clone();
        let buffer = Buffer::new(512, 512);
        let done = move |_, _| sender.send(()).unwrap();
        let request = Request::owned(Operation::Read, offset, buffer, Issuer::Reader, done);
        stats.submit(request);
    }
    read(&stats, 8000, 1000, Issuer::Metadata);
    let snapshot = stats.snapshot();
    assert_eq!(snapshot.bytes(), 192);
    assert!(snapshot.outstanding_mean() > 0.0);
    handle.release();
    (0..3).for_each(|_| receiver.recv().unwrap());
    assert_eq!(stats.snapshot().bytes(), 192 + 3 * 512);
}

#[test]
fn reads_writes_and_flushes_stay_apart() {
    let rules = [
        Rule::error(Errno::IO).of(Operation::Flush).after(2),
        Rule::error(Errno::NOSPC).within(1 << 20..u64::MAX),
    ];
    let ram = Arc::new(RamDevice::new("ram", 2 << 20));
    let fault = Fault::new(ram, rules).unwrap();
    let stats = Stats::new(Arc::new(fault));
    assert_eq!(write(&stats, 0, &[1; 4096]).result, Ok(()));
    let before = stats.snapshot();
    assert_eq!(write_durable(&stats, 4096, &[1; 4096]).result, Ok(()));
    assert_eq!(flush(&stats).result, Ok(()));
    assert_eq!(write_durable(&stats, 8192, &[1; 4096]).result, Ok(()));
    assert!(write(&stats, 1 << 20, &[1; 512]).result.is_err());
    read(&stats, 0, 4096, Issuer::Reader);
    assert_eq!(flush(&stats).result, Ok(()));
    let error = flush(&stats).result.unwrap_err().to_string();
    assert!(error.contains("ram: at byte 0"), "{error}");
    let between = stats.snapshot().difference(&before);
    let counts = [Operation::Read, Operation::Write, Operation::Flush].map(|it| between.count(it));
    assert_eq!(counts, [1, 3, 3]);
    assert_eq!((between.requests(), between.durable()), (4, 2));
    assert_eq!(between.bytes(), 3 * 4096);
    assert_eq!(between.sizes(None).total(), 4);
    // The flushes do not make the writes around them look scattered.
    assert_eq!(between.backward, 1);
    let flushes = between.of(Issuer::Flusher);
    let flushes: Vec<_> = flushes.filter(|flow| flow.requests > 0).collect();
    assert_eq!(flushes.len(), 1);
    assert_eq!(flushes[0].requests, 3);
}
