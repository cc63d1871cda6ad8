//! Options of a bucket's URL for those that mount it; remotes ignore them.

use std::time::Duration;

use pagewell_base::{duration, size};

use crate::error::{Error, Result};

const AGE: std::ops::RangeInclusive<Duration> = Duration::ZERO..=Duration::from_secs(24 * 3600);
/// More would keep a caller waiting for hours.
const RENAMED_FILES_MAX: u64 = 1_000_000;

/// Which copy lets an fsync return.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Acknowledge {
    /// The store has it.
    #[default]
    Store,
    /// The disk of this machine has it.
    Journal,
}

impl Acknowledge {
    /// The word of the option.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Store => "store",
            Self::Journal => "journal",
        }
    }
}

/// Where mode, owner and times of files come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MetadataFrom {
    /// What a listing has: the time of the change.
    #[default]
    Listing,
    /// The metadata of each object, by a request of its own.
    Objects,
}

/// The most that one rename copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RenameLimits {
    /// Bytes of all objects.
    pub bytes_max: u64,
    /// How many objects.
    pub files_max: u64,
}

/// What is shown of a file or directory where no owner or mode is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Defaults {
    /// `None`: the user of this process.
    pub uid: Option<u32>,
    /// `None`: the group of this process.
    pub gid: Option<u32>,
    /// The permissions of a file.
    pub mode: u32,
    /// The permissions of a directory.
    pub directory_mode: u32,
}

impl Default for Defaults {
    fn default() -> Self {
        Self {
            uid: None,
            gid: None,
            mode: 0o644,
            directory_mode: 0o755,
        }
    }
}

/// Options for those that mount a bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handling {
    /// How long a listing is believed.
    pub age: Duration,
    /// An open believes it, too, instead of asking.
    pub believes_at_open: bool,
    /// Which copy lets an fsync return.
    pub acknowledge: Acknowledge,
    /// Where attributes come from.
    pub metadata: MetadataFrom,
    /// What is shown where no attributes are known.
    pub defaults: Defaults,
    /// Whether a rename copies; without, it fails.
    pub renames: bool,
    /// How much a rename copies.
    pub rename_limits: RenameLimits,
}

impl Default for Handling {
    fn default() -> Self {
        Self {
            age: Duration::from_secs(10),
            believes_at_open: false,
            acknowledge: Acknowledge::default(),
            metadata: MetadataFrom::default(),
            defaults: Defaults::default(),
            renames: true,
            rename_limits: RenameLimits {
                bytes_max: 64 << 30,
                files_max: 1000,
            },
        }
    }
}

/// A user or group; not the highest number, which stands for none.
fn owner(value: &str) -> std::result::Result<u32, String> {
    let number = value.parse().ok().filter(|number| *number != u32::MAX);
    number.ok_or_else(|| format!("'{value}' is no number of a user or group"))
}

fn permissions(value: &str) -> std::result::Result<u32, String> {
    let mode = u32::from_str_radix(value, 8).ok();
    let mode = mode.filter(|mode| *mode <= 0o7777);
    mode.ok_or_else(|| format!("'{value}' is no octal mode such as 0755"))
}

fn either<T>(name: &str, value: &str, words: [(&str, T); 2]) -> Result<T> {
    let [(one, _), (other, _)] = &words;
    let wrong = format!("{name}={value}: {one} or {other}");
    let mut words = words.into_iter();
    let found = words.find(|(word, _)| *word == value);
    found.map(|(_, meant)| meant).ok_or(Error::Invalid(wrong))
}

impl Handling {
    /// The options, with their values.
    pub(crate) const NAMES: &str = "age=TIME, open=ask|believe, ack=store|journal, \
                                    metadata=listing|objects, \
                                    uid=NUMBER, gid=NUMBER, mode=MODE, dmode=MODE, \
                                    rename=copy|off, rename-size=SIZE, rename-files=NUMBER";

    /// Sets an option of a URL; returns whether it is one of these.
    pub(crate) fn set(&mut self, name: &str, value: &str) -> Result<bool> {
        let wrong = |reason: String| Error::Invalid(format!("{name}: {reason}"));
        match name {
            "age" => self.age = duration::within(value, AGE).map_err(wrong)?,
            "open" => {
                let words = [("ask", false), ("believe", true)];
                self.believes_at_open = either(name, value, words)?;
            }
            "ack" => {
                let words = [Acknowledge::Store, Acknowledge::Journal];
                let words = words.map(|word| (word.name(), word));
                self.acknowledge = either(name, value, words)?;
            }
            "metadata" => {
                let words = [
                    ("listing", MetadataFrom::Listing),
                    ("objects", MetadataFrom::Objects),
                ];
                self.metadata = either(name, value, words)?;
            }
            "uid" => self.defaults.uid = Some(owner(value).map_err(wrong)?),
            "gid" => self.defaults.gid = Some(owner(value).map_err(wrong)?),
            "mode" => self.defaults.mode = permissions(value).map_err(wrong)?,
            "dmode" => self.defaults.directory_mode = permissions(value).map_err(wrong)?,
            "rename" => self.renames = either(name, value, [("copy", true), ("off", false)])?,
            "rename-size" => {
                self.rename_limits.bytes_max = size::parse_positive(value).map_err(wrong)?;
            }
            "rename-files" => {
                let number = value.parse().ok();
                let number = number.filter(|number| (1..=RENAMED_FILES_MAX).contains(number));
                self.rename_limits.files_max =
                    number.ok_or_else(|| wrong(format!("1 to {RENAMED_FILES_MAX}")))?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_set_and_wrong_ones_named() {
        let mut handling = Handling::default();
        for (name, value) in [
            ("age", "0s"),
            ("open", "believe"),
            ("ack", "journal"),
            ("metadata", "objects"),
            ("uid", "7"),
            ("gid", "0"),
            ("mode", "0640"),
            ("dmode", "2770"),
            ("rename", "off"),
            ("rename-size", "5g"),
            ("rename-files", "7"),
        ] {
            assert_eq!(handling.set(name, value), Ok(true), "{name}");
        }
        let expected = Handling {
            age: Duration::ZERO,
            believes_at_open: true,
            acknowledge: Acknowledge::Journal,
            metadata: MetadataFrom::Objects,
            defaults: Defaults {
                uid: Some(7),
                gid: Some(0),
                mode: 0o640,
                directory_mode: 0o2770,
            },
            renames: false,
            rename_limits: RenameLimits {
                bytes_max: 5 << 30,
                files_max: 7,
            },
        };
        assert_eq!(handling, expected);
        assert_eq!(handling.set("speed", "9"), Ok(false));
        for (name, value) in [
            ("age", "25h"),
            ("open", "never"),
            ("ack", "never"),
            ("metadata", ""),
            ("uid", "4294967295"),
            ("gid", "-1"),
            ("mode", "0888"),
            ("dmode", "17777"),
            ("rename", "yes"),
            ("rename-size", "0"),
            ("rename-files", "0"),
            ("rename-files", "-1"),
            ("rename-files", "1000001"),
        ] {
            let refused = handling.set(name, value).unwrap_err();
            assert!(refused.to_string().starts_with(name), "{refused}");
        }
        assert_eq!(handling, expected);
    }
}
