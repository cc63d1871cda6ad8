//! Setting attributes: first everything that could be refused, then everything at once.
//!
//! The order of the effects is that of chown(2), truncate(2), chmod(2), utimensat(2): a change of
//! owner or data takes away set-user-id, then come mode and times.

use pagewell_fs::access;
use pagewell_fs::{Credentials, Error, FileType, Result, SetAttributes, SetTime, Timestamp};

use super::data::Pages;
use super::inode::{Body, InodeState};
use super::permission;
use super::quota::Storage;
use super::{FILE_BYTES_MAX, MODE_BITS};

pub(super) fn check_values(request: &SetAttributes) -> Result<()> {
    if request.size.is_some_and(|size| size > FILE_BYTES_MAX) {
        return Err(Error::FileTooLarge);
    }
    permission::permit(request.has_valid_times(), Error::Invalid)
}

fn check(credentials: &Credentials, state: &InodeState, request: &SetAttributes) -> Result<()> {
    let metadata = &state.metadata;
    check_values(request)?;
    if request.size.is_some() {
        state.data()?;
        access::check_write(credentials, metadata)?;
    }
    permission::check_owner_change(credentials, metadata, request.uid, request.gid)?;
    if request.mode.is_some() {
        if metadata.file_type == FileType::Symlink {
            return Err(Error::NotSupported);
        }
        access::check_owner(credentials, metadata)?;
    }
    let times = [request.accessed, request.modified];
    let to_value = |time: &Option<SetTime>| matches!(time, Some(SetTime::To(_)));
    if times.iter().any(to_value) {
        access::check_owner(credentials, metadata)
    } else if times.iter().any(Option::is_some) {
        access::check_write(credentials, metadata)
    } else {
        Ok(())
    }
}

/// Sets all of it or nothing. Returns what is to be dropped without locks.
pub(super) fn set(
    credentials: &Credentials,
    state: &mut InodeState,
    request: &SetAttributes,
    storage: &Storage,
) -> Result<Pages> {
    check(credentials, state, request)?;
    if *request == SetAttributes::default() {
        return Ok(Pages::default());
    }
    let mut discarded = Pages::default();
    if let (Some(size), Body::Regular(data)) = (request.size, &mut state.body) {
        discarded = data.set_size(size, storage)?;
    }
    let now = state.touch_changed();
    state.verifier = None;
    let metadata = &mut state.metadata;
    let is_owner_set = request.uid.is_some() || request.gid.is_some();
    if is_owner_set && !metadata.file_type.is_directory() {
        permission::drop_privileges_after_chown(credentials, metadata);
    }
    metadata.uid = request.uid.unwrap_or(metadata.uid);
    metadata.gid = request.gid.unwrap_or(metadata.gid);
    if request.size.is_some() {
        permission::drop_privileges_after_write(credentials, metadata);
        metadata.modified = now;
    }
    if let Some(mode) = request.mode {
        metadata.mode = permission::settable_mode(credentials, metadata.gid, mode & MODE_BITS);
    }
    set_time(&mut metadata.accessed, request.accessed, now);
    set_time(&mut metadata.modified, request.modified, now);
    Ok(discarded)
}

fn set_time(target: &mut Timestamp, how: Option<SetTime>, now: Timestamp) {
    match how {
        Some(SetTime::To(time)) => *target = time,
        Some(SetTime::ToServerTime) => *target = now,
        None => {}
    }
}
