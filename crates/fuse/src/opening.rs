//! Opening and creating files, and what programs have open.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use fuser::{
    BackingId, FileAttr, FileHandle, FopenFlags, Generation, INodeNo, ReplyCreate, ReplyOpen,
};
use pagewell_fs::{
    Access, CreateMode, Credentials, Entry, Error, FileId, FileSystem, FileType, Hold, Opened,
    Result, SetAttributes,
};

use crate::caller::{Caller, Permissions};
use crate::handles::{Handles, OpenFile, Target, access_of};
use crate::passthrough::Passthrough;
use crate::privileges::PRIVILEGE_BITS;
use crate::writing::Writing;

/// The answer to an open.
pub(crate) struct Kept {
    handle: FileHandle,
    flags: FopenFlags,
    /// The kernel reads and writes this instead of asking.
    backing: Option<Arc<BackingId>>,
}

impl Kept {
    pub(crate) fn opened(self, reply: ReplyOpen) {
        match self.backing {
            Some(backing) => reply.opened_passthrough(self.handle, self.flags, &backing),
            None => reply.opened(self.handle, self.flags),
        }
    }

    pub(crate) fn created(
        self,
        reply: ReplyCreate,
        lifetime: std::time::Duration,
        attributes: &FileAttr,
        generation: Generation,
    ) {
        let (handle, flags) = (self.handle, self.flags);
        match self.backing {
            Some(backing) => reply
                .created_passthrough(&lifetime, attributes, generation, handle, flags, &backing),
            None => reply.created(&lifetime, attributes, generation, handle, flags),
        }
    }
}

pub(crate) struct Opening {
    source: Arc<dyn FileSystem>,
    writing: Arc<Writing>,
    files: Handles<OpenFile>,
    /// Those that the source holds.
    directories: Handles<Hold>,
    passthrough: Arc<Passthrough>,
}

impl Opening {
    pub(crate) fn new(source: &Arc<dyn FileSystem>, writing: &Arc<Writing>) -> Self {
        Self {
            source: Arc::clone(source),
            writing: Arc::clone(writing),
            files: Handles::default(),
            directories: Handles::default(),
            passthrough: Arc::default(),
        }
    }

    pub(crate) fn allow_passthrough(&self) {
        self.passthrough.allow();
    }

    pub(crate) fn target(&self, node: INodeNo, handle: Option<FileHandle>) -> Target {
        let file = handle.and_then(|handle| self.files.get(handle.0));
        Target::new(node.0, file)
    }

    /// Ends the use of a file. The caller drops the answer, which may wait.
    pub(crate) fn release(&self, handle: FileHandle) -> Option<Arc<OpenFile>> {
        self.files.remove(handle.0)
    }

    /// The handle of an open directory; 0 if the source needs to know nothing of it.
    pub(crate) fn keep_directory(&self, hold: Option<Hold>) -> FileHandle {
        FileHandle(hold.map_or(0, |hold| self.directories.insert(hold)))
    }

    pub(crate) fn release_directory(&self, handle: FileHandle) -> Option<Arc<Hold>> {
        self.directories.remove(handle.0)
    }

    /// The kernel has judged the mode bits; the source may know more.
    pub(crate) fn open(&self, caller: &Caller, id: &FileId, wanted: Access) -> Result<Opened> {
        caller.ask(|call| {
            let (granted, _) = self.source.access(call, id, wanted)?;
            Error::AccessDenied.unless(granted & wanted == wanted)
        })?;
        caller.ask(|call| self.source.open(call, id))
    }

    /// Makes a regular file, or finds the one that is there unless `flags` exclude it.
    pub(crate) fn create(
        &self,
        caller: &Caller,
        (directory, name): (&FileId, &[u8]),
        permissions: Permissions,
        flags: i32,
    ) -> Result<(Entry, Opened)> {
        let credentials = permissions.credentials_of(caller);
        let (source, call) = (&self.source, caller.call_as(&credentials));
        let guarded = CreateMode::Guarded(permissions.attributes());
        match source.create(&call, directory, name, &guarded) {
            // A program that made a file may use it, whatever its mode says.
            Ok(created) => {
                let opened = source.open(&call, &created.entry.id)?;
                Ok((created.entry, opened))
            }
            Err(Error::Exists) if flags & libc::O_EXCL == 0 => {
                let Entry { id, attributes } = source.lookup(&call, directory, name)?;
                // Another client has made it since. The kernel takes nothing but a file, and
                // repeats the lookup after "stale".
                Error::Stale.unless(attributes.file_type == FileType::Regular)?;
                let opened = self.open(caller, &id, access_of(flags))?;
                if flags & libc::O_TRUNC != 0 {
                    let empty = SetAttributes {
                        size: Some(0),
                        ..SetAttributes::default()
                    };
                    source.set_attributes(&call, &id, &empty, None)?;
                }
                let attributes = source.attributes(&call, &id)?;
                Ok((Entry { id, attributes }, opened))
            }
            Err(error) => Err(error),
        }
    }

    /// Keeps a file until the kernel releases it. `register` makes it one that the kernel reads and
    /// writes itself.
    pub(crate) fn keep(
        &self,
        node: u64,
        id: FileId,
        allowed: (Credentials, Access),
        opened: Opened,
        register: impl FnOnce(BorrowedFd<'_>) -> std::io::Result<BackingId>,
    ) -> Kept {
        // What a write takes of set-user-id and set-group-id depends on the writer, which the file
        // system beneath does not see when the kernel writes itself.
        let has_privileges = opened.attributes.mode & PRIVILEGE_BITS != 0;
        let file = opened.file.as_ref().filter(|_| !has_privileges);
        let file = file.map(AsFd::as_fd);
        let pass = self.passthrough.open(node, file, register);
        let backing = pass.as_ref().and_then(|pass| pass.backing());
        let flags = if opened.keep_cache && backing.is_none() {
            FopenFlags::FOPEN_KEEP_CACHE
        } else {
            FopenFlags::empty()
        };
        let verifier = self.writing.verifier_since(node, &id);
        let file = OpenFile::new((id, verifier), allowed, opened.hold, pass);
        Kept {
            handle: FileHandle(self.files.insert(file)),
            flags,
            backing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodes::Nodes;
    use crate::privileges::Privileges;
    use pagewell_source_dir::{Directory, Options};

    #[test]
    fn what_another_client_has_made_is_opened_only_when_it_is_a_file() {
        let place = tempfile::tempdir().unwrap();
        let files = Directory::open(place.path(), Options::default()).unwrap();
        let root = files.root();
        let source: Arc<dyn FileSystem> = Arc::new(files);
        let privileges = Arc::new(Privileges::new(&source, &Arc::default(), false));
        let nodes = Arc::new(Nodes::new(&source, false));
        let writing = Writing::new(&source, &nodes, &privileges, false);
        let opening = Opening::new(&source, &Arc::new(writing));
        std::fs::write(place.path().join("file"), b"").unwrap();
        std::fs::create_dir(place.path().join("directory")).unwrap();
        std::os::unix::fs::symlink("file", place.path().join("link")).unwrap();
        let permissions = Permissions::new(0o600, 0);
        let create = |name: &[u8]| {
            let made = opening.create(&Caller::of_test(), (&root, name), permissions, libc::O_RDWR);
            made.map(drop)
        };
        assert_eq!(create(b"file"), Ok(()));
        assert_eq!(create(b"directory"), Err(Error::Stale));
        assert_eq!(create(b"link"), Err(Error::Stale));
    }
}
