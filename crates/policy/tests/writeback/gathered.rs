//! What gathers in pages with gaps beside a client that commits a little at a time.

use std::time::Duration;

use pagewell_policy::writeback::{Admission, Settings, TagState, Write, WriteBack};

use crate::reasons::{MIB, PAGE, extent};

/// Where the log lies.
const LOG: u64 = 1 << 40;
const ROUND_TRIP: Duration = Duration::from_millis(10);

/// As the cache of a mount of a far server, with this part of its room dirty in pages with gaps.
fn gathered(part: f64) -> WriteBack {
    let mut policy = WriteBack::new(Settings {
        device_time_max: Duration::from_secs(6),
        ..Settings::new(4 << 30)
    });
    let pages = (policy.limits().hard_bytes as f64 * part) as u64 / PAGE;
    for page in 0..pages {
        policy.wrote(extent(page * PAGE, 4096), Duration::from_secs(1));
    }
    assert!(policy.dirty_memory_bytes() > policy.limits().background_bytes);
    policy
}

/// A page of the log is written and committed, in one round trip.
fn commit(policy: &mut WriteBack, number: u64, now: Duration) -> Write {
    let page = extent(LOG + number * PAGE, PAGE);
    assert_eq!(policy.admit(page, true, now), Admission::Granted);
    policy.wrote(page, now);
    let tag = policy.tag(page, now);
    let write = policy.next(now).unwrap();
    assert_eq!(write.extent, page);
    assert_eq!(policy.next(now), None, "nothing with gaps");
    policy.finished(write.id, true, now + ROUND_TRIP);
    assert_eq!(policy.tag_state(tag), TagState::Written);
    write
}

/// A device that waits for its client is not slow.
#[test]
fn commits_one_after_the_other_do_not_throw_out_what_gathers() {
    let mut policy = gathered(0.6);
    let (limits, dirty) = (policy.limits(), policy.dirty_memory_bytes());
    let mut now = Duration::from_secs(1);
    for number in 0..2500 {
        commit(&mut policy, number, now);
        now += ROUND_TRIP;
    }
    let counts = policy.counts();
    assert_eq!(policy.limits(), limits, "{counts:?}");
    assert_eq!(policy.dirty_memory_bytes(), dirty);
    assert_eq!((counts.writes, counts.tagged_writes), (2500, 2500));
    assert!(counts.bandwidth_steps > 100);
    assert_eq!(counts.bandwidth_steps_idle, counts.bandwidth_steps);
}

/// One that has as much to do as it can is.
#[test]
fn a_slow_device_with_whole_pages_to_write_is_found_out() {
    let mut policy = gathered(0.6);
    let before = policy.limits().bandwidth;
    let mut now = Duration::from_secs(1);
    // From the end, so that no stream is followed.
    for page in (0..100 * MIB / PAGE).rev() {
        policy.wrote(extent(LOG + page * PAGE, PAGE), now);
    }
    for _ in 0..400 {
        let Some(write) = policy.next(now) else {
            break;
        };
        now += Duration::from_millis(100);
        policy.finished(write.id, true, now);
    }
    assert!(
        policy.limits().bandwidth < before / 4,
        "{:?}",
        policy.limits()
    );
}
