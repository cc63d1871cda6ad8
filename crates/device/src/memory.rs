//! Bytes in memory as a device: what tests and small sources stand on.

use crate::{Device, Error, Geometry, Operation, Request, Result};

/// A device whose bytes are a vector.
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

    fn submit(&self, mut request: Request) {
        let start = usize::try_from(request.offset()).unwrap_or(usize::MAX);
        let source = self.bytes.get(start..).unwrap_or(&[]);
        let source = source.get(..request.len());
        let Some(mut source) = source.filter(|_| request.operation() == Operation::Read) else {
            let error = Error::PastEnd {
                device: self.name.clone(),
                offset: request.offset(),
                length: request.len(),
            };
            request.fail(0, error);
            return;
        };
        for slice in request.slices_mut() {
            let (now, later) = source.split_at(slice.len());
            slice.copy_from_slice(now);
            source = later;
        }
        request.succeed();
    }

    fn read_at(&self, offset: u64, target: &mut [u8], _may_block: bool) -> Result<()> {
        let source = usize::try_from(offset)
            .ok()
            .and_then(|start| self.bytes.get(start..)?.get(..target.len()));
        match source {
            Some(source) => {
                target.copy_from_slice(source);
                Ok(())
            }
            None => Err(Error::PastEnd {
                device: self.name.clone(),
                offset,
                length: target.len(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_all_or_nothing() {
        let device = MemoryDevice::new("memory", b"0123456789".to_vec());
        let mut target = [0; 4];
        assert_eq!(device.read_at(6, &mut target, false), Ok(()));
        assert_eq!(&target, b"6789");
        for offset in [7, 10, 11, u64::MAX] {
            let error = device.read_at(offset, &mut target, true).unwrap_err();
            assert!(matches!(error, Error::PastEnd { .. }), "{error}");
            assert!(error.to_string().contains("memory"), "{error}");
        }
        assert_eq!(device.read_at(10, &mut [], true), Ok(()));
    }
}
