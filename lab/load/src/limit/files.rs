//! The files of a bare server.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use pagewell_sunrpc::nfs3::{DeviceNumber, FileAttributes, FileType, Time};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// The length of a written file: it must not fill the disk.
pub(super) const FILE_BYTES_MAX: u64 = 4 << 30;

/// A handle: the number of the object, big-endian.
pub(super) type HandleBytes = [u8; 4];

pub(super) const ROOT: HandleBytes = [0; 4];

/// One file to read and some to write.
#[derive(Debug)]
pub struct Files {
    read: ReadFile,
    written: Vec<WrittenFile>,
}

pub(super) enum Object<'a> {
    Root,
    Read(&'a ReadFile),
    Written(&'a WrittenFile),
}

/// A file to read, which does not change.
#[derive(Debug)]
pub(super) struct ReadFile {
    name: Vec<u8>,
    pub(super) file: File,
    pub(super) mapping: Mapping,
    attributes: FileAttributes,
}

#[derive(Debug)]
pub(super) struct WrittenFile {
    name: Vec<u8>,
    pub(super) file: File,
    size: AtomicU64,
    attributes: FileAttributes,
}

/// The addresses of a file's bytes. Only system calls follow them: where the file has become
/// shorter they answer EFAULT, and no code here makes a reference.
#[derive(Debug)]
pub(super) struct Mapping {
    address: *mut libc::c_void,
    length: usize,
}

// SAFETY: an address and a length that no code here follows.
unsafe impl Send for Mapping {}
// SAFETY: as above; there is nothing to change.
unsafe impl Sync for Mapping {}

impl Files {
    /// Opens `read`, and opens or makes those to write.
    ///
    /// # Errors
    ///
    /// Those of the file system, each with the path; an empty file to read.
    pub fn open(read: &Path, written: &[PathBuf]) -> io::Result<Self> {
        let at = |path: &Path, error: io::Error| {
            io::Error::new(error.kind(), format!("{}: {error}", path.display()))
        };
        let written = written
            .iter()
            .zip(2..)
            .map(|(path, id)| WrittenFile::open(path, id).map_err(|error| at(path, error)))
            .collect::<io::Result<_>>()?;
        let read = ReadFile::open(read).map_err(|error| at(read, error))?;
        Ok(Self { read, written })
    }

    pub(super) fn find(&self, name: &[u8]) -> Option<(HandleBytes, Object<'_>)> {
        let found = if self.read.name == name {
            (1, Object::Read(&self.read))
        } else {
            let mut written = (2u32..).zip(&self.written);
            let (id, file) = written.find(|(_, file)| file.name == name)?;
            (id, Object::Written(file))
        };
        Some((found.0.to_be_bytes(), found.1))
    }

    pub(super) fn object(&self, handle: &[u8]) -> Option<Object<'_>> {
        match u32::from_be_bytes(handle.try_into().ok()?) {
            0 => Some(Object::Root),
            1 => Some(Object::Read(&self.read)),
            id => {
                let file = self.written.get(id as usize - 2)?;
                Some(Object::Written(file))
            }
        }
    }
}

impl Object<'_> {
    pub(super) fn attributes(&self) -> FileAttributes {
        match self {
            Self::Root => FileAttributes {
                file_type: FileType::Directory,
                mode: 0o755,
                ..attributes(0, 0)
            },
            Self::Read(file) => file.attributes,
            Self::Written(file) => FileAttributes {
                size: file.size.load(Ordering::Relaxed),
                ..file.attributes
            },
        }
    }
}

impl ReadFile {
    fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let size = file.metadata()?.len();
        let mapping = Mapping::new(&file, size)?;
        Ok(Self {
            name: name(path),
            attributes: attributes(1, size),
            file,
            mapping,
        })
    }

    pub(super) const fn size(&self) -> u64 {
        self.attributes.size
    }
}

impl WrittenFile {
    fn open(path: &Path, id: u64) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let file = options.open(path)?;
        let size = file.metadata()?.len();
        Ok(Self {
            name: name(path),
            file,
            size: AtomicU64::new(size),
            attributes: attributes(id, 0),
        })
    }

    pub(super) fn set_size(&self, size: u64) -> io::Result<()> {
        self.file.set_len(size)?;
        self.size.store(size, Ordering::Relaxed);
        Ok(())
    }

    pub(super) fn reached(&self, end: u64) {
        self.size.fetch_max(end, Ordering::Relaxed);
    }
}

impl Mapping {
    /// Maps all of a file, with all pages present, as in a server that has run for long.
    fn new(file: impl AsFd, size: u64) -> io::Result<Self> {
        let length = usize::try_from(size).map_err(io::Error::other)?;
        // SAFETY: the kernel chooses unused addresses, and no reference to them is ever made.
        let address = unsafe {
            let flags = MapFlags::SHARED | MapFlags::POPULATE;
            mmap(
                std::ptr::null_mut(),
                length,
                ProtFlags::READ,
                flags,
                file,
                0,
            )?
        };
        Ok(Self { address, length })
    }

    /// Where a range begins; `None` outside the file.
    pub(super) fn range(&self, offset: u64, length: usize) -> Option<*mut libc::c_void> {
        let offset = usize::try_from(offset).ok()?;
        let end = offset.checked_add(length)?;
        (end <= self.length).then(|| self.address.wrapping_byte_add(offset))
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this is what was mapped, and no reference to it was ever made.
        let unmapped = unsafe { munmap(self.address, self.length) };
        debug_assert!(unmapped.is_ok(), "{unmapped:?}");
    }
}

fn name(path: &Path) -> Vec<u8> {
    path.file_name()
        .map_or_else(Vec::new, |name| name.as_bytes().to_vec())
}

/// The attributes of a file: constants but for these two.
fn attributes(file_id: u64, size: u64) -> FileAttributes {
    FileAttributes {
        file_type: FileType::Regular,
        mode: 0o644,
        link_count: 1,
        uid: 0,
        gid: 0,
        size,
        used: size,
        device: DeviceNumber::default(),
        filesystem_id: 1,
        file_id,
        accessed: Time::default(),
        modified: Time::default(),
        changed: Time::default(),
    }
}
