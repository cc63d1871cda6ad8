//! What a store has answered to a probe, kept for the next start: a small file for each bucket.
//!
//! ```text
//!   pagewell-probe 3
//!   place s3://bucket at http://127.0.0.1:9000
//!   asked 1795839036 by 0.31.0
//!   changes yes
//!   race_has_one_winner no 3 of 8 won
//!   check 0123456789abcdef
//! ```
//!
//! A file that is damaged, older than [`AGE`], of another bucket or of another form counts as none.
//! Where the keys may not write, nothing is kept: that is no property of the store.
//!
//! **Known weakness.** A store that replaces another one at the same address gets its answers, on
//! which conditions and the comparing of signed hashes rest, for as long; `pagewell probe` asks it
//! at once.

use std::fs::DirBuilder;
use std::hash::Hasher;
use std::io::{self, Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use pagewell_base::files;
use pagewell_base::line::one_line;
use pagewell_object_client::{Answer, Class, Location, Options, Question, Report, open};
use siphasher::sip::SipHasher13;

use super::identifier::KeyHasher;

pub(super) const AGE: Duration = Duration::from_secs(30 * 24 * 3600);
/// The clock may have been wrong by this when the store was asked.
const CLOCK_ERROR: Duration = Duration::from_secs(24 * 3600);
const FORM: &str = "pagewell-probe 3";
const CHECK: &str = "check ";
const FILE_BYTES_MAX: u64 = 64 << 10;
const REASON_CHARACTERS_MAX: usize = 200;

/// Answers of a store that may be written to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptProbe {
    asked: SystemTime,
    /// In the order of asking.
    answers: Vec<(Question, Answer)>,
}

impl KeptProbe {
    /// What is kept of the bucket of a URL, below this folder.
    #[must_use]
    pub fn of_url(url: &str, folder: &Path) -> Option<Self> {
        Self::read(folder, &place_of(url), SystemTime::now())
    }

    /// Keeps the answers of the bucket of a URL; returns whether there are any to keep.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn keep(url: &str, report: &Report, folder: &Path) -> io::Result<bool> {
        match Self::new(report, SystemTime::now()) {
            Some(kept) => kept.write(folder, &place_of(url)).map(|()| true),
            None => Ok(false),
        }
    }

    /// When the store was asked.
    #[must_use]
    pub fn asked(&self) -> SystemTime {
        self.asked
    }

    pub(super) fn answers(&self) -> &[(Question, Answer)] {
        &self.answers
    }

    /// What the store is good for.
    #[must_use]
    pub fn class(&self) -> Class {
        Class::of(&self.answers)
    }

    pub(super) fn new(report: &Report, asked: SystemTime) -> Option<Self> {
        use Class::{Guarded, GuardedButDeletes, Unguarded};
        let is_of_the_store = matches!(report.class, Guarded | GuardedButDeletes | Unguarded);
        is_of_the_store.then(|| Self {
            asked,
            answers: report.answers.clone(),
        })
    }

    pub(super) fn until(&self) -> SystemTime {
        self.asked + AGE
    }

    pub(super) fn read(folder: &Path, place: &str, now: SystemTime) -> Option<Self> {
        let mut bytes = Vec::new();
        let file = files::open(&path_of(folder, place)).ok()?;
        file.take(FILE_BYTES_MAX).read_to_end(&mut bytes).ok()?;
        let kept = Self::parse(std::str::from_utf8(&bytes).ok()?, place)?;
        let is_fresh = kept.until() > now && kept.asked < now + CLOCK_ERROR;
        is_fresh.then_some(kept)
    }

    pub(super) fn write(&self, folder: &Path, place: &str) -> io::Result<()> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)?;
        let text = self.text(place);
        let write = |file: &mut std::fs::File| file.write_all(text.as_bytes());
        files::replace(&path_of(folder, place), 0o600, write)
    }

    fn text(&self, place: &str) -> String {
        let seconds = self.asked.duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut text = format!("{FORM}\nplace {}\n", one_line(place));
        let version = env!("CARGO_PKG_VERSION");
        text += &format!("asked {} by {version}\n", seconds.as_secs());
        for (question, answer) in &self.answers {
            let (word, reason) = match answer {
                Answer::Yes => ("yes", ""),
                Answer::No(reason) => ("no", reason.as_str()),
                Answer::Unknown(reason) => ("unknown", reason.as_str()),
            };
            let reason: String = one_line(reason)
                .chars()
                .take(REASON_CHARACTERS_MAX)
                .collect();
            let line = format!("{} {word} {reason}", question.name());
            text += &format!("{}\n", line.trim_end());
        }
        let check = check(&text);
        text + &format!("{CHECK}{check:016x}\n")
    }

    fn parse(text: &str, place: &str) -> Option<Self> {
        let (body, last) = text.strip_suffix('\n')?.rsplit_once('\n')?;
        let body = format!("{body}\n");
        if last != format!("{CHECK}{:016x}", check(&body)) {
            return None;
        }
        let mut lines = body.lines();
        let is_right =
            lines.next()? == FORM && lines.next()?.strip_prefix("place ")? == one_line(place);
        let asked = lines.next()?.strip_prefix("asked ")?.split(' ').next()?;
        let answers = lines.map(|line| {
            let (name, rest) = line.split_once(' ')?;
            let (word, reason) = rest.split_once(' ').unwrap_or((rest, ""));
            let mut names = Question::NAMES.iter();
            let (question, _) = names.find(|(_, known)| *known == name)?;
            let answer = match word {
                "yes" => Answer::Yes,
                "no" => Answer::No(reason.to_owned()),
                "unknown" => Answer::Unknown(reason.to_owned()),
                _ => return None,
            };
            Some((*question, answer))
        });
        let answers = answers.collect::<Option<Vec<_>>>()?;
        let asked = UNIX_EPOCH.checked_add(Duration::from_secs(asked.parse().ok()?))?;
        asked.checked_add(AGE).filter(|_| is_right)?;
        Some(Self { asked, answers })
    }
}

/// Against damage, not against people.
fn check(text: &str) -> u64 {
    let mut hasher = SipHasher13::new();
    hasher.write(text.as_bytes());
    hasher.finish()
}

fn path_of(folder: &Path, place: &str) -> PathBuf {
    let hash = KeyHasher::new("probe").of(place).bytes();
    let name: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    folder.join(format!("probe-{name}"))
}

/// The bucket of a URL and its server, the same for each way to write it; without a prefix and
/// secrets.
pub(super) fn place_of(url: &str) -> String {
    let described = || {
        let location = Location::parse(url, &mut Options::default()).ok()?;
        let bucket = location.bucket()?;
        let query = url.split_once('?').map_or("", |(_, query)| query);
        let bucket = format!("{bucket}?{query}");
        Some(open(&bucket, &Options::default()).ok()?.describe())
    };
    described().unwrap_or_else(|| url.split('?').next().unwrap_or(url).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: &str = "s3://bucket at http://127.0.0.1:1";

    fn probe() -> KeptProbe {
        KeptProbe {
            asked: UNIX_EPOCH + Duration::from_secs(1_795_839_036),
            answers: vec![
                (Question::Change, Answer::Yes),
                (Question::Race, Answer::No("3 of 8\nwon".to_owned())),
                (Question::Beside, Answer::Unknown(String::new())),
            ],
        }
    }

    #[test]
    fn what_was_kept_comes_back_as_long_as_it_is_believed() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("probes");
        let (kept, hour) = (probe(), Duration::from_secs(3600));
        kept.write(&folder, PLACE).unwrap();
        let read = KeptProbe::read(&folder, PLACE, kept.asked + hour).unwrap();
        assert_eq!(read.asked, kept.asked);
        let lost = Answer::No("3 of 8\\nwon".to_owned());
        assert_eq!(read.answers[1], (Question::Race, lost));
        assert_eq!(read.answers.len(), 3);
        for now in [kept.asked + AGE, kept.asked - CLOCK_ERROR - hour] {
            assert_eq!(KeptProbe::read(&folder, PLACE, now), None);
        }
        let other = "s3://other at http://127.0.0.1:1";
        assert_eq!(KeptProbe::read(&folder, other, kept.asked), None);
        std::fs::rename(path_of(&folder, PLACE), path_of(&folder, other)).unwrap();
        assert_eq!(KeptProbe::read(&folder, other, kept.asked), None);
    }

    #[test]
    fn damage_and_other_forms_are_as_good_as_none() {
        let text = probe().text(PLACE);
        assert!(KeptProbe::parse(&text, PLACE).is_some());
        for at in 0..text.len() {
            let mut damaged = text.clone().into_bytes();
            damaged[at] ^= 4;
            let damaged = String::from_utf8_lossy(&damaged);
            assert_eq!(KeptProbe::parse(&damaged, PLACE), None, "{damaged}");
            assert_eq!(KeptProbe::parse(&text[..at], PLACE), None, "{at}");
        }
        let body = text.rsplit_once(CHECK).unwrap().0;
        for (old, new) in [
            ("pagewell-probe 3", "pagewell-probe 4"),
            ("race_has", "speed_has"),
            ("changes yes", "changes perhaps"),
            ("1795839036", "18446744073709551615"),
            ("1795839036", "-1"),
        ] {
            let body = body.replace(old, new);
            let text = format!("{body}{CHECK}{:016x}\n", check(&body));
            assert_eq!(KeptProbe::parse(&text, PLACE), None, "{text}");
        }
    }

    #[test]
    fn a_bucket_is_one_place_whatever_is_below_it() {
        let at = "endpoint=http://127.0.0.1:1&region=r&anonymous=true";
        let place = place_of(&format!("s3://bucket/a/b?{at}"));
        assert_eq!(place, PLACE);
        assert_eq!(place, place_of(&format!("s3://bucket?{at}")));
        assert_ne!(place, place_of(&format!("s3://bucket2?{at}")));
        let at = "endpoint=http://127.0.0.1:1&anonymous=true";
        let google = place_of(&format!("gs://bucket/a/b?{at}"));
        assert_eq!(google, "gs://bucket at http://127.0.0.1:1");
        assert_eq!(place_of("http://h/x?secret"), "http://h/x");
    }
}
