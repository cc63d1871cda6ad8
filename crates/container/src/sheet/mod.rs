//! Sheets: small files beside an image which say where its data track is.
//!
//! ```text
//!  .cue  text   FILE "game.bin" BINARY | TRACK 01 MODE2/2352 | INDEX 01 00:00:00
//!  .toc  text   TRACK MODE1_RAW | DATAFILE "game.bin"                    (cdrdao)
//!  .ccd  text   [TRACK 1] | MODE=1 | INDEX 1=0, of the .img beside it    (CloneCD)
//!  .mds  binary tables, of the .mdf beside it                            (Alcohol 120%)
//! ```
//!
//! A sheet names a file; only the last part of the name counts, as sheets keep paths of the machine
//! on which they were written, and as a sheet must not lead elsewhere.

mod ccd;
mod cue;
mod mds;
mod toc;

use std::sync::Arc;

use pagewell_device::Device;

use crate::track::Track;
use crate::{Layer, Result};

/// Longer files are no sheets: 99 tracks with their titles take a few kilobytes.
pub const SHEET_BYTES_MAX: u64 = 1 << 20;
/// The highest number of a track.
const TRACKS_MAX: usize = 99;

/// What a sheet says of the first data track.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sheet {
    file: Vec<u8>,
    track: Track,
    /// Such as "cue sheet, track 1".
    words: String,
    has_more: bool,
}

/// What a parser finds: the name of a file, a track of it, its number, and whether another track
/// of data follows.
struct Found {
    file: Vec<u8>,
    track: Track,
    number: usize,
    has_more: bool,
}

/// What a sheet without a data track says.
const NO_DATA: &str = "has no data track: it describes a disc of music, or none";

/// A parser takes the name of a sheet up to its last dot, and its bytes.
type Parser = fn(&[u8], &[u8]) -> Result<Found, &'static str>;

/// What stands behind the last dot of a name, what such a sheet is called, how it is parsed.
type Kind = (&'static [u8], &'static str, Parser);

const KINDS: [Kind; 4] = [
    (b"cue", "cue sheet", cue::parse),
    (b"ccd", "CloneCD sheet", ccd::parse),
    (b"toc", "cdrdao sheet", toc::parse),
    (b"mds", "Alcohol sheet", mds::parse),
];

impl Sheet {
    /// Whether the name of a file is that of a sheet.
    #[must_use]
    pub fn is_name(name: &[u8]) -> bool {
        kind(name).is_some()
    }

    /// Parses a sheet; the name is that of its file, the last part of its path.
    ///
    /// # Errors
    /// What is wrong with it, in words that can follow its name.
    pub fn parse(name: &[u8], bytes: &[u8]) -> Result<Self, &'static str> {
        let (stem, (_, kind, parse)) = kind(name).ok_or("has no name of a sheet")?;
        let Found {
            file,
            track,
            number,
            has_more,
        } = parse(stem, bytes)?;
        let file = file.rsplit(|byte| b"/\\".contains(byte)).next();
        let file = file.unwrap_or_default();
        if matches!(file, b"" | b"." | b"..") || file.contains(&0) {
            return Err("names no file");
        }
        Ok(Self {
            file: file.to_owned(),
            track,
            words: format!("{kind}, track {number}"),
            has_more,
        })
    }

    /// The name of the file with the track, which is beside the sheet. Sheets are written where
    /// capitals do not count.
    #[must_use]
    pub fn file(&self) -> &[u8] {
        &self.file
    }

    /// What it has besides the track that is shown, in words that can follow "it".
    pub(crate) fn trouble(&self) -> Option<String> {
        let trouble = "has another track of data, which is not shown";
        self.has_more.then(|| trouble.to_owned())
    }

    /// The track, in that file.
    pub(crate) fn open(&self, file: &Arc<dyn Device>) -> Result<(Arc<dyn Device>, Layer)> {
        let (track, sectors) = self.track.open(file)?;
        Ok((track, Layer(format!("{}, {sectors}", self.words))))
    }
}

/// The name of a sheet up to its last dot, and its kind.
fn kind(name: &[u8]) -> Option<(&[u8], Kind)> {
    let dot = name.iter().rposition(|byte| *byte == b'.')?;
    let (stem, extension) = (name.get(..dot)?, name.get(dot + 1..)?);
    let mut kinds = KINDS.into_iter();
    let kind = kinds.find(|(of, ..)| of.eq_ignore_ascii_case(extension))?;
    Some((stem, kind))
}

/// The lines of a text, without spaces around them.
fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    let lines = text.split(|byte| b"\r\n".contains(byte));
    lines
        .map(<[u8]>::trim_ascii)
        .filter(|line| !line.is_empty())
}

/// The first word of a line in capitals, and what is behind it.
fn split_word(line: &[u8]) -> (Vec<u8>, &[u8]) {
    let end = line.iter().position(u8::is_ascii_whitespace);
    let (word, rest) = line.split_at(end.unwrap_or(line.len()));
    (word.to_ascii_uppercase(), rest.trim_ascii())
}

/// What is in quotes, and what is behind them.
fn quoted(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let rest = text.strip_prefix(b"\"")?;
    let end = rest.iter().position(|byte| *byte == b'"')?;
    Some((rest.get(..end)?, rest.get(end + 1..)?))
}

fn number(word: &[u8]) -> Option<u64> {
    std::str::from_utf8(word).ok()?.trim().parse().ok()
}

/// Minutes, seconds and frames, of which a second has 75, in frames.
fn frames(word: &[u8]) -> Option<u64> {
    let mut parts = word.split(|byte| *byte == b':').map(number);
    let (minutes, seconds, frames) = (parts.next()??, parts.next()??, parts.next()??);
    let seconds = minutes.checked_mul(60)?.checked_add(seconds)?;
    seconds.checked_mul(75)?.checked_add(frames)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_part_of_a_name_counts() {
        for (written, file) in [
            ("game.bin", Ok("game.bin")),
            ("C:\\dumps\\My Game.bin", Ok("My Game.bin")),
            ("../../etc/passwd", Ok("passwd")),
            ("/a/b.bin", Ok("b.bin")),
            ("..", Err(())),
            ("a/", Err(())),
            ("", Err(())),
            ("a\0b", Err(())),
        ] {
            let cue = format!("FILE \"{written}\" BINARY\nTRACK 01 MODE1/2352\nINDEX 01 00:00:00");
            let sheet = Sheet::parse(b"x.cue", cue.as_bytes());
            let parsed = sheet.as_ref().map(Sheet::file).map_err(|_| ());
            assert_eq!(parsed, file.map(str::as_bytes), "{written}");
        }
    }

    #[test]
    fn names_tell_sheets() {
        for name in [&b"a.cue"[..], b"A.CUE", b"x.y.ccd", b".mds", b"t.Toc"] {
            assert!(Sheet::is_name(name));
        }
        for name in [&b"a.bin"[..], b"cue", b"a.cue.bak", b""] {
            assert!(!Sheet::is_name(name));
        }
    }

    #[test]
    fn any_bytes_are_no_panic() {
        bolero::check!()
            .with_iterations(2000)
            .for_each(|bytes: &[u8]| {
                for name in [&b"a.cue"[..], b"a.ccd", b"a.toc", b"a.mds"] {
                    let _ = Sheet::parse(name, bytes);
                }
            });
    }
}
