//! How to mount.

use fuser::{Config, SessionACL};
use pagewell_fs::Coherence;

use crate::convert::Appearance;
use crate::mounts::SUBTYPE;

/// Threads that receive requests.
const READERS_MIN: usize = 2;
const READERS_MAX: usize = 8;

/// How to mount.
#[derive(Clone, Debug)]
pub struct Options {
    /// The source in the list of mounts.
    pub source: String,
    /// The kind there, behind `fuse.`.
    pub subtype: String,
    /// Refuses all changes, also where the source does not.
    pub read_only: bool,
    /// Users other than the owner of the mount may use it.
    pub allow_other: bool,
    /// Programs with set-user-id and set-group-id bits run with them. Needs root.
    pub set_id_works: bool,
    /// Device files work. Needs root.
    pub devices_work: bool,
    /// Programs in it cannot be run.
    pub no_exec: bool,
    /// Reading does not move the time of access (`noatime`).
    pub no_access_times: bool,
    /// A write is on the device when the program goes on (`sync`).
    pub synchronous: bool,
    /// The same for changes of names (`dirsync`); the source sees to it.
    pub directories_synchronous: bool,
    /// Owner and permissions that are shown instead of the source's.
    pub appearance: Appearance,
    /// Threads in all that may wait for the source.
    pub threads: usize,
    /// The kernel may keep written data, and write it later.
    pub kernel_write_back: bool,
    /// The kernel reads and writes files of directories itself where it can.
    pub passthrough: bool,
    /// File numbers have 32 bits, for programs whose `stat` has no room for more.
    pub narrow_numbers: bool,
    /// How long the kernel keeps answers, instead of the source's times.
    pub coherence: Option<Coherence>,
}

impl Options {
    /// The usual ones.
    #[must_use]
    pub fn new(source: &str) -> Self {
        Self {
            source: source.to_owned(),
            subtype: SUBTYPE.to_owned(),
            read_only: false,
            allow_other: false,
            set_id_works: false,
            devices_work: false,
            no_exec: false,
            no_access_times: false,
            synchronous: false,
            directories_synchronous: false,
            appearance: Appearance::default(),
            threads: 64,
            kernel_write_back: false,
            passthrough: true,
            narrow_numbers: false,
            coherence: None,
        }
    }

    pub(crate) fn readers(&self) -> usize {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        (cores * 2)
            .clamp(READERS_MIN, READERS_MAX)
            .min(self.threads.max(READERS_MIN))
    }

    pub(crate) fn for_library(&self) -> Config {
        let mut config = Config::default();
        config.acl = if self.allow_other {
            SessionACL::All
        } else {
            SessionACL::Owner
        };
        config.n_threads = Some(self.readers());
        config
    }
}
