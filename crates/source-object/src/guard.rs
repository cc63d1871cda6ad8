//! Whether a bucket may be changed, and what its changes can rest on.
//!
//! Names of stores say nothing: before the first change the store is [asked](probe), and its
//! answers are [kept](super::kept_probe) for the next start. A store in which writers replace each
//! other's changes unseen is not written to, unless that was wished for.
//!
//! ```text
//!   guarded            written under conditions
//!   guarded, not its   the same; a move looks before it deletes
//!     deletes
//!   unguarded          read only, or with a warning
//!   keys may not write read only, asked again after some minutes
//!   not known          an I/O error, asked again after some seconds
//! ```

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use pagewell_base::sync::Mutex;
use pagewell_counters::{Held, names};
use pagewell_fs::{Error, Result};
use pagewell_object_client::{
    Answer, Class, Error as RemoteError, Options, Question, Report, probe,
};

use super::kept_probe::{KeptProbe, place_of};

/// How long a refusal to write counts.
const REFUSAL_AGE: Duration = Duration::from_secs(300);
/// The same of a store that could not be asked.
const FAILURE_AGE: Duration = Duration::from_secs(10);

/// What changes of a bucket can rest on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rights {
    /// Conditions of PUT and of the completion of an upload hold, also for writers at once.
    pub is_guarded: bool,
    /// Conditions of DELETE hold.
    pub guards_deletes: bool,
    /// The store copies bytes of an object into a part of another, of the named version only.
    pub copies_parts: bool,
    pub keeps_markers: bool,
    pub lists_tags: bool,
    pub compares_signed_hashes: bool,
    pub has_files_beside_folders: bool,
}

impl Rights {
    fn of(answers: &[(Question, Answer)], is_guarded: bool) -> Self {
        let does = |question| answers.contains(&(question, Answer::Yes));
        Self {
            is_guarded,
            guards_deletes: does(Question::Delete),
            copies_parts: does(Question::CopyPart) && does(Question::StaleCopy),
            keeps_markers: does(Question::Marker),
            lists_tags: does(Question::ListedTag),
            compares_signed_hashes: does(Question::WrongSignedHash),
            has_files_beside_folders: does(Question::Beside),
        }
    }
}

trait Store: Send + Sync {
    fn ask(&self) -> Result<Report, RemoteError>;
    fn now(&self) -> SystemTime;
}

struct Real(String);

impl Store for Real {
    fn ask(&self) -> Result<Report, RemoteError> {
        probe(&self.0, &Options::default(), false)
    }

    fn now(&self) -> SystemTime {
        SystemTime::now()
    }
}

#[derive(Clone)]
struct Known {
    class: Option<Class>,
    rights: Result<Rights>,
    until: SystemTime,
}

/// Of one open bucket.
pub(super) struct Guard {
    store: Box<dyn Store>,
    place: String,
    kept_in: Option<PathBuf>,
    unguarded_too: bool,
    known: Mutex<Option<Known>>,
    /// Its place among the writable buckets of its class.
    counted: Mutex<Option<Held>>,
    asking: Mutex<()>,
    warned: Mutex<String>,
}

impl Guard {
    /// Of the bucket of a URL, with its answers kept in this folder. With `unguarded_too` the
    /// bucket is written even where changes can get lost.
    pub(super) fn new(url: &str, kept_in: Option<&Path>, unguarded_too: bool) -> Self {
        let store = Box::new(Real(url.to_owned()));
        Self::over(store, place_of(url), kept_in, unguarded_too)
    }

    fn over(
        store: Box<dyn Store>,
        place: String,
        kept_in: Option<&Path>,
        unguarded_too: bool,
    ) -> Self {
        let kept = kept_in.and_then(|folder| KeptProbe::read(folder, &place, store.now()));
        let guard = Self {
            store,
            place,
            kept_in: kept_in.map(Path::to_owned),
            unguarded_too,
            known: Mutex::new(None),
            counted: Mutex::new(None),
            asking: Mutex::new(()),
            warned: Mutex::new(String::new()),
        };
        if let Some(kept) = kept {
            guard.keep(Known {
                class: Some(kept.class()),
                rights: guard.judge(kept.class(), kept.answers()),
                until: kept.until(),
            });
        }
        guard
    }

    fn keep(&self, known: Known) {
        let gauge = known
            .rights
            .as_ref()
            .ok()
            .map(|rights| match rights.is_guarded {
                true => &names::OBJECT_GUARDED,
                false => &names::OBJECT_UNGUARDED,
            });
        *self.counted.lock() = gauge.map(|gauge| gauge.hold());
        *self.known.lock() = Some(known);
    }

    #[cfg(test)]
    pub(super) fn guarded() -> Self {
        struct Never;
        impl Store for Never {
            fn ask(&self) -> Result<Report, RemoteError> {
                Err(RemoteError::Unsupported(String::new()))
            }

            fn now(&self) -> SystemTime {
                SystemTime::UNIX_EPOCH
            }
        }
        let guard = Self::over(Box::new(Never), String::new(), None, false);
        *guard.known.lock() = Some(Known {
            class: Some(Class::Guarded),
            rights: Ok(Rights {
                is_guarded: true,
                guards_deletes: true,
                copies_parts: true,
                keeps_markers: true,
                lists_tags: true,
                compares_signed_hashes: true,
                has_files_beside_folders: true,
            }),
            until: SystemTime::now(),
        });
        guard
    }

    /// What changes can rest on. Where nothing is known it asks the store, for up to half a minute.
    ///
    /// # Errors
    ///
    /// [`Error::WouldBlock`] instead of asking, unless `may_block`; [`Error::ReadOnly`] where it is
    /// not to be written, after a warning that says why; [`Error::Io`] where it could not be asked.
    pub(super) fn rights(&self, may_block: bool) -> Result<Rights> {
        if let Some(rights) = self.known_rights() {
            return rights;
        }
        Error::WouldBlock.unless(may_block)?;
        let _asking = self.asking.lock();
        if let Some(rights) = self.known_rights() {
            return rights;
        }
        let known = self.learn();
        self.keep(known.clone());
        known.rights
    }

    pub(super) fn class(&self) -> Option<Class> {
        self.known.lock().as_ref()?.class
    }

    fn known_rights(&self) -> Option<Result<Rights>> {
        let known = self.known.lock();
        let known = known.as_ref()?;
        (known.until > self.store.now()).then(|| known.rights.clone())
    }

    fn learn(&self) -> Known {
        tracing::info!("{}: asks what it makes of conditions", self.place);
        let report = match self.store.ask() {
            Ok(report) => report,
            Err(error) => {
                let text = format!("{}: {}", self.place, error.behind(&self.place));
                let (rights, age) = match error {
                    RemoteError::Denied(_) => {
                        self.warn(&format!("{text}: read only"));
                        (Error::ReadOnly, REFUSAL_AGE)
                    }
                    _ => (Error::Io(text), FAILURE_AGE),
                };
                return self.until(age, None, Err(rights));
            }
        };
        for key in &report.left_behind {
            tracing::warn!("{}: {key}: left behind by a probe, remove it", self.place);
        }
        let rights = self.judge(report.class, &report.answers);
        let Some(kept) = KeptProbe::new(&report, self.store.now()) else {
            let age = match rights {
                Err(Error::Io(_)) => FAILURE_AGE,
                _ => REFUSAL_AGE,
            };
            return self.until(age, Some(report.class), rights);
        };
        if let Some(folder) = &self.kept_in
            && let Err(error) = kept.write(folder, &self.place)
        {
            tracing::warn!("{}: what it answers is not kept: {error}", folder.display());
        }
        Known {
            class: Some(report.class),
            rights,
            until: kept.until(),
        }
    }

    fn until(&self, age: Duration, class: Option<Class>, rights: Result<Rights>) -> Known {
        let until = self.store.now() + age;
        Known {
            class,
            rights,
            until,
        }
    }

    fn judge(&self, class: Class, answers: &[(Question, Answer)]) -> Result<Rights> {
        let is_writable = answers.contains(&(Question::Change, Answer::Yes));
        let why = why(answers);
        match class {
            Class::Guarded | Class::GuardedButDeletes => return Ok(Rights::of(answers, true)),
            Class::Unguarded | Class::Unknown if self.unguarded_too && is_writable => {
                let lost = "writers can replace each other's changes unseen, as was allowed";
                self.warn(&format!("{}: {lost} ({why})", self.place));
                return Ok(Rights::of(answers, false));
            }
            Class::Unguarded => self.warn(&format!(
                "{}: read only, since writers would replace each other's changes unseen ({why}); \
                 --object-writes unguarded has it written all the same",
                self.place
            )),
            Class::ReadOnly | Class::WeakWeb => self.warn(&format!(
                "{}: read only, since these keys may not write ({why})",
                self.place
            )),
            Class::Unknown => {
                let text = "whether it can be written safely could not be asked";
                return Err(Error::Io(format!("{}: {text} ({why})", self.place)));
            }
        }
        Err(Error::ReadOnly)
    }

    fn warn(&self, text: &str) {
        let mut warned = self.warned.lock();
        if *warned != text {
            tracing::warn!("{text}");
            text.clone_into(&mut warned);
        }
    }
}

/// The first answer that keeps the bucket from being written safely.
fn why(answers: &[(Question, Answer)]) -> String {
    use Question::{Change, Complete, Create, Race, Update};
    let mut deciding = answers
        .iter()
        .filter(|(question, _)| [Change, Create, Update, Race, Complete].contains(question));
    let found = deciding.find_map(|(question, answer)| match answer {
        Answer::Yes => None,
        Answer::No(reason) | Answer::Unknown(reason) => Some((question, reason)),
    });
    found.map_or_else(
        || "not asked".to_owned(),
        |(question, reason)| format!("{}: {reason}", question.name()),
    )
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
    use std::sync::mpsc;
    use std::time::UNIX_EPOCH;

    use super::*;

    const PLACE: &str = "s3://bucket at http://127.0.0.1:1";

    fn report(changed: &[(Question, Answer)]) -> Report {
        let answer = |question| {
            let mut changed = changed.iter();
            let found = changed.find(|(one, _)| *one == question);
            (
                question,
                found.map_or(Answer::Yes, |(_, answer)| answer.clone()),
            )
        };
        let questions = Question::NAMES.iter();
        let answers: Vec<_> = questions.map(|(question, _)| answer(*question)).collect();
        Report {
            place: PLACE.to_owned(),
            class: Class::of(&answers),
            answers,
            latency: None,
            bytes_per_second: None,
            left_behind: Vec::new(),
        }
    }

    fn lost() -> (Question, Answer) {
        (Question::Race, Answer::No("3 of 8 won".to_owned()))
    }

    /// Answers, and counts how often it was asked.
    struct Fake {
        answer: Mutex<Result<Report, RemoteError>>,
        asked: AtomicUsize,
        seconds: AtomicU64,
        /// Both ends of what holds an answer back.
        gate: Mutex<Option<(mpsc::Sender<()>, mpsc::Receiver<()>)>>,
    }

    impl Fake {
        fn new(answer: Result<Report, RemoteError>) -> Arc<Self> {
            Arc::new(Self {
                answer: Mutex::new(answer),
                asked: AtomicUsize::new(0),
                seconds: AtomicU64::new(1_795_839_036),
                gate: Mutex::new(None),
            })
        }

        fn guard(self: &Arc<Self>, folder: Option<&Path>, unguarded_too: bool) -> Guard {
            Guard::over(
                Box::new(self.clone()),
                PLACE.to_owned(),
                folder,
                unguarded_too,
            )
        }

        fn asked(&self) -> usize {
            self.asked.load(Ordering::SeqCst)
        }

        fn pass(&self, time: Duration) {
            self.seconds.fetch_add(time.as_secs(), Ordering::SeqCst);
        }
    }

    impl Store for Arc<Fake> {
        fn ask(&self) -> Result<Report, RemoteError> {
            self.asked.fetch_add(1, Ordering::SeqCst);
            if let Some((begun, may_end)) = self.gate.lock().take() {
                begun.send(()).unwrap();
                may_end.recv().unwrap();
            }
            self.answer.lock().clone()
        }

        fn now(&self) -> SystemTime {
            UNIX_EPOCH + Duration::from_secs(self.seconds.load(Ordering::SeqCst))
        }
    }

    #[test]
    fn a_guarded_store_is_asked_once_in_a_month_also_after_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let no_deletes = (Question::Delete, Answer::No("ignored".to_owned()));
        let fake = Fake::new(Ok(report(&[no_deletes])));
        let guard = fake.guard(Some(folder.path()), false);
        assert_eq!(guard.rights(false), Err(Error::WouldBlock));
        assert_eq!((fake.asked(), guard.class()), (0, None));
        let rights = guard.rights(true).unwrap();
        assert!(rights.is_guarded && rights.copies_parts && !rights.guards_deletes);
        assert_eq!(guard.class(), Some(Class::GuardedButDeletes));
        assert_eq!(guard.rights(false), Ok(rights));
        let next = fake.guard(Some(folder.path()), false);
        assert_eq!(next.rights(false), Ok(rights));
        assert_eq!(fake.asked(), 1);
        fake.pass(super::super::kept_probe::AGE);
        assert_eq!(next.rights(false), Err(Error::WouldBlock));
        assert_eq!(next.rights(true), Ok(rights));
        assert_eq!(fake.asked(), 2);
        assert_eq!(
            fake.guard(None, false).rights(false),
            Err(Error::WouldBlock)
        );
    }

    #[test]
    fn an_unguarded_store_is_written_only_where_that_was_wished_for() {
        let folder = tempfile::tempdir().unwrap();
        let fake = Fake::new(Ok(report(&[lost()])));
        let guard = fake.guard(Some(folder.path()), false);
        assert_eq!(guard.rights(true), Err(Error::ReadOnly));
        let warned = guard.warned.lock().clone();
        assert!(
            warned.contains("race_has_one_winner: 3 of 8 won"),
            "{warned}"
        );
        assert!(warned.contains("--object-writes unguarded"), "{warned}");
        let wished = fake.guard(Some(folder.path()), true);
        let rights = wished.rights(false).unwrap();
        assert!(!rights.is_guarded && rights.guards_deletes);
        assert_eq!(fake.asked(), 1);
        assert_eq!(wished.class(), Some(Class::Unguarded));
        let counted = |guard: &Guard| guard.counted.lock().as_ref().map(|held| held.gauge().name);
        assert_eq!(counted(&wished), Some("pagewell_object_unguarded"));
        assert_eq!(counted(&guard), None, "it is not written");
    }

    #[test]
    fn keys_that_may_not_write_are_tried_again_and_not_kept() {
        let folder = tempfile::tempdir().unwrap();
        let denied = (Question::Change, Answer::No("403".to_owned()));
        let fake = Fake::new(Ok(report(&[denied])));
        let guard = fake.guard(Some(folder.path()), true);
        assert_eq!(guard.rights(true), Err(Error::ReadOnly));
        assert_eq!(guard.rights(true), Err(Error::ReadOnly));
        assert_eq!(fake.asked(), 1);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        *fake.answer.lock() = Ok(report(&[]));
        fake.pass(REFUSAL_AGE);
        assert!(guard.rights(true).unwrap().is_guarded);
    }

    #[test]
    fn a_store_that_could_not_be_asked_is_asked_again() {
        let gone = RemoteError::Unreachable("no answer".to_owned());
        let late = (Question::Race, Answer::Unknown("too late".to_owned()));
        let fake = Fake::new(Err(gone));
        let guard = fake.guard(None, false);
        for (answer, part) in [
            (Ok(report(&[late])), "no answer"),
            (Ok(report(&[])), "race_has_one_winner: too late"),
        ] {
            let error = guard.rights(true).unwrap_err();
            assert!(error.trouble().unwrap().contains(part), "{error}");
            *fake.answer.lock() = answer;
            assert_eq!(guard.rights(true), Err(error), "not at once");
            fake.pass(FAILURE_AGE);
        }
        assert!(guard.rights(true).unwrap().is_guarded);
        assert_eq!(fake.asked(), 3);
    }

    #[test]
    fn one_thread_asks_and_others_wait() {
        let fake = Fake::new(Ok(report(&[])));
        let ((begun, has_begun), (end, may_end)) = (mpsc::channel(), mpsc::channel());
        *fake.gate.lock() = Some((begun, may_end));
        let guard = fake.guard(None, false);
        std::thread::scope(|scope| {
            let threads = [(); 4].map(|()| scope.spawn(|| guard.rights(true)));
            has_begun.recv().unwrap();
            assert_eq!(guard.rights(false), Err(Error::WouldBlock));
            end.send(()).unwrap();
            for thread in threads {
                assert!(thread.join().unwrap().unwrap().is_guarded);
            }
        });
        assert_eq!(fake.asked(), 1);
    }
}
