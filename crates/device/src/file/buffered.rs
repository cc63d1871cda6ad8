//! Reads through the kernel's page cache, at once, into any memory.
//!
//! Whether one would wait is the kernel's to say: `preadv2(RWF_NOWAIT)` reads what is cached and
//! refuses the rest. A file system without that flag (EOPNOTSUPP) counts as one that always
//! waits.

use pagewell_counters::names::{
    DEVICE_READ_BYTES, DEVICE_READ_ERRORS, DEVICE_READS, DEVICE_WOULD_BLOCK,
};
use rustix::io::{Errno, IoSliceMut, ReadWriteFlags};

use super::transfer::Target;
use crate::{Error, Result};

fn read_some(
    device: &Target,
    offset: u64,
    target: &mut [u8],
    may_block: bool,
) -> Result<usize, Errno> {
    if may_block {
        return rustix::io::pread(&device.buffered, target, offset);
    }
    let mut slices = [IoSliceMut::new(target)];
    match rustix::io::preadv2(
        &device.buffered,
        &mut slices,
        offset,
        ReadWriteFlags::NOWAIT,
    ) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => Err(Errno::AGAIN),
        result => result,
    }
}

/// [`crate::Device::read_at`].
pub(super) fn read_at(
    device: &Target,
    offset: u64,
    target: &mut [u8],
    may_block: bool,
) -> Result<()> {
    let length = target.len();
    let past_end = || Error::PastEnd {
        device: device.name.clone(),
        offset,
        length,
    };
    let end = offset.checked_add(length as u64);
    if end.is_none_or(|end| end > device.length_bytes) {
        return Err(past_end());
    }
    DEVICE_READS.add(1);
    let mut done = 0;
    while done < length {
        let at = offset + done as u64;
        match read_some(device, at, &mut target[done..], may_block) {
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
                return Err(device.failed(at, errno));
            }
        }
    }
    DEVICE_READ_BYTES.add(length as u64);
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use crate::{Device, Error, FileDevice};

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
}
