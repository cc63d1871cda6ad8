//! The user data of raw sectors, as a device.
//!
//! ```text
//!  wanted          ┌──────── bytes 3000..6200 ────────┐
//!  data       │ 1: 2048..4096    │ 2: 4096..6144    │ 3: 6144..8192    │
//!  below   │h│ data        │ecc│h│ data        │ecc│h│ data        │ecc│   one request
//! ```
//!
//! A request takes one request of the device below, and a copy on the thread that completes it. A
//! sector without data ends the transfer there with `EIO`.

use std::sync::Arc;

use pagewell_device::{Device, Error, Geometry, Request};
use rustix::io::Errno;

use crate::fetch::{Scatter, fetch};
use crate::sector::Layout;
use crate::volume::SECTOR_BYTES;
use crate::window::{copying, cut, readable};

pub(crate) struct Sectors {
    inner: Arc<dyn Device>,
    start: u64,
    layout: Layout,
    /// Whole ones.
    count: u64,
}

impl Sectors {
    /// The sectors from `start`, in at most `length_bytes` of the device.
    pub(crate) fn new(
        inner: Arc<dyn Device>,
        start: u64,
        length_bytes: u64,
        layout: Layout,
    ) -> Self {
        let there = inner.length_bytes().saturating_sub(start).min(length_bytes);
        let stride = layout.stride_bytes();
        // The last one may lack its checks.
        let has_last = there % stride >= layout.needed_bytes() as u64;
        Self {
            inner,
            start,
            layout,
            count: there / stride + u64::from(has_last),
        }
    }

    fn read(&self, mut request: Request) {
        let (offset, length) = (request.offset(), request.len());
        let first = offset / SECTOR_BYTES;
        let last = (offset + length as u64 - 1) / SECTOR_BYTES;
        let stride = self.layout.stride_bytes();
        let position = self.start + first * stride;
        // At most PIECE_BYTES_MAX of data, and a stride more.
        let spanned = ((last - first) * stride) as usize + self.layout.needed_bytes();
        let there = self.inner.length_bytes().saturating_sub(position);
        let spanned = usize::try_from(there).map_or(spanned, |there| there.min(spanned));
        let layout = self.layout;
        let skipped = (offset % SECTOR_BYTES) as usize;
        let name = self.name().to_owned();
        let range = (position, spanned);
        fetch(
            &*self.inner,
            request.issuer(),
            range,
            move |bytes, result| {
                let filled = gather(layout, bytes, skipped, &mut request);
                if filled == length {
                    return request.succeed();
                }
                let at = offset + filled as u64;
                let no_data = Error::failed(&name, at, Errno::IO);
                let error = match result {
                    // Sectors without data come before those that were not transferred.
                    Err(error) if is_cut(layout, bytes, skipped + filled) => error,
                    _ => no_data,
                };
                request.fail(filled, error);
            },
        );
    }
}

/// Copies the data of these sectors without the first `skipped` bytes, up to a sector without data;
/// how many bytes.
fn gather(layout: Layout, bytes: &[u8], skipped: usize, request: &mut Request) -> usize {
    let mut target = Scatter::new(request.slices_mut());
    let stride = layout.stride_bytes() as usize;
    let data = bytes.chunks(stride).map_while(|sector| layout.data(sector));
    let mut skipped = skipped;
    for data in data {
        target.put(data.get(skipped..).unwrap_or_default());
        skipped = 0;
    }
    target.filled()
}

/// Whether the sector with this byte of data is not wholly there.
fn is_cut(layout: Layout, bytes: &[u8], data_byte: usize) -> bool {
    let stride = layout.stride_bytes() as usize;
    let start = data_byte / SECTOR_BYTES as usize * stride;
    bytes.len() < start + layout.needed_bytes()
}

impl Device for Sectors {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn length_bytes(&self) -> u64 {
        self.count * SECTOR_BYTES
    }

    fn geometry(&self) -> Geometry {
        copying(self.inner.geometry())
    }

    fn submit(&self, request: Request) {
        let Some(request) = readable(self, request) else {
            return;
        };
        for piece in cut(request) {
            self.read(piece);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sector::make_raw;
    use pagewell_device::testing::{Faulty, flush, pattern, read, write};
    use pagewell_device::{Operation, RamDevice};

    const ALL: [(Layout, u8); 5] = [
        (Layout::HEADLESS, 2),
        (Layout::RAW, 1),
        (Layout::RAW, 2),
        (Layout::WITH_SUBCHANNELS, 1),
        (Layout::WITH_SUBCHANNELS, 2),
    ];

    fn faulty(bytes: &[u8]) -> Arc<Faulty> {
        // Whole blocks: memory has none behind its end.
        let mut bytes = bytes.to_vec();
        bytes.resize(bytes.len().next_multiple_of(512), 0);
        let mut faulty = Faulty::new("below", bytes.len() as u64);
        faulty.ram = RamDevice::holding("below", &bytes);
        faulty.geometry.logical_block_bytes = 512;
        Arc::new(faulty)
    }

    #[test]
    fn any_range_is_one_request_below() {
        let data = pattern(20 * 2048);
        for (layout, mode) in ALL {
            let below = faulty(&make_raw(layout, mode, &data));
            let sectors = Sectors::new(below.clone(), 0, u64::MAX, layout);
            assert_eq!(sectors.length_bytes(), data.len() as u64);
            for (offset, length) in [(0, 1), (2047, 2), (2048, 2048), (3000, 9000), (0, 40_960)] {
                below.seen.lock().unwrap().clear();
                let (outcome, buffer) = read(&sectors, offset, length);
                assert_eq!(outcome.result, Ok(()), "{layout:?} {offset} {length}");
                let start = usize::try_from(offset).unwrap();
                assert!(buffer[..] == data[start..start + length]);
                assert_eq!(below.seen.lock().unwrap().len(), 1);
            }
            assert!(read(&sectors, 40_959, 2).0.result.is_err());
        }
    }

    #[test]
    fn long_requests_are_cut() {
        let data = pattern(1500 * 2048);
        let image = make_raw(Layout::WITH_SUBCHANNELS, 2, &data);
        let below = Arc::new(RamDevice::holding("below", &image));
        let sectors = Sectors::new(below, 0, u64::MAX, Layout::WITH_SUBCHANNELS);
        let (outcome, buffer) = read(&sectors, 1, data.len() - 1);
        assert_eq!(outcome.result, Ok(()));
        assert!(buffer[..] == data[1..]);
    }

    #[test]
    fn a_sector_without_data_costs_itself() {
        let data = pattern(8 * 2048);
        let mut image = make_raw(Layout::RAW, 2, &data);
        image[3 * 2352 + 18] |= 1 << 5;
        image[5 * 2352] = 1;
        let sectors = Sectors::new(faulty(&image), 0, u64::MAX, Layout::RAW);
        let (outcome, buffer) = read(&sectors, 100, 7 * 2048);
        assert_eq!(outcome.transferred_bytes, 3 * 2048 - 100);
        assert!(buffer[..3 * 2048 - 100] == data[100..3 * 2048]);
        let at = Error::failed("below", 3 * 2048, Errno::IO);
        assert_eq!(outcome.result, Err(at));
        assert_eq!(read(&sectors, 4 * 2048, 2048).0.result, Ok(()));
        assert!(read(&sectors, 5 * 2048, 1).0.result.is_err());
        assert_eq!(read(&sectors, 6 * 2048, 4096).0.result, Ok(()));
    }

    #[test]
    fn errors_below_are_passed_on() {
        let data = pattern(8 * 2048);
        let below = faulty(&make_raw(Layout::RAW, 1, &data));
        let bad = 4 * 2352 + 100..4 * 2352 + 101;
        *below.bad.lock().unwrap() = vec![(Operation::Read, bad)];
        let sectors = Sectors::new(below, 0, u64::MAX, Layout::RAW);
        let (outcome, buffer) = read(&sectors, 0, 8 * 2048);
        assert_eq!(outcome.transferred_bytes, 4 * 2048);
        assert!(buffer[..4 * 2048] == data[..4 * 2048]);
        assert_eq!(
            outcome.result,
            Err(Error::failed("below", 4 * 2352 + 100, Errno::IO))
        );
        assert_eq!(read(&sectors, 5 * 2048, 2048).0.result, Ok(()));
    }

    #[test]
    fn the_end_is_that_of_whole_sectors() {
        let image = make_raw(Layout::RAW, 1, &pattern(4 * 2048));
        for (bytes, count) in [(0, 0), (2071, 0), (2072, 1), (2352, 1), (4 * 2352 - 280, 4)] {
            let below = Arc::new(RamDevice::holding("below", &image[..bytes]));
            let sectors = Sectors::new(below, 0, u64::MAX, Layout::RAW);
            assert_eq!(sectors.length_bytes(), count * 2048, "{bytes}");
            for sector in 0..count {
                assert_eq!(read(&sectors, sector * 2048, 2048).0.result, Ok(()));
            }
        }
        let below = Arc::new(RamDevice::holding("below", &image));
        let sectors = Sectors::new(below, 2352, 2 * 2352, Layout::RAW);
        assert_eq!(sectors.length_bytes(), 4096);
        assert!(write(&sectors, 0, b"x").result.is_err());
        assert_eq!(flush(&sectors).result, Ok(()));
    }
}
