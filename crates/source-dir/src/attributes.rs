//! Changing attributes, all or nothing.
//!
//! Every refusal comes before the first change, from one look at the object; then the changes run
//! as the caller, judged by the kernel again. The order is owner, size, mode, times: owner and size
//! clear set-user-id bits, size moves the times and can still fail (no space).
//!
//! Setting times to the server's clock needs only write permission, which the kernel grants for
//! both at once: the server sets a single one, after the check.

use super::access::Judge;
use super::listings::Listings;
use super::metadata_sync::MetadataSync;
use super::object::Object;
use super::objects::Objects;
use super::system::error_of;
use pagewell_fs::access::WRITE;
use pagewell_fs::{
    Call, Change, Error, FileId, FileType, Result, SetAttributes, SetTime, Timestamp,
};
use rustix::fs::{AtFlags, Gid, Mode, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, Uid};
use rustix::io::Errno;
use std::os::fd::AsFd;
use std::sync::Arc;

pub(super) struct Attributes {
    objects: Arc<Objects>,
    metadata_sync: Arc<MetadataSync>,
    listings: Arc<Listings>,
    file_bytes_max: u64,
}

impl Attributes {
    pub(super) fn new(
        objects: &Arc<Objects>,
        metadata_sync: &Arc<MetadataSync>,
        listings: &Arc<Listings>,
        file_bytes_max: u64,
    ) -> Self {
        Self {
            objects: Arc::clone(objects),
            metadata_sync: Arc::clone(metadata_sync),
            listings: Arc::clone(listings),
            file_bytes_max,
        }
    }

    /// [`pagewell_fs::FileSystem::set_attributes`].
    pub(super) fn set_attributes(
        &self,
        call: &Call<'_>,
        id: &FileId,
        wanted: &SetAttributes,
        guard: Option<Timestamp>,
    ) -> Result<Change> {
        Error::WouldBlock.unless(call.may_block)?;
        let object = self.objects.object(call, id)?;
        let (exclusion, before) = self.objects.begin_change(&object, true)?;
        Error::NotSync.when(guard.is_some_and(|guard| guard != before.attributes.changed))?;
        let judge = self.objects.access().judge(call, &object, &before);
        self.check_set(&judge, wanted)?;
        self.apply(&judge, wanted)?;
        let change = exclusion.end(&before);
        if *wanted != SetAttributes::default() {
            self.metadata_sync.attributes(&object)?;
        }
        Ok(change)
    }

    fn check_set(&self, judge: &Judge<'_>, wanted: &SetAttributes) -> Result<()> {
        if *wanted == SetAttributes::default() {
            return Ok(());
        }
        judge.check_changeable()?;
        let (caller, has) = (judge.caller(), &judge.status().attributes);
        let owner = judge.is_owner();
        if wanted.mode.is_some() {
            // Links have no mode on Linux.
            Error::NotSupported.when(judge.object().file_type() == FileType::Symlink)?;
            Error::NotPermitted.unless(owner || caller.is_root())?;
        }
        if let Some(uid) = wanted.uid {
            Error::NotPermitted.unless(caller.is_root() || owner && uid == has.uid)?;
            Error::Invalid.unless(uid != u32::MAX)?;
        }
        if let Some(gid) = wanted.gid {
            let member = gid == has.gid || caller.in_group(gid);
            Error::NotPermitted.unless(caller.is_root() || owner && member)?;
            Error::Invalid.unless(gid != u32::MAX)?;
        }
        check_times(judge, wanted)?;
        wanted
            .size
            .map_or(Ok(()), |size| self.check_size(judge, size))
    }

    /// Checks a new size and opens the file: the last step that can fail without a change.
    pub(super) fn check_size(&self, judge: &Judge<'_>, size: u64) -> Result<()> {
        judge.object().file_type().expect_regular()?;
        judge.check_write()?;
        Error::FileTooLarge.when(size > self.file_bytes_max)?;
        self.objects.writable(judge.object()).map(|_| ())
    }

    /// Makes checked changes, or those of a new object.
    pub(super) fn apply(&self, judge: &Judge<'_>, wanted: &SetAttributes) -> Result<()> {
        let (object, caller) = (judge.object(), judge.caller());
        self.objects.access().become_caller(caller)?;
        // Also to the same owner: that clears set-user-id.
        if wanted.uid.is_some() || wanted.gid.is_some() {
            change_owner(object, wanted.uid, wanted.gid)?;
        }
        if let Some(size) = wanted.size {
            self.truncate(judge, size)?;
        }
        if let Some(mode) = wanted.mode {
            let mode = Mode::from_raw_mode(mode & 0o7777);
            rustix::fs::chmod(object.link(), mode).map_err(error_of)?;
        }
        if wanted.accessed.is_some() || wanted.modified.is_some() {
            let owner = wanted.uid.unwrap_or(judge.status().attributes.uid);
            let is_owner = caller.is_root() || caller.uid() == owner;
            if !is_owner && !are_explicit(wanted) {
                self.objects.access().become_server()?;
            }
            set_times(object, wanted.accessed, wanted.modified)?;
            self.listings.forget(object);
        }
        Ok(())
    }

    /// After [`Self::check_size`].
    pub(super) fn truncate(&self, judge: &Judge<'_>, size: u64) -> Result<()> {
        let file = self.objects.writable(judge.object())?;
        self.objects.access().become_caller(judge.caller())?;
        judge.object().set_unsynced(true);
        rustix::fs::ftruncate(file, size).map_err(error_of)?;
        judge.object().set_unsynced(true);
        Ok(())
    }
}

fn check_times(judge: &Judge<'_>, wanted: &SetAttributes) -> Result<()> {
    // Two invalid values have a special meaning to the kernel.
    Error::Invalid.unless(wanted.has_valid_times())?;
    let times = [wanted.accessed, wanted.modified];
    if times == [None, None] || judge.caller().is_root() || judge.is_owner() {
        return Ok(());
    }
    Error::NotPermitted.when(are_explicit(wanted))?;
    judge.check(WRITE)
}

fn are_explicit(wanted: &SetAttributes) -> bool {
    let times = wanted.accessed.iter().chain(&wanted.modified);
    times.into_iter().any(|time| matches!(time, SetTime::To(_)))
}

fn change_owner(object: &Object, uid: Option<u32>, gid: Option<u32>) -> Result<()> {
    let (uid, gid) = (uid.map(Uid::from_raw), gid.map(Gid::from_raw));
    rustix::fs::chownat(object.as_fd(), c"", uid, gid, AtFlags::EMPTY_PATH).map_err(error_of)
}

fn set_times(object: &Object, accessed: Option<SetTime>, modified: Option<SetTime>) -> Result<()> {
    let times = Timestamps {
        last_access: timespec(accessed),
        last_modification: timespec(modified),
    };
    let empty = AtFlags::EMPTY_PATH;
    match rustix::fs::utimensat(object.as_fd(), c"", &times, empty) {
        // Before Linux 5.8.
        Err(Errno::INVAL) => {
            let link = object.link();
            rustix::fs::utimensat(rustix::fs::CWD, link, &times, AtFlags::empty()).map_err(error_of)
        }
        result => result.map_err(error_of),
    }
}

fn timespec(time: Option<SetTime>) -> Timespec {
    let (tv_sec, tv_nsec) = match time {
        None => (0, UTIME_OMIT),
        Some(SetTime::ToServerTime) => (0, UTIME_NOW),
        Some(SetTime::To(time)) => (time.seconds, time.nanoseconds.into()),
    };
    Timespec { tv_sec, tv_nsec }
}
