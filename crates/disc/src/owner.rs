//! Other owners and modes than those of the image.
//!
//! Images were often written by another user, or hold modes that keep all others out. The tree
//! below is asked as the superuser, and permission is checked here, by the shown attributes.

use std::ffi::CStr;
use std::sync::Arc;

use pagewell_fs::{
    Access, Attributes, Call, Credentials, DirectoryEntry, DirectoryPage, Entry, Error,
    ExtendedAttributes, FileId, FileSystem, FileType, ReadReply, Result, Seek, access, extended,
    forward,
};

/// Of extended attributes that are guarded as the data is.
const USER: &[u8] = b"user.";

/// What is shown in place of what is recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Owner {
    /// User of all objects.
    pub uid: Option<u32>,
    /// Group of all objects.
    pub gid: Option<u32>,
    /// Permission bits of all objects but directories and symbolic links.
    pub mode: Option<u32>,
    /// Permission bits of directories.
    pub directory_mode: Option<u32>,
}

impl Owner {
    /// Whether it changes nothing.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    fn shown(&self, attributes: Attributes) -> Attributes {
        let kind = attributes.file_type;
        let mode = match kind {
            FileType::Directory => self.directory_mode,
            FileType::Symlink => None,
            _ => self.mode,
        };
        Attributes {
            uid: self.uid.unwrap_or(attributes.uid),
            gid: self.gid.unwrap_or(attributes.gid),
            mode: mode.unwrap_or(attributes.mode),
            ..attributes
        }
    }

    fn entry(&self, entry: Entry) -> Entry {
        Entry {
            attributes: self.shown(entry.attributes),
            ..entry
        }
    }
}

/// A tree that is only read, with other owners.
pub(crate) struct Owned {
    tree: Arc<dyn FileSystem>,
    owner: Owner,
    superuser: Credentials,
}

impl Owned {
    pub(crate) fn new(tree: Arc<dyn FileSystem>, owner: Owner) -> Self {
        Self {
            tree,
            owner,
            superuser: Credentials::root(),
        }
    }

    /// The call, by the superuser.
    fn above(&self, call: &Call<'_>) -> Call<'_> {
        Call::new(&self.superuser, call.may_block)
    }

    /// Refuses a caller without this access to an object.
    fn check(&self, call: &Call<'_>, id: &FileId, wanted: Access) -> Result<()> {
        let attributes = self.attributes(call, id)?;
        access::check(call.credentials, &attributes, wanted)
    }
}

impl FileSystem for Owned {
    forward! { self => self.tree; describe, root, path_of, limits, statistics, object_of }

    fn extended_attributes(&self) -> Option<&dyn ExtendedAttributes> {
        self.tree.extended_attributes().map(|_| self as _)
    }

    fn lookup(&self, call: &Call<'_>, directory: &FileId, name: &[u8]) -> Result<Entry> {
        self.check(call, directory, Access::LOOKUP)?;
        let found = self.tree.lookup(&self.above(call), directory, name)?;
        Ok(self.owner.entry(found))
    }

    fn attributes(&self, call: &Call<'_>, id: &FileId) -> Result<Attributes> {
        let attributes = self.tree.attributes(&self.above(call), id)?;
        Ok(self.owner.shown(attributes))
    }

    fn access(&self, call: &Call<'_>, id: &FileId, wanted: Access) -> Result<(Access, Attributes)> {
        let attributes = self.attributes(call, id)?;
        let granted = access::granted(call.credentials, &attributes, wanted);
        Ok((granted, attributes))
    }

    fn read_link(&self, call: &Call<'_>, id: &FileId) -> Result<(Vec<u8>, Attributes)> {
        let (target, attributes) = self.tree.read_link(&self.above(call), id)?;
        Ok((target, self.owner.shown(attributes)))
    }

    fn read(&self, call: &Call<'_>, id: &FileId, offset: u64, count: u32) -> Result<ReadReply> {
        let reply = self.tree.read(&self.above(call), id, offset, count)?;
        let attributes = self.owner.shown(reply.attributes);
        access::check_read(call.credentials, &attributes)?;
        Ok(ReadReply {
            attributes,
            ..reply
        })
    }

    fn read_ahead(&self, files: &[FileId]) {
        self.tree.read_ahead(files);
    }

    fn seek(&self, call: &Call<'_>, id: &FileId, offset: u64, wanted: Seek) -> Result<u64> {
        let attributes = self.attributes(call, id)?;
        access::check_read(call.credentials, &attributes)?;
        self.tree.seek(&self.above(call), id, offset, wanted)
    }

    fn read_directory(
        &self,
        call: &Call<'_>,
        directory: &FileId,
        cookie: u64,
        with_attributes: bool,
        visit: &mut dyn FnMut(&DirectoryEntry<'_>) -> bool,
    ) -> Result<DirectoryPage> {
        self.check(call, directory, Access::READ)?;
        let mut shown = |entry: &DirectoryEntry<'_>| {
            visit(&DirectoryEntry {
                entry: entry.entry.map(|entry| self.owner.entry(entry)),
                ..*entry
            })
        };
        let above = self.above(call);
        let page =
            self.tree
                .read_directory(&above, directory, cookie, with_attributes, &mut shown)?;
        Ok(DirectoryPage {
            attributes: self.owner.shown(page.attributes),
            ..page
        })
    }
}

impl Owned {
    fn extended(&self) -> Result<&dyn ExtendedAttributes> {
        self.tree.extended_attributes().ok_or(Error::NotSupported)
    }
}

impl ExtendedAttributes for Owned {
    fn get(&self, call: &Call<'_>, id: &FileId, name: &CStr) -> Result<Vec<u8>> {
        extended::check(name, call.credentials.uid, false)?;
        if name.to_bytes().starts_with(USER) {
            let attributes = self.attributes(call, id)?;
            access::check_read(call.credentials, &attributes)?;
        }
        self.extended()?.get(&self.above(call), id, name)
    }

    fn names(&self, call: &Call<'_>, id: &FileId) -> Result<Vec<u8>> {
        // By the caller, as some names are for the superuser alone.
        self.extended()?.names(call, id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewell_fs::{CreateMode, Presence, SetAttributes, Stability};
    use pagewell_source_ram::RamFileSystem;

    /// A tree whose objects all are the root, by some identifiers.
    struct Hinted(RamFileSystem);

    impl FileSystem for Hinted {
        forward! { self => self.0;
            describe, root, limits, lookup, attributes, access, read_link, read, read_directory,
            statistics,
        }

        fn object_of(&self, _id: &FileId) -> FileId {
            self.0.root()
        }
    }

    #[test]
    fn objects_are_those_of_the_tree() {
        let tree = Hinted(RamFileSystem::new(1 << 20).unwrap());
        let root = tree.root();
        let owned = Owned::new(Arc::new(tree), Owner::default());
        assert_eq!(owned.object_of(&FileId::of(&[7])), root);
    }

    /// Whether what is neither name nor byte is there for the caller.
    fn check_guarded(owned: &Owned, call: &Call<'_>, file: &FileId, may: bool) {
        let is_denied = |error| error == Error::AccessDenied;
        let seek = owned.seek(call, file, 0, Seek::Hole);
        assert_eq!(seek.is_err_and(is_denied), !may);
        let extended = owned.extended_attributes().unwrap();
        let value = extended.get(call, file, c"user.note");
        assert_eq!(value.is_err_and(is_denied), !may);
        let hidden = extended.get(call, file, c"trusted.note");
        assert_eq!(hidden, Err(Error::NoData));
        let names = extended.names(call, file).unwrap();
        assert_eq!(names, b"user.note\0");
        let set = extended.set(call, file, c"user.note", b"", Presence::Any);
        assert_eq!(set, Err(Error::ReadOnly));
    }

    #[test]
    fn permission_is_that_of_what_is_shown() {
        let tree = RamFileSystem::new(1 << 20).unwrap();
        let superuser = Credentials::root();
        let root = tree.root();
        let call = Call::new(&superuser, true);
        let secret = SetAttributes {
            mode: Some(0),
            ..SetAttributes::default()
        };
        let made = tree.create(&call, &root, b"f", &CreateMode::Unchecked(secret));
        let file = made.unwrap().entry.id;
        let written = tree.write(&call, &file, 0, b"text", Stability::Unstable);
        written.unwrap();
        let locked = SetAttributes {
            mode: Some(0o700),
            ..SetAttributes::default()
        };
        tree.set_attributes(&call, &root, &locked, None).unwrap();
        let extended = tree.extended_attributes().unwrap();
        for name in [c"user.note", c"trusted.note"] {
            let set = extended.set(&call, &file, name, b"value", Presence::Any);
            set.unwrap();
        }

        let owner = Owner {
            uid: Some(5),
            gid: Some(6),
            mode: Some(0o440),
            directory_mode: Some(0o550),
        };
        let owned = Owned::new(Arc::new(tree), owner);
        for (uid, gid, may) in [(5, 1, true), (7, 6, true), (7, 7, false)] {
            let caller = Credentials::new(uid, gid, &[]);
            let call = Call::new(&caller, true);
            let found = owned.lookup(&call, &root, b"f");
            let read = owned
                .read(&call, &file, 0, 9)
                .map(|reply| reply.payload.len());
            let mut names = 0;
            let listed = owned.read_directory(&call, &root, 0, true, &mut |entry| {
                let shown = entry.entry.unwrap().attributes;
                assert_eq!((shown.uid, shown.gid), (5, 6));
                names += 1;
                true
            });
            if may {
                let shown = found.unwrap().attributes;
                assert_eq!((shown.mode, shown.uid, shown.gid), (0o440, 5, 6));
                assert_eq!((read, names), (Ok(4), 3));
                assert_eq!(listed.unwrap().attributes.mode, 0o550);
            } else {
                assert_eq!(found.unwrap_err(), Error::AccessDenied);
                assert_eq!((read, names), (Err(Error::AccessDenied), 0));
                assert_eq!(listed.unwrap_err(), Error::AccessDenied);
            }
            let (granted, _) = owned.access(&call, &file, Access::READ).unwrap();
            assert_eq!(granted == Access::READ, may);
            check_guarded(&owned, &call, &file, may);
        }
    }
}
