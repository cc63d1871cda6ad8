//! Allocation, holes and copies of data, which the file system beneath makes: fallocate(2) and
//! copy_file_range(2), which shares the data where the file system can.

use pagewell_fs::{Call, FileId, OpenFile, Result, Space};

use super::object::Object;
use super::{Tree, blocking, error_of};
use rustix::fs::FallocateFlags;
use rustix::io::Errno;

/// The most that is copied at once, in bytes: others wait for their turn meanwhile.
const COPY_BYTES_MAX: usize = 64 << 20;

impl Tree {
    /// [`pagewell_fs::FileSystem::allocate`].
    pub(super) fn allocate(
        &self,
        call: &Call<'_>,
        id: &FileId,
        (offset, length): (u64, u64),
        space: Space,
    ) -> Result<()> {
        let flags = match space {
            Space::Reserve => FallocateFlags::empty(),
            Space::ReserveOnly => FallocateFlags::KEEP_SIZE,
            Space::Punch => FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE,
            Space::Zero => FallocateFlags::ZERO_RANGE,
            Space::ZeroOnly => FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE,
        };
        blocking::may_wait(call)?;
        let object = self.object(call, id)?;
        self.change_data(call, &object, |file| {
            rustix::fs::fallocate(file, flags, offset, length)
        })
    }

    /// [`pagewell_fs::FileSystem::copy`].
    pub(super) fn copy(
        &self,
        call: &Call<'_>,
        (from, mut from_offset): (&FileId, u64),
        (to, mut to_offset): (&FileId, u64),
        length: u64,
    ) -> Result<u64> {
        blocking::may_wait(call)?;
        let (from, to) = (self.object(call, from)?, self.object(call, to)?);
        from.file_type.expect_regular()?;
        let status = self.look(&from, true)?;
        self.judge(call, &from, &status).check_read()?;
        let source = self.readable(&from, true)?;
        let length = usize::try_from(length)
            .unwrap_or(usize::MAX)
            .min(COPY_BYTES_MAX);
        let copied = self.change_data(call, &to, |target| {
            let (at, to) = (Some(&mut from_offset), Some(&mut to_offset));
            rustix::fs::copy_file_range(source, at, target, to, length)
        })?;
        Ok(copied as u64)
    }

    /// Changes the data of a file as the caller, which must be allowed to write to it.
    fn change_data<T>(
        &self,
        call: &Call<'_>,
        object: &Object,
        act: impl FnOnce(&OpenFile) -> Result<T, Errno>,
    ) -> Result<T> {
        object.file_type.expect_regular()?;
        let changing = self.begin_change(object, true)?;
        let judge = self.judge(call, object, &changing.before);
        judge.check_write()?;
        let file = self.writable(object)?;
        self.acting.become_caller(&judge.caller)?;
        let _writing = object.begin_write(&changing.before);
        act(file).map_err(error_of)
    }
}
