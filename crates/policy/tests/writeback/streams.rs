//! Write-behind: for a first sequential write, and for nothing else.

use std::collections::VecDeque;
use std::time::Duration;

use pagewell_policy::writeback::{Admission, Settings, TagState, WriteBack};

use crate::reasons::{MIB, PAGE, delayed, drain, extent, seconds};

/// Writes pieces one after the other, and lets the flusher work.
fn copy(policy: &mut WriteBack, start: u64, end: u64, piece: u64, now: Duration) -> u64 {
    let before = policy.counts().behind_writes;
    for offset in (start..end).step_by(piece as usize) {
        policy.wrote(extent(offset, piece), now);
        drain(policy, now);
    }
    policy.counts().behind_writes - before
}

#[test]
fn a_first_sequential_write_is_written_behind_in_whole_writes() {
    for piece in [4096, 10_000, PAGE, MIB] {
        let mut policy = delayed();
        let end = 32 * MIB / piece * piece;
        let writes = copy(&mut policy, 0, end, piece, seconds(1));
        assert!((30..=32).contains(&writes), "{piece}: {writes}");
        assert!(policy.dirty_bytes() <= 2 * MIB, "{piece}");
        assert_eq!(policy.counts().streams, 1);
    }
}

#[test]
fn where_it_is_not_wanted_nothing_is_written_behind() {
    let mut policy = WriteBack::new(Settings {
        writes_early: false,
        ..Settings::new(1 << 30)
    });
    assert_eq!(copy(&mut policy, 0, 32 * MIB, MIB, seconds(1)), 0);
    assert_eq!(policy.dirty_bytes(), 32 * MIB);
    // What is old is written all the same.
    assert!(!drain(&mut policy, seconds(60)).is_empty());
}

#[test]
fn where_it_is_not_wanted_nothing_is_written_before_writers_are_slowed() {
    let mut policy = WriteBack::new(Settings {
        writes_early: false,
        ..Settings::new(64 * MIB)
    });
    let free_run = 48 * MIB;
    assert_eq!(policy.limits().free_run_bytes, free_run);
    copy(&mut policy, 0, free_run, MIB, seconds(1));
    assert_eq!(policy.counts().writes, 0);
    copy(&mut policy, free_run, free_run + MIB, MIB, seconds(1));
    assert_eq!(policy.counts().background_writes, 1);
}

#[test]
fn a_refused_writer_finds_a_write_however_little_room_there_is() {
    for bytes in (PAGE / 2..20 * PAGE).step_by(5000) {
        let mut policy = WriteBack::new(Settings {
            writes_early: false,
            ..Settings::new(bytes)
        });
        let is_refused = (0..40).any(|page| {
            let extent = extent(page * PAGE, PAGE);
            let is_refused = policy.admit(extent, true, seconds(1)) == Admission::Refused;
            if !is_refused {
                policy.wrote(extent, seconds(1));
            }
            is_refused
        });
        assert!(is_refused && policy.next(seconds(1)).is_some(), "{bytes}");
    }
}

#[test]
fn a_commit_after_a_copy_finds_little_that_is_not_written() {
    const PAGES: u64 = 1024;
    let mut policy = delayed();
    let mut now = seconds(1);
    let mut device = VecDeque::new();
    let mut free = now;
    let mut tag = None;
    // A page comes each millisecond, and takes as long at the device.
    for page in 0..3 * PAGES {
        while device.front().is_some_and(|(_, end)| *end <= now) {
            let (id, _) = device.pop_front().unwrap();
            policy.finished(id, true, now);
        }
        if page < PAGES {
            policy.wrote(extent(page * PAGE, PAGE), now);
        }
        if page == PAGES {
            tag = Some(policy.tag(extent(0, PAGES * PAGE), now));
        } else if tag.is_some_and(|tag| policy.tag_state(tag) == TagState::Written) {
            assert!(page - PAGES < 64, "the commit took {} ms", page - PAGES);
            return;
        }
        while let Some(write) = policy.next(now) {
            let time = Duration::from_millis(write.extent.length.div_ceil(PAGE));
            free = free.max(now) + time;
            device.push_back((write.id, free));
        }
        now += Duration::from_millis(1);
    }
    panic!("the commit did not end");
}

#[test]
fn two_calls_prove_nothing() {
    let mut policy = delayed();
    assert_eq!(copy(&mut policy, 0, 8 * MIB, 4 * MIB, seconds(1)), 0);
    assert_eq!(
        copy(&mut policy, 8 * MIB, 12 * MIB, 4 * MIB, seconds(1)),
        12
    );
}

#[test]
fn a_second_pass_is_not_written_behind_within_the_expiry_time() {
    let mut policy = delayed();
    assert_eq!(copy(&mut policy, 0, 8 * MIB, PAGE, seconds(1)), 8);
    assert_eq!(copy(&mut policy, 0, 8 * MIB, PAGE, seconds(3)), 0);
    assert_eq!(policy.dirty_bytes(), 8 * MIB);
    assert!(policy.counts().behind_spared_pages >= 100);
    drain(&mut policy, seconds(100));
    // Long after, it is a first one again.
    assert_eq!(copy(&mut policy, 0, 8 * MIB, PAGE, seconds(300)), 8);
}

#[test]
fn rewritten_pages_are_not_written_behind() {
    let mut policy = delayed();
    for page in 0..64 {
        for _ in 0..2 {
            policy.wrote(extent(page * PAGE, PAGE), seconds(1));
        }
    }
    assert!(drain(&mut policy, seconds(1)).is_empty());
}

#[test]
fn scattered_writes_are_not_written_behind() {
    let mut policy = delayed();
    for number in 0..2000 {
        let offset = number * 7919 % 4096 * 4096;
        policy.wrote(extent(offset, 4096), seconds(1));
    }
    assert_eq!(drain(&mut policy, seconds(1)).len(), 0);
}

#[test]
fn requests_that_overtake_each_other_are_one_stream() {
    let mut policy = delayed();
    let mut writes = 0;
    for group in 0..32 {
        // Eight pieces of 128 KiB, as eight threads send them.
        for place in [3, 0, 5, 1, 2, 7, 4, 6] {
            let offset = (group * 8 + place) * 2 * PAGE;
            policy.wrote(extent(offset, 2 * PAGE), seconds(1));
            writes += drain(&mut policy, seconds(1)).len();
        }
    }
    assert!((28..=33).contains(&writes), "{writes}");
    assert_eq!(policy.counts().streams, 1);
}

#[test]
fn several_streams_in_one_file() {
    let mut policy = delayed();
    for step in 0..128 {
        for stream in 0..4 {
            let offset = (stream << 30) + step * PAGE;
            policy.wrote(extent(offset, PAGE), seconds(1));
            drain(&mut policy, seconds(1));
        }
    }
    let counts = policy.counts();
    assert_eq!((counts.streams, counts.behind_writes), (4, 32));
}

#[test]
fn a_hole_is_left_behind_after_a_while() {
    let mut policy = delayed();
    copy(&mut policy, 0, 2 * MIB, PAGE, seconds(1));
    policy.wrote(extent(2 * MIB, 100), seconds(1));
    let writes = copy(&mut policy, 2 * MIB + PAGE, 40 * MIB, PAGE, seconds(1));
    assert!(writes >= 35, "{writes}");
    assert_eq!(policy.counts().behind_skipped_pages, 1);
}

#[test]
fn writes_in_random_order_are_not_followed_over_what_others_wrote() {
    let mut policy = delayed();
    let mut order: Vec<u64> = (0..256 * MIB / 4096).collect();
    let mut state = 1_u64;
    for last in (1..order.len()).rev() {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        order.swap(last, (state >> 33) as usize % (last + 1));
    }
    for block in &order {
        policy.wrote(extent(block * 4096, 4096), seconds(1));
    }
    let blocks = order.len() as u64;
    let counts = policy.counts();
    assert!(counts.sequential > blocks / 10, "{counts:?}");
    assert!(counts.behind_looked_pages < counts.sequential, "{counts:?}");
}
