//! System calls that rustix lacks, each behind a narrow safe interface, and the errno mapping of
//! this source.

use pagewell_fs::{Error, Result as FsResult};
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::mount::{OpenTreeFlags, open_tree};
use std::ffi::CString;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// The kernel's bound (`MAX_HANDLE_SZ`).
const HANDLE_BYTES_MAX: usize = 128;

#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct KernelHandle {
    length: u32,
    kind: i32,
    bytes: [u8; HANDLE_BYTES_MAX],
}

impl KernelHandle {
    /// `None` when it is too long.
    pub(super) fn new(kind: u8, value: &[u8]) -> Option<Self> {
        let mut bytes = [0; HANDLE_BYTES_MAX];
        bytes.get_mut(..value.len())?.copy_from_slice(value);
        Some(Self {
            length: u32::try_from(value.len()).ok()?,
            kind: i32::from(kind),
            bytes,
        })
    }

    pub(super) fn kind(&self) -> i32 {
        self.kind
    }

    pub(super) fn bytes(&self) -> &[u8] {
        let length = usize::try_from(self.length).unwrap_or(0);
        self.bytes.get(..length).unwrap_or(&[])
    }
}

/// [`Error`]'s general mapping leaves these to the source.
pub(super) fn error_of(errno: Errno) -> Error {
    match errno {
        // "Would block" is for callers that must not wait; here the system is short of something.
        Errno::AGAIN | Errno::NOMEM | Errno::MFILE | Errno::NFILE => Error::TryLater,
        // A mount point, or a running program.
        Errno::BUSY | Errno::TXTBSY => Error::AccessDenied,
        other => other.into(),
    }
}

/// An error only where the system is short of something.
pub(super) fn unless_short<T>(opened: FsResult<T>) -> FsResult<Option<T>> {
    match opened {
        Err(error @ (Error::TryLater | Error::WouldBlock)) => Err(error),
        opened => Ok(opened.ok()),
    }
}

fn checked(result: impl Into<libc::c_long>) -> Result<libc::c_long, Errno> {
    let result = result.into();
    if result < 0 {
        let code = std::io::Error::last_os_error().raw_os_error();
        Err(Errno::from_raw_os_error(code.unwrap_or(libc::EIO)))
    } else {
        Ok(result)
    }
}

fn descriptor(fd: BorrowedFd<'_>) -> libc::c_long {
    libc::c_long::from(fd.as_raw_fd())
}

/// Of `name` in the directory `fd`, or of `fd` itself for an empty `name`.
pub(super) fn name_to_handle(fd: BorrowedFd<'_>, name: &[u8]) -> Result<KernelHandle, Errno> {
    let path = CString::new(name).map_err(|_| Errno::INVAL)?;
    let flags = if name.is_empty() {
        libc::AT_EMPTY_PATH
    } else {
        0
    };
    let mut handle = KernelHandle {
        length: HANDLE_BYTES_MAX as u32,
        kind: 0,
        bytes: [0; HANDLE_BYTES_MAX],
    };
    let mut mount: libc::c_int = 0;
    // SAFETY: `path` ends in NUL; the kernel writes at most the header's eight bytes and `length`
    // bytes behind it, which `handle` has; `mount` is one int.
    checked(unsafe {
        let handle = (&raw mut handle).cast();
        libc::name_to_handle_at(fd.as_raw_fd(), path.as_ptr(), handle, &raw mut mount, flags)
    })?;
    Ok(handle)
}

pub(super) fn open_by_handle(
    mount: BorrowedFd<'_>,
    handle: &KernelHandle,
    flags: OFlags,
) -> Result<OwnedFd, Errno> {
    // SAFETY: the kernel reads the header and `length` bytes behind it, which `handle` has.
    let fd = checked(unsafe {
        let handle = std::ptr::from_ref(handle).cast_mut().cast();
        libc::open_by_handle_at(mount.as_raw_fd(), handle, flags.bits().cast_signed())
    })?;
    let fd = i32::try_from(fd).map_err(|_| Errno::IO)?;
    // SAFETY: a new descriptor without another owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Sets the file-system user of this thread and returns the former one; the invalid user
/// [`u32::MAX`] changes nothing. The kernel reports no error.
pub(super) fn set_fs_uid(uid: u32) -> u32 {
    // SAFETY: takes a number, touches no memory.
    unsafe { libc::setfsuid(uid) }.cast_unsigned()
}

/// [`set_fs_uid`] for the group.
pub(super) fn set_fs_gid(gid: u32) -> u32 {
    // SAFETY: takes a number, touches no memory.
    unsafe { libc::setfsgid(gid) }.cast_unsigned()
}

/// faccessat2 with the file-system identity of this thread; `mode` is a sum of `R_OK`, `W_OK` and
/// `X_OK`; Linux 5.8.
pub(super) fn access_effective(fd: BorrowedFd<'_>, mode: u32) -> Result<(), Errno> {
    // SAFETY: the path is a literal that ends in NUL.
    checked(unsafe {
        libc::syscall(
            libc::SYS_faccessat2,
            descriptor(fd),
            c"".as_ptr(),
            libc::c_ulong::from(mode),
            libc::c_long::from(libc::AT_EMPTY_PATH | libc::AT_EACCESS),
        )
    })
    .map(|_| ())
}

/// Where the kernel can. The next sync reports its errors.
pub(super) fn start_writing(file: BorrowedFd<'_>) {
    // SAFETY: takes numbers, touches no memory.
    unsafe { libc::sync_file_range(file.as_raw_fd(), 0, 0, libc::SYNC_FILE_RANGE_WRITE) };
}

/// A mount of this process alone that shows the directory `root` without the file systems mounted
/// in it (open_tree and mount_setattr; Linux 5.12, needs `CAP_SYS_ADMIN`). The descriptor keeps it.
pub(super) fn own_mount(root: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    let made = open_tree(root, c"", flags | OpenTreeFlags::AT_EMPTY_PATH)?;
    // Later mounts on the original do not propagate here either.
    let private = libc::mount_attr {
        attr_set: 0,
        attr_clr: 0,
        propagation: libc::MS_PRIVATE,
        userns_fd: 0,
    };
    // SAFETY: the path is a literal that ends in NUL; the kernel reads the given size of the
    // structure.
    checked(unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            descriptor(made.as_fd()),
            c"".as_ptr(),
            libc::c_long::from(libc::AT_EMPTY_PATH),
            &raw const private,
            size_of::<libc::mount_attr>(),
        )
    })?;
    Ok(made)
}

/// A group that reports every change on the file system of `mount`, by file handle (fanotify_init,
/// fanotify_mark; needs `CAP_SYS_ADMIN`).
pub(super) fn watch_filesystem(mount: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    let flags =
        libc::FAN_CLASS_NOTIF | libc::FAN_REPORT_FID | libc::FAN_NONBLOCK | libc::FAN_CLOEXEC;
    // SAFETY: takes two numbers, touches no memory.
    let group = checked(unsafe { libc::fanotify_init(flags, libc::O_RDONLY.cast_unsigned()) })?;
    let group = i32::try_from(group).map_err(|_| Errno::IO)?;
    // SAFETY: a new descriptor without another owner.
    let group = unsafe { OwnedFd::from_raw_fd(group) };
    let changes = libc::FAN_MODIFY
        | libc::FAN_ATTRIB
        | libc::FAN_CREATE
        | libc::FAN_DELETE
        | libc::FAN_DELETE_SELF
        | libc::FAN_MOVED_FROM
        | libc::FAN_MOVED_TO
        | libc::FAN_MOVE_SELF
        | libc::FAN_ONDIR;
    let mark = libc::FAN_MARK_ADD | libc::FAN_MARK_FILESYSTEM;
    // SAFETY: without a path the mark is on the file system of `mount`; touches no memory.
    checked(unsafe {
        let (group, mount) = (group.as_raw_fd(), mount.as_raw_fd());
        libc::fanotify_mark(group, mark, changes, mount, std::ptr::null())
    })?;
    Ok(group)
}

/// Appends entries of the directory `fd` that fit into the spare capacity of `bytes`; false at the
/// end (getdents64).
pub(super) fn read_entries(fd: BorrowedFd<'_>, bytes: &mut Vec<u8>) -> Result<bool, Errno> {
    let spare = bytes.spare_capacity_mut();
    let room = spare.len();
    // SAFETY: the kernel writes at most `room` bytes to memory of `bytes`.
    let count = checked(unsafe {
        libc::syscall(
            libc::SYS_getdents64,
            descriptor(fd),
            spare.as_mut_ptr(),
            room,
        )
    })?;
    let count = usize::try_from(count).map_err(|_| Errno::IO)?;
    let length = bytes.len() + count.min(room);
    // SAFETY: the kernel has just initialised `count` bytes behind the old end.
    unsafe { bytes.set_len(length) };
    Ok(count > 0)
}
