//! Extended attributes (xattr(7)) in memory, with tmpfs' rules.
//!
//! There are two kinds: `user.` for callers that the mode of the object lets, on files and
//! directories, and `trusted.` for the superuser. Each attribute is charged to the quota.

use std::ffi::CStr;

use pagewell_fs::access::{self, READ, WRITE};
use pagewell_fs::extended::{Presence, TRUSTED, check, check_value, is_shown};
use pagewell_fs::{Call, Credentials, Error, ExtendedAttributes, FileId, FileType, Result};

use super::inode::InodeState;
use super::permission::{self, MODE_STICKY};
use super::quota::attribute_charge;
use super::tree::Tree;

const USER: &[u8] = b"user.";

/// Refuses kinds of attributes that are not kept here, and users that may not use one of this
/// object.
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
