use proptest::prelude::*;

use super::*;
use crate::testing::attributes;
use pagewell_fs::FileType;

fn lifetime(file_type: FileType, modified: i64) -> Duration {
    let now = Timestamp {
        seconds: 10_000,
        nanoseconds: 0,
    };
    let mut attributes = attributes(file_type);
    attributes.modified = Timestamp {
        seconds: modified,
        nanoseconds: 0,
    };
    Ages::default().lifetime(&attributes, now)
}

#[test]
fn what_is_older_is_believed_longer_within_the_bounds() {
    for (modified, seconds) in [(9_999, 3), (9_900, 10), (9_500, 50), (0, 60), (20_000, 3)] {
        let expected = Duration::from_secs(seconds);
        assert_eq!(
            lifetime(FileType::Regular, modified),
            expected,
            "{modified}"
        );
    }
    for (modified, seconds) in [(9_999, 30), (9_500, 50), (i64::MIN, 60), (i64::MAX, 30)] {
        let expected = Duration::from_secs(seconds);
        assert_eq!(
            lifetime(FileType::Directory, modified),
            expected,
            "{modified}"
        );
    }
    let attributes = attributes(FileType::Regular);
    assert_eq!(
        Ages::NONE.lifetime(&attributes, Timestamp::now()),
        Duration::ZERO
    );
}

fn state(number: u32) -> WccAttributes {
    let time = Timestamp {
        seconds: i64::from(number),
        nanoseconds: 0,
    };
    WccAttributes {
        size: u64::from(number),
        modified: time,
        changed: time,
    }
}

fn known(number: u32) -> Consistency {
    let mut consistency = Consistency::default();
    assert_eq!(consistency.look(state(number)), Verdict::Ours);
    consistency
}

#[test]
fn one_call_at_a_time() {
    let mut file = known(1);
    file.begin();
    assert!(file.is_changing());
    assert_eq!(file.end(Some(state(1)), Some(state(2))), Verdict::Ours);
    assert!(!file.is_changing());
    assert_eq!(file.look(state(2)), Verdict::Ours);
    file.begin();
    assert_eq!(file.end(Some(state(3)), Some(state(4))), Verdict::Theirs);
    assert_eq!(file.look(state(4)), Verdict::Ours);
    assert_eq!(file.look(state(5)), Verdict::Theirs);
    assert_eq!(file.look(state(5)), Verdict::Ours);
}

#[test]
fn what_is_not_reported_is_unknown() {
    let mut file = known(1);
    file.begin();
    assert_eq!(file.end(None, Some(state(7))), Verdict::Unknown);
    assert_eq!(file.look(state(7)), Verdict::Ours);
    file.begin();
    assert_eq!(file.end(Some(state(7)), None), Verdict::Ours, "not yet");
    assert_eq!(file.look(state(9)), Verdict::Unknown);
    assert_eq!(file.look(state(9)), Verdict::Ours);
    for _ in 0..2 {
        file.begin();
        assert_eq!(file.end(None, None), Verdict::Ours);
    }
    file.begin();
    let verdict = file.end(Some(state(10)), Some(state(11)));
    assert_eq!(
        verdict,
        Verdict::Unknown,
        "another may have been there before"
    );
    assert_eq!(file.look(state(11)), Verdict::Ours);
    // One that does not tell is no excuse for another that was seen to be another client's.
    file.begin();
    file.begin();
    assert_eq!(file.end(Some(state(20)), Some(state(21))), Verdict::Ours);
    assert_eq!(file.end(None, Some(state(12))), Verdict::Theirs);
}

#[test]
fn a_look_in_the_middle_of_a_burst_is_kept_until_it_is_explained() {
    let mut file = known(1);
    file.begin();
    file.begin();
    assert_eq!(file.look(state(1)), Verdict::Ours);
    assert!(!file.is_undecided());
    assert_eq!(file.look(state(2)), Verdict::Ours);
    assert!(file.is_undecided());
    assert_eq!(file.end(Some(state(2)), Some(state(3))), Verdict::Ours);
    assert!(file.is_undecided());
    assert_eq!(file.end(Some(state(1)), Some(state(2))), Verdict::Ours);
    assert!(!file.is_undecided());
    assert_eq!(file.look(state(3)), Verdict::Ours);
    file.begin();
    file.begin();
    assert_eq!(file.look(state(4)), Verdict::Ours);
    assert_eq!(file.end(Some(state(3)), Some(state(5))), Verdict::Ours);
    assert!(file.is_undecided());
    assert_eq!(file.end(Some(state(5)), Some(state(6))), Verdict::Theirs);
    assert_eq!(file.look(state(6)), Verdict::Ours);
    // Behind all of ours.
    file.begin();
    file.begin();
    assert_eq!(file.end(Some(state(6)), Some(state(7))), Verdict::Ours);
    assert_eq!(file.look(state(8)), Verdict::Ours);
    assert_eq!(file.end(Some(state(7)), Some(state(7))), Verdict::Theirs);
    assert_eq!(file.look(state(8)), Verdict::Ours, "it is known now");
}

#[test]
fn a_write_that_was_seen_at_work_is_ours() {
    let mut file = known(1);
    file.begin();
    let part = WccAttributes {
        size: 5,
        ..state(9)
    };
    assert_eq!(file.look(part), Verdict::Ours);
    assert_eq!(file.end(Some(state(1)), Some(state(9))), Verdict::Ours);
    assert_eq!(file.look(state(9)), Verdict::Ours);
}

#[test]
fn an_excuse_holds_once_and_for_the_time_of_change_alone() {
    let later = |number, changed: u32| WccAttributes {
        changed: state(changed).changed,
        ..state(number)
    };
    let mut file = known(1);
    file.excuse();
    assert_eq!(file.look(state(1)), Verdict::Ours);
    assert_eq!(file.look(later(1, 5)), Verdict::Ours);
    assert_eq!(file.look(later(1, 6)), Verdict::Theirs);
    file.excuse();
    assert_eq!(file.look(state(7)), Verdict::Theirs);
    let mut file = known(1);
    file.excuse();
    file.begin();
    assert_eq!(file.end(Some(later(1, 3)), Some(state(4))), Verdict::Ours);
}

#[test]
fn a_burst_is_bounded() {
    let mut file = known(0);
    for _ in 0..1000 {
        file.begin();
    }
    for number in 0..1000 {
        let before = state(10 + 2 * number);
        assert_eq!(file.look(state(5000 + number)), Verdict::Ours);
        let verdict = file.end(Some(before), Some(state(11 + 2 * number)));
        assert_eq!(verdict == Verdict::Theirs, number == 999);
        let longest = file.loose.len().max(file.reached.len());
        assert!(longest.max(file.seen.len()) <= STATES_MAX);
    }
}

proptest! {
    /// A chain of calls whose answers come in any order is ours; with one change of another
    /// client between two of them it is not.
    #[test]
    fn the_order_of_answers_does_not_matter(
        order in Just((0u32..40).collect::<Vec<_>>()).prop_shuffle(),
        intruder in proptest::option::of(0u32..40),
    ) {
        // Numbers of states: the intruder's change makes one more before its call.
        let shift = |call: u32| u32::from(intruder.is_some_and(|at| call >= at));
        let mut file = known(0);
        for _ in &order {
            file.begin();
        }
        let mut last = Verdict::Ours;
        for (index, call) in order.iter().enumerate() {
            let before = call + shift(*call);
            last = file.end(Some(state(before)), Some(state(call + 1 + shift(*call))));
            prop_assert!(index + 1 == order.len() || last == Verdict::Ours);
        }
        prop_assert_eq!(last == Verdict::Theirs, intruder.is_some());
        prop_assert_eq!(file.look(state(40 + shift(40))), Verdict::Ours);
    }
}

/// Of a file that had ten bytes, and got a hundred that are at the server.
fn written() -> Length {
    let mut length = Length::default();
    length.reported(10);
    assert!(!length.is_uncommitted() && !length.is_in_doubt());
    length.wrote(100);
    assert!(length.is_dirty() && length.is_uncommitted());
    assert_eq!((length.get(), length.at_server()), (100, 10));
    assert!(!length.is_in_doubt(), "it was not written yet");
    length.reported(100);
    length.cleaned(length.writes());
    assert!(!length.is_dirty() && length.is_uncommitted() && !length.is_in_doubt());
    length
}

#[test]
fn what_a_server_forgets_is_as_long_as_before() {
    let mut length = written();
    length.reported(10);
    assert!(length.is_in_doubt());
    assert_eq!(length.get(), 100);
    length.reported(100);
    length.committed(length.writes());
    assert!(!length.is_uncommitted() && !length.is_in_doubt());
    length.reported(10);
    assert_eq!(length.get(), 10, "another client has cut it off");
    assert!(!length.is_in_doubt());
}

#[test]
fn what_was_written_meanwhile_is_not_committed() {
    let mut length = written();
    let writes = length.writes();
    length.wrote(50);
    length.committed(writes);
    assert!(length.is_dirty() && length.is_uncommitted());
    length.reported(20);
    assert_eq!(length.get(), 100);
}

#[test]
fn what_is_cut_off_does_not_come_back() {
    for (size, seen) in [(0, 0), (40, 40), (400, 400)] {
        let mut length = written();
        length.cut(size);
        assert_eq!((length.get(), length.at_server()), (seen, size));
        length.reported(10);
        assert_eq!(length.get(), seen.clamp(10, 100), "forgotten after {size}");
    }
}
