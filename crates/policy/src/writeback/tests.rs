use std::time::Duration;

use super::*;

fn extent(offset: u64, length: u64) -> Extent {
    Extent { offset, length }
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn everything() -> Extent {
    extent(0, u64::MAX)
}

fn drain(policy: &mut WriteBack, now: Duration) -> Vec<Write> {
    std::iter::from_fn(|| policy.next(now)).collect()
}

#[test]
fn a_page_is_written_from_its_beginning_when_all_was_clean() {
    let mut policy = WriteBack::new(Settings::new(1 << 30));
    let page = extent(65_536, 65_536);
    policy.wrote(extent(page.offset, 4096), seconds(1));
    let first = drain(&mut policy, seconds(40));
    assert_eq!(first.len(), 1);
    policy.finished(first[0].id, true, seconds(40));
    policy.wrote(page, seconds(41));
    let second = drain(&mut policy, seconds(80));
    assert_eq!(second.len(), 1, "{second:?}");
    assert_eq!(second[0].extent, page);
}

#[test]
fn a_tag_that_is_taken_back_asks_for_nothing() {
    let mut policy = WriteBack::new(Settings::new(1 << 30));
    let now = seconds(1);
    policy.wrote(extent(0, 8192), now);
    let tags = [0, 1].map(|_| policy.tag(everything(), now));
    policy.untag(tags[0]);
    assert_eq!(policy.tag_left(tags[0]), (0, 0));
    let write = policy.next(now).unwrap();
    policy.untag(tags[1]);
    policy.finished(write.id, false, now);
    assert_eq!(policy.next(now), None);
    let ended = policy.tag(extent(0, 0), now);
    policy.untag(ended);
    assert_eq!(policy.tag_state(ended), TagState::Failed);
    assert!(
        tags.iter()
            .all(|tag| policy.tag_state(*tag) == TagState::Failed)
    );
}

#[test]
fn delayed_bytes_stay_until_they_are_tagged_and_adjacent_ones_are_one_write() {
    let mut policy = WriteBack::new(Settings::new(1 << 30));
    let now = seconds(1);
    for block in [0, 5, 2, 7, 4, 1, 6, 3, 0, 5] {
        let bytes = extent(block * 8192, 8192);
        assert_eq!(policy.admit(bytes, true, now), Admission::Granted);
        assert_eq!(policy.wrote(bytes, now), Urgency::Later);
    }
    assert_eq!(policy.next(now), None);
    assert_eq!(policy.next_at(now), Some(seconds(35)));
    assert_eq!(
        policy.dirty_in(everything()).collect::<Vec<_>>(),
        [extent(0, 65_536)]
    );
    let tag = policy.tag(everything(), now);
    assert_eq!(policy.tag_state(tag), TagState::Pending);
    let writes = drain(&mut policy, now);
    assert_eq!(writes.len(), 1);
    assert_eq!(writes[0].extent, extent(0, 65_536));
    assert!(policy.is_dirty(extent(8192, 1)));
    policy.finished(writes[0].id, true, now);
    assert_eq!(policy.tag_state(tag), TagState::Written);
    assert_eq!(policy.tag_state(tag), TagState::Failed, "forgotten");
    assert!(!policy.is_dirty(everything()));
    assert_eq!((policy.dirty_pages(), policy.dirty_bytes()), (0, 0));
    let counts = policy.counts();
    assert_eq!(
        (counts.tagged_writes, counts.rewritten_bytes),
        (1, 2 * 8192)
    );
}

#[test]
fn what_was_discarded_under_write_out_is_not_lost_when_all_is_forgotten() {
    let mut policy = policy_of(100);
    policy.wrote(extent(0, 2 * PAGE), NOW);
    policy.tag(everything(), NOW);
    let write = policy.next(NOW).unwrap();
    assert_eq!(write.extent, extent(0, 2 * PAGE));
    assert_eq!(policy.discard(extent(PAGE, PAGE)), PAGE);
    assert_eq!(policy.forget(), PAGE);
    assert_eq!(policy.counts().forgotten_bytes, PAGE);
    policy.finished(write.id, false, NOW);
    assert!(!policy.is_dirty(everything()));
}

#[test]
fn bytes_under_write_out_may_become_dirty_again() {
    let mut policy = WriteBack::new(Settings::new(1 << 30));
    let now = seconds(1);
    policy.wrote(extent(0, 8192), now);
    let first = policy.tag(everything(), now);
    let write = policy.next(now).unwrap();
    policy.wrote(extent(4096, 100), now);
    let second = policy.tag(everything(), now);
    assert_eq!(policy.next(now), None, "under write-out");
    policy.finished(write.id, true, now);
    assert_eq!(policy.tag_state(first), TagState::Written);
    assert_eq!(policy.tag_state(second), TagState::Pending);
    let again = policy.next(now).unwrap();
    assert_eq!(again.extent, extent(4096, 100));
    policy.finished(again.id, true, now);
    assert_eq!(policy.tag_state(second), TagState::Written);
    assert_eq!(policy.counts().redirtied_bytes, 100);
}

const PAGE: u64 = 65_536;
const NOW: Duration = Duration::from_secs(1);

fn policy_of(pages: u64) -> WriteBack {
    WriteBack::new(Settings::new(pages * PAGE))
}

/// Writes everything out that is tagged or due.
fn write(policy: &mut WriteBack, now: Duration) -> u64 {
    let mut bytes = 0;
    while let Some(write) = policy.next(now) {
        bytes += write.extent.length;
        policy.finished_unflushed(write.id, now);
    }
    bytes
}

#[test]
fn what_is_written_is_kept_until_a_flush_was_good() {
    let mut policy = policy_of(100);
    policy.wrote(extent(100, 1000), NOW);
    let tag = policy.tag(extent(0, PAGE), NOW);
    assert_eq!(write(&mut policy, NOW), 1000);
    assert_eq!(policy.tag_state(tag), TagState::Written);
    let all = extent(0, u64::MAX);
    assert!(policy.is_dirty(all) && !policy.is_unwritten(all));
    assert_eq!((policy.dirty_bytes(), policy.kept_bytes()), (0, 1000));
    assert_eq!(
        (policy.dirty_pages(), policy.kept_memory_bytes()),
        (1, PAGE)
    );
    policy.flush_begins();
    // Written while the flush is on its way: the next one covers it.
    policy.wrote(extent(600, 1000), NOW);
    policy.tag(extent(0, PAGE), NOW);
    assert_eq!(write(&mut policy, NOW), 1000);
    assert_eq!(policy.flush_succeeded(), [extent(100, 1000)]);
    assert_eq!(policy.kept_bytes(), 1000);
    assert_eq!(
        policy.dirty_in(all).collect::<Vec<_>>(),
        [extent(600, 1000)]
    );
    policy.flush_begins();
    policy.flush_succeeded();
    assert!(!policy.is_dirty(all));
    assert_eq!((policy.dirty_pages(), policy.kept_memory_bytes()), (0, 0));
    assert_eq!(policy.next_at(NOW), None);
}

#[test]
fn everything_kept_is_dirty_again_after_a_replay() {
    let mut policy = policy_of(100);
    policy.wrote(extent(0, 1000), NOW);
    policy.tag(extent(0, PAGE), NOW);
    write(&mut policy, NOW);
    policy.flush_begins();
    policy.wrote(extent(500, 1000), NOW);
    policy.wrote(extent(PAGE, 10), NOW);
    policy.tag(extent(0, PAGE), NOW);
    write(&mut policy, NOW);
    assert_eq!(policy.discard(extent(0, 100)), 0);
    assert_eq!(policy.flush_failed(true, NOW), 400 + 1000 + 500);
    assert_eq!((policy.dirty_bytes(), policy.kept_bytes()), (1410, 0));
    policy.tag(extent(0, PAGE), NOW);
    assert_eq!(write(&mut policy, NOW), 1400);
    assert_eq!(policy.forget(), 1410);
    assert_eq!((policy.dirty_pages(), policy.kept_bytes()), (0, 0));
}

#[test]
fn an_old_one_makes_a_flush_wanted_and_a_failure_puts_it_off() {
    let mut policy = policy_of(100);
    policy.wrote(extent(0, 1000), NOW);
    policy.tag(extent(0, PAGE), NOW);
    write(&mut policy, NOW);
    let at = NOW + settings::EXPIRE;
    assert_eq!(policy.next_at(NOW), Some(at));
    assert!(!policy.wants_flush(NOW) && policy.wants_flush(at));
    policy.flush_begins();
    assert!(!policy.wants_flush(at));
    assert_eq!(policy.next_at(at), None);
    policy.flush_failed(false, at);
    policy.tag(extent(0, PAGE), at);
    write(&mut policy, at);
    assert!(!policy.wants_flush(at));
    let later = at + settings::EXPIRE * 2;
    assert!(policy.wants_flush(later));
}

#[test]
fn the_late_failure_of_a_flush_that_was_given_up_is_not_the_end_of_the_next() {
    let mut policy = policy_of(100);
    policy.wrote(extent(0, 1000), NOW);
    policy.tag(extent(0, PAGE), NOW);
    write(&mut policy, NOW);
    policy.flush_begins();
    policy.flush_failed(false, NOW);
    policy.tag(extent(0, PAGE), NOW);
    write(&mut policy, NOW);
    policy.flush_begins();
    // The one before is answered.
    policy.flush_failed(false, NOW);
    policy.flush_goes_on();
    policy.tag(extent(0, PAGE), NOW);
    write(&mut policy, NOW);
    let later = NOW + settings::EXPIRE * 2;
    assert_eq!(policy.kept_bytes(), 1000);
    assert!(!policy.wants_flush(later), "one is on its way");
    assert_eq!(policy.next_at(later), None);
    policy.flush_succeeded();
    assert!(policy.wants_flush(later), "it did not cover them");
}

#[test]
fn writers_who_are_refused_get_room_by_flushes_whatever_the_limit() {
    for pages in [1, 2, 3, 4, 5, 7, 16, 33] {
        // The limit need not be a number of pages.
        for more in [0, 1, PAGE / 2, PAGE - 1] {
            let settings = Settings::new(pages * PAGE + more);
            let mut policy = WriteBack::new(settings);
            let mut now = NOW;
            let mut flushes = 0;
            for page in 0..500 {
                let one = extent(page * PAGE, 100);
                while policy.admit(one, true, now) == Admission::Refused {
                    let moved = write(&mut policy, now) > 0;
                    let wanted = policy.wants_flush(now);
                    assert!(moved || wanted, "nothing helps, {pages} pages, page {page}");
                    if wanted {
                        policy.flush_begins();
                        assert!(!policy.flush_succeeded().is_empty());
                        flushes += 1;
                    }
                }
                policy.wrote(one, now);
                assert!(policy.dirty_pages() <= pages);
                now += Duration::from_millis(1);
            }
            let least = 500 / pages;
            assert!(flushes > 0 && flushes <= least * 5, "{flushes} for {pages}");
        }
    }
}

fn policy() -> WriteBack {
    WriteBack::new(Settings::new(1 << 30))
}

fn dirty(policy: &WriteBack) -> Vec<(u64, u64)> {
    let spans = policy.dirty_in(extent(0, u64::MAX));
    spans.map(|span| (span.offset, span.length)).collect()
}

#[test]
fn what_is_discarded_is_not_written_and_nobody_waits_for_it() {
    let mut policy = policy();
    policy.wrote(extent(0, 200_000), NOW);
    let all = policy.tag(extent(0, 200_000), NOW);
    let some = policy.tag(extent(70_000, 10), NOW);
    assert_eq!(policy.discard(extent(65_536, 100_000)), 100_000);
    assert_eq!(policy.tag_state(some), TagState::Written);
    assert_eq!(dirty(&policy), [(0, 65_536), (165_536, 34_464)]);
    let mut bytes = 0;
    while let Some(write) = policy.next(NOW) {
        bytes += write.extent.length;
        policy.finished(write.id, true, NOW);
    }
    assert_eq!(bytes, 100_000);
    assert_eq!(policy.tag_state(all), TagState::Written);
    assert_eq!((policy.dirty_pages(), policy.dirty_bytes()), (0, 0));
    assert_eq!(policy.discard(extent(0, u64::MAX)), 0);
}

#[test]
fn what_was_under_write_out_does_not_come_back() {
    let mut policy = policy();
    policy.wrote(extent(0, 30_000), NOW);
    policy.tag(extent(0, 30_000), NOW);
    let write = policy.next(NOW).unwrap();
    assert!(!policy.is_cut(write.id));
    assert_eq!(policy.discard(extent(10_000, 10_000)), 10_000);
    assert!(policy.is_cut(write.id));
    assert_eq!(dirty(&policy), [(0, 10_000), (20_000, 10_000)]);
    policy.finished(write.id, false, NOW);
    assert_eq!(policy.dirty_bytes(), 20_000);
    assert_eq!(policy.discard(extent(0, 40_000)), 20_000);
    assert_eq!((policy.dirty_pages(), policy.dirty_bytes()), (0, 0));
    assert_eq!(policy.next_at(NOW), None);
}

#[test]
fn what_is_put_back_is_handed_out_again_and_its_tag_waits() {
    let mut policy = policy();
    policy.wrote(extent(0, 30_000), NOW);
    let tag = policy.tag(extent(0, 30_000), NOW);
    let write = policy.next(NOW).unwrap();
    policy.discard(extent(0, 10_000));
    policy.put_back(write.id, NOW);
    assert_eq!(policy.tag_state(tag), TagState::Pending);
    let again = policy.next(NOW).unwrap();
    assert_eq!(again.extent, extent(10_000, 20_000));
    policy.discard(extent(0, 30_000));
    policy.put_back(again.id, NOW);
    assert_eq!(policy.tag_state(tag), TagState::Written);
    assert_eq!((policy.next(NOW), policy.dirty_pages()), (None, 0));
    assert_eq!(policy.flight_bytes(), 0);
}
