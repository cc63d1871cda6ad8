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
