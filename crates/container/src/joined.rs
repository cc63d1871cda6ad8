//! Parts of a disc where the disc has them, as one device.
//!
//! **Problem.** Extents count from the beginning of the disc (ECMA-119 clause 6.1.3). But tracks
//! lie in files of their own, or only one is left.
//!
//! **Rule.** Each track is shown where the disc has it; the rest (music, gaps) are errors. Readers
//! look for descriptors from sector 16 on; so the first sectors of the track that is read, up to
//! its descriptors, are shown there once more:
//!
//! ```text
//!  disc   | 0 .. 15, descriptors of track 3 | rest of track 1 | errors: music | S: track 3 | ...
//! ```
//!
//! Where tracks overlap, the one that is read counts, and then the first.
//!
//! **Weakness.** The sectors that are shown once more hide those of an earlier track: its
//! descriptors, and its path tables where it has fewer descriptors.

use std::sync::Arc;

use pagewell_device::{Device, Error, Geometry, Request};
use rustix::io::Errno;

use crate::fetch;
use crate::volume::{self, SECTOR_BYTES};
use crate::window::{copying, cut, readable};

pub(crate) struct Joined {
    /// The track that is read.
    main: Arc<dyn Device>,
    /// Ascending, none with a byte of another.
    spans: Vec<Span>,
    length_bytes: u64,
}

struct Span {
    start: u64,
    end: u64,
    device: Arc<dyn Device>,
    /// Where in the device they begin.
    skipped: u64,
}

impl Joined {
    /// A track whose first sector is `first` of its disc, and others.
    pub(crate) fn new(
        main: &Arc<dyn Device>,
        first: u64,
        others: &[(u64, Arc<dyn Device>)],
    ) -> Self {
        let mut joined = Self {
            main: main.clone(),
            spans: Vec::new(),
            length_bytes: 0,
        };
        let descriptors = match first {
            0 => 0,
            _ => volume::descriptors_end(&**main) * SECTOR_BYTES,
        };
        joined.show((0, descriptors), main, 0);
        let place = |first: u64| (first.saturating_mul(SECTOR_BYTES), u64::MAX);
        joined.show(place(first), main, 0);
        for (first, other) in others {
            joined.show(place(*first), other, 0);
        }
        // A reader looks at the sector behind the last descriptor, too.
        if descriptors > 0 {
            joined.show((descriptors, SECTOR_BYTES), main, descriptors);
        }
        joined
    }

    /// Shows at most so many bytes of a device, from `skipped` on, where nothing is shown yet.
    fn show(&mut self, (start, length): (u64, u64), device: &Arc<dyn Device>, skipped: u64) {
        let there = device.length_bytes().saturating_sub(skipped).min(length);
        let end = start.saturating_add(there);
        let mut at = start;
        let mut free = Vec::new();
        let spans = self.spans.iter().filter(|span| span.end > start);
        for span in spans.take_while(|span| span.start < end) {
            free.push((at, span.start));
            at = span.end;
        }
        free.push((at, end));
        for (from, to) in free.into_iter().filter(|(from, to)| from < to) {
            self.spans.push(Span {
                start: from,
                end: to,
                device: device.clone(),
                skipped: skipped + (from - start),
            });
        }
        self.spans.sort_by_key(|span| span.start);
        self.length_bytes = self.length_bytes.max(end);
    }

    /// The span with this byte, or else the next one.
    fn span_from(&self, offset: u64) -> Option<&Span> {
        let before = self.spans.partition_point(|span| span.end <= offset);
        self.spans.get(before)
    }

    fn pieces(&self, request: Request) -> Vec<Request> {
        let mut at = request.offset();
        let end = at + request.len() as u64;
        let mut lengths = Vec::new();
        while at < end {
            let edge = match self.span_from(at) {
                Some(span) if span.start > at => span.start,
                Some(span) => span.end,
                None => end,
            };
            lengths.push((edge.min(end) - at) as usize);
            at = edge;
        }
        match lengths.len() {
            1 => vec![request],
            _ => request.split(&lengths),
        }
    }

    fn read(&self, request: Request) {
        let offset = request.offset();
        let span = self.span_from(offset).filter(|span| span.start <= offset);
        let Some(span) = span else {
            let error = Error::failed(self.name(), offset, Errno::IO);
            return request.fail(0, error);
        };
        let there = span.skipped + (offset - span.start);
        fetch::answer(&*span.device, there, request);
    }
}

impl Device for Joined {
    fn name(&self) -> &str {
        self.main.name()
    }

    fn length_bytes(&self) -> u64 {
        self.length_bytes
    }

    fn geometry(&self) -> Geometry {
        copying(self.main.geometry())
    }

    fn submit(&self, request: Request) {
        let Some(request) = readable(self, request) else {
            return;
        };
        for part in self.pieces(request) {
            for piece in cut(part) {
                self.read(piece);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewell_device::RamDevice;
    use pagewell_device::testing::{pattern, read, write};

    const SECTOR: usize = 2048;

    /// Sectors that each begin with a number, with so many descriptors.
    fn track(name: &str, sectors: usize, descriptors: usize) -> (Arc<dyn Device>, Vec<u8>) {
        let mut data = pattern(sectors * SECTOR);
        for number in 16..16 + descriptors {
            let kind = if number + 1 == 16 + descriptors {
                255
            } else {
                1
            };
            data[number * SECTOR..][..6].copy_from_slice(&[kind, b'C', b'D', b'0', b'0', b'1']);
        }
        data[16 * SECTOR + 9] = name.len() as u8;
        (Arc::new(RamDevice::holding(name, &data)), data)
    }

    #[track_caller]
    fn expect(joined: &Joined, sectors: std::ops::Range<usize>, data: &[u8], from: usize) {
        let length = sectors.len() * SECTOR;
        let (outcome, bytes) = read(joined, (sectors.start * SECTOR) as u64, length);
        assert_eq!(outcome.result, Ok(()), "{sectors:?}");
        assert!(bytes[..] == data[from * SECTOR..][..length], "{sectors:?}");
    }

    #[track_caller]
    fn expect_hole(joined: &Joined, sector: usize) {
        let (outcome, _) = read(joined, (sector * SECTOR) as u64, SECTOR);
        assert_eq!(outcome.transferred_bytes, 0, "{sector}");
        let at = (sector * SECTOR) as u64;
        assert_eq!(outcome.result, Err(Error::failed("main", at, Errno::IO)));
    }

    #[test]
    fn tracks_are_where_the_disc_has_them_and_the_rest_are_errors() {
        let (main, data) = track("main", 60, 3);
        let (first, first_data) = track("first", 40, 2);
        let (last, last_data) = track("last", 30, 2);
        let joined = Joined::new(&main, 100, &[(0, first), (200, last)]);
        assert_eq!(joined.length_bytes(), 230 * 2048);
        expect(&joined, 0..19, &data, 0);
        expect(&joined, 19..40, &first_data, 19);
        expect(&joined, 100..160, &data, 0);
        expect(&joined, 200..230, &last_data, 0);
        for hole in [40, 99, 160, 199] {
            expect_hole(&joined, hole);
        }
        let (outcome, bytes) = read(&joined, 30 * 2048 + 5, 30 * SECTOR);
        assert_eq!(outcome.transferred_bytes, 10 * SECTOR - 5);
        assert!(bytes[..10 * SECTOR - 5] == first_data[30 * SECTOR + 5..]);
        assert!(outcome.result.is_err());
        assert!(write(&joined, 0, b"x").result.is_err());
        assert!(read(&joined, 230 * 2048 - 1, 2).0.result.is_err());
    }

    #[test]
    fn where_tracks_overlap_the_one_that_is_read_counts() {
        let (main, data) = track("main", 60, 2);
        let (other, other_data) = track("other", 100, 2);
        let (third, _) = track("third", 50, 2);
        let joined = Joined::new(&main, 50, &[(20, other), (20, third)]);
        assert_eq!(joined.length_bytes(), 120 * 2048);
        expect(&joined, 20..50, &other_data, 0);
        expect(&joined, 50..110, &data, 0);
        expect(&joined, 110..120, &other_data, 90);
        let far = Joined::new(&main, u64::MAX / 2048, &[(u64::MAX, main.clone())]);
        assert!(read(&far, 0, SECTOR).0.result.is_ok());
        expect_hole(&far, 30);
    }

    #[test]
    fn a_track_at_the_beginning_is_shown_once() {
        let (main, data) = track("main", 60, 3);
        let (other, other_data) = track("other", 30, 2);
        let joined = Joined::new(&main, 0, &[(60, other)]);
        expect(&joined, 0..60, &data, 0);
        expect(&joined, 60..90, &other_data, 0);
        assert_eq!(joined.length_bytes(), 90 * 2048);
    }
}
