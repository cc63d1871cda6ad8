//! Each question as requests, and what their answers mean.

use std::sync::Barrier;
use std::thread;

use bytes::Bytes;

use super::trial::{LARGE_BYTES, Trial, pattern};
use super::{Answer, Question};
use crate::error::{Error, Result};
use crate::version::Version;
use crate::writable::{Condition, Copies};

const RACERS: usize = 8;
const ROUNDS: usize = 3;
/// The range that is copied: a part that another one may follow.
const COPIED_BYTES: u32 = 5 << 20;
/// Bytes at the end of a copy that are compared.
const COMPARED_BYTES: u32 = 64 << 10;

type Ask = fn(&Trial) -> Result<Answer>;

pub(super) const READING: [(Question, Ask); 4] = [
    (Question::StrongTag, strong_tag),
    (Question::Ranges, ranges),
    (Question::StaleRead, stale_read),
    (Question::ListedTag, listed_tag),
];
pub(super) const WRITING: [(Question, Ask); 11] = [
    (Question::Create, create),
    (Question::Update, update),
    (Question::Race, race),
    (Question::Complete, complete),
    (Question::Delete, delete),
    (Question::CopyPart, copy_part),
    (Question::StaleCopy, stale_copy),
    (Question::WrongHash, wrong_hash),
    (Question::WrongSignedHash, wrong_signed_hash),
    (Question::Marker, marker),
    (Question::Beside, beside),
];

fn no(text: &str) -> Result<Answer> {
    Ok(Answer::No(text.to_owned()))
}

fn strong_tag(trial: &Trial) -> Result<Answer> {
    let (_, version) = trial.sample()?;
    match version.etag {
        None => no("it sends no ETag"),
        Some(_) if version.is_weak() => no("its ETag is weak"),
        Some(_) => Ok(Answer::Yes),
    }
}

fn ranges(trial: &Trial) -> Result<Answer> {
    let (key, version) = trial.sample()?;
    if version.length_bytes < 2 {
        let text = "the file is too short for parts";
        return Ok(Answer::Unknown(text.to_owned()));
    }
    trial.bytes(&key, &version, 1..2)?;
    Ok(Answer::Yes)
}

fn stale_read(trial: &Trial) -> Result<Answer> {
    let (key, _) = trial.sample()?;
    match trial.writable()?.honours_if_match(&key)? {
        true => Ok(Answer::Yes),
        false => no("it sends the bytes of another version"),
    }
}

fn listed_tag(trial: &Trial) -> Result<Answer> {
    let (key, version) = trial.sample()?;
    let listed = trial.listed(&key)?;
    match listed.into_iter().find(|(found, _)| *found == key) {
        None => no("the object is not in the list"),
        Some((_, found)) if found.etag.is_none() => no("the list has no ETag"),
        Some((_, found)) if found.etag != version.etag => no("the list has another ETag"),
        Some(_) => Ok(Answer::Yes),
    }
}

pub(super) fn change(trial: &Trial) -> Result<Answer> {
    let key = trial.key("change");
    match trial.put(&key, b"a probe of Pagewell", &Condition::Always) {
        Ok(_) => Ok(Answer::Yes),
        Err(Error::Denied(text) | Error::Invalid(text)) => Ok(Answer::No(text)),
        Err(error) => Err(error),
    }
}

/// Whether a change was refused by its condition.
fn is_refused<T>(result: Result<T>) -> Result<bool> {
    match result {
        Ok(_) => Ok(false),
        Err(Error::Exists | Error::Changed | Error::NotFound) => Ok(true),
        Err(error) => Err(error),
    }
}

fn is_there(trial: &Trial, key: &str) -> Result<bool> {
    match trial.remote().head(key) {
        Ok(_) => Ok(true),
        Err(Error::NotFound) => Ok(false),
        Err(error) => Err(error),
    }
}

fn kept(trial: &Trial, key: &str, bytes: &[u8]) -> Result<Answer> {
    if trial.content(key)? == bytes {
        return Ok(Answer::Yes);
    }
    no("the object has other bytes afterwards")
}

fn create(trial: &Trial) -> Result<Answer> {
    let key = trial.key("create");
    if is_refused(trial.put(&key, b"the first", &Condition::Absent))? {
        return no("it refuses a new object");
    }
    if !is_refused(trial.put(&key, b"the second", &Condition::Absent))? {
        return no("the second replaced the first");
    }
    kept(trial, &key, b"the first")
}

fn changed(trial: &Trial, name: &str) -> Result<(String, Version, Version)> {
    let key = trial.key(name);
    let old = trial.put(&key, b"the old one", &Condition::Always)?;
    let new = trial.put(&key, b"the new one", &Condition::Always)?;
    Ok((key, old, new))
}

fn update(trial: &Trial) -> Result<Answer> {
    let (key, old, new) = changed(trial, "update")?;
    if !is_refused(trial.put(&key, b"of the old", &Condition::Is(old)))? {
        return no("a change of an old version replaced a newer one");
    }
    let kept = kept(trial, &key, b"the new one")?;
    if is_refused(trial.put(&key, b"of the new", &Condition::Is(new)))? {
        return no("it refuses the right version, too");
    }
    Ok(kept)
}

fn race(trial: &Trial) -> Result<Answer> {
    const BODIES: [&[u8]; RACERS] = [b"0", b"1", b"2", b"3", b"4", b"5", b"6", b"7"];
    for round in 0..ROUNDS {
        let key = trial.key(&format!("race-{round}"));
        let start = Barrier::new(RACERS);
        let results: Vec<Result<bool>> = thread::scope(|scope| {
            let racers = BODIES.map(|body| {
                let (key, start) = (&key, &start);
                scope.spawn(move || {
                    start.wait();
                    is_refused(trial.put(key, body, &Condition::Absent))
                })
            });
            let lost = || Err(Error::TryLater("a thread ended".to_owned()));
            let results = racers.map(|racer| racer.join().unwrap_or_else(|_| lost()));
            results.into()
        });
        let won: Vec<usize> = (0..RACERS).filter(|at| results[*at] == Ok(false)).collect();
        if won.len() > 1 {
            return Ok(Answer::No(format!("{} of {RACERS} won", won.len())));
        }
        for result in &results {
            result.clone()?;
        }
        let [winner] = won[..] else {
            return Ok(Answer::No(format!("none of {RACERS} won")));
        };
        let kept = kept(trial, &key, BODIES[winner])?;
        if kept != Answer::Yes {
            return Ok(kept);
        }
    }
    Ok(Answer::Yes)
}

fn complete(trial: &Trial) -> Result<Answer> {
    let (key, old, new) = changed(trial, "complete")?;
    let completed = |condition: Condition| {
        let upload = trial.begin(&key)?;
        let body = Bytes::from_static(b"in parts");
        let part = trial.writable()?.upload_part(&upload, 1, body)?;
        let result = trial.writable()?.complete(&upload, &[part], &condition);
        is_refused(result).map(|is_refused| !is_refused)
    };
    if completed(Condition::Is(old))? {
        return no("an upload for an old version replaced a newer one");
    }
    if completed(Condition::Absent)? {
        return no("an upload of a new object replaced one");
    }
    let kept = kept(trial, &key, b"the new one")?;
    if !completed(Condition::Is(new))? {
        return no("it refuses the right version, too");
    }
    Ok(kept)
}

fn delete(trial: &Trial) -> Result<Answer> {
    let (key, old, new) = changed(trial, "delete")?;
    if !is_refused(trial.writable()?.delete(&key, &Condition::Is(old)))? {
        return no("a delete of an old version deleted a newer one");
    }
    let kept = kept(trial, &key, b"the new one")?;
    if is_refused(trial.writable()?.delete(&key, &Condition::Is(new)))? {
        return no("it refuses the right version, too");
    }
    Ok(kept)
}

fn copy_part(trial: &Trial) -> Result<Answer> {
    let (source, version) = trial.large()?;
    let key = trial.key("copy");
    let upload = trial.begin(&key)?;
    let writable = trial.writable()?;
    let bytes = match writable.copies() {
        Copies::Ranges => COPIED_BYTES,
        Copies::Objects => LARGE_BYTES,
    };
    let part = writable.copy_part(&upload, 1, &source, &version, 0..bytes.into())?;
    writable.complete(&upload, &[part], &Condition::Always)?;
    let made = trial.remote().head(&key)?.version;
    if made.length_bytes != u64::from(bytes) {
        return no("the copy has another length");
    }
    let compared = bytes - COMPARED_BYTES..bytes;
    let range = compared.start.into()..compared.end.into();
    if trial.bytes(&key, &made, range)? != pattern(compared) {
        return no("the copy has other bytes");
    }
    Ok(Answer::Yes)
}

fn stale_copy(trial: &Trial) -> Result<Answer> {
    let writable = trial.writable()?;
    let upload = trial.begin(&trial.key("stale-copy"))?;
    let result = match writable.copies() {
        Copies::Ranges => {
            let (source, version) = trial.large()?;
            let stale = Version {
                etag: Some(format!("\"{}\"", "0".repeat(32))),
                ..version
            };
            let range = 0..COPIED_BYTES.into();
            writable
                .copy_part(&upload, 1, &source, &stale, range)
                .map(drop)
        }
        // It is read when the upload ends.
        Copies::Objects => {
            let source = trial.key("stale-copy-source");
            let old = trial.put(&source, b"the old one", &Condition::Always)?;
            let range = 0..old.length_bytes;
            let part = writable.copy_part(&upload, 1, &source, &old, range)?;
            trial.put(&source, b"the new one", &Condition::Always)?;
            writable
                .complete(&upload, &[part], &Condition::Always)
                .map(drop)
        }
    };
    match is_refused(result)? {
        true => Ok(Answer::Yes),
        false => no("it copies from another version"),
    }
}

fn wrong_hash(trial: &Trial) -> Result<Answer> {
    let key = trial.key("hash");
    match trial.writable()?.compares_hashes(&key)? {
        true => Ok(Answer::Yes),
        false => no("it keeps a body whose MD5 is not that of the request"),
    }
}

fn wrong_signed_hash(trial: &Trial) -> Result<Answer> {
    let upload = trial.begin(&trial.key("signed-hash"))?;
    match trial.writable()?.compares_signed_hashes(&upload)? {
        true => Ok(Answer::Yes),
        false => no("it keeps a body whose SHA-256 is not that of the signature"),
    }
}

fn marker(trial: &Trial) -> Result<Answer> {
    let key = trial.key("folder/");
    trial.put(&key, b"", &Condition::Always)?;
    if !is_there(trial, &key)? {
        return no("it is not there afterwards");
    }
    match trial.listed(&key)?.iter().any(|(found, _)| *found == key) {
        true => Ok(Answer::Yes),
        false => no("it is not listed"),
    }
}

fn beside(trial: &Trial) -> Result<Answer> {
    let (file, below) = (trial.key("both"), trial.key("both/below"));
    trial.put(&file, b"a file", &Condition::Always)?;
    match trial.put(&below, b"a file below it", &Condition::Always) {
        Ok(_) => {}
        Err(error @ (Error::Denied(_) | Error::Unreachable(_))) => return Err(error),
        Err(error) => return Ok(Answer::No(error.to_string())),
    }
    if !is_there(trial, &file)? || !is_there(trial, &below)? {
        return no("one of them is gone afterwards");
    }
    Ok(Answer::Yes)
}
