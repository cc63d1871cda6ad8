//! Identities of threads, and permissions of callers.
//!
//! A server that runs as root lets the kernel judge each request. Linux keeps a *file-system
//! identity* (fsuid, fsgid, supplementary groups) per thread: [`Access::become_caller`] sets it to
//! the caller's, [`Access::become_server`] back to root for opening by handle, and for opening what
//! was checked. A file-system user other than 0 has no file-system capabilities (`CAP_DAC_OVERRIDE`
//! and its kin); each thread verifies that once, and drops `CAP_SYS_RESOURCE`, which would let
//! callers exceed quotas.
//!
//! ```text
//!   thread: root ──become_caller(1000)──> 1000 ──become_caller(1000)──> 1000   (no system call)
//!                                           └──become_server()──> root (groups of 1000 kept)
//! ```
//!
//! A thread keeps its last identity after a call. So every call sets it before it touches the file
//! system, and other work begins with [`pagewell_fs::identity::act_for_server`]. A new thread
//! inherits an identity: its first call sets everything. As setfsuid reports no error, the value is
//! read back, and a mismatch fails the call.
//!
//! *Permissions.* NFSv3 has no open: the server judges each READ and WRITE by the mode bits, with
//! two liberties (RFC 1813 section 4.4): the owner may read and write whatever the mode says, and
//! execute permission lets a file be read. Where a POSIX access control list decides (the caller is
//! not the owner, the group bits are not all zero), the kernel judges as the caller; likewise calls
//! that create, remove, rename, link or look up.
//!
//! Without root all calls run as the program's own user; the liberties end where the kernel refuses
//! that user.
//!
//! Weakness: file-system identity does not restrict `CAP_SYS_ADMIN`; `extended` refuses what that
//! would allow.

use super::object::{Object, Status, is_settled};
use super::system::{self, error_of};
use pagewell_fs::access::{self, EXECUTE, READ, WRITE};
use pagewell_fs::{Access as Rights, Call, Credentials, Error, FileType, Result, Timestamp};
use rustix::io::Errno;
use rustix::thread::{CapabilitySet, Gid};
use std::cell::{Cell, RefCell};
use std::ffi::CStr;
use std::os::fd::AsFd;

// `None`: unknown, set it before use.
thread_local! {
    static USER: Cell<Option<u32>> = const { Cell::new(None) };
    /// The credentials of its group and supplementary groups.
    static GROUPS: RefCell<Option<Credentials>> = const { RefCell::new(None) };
    /// This thread was seen to lose privileges with the user.
    static VERIFIED: Cell<bool> = const { Cell::new(false) };
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Caller<'a> {
    uid: u32,
    gid: u32,
    groups: &'a [u32],
    credentials: Option<&'a Credentials>,
}

impl Caller<'_> {
    pub(super) fn uid(&self) -> u32 {
        self.uid
    }

    pub(super) fn in_group(&self, gid: u32) -> bool {
        self.gid == gid || self.groups.contains(&gid)
    }

    pub(super) fn is_root(&self) -> bool {
        self.uid == 0
    }
}

enum Acting {
    /// The process runs as root.
    AsCaller,
    /// As the process' own user.
    AsSelf {
        uid: u32,
        gid: u32,
        groups: Box<[u32]>,
    },
}

impl Acting {
    fn detect() -> Self {
        let uid = rustix::process::geteuid();
        if uid.is_root() {
            return Self::AsCaller;
        }
        let groups = rustix::process::getgroups().unwrap_or_default();
        Self::AsSelf {
            uid: uid.as_raw(),
            gid: rustix::process::getegid().as_raw(),
            groups: groups.iter().map(|group| group.as_raw()).collect(),
        }
    }
}

pub(super) struct Access {
    acting: Acting,
    /// The file system supports access control lists.
    has_lists: bool,
    read_only: bool,
}

impl Access {
    pub(super) fn detect() -> Self {
        Self {
            acting: Acting::detect(),
            has_lists: false,
            read_only: false,
        }
    }

    pub(super) fn of_export(self, root: &Object, read_only: bool) -> Self {
        let asked = rustix::fs::fgetxattr_query(root.as_fd(), ACCESS_LIST);
        Self {
            has_lists: asked != Err(Errno::OPNOTSUPP) && has_list(root, ACCESS_LIST).is_ok(),
            read_only,
            ..self
        }
    }

    pub(super) fn has_lists(&self) -> bool {
        self.has_lists
    }

    pub(super) fn is_as_caller(&self) -> bool {
        matches!(self.acting, Acting::AsCaller)
    }

    pub(super) fn caller<'a>(&'a self, call: &Call<'a>) -> Caller<'a> {
        match &self.acting {
            Acting::AsCaller => Caller {
                uid: call.credentials.uid,
                gid: call.credentials.gid,
                groups: call.credentials.groups(),
                credentials: Some(call.credentials),
            },
            Acting::AsSelf { uid, gid, groups } => Caller {
                uid: *uid,
                gid: *gid,
                groups,
                credentials: None,
            },
        }
    }

    pub(super) fn become_caller(&self, caller: &Caller<'_>) -> Result<()> {
        caller.credentials.map_or(Ok(()), assume)
    }

    pub(super) fn act_for(&self, call: &Call<'_>) -> Result<()> {
        self.become_caller(&self.caller(call))
    }

    pub(super) fn become_server(&self) -> Result<()> {
        match &self.acting {
            // A new thread may have the groups of a caller.
            Acting::AsCaller if GROUPS.with_borrow(Option::is_none) => assume(&Credentials::root()),
            Acting::AsCaller => set_user(0),
            Acting::AsSelf { .. } => Ok(()),
        }
    }

    pub(super) fn judge<'a>(
        &'a self,
        call: &Call<'a>,
        object: &'a Object,
        status: &'a Status,
    ) -> Judge<'a> {
        Judge {
            access: self,
            object,
            status,
            caller: self.caller(call),
        }
    }

    /// A list that sets the permissions of new objects in the directory.
    pub(super) fn has_default_list(&self, directory: &Object) -> Result<bool> {
        Ok(self.has_lists && has_list(directory, c"system.posix_acl_default")?)
    }

    pub(super) fn describe(&self) -> String {
        match &self.acting {
            Acting::AsCaller => "as the caller".to_owned(),
            Acting::AsSelf { uid, .. } => format!("as user {uid} for everybody"),
        }
    }
}

pub(super) struct Judge<'a> {
    access: &'a Access,
    object: &'a Object,
    status: &'a Status,
    caller: Caller<'a>,
}

impl<'a> Judge<'a> {
    pub(super) fn object(&self) -> &'a Object {
        self.object
    }

    pub(super) fn status(&self) -> &'a Status {
        self.status
    }

    pub(super) fn caller(&self) -> &Caller<'a> {
        &self.caller
    }

    pub(super) fn is_owner(&self) -> bool {
        self.status.attributes.uid == self.caller.uid
    }

    pub(super) fn check_read(&self) -> Result<()> {
        let allowed = self.is_owner() || self.permits(READ)? || self.permits(EXECUTE)?;
        Error::AccessDenied.unless(allowed)
    }

    /// Also through a descriptor open for writing.
    pub(super) fn check_changeable(&self) -> Result<()> {
        Error::ReadOnly.when(self.access.read_only)?;
        Error::NotPermitted.when(self.status.is_frozen)
    }

    pub(super) fn check_write(&self) -> Result<()> {
        self.check_changeable()?;
        Error::AccessDenied.unless(self.is_owner() || self.permits(WRITE)?)
    }

    pub(super) fn check(&self, wanted: u32) -> Result<()> {
        Error::AccessDenied.unless(self.permits(wanted)?)
    }

    /// All of `wanted` (a sum of the three bits), without the liberties of NFS.
    pub(super) fn permits(&self, wanted: u32) -> Result<bool> {
        let (mode, caller) = (self.status.attributes.mode, &self.caller);
        if caller.is_root() {
            let runnable = self.object.is_directory() || mode & 0o111 != 0;
            return Ok(wanted & EXECUTE == 0 || runnable);
        }
        if self.is_owner() {
            return Ok(mode >> 6 & wanted == wanted);
        }
        if mode & 0o070 != 0 && self.has_acl()? {
            return self.kernel_permits(wanted);
        }
        let bits = if caller.in_group(self.status.attributes.gid) {
            mode >> 3
        } else {
            mode
        };
        Ok(bits & wanted == wanted)
    }

    fn has_acl(&self) -> Result<bool> {
        let (object, changed) = (self.object, self.status.attributes.changed);
        if !self.access.has_lists || object.file_type() == FileType::Symlink {
            return Ok(false);
        }
        if let Some(has) = object.known_acl(changed) {
            return Ok(has);
        }
        self.access.become_server()?;
        let has = has_list(object, ACCESS_LIST)?;
        // Within the clock's grain the time may stay.
        if is_settled((changed, changed), Timestamp::now()) {
            object.remember_acl(changed, has);
        }
        Ok(has)
    }

    fn kernel_permits(&self, wanted: u32) -> Result<bool> {
        self.access.become_caller(&self.caller)?;
        match system::access_effective(self.object.as_fd(), wanted) {
            Ok(()) => Ok(true),
            // Without faccessat2 (Linux 5.8) a list cannot be judged: refused.
            Err(Errno::ACCESS | Errno::PERM | Errno::ROFS | Errno::NOSYS | Errno::INVAL) => {
                Ok(false)
            }
            Err(errno) => Err(error_of(errno)),
        }
    }

    /// Without the liberties of NFS, for a client's open.
    pub(super) fn granted(&self, wanted: Rights) -> Result<Rights> {
        let object = self.object;
        let is_stored = object.can_open() || object.file_type() == FileType::Symlink;
        let frozen = self.access.read_only && is_stored;
        let mut granted = Rights::default();
        for (kind, needed) in access::kinds(object.is_directory()) {
            let asked = wanted.intersects(*kind) && !(frozen && needed & WRITE != 0);
            if asked && self.permits(*needed)? {
                granted = granted | *kind;
            }
        }
        Ok(granted)
    }
}

const ACCESS_LIST: &CStr = c"system.posix_acl_access";

fn has_list(object: &Object, name: &CStr) -> Result<bool> {
    match rustix::fs::getxattr_query(object.link(), name) {
        Ok(length) => Ok(length > 0),
        Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(false),
        Err(errno) => Err(error_of(errno)),
    }
}

/// A failure was counted.
fn turn_back() {
    let _ = assume(&Credentials::root());
}

fn assume(wanted: &Credentials) -> Result<()> {
    let same_groups = GROUPS.with_borrow(|groups| {
        let is_same = |has: &Credentials| has.gid == wanted.gid && has.groups() == wanted.groups();
        groups.as_ref().is_some_and(is_same)
    });
    if USER.get() == Some(wanted.uid) && same_groups {
        return Ok(());
    }
    // The kernel takes this number for "unchanged".
    Error::AccessDenied.when(wanted.uid == u32::MAX || wanted.gid == u32::MAX)?;
    if *wanted != Credentials::root() {
        pagewell_fs::identity::acts_for_caller(turn_back);
    }
    if !same_groups {
        GROUPS.set(None);
        set_groups(wanted)?;
        GROUPS.set(Some(wanted.clone()));
    }
    set_user(wanted.uid)
}

fn set_groups(wanted: &Credentials) -> Result<()> {
    Error::AccessDenied.when(wanted.groups().contains(&u32::MAX))?;
    let groups: Vec<Gid> = wanted.groups().iter().copied().map(Gid::from_raw).collect();
    rustix::thread::set_thread_groups(&groups)
        .map_err(|errno| refused(&format!("groups of user {}: {errno}", wanted.uid)))?;
    system::set_fs_gid(wanted.gid);
    if system::set_fs_gid(u32::MAX) == wanted.gid {
        Ok(())
    } else {
        Err(refused(&format!("group {}", wanted.gid)))
    }
}

fn set_user(uid: u32) -> Result<()> {
    if USER.get() == Some(uid) {
        return Ok(());
    }
    USER.set(None);
    system::set_fs_uid(uid);
    if system::set_fs_uid(u32::MAX) != uid {
        return Err(refused(&format!("user {uid}")));
    }
    if uid != 0 && !VERIFIED.get() {
        verify_privileges(uid)?;
        VERIFIED.set(true);
    }
    USER.set(Some(uid));
    Ok(())
}

/// The kernel removes these from a thread that is not user 0.
const FILE_SYSTEM_CAPABILITIES: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::DAC_READ_SEARCH)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID)
    .union(CapabilitySet::LINUX_IMMUTABLE)
    .union(CapabilitySet::MKNOD)
    .union(CapabilitySet::MAC_OVERRIDE);

fn verify_privileges(uid: u32) -> Result<()> {
    let mut sets = rustix::thread::capabilities(None)
        .map_err(|errno| refused(&format!("user {uid}: capabilities unknown: {errno}")))?;
    if sets.effective.intersects(FILE_SYSTEM_CAPABILITIES) {
        system::set_fs_uid(0);
        return Err(refused(&format!("user {uid}: the system keeps privileges")));
    }
    if sets.effective.contains(CapabilitySet::SYS_RESOURCE) {
        sets.effective.remove(CapabilitySet::SYS_RESOURCE);
        rustix::thread::set_capabilities(None, sets)
            .map_err(|errno| refused(&format!("user {uid}: {errno}")))?;
    }
    Ok(())
}

fn refused(what: &str) -> Error {
    Error::Io(format!("cannot act as {what}"))
}
