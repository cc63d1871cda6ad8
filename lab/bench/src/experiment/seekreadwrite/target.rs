//! Where the program's file is.

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use pagewell_base::duration;
use pagewell_device::{Device, FileDevice, FileOptions, RamDevice, read_exact};
use pagewell_layers::model::Parameters;
use pagewell_layers::{Delay, Model, Stats};

use crate::experiment::direct::Scratch;
use crate::experiment::{Error, Result, system};

/// Names where the file is.
#[derive(Clone, Debug, PartialEq)]
pub enum TargetName {
    /// Memory: nothing takes time, and requests are counted.
    Memory,
    /// A scratch file.
    File,
    /// A device that takes so long for every request.
    Delay(Duration),
    /// A modelled disk.
    Model(Parameters),
}

impl FromStr for TargetName {
    type Err = String;

    /// `memory`, `file`, `delay:TIME` or `model:NAME[,OPTION=VALUE]...`.
    fn from_str(text: &str) -> std::result::Result<Self, String> {
        match text.split_once(':') {
            Some(("model", model)) => Parameters::parse(model)
                .map(Self::Model)
                .map_err(|error| error.to_string()),
            Some(("delay", time)) => duration::parse(time).map(Self::Delay),
            None if text == "memory" => Ok(Self::Memory),
            None if text == "file" => Ok(Self::File),
            _ => Err("there are memory, file, delay:TIME and model:NAME".to_owned()),
        }
    }
}

impl TargetName {
    /// For people.
    pub fn title(&self) -> String {
        match self {
            Self::Memory => "memory".to_owned(),
            Self::File => "a file".to_owned(),
            Self::Delay(time) => format!("{} ms a request", time.as_secs_f64() * 1e3),
            Self::Model(parameters) if parameters.speed == 1.0 => {
                format!("modelled {}", parameters.name)
            }
            Self::Model(parameters) => {
                format!(
                    "modelled {}, {} x as fast",
                    parameters.name, parameters.speed
                )
            }
        }
    }

    /// The target with zeros, new for each run.
    pub(super) fn open(&self, bytes: u64, directory: Option<&Path>) -> Result<Target> {
        let ram = || Arc::new(RamDevice::new("memory", bytes));
        let mut scratch = None;
        let device: Arc<dyn Device> = match self {
            Self::Memory => ram(),
            Self::Delay(time) => {
                let delay = Delay::new(ram(), *time);
                Arc::new(delay.map_err(system("a thread"))?)
            }
            Self::Model(parameters) => {
                let model = Model::new(ram(), parameters.clone());
                Arc::new(model.map_err(system("a thread"))?)
            }
            Self::File => {
                let made = zeros(directory, bytes).map_err(system("a scratch file"))?;
                let options = FileOptions {
                    writable: true,
                    ..FileOptions::default()
                };
                let device = FileDevice::open_with(made.path(), options)?;
                scratch = Some(made);
                Arc::new(device)
            }
        };
        Ok(Target {
            stats: Arc::new(Stats::new(device)),
            _scratch: scratch,
        })
    }
}

/// A scratch file of zeros on storage.
fn zeros(directory: Option<&Path>, bytes: u64) -> std::io::Result<Scratch> {
    let scratch = Scratch::new(directory, 0, 0)?;
    let path: PathBuf = scratch.path().to_owned();
    let mut file = OpenOptions::new().write(true).open(path)?;
    std::io::copy(
        &mut std::io::Read::take(std::io::repeat(0), bytes),
        &mut file,
    )?;
    file.sync_all()?;
    Ok(scratch)
}

/// Where the file is, counted.
pub(super) struct Target {
    pub(super) stats: Arc<Stats>,
    _scratch: Option<Scratch>,
}

impl Target {
    /// Compares all bytes with what they must be.
    pub(super) fn check(&self, expected: &[u8]) -> Result<()> {
        let mut bytes = vec![0; expected.len()];
        read_exact(&*self.stats, 0, &mut bytes)?;
        match bytes.iter().zip(expected).position(|(is, must)| is != must) {
            None => Ok(()),
            Some(at) => Err(Error::Wrong(format!(
                "{}: the byte at {at} was not written",
                self.stats.name()
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read() {
        assert_eq!("memory".parse(), Ok(TargetName::Memory));
        assert_eq!("file".parse(), Ok(TargetName::File));
        let delay = TargetName::Delay(Duration::from_millis(5));
        assert_eq!(delay.title(), "5 ms a request");
        assert_eq!("delay:5ms".parse(), Ok(delay));
        let model: TargetName = "model:hdd-7200,speed=4".parse().unwrap();
        assert_eq!(model.title(), "modelled hdd-7200, 4 x as fast");
        for wrong in ["", "delay:1ms..2ms", "model:tape", "/dev/sda"] {
            assert!(wrong.parse::<TargetName>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_was_not_written_is_found() {
        let directory = tempfile::tempdir().unwrap();
        for name in [TargetName::Memory, TargetName::File] {
            let target = name.open(65_536, Some(directory.path())).unwrap();
            target.check(&vec![0; 65_536]).unwrap();
            let mut other = vec![0; 65_536];
            other[70] = 1;
            let error = target.check(&other).unwrap_err().to_string();
            assert!(error.contains("the byte at 70"), "{error}");
        }
    }
}
