//! Sheets of Alcohol 120% (version 1): a header, sessions and tracks, numbers little-endian.
//!
//! ```text
//!  header   16 "MEDIA DESCRIPTOR", 1 version; at 0x14 2 sessions; at 0x50 4 offset of sessions
//!  session  24 bytes: at 0x0a 1 blocks; at 0x14 4 offset of its blocks
//!  block    80 bytes: 1 mode, 1 subchannels; at 4 1 number of the track; at 0x10 2 sector size;
//!           at 0x24 4 first sector; at 0x28 8 offset in the image
//! ```
//!
//! (The layout is that which libmirage and cdemu read; there is no specification.)

use super::Found;
use super::ccd::end_where_the_next_begins;
use crate::bytes::{u16_little, u32_little, u64_little};
use crate::sector::Layout;
use crate::track::{Listed, Track};
use crate::tracks::TRACKS_MAX;

const SESSION_BYTES: usize = 24;
const SESSIONS_MAX: usize = 99;
const BLOCK_BYTES: usize = 80;
/// The lower bits of a mode; others tell how it was read.
const MODE: u8 = 0b111;
const MODE_AUDIO: u8 = 1;

pub(super) fn parse(stem: &[u8], sheet: &[u8]) -> Result<Found, &'static str> {
    let rest = sheet.strip_prefix(b"MEDIA DESCRIPTOR");
    match rest.and_then(<[u8]>::first) {
        None => return Err("is no sheet of Alcohol 120%"),
        Some(1) => {}
        Some(_) => return Err("is a sheet of a later version of Alcohol 120%, which is not read"),
    }
    let mut found = Found::default();
    let file = found.file(&[stem, b".mdf"].concat());
    for block in blocks(sheet).into_iter().flatten() {
        if let Some(track) = track(block, file) {
            found.add(track);
        }
    }
    end_where_the_next_begins(&mut found);
    Ok(found)
}

fn blocks(sheet: &[u8]) -> Option<impl Iterator<Item = &[u8]>> {
    let sessions = usize::from(u16_little(sheet, 0x14)?).min(SESSIONS_MAX);
    let first = u32_little(sheet, 0x50)? as usize;
    let sessions = sheet
        .get(first..)?
        .chunks_exact(SESSION_BYTES)
        .take(sessions);
    let blocks = sessions.filter_map(|session| {
        let count = usize::from(*session.get(0x0a)?);
        let at = u32_little(session, 0x14)? as usize;
        Some(sheet.get(at..)?.chunks_exact(BLOCK_BYTES).take(count))
    });
    Some(blocks.flatten())
}

fn track(block: &[u8], file: usize) -> Option<Listed> {
    let mode = block.first()? & MODE;
    let number = usize::from(*block.get(4)?);
    let sector_bytes = u16_little(block, 0x10)?;
    let layout = Layout::of_sector_bytes(u64::from(sector_bytes));
    (1..=TRACKS_MAX).contains(&number).then_some(())?;
    Some(Listed {
        number,
        is_data: mode > MODE_AUDIO && layout.is_some(),
        file: Some(file),
        track: Track {
            start: u64_little(block, 0x28)?,
            length_bytes: u64::MAX,
            layout: layout.unwrap_or(Layout::RAW.with_stride(sector_bytes.into())),
        },
        sector: u32_little(block, 0x24).map(u64::from),
        gap_sectors: 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sheet(blocks: &[(u8, u8, u16, u64)]) -> Vec<u8> {
        let mut sheet = vec![0; 0x58 + SESSION_BYTES];
        sheet[..16].copy_from_slice(b"MEDIA DESCRIPTOR");
        sheet[16] = 1;
        sheet[0x14] = 1;
        sheet[0x50] = 0x58;
        sheet[0x58 + 0x0a] = blocks.len() as u8;
        sheet[0x58 + 0x14] = 0x58 + SESSION_BYTES as u8;
        for (mode, point, sector, start) in blocks {
            let mut block = vec![0; BLOCK_BYTES];
            block[0] = *mode;
            block[4] = *point;
            block[0x10..0x12].copy_from_slice(&sector.to_le_bytes());
            block[0x24..0x28].copy_from_slice(&(*start as u32 / 4).to_le_bytes());
            block[0x28..0x30].copy_from_slice(&start.to_le_bytes());
            sheet.extend(block);
        }
        sheet
    }

    #[test]
    fn tracks_are_listed() {
        let blocks = [
            (0xa9, 0xa0, 0, 0),
            (0xa9, 1, 2352, 0),
            (0xec, 2, 2448, 9000),
        ];
        let found = parse(b"x", &sheet(&blocks)).ok().unwrap();
        assert_eq!(found.files, [b"x.mdf"]);
        let listed = found.tracks.iter();
        let listed: Vec<_> = listed
            .map(|it| (it.number, it.is_data, it.track.start, it.sector))
            .collect();
        // The recipe has sectors that are a fourth of the offsets.
        let expected = [(1, false, 0, Some(0)), (2, true, 9000, Some(2250))];
        assert_eq!(listed, expected);
        assert_eq!(found.tracks[0].track.length_bytes, 9000);
        assert_eq!(found.tracks[1].track.layout, Layout::WITH_SUBCHANNELS);
        let dvd = parse(b"x", &sheet(&[(0x02, 1, 2048, 0)])).ok().unwrap();
        assert_eq!(dvd.tracks[0].track.layout, Layout::COOKED);
        assert!(dvd.tracks[0].is_data && dvd.tracks[0].track.length_bytes == u64::MAX);
    }

    #[test]
    fn cut_sheets_are_errors() {
        let whole = sheet(&[(0xaa, 1, 2352, 0)]);
        for length in 0..whole.len() {
            let found = parse(b"x", &whole[..length]);
            assert!(found.is_ok_and(|found| found.tracks.is_empty()) || length < 17);
        }
        assert!(parse(b"x", &whole).is_ok());
    }
}
