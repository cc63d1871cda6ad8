//! Sheets of CloneCD. The image beside has whole sectors; subchannels are in a file of their own.
//!
//! ```text
//!  [Entry 3]  Session=2, Point=0x02 (a track; 0xa2: the end of the session), PLBA=11702
//!  [TRACK 2]  MODE=1, INDEX 1=0
//! ```
//!
//! Entries have sectors of the disc, indices count from the session's first. In the image sessions
//! follow each other at once.

use std::collections::BTreeMap;

use super::{Found, lines, number};
use crate::sector::Layout;
use crate::track::{Listed, Track};
use crate::tracks::TRACKS_MAX;

/// The point of the end of a session.
const LEAD_OUT: u64 = 0xa2;
const NOWHERE: &str = "has a track that is nowhere on a disc";

type Section = BTreeMap<Vec<u8>, u64>;

/// An entry of the table of the disc.
struct Entry {
    session: u64,
    point: u64,
    sector: u64,
}

pub(super) fn parse(stem: &[u8], text: &[u8]) -> Result<Found, &'static str> {
    let (entries, tracks) = sections(text);
    let mut found = Found::default();
    let file = found.file(&[stem, b".img"].concat());
    let mut place = Place::default();
    for (track, section) in tracks {
        // Of a track with its pregap alone.
        let Some(index) = section.get(b"INDEX 1".as_slice()) else {
            continue;
        };
        let entry = entries.iter().find(|entry| entry.point == track as u64);
        let sector = place.enter(&entries, (entry, *index)).ok_or(NOWHERE)?;
        let stored = sector.checked_sub(place.skipped).ok_or(NOWHERE)?;
        let start = stored.checked_mul(Layout::RAW.stride_bytes());
        found.add(Listed {
            number: track,
            is_data: section
                .get(b"MODE".as_slice())
                .is_some_and(|mode| *mode > 0),
            file: Some(file),
            track: Track {
                start: start.ok_or(NOWHERE)?,
                length_bytes: u64::MAX,
                layout: Layout::RAW,
            },
            sector: Some(sector),
            gap_sectors: 0,
        });
    }
    end_where_the_next_begins(&mut found);
    Ok(found)
}

/// Tracks of one file end where others begin.
pub(super) fn end_where_the_next_begins(found: &mut Found) {
    let starts: Vec<_> = found.tracks.iter().map(|it| it.track.start).collect();
    for listed in &mut found.tracks {
        let start = listed.track.start;
        let next = starts.iter().filter(|other| **other > start).min();
        listed.track.length_bytes = next.map_or(u64::MAX, |next| next - start);
    }
}

/// Where tracks are, session by session.
#[derive(Default)]
struct Place {
    session: u64,
    /// Sectors of the disc before this session that the image has not.
    skipped: u64,
}

impl Place {
    /// The sector of the disc where a track begins.
    fn enter(&mut self, entries: &[Entry], track: (Option<&Entry>, u64)) -> Option<u64> {
        let (Some(entry), index) = track else {
            return Some(track.1);
        };
        if entry.session > self.session {
            let begin = entry.sector.checked_sub(index).unwrap_or(entry.sector);
            let is_end = |it: &&Entry| it.session == self.session && it.point == LEAD_OUT;
            let end = entries.iter().find(is_end);
            if let Some(end) = end {
                self.skipped = self.skipped.checked_add(begin.checked_sub(end.sector)?)?;
            }
            self.session = entry.session;
        }
        Some(entry.sector)
    }
}

/// The entries, and the tracks in the order of their numbers.
fn sections(text: &[u8]) -> (Vec<Entry>, BTreeMap<usize, Section>) {
    let (mut entries, mut tracks) = (Vec::new(), BTreeMap::<usize, Section>::new());
    let mut name: &[u8] = b"";
    let mut entry = Section::new();
    for line in lines(text).chain([&b"["[..]]) {
        let (key, value) = key_and_value(line);
        match (line.starts_with(b"["), value) {
            (true, _) => {
                entries.extend(of_section(&std::mem::take(&mut entry)));
                name = line;
            }
            (false, Some(value)) => match track_number(name) {
                Some(number) => {
                    tracks.entry(number).or_default().insert(key, value);
                }
                None => {
                    entry.insert(key, value);
                }
            },
            (false, None) => {}
        }
    }
    (entries, tracks)
}

fn of_section(section: &Section) -> Option<Entry> {
    let value = |key: &[u8]| section.get(key).copied();
    Some(Entry {
        session: value(b"SESSION")?,
        point: value(b"POINT")?,
        sector: value(b"PLBA")?,
    })
}

/// `KEY=NUMBER`, the key in capitals, the number decimal or hexadecimal.
fn key_and_value(line: &[u8]) -> (Vec<u8>, Option<u64>) {
    let mut parts = line.splitn(2, |byte| *byte == b'=');
    let key = parts.next().unwrap_or_default();
    let key = key.trim_ascii().to_ascii_uppercase();
    let value = parts.next().and_then(|value| {
        let value = value.trim_ascii();
        match value.strip_prefix(b"0x") {
            Some(digits) => u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok(),
            None => number(value),
        }
    });
    (key, value)
}

fn track_number(line: &[u8]) -> Option<usize> {
    let name = line.strip_prefix(b"[")?.strip_suffix(b"]")?;
    let track = name.to_ascii_uppercase();
    let number = number(track.strip_prefix(b"TRACK ")?)? as usize;
    (1..=TRACKS_MAX).contains(&number).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(text: &[u8]) -> Vec<(usize, bool, u64, u64)> {
        let found = parse(b"game", text).ok().unwrap();
        assert_eq!(found.files, [b"game.img"]);
        let tracks = found.tracks.iter();
        let tracks = tracks.map(|it| {
            let sector = it.track.start / 2352;
            (it.number, it.is_data, sector, it.sector.unwrap())
        });
        tracks.collect()
    }

    #[test]
    fn tracks_are_listed() {
        let text =
            b"[CloneCD]\r\nVersion=3\r\n[Entry 0]\r\nControl=0x04\r\n[TRACK 1]\r\nMODE=0\r\n\
              INDEX 1=0\r\n[TRACK 2]\r\nMODE=1\r\nINDEX 0=100\r\nINDEX 1=250\r\n[TRACK 3]\r\n";
        assert_eq!(listed(text), [(1, false, 0, 0), (2, true, 250, 250)]);
        let found = parse(b"game", text).ok().unwrap();
        let lengths = found.tracks.iter().map(|it| it.track.length_bytes);
        assert_eq!(lengths.collect::<Vec<_>>(), [250 * 2352, u64::MAX]);
        let far = b"[TRACK 1]\nMODE=1\nINDEX 1=18446744073709551615";
        assert!(parse(b"game", far).is_err());
        assert!(listed(b"[TRACK 100]\nMODE=1\nINDEX 1=0\n[TRACK 0]\nMODE=1\nINDEX 1=0").is_empty());
    }

    /// Three sessions, the last one with its pregap in the image.
    #[test]
    fn sessions_follow_each_other_at_once_in_the_image() {
        let mut text = String::new();
        for (number, (session, point, sector)) in [
            (1, 0xa0, -150i64),
            (1, 0xa2, 300),
            (1, 1, 0),
            (2, 2, 11_700),
            (2, 0xa2, 12_000),
            (3, 3, 19_050),
        ]
        .into_iter()
        .enumerate()
        {
            text += &format!(
                "[Entry {number}]\nSession={session}\nPoint=0x{point:02x}\nPLBA={sector}\n"
            );
        }
        for (number, index) in [(1, 0), (2, 0), (3, 150)] {
            text += &format!("[TRACK {number}]\nMODE=1\nINDEX 1={index}\n");
        }
        let expected = [
            (1, true, 0, 0),
            (2, true, 300, 11_700),
            (3, true, 750, 19_050),
        ];
        assert_eq!(listed(text.as_bytes()), expected);
        let overlapping = text.replace("PLBA=11700", "PLBA=200");
        assert!(parse(b"game", overlapping.as_bytes()).is_err());
    }
}
