//! Each reason to write, each reason not to, and the turns of tags.

use std::time::Duration;

use pagewell_policy::writeback::{
    Admission, Extent, Settings, TagState, Urgency, Write, WriteBack,
};

pub(crate) const PAGE: u64 = 64 << 10;
pub(crate) const MIB: u64 = 1 << 20;
pub(crate) const EVERYTHING: Extent = Extent {
    offset: 0,
    length: u64::MAX,
};

pub(crate) fn extent(offset: u64, length: u64) -> Extent {
    Extent { offset, length }
}

pub(crate) fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub(crate) fn delayed() -> WriteBack {
    WriteBack::new(Settings::new(1 << 30))
}

/// Writes one after the other until nothing is due, and says what was written.
pub(crate) fn drain(policy: &mut WriteBack, now: Duration) -> Vec<Write> {
    let mut writes = Vec::new();
    while let Some(write) = policy.next(now) {
        policy.finished(write.id, true, now);
        writes.push(write);
    }
    writes
}

/// Dirties the first 4 KiB of a page, so that nothing is adjacent.
fn touch(policy: &mut WriteBack, page: u64, now: Duration) -> Urgency {
    policy.wrote(extent(page * PAGE, 4096), now)
}

/// Where another file lies.
const OTHER: u64 = 1 << 40;

#[test]
fn expired_pages_are_written_at_the_tick_in_ascending_order_and_older_ones_go_along() {
    let mut policy = delayed();
    touch(&mut policy, 9, seconds(1));
    touch(&mut policy, 3, seconds(19));
    touch(&mut policy, 5, seconds(21));
    touch(&mut policy, 9, seconds(30));
    assert_eq!(policy.next(seconds(34)), None);
    assert_eq!(policy.next_at(seconds(34)), Some(seconds(35)));
    let pages = drain(&mut policy, seconds(35));
    let pages: Vec<u64> = pages
        .iter()
        .map(|write| write.extent.offset / PAGE)
        .collect();
    assert_eq!(pages, [3, 9], "5 is younger than half of the time");
    assert_eq!(policy.next_at(seconds(35)), Some(seconds(55)));
    assert_eq!(policy.counts().expired_writes, 2);
}

/// Dirties a whole page, of which nobody can say that it is written sequentially.
fn fill(policy: &mut WriteBack, page: u64, now: Duration) -> Urgency {
    policy.wrote(extent(page * PAGE + PAGE / 2, PAGE / 2), now);
    policy.wrote(extent(page * PAGE, PAGE / 2 + 1), now)
}

#[test]
fn above_the_background_limit_writing_begins_and_ends_there() {
    let mut policy = delayed();
    let background = policy.limits().background_bytes / PAGE;
    for page in 0..background {
        assert_eq!(fill(&mut policy, 2 * page, seconds(1)), Urgency::Later);
    }
    assert_eq!(policy.next(seconds(1)), None);
    assert_eq!(fill(&mut policy, 2 * background, seconds(1)), Urgency::Now);
    assert_eq!(drain(&mut policy, seconds(1)).len(), 1);
    assert_eq!(policy.dirty_pages(), background);
    assert_eq!(policy.counts().background_writes, 1);
    // The next goes on from there.
    fill(&mut policy, 0, seconds(1));
    fill(&mut policy, 1, seconds(1));
    let next = drain(&mut policy, seconds(1));
    let next: Vec<u64> = next.iter().map(|write| write.extent.offset).collect();
    assert_eq!(
        next,
        [PAGE],
        "page 0, just written, is not next; 1 and 2 are one write"
    );
}

#[test]
fn pages_with_gaps_are_written_from_seven_eighths_to_half_way_back() {
    let mut policy = delayed();
    let limits = policy.limits();
    let thin = limits.thin_bytes / PAGE;
    assert_eq!(thin, limits.hard_bytes / PAGE / 8 * 7);
    for page in 0..thin {
        assert_eq!(touch(&mut policy, page, seconds(1)), Urgency::Later);
    }
    assert_eq!(policy.next(seconds(1)), None);
    assert_eq!(touch(&mut policy, thin, seconds(1)), Urgency::Now);
    let low = limits.background_bytes.midpoint(limits.thin_bytes) / PAGE;
    assert_eq!(drain(&mut policy, seconds(1)).len() as u64, thin + 1 - low);
    assert_eq!(policy.dirty_pages(), low);
    // Not again before all of the room is used.
    assert_eq!(touch(&mut policy, 2 * thin, seconds(1)), Urgency::Later);
}

#[test]
fn whole_pages_go_first_then_those_that_cost_one_write_then_the_others() {
    let mut policy = delayed();
    let now = seconds(1);
    let thin = policy.limits().thin_bytes / PAGE;
    for page in 0..thin {
        match page % 4 {
            0 => {
                policy.wrote(extent(page * PAGE + 8192, 4096), now);
                policy.wrote(extent(page * PAGE + 16384, 4096), now);
            }
            1 => {
                touch(&mut policy, page, now);
                touch(&mut policy, page, now);
            }
            2 => {
                touch(&mut policy, page, now);
            }
            _ => {
                fill(&mut policy, page, now);
            }
        }
    }
    let mut kinds = Vec::new();
    let mut page = thin;
    // As many as there are: what is written is replaced by pages with two ranges, which are last.
    while kinds.len() as u64 <= thin / 2 {
        policy.wrote(extent(4 * page * PAGE, 4096), now);
        policy.wrote(extent(4 * page * PAGE + 8192, 4096), now);
        page += 1;
        let writes = drain(&mut policy, now);
        kinds.extend(writes.iter().map(|write| write.extent.offset / PAGE % 4));
    }
    let wholes = (thin / 4) as usize;
    assert!(kinds[..wholes].iter().all(|kind| *kind == 3));
    assert!(kinds[wholes..2 * wholes].iter().all(|kind| *kind == 2));
    assert!(kinds[2 * wholes..].iter().all(|kind| *kind < 2));
}

#[test]
fn a_write_of_whole_pages_takes_along_what_touches_them() {
    let mut policy = delayed();
    let now = seconds(1);
    let pages = policy.limits().background_bytes / PAGE;
    for page in (10..10 + pages).rev() {
        fill(&mut policy, page, now);
    }
    policy.wrote(extent(10 * PAGE - 100, 100), now);
    policy.wrote(extent(10 * PAGE - 300, 100), now);
    let write = policy.next(now).unwrap();
    assert_eq!(write.extent.offset, 10 * PAGE - 100);
    // What is under write-out is left alone.
    policy.wrote(extent(0, PAGE - 100), now);
    let tag = policy.tag(extent(0, PAGE), now);
    let first = policy.next(now).unwrap();
    assert_eq!(first.extent, extent(0, PAGE - 100));
    assert_eq!(policy.tag_state(tag), TagState::Pending);
}

#[test]
fn adjacent_pages_are_one_write_of_the_length_the_device_likes() {
    let mut policy = delayed();
    for page in (0..40).rev() {
        policy.wrote(extent(100 + page * PAGE, PAGE), seconds(1));
    }
    let tag = policy.tag(EVERYTHING, seconds(1));
    let writes = drain(&mut policy, seconds(1));
    let extents: Vec<Extent> = writes.iter().map(|write| write.extent).collect();
    let rest = 40 * PAGE - 2 * MIB;
    assert_eq!(
        extents,
        [
            extent(100, MIB),
            extent(100 + MIB, MIB),
            extent(100 + 2 * MIB, rest)
        ]
    );
    assert_eq!(policy.tag_state(tag), TagState::Written);
}

#[test]
fn background_writes_grow_over_adjacent_pages() {
    let mut policy = delayed();
    let pages = policy.limits().background_bytes / PAGE + 1;
    // From the end, which no stream follows.
    for page in (0..pages).rev() {
        policy.wrote(extent(page * PAGE, PAGE), seconds(1));
        policy.wrote(extent(page * PAGE, 1), seconds(1));
    }
    let write = policy.next(seconds(1)).unwrap();
    assert_eq!(write.extent, extent(0, MIB));
}

#[test]
fn so_much_is_under_write_out_and_no_more_until_two_thirds() {
    let mut policy = delayed();
    policy.wrote(extent(0, 64 * MIB), seconds(1));
    policy.tag(EVERYTHING, seconds(1));
    let mut writes = Vec::new();
    while let Some(write) = policy.next(seconds(1)) {
        writes.push(write);
    }
    assert_eq!((writes.len(), policy.flight_bytes()), (16, 16 * MIB));
    assert_eq!(policy.next_at(seconds(1)), None);
    for write in &writes[..5] {
        policy.finished(write.id, true, seconds(1));
        assert_eq!(policy.next(seconds(1)), None);
    }
    policy.finished(writes[5].id, true, seconds(1));
    assert!(policy.next(seconds(1)).is_some());
    assert_eq!(policy.counts().flight_stops, 1);
}

#[test]
fn the_end_of_a_write_says_that_more_may_go() {
    let mut settings = Settings::new(1 << 30);
    settings.flight_bytes_max = MIB;
    let mut policy = WriteBack::new(settings);
    policy.wrote(extent(0, 8 * MIB), seconds(1));
    policy.tag(EVERYTHING, seconds(1));
    let mut last = None;
    while let Some(write) = policy.next(seconds(1)) {
        last = Some(write);
    }
    assert_eq!(policy.next_at(seconds(1)), None);
    policy.finished(last.unwrap().id, true, seconds(1));
    // Nobody has asked for more in between.
    assert_eq!(policy.next_at(seconds(1)), Some(seconds(1)));
}

#[test]
fn failed_bytes_wait_a_second_then_two_up_to_thirty() {
    let mut policy = delayed();
    let mut now = seconds(100);
    touch(&mut policy, 0, now);
    let tag = policy.tag(EVERYTHING, now);
    let mut write = policy.next(now).unwrap();
    for wait in [1, 2, 4, 8, 16, 30, 30] {
        policy.finished(write.id, false, now);
        assert!(policy.is_dirty(EVERYTHING));
        assert_eq!(policy.next(now), None);
        assert_eq!(policy.next_at(now), Some(now + seconds(wait)));
        now += seconds(wait);
        write = policy.next(now).unwrap();
    }
    assert_eq!(policy.tag_state(tag), TagState::Failed);
    policy.finished(write.id, true, now);
    // A success makes the next failure a first one.
    touch(&mut policy, 0, now);
    policy.tag(EVERYTHING, now);
    let write = policy.next(now).unwrap();
    policy.finished(write.id, false, now);
    assert_eq!(policy.next_at(now), Some(now + seconds(1)));
    assert_eq!(policy.counts().retry_writes, 7);
}

#[test]
fn a_commit_does_not_wait_for_the_end_of_a_pause_and_others_go_on() {
    let mut policy = delayed();
    let now = seconds(1);
    touch(&mut policy, 0, now);
    policy.tag(EVERYTHING, now);
    let write = policy.next(now).unwrap();
    policy.finished(write.id, false, now);
    touch(&mut policy, OTHER / PAGE, now);
    let others = policy.tag(extent(OTHER, PAGE), now);
    assert_eq!(drain(&mut policy, now).len(), 1);
    assert_eq!(policy.tag_state(others), TagState::Written);
    let again = policy.tag(EVERYTHING, now);
    assert_eq!(drain(&mut policy, now).len(), 1);
    assert_eq!(policy.tag_state(again), TagState::Written);
    assert_eq!(policy.next_at(now), None);
}

#[test]
fn a_tag_ends_while_its_bytes_are_written_again_and_again() {
    let mut policy = delayed();
    let now = seconds(1);
    policy.wrote(extent(0, 8 * MIB), now);
    let tag = policy.tag(EVERYTHING, now);
    let mut writes = 0;
    while policy.tag_state(tag) == TagState::Pending {
        let write = policy.next(now).unwrap();
        policy.wrote(extent(0, 9 * MIB), now);
        policy.finished(write.id, true, now);
        policy.wrote(extent(0, 9 * MIB), now);
        writes += 1;
        assert!(writes <= 8, "a sync without end");
    }
    assert_eq!(writes, 8);
    assert_eq!(policy.dirty_bytes(), 9 * MIB);
}

#[test]
fn endless_commits_starve_nobody() {
    let mut policy = delayed();
    let pages = policy.limits().hard_bytes / PAGE + 1000;
    for page in 0..pages {
        touch(&mut policy, OTHER / PAGE + 2 * page, seconds(1));
    }
    let mut others = 0;
    for round in 0..400 {
        policy.wrote(extent(0, MIB), seconds(1));
        policy.tag(extent(0, MIB), seconds(1));
        let write = policy.next(seconds(1)).unwrap();
        others += u64::from(write.extent.offset >= OTHER);
        policy.finished(write.id, true, seconds(1));
        assert!(others > 0 || round < 50);
    }
    assert!(others >= 10, "{others}");
    assert_eq!(policy.counts().tags_yielded, others);
}

#[test]
fn tags_take_turns() {
    let mut policy = delayed();
    let now = seconds(1);
    policy.wrote(extent(0, 15 * MIB), now);
    policy.wrote(extent(OTHER, 4096), now);
    policy.tag(extent(0, 15 * MIB), now);
    policy.tag(extent(OTHER, 4096), now);
    let files: Vec<u64> = drain(&mut policy, now)
        .iter()
        .map(|write| write.extent.offset / OTHER)
        .collect();
    assert_eq!(files[..3], [0, 1, 0]);
    assert_eq!(files.len(), 16);
}

#[test]
fn at_the_hard_limit_writers_are_refused_and_rewriting_is_free() {
    let settings = Settings::new(16 * PAGE);
    let mut policy = WriteBack::new(settings);
    let now = seconds(1);
    let (mut page, mut pauses) = (0, 0);
    loop {
        match policy.admit(extent(page * PAGE, 4096), true, now) {
            Admission::Granted => (),
            Admission::Paused(pause) => {
                assert!(pause <= Duration::from_millis(200));
                pauses += 1;
            }
            refused => {
                assert_eq!(refused, Admission::Refused);
                break;
            }
        }
        touch(&mut policy, page, now);
        page += 1;
    }
    assert_eq!((page, policy.dirty_memory_bytes()), (16, 16 * PAGE));
    assert!(pauses > 0);
    assert_eq!(policy.admit(extent(0, PAGE), true, now), Admission::Granted);
    let write = policy.next(now).unwrap();
    policy.finished(write.id, true, now);
    assert_ne!(
        policy.admit(extent(99 * PAGE, 1), true, now),
        Admission::Refused
    );
}

#[test]
fn one_who_may_not_pause_is_charged_only_when_he_is_let_in() {
    let now = seconds(1);
    let paused = |tries: u32| {
        let mut policy = delayed();
        let pages = policy.limits().setpoint_bytes / PAGE;
        for page in 0..pages {
            touch(&mut policy, page, now);
        }
        let new = extent(pages * PAGE, 4 * MIB);
        for _ in 0..tries {
            let told = policy.admit(new, false, now);
            assert!(matches!(told, Admission::Paused(_)), "{told:?}");
        }
        assert_eq!(policy.counts().would_pause, u64::from(tries));
        policy.admit(new, true, now)
    };
    assert!(matches!(paused(0), Admission::Paused(_)));
    assert_eq!(paused(10), paused(0));
}

#[test]
fn what_is_forgotten_is_not_written_and_its_tags_fail() {
    let mut policy = delayed();
    let now = seconds(1);
    policy.wrote(extent(0, 2 * MIB), now);
    let tag = policy.tag(EVERYTHING, now);
    let write = policy.next(now).unwrap();
    assert_eq!(policy.forget(), 2 * MIB);
    assert_eq!(policy.tag_state(tag), TagState::Failed);
    assert_eq!((policy.next(now), policy.dirty_pages()), (None, 0));
    // What is under write-out is waited for all the same, should the bytes come again.
    policy.wrote(extent(0, 10), now);
    policy.tag(EVERYTHING, now);
    assert_eq!(policy.next(now), None);
    policy.finished(write.id, false, now);
    assert_eq!(policy.next(now).unwrap().extent, extent(0, 10));
}
