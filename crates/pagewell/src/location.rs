//! LOCATION of the command line: SOURCE or SOURCE::PATH, or a plain local file.
//!
//! The path begins at the first `::/`. Without one, a location is the root of a directory or an ISO
//! image, and the one file of a disk image (`image:PATH`). Any other local path is that one file,
//! reached through its parent directory and the kernel's page cache.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use pagewell_base::files::folder_of;
use pagewell_disc::DiscOptions;
use pagewell_fs::{Entry, FileId};
use pagewell_tree::pipeline::Width;
use pagewell_tree::walk::Preparation;
use pagewell_tree::{Spot, Tree};

use crate::disc_facts::DiscFacts;
use crate::engine::Engine;
use crate::escape;
use crate::failure::{report, usage};
use crate::identity::FileIdentity;
use crate::kinds;
use crate::open::{self, Opened, Purpose};
use crate::recognise::{SourceKind, meant_inside, recognise, why_plain};
use crate::source::Source;
use crate::storage::Storage;

/// A parsed location; no file was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Location {
    text: OsString,
    source: Source,
    path: Option<Vec<u8>>,
}

/// What a location means whose last name is a symbolic link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Follow {
    /// The target of the link.
    Always,
    /// The link, unless it leads to a directory.
    ToDirectory,
    /// The link.
    Never,
}

#[derive(Clone)]
pub(crate) enum Links {
    /// This path, as the system follows them.
    System(PathBuf),
    /// This path in the source, and never out of that.
    Source(Vec<u8>),
}

/// An opened location: a place in a source, where something is or could be.
#[derive(Clone)]
pub(crate) struct Place {
    pub(crate) tree: Tree,
    /// The location as given, for output and messages.
    pub(crate) label: Vec<u8>,
    /// The beginning of labels of objects below; a slash follows.
    pub(crate) label_below: Vec<u8>,
    pub(crate) directory: FileId,
    /// The name there; empty for the root of a source.
    pub(crate) name: Vec<u8>,
    /// The name of a copy in a directory; empty when only the contents are copied (an image's root,
    /// `.`).
    pub(crate) copy_name: Vec<u8>,
    pub(crate) entry: Option<Entry>,
    /// The start of the links below it.
    pub(crate) links: Links,
    /// Whether a server has the objects of the source.
    pub(crate) is_remote: bool,
    /// Whether it can only mean a directory: it ends with a slash.
    pub(crate) means_directory: bool,
    /// Whether the source is a disk image: one file, whose length never changes.
    pub(crate) is_image: bool,
    /// The files and block devices in which an image lies.
    pub(crate) files: Vec<FileIdentity>,
    pub(crate) disc: Option<DiscFacts>,
}

/// The mistake of options behind the place inside a source. Only options of sources count: other
/// names may have a `?`.
fn options_behind(source: &Source, path: &[u8]) -> Option<String> {
    let path = std::str::from_utf8(path).ok()?;
    let (_, options) = path.rsplit_once('?')?;
    let (name, _) = options.split_once('=')?;
    let is_one = source.plain_path().is_none() && kinds::is_option_of_a_source(name);
    is_one.then(|| format!("options stand before the place: SOURCE?{options}::/PATH"))
}

impl Location {
    /// Parses a LOCATION without a look at files (but see [`Source::parse`]).
    pub(crate) fn parse(text: &OsStr) -> anyhow::Result<Self> {
        let bytes = text.as_bytes();
        let split = bytes.windows(3).position(|part| part == b"::/");
        let (source, path) = match split {
            Some(at) => (
                OsStr::from_bytes(&bytes[..at]),
                Some(bytes[at + 2..].to_vec()),
            ),
            None => (text, None),
        };
        let source = Source::parse(source)?;
        if let Some(hint) = path
            .as_deref()
            .and_then(|path| options_behind(&source, path))
        {
            return Err(usage(format!("{}: {hint}", escape::text(bytes))));
        }
        Ok(Self {
            text: text.to_owned(),
            source,
            path,
        })
    }

    pub(crate) fn parse_all(texts: &[OsString]) -> anyhow::Result<Vec<Self>> {
        texts.iter().map(|text| Self::parse(text)).collect()
    }

    /// Whether a server has the objects of any of them.
    pub(crate) fn are_remote(locations: &[Self]) -> bool {
        locations.iter().any(|location| location.source.is_remote())
    }

    /// Its path, if it is only that: a local file or directory.
    pub(crate) fn plain_path(&self) -> Option<&Path> {
        self.source.plain_path().filter(|_| self.path.is_none())
    }

    /// The URL, if it is to be opened as a bucket.
    pub(crate) fn bucket_url(&self) -> Option<&str> {
        match &self.source.storage {
            Storage::Object(url) if pagewell_source_object::is_bucket(url) => Some(url),
            Storage::Object(_) | Storage::Path(_) | Storage::Ram(_) | Storage::Url(_) => None,
        }
    }

    pub(crate) fn as_given(&self) -> &[u8] {
        self.text.as_bytes()
    }

    pub(crate) fn shown(&self) -> String {
        escape::text(self.text.as_bytes())
    }

    /// Opens the source and finds the object, which must exist.
    pub(crate) fn open_existing(
        &self,
        follow: Follow,
        engine: &Engine,
    ) -> anyhow::Result<(Place, Entry)> {
        let place = self.open(follow, Purpose::Read, engine)?;
        match place.entry {
            Some(entry) => Ok((place, entry)),
            None => Err(self.right_spelling().unwrap_or_else(|| {
                anyhow::Error::new(pagewell_fs::Error::NotFound).context(self.shown())
            })),
        }
    }

    /// How to write what a missing path may mean.
    fn right_spelling(&self) -> Option<anyhow::Error> {
        let (whole, inside) = meant_inside(self.plain_path()?)?;
        let (whole, inside) = (
            escape::text(whole.as_os_str().as_bytes()),
            escape::text(inside),
        );
        let shown = self.shown();
        Some(usage(format!(
            "{shown}: no such file; what is inside {whole} is written {whole}::/{inside}"
        )))
    }

    /// Opens the source and finds the place. The last name need not exist.
    pub(crate) fn open(
        &self,
        follow: Follow,
        purpose: Purpose,
        engine: &Engine,
    ) -> anyhow::Result<Place> {
        if let Some(path) = self.plain_path() {
            return self.open_plain(path, follow, purpose, engine);
        }
        let opened = self.source.open(&self.source_shown(), purpose, engine)?;
        let path = self.path.as_deref().unwrap_or(b"/");
        self.place(opened, path, follow)
    }

    /// A path without `::`: a directory or an image is its root, anything else one local file.
    fn open_plain(
        &self,
        path: &Path,
        follow: Follow,
        purpose: Purpose,
        engine: &Engine,
    ) -> anyhow::Result<Place> {
        let is_link = path
            .symlink_metadata()
            .is_ok_and(|metadata| metadata.is_symlink());
        let plain_link = is_link && follow == Follow::Never && !self.text_ends_with_slash();
        if !plain_link {
            match recognise(path) {
                Ok(SourceKind::Directory) => {
                    return self.place(open::directory(path, purpose)?, b"/", follow);
                }
                Ok(SourceKind::Disc) => {
                    let storage = Storage::Path(path.to_owned());
                    let shown = self.shown();
                    let options = DiscOptions::default();
                    let opened = open::disc(&storage, &options, (&shown, purpose), engine)?;
                    return self.place(opened, b"/", follow);
                }
                Ok(kind) => {
                    let reason = why_plain(path, &kind).filter(|_| purpose == Purpose::Read);
                    if let Some(reason) = reason {
                        report(&format!(
                            "{}: taken as a plain file: {reason}",
                            self.shown()
                        ));
                    }
                }
                Err(_) => {}
            }
        }
        let path = match (is_link, follow) {
            (true, Follow::Always) => path
                .canonicalize()
                .with_context(|| format!("{}: symbolic link", self.shown()))?,
            _ => path.to_owned(),
        };
        let Some(name) = path.file_name() else {
            return Err(pagewell_fs::Error::NotFound).context(self.shown());
        };
        let parent = open::directory(folder_of(&path), purpose);
        let parent = parent.map_err(|error| self.right_spelling().unwrap_or(error))?;
        self.place(parent, name.as_bytes(), follow)
    }

    fn place(&self, opened: Opened, path: &[u8], follow: Follow) -> anyhow::Result<Place> {
        let tree = opened.tree;
        let is_local = tree.is_local();
        let is_image = opened.only_file.is_some();
        let only_file = opened.only_file.filter(|_| self.path.is_none());
        let path = only_file.as_deref().unwrap_or(path);
        let spot = resolve(&tree, path, follow).with_context(|| self.shown())?;
        let is_other = spot.entry.is_some_and(|entry| !is_directory(&entry));
        if self.text_ends_with_slash() && is_other {
            return Err(pagewell_fs::Error::NotDirectory).context(self.shown());
        }
        let links = match self.plain_path().filter(|_| is_local) {
            Some(path) => Links::System(path.to_owned()),
            None => Links::Source(path.to_vec()),
        };
        Ok(Place {
            tree,
            links,
            label: self.text.as_bytes().to_vec(),
            label_below: self.label_below(is_local),
            copy_name: only_file.unwrap_or_else(|| self.copy_name(is_local)),
            directory: spot.directory,
            name: spot.name,
            entry: spot.entry,
            is_remote: opened.is_remote,
            means_directory: self.text_ends_with_slash(),
            is_image,
            files: opened.files,
            disc: opened.disc,
        })
    }

    /// `debian.iso` -> `debian.iso::`, `debian.iso::/boot/` -> `debian.iso::/boot`, `tree/` ->
    /// `tree`.
    fn label_below(&self, is_local: bool) -> Vec<u8> {
        let text = self.text.as_bytes();
        if self.path.is_none() && !(is_local && self.plain_path().is_some()) {
            return [text, b"::"].concat();
        }
        without_slashes(text).to_vec()
    }

    /// The last name of the location as given.
    fn copy_name(&self, is_local: bool) -> Vec<u8> {
        let path = match &self.path {
            Some(path) => path.as_slice(),
            None if is_local && self.plain_path().is_some() => self.text.as_bytes(),
            None => b"",
        };
        match without_slashes(path).rsplit(|byte| *byte == b'/').next() {
            Some(b"." | b"..") | None => Vec::new(),
            Some(name) => name.to_vec(),
        }
    }

    fn source_shown(&self) -> String {
        let path = self.path.as_ref().map_or(0, |path| path.len() + 2);
        let text = self.text.as_bytes();
        escape::text(&text[..text.len().saturating_sub(path)])
    }

    fn text_ends_with_slash(&self) -> bool {
        self.text.as_bytes().ends_with(b"/")
    }
}

fn resolve(tree: &Tree, path: &[u8], follow: Follow) -> pagewell_fs::Result<Spot> {
    match follow {
        Follow::Always => tree.resolve(path, true),
        Follow::Never => tree.resolve(path, false),
        Follow::ToDirectory => match tree.resolve(path, true) {
            Ok(spot) if spot.entry.is_some_and(|entry| is_directory(&entry)) => Ok(spot),
            _ => tree.resolve(path, false),
        },
    }
}

pub(crate) fn is_directory(entry: &Entry) -> bool {
    entry.attributes.file_type.is_directory()
}

/// A path without the slashes at its end.
fn without_slashes(path: &[u8]) -> &[u8] {
    let last = path.iter().rposition(|byte| *byte != b'/');
    &path[..last.map_or(0, |last| last + 1)]
}

impl Place {
    pub(crate) fn is_local(&self) -> bool {
        self.tree.is_local()
    }

    /// The file of this machine that an object is, if it is one.
    #[must_use]
    pub(crate) fn local_identity(&self, entry: &Entry) -> Option<FileIdentity> {
        self.is_local()
            .then(|| FileIdentity::of_local(&entry.attributes))
    }

    /// Whether its objects may have extended attributes and access control lists.
    pub(crate) fn has_extended_attributes(&self) -> bool {
        self.tree.filesystem.extended_attributes().is_some()
    }

    /// Whether no other source can have its objects: it is neither a directory nor on a server.
    pub(crate) fn is_alone(&self) -> bool {
        !self.is_local() && !self.is_remote
    }

    /// The target of the symbolic link at this path below the place, under the label of the link.
    pub(crate) fn behind_link(&self, below: &[u8]) -> anyhow::Result<(Self, Entry)> {
        let (tree, path, links) = match &self.links {
            Links::System(path) => {
                let path = path.join(OsStr::from_bytes(below)).canonicalize()?;
                let links = Links::System(path.clone());
                let name = path.file_name().filter(|_| !path.is_dir());
                let directory = name.map_or(path.as_path(), |_| folder_of(&path));
                let tree = open::directory(directory, Purpose::Read)?.tree;
                (tree, name.unwrap_or_default().as_bytes().to_vec(), links)
            }
            Links::Source(path) => {
                let path = [path, b"/".as_slice(), below].concat();
                (self.tree.clone(), path.clone(), Links::Source(path))
            }
        };
        let spot = tree.resolve(&path, true)?;
        let entry = spot.entry.ok_or(pagewell_fs::Error::NotFound)?;
        let place = Self {
            tree,
            links,
            label: self.label_of(below),
            label_below: self.label_of(below),
            directory: spot.directory,
            name: spot.name,
            entry: spot.entry,
            ..self.clone()
        };
        Ok((place, entry))
    }

    pub(crate) fn width(&self) -> Width {
        match self.is_remote {
            true => Width::REMOTE,
            false => Width::local(),
        }
    }

    /// What to prepare for a walk that reads all files.
    pub(crate) fn preparation(&self) -> Preparation {
        Preparation {
            // A round trip each, so several at a time.
            listers: if self.is_remote { 4 } else { 0 },
            reads_files: true,
        }
    }

    /// The label of an object below this one, such as `debian.iso::/boot/vmlinuz`.
    pub(crate) fn label_of(&self, below: &[u8]) -> Vec<u8> {
        [self.label_below.as_slice(), b"/", below].concat()
    }

    pub(crate) fn shown(&self) -> String {
        escape::text(&self.label)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Location {
        Location::parse(OsStr::new(text)).unwrap()
    }

    #[test]
    fn the_path_begins_at_the_first_colons_and_slash() {
        let location = parse("debian.iso::/boot/vmlinuz");
        assert_eq!(location.source, Source::of_path("debian.iso".into()));
        assert_eq!(location.path.as_deref(), Some(&b"/boot/vmlinuz"[..]));
        let location = parse("dir:/::/a::/b");
        assert_eq!(location.source.kind.prefix, "dir");
        assert_eq!(location.path.as_deref(), Some(&b"/a::/b"[..]));
        for whole in ["a::b", "a:b", "/a/b", "x::"] {
            let location = parse(whole);
            assert_eq!(location.source, Source::of_path(whole.into()));
            assert_eq!(location.path, None);
        }
    }

    #[test]
    fn options_behind_a_place_are_no_part_of_its_name() {
        let text = "s3://bucket::/a/b?endpoint=http://h:1";
        let error = Location::parse(OsStr::new(text)).unwrap_err().to_string();
        assert!(error.starts_with(text), "{error}");
        assert!(
            error.ends_with("SOURCE?endpoint=http://h:1::/PATH"),
            "{error}"
        );
        for name in ["s3://bucket::/a?b=c", "s3://bucket::/a?", "tree::/a?age=1"] {
            let path = parse(name).path.map(|path| path.len());
            let at = name.find("::").unwrap();
            assert_eq!(path, Some(name.len() - at - 2), "{name}");
        }
    }

    #[test]
    fn labels_of_what_is_below() {
        for (text, is_local, below) in [
            ("debian.iso", false, "debian.iso::"),
            ("debian.iso::/", false, "debian.iso::"),
            ("debian.iso::/boot/", false, "debian.iso::/boot"),
            ("tree", true, "tree"),
            ("tree//", true, "tree"),
            ("/", true, ""),
            ("dir:/srv", true, "dir:/srv::"),
            ("dir:/srv::/x", true, "dir:/srv::/x"),
            ("ram:1m", false, "ram:1m::"),
        ] {
            let label = parse(text).label_below(is_local);
            assert_eq!(label, below.as_bytes(), "{text}");
        }
    }

    #[test]
    fn a_copy_has_the_last_name_given() {
        for (text, is_local, name) in [
            ("tree", true, "tree"),
            ("a/tree//", true, "tree"),
            ("a/.", true, ""),
            ("..", true, ""),
            ("/", true, ""),
            ("debian.iso", false, ""),
            ("debian.iso::/", false, ""),
            ("debian.iso::/boot/", false, "boot"),
            ("dir:tree", true, ""),
            ("dir:tree::/x/y", true, "y"),
        ] {
            assert_eq!(parse(text).copy_name(is_local), name.as_bytes(), "{text}");
        }
    }

    #[test]
    fn the_source_of_a_location_is_shown_without_its_path() {
        assert_eq!(parse("a.iso::/x").source_shown(), "a.iso");
        assert_eq!(parse("a.iso").source_shown(), "a.iso");
    }
}
