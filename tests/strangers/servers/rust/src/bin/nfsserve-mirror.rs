//! Serves a directory with the library nfsserve. Attributes are read and set with the library's own
//! functions, as its users do: they know no owners, no links, no fifos, and the owner of a file may
//! always write to it.
//!
//! usage: nfsserve-mirror DIRECTORY ADDRESS:PORT

use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;

use async_trait::async_trait;
use nfsserve::fs_util::{metadata_to_fattr3, path_setattr};
use nfsserve::nfs::{fattr3, fileid3, filename3, nfspath3, nfsstat3, sattr3};
use nfsserve::tcp::{NFSTcp, NFSTcpListener};
use nfsserve::vfs::{DirEntry, NFSFileSystem, ReadDirResult, VFSCapabilities};
use rustix::fs::Mode;
use strangers::Tree;

struct Mirror(Tree);

fn status(error: io::Error) -> nfsstat3 {
    use rustix::io::Errno;
    match Errno::from_io_error(&error) {
        Some(Errno::PERM) => nfsstat3::NFS3ERR_PERM,
        Some(Errno::NOENT) => nfsstat3::NFS3ERR_NOENT,
        Some(Errno::ACCESS) => nfsstat3::NFS3ERR_ACCES,
        Some(Errno::EXIST) => nfsstat3::NFS3ERR_EXIST,
        Some(Errno::NOTDIR) => nfsstat3::NFS3ERR_NOTDIR,
        Some(Errno::ISDIR) => nfsstat3::NFS3ERR_ISDIR,
        Some(Errno::INVAL) => nfsstat3::NFS3ERR_INVAL,
        Some(Errno::NAMETOOLONG) => nfsstat3::NFS3ERR_NAMETOOLONG,
        Some(Errno::NOTEMPTY) => nfsstat3::NFS3ERR_NOTEMPTY,
        Some(Errno::STALE) => nfsstat3::NFS3ERR_STALE,
        _ => nfsstat3::NFS3ERR_IO,
    }
}

fn told(attributes: &Metadata) -> fattr3 {
    metadata_to_fattr3(attributes.ino(), attributes)
}

impl Mirror {
    fn path(&self, object: fileid3) -> Result<PathBuf, nfsstat3> {
        self.0.path(object).map_err(status)
    }

    fn place(&self, directory: fileid3, name: &filename3) -> Result<PathBuf, nfsstat3> {
        Ok(self.path(directory)?.join(OsStr::from_bytes(name)))
    }

    fn found(&self, directory: fileid3, name: &filename3) -> Result<Metadata, nfsstat3> {
        self.0
            .look_up(directory, OsStr::from_bytes(name))
            .map_err(status)
    }
}

#[async_trait]
impl NFSFileSystem for Mirror {
    fn capabilities(&self) -> VFSCapabilities {
        VFSCapabilities::ReadWrite
    }

    fn root_dir(&self) -> fileid3 {
        self.0.root()
    }

    async fn lookup(&self, directory: fileid3, name: &filename3) -> Result<fileid3, nfsstat3> {
        Ok(self.found(directory, name)?.ino())
    }

    async fn getattr(&self, object: fileid3) -> Result<fattr3, nfsstat3> {
        Ok(told(
            &self.path(object)?.symlink_metadata().map_err(status)?,
        ))
    }

    async fn setattr(&self, object: fileid3, wanted: sattr3) -> Result<fattr3, nfsstat3> {
        path_setattr(&self.path(object)?, &wanted).await?;
        self.getattr(object).await
    }

    async fn read(
        &self,
        object: fileid3,
        offset: u64,
        count: u32,
    ) -> Result<(Vec<u8>, bool), nfsstat3> {
        let file = File::open(self.path(object)?).map_err(status)?;
        let length = file.metadata().map_err(status)?.len();
        let count = length.saturating_sub(offset).min(u64::from(count));
        let mut data = vec![0; count as usize];
        file.read_exact_at(&mut data, offset).map_err(status)?;
        Ok((data, offset + count >= length))
    }

    async fn write(&self, object: fileid3, offset: u64, data: &[u8]) -> Result<fattr3, nfsstat3> {
        let file = File::options()
            .write(true)
            .open(self.path(object)?)
            .map_err(status)?;
        file.write_all_at(data, offset).map_err(status)?;
        Ok(told(&file.metadata().map_err(status)?))
    }

    async fn create(
        &self,
        directory: fileid3,
        name: &filename3,
        wanted: sattr3,
    ) -> Result<(fileid3, fattr3), nfsstat3> {
        let path = self.place(directory, name)?;
        File::options()
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(status)?;
        path_setattr(&path, &wanted).await?;
        let made = self.found(directory, name)?;
        Ok((made.ino(), told(&made)))
    }

    async fn create_exclusive(
        &self,
        directory: fileid3,
        name: &filename3,
    ) -> Result<fileid3, nfsstat3> {
        let path = self.place(directory, name)?;
        File::options()
            .write(true)
            .create_new(true)
            .open(path)
            .map_err(status)?;
        Ok(self.found(directory, name)?.ino())
    }

    async fn mkdir(
        &self,
        directory: fileid3,
        name: &filename3,
    ) -> Result<(fileid3, fattr3), nfsstat3> {
        std::fs::create_dir(self.place(directory, name)?).map_err(status)?;
        let made = self.found(directory, name)?;
        Ok((made.ino(), told(&made)))
    }

    async fn remove(&self, directory: fileid3, name: &filename3) -> Result<(), nfsstat3> {
        let path = self.place(directory, name)?;
        if self.found(directory, name)?.is_dir() {
            std::fs::remove_dir(path).map_err(status)
        } else {
            std::fs::remove_file(path).map_err(status)
        }
    }

    async fn rename(
        &self,
        old_directory: fileid3,
        old_name: &filename3,
        directory: fileid3,
        name: &filename3,
    ) -> Result<(), nfsstat3> {
        let old = self.place(old_directory, old_name)?;
        std::fs::rename(old, self.place(directory, name)?).map_err(status)?;
        self.found(directory, name).map(drop)
    }

    async fn readdir(
        &self,
        directory: fileid3,
        start_after: fileid3,
        entries_max: usize,
    ) -> Result<ReadDirResult, nfsstat3> {
        let mut names = self.0.list(directory).map_err(status)?;
        names.retain(|(number, _)| *number > start_after);
        names.sort();
        let end = names.len() <= entries_max;
        names.truncate(entries_max);
        // What is gone when its attributes are asked for is left out.
        let found = |(_, name): (u64, OsString)| {
            let attributes = told(&self.0.look_up(directory, &name).ok()?);
            let name = name.as_bytes().into();
            Some(DirEntry {
                fileid: attributes.fileid,
                name,
                attr: attributes,
            })
        };
        let entries = names.into_iter().filter_map(found).collect();
        Ok(ReadDirResult { entries, end })
    }

    async fn symlink(
        &self,
        directory: fileid3,
        name: &filename3,
        target: &nfspath3,
        _: &sattr3,
    ) -> Result<(fileid3, fattr3), nfsstat3> {
        let target = OsStr::from_bytes(target);
        std::os::unix::fs::symlink(target, self.place(directory, name)?).map_err(status)?;
        let made = self.found(directory, name)?;
        Ok((made.ino(), told(&made)))
    }

    async fn readlink(&self, object: fileid3) -> Result<nfspath3, nfsstat3> {
        let target = self.path(object)?.read_link().map_err(status)?;
        Ok(target.as_os_str().as_bytes().into())
    }
}

#[tokio::main]
async fn main() -> io::Result<()> {
    let [directory, address] = std::env::args()
        .skip(1)
        .collect::<Vec<_>>()
        .try_into()
        .unwrap();
    rustix::process::umask(Mode::empty());
    let mirror = Mirror(Tree::new(directory.into())?);
    NFSTcpListener::bind(&address, mirror)
        .await?
        .handle_forever()
        .await
}
