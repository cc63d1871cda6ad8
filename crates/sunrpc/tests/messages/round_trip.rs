//! For every message: reading what was written gives the value back, the size was known before,
//! and no part of it that is cut short can be read.

use crate::sample::{Sample, Source, Storage};
use pagewell_sunrpc::mount3::{self, ExportEntry, MountEntry, MountReply, PathArguments};
use pagewell_sunrpc::nfs3::*;
use pagewell_sunrpc::portmap::{self, Mapping};
use pagewell_sunrpc::rpc::{
    Call, Refusal, ReplyError, SystemCredential, encode_call, encode_refusal, parse_call,
    parse_reply,
};
use pagewell_sunrpc::xdr::{Decode, Decoder, Encode, Encoder, encode_item};
use pagewell_sunrpc::{nlm4, nsm};
use proptest::collection::vec;
use proptest::prelude::{ProptestConfig, any, proptest};

/// Values of each type. Small, because every prefix of every value is read.
const CASES: u32 = 64;

/// Runs a test on byte strings, long enough to draw most messages from.
fn for_all(test: fn(&[u8])) {
    let config = ProptestConfig {
        cases: CASES,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    proptest!(config, |(bytes in vec(any::<u8>(), 0..400))| test(&bytes));
}

macro_rules! round_trips {
    ($($test:ident: $type:ty,)*) => {
        $(
            #[test]
            fn $test() {
                for_all(|bytes| {
                    let storage = Storage::default();
                    let value: $type = Sample::sample(&mut Source::new(bytes, &storage));
                    let mut buffer = vec![0xee];
                    value.encode(&mut Encoder::new(&mut buffer));
                    let wire = &buffer[1..];
                    assert_eq!(wire.len() % 4, 0);
                    let mut decoder = Decoder::new(wire);
                    let again: $type = Decode::decode(&mut decoder).unwrap();
                    assert_eq!(again, value);
                    decoder.finish().unwrap();
                    for length in 0..wire.len() {
                        let cut = <$type>::decode(&mut Decoder::new(&wire[..length]));
                        assert!(cut.is_err(), "{length} bytes suffice for {value:?}");
                    }
                });
            }
        )*
    };
}

round_trips! {
    getattr_arguments: Handle<'_>,
    setattr_arguments: SetattrArguments<'_>,
    lookup_arguments: DirectoryOperation<'_>,
    access_arguments: AccessArguments<'_>,
    readlink_arguments: Handle<'_>,
    read_arguments: ReadArguments<'_>,
    write_arguments: WriteArguments<'_>,
    create_arguments: CreateArguments<'_>,
    mkdir_arguments: MkdirArguments<'_>,
    symlink_arguments: SymlinkArguments<'_>,
    mknod_arguments: MknodArguments<'_>,
    remove_arguments: DirectoryOperation<'_>,
    rmdir_arguments: DirectoryOperation<'_>,
    rename_arguments: RenameArguments<'_>,
    link_arguments: LinkArguments<'_>,
    readdir_arguments: ReaddirArguments<'_>,
    readdirplus_arguments: ReaddirPlusArguments<'_>,
    fsstat_arguments: Handle<'_>,
    fsinfo_arguments: Handle<'_>,
    pathconf_arguments: Handle<'_>,
    commit_arguments: CommitArguments<'_>,
    getattr_reply: GetattrReply,
    setattr_reply: SetattrReply,
    lookup_reply: LookupReply<'_>,
    access_reply: AccessReply,
    readlink_reply: ReadlinkReply<'_>,
    read_reply: ReadReply<'_>,
    write_reply: WriteReply,
    create_reply: CreateReply<'_>,
    remove_reply: RemoveReply,
    rename_reply: RenameReply,
    link_reply: LinkReply,
    readdir_reply: ReaddirReply<'_>,
    readdirplus_reply: ReaddirPlusReply<'_>,
    fsstat_reply: FsstatReply,
    fsinfo_reply: FsinfoReply,
    pathconf_reply: PathconfReply,
    commit_reply: CommitReply,
    file_attributes: FileAttributes,
    set_attributes: SetAttributes,
    wcc_data: WccData,
    readdir_entry: ReaddirEntry<'_>,
    readdirplus_entry: ReaddirPlusEntry<'_>,
    mount_path: PathArguments<'_>,
    mount_reply: MountReply<'_>,
    mount_entry: MountEntry<'_>,
    mount_dump: mount3::DumpReply<'_>,
    mount_export: ExportEntry<'_>,
    mount_exports: mount3::ExportReply<'_>,
    lock_test: nlm4::TestArguments<'_>,
    lock_lock: nlm4::LockArguments<'_>,
    lock_cancel: nlm4::CancelArguments<'_>,
    lock_unlock: nlm4::UnlockArguments<'_>,
    lock_share: nlm4::ShareArguments<'_>,
    lock_free_all: nlm4::FreeAllArguments<'_>,
    lock_reply: nlm4::Reply<'_>,
    lock_test_reply: nlm4::TestReply<'_>,
    lock_share_reply: nlm4::ShareReply<'_>,
    status_notify: nsm::NotifyArguments<'_>,
    portmap_mapping: Mapping,
    portmap_dump: portmap::DumpReply<'_>,
    system_credential: SystemCredential<'_>,
}

#[test]
fn call() {
    for_all(|bytes| {
        let storage = Storage::default();
        let call: Call<'_> = Sample::sample(&mut Source::new(bytes, &storage));
        let mut buffer = Vec::new();
        encode_call(&mut Encoder::new(&mut buffer), &call);
        let (again, decoder) = parse_call(&buffer).unwrap();
        assert_eq!(again, call);
        decoder.finish().unwrap();
        for length in 0..buffer.len() {
            let expected = if length < 8 {
                None
            } else {
                Some((call.xid, Refusal::GarbageArguments))
            };
            assert_eq!(parse_call(&buffer[..length]), Err(expected));
        }
    });
}

#[test]
fn refusal() {
    for_all(|bytes| {
        let storage = Storage::default();
        let mut source = Source::new(bytes, &storage);
        let (xid, refusal) = (u32::sample(&mut source), Refusal::sample(&mut source));
        let mut buffer = Vec::new();
        encode_refusal(&mut Encoder::new(&mut buffer), xid, refusal);
        assert_eq!(
            parse_reply(&buffer),
            Err(ReplyError::Refused { xid, refusal })
        );
    });
}

/// The server sends the data of READ itself: head, data and padding must make the same bytes.
#[test]
fn read_in_two_parts() {
    for_all(|bytes| {
        let storage = Storage::default();
        let mut value: ReadOk<'_> = Sample::sample(&mut Source::new(bytes, &storage));
        value.count = value.data.len() as u32;
        let mut whole = Vec::new();
        value.encode(&mut Encoder::new(&mut whole));
        let mut parts = Vec::new();
        let mut encoder = Encoder::new(&mut parts);
        let head = ReadHead {
            file_attributes: value.file_attributes,
            count: value.count,
            end_of_file: value.end_of_file,
            data_length: value.count,
        };
        head.encode(&mut encoder);
        encoder.fixed(value.data);
        assert_eq!(parts, whole);
    });
}

fn item_size(item: &impl Encode) -> usize {
    let mut bytes = Vec::new();
    encode_item(&mut Encoder::new(&mut bytes), item);
    bytes.len()
}

/// A list that is built entry by entry has the size that was added up, and the same bytes.
#[test]
fn readdirplus_in_parts() {
    for_all(|bytes| {
        let storage = Storage::default();
        let value: ReaddirPlusOk<'_> = Sample::sample(&mut Source::new(bytes, &storage));
        let mut whole = Vec::new();
        value.encode(&mut Encoder::new(&mut whole));
        let mut parts = Vec::new();
        let mut encoder = Encoder::new(&mut parts);
        let attributes = &value.directory_attributes;
        ReaddirOk::encode_head(&mut encoder, attributes, &value.verifier);
        let mut size = encoder.position() + TAIL_SIZE;
        for entry in value.entries.iter() {
            let plain = ReaddirEntry {
                file_id: entry.file_id,
                name: entry.name,
                cookie: entry.cookie,
            };
            assert_eq!(entry.directory_size(), item_size(&plain));
            size += item_size(&entry);
            encode_item(&mut encoder, &entry);
        }
        ReaddirOk::encode_tail(&mut encoder, value.end);
        assert_eq!(parts.len(), size);
        assert_eq!(parts, whole);
    });
}
