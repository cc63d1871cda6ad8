//! A regular file or a block device as a device.
//!
//! Reads go through the kernel's page cache. Whether one would wait is the kernel's to say:
//! `preadv2(RWF_NOWAIT)` reads what is cached and refuses the rest. A file system without that
//! flag (EOPNOTSUPP) counts as one that always waits.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use pagewell_counters::names::{
    DEVICE_READ_BYTES, DEVICE_READ_ERRORS, DEVICE_READS, DEVICE_WOULD_BLOCK,
};
use rustix::fs::{FileType, Mode, OFlags, SeekFrom};
use rustix::io::{Errno, IoSliceMut, ReadWriteFlags};

use crate::{Device, Error, Geometry, Request, Result};

/// An open file or block device.
pub struct FileDevice {
    name: String,
    file: Arc<OwnedFd>,
    length_bytes: u64,
    geometry: Geometry,
}

impl FileDevice {
    /// Opens `path` for reading. Anything but a regular file or a block device is refused with
    /// `EINVAL`, a directory with `EISDIR`; opening a pipe does not hang.
    pub fn open(path: &Path) -> Result<Self> {
        let name = path.display().to_string();
        Self::open_named(path, &name).map_err(|errno| Error::Open {
            device: name,
            errno,
        })
    }

    fn open_named(path: &Path, name: &str) -> Result<Self, Errno> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
        let file = rustix::fs::open(path, flags, Mode::empty())?;
        let status = rustix::fs::fstat(&file)?;
        let kind = FileType::from_raw_mode(status.st_mode);
        match kind {
            FileType::RegularFile | FileType::BlockDevice => {}
            FileType::Directory => return Err(Errno::ISDIR),
            _ => return Err(Errno::INVAL),
        }
        rustix::fs::fcntl_setfl(&file, OFlags::empty())?;
        let is_block_device = kind == FileType::BlockDevice;
        let length_bytes = if is_block_device {
            rustix::fs::seek(&file, SeekFrom::End(0))?
        } else {
            u64::try_from(status.st_size).map_err(|_| Errno::INVAL)?
        };
        let geometry = Geometry {
            logical_block_bytes: if is_block_device {
                rustix::fs::ioctl_blksszget(&file)?
            } else {
                1
            },
            optimal_transfer_bytes: u32::try_from(status.st_blksize).unwrap_or(4096),
            ..Geometry::MEMORY
        };
        Ok(Self {
            name: name.to_owned(),
            file: Arc::new(file),
            length_bytes,
            geometry,
        })
    }

    fn read_some(&self, offset: u64, target: &mut [u8], may_block: bool) -> Result<usize, Errno> {
        if may_block {
            return rustix::io::pread(&self.file, target, offset);
        }
        let mut slices = [IoSliceMut::new(target)];
        match rustix::io::preadv2(&self.file, &mut slices, offset, ReadWriteFlags::NOWAIT) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => Err(Errno::AGAIN),
            result => result,
        }
    }
}

impl Device for FileDevice {
    fn name(&self) -> &str {
        &self.name
    }

    fn length_bytes(&self) -> u64 {
        self.length_bytes
    }

    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn submit(&self, mut request: Request) {
        let mut offset = request.offset();
        let read = request.slices_mut().try_for_each(|slice| {
            let read = self.read_at(offset, slice, true);
            offset += slice.len() as u64;
            read
        });
        match read {
            Ok(()) => request.succeed(),
            Err(error) => request.fail(0, error),
        }
    }

    fn read_at(&self, offset: u64, target: &mut [u8], may_block: bool) -> Result<()> {
        let length = target.len();
        let past_end = || Error::PastEnd {
            device: self.name.clone(),
            offset,
            length,
        };
        let end = offset.checked_add(length as u64);
        if end.is_none_or(|end| end > self.length_bytes) {
            return Err(past_end());
        }
        DEVICE_READS.add(1);
        let mut done = 0;
        while done < length {
            let at = offset + done as u64;
            match self.read_some(at, &mut target[done..], may_block) {
                // The file was truncated after it was opened.
                Ok(0) => {
                    DEVICE_READ_ERRORS.add(1);
                    return Err(past_end());
                }
                Ok(count) => done += count,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) if !may_block => {
                    DEVICE_WOULD_BLOCK.add(1);
                    return Err(Error::WouldBlock);
                }
                Err(errno) => {
                    DEVICE_READ_ERRORS.add(1);
                    return Err(Error::Failed {
                        device: self.name.clone(),
                        offset: at,
                        errno,
                    });
                }
            }
        }
        DEVICE_READ_BYTES.add(length as u64);
        Ok(())
    }

    fn file(&self) -> Option<&Arc<OwnedFd>> {
        Some(&self.file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn ten_bytes() -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(b"0123456789").unwrap();
        file
    }

    #[test]
    fn reads_a_file_and_names_it_in_errors() {
        let file = ten_bytes();
        let device = FileDevice::open(file.path()).unwrap();
        assert_eq!(device.length_bytes(), 10);
        assert!(device.file().is_some());
        let mut target = [0; 4];
        assert_eq!(device.read_at(6, &mut target, true), Ok(()));
        assert_eq!(&target, b"6789");
        for offset in [7, 10, u64::MAX] {
            let text = device
                .read_at(offset, &mut target, true)
                .unwrap_err()
                .to_string();
            assert!(text.contains(device.name()) && text.contains(&offset.to_string()));
        }
    }

    #[test]
    fn a_file_truncated_later_is_an_error_not_zeros() {
        let file = ten_bytes();
        let device = FileDevice::open(file.path()).unwrap();
        file.as_file().set_len(5).unwrap();
        let result = device.read_at(2, &mut [0; 8], true);
        assert!(matches!(result, Err(Error::PastEnd { .. })));
        assert_eq!(device.read_at(0, &mut [0; 5], true), Ok(()));
    }

    #[test]
    fn without_waiting_it_reads_or_says_so() {
        let file = ten_bytes();
        let device = FileDevice::open(file.path()).unwrap();
        let mut target = [0; 10];
        match device.read_at(0, &mut target, false) {
            Ok(()) => assert_eq!(&target, b"0123456789"),
            Err(error) => assert_eq!(error, Error::WouldBlock),
        }
    }

    #[test]
    fn what_is_no_storage_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let pipe = directory.path().join("pipe");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &pipe,
            FileType::Fifo,
            Mode::from_raw_mode(0o600),
            0,
        )
        .unwrap();
        for (path, expected) in [
            (directory.path().join("nothing"), Errno::NOENT),
            (directory.path().to_owned(), Errno::ISDIR),
            (pipe, Errno::INVAL),
            ("/dev/null".into(), Errno::INVAL),
        ] {
            match FileDevice::open(&path) {
                Err(Error::Open { errno, .. }) => assert_eq!(errno, expected),
                _ => panic!("{} was not refused", path.display()),
            }
        }
    }
}
