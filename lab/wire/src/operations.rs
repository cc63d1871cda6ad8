//! One method for each NFS procedure: sends the call, checks the reply, returns its parts.
//!
//! A reply of success must carry the attributes that RFC 1813 makes optional: the file systems
//! here always have them.

use pagewell_sunrpc::nfs3::{
    AccessArguments, AccessReply, CommitArguments, CommitOk, CommitReply, CreateArguments,
    CreateHow, CreateReply, DirectoryOperation, FileAttributes, FileType, FsinfoOk, FsinfoReply,
    FsstatOk, FsstatReply, GetattrReply, Handle, LinkArguments, LinkReply, LookupReply,
    MkdirArguments, MknodArguments, NodeData, PathconfOk, PathconfReply, Procedure, ReadArguments,
    ReadReply, ReadlinkReply, RemoveReply, RenameArguments, RenameBody, RenameReply, SetAttributes,
    SetattrArguments, SetattrReply, StableHow, Status, SymlinkArguments, Time, WccData,
    WriteArguments, WriteOk, WriteReply,
};

use crate::client::{Answer, Client};

/// The bytes of a handle.
pub type FileHandle = Vec<u8>;

/// What LOOKUP finds.
#[derive(Clone, Debug)]
pub struct Found {
    pub handle: FileHandle,
    pub attributes: FileAttributes,
    pub directory: FileAttributes,
}

/// What CREATE, MKDIR, SYMLINK and MKNOD make.
#[derive(Clone, Debug)]
pub struct Made {
    pub handle: FileHandle,
    pub attributes: FileAttributes,
    pub wcc: WccData,
}

/// What READ gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Data {
    pub bytes: Vec<u8>,
    pub end: bool,
    pub attributes: FileAttributes,
}

pub fn handle(bytes: &[u8]) -> Handle<'_> {
    Handle::new(bytes).expect("at most 64 bytes")
}

pub fn entry<'a>(directory: &'a [u8], name: &'a [u8]) -> DirectoryOperation<'a> {
    DirectoryOperation {
        directory: handle(directory),
        name,
    }
}

/// Attributes to set: a mode only.
pub fn mode(mode: u32) -> SetAttributes {
    SetAttributes {
        mode: Some(mode),
        ..SetAttributes::default()
    }
}

/// The data of a successful change: `after` is there, and not before `before`.
pub fn checked(wcc: WccData) -> WccData {
    let after = wcc.after.expect("attributes after a change");
    if let Some(before) = wcc.before {
        assert!(before.changed <= after.changed, "{before:?} {after:?}");
    }
    wcc
}

fn made(answer: &Answer) -> Result<Made, Status> {
    let ok = answer.ok::<CreateReply<'_>>()?;
    Ok(Made {
        handle: ok.object.expect("a handle").as_bytes().to_vec(),
        attributes: ok.object_attributes.expect("attributes"),
        wcc: checked(ok.directory_wcc),
    })
}

impl Client {
    pub fn getattr(&mut self, object: &[u8]) -> Result<FileAttributes, Status> {
        self.nfs(Procedure::Getattr, &handle(object))
            .ok::<GetattrReply>()
    }

    pub fn setattr(
        &mut self,
        object: &[u8],
        attributes: SetAttributes,
        guard: Option<Time>,
    ) -> Result<WccData, Status> {
        let object = handle(object);
        let arguments = SetattrArguments {
            object,
            attributes,
            guard,
        };
        let answer = self.nfs(Procedure::Setattr, &arguments);
        answer.ok::<SetattrReply>().map(checked)
    }

    pub fn lookup(&mut self, directory: &[u8], name: &[u8]) -> Result<Found, Status> {
        let answer = self.nfs(Procedure::Lookup, &entry(directory, name));
        let ok = answer.ok::<LookupReply<'_>>()?;
        let directory = ok.directory_attributes.expect("the directory's attributes");
        assert_eq!(directory.file_type, FileType::Directory);
        Ok(Found {
            handle: ok.object.as_bytes().to_vec(),
            attributes: ok.object_attributes.expect("attributes"),
            directory,
        })
    }

    pub fn access(&mut self, object: &[u8], access: u32) -> Result<u32, Status> {
        let object = handle(object);
        let answer = self.nfs(Procedure::Access, &AccessArguments { object, access });
        let ok = answer.ok::<AccessReply>()?;
        assert!(ok.object_attributes.is_some());
        assert_eq!(ok.access & !access, 0, "only bits that were asked for");
        Ok(ok.access)
    }

    pub fn readlink(&mut self, symlink: &[u8]) -> Result<Vec<u8>, Status> {
        let answer = self.nfs(Procedure::Readlink, &handle(symlink));
        let ok = answer.ok::<ReadlinkReply<'_>>()?;
        let attributes = ok.symlink_attributes.expect("attributes");
        assert_eq!(attributes.file_type, FileType::Symlink);
        Ok(ok.target.to_vec())
    }

    pub fn read(&mut self, file: &[u8], offset: u64, count: u32) -> Result<Data, Status> {
        let file = handle(file);
        let arguments = ReadArguments {
            file,
            offset,
            count,
        };
        data(&self.nfs(Procedure::Read, &arguments))
    }

    pub fn write(
        &mut self,
        file: &[u8],
        offset: u64,
        data: &[u8],
        stable: StableHow,
    ) -> Result<WriteOk, Status> {
        let xid = self.start_write(file, offset, data, stable);
        written(&self.finish(xid), stable)
    }

    pub fn start_write(&mut self, file: &[u8], offset: u64, data: &[u8], stable: StableHow) -> u32 {
        let count = u32::try_from(data.len()).unwrap();
        let arguments = WriteArguments {
            file: handle(file),
            offset,
            count,
            stable,
            data,
        };
        self.start(Procedure::Write, &arguments)
    }

    pub fn commit(&mut self, file: &[u8], offset: u64, count: u32) -> Result<CommitOk, Status> {
        let file = handle(file);
        let arguments = CommitArguments {
            file,
            offset,
            count,
        };
        let answer = self.nfs(Procedure::Commit, &arguments);
        let ok = answer.ok::<CommitReply>()?;
        checked(ok.file_wcc);
        Ok(ok)
    }

    pub fn create(
        &mut self,
        directory: &[u8],
        name: &[u8],
        how: CreateHow,
    ) -> Result<Made, Status> {
        let what = entry(directory, name);
        let made = made(&self.nfs(Procedure::Create, &CreateArguments { what, how }))?;
        assert_eq!(made.attributes.file_type, FileType::Regular);
        Ok(made)
    }

    /// A new file with this content.
    pub fn make_file(&mut self, directory: &[u8], name: &[u8], content: &[u8]) -> FileHandle {
        let how = CreateHow::Guarded(mode(0o644));
        let file = self.create(directory, name, how).expect("a new file");
        if !content.is_empty() {
            let written = self.write(&file.handle, 0, content, StableHow::FileSync);
            assert_eq!(written.expect("written").count as usize, content.len());
        }
        file.handle
    }

    pub fn mkdir(
        &mut self,
        directory: &[u8],
        name: &[u8],
        attributes: SetAttributes,
    ) -> Result<Made, Status> {
        let what = entry(directory, name);
        let arguments = MkdirArguments { what, attributes };
        let made = made(&self.nfs(Procedure::Mkdir, &arguments))?;
        assert_eq!(made.attributes.file_type, FileType::Directory);
        Ok(made)
    }

    /// A new directory that every user may use.
    pub fn make_directory(&mut self, directory: &[u8], name: &[u8]) -> FileHandle {
        let made = self.mkdir(directory, name, mode(0o777));
        made.expect("a new directory").handle
    }

    pub fn symlink(
        &mut self,
        directory: &[u8],
        name: &[u8],
        target: &[u8],
        attributes: SetAttributes,
    ) -> Result<Made, Status> {
        let what = entry(directory, name);
        let arguments = SymlinkArguments {
            what,
            attributes,
            target,
        };
        let made = made(&self.nfs(Procedure::Symlink, &arguments))?;
        assert_eq!(made.attributes.file_type, FileType::Symlink);
        Ok(made)
    }

    pub fn mknod(&mut self, directory: &[u8], name: &[u8], node: NodeData) -> Result<Made, Status> {
        let what = entry(directory, name);
        let made = made(&self.nfs(Procedure::Mknod, &MknodArguments { what, node }))?;
        assert_eq!(made.attributes.file_type, node.file_type());
        Ok(made)
    }

    pub fn remove(&mut self, directory: &[u8], name: &[u8]) -> Result<WccData, Status> {
        removed(&self.nfs(Procedure::Remove, &entry(directory, name)))
    }

    pub fn rmdir(&mut self, directory: &[u8], name: &[u8]) -> Result<WccData, Status> {
        removed(&self.nfs(Procedure::Rmdir, &entry(directory, name)))
    }

    pub fn rename(
        &mut self,
        (from_directory, from): (&[u8], &[u8]),
        (to_directory, to): (&[u8], &[u8]),
    ) -> Result<RenameBody, Status> {
        let from = entry(from_directory, from);
        let to = entry(to_directory, to);
        let answer = self.nfs(Procedure::Rename, &RenameArguments { from, to });
        let ok = answer.ok::<RenameReply>()?;
        checked(ok.from_directory_wcc);
        checked(ok.to_directory_wcc);
        Ok(ok)
    }

    pub fn link(
        &mut self,
        file: &[u8],
        directory: &[u8],
        name: &[u8],
    ) -> Result<FileAttributes, Status> {
        let file = handle(file);
        let link = entry(directory, name);
        let answer = self.nfs(Procedure::Link, &LinkArguments { file, link });
        let ok = answer.ok::<LinkReply>()?;
        checked(ok.directory_wcc);
        Ok(ok.file_attributes.expect("attributes"))
    }

    pub fn fsstat(&mut self, root: &[u8]) -> Result<FsstatOk, Status> {
        self.nfs(Procedure::Fsstat, &handle(root))
            .ok::<FsstatReply>()
    }

    pub fn fsinfo(&mut self, root: &[u8]) -> Result<FsinfoOk, Status> {
        self.nfs(Procedure::Fsinfo, &handle(root))
            .ok::<FsinfoReply>()
    }

    pub fn pathconf(&mut self, object: &[u8]) -> Result<PathconfOk, Status> {
        self.nfs(Procedure::Pathconf, &handle(object))
            .ok::<PathconfReply>()
    }
}

/// The parts of a READ reply.
pub fn data(answer: &Answer) -> Result<Data, Status> {
    let ok = answer.ok::<ReadReply<'_>>()?;
    assert_eq!(ok.count as usize, ok.data.len());
    Ok(Data {
        bytes: ok.data.to_vec(),
        end: ok.end_of_file,
        attributes: ok.file_attributes.expect("attributes"),
    })
}

/// The parts of a WRITE reply to a call that asked for `stable`.
pub fn written(answer: &Answer, stable: StableHow) -> Result<WriteOk, Status> {
    let ok = answer.ok::<WriteReply>()?;
    checked(ok.file_wcc);
    assert!(ok.committed >= stable, "less durable than asked for");
    Ok(ok)
}

/// The parts of a REMOVE or RMDIR reply.
pub fn removed(answer: &Answer) -> Result<WccData, Status> {
    answer.ok::<RemoveReply>().map(checked)
}
