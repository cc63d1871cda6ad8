//! Sheets of cdrdao: `TRACK MODE [SUBCHANNELS]`, then `DATAFILE "NAME" [#OFFSET] [LENGTH]`, the
//! length in frames or bytes. `//` begins a remark. cueconvert writes `FILE "NAME" START [LENGTH]`
//! for data, too, as cdrdao does for music: times count sectors.

use super::{Found, frames, lines, number, quoted, split_word};
use crate::sector::Layout;
use crate::track::{Listed, Track};

/// Subchannels are behind each sector where the mode is followed by this.
const SUBCHANNELS: [&[u8]; 2] = [b"RW", b"RW_RAW"];
const SUBCHANNEL_BYTES: u64 = 96;
/// A frame of music has so many samples.
const SAMPLES: u64 = 588;

pub(super) fn parse(_: &[u8], text: &[u8]) -> Result<Found, &'static str> {
    let mut found = Found::default();
    let (mut layout, mut number, mut gap_sectors) = (None, 0, 0u64);
    // Of the current track alone.
    let mut own_gap = 0u64;
    for line in lines(text) {
        let (word, rest) = split_word(without_remark(line));
        match word.as_slice() {
            b"TRACK" => {
                layout = mode(rest);
                number += 1;
                own_gap = 0;
            }
            // What is in no file; the last word is how long it is.
            b"ZERO" | b"SILENCE" | b"PREGAP" => {
                let last = rest.rsplit(u8::is_ascii_whitespace).next();
                let gap = last.and_then(frames).unwrap_or_default();
                gap_sectors = gap_sectors.saturating_add(gap);
                own_gap = own_gap.saturating_add(gap);
            }
            // Where the pregap ends, of which a part may be in the file.
            b"START" => {
                let stored = frames(rest).unwrap_or_default().saturating_sub(own_gap);
                let last = found.tracks.last_mut();
                if let Some(last) = last.filter(|it| it.number == number && it.is_data) {
                    last.leave_out(stored);
                }
            }
            b"DATAFILE" | b"FILE" | b"AUDIOFILE" => {
                let (name, track) = match layout {
                    Some(layout) => {
                        let (name, rest) = quoted(rest).ok_or("names no file")?;
                        (Some(name), track(layout, rest, word == b"FILE"))
                    }
                    None => (None, music(rest)),
                };
                // What follows in the same track only takes room.
                let is_first = found.tracks.last().is_none_or(|it| it.number != number);
                if let (false, Some(sectors)) = (is_first, track.sectors(None)) {
                    gap_sectors = gap_sectors.saturating_add(sectors);
                    continue;
                }
                let listed = Listed {
                    number,
                    is_data: is_first && name.is_some(),
                    file: name.map(|name| found.file(name)),
                    track,
                    sector: None,
                    gap_sectors: std::mem::take(&mut gap_sectors),
                };
                match is_first {
                    true => drop(found.add(listed)),
                    false => found.add_room(listed),
                }
            }
            _ => {}
        }
    }
    Ok(found)
}

/// A line up to its remark.
fn without_remark(line: &[u8]) -> &[u8] {
    let mut is_quoted = false;
    let is_remark = |pair: &[u8]| {
        is_quoted ^= pair.starts_with(b"\"");
        !is_quoted && pair == b"//"
    };
    let end = line.windows(2).position(is_remark);
    line.get(..end.unwrap_or(line.len()))
        .unwrap_or(line)
        .trim_ascii()
}

/// Music, of which only the length counts, in frames or samples.
fn music(rest: &[u8]) -> Track {
    let (_, words) = quoted(rest).unwrap_or((b"", rest));
    let mut words = words.split(u8::is_ascii_whitespace);
    let mut words = words.by_ref().filter(|word| !word.is_empty());
    // The start, which is there always, and the length.
    let length = words.nth(1);
    let samples = |word: &[u8]| number(word).map(|samples| samples / SAMPLES);
    let sectors = length.and_then(|word| frames(word).or_else(|| samples(word)));
    let bytes = |sectors: u64| sectors.saturating_mul(Layout::RAW.stride_bytes());
    Track {
        start: 0,
        length_bytes: sectors.map_or(u64::MAX, bytes),
        layout: Layout::RAW,
    }
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
            let first = found.tracks.iter().find(|it| it.is_data).unwrap();
            let track = first.track;
            let stride = track.layout.stride_bytes();
            (first.number, track.start, track.length_bytes, stride)
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
        let music = parse(b"x", b"CD_DA\nTRACK AUDIO\nFILE \"a.wav\" 0")
            .ok()
            .unwrap();
        assert!(music.tracks.iter().all(|it| !it.is_data));
        assert!(parse(b"x", b"TRACK MODE1\nDATAFILE a.bin").is_err());
    }

    #[test]
    fn a_pregap_in_the_file_is_left_out() {
        let of = |before: &str, length: &str| {
            let text = format!(
                "TRACK AUDIO\nFILE \"a\" 0 00:01:00\nSILENCE 00:00:10\nTRACK MODE1_RAW\n\
                 {before}DATAFILE \"b\" #100 {length}\nSTART 00:02:00\n"
            );
            let found = parse(b"x", text.as_bytes()).ok().unwrap();
            let data = &found.tracks[1];
            (data.gap_sectors, data.track.start, data.track.length_bytes)
        };
        let sector = 2352;
        let all = of("", "00:04:00");
        assert_eq!(all, (160, 100 + 150 * sector, 150 * sector));
        let half = of("ZERO MODE1_RAW 00:01:00\n", "");
        assert_eq!(half, (160, 100 + 75 * sector, u64::MAX));
        let none = of("ZERO MODE1_RAW 00:02:00\n", "00:04:00");
        assert_eq!(none, (160, 100, 300 * sector));
        let text = "TRACK MODE1_RAW\nDATAFILE \"a\"\nSTART 9999999999999:00:00\n";
        let far = parse(b"x", text.as_bytes()).ok().unwrap();
        assert_eq!(far.tracks[0].track.start, u64::MAX);
    }

    #[test]
    fn all_tracks_are_listed_with_what_lies_between_them() {
        let text = "CD_ROM\nTRACK MODE1_RAW\nDATAFILE \"1.bin\" 00:04:00\n\
                    TRACK AUDIO\nPREGAP 00:02:00\nAUDIOFILE \"2.wav\" 0 00:03:00 // x\n\
                    FILE \"a//3.wav\" 0 5880\nTRACK MODE1\nZERO MODE1 00:00:05 // x\n\
                    DATAFILE \"1.bin\" #705600\nSTART 00:00:05\n";
        let found = parse(b"x", text.as_bytes()).ok().unwrap();
        assert_eq!(found.files, [b"1.bin"]);
        let listed: Vec<_> = found
            .tracks
            .iter()
            .map(|it| {
                (
                    it.number,
                    it.is_data,
                    it.gap_sectors,
                    it.track.sectors(None),
                )
            })
            .collect();
        let expected = [
            (1, true, 0, Some(300)),
            (2, false, 150, Some(225)),
            (3, true, 15, None),
        ];
        assert_eq!(listed, expected);
    }

    /// As of a recording that was cut into pieces, or has silence everywhere.
    #[test]
    fn a_track_of_many_parts_costs_no_track_behind_it() {
        let parts = "FILE \"a.wav\" 0 00:00:01\n".repeat(300);
        let open = "DATAFILE \"2.bin\" #1\n".repeat(300);
        let text = format!(
            "TRACK AUDIO\n{parts}TRACK MODE1_RAW\nDATAFILE \"1.bin\" 00:04:00\n{open}\
             TRACK MODE1_RAW\nDATAFILE \"3.bin\"\n"
        );
        let found = parse(b"x", text.as_bytes()).ok().unwrap();
        let data = found.tracks.iter().filter(|it| it.is_data);
        let data: Vec<_> = data.map(|it| (it.number, it.gap_sectors)).collect();
        assert_eq!(data, [(2, 299), (3, 0)]);
        assert_eq!(found.files, [&b"1.bin"[..], b"2.bin", b"3.bin"]);
        assert!(found.tracks.len() <= 2 * crate::tracks::TRACKS_MAX);
    }
}
