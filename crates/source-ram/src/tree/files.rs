//! The content and attributes of one object, under its own lock.
//!
//! Extended attributes (xattr(7)) follow tmpfs' rules: `user.` for callers that the mode lets, on
//! files and directories, and `trusted.` for the superuser.

use std::ffi::CStr;

use pagewell_fs::access::{self, READ, WRITE};
use pagewell_fs::extended::{Presence, TRUSTED, check, check_value, is_shown};
use pagewell_fs::{
    Call, Change, Committed, Credentials, Error, ExtendedAttributes, FileId, FileType, Payload,
    ReadReply, Result, Seek, SetAttributes, Space, Stability, Timestamp, Written,
};

use super::Tree;
use crate::data::Pages;
use crate::inode::InodeState;
use crate::permission::{self, MODE_STICKY};
use crate::quota::attribute_charge;
use crate::{FILE_BYTES_MAX, setattr};

impl Tree {
    pub(crate) fn read(
        &self,
        call: &Call<'_>,
        id: &FileId,
        offset: u64,
        count: u32,
    ) -> Result<ReadReply> {
        let inode = self.inode(id)?;
        let state = inode.read()?;
        let data = state.data()?;
        access::check_read(call.credentials, &state.metadata)?;
        let end = offset.saturating_add(u64::from(count));
        Ok(ReadReply {
            end_of_file: end >= data.size(),
            payload: Payload::Pages(data.read(offset, count)),
            attributes: state.attributes(),
        })
    }

    pub(crate) fn seek(
        &self,
        call: &Call<'_>,
        id: &FileId,
        offset: u64,
        wanted: Seek,
    ) -> Result<u64> {
        let inode = self.inode(id)?;
        let state = inode.read()?;
        let data = state.data()?;
        access::check_read(call.credentials, &state.metadata)?;
        data.seek(offset, wanted).ok_or(Error::NoDevice)
    }

    pub(crate) fn write(
        &self,
        call: &Call<'_>,
        id: &FileId,
        offset: u64,
        data: &[u8],
        stability: Stability,
    ) -> Result<Written> {
        let inode = self.inode(id)?;
        let mut state = inode.write()?;
        state.data()?;
        access::check_write(call.credentials, &state.metadata)?;
        let before = state.wcc();
        let mut written = 0;
        if !data.is_empty() {
            let data = below_size_limit(offset, data)?;
            written = state.data_mut()?.write(offset, data, &self.storage)?;
            permission::drop_privileges_after_write(call.credentials, &mut state.metadata);
            state.touch_modified();
        }
        Ok(Written {
            count: u32::try_from(written).unwrap_or(u32::MAX),
            committed: stability,
            verifier: self.verifier,
            change: state.change_since(before),
        })
    }

    pub(crate) fn allocate(
        &self,
        call: &Call<'_>,
        id: &FileId,
        (offset, length): (u64, u64),
        space: Space,
    ) -> Result<()> {
        let inode = self.inode(id)?;
        let mut state = inode.write()?;
        state.data()?;
        access::check_write(call.credentials, &state.metadata)?;
        if length == 0 {
            return Err(Error::Invalid);
        }
        let end = offset
            .checked_add(length)
            .filter(|end| *end <= FILE_BYTES_MAX);
        let end = end.ok_or(Error::FileTooLarge)?;
        let data = state.data_mut()?;
        let discarded = match space {
            Space::Reserve => {
                data.reserve(offset, end, &self.storage)?;
                data.set_size(data.size().max(end), &self.storage)?
            }
            Space::ReserveOnly => {
                data.reserve(offset, end, &self.storage)?;
                Pages::default()
            }
            Space::Punch => data.punch(offset, end, &self.storage)?,
            // as tmpfs
            Space::Zero | Space::ZeroOnly => return Err(Error::NotSupported),
        };
        permission::drop_privileges_after_write(call.credentials, &mut state.metadata);
        state.touch_modified();
        drop(state);
        drop(discarded);
        Ok(())
    }

    pub(crate) fn commit(
        &self,
        _call: &Call<'_>,
        id: &FileId,
        _offset: u64,
        _count: u32,
    ) -> Result<Committed> {
        let inode = self.inode(id)?;
        let state = inode.read()?;
        state.data()?;
        Ok(Committed {
            verifier: self.verifier,
            change: state.change_since(state.wcc()),
        })
    }

    pub(crate) fn set_attributes(
        &self,
        call: &Call<'_>,
        id: &FileId,
        request: &SetAttributes,
        guard: Option<Timestamp>,
    ) -> Result<Change> {
        let inode = self.inode(id)?;
        let mut state = inode.write()?;
        if guard.is_some_and(|guard| guard != state.metadata.changed) {
            return Err(Error::NotSync);
        }
        let before = state.wcc();
        let discarded = setattr::set(call.credentials, &mut state, request, &self.storage)?;
        let change = state.change_since(before);
        drop(state);
        drop(discarded);
        Ok(change)
    }
}

/// Below the largest size of a file, and as much as a count can report.
fn below_size_limit(offset: u64, data: &[u8]) -> Result<&[u8]> {
    let left = FILE_BYTES_MAX
        .saturating_sub(offset)
        .min(u64::from(u32::MAX));
    let left = usize::try_from(left).unwrap_or(usize::MAX);
    if left == 0 {
        return Err(Error::FileTooLarge);
    }
    Ok(&data[..data.len().min(left)])
}

const USER: &[u8] = b"user.";

/// Refuses kinds of attributes that are not kept here, and users that may not use one.
fn permit(credentials: &Credentials, state: &InodeState, name: &CStr, changes: bool) -> Result<()> {
    check(name, credentials.uid, changes)?;
    let name = name.to_bytes();
    if name.starts_with(TRUSTED) {
        return permission::permit(name != TRUSTED, Error::Invalid);
    }
    if !name.starts_with(USER) {
        return Err(Error::NotSupported);
    }
    let metadata = &state.metadata;
    let is_directory = metadata.file_type.is_directory();
    if !is_directory && metadata.file_type != FileType::Regular {
        return Err(if changes {
            Error::NotPermitted
        } else {
            Error::NoData
        });
    }
    if changes && is_directory && metadata.mode & MODE_STICKY != 0 {
        access::check_owner(credentials, metadata)?;
    }
    let wanted = if changes { WRITE } else { READ };
    permission::check_mode(credentials, metadata, wanted)?;
    permission::permit(name != USER, Error::Invalid)
}

impl ExtendedAttributes for Tree {
    fn get(&self, call: &Call<'_>, id: &FileId, name: &CStr) -> Result<Vec<u8>> {
        let inode = self.inode(id)?;
        let state = inode.read()?;
        permit(call.credentials, &state, name, false)?;
        let extended = state.extended.as_ref().and_then(|all| all.get(name));
        extended.map(|value| value.to_vec()).ok_or(Error::NoData)
    }

    fn names(&self, call: &Call<'_>, id: &FileId) -> Result<Vec<u8>> {
        let inode = self.inode(id)?;
        let state = inode.read()?;
        let names = state.extended.iter().flat_map(|all| all.keys());
        let shown = names.filter(|name| is_shown(name.to_bytes(), call.credentials.uid));
        Ok(shown
            .flat_map(|name| name.to_bytes_with_nul())
            .copied()
            .collect())
    }

    fn set(
        &self,
        call: &Call<'_>,
        id: &FileId,
        name: &CStr,
        value: &[u8],
        presence: Presence,
    ) -> Result<()> {
        check_value(value)?;
        let inode = self.inode(id)?;
        let mut state = inode.write()?;
        permit(call.credentials, &state, name, true)?;
        let known = state.extended.as_ref().and_then(|all| all.get(name));
        match (presence, known) {
            (Presence::Absent, Some(_)) => return Err(Error::Exists),
            (Presence::Present, None) => return Err(Error::NoData),
            _ => {}
        }
        let old = known.map_or(0, |old| attribute_charge(name, old));
        let quota = &self.storage.quota;
        quota.exchange(old, attribute_charge(name, value))?;
        let all = state.extended.get_or_insert_default();
        all.insert(name.to_owned(), value.into());
        state.touch_changed();
        Ok(())
    }

    fn remove(&self, call: &Call<'_>, id: &FileId, name: &CStr) -> Result<()> {
        let inode = self.inode(id)?;
        let mut state = inode.write()?;
        permit(call.credentials, &state, name, true)?;
        let all = state.extended.as_mut().ok_or(Error::NoData)?;
        let value = all.remove(name).ok_or(Error::NoData)?;
        if all.is_empty() {
            state.extended = None;
        }
        self.storage.quota.give(attribute_charge(name, &value));
        state.touch_changed();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::CString;

    use pagewell_fs::{CreateMode, Credentials, FileSystem, SetAttributes};

    use super::*;
    use crate::RamFileSystem;

    fn call(credentials: &Credentials) -> Call<'_> {
        Call::new(credentials, false)
    }

    /// A memory file system, and a file of user 10 that others may read, in a sticky directory.
    fn files() -> (RamFileSystem, FileId) {
        let files = RamFileSystem::new(1 << 20).unwrap();
        let owner = Credentials::new(10, 10, &[]);
        let call = call(&owner);
        let mode = CreateMode::Guarded(SetAttributes {
            mode: Some(0o644),
            ..SetAttributes::default()
        });
        let made = files.create(&call, &files.root(), b"f", &mode).unwrap();
        (files, made.entry.id)
    }

    #[test]
    fn modes_and_kinds_say_who_may_use_them() {
        let (files, id) = files();
        let any = Presence::Any;
        let set = |uid: u32, id: &FileId, name| {
            let caller = Credentials::new(uid, uid, &[]);
            files
                .extended_attributes()
                .unwrap()
                .set(&call(&caller), id, name, b"v", any)
        };
        let get = |uid: u32, name| {
            let caller = Credentials::new(uid, uid, &[]);
            files
                .extended_attributes()
                .unwrap()
                .get(&call(&caller), &id, name)
        };
        assert_eq!(set(10, &id, c"user.a"), Ok(()));
        assert_eq!(set(11, &id, c"user.a"), Err(Error::AccessDenied));
        assert_eq!(set(0, &id, c"trusted.a"), Ok(()));
        assert_eq!(set(10, &id, c"trusted.a"), Err(Error::NotPermitted));
        assert_eq!(get(11, c"user.a"), Ok(b"v".to_vec()));
        assert_eq!(get(10, c"trusted.a"), Err(Error::NoData));
        assert_eq!(get(0, c"trusted.a"), Ok(b"v".to_vec()));
        assert_eq!(get(0, c"user.b"), Err(Error::NoData));
        assert_eq!(get(0, c"system.posix_acl_access"), Err(Error::NotSupported));
        assert_eq!(get(0, c"security.capability"), Err(Error::NotSupported));
        // What is in a directory where anybody may make names is not anybody's to mark.
        assert_eq!(set(11, &files.root(), c"user.a"), Err(Error::NotPermitted));
        let names = |uid: u32| {
            let caller = Credentials::new(uid, uid, &[]);
            files
                .extended_attributes()
                .unwrap()
                .names(&call(&caller), &id)
                .unwrap()
        };
        assert_eq!(names(0), b"trusted.a\0user.a\0");
        assert_eq!(names(11), b"user.a\0");
    }

    #[test]
    fn they_count_as_long_as_they_are_there() {
        let (files, id) = files();
        let root = Credentials::root();
        let set = |name: &CStr, bytes: usize| {
            files.extended_attributes().unwrap().set(
                &call(&root),
                &id,
                name,
                &vec![1; bytes],
                Presence::Any,
            )
        };
        let empty = files.used_bytes();
        set(c"user.a", 1000).unwrap();
        set(c"user.a", 60_000).unwrap();
        assert!(files.used_bytes() - empty > 60_000);
        set(c"user.a", 0).unwrap();
        set(c"trusted.b", 10).unwrap();
        assert!(files.used_bytes() - empty < 2000);
        let many = (0..100).map(|number| CString::new(format!("user.{number}")).unwrap());
        let refused = many.map(|name| set(&name, 65_536)).find(Result::is_err);
        assert_eq!(refused, Some(Err(Error::NoSpace)));
        files
            .extended_attributes()
            .unwrap()
            .remove(&call(&root), &id, c"user.a")
            .unwrap();
        files.remove(&call(&root), &files.root(), b"f").unwrap();
        assert!(files.used_bytes() < empty);
    }
}
