//! [`FileSystem`] for an image.

use std::sync::Arc;

use pagewell_fs::access;
use pagewell_fs::{
    Access, Attributes, Call, Coherence, DirectoryEntry, DirectoryPage, Entry, Error, FileId,
    FileSystem, FileType, Limits, ReadReply, Result, Seek, Statistics,
};

use pagewell_source_bytes::AHEAD_BYTES_MAX;

use super::fields::Place;
use super::node::Node;
use super::space::Piece;
use super::tree::{Entries, Tree};
use super::{UdfFileSystem, read};

/// Objects of a directory that are asked for together, at first and at last: a caller may want few.
const EXPECTED_MIN: u64 = 16;
const EXPECTED_MAX: u64 = 128;

impl Tree {
    fn as_directory(&self, id: &FileId, may_block: bool) -> Result<(Place, Arc<Node>)> {
        let (place, node) = self.resolve(id, may_block)?;
        Error::NotDirectory.unless(node.attributes.file_type.is_directory())?;
        Ok((place, node))
    }

    fn entry(&self, place: Place, node: &Node) -> Entry {
        Entry {
            id: self.id_of(place),
            attributes: node.attributes,
        }
    }

    fn known(&self, place: Place, entries: &mut Entries<'_>, may_block: bool) -> Result<Entry> {
        let node = self.examine(place, entries, may_block)?;
        Ok(self.entry(place, &node))
    }
}

impl FileSystem for UdfFileSystem {
    fn describe(&self) -> String {
        format!(
            "UDF {} image {}",
            self.description.revision_text(),
            self.tree.space().image().bytes().name()
        )
    }

    fn root(&self) -> FileId {
        self.tree.id_of(self.tree.root())
    }

    fn limits(&self) -> Limits {
        Limits {
            links_max: u32::from(u16::MAX),
            symlinks: true,
            time_grain_nanoseconds: 1000,
            coherence: Coherence::UNCHANGED,
            ..Limits::default()
        }
    }

    fn lookup(&self, call: &Call<'_>, directory: &FileId, name: &[u8]) -> Result<Entry> {
        pagewell_fs::name::check(name)?;
        let (tree, may_block) = (&self.tree, call.may_block);
        let (place, node) = tree.as_directory(directory, may_block)?;
        access::check(call.credentials, &node.attributes, Access::LOOKUP)?;
        let entries = &mut tree.entries(may_block);
        match name {
            b"." => return Ok(tree.entry(place, &node)),
            b".." => {
                let parent = tree.parent_of(place, may_block)?;
                return tree.known(parent, entries, may_block);
            }
            _ => {}
        }
        let names = tree.directory(place, may_block)?;
        let value = names.find(name).ok_or(Error::NotFound)?.value;
        let ancestors = if value.is_directory {
            tree.ancestors(place, may_block)?
        } else {
            vec![place]
        };
        let node = tree.enter(value, &ancestors, (entries, may_block))?;
        Ok(tree.entry(value.place, &node))
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
        let payload = read::read(self.tree.space(), &node, offset, count, call.may_block)?;
        let end = offset.saturating_add(payload.len() as u64);
        Ok(ReadReply {
            end_of_file: end >= attributes.size,
            payload,
            attributes,
        })
    }

    fn read_ahead(&self, files: &[FileId]) {
        let (tree, space) = (&self.tree, self.tree.space());
        let parts = files.iter().flat_map(|file| {
            let (_, node) = tree.resolve(file, false)?;
            space.pieces(&node.data, 0, AHEAD_BYTES_MAX, false)
        });
        let parts = parts.flatten().filter_map(Piece::range);
        space.image().bytes().read_ahead(parts);
    }

    fn seek(&self, call: &Call<'_>, id: &FileId, offset: u64, wanted: Seek) -> Result<u64> {
        let (_, node) = self.tree.resolve(id, call.may_block)?;
        node.attributes.file_type.expect_regular()?;
        access::check_read(call.credentials, &node.attributes)?;
        read::seek(&node, offset, wanted)
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
        let (place, node) = tree.as_directory(directory, may_block)?;
        access::check(call.credentials, &node.attributes, Access::READ)?;
        let page = |end| DirectoryPage {
            attributes: node.attributes,
            end,
            unusable: 0,
        };
        // First, so that an unreadable directory gives no entries.
        let names = tree.directory(place, may_block)?;
        let ancestors = tree.ancestors(place, may_block)?;
        let parent = tree.parent_of(place, may_block)?;
        let entries = &mut tree.entries(may_block);
        let (mut expected, mut step) = (cookie, EXPECTED_MIN);
        // A cookie is the index plus one; `.` and `..` come first.
        for index in cookie..names.len() as u64 + 2 {
            let item = index.checked_sub(2).map(|index| index as usize);
            let item = item.and_then(|index| names.items().get(index));
            if with_attributes && index >= expected {
                let start = index.saturating_sub(2) as usize;
                let next = names.items().get(start..).unwrap_or_default();
                entries.expect(tree, next.iter().take(step as usize));
                expected = index + step;
                step = (2 * step).min(EXPECTED_MAX);
            }
            let (name, at) = match (index, item) {
                (0, _) => (&b"."[..], place),
                (_, Some(item)) => (names.name_of(item), item.value.place),
                (_, None) => (&b".."[..], parent),
            };
            let mut examine = || -> Result<Entry> {
                let Some(item) = item else {
                    return tree.known(at, entries, may_block);
                };
                let node = tree.enter(item.value, &ancestors, (entries, may_block))?;
                Ok(tree.entry(at, &node))
            };
            let entry = match with_attributes.then(&mut examine) {
                Some(Ok(entry)) => Some(entry),
                // The entries so far are a page; the next call goes on behind them.
                Some(Err(Error::WouldBlock)) if index > cookie => return Ok(page(false)),
                Some(Err(Error::WouldBlock)) => return Err(Error::WouldBlock),
                Some(Err(_)) | None => None,
            };
            let taken = visit(&DirectoryEntry {
                name,
                file_id: tree.number_of(at),
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
            bytes_total: self.tree.space().image().length_bytes(),
            ..Statistics::default()
        })
    }
}
