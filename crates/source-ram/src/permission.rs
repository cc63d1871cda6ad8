//! What a caller may do, as the Linux kernel decides for a local program, with the two liberties of
//! an NFS server (RFC 1813 section 4.4): owners may read and write their files whatever the mode
//! says, and a caller that may execute a file may read it.
//!
//! An owner is judged by the owner's bits even where "others" would be allowed. Uid 0 may do
//! everything, except execute a file that has no bit to be executed.

use pagewell_fs::access::{self, EXECUTE, WRITE};
use pagewell_fs::{Attributes, Credentials, Error, FileType, Result};

pub(super) const MODE_SET_UID: u32 = 0o4000;
/// On a directory, entries inherit the group.
pub(super) const MODE_SET_GID: u32 = 0o2000;
/// Only owners may remove entries.
pub(super) const MODE_STICKY: u32 = 0o1000;
const MODE_GROUP_EXECUTE: u32 = 0o0010;

fn is_root(credentials: &Credentials) -> bool {
    credentials.uid == 0
}

pub(super) fn permit(is_allowed: bool, refusal: Error) -> Result<()> {
    is_allowed.then_some(()).ok_or(refusal)
}

pub(super) fn check_mode(
    credentials: &Credentials,
    metadata: &Attributes,
    wanted: u32,
) -> Result<()> {
    let is_allowed = access::allows(credentials, metadata, wanted);
    permit(is_allowed, Error::AccessDenied)
}

/// Refuses to take an entry out of a directory: that needs to write it and, when it is sticky, to
/// own it or the entry.
pub(super) fn check_delete(
    credentials: &Credentials,
    directory: &Attributes,
    entry: &Attributes,
) -> Result<()> {
    check_mode(credentials, directory, WRITE | EXECUTE)?;
    let is_sticky = directory.mode & MODE_STICKY != 0;
    if is_sticky && access::check_owner(credentials, directory).is_err() {
        return access::check_owner(credentials, entry);
    }
    Ok(())
}

/// Only root may give the object another owner; the owner may choose among the groups it is in.
pub(super) fn check_owner_change(
    credentials: &Credentials,
    metadata: &Attributes,
    uid: Option<u32>,
    gid: Option<u32>,
) -> Result<()> {
    if uid == Some(u32::MAX) || gid == Some(u32::MAX) {
        return Err(Error::Invalid); // (uid_t)-1 is no user: chown(2) takes it for "leave as it is"
    }
    if is_root(credentials) {
        return Ok(());
    }
    let owner = credentials.uid == metadata.uid;
    let uid_allowed = uid.is_none_or(|uid| owner && uid == metadata.uid);
    let gid_allowed =
        gid.is_none_or(|gid| owner && (gid == metadata.gid || credentials.in_group(gid)));
    permit(uid_allowed && gid_allowed, Error::NotPermitted)
}

/// Whether the caller may give a file of this group set-group-id.
fn is_member(credentials: &Credentials, gid: u32) -> bool {
    is_root(credentials) || credentials.in_group(gid)
}

/// The mode that a change to `mode` gives: set-group-id only to members of the group.
pub(super) fn settable_mode(credentials: &Credentials, gid: u32, mode: u32) -> u32 {
    if is_member(credentials, gid) {
        mode
    } else {
        mode & !MODE_SET_GID
    }
}

/// The mode of a new object: a directory inherits set-group-id and gets no other such bit; in a
/// directory that hands its group down, an executable gets set-group-id only from members of that
/// group.
pub(super) fn mode_at_birth(
    credentials: &Credentials,
    directory: &Attributes,
    file_type: FileType,
    mode: u32,
) -> u32 {
    let inherited = directory.mode & MODE_SET_GID;
    match file_type {
        FileType::Directory => mode & !(MODE_SET_UID | MODE_SET_GID) | inherited,
        FileType::Symlink => 0o777,
        _ if inherited != 0 && mode & MODE_GROUP_EXECUTE != 0 => {
            settable_mode(credentials, directory.gid, mode)
        }
        _ => mode,
    }
}

/// After a change of the data by any user but root.
pub(super) fn drop_privileges_after_write(credentials: &Credentials, metadata: &mut Attributes) {
    if !is_root(credentials) {
        drop_privileges_after_chown(credentials, metadata);
    }
}

/// After a set of the owner or group, by root too.
pub(super) fn drop_privileges_after_chown(credentials: &Credentials, metadata: &mut Attributes) {
    let is_member = is_member(credentials, metadata.gid);
    metadata.mode = access::mode_after_change(metadata.mode, is_member);
}
