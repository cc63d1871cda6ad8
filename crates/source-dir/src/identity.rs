//! On whose behalf the kernel thinks this thread works.
//!
//! Problem: a server that runs as root must let the kernel refuse what the caller may not do,
//! for each request, on threads that serve many callers.
//!
//! Rule: Linux keeps a *file-system identity* (fsuid, fsgid, supplementary groups) per thread.
//! [`Acting::become_caller`] sets it to the caller's, [`Acting::become_server`] back to root for
//! what the server does for itself (opening by handle, opening a file after it has checked the
//! permission). Setting a file-system user other than 0 takes the file-system capabilities
//! (`CAP_DAC_OVERRIDE` and its kin) from the thread and setting 0 gives them back, so nothing
//! else need be dropped; once per thread that is verified. `CAP_SYS_RESOURCE` is not among them
//! and would let callers exceed quotas and reserved blocks: it is dropped from a thread when it
//! first acts for another user.
//!
//! ```text
//!   thread: root ──become_caller(1000)──> 1000 ──become_caller(1000)──> 1000   (no system call)
//!                                           └──become_server()──> root (groups of 1000 kept)
//! ```
//!
//! The identity is remembered per thread and set back *lazily*: a thread keeps its last identity
//! after a call. So every call here states which identity it needs before it touches the file
//! system, and other work of the thread begins with [`pagewell_fs::identity::act_for_server`]. What
//! a new thread has is never assumed, as it inherits everything: its first call sets everything,
//! and a thread of this layer's own becomes the server before all else. After a panic the memory is
//! still true, because it is written only after the kernel confirmed.
//!
//! setfsuid reports no error; a second call reads the value back. A thread on which it did not
//! take does no work at all.
//!
//! Without root everything is done as the program's own user, whoever calls, whose permissions
//! are what is checked; the liberties of NFS end there where the kernel refuses that user (a file
//! of mode 0444 can be written only while it is held open from its creation).
//!
//! Weakness: file-system identity does not restrict `CAP_SYS_ADMIN` and other capabilities
//! outside the file-system set; they matter to no system call made here.

use super::system;
use pagewell_fs::{Call, Credentials, Error, Result};
use rustix::thread::{CapabilitySet, Gid};
use std::cell::{Cell, RefCell};

// What the thread is known to have; `None`: not known, set it before use.
thread_local! {
    static USER: Cell<Option<u32>> = const { Cell::new(None) };
    /// Group and supplementary groups are these credentials'.
    static GROUPS: RefCell<Option<Credentials>> = const { RefCell::new(None) };
    /// Whether it was verified that this thread loses privileges with the user.
    static VERIFIED: Cell<bool> = const { Cell::new(false) };
}

/// Who a permission is checked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Caller<'a> {
    pub(super) uid: u32,
    pub(super) gid: u32,
    groups: &'a [u32],
    credentials: Option<&'a Credentials>,
}

impl Caller<'_> {
    pub(super) fn in_group(&self, gid: u32) -> bool {
        self.gid == gid || self.groups.contains(&gid)
    }

    pub(super) fn is_root(&self) -> bool {
        self.uid == 0
    }
}

/// As whom calls are made.
pub(super) enum Acting {
    /// As their callers: the process runs as root.
    AsCaller,
    /// As the process' own user, whoever calls.
    AsSelf {
        uid: u32,
        gid: u32,
        groups: Box<[u32]>,
    },
}

impl Acting {
    /// What this process can do.
    pub(super) fn detect() -> Self {
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

    /// Whose permissions count in this call.
    pub(super) fn caller<'a>(&'a self, call: &Call<'a>) -> Caller<'a> {
        match self {
            Self::AsCaller => Caller {
                uid: call.credentials.uid,
                gid: call.credentials.gid,
                groups: call.credentials.groups(),
                credentials: Some(call.credentials),
            },
            Self::AsSelf { uid, gid, groups } => Caller {
                uid: *uid,
                gid: *gid,
                groups,
                credentials: None,
            },
        }
    }

    /// From here on the kernel judges this thread as `caller`.
    pub(super) fn become_caller(&self, caller: &Caller<'_>) -> Result<()> {
        match caller.credentials {
            Some(credentials) => assume(credentials),
            None => Ok(()),
        }
    }

    /// From here on the kernel judges this thread as the server itself.
    pub(super) fn become_server(&self) -> Result<()> {
        match self {
            // A new thread may have the groups of a caller.
            Self::AsCaller if GROUPS.with_borrow(Option::is_none) => assume(&Credentials::root()),
            Self::AsCaller => set_user(0),
            Self::AsSelf { .. } => Ok(()),
        }
    }
}

/// Gives the calling thread root's file-system identity back. A failure was counted.
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
    // no such user: the kernel takes it for "unchanged"
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

/// What the kernel must have taken from the thread with user 0.
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
