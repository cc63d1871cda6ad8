//! Attaching a mount to its place, and detaching it.
//!
//! The crate `fuser` unmounts by path when a mount has ended: the mount beneath would go. Here the
//! kernel's list must show this mount there first.

use std::ffi::CString;
use std::fs::File;
use std::io::{self, IoSliceMut};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::io::{FdFlags, fcntl_setfd};
use rustix::mount::MountFlags;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags};

use crate::mounts::{Entry, FUSE, mounted_on, named_by_helper, place_of};
use crate::options::Options;
use crate::unmount::{HELPER, UnmountError, said, unmount_entry};

pub(crate) struct Attached {
    pub(crate) place: PathBuf,
    /// The device of the mount in the kernel's list.
    device: Option<String>,
}

pub(crate) fn attach(
    place: &Path,
    options: &Options,
    read_only: bool,
) -> io::Result<(OwnedFd, Attached)> {
    let connection = match directly(place, options, read_only) {
        Err(error) if error.raw_os_error() == Some(libc::EPERM) => {
            with_helper(place, options, read_only)
        }
        other => other,
    }?;
    let attached = Attached {
        place: place.to_owned(),
        device: mounted_on(place).map(|entry| entry.device),
    };
    Ok((connection, attached))
}

impl Attached {
    /// Unmounts this mount where it is now, if no other covers it.
    pub(crate) fn unmount(&self, lazy: bool) -> Result<(), UnmountError> {
        let found = || place_of(self.device.as_deref()?, &self.place);
        let Some(place) = found() else {
            return Err(UnmountError::NotMounted(self.place.clone()));
        };
        let is_this = |entry: &Entry| Some(&entry.device) == self.device.as_ref();
        let Some(entry) = mounted_on(&place).filter(is_this) else {
            return Err(UnmountError::Covered(place));
        };
        match unmount_entry(&entry, lazy) {
            // It still exists, so its path leads elsewhere.
            Err(UnmountError::NotMounted(_)) if found().is_some() => {
                Err(UnmountError::Covered(place))
            }
            unmounted => unmounted,
        }
    }
}

fn directly(place: &Path, options: &Options, read_only: bool) -> io::Result<OwnedFd> {
    let device = File::options().read(true).write(true).open("/dev/fuse")?;
    let mut data = format!(
        "fd={},rootmode=40000,user_id={},group_id={},default_permissions",
        device.as_raw_fd(),
        rustix::process::getuid().as_raw(),
        rustix::process::getgid().as_raw()
    );
    if options.allow_other {
        data.push_str(",allow_other");
    }
    let mut flags = MountFlags::empty();
    flags.set(MountFlags::RDONLY, read_only);
    flags.set(MountFlags::NOEXEC, options.no_exec);
    flags.set(MountFlags::NOSUID, !options.set_id_works);
    flags.set(MountFlags::NODEV, !options.devices_work);
    flags.set(MountFlags::NOATIME, options.no_access_times);
    flags.set(MountFlags::SYNCHRONOUS, options.synchronous);
    flags.set(MountFlags::DIRSYNC, options.directories_synchronous);
    let source = CString::new(options.source.as_bytes())?;
    let data = CString::new(data)?;
    let kind = format!("{FUSE}{}", options.subtype);
    rustix::mount::mount(source.as_c_str(), place, kind, flags, data.as_c_str())?;
    Ok(device.into())
}

/// Without root: the helper mounts, and returns the descriptor through a socket.
fn with_helper(place: &Path, options: &Options, read_only: bool) -> io::Result<OwnedFd> {
    let (ours, theirs) = UnixStream::pair()?;
    // The helper inherits it. This process starts no other program meanwhile.
    fcntl_setfd(&theirs, FdFlags::empty())?;
    let child = Command::new(HELPER)
        .arg("-o")
        .arg(helper_options(options, read_only))
        .arg("--")
        .arg(place)
        .env("_FUSE_COMMFD", theirs.as_raw_fd().to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()?;
    drop(theirs);
    let received = receive_descriptor(&ours);
    let ended = child.wait_with_output()?;
    match received? {
        Some(connection) => Ok(connection),
        None => {
            let said = said(&ended.stderr);
            Err(match said.contains("user_allow_other") {
                true => io::Error::new(io::ErrorKind::PermissionDenied, said),
                false => io::Error::other(said),
            })
        }
    }
}

fn helper_options(options: &Options, read_only: bool) -> String {
    let source = named_by_helper(&options.source);
    let subtype = &options.subtype;
    let mut list = format!("fsname={source},subtype={subtype},default_permissions");
    for (wanted, name) in [
        (options.allow_other, "allow_other"),
        (read_only, "ro"),
        (options.no_exec, "noexec"),
        (options.no_access_times, "noatime"),
        (options.synchronous, "sync"),
        (options.directories_synchronous, "dirsync"),
        (options.set_id_works, "suid"),
        (options.devices_work, "dev"),
    ] {
        if wanted {
            list.push(',');
            list.push_str(name);
        }
    }
    list
}

fn receive_descriptor(socket: &UnixStream) -> io::Result<Option<OwnedFd>> {
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0; 1];
    let mut pieces = [IoSliceMut::new(&mut byte)];
    let flags = RecvFlags::CMSG_CLOEXEC;
    rustix::io::retry_on_intr(|| {
        rustix::net::recvmsg(socket, &mut pieces, &mut control, flags).map(|_| ())
    })?;
    let mut descriptors = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
        _ => None,
    });
    Ok(descriptors.next().and_then(|mut list| list.next()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_helper_gets_the_options() {
        let mut options = Options::new("a,b");
        options.allow_other = true;
        assert_eq!(
            helper_options(&options, true),
            "fsname=a_b,subtype=pagewell,default_permissions,allow_other,ro"
        );
    }
}
