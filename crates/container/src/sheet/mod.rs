//! Sheets: small files beside an image which say where its tracks are.
//!
//! ```text
//!  .cue  text   FILE "game.bin" BINARY | TRACK 01 MODE2/2352 | INDEX 01 00:00:00
//!  .toc  text   TRACK MODE1_RAW | DATAFILE "game.bin"                    (cdrdao)
//!  .ccd  text   [TRACK 1] | MODE=1 | INDEX 1=0, of the .img beside it    (CloneCD)
//!  .gdi  text   3 45000 4 2352 track03.bin 0                             (GD-ROM)
//!  .mds  binary tables, of the .mdf beside it                            (Alcohol 120%)
//! ```
//!
//! Only the last part of a file's path counts: sheets must not lead elsewhere.

mod ccd;
mod cue;
mod gdi;
mod mds;
mod toc;

use std::cell::RefCell;
use std::sync::Arc;

use pagewell_device::Device;

use crate::track::Listed;
use crate::tracks::{self, TRACKS_MAX, Table};
use crate::{Error, Inside, Result, Wanted};

/// Longer files are no sheets: 99 tracks take a few kilobytes.
pub const SHEET_BYTES_MAX: u64 = 1 << 20;

/// The tracks of a disc by its sheet, of which at least one is of data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sheet {
    files: Vec<Vec<u8>>,
    tracks: Vec<Listed>,
    title: &'static str,
}

/// What a parser finds: the names of files, and tracks.
#[derive(Default)]
struct Found {
    files: Vec<Vec<u8>>,
    tracks: Vec<Listed>,
    /// Of `tracks` those that are parts of others.
    rooms: usize,
}

const NO_DATA: &str = "has no data track: it describes a disc of music, or none";

/// Takes the name of a sheet up to its last dot, and its bytes.
type Parser = fn(&[u8], &[u8]) -> Result<Found, &'static str>;

/// The ending of names, and what such a sheet is called.
type Kind = (&'static [u8], &'static str, Parser);

const KINDS: [Kind; 5] = [
    (b"cue", "cue sheet", cue::parse),
    (b"ccd", "CloneCD sheet", ccd::parse),
    (b"toc", "cdrdao sheet", toc::parse),
    (b"mds", "Alcohol sheet", mds::parse),
    (b"gdi", "GD-ROM sheet", gdi::parse),
];

/// Opens the file beside a sheet that has this name, or says why not.
pub type OpenBeside<'a> = dyn Fn(&[u8]) -> Result<Arc<dyn Device>, String> + 'a;

impl Found {
    /// The index of a file. More names than a disc has tracks are dropped.
    fn file(&mut self, name: &[u8]) -> usize {
        let there = self.files.iter().position(|it| it == name);
        there.unwrap_or_else(|| {
            if self.files.len() < TRACKS_MAX {
                self.files.push(name.to_owned());
                return self.files.len() - 1;
            }
            TRACKS_MAX
        })
    }

    /// Adds a track, unless there are more than a disc has; returns whether it did.
    fn add(&mut self, track: Listed) -> bool {
        let is_number = (1..=TRACKS_MAX).contains(&track.number);
        let is_taken = is_number && self.tracks.len() - self.rooms < TRACKS_MAX;
        if is_taken {
            self.tracks.push(track);
        }
        is_taken
    }

    /// Adds a part of a track that only takes room, of a length that its file has: one for each
    /// track.
    fn add_room(&mut self, part: Listed) {
        if self.rooms < TRACKS_MAX {
            self.rooms += 1;
            self.tracks.push(part);
        }
    }
}

impl Sheet {
    /// Whether a file of this name is a sheet.
    #[must_use]
    pub fn is_name(name: &[u8]) -> bool {
        kind(name).is_some()
    }

    /// Parses a sheet; the name is the last part of its path.
    ///
    /// # Errors
    /// What is wrong with it, in words that can follow its name.
    pub fn parse(name: &[u8], bytes: &[u8]) -> Result<Self, &'static str> {
        let (stem, (_, title, parse)) = kind(name).ok_or("has no name of a sheet")?;
        let Found { files, tracks, .. } = parse(stem, bytes)?;
        if !tracks.iter().any(|track| track.is_data) {
            return Err(NO_DATA);
        }
        let files = files.iter().map(|file| last_part(file));
        let files: Option<_> = files.collect();
        Ok(Self {
            files: files.ok_or("names no file")?,
            tracks,
            title,
        })
    }

    pub(crate) fn title(&self) -> &'static str {
        self.title
    }

    /// The names of its files, which are beside it. Writers of sheets do not tell capitals apart.
    pub fn files(&self) -> impl Iterator<Item = &[u8]> {
        self.files.iter().map(Vec::as_slice)
    }

    /// The track that is wanted, or that is read by itself.
    pub(crate) fn open(
        &self,
        open: &OpenBeside<'_>,
        wanted: &mut Wanted,
    ) -> Result<Option<Inside>> {
        // A file of several tracks is opened once.
        let opened = RefCell::new(vec![None; self.files.len()]);
        let file = |index: usize| {
            if let Some(Some(file)) = opened.borrow().get(index) {
                return Ok(Arc::clone(file));
            }
            let file = self.file(index, open)?;
            if let Some(slot) = opened.borrow_mut().get_mut(index) {
                *slot = Some(file.clone());
            }
            Ok(file)
        };
        let table = Table {
            title: self.title.to_owned(),
            tracks: &self.tracks,
            open_file: &file,
        };
        tracks::open(&table, wanted)
    }

    pub(crate) fn open_first(&self, open: &OpenBeside<'_>) -> Result<Arc<dyn Device>> {
        let first = self.tracks.iter().find(|track| track.is_data);
        let file = first.and_then(|track| track.file);
        self.file(file.unwrap_or_default(), open)
    }

    fn file(&self, index: usize, open: &OpenBeside<'_>) -> Result<Arc<dyn Device>> {
        let name = self.files.get(index).map(Vec::as_slice).unwrap_or_default();
        open(name).map_err(Error::Unopened)
    }
}

/// The last part of a path of any system; `None` where that is no name of a file.
fn last_part(path: &[u8]) -> Option<Vec<u8>> {
    let name = path.rsplit(|byte| b"/\\".contains(byte)).next()?;
    let is_none = matches!(name, b"" | b"." | b"..") || name.contains(&0);
    (!is_none).then(|| name.to_owned())
}

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
            let parsed = sheet.as_ref().map(|sheet| sheet.files().collect());
            let expected = file.map(|file| vec![file.as_bytes()]);
            assert_eq!(parsed.map_err(|_| ()), expected, "{written}");
        }
    }

    /// Lines of tracks without end.
    #[test]
    fn as_many_files_as_tracks_are_named() {
        let line = |number: usize| {
            [
                format!("FILE {number}.bin BINARY\nTRACK 01 MODE1/2352\nINDEX 01 00:00:00\n"),
                format!("TRACK MODE1_RAW\nDATAFILE \"{number}.bin\"\n"),
            ]
        };
        for (index, name) in [&b"x.cue"[..], b"x.toc"].into_iter().enumerate() {
            let text: String = (0..20_000)
                .map(|number| line(number)[index].clone())
                .collect();
            let sheet = Sheet::parse(name, text.as_bytes()).unwrap();
            assert_eq!(sheet.files().count(), TRACKS_MAX);
            assert_eq!(sheet.tracks.len(), TRACKS_MAX);
        }
    }

    #[test]
    fn names_tell_sheets() {
        for name in [
            &b"a.cue"[..],
            b"A.CUE",
            b"x.y.ccd",
            b".mds",
            b"t.Toc",
            b"g.gdi",
        ] {
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
                for name in [&b"a.cue"[..], b"a.ccd", b"a.toc", b"a.mds", b"a.gdi"] {
                    let _ = Sheet::parse(name, bytes);
                }
            });
    }
}
