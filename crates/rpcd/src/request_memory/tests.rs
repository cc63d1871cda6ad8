//! Tests of the budget: the rules of what each address may have, without any connection.

use std::net::IpAddr;

use pagewell_sunrpc::record::{LAST_FRAGMENT, Progress};

use super::*;
use crate::connection::inbox::Inbox;

const MIB: usize = 1 << 20;

fn address(last: u8) -> Address {
    Address::of(IpAddr::from([10, 0, 0, last]))
}

/// As large as it can be at once, or not at all.
fn grown(lease: &mut Lease, bytes: usize) -> bool {
    lease.grow(bytes, bytes, None).is_some()
}

#[test]
fn the_budget_holds_and_comes_back() {
    let memory = RequestBudget::new(256 << 10);
    let first = memory.taken(112 << 10);
    let second = memory.taken(128 << 10);
    let mut third = Lease::new(&memory, address(1), 1);
    assert!(!grown(&mut third, 32 << 10));
    let small = memory.uncounted(&[7; 100]);
    assert_eq!(small[..], [7; 100]);
    assert_eq!(memory.state.lock().by_address.used(), 240 << 10);
    drop(first);
    assert!(grown(&mut third, 80 << 10));
    drop(Buffer::whole(vec![0; 80 << 10], third));
    drop((second, small));
    assert_eq!(memory.state.lock().by_address.used(), 0);
    assert_eq!(
        memory.state.lock().free_bytes,
        (112 << 10) + (80 << 10) + (128 << 10)
    );
}

#[test]
fn whoever_waits_is_called_once_and_offers_are_passed_on() {
    let memory = RequestBudget::new(160 << 10);
    let inbox = Inbox::new().unwrap();
    let waker = |token| Waker::new(inbox.clone(), token);
    let lease = |token: u8| Lease::new(&memory, address(token), u64::from(token));
    let held = memory.taken(160 << 10);
    let mut waiting: Vec<Lease> = (1..=4).map(lease).collect();
    for _ in 0..10 {
        let step = 120 << 10;
        assert!(waiting[0].grow(step, step, Some(&waker(1))).is_none());
    }
    for (lease, token) in waiting[1..].iter_mut().zip(2..) {
        let step = 64 << 10;
        assert!(lease.grow(step, step, Some(&waker(token))).is_none());
    }
    assert!(memory.is_wanted());
    drop(held);
    assert_eq!(inbox.collect(), [1], "more do not fit");
    memory.pass_on(1);
    assert_eq!(inbox.collect(), [2, 3]);
    memory.pass_on(2);
    assert_eq!(inbox.collect(), [4]);
    assert!(grown(&mut waiting[2], 64 << 10) && grown(&mut waiting[3], 64 << 10));
    let mut fifth = lease(5);
    let step = 64 << 10;
    assert!(fifth.grow(step, step, Some(&waker(5))).is_none());
    memory.pass_on(5);
    for lease in waiting {
        drop(Buffer::cut_short(Vec::new(), lease));
    }
    assert!(inbox.collect().is_empty(), "it no longer waits");
    assert!(!memory.is_wanted());
}

#[test]
fn an_address_has_its_share_and_no_more() {
    let memory = RequestBudget::new(24 * MIB);
    let mut greedy: Vec<Lease> = (0..100)
        .map(|token| Lease::new(&memory, address(1), token))
        .collect();
    let given = greedy.iter_mut().map(|lease| grown(lease, MIB));
    let had = given.filter(|given| *given).count();
    assert!((18..=20).contains(&had), "{had} MiB of 24");
    let mut other = Lease::new(&memory, address(2), 200);
    assert!(grown(&mut other, MIB), "nothing is left for others");
}

/// Records that have all begun and none of which can go on: one may, then the next.
#[test]
fn one_record_goes_on_when_all_wait_for_each_other() {
    let memory = RequestBudget::new(4 * MIB);
    let inbox = Inbox::new().unwrap();
    let waker = |token| Waker::new(inbox.clone(), token);
    let mut records: Vec<Lease> = (0..16u8)
        .map(|number| Lease::new(&memory, address(number), u64::from(number)))
        .collect();
    // Each begins, and goes on for as long as it can.
    for step in [64 << 10, 128 << 10, 256 << 10, 512 << 10, MIB] {
        for (lease, token) in records.iter_mut().zip(0..) {
            lease.grow(step, MIB, Some(&waker(token)));
        }
    }
    let mut whole = 0;
    while !records.is_empty() {
        let before = records.len();
        let mut rest = Vec::new();
        for mut lease in records {
            while lease.bytes < MIB {
                let (step, token) = (MIB.min(lease.bytes * 2), lease.token);
                if lease
                    .grow(step.max(64 << 10), MIB, Some(&waker(token)))
                    .is_none()
                {
                    break;
                }
            }
            let state = memory.state.lock();
            let used = state.by_address.used() + state.first_bytes;
            drop(state);
            assert!(used <= 4 * MIB + RECORD_BYTES_MAX, "{used} bytes");
            if lease.bytes == MIB {
                whole += 1;
                drop(Buffer::whole(vec![0; MIB], lease));
            } else {
                rest.push(lease);
            }
        }
        records = rest;
        assert!(records.len() < before, "all wait for each other");
    }
    assert_eq!(whole, 16);
    assert_eq!(memory.state.lock().by_address.used(), 0);
    assert!(memory.state.lock().first.is_none());
    assert_eq!(memory.state.lock().first_bytes, 0);
}

/// What waits for the storage of one export leaves memory to those of another.
#[test]
fn an_export_whose_storage_hangs_leaves_room_for_others() {
    let memory = RequestBudget::new(24 * MIB);
    let mut held = Vec::new();
    for number in 0..100u8 {
        let mut lease = Lease::new(&memory, address(number), u64::from(number));
        lease.export = Some(7);
        if !grown(&mut lease, MIB) {
            assert!(lease.export_is_full());
            break;
        }
        held.push(Buffer::whole(vec![0; MIB], lease));
    }
    assert!((10..=13).contains(&held.len()), "{} MiB of 24", held.len());
    let mut other = Lease::new(&memory, address(200), 200);
    other.export = Some(8);
    assert!(grown(&mut other, MIB));
    held.clear();
    assert_eq!(memory.state.lock().by_export.used(), 0);
}

const RECORD_BYTES: usize = 64 << 10;

/// A record of [`RECORD_BYTES`] that has its first step, while others hold all other memory.
fn waiting(budget: &Arc<RequestBudget>, budget_bytes: usize) -> (RecordMemory, [Buffer; 2]) {
    let of = |last| Address::of(IpAddr::from([10, 0, 0, last]));
    let waker = Waker::new(Inbox::new().unwrap(), 1);
    let mut memory = RecordMemory::new(budget, of(1), waker);
    let mut assembly = Assembly::new(RECORD_BYTES);
    let next = [0; BEGINNING_BYTES];
    let mut gives = || memory.give(&mut assembly, RECORD_BYTES, true, |_| None, &next);
    assert!(gives());
    // The one that may have more than there is.
    let mut first = Lease::new(budget, of(2), 2);
    assert!(first.grow(STEP_BYTES, RECORD_BYTES, None).is_some());
    let others = budget.taken(budget_bytes - 2 * STEP_BYTES);
    assert!(first.grow(RECORD_BYTES, RECORD_BYTES, None).is_some());
    assert!(!gives());
    assert!(memory.waits);
    (memory, [others, Buffer::cut_short(Vec::new(), first)])
}

#[test]
fn a_record_that_has_come_outlives_those_it_waits_for() {
    let budget_bytes = 16 * STEP_BYTES;
    let budget = RequestBudget::new(budget_bytes);
    let (mut memory, _others) = waiting(&budget, budget_bytes);
    let after = |seconds| memory.since + Duration::from_secs(seconds);
    let (early, late, last) = (after(4), after(6), after(11));
    assert!(!memory.is_overdue(early, false, || 0), "it has some time");
    assert!(memory.is_overdue(late, false, || 100), "little has come");
    assert!(!memory.is_overdue(late, false, || RECORD_BYTES));
    assert!(memory.is_overdue(last, false, || RECORD_BYTES), "bounded");
}

#[test]
fn the_export_is_known_also_of_a_record_with_a_tiny_first_fragment() {
    let budget = RequestBudget::new(16 * STEP_BYTES);
    let waker = Waker::new(Inbox::new().unwrap(), 1);
    let mut memory = RecordMemory::new(&budget, Address::NONE, waker);
    let mut assembly = Assembly::new(RECORD_BYTES);
    let record = [7; RECORD_BYTES];
    let first = [0, 0, 0, 4, 7, 7, 7, 7];
    let second = (LAST_FRAGMENT | (RECORD_BYTES as u32 - 4)).to_be_bytes();
    let stream = [&first[..], &second, &record[4..]].concat();
    let mut rest = stream.as_slice();
    loop {
        let (taken, progress) = assembly.take(rest);
        rest = &rest[taken..];
        let Progress::NeedsBuffer(bytes) = progress else {
            break assert_eq!(progress, Progress::Whole);
        };
        let export_of = |beginning: &[u8]| {
            let is_long_enough = beginning.len() >= BEGINNING_BYTES;
            (is_long_enough && record.starts_with(beginning)).then_some(9)
        };
        let next = &rest[..rest.len().min(100)];
        assert!(memory.give(&mut assembly, bytes, true, export_of, next));
    }
    assert_eq!(memory.lease.export, Some(9));
}
