//! Names that are made and removed.
//!
//! A name is made under the condition that there is none. A directory is an object with a slash at
//! its end; one that has lost its last name gets such an object, or it would end with that name.

use std::sync::Arc;

use pagewell_fs::{
    Call, Change, CreateMode, Created, Error, FileId, FileType, Result, SetAttributes, Timestamp,
    access,
};
use pagewell_object_client::{
    Bytes, Condition, Error as RemoteError, ListQuery, Metadata, Version, WritableRemote,
};

use super::error;
use super::file::File;
use super::identifier::Kind;
use super::listing::{Found, Item};
use super::metadata::Marks;
use super::name;
use super::node::Node;
use super::sending::note_made;
use super::tree::Tree;
use super::writer::{Writer, marks_of};

const KEY_BYTES_MAX: usize = 1024;
/// The metadata by which a client knows the file that it made (RFC 1813 section 3.3.8).
const CREATE: &str = "pagewell-create";
const MAY_CHANGE: u32 = 0o3;
/// Tries to remove an object that changes meanwhile.
const TRIES_MAX: usize = 4;

#[derive(Clone, Copy)]
pub(super) struct Names<'a> {
    pub writer: &'a Writer,
    pub call: &'a Call<'a>,
}

pub(super) struct Place<'a> {
    pub directory: Arc<Node>,
    pub name: &'a str,
}

impl Place<'_> {
    pub(super) fn key(&self) -> String {
        [self.directory.key(), self.name].concat()
    }
}

impl<'a> Names<'a> {
    pub(super) fn tree(&self) -> &'a Tree {
        self.writer.tree()
    }

    pub(super) fn store(&self) -> Result<&'a dyn WritableRemote> {
        let remote = self.writer.tree().data().remote();
        remote.as_writable().ok_or(Error::ReadOnly)
    }

    /// Where a name is to be made or removed, by a caller that may.
    pub(super) fn place<'n>(&self, directory: &FileId, name: &'n [u8]) -> Result<Place<'n>> {
        Error::WouldBlock.unless(self.call.may_block)?;
        self.writer.rights(self.call)?;
        let directory = self.tree().directory(self.call, directory)?;
        let attributes = self.tree().of_directory(&directory);
        let may = access::allows(self.call.credentials, &attributes, MAY_CHANGE);
        Error::AccessDenied.unless(may)?;
        let text = std::str::from_utf8(name).map_err(|_| Error::Invalid)?;
        Ok(Place {
            directory,
            name: text,
        })
    }

    /// The same for a new name: one that a store may take for another is refused.
    pub(super) fn new_place<'n>(&self, directory: &FileId, name: &'n [u8]) -> Result<Place<'n>> {
        pagewell_fs::name::check_new(name)?;
        let place = self.place(directory, name)?;
        Error::NotPermitted.when(self.tree().is_hidden(&place.directory, name))?;
        let is_plain = name::is_plain(name) && !place.name.chars().any(char::is_control);
        Error::Invalid.unless(is_plain)?;
        Error::NameTooLong.when(place.key().len() >= KEY_BYTES_MAX)?;
        Error::Invalid.unless(self.store()?.takes(&place.key()))?;
        Ok(place)
    }

    pub(super) fn find(&self, place: &Place<'_>) -> Result<Option<Item>> {
        match self
            .tree()
            .find(self.call, &place.directory, place.name.as_bytes())
        {
            Ok((item, _)) => Ok(Some(item)),
            Err(Error::NotFound) => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(super) fn existing(&self, place: &Place<'_>) -> Result<(Item, Arc<Node>)> {
        let found = self
            .tree()
            .find(self.call, &place.directory, place.name.as_bytes());
        let (item, at) = found?;
        // Only others can have made its key.
        Error::NotPermitted.when(item.segment.is_some())?;
        let node = self.tree().child(&place.directory, &item, at);
        Ok((item, node))
    }

    fn created(&self, node: &Arc<Node>, directory: &Node) -> Result<Created> {
        Ok(Created {
            entry: pagewell_fs::Entry {
                id: node.id(),
                attributes: self.tree().attributes_of(self.call, node)?,
            },
            parent: self.change_of(directory),
        })
    }

    pub(super) fn change_of(&self, directory: &Node) -> Change {
        Change {
            before: None,
            after: Some(self.tree().of_directory(directory)),
        }
    }

    /// [`pagewell_fs::FileSystem::create`].
    pub(super) fn create(
        &self,
        directory: &FileId,
        name: &[u8],
        mode: &CreateMode,
    ) -> Result<Created> {
        let place = self.new_place(directory, name)?;
        if self.find(&place)?.is_some() {
            return self.take_existing(&place, mode);
        }
        let node = self.tree().made(&place.directory, Kind::File, &place.key());
        let file = node.file().ok_or(Error::Exists)?;
        if !self.writer.is_at_once() {
            // It may send another file, which takes that file's lock.
            self.writer.note_changed(self.call, &node)?;
        }
        let alone = file.hold_to_send();
        if self.has_changes(&node, file)? {
            drop(alone);
            return self.take_existing(&place, mode);
        }
        let marks = self.marks_of_new(&node, mode);
        if self.writer.is_at_once() {
            let mut metadata = marks.map_or_else(Metadata::new, |marks| marks.to(&Metadata::new()));
            if let CreateMode::Exclusive(verifier) = mode {
                metadata.push((CREATE.to_owned(), hexadecimal(verifier).into_bytes()));
            }
            match self.put_new(&node, file, (&[], metadata)) {
                Ok(()) => {}
                Err(Error::Exists) => {
                    drop(alone);
                    return self.take_existing(&place, mode);
                }
                Err(error) => return Err(error),
            }
        } else {
            file.begin(self.tree().data().create(node.key()), None);
            if let Some(marks) = marks.filter(|_| self.tree().has_metadata()) {
                file.set(marks, true);
            }
            self.writer.note_again(&node);
            note_made(&node, Found::File(NOTHING), false);
        }
        drop(alone);
        self.created(&node, &place.directory)
    }

    /// Whether a file that no listing has is changed here: another writer has removed it, or the
    /// listing is too old. Its changes are sent, not thrown away. The caller has
    /// [`File::hold_to_send`].
    ///
    /// # Errors
    /// [`Error::TryLater`]: it was just moved away.
    fn has_changes(&self, node: &Arc<Node>, file: &File) -> Result<bool> {
        Error::TryLater.when(file.is_moved())?;
        let is_changed = file.is_changed() && !file.is_removed();
        if is_changed {
            self.writer.send_held(node, file)?;
        }
        Ok(is_changed)
    }

    fn marks_of_new(&self, node: &Node, mode: &CreateMode) -> Option<Marks> {
        let attributes = match mode {
            CreateMode::Unchecked(attributes) | CreateMode::Guarded(attributes) => *attributes,
            CreateMode::Exclusive(_) => SetAttributes::default(),
        };
        if self.tree().has_metadata() {
            return Some(self.marks_by_caller(&attributes));
        }
        node.set(marks_of(&attributes));
        attributes.mode.map(|_| node.set_here())
    }

    fn marks_by_caller(&self, attributes: &SetAttributes) -> Marks {
        let owner = Marks {
            uid: Some(self.call.credentials.uid),
            gid: Some(self.call.credentials.gid),
            ..Marks::default()
        };
        marks_of(attributes).over(owner)
    }

    fn put_new(
        &self,
        node: &Arc<Node>,
        file: &File,
        (body, metadata): (&[u8], Metadata),
    ) -> Result<()> {
        let body = Bytes::copy_from_slice(body);
        let put = self
            .store()?
            .put(node.key(), body, &Condition::Absent, &metadata);
        let version = put.map_err(error::of_call)?;
        file.made(&version, Some(metadata), Timestamp::now());
        note_made(node, Found::File(version), true);
        Ok(())
    }

    /// Makes what metadata alone tells from a file: a link, a device.
    pub(super) fn make_special(
        &self,
        (directory, name): (&FileId, &[u8]),
        (file_type, device): (FileType, Option<(u32, u32)>),
        body: &[u8],
        attributes: &SetAttributes,
    ) -> Result<Created> {
        Error::NotPermitted.unless(self.tree().has_metadata())?;
        let place = self.new_place(directory, name)?;
        Error::Exists.when(self.find(&place)?.is_some())?;
        let node = self.tree().made(&place.directory, Kind::File, &place.key());
        let file = node.file().ok_or(Error::Exists)?;
        let alone = file.hold_to_send();
        Error::Exists.when(self.has_changes(&node, file)?)?;
        let marks = Marks {
            file_type: Some(file_type),
            device,
            ..self.marks_by_caller(attributes)
        };
        self.put_new(&node, file, (body, marks.to(&Metadata::new())))?;
        drop(alone);
        self.created(&node, &place.directory)
    }

    /// A create of a name that is there.
    fn take_existing(&self, place: &Place<'_>, mode: &CreateMode) -> Result<Created> {
        let (item, node) = match self.existing(place) {
            Err(Error::NotFound) => {
                // Another writer has made it since it was listed.
                let parent = place.directory.directory().ok_or(Error::NotDirectory)?;
                parent.mistrust(place.name.as_bytes());
                self.existing(place)?
            }
            other => other?,
        };
        match mode {
            CreateMode::Guarded(_) => Err(Error::Exists),
            _ if item.kind() == Kind::Directory => Err(Error::Exists),
            CreateMode::Unchecked(attributes) => {
                let size_alone = SetAttributes {
                    size: attributes.size,
                    ..SetAttributes::default()
                };
                if size_alone.size.is_some() {
                    self.writer
                        .set_attributes(self.call, &node, &size_alone, None)?;
                }
                self.created(&node, &place.directory)
            }
            CreateMode::Exclusive(verifier) => {
                let file = node.file().ok_or(Error::Exists)?;
                file.ask(node.key(), self.tree().data())?;
                let metadata = file.metadata().ok_or(Error::Exists)?;
                let is_own = |(name, value): &(String, Vec<u8>)| {
                    name.eq_ignore_ascii_case(CREATE) && *value == hexadecimal(verifier).as_bytes()
                };
                Error::Exists.unless(metadata.iter().any(is_own))?;
                self.created(&node, &place.directory)
            }
        }
    }

    /// [`pagewell_fs::FileSystem::make_directory`].
    pub(super) fn make_directory(
        &self,
        directory: &FileId,
        name: &[u8],
        attributes: &SetAttributes,
    ) -> Result<Created> {
        let place = self.new_place(directory, name)?;
        Error::Exists.when(self.find(&place)?.is_some())?;
        let key = format!("{}/", place.key());
        let node = self.tree().made(&place.directory, Kind::Directory, &key);
        self.put_marker(&key)?;
        node.set(match self.tree().has_metadata() {
            true => self.marks_by_caller(attributes),
            false => marks_of(attributes),
        });
        let made = node.directory().ok_or(Error::Exists)?;
        made.begin_empty();
        self.tree().listings().count(&node);
        note_made(&node, Found::Directory, true);
        self.created(&node, &place.directory)
    }

    fn put_marker(&self, key: &str) -> Result<()> {
        let put = self
            .store()?
            .put(key, Bytes::new(), &Condition::Absent, &Metadata::new());
        put.map(drop).map_err(error::of_call)
    }

    /// [`pagewell_fs::FileSystem::remove`].
    pub(super) fn remove(&self, directory: &FileId, name: &[u8]) -> Result<Change> {
        pagewell_fs::name::check_old(name)?;
        let place = self.place(directory, name)?;
        let (item, node) = self.existing(&place)?;
        let file = node.file().ok_or(Error::IsDirectory)?;
        let alone = file.hold_to_send();
        Error::NotFound.when(file.is_moved())?;
        if !file.is_only_here() {
            self.delete(&node, file)?;
        }
        self.removed(&place, &item, &node, file);
        drop(alone);
        self.keep_directory(&place.directory);
        Ok(self.change_of(&place.directory))
    }

    /// Deletes the object of a file as it is now.
    fn delete(&self, node: &Arc<Node>, file: &File) -> Result<()> {
        let rights = self.writer.rights(self.call)?;
        for _ in 0..TRIES_MAX {
            let known = file.known().filter(|version| !version.is_weak());
            let condition = match known {
                Some(version) if rights.guards_deletes => Condition::Is(version),
                _ => Condition::Always,
            };
            match self.store()?.delete(node.key(), &condition) {
                Ok(()) => return Ok(()),
                Err(RemoteError::Changed) => {
                    file.ask(node.key(), self.tree().data())?;
                }
                Err(failure) => return Err(error::of_call(failure)),
            }
        }
        Err(Error::TryLater)
    }

    fn removed(&self, place: &Place<'_>, item: &Item, node: &Arc<Node>, file: &File) {
        // What is made with this name is another file.
        self.tree().orphaned(node);
        if !file.remove() {
            self.writer.give_up(file);
        }
        self.writer.forget(node);
        if let Some(directory) = place.directory.directory() {
            directory.note_removed(item);
        }
    }

    /// Keeps a directory that may have lost its last name.
    pub(super) fn keep_directory(&self, node: &Arc<Node>) {
        let is_empty = node
            .directory()
            .is_some_and(|directory| directory.is_empty());
        if node.key() == self.tree().root().key() || !is_empty {
            return;
        }
        match self.put_marker(node.key()) {
            Ok(()) | Err(Error::Exists) => {}
            Err(error) => tracing::warn!("{}: may be gone, as it is empty: {error}", node.key()),
        }
    }

    /// [`pagewell_fs::FileSystem::remove_directory`].
    pub(super) fn remove_directory(&self, directory: &FileId, name: &[u8]) -> Result<Change> {
        pagewell_fs::name::check_old(name)?;
        let place = self.place(directory, name)?;
        let (item, node) = self.existing(&place)?;
        let own = node.directory().ok_or(Error::NotDirectory)?;
        self.check_empty(&node)?;
        let deleted = self.store()?.delete(node.key(), &Condition::Always);
        deleted.map_err(error::of_call)?;
        own.begin_empty();
        if let Some(directory) = place.directory.directory() {
            directory.note_removed(&item);
        }
        self.keep_directory(&place.directory);
        Ok(self.change_of(&place.directory))
    }

    pub(super) fn check_empty(&self, node: &Node) -> Result<()> {
        let waits = node
            .directory()
            .is_some_and(|directory| directory.has_waiting());
        Error::NotEmpty.when(waits)?;
        let query = ListQuery {
            prefix: node.key(),
            delimiter: false,
            token: None,
            page_entries_max: 2,
        };
        let listed = self
            .tree()
            .data()
            .remote()
            .list(&query)
            .map_err(error::of_call)?;
        let has_names = listed.objects.iter().any(|object| object.key != node.key());
        Error::NotEmpty.when(has_names || listed.next.is_some())
    }
}

/// The version of a file that the store does not have.
pub(super) const NOTHING: Version = Version {
    etag: None,
    last_modified: None,
    length_bytes: 0,
};

fn hexadecimal(verifier: &[u8; 8]) -> String {
    format!("{:016x}", u64::from_be_bytes(*verifier))
}
