//! [`FileSystem`] for an image.

use std::sync::Arc;

use pagewell_fs::access;
use pagewell_fs::{
    Access, Attributes, Call, Coherence, DirectoryEntry, DirectoryPage, Entry, Error,
    ExtendedAttributes, FileId, FileSystem, FileType, Limits, ReadReply, Result, Statistics,
};

use pagewell_source_bytes::AHEAD_BYTES_MAX;

use super::directory::Directory;
use super::file_id::{Object, TreeKind};
use super::node::Node;
use super::tree::Tree;
use super::{IsoFileSystem, file_id, read};

impl Tree {
    fn as_directory(&self, id: &FileId, may_block: bool) -> Result<(Object, Object, Attributes)> {
        let (object, node) = self.resolve(id, may_block)?;
        match object {
            Object::File(_) => Err(Error::NotDirectory),
            Object::EmptyDirectory(_) => {
                Ok((object, Object::Directory(node.parent), node.attributes))
            }
            Object::Directory(position) => {
                let parent = self.parent_of(position, &node);
                Ok((object, Object::Directory(parent), node.attributes))
            }
        }
    }

    fn names(&self, directory: Object, may_block: bool) -> Result<Arc<Directory>> {
        match directory {
            Object::Directory(position) => self.directory(position, may_block),
            _ => Ok(Arc::new(Directory::new(0, false))),
        }
    }

    fn entry(&self, object: Object, node: &Node) -> Entry {
        Entry {
            id: self.id_of(object, node.shared),
            attributes: node.attributes,
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
        self.tree.id_of(Object::Directory(self.tree.root), None)
    }

    fn object_of(&self, id: &FileId) -> FileId {
        file_id::object_of(id)
    }

    fn limits(&self) -> Limits {
        let posix = self.tree.kind == TreeKind::RockRidge;
        Limits {
            links_max: if posix { u32::MAX } else { 1 },
            symlinks: posix,
            time_grain_nanoseconds: 10_000_000,
            case_insensitive: self.tree.ignores_case(),
            coherence: Coherence::UNCHANGED,
            ..Limits::default()
        }
    }

    fn lookup(&self, call: &Call<'_>, directory: &FileId, name: &[u8]) -> Result<Entry> {
        pagewell_fs::name::check(name)?;
        let (tree, may_block) = (&self.tree, call.may_block);
        let (directory, parent, attributes) = tree.as_directory(directory, may_block)?;
        access::check(call.credentials, &attributes, Access::LOOKUP)?;
        // A directory and its parent need no check for circles.
        let itself = match name {
            b"." => Some(directory),
            b".." => Some(parent),
            _ => None,
        };
        if let Some(object) = itself {
            let node = tree.examine(object, may_block)?;
            return Ok(tree.entry(object, &node));
        }
        let names = tree.names(directory, may_block)?;
        let object = names.object_of(names.find(name).ok_or(Error::NotFound)?);
        let node = tree.enter(object, directory.place(), may_block)?;
        Ok(tree.entry(object, &node))
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
        let (object, node) = self.tree.resolve(id, call.may_block)?;
        let attributes = node.attributes;
        attributes.file_type.expect_regular()?;
        access::check_read(call.credentials, &attributes)?;
        let volume = &self.tree.volume;
        let payload = match node.compression {
            None => read::read(volume, &node, offset, count, call.may_block)?,
            Some(compression) => {
                let place = (volume, object.place());
                let range = (offset, count, call.may_block);
                self.compressed.read(place, &node, compression, range)?
            }
        };
        let end = offset.saturating_add(payload.len() as u64);
        Ok(ReadReply {
            end_of_file: end >= attributes.size,
            payload,
            attributes,
        })
    }

    fn extended_attributes(&self) -> Option<&dyn ExtendedAttributes> {
        self.has_attributes.then_some(self)
    }

    fn read_ahead(&self, files: &[FileId]) {
        let volume = &self.tree.volume;
        let parts = files.iter().flat_map(|file| {
            let (_, node) = self.tree.resolve(file, false)?;
            // An entry of zisofs can announce much more data than the file has.
            let wanted = read::length_bytes(&node.sections).min(AHEAD_BYTES_MAX);
            Ok::<_, Error>(read::runs(volume, &node.sections, 0, wanted))
        });
        let ranges = parts
            .flatten()
            .map(|run| run.position..run.position + run.length as u64);
        volume.bytes.read_ahead(ranges);
    }

    fn read_directory(
        &self,
        call: &Call<'_>,
        directory: &FileId,
        cookie: u64,
        with_attributes: bool,
        visit: &mut dyn FnMut(&DirectoryEntry<'_>) -> bool,
    ) -> Result<DirectoryPage> {
        let (tree, may_block) = (&self.tree, call.may_block);
        let (directory, parent, attributes) = tree.as_directory(directory, may_block)?;
        access::check(call.credentials, &attributes, Access::READ)?;
        let page = |end| DirectoryPage {
            attributes,
            end,
            unusable: 0,
        };
        // First, so that an unreadable directory gives no entries.
        let names = tree.names(directory, may_block)?;
        let mut near = None;
        // A cookie is the index plus one; `.` and `..` come first.
        for index in cookie..names.items().len() as u64 + 2 {
            let (name, object, file_id) = match index {
                0 => (&b"."[..], directory, directory.number()),
                1 => (&b".."[..], parent, parent.number()),
                _ => {
                    let item = &names.items()[index as usize - 2];
                    (
                        names.name_of(item),
                        names.object_of(item),
                        names.number_of(item),
                    )
                }
            };
            let examine = || -> Result<Entry> {
                if index < 2 {
                    let node = tree.examine(object, may_block)?;
                    return Ok(tree.entry(object, &node));
                }
                let place = (directory.place(), may_block);
                Ok(tree.entry(object, tree.enter_next(object, &mut near, place)?))
            };
            let entry = match with_attributes.then(examine) {
                Some(Ok(entry)) => Some(entry),
                // The entries so far are a page.
                Some(Err(Error::WouldBlock)) if index > cookie => return Ok(page(false)),
                Some(Err(Error::WouldBlock)) => return Err(Error::WouldBlock),
                Some(Err(_)) | None => None,
            };
            let taken = visit(&DirectoryEntry {
                name,
                // For a damaged record the two may differ.
                file_id: entry.map_or(file_id, |entry| entry.attributes.file_id),
                cookie: index + 1,
                entry,
            });
            if !taken {
                return Ok(page(false));
            }
        }
        Ok(page(true))
    }

    fn statistics(&self, _call: &Call<'_>) -> Result<Statistics> {
        Ok(Statistics {
            bytes_total: self.tree.volume.length_bytes,
            ..Statistics::default()
        })
    }
}
