//! [`FileSystem`] for an image.

use pagewell_fs::access;
use pagewell_fs::{
    Access, Attributes, Call, Coherence, DirectoryEntry, DirectoryPage, Entry, Error, FileId,
    FileSystem, FileType, Limits, ReadReply, Result, Statistics,
};

use super::file_id::Object;
use super::group::Found;
use super::tree::Tree;
use super::tree_kind::TreeKind;
use super::{IsoFileSystem, read};

/// Cookies of `.` and `..`; the name at index N has N + 3.
const COOKIE_SELF: u64 = 1;
const COOKIE_PARENT: u64 = 2;

impl IsoFileSystem {
    /// An object found in `directory`, near the one before it.
    fn entry(&self, object: Object, near: &mut Option<Found>, place: (u64, bool)) -> Result<Entry> {
        let node = self.tree.enter_next(object, near, place)?;
        Ok(Entry {
            id: self.tree.id_of(object),
            attributes: node.attributes,
        })
    }

    /// A directory itself, or its parent, which need no check for circles.
    fn relative(&self, object: Object, may_block: bool) -> Result<Entry> {
        let node = self.tree.examine(object, may_block)?;
        Ok(Entry {
            id: self.tree.id_of(object),
            attributes: node.attributes,
        })
    }
}

/// Passes one listing to its visitor.
struct Listing<'a> {
    iso: &'a IsoFileSystem,
    may_block: bool,
    with_attributes: bool,
    visited: bool,
    visit: &'a mut dyn FnMut(&DirectoryEntry<'_>) -> bool,
}

impl Listing<'_> {
    /// Gives one name; false when no more is wanted, or can be given now.
    fn give(
        &mut self,
        name: &[u8],
        cookie: u64,
        file_id: u64,
        examine: impl FnOnce(bool) -> Result<Entry>,
    ) -> Result<bool> {
        let entry = if self.with_attributes {
            match examine(self.may_block) {
                Ok(entry) => Some(entry),
                // What was given already is a good page; the next call goes on from there.
                Err(Error::WouldBlock) if self.visited => return Ok(false),
                Err(Error::WouldBlock) => return Err(Error::WouldBlock),
                Err(_) => None,
            }
        } else {
            None
        };
        // A damaged record may be read as far as its own budget allows, and no further here.
        let file_id = entry
            .as_ref()
            .map_or(file_id, |entry| entry.attributes.file_id);
        let taken = (self.visit)(&DirectoryEntry {
            name,
            file_id,
            cookie,
            entry,
        });
        self.visited = true;
        Ok(taken)
    }

    /// Gives everything after `cookie`; true when nothing is left.
    fn run(&mut self, directory: Object, parent: Object, cookie: u64) -> Result<bool> {
        let iso = self.iso;
        let ids = [
            (&b"."[..], COOKIE_SELF, directory),
            (b"..", COOKIE_PARENT, parent),
        ];
        for (name, at, object) in ids {
            if cookie < at {
                let examine = |may_block| iso.relative(object, may_block);
                if !self.give(name, at, object.place(), examine)? {
                    return Ok(false);
                }
            }
        }
        let Object::Directory(position) = directory else {
            return Ok(true);
        };
        let names = iso.tree.directory(position, self.may_block)?;
        let first = usize::try_from(cookie.saturating_sub(COOKIE_PARENT)).unwrap_or(usize::MAX);
        let rest = names.items().get(first..).unwrap_or(&[]);
        let mut near = None;
        for (item, at) in rest
            .iter()
            .zip(cookie.max(COOKIE_PARENT).saturating_add(1)..)
        {
            let object = names.object_of(item);
            let examine = |may_block| iso.entry(object, &mut near, (position, may_block));
            if !self.give(names.name_of(item), at, item.file_id, examine)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl Tree {
    fn as_directory(&self, id: &FileId, may_block: bool) -> Result<(Object, Object, Attributes)> {
        let (object, node) = self.resolve(id, may_block)?;
        match object {
            Object::File(_) => Err(Error::NotDirectory),
            Object::Directory(_) | Object::EmptyDirectory(_) => {
                Ok((object, Object::Directory(node.parent), node.attributes))
            }
        }
    }
}

impl FileSystem for IsoFileSystem {
    fn describe(&self) -> String {
        let tree = &self.tree;
        format!(
            "ISO 9660 image {} ({} names)",
            tree.volume.bytes.name(),
            tree.kind
        )
    }

    fn root(&self) -> FileId {
        self.tree.id_of(Object::Directory(self.tree.root))
    }

    fn limits(&self) -> Limits {
        let posix = self.tree.kind == TreeKind::RockRidge;
        Limits {
            read_only: true,
            file_bytes_max: i64::MAX.cast_unsigned(),
            name_bytes_max: 255,
            links_max: if posix { u32::MAX } else { 1 },
            symlinks: posix,
            times_settable: false,
            time_grain_nanoseconds: 10_000_000,
            case_insensitive: !posix,
        }
    }

    fn lookup(&self, call: &Call<'_>, directory: &FileId, name: &[u8]) -> Result<Entry> {
        pagewell_fs::name::check(name)?;
        let (object, parent, attributes) = self.tree.as_directory(directory, call.may_block)?;
        access::check(call.credentials, &attributes, Access::LOOKUP)?;
        match (name, object) {
            (b".", _) => self.relative(object, call.may_block),
            (b"..", _) => self.relative(parent, call.may_block),
            (_, Object::Directory(position)) => {
                let names = self.tree.directory(position, call.may_block)?;
                let item = names.find(name).ok_or(Error::NotFound)?;
                let place = (position, call.may_block);
                self.entry(names.object_of(item), &mut None, place)
            }
            _ => Err(Error::NotFound),
        }
    }

    fn attributes(&self, call: &Call<'_>, id: &FileId) -> Result<Attributes> {
        let (_, node) = self.tree.resolve(id, call.may_block)?;
        Ok(node.attributes)
    }

    fn access(&self, call: &Call<'_>, id: &FileId, wanted: Access) -> Result<(Access, Attributes)> {
        let (_, node) = self.tree.resolve(id, call.may_block)?;
        let granted = access::granted(call.credentials, &node.attributes, wanted);
        Ok((granted, node.attributes))
    }

    fn read_link(&self, call: &Call<'_>, id: &FileId) -> Result<(Vec<u8>, Attributes)> {
        let (_, node) = self.tree.resolve(id, call.may_block)?;
        if node.attributes.file_type != FileType::Symlink {
            return Err(Error::Invalid);
        }
        match &node.target {
            Some(target) => Ok((target.clone(), node.attributes)),
            None => Err(Error::Io(
                "the target of the symbolic link is damaged".to_owned(),
            )),
        }
    }

    fn read(&self, call: &Call<'_>, id: &FileId, offset: u64, count: u32) -> Result<ReadReply> {
        let (_, node) = self.tree.resolve(id, call.may_block)?;
        let attributes = node.attributes;
        attributes.file_type.expect_regular()?;
        access::check_read(call.credentials, &attributes)?;
        let payload = read::read(&self.tree.volume, &node, offset, count, call.may_block)?;
        let end = offset.saturating_add(payload.len() as u64);
        Ok(ReadReply {
            end_of_file: end >= attributes.size,
            payload,
            attributes,
        })
    }

    fn read_directory(
        &self,
        call: &Call<'_>,
        directory: &FileId,
        cookie: u64,
        with_attributes: bool,
        visit: &mut dyn FnMut(&DirectoryEntry<'_>) -> bool,
    ) -> Result<DirectoryPage> {
        let (object, parent, attributes) = self.tree.as_directory(directory, call.may_block)?;
        access::check(call.credentials, &attributes, Access::READ)?;
        if let Object::Directory(position) = object {
            // Before the first entry is given: a directory that cannot be read gives none.
            self.tree.directory(position, call.may_block)?;
        }
        let mut listing = Listing {
            iso: self,
            may_block: call.may_block,
            with_attributes,
            visited: false,
            visit,
        };
        let end = listing.run(object, parent, cookie)?;
        Ok(DirectoryPage {
            attributes,
            end,
            unusable: 0,
        })
    }

    fn coherence(&self) -> Coherence {
        Coherence::UNCHANGED
    }

    fn statistics(&self, _call: &Call<'_>) -> Result<Statistics> {
        Ok(Statistics {
            bytes_total: self.tree.volume.length_bytes,
            ..Statistics::default()
        })
    }
}
