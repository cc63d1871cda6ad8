//! A sparse device in memory.
//!
//! Pages are allocated at their first write. Neighbouring pages have different locks. A request of
//! several pages is not atomic. Requests complete at once, on the submitting thread.
//!
//! Weakness: a page overwritten with zeros keeps its memory.

use std::collections::HashMap;

use pagewell_base::sync::RwLock;

use crate::device::check;
use crate::{Device, Geometry, Operation, Request};

/// Small for sparse images, large beside its place in the table.
const PAGE_BYTES: usize = 64 << 10;
/// More than threads that work at a time.
const SHARDS: usize = 64;

type Shard = RwLock<HashMap<u64, Box<[u8]>>>;

/// See the module.
pub struct RamDevice {
    name: String,
    length_bytes: u64,
    shards: Vec<Shard>,
}

impl RamDevice {
    /// Zeros.
    #[must_use]
    pub fn new(name: &str, length_bytes: u64) -> Self {
        Self {
            name: name.to_owned(),
            length_bytes,
            shards: (0..SHARDS).map(|_| Shard::default()).collect(),
        }
    }

    /// With these contents.
    #[must_use]
    pub fn holding(name: &str, bytes: &[u8]) -> Self {
        let device = Self::new(name, bytes.len() as u64);
        device.write(0, bytes);
        device
    }

    fn shard(&self, page: u64) -> &Shard {
        // Below SHARDS.
        let index = (page % SHARDS as u64) as usize;
        &self.shards[index]
    }

    fn read(&self, offset: u64, target: &mut [u8]) {
        for (page, inside, range) in pages(offset, target.len()) {
            let shard = self.shard(page).read();
            let target = &mut target[range];
            match shard.get(&page) {
                Some(bytes) => target.copy_from_slice(&bytes[inside..inside + target.len()]),
                None => target.fill(0),
            }
        }
    }

    fn write(&self, offset: u64, source: &[u8]) {
        for (page, inside, range) in pages(offset, source.len()) {
            let mut shard = self.shard(page).write();
            let bytes = shard
                .entry(page)
                .or_insert_with(|| vec![0; PAGE_BYTES].into_boxed_slice());
            let source = &source[range];
            bytes[inside..inside + source.len()].copy_from_slice(source);
        }
    }
}

/// The pages of a range: number, offset within the page, bytes of the range.
fn pages(offset: u64, length: usize) -> impl Iterator<Item = (u64, usize, std::ops::Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        if done >= length {
            return None;
        }
        let at = offset + done as u64;
        // Less than a page.
        let inside = (at % PAGE_BYTES as u64) as usize;
        let start = done;
        done = (done + PAGE_BYTES - inside).min(length);
        Some((at / PAGE_BYTES as u64, inside, start..done))
    })
}

impl Device for RamDevice {
    fn name(&self) -> &str {
        &self.name
    }

    fn length_bytes(&self) -> u64 {
        self.length_bytes
    }

    fn geometry(&self) -> Geometry {
        Geometry::MEMORY
    }

    fn submit(&self, mut request: Request) {
        if let Err(error) = check(self, &request) {
            return request.fail(0, error);
        }
        let mut offset = request.offset();
        match request.operation() {
            Operation::Read => {
                for slice in request.slices_mut() {
                    self.read(offset, slice);
                    offset += slice.len() as u64;
                }
            }
            Operation::Write => {
                for slice in request.slices() {
                    self.write(offset, slice);
                    offset += slice.len() as u64;
                }
            }
            // Nothing is durable.
            Operation::Flush => {}
        }
        request.succeed();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;
    use crate::read_exact;
    use crate::testing::{flush, pattern, read, write, write_durable};
    use proptest::prelude::*;

    /// Bytes of memory that hold data: a multiple of 64 KiB.
    fn memory_bytes(device: &RamDevice) -> u64 {
        let pages = |shard: &Shard| shard.read().len();
        let pages: usize = device.shards.iter().map(pages).sum();
        (pages * PAGE_BYTES) as u64
    }

    #[test]
    fn reads_all_or_nothing() {
        let device = RamDevice::holding("memory", b"0123456789");
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
    fn zeros_take_no_memory_and_the_end_is_the_end() {
        let device = RamDevice::new("ram", 4 << 30);
        let (outcome, buffer) = read(&device, (4 << 30) - 100_000, 100_000);
        assert_eq!(outcome.result, Ok(()));
        assert!(buffer.iter().all(|byte| *byte == 0));
        assert_eq!(memory_bytes(&device), 0);
        assert_eq!(write_durable(&device, (4 << 30) - 3, b"end").result, Ok(()));
        assert_eq!(flush(&device).result, Ok(()));
        assert_eq!(memory_bytes(&device), PAGE_BYTES as u64);
        for offset in [(4 << 30) - 2, 4 << 30, u64::MAX - 1, u64::MAX] {
            let outcome = write(&device, offset, b"end");
            assert!(matches!(outcome.result, Err(Error::PastEnd { .. })));
            assert!(read_exact(&device, offset, &mut [0; 3]).is_err());
        }
        let mut end = [0; 4];
        read_exact(&device, (4 << 30) - 4, &mut end).unwrap();
        assert_eq!(&end, b"\0end");
    }

    #[test]
    fn threads_at_different_places_do_not_disturb_each_other() {
        let device = RamDevice::new("ram", 8 << 20);
        let bytes = pattern(8 << 20);
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let (device, bytes) = (&device, &bytes);
                scope.spawn(move || {
                    for piece in (thread..800).step_by(8) {
                        let start = piece * 10_000;
                        let part = &bytes[start..start + 10_000];
                        assert_eq!(write(device, start as u64, part).result, Ok(()));
                    }
                });
            }
        });
        assert_eq!(read(&device, 0, 8_000_000).1[..], bytes[..8_000_000]);
    }

    proptest! {
        #[test]
        fn it_is_what_was_written(
            writes in proptest::collection::vec((0usize..300_000, 1usize..150_000), 1..20),
        ) {
            let device = RamDevice::new("ram", 300_000);
            let mut model = vec![0; 300_000];
            let bytes = pattern(450_000);
            for (offset, length) in writes {
                let source = &bytes[offset..offset + length];
                let outcome = write(&device, offset as u64, source);
                let fits = offset + length <= model.len();
                prop_assert_eq!(outcome.result.is_ok(), fits);
                if fits {
                    model[offset..offset + length].copy_from_slice(source);
                }
            }
            let (_, buffer) = read(&device, 0, model.len());
            prop_assert!(buffer[..] == model[..]);
        }
    }
}
