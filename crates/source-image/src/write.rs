//! Changing an image: bytes within its length, and times.
//!
//! An image behaves as a block device in a directory:
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
//! the device holds the bytes durably. The length never changes, so no metadata needs a sync.

use pagewell_fs::{Access, access, verifier};
use pagewell_fs::{
    Attributes, Call, Change, Committed, CreateMode, Created, Error, FileId, FileType, Result,
    SetAttributes, SetTime, Stability, Timestamp, Written,
};

use super::{Changes, ImageFileSystem, Object};

impl ImageFileSystem {
    fn changes(&self) -> Result<&Changes> {
        self.changes.as_ref().ok_or(Error::ReadOnly)
    }

    /// The file of a writable image, when the caller may write.
    fn file_to_write(&self, call: &Call<'_>, id: &FileId) -> Result<(&Changes, Attributes)> {
        let changes = self.changes()?;
        let attributes = self.attributes_of(self.resolve(id)?);
        attributes.file_type.expect_regular()?;
        access::check_write(call.credentials, &attributes)?;
        Ok((changes, attributes))
    }

    /// [`pagewell_fs::FileSystem::write`].
    pub(super) fn write(
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
        // A failed write may have changed some bytes; so may one that would have to wait, and the
        // end of its connection prevents a repetition.
        let change = changes.wrote(begun);
        written?;
        Ok(Written {
            count: u32::try_from(data.len()).unwrap_or(u32::MAX),
            committed: stability,
            verifier,
            change,
        })
    }

    /// [`pagewell_fs::FileSystem::commit`].
    pub(super) fn commit(
        &self,
        call: &Call<'_>,
        id: &FileId,
        offset: u64,
        count: u32,
    ) -> Result<Committed> {
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

    /// [`pagewell_fs::FileSystem::write_verifier`].
    pub(super) fn verifier(&self) -> [u8; 8] {
        let Ok(changes) = self.changes() else {
            return self.identity.to_be_bytes();
        };
        verifier::after(changes.verifier, self.bytes.loss_epoch())
    }

    /// [`pagewell_fs::FileSystem::set_attributes`].
    pub(super) fn set_attributes(
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

    /// [`pagewell_fs::FileSystem::create`].
    pub(super) fn create(
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
}

/// The change data of an unchanged object.
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
