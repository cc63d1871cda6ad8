//! Options of what changes buckets.

use std::path::{Path, PathBuf};

use anyhow::anyhow;
use clap::Args;
use pagewell_base::size;
use pagewell_source_object::Writing;

use crate::values::choice;

/// The size of the staging folder, if none was given.
const STAGING_BYTES: u64 = 10 << 30;
/// Less would not take one write.
const STAGING_BYTES_MIN: u64 = 1 << 20;
const STAGING: &str = "staging";
const PROBES: &str = "probes";

/// See the module's text.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Options for buckets")]
pub(crate) struct WritingArguments {
    /// Keep here what was written to a bucket and is not in its store yet: what memory has no room
    /// for, and all of it with ack=journal [default: staging in the state directory]
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    staging_dir: Option<PathBuf>,

    /// What that may take, for each bucket: 1m or more [default: 10g]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    staging_dir_size: Option<u64>,

    /// Which buckets are written: those in whose store no change replaces another one unseen, as
    /// 'pagewell probe' finds out, or all [default: guarded]
    #[arg(long, value_name = "WHICH", value_parser = choice(&OBJECT_WRITES))]
    object_writes: Option<ObjectWrites>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ObjectWrites {
    /// Those where no change is lost.
    #[default]
    Guarded,
    /// Also those where a change may be lost.
    Unguarded,
}

pub(crate) const OBJECT_WRITES: [(&str, ObjectWrites, &str); 2] = [
    (
        "guarded",
        ObjectWrites::Guarded,
        "Others are read-only, which is said",
    ),
    (
        "unguarded",
        ObjectWrites::Unguarded,
        "All: writers may lose each other's changes",
    ),
];

impl WritingArguments {
    pub(crate) fn new(
        staging_dir: Option<PathBuf>,
        staging_dir_size: Option<u64>,
        object_writes: ObjectWrites,
    ) -> Self {
        Self {
            staging_dir,
            staging_dir_size,
            object_writes: Some(object_writes),
        }
    }

    pub(crate) fn staging_dir(&self) -> Option<&Path> {
        self.staging_dir.as_deref()
    }

    pub(crate) fn staging_dir_size(&self) -> Option<u64> {
        self.staging_dir_size
    }

    /// Which buckets to write, if given.
    pub(crate) fn object_writes(&self) -> Option<ObjectWrites> {
        self.object_writes
    }

    /// Sets an option of `-o NAME=VALUE`; returns whether it is one of these.
    pub(crate) fn set(&mut self, name: &str, value: &str) -> Result<bool, String> {
        match name {
            "staging_dir" if value.is_empty() => return Err("a directory is wanted".to_owned()),
            "staging_dir" => self.staging_dir = Some(value.into()),
            "staging_dir_size" => self.staging_dir_size = Some(parse_size(value)?),
            "object_writes" => {
                let mut words = OBJECT_WRITES.iter();
                let found = words.find(|(word, ..)| *word == value);
                let found = found.ok_or("guarded or unguarded is wanted")?;
                self.object_writes = Some(found.1);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// These, with the others for what is unset.
    pub(crate) fn or(self, others: &Self) -> Self {
        Self {
            staging_dir: self.staging_dir.or_else(|| others.staging_dir.clone()),
            staging_dir_size: self.staging_dir_size.or(others.staging_dir_size),
            object_writes: self.object_writes.or(others.object_writes),
        }
    }

    /// What writing to a bucket needs, with state in this directory.
    pub(crate) fn writing(
        &self,
        state_directory: Option<&Path>,
        creates_at_once: bool,
    ) -> anyhow::Result<Writing> {
        let usual = || state_directory.map(|directory| directory.join(STAGING));
        let staging_dir = self.staging_dir.clone().or_else(usual).ok_or_else(|| {
            let what = "no home directory to keep in what is to be uploaded";
            anyhow!("{what}: give --staging-dir, or --read-only")
        })?;
        Ok(Writing {
            staging_dir,
            staging_bytes_max: self.staging_dir_size.unwrap_or(STAGING_BYTES),
            kept_probes: state_directory.map(kept_probes),
            unguarded: self.object_writes == Some(ObjectWrites::Unguarded),
            creates_at_once,
        })
    }
}

/// Parses a size that is enough for the folder.
pub(crate) fn parse_size(text: &str) -> Result<u64, String> {
    match size::parse_positive(text)? {
        bytes if bytes < STAGING_BYTES_MIN => Err(format!("{text} is too small: 1m or more")),
        bytes => Ok(bytes),
    }
}

/// The folder for answers of stores.
pub(crate) fn kept_probes(state_directory: &Path) -> PathBuf {
    state_directory.join(PROBES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_said_lies_in_the_state_directory() {
        let state = Path::new("/state");
        let writing = WritingArguments::default().writing(Some(state), true);
        let expected = Writing {
            staging_dir: state.join("staging"),
            staging_bytes_max: 10 << 30,
            kept_probes: Some(state.join("probes")),
            unguarded: false,
            creates_at_once: true,
        };
        assert_eq!(writing.unwrap(), expected);
        let homeless = WritingArguments::default().writing(None, false);
        assert!(homeless.unwrap_err().to_string().contains("--staging-dir"));
    }

    #[test]
    fn what_was_said_counts() {
        let arguments = WritingArguments {
            staging_dir: Some("/s".into()),
            ..WritingArguments::default()
        };
        let others = WritingArguments {
            staging_dir: Some("/other".into()),
            staging_dir_size: Some(1),
            object_writes: Some(ObjectWrites::Unguarded),
        };
        let writing = arguments.or(&others).writing(None, false).unwrap();
        assert_eq!(writing.staging_dir, Path::new("/s"));
        assert_eq!((writing.staging_bytes_max, writing.kept_probes), (1, None));
        assert!(writing.unguarded && !writing.creates_at_once);
        let mut given = WritingArguments::default();
        for (name, value) in [
            ("staging_dir", "/o"),
            ("staging_dir_size", "1m"),
            ("object_writes", "unguarded"),
        ] {
            assert_eq!(given.set(name, value), Ok(true));
            assert!(given.set(name, "").is_err());
        }
        let refused = given.set("staging_dir_size", "10").unwrap_err();
        assert_eq!(refused, "10 is too small: 1m or more");
        assert_eq!(given.set("speed", "9"), Ok(false));
        let writing = given.writing(None, false).unwrap();
        assert_eq!(
            (writing.staging_bytes_max, writing.unguarded),
            (1 << 20, true)
        );
    }
}
