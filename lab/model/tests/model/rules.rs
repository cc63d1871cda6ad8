//! The rules of permission and of names, written down a second time and in another way.

use pagewell_fs::{Credentials, Error, FileType, SetAttributes, SetTime};

use crate::object::Object;
use crate::reference::{Expected, refuse};

pub(crate) const READ: u32 = 4;
pub(crate) const WRITE: u32 = 2;
pub(crate) const EXECUTE: u32 = 1;

pub(crate) const FILE_MODE: u32 = 0o644;
pub(crate) const DIRECTORY_MODE: u32 = 0o755;
pub(crate) const EXCLUSIVE_MODE: u32 = 0o600;

pub(crate) fn any_name(name: &[u8]) -> Expected<()> {
    match name {
        b"" => refuse(Error::Invalid),
        _ if name.len() > 255 => refuse(Error::NameTooLong),
        _ if name.iter().any(|byte| *byte == 0 || *byte == b'/') => refuse(Error::Invalid),
        _ => Ok(()),
    }
}

pub(crate) fn new_name(name: &[u8]) -> Expected<()> {
    match name {
        b"." | b".." => refuse(Error::Exists),
        _ => any_name(name),
    }
}

pub(crate) fn old_name(name: &[u8]) -> Expected<()> {
    match name {
        b"." | b".." => refuse(Error::Invalid),
        _ => any_name(name),
    }
}

/// Whether the mode alone lets `who` do all of `wanted`.
pub(crate) fn allows(who: &Credentials, object: &Object, wanted: u32) -> bool {
    let mode = object.mode;
    let bits = match who {
        _ if who.uid == 0 && (object.is_directory() || mode & 0o111 != 0) => 7,
        _ if who.uid == 0 => 6,
        _ if who.uid == object.uid => mode / 0o100,
        _ if who.in_group(object.gid) => mode / 0o10,
        _ => mode,
    };
    bits & wanted == wanted
}

/// Whether protected links let `who` give the object another name.
pub(crate) fn may_link(who: &Credentials, object: &Object) -> bool {
    let privileged = object.mode & 0o4000 != 0 || object.mode & 0o2010 == 0o2010;
    let plain = object.file_type() == FileType::Regular && !privileged;
    who.uid == 0 || who.uid == object.uid || (plain && allows(who, object, READ | WRITE))
}

pub(crate) fn drop_privileges_after_chown(who: &Credentials, object: &mut Object) {
    object.mode &= !0o4000;
    if object.mode & 0o010 != 0 || (who.uid != 0 && !who.in_group(object.gid)) {
        object.mode &= !0o2000;
    }
}

pub(crate) fn drop_privileges_after_write(who: &Credentials, object: &mut Object) {
    if who.uid != 0 {
        drop_privileges_after_chown(who, object);
    }
}

/// Reasons to refuse attributes whatever they are set on.
pub(crate) fn bad_values(request: &SetAttributes, file_bytes_max: u64) -> Vec<Error> {
    let mut errors = Vec::new();
    if request.size.is_some_and(|size| size > file_bytes_max) {
        errors.push(Error::FileTooLarge);
    }
    for time in [request.accessed, request.modified].into_iter().flatten() {
        if matches!(time, SetTime::To(time) if time.nanoseconds > 999_999_999) {
            errors.push(Error::Invalid);
        }
    }
    errors
}

/// Every reason to refuse to set attributes; none when they can be set.
pub(crate) fn set_refusals(
    who: &Credentials,
    object: &Object,
    request: &SetAttributes,
    file_bytes_max: u64,
) -> Vec<Error> {
    let mut errors = bad_values(request, file_bytes_max);
    let owner = who.uid == 0 || who.uid == object.uid;
    let writer = owner || allows(who, object, WRITE);
    if request.size.is_some() {
        match object.file_type() {
            FileType::Regular => {}
            FileType::Directory => errors.push(Error::IsDirectory),
            _ => errors.push(Error::Invalid),
        }
        if !writer {
            errors.push(Error::AccessDenied);
        }
    }
    if request.uid == Some(u32::MAX) || request.gid == Some(u32::MAX) {
        errors.push(Error::Invalid);
    }
    let uid_stays = owner && request.uid.is_none_or(|uid| uid == object.uid);
    let gid_fits = |gid| gid == object.gid || who.in_group(gid);
    let gid_fits = owner && request.gid.is_none_or(gid_fits);
    let uid_refused = request.uid.is_some() && !uid_stays;
    let gid_refused = request.gid.is_some() && !gid_fits;
    if who.uid != 0 && (uid_refused || gid_refused) {
        errors.push(Error::NotPermitted);
    }
    if request.mode.is_some() {
        if object.file_type() == FileType::Symlink {
            errors.push(Error::NotSupported);
        }
        if !owner {
            errors.push(Error::NotPermitted);
        }
    }
    let times = [request.accessed, request.modified];
    for time in times.into_iter().flatten() {
        match time {
            SetTime::To(_) if !owner => errors.push(Error::NotPermitted),
            SetTime::To(_) => {}
            SetTime::ToServerTime if !writer => errors.push(Error::AccessDenied),
            SetTime::ToServerTime => {}
        }
    }
    errors
}
