//! Extended attributes (xattr(7)), access control lists among them: the file system judges the
//! caller.
//!
//! The link to an object's descriptor names it to the kernel, and nothing has to be opened.
//!
//! A thread that acts for a caller keeps `CAP_SYS_ADMIN`, which gives access to the superuser's
//! attributes. That is refused here.

use super::metadata_sync::MetadataSync;
use super::object::Object;
use super::objects::Objects;
use super::system::error_of;
use pagewell_fs::extended::{Presence, VALUE_BYTES_MAX, check, check_value, is_shown};
use pagewell_fs::{Call, Error, ExtendedAttributes, FileId, Result};
use rustix::fs::XattrFlags;
use rustix::io::Errno;
use std::ffi::CStr;
use std::sync::Arc;

pub(super) struct Extended {
    objects: Arc<Objects>,
    metadata_sync: Arc<MetadataSync>,
    are_possible: bool,
}

impl Extended {
    pub(super) fn new(objects: &Arc<Objects>, metadata_sync: &Arc<MetadataSync>) -> Self {
        Self {
            objects: Arc::clone(objects),
            metadata_sync: Arc::clone(metadata_sync),
            are_possible: are_possible(objects.root()),
        }
    }

    pub(super) fn are_possible(&self) -> bool {
        self.are_possible
    }

    fn change_extended(
        &self,
        call: &Call<'_>,
        id: &FileId,
        name: &CStr,
        act: impl FnOnce(&str) -> Result<(), Errno>,
    ) -> Result<()> {
        Error::WouldBlock.unless(call.may_block)?;
        let object = self.objects.object(call, id)?;
        let caller = self.objects.access().caller(call);
        check(name, caller.uid(), true)?;
        let change = self.objects.begin_change(&object, true)?;
        self.objects.access().become_caller(&caller)?;
        let done = act(&object.link()).map_err(error_of);
        drop(change);
        done?;
        self.metadata_sync.attributes(&object)
    }
}

impl ExtendedAttributes for Extended {
    fn get(&self, call: &Call<'_>, id: &FileId, name: &CStr) -> Result<Vec<u8>> {
        Error::WouldBlock.unless(call.may_block)?;
        let object = self.objects.object(call, id)?;
        let caller = self.objects.access().caller(call);
        check(name, caller.uid(), false)?;
        self.objects.look(&object, true)?;
        self.objects.access().become_caller(&caller)?;
        let link = object.link();
        let query = || rustix::fs::getxattr_query(&link, name);
        sized(query, |buffer| rustix::fs::getxattr(&link, name, buffer)).map_err(error_of)
    }

    fn names(&self, call: &Call<'_>, id: &FileId) -> Result<Vec<u8>> {
        Error::WouldBlock.unless(call.may_block)?;
        let object = self.objects.object(call, id)?;
        let caller = self.objects.access().caller(call);
        self.objects.look(&object, true)?;
        self.objects.access().become_caller(&caller)?;
        let link = object.link();
        let query = || rustix::fs::listxattr_query(&link);
        let names = sized(query, |buffer| rustix::fs::listxattr(&link, buffer));
        let names = names.map_err(error_of)?;
        let shown = names
            .split_inclusive(|byte| *byte == 0)
            .filter(|name| is_shown(name, caller.uid()));
        Ok(shown.flatten().copied().collect())
    }

    fn set(
        &self,
        call: &Call<'_>,
        id: &FileId,
        name: &CStr,
        value: &[u8],
        presence: Presence,
    ) -> Result<()> {
        check_value(value)?;
        let flags = match presence {
            Presence::Any => XattrFlags::empty(),
            Presence::Absent => XattrFlags::CREATE,
            Presence::Present => XattrFlags::REPLACE,
        };
        self.change_extended(call, id, name, |link| {
            rustix::fs::setxattr(link, name, value, flags)
        })
    }

    fn remove(&self, call: &Call<'_>, id: &FileId, name: &CStr) -> Result<()> {
        self.change_extended(call, id, name, |link| rustix::fs::removexattr(link, name))
    }
}

fn are_possible(root: &Object) -> bool {
    let link = root.link();
    let possible = |name: &CStr| rustix::fs::getxattr_query(&link, name) != Err(Errno::OPNOTSUPP);
    possible(c"user.pagewell") || possible(c"security.capability")
}

fn sized(
    query: impl FnOnce() -> Result<usize, Errno>,
    get: impl Fn(&mut [u8]) -> Result<usize, Errno>,
) -> Result<Vec<u8>, Errno> {
    let mut buffer = vec![0; query()?.min(VALUE_BYTES_MAX)];
    if buffer.is_empty() {
        return Ok(buffer);
    }
    let length = match get(&mut buffer) {
        // It has grown since.
        Err(Errno::RANGE) => {
            buffer.resize(VALUE_BYTES_MAX, 0);
            get(&mut buffer)?
        }
        length => length?,
    };
    buffer.truncate(length);
    Ok(buffer)
}
