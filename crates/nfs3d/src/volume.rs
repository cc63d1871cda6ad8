//! FSSTAT, FSINFO, PATHCONF (RFC 1813 sections 3.3.18 to 3.3.20).

use pagewell_sunrpc::nfs3::{
    FileAttributes, FsinfoOk, FsstatOk, Handle, PathconfOk, Time, properties,
};

use crate::convert::WireTarget;
use crate::handler::{Abort, Nfs3Handler, READ_BYTES_MAX, WRITE_BYTES_MAX};
use pagewell_rpcd::call::Done;

/// Size of READDIR that suits both sides.
const DIRECTORY_BYTES_PREFERRED: u32 = 64 << 10;

/// Larger sizes are negative to clients with signed 64 bits.
pub(super) const SIZE_MAX: u64 = i64::MAX as u64;

pub(super) fn fsstat(handler: &mut Nfs3Handler<'_>, root: Handle<'_>) -> Result<Done, Abort> {
    let target = handler.target(root)?;
    let object_attributes = target.attributes_now();
    let statistics = target.filesystem().statistics(&target.call());
    let result = statistics.map(|statistics| FsstatOk {
        object_attributes,
        bytes_total: statistics.bytes_total.min(SIZE_MAX),
        bytes_free: statistics.bytes_free.min(SIZE_MAX),
        bytes_available: statistics.bytes_available.min(SIZE_MAX),
        files_total: statistics.files_total.min(SIZE_MAX),
        files_free: statistics.files_free.min(SIZE_MAX),
        files_available: statistics.files_available.min(SIZE_MAX),
        // None: others write, too.
        stable_seconds: 0,
    });
    handler.answer(&target, result, |_| object_attributes)
}

pub(super) fn fsinfo(handler: &mut Nfs3Handler<'_>, root: Handle<'_>) -> Result<Done, Abort> {
    let target = handler.target(root)?;
    let limits = target.filesystem().limits();
    let mut shown = properties::HOMOGENEOUS;
    if limits.links_max > 1 {
        shown |= properties::HARD_LINKS;
    }
    if limits.symlinks {
        shown |= properties::SYMLINKS;
    }
    if limits.times_settable && !target.export.config.read_only {
        shown |= properties::TIMES_SETTABLE;
    }
    let grain = limits.time_grain_nanoseconds;
    let result = target.attributes().map(|attributes| FsinfoOk {
        object_attributes: Some(attributes),
        read_bytes_max: READ_BYTES_MAX,
        read_bytes_preferred: READ_BYTES_MAX,
        read_bytes_multiple: 4096,
        write_bytes_max: WRITE_BYTES_MAX,
        write_bytes_preferred: WRITE_BYTES_MAX,
        write_bytes_multiple: 4096,
        directory_bytes_preferred: DIRECTORY_BYTES_PREFERRED,
        file_bytes_max: limits.file_bytes_max.min(SIZE_MAX),
        time_grain: Time {
            seconds: grain / 1_000_000_000,
            nanoseconds: grain % 1_000_000_000,
        },
        properties: shown,
    });
    handler.answer(&target, result, |_| None::<FileAttributes>)
}

pub(super) fn pathconf(handler: &mut Nfs3Handler<'_>, object: Handle<'_>) -> Result<Done, Abort> {
    let target = handler.target(object)?;
    let limits = target.filesystem().limits();
    let result = target.attributes().map(|attributes| PathconfOk {
        object_attributes: Some(attributes),
        links_max: limits.links_max,
        name_bytes_max: limits.name_bytes_max,
        no_truncation: true,
        ownership_restricted: true,
        case_insensitive: limits.case_insensitive,
        case_preserving: true,
    });
    handler.answer(&target, result, |_| None::<FileAttributes>)
}
