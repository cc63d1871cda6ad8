//! Experiments: well-known reports of slow storage, done again.
//!
//! Each has cases that run with a mechanism off (baseline) and on (enhanced), in the same binary
//! and side by side. They give [`Row`]s and [`Verdict`]s. A new experiment is a folder and a line
//! in the list below.

/// A requirement, in the form of `assert!`: whether it is met, and the text with measured numbers.
macro_rules! verdict {
    ($pass:expr, $($what:tt)+) => {
        ($pass, format!($($what)+))
    };
}

mod blocks;
mod document;
mod page;
mod picture;
mod session;
mod table;

pub mod direct;
pub mod filecache;
pub mod hsfs;
pub mod nfs;
pub mod seekreadwrite;

use pagewell_cache::{CacheOptions, ReadAheadRule};
use pagewell_layers::model::ParametersError;

pub use blocks::Rule;
pub use document::document;
pub use page::page;
pub use pagewell_load::measure::{Better, DeviceUse, Figure, Mode, Phase, Reference, Row};
pub use pagewell_load::report::{Outcome, Verdict};
pub use picture::{Axis, Kind, Line, Panel, Picture, Role};
pub use session::{Options, OutOfTime, Session};
pub use table::text;

/// Why an experiment ended early. Earlier results stay.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No time was left.
    #[error(transparent)]
    OutOfTime(#[from] OutOfTime),
    /// A cache could not be made.
    #[error(transparent)]
    Cache(#[from] pagewell_cache::CreateError),
    /// A read failed.
    #[error(transparent)]
    Read(#[from] pagewell_cache::Error),
    /// The system refused something.
    #[error("{what}: {error}")]
    System {
        /// What was wanted.
        what: String,
        /// The reason.
        error: std::io::Error,
    },
    /// Bytes came back wrong, or a count is impossible.
    #[error("{0}")]
    Wrong(String),
}

impl From<pagewell_device::Error> for Error {
    fn from(error: pagewell_device::Error) -> Self {
        Self::Read(pagewell_cache::Error::Device(error))
    }
}

impl From<ParametersError> for Error {
    fn from(error: ParametersError) -> Self {
        Self::Wrong(error.to_string())
    }
}

/// The result of every experiment.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The pieces of HSFS.
pub const SECTOR_BYTES: u64 = 2 << 10;

/// A cache of this size with everything off: requests of 2 KiB, one at a time in their order, as
/// HSFS made them.
pub fn baseline(size_bytes: u64) -> CacheOptions {
    CacheOptions {
        read_ahead: ReadAheadRule::Off,
        elevator: false,
        merge: false,
        free_behind: false,
        unit_bytes: SECTOR_BYTES,
        ..CacheOptions::new(size_bytes)
    }
}

/// The error of a refusal of the system.
fn system<E: Into<std::io::Error>>(what: impl ToString) -> impl FnOnce(E) -> Error {
    move |error| Error::System {
        what: what.to_string(),
        error: error.into(),
    }
}

/// The error of another part.
fn wrong(error: impl ToString) -> Error {
    Error::Wrong(error.to_string())
}

macro_rules! experiments {
    ($($name:ident = $text:literal, $module:ident, $about:literal;)*) => {
        /// The experiments.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Experiment {
            $(#[doc = $about] $name,)*
        }

        impl Experiment {
            /// All, in their order in a run.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// Its name on the command line and in rows.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }

            /// One sentence.
            pub const fn about(self) -> &'static str {
                match self { $(Self::$name => $about,)* }
            }

            fn start(self, session: &mut Session) -> Result<()> {
                match self { $(Self::$name => $module::run(session),)* }
            }
        }
    };
}

experiments! {
    Hsfs = "hsfs", hsfs, "Files on a DVD, read in small pieces: read-ahead and an elevator.";
    SeekReadWrite = "seekreadwrite", seekreadwrite, "Cached blocks, rewritten under five rules.";
    Direct = "direct", direct, "Direct, raw, buffered and pinned reads of the same bytes.";
    Nfs = "nfs", nfs, "An NFS client and its server: round trips, read-ahead, gathered writes.";
    FileCache = "filecache", filecache, "Random reads through windows, and with all memory mapped.";
}

impl Experiment {
    /// The one of this name.
    pub fn named(name: &str) -> Option<Self> {
        let mut all = Self::ALL.iter().copied();
        all.find(|experiment| experiment.name() == name)
    }

    /// Runs it. After an early end the session has the reason and what was measured.
    pub fn run(self, session: &mut Session) {
        session.conduct(self, |session| self.start(session));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back() {
        for experiment in Experiment::ALL {
            assert_eq!(Experiment::named(experiment.name()), Some(*experiment));
            assert!(experiment.about().ends_with('.'));
        }
        assert_eq!(Experiment::named("all"), None);
    }
}
