//! Reading, writing and setting attributes: one inode, one lock.

use pagewell_fs::{
    Call, Change, Committed, Error, FileId, Payload, ReadReply, Result, Seek, SetAttributes, Space,
    Stability, Timestamp, Written, access,
};

use super::data::Pages;
use super::tree::Tree;
use super::{FILE_BYTES_MAX, permission, setattr};

impl Tree {
    pub(super) fn read(
        &self,
        call: &Call<'_>,
        id: &FileId,
        offset: u64,
        count: u32,
    ) -> Result<ReadReply> {
        let inode = self.inode(id)?;
        let state = inode.read()?;
        let data = state.data()?;
        access::check_read(call.credentials, &state.metadata)?;
        let end = offset.saturating_add(u64::from(count));
        Ok(ReadReply {
            end_of_file: end >= data.size(),
            payload: Payload::Pages(data.read(offset, count)),
            attributes: state.attributes(),
        })
    }

    pub(super) fn seek(
        &self,
        call: &Call<'_>,
        id: &FileId,
        offset: u64,
        wanted: Seek,
    ) -> Result<u64> {
        let inode = self.inode(id)?;
        let state = inode.read()?;
        let data = state.data()?;
        access::check_read(call.credentials, &state.metadata)?;
        data.seek(offset, wanted).ok_or(Error::NoDevice)
    }

    pub(super) fn write(
        &self,
        call: &Call<'_>,
        id: &FileId,
        offset: u64,
        data: &[u8],
        stability: Stability,
    ) -> Result<Written> {
        let inode = self.inode(id)?;
        let mut state = inode.write()?;
        state.data()?;
        access::check_write(call.credentials, &state.metadata)?;
        let before = state.wcc();
        let mut written = 0;
        if !data.is_empty() {
            let data = below_size_limit(offset, data)?;
            written = state.data_mut()?.write(offset, data, &self.storage)?;
            permission::drop_privileges_after_write(call.credentials, &mut state.metadata);
            state.touch_modified();
        }
        Ok(Written {
            count: u32::try_from(written).unwrap_or(u32::MAX),
            committed: stability,
            verifier: self.verifier,
            change: state.change_since(before),
        })
    }

    pub(super) fn allocate(
        &self,
        call: &Call<'_>,
        id: &FileId,
        (offset, length): (u64, u64),
        space: Space,
    ) -> Result<()> {
        let inode = self.inode(id)?;
        let mut state = inode.write()?;
        state.data()?;
        access::check_write(call.credentials, &state.metadata)?;
        if length == 0 {
            return Err(Error::Invalid);
        }
        let end = offset
            .checked_add(length)
            .filter(|end| *end <= FILE_BYTES_MAX);
        let end = end.ok_or(Error::FileTooLarge)?;
        let data = state.data_mut()?;
        let discarded = match space {
            Space::Reserve => {
                data.reserve(offset, end, &self.storage)?;
                data.set_size(data.size().max(end), &self.storage)?
            }
            Space::ReserveOnly => {
                data.reserve(offset, end, &self.storage)?;
                Pages::default()
            }
            Space::Punch => data.punch(offset, end, &self.storage)?,
            // as tmpfs
            Space::Zero | Space::ZeroOnly => return Err(Error::NotSupported),
        };
        permission::drop_privileges_after_write(call.credentials, &mut state.metadata);
        state.touch_modified();
        drop(state);
        drop(discarded);
        Ok(())
    }

    pub(super) fn commit(
        &self,
        _call: &Call<'_>,
        id: &FileId,
        _offset: u64,
        _count: u32,
    ) -> Result<Committed> {
        let inode = self.inode(id)?;
        let state = inode.read()?;
        state.data()?;
        Ok(Committed {
            verifier: self.verifier,
            change: state.change_since(state.wcc()),
        })
    }

    pub(super) fn set_attributes(
        &self,
        call: &Call<'_>,
        id: &FileId,
        request: &SetAttributes,
        guard: Option<Timestamp>,
    ) -> Result<Change> {
        let inode = self.inode(id)?;
        let mut state = inode.write()?;
        if guard.is_some_and(|guard| guard != state.metadata.changed) {
            return Err(Error::NotSync);
        }
        let before = state.wcc();
        let discarded = setattr::set(call.credentials, &mut state, request, &self.storage)?;
        let change = state.change_since(before);
        drop(state);
        drop(discarded);
        Ok(change)
    }
}

/// The part of `data` that lies below the largest size of a file, and that a count can report.
fn below_size_limit(offset: u64, data: &[u8]) -> Result<&[u8]> {
    let left = FILE_BYTES_MAX
        .saturating_sub(offset)
        .min(u64::from(u32::MAX));
    let left = usize::try_from(left).unwrap_or(usize::MAX);
    if left == 0 {
        return Err(Error::FileTooLarge);
    }
    Ok(&data[..data.len().min(left)])
}
