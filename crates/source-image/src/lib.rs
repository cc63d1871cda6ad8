//! A file or block device as one file: the raw bytes of a disk image.
//!
//! The file is alone in a root directory, with name and permissions of its [`Origin`]. Its data is
//! sent from pinned pages. It is read-only unless it is [`writable`](ImageFileSystem::writable),
//! and its length never changes.
//!
//! **Identifiers** survive restart without a table. A replaced image, or one with another length,
//! makes them stale.
//!
//! 16 bytes, little-endian:
//!
//! ```text
//! 0  image   hash of origin and length
//! 8  layout  1
//! 9  object  root directory 1, file 2, and 6 bytes of zeros
//! ```
//!
//! **Changes.** An image behaves as a block device in a directory:
//!
//! | call | answer |
//! |---|---|
//! | a write that begins inside and reaches past the end | as much as fits |
//! | a write at or past the end | `NoSpace`, as `write(2)` on a block device |
//! | length 0 (`O_TRUNC`: `cp`, `>`) | accepted and ignored, as on a block device |
//! | the length that it has | accepted |
//! | another length | `Invalid`, as `ftruncate(2)` on a block device |
//! | CREATE of the existing name | as opening it |
//! | another mode, owner or group | `NotPermitted` |
//! | times | kept until the program ends |
//! | any other name | `NotPermitted`: the directory has one file |
//!
//! **Durability.** An unstable write is in the page cache. Stable writes and commits return when
//! the device holds the bytes durably; with fixed lengths no metadata needs a sync. Dropping the
//! file system writes uncommitted data.
//!
//! **Times.** Written bytes stay in memory for a while, so the times of the file below do not show
//! when the image was written. So `Changes` keeps the times from the opening on. Each change moves
//! them forward, by at least a nanosecond, *after* the bytes are in memory: a reader of the new
//! time finds the new bytes. A counter tells whether a change was alone, as `wcc_data` requires
//! (RFC 1813 section 2.6).
//!
//! **Known weaknesses.** No other program may change the image while it is open: its writes may be
//! unseen or overwritten with older data. A part truncated later is an I/O error. Times set by
//! clients end with the program.

mod origin;

use std::hash::Hasher;
use std::path::Path;
use std::sync::Arc;

use pagewell_base::sync::Mutex;
use pagewell_cache::{Cache, CachedObject};
use pagewell_device::{Device, FileDevice};
use pagewell_fs::source::OpenError;
use pagewell_fs::{
    Access, Attributes, Call, Change, Coherence, Committed, CreateMode, Created, DirectoryEntry,
    DirectoryPage, Entry, Error, FileId, FileSystem, FileType, Finish, Limits, Payload, ReadReply,
    Result, SetAttributes, SetTime, Stability, Statistics, Timestamp, Written, access, verifier,
};
use pagewell_source_bytes::{Bytes, Run, open_error};
use siphasher::sip::SipHasher24;

pub use origin::Origin;

const LAYOUT: u8 = 1;
const ROOT_FILE_ID: u64 = 1;
const FILE_FILE_ID: u64 = 2;

/// An open image.
pub struct ImageFileSystem {
    bytes: Bytes,
    origin: Origin,
    /// The attributes at opening.
    file: Attributes,
    identity: u64,
    changes: Option<Changes>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Object {
    Root = 1,
    File = 2,
}

impl ImageFileSystem {
    /// Its bytes in the page cache.
    #[must_use]
    pub fn object(&self) -> &CachedObject {
        self.bytes.object()
    }

    /// Opens the regular file or block device at `path`, to be read through `cache`.
    pub fn open(path: &Path, cache: &Cache) -> Result<Self, OpenError> {
        let device = FileDevice::open(path);
        let device = device.map_err(|error| open_error(path, error))?;
        let origin = Origin::of_path(path)?;
        Ok(Self::from_device(Arc::new(device), origin, cache))
    }

    /// The bytes of `device` with the attributes of `origin`, read-only.
    #[must_use]
    pub fn from_device(device: Arc<dyn Device>, origin: Origin, cache: &Cache) -> Self {
        let mut hasher = SipHasher24::new();
        hasher.write_u64(origin.identity.to_le());
        hasher.write_u64(device.length_bytes().to_le());
        let bytes = Bytes::new(cache.open(device));
        let (identity, size) = (hasher.finish(), bytes.length_bytes());
        Self {
            file: Attributes {
                file_type: FileType::Regular,
                mode: origin.mode,
                link_count: 1,
                uid: origin.uid,
                gid: origin.gid,
                size,
                // A block device uses no blocks of the file system with its name.
                used: if origin.used == 0 { size } else { origin.used },
                device: (0, 0),
                filesystem_id: identity,
                file_id: FILE_FILE_ID,
                accessed: origin.times.accessed,
                modified: origin.times.modified,
                changed: origin.times.changed,
                may_be_kept: true,
            },
            identity,
            bytes,
            origin,
            changes: None,
        }
    }

    /// Allows writes, by its permissions. The device must be writable.
    #[must_use]
    pub fn writable(self) -> Self {
        Self {
            changes: Some(Changes::new(self.file)),
            ..self
        }
    }

    fn id_of(&self, object: Object) -> FileId {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.identity.to_le_bytes());
        bytes[8..10].copy_from_slice(&[LAYOUT, object as u8]);
        FileId::of(&bytes)
    }

    /// [`Error::BadId`] for what this layout never had, [`Error::Stale`] for another image.
    fn resolve(&self, id: &FileId) -> Result<Object> {
        let bytes: &[u8; 16] = id.as_bytes().try_into().map_err(|_| Error::BadId)?;
        let object = match bytes[9] {
            1 => Object::Root,
            2 => Object::File,
            _ => return Err(Error::BadId),
        };
        Error::BadId.when(bytes[8] != LAYOUT || bytes[10..] != [0; 6])?;
        Error::Stale.when(bytes[..8] != self.identity.to_le_bytes())?;
        Ok(object)
    }

    fn attributes_of(&self, object: Object) -> Attributes {
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

    fn entry(&self, object: Object) -> Entry {
        Entry {
            id: self.id_of(object),
            attributes: self.attributes_of(object),
        }
    }

    fn directory(&self, id: &FileId) -> Result<Attributes> {
        match self.resolve(id)? {
            Object::Root => Ok(self.attributes_of(Object::Root)),
            Object::File => Err(Error::NotDirectory),
        }
    }

    fn changes(&self) -> Result<&Changes> {
        self.changes.as_ref().ok_or(Error::ReadOnly)
    }

    fn file_to_write(&self, call: &Call<'_>, id: &FileId) -> Result<(&Changes, Attributes)> {
        let changes = self.changes()?;
        let attributes = self.attributes_of(self.resolve(id)?);
        attributes.file_type.expect_regular()?;
        access::check_write(call.credentials, &attributes)?;
        Ok((changes, attributes))
    }

    fn verifier(&self) -> [u8; 8] {
        let Ok(changes) = self.changes() else {
            return self.identity.to_be_bytes();
        };
        verifier::after(changes.verifier, self.bytes.loss_epoch())
    }
}

impl FileSystem for ImageFileSystem {
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

    fn write(
        &self,
        call: &Call<'_>,
        id: &FileId,
        offset: u64,
        data: &[u8],
        stability: Stability,
    ) -> Result<Written> {
        let (changes, attributes) = self.file_to_write(call, id)?;
        // Before the first byte, so that the writer notices a loss from now on.
        let verifier = self.verifier();
        let begun = changes.begin();
        let left = attributes.size.saturating_sub(offset);
        let fits = usize::try_from(left).unwrap_or(usize::MAX).min(data.len());
        Error::NoSpace.unless(fits > 0 || data.is_empty())?;
        let data = data.get(..fits).unwrap_or(data);
        if data.is_empty() {
            return Ok(Written {
                count: 0,
                committed: stability,
                verifier,
                change: unchanged(attributes),
            });
        }
        // A stable write waits for the device.
        Error::WouldBlock.unless(call.may_block || stability == Stability::Unstable)?;
        let mut changed = 0;
        let written = self.bytes.write(offset, data, call.may_block, &mut changed);
        Error::WouldBlock.when(written == Err(Error::WouldBlock) && changed == 0)?;
        let written = written.and_then(|()| match stability {
            Stability::Unstable => Ok(()),
            Stability::DataSync | Stability::FileSync => {
                self.bytes.commit(offset, data.len() as u64)
            }
        });
        // Also after a failure, which may have changed some bytes, as may a write that would have
        // to wait: the end of its connection prevents a repetition.
        let change = changes.wrote(begun);
        written?;
        Ok(Written {
            count: u32::try_from(data.len()).unwrap_or(u32::MAX),
            committed: stability,
            verifier,
            change,
        })
    }

    fn commit(&self, call: &Call<'_>, id: &FileId, offset: u64, count: u32) -> Result<Committed> {
        self.changes()?;
        let attributes = self.attributes_of(self.resolve(id)?);
        attributes.file_type.expect_regular()?;
        Error::WouldBlock.unless(call.may_block)?;
        let offset = offset.min(attributes.size);
        let rest = attributes.size - offset;
        let length = if count == 0 {
            rest
        } else {
            rest.min(u64::from(count))
        };
        self.bytes.commit(offset, length)?;
        Ok(Committed {
            verifier: self.verifier(),
            change: unchanged(self.attributes_of(Object::File)),
        })
    }

    fn set_attributes(
        &self,
        call: &Call<'_>,
        id: &FileId,
        request: &SetAttributes,
        guard: Option<Timestamp>,
    ) -> Result<Change> {
        let changes = self.changes()?;
        let object = self.resolve(id)?;
        let begun = changes.begin();
        let attributes = self.attributes_of(object);
        Error::NotSync.when(guard.is_some_and(|guard| guard != attributes.changed))?;
        Error::Invalid.unless(request.has_valid_times())?;
        check_length(call, &attributes, request.size)?;
        check_permissions(&attributes, request)?;
        if request.accessed.is_none() && request.modified.is_none() {
            return Ok(unchanged(attributes));
        }
        check_times(call, &attributes, request)?;
        // Other calls may have changed it since the look.
        changes.set(begun, request, guard)
    }

    fn create(
        &self,
        call: &Call<'_>,
        directory: &FileId,
        name: &[u8],
        mode: &CreateMode,
    ) -> Result<Created> {
        self.changes()?;
        pagewell_fs::name::check(name)?;
        let parent = self.directory(directory)?;
        access::check(call.credentials, &parent, Access::LOOKUP)?;
        pagewell_fs::name::check_new(name)?;
        Error::NotPermitted.unless(name == self.origin.name())?;
        match mode {
            CreateMode::Unchecked(request) => {
                let attributes = self.attributes_of(Object::File);
                check_length(call, &attributes, request.size)?;
            }
            CreateMode::Guarded(_) | CreateMode::Exclusive(_) => return Err(Error::Exists),
        }
        Ok(Created {
            entry: self.entry(Object::File),
            parent: unchanged(self.attributes_of(Object::Root)),
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

fn unchanged(attributes: Attributes) -> Change {
    Change {
        before: Some(attributes.wcc()),
        after: Some(attributes),
    }
}

/// Allows the lengths that a block device takes.
fn check_length(call: &Call<'_>, attributes: &Attributes, wanted: Option<u64>) -> Result<()> {
    let Some(wanted) = wanted else {
        return Ok(());
    };
    attributes.file_type.expect_regular()?;
    access::check_write(call.credentials, attributes)?;
    Error::Invalid.unless(wanted == 0 || wanted == attributes.size)
}

/// Mode and owner are those of the origin: only these can be set.
fn check_permissions(attributes: &Attributes, request: &SetAttributes) -> Result<()> {
    let same = |wanted: Option<u32>, is: u32| wanted.is_none_or(|wanted| wanted == is);
    let stays = same(request.mode, attributes.mode)
        && same(request.uid, attributes.uid)
        && same(request.gid, attributes.gid);
    Error::NotPermitted.unless(stays)
}

/// A writer may set the clock's time, the owner any (RFC 1813 section 3.3.2). The times of the
/// directory stay.
fn check_times(call: &Call<'_>, attributes: &Attributes, request: &SetAttributes) -> Result<()> {
    Error::NotPermitted.unless(attributes.file_type == FileType::Regular)?;
    let to_value = |time: &Option<SetTime>| matches!(time, Some(SetTime::To(_)));
    if to_value(&request.accessed) || to_value(&request.modified) {
        access::check_owner(call.credentials, attributes)
    } else {
        access::check_write(call.credentials, attributes)
    }
}

#[derive(Debug)]
struct FileState {
    file: Attributes,
    changes: u64,
}

/// The times of a writable image, and with them its change data.
#[derive(Debug)]
struct Changes {
    state: Mutex<FileState>,
    verifier: u64,
}

/// A begun change, with the count of changes before it.
#[derive(Clone, Copy, Debug)]
struct Begun(u64);

impl Changes {
    fn new(file: Attributes) -> Self {
        Self {
            state: Mutex::new(FileState { file, changes: 0 }),
            verifier: pagewell_fs::verifier::fresh(),
        }
    }

    fn file(&self) -> Attributes {
        self.state.lock().file
    }

    /// Must precede the first changed byte.
    fn begin(&self) -> Begun {
        Begun(self.state.lock().changes)
    }

    fn wrote(&self, begun: Begun) -> Change {
        let change = |file: &mut Attributes, now| file.modified = now;
        self.state.lock().apply(begun, change)
    }

    fn set(
        &self,
        begun: Begun,
        request: &SetAttributes,
        guard: Option<Timestamp>,
    ) -> Result<Change> {
        let mut state = self.state.lock();
        Error::NotSync.when(guard.is_some_and(|guard| guard != state.file.changed))?;
        Ok(state.apply(begun, |file, now| {
            let value = |how: SetTime| match how {
                SetTime::ToServerTime => now,
                SetTime::To(time) => time,
            };
            file.accessed = request.accessed.map_or(file.accessed, value);
            file.modified = request.modified.map_or(file.modified, value);
        }))
    }
}

impl FileState {
    fn apply(&mut self, begun: Begun, change: impl FnOnce(&mut Attributes, Timestamp)) -> Change {
        let before = (self.changes == begun.0).then(|| self.file.wcc());
        let now = Timestamp::now().max(self.file.changed.next());
        change(&mut self.file, now);
        self.file.changed = now;
        self.changes += 1;
        Change {
            before,
            after: Some(self.file),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Timestamp = Timestamp {
        seconds: 5,
        nanoseconds: 999_999_999,
    };

    fn changes(changed: Timestamp) -> Changes {
        Changes::new(Attributes {
            file_type: FileType::Regular,
            mode: 0o600,
            link_count: 1,
            uid: 0,
            gid: 0,
            size: 1,
            used: 1,
            device: (0, 0),
            filesystem_id: 0,
            file_id: 2,
            accessed: START,
            modified: START,
            changed,
            may_be_kept: true,
        })
    }

    #[test]
    fn every_change_is_later_than_the_one_before() {
        // A clock that was set back must not make a change look like none.
        let future = Timestamp {
            seconds: 1 << 40,
            nanoseconds: 999_999_998,
        };
        let changes = changes(future);
        let mut last = future;
        for _ in 0..3 {
            let change = changes.wrote(changes.begin());
            let now = change.after.unwrap().changed;
            assert!(now > last, "{now:?} {last:?}");
            assert_eq!(change.after.unwrap().modified, now);
            last = now;
        }
        assert_eq!(changes.file().accessed, START);
    }

    #[test]
    fn only_one_that_was_alone_knows_what_was_before() {
        let changes = changes(START);
        let (first, second) = (changes.begin(), changes.begin());
        let alone = changes.wrote(first);
        assert_eq!(alone.before.unwrap().changed, START);
        let overlapped = changes.wrote(second);
        assert_eq!(overlapped.before, None);
        let next = changes.wrote(changes.begin());
        let (before, after) = (next.before.unwrap(), overlapped.after.unwrap());
        assert_eq!(before, after.wcc());
    }

    #[test]
    fn times_are_set_as_asked() {
        let changes = changes(START);
        let to = Timestamp {
            seconds: -7,
            nanoseconds: 3,
        };
        let request = SetAttributes {
            modified: Some(SetTime::To(to)),
            ..SetAttributes::default()
        };
        let change = changes.set(changes.begin(), &request, Some(START));
        let after = change.unwrap().after.unwrap();
        assert_eq!((after.modified, after.accessed), (to, START));
        assert!(after.changed > START);
        let request = SetAttributes {
            accessed: Some(SetTime::ToServerTime),
            ..SetAttributes::default()
        };
        changes.set(changes.begin(), &request, None).unwrap();
        let file = changes.file();
        assert_eq!((file.accessed, file.modified), (file.changed, to));
    }

    #[test]
    fn a_write_that_comes_between_guard_and_times_is_noticed() {
        let changes = changes(START);
        let request = SetAttributes {
            modified: Some(SetTime::To(START)),
            ..SetAttributes::default()
        };
        let (set, written) = (changes.begin(), changes.begin());
        let written = changes.wrote(written).after.unwrap();
        let refused = changes.set(set, &request, Some(START));
        assert_eq!(refused.err(), Some(Error::NotSync));
        assert_eq!(changes.file().modified, written.modified);
    }
}
