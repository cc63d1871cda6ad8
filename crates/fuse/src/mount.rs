//! How a mount begins and ends.

use std::fs::File;
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use fuser::Session;
use pagewell_base::sync::Mutex;
use pagewell_fs::FileSystem;

use crate::attach::{Attached, attach};
use crate::front::{Front, Service};
use crate::mounts::mounted_on;
use crate::options::Options;
use crate::unmount::UnmountError;

/// Where it can be set: the next requests are in flight while one is copied.
const READ_AHEAD_KIBIBYTES: u32 = 2048;

/// Why something cannot be mounted, and where.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct MountError(String);

impl MountError {
    fn of_place(place: &Path, reason: &str) -> Self {
        Self(format!("{}: {reason}", place.display()))
    }

    fn died(place: &Path) -> Self {
        let reason = "a mount whose program died is in the way; take it away first \
                      (pagewell umount --lazy)";
        Self::of_place(place, reason)
    }
}

/// A source that is mounted.
pub struct Mounted {
    front: Arc<Front>,
    session: Mutex<Option<JoinHandle<io::Result<()>>>>,
    /// The library's descriptor of the connection.
    number: RawFd,
    attached: Attached,
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // If it stays mounted, the next mount there reports it.
        let _ = self.unmount(true);
        // Programs may use it for long, and the threads of the session end after the last of them.
        if let Some(session) = self.take_session() {
            let (front, number) = (Arc::clone(&self.front), self.number);
            let thread = std::thread::Builder::new().name("fuse-end".to_owned());
            let _ = thread.spawn(move || end(&front, number, session));
        }
    }
}

fn end(front: &Front, number: RawFd, session: JoinHandle<io::Result<()>>) -> io::Result<()> {
    let ended = session.join();
    front.stop();
    let ended = ended.unwrap_or_else(|_| Err(io::Error::other("a thread of the mount ended")));
    if front.device().answered_past_library() {
        release_connection(number).and(ended)
    } else {
        ended
    }
}

/// Closes the connection, which the library's forgotten answers keep open: its number becomes one
/// of `/dev/null`.
fn release_connection(number: RawFd) -> io::Result<()> {
    let null = File::options().read(true).write(true).open("/dev/null")?;
    // SAFETY: an answer past the library was forgotten with its share of the library's descriptor,
    // so no code ever closes this number and it is still that descriptor. The value is not dropped.
    let mut kept = ManuallyDrop::new(unsafe { OwnedFd::from_raw_fd(number) });
    rustix::io::dup2(&null, &mut kept)?;
    Ok(())
}

/// Mounts `filesystem` on the directory `place`, ready for use.
pub fn mount(
    filesystem: Arc<dyn FileSystem>,
    place: &Path,
    options: &Options,
) -> Result<Mounted, MountError> {
    let place = checked_place(place)?;
    let failed = |cause: io::Error| match cause.raw_os_error() {
        Some(libc::ENOTCONN) => MountError::died(&place),
        _ => {
            let (place, hint) = (place.display(), hint(&cause));
            MountError(format!("cannot mount on {place}: {cause}{hint}"))
        }
    };
    let limits = filesystem.limits();
    let coherence = options.coherence.unwrap_or(limits.coherence);
    let read_only = options.read_only || limits.read_only;
    let front = Arc::new(Front::new(filesystem, coherence, options));
    let service = Service::new(Arc::clone(&front), options);
    front.watch_callers().map_err(failed)?;
    let (connection, attached) = attach(&place, options, read_only).map_err(failed)?;
    let number = connection.as_raw_fd();
    let running = start(service, connection, &front, options).map_err(|error| {
        let _ = attached.unmount(true);
        failed(error)
    })?;
    read_further_ahead(&place);
    Ok(Mounted {
        front,
        session: Mutex::new(Some(running)),
        number,
        attached,
    })
}

fn start(
    service: Service,
    connection: OwnedFd,
    front: &Arc<Front>,
    options: &Options,
) -> io::Result<JoinHandle<io::Result<()>>> {
    let config = options.for_library();
    let session = Session::from_fd(service, connection, config.acl, config)?;
    front.notify_through(&session)?;
    let thread = std::thread::Builder::new().name("fuse-session".to_owned());
    thread.spawn(move || session.run())
}

fn checked_place(place: &Path) -> Result<PathBuf, MountError> {
    let refused = |reason: &str| MountError::of_place(place, reason);
    let looked_at = std::fs::metadata(place).map_err(|error| match error.raw_os_error() {
        Some(libc::ENOTCONN) => MountError::died(place),
        Some(libc::ENOENT) => refused("no such directory to mount on"),
        _ => refused(&error.to_string()),
    })?;
    if !looked_at.is_dir() {
        return Err(refused("is not a directory to mount on"));
    }
    let place = std::fs::canonicalize(place).map_err(|error| refused(&error.to_string()))?;
    if mounted_on(&place).is_some_and(|entry| entry.has_died()) {
        return Err(MountError::died(&place));
    }
    Ok(place)
}

fn hint(error: &io::Error) -> &'static str {
    if !Path::new("/dev/fuse").exists() {
        " (there is no /dev/fuse: 'modprobe fuse' makes it; a container must be given it)"
    } else if error.kind() == io::ErrorKind::NotFound {
        " (without root, mounting needs the program fusermount3, from the package fuse3)"
    } else if error.to_string().contains("allow_other") {
        " (--allow-other needs 'user_allow_other' in /etc/fuse.conf unless root mounts)"
    } else if error.kind() == io::ErrorKind::PermissionDenied {
        " (may this user open /dev/fuse?)"
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
    // Without the right to it requests are smaller.
    let _ = std::fs::write(file, READ_AHEAD_KIBIBYTES.to_string());
}

impl Mounted {
    /// Unmounts it where it is now. With `lazy` it leaves its place at once, and ends with the last
    /// program that uses it.
    ///
    /// # Errors
    ///
    /// It is in use, another mount lies over it, or it is in no place any more.
    pub fn unmount(&self, lazy: bool) -> Result<(), UnmountError> {
        // The kernel may have given the number of its device to another mount.
        if self.has_ended() {
            return Err(UnmountError::NotMounted(self.place().to_owned()));
        }
        self.attached.unmount(lazy)
    }

    /// Where it was mounted.
    #[must_use]
    pub fn place(&self) -> &Path {
        &self.attached.place
    }

    /// Whether it is unmounted and no program uses it. Some requests may still be in work.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.front.device().has_ended()
    }

    /// Waits until [`Mounted::has_ended`] and the last request is done.
    pub fn wait(&self) -> io::Result<()> {
        let Some(session) = self.take_session() else {
            return Ok(());
        };
        let ended = end(&self.front, self.number, session);
        if ended.is_err() {
            let _ = self.unmount(true);
        }
        ended
    }

    fn take_session(&self) -> Option<JoinHandle<io::Result<()>>> {
        let mut session = self.session.lock();
        session.take()
    }

    /// What is mounted.
    #[must_use]
    pub fn filesystem(&self) -> &dyn FileSystem {
        self.front.filesystem()
    }
}
