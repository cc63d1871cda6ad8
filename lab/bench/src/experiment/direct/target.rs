//! What is read: modelled disks, or files and block devices.

use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use pagewell_device::{Device, FileDevice};
use pagewell_layers::model::Parameters;
use pagewell_layers::{Model, Pattern, Snapshot, Stats};

use super::meter::Metered;
use super::scratch::Scratch;
use crate::experiment::{Error, Result, system};

/// Bytes of a modelled disk from the command line: as many as the report's disks had.
const MODEL_BYTES: u64 = 18_000_000_000;
/// Buffer heads of the report's kernel.
pub(super) const PIECE_BYTES: u64 = 512;

/// Names something to read.
#[derive(Clone, Debug, PartialEq)]
pub enum TargetName {
    /// A modelled disk over computed bytes.
    Model(Parameters),
    /// A regular file or a block device.
    Path(PathBuf),
}

impl FromStr for TargetName {
    type Err = String;

    /// `model:NAME[,OPTION=VALUE]...`, else a path.
    fn from_str(text: &str) -> std::result::Result<Self, String> {
        match text.strip_prefix("model:") {
            Some(model) => {
                let parameters = Parameters::parse(model).map_err(|error| error.to_string())?;
                Ok(Self::Model(parameters))
            }
            None if text.is_empty() => Err("the path is empty".to_owned()),
            None => Ok(Self::Path(text.into())),
        }
    }
}

/// Makes a target; each run gets a new one.
#[derive(Clone)]
pub(super) enum Maker {
    Model {
        parameters: Parameters,
        length_bytes: u64,
        seed: u64,
    },
    Path(PathBuf),
    Scratch(Arc<Scratch>),
}

impl Maker {
    pub(super) fn named(name: &TargetName, number: u64) -> Self {
        match name {
            TargetName::Model(parameters) => Self::Model {
                parameters: parameters.clone(),
                length_bytes: MODEL_BYTES,
                seed: number,
            },
            TargetName::Path(path) => Self::Path(path.clone()),
        }
    }

    pub(super) fn open(&self) -> Result<Target> {
        let path = match self {
            Self::Model {
                parameters,
                length_bytes,
                seed,
            } => {
                let pattern = Pattern::new(*length_bytes, *seed);
                let model = Model::new(Arc::new(pattern.clone()), parameters.clone());
                let model = model.map_err(system("a thread"))?;
                let stats = Arc::new(Stats::new(Arc::new(model)));
                let metered = Arc::new(Metered::new(stats.clone()));
                return Ok(Target {
                    top: metered.clone(),
                    stats,
                    metered: Some(metered),
                    pattern: Some(pattern),
                    is_direct: true,
                });
            }
            Self::Path(path) => path.as_path(),
            Self::Scratch(scratch) => scratch.path(),
        };
        let file = FileDevice::open(path)?;
        let is_direct = file.is_direct();
        let stats = Arc::new(Stats::new(Arc::new(file)));
        let pattern = match self {
            Self::Scratch(scratch) => Some(scratch.pattern().clone()),
            _ => None,
        };
        Ok(Target {
            top: stats.clone(),
            stats,
            metered: None,
            pattern,
            is_direct,
        })
    }
}

/// A target and its facts.
pub(super) struct Target {
    /// Where requests go in.
    pub(super) top: Arc<dyn Device>,
    stats: Arc<Stats>,
    pub(super) metered: Option<Arc<Metered>>,
    /// Its bytes, if known.
    pub(super) pattern: Option<Pattern>,
    /// Whether reads pass the kernel's page cache.
    pub(super) is_direct: bool,
}

impl Target {
    /// Bytes of the smallest request.
    pub(super) fn piece_bytes(&self) -> u64 {
        PIECE_BYTES.max(u64::from(self.top.geometry().logical_block_bytes))
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        self.stats.snapshot()
    }

    /// Checks bytes that were read from `offset`; unknown bytes are right.
    pub(super) fn check(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let checked = self
            .pattern
            .as_ref()
            .map_or(Ok(()), |pattern| pattern.check(offset, bytes));
        checked.map_err(|offset| {
            Error::Wrong(format!(
                "{}: the byte at {offset} was read wrong",
                self.top.name()
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_models_or_paths() {
        let model = "model:fc-15k,speed=4".parse().unwrap();
        let TargetName::Model(parameters) = &model else {
            panic!("{model:?}");
        };
        assert_eq!((parameters.name, parameters.speed), ("fc-15k", 4.0));
        assert_eq!(
            "/dev/sda".parse(),
            Ok(TargetName::Path(PathBuf::from("/dev/sda")))
        );
        let unknown = "model:tape".parse::<TargetName>().unwrap_err();
        assert!(unknown.contains("tape"), "{unknown}");
        assert!("".parse::<TargetName>().is_err());
    }

    #[test]
    fn wrong_bytes_are_told_with_their_place() {
        let maker = Maker::Model {
            parameters: Parameters::parse("nvme").unwrap(),
            length_bytes: 1 << 20,
            seed: 1,
        };
        let target = maker.open().unwrap();
        let mut bytes = vec![0; 8192];
        target.pattern.as_ref().unwrap().fill(4096, &mut bytes);
        target.check(4096, &bytes).unwrap();
        bytes[5000] ^= 1;
        let error = target.check(4096, &bytes).unwrap_err().to_string();
        assert!(error.contains("9096"), "{error}");
    }
}
