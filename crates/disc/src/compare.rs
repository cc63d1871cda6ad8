//! What one tree of an image has and another lacks.
//!
//! **Problem.** The trees of a disc do not always show the same files: a writer hides names from
//! one tree, cuts long names, leaves links out, or puts nothing but a note beside a UDF file
//! system. A reader that is silent about the other trees loses files.
//!
//! **Rule.** Two directories are compared by name, kind and length. Formats cut and replace letters
//! differently, so names are compared by a key that all of them keep, as often as it occurs.
//!
//! ```text
//! names of Rock Ridge, UDF, 1999, Joliet   first 48 letters, small, what Joliet has not as one _
//! one side is the plain tree (8.3)         first 3 letters and digits, small; no lengths
//! ```
//!
//! **Weakness.** Keys of plain names are short, as writers cut those in many ways: a missing file
//! may hide behind one with the same beginning.

use std::collections::BTreeMap;

use pagewell_fs::{Call, Credentials, DirectoryEntry, FileId, FileSystem, FileType, Result};

/// Joliet has 64 letters, some writers leave part of them to the extension.
const KEY_LETTERS: usize = 48;
const PLAIN_KEY_LETTERS: usize = 3;
/// Most names of a directory that are compared, in some 10 MB.
pub(crate) const NAMES_MAX: usize = 65_536;
/// Where writers put the directories that are too deep; other trees have them in place.
const STORES: [&[u8]; 2] = [b"rr_moved", b".rr_moved"];

/// One name of a directory.
#[derive(Clone, Debug)]
pub(crate) struct Named {
    pub name: Vec<u8>,
    pub id: Option<FileId>,
    /// Nothing of an object that cannot be examined, or that was not.
    pub shape: Option<(FileType, u64)>,
}

/// The names of a directory.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    pub names: Vec<Named>,
    /// Whether these are all.
    pub is_whole: bool,
    /// Whether the names are cut to a few letters.
    pub is_plain: bool,
}

/// Something that another tree has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lack {
    /// A name.
    Name,
    /// Bytes of a file: so many are here.
    Bytes(u64),
}

/// At most `most` names behind `cookie`, but `.` and `..`; the cookie behind them; and whether
/// these are the last.
pub(crate) fn page(
    (tree, directory): (&dyn FileSystem, &FileId),
    cookie: u64,
    (most, with_attributes): (usize, bool),
) -> Result<(Vec<Named>, u64, bool)> {
    let superuser = Credentials::root();
    let call = Call::new(&superuser, true);
    let (mut names, mut last) = (Vec::new(), cookie);
    let mut take = |entry: &DirectoryEntry<'_>| {
        if names.len() >= most {
            return false;
        }
        last = entry.cookie;
        if !matches!(entry.name, b"." | b"..") {
            let attributes = entry.entry.map(|entry| entry.attributes);
            names.push(Named {
                name: entry.name.to_vec(),
                id: entry.entry.map(|entry| entry.id),
                shape: attributes.map(|it| (it.file_type, it.size)),
            });
        }
        true
    };
    let end = tree
        .read_directory(&call, directory, cookie, with_attributes, &mut take)?
        .end;
    Ok((names, last, end))
}

impl Listing {
    /// Reads a directory; attributes of the first `examined` names.
    pub(crate) fn read(
        tree: &dyn FileSystem,
        directory: &FileId,
        (is_plain, examined): (bool, usize),
    ) -> Result<Self> {
        let place = (tree, directory);
        let (mut names, cookie, mut is_whole) = page(place, 0, (examined, true))?;
        if !is_whole && names.len() < NAMES_MAX {
            let rest = page(place, cookie, (NAMES_MAX - names.len(), false))?;
            names.extend(rest.0);
            is_whole = rest.2;
        }
        let is_store = |name: &[u8]| STORES.iter().any(|it| it.eq_ignore_ascii_case(name));
        names.retain(|named| !is_store(&named.name));
        Ok(Self {
            names,
            is_whole,
            is_plain,
        })
    }

    /// What `other` has and this lacks, with names there, and the pairs of directories that both
    /// have. Nothing of listings that are not whole.
    pub(crate) fn against<'a>(&'a self, other: &'a Self) -> Compared<'a> {
        let mut compared = Compared::default();
        if !(self.is_whole && other.is_whole) {
            return compared;
        }
        let plain = self.is_plain || other.is_plain;
        let mut mine: BTreeMap<Vec<u8>, Vec<&Named>> = BTreeMap::new();
        for named in self.names.iter().rev() {
            mine.entry(key(&named.name, plain)).or_default().push(named);
        }
        for theirs in &other.names {
            let same = mine.get_mut(&key(&theirs.name, plain));
            match same.and_then(|same| take_alike(same, theirs)) {
                None => compared.lacks.push((theirs, Lack::Name)),
                Some(ours) => compared.pair(ours, theirs, plain),
            }
        }
        compared
    }
}

/// See [`Listing::against`].
#[derive(Debug, Default)]
pub(crate) struct Compared<'a> {
    pub lacks: Vec<(&'a Named, Lack)>,
    pub directories: Vec<(&'a Named, &'a Named)>,
}

impl<'a> Compared<'a> {
    fn pair(&mut self, ours: &'a Named, theirs: &'a Named, plain: bool) {
        match (ours.shape, theirs.shape) {
            (Some((FileType::Directory, _)), Some((FileType::Directory, _))) => {
                self.directories.push((ours, theirs));
            }
            (Some((FileType::Regular, here)), Some((FileType::Regular, there)))
                if here < there && !plain =>
            {
                self.lacks.push((theirs, Lack::Bytes(here)));
            }
            _ => {}
        }
    }
}

/// Takes one of `same` away: of the same kind if there is one.
fn take_alike<'a>(same: &mut Vec<&'a Named>, theirs: &Named) -> Option<&'a Named> {
    let kind = |named: &Named| named.shape.map(|(kind, _)| kind);
    let alike = same.iter().rposition(|named| kind(named) == kind(theirs));
    let index = alike.or(same.len().checked_sub(1))?;
    Some(same.remove(index))
}

fn key(name: &[u8], plain: bool) -> Vec<u8> {
    if plain {
        plain_key(name)
    } else {
        long_key(name)
    }
}

fn long_key(name: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(name).to_lowercase();
    let letters = text.trim_end_matches('.').chars().take(KEY_LETTERS);
    let mut kept = String::new();
    for letter in letters {
        match letter {
            // Bytes that are no text are one of these, or several.
            '*' | '/' | ':' | ';' | '?' | '\\' | '_' | char::REPLACEMENT_CHARACTER => {
                if !kept.ends_with('_') {
                    kept.push('_');
                }
            }
            letter => kept.push(letter),
        }
    }
    kept.into_bytes()
}

fn plain_key(name: &[u8]) -> Vec<u8> {
    let letters = name.iter().filter(|byte| byte.is_ascii_alphanumeric());
    let small = letters.map(u8::to_ascii_lowercase);
    small.take(PLAIN_KEY_LETTERS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listing(names: &[(&str, u64)], is_plain: bool) -> Listing {
        let named = |(name, size): &(&str, u64)| Named {
            name: name.trim_end_matches('/').as_bytes().to_vec(),
            id: None,
            shape: Some(match name.strip_suffix('/') {
                Some(_) => (FileType::Directory, *size),
                None => (FileType::Regular, *size),
            }),
        };
        Listing {
            names: names.iter().map(named).collect(),
            is_whole: true,
            is_plain,
        }
    }

    fn lacking(
        ours: &[(&str, u64)],
        theirs: &[(&str, u64)],
        is_plain: bool,
    ) -> Vec<(String, Lack)> {
        let (ours, theirs) = (listing(ours, false), listing(theirs, is_plain));
        let compared = ours.against(&theirs);
        let lacks = compared.lacks.iter();
        lacks
            .map(|(named, lack)| (String::from_utf8(named.name.clone()).unwrap(), *lack))
            .collect()
    }

    #[test]
    fn names_that_formats_write_differently_are_the_same() {
        let long = "a long name that is cut by one of the formats somewhere behind its middle.txt";
        let cut = &long[..60];
        assert_eq!(lacking(&[(long, 1)], &[(cut, 1)], false), []);
        assert_eq!(lacking(&[("a:b?", 1)], &[("A_b_", 1)], false), []);
        assert_eq!(
            long_key(b"over-\xc0\xaf"),
            long_key("over-\u{fffd}".as_bytes())
        );
        assert_eq!(long_key(b"wide-\xed\xa0\x80"), long_key(b"wide-_"));
        assert_eq!(
            lacking(&[("Makefile.in", 1)], &[("makefile.in", 1)], true),
            []
        );
        assert_eq!(lacking(&[(".hidden", 1)], &[("_hidden.", 1)], true), []);
        let twins = [("long-name-1.text", 1), ("long-name-2.text", 1)];
        let short = [("long_na0.tex", 1), ("long_na1.tex", 1)];
        assert_eq!(lacking(&twins, &short, true), []);
        for (name, plain) in [
            ("archive.tar.gz", "archive.tgz"),
            (".hidden settings", ".hid"),
            ("Annual report.doc", "annual_r"),
        ] {
            assert_eq!(lacking(&[(name, 1)], &[(plain, 1)], true), [], "{name}");
        }
        let twins = [("file00.dat", 1), ("file01.dat", 9)];
        let others = [("file01.dat", 9), ("file00.dat", 1)];
        assert_eq!(lacking(&twins, &others, true), []);
    }

    #[test]
    fn what_is_only_there_is_lacking_here() {
        let here = [("setup.exe", 5), ("sources/", 0)];
        let there = [("readme.txt", 7), ("setup.exe", 5)];
        let only = vec![("readme.txt".to_owned(), Lack::Name)];
        assert_eq!(lacking(&here, &there, false), only);
        assert_eq!(lacking(&here, &there, true), only);
        let longer = [("setup.exe", 6)];
        let cut = vec![("setup.exe".to_owned(), Lack::Bytes(5))];
        assert_eq!(lacking(&here, &longer, false), cut);
    }

    #[test]
    fn nothing_is_said_of_a_part() {
        let mut part = listing(&[], false);
        part.is_whole = false;
        assert!(part.against(&listing(&[("a", 1)], false)).lacks.is_empty());
    }

    #[test]
    fn a_directory_and_a_file_of_one_key_find_their_own() {
        let ours = listing(&[("a", 1), ("a/", 0)], false);
        let theirs = listing(&[("A/", 0), ("A", 2)], false);
        let compared = ours.against(&theirs);
        assert_eq!(compared.lacks.len(), 1, "{compared:?}");
        assert_eq!(compared.lacks[0].1, Lack::Bytes(1));
    }
}
