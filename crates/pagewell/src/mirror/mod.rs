//! Mirrors of storage: where the records of their legs are, and what people are told of them.

mod binding;
mod closing;
mod place;
mod sidecar;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{anyhow, bail};
use pagewell_base::sync::Mutex;
use pagewell_counters::names::MIRROR_HALVES_LEFT_OUT;
use pagewell_device::{
    Assessment, Condition, Device, MemoryRecord, Mirror, MirrorError, MirrorRecord, RecordError,
    Refusal,
};
use pagewell_source_image::Origin;

use crate::escape;
use crate::failure;
use crate::storage::grammar::Storage;
use crate::storage::parts::{Opened, Parts, Want};

pub(crate) use binding::is_absent;
pub(crate) use closing::wait_until_closed;
use place::Place;
use sidecar::Sidecars;

/// Where the records of the legs of one mirror are.
pub(crate) struct Records {
    /// What the places of all legs come to.
    whole: Place,
    /// Of each leg, when the legs outlive the program.
    files: Vec<PathBuf>,
    /// The records themselves.
    pub(crate) record: Arc<dyn MirrorRecord>,
}

impl Records {
    /// For these legs; `devices` are what they were opened as.
    pub(crate) fn of(legs: &[Storage], devices: &[Arc<dyn Device>]) -> anyhow::Result<Self> {
        let places = legs.iter().map(Place::of);
        let places = places.collect::<anyhow::Result<Vec<_>>>()?;
        let bindings = legs.iter().map(binding::of).collect();
        Self::in_places(&places, bindings, devices)
    }

    fn in_places(
        places: &[Place],
        bindings: Vec<Option<u64>>,
        devices: &[Arc<dyn Device>],
    ) -> anyhow::Result<Self> {
        let whole = Place::of_all(places);
        if let Place::Nameless(path) | Place::Timeless(path) = &whole {
            refuse_records_beside(places, path)?;
        }
        let mut files = Vec::new();
        let record: Arc<dyn MirrorRecord> = match &whole {
            Place::File(_) => {
                files.extend(places.iter().filter_map(Place::file).map(Path::to_owned));
                Arc::new(Sidecars::new(files.clone(), bindings))
            }
            Place::Zeros => {
                // Legs of zeros are equal.
                let length_bytes = devices.first().map_or(0, |leg| leg.length_bytes());
                Arc::new(MemoryRecord::of_equal(places.len(), length_bytes))
            }
            _ => Arc::new(MemoryRecord::new(places.len())),
        };
        Ok(Self {
            whole,
            files,
            record,
        })
    }

    /// Where the record of a leg is kept.
    pub(crate) fn file(&self, leg: usize) -> Option<&Path> {
        self.files.get(leg).map(PathBuf::as_path)
    }

    /// Refuses what can be no lasting mirror.
    pub(crate) fn check_lasting(&self, name: &str) -> anyhow::Result<()> {
        let reason = match &self.whole {
            Place::Timeless(file) => format!(
                "the file system of {} does not keep when a file was made, so another file in its \
                 place would not be noticed, and the mirror is read-only",
                file.display()
            ),
            Place::Nameless(device) => format!(
                "{} may be another device after the next start, so no record of it can be kept and \
                 the mirror is read-only: use a device that has a name in /dev/disk/by-id or \
                 /dev/disk/by-partuuid",
                device.display()
            ),
            Place::Mixed => {
                "a leg in memory ends with the program: such a mirror is read-only".to_owned()
            }
            Place::File(_) | Place::Zeros => {
                let mut seen = BTreeSet::new();
                match self.files.iter().find(|file| !seen.insert(*file)) {
                    Some(file) => format!("two legs would have the record {}", file.display()),
                    None => return Ok(()),
                }
            }
        };
        bail!("{name}: {reason}")
    }
}

/// Without records the legs are taken for equal. One that has a record is known to be a leg of
/// another mirror, and may have missed writes.
fn refuse_records_beside(places: &[Place], device: &Path) -> anyhow::Result<()> {
    let mut records = places.iter().filter_map(Place::file);
    match records.find(|record| record.symlink_metadata().is_ok()) {
        Some(record) => bail!(
            "{} is the record of another mirror: none is kept of {}",
            record.display(),
            device.display()
        ),
        None => Ok(()),
    }
}

/// Makes a mirror of legs that are open, as their records say, and says on standard error, once,
/// which legs are not read. When it is `wanted` to be written and its records do not allow that,
/// it can be read, and the reason comes with it.
pub(crate) fn open(legs: &[Storage], parts: Parts, wanted: Want) -> anyhow::Result<Opened> {
    let name = &format!("mirror:{}", parts.names());
    let first = legs.first().map_or(&b""[..], Storage::name);
    let origin = Origin::of_parts(first, &parts.origins);
    let (devices, missing) = (parts.devices, parts.missing);
    let records = Records::of(legs, &devices)?;
    let open = |writable| Mirror::open(name, devices.clone(), records.record.clone(), writable);
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
    // What was to be written and cannot be is opened once more, to be read.
    if read_only.is_none() || wanted == Want::Read {
        MIRROR_HALVES_LEFT_OUT.add(assessment.bad() as u64);
    }
    for text in warnings(name, &devices, &assessment) {
        say_once(&text);
    }
    Ok(Opened {
        device: Arc::new(mirror),
        // The same one with a leg and without it.
        origin: match assessment.standings.iter().flatten().next() {
            Some(standing) => origin.known_by(&standing.identity),
            None => origin,
        },
        files: parts.files,
        notes: parts.notes,
        read_only,
    })
}

/// Why this may not be written to by itself: it is a leg of a mirror, and the others would not
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
            "it is a leg of a mirror and is written to as such (mirror:...); if it no longer is \
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
        MirrorError::Refused(Refusal::Unfinished(..)) => "name a good leg with --from, or none",
        MirrorError::Refused(Refusal::NoneGood) => {
            "'pagewell mirror status' tells what is known of each; 'pagewell mirror resync --from \
             LEG' makes the others equal to the leg you choose"
        }
        MirrorError::Refused(Refusal::Absent(_)) => {
            "put a file or device of the same length in its place"
        }
        MirrorError::Refused(_)
        | MirrorError::Record(RecordError::Garbled { .. })
        | MirrorError::Differs { .. } => {
            "'pagewell mirror resync --from LEG' makes the others equal to the leg you choose"
        }
        MirrorError::Record(_) => return anyhow!("{name}: record of a leg: {error}"),
        MirrorError::Combine(_) | MirrorError::Device(_) => return error.into(),
    };
    anyhow!("{name}: {error}: {todo}")
}

/// What is to be said about a mirror that is opened with these legs.
fn warnings(name: &str, legs: &[Arc<dyn Device>], assessment: &Assessment) -> Vec<String> {
    let pairs = legs.iter().zip(&assessment.conditions);
    let line = |(leg, condition): (&Arc<dyn Device>, &Condition)| {
        let leg = leg.name();
        let reason = match condition {
            Condition::Current | Condition::Unknown => return None,
            Condition::Doubtful => {
                "the mirror is in use, or was not closed when it was: it may lack the last writes"
            }
            Condition::Stale => "it missed writes",
            Condition::Unfinished => "it was not completely resynchronised",
            Condition::Replaced => {
                "it is not the file or device that was a leg of the mirror (copied, moved to \
                 another file system, or a new one)"
            }
            Condition::Missing => {
                return Some(format!(
                    "warning: {name}: {leg} is missing: only what is left is used"
                ));
            }
            Condition::Split => "it and another were each written to while the other was missing",
        };
        Some(format!(
            "warning: {name}: {leg} is not used: {reason} ('pagewell mirror resync' makes the \
             legs equal)"
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
