//! Bytes of an image, through the page cache, and what readers of images share.
//!
//! A payload of file data pins pages. It is a copy when the cache pins no more (1/2 of its pages
//! are pinned, as slow clients can cause), and when pieces are so small that pinning costs more.
//!
//! A range with an unreadable part returns the bytes before it: a bad sector costs a reader only
//! that sector.

mod ahead;
mod name_table;
mod names;
mod open_error;
mod readable;
mod violations;
mod window;

use std::sync::Arc;

use pagewell_cache::{
    Bounds, CachedDevice, CachedObject, Error as CacheError, ReadMode, WriteMode,
};
use pagewell_device::{Error as DeviceError, Issuer};
use rustix::io::Errno;

use pagewell_fs::{Error, PageSlice, Payload, Result};

pub use ahead::AHEAD_BYTES_MAX;
pub use name_table::{NameTable, Named, Repeated};
pub use names::presentable;
pub use open_error::open_error;
pub use readable::Readable;
pub use violations::{VIOLATIONS_MAX, Violation, Violations};
pub use window::Window;

/// Pinning a page costs as much as copying so many bytes.
const PINNED_RUN_BYTES_MIN: usize = 4096;

/// Adjacent bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// First byte.
    pub position: u64,
    /// Bytes, at least 1.
    pub length: usize,
    /// The part of a file around it, if other data may be next to that.
    pub bounds: Option<Bounds>,
}

impl Run {
    fn mode(&self, mode: ReadMode) -> ReadMode {
        ReadMode {
            bounds: self.bounds,
            ..mode
        }
    }
}

/// See the module. Clones share the object and its pages.
#[derive(Clone, Debug)]
pub struct Bytes {
    object: CachedObject,
}

impl Bytes {
    /// Of a cached device.
    #[must_use]
    pub fn new(device: CachedDevice) -> Self {
        Self::of(device.into_object())
    }

    /// Of a cached object.
    #[must_use]
    pub fn of(object: CachedObject) -> Self {
        Self { object }
    }

    /// The object, of a device its store's only one.
    #[must_use]
    pub fn object(&self) -> &CachedObject {
        &self.object
    }

    /// Of the device or store, for messages.
    #[must_use]
    pub fn name(&self) -> &str {
        self.object.name()
    }

    /// Of a device, that at opening.
    #[must_use]
    pub fn length_bytes(&self) -> u64 {
        self.object.length_bytes()
    }

    /// Whether a whole range is inside.
    #[must_use]
    pub fn contains(&self, position: u64, length: u64) -> bool {
        position
            .checked_add(length)
            .is_some_and(|end| end <= self.length_bytes())
    }

    /// An error about a position.
    #[must_use]
    pub fn fault(&self, position: u64, what: &str) -> Error {
        Error::Io(format!("{}: at byte {position}: {what}", self.name()))
    }

    /// Reads structure of a file system.
    pub fn read(&self, position: u64, target: &mut [u8], may_block: bool) -> Result<()> {
        let mode = ReadMode {
            may_block,
            issuer: Issuer::Metadata,
            bounds: None,
        };
        let read = self.object.read_at(position, target, mode);
        read.map_err(|error| self.error(error))
    }

    /// Reads file data from `runs`, in order: at least one byte; all, unless a byte is unreadable.
    pub fn payload(&self, runs: &[Run], may_block: bool) -> Result<Payload> {
        let payload = self.try_payload(runs, may_block, &mut false);
        payload.map_err(|error| self.error(error))
    }

    /// [`Self::payload`] with the cache's error; `waited`: some of it was not in memory.
    pub fn try_payload(
        &self,
        runs: &[Run],
        may_block: bool,
        waited: &mut bool,
    ) -> Result<Payload, CacheError> {
        let mode = ReadMode {
            may_block,
            issuer: Issuer::Reader,
            bounds: None,
        };
        let failure = match self.pin_or_copy(runs, mode, waited) {
            Ok(payload) => return Ok(payload),
            Err(failure) => failure,
        };
        if let Some(readable) = before(runs, &failure)
            && let Ok(payload) = self.pin_or_copy(&readable, mode, waited)
        {
            return Ok(payload);
        }
        Err(failure)
    }

    fn pin_or_copy(
        &self,
        runs: &[Run],
        mode: ReadMode,
        waited: &mut bool,
    ) -> Result<Payload, CacheError> {
        let length: usize = runs.iter().map(|run| run.length).sum();
        let in_crumbs = runs.len() > 1 && length / runs.len() < PINNED_RUN_BYTES_MIN;
        if !in_crumbs && let Some(pages) = self.pin_all(runs, mode, waited)? {
            return Ok(Payload::Pages(pages));
        }
        let mut bytes = vec![0; length];
        let mut rest = &mut bytes[..];
        for run in runs {
            let (now, later) = rest.split_at_mut(run.length);
            let mode = run.mode(mode);
            self.object.read_noting(run.position, now, mode, waited)?;
            rest = later;
        }
        Ok(Payload::Bytes(bytes))
    }

    fn pin_all(
        &self,
        runs: &[Run],
        mode: ReadMode,
        waited: &mut bool,
    ) -> Result<Option<Vec<PageSlice>>, CacheError> {
        let mut slices = Vec::with_capacity(runs.len() + 2);
        for run in runs {
            let (position, mode) = (run.position, run.mode(mode));
            let pinned = self
                .object
                .pin_all_noting(position, run.length, mode, waited)?;
            let Some(pages) = pinned else {
                return Ok(None);
            };
            for page in pages {
                let length = page.as_ref().len();
                slices.push(PageSlice::new(Arc::new(page), 0, length));
            }
        }
        Ok(Some(slices))
    }

    /// Writes to the cache. After a failure, the first `changed` bytes are written.
    pub fn write(
        &self,
        position: u64,
        data: &[u8],
        may_block: bool,
        changed: &mut usize,
    ) -> Result<()> {
        let mode = WriteMode { may_block };
        let written = self.object.write_counting(position, data, mode, changed);
        written.map_err(|error| self.error(error))
    }

    /// Waits until earlier writes to the range are durable.
    pub fn commit(&self, position: u64, length: u64) -> Result<()> {
        let committed = self.object.commit(position, length);
        committed.map_err(|error| self.error(error))
    }

    /// Whether written data is not on the device.
    #[must_use]
    pub fn has_unwritten(&self) -> bool {
        self.object.has_dirty(0, self.length_bytes())
    }

    /// Waits until all written data is on the device, durable or not.
    pub fn write_out(&self) -> Result<()> {
        self.write_out_range(0, self.length_bytes())
    }

    /// The same of a range.
    pub fn write_out_range(&self, position: u64, length: u64) -> Result<()> {
        let written = self.object.write_out(position, length);
        written.map_err(|error| self.error(error))
    }

    /// [`Self::commit`] of everything.
    pub fn sync(&self) -> Result<()> {
        self.object.sync().map_err(|error| self.error(error))
    }

    /// Changes with each loss.
    #[must_use]
    pub fn loss_epoch(&self) -> u64 {
        self.object.loss_epoch()
    }

    /// For the caller; every text has the device and the offset.
    fn error(&self, error: CacheError) -> Error {
        match error {
            CacheError::WouldBlock => Error::WouldBlock,
            CacheError::Device(lost @ DeviceError::Abandoned { .. }) => {
                Error::Io(format!("{}: {lost}", self.name()))
            }
            // The file system or thin volume below.
            CacheError::Device(DeviceError::Failed {
                errno: Errno::NOSPC,
                ..
            }) => Error::FullBelow(error.to_string()),
            CacheError::Device(DeviceError::Failed {
                errno: Errno::DQUOT,
                ..
            }) => Error::QuotaBelow(error.to_string()),
            // Temporary: pinned pages come back.
            CacheError::Memory { .. } => Error::TryLater,
            other => Error::Io(other.to_string()),
        }
    }
}

/// The runs before the failed byte; `None` when it is the first.
fn before(runs: &[Run], failure: &CacheError) -> Option<Vec<Run>> {
    let CacheError::Device(
        DeviceError::PastEnd { offset, .. } | DeviceError::Failed { offset, .. },
    ) = failure
    else {
        return None;
    };
    let inside = |run: &Run| {
        let distance = offset.checked_sub(run.position)?;
        let distance = usize::try_from(distance).ok()?;
        (distance < run.length).then_some(distance)
    };
    let (index, distance) = runs
        .iter()
        .enumerate()
        .find_map(|(index, run)| Some((index, inside(run)?)))?;
    let mut readable = runs.get(..index)?.to_vec();
    if distance > 0 {
        readable.push(Run {
            length: distance,
            ..*runs.get(index)?
        });
    }
    (!readable.is_empty()).then_some(readable)
}

#[cfg(test)]
impl Bytes {
    /// Bytes in memory, behind a small cache.
    pub(crate) fn of_memory(bytes: Vec<u8>) -> Self {
        let options = pagewell_cache::CacheOptions::new(pagewell_cache::BYTES_MIN);
        let cache = pagewell_cache::Cache::new(options).unwrap();
        Self::new(cache.open(Arc::new(pagewell_device::RamDevice::holding("m", &bytes))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewell_cache::PAGE_BYTES;

    fn numbers(length: usize) -> Vec<u8> {
        (0..length).map(|index| (index % 251) as u8).collect()
    }

    fn copied(payload: &Payload) -> Vec<u8> {
        let mut target = vec![0; payload.len()];
        assert_eq!(payload.copy_to(&mut target, true), Ok(payload.len()));
        target
    }

    fn run(position: u64, length: usize) -> Run {
        Run {
            position,
            length,
            bounds: None,
        }
    }

    #[test]
    fn runs_are_pinned_and_crumbs_are_copied() {
        let data = numbers(5 * PAGE_BYTES + 100);
        let bytes = Bytes::of_memory(data.clone());
        let long = [
            run(10, 2 * PAGE_BYTES),
            run(4 * PAGE_BYTES as u64, PAGE_BYTES + 100),
        ];
        let payload = bytes.payload(&long, true).unwrap();
        assert!(
            matches!(&payload, Payload::Pages(pages) if pages.len() == 5),
            "{payload:?}"
        );
        let expected = [&data[10..10 + 2 * PAGE_BYTES], &data[4 * PAGE_BYTES..]].concat();
        assert!(copied(&payload) == expected);
        let crumbs: Vec<Run> = (0..100).map(|index| run(index * 1000, 7)).collect();
        let payload = bytes.payload(&crumbs, true).unwrap();
        assert!(matches!(&payload, Payload::Bytes(_)), "{payload:?}");
        let expected = (0..100).flat_map(|index| data[index * 1000..][..7].to_vec());
        assert_eq!(copied(&payload), expected.collect::<Vec<u8>>());
    }

    #[test]
    fn each_read_learns_whether_it_waited() {
        let bytes = Bytes::of_memory(numbers(8 * PAGE_BYTES));
        let waits = |runs: &[Run]| {
            let mut waited = false;
            bytes.try_payload(runs, true, &mut waited).unwrap();
            waited
        };
        let page = PAGE_BYTES as u64;
        assert!(waits(&[run(100, 7)]));
        assert!(!waits(&[run(100, 7)]));
        assert!(waits(&[run(100, 7), run(5 * page, 100)]), "the second part");
        assert!(!waits(&[run(5 * page, 100), run(100, 7)]));
        // What is copied, too.
        let crumbs =
            |from: u64| -> Vec<Run> { (0..50).map(|index| run(from + index * 1000, 7)).collect() };
        assert!(waits(&crumbs(7 * page)));
        assert!(!waits(&crumbs(7 * page)));
    }

    #[test]
    fn when_half_of_the_pages_are_pinned_the_rest_is_copied() {
        let data = numbers(64 * PAGE_BYTES);
        let bytes = Bytes::of_memory(data.clone());
        let mut kept = Vec::new();
        for page in 0..40 {
            let at = page * PAGE_BYTES;
            let payload = bytes.payload(&[run(at as u64, PAGE_BYTES)], true).unwrap();
            assert_eq!(matches!(payload, Payload::Pages(_)), page < 32, "{page}");
            assert!(copied(&payload) == data[at..at + PAGE_BYTES]);
            kept.push(payload);
        }
        drop(kept);
        let payload = bytes.payload(&[run(0, PAGE_BYTES)], true).unwrap();
        assert!(
            matches!(payload, Payload::Pages(_)),
            "what was pinned came back"
        );
    }

    #[test]
    fn what_is_full_below_has_a_name_and_a_place() {
        let bytes = Bytes::of_memory(numbers(4096));
        let failed = |errno| {
            bytes.error(CacheError::Device(DeviceError::Failed {
                device: "/dev/thin".to_owned(),
                offset: 4096,
                errno,
            }))
        };
        for errno in [Errno::NOSPC, Errno::DQUOT] {
            let error = failed(errno);
            assert_eq!(error.to_errno(), errno);
            let text = error.trouble().unwrap();
            assert!(text.contains("/dev/thin: at byte 4096"), "{text}");
        }
        assert_eq!(
            Error::NoSpace.trouble(),
            None,
            "its size is nobody's trouble"
        );
    }

    #[test]
    fn what_is_before_a_failure() {
        let failed = |offset| {
            CacheError::Device(DeviceError::Failed {
                device: "d".to_owned(),
                offset,
                errno: rustix::io::Errno::IO,
            })
        };
        let runs = [run(100, 10), run(50, 10), run(200, 10)];
        assert_eq!(before(&runs, &failed(100)), None);
        assert_eq!(before(&runs, &failed(101)), Some(vec![run(100, 1)]));
        assert_eq!(before(&runs, &failed(50)), Some(vec![run(100, 10)]));
        let all = vec![run(100, 10), run(50, 10), run(200, 9)];
        assert_eq!(before(&runs, &failed(209)), Some(all));
        assert_eq!(before(&runs, &failed(60)), None);
        assert_eq!(before(&runs, &CacheError::WouldBlock), None);
    }
}
