//! Cue sheets. Positions are frames of a file, in which each track has its size of sectors; a track
//! may begin with a pregap, from `INDEX 00` to `INDEX 01`.
//!
//! ```text
//!  file      | index 1 of track 1      | index 0 of track 2 | index 1 of track 2
//!  belongs   | track 1                 | no track           | track 2
//! ```
//!
//! Some programs begin a file for each track at its index 1, and leave its pregap at the end of the
//! file before.
//!
//! Sheets of several sessions say so in remarks (`REM SESSION 02`), and sheets of GD-ROMs where
//! their outer area begins (`REM HIGH-DENSITY AREA`).

use super::{Found, frames, lines, number, quoted, split_word};
use crate::sector::Layout;
use crate::track::{Listed, Track};
use crate::tracks::{HIGH_DENSITY_SECTOR, sectors_between_sessions};

/// Of sound.
const AUDIO_BYTES: u64 = 2352;
/// Of sound with pictures in its subchannels (CD+G).
const PICTURES_BYTES: u64 = 2448;
/// Of the first track of a session; many sheets leave it out.
const PREGAP_SECTORS: u64 = 150;
const NO_BYTES: &str = "has its data track in a file of sound";

#[derive(Default)]
struct Walk {
    found: Found,
    has_data_in_sound: bool,
    /// The current file, and whether sectors are in it as they are.
    file: Option<(Vec<u8>, bool)>,
    /// The current track, up to its index 1.
    number: usize,
    mode: Vec<u8>,
    is_waiting: bool,
    /// The current track has an index 0.
    has_pregap: bool,
    /// The track before is among those found.
    is_found: bool,
    /// Where its pregap begins in the file, in frames.
    begin: Option<u64>,
    /// Where the last index is, in frames and bytes, and the size of sectors behind it.
    frame: u64,
    byte: u64,
    sector_bytes: u64,
    /// Of the next track: sectors before it that are in no file, and its place if that is sure.
    gap_sectors: u64,
    session: u64,
    next_session: u64,
    sector: Option<u64>,
}

pub(super) fn parse(_: &[u8], text: &[u8]) -> Result<Found, &'static str> {
    let mut walk = Walk::default();
    for line in lines(text) {
        let (word, rest) = split_word(line);
        match word.as_slice() {
            b"FILE" => walk.file(rest),
            b"TRACK" => walk.track(rest),
            b"INDEX" => walk.index(rest)?,
            b"PREGAP" | b"POSTGAP" => {
                let gap = frames(rest).unwrap_or_default();
                walk.gap_sectors = walk.gap_sectors.saturating_add(gap);
            }
            b"REM" => walk.remark(rest),
            _ => {}
        }
    }
    let has_data = walk.found.tracks.iter().any(|it| it.is_data);
    match walk.has_data_in_sound && !has_data {
        true => Err(NO_BYTES),
        false => Ok(walk.found),
    }
}

/// Of `MODE1/2352`, `CDI/2336` and words without a number.
fn sector_bytes(mode: &[u8]) -> u64 {
    let slash = mode.iter().position(|byte| *byte == b'/');
    let said = slash.and_then(|slash| number(mode.get(slash + 1..)?));
    let others = match mode.eq_ignore_ascii_case(b"CDG") {
        true => PICTURES_BYTES,
        false => AUDIO_BYTES,
    };
    said.filter(|bytes| *bytes > 0).unwrap_or(others)
}

/// Whether such a track is of data that can be read.
fn is_data(mode: &[u8]) -> bool {
    let is_mode = mode.to_ascii_uppercase().starts_with(b"MODE");
    is_mode && mode.contains(&b'/') && Layout::of_sector_bytes(sector_bytes(mode)).is_some()
}

impl Walk {
    fn file(&mut self, rest: &[u8]) {
        let last_space = rest.iter().rposition(u8::is_ascii_whitespace);
        let unquoted = || rest.split_at(last_space.unwrap_or(rest.len()));
        let (name, kind) = quoted(rest).unwrap_or_else(unquoted);
        let is_binary = kind.trim_ascii().eq_ignore_ascii_case(b"BINARY");
        if self.is_waiting && self.has_pregap {
            self.end_file();
        }
        self.file = Some((name.to_owned(), is_binary));
        (self.frame, self.byte, self.sector_bytes) = (0, 0, 0);
        self.begin = Some(0);
    }

    /// The rest of the file belongs to the pregap of the current track.
    fn end_file(&mut self) {
        let file = self.stored_file();
        self.found.add_room(Listed {
            number: self.number,
            is_data: false,
            file,
            track: Track {
                start: self.byte,
                length_bytes: u64::MAX,
                layout: layout_of(self.sector_bytes),
            },
            sector: None,
            gap_sectors: 0,
        });
    }

    /// The current file, if sectors are in it as they are.
    fn stored_file(&mut self) -> Option<usize> {
        match &self.file {
            Some((name, true)) => Some(self.found.file(name)),
            _ => None,
        }
    }

    fn track(&mut self, rest: &[u8]) {
        let (number_word, mode) = split_word(rest);
        self.number = number(&number_word).map_or(0, |number| number as usize);
        self.mode = mode.to_owned();
        (self.is_waiting, self.has_pregap) = (true, false);
    }

    fn remark(&mut self, rest: &[u8]) {
        let (word, rest) = split_word(rest);
        match word.as_slice() {
            b"SESSION" => self.next_session = number(rest).unwrap_or_default(),
            b"HIGH-DENSITY" => self.sector = Some(HIGH_DENSITY_SECTOR),
            _ => {}
        }
    }

    fn index(&mut self, rest: &[u8]) -> Result<(), &'static str> {
        let (index, position) = split_word(rest);
        let (Some(index), Some(frame)) = (number(&index), frames(position)) else {
            return Err("has an index that is no time");
        };
        let own_bytes = sector_bytes(&self.mode);
        // Sectors before the first track of a file are of its size.
        let each = if self.sector_bytes == 0 {
            own_bytes
        } else {
            self.sector_bytes
        };
        let step = frame.checked_sub(self.frame);
        let step = step.and_then(|step| step.checked_mul(each));
        let byte = step.and_then(|step| self.byte.checked_add(step));
        self.byte = byte.ok_or("has indices that go backwards")?;
        self.frame = frame;
        if !self.is_waiting {
            return Ok(());
        }
        if self.begin.is_none() {
            self.end_track();
        }
        self.sector_bytes = own_bytes;
        self.has_pregap = true;
        let begin = *self.begin.get_or_insert(frame);
        if index > 0 {
            self.begin_track(own_bytes, frame - begin.min(frame));
        }
        Ok(())
    }

    /// The track before ends at the first index of the current one.
    fn end_track(&mut self) {
        let before = self.found.tracks.last_mut();
        if let Some(before) = before.filter(|_| self.is_found) {
            before.track.length_bytes = self.byte.saturating_sub(before.track.start);
        }
    }

    fn begin_track(&mut self, sector_bytes: u64, pregap: u64) {
        self.is_waiting = false;
        self.begin = None;
        let is_mode = is_data(&self.mode);
        let file = self.stored_file();
        self.has_data_in_sound |= is_mode && self.file.is_some() && file.is_none();
        let mut gap = std::mem::take(&mut self.gap_sectors).saturating_add(pregap);
        let before = self.session.max(1);
        if before < self.next_session {
            let between = sectors_between_sessions(before == 1);
            gap = gap.max(PREGAP_SECTORS).saturating_add(between);
        }
        self.session = before.max(self.next_session);
        self.is_found = self.found.add(Listed {
            number: self.number,
            is_data: is_mode && file.is_some(),
            file,
            track: Track {
                start: self.byte,
                length_bytes: u64::MAX,
                layout: layout_of(sector_bytes),
            },
            sector: self.sector.take(),
            gap_sectors: gap,
        });
    }
}

/// Of sectors of a size that is not known only that counts.
fn layout_of(sector_bytes: u64) -> Layout {
    let stride = usize::try_from(sector_bytes).unwrap_or(usize::MAX);
    let known = Layout::of_sector_bytes(sector_bytes);
    known.unwrap_or(Layout::RAW.with_stride(stride))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn track(text: &str) -> Result<(String, u64, u64, u64), &'static str> {
        let found = parse(b"x", text.as_bytes())?;
        let first = found.tracks.iter().find(|track| track.is_data);
        let first = first.ok_or("none")?;
        let file = found.files[first.file.unwrap()].clone();
        let track = first.track;
        let stride = track.layout.stride_bytes();
        let file = String::from_utf8(file).unwrap();
        Ok((file, track.start, track.length_bytes, stride))
    }

    #[test]
    fn the_first_data_track_is_found() {
        let one = "FILE \"a b.bin\" BINARY\r\n  TRACK 01 MODE2/2352\r\n    INDEX 01 00:00:00\r\n";
        assert_eq!(track(one), Ok(("a b.bin".into(), 0, u64::MAX, 2352)));
        let mixed = "\u{feff}rem x\nfile game.bin binary\ntrack 01 mode1/2352\nindex 01 00:00:00\n\
                     track 02 AUDIO\nINDEX 00 01:00:00\nINDEX 01 01:02:00\n";
        assert_eq!(
            track(mixed),
            Ok(("game.bin".into(), 0, 60 * 75 * 2352, 2352))
        );
        let music_first = "FILE \"g.bin\" BINARY\nTRACK 01 AUDIO\nINDEX 01 00:00:00\n\
                           TRACK 02 MODE1/2048\nINDEX 00 00:01:00\nINDEX 01 00:03:00\n\
                           TRACK 03 AUDIO\nINDEX 01 00:04:00\n";
        let start = 75 * 2352 + 150 * 2048;
        assert_eq!(
            track(music_first),
            Ok(("g.bin".into(), start, 75 * 2048, 2048))
        );
        let files = "FILE \"1.bin\" BINARY\nTRACK 01 AUDIO\nINDEX 01 00:00:00\n\
                     FILE \"2.bin\" BINARY\nTRACK 02 MODE2/2336\nINDEX 00 00:00:00\n\
                     INDEX 01 00:02:00\nFILE \"3.bin\" BINARY\nTRACK 03 AUDIO\nINDEX 01 00:00:00\n";
        assert_eq!(
            track(files),
            Ok(("2.bin".into(), 150 * 2336, u64::MAX, 2336))
        );
    }

    /// Numbers of tracks of data, and of each track its start, and its gap or place.
    fn listed(text: &str) -> (Vec<usize>, Vec<(u64, u64)>) {
        let tracks = parse(b"x", text.as_bytes()).ok().unwrap().tracks;
        let data = tracks.iter().filter(|it| it.is_data);
        let places = tracks.iter();
        let places = places.map(|it| (it.track.start, it.sector.unwrap_or(it.gap_sectors)));
        (data.map(|it| it.number).collect(), places.collect())
    }

    #[test]
    fn all_tracks_are_listed_with_what_lies_between_them() {
        let one_file = "FILE \"a.bin\" BINARY\nTRACK 01 MODE1/2352\nINDEX 01 00:00:00\n\
                        POSTGAP 00:00:05\nTRACK 02 AUDIO\nPREGAP 00:02:00\nINDEX 01 00:01:00\n\
                        TRACK 03 MODE2/2048\nINDEX 00 00:02:00\nINDEX 01 00:03:00\n\
                        INDEX 02 00:03:01\nTRACK 04 MODE2/2324\nINDEX 01 00:04:00\n";
        let third = 150 * 2352 + 75 * 2048;
        let places = [
            (0, 0),
            (75 * 2352, 155),
            (third, 75),
            (third + 75 * 2048, 0),
        ];
        assert_eq!(listed(one_file), (vec![1, 3], places.to_vec()));
        let track = |number: usize, kind: &str, more: &str| {
            format!(
                "FILE \"{number}.bin\" BINARY\nTRACK {number:02} {kind}\n{more}INDEX 01 00:02:00\n"
            )
        };
        let data = "MODE1/2352";
        let index_0 = "INDEX 00 00:00:00\n";
        let sessions = [
            "REM SESSION 01\n".to_owned() + &track(1, data, ""),
            track(2, "AUDIO", index_0),
            "REM SESSION 02\n".to_owned() + &track(3, data, ""),
            "REM SESSION 03\n".to_owned() + &track(4, data, index_0),
        ];
        let start = 150 * 2352;
        let gaps = [150, 150, 11_400, 6_900].map(|gap| (start, gap));
        assert_eq!(listed(&sessions.concat()), (vec![1, 3, 4], gaps.to_vec()));
        let outer = track(1, data, "") + "REM HIGH-DENSITY AREA\n" + &track(2, data, "");
        let places = vec![(start, 150), (start, 45_000)];
        assert_eq!(listed(&outer), (vec![1, 2], places));
    }

    #[test]
    fn sectors_have_the_size_that_their_mode_says() {
        for (mode, bytes) in [
            ("CDG", 2448),
            ("AUDIO", 2352),
            ("CDI/2336", 2336),
            ("mode2/2048", 2048),
        ] {
            let text = format!(
                "FILE \"a\" BINARY\nTRACK 01 {mode}\nINDEX 01 00:00:00\n\
                 TRACK 02 MODE1/2352\nINDEX 01 00:01:00\n"
            );
            let (_, places) = listed(&text);
            assert_eq!(places, [(0, 0), (75 * bytes, 0)], "{mode}");
        }
        let (data, _) = listed("FILE \"a\" BINARY\nTRACK 01 CDI/2352\nINDEX 01 00:00:00\n");
        assert!(data.is_empty());
    }

    #[test]
    fn a_track_that_is_refused_leaves_the_one_before_alone() {
        let text = "FILE \"a\" BINARY\nTRACK 01 MODE1/2048\nINDEX 01 00:00:00\n\
                    TRACK 00 AUDIO\nINDEX 01 00:01:00\nTRACK 100 AUDIO\nINDEX 01 00:03:00\n\
                    FILE \"b\" BINARY\nTRACK 02 AUDIO\nINDEX 01 00:00:00\n\
                    TRACK 00 AUDIO\nINDEX 01 00:09:00\nTRACK 03 AUDIO\nINDEX 01 00:10:00\n";
        let found = parse(b"x", text.as_bytes()).ok().unwrap();
        let of = |it: &Listed| (it.number, it.track.length_bytes);
        let lengths: Vec<_> = found.tracks.iter().map(of).collect();
        let expected = [(1, 75 * 2048), (2, 9 * 75 * 2352), (3, u64::MAX)];
        assert_eq!(lengths, expected);
    }

    #[test]
    fn a_pregap_at_the_end_of_the_file_before_takes_room() {
        let text = "FILE \"1\" BINARY\nTRACK 01 MODE1/2352\nINDEX 01 00:00:00\n\
                    TRACK 02 AUDIO\nINDEX 00 00:04:00\n\
                    FILE \"2\" BINARY\nINDEX 01 00:00:00\n\
                    TRACK 03 MODE1/2352\nINDEX 00 00:01:00\nINDEX 01 00:03:00\n";
        let found = parse(b"x", text.as_bytes()).ok().unwrap();
        let of = |it: &Listed| (it.number, it.file, it.track.start, it.gap_sectors);
        let tracks: Vec<_> = found.tracks.iter().map(of).collect();
        let expected = [
            (1, Some(0), 0, 0),
            (2, Some(0), 300 * 2352, 0),
            (2, Some(1), 0, 0),
            (3, Some(1), 225 * 2352, 150),
        ];
        assert_eq!(tracks, expected);
        assert_eq!(found.tracks[0].track.length_bytes, 300 * 2352);
        assert_eq!(found.tracks[1].track.sectors(Some(310 * 2352)), Some(10));
        assert!(found.tracks.iter().filter(|it| it.is_data).count() == 2);
    }

    #[test]
    fn sheets_without_data_say_so() {
        let audio = "FILE \"a.wav\" WAVE\nTRACK 01 AUDIO\nINDEX 01 00:00:00\n";
        assert_eq!(track(audio), Err("none"));
        assert_eq!(track(""), Err("none"));
        let wave = audio.replace("AUDIO", "MODE1/2352");
        assert_eq!(track(&wave), Err(NO_BYTES));
        for times in [
            "x",
            "1:2",
            "99999999999999999999:0:0",
            "18446744073709551615:00:00",
        ] {
            let bad = format!("FILE \"a\" BINARY\nTRACK 01 MODE1/2352\nINDEX 01 {times}");
            assert!(track(&bad).unwrap_err().contains("no time"), "{times}");
        }
        let back = "FILE \"a\" BINARY\nTRACK 01 AUDIO\nINDEX 01 00:09:00\nTRACK 02 MODE1/2352\n\
                    INDEX 01 00:01:00";
        assert!(track(back).unwrap_err().contains("backwards"));
    }
}
