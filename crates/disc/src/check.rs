//! A look at every object of a tree: what cannot be read, and what other trees have.
//!
//! A directory is entered once however many names it has, so a maze takes as long as its records.
//! What is wrong is listed up to [`TROUBLES_MAX`] and then counted.

use std::collections::HashSet;

use pagewell_fs::{Call, Credentials, FileId, FileSystem, FileType, Result};
use pagewell_source_udf::UdfFileSystem;

use crate::compare::{Lack, Listing, NAMES_MAX, Named, page};
use crate::options::TreeName;
use crate::paths::Paths;

/// More lines than a person reads.
const TROUBLES_MAX: usize = 1000;
/// Pairs of directories that are compared: a maze has the square of its directories.
const PAIRS_MAX: usize = 1 << 20;
/// Names of a directory that are in memory at a time: some 200 KB.
const PAGE_NAMES: usize = 1024;
/// Names whose small files are asked for together, and the size of those, of which all costs what
/// the last byte does.
const NAMES_TOGETHER: usize = 64;
const SMALL_BYTES_MAX: u64 = 64 << 10;
/// Bytes of one read.
const READ_BYTES: u32 = 1 << 20;

/// What is wrong with objects of a tree: lines with their paths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Troubles {
    /// The first of them.
    pub lines: Vec<String>,
    /// All of them.
    pub count: u64,
}

impl Troubles {
    fn add(&mut self, line: impl FnOnce() -> String) {
        if self.lines.len() < TROUBLES_MAX {
            self.lines.push(line());
        }
        self.count += 1;
    }
}

/// What a tree holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Directories, each once, with the root.
    pub directories: u64,
    /// Names of regular files.
    pub files: u64,
    /// Names of symbolic links.
    pub links: u64,
    /// Names of devices, sockets and pipes.
    pub others: u64,
    /// Lengths of the files, together.
    pub bytes: u64,
}

/// Names of objects with something besides their data that no tree shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unshown {
    /// Named streams.
    pub with_streams: u64,
    /// Extended attributes in their entries.
    pub with_attributes: u64,
}

/// What was found in one tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Walked {
    /// What it holds.
    pub counts: Counts,
    /// What it does not show.
    pub unshown: Unshown,
    /// What cannot be read.
    pub unreadable: Troubles,
}

/// How much of files is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// Their last byte, which shows that they are there.
    Ends,
    /// All of it.
    Data,
}

/// Is given the number of bytes that were looked at since the last time.
pub type Tick<'a> = dyn FnMut(u64) + 'a;

/// Looks at all objects of a tree; `udf` is the same tree if it is one of UDF.
pub(crate) fn walk(
    tree: &dyn FileSystem,
    udf: Option<&UdfFileSystem>,
    depth: Depth,
    tick: &mut Tick<'_>,
) -> Walked {
    let mut walk = Walk {
        tree,
        udf,
        depth,
        walked: Walked::default(),
        entered: HashSet::new(),
        waiting: Vec::new(),
        paths: Paths::default(),
    };
    walk.enter(tree.root(), None);
    while let Some((directory, path)) = walk.waiting.pop() {
        if let Err(error) = walk.directory(&directory, path, tick) {
            walk.trouble((path, b""), &error.to_string());
        }
    }
    walk.walked
}

struct Walk<'a> {
    tree: &'a dyn FileSystem,
    udf: Option<&'a UdfFileSystem>,
    depth: Depth,
    walked: Walked,
    entered: HashSet<FileId>,
    /// Directories, and which of the paths they have.
    waiting: Vec<(FileId, Option<usize>)>,
    paths: Paths,
}

/// A name, and which of the paths its directory has.
type At<'a> = (Option<usize>, &'a [u8]);

impl Walk<'_> {
    fn enter(&mut self, directory: FileId, at: Option<At<'_>>) {
        if self.entered.insert(directory) {
            self.walked.counts.directories += 1;
            let path = at.map(|(above, name)| self.paths.add(above, name));
            self.waiting.push((directory, path));
        }
    }

    fn directory(&mut self, id: &FileId, path: Option<usize>, tick: &mut Tick<'_>) -> Result<()> {
        let mut cookie = 0;
        loop {
            let (names, behind, is_last) = page((self.tree, id), cookie, (PAGE_NAMES, true))?;
            for names in names.chunks(NAMES_TOGETHER) {
                self.read_ahead(names);
                for named in names {
                    if let Err(error) = self.object(named, (path, &named.name), tick) {
                        self.trouble((path, &named.name), &error.to_string());
                    }
                }
            }
            if is_last || behind == cookie {
                return Ok(());
            }
            cookie = behind;
        }
    }

    fn read_ahead(&self, names: &[Named]) {
        let is_small = |named: &&Named| {
            let size = named.shape.filter(|(kind, _)| *kind == FileType::Regular);
            size.is_some_and(|(_, size)| size <= SMALL_BYTES_MAX)
        };
        let ids: Vec<FileId> = names
            .iter()
            .filter(is_small)
            .filter_map(|it| it.id)
            .collect();
        self.tree.read_ahead(&ids);
    }

    fn object(&mut self, named: &Named, at: At<'_>, tick: &mut Tick<'_>) -> Result<()> {
        let (Some(id), Some((kind, size))) = (named.id, named.shape) else {
            self.trouble(at, "its attributes cannot be read");
            return Ok(());
        };
        let superuser = Credentials::root();
        let call = Call::new(&superuser, true);
        if let Some(skipped) = self.udf.and_then(|udf| udf.skipped(&id).ok()) {
            let unshown = &mut self.walked.unshown;
            unshown.with_streams += u64::from(skipped.has_streams);
            unshown.with_attributes += u64::from(skipped.attribute_bytes > 0);
        }
        let counts = &mut self.walked.counts;
        match kind {
            FileType::Directory => self.enter(id, Some(at)),
            FileType::Regular => {
                counts.files += 1;
                counts.bytes = counts.bytes.saturating_add(size);
                return self.data(&call, &id, size, tick);
            }
            FileType::Symlink => {
                counts.links += 1;
                self.tree.read_link(&call, &id)?;
            }
            _ => counts.others += 1,
        }
        Ok(())
    }

    fn data(&self, call: &Call<'_>, id: &FileId, size: u64, tick: &mut Tick<'_>) -> Result<()> {
        let mut offset = match self.depth {
            Depth::Ends => size.saturating_sub(1),
            Depth::Data => 0,
        };
        while offset < size {
            let reply = self.tree.read(call, id, offset, READ_BYTES)?;
            let length = reply.payload.len() as u64;
            if length == 0 {
                let what = format!("ends at byte {offset} of {size}");
                return Err(pagewell_fs::Error::Io(what));
            }
            offset += length;
            tick(length);
        }
        Ok(())
    }

    fn trouble(&mut self, (directory, name): At<'_>, what: &str) {
        let paths = &self.paths;
        let unreadable = &mut self.walked.unreadable;
        unreadable.add(|| line(&paths.of(directory, name), what));
    }
}

/// What `other` has and `ours` lacks, with paths in `other`.
pub(crate) fn compare(
    (ours, our_name): (&dyn FileSystem, TreeName),
    (other, other_name): (&dyn FileSystem, TreeName),
) -> Troubles {
    let mut troubles = Troubles::default();
    if our_name == other_name {
        return troubles;
    }
    let roots = (ours.root(), other.root());
    let mut entered = HashSet::from([roots]);
    let mut is_cut = false;
    let mut paths = Paths::default();
    let mut waiting = vec![(roots, None)];
    let list =
        |tree, id: &FileId, name| Listing::read(tree, id, (name == TreeName::Iso, NAMES_MAX)).ok();
    while let Some(((our_id, other_id), at)) = waiting.pop() {
        let here = list(ours, &our_id, our_name);
        // What cannot be read there is said of that tree.
        let (Some(here), Some(there)) = (here, list(other, &other_id, other_name)) else {
            continue;
        };
        if !(here.is_whole && there.is_whole) {
            let what = "has more names than are compared";
            troubles.add(|| line(&paths.of(at, b""), what));
        }
        let compared = here.against(&there);
        for (named, lack) in compared.lacks {
            let path = || paths.of(at, &named.name);
            troubles.add(|| match (lack, named.shape) {
                (Lack::Bytes(here), Some((_, there))) => line(
                    &path(),
                    &format!("has {there} bytes there, and {here} here"),
                ),
                _ => line(&path(), "is only there"),
            });
        }
        for (named, theirs) in compared.directories {
            let (Some(our_id), Some(other_id)) = (named.id, theirs.id) else {
                continue;
            };
            // Circles are entered once, and only what is new waits: a maze has no end.
            let pair = (our_id, other_id);
            let is_full = entered.len() >= PAIRS_MAX && !entered.contains(&pair);
            is_cut |= is_full;
            if !is_full && entered.insert(pair) {
                waiting.push((pair, Some(paths.add(at, &theirs.name))));
            }
        }
    }
    if is_cut {
        troubles.add(|| line(b"/", "has more directories than are compared"));
    }
    troubles
}

fn line(path: &[u8], what: &str) -> String {
    format!("{}: {what}", String::from_utf8_lossy(path).escape_debug())
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewell_fs::{CreateMode, SetAttributes, Stability};
    use pagewell_source_ram::RamFileSystem;

    fn tree(files: &[(&str, usize)]) -> RamFileSystem {
        let tree = RamFileSystem::new(64 << 20).unwrap();
        let superuser = Credentials::root();
        let call = Call::new(&superuser, true);
        let made = tree.make_directory(&call, &tree.root(), b"sub", &SetAttributes::default());
        let below = made.unwrap().entry.id;
        let target = SetAttributes::default();
        tree.make_symlink(&call, &below, b"link", b"there", &target)
            .unwrap();
        for (name, size) in files {
            let mode = CreateMode::Unchecked(SetAttributes::default());
            let made = tree.create(&call, &below, name.as_bytes(), &mode).unwrap();
            let (id, bytes) = (made.entry.id, vec![1; *size]);
            tree.write(&call, &id, 0, &bytes, Stability::Unstable)
                .unwrap();
        }
        tree
    }

    #[test]
    fn a_walk_counts_everything_once() {
        let tree = tree(&[("a", 5), ("b", 0), ("c", 70_000)]);
        for (depth, bytes) in [(Depth::Data, 70_005), (Depth::Ends, 2)] {
            let mut read = 0;
            let walked = walk(&tree, None, depth, &mut |bytes| read += bytes);
            assert_eq!(read, bytes);
            let expected = Counts {
                directories: 2,
                files: 3,
                links: 1,
                others: 0,
                bytes: 70_005,
            };
            assert_eq!(walked.counts, expected);
            assert_eq!(walked.unreadable, Troubles::default());
        }
    }

    #[test]
    fn large_directories_and_stores_of_deep_ones_are_looked_at_whole() {
        let names: Vec<String> = (0..PAGE_NAMES * 2 + 5)
            .map(|number| number.to_string())
            .collect();
        let files: Vec<(&str, usize)> = names.iter().map(|name| (name.as_str(), 0)).collect();
        let tree = tree(&files);
        let superuser = Credentials::root();
        let call = Call::new(&superuser, true);
        let attributes = SetAttributes::default();
        let store = tree.make_directory(&call, &tree.root(), b"rr_moved", &attributes);
        let store = store.unwrap().entry.id;
        tree.make_directory(&call, &store, b"below", &attributes)
            .unwrap();
        let counts = walk(&tree, None, Depth::Ends, &mut |_| {}).counts;
        assert_eq!(counts.files, files.len() as u64);
        assert_eq!(counts.directories, 4);
        // It is no name that another tree lacks.
        let other = self::tree(&files);
        let found = compare((&other, TreeName::Joliet), (&tree, TreeName::RockRidge));
        assert_eq!(found, Troubles::default());
    }

    #[test]
    fn what_is_only_in_the_other_tree_is_found_at_any_depth() {
        let ours = tree(&[("a", 5), ("b", 9)]);
        let other = tree(&[("a", 6), ("b", 8), ("c", 0)]);
        let found = compare((&ours, TreeName::Udf), (&other, TreeName::RockRidge));
        let lines = [
            "/sub/a: has 6 bytes there, and 5 here",
            "/sub/c: is only there",
        ];
        assert_eq!(found.lines, lines);
        assert_eq!(found.count, 2);
        let same = compare((&ours, TreeName::Udf), (&ours, TreeName::Joliet));
        assert_eq!(same, Troubles::default());
    }

    #[test]
    fn a_directory_too_large_to_compare_is_none_beside_itself() {
        let names: Vec<String> = (0..=NAMES_MAX).map(|number| number.to_string()).collect();
        let files: Vec<(&str, usize)> = names.iter().map(|name| (name.as_str(), 0)).collect();
        let large = tree(&files);
        let found = compare((&large, TreeName::Udf), (&large, TreeName::Joliet));
        assert_eq!(found.lines, ["/sub: has more names than are compared"]);
        let alone = compare((&large, TreeName::Udf), (&large, TreeName::Udf));
        assert_eq!(alone, Troubles::default());
    }

    #[test]
    fn lines_are_bounded_and_counted() {
        let mut troubles = Troubles::default();
        (0..1005).for_each(|number| troubles.add(|| line(b"/", &number.to_string())));
        assert_eq!((troubles.lines.len(), troubles.count), (TROUBLES_MAX, 1005));
        assert_eq!(troubles.lines[7], "/: 7");
    }
}
