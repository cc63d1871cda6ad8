//! What is believed of a node.

use std::time::Duration;

use pagewell_fs::FileType;

use super::*;
use crate::attributes::Moments;
use crate::testing::attributes;

/// What a call reported of a file of this size, all in one tick of the server's clock.
fn reported(moments: &Moments, sent: Moment, size: u64) -> Reported {
    Reported {
        attributes: Attributes {
            size,
            ..attributes(FileType::Regular)
        },
        sent,
        answered: moments.now(),
        until: Instant::now() + Duration::from_secs(1000),
    }
}

fn node() -> Node {
    Node::new(FileId::new(b"file").unwrap(), 1)
}

#[test]
fn an_answer_of_before_does_not_undo_a_cut() {
    let (moments, node) = (Moments::default(), node());
    let sent = moments.now();
    assert_eq!(node.look(&reported(&moments, sent, 1000)), Ok(()));
    let read = moments.now();
    let set = moments.now();
    node.begin_change();
    let _ = node.end_change(None, Some(&reported(&moments, set, 10)), moments.now());
    node.lock().cut(10, moments.now());
    assert_eq!(node.look(&reported(&moments, read, 1000)), Ok(()));
    let state = node.lock();
    assert_eq!(state.known().map(|known| known.size), Some(10));
    assert!(state.believed().is_none(), "the next one asks");
    drop(state);
    let later = moments.now();
    assert_eq!(node.look(&reported(&moments, later, 500)), Ok(()));
    let size = node.lock().believed().map(|known| known.size);
    assert_eq!(size, Some(500), "another client has made it longer");
}

#[test]
fn an_answer_of_before_does_not_undo_a_time_that_was_set() {
    let (moments, node) = (Moments::default(), node());
    let modified = |sent, seconds| {
        let mut reported = reported(&moments, sent, 10);
        reported.attributes.modified.seconds = seconds;
        reported
    };
    assert_eq!(node.look(&modified(moments.now(), 1000)), Ok(()));
    let (read, set) = (moments.now(), moments.now());
    // Another answer comes in between: by its times, what was set is older.
    assert_eq!(node.look(&modified(moments.now(), 1000)), Ok(()));
    node.begin_change();
    let (after, _) = node.end_change(None, Some(&modified(set, 7)), moments.now());
    assert_eq!(after, Ok(None));
    node.lock().was_set(moments.now(), false);
    assert!(node.lock().believed().is_none(), "the next one asks");
    assert_eq!(node.look(&modified(moments.now(), 7)), Ok(()));
    assert_eq!(node.look(&modified(read, 1000)), Ok(()));
    let known = node.lock().known().unwrap();
    assert_eq!(known.modified.seconds, 7);
}

#[test]
fn a_file_in_question_is_another_for_who_asks() {
    let (moments, node) = (Moments::default(), node());
    assert_eq!(node.look(&reported(&moments, moments.now(), 10)), Ok(()));
    let changes = node.lock().changes;
    node.begin_change();
    let sent = moments.now();
    let _ = node.end_change(None, Some(&reported(&moments, sent, 20)), moments.now());
    assert_eq!(
        node.lock().changes,
        changes,
        "programs that have it open go on"
    );
    node.lock().end_question();
    assert_eq!(node.lock().changes, changes + 1);
    node.lock().end_question();
    assert_eq!(node.lock().changes, changes + 1, "once");
}

#[test]
fn a_directory_is_known_as_one_from_a_change_on() {
    let (moments, node) = (Moments::default(), node());
    node.begin_change();
    let sent = moments.now();
    let mut answer = reported(&moments, sent, 10);
    answer.attributes.file_type = FileType::Directory;
    let _ = node.end_change(None, Some(&answer), moments.now());
    let changes = node.lock().changes;
    // Without the state of before another client may have made a name.
    node.begin_change();
    let sent = moments.now();
    let answer = Reported {
        sent,
        answered: moments.now(),
        ..answer
    };
    let _ = node.end_change(None, Some(&answer), moments.now());
    assert_eq!(node.lock().changes, changes + 1);
}

#[test]
fn what_lacks_a_write_is_not_to_be_kept() {
    let (moments, node) = (Moments::default(), node());
    let may_be_kept = || node.lock().known().unwrap().may_be_kept;
    let look = || node.look(&reported(&moments, moments.now(), 10));
    assert_eq!(look(), Ok(()));
    assert!(may_be_kept());
    // Written, and not sent.
    node.lock().length_mut().wrote(20);
    assert!(!may_be_kept());
    assert_eq!(look(), Ok(()));
    assert!(!may_be_kept(), "what the server says is of before");
    // Sent, and not answered.
    let writes = node.lock().length.writes();
    node.lock().length.cleaned(writes);
    assert!(may_be_kept());
    node.begin_change();
    assert!(!may_be_kept());
    let sent = moments.now();
    let _ = node.end_change(None, Some(&reported(&moments, sent, 20)), moments.now());
    assert!(may_be_kept());
    node.lock().doubt();
    assert!(!may_be_kept());
}

#[test]
fn what_was_on_its_way_with_a_change_is_not_believed() {
    let (moments, node) = (Moments::default(), node());
    let look = moments.now();
    node.begin_change();
    // What came of it was not reported.
    let _ = node.end_change(None, None, moments.now());
    assert_eq!(node.look(&reported(&moments, look, 10)), Ok(()));
    assert!(node.lock().believed().is_none() && node.lock().known().is_some());
    let later = moments.now();
    assert_eq!(node.look(&reported(&moments, later, 10)), Ok(()));
    assert!(node.lock().believed().is_some());
    // Two changes of the mode within one tick.
    let sent = [moments.now(), moments.now()];
    let answers = [(sent[1], 0o600), (sent[0], 0o400)];
    for _ in answers {
        node.begin_change();
    }
    for (sent, mode) in answers {
        let mut reported = reported(&moments, sent, 10);
        reported.attributes.mode = mode;
        let _ = node.end_change(None, Some(&reported), moments.now());
    }
    assert!(node.lock().believed().is_none(), "which was the last?");
}

#[test]
fn rights_are_believed_until_they_may_have_changed() {
    let (moments, node) = (Moments::default(), node());
    let user = Credentials::new(1000, 1000, &[]);
    let look = |change: &dyn Fn(&mut Reported)| {
        let mut reported = reported(&moments, moments.now(), 10);
        change(&mut reported);
        assert_eq!(node.look(&reported), Ok(()));
    };
    let of = || node.lock().rights();
    let grant = |of| node.lock().grant(&user, Access(0), of);
    let granted = || node.lock().granted(&user);
    look(&|_| {});
    grant(of());
    assert_eq!(granted(), Some(Access(0)));
    // An access control list was set.
    look(&|reported| reported.attributes.changed.seconds += 1);
    assert_eq!(granted(), None);
    // The mode was set in the same tick, and what was asked before that is answered after it.
    let before = of();
    look(&|reported| {
        reported.attributes.changed.seconds += 1;
        reported.attributes.mode = 0o604;
    });
    grant(before);
    assert_eq!(granted(), None);
    // What is not seen, such as the groups of the user, is asked for after a time.
    look(&|reported| reported.until = Instant::now());
    grant(of());
    look(&|_| {});
    assert_eq!(granted(), None);
}

#[test]
fn what_was_not_reported_is_not_after_a_change() {
    let (moments, node) = (Moments::default(), node());
    let sent = moments.now();
    assert_eq!(node.look(&reported(&moments, sent, 10)), Ok(()));
    let end = |reported: Option<&Reported>| {
        node.begin_change();
        let (after, _) = node.end_change(None, reported, moments.now());
        after.unwrap().map(|after| after.mode)
    };
    let late = moments.now();
    assert_eq!(end(None), None, "what is known is of before");
    let mut answer = reported(&moments, late, 10);
    answer.attributes.mode = 0o600;
    assert_eq!(
        end(Some(&answer)),
        None,
        "of before or after what was not reported"
    );
    let sent = moments.now();
    let mut answer = reported(&moments, sent, 10);
    answer.attributes.mode = 0o400;
    assert_eq!(end(Some(&answer)), Some(0o400));
    // Sent before that was answered, in the same tick: it is not taken.
    let mut answer = Reported { sent, ..answer };
    answer.attributes.mode = 0o600;
    assert_eq!(end(Some(&answer)), None);
}

#[test]
fn a_state_is_quiet_that_no_call_of_ours_may_have_changed() {
    let (moments, node) = (Moments::default(), node());
    let is_quiet = || node.lock().quiet().is_some();
    let look = || node.look(&reported(&moments, moments.now(), 10));
    assert!(!is_quiet(), "nothing is known");
    assert_eq!(look(), Ok(()));
    assert!(is_quiet());
    let before = node.lock().quiet().unwrap();
    assert!(node.lock().is_quiet_since(&before));
    let sent = moments.now();
    node.begin_change();
    assert!(!is_quiet(), "on its way");
    assert!(!node.lock().is_quiet_since(&before));
    let _ = node.end_change(None, Some(&reported(&moments, sent, 10)), moments.now());
    assert!(is_quiet(), "reported");
    node.begin_change();
    node.end_unanswered(moments.now());
    assert!(!is_quiet(), "not reported");
    assert_eq!(look(), Ok(()));
    assert!(is_quiet());
    node.lock().cut(10, moments.now());
    assert!(!is_quiet(), "set");
    assert_eq!(look(), Ok(()));
    node.lock().length_mut().wrote(5);
    assert!(!is_quiet(), "not at the server");
}
