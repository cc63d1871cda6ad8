//! Sheets of GD-ROMs: the number of tracks, then a line for each, in their order:
//!
//! ```text
//!  3
//!  1     0 4 2352 track01.bin 0      number, first sector, 4 data or 0 music, bytes of a sector,
//!  2   450 0 2352 track02.raw 0      file, offset in it
//!  3 45000 4 2352 track03.bin 0
//! ```
//!
//! A name with spaces may be in quotes. (Flycast and MAME read this; there is no specification.)

use super::{Found, lines, number, quoted, split_word};
use crate::sector::Layout;
use crate::track::{Listed, Track};
use crate::tracks::TRACKS_MAX;

const NOT_WELL_FORMED: &str = "is no list of the tracks of a GD-ROM";

pub(super) fn parse(_: &[u8], text: &[u8]) -> Result<Found, &'static str> {
    let mut lines = lines(text);
    let count = lines.next().and_then(number).ok_or(NOT_WELL_FORMED)?;
    let mut found = Found::default();
    for line in lines {
        let track = track(line, &mut found).ok_or(NOT_WELL_FORMED)?;
        let is_next = track.number == found.tracks.len() + 1 && track.number <= TRACKS_MAX;
        let before = found.tracks.last().and_then(|before| before.sector);
        if !is_next || (before.is_some() && track.sector <= before) {
            return Err("has tracks that are not in their order");
        }
        found.add(track);
    }
    match found.tracks.len() as u64 == count {
        true => Ok(found),
        false => Err("has not as many tracks as it says"),
    }
}

fn track(line: &[u8], found: &mut Found) -> Option<Listed> {
    let (number_word, rest) = split_word(line);
    let (sector, rest) = split_word(rest);
    let (kind, rest) = split_word(rest);
    let (sector_bytes, rest) = split_word(rest);
    let (name, offset) = quoted(rest).or_else(|| {
        let space = rest.iter().rposition(u8::is_ascii_whitespace)?;
        Some(rest.split_at(space))
    })?;
    let is_data = match kind.as_slice() {
        b"0" => false,
        b"4" => true,
        _ => return None,
    };
    let layout = Layout::of_sector_bytes(number(&sector_bytes)?)?;
    Some(Listed {
        number: usize::try_from(number(&number_word)?).ok()?,
        is_data,
        file: Some(found.file(name.trim_ascii())),
        track: Track {
            start: number(offset.trim_ascii())?,
            length_bytes: u64::MAX,
            layout,
        },
        sector: Some(number(&sector).filter(|it| u32::try_from(*it).is_ok())?),
        gap_sectors: 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const DISC: &str = "3\r\n1 0 4 2352 track01.bin 0\r\n 2  450 0 2352 \"track 02.raw\" 16\r\n\
                        3 45000 4 2048 a b.iso 0\r\n";

    #[test]
    fn tracks_are_listed() {
        let found = parse(b"x", DISC.as_bytes()).ok().unwrap();
        let names = [&b"track01.bin"[..], b"track 02.raw", b"a b.iso"];
        assert_eq!(found.files, names);
        let listed: Vec<_> = found
            .tracks
            .iter()
            .map(|it| (it.is_data, it.sector, it.track.start))
            .collect();
        let expected = [
            (true, Some(0), 0),
            (false, Some(450), 16),
            (true, Some(45_000), 0),
        ];
        assert_eq!(listed, expected);
        let strides = found.tracks.iter().map(|it| it.track.layout.stride_bytes());
        assert_eq!(strides.collect::<Vec<_>>(), [2352, 2352, 2048]);
    }

    #[test]
    fn each_number_is_checked() {
        for (from, to) in [
            ("3\r\n", "4\r\n"),
            ("3\r\n", "2\r\n"),
            ("3\r\n", ""),
            ("3\r\n", "three\r\n"),
            ("3\r\n", "18446744073709551615\r\n"),
            ("1 0 4", "2 0 4"),
            ("1 0 4", "1 0 5"),
            ("1 0 4", "1 -1 4"),
            ("1 0 4", "1 450 4"),
            ("3 45000", "3 449"),
            ("3 45000", "3 4294967296"),
            ("3 45000", "99999999999999999999 45000"),
            ("0 2352", "0 2353"),
            ("0 2352", "0 0"),
            (" 16", " 18446744073709551616"),
            (" 16", " -1"),
            (" 16", ""),
            ("a b.iso 0", "a"),
            ("a b.iso 0", ""),
        ] {
            let text = DISC.replace(from, to);
            assert_ne!(text, DISC);
            assert!(parse(b"x", text.as_bytes()).is_err(), "{text}");
        }
    }
}
