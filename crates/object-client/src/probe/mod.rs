//! What an object store or a web server does, asked of it within half a minute.
//!
//! Names of servers say nothing: each condition is tried by itself, and creates are raced, since a
//! server that honours conditions one after the other may let many win at once. The objects of a
//! probe lie below `.pagewell-probe-` and a random number, and are removed at the end.
//!
//! Weaknesses: a killed probe leaves its objects behind; a bucket with versions keeps what was
//! deleted; a race with one winner at each of three times may have more at another.

mod questions;
mod trial;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::location::Location;
use crate::open::open;
use crate::options::Options;
use crate::remote::{ListQuery, Remote};
use crate::version::Version;
use crate::writable::WritableRemote;
use trial::{Measured, Trial, within};

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// Whether objects are listed.
    Lists,
    /// Whether strong tags name the versions.
    StrongTag,
    /// Whether parts of an object can be read.
    Ranges,
    /// Whether a GET of a version that is gone is refused.
    StaleRead,
    /// Whether listings have the tag that a HEAD has.
    ListedTag,
    /// Whether objects may be made at all.
    Change,
    /// Whether a second create is refused, and the first one's bytes stay.
    Create,
    /// Whether a change of a version that is gone is refused, and one of the right version done.
    Update,
    /// Whether of eight creates at once one wins.
    Race,
    /// The question of updates for the end of an upload in parts.
    Complete,
    /// Whether a delete of a version that is gone is refused, and one of the right version done.
    Delete,
    /// Whether bytes of an object become a part of another inside the server.
    CopyPart,
    /// Whether such a copy of a version that is gone is refused.
    StaleCopy,
    /// Whether a body with a wrong MD5 is refused.
    WrongHash,
    /// Whether a body with another SHA-256 than the signed one is refused.
    WrongSignedHash,
    /// Whether `dir/` is kept and listed.
    Marker,
    /// Whether `a` and `a/b` can both be there.
    Beside,
}

impl Question {
    /// All of them, with their names for programs.
    pub const NAMES: [(Self, &'static str); 17] = [
        (Self::Lists, "lists"),
        (Self::StrongTag, "strong_tag"),
        (Self::Ranges, "ranges"),
        (Self::StaleRead, "stale_read_refused"),
        (Self::ListedTag, "listed_tag"),
        (Self::Change, "changes"),
        (Self::Create, "second_create_refused"),
        (Self::Update, "stale_update_refused"),
        (Self::Race, "race_has_one_winner"),
        (Self::Complete, "stale_completion_refused"),
        (Self::Delete, "stale_delete_refused"),
        (Self::CopyPart, "part_copy"),
        (Self::StaleCopy, "stale_part_copy_refused"),
        (Self::WrongHash, "wrong_hash_refused"),
        (Self::WrongSignedHash, "wrong_signed_hash_refused"),
        (Self::Marker, "folder_marker"),
        (Self::Beside, "object_beside_folder"),
    ];

    /// Its name for programs.
    #[must_use]
    pub fn name(self) -> &'static str {
        let mut names = Self::NAMES.iter();
        names
            .find(|(one, _)| *one == self)
            .map_or("", |(_, name)| name)
    }
}

/// The answer to a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It does.
    Yes,
    /// It does not: what was seen.
    No(String),
    /// Why it is not known.
    Unknown(String),
}

impl From<Result<Answer>> for Answer {
    fn from(result: Result<Self>) -> Self {
        match result {
            Ok(answer) => answer,
            Err(Error::Unsupported(text)) => Self::No(text),
            Err(error) => Self::Unknown(error.to_string()),
        }
    }
}

/// What a place is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// The store guards all changes.
    Guarded,
    /// It guards all changes but deletes.
    GuardedButDeletes,
    /// A change may replace another one unseen.
    Unguarded,
    /// Read only; a read may mix two versions, or ranges cannot be had.
    WeakWeb,
    /// Read only, each byte of one version.
    ReadOnly,
    /// What decides could not be asked.
    Unknown,
}

impl Class {
    /// Its name for people.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Guarded => "guarded",
            Self::GuardedButDeletes => "guarded, but deletes are not",
            Self::Unguarded => "unguarded",
            Self::WeakWeb => "weak web",
            Self::ReadOnly => "read only",
            Self::Unknown => "unknown",
        }
    }

    /// The class by these answers; some may be missing.
    #[must_use]
    pub fn of(answers: &[(Question, Answer)]) -> Self {
        let answer = |question| {
            let found = answers.iter().find(|(asked, _)| *asked == question);
            found.map(|(_, answer)| answer)
        };
        let all = |questions: &[Question], bad, good| {
            let mut found = questions.iter().map(|question| answer(*question));
            if found
                .clone()
                .any(|answer| matches!(answer, Some(Answer::No(_))))
            {
                return bad;
            }
            if found.all(|answer| answer == Some(&Answer::Yes)) {
                good
            } else {
                Self::Unknown
            }
        };
        match answer(Question::Change) {
            Some(Answer::Yes) => {
                let good = match answer(Question::Delete) {
                    Some(Answer::Yes) => Self::Guarded,
                    _ => Self::GuardedButDeletes,
                };
                use Question::{Complete, Create, Race, Update};
                all(&[Create, Update, Race, Complete], Self::Unguarded, good)
            }
            Some(Answer::Unknown(_)) => Self::Unknown,
            Some(Answer::No(_)) | None => {
                let deciding = [Question::StrongTag, Question::Ranges];
                all(&deciding, Self::WeakWeb, Self::ReadOnly)
            }
        }
    }
}

/// What was learned of a place.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// As [`Remote::describe`] says.
    pub place: String,
    /// In the order of asking, without questions that make no sense for the place.
    pub answers: Vec<(Question, Answer)>,
    /// What it is good for.
    pub class: Class,
    /// The median time of a HEAD.
    pub latency: Option<Duration>,
    /// Bytes in a second of one ranged GET.
    pub bytes_per_second: Option<f64>,
    /// Keys that were made and could not be removed.
    pub left_behind: Vec<String>,
}

#[derive(Clone, Copy, Debug)]
struct Limits {
    look: Duration,
    questions: Duration,
    clean: Duration,
}

const LIMITS: Limits = Limits {
    look: Duration::from_secs(9),
    questions: Duration::from_secs(13),
    clean: Duration::from_secs(7),
};
/// Time limits of a single request.
const RETRY_MAX: Duration = Duration::from_secs(3);
const STALL_MAX: Duration = Duration::from_secs(4);
/// Entries of a listing among which one to be read is looked for.
const ENTRIES_MAX: u32 = 1000;

/// Asks the place of a URL, and removes what that made. With `is_read_only` nothing is changed.
/// Time-outs of the options count as far as half a minute allows.
///
/// # Errors
/// When the place cannot be reached, is not there, or refuses all.
pub fn probe(url: &str, options: &Options, is_read_only: bool) -> Result<Report> {
    let mut options = options.clone();
    let location = Location::parse(url, &mut options)?;
    options.retry = options.retry.min(RETRY_MAX);
    options.stall = options.stall.min(STALL_MAX);
    options.connect = options.connect.min(STALL_MAX);
    // Options of the URL are set already, but for those times.
    let place = match location.bucket() {
        Some(_) => url.split('?').next().unwrap_or(url),
        None => url,
    };
    let remote = open(place, &options)?;
    run(remote, location.prefix(), is_read_only, LIMITS)
}

struct Look {
    folder: String,
    found: Option<(String, Version)>,
    /// Whether the folder is listed; `None` for a file of the web.
    lists: Option<Answer>,
}

fn look(remote: &dyn Remote, prefix: &str) -> Result<Look> {
    let is_store = remote.as_writable().is_some();
    let is_folder = prefix.is_empty() || prefix.ends_with('/');
    if !is_folder {
        match remote.head(prefix) {
            Ok(info) => {
                let folder = &prefix[..prefix.rfind('/').map_or(0, |slash| slash + 1)];
                return Ok(Look {
                    folder: folder.to_owned(),
                    found: Some((prefix.to_owned(), info.version)),
                    lists: is_store
                        .then(|| list(remote, folder))
                        .transpose()?
                        .map(|(lists, _)| lists),
                });
            }
            Err(Error::NotFound | Error::Denied(_)) if is_store => {}
            Err(error) => return Err(error),
        }
    }
    let slash = if is_folder { "" } else { "/" };
    let folder = format!("{prefix}{slash}");
    let (lists, key) = list(remote, &folder)?;
    let head = |key: String| remote.head(&key).ok().map(|info| (key, info.version));
    Ok(Look {
        found: key.and_then(head),
        folder,
        lists: Some(lists),
    })
}

/// Whether the folder is listed, and the key of the largest object there.
fn list(remote: &dyn Remote, folder: &str) -> Result<(Answer, Option<String>)> {
    let page = remote.list(&ListQuery {
        prefix: folder,
        delimiter: remote.as_writable().is_none(),
        token: None,
        page_entries_max: ENTRIES_MAX,
    });
    match page {
        Ok(page) => {
            let largest = page
                .objects
                .into_iter()
                .filter(|object| !object.key.ends_with('/'));
            let largest = largest.max_by_key(|object| object.version.length_bytes);
            Ok((Answer::Yes, largest.map(|object| object.key)))
        }
        Err(Error::Denied(text) | Error::Unsupported(text)) => Ok((Answer::No(text), None)),
        Err(error) => Err(error),
    }
}

fn run(
    remote: Arc<dyn Remote>,
    prefix: &str,
    is_read_only: bool,
    limits: Limits,
) -> Result<Report> {
    let is_store = remote.as_writable().is_some();
    let (own, prefix) = (Arc::clone(&remote), prefix.to_owned());
    let until = Instant::now() + limits.look;
    let seen = within(until, move || look(own.as_ref(), &prefix)).unwrap_or_else(|| {
        let text = format!("{}: no answer within {:?}", remote.describe(), limits.look);
        Err(Error::Unreachable(text))
    })?;
    let until = Instant::now() + limits.questions;
    let trial = Arc::new(Trial::new(Arc::clone(&remote), &seen.folder, until)?);
    let mut answers = Vec::from_iter(seen.lists.map(|answer| (Question::Lists, answer)));
    let mut changes = None;
    if is_store && !is_read_only {
        changes = Some(trial.ask(questions::change));
    }
    // Where nothing may be done there is nothing to report.
    if let ([(_, Answer::No(reason))], None | Some(Answer::No(_)), None) =
        (answers.as_slice(), &changes, &seen.found)
        && is_store
    {
        return Err(Error::Denied(reason.clone()));
    }
    let is_writable = changes == Some(Answer::Yes);
    trial.take_sample(seen.found, is_writable);
    let reading = questions::READING.iter();
    // Web servers are asked these alone.
    let of_web = [Question::StrongTag, Question::Ranges];
    let reading = reading.filter(|(question, _)| is_store || of_web.contains(question));
    answers.extend(reading.map(|(question, ask)| (*question, trial.ask(*ask))));
    answers.extend(changes.map(|answer| (Question::Change, answer)));
    if is_writable {
        let signs = remote
            .as_writable()
            .is_some_and(WritableRemote::signs_bodies);
        let writing = questions::WRITING.iter();
        let writing = writing.filter(|(one, _)| signs || *one != Question::WrongSignedHash);
        answers.extend(writing.map(|(question, ask)| (*question, trial.ask(*ask))));
    }
    let Measured {
        latency,
        bytes_per_second,
    } = trial.measure();
    Ok(Report {
        place: remote.describe(),
        class: Class::of(&answers),
        answers,
        latency,
        bytes_per_second,
        left_behind: trial.clean(Instant::now() + limits.clean),
    })
}
