//! The program that makes a request.
//!
//! The kernel passes user, group and thread of a caller. The supplementary groups are in `/proc`,
//! which takes some 20 microseconds, so they are read only when a call was refused without them,
//! and before changes whose outcome depends on them (set-group-id).

use std::cell::{Cell, OnceCell};
use std::sync::LazyLock;

use fuser::Request;
use pagewell_fs::{Call, Credentials, Error, Result, SetAttributes};

static ROOT: LazyLock<Credentials> = LazyLock::new(Credentials::root);

/// Where the kernel has judged, or names no caller.
pub(crate) fn as_root(may_block: bool) -> Call<'static> {
    Call::new(&ROOT, may_block)
}

pub(crate) struct Caller {
    may_block: Cell<bool>,
    /// 0 for a thread in another process namespace.
    thread: u32,
    plain: Credentials,
    with_groups: OnceCell<Credentials>,
}

impl Caller {
    /// Root where the kernel alone judges.
    pub(crate) fn of(request: &Request, kernel_judges: bool) -> Self {
        let (uid, gid) = match kernel_judges {
            true => (0, 0),
            false => (request.uid(), request.gid()),
        };
        Self {
            may_block: Cell::new(false),
            thread: request.pid(),
            plain: Credentials::new(uid, gid, &[]),
            with_groups: OnceCell::new(),
        }
    }

    /// The user that runs a test; it may wait.
    #[cfg(test)]
    pub(crate) fn of_test() -> Self {
        let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
        Self {
            may_block: Cell::new(true),
            thread: 0,
            plain: Credentials::new(uid.as_raw(), gid.as_raw(), &[]),
            with_groups: OnceCell::new(),
        }
    }

    pub(crate) fn may_block(&self) -> bool {
        self.may_block.get()
    }

    pub(crate) fn set_may_block(&self, may_block: bool) {
        self.may_block.set(may_block);
    }

    pub(crate) fn is_root(&self) -> bool {
        self.plain.uid == 0
    }

    pub(crate) fn complete(&self) -> &Credentials {
        if self.is_root() {
            return &self.plain;
        }
        self.with_groups.get_or_init(|| {
            let groups = groups_of(self.thread);
            Credentials::new(self.plain.uid, self.plain.gid, &groups)
        })
    }

    /// Makes a call that changes nothing when it is refused: with supplementary groups only then.
    pub(crate) fn ask<T>(&self, operation: impl Fn(&Call<'_>) -> Result<T>) -> Result<T> {
        let answer = operation(&self.call_as(&self.plain));
        let is_refused = matches!(answer, Err(Error::AccessDenied | Error::NotPermitted));
        if !is_refused || self.complete().groups().is_empty() {
            return answer;
        }
        operation(&self.call())
    }

    pub(crate) fn call(&self) -> Call<'_> {
        self.call_as(self.complete())
    }

    pub(crate) fn call_as<'a>(&self, credentials: &'a Credentials) -> Call<'a> {
        Call::new(credentials, self.may_block.get())
    }
}

fn groups_of(thread: u32) -> Vec<u32> {
    if thread == 0 {
        return Vec::new();
    }
    let status = std::fs::read(format!("/proc/{thread}/status")).unwrap_or_default();
    groups_in(&status)
}

/// The line `Groups:` of a status file of `/proc`.
fn groups_in(status: &[u8]) -> Vec<u32> {
    status
        .split(|byte| *byte == b'\n')
        .find_map(|line| line.strip_prefix(b"Groups:"))
        .and_then(|line| std::str::from_utf8(line).ok())
        .map(|line| line.split_whitespace().flat_map(str::parse).collect())
        .unwrap_or_default()
}

#[derive(Clone, Copy)]
pub(crate) struct Permissions {
    mode: u32,
    umask: u32,
}

impl Permissions {
    pub(crate) const fn new(mode: u32, umask: u32) -> Self {
        Self { mode, umask }
    }

    /// For objects without permissions of their own.
    pub(crate) const NONE: Self = Self::new(0, 0);

    pub(crate) fn attributes(self) -> SetAttributes {
        SetAttributes {
            mode: Some(self.mode),
            ..SetAttributes::default()
        }
    }

    pub(crate) fn credentials_of(self, caller: &Caller) -> Credentials {
        caller.complete().clone().with_umask(self.umask)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_on_their_line() {
        let status = b"Name:\tGroups: 7\nUid:\t1\t1\nGroups:\t4 24 1000 \nNStgid:\t3\n";
        assert_eq!(groups_in(status), [4, 24, 1000]);
        assert_eq!(groups_in(b"Groups:\t\n"), [0; 0]);
        assert_eq!(groups_in(b""), [0; 0]);
    }
}
