//! Mirrors of storage: where the records of their halves are, and what people are told of them.

mod absent;
mod binding;
mod closing;
mod place;
mod sidecar;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{anyhow, bail};
use pagewell_base::sync::Mutex;
use pagewell_device::{
    Assessment, Condition, Device, MemoryRecord, Mirror, MirrorError, MirrorRecord, RecordError,
    Refusal,
};

use crate::escape;
use crate::failure;
use crate::storage::grammar::Storage;
use crate::storage::parts::{Parts, Want};

pub(crate) use absent::Absent;
pub(crate) use binding::is_absent;
pub(crate) use closing::wait_until_closed;
use place::Place;
use sidecar::Sidecars;

/// Where the records of the halves of one mirror are.
pub(crate) struct Records {
    /// Of each half, when the halves outlive the program.
    files: Option<Vec<PathBuf>>,
    record: Arc<dyn MirrorRecord>,
    /// Some halves are, or hold, memory, and others are not.
    is_mixed: bool,
    /// A half that nothing tells from another in its place.
    nameless: Option<Place>,
}

impl Records {
    /// For these halves; `devices` are what they were opened as.
    pub(crate) fn of(halves: &[Storage], devices: &[Arc<dyn Device>]) -> anyhow::Result<Self> {
        let places = halves.iter().map(Place::of);
        let places = places.collect::<anyhow::Result<Vec<_>>>()?;
        let bindings = halves.iter().map(binding::of).collect();
        Self::in_places(&places, bindings, devices)
    }

    fn in_places(
        places: &[Place],
        bindings: Vec<Option<u64>>,
        devices: &[Arc<dyn Device>],
    ) -> anyhow::Result<Self> {
        let is_nameless = |place: &&Place| matches!(place, Place::Nameless(_) | Place::Timeless(_));
        let nameless = places.iter().find(is_nameless).cloned();
        if let Some(Place::Nameless(path) | Place::Timeless(path)) = &nameless {
            refuse_records_beside(places, path)?;
        }
        let files = places.iter().map(|place| match place {
            Place::File(path) => Some(path.clone()),
            Place::Zeros | Place::Mixed | Place::Nameless(_) | Place::Timeless(_) => None,
        });
        let files: Option<Vec<PathBuf>> = files.collect();
        let is_zeros = places.iter().all(|place| *place == Place::Zeros);
        let length_bytes = devices.first().map_or(0, |half| half.length_bytes());
        let record: Arc<dyn MirrorRecord> = match &files {
            Some(files) => Arc::new(Sidecars::new(files.clone(), bindings)),
            // Halves of zeros are equal.
            None if is_zeros => Arc::new(MemoryRecord::of_equal(places.len(), length_bytes)),
            None => Arc::new(MemoryRecord::new(places.len())),
        };
        Ok(Self {
            is_mixed: files.is_none() && !is_zeros,
            nameless,
            files,
            record,
        })
    }

    /// Where the record of a half is kept.
    pub(crate) fn file(&self, half: usize) -> Option<&Path> {
        self.files.as_ref()?.get(half).map(PathBuf::as_path)
    }

    /// The records themselves.
    pub(crate) fn record(&self) -> &Arc<dyn MirrorRecord> {
        &self.record
    }

    /// Refuses what can be no lasting mirror.
    pub(crate) fn check_lasting(&self, name: &str) -> anyhow::Result<()> {
        match &self.nameless {
            Some(Place::Timeless(file)) => bail!(
                "{name}: the file system of {} does not keep when a file was made, so another file \
                 in its place would not be noticed, and the mirror is read-only",
                file.display()
            ),
            Some(Place::Nameless(device)) => bail!(
                "{name}: {} may be another device after the next start, so no record of it can be \
                 kept and the mirror is read-only: use a device that has a name in \
                 /dev/disk/by-id or /dev/disk/by-partuuid",
                device.display()
            ),
            _ => {}
        }
        if self.is_mixed {
            bail!("{name}: a half in memory ends with the program: such a mirror is read-only");
        }
        let Some(files) = &self.files else {
            return Ok(());
        };
        let mut seen = BTreeSet::new();
        match files.iter().find(|file| !seen.insert(*file)) {
            Some(file) => Err(anyhow!(
                "{name}: two halves would have the record {}",
                file.display()
            )),
            None => Ok(()),
        }
    }
}

/// Without records the halves are taken for equal. One that has a record is known to be a half of
/// another mirror, and may have missed writes.
fn refuse_records_beside(places: &[Place], device: &Path) -> anyhow::Result<()> {
    let found = places.iter().find_map(|place| match place {
        Place::File(record) if record.symlink_metadata().is_ok() => Some(record),
        _ => None,
    });
    match found {
        Some(record) => bail!(
            "{} is the record of another mirror: none is kept of {}",
            record.display(),
            device.display()
        ),
        None => Ok(()),
    }
}

/// A mirror, open.
pub(crate) struct OpenMirror {
    /// Its bytes.
    pub(crate) device: Arc<dyn Device>,
    /// Why it can only be read.
    pub(crate) read_only: Option<String>,
    /// Its number, when it has records.
    pub(crate) identity: Option<[u8; 16]>,
}

/// Makes a mirror of halves that are open, as their records say, and says on standard error, once,
/// which halves are not read. When it is `wanted` to be written and its records do not allow that,
/// it can be read, and the reason comes with it.
pub(crate) fn open(
    name: &str,
    halves: &[Storage],
    mut parts: Parts,
    wanted: Want,
) -> anyhow::Result<OpenMirror> {
    let missing = std::mem::take(&mut parts.missing);
    let records = Records::of(halves, &parts.devices)?;
    let devices = parts.devices;
    let names: Vec<String> = devices.iter().map(|half| half.name().to_owned()).collect();
    let open = |writable| Mirror::open(name, devices.clone(), records.record().clone(), writable);
    let mut read_only = parts.read_only;
    if read_only.is_none() {
        read_only = match (missing.first(), wanted) {
            (Some(missing), Want::Write) => Some(format!(
                "{name}: {missing}; --write-degraded writes to what is left, and what is missing \
                 is then out of date when it returns"
            )),
            _ => {
                let refused = records.check_lasting(name).err();
                refused.map(|reason| failure::one_line(&reason))
            }
        };
    }
    let mut opened = open(read_only.is_none());
    if let Err(
        error @ (MirrorError::Refused(Refusal::NeverCompared)
        | MirrorError::Record(RecordError::Failed { .. })),
    ) = opened
    {
        read_only = Some(failure::one_line(&advice(name, error)));
        opened = open(false);
    }
    let (mirror, assessment) = opened.map_err(|error| advice(name, error))?;
    if let Some(missing) = missing.first().filter(|_| assessment.is_unknown()) {
        bail!("{name}: {missing}");
    }
    for text in warnings(name, &names, &assessment) {
        say_once(&text);
    }
    let any = assessment.standings.iter().flatten().next();
    Ok(OpenMirror {
        device: Arc::new(mirror),
        read_only,
        identity: any.map(|standing| standing.identity),
    })
}

/// Why this may not be written to by itself: it is a half of a mirror, and the others would not
/// get what is written.
pub(crate) fn why_not_alone(storage: &Storage) -> Option<String> {
    let place = match storage {
        Storage::Ram(_) => return None,
        Storage::Stripe(_, parts) => return parts.iter().find_map(why_not_alone),
        Storage::Model(_, inner) => return why_not_alone(inner),
        Storage::Path(_) | Storage::Mirror(_) => Place::of(storage),
    };
    match place {
        Err(error) if matches!(storage, Storage::Path(_)) && place::is_out_of_reach(&error) => None,
        Err(error) => Some(failure::one_line(&error)),
        Ok(Place::File(record)) if record.symlink_metadata().is_ok() => Some(format!(
            "it is a half of a mirror and is written to as such (mirror:...); if it no longer is \
             one, remove {}",
            record.display()
        )),
        Ok(_) => None,
    }
}

/// The error, with what to do about it.
pub(crate) fn advice(name: &str, error: MirrorError) -> anyhow::Error {
    let todo = match &error {
        MirrorError::Refused(Refusal::NeverCompared) => {
            "'pagewell mirror resync' compares them, once, before the mirror can be written to"
        }
        MirrorError::Refused(Refusal::Unfinished { .. }) => "name a good half with --from, or none",
        MirrorError::Refused(Refusal::NoneGood) => {
            "'pagewell mirror status' tells what is known of each; 'pagewell mirror resync --from \
             HALF' makes the others equal to the half you choose"
        }
        MirrorError::Refused(Refusal::Absent { .. }) => {
            "put a file or device of the same length in its place"
        }
        MirrorError::Refused(_)
        | MirrorError::Record(RecordError::Garbled { .. })
        | MirrorError::Differs { .. } => {
            "'pagewell mirror resync --from HALF' makes the others equal to the half you choose"
        }
        MirrorError::Record(_) => return anyhow!("{name}: record of a half: {error}"),
        MirrorError::Combine(_) | MirrorError::Device(_) => return error.into(),
    };
    anyhow!("{name}: {error}: {todo}")
}

/// What is to be said about a mirror that is opened with these halves.
fn warnings(name: &str, names: &[String], assessment: &Assessment) -> Vec<String> {
    let pairs = names.iter().zip(&assessment.conditions);
    let line = |(half, condition): (&String, &Condition)| {
        let reason = match condition {
            Condition::Current | Condition::Unknown => return None,
            Condition::Doubtful => {
                "the mirror is in use, or was not closed when it was: it may lack the last writes"
            }
            Condition::Stale => "it missed writes",
            Condition::Unfinished => "it was not completely resynchronised",
            Condition::Replaced => {
                "it is not the file or device that was a half of the mirror (copied, moved to \
                 another file system, or a new one)"
            }
            Condition::Missing => {
                return Some(format!(
                    "warning: {name}: {half} is missing: only what is left is used"
                ));
            }
            Condition::Split => "it and another were each written to while the other was missing",
        };
        Some(format!(
            "warning: {name}: {half} is not used: {reason} ('pagewell mirror resync' makes the \
             halves equal)"
        ))
    };
    pairs.filter_map(line).collect()
}

/// A source may be opened more than once in the life of a program.
fn say_once(text: &str) {
    static SAID: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let mut said = SAID.lock();
    if said.insert(escape::text(text.as_bytes())) {
        failure::report(text);
    }
}

#[cfg(test)]
mod tests;
