//! Nothing that arrives makes a reader panic, and what it takes for a value is one: written
//! again, it reads the same.
//!
//! Each target runs on any bytes, and on a well-formed message in which some bytes were changed,
//! which gets further. As ordinary tests the targets run a fixed number of inputs; `cargo bolero`
//! runs the same targets with a coverage-guided engine.

use crate::sample::{Sample, Source, Storage};
use bolero::produce;
use pagewell_sunrpc::mount3::{self, MountReply, PathArguments};
use pagewell_sunrpc::nfs3::*;
use pagewell_sunrpc::portmap::{self, Mapping};
use pagewell_sunrpc::rpc::{Call, Refusal, encode_call, encode_refusal, parse_call, parse_reply};
use pagewell_sunrpc::xdr::{Decode, Decoder, Encode, Encoder};
use pagewell_sunrpc::{nlm4, nsm};

/// Inputs of each target in an ordinary test run: all of them together take seconds.
const ITERATIONS: usize = 5000;
/// The longest input, in bytes: as long as most messages that are drawn from it.
const INPUT_BYTES_MAX: usize = 400;

/// Runs a target under the name of the test it stands in. A macro, because the name is taken
/// from the place; a function pointer, because the engine is then compiled once for all.
macro_rules! fuzz {
    ($target:expr) => {{
        let target: fn(&Vec<u8>) = $target;
        bolero::check!()
            .with_iterations(ITERATIONS)
            .with_generator(produce::<Vec<u8>>().with().len(0..=INPUT_BYTES_MAX))
            .for_each(target);
    }};
}

/// Changes up to eight bytes of `wire`, and perhaps its length, as `input` says.
fn damage(wire: &mut Vec<u8>, input: &[u8]) {
    let (changes, _) = input.as_chunks::<3>();
    for [high, low, value] in changes.iter().take(8) {
        let at = usize::from(u16::from_be_bytes([*high, *low]));
        if let Some(byte) = wire.get_mut(at % 512) {
            *byte = *value;
        }
    }
    if let Some(length) = input.last() {
        wire.truncate(4 * usize::from(*length));
    }
}

/// Reads a value, and when there is one, writes it and reads it again.
macro_rules! read {
    ($type:ty, $bytes:expr) => {{
        let mut decoder = Decoder::new($bytes);
        if let Ok(value) = <$type>::decode(&mut decoder) {
            let mut buffer = Vec::new();
            value.encode(&mut Encoder::new(&mut buffer));
            assert_eq!(buffer.len(), $bytes.len() - decoder.remaining());
            // Compared as bytes: padding inside a list stays as it came.
            let again = <$type>::decode(&mut Decoder::new(&buffer)).unwrap();
            let mut twice = Vec::new();
            again.encode(&mut Encoder::new(&mut twice));
            assert_eq!(buffer, twice);
        }
    }};
}

macro_rules! fuzz_targets {
    ($($test:ident: $type:ty,)*) => {
        $(
            #[test]
            fn $test() {
                fuzz!(|input| {
                    read!($type, input);
                    let storage = Storage::default();
                    let value: $type = Sample::sample(&mut Source::new(input, &storage));
                    let mut wire = Vec::new();
                    value.encode(&mut Encoder::new(&mut wire));
                    damage(&mut wire, input);
                    read!($type, &wire);
                });
            }
        )*
    };
}

fuzz_targets! {
    null: (),
    getattr: Handle<'_>,
    setattr: SetattrArguments<'_>,
    lookup: DirectoryOperation<'_>,
    access: AccessArguments<'_>,
    readlink: Handle<'_>,
    read: ReadArguments<'_>,
    write: WriteArguments<'_>,
    create: CreateArguments<'_>,
    mkdir: MkdirArguments<'_>,
    symlink: SymlinkArguments<'_>,
    mknod: MknodArguments<'_>,
    remove: DirectoryOperation<'_>,
    rmdir: DirectoryOperation<'_>,
    rename: RenameArguments<'_>,
    link: LinkArguments<'_>,
    readdir: ReaddirArguments<'_>,
    readdirplus: ReaddirPlusArguments<'_>,
    fsstat: Handle<'_>,
    fsinfo: Handle<'_>,
    pathconf: Handle<'_>,
    commit: CommitArguments<'_>,
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
    mount_path: PathArguments<'_>,
    mount_reply: MountReply<'_>,
    mount_dump: mount3::DumpReply<'_>,
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
}

/// A call that is read is one: written again, it reads the same. One that is not is answered,
/// and the answer is a reply.
fn read_call(bytes: &[u8]) {
    let mut buffer = Vec::new();
    match parse_call(bytes) {
        Ok((call, arguments)) => {
            encode_call(&mut Encoder::new(&mut buffer), &call);
            assert_eq!(parse_call(&buffer).unwrap().0, call);
            assert!(bytes.ends_with(arguments.rest()));
        }
        Err(None) => {}
        Err(Some((xid, refusal))) => {
            encode_refusal(&mut Encoder::new(&mut buffer), xid, refusal);
            assert_eq!(buffer[..4], bytes[..4]);
            parse_reply(&buffer).unwrap_err();
        }
    }
}

#[test]
fn rpc_call() {
    fuzz!(|input| {
        read_call(input);
        let storage = Storage::default();
        let call: Call<'_> = Sample::sample(&mut Source::new(input, &storage));
        let mut wire = Vec::new();
        encode_call(&mut Encoder::new(&mut wire), &call);
        damage(&mut wire, input);
        read_call(&wire);
    });
}

#[test]
fn rpc_reply() {
    fuzz!(|input| {
        let _ = parse_reply(input);
        let storage = Storage::default();
        let refusal = Refusal::sample(&mut Source::new(input, &storage));
        let mut wire = Vec::new();
        encode_refusal(&mut Encoder::new(&mut wire), 7, refusal);
        damage(&mut wire, input);
        let _ = parse_reply(&wire);
    });
}
