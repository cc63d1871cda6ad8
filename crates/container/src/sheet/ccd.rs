//! Sheets of CloneCD: sections in brackets. The image beside it has whole sectors; its subchannels
//! are in a file of their own.

use super::{Found, NO_DATA, TRACKS_MAX, lines, number};
use crate::sector::Layout;
use crate::track::Track;

pub(super) fn parse(stem: &[u8], text: &[u8]) -> Result<Found, &'static str> {
    let mut track = None;
    let mut is_data = false;
    let mut lines = lines(text);
    while let Some(line) = lines.next() {
        if line.starts_with(b"[") {
            track = section(line);
            is_data = false;
            continue;
        }
        let Some(number_of_track) = track else {
            continue;
        };
        let (key, value) = entry(line);
        match (key.as_slice(), value) {
            (b"MODE", Some(mode)) => is_data = mode > 0,
            (b"INDEX 1", Some(sector)) if is_data => {
                let start = sector.checked_mul(Layout::RAW.stride_bytes());
                let track = Track {
                    start: start.ok_or("has a track behind the end of all discs")?,
                    length_bytes: u64::MAX,
                    layout: Layout::RAW,
                };
                return Ok(Found {
                    file: [stem, b".img"].concat(),
                    track,
                    number: number_of_track,
                    has_more: lines.any(|line| {
                        let (key, value) = entry(line);
                        key == b"MODE" && value.is_some_and(|mode| mode > 0)
                    }),
                });
            }
            _ => {}
        }
    }
    Err(NO_DATA)
}

/// `KEY=NUMBER`, the key in capitals.
fn entry(line: &[u8]) -> (Vec<u8>, Option<u64>) {
    let mut parts = line.splitn(2, |byte| *byte == b'=');
    let key = parts.next().unwrap_or_default();
    let key = key.trim_ascii().to_ascii_uppercase();
    (key, parts.next().and_then(number))
}

/// The number of the track whose section a line begins.
fn section(line: &[u8]) -> Option<usize> {
    let name = line.strip_prefix(b"[")?.strip_suffix(b"]")?;
    let track = name.to_ascii_uppercase();
    let number = number(track.strip_prefix(b"TRACK ")?)? as usize;
    (1..=TRACKS_MAX).contains(&number).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_data_track_is_found() {
        let text =
            b"[CloneCD]\r\nVersion=3\r\n[Entry 0]\r\nControl=0x04\r\n[TRACK 1]\r\nMODE=0\r\n\
                     INDEX 1=0\r\n[TRACK 2]\r\nMODE=1\r\nINDEX 0=100\r\nINDEX 1=250\r\n";
        let found = parse(b"game", text).ok().unwrap();
        assert_eq!(found.file, b"game.img");
        assert_eq!((found.number, found.track.start), (2, 250 * 2352));
        assert!(!found.has_more);
        let two = b"[TRACK 1]\nMODE=1\nINDEX 1=0\n[TRACK 2]\nMODE=2\nINDEX 1=9000\n";
        assert!(parse(b"game", two).ok().unwrap().has_more);
        assert!(parse(b"game", b"[TRACK 1]\nMODE=0\nINDEX 1=0").is_err());
        let far = b"[TRACK 1]\nMODE=1\nINDEX 1=18446744073709551615";
        assert!(parse(b"game", far).is_err());
    }
}
