//! A store in memory that does one thing wrong, and what a probe says of it.

mod store;

use std::sync::Arc;
use std::time::Duration;

use super::*;
use store::Store;

/// A last resort: nothing here waits.
const LONG: Duration = Duration::from_secs(60);
const PATIENT: Limits = Limits {
    look: LONG,
    questions: LONG,
    clean: LONG,
};

fn report(store: &Arc<Store>, prefix: &str, is_read_only: bool) -> Result<Report> {
    run(
        Arc::clone(store) as Arc<dyn Remote>,
        prefix,
        is_read_only,
        PATIENT,
    )
}

fn noes(report: &Report) -> Vec<Question> {
    let answers = report.answers.iter();
    let noes = answers.filter(|(_, answer)| matches!(answer, Answer::No(_)));
    noes.map(|(question, _)| *question).collect()
}

#[test]
fn a_store_that_does_all_of_it_is_guarded_and_left_as_it_was() {
    let store = Store::with(&[]);
    let report = report(&store, "folder/", false).expect("a report");
    let asked = report.answers.len();
    let yes = report
        .answers
        .iter()
        .filter(|(_, answer)| *answer == Answer::Yes);
    assert_eq!((yes.count(), asked), (17, 17), "{:?}", report.answers);
    assert_eq!(report.class, Class::Guarded);
    assert!(report.latency.is_some() && report.bytes_per_second.is_some());
    assert_eq!(report.left_behind, [""; 0]);
    assert_eq!(store.keys(), ["folder/file"]);
    assert!(store.made_below("folder/.pagewell-probe-") > 10);
}

#[test]
fn what_a_store_does_wrong_is_named_and_decides() {
    use Question::*;
    for (fault, class) in [
        (Create, Class::Unguarded),
        (Update, Class::Unguarded),
        (Race, Class::Unguarded),
        (Complete, Class::Unguarded),
        (Delete, Class::GuardedButDeletes),
        (Lists, Class::Guarded),
        (StrongTag, Class::Guarded),
        (StaleRead, Class::Guarded),
        (ListedTag, Class::Guarded),
        (CopyPart, Class::Guarded),
        (StaleCopy, Class::Guarded),
        (WrongHash, Class::Guarded),
        (WrongSignedHash, Class::Guarded),
        (Marker, Class::Guarded),
        (Beside, Class::Guarded),
        (Change, Class::ReadOnly),
    ] {
        let store = Store::with(&[fault]);
        let report = report(&store, "folder", false).expect("a report");
        assert_eq!(noes(&report), [fault], "{:?}", report.answers);
        assert_eq!(report.class, class, "{fault:?}");
        assert_eq!(report.left_behind, [""; 0], "{fault:?}");
        assert_eq!(store.keys(), ["folder/file"], "{fault:?}");
    }
}

#[test]
fn a_read_only_probe_changes_nothing() {
    for (fault, class) in [
        (None, Class::ReadOnly),
        (Some(Question::StrongTag), Class::WeakWeb),
        (Some(Question::Ranges), Class::WeakWeb),
    ] {
        let store = Store::with(fault.as_slice());
        // The folder, and the object itself.
        for prefix in ["folder/", "folder/file", ""] {
            let report = report(&store, prefix, true).expect("a report");
            assert_eq!(report.class, class, "{prefix} {:?}", report.answers);
            assert_eq!(noes(&report), Vec::from_iter(fault), "{prefix}");
        }
        assert_eq!(store.made_below(""), 0);
    }
}

#[test]
fn a_file_of_the_web_is_asked_two_things() {
    let web = Store::of_web(&[]);
    let found = report(&web, "folder/file", false).expect("a report");
    assert_eq!(found.class, Class::ReadOnly);
    assert_eq!(found.answers.len(), 2, "{:?}", found.answers);
    let folder = report(&web, "folder/", false).expect("a report");
    assert_eq!(folder.answers.len(), 3, "{:?}", folder.answers);
    assert_eq!(report(&web, "other", false), Err(Error::NotFound));
    let unlisted = Store::of_web(&[Question::Lists]);
    let found = report(&unlisted, "folder/", false).expect("a report");
    assert_eq!(noes(&found), [Question::Lists]);
    assert_eq!(found.class, Class::Unknown);
}

#[test]
fn a_place_that_refuses_all_is_an_error() {
    let store = Store::with(&[Question::Lists, Question::Change]);
    let denied = report(&store, "", false).expect_err("a refusal");
    assert!(matches!(denied, Error::Denied(_)), "{denied}");
}

#[test]
fn without_time_nothing_is_said_and_nothing_left() {
    let store = Store::with(&[]);
    let limits = Limits {
        questions: Duration::ZERO,
        ..PATIENT
    };
    let remote = Arc::clone(&store) as Arc<dyn Remote>;
    let report = run(remote, "", false, limits).expect("a report");
    assert_eq!(report.class, Class::Unknown);
    let unknown = |(_, answer): &(Question, Answer)| matches!(answer, Answer::Unknown(_));
    assert!(
        report.answers[1..].iter().all(unknown),
        "{:?}",
        report.answers
    );
    assert_eq!(store.made_below(""), 0);
}

#[test]
fn classes_follow_from_the_answers_that_decide() {
    use Question::{Change, Complete, Create, Delete, Race, Ranges, StrongTag, Update};
    let unknown = || Answer::Unknown("of a test".to_owned());
    let no = || Answer::No("of a test".to_owned());
    let all = |delete: Answer, race: Answer| {
        let yes = [Change, Create, Update, Complete].map(|question| (question, Answer::Yes));
        Class::of(&[&yes[..], &[(Delete, delete), (Race, race)]].concat())
    };
    assert_eq!(all(Answer::Yes, Answer::Yes), Class::Guarded);
    assert_eq!(all(unknown(), Answer::Yes), Class::GuardedButDeletes);
    assert_eq!(all(no(), no()), Class::Unguarded);
    assert_eq!(all(Answer::Yes, unknown()), Class::Unknown);
    assert_eq!(Class::of(&[(Change, Answer::Yes)]), Class::Unknown);
    let reading = |tag: Answer, ranges: Answer| Class::of(&[(StrongTag, tag), (Ranges, ranges)]);
    assert_eq!(reading(Answer::Yes, Answer::Yes), Class::ReadOnly);
    assert_eq!(reading(no(), Answer::Yes), Class::WeakWeb);
    assert_eq!(reading(unknown(), no()), Class::WeakWeb);
    assert_eq!(reading(Answer::Yes, unknown()), Class::Unknown);
}
