//! Opening the folder: what an earlier process has left, and its fate.

use std::collections::BTreeMap;
use std::fs::{DirBuilder, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use pagewell_base::files;
use pagewell_base::line::one_line;
use pagewell_counters::names::STAGING_DAMAGED;
use pagewell_fs::source::OpenError;
use rustix::io::Errno;

use crate::file::StagedFile;
use crate::folder::{Folder, Kind, parse};
use crate::kept;
use crate::lock::lock;
use crate::record::Record;
use crate::staging::Staging;
use crate::stored::{State, Stored};
use crate::sums::{checksum, chunks};
use crate::text::{Lines, escaped, sealed, unescaped_text, unsealed};
use crate::uploads::{NotedUpload, Uploads};

/// Says what the folder is.
const HEAD: &str = "bucket";
const HEADER: &str = "pagewell staging 1";
const HEAD_BYTES_MAX: u64 = 16 << 10;
/// A file that an earlier process has journaled, and not finished.
pub struct Journaled {
    /// As it was written.
    pub record: Record,
    /// With the record's dirty bytes, compared.
    pub file: StagedFile,
}

/// What [`Staging::open`] finds.
pub struct Opened {
    /// The folder.
    pub staging: Arc<Staging>,
    /// To be replayed, the oldest first.
    pub journaled: Vec<Journaled>,
    /// Uploads begun, and not ended: to be aborted, then forgotten.
    pub uploads: Vec<NotedUpload>,
}

/// See [`Staging::open`].
pub(crate) fn open(
    path: &Path,
    origin: &str,
    bytes_max: u64,
    tried_for: Duration,
) -> Result<Opened, OpenError> {
    let shown = path.display().to_string();
    let refused = |reason: &str| OpenError::new(&shown, reason);
    let failed = |error: io::Error| refused(&error.to_string());
    let mut builder = DirBuilder::new();
    builder
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(failed)?;
    let path = path.canonicalize().map_err(failed)?;
    let handle = File::open(&path).map_err(failed)?;
    // What another user put there would be sent with this one's keys.
    let metadata = handle.metadata().map_err(failed)?;
    if let Some(distrust) = files::distrust(&metadata, files::OTHERS_WRITE) {
        return Err(refused(&format!(
            "{distrust}: what is to be uploaded is not kept there (--staging-dir)"
        )));
    }
    match lock(&handle, tried_for) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => return Err(OpenError::in_use(&shown)),
        Err(errno) => return Err(refused(&format!("cannot be locked: {errno}"))),
    }
    let head = path.join(HEAD);
    check_head(&path, &head, origin).map_err(|reason| refused(&reason))?;
    let text = sealed(format!("{HEADER}\nbucket {}\n", escaped(origin.as_bytes())));
    files::replace(&head, 0o600, |file| file.write_all(text.as_bytes())).map_err(failed)?;
    let found = Found::scan(&path).map_err(failed)?;
    let folder = Folder::new(path, origin, bytes_max, handle, found.next_number());
    let journaled = found.restore(&folder).map_err(failed)?;
    let uploads = Uploads::load(&folder, &found.numbers(Kind::Upload));
    let noted = uploads.all();
    Ok(Opened {
        staging: Staging::new(folder, uploads),
        journaled,
        uploads: noted,
    })
}

/// Whether the folder is of this bucket, or empty; else why not.
fn check_head(path: &Path, head: &Path, origin: &str) -> Result<(), String> {
    let text = |error: io::Error| error.to_string();
    let file = match files::open(head) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let temporary = files::temporary_of(Path::new(HEAD));
            for entry in std::fs::read_dir(path).map_err(text)? {
                // Of a process killed before its head had its name.
                if entry.map_err(text)?.file_name() != temporary.as_os_str() {
                    return Err(
                        "is not empty and no staging folder: give one of its own".to_owned()
                    );
                }
            }
            return Ok(());
        }
        Err(error) => return Err(format!("{HEAD}: {error}")),
    };
    let mut bytes = Vec::new();
    file.take(HEAD_BYTES_MAX)
        .read_to_end(&mut bytes)
        .map_err(text)?;
    let bucket = || {
        let mut lines = Lines::new(unsealed(&bytes)?);
        lines.take(HEADER)?;
        unescaped_text(lines.take("bucket")?)
    };
    match bucket() {
        Some(bucket) if bucket == origin => Ok(()),
        Some(bucket) => Err(format!(
            "is the staging folder of {bucket}, not of {origin}"
        )),
        None => Err(format!(
            "its file '{HEAD}' is not one of a staging folder, or is damaged"
        )),
    }
}

/// Files by number.
#[derive(Default)]
struct Found(BTreeMap<u64, Vec<Kind>>);

impl Found {
    fn scan(path: &Path) -> io::Result<Self> {
        let mut found = Self::default();
        for entry in std::fs::read_dir(path)? {
            let entry = entry?;
            let name = entry.file_name();
            let Some((number, kind)) = name.to_str().and_then(parse) else {
                continue;
            };
            if kind == Kind::Temporary {
                std::fs::remove_file(entry.path())?;
            }
            found.0.entry(number).or_default().push(kind);
        }
        Ok(found)
    }

    fn next_number(&self) -> u64 {
        self.0
            .last_key_value()
            .map_or(1, |(last, _)| last.saturating_add(1))
    }

    /// Those with a file of this kind, ascending.
    fn numbers(&self, kind: Kind) -> Vec<u64> {
        let with = self.0.iter().filter(|(_, kinds)| kinds.contains(&kind));
        with.map(|(number, _)| *number).collect()
    }

    /// Removes what has no record, sets aside what is damaged; the rest is journaled.
    fn restore(&self, folder: &Arc<Folder>) -> io::Result<Vec<Journaled>> {
        for number in self.numbers(Kind::Kept) {
            let path = folder.file(number, Kind::Kept);
            // Most may be holes.
            let bytes = path
                .metadata()
                .map_or(0, |status| status.blocks().saturating_mul(512));
            folder.take_over(bytes);
            folder.add_kept(path, bytes);
        }
        let mut journaled = Vec::new();
        for (number, kinds) in &self.0 {
            if kinds.contains(&Kind::Record) {
                journaled.extend(restore_one(folder, *number)?);
                continue;
            }
            for home in [0, 1] {
                if kinds.contains(&Kind::Data(home)) {
                    folder.remove(*number, Kind::Data(home))?;
                }
            }
        }
        Ok(journaled)
    }
}

/// A record, if it is to be replayed.
fn restore_one(folder: &Arc<Folder>, number: u64) -> io::Result<Option<Journaled>> {
    let stored = match folder.read_record(number) {
        Ok(Some(stored)) => stored,
        Ok(None) => return set_aside(folder, number, None, "it is not as it was written"),
        Err(error) => return set_aside(folder, number, None, &error.to_string()),
    };
    if let State::Kept(_) = stored.state {
        // The process ended between two names.
        let is_counted = folder.file(number, Kind::Kept).exists();
        match kept::settle(folder, &stored) {
            Ok(path) if !is_counted => {
                let bytes = stored
                    .parts
                    .iter()
                    .map(|part| part.span.1 - part.span.0)
                    .sum();
                folder.take_over(bytes);
                folder.add_kept(path, bytes);
            }
            Ok(_) => {}
            Err(error) => return set_aside(folder, number, Some(&stored), &error.to_string()),
        }
        return Ok(None);
    }
    if let Err(error) = compare(folder, &stored) {
        folder.descriptors().forget(number);
        return set_aside(folder, number, Some(&stored), &error.to_string());
    }
    let length = |home| {
        let path = folder.file(number, Kind::Data(home));
        path.metadata().ok().map(|status| status.len())
    };
    let lengths = [length(0), length(1)];
    let key = &stored.record.key;
    let file = StagedFile::restored(folder, number, key, &stored.parts, lengths);
    let record = stored.record;
    Ok(Some(Journaled { record, file }))
}

/// Compares the bytes that a record promises.
fn compare(folder: &Folder, stored: &Stored) -> io::Result<()> {
    for ((_, parts), sum) in chunks(&stored.parts).iter().zip(&stored.sums) {
        let found = checksum(parts, |part, bytes| {
            let path = folder.file(stored.number, Kind::Data(part.home));
            let file = folder
                .descriptors()
                .get((stored.number, part.home), &path, false)?;
            file.read_exact_at(bytes, part.span.0)
        })?;
        if found != sum.checksum {
            return Err(io::Error::other("its bytes are not as they were written"));
        }
    }
    Ok(())
}

/// Gives a record and its bytes other names; bytes first, as those without a record are removed.
fn set_aside(
    folder: &Folder,
    number: u64,
    stored: Option<&Stored>,
    reason: &str,
) -> io::Result<Option<Journaled>> {
    STAGING_DAMAGED.add(1);
    let record = folder.file(number, Kind::Record);
    for kind in [Kind::Data(0), Kind::Data(1), Kind::Record] {
        let path = folder.file(number, kind);
        let mut aside = path.clone().into_os_string();
        aside.push(".damaged");
        match std::fs::rename(&path, aside) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    let path = record.display();
    let key = stored.map_or("an object", |stored| stored.record.key.as_str());
    let text = format!("{path}: set aside, {key} is not uploaded: {reason}");
    tracing::warn!("{}", one_line(&text));
    Ok(None)
}
