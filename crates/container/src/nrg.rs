//! Images of Nero (`.nrg`).
//!
//! Behind the tracks come chunks of a name, a length and contents, numbers big-endian. The file
//! ends with the place of the first: `NER5` and 8 bytes, before version 5.5 `NERO` and 4 bytes. A
//! session burnt at once has a chunk `DAOX` (`DAOI`), one burnt track by track `ETN2` (`ETNF`):
//!
//! ```text
//!  DAOX  12..22: length, catalogue number, first and last track at 20, 21; then for each track
//!        12 bytes of ISRC, 2 of sector size, 2 of mode, 2 unused, 8 index 0, 8 index 1, 8 end
//!  DAOI  the same with 4 bytes each for index 0, index 1, end
//!  ETN2  for each track: 8 offset, 8 length, 4 mode, 4 address on the disc, 8 unused
//!  ETNF  the same with 4 bytes of offset, length, mode, address, and 4 unused
//! ```
//!
//! Tracks burnt at once have no addresses. An entry that is damaged is a track that cannot be read,
//! of a length that is not known; those behind it keep their numbers.
//!
//! (The layout is that which libmirage, libcdio and cdemu read; there is no specification.)

use std::sync::Arc;

use pagewell_device::Device;

use crate::bytes::{self, array, u16_big, u32_big, u64_big};
use crate::error::Error;
use crate::sector::Layout;
use crate::track::{Listed, Track};
use crate::tracks::{self, TRACKS_MAX, Table, sectors_between_sessions};
use crate::{Inside, Result, Wanted, raw};

/// Chunks that are looked at, and bytes of each.
const CHUNKS_MAX: usize = 256;
const CHUNK_BYTES_MAX: usize = 16 << 10;

const DAO_HEAD_BYTES: usize = 22;
const DAO_NUMBERS: usize = 18;

pub(crate) fn open(device: &Arc<dyn Device>, wanted: &mut Wanted) -> Result<Option<Inside>> {
    let Some(chunks) = chunks_start(&**device)? else {
        return Ok(None);
    };
    let table = Table {
        title: "Nero image".to_owned(),
        tracks: &tracks(&**device, chunks)?,
        open_file: &|_| Ok(device.clone()),
    };
    if let Some(found) = tracks::open(&table, wanted)? {
        return Ok(Some(found));
    }
    // What its chunks do not say, its sectors may.
    if let Some(found) = raw::open(device)? {
        return Ok(Some(found));
    }
    let what = "a Nero image without a data track that can be read";
    Err(Error::damaged(&**device, what))
}

/// Where the chunks begin; `None` where this is no such image.
fn chunks_start(device: &dyn Device) -> Result<Option<u64>> {
    const FOOTER_BYTES: usize = 12;
    let length = device.length_bytes();
    let Some(start) = length.checked_sub(FOOTER_BYTES as u64) else {
        return Ok(None);
    };
    let footer = bytes::read(device, start, FOOTER_BYTES)?.unwrap_or_default();
    let chunks = match footer.as_slice() {
        [b'N', b'E', b'R', b'5', ..] => u64_big(&footer, 4),
        [_, _, _, _, b'N', b'E', b'R', b'O', ..] => u32_big(&footer, 8).map(u64::from),
        _ => None,
    };
    Ok(chunks.filter(|chunks| *chunks < start))
}

fn tracks(device: &dyn Device, chunks: u64) -> Result<Vec<Listed>> {
    let mut tracks: Vec<Listed> = Vec::new();
    let mut position = chunks;
    for _ in 0..CHUNKS_MAX {
        let Some(head) = bytes::read(device, position, 8)? else {
            break;
        };
        let name = array::<4>(&head, 0).unwrap_or_default();
        let length = u32_big(&head, 4).unwrap_or(0);
        let contents_bytes = (length as usize).min(CHUNK_BYTES_MAX);
        let start = position + 8;
        let contents = bytes::read(device, start, contents_bytes)?.unwrap_or_default();
        let mut session = match &name {
            b"DAOX" => at_once(&contents, 8, u64_big),
            b"DAOI" => at_once(&contents, 4, |bytes, at| u32_big(bytes, at).map(u64::from)),
            b"ETN2" => by_track(&contents, 8, u64_big),
            b"ETNF" => by_track(&contents, 4, |bytes, at| u32_big(bytes, at).map(u64::from)),
            b"END!" => break,
            _ => Vec::new(),
        };
        if let Some(first) = session.first_mut().filter(|_| !tracks.is_empty()) {
            let is_second = tracks
                .iter()
                .all(|it| it.gap_sectors < sectors_between_sessions(true));
            first.gap_sectors += sectors_between_sessions(is_second);
        }
        for mut track in session {
            track.number = tracks.len() + 1;
            tracks.push(track);
        }
        tracks.truncate(TRACKS_MAX);
        position = start + u64::from(length);
    }
    Ok(tracks)
}

type Number = fn(&[u8], usize) -> Option<u64>;

/// The tracks of `DAOX` and `DAOI`, whose offsets take so many bytes.
fn at_once(contents: &[u8], offset_bytes: usize, number: Number) -> Vec<Listed> {
    let tracks = contents.get(DAO_HEAD_BYTES..).unwrap_or_default();
    let each = DAO_NUMBERS + 3 * offset_bytes;
    let track = |track: &[u8]| {
        let mode = *track.get(14)?;
        let sector_bytes = u16_big(track, 12)?;
        let begin = number(track, DAO_NUMBERS)?;
        let start = number(track, DAO_NUMBERS + offset_bytes)?;
        let end = number(track, DAO_NUMBERS + 2 * offset_bytes)?;
        let layout = Layout::of_sector_bytes(u64::from(sector_bytes));
        let gap_bytes = start.saturating_sub(begin);
        let gap = gap_bytes.checked_div(u64::from(sector_bytes))?;
        Some(Listed {
            number: 0,
            is_data: layout_of(mode).is_some() && layout.is_some(),
            file: Some(0),
            track: Track {
                start,
                length_bytes: end.checked_sub(start)?,
                layout: layout.unwrap_or(Layout::RAW.with_stride(sector_bytes.into())),
            },
            sector: None,
            // More than a disc has is no gap.
            gap_sectors: gap.min(u32::MAX.into()),
        })
    };
    let tracks = tracks.chunks_exact(each);
    tracks.map(|it| track(it).unwrap_or(DAMAGED)).collect()
}

const DAMAGED: Listed = Listed {
    number: 0,
    is_data: false,
    file: None,
    track: Track {
        start: 0,
        length_bytes: u64::MAX,
        layout: Layout::RAW,
    },
    sector: None,
    gap_sectors: 0,
};

fn by_track(contents: &[u8], offset_bytes: usize, number: Number) -> Vec<Listed> {
    let each = 2 * offset_bytes + 8 + offset_bytes;
    let track = |track: &[u8]| {
        let mode = u8::try_from(u32_big(track, 2 * offset_bytes)?).ok()?;
        let layout = layout_of(mode);
        Some(Listed {
            number: 0,
            is_data: layout.is_some(),
            file: Some(0),
            track: Track {
                start: number(track, 0)?,
                length_bytes: number(track, offset_bytes)?,
                layout: layout.unwrap_or(Layout::RAW),
            },
            sector: u32_big(track, 2 * offset_bytes + 4).map(u64::from),
            gap_sectors: 0,
        })
    };
    let tracks = contents.chunks_exact(each);
    tracks.map(|it| track(it).unwrap_or(DAMAGED)).collect()
}

fn layout_of(mode: u8) -> Option<Layout> {
    Some(match mode {
        0 | 2 => Layout::COOKED,
        3 => Layout::HEADLESS,
        5 | 6 => Layout::RAW,
        15 | 17 => Layout::WITH_SUBCHANNELS,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sector::make_raw;
    use crate::{Depth, unwrap};
    use pagewell_device::RamDevice;
    use pagewell_device::testing::{pattern, read};

    fn chunk(name: &[u8], contents: &[u8]) -> Vec<u8> {
        let length = u32::try_from(contents.len()).unwrap();
        [name, &length.to_be_bytes(), contents].concat()
    }

    fn volume() -> Vec<u8> {
        let mut data = pattern(30 * 2048);
        data[32768..32774].copy_from_slice(b"\x01CD001");
        data
    }

    /// Tracks, chunks and a footer.
    fn image(tracks: &[u8], chunk: &[u8], is_old: bool) -> Vec<u8> {
        let start = tracks.len();
        let footer = match is_old {
            true => [&b"NERO"[..], &(start as u32).to_be_bytes()].concat(),
            false => [&b"NER5"[..], &(start as u64).to_be_bytes()].concat(),
        };
        [tracks, chunk, b"END!\0\0\0\0", &footer].concat()
    }

    fn dao(offset_bytes: usize, tracks: &[(u16, u8, u64, u64, u64)]) -> Vec<u8> {
        let mut contents = vec![0; DAO_HEAD_BYTES];
        for (sector, mode, index_0, index_1, end) in tracks {
            contents.extend([0; 12]);
            contents.extend(sector.to_be_bytes());
            contents.extend([*mode, 0, 0, 1]);
            for number in [index_0, index_1, end] {
                contents.extend(&number.to_be_bytes()[8 - offset_bytes..]);
            }
        }
        contents
    }

    #[track_caller]
    fn expect(image: &[u8], words: &str) {
        let device: Arc<dyn Device> = Arc::new(RamDevice::holding("x.nrg", image));
        let found = unwrap(device, Wanted::default(), Depth::Open(&|_| {})).unwrap();
        assert_eq!(found.layers[0].to_string(), words);
        let data = volume();
        assert_eq!(found.device.length_bytes(), data.len() as u64);
        assert!(read(&*found.device, 0, data.len()).1[..] == data);
    }

    #[test]
    fn tracks_are_found_in_each_chunk() {
        let audio = pattern(2352 * 10);
        let raw = make_raw(Layout::RAW, 1, &volume());
        let end = (audio.len() + raw.len()) as u64;
        let tracks = [audio.clone(), raw].concat();
        let at = audio.len() as u64;
        let list = [(2352, 7, 0, 0, at), (2352, 5, at, at, end)];
        let words = "Nero image, track 2, raw sectors of 2352 bytes, mode 1";
        let new = chunk(b"DAOX", &dao(8, &list));
        expect(
            &image(&tracks, &[chunk(b"CUEX", &[1; 24]), new].concat(), false),
            words,
        );
        expect(
            &image(&tracks, &chunk(b"DAOI", &dao(4, &list)), true),
            words,
        );
        let mut etn2 = Vec::new();
        let mut etnf = Vec::new();
        for (offset, length, mode) in [(0, at, 7u32), (at, end - at, 5)] {
            etn2.extend(offset.to_be_bytes());
            etn2.extend(length.to_be_bytes());
            etn2.extend(mode.to_be_bytes());
            etn2.extend([0; 12]);
            etnf.extend((offset as u32).to_be_bytes());
            etnf.extend((length as u32).to_be_bytes());
            etnf.extend(mode.to_be_bytes());
            etnf.extend([0; 8]);
        }
        expect(&image(&tracks, &chunk(b"ETN2", &etn2), false), words);
        expect(&image(&tracks, &chunk(b"ETNF", &etnf), true), words);
    }

    #[test]
    fn a_damaged_entry_leaves_the_numbers_of_others() {
        let raw = make_raw(Layout::RAW, 1, &volume());
        let end = raw.len() as u64;
        let words = "Nero image, track 3, raw sectors of 2352 bytes, mode 1";
        for broken in [(2352, 5, 9, 9, 8), (0, 5, 0, 0, 9)] {
            let list = [(2352, 7, 0, 0, 0), broken, (2352, 5, 0, 0, end)];
            expect(&image(&raw, &chunk(b"DAOX", &dao(8, &list)), false), words);
        }
        let mut etn2 = Vec::new();
        for mode in [7u32, 0x0100_0005, 5] {
            etn2.extend(0u64.to_be_bytes());
            etn2.extend(end.to_be_bytes());
            etn2.extend(mode.to_be_bytes());
            etn2.extend([0; 12]);
        }
        expect(&image(&raw, &chunk(b"ETN2", &etn2), false), words);
    }

    #[test]
    fn a_pregap_is_left_out() {
        let gap = 150 * 2048;
        let tracks = [vec![0; gap], volume()].concat();
        let list = [(2048, 0, 0, gap as u64, tracks.len() as u64)];
        let image = image(&tracks, &chunk(b"DAOX", &dao(8, &list)), false);
        expect(&image, "Nero image, track 1, sectors of 2048 bytes");
    }

    #[test]
    fn damage_is_no_panic() {
        let raw = make_raw(Layout::RAW, 1, &volume());
        let list = [(2352, 5, 0, 0, raw.len() as u64)];
        let image = image(&raw, &chunk(b"DAOX", &dao(8, &list)), false);
        let from = raw.len();
        for at in from..image.len() {
            for value in [0, 1, 0x7f, 0xff] {
                let mut damaged = image.clone();
                damaged[at] = value;
                let device: Arc<dyn Device> = Arc::new(RamDevice::holding("x.nrg", &damaged));
                let _ = open(&device, &mut Wanted::default());
            }
        }
        let audio = pattern(2352 * 20);
        let chunk = chunk(b"DAOX", &dao(8, &[(2352, 7, 0, 0, 0)]));
        let device: Arc<dyn Device> = Arc::new(RamDevice::holding(
            "x.nrg",
            &super::tests::image(&audio, &chunk, false),
        ));
        let error = open(&device, &mut Wanted::default())
            .err()
            .unwrap()
            .to_string();
        assert_eq!(
            error,
            "x.nrg: a Nero image without a data track that can be read"
        );
    }
}
