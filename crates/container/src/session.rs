//! A later session of a disc, alone: what is left of a disc of music with a session of data behind
//! it (CD-Extra), or of a disc that was written in several goes.
//!
//! Its extents count from the beginning of the disc (ECMA-119 clause 6.1.3 counts sectors of the
//! disc), its descriptors are 16 sectors behind its own. So its bytes are shown where the disc has
//! them, and its descriptors, once more, where readers look for them:
//!
//! ```text
//!  as it is stored   | 0 .. 15 | 16 descriptors | ...      | r root directory | ...
//!  shown             | 0 .. ALIAS - 1 the same  | errors   | S + r            | ...
//! ```
//!
//! Nothing that is stored says what S is. The primary descriptor has the sector of the root
//! directory, S + r, and a root directory has its own sector in its first record: where such a
//! record is found in place, there is nothing to do; where it is found before, that tells S. What
//! the sessions before held is not there: errors, never zeros.
//!
//! Writers count the sectors of its volume from its own beginning, where a reader takes them for
//! those of the disc; so it is said here when the session is cut off.
//!
//! Weakness: a root directory that lies further behind than [`SEARCHED_SECTORS`] is not found.

use std::sync::Arc;

use pagewell_device::{Device, Error, Geometry, Request};
use rustix::io::Errno;

use crate::fetch::{Scatter, fetch};
use crate::volume::{self, FIRST_SECTOR, SECTOR_BYTES};
use crate::window::{copying, cut, readable};
use crate::{Result, bytes};

/// Sectors that are shown twice: those that readers search for descriptors.
const ALIAS_SECTORS: u64 = 80;
/// Writers put path tables before the root directory, and little else.
const SEARCHED_SECTORS: u64 = 1024;
const PIECE_SECTORS: u64 = 32;

/// See the module's text.
pub(crate) struct Session {
    inner: Arc<dyn Device>,
    /// First byte of the session on its disc.
    start: u64,
}

/// The device with its sectors where its disc had them, and the first of them; `None` where they
/// are in place, or where that cannot be seen.
pub(crate) fn open(inner: &Arc<dyn Device>) -> Option<(Session, u64)> {
    // What cannot be read is the business of readers.
    let first = first_sector(&**inner).ok().flatten()?;
    let session = Session {
        inner: inner.clone(),
        start: first * SECTOR_BYTES,
    };
    Some((session, first))
}

/// What is missing of a session from this sector on, in words that can follow "it".
pub(crate) fn shortfall(inner: &dyn Device, first: u64) -> Option<String> {
    let at = FIRST_SECTOR * SECTOR_BYTES;
    let descriptor = bytes::read(inner, at, SECTOR_BYTES as usize).ok()??;
    let sectors = volume::sectors(&descriptor)?;
    let (there, whole) = (inner.length_bytes(), sectors * SECTOR_BYTES);
    // Of a volume that counts from the beginning of the disc a reader knows where it ends, and
    // some writers do not pad the last sector.
    let is_cut = sectors <= first && there + SECTOR_BYTES <= whole;
    let tail = "bytes of its volume, as after an interrupted download";
    is_cut.then(|| format!("has {there} of the {whole} {tail}"))
}

fn first_sector(device: &dyn Device) -> Result<Option<u64>> {
    let at = FIRST_SECTOR * SECTOR_BYTES;
    let descriptor = bytes::read(device, at, SECTOR_BYTES as usize)?;
    let Some(root) = descriptor.as_deref().and_then(volume::root_sector) else {
        return Ok(None);
    };
    let in_place = bytes::read(device, root * SECTOR_BYTES, volume::ROOT_BYTES);
    if let Ok(Some(record)) = in_place
        && volume::is_root(&record, root)
    {
        return Ok(None);
    }
    let sectors = device.length_bytes() / SECTOR_BYTES;
    let mut from = FIRST_SECTOR + 1;
    while from < sectors.min(SEARCHED_SECTORS) {
        let count = PIECE_SECTORS.min(sectors - from);
        let length = (count * SECTOR_BYTES) as usize;
        let piece = bytes::read(device, from * SECTOR_BYTES, length)?.unwrap_or_default();
        let mut all = piece.chunks(SECTOR_BYTES as usize).zip(from..);
        if let Some((_, found)) = all.find(|(sector, _)| volume::is_root(sector, root)) {
            return Ok(root.checked_sub(found).filter(|first| *first > 0));
        }
        from += count;
    }
    Ok(None)
}

impl Session {
    /// The end of what is shown twice.
    fn alias_end(&self) -> u64 {
        let there = self.inner.length_bytes();
        self.start.min(there).min(ALIAS_SECTORS * SECTOR_BYTES)
    }

    /// The request in pieces of which none crosses a place where what is shown changes.
    fn pieces(&self, request: Request) -> Vec<Request> {
        let (start, end) = (request.offset(), request.offset() + request.len() as u64);
        let edges = [self.alias_end(), self.start, end];
        let mut lengths = Vec::new();
        let mut at = start;
        for edge in edges.into_iter().filter(|edge| *edge <= end) {
            if edge > at {
                // Parts of the request.
                lengths.push((edge - at) as usize);
                at = edge;
            }
        }
        match lengths.len() {
            1 => vec![request],
            _ => request.split(&lengths),
        }
    }

    fn read(&self, mut request: Request) {
        let offset = request.offset();
        let below = match offset.checked_sub(self.start) {
            Some(below) => below,
            None if offset < self.alias_end() => offset,
            None => {
                let error = Error::failed(self.name(), offset, Errno::IO);
                return request.fail(0, error);
            }
        };
        let range = (below, request.len());
        let issuer = request.issuer();
        fetch(&*self.inner, issuer, range, move |bytes, result| {
            Scatter::new(request.slices_mut()).put(bytes);
            match result {
                Ok(()) => request.succeed(),
                Err(error) => request.fail(bytes.len(), error),
            }
        });
    }
}

impl Device for Session {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn length_bytes(&self) -> u64 {
        self.start.saturating_add(self.inner.length_bytes())
    }

    fn geometry(&self) -> Geometry {
        copying(self.inner.geometry())
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
    use crate::{Depth, unwrap};
    use pagewell_device::RamDevice;
    use pagewell_device::testing::{pattern, read, write};

    const SECTORS: usize = 120;
    const ROOT: usize = 20;

    /// A volume whose root is at sector 20, and says that it is at `root`.
    fn volume(root: u32) -> Vec<u8> {
        let mut data = pattern(SECTORS * 2048);
        data[32768..32774].copy_from_slice(b"\x01CD001");
        data[32768 + 128..][..2].copy_from_slice(&2048u16.to_le_bytes());
        for record in [32768 + 156, ROOT * 2048] {
            let record = &mut data[record..][..34];
            record.fill(0);
            record[0] = 34;
            record[2..6].copy_from_slice(&root.to_le_bytes());
            record[25] = 2;
            record[32] = 1;
        }
        data
    }

    fn opened(data: &[u8]) -> (Arc<dyn Device>, Vec<String>) {
        let device = Arc::new(RamDevice::holding("x", data));
        let found = unwrap(device, None, Depth::Open(&|_| {})).unwrap();
        let layers = found.layers.iter().map(ToString::to_string).collect();
        (found.device, layers)
    }

    #[test]
    fn sectors_are_where_the_disc_had_them() {
        for first in [45_150u32, 100, 90, 30, 1] {
            let data = volume(first + ROOT as u32);
            let (session, layers) = opened(&data);
            let words = format!("a session from sector {first} of its disc on");
            assert_eq!(layers, [words]);
            let start = first as usize * 2048;
            assert_eq!(session.length_bytes(), (start + data.len()) as u64);
            let whole = read(&*session, start as u64, data.len());
            assert!(whole.0.result.is_ok() && whole.1[..] == data);
            let alias = start.min(80 * 2048);
            let (outcome, bytes) = read(&*session, 100, alias - 100);
            assert!(outcome.result.is_ok() && bytes[..] == data[100..alias]);
            // Across the first edge, and what lies between.
            let (outcome, bytes) = read(&*session, 0, start.min(90 * 2048) + 5);
            let is_all = first <= 80;
            assert_eq!(outcome.result.is_ok(), is_all, "{first}");
            let filled = if is_all { start + 5 } else { alias };
            assert_eq!(outcome.transferred_bytes, filled as u64 as usize);
            assert!(bytes[..alias] == data[..alias]);
            if !is_all {
                let (outcome, _) = read(&*session, start as u64 - 1, 2);
                assert_eq!(outcome.transferred_bytes, 0);
                assert!(outcome.result.is_err());
            }
            assert!(write(&*session, 0, b"x").result.is_err());
        }
    }

    #[test]
    fn a_session_that_is_cut_off_says_so() {
        let mut data = volume(5000);
        data[32768 + 80..][..4].copy_from_slice(&(SECTORS as u32).to_le_bytes());
        let troubles = |length: usize| {
            let device = Arc::new(RamDevice::holding("x", &data[..length]));
            unwrap(device, None, Depth::Open(&|_| {})).unwrap().troubles
        };
        let whole = SECTORS * 2048;
        assert_eq!(troubles(whole), [""; 0]);
        assert_eq!(troubles(whole - 2047), [""; 0]);
        let said = "has 204800 of the 245760 bytes of its volume, as after an interrupted download";
        assert_eq!(troubles(100 * 2048), [said]);
        // A volume that counts from the beginning of the disc.
        data[32768 + 80..][..4].copy_from_slice(&6000u32.to_le_bytes());
        let device = Arc::new(RamDevice::holding("x", &data));
        let found = unwrap(device, None, Depth::Open(&|_| {})).unwrap();
        assert!(found.troubles.is_empty() && found.layers.len() == 1);
    }

    #[test]
    fn what_is_in_place_or_cannot_be_found_is_left_alone() {
        let nowhere = {
            let mut data = volume(5000);
            data[ROOT * 2048 + 2] ^= 1;
            data
        };
        let other_blocks = {
            let mut data = volume(5000);
            data[32768 + 129] = 2;
            data
        };
        for data in [
            volume(ROOT as u32),
            volume(10),
            volume(0),
            nowhere,
            other_blocks,
        ] {
            let (device, layers) = opened(&data);
            assert!(layers.is_empty(), "{layers:?}");
            assert_eq!(device.length_bytes(), data.len() as u64);
        }
        for length in (0..SECTORS * 2048).step_by(1000) {
            let _ = opened(&volume(5000)[..length]);
        }
    }
}
