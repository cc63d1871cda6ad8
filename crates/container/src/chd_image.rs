//! CHD: images of MAME, of discs and of disks, in hunks that are compressed each by itself.
//!
//! The crate `chd` reads the format, but lacks bounds on what a header can claim, and the tracks of
//! a CD. A CD is frames of 2448 bytes that begin with a sector; tracks begin at frames whose number
//! is a multiple of four, and are described in metadata:
//!
//! ```text
//!  TRACK:1 TYPE:MODE1_RAW SUBTYPE:NONE FRAMES:1780 PREGAP:0 PGTYPE:MODE1 PGSUB:NONE POSTGAP:0
//! ```
//!
//! A pregap is among the frames where its type begins with V, a postgap never is. The frames of a
//! GD-ROM's track go up to the next track; the last `PAD` of them are padding.
//!
//! Hunks are read one after another, as the crate has one buffer. Only version 5 (since 2012) is
//! read, and no image that needs another one.

use std::io::{self, Read, Seek, SeekFrom};
use std::sync::Arc;

use chd::Chd;
use chd::metadata::{KnownMetadata, MetadataTag};
use pagewell_base::pieces::Pieces;
use pagewell_base::sync::Mutex;
use pagewell_device::{Device, Error as DeviceError, Issuer, Result as DeviceResult};
use rustix::io::Errno;

use crate::bytes::{self, u32_big, u64_big};
use crate::error::Error;
use crate::pool::{Decode, Decoded, KEPT_BYTES_MAX};
use crate::sector::Layout;
use crate::stream::source::{Failure, Source};
use crate::track::{Listed, Track};
use crate::tracks::{self, TRACKS_MAX, Table};
use crate::{Inside, Result, Wanted, raw, volume};

const MAGIC: &[u8] = b"MComprHD";
const HEADER_BYTES: usize = 124;
const VERSION: u32 = 5;
/// The table takes 12 bytes for each: 48 MiB, enough for discs in hunks of two sectors.
const HUNKS_MAX: u64 = 1 << 22;
const HUNK_BYTES: std::ops::RangeInclusive<u32> = 512..=1 << 20;
/// What one thread works on at a time, unless a hunk is longer.
const PIECE_BYTES: u64 = 128 << 10;
/// Asked for at once: some hunks.
const STEP_BYTES: usize = 64 << 10;
/// Entries of metadata that are looked at.
const METADATA_MAX: usize = 256;
/// Of a CD; and what the first frame of a track is a multiple of.
const FRAME_BYTES: u32 = 2448;
const TRACK_FRAMES: u64 = 4;

struct Hunks {
    below: Arc<dyn Device>,
    length_bytes: u64,
    hunk_bytes: u64,
    failure: Failure,
    image: Mutex<Image>,
    kept: Pieces<u64, Vec<u8>>,
}

/// The crate takes a short read for the end of the image, so that none may be short.
struct Whole(Source);

impl Read for Whole {
    fn read(&mut self, target: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while let Some(rest) = target.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            match self.0.read(rest)? {
                0 => break,
                count => filled += count,
            }
        }
        Ok(filled)
    }
}

impl Seek for Whole {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.0.seek(to)
    }
}

struct Image {
    chd: Chd<Whole>,
    stored: Vec<u8>,
}

/// Opens such an image: the track that is wanted or read by itself, or all of it.
pub(crate) fn open(device: &Arc<dyn Device>, wanted: &mut Wanted) -> Result<Option<Inside>> {
    let header = bytes::read(&**device, 0, HEADER_BYTES)?.unwrap_or_default();
    if !header.starts_with(MAGIC) {
        return Ok(None);
    }
    let damaged = |what: String| Error::damaged(&**device, format!("a CHD image {what}"));
    let version = u32_big(&header, 12).unwrap_or(0);
    if version != VERSION {
        return Err(damaged(format!("of version {version}, which is not read")));
    }
    let length_bytes = u64_big(&header, 32).unwrap_or(0);
    let hunk_bytes = u32_big(&header, 56).unwrap_or(0);
    let unit_bytes = u32_big(&header, 60).unwrap_or(0);
    let is_sound = HUNK_BYTES.contains(&hunk_bytes)
        && length_bytes.div_ceil(u64::from(hunk_bytes)) <= HUNKS_MAX;
    if !is_sound {
        return Err(damaged("whose header is damaged".to_owned()));
    }
    let source = Source::new(device, 0, u64::MAX, Issuer::Metadata).with_steps(STEP_BYTES);
    let failure = source.failure();
    let of_crate = |error: chd::Error| match failure.lock().take() {
        Some(error) => error.into(),
        None => damaged(format!("that cannot be opened: {error}")),
    };
    let mut chd = Chd::open(Whole(source), None).map_err(of_crate)?;
    let tracks = match unit_bytes {
        FRAME_BYTES => tracks(&mut chd),
        _ => Vec::new(),
    };
    if let Some(error) = failure.lock().take() {
        return Err(error.into());
    }
    let hunks = Hunks {
        below: device.clone(),
        length_bytes,
        hunk_bytes: u64::from(hunk_bytes),
        failure,
        image: Mutex::new(Image {
            chd,
            stored: Vec::new(),
        }),
        kept: Pieces::new(KEPT_BYTES_MAX, 1),
    };
    let whole: Arc<dyn Device> = Arc::new(Decoded::new(hunks));
    let words = format!("CHD, hunks of {hunk_bytes} bytes");
    with_track(whole, &tracks, words, wanted).map(Some)
}

/// A track, or all of the image when no track has a volume.
fn with_track(
    whole: Arc<dyn Device>,
    tracks: &[Listed],
    words: String,
    wanted: &mut Wanted,
) -> Result<Inside> {
    if !tracks.is_empty() {
        let table = Table {
            title: words.clone(),
            tracks,
            open_file: &|_| Ok(whole.clone()),
        };
        if let Some(found) = tracks::open(&table, wanted)? {
            return Ok(found);
        }
    }
    let found = match volume::is_in(&*whole).unwrap_or(false) {
        true => None,
        false => raw::open(&whole)?,
    };
    Ok(match found {
        Some(found) => Inside::new(found.device, format!("{words}, {}", found.words)),
        None => Inside::new(whole, words),
    })
}

fn tracks(chd: &mut Chd<Whole>) -> Vec<Listed> {
    let entries: Vec<_> = chd.metadata_refs().take(METADATA_MAX).collect();
    let of_tracks = [
        KnownMetadata::CdRomTrack.metatag(),
        KnownMetadata::CdRomTrack2.metatag(),
    ];
    let of_gd = KnownMetadata::GdRomTrack.metatag();
    let mut tracks: Vec<Listed> = Vec::new();
    let (mut frame, mut sector, mut postgap): (u64, u64, u64) = (0, 0, 0);
    for entry in entries.into_iter().flatten() {
        let is_gd = entry.metatag() == of_gd;
        if !is_gd && !of_tracks.contains(&entry.metatag()) {
            continue;
        }
        let Ok(entry) = entry.read(chd.inner()) else {
            break;
        };
        let text = String::from_utf8_lossy(&entry.value).into_owned();
        let field = |name: &str| {
            let mut words = text.trim_end_matches('\0').split_ascii_whitespace();
            words.find_map(|word| word.strip_prefix(name)?.strip_prefix(':'))
        };
        let count = |name: &str| {
            let count = field(name).and_then(|text| text.parse::<u32>().ok());
            u64::from(count.unwrap_or(0))
        };
        let frames = count("FRAMES");
        let is_pregap_stored = field("PGTYPE").is_some_and(|kind| kind.starts_with('V'));
        let pregap = if is_pregap_stored { count("PREGAP") } else { 0 };
        let layout = field("TYPE").and_then(layout_of);
        let data = frames.saturating_sub(pregap + count("PAD"));
        tracks.push(Listed {
            number: tracks.len() + 1,
            is_data: layout.is_some(),
            file: Some(0),
            track: Track {
                start: (frame + pregap) * u64::from(FRAME_BYTES),
                length_bytes: data * u64::from(FRAME_BYTES),
                layout: layout.unwrap_or(Layout::RAW.with_stride(FRAME_BYTES as usize)),
            },
            sector: is_gd.then_some(sector + pregap),
            gap_sectors: postgap + count("PREGAP"),
        });
        postgap = count("POSTGAP");
        sector += frames;
        frame = (frame + frames).next_multiple_of(TRACK_FRAMES);
    }
    tracks.truncate(TRACKS_MAX);
    tracks
}

fn layout_of(kind: &str) -> Option<Layout> {
    let layout = match kind {
        "MODE1" | "MODE2_FORM1" => Layout::COOKED,
        "MODE2" | "MODE2_FORM_MIX" => Layout::HEADLESS,
        "MODE1_RAW" | "MODE2_RAW" => Layout::RAW,
        _ => return None,
    };
    Some(layout.with_stride(FRAME_BYTES as usize))
}

impl Hunks {
    fn hunk(&self, number: u64) -> DeviceResult<Arc<Vec<u8>>> {
        if let Some(hunk) = self.kept.get(number) {
            return Ok(hunk);
        }
        let mut bytes = vec![0; self.hunk_bytes as usize];
        let mut image = self.image.lock();
        let Image { chd, stored } = &mut *image;
        let number_32 = u32::try_from(number).unwrap_or(u32::MAX);
        let hunk = chd.hunk(number_32);
        let read = hunk.and_then(|mut hunk| hunk.read_hunk_in(stored, &mut bytes));
        drop(image);
        let cause = self.failure.lock().take();
        match read {
            Ok(count) if count == self.hunk_bytes as usize => {
                Ok(self.kept.insert(number, bytes, count))
            }
            Ok(_) | Err(_) => Err(cause.unwrap_or_else(|| {
                DeviceError::failed(self.below.name(), number * self.hunk_bytes, Errno::IO)
            })),
        }
    }
}

impl Decode for Hunks {
    fn below(&self) -> &Arc<dyn Device> {
        &self.below
    }

    fn length_bytes(&self) -> u64 {
        self.length_bytes
    }

    fn piece_end(&self, offset: u64) -> u64 {
        let hunks = (PIECE_BYTES / self.hunk_bytes).max(1);
        (offset + 1).next_multiple_of(hunks * self.hunk_bytes)
    }

    fn turn(&self, _: u64) -> Option<usize> {
        Some(0)
    }

    fn width(&self) -> usize {
        1
    }

    fn read(&self, offset: u64, target: &mut [u8], _: Issuer) -> (usize, DeviceResult<()>) {
        let mut filled = 0;
        while let Some(rest) = target.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            let at = offset + filled as u64;
            let hunk = match self.hunk(at / self.hunk_bytes) {
                Ok(hunk) => hunk,
                Err(error) => return (filled, Err(error)),
            };
            let inside = (at % self.hunk_bytes) as usize;
            filled += bytes::copy(hunk.get(inside..).unwrap_or_default(), rest);
        }
        (filled, Ok(()))
    }
}
