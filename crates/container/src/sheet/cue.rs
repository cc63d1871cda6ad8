//! Cue sheets. Positions are frames from the beginning of a file, in which tracks follow each other
//! with sectors of their own sizes; a track may begin with a pregap, from `INDEX 00` to `INDEX 01`.

use super::{Found, NO_DATA, TRACKS_MAX, frames, lines, number, quoted, split_word};
use crate::sector::Layout;
use crate::track::Track;

/// Of sound, and of sound with pictures beside it.
const AUDIO_BYTES: u64 = 2352;
const NO_BYTES: &str = "has its data track in a file of sound";

/// What was read up to a line.
#[derive(Default)]
struct Walk {
    file: Option<(Vec<u8>, bool)>,
    number: usize,
    /// Sectors of the current track, and of the one before it in this file.
    sector_bytes: u64,
    before_bytes: Option<u64>,
    layout: Option<Layout>,
    /// Where the last index is, in frames and bytes.
    frame: u64,
    byte: u64,
    found: Option<Found>,
}

pub(super) fn parse(_: &[u8], text: &[u8]) -> Result<Found, &'static str> {
    let mut walk = Walk::default();
    let mut lines = lines(text);
    for line in lines.by_ref() {
        let (word, rest) = split_word(line);
        match word.as_slice() {
            b"FILE" if walk.found.is_some() => break,
            b"FILE" => walk.file(rest),
            b"TRACK" => walk.track(rest),
            b"INDEX" if walk.index(rest)? => break,
            _ => {}
        }
    }
    let mut found = walk.found.ok_or(NO_DATA)?;
    let is_data = |line: &[u8]| {
        let (word, rest) = split_word(line);
        word == b"TRACK" && layout(split_word(rest).1).is_some()
    };
    let is_next = walk.number != found.number && walk.layout.is_some();
    found.has_more = is_next || lines.any(is_data);
    Ok(found)
}

/// How sectors are stored, by the mode of a track of data.
fn layout(mode: &[u8]) -> Option<Layout> {
    Layout::of_sector_bytes(sector_bytes(mode)?)
}

/// Of `MODE1/2352`.
fn sector_bytes(mode: &[u8]) -> Option<u64> {
    let mode = mode.to_ascii_uppercase();
    number(mode.strip_prefix(b"MODE")?.get(2..)?)
}

impl Walk {
    fn file(&mut self, rest: &[u8]) {
        let last_space = rest.iter().rposition(u8::is_ascii_whitespace);
        let unquoted = || rest.split_at(last_space.unwrap_or(rest.len()));
        let (name, kind) = quoted(rest).unwrap_or_else(unquoted);
        let is_binary = kind.trim_ascii().eq_ignore_ascii_case(b"BINARY");
        *self = Self {
            file: Some((name.to_owned(), is_binary)),
            ..Self::default()
        };
    }

    fn track(&mut self, rest: &[u8]) {
        let (number_word, mode) = split_word(rest);
        self.before_bytes = (self.number != 0).then_some(self.sector_bytes);
        self.number = number(&number_word).map_or(0, |number| number as usize);
        self.layout = layout(mode);
        self.sector_bytes = sector_bytes(mode).unwrap_or(AUDIO_BYTES);
    }

    /// Takes an index; whether the data track is known with its end.
    fn index(&mut self, rest: &[u8]) -> Result<bool, &'static str> {
        let (index, position) = split_word(rest);
        let (Some(index), Some(frame)) = (number(&index), frames(position)) else {
            return Err("has an index that is no time");
        };
        let each = self.before_bytes.take().unwrap_or(self.sector_bytes);
        let step = frame.checked_sub(self.frame);
        let step = step.and_then(|step| step.checked_mul(each));
        let byte = step.and_then(|step| self.byte.checked_add(step));
        self.byte = byte.ok_or("has indices that go backwards")?;
        self.frame = frame;
        if let Some(found) = self
            .found
            .as_mut()
            .filter(|found| found.number != self.number)
        {
            found.track.length_bytes = self.byte.saturating_sub(found.track.start);
            return Ok(true);
        }
        let Some(layout) = self.layout.filter(|_| index == 1 && self.found.is_none()) else {
            return Ok(false);
        };
        match &self.file {
            Some((file, true)) if (1..=TRACKS_MAX).contains(&self.number) => {
                self.found = Some(Found {
                    file: file.clone(),
                    track: Track {
                        start: self.byte,
                        length_bytes: u64::MAX,
                        layout,
                    },
                    number: self.number,
                    has_more: false,
                });
                Ok(false)
            }
            Some((_, false)) => Err(NO_BYTES),
            _ => Ok(false),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn track(text: &str) -> Result<(String, u64, u64, u64), &'static str> {
        let found = parse(b"x", text.as_bytes())?;
        let track = found.track;
        let stride = track.layout.stride_bytes();
        let file = String::from_utf8(found.file).unwrap();
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

    #[test]
    fn a_second_data_track_is_known() {
        let one = "FILE \"a.bin\" BINARY\nTRACK 01 MODE1/2352\nINDEX 01 00:00:00\n";
        let has_more = |more: &str| parse(b"x", format!("{one}{more}").as_bytes()).ok().unwrap();
        let has_more = |more: &str| has_more(more).has_more;
        let music = "TRACK 02 AUDIO\nINDEX 01 00:09:00\n";
        let data = "TRACK 03 MODE2/2352\nINDEX 01 00:19:00\n";
        let file = "FILE \"b.bin\" BINARY\n";
        assert!(!has_more("") && !has_more(music) && !has_more(&[file, music].concat()));
        assert!(has_more(data) && has_more(&[music, data].concat()));
        assert!(has_more(&[file, data].concat()) && has_more(&[file, music, data].concat()));
    }

    #[test]
    fn sheets_without_data_say_so() {
        let audio = "FILE \"a.wav\" WAVE\nTRACK 01 AUDIO\nINDEX 01 00:00:00\n";
        assert_eq!(track(audio), Err(NO_DATA));
        assert_eq!(track(""), Err(NO_DATA));
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
