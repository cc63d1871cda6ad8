//! Bytes in memory as a device: what tests and small sources stand on.

use crate::bounds::only_read;
use crate::{Device, Geometry, Request};

/// A device whose bytes are a vector. It refuses writes with `EROFS`.
pub struct MemoryDevice {
    name: String,
    bytes: Vec<u8>,
}

impl MemoryDevice {
    /// A device of these bytes.
    #[must_use]
    pub fn new(name: &str, bytes: Vec<u8>) -> Self {
        Self {
            name: name.to_owned(),
            bytes,
        }
    }
}

impl Device for MemoryDevice {
    fn name(&self) -> &str {
        &self.name
    }

    fn length_bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn geometry(&self) -> Geometry {
        Geometry::MEMORY
    }

    fn submit(&self, request: Request) {
        let Some(mut request) = only_read(self, request) else {
            return;
        };
        // Inside: fewer than there are bytes.
        let mut source = &self.bytes[request.offset() as usize..];
        for slice in request.slices_mut() {
            let (now, later) = source.split_at(slice.len());
            slice.copy_from_slice(now);
            source = later;
        }
        request.succeed();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{flush, write};
    use crate::{Error, read_exact};

    #[test]
    fn reads_all_or_nothing() {
        let device = MemoryDevice::new("memory", b"0123456789".to_vec());
        let mut target = [0; 4];
        assert_eq!(read_exact(&device, 6, &mut target), Ok(()));
        assert_eq!(&target, b"6789");
        for offset in [7, 10, 11, u64::MAX] {
            let error = read_exact(&device, offset, &mut target).unwrap_err();
            assert!(matches!(error, Error::PastEnd { .. }), "{error}");
            assert!(error.to_string().contains("memory"), "{error}");
        }
        assert_eq!(read_exact(&device, 10, &mut []), Ok(()));
    }
    #[test]
    fn it_takes_no_writes_and_has_nothing_to_flush() {
        let device = MemoryDevice::new("memory", vec![0; 10]);
        let error = write(&device, 3, &[1; 4]).result.unwrap_err().to_string();
        assert!(error.contains("memory: at byte 3"), "{error}");
        assert_eq!(flush(&device).result, Ok(()));
    }
}
