//! Sheets of cdrdao: `TRACK MODE [SUBCHANNELS]`, then `DATAFILE "NAME" [#OFFSET] [LENGTH]`, the
//! length in frames or bytes. `//` begins a remark. Other programs (cueconvert) write
//! `FILE "NAME" START [LENGTH]` for data, too, as cdrdao has it for music: times count sectors.

use super::{Found, NO_DATA, TRACKS_MAX, frames, lines, number, quoted, split_word};
use crate::sector::Layout;
use crate::track::Track;

/// Subchannels are behind each sector where the mode is followed by this.
const SUBCHANNELS: [&[u8]; 2] = [b"RW", b"RW_RAW"];
const SUBCHANNEL_BYTES: u64 = 96;

pub(super) fn parse(_: &[u8], text: &[u8]) -> Result<Found, &'static str> {
    let mut layout = None;
    let mut number_of_track = 0;
    let mut lines = lines(text);
    while let Some(line) = lines.next() {
        let (word, rest) = split_word(line);
        match word.as_slice() {
            b"TRACK" => {
                layout = mode(rest);
                number_of_track += 1;
            }
            b"DATAFILE" | b"FILE" if number_of_track <= TRACKS_MAX => {
                let Some(layout) = layout else {
                    continue;
                };
                let (name, rest) = quoted(rest).ok_or("names no file")?;
                return Ok(Found {
                    file: name.to_owned(),
                    track: track(layout, rest, word == b"FILE"),
                    number: number_of_track,
                    has_more: lines.any(is_data),
                });
            }
            _ => {}
        }
    }
    Err(NO_DATA)
}

/// Whether a line begins a track of data.
fn is_data(line: &[u8]) -> bool {
    let (word, rest) = split_word(line);
    word == b"TRACK" && mode(rest).is_some()
}

fn mode(words: &[u8]) -> Option<Layout> {
    let (mode, subchannels) = split_word(words);
    let bytes: u64 = match mode.as_slice() {
        b"MODE1" | b"MODE2_FORM1" => 2048,
        b"MODE2" | b"MODE2_FORM_MIX" => 2336,
        b"MODE1_RAW" | b"MODE2_RAW" => 2352,
        _ => return None,
    };
    let (subchannels, _) = split_word(subchannels);
    let more = match SUBCHANNELS.contains(&subchannels.as_slice()) {
        true => SUBCHANNEL_BYTES,
        false => 0,
    };
    Layout::of_sector_bytes(bytes + more)
}

/// What follows the name of a file: a start, if there is one, and a length.
fn track(layout: Layout, rest: &[u8], has_start: bool) -> Track {
    let mut track = Track {
        start: 0,
        length_bytes: u64::MAX,
        layout,
    };
    let mut is_start = has_start;
    let words = rest.split(u8::is_ascii_whitespace);
    for word in words.filter(|word| !word.is_empty()) {
        if word.starts_with(b"//") {
            break;
        }
        if let Some(offset) = word.strip_prefix(b"#").and_then(number) {
            track.start = offset;
            continue;
        }
        let sectors = frames(word).map(|frames| frames.saturating_mul(layout.stride_bytes()));
        let Some(bytes) = sectors.or_else(|| number(word)) else {
            continue;
        };
        match is_start {
            true => track.start = track.start.saturating_add(bytes),
            false => track.length_bytes = bytes,
        }
        is_start = false;
    }
    track
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_data_track_is_found() {
        let of = |text: &str| {
            let found = parse(b"x", text.as_bytes()).ok().unwrap();
            let track = found.track;
            let stride = track.layout.stride_bytes();
            (found.number, track.start, track.length_bytes, stride)
        };
        let one = "CD_ROM_XA\n\n// Track 1\nTRACK MODE2_RAW\nNO COPY\n\
                   DATAFILE \"a.bin\" 00:02:01 // length in bytes: 354,000\n";
        assert_eq!(of(one), (1, 0, 151 * 2352, 2352));
        let second = "CD_DA\nTRACK AUDIO\nFILE \"a.bin\" 0 01:00:00\nTRACK MODE1_RAW RW_RAW\n\
                      DATAFILE \"a.bin\" #4711\n";
        assert_eq!(of(second), (2, 4711, u64::MAX, 2448));
        let as_music = "CD_DA\nTRACK AUDIO\nFILE \"a.bin\" 0 00:04:00\n\
                        TRACK MODE1_RAW\nFILE \"a.bin\" 00:04:00\n";
        assert_eq!(of(as_music), (2, 300 * 2352, u64::MAX, 2352));
        let first = "TRACK MODE1_RAW\nFILE \"a.bin\" 0 00:04:33\n";
        assert_eq!(of(first), (1, 0, 333 * 2352, 2352));
        let has_more = |text: &str| parse(b"x", text.as_bytes()).ok().unwrap().has_more;
        assert!(!has_more(one) && !has_more(first) && has_more(&[first, first].concat()));
        assert!(parse(b"x", b"CD_DA\nTRACK AUDIO\nFILE \"a.wav\" 0").is_err());
        assert!(parse(b"x", b"TRACK MODE1\nDATAFILE a.bin").is_err());
    }
}
