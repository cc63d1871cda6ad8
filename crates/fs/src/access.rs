//! Permission by mode bits, as the local system decides, for sources that cannot ask it.

use crate::{Access, Attributes, Credentials, Error, Result};

/// The permission bit for reading.
pub const READ: u32 = 4;
/// The same for writing.
pub const WRITE: u32 = 2;
/// The same for executing a file, or looking names up in a directory.
pub const EXECUTE: u32 = 1;

const SET_UID: u32 = 0o4000;
const SET_GID: u32 = 0o2000;
const GROUP_EXECUTE: u32 = 0o10;

/// The kinds of access to a directory or another object, with the permission bits that each needs.
#[must_use]
pub fn kinds(is_directory: bool) -> &'static [(Access, u32)] {
    if is_directory {
        &[
            (Access::READ, READ),
            (Access::LOOKUP, EXECUTE),
            (Access::MODIFY, WRITE | EXECUTE),
            (Access::EXTEND, WRITE | EXECUTE),
            (Access::DELETE, WRITE | EXECUTE),
        ]
    } else {
        &[
            (Access::READ, READ),
            (Access::MODIFY, WRITE),
            (Access::EXTEND, WRITE),
            (Access::EXECUTE, EXECUTE),
        ]
    }
}

/// Whether the mode gives the caller all of `wanted`. The caller's first class decides: owner,
/// group or others. Uid 0 may do everything but execute a file without execute bits.
#[must_use]
pub fn allows(credentials: &Credentials, attributes: &Attributes, wanted: u32) -> bool {
    let mode = attributes.mode;
    if credentials.uid == 0 {
        let is_directory = attributes.file_type.is_directory();
        return wanted & EXECUTE == 0 || is_directory || mode & 0o111 != 0;
    }
    let shift = if credentials.uid == attributes.uid {
        6
    } else if credentials.in_group(attributes.gid) {
        3
    } else {
        0
    };
    mode >> shift & wanted == wanted
}

/// The mode after a caller without `CAP_FSETID` changes a file's data or owner: set-user-id goes,
/// set-group-id if the group may execute it or that caller is no member.
#[must_use]
pub fn mode_after_change(mode: u32, is_member: bool) -> u32 {
    let goes = mode & GROUP_EXECUTE != 0 || !is_member;
    mode & !(SET_UID | if goes { SET_GID } else { 0 })
}

/// What of `wanted` needs only permission bits that are `allowed`.
pub fn among(wanted: Access, is_directory: bool, allowed: impl Fn(u32) -> bool) -> Access {
    kinds(is_directory)
        .iter()
        .filter(|(access, needed)| wanted.intersects(*access) && allowed(*needed))
        .fold(Access::default(), |all, (access, _)| all | *access)
}

/// What of `wanted` the caller has; never what changes the object.
#[must_use]
pub fn granted(credentials: &Credentials, attributes: &Attributes, wanted: Access) -> Access {
    among(wanted, attributes.file_type.is_directory(), |needed| {
        needed & WRITE == 0 && allows(credentials, attributes, needed)
    })
}

/// Refuses a caller that lacks some of `wanted`.
pub fn check(credentials: &Credentials, attributes: &Attributes, wanted: Access) -> Result<()> {
    Error::AccessDenied.unless(granted(credentials, attributes, wanted) == wanted)
}

/// Refuses callers that may not read a file; owners may, and those that may execute it (RFC 1813
/// section 4.4).
pub fn check_read(credentials: &Credentials, attributes: &Attributes) -> Result<()> {
    let is_owner = credentials.uid == attributes.uid;
    let wanted = Access::READ | Access::EXECUTE;
    let granted = granted(credentials, attributes, wanted);
    Error::AccessDenied.unless(is_owner || granted.intersects(wanted))
}

/// Refuses callers that may not write to a file; owners may (RFC 1813 section 4.4).
pub fn check_write(credentials: &Credentials, attributes: &Attributes) -> Result<()> {
    let is_owner = credentials.uid == attributes.uid;
    Error::AccessDenied.unless(is_owner || allows(credentials, attributes, WRITE))
}

/// Refuses callers that are neither the owner nor root.
pub fn check_owner(credentials: &Credentials, attributes: &Attributes) -> Result<()> {
    Error::NotPermitted.unless(credentials.uid == 0 || credentials.uid == attributes.uid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FileType, Timestamp};

    fn attributes(file_type: FileType, mode: u32) -> Attributes {
        Attributes {
            file_type,
            mode,
            link_count: 1,
            uid: 10,
            gid: 20,
            size: 0,
            used: 0,
            device: (0, 0),
            filesystem_id: 0,
            file_id: 0,
            accessed: Timestamp::default(),
            modified: Timestamp::default(),
            changed: Timestamp::default(),
            may_be_kept: true,
        }
    }

    #[test]
    fn a_change_takes_set_id_bits_as_linux_does() {
        for (mode, of_member, of_another) in [
            (0o6755, 0o755, 0o755),
            (0o6745, 0o2745, 0o745),
            (0o2666, 0o2666, 0o666),
            (0o1644, 0o1644, 0o1644),
        ] {
            assert_eq!(mode_after_change(mode, true), of_member, "{mode:o}");
            assert_eq!(mode_after_change(mode, false), of_another, "{mode:o}");
        }
    }

    #[test]
    fn the_first_matching_class_decides() {
        let file = attributes(FileType::Regular, 0o704);
        let granted =
            |uid, groups: &[u32]| granted(&Credentials::new(uid, 99, groups), &file, Access::ALL);
        assert_eq!(granted(10, &[]), Access::READ | Access::EXECUTE);
        assert_eq!(granted(11, &[20]), Access(0));
        assert_eq!(granted(11, &[]), Access::READ);
        assert_eq!(granted(0, &[]), Access::READ | Access::EXECUTE);
    }

    #[test]
    fn directories_are_searched_and_files_executed() {
        let directory = attributes(FileType::Directory, 0o711);
        let other = Credentials::new(11, 11, &[]);
        assert_eq!(granted(&other, &directory, Access::ALL), Access::LOOKUP);
        assert_eq!(check(&other, &directory, Access::LOOKUP), Ok(()));
        let listed = check(&other, &directory, Access::READ);
        assert_eq!(listed, Err(Error::AccessDenied));
        let closed = attributes(FileType::Directory, 0);
        let root = Credentials::root();
        assert_eq!(
            granted(&root, &closed, Access::ALL),
            Access::READ | Access::LOOKUP
        );
    }

    #[test]
    fn owners_and_executors_may_read() {
        let file = attributes(FileType::Regular, 0o001);
        for (uid, allowed) in [(10, true), (11, true), (0, true)] {
            let caller = Credentials::new(uid, 99, &[]);
            assert_eq!(check_read(&caller, &file).is_ok(), allowed);
        }
        let closed = attributes(FileType::Regular, 0o000);
        assert!(check_read(&Credentials::new(11, 11, &[]), &closed).is_err());
        assert!(check_read(&Credentials::new(10, 11, &[]), &closed).is_ok());
    }

    #[test]
    fn writers_are_owners_root_and_whom_the_mode_lets() {
        let file = attributes(FileType::Regular, 0o424);
        for (uid, groups, may, write, owns) in [
            (10, &[][..], false, true, true),
            (11, &[20], true, true, false),
            (11, &[], false, false, false),
            (0, &[], true, true, true),
        ] {
            let caller = Credentials::new(uid, 99, groups);
            assert_eq!(allows(&caller, &file, WRITE), may, "{uid} {groups:?}");
            assert_eq!(check_write(&caller, &file).is_ok(), write, "{uid}");
            assert_eq!(check_owner(&caller, &file).is_ok(), owns, "{uid}");
        }
    }
}
