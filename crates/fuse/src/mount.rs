//! A mount from outside: how it is made, what is agreed with the kernel, how it ends.

use std::ffi::OsStr;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use fuser::{Config, InitFlags, KernelConfig, MountOption, Session, SessionACL};
use pagewell_fs::{Coherence, FileSystem};

use crate::dispatch::Dispatch;
use crate::front::Front;
use crate::service::Service;

/// Largest write that the kernel sends at once, and largest read that it asks for.
const REQUEST_BYTES_MAX: u32 = 1 << 20;
/// What the kernel reads ahead of a program, where it lets itself be told: enough that the next
/// requests are under way while one is copied.
const READ_AHEAD_KIBIBYTES: u32 = 2048;
/// Requests of the kernel's own, such as read-ahead, that may be under way at once.
const BACKGROUND_MAX: u16 = 64;
/// Threads that receive requests.
const READERS_MIN: usize = 2;
const READERS_MAX: usize = 8;

/// How to mount.
#[derive(Clone, Debug)]
pub struct Options {
    /// What the list of mounts shows as the source.
    pub source: String,
    /// Refuses all changes, also where the source does not.
    pub read_only: bool,
    /// Users other than the one who mounts may use it.
    pub allow_other: bool,
    /// Set-user-id bits and device files work. Needs root.
    pub allow_privileges: bool,
    /// Programs in it cannot be run.
    pub no_exec: bool,
    /// Threads in all that may wait for the source.
    pub threads: usize,
    /// The kernel may keep what is written, and write it when it likes.
    pub kernel_write_back: bool,
    /// Files of directories are read and written by the kernel itself where it can.
    pub passthrough: bool,
    /// How long the kernel may keep what it was told, instead of what the source says.
    pub coherence: Option<Coherence>,
}

impl Options {
    /// The usual ones.
    #[must_use]
    pub fn new(source: &str) -> Self {
        Self {
            source: source.to_owned(),
            read_only: false,
            allow_other: false,
            allow_privileges: false,
            no_exec: false,
            threads: 64,
            kernel_write_back: false,
            passthrough: true,
            coherence: None,
        }
    }

    fn readers(&self) -> usize {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        (cores * 2)
            .clamp(READERS_MIN, READERS_MAX)
            .min(self.threads.max(READERS_MIN))
    }

    fn for_kernel(&self, read_only: bool) -> Config {
        // A comma would end the name in the list of options.
        let source = self.source.replace(',', "_");
        let mut options = vec![
            MountOption::FSName(source),
            // The kernel knows it by this name; the crate tells it only to fusermount3.
            MountOption::CUSTOM("subtype=pagewell".to_owned()),
            MountOption::DefaultPermissions,
        ];
        if read_only {
            options.push(MountOption::RO);
        }
        if self.no_exec {
            options.push(MountOption::NoExec);
        }
        if self.allow_privileges {
            options.extend([MountOption::Suid, MountOption::Dev]);
        }
        let mut config = Config::default();
        config.mount_options = options;
        config.acl = if self.allow_other {
            SessionACL::All
        } else {
            SessionACL::Owner
        };
        config.n_threads = Some(self.readers());
        config
    }
}

/// What is agreed with the kernel at the start.
pub(crate) struct Negotiation {
    kernel_write_back: bool,
    passthrough: bool,
    opens_are_free: AtomicBool,
}

impl Negotiation {
    /// Whether the kernel opens files without asking.
    pub(crate) fn opens_are_free(&self) -> bool {
        self.opens_are_free.load(Ordering::Relaxed)
    }

    pub(crate) fn agree(&self, front: &Front, config: &mut KernelConfig) {
        let _ = config.set_max_write(REQUEST_BYTES_MAX);
        let _ = config.set_max_background(BACKGROUND_MAX);
        let _ = config.set_congestion_threshold(BACKGROUND_MAX / 4 * 3);
        let mut want = |flags| config.add_capabilities(flags).is_ok();
        want(InitFlags::FUSE_PARALLEL_DIROPS);
        want(InitFlags::FUSE_ASYNC_DIO);
        want(InitFlags::FUSE_DO_READDIRPLUS);
        if front.is_private() {
            want(InitFlags::FUSE_CACHE_SYMLINKS);
            want(InitFlags::FUSE_EXPLICIT_INVAL_DATA);
        } else {
            // Attributes may cost the source more than names: only where programs want them.
            want(InitFlags::FUSE_READDIRPLUS_AUTO);
            want(InitFlags::FUSE_AUTO_INVAL_DATA);
        }
        if front.is_immutable()
            && want(InitFlags::FUSE_NO_OPEN_SUPPORT)
            && want(InitFlags::FUSE_NO_OPENDIR_SUPPORT)
        {
            self.opens_are_free.store(true, Ordering::Relaxed);
        }
        if self.kernel_write_back {
            want(InitFlags::FUSE_WRITEBACK_CACHE);
        } else if self.passthrough && want(InitFlags::FUSE_PASSTHROUGH) {
            // The files are on a file system that is not itself stacked on another.
            let _ = config.set_max_stack_depth(1);
            front.passing.allow();
        }
    }
}

/// Why something cannot be mounted.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// The place cannot be mounted on.
    #[error("{}: {reason}", place.display())]
    Place {
        /// Where.
        place: PathBuf,
        /// Why not.
        reason: String,
    },
    /// The system refuses.
    #[error("cannot mount on {}: {cause}{hint}", place.display())]
    System {
        /// Where.
        place: PathBuf,
        /// What it said.
        cause: io::Error,
        /// What may help.
        hint: &'static str,
    },
}

/// A source that is mounted.
pub struct Mounted {
    place: PathBuf,
    front: Arc<Front>,
    session: Mutex<Option<JoinHandle<io::Result<()>>>>,
}

/// Mounts `filesystem` on the directory `place`. When this returns the mount can be used.
pub fn mount(
    filesystem: Arc<dyn FileSystem>,
    place: &Path,
    options: &Options,
) -> Result<Mounted, MountError> {
    let place = checked_place(place)?;
    let failed = |cause: io::Error| match cause.raw_os_error() {
        Some(libc::ENOTCONN) => died(&place),
        _ => MountError::System {
            hint: hint(&cause),
            place: place.clone(),
            cause,
        },
    };
    let coherence = options.coherence.unwrap_or_else(|| filesystem.coherence());
    let read_only = options.read_only || filesystem.limits().read_only;
    let readers = options.readers();
    let dispatch = Dispatch::new(readers, options.threads.saturating_sub(readers));
    let front = Arc::new(Front::new(filesystem, coherence, dispatch));
    let service = Service {
        front: Arc::clone(&front),
        negotiation: Negotiation {
            kernel_write_back: options.kernel_write_back,
            passthrough: options.passthrough,
            opens_are_free: AtomicBool::new(false),
        },
    };
    let dispatch = Arc::clone(&front.dispatch);
    let let_go = move || dispatch.drop_unwanted();
    front.blocked.start(let_go).map_err(failed)?;
    let config = options.for_kernel(read_only);
    let session = Session::new(service, &place, &config).map_err(failed)?;
    let device = session.as_fd().try_clone_to_owned().map_err(failed)?;
    front.set_device(device);
    front.notify_through(session.notifier()).map_err(failed)?;
    front.start_pruning().map_err(failed)?;
    if front.is_immutable() {
        front.pushing.start(session.notifier());
    }
    let running = std::thread::Builder::new()
        .name("fuse-session".to_owned())
        .spawn(move || session.run())
        .map_err(failed)?;
    read_further_ahead(&place);
    Ok(Mounted {
        place,
        front,
        session: Mutex::new(Some(running)),
    })
}

fn checked_place(place: &Path) -> Result<PathBuf, MountError> {
    let refused = |reason: String| MountError::Place {
        place: place.to_owned(),
        reason,
    };
    let looked_at = std::fs::metadata(place).map_err(|error| match error.raw_os_error() {
        Some(libc::ENOTCONN) => died(place),
        Some(libc::ENOENT) => refused("no such directory to mount on".to_owned()),
        _ => refused(error.to_string()),
    })?;
    if !looked_at.is_dir() {
        return Err(refused("is not a directory to mount on".to_owned()));
    }
    std::fs::canonicalize(place).map_err(|error| refused(error.to_string()))
}

fn died(place: &Path) -> MountError {
    MountError::Place {
        place: place.to_owned(),
        reason: "a mount whose program died is in the way; unmount it first (pagewell umount)"
            .to_owned(),
    }
}

fn hint(error: &io::Error) -> &'static str {
    let text = error.to_string();
    if error.kind() == io::ErrorKind::NotFound {
        " (without root, mounting needs the program fusermount3, from the package fuse3)"
    } else if text.contains("user_allow_other") || text.contains("allow_other") {
        " (--allow-other needs 'user_allow_other' in /etc/fuse.conf unless root mounts)"
    } else if error.kind() == io::ErrorKind::PermissionDenied {
        " (is /dev/fuse there, and may this user open it?)"
    } else {
        ""
    }
}

/// The kernel reads 128 KiB ahead on such mounts, and lets root change that.
fn read_further_ahead(place: &Path) {
    let Ok(status) = std::fs::metadata(place) else {
        return;
    };
    let device = status.dev();
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let file = format!("/sys/class/bdi/{major}:{minor}/read_ahead_kb");
    // Without the right to it everything works, with smaller requests.
    let _ = std::fs::write(file, READ_AHEAD_KIBIBYTES.to_string());
}

impl Mounted {
    /// Where it is mounted.
    #[must_use]
    pub fn place(&self) -> &Path {
        &self.place
    }

    /// Whether it is unmounted and nobody uses it any more. Requests of programs that have gone may
    /// still be worked on.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.front.has_ended()
    }

    /// Waits until [`Mounted::has_ended`] and the last request is done.
    pub fn wait(&self) -> io::Result<()> {
        let mut session = self.session.lock().unwrap_or_else(PoisonError::into_inner);
        let ended = match session.take() {
            Some(session) => session.join(),
            None => return Ok(()),
        };
        drop(session);
        self.front.dispatch.stop();
        self.front.blocked.stop();
        self.front.forgetting.stop();
        self.front.pruning.stop();
        ended.unwrap_or_else(|_| Err(io::Error::other("a thread of the mount ended")))
    }

    /// Brings everything that was written to the source's device.
    pub fn sync(&self) -> pagewell_fs::Result<()> {
        self.front.filesystem.sync()
    }

    /// Ends every request; see [`FileSystem::abandon`].
    pub fn abandon(&self) -> u64 {
        self.front.filesystem.abandon()
    }

    /// [`Mounted::sync`] when nobody uses the mount any more; see [`FileSystem::finish`].
    pub fn finish(&self, patience: Duration) -> pagewell_fs::Result<u64> {
        self.front.filesystem.finish(patience)
    }
}

/// The bytes of a path as the list of mounts writes them.
pub(crate) fn in_mount_list(path: &Path) -> Vec<u8> {
    let bytes: &OsStr = path.as_os_str();
    let mut shown = Vec::new();
    for byte in bytes.as_bytes() {
        match byte {
            b' ' | b'\t' | b'\n' | b'\\' => shown.extend(format!("\\{byte:03o}").as_bytes()),
            _ => shown.push(*byte),
        }
    }
    shown
}
