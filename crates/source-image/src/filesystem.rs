//! [`FileSystem`] for an image: a root directory with one file.

use pagewell_fs::access;
use pagewell_fs::{
    Access, Attributes, Call, Coherence, DirectoryEntry, DirectoryPage, Entry, Error, FileId,
    FileSystem, FileType, Finish, Limits, Payload, ReadReply, Result, Statistics, forward,
};
use pagewell_source_bytes::Run;

use super::change::Changes;
use super::{ImageFileSystem, Object};

const ROOT_FILE_ID: u64 = 1;

impl ImageFileSystem {
    pub(super) fn attributes_of(&self, object: Object) -> Attributes {
        match object {
            Object::File => self.changes.as_ref().map_or(self.file, Changes::file),
            // Callers that may not read the file may still see it. The directory does not change.
            Object::Root => Attributes {
                file_type: FileType::Directory,
                mode: 0o555,
                link_count: 2,
                size: 0,
                used: 0,
                file_id: ROOT_FILE_ID,
                ..self.file
            },
        }
    }

    pub(super) fn entry(&self, object: Object) -> Entry {
        Entry {
            id: self.id_of(object),
            attributes: self.attributes_of(object),
        }
    }

    /// Attributes of the root directory; an error for the file.
    pub(super) fn directory(&self, id: &FileId) -> Result<Attributes> {
        match self.resolve(id)? {
            Object::Root => Ok(self.attributes_of(Object::Root)),
            Object::File => Err(Error::NotDirectory),
        }
    }
}

impl FileSystem for ImageFileSystem {
    // Methods in `write`.
    forward! { self => self; set_attributes, write, commit, create }

    fn describe(&self) -> String {
        let length = self.bytes.length_bytes();
        format!("image {} ({length} bytes)", self.bytes.name())
    }

    fn root(&self) -> FileId {
        self.id_of(Object::Root)
    }

    fn limits(&self) -> Limits {
        Limits {
            read_only: self.changes.is_none(),
            times_settable: self.changes.is_some(),
            fixed_lengths: true,
            coherence: Coherence::UNCHANGED,
            ..Limits::default()
        }
    }

    fn lookup(&self, call: &Call<'_>, directory: &FileId, name: &[u8]) -> Result<Entry> {
        pagewell_fs::name::check(name)?;
        let attributes = self.directory(directory)?;
        access::check(call.credentials, &attributes, Access::LOOKUP)?;
        match name {
            b"." | b".." => Ok(self.entry(Object::Root)),
            _ if name == self.origin.name() => Ok(self.entry(Object::File)),
            _ => Err(Error::NotFound),
        }
    }

    fn attributes(&self, _call: &Call<'_>, id: &FileId) -> Result<Attributes> {
        Ok(self.attributes_of(self.resolve(id)?))
    }

    fn access(&self, call: &Call<'_>, id: &FileId, wanted: Access) -> Result<(Access, Attributes)> {
        let attributes = self.attributes_of(self.resolve(id)?);
        let mut granted = access::granted(call.credentials, &attributes, wanted);
        // Clients take a file for writable only when it can also be extended.
        let change = Access::MODIFY | Access::EXTEND;
        if self.changes.is_some()
            && attributes.file_type == FileType::Regular
            && access::allows(call.credentials, &attributes, access::WRITE)
        {
            granted = granted | (change & wanted);
        }
        Ok((granted, attributes))
    }

    fn read_link(&self, _call: &Call<'_>, id: &FileId) -> Result<(Vec<u8>, Attributes)> {
        self.resolve(id)?;
        Err(Error::Invalid)
    }

    fn read(&self, call: &Call<'_>, id: &FileId, offset: u64, count: u32) -> Result<ReadReply> {
        let attributes = self.attributes_of(self.resolve(id)?);
        attributes.file_type.expect_regular()?;
        access::check_read(call.credentials, &attributes)?;
        let rest = attributes.size.saturating_sub(offset);
        let length = u32::try_from(rest).unwrap_or(u32::MAX).min(count) as usize;
        let payload = if length == 0 {
            Payload::Bytes(Vec::new())
        } else {
            let run = Run {
                position: offset,
                length,
                bounds: None,
            };
            self.bytes.payload(&[run], call.may_block)?
        };
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
        let attributes = self.directory(directory)?;
        access::check(call.credentials, &attributes, Access::READ)?;
        let names = [
            (&b"."[..], Object::Root),
            (b"..", Object::Root),
            (self.origin.name(), Object::File),
        ];
        let mut end = true;
        for ((name, object), at) in names.into_iter().zip(1..) {
            if at <= cookie {
                continue;
            }
            let entry = self.entry(object);
            end = visit(&DirectoryEntry {
                name,
                file_id: entry.attributes.file_id,
                cookie: at,
                entry: with_attributes.then_some(entry),
            });
            if !end {
                break;
            }
        }
        Ok(DirectoryPage {
            attributes,
            end,
            unusable: 0,
        })
    }

    fn statistics(&self, _call: &Call<'_>) -> Result<Statistics> {
        Ok(Statistics {
            bytes_total: self.bytes.length_bytes(),
            files_total: 2,
            ..Statistics::default()
        })
    }

    fn write_verifier(&self, _id: Option<&FileId>) -> [u8; 8] {
        self.verifier()
    }

    fn finish(&self, how: Finish) -> Result<u64> {
        if self.changes.is_some() && how != Finish::Abandon {
            self.bytes.sync()?;
        }
        Ok(0)
    }

    /// Writes data to the device, not durably, so that the closing program learns of a full file
    /// system below.
    fn close(&self, call: &Call<'_>, id: &FileId) -> Result<()> {
        self.resolve(id)?;
        if self.changes.is_none() || !self.bytes.has_unwritten() {
            return Ok(());
        }
        Error::WouldBlock.unless(call.may_block)?;
        self.bytes.write_out()
    }
}
