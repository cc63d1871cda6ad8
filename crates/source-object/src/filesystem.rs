//! [`FileSystem`] for a bucket, or a folder of a web server: reads go to [`Tree`], changes to
//! [`Writer`] and [`Names`].

use std::sync::Arc;
use std::time::Duration;

use pagewell_cache::Cache;
use pagewell_disk_tier::Tier;
use pagewell_fs::{
    Access, Attributes, Call, Change, Coherence, Committed, CreateMode, Created, DirectoryEntry,
    DirectoryPage, Entry, Error, FileId, FileSystem, FileType, Finish, Limits, NodeKind, Opened,
    ReadReply, RenameMode, Result, SetAttributes, Stability, Statistics, Timestamp, Written,
    access,
};
use pagewell_object_client::{Handling, Remote};

use super::data::Data;
use super::file::File;
use super::identifier::Identifier;
use super::listing::DOTS;
use super::making::Names;
use super::moving::Staying;
use super::node::Node;
use super::opens::Open;
use super::tree::{Tree, gone};
use super::writer::{FILE_BYTES_MAX, Writer};

/// How long a front may keep replies, at most: asking again costs no request.
const KEPT_FOR_MAX: Duration = Duration::from_secs(1);
/// Bytes of a target of a symbolic link are fewer (PATH_MAX).
const TARGET_BYTES_MAX: u32 = 4096;
/// Shown for a bucket, which has no size.
const BYTES_TOTAL: u64 = 1 << 50;
const FILES_TOTAL: u64 = 1 << 40;

/// A bucket, or a folder of a web server.
pub struct ObjectFileSystem {
    tree: Arc<Tree>,
    writer: Option<Arc<Writer>>,
}

impl ObjectFileSystem {
    /// What is below `prefix`, which is empty or ends with a slash, read only; `bucket` tells its
    /// keys from those of others. A listing is believed for `age`. Pages go through `cache`, and
    /// behind it to the tier.
    #[must_use]
    pub fn new(
        remote: Arc<dyn Remote>,
        of: (&str, &str),
        age: Duration,
        (cache, tier): (&Cache, Option<Arc<Tier>>),
    ) -> Self {
        let data = Data::new(remote, cache, tier, None);
        let handling = Handling {
            age,
            ..Handling::default()
        };
        Self::of(Tree::new(data, of, &handling))
    }

    pub(super) fn of(tree: Tree) -> Self {
        Self {
            tree: Arc::new(tree),
            writer: None,
        }
    }

    pub(super) fn with_writer(writer: Arc<Writer>) -> Self {
        Self {
            tree: writer.tree().clone(),
            writer: Some(writer),
        }
    }

    /// Refuses callers that may not read a file, without a request where all have the same mode.
    fn check_read(&self, call: &Call<'_>, node: &Arc<Node>) -> Result<()> {
        let attributes = match self.tree.has_metadata() {
            true => self.tree.attributes_of(call, node)?,
            false => Attributes {
                mode: self.tree.file_mode(node),
                file_type: FileType::Regular,
                ..self.tree.of_directory(node)
            },
        };
        attributes.file_type.expect_regular()?;
        access::check_read(call.credentials, &attributes)
    }

    fn writer(&self) -> Result<&Arc<Writer>> {
        self.writer.as_ref().ok_or(Error::ReadOnly)
    }

    /// For a change of this, or of something in it, and maybe in another directory: until the
    /// result is dropped none above is moved.
    fn staying(&self, call: &Call<'_>, id: &FileId, other: Option<&FileId>) -> Result<Staying<'_>> {
        let moving = self.writer()?.moving();
        loop {
            let ended_count = moving.ended_count();
            let node = self.tree.resolve(call, id)?;
            let other = other.map(|id| self.tree.resolve(call, id)).transpose()?;
            if let Some(staying) = moving.stay((node, other), ended_count, call.may_block)? {
                return Ok(staying);
            }
        }
    }

    /// Asks something of an object; where it was moved meanwhile, of what it is now.
    fn ask<T>(
        &self,
        call: &Call<'_>,
        id: &FileId,
        ask: impl Fn(&Arc<Node>) -> Result<T>,
    ) -> Result<T> {
        let mut node = self.tree.resolve(call, id)?;
        loop {
            let failure = match ask(&node) {
                Err(failure @ (Error::NotFound | Error::Stale | Error::Io(_))) => failure,
                other => return other,
            };
            if let Some(writer) = &self.writer {
                writer.moving().wait(&node, call.may_block)?;
            }
            match self.tree.known(id) {
                Some(now) if !Arc::ptr_eq(&now, &node) => node = now,
                _ => return Err(failure),
            }
        }
    }

    fn names<'a>(&'a self, call: &'a Call<'_>) -> Result<Names<'a>> {
        let writer = self.writer()?;
        Ok(Names { writer, call })
    }
}

/// Attributes with the number of the identifier that was asked for: clients that know a moved
/// object by its old identifier see one number.
fn as_asked(id: &FileId, attributes: Attributes) -> Attributes {
    let number =
        Identifier::of_id(id).map(|identifier| identifier.hash().number(identifier.turn()));
    Attributes {
        file_id: number.unwrap_or(attributes.file_id),
        ..attributes
    }
}

impl FileSystem for ObjectFileSystem {
    fn describe(&self) -> String {
        match &self.writer {
            Some(writer) => writer.describe(),
            None => self.tree.data().remote().describe(),
        }
    }

    fn root(&self) -> FileId {
        self.tree.root().id()
    }

    fn limits(&self) -> Limits {
        Limits {
            read_only: self.writer.is_none(),
            file_bytes_max: FILE_BYTES_MAX,
            symlinks: self.tree.has_metadata(),
            times_settable: self.writer.is_some(),
            coherence: Coherence::same(self.tree.age().min(KEPT_FOR_MAX)),
            ..Limits::default()
        }
    }

    fn lookup(&self, call: &Call<'_>, directory: &FileId, name: &[u8]) -> Result<Entry> {
        pagewell_fs::name::check(name)?;
        let node = self.tree.directory(call, directory)?;
        access::check(
            call.credentials,
            &self.tree.of_directory(&node),
            Access::LOOKUP,
        )?;
        match name {
            b"." => Ok(self.tree.entry_of_directory(&node)),
            b".." => Ok(self.tree.entry_of_directory(node.parent())),
            _ => {
                let (item, at) = self.tree.find(call, &node, name)?;
                let node = self.tree.child(&node, &item, at);
                match self.tree.entry(&node, &item.found) {
                    Some(entry) => Ok(entry),
                    None => Ok(Entry {
                        id: node.id(),
                        attributes: self.tree.attributes_of(call, &node)?,
                    }),
                }
            }
        }
    }

    fn attributes(&self, call: &Call<'_>, id: &FileId) -> Result<Attributes> {
        let attributes = self.ask(call, id, |node| self.tree.attributes_of(call, node));
        attributes.map(|attributes| as_asked(id, attributes))
    }

    fn access(&self, call: &Call<'_>, id: &FileId, wanted: Access) -> Result<(Access, Attributes)> {
        let attributes = self.ask(call, id, |node| self.tree.attributes_of(call, node))?;
        let is_directory = attributes.file_type.is_directory();
        let granted = match self.writer {
            None => access::granted(call.credentials, &attributes, wanted),
            Some(_) => access::among(wanted, is_directory, |needed| {
                access::allows(call.credentials, &attributes, needed)
            }),
        };
        Ok((granted, as_asked(id, attributes)))
    }

    fn read_link(&self, call: &Call<'_>, id: &FileId) -> Result<(Vec<u8>, Attributes)> {
        let (read, attributes) = self.ask(call, id, |node| {
            let attributes = self.tree.attributes_of(call, node)?;
            Error::Invalid.unless(attributes.file_type == FileType::Symlink)?;
            let file = node.file().ok_or(Error::Invalid)?;
            let range = (0, TARGET_BYTES_MAX);
            let read = file.read(node.key(), self.tree.data(), range, call.may_block)?;
            Ok((read, attributes))
        })?;
        let mut target = vec![0; read.payload.len()];
        let copied = read.payload.copy_to(&mut target, call.may_block)?;
        target.truncate(copied);
        // Others made it.
        Error::NameTooLong.when(copied >= TARGET_BYTES_MAX as usize)?;
        Ok((target, attributes))
    }

    fn read(&self, call: &Call<'_>, id: &FileId, offset: u64, count: u32) -> Result<ReadReply> {
        let range = (offset, count);
        self.ask(call, id, |node| {
            let file = node.file().ok_or(Error::IsDirectory)?;
            self.check_read(call, node)?;
            if offset == 0 {
                self.tree.walk(node);
            }
            let read = file.read(node.key(), self.tree.data(), range, call.may_block);
            let read = read.map_err(gone)?;
            let end = offset.saturating_add(read.payload.len() as u64);
            Ok(ReadReply {
                end_of_file: end >= read.shown.length_bytes,
                payload: read.payload,
                attributes: as_asked(id, self.tree.of_file(node, &read.shown)),
            })
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
        let node = self.tree.directory(call, directory)?;
        let attributes = self.tree.of_directory(&node);
        access::check(call.credentials, &attributes, Access::READ)?;
        let page = |end, unusable| DirectoryPage {
            attributes,
            end,
            unusable,
        };
        let dots = [(&b"."[..], &node), (b"..", node.parent())];
        for ((name, object), at) in dots.into_iter().zip(1..).filter(|(_, at)| *at > cookie) {
            let entry = self.tree.entry_of_directory(object);
            let taken = visit(&DirectoryEntry {
                name,
                file_id: entry.attributes.file_id,
                cookie: at,
                entry: with_attributes.then_some(entry),
            });
            if !taken {
                return Ok(page(false, 0));
            }
        }
        let listed = node.directory().ok_or(Error::NotDirectory)?;
        if with_attributes && self.tree.has_metadata() && call.may_block {
            self.tree.bring_metadata(call, &node, cookie.max(DOTS))?;
        }
        let read = listed.read(
            self.tree.asked(call, &node),
            cookie.max(DOTS),
            &mut |item, at| {
                let child = || self.tree.child(&node, item, at);
                let entry = with_attributes.then(child);
                let entry = entry.and_then(|child| self.tree.entry(&child, &item.found));
                visit(&DirectoryEntry {
                    name: &item.name,
                    file_id: self.tree.number(&node, item),
                    cookie: item.cookie,
                    entry,
                })
            },
        );
        self.tree.listings().count(&node);
        let (end, unusable) = read.map_err(gone)?;
        Ok(page(end, unusable))
    }

    fn statistics(&self, _call: &Call<'_>) -> Result<Statistics> {
        let free = |all: u64| if self.writer.is_some() { all } else { 0 };
        Ok(Statistics {
            bytes_total: BYTES_TOTAL,
            bytes_free: free(BYTES_TOTAL),
            bytes_available: free(BYTES_TOTAL),
            files_total: free(FILES_TOTAL),
            files_free: free(FILES_TOTAL),
            files_available: free(FILES_TOTAL),
        })
    }

    /// Asks for the version that the remote has now, unless what was seen is believed. Where memory
    /// has no bytes of it, the first request for them shows whether it is still there.
    fn open(&self, call: &Call<'_>, id: &FileId) -> Result<Opened> {
        self.ask(call, id, |node| {
            let Some(file) = node.file() else {
                return Ok(Opened::plain(self.tree.of_directory(node)));
            };
            let has_pages = file.has_pages();
            let attributes = if has_pages && self.tree.asks_at_open(file) {
                Error::WouldBlock.unless(call.may_block)?;
                let shown = file.ask(node.key(), self.tree.data()).map_err(gone)?;
                self.tree.of_file(node, &shown)
            } else {
                self.tree.attributes_of(call, node)?
            };
            let (open, keep_cache) = Open::new(node, has_pages)?;
            Ok(Opened {
                attributes,
                keep_cache,
                file: None,
                hold: Some(Box::new(open)),
            })
        })
    }

    fn set_attributes(
        &self,
        call: &Call<'_>,
        id: &FileId,
        attributes: &SetAttributes,
        guard: Option<Timestamp>,
    ) -> Result<Change> {
        let staying = self.staying(call, id, None)?;
        let set = self.writer()?;
        let mut change = set.set_attributes(call, staying.node(), attributes, guard)?;
        change.after = change.after.map(|after| as_asked(id, after));
        Ok(change)
    }

    fn write(
        &self,
        call: &Call<'_>,
        id: &FileId,
        offset: u64,
        data: &[u8],
        stability: Stability,
    ) -> Result<Written> {
        let staying = self.staying(call, id, None)?;
        let mut written = self
            .writer()?
            .write(call, staying.node(), (offset, data), stability)?;
        written.change.after = written.change.after.map(|after| as_asked(id, after));
        Ok(written)
    }

    fn commit(&self, call: &Call<'_>, id: &FileId, _offset: u64, _count: u32) -> Result<Committed> {
        let staying = self.staying(call, id, None)?;
        let mut committed = self.writer()?.committed(call, staying.node())?;
        committed.change.after = committed.change.after.map(|after| as_asked(id, after));
        Ok(committed)
    }

    fn write_verifier(&self, _id: Option<&FileId>) -> [u8; 8] {
        self.writer
            .as_ref()
            .map_or([0; 8], |writer| writer.verifier())
    }

    fn create(
        &self,
        call: &Call<'_>,
        directory: &FileId,
        name: &[u8],
        mode: &CreateMode,
    ) -> Result<Created> {
        let _staying = self.staying(call, directory, None)?;
        self.names(call)?.create(directory, name, mode)
    }

    fn make_directory(
        &self,
        call: &Call<'_>,
        directory: &FileId,
        name: &[u8],
        attributes: &SetAttributes,
    ) -> Result<Created> {
        let _staying = self.staying(call, directory, None)?;
        let names = self.names(call)?;
        names.make_directory(directory, name, attributes)
    }

    fn make_symlink(
        &self,
        call: &Call<'_>,
        directory: &FileId,
        name: &[u8],
        target: &[u8],
        attributes: &SetAttributes,
    ) -> Result<Created> {
        Error::Invalid.when(target.is_empty() || target.contains(&0))?;
        Error::NameTooLong.when(target.len() >= TARGET_BYTES_MAX as usize)?;
        let kind = (FileType::Symlink, None);
        let _staying = self.staying(call, directory, None)?;
        let names = self.names(call)?;
        names.make_special((directory, name), kind, target, attributes)
    }

    fn make_node(
        &self,
        call: &Call<'_>,
        directory: &FileId,
        name: &[u8],
        kind: NodeKind,
        attributes: &SetAttributes,
    ) -> Result<Created> {
        let kind = match kind {
            NodeKind::CharacterDevice(major, minor) => {
                (FileType::CharacterDevice, Some((major, minor)))
            }
            NodeKind::BlockDevice(major, minor) => (FileType::BlockDevice, Some((major, minor))),
            NodeKind::Socket => (FileType::Socket, None),
            NodeKind::Fifo => (FileType::Fifo, None),
        };
        let _staying = self.staying(call, directory, None)?;
        let names = self.names(call)?;
        names.make_special((directory, name), kind, &[], attributes)
    }

    fn remove(&self, call: &Call<'_>, directory: &FileId, name: &[u8]) -> Result<Change> {
        let _staying = self.staying(call, directory, None)?;
        self.names(call)?.remove(directory, name)
    }

    fn remove_directory(&self, call: &Call<'_>, directory: &FileId, name: &[u8]) -> Result<Change> {
        let _staying = self.staying(call, directory, None)?;
        self.names(call)?.remove_directory(directory, name)
    }

    fn rename(
        &self,
        call: &Call<'_>,
        from: (&FileId, &[u8]),
        to: (&FileId, &[u8]),
        mode: RenameMode,
    ) -> Result<(Change, Change)> {
        let _staying = self.staying(call, from.0, Some(to.0))?;
        self.names(call)?.rename(from, to, mode)
    }

    fn finish(&self, how: Finish) -> Result<u64> {
        self.writer
            .as_ref()
            .map_or(Ok(0), |writer| writer.finish(how))
    }

    fn close(&self, call: &Call<'_>, id: &FileId) -> Result<()> {
        let Some(writer) = &self.writer else {
            return Ok(());
        };
        let node = self.tree.resolve(call, id)?;
        let may_wait = |file: &File| file.has_to_send() || file.is_moved();
        if node.file().is_some_and(may_wait) {
            Error::WouldBlock.unless(call.may_block)?;
            let staying = self.staying(call, id, None)?;
            writer.commit(staying.node())?;
        }
        Ok(())
    }
}
