//! Values of the messages of NFS version 3.

use crate::sample::{Sample, Source, sample_structure};
use pagewell_sunrpc::nfs3::*;

impl<'a> Sample<'a> for Handle<'a> {
    fn sample(source: &mut Source<'a>) -> Self {
        let length = source.below(HANDLE_BYTES_MAX + 1);
        Self::new(source.bytes(length)).unwrap()
    }
}

impl<'a> Sample<'a> for FileType {
    fn sample(source: &mut Source<'a>) -> Self {
        source.one_of(Self::ALL)
    }
}

impl<'a> Sample<'a> for StableHow {
    fn sample(source: &mut Source<'a>) -> Self {
        source.one_of(Self::ALL)
    }
}

impl<'a> Sample<'a> for SetTime {
    fn sample(source: &mut Source<'a>) -> Self {
        let time = Time::sample(source);
        source.one_of(&[Self::Keep, Self::ToServerTime, Self::To(time)])
    }
}

impl<'a> Sample<'a> for CreateHow {
    fn sample(source: &mut Source<'a>) -> Self {
        match source.below(3) {
            0 => Self::Unchecked(Sample::sample(source)),
            1 => Self::Guarded(Sample::sample(source)),
            _ => Self::Exclusive(Sample::sample(source)),
        }
    }
}

impl<'a> Sample<'a> for NodeData {
    fn sample(source: &mut Source<'a>) -> Self {
        match FileType::sample(source) {
            FileType::CharacterDevice => {
                Self::CharacterDevice(Sample::sample(source), Sample::sample(source))
            }
            FileType::BlockDevice => {
                Self::BlockDevice(Sample::sample(source), Sample::sample(source))
            }
            FileType::Socket => Self::Socket(Sample::sample(source)),
            FileType::Fifo => Self::Fifo(Sample::sample(source)),
            other => Self::Unmakable(other),
        }
    }
}

impl<'a, S: Sample<'a>, F: Sample<'a>> Sample<'a> for Reply<S, F> {
    fn sample(source: &mut Source<'a>) -> Self {
        if bool::sample(source) {
            return Ok(S::sample(source));
        }
        let status = source.one_of(&Status::ALL[1..]);
        let body = F::sample(source);
        Err(Failure { status, body })
    }
}

sample_structure! {
    Time { seconds, nanoseconds }
    DeviceNumber { major, minor }
    FileAttributes {
        file_type, mode, link_count, uid, gid, size, used, device, filesystem_id, file_id,
        accessed, modified, changed
    }
    WccAttributes { size, modified, changed }
    WccData { before, after }
    SetAttributes { mode, uid, gid, size, accessed, modified }
    DirectoryOperation<'a> { directory, name }
    SetattrArguments<'a> { object, attributes, guard }
    LookupOk<'a> { object, object_attributes, directory_attributes }
    AccessArguments<'a> { object, access }
    AccessOk { object_attributes, access }
    ReadlinkOk<'a> { symlink_attributes, target }
    ReadArguments<'a> { file, offset, count }
    ReadOk<'a> { file_attributes, count, end_of_file, data }
    WriteArguments<'a> { file, offset, count, stable, data }
    WriteOk { file_wcc, count, committed, verifier }
    CommitOk { file_wcc, verifier }
    CreateArguments<'a> { what, how }
    CreateOk<'a> { object, object_attributes, directory_wcc }
    MkdirArguments<'a> { what, attributes }
    SymlinkArguments<'a> { what, attributes, target }
    MknodArguments<'a> { what, node }
    RenameArguments<'a> { from, to }
    RenameBody { from_directory_wcc, to_directory_wcc }
    LinkArguments<'a> { file, link }
    LinkBody { file_attributes, directory_wcc }
    ReaddirArguments<'a> { directory, cookie, verifier, count }
    ReaddirEntry<'a> { file_id, name, cookie }
    ReaddirOk<'a> { directory_attributes, verifier, entries, end }
    ReaddirPlusArguments<'a> { directory, cookie, verifier, directory_count, count_max }
    ReaddirPlusEntry<'a> { file_id, name, cookie, attributes, handle }
    ReaddirPlusOk<'a> { directory_attributes, verifier, entries, end }
    FsstatOk {
        object_attributes, bytes_total, bytes_free, bytes_available, files_total, files_free,
        files_available, stable_seconds
    }
    FsinfoOk {
        object_attributes, read_bytes_max, read_bytes_preferred, read_bytes_multiple,
        write_bytes_max, write_bytes_preferred, write_bytes_multiple, directory_bytes_preferred,
        file_bytes_max, time_grain, properties
    }
    PathconfOk {
        object_attributes, links_max, name_bytes_max, no_truncation, ownership_restricted,
        case_insensitive, case_preserving
    }
}
