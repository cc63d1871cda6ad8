//! Whatever comes in, a bare server answers within its files or not at all.

use std::fs;

use pagewell_sunrpc::mount3::{self, PathArguments};
use pagewell_sunrpc::nfs3::{
    self, CommitArguments, CreateArguments, CreateHow, DirectoryOperation, GetattrReply, Handle,
    LookupReply, Procedure, ReadArguments, ReadHeadReply, SetAttributes, StableHow, Status,
    WriteArguments, WriteReply,
};
use pagewell_sunrpc::record::{LAST_FRAGMENT, MARKER_BYTES};
use pagewell_sunrpc::rpc::{Call, Credential, encode_call, parse_reply};
use pagewell_sunrpc::xdr::{Decode, Encode, Encoder};
use tempfile::TempDir;

use super::answers::{READ_BYTES_MAX, answer};
use super::files::{FILE_BYTES_MAX, Files, ROOT};

/// Not a multiple of four.
const READ_BYTES: usize = 3 * READ_BYTES_MAX + 3;

fn files() -> (TempDir, Files) {
    let directory = TempDir::new().unwrap();
    let read = directory.path().join("read");
    fs::write(&read, vec![7; READ_BYTES]).unwrap();
    let files = Files::open(&read, &[directory.path().join("written")]).unwrap();
    (directory, files)
}

fn call(procedure: Procedure, arguments: &impl Encode) -> Vec<u8> {
    let number = procedure.number();
    any_call((nfs3::PROGRAM, nfs3::VERSION, number), arguments)
}

fn any_call((program, version, procedure): (u32, u32, u32), arguments: &impl Encode) -> Vec<u8> {
    let mut record = Vec::new();
    let mut encoder = Encoder::new(&mut record);
    let call = Call {
        xid: 77,
        program,
        version,
        procedure,
        credential: Credential::None,
    };
    encode_call(&mut encoder, &call);
    arguments.encode(&mut encoder);
    record
}

/// What is appended for a record, and the range of the data that follows it.
fn answered(files: &Files, record: &[u8]) -> (Vec<u8>, Option<(u64, usize)>) {
    let mut reply = Vec::new();
    let data = answer(files, record, &mut reply).map(|data| (data.offset, data.length));
    if let Some((offset, length)) = data {
        assert!(length > 0 && length <= READ_BYTES_MAX);
        assert!(offset + length as u64 <= READ_BYTES as u64);
    }
    if !reply.is_empty() {
        let marker = u32::from_be_bytes(*reply.first_chunk().unwrap());
        let follows = data.map_or(0, |(_, length)| length.next_multiple_of(4));
        let length = reply.len() - MARKER_BYTES + follows;
        assert_eq!(marker, length as u32 | LAST_FRAGMENT);
    }
    (reply, data)
}

fn results<T: for<'a> Decode<'a>>(reply: &[u8]) -> T {
    let (xid, mut decoder) = parse_reply(&reply[MARKER_BYTES..]).unwrap();
    assert_eq!(xid, 77);
    T::decode(&mut decoder).unwrap()
}

/// The handle of a name.
fn handle_of(files: &Files, name: &[u8]) -> Vec<u8> {
    let directory = Handle::new(&ROOT).unwrap();
    let what = DirectoryOperation { directory, name };
    let (reply, _) = answered(files, &call(Procedure::Lookup, &what));
    let (_, mut decoder) = parse_reply(&reply[MARKER_BYTES..]).unwrap();
    let found = LookupReply::decode(&mut decoder).unwrap().unwrap();
    found.object.as_bytes().to_vec()
}

fn read(
    files: &Files,
    file: &[u8],
    offset: u64,
    count: u32,
) -> (ReadHeadReply, Option<(u64, usize)>) {
    let file = Handle::new(file).unwrap();
    let arguments = ReadArguments {
        file,
        offset,
        count,
    };
    let (reply, data) = answered(files, &call(Procedure::Read, &arguments));
    (results(&reply), data)
}

fn write(files: &Files, file: &[u8], offset: u64, data: &[u8]) -> Result<u32, Status> {
    let arguments = WriteArguments {
        file: Handle::new(file).unwrap(),
        offset,
        count: data.len() as u32,
        stable: StableHow::Unstable,
        data,
    };
    let reply: WriteReply = results(&answered(files, &call(Procedure::Write, &arguments)).0);
    reply
        .map(|done| done.count)
        .map_err(|failure| failure.status)
}

#[test]
fn a_read_stays_inside_of_the_file_and_of_a_reply() {
    let (_directory, files) = files();
    let file = handle_of(&files, b"read");
    let end = READ_BYTES as u64;
    for (offset, count, expected) in [
        (0, 8192, 8192),
        (end - 5, 8192, 5),
        (0, u32::MAX, READ_BYTES_MAX),
        (end, 8192, 0),
        (u64::MAX, u32::MAX, 0),
        (7, 0, 0),
    ] {
        let (reply, data) = read(&files, &file, offset, count);
        let reply = reply.unwrap();
        assert_eq!(reply.count as usize, expected);
        assert_eq!(reply.end_of_file, offset >= end - 5 && count > 0);
        assert_eq!(data, (expected > 0).then_some((offset, expected)));
    }
}

#[test]
fn each_handle_does_only_what_it_is_for() {
    let (_directory, files) = files();
    let (reading, writing) = (handle_of(&files, b"read"), handle_of(&files, b"written"));
    assert_eq!(write(&files, &reading, 0, b"abc"), Err(Status::ReadOnly));
    assert_eq!(write(&files, &ROOT, 0, b"abc"), Err(Status::ReadOnly));
    assert_eq!(write(&files, &[0, 0, 0, 9], 0, b"abc"), Err(Status::Stale));
    assert_eq!(write(&files, b"long handle", 0, b"abc"), Err(Status::Stale));
    assert_eq!(write(&files, &writing, 2, b"abc"), Ok(3));
    let far = write(&files, &writing, FILE_BYTES_MAX - 2, b"abc");
    assert_eq!(far, Err(Status::FileTooLarge));
    let wrapped = write(&files, &writing, u64::MAX, b"abc");
    assert_eq!(wrapped, Err(Status::FileTooLarge));
    let object = Handle::new(&writing).unwrap();
    let getattr = call(Procedure::Getattr, &object);
    let found: GetattrReply = results(&answered(&files, &getattr).0);
    assert_eq!(found.unwrap().size, 5);
    let refused = read(&files, &writing, 0, 8192);
    assert_eq!(refused.0.unwrap_err().status, Status::NotSupported);
}

/// One call of each kind that is known here.
fn calls(files: &Files) -> Vec<Vec<u8>> {
    let (reading, writing) = (handle_of(files, b"read"), handle_of(files, b"written"));
    let what = |name| DirectoryOperation {
        directory: Handle::new(&ROOT).unwrap(),
        name,
    };
    let (object, file) = (
        Handle::new(&reading).unwrap(),
        Handle::new(&writing).unwrap(),
    );
    let reading = ReadArguments {
        file: object,
        offset: 4096,
        count: 8192,
    };
    let writing = WriteArguments {
        file,
        offset: 3,
        count: 6,
        stable: StableHow::FileSync,
        data: b"abcdef",
    };
    let creation = CreateArguments {
        what: what(b"written"),
        how: CreateHow::Unchecked(SetAttributes {
            size: Some(9),
            ..SetAttributes::default()
        }),
    };
    let committed = CommitArguments {
        file,
        offset: 0,
        count: 0,
    };
    let removed = what(b"written");
    let mnt = mount3::Procedure::Mnt.number();
    let path = PathArguments { path: b"/export" };
    vec![
        call(Procedure::Getattr, &object),
        call(Procedure::Lookup, &what(b"read")),
        call(Procedure::Read, &reading),
        call(Procedure::Write, &writing),
        call(Procedure::Commit, &committed),
        call(Procedure::Create, &creation),
        call(Procedure::Remove, &removed),
        any_call((mount3::PROGRAM, mount3::VERSION, mnt), &path),
    ]
}

#[test]
fn damaged_calls_are_refused_or_answered_within_the_file() {
    let (_directory, files) = files();
    for call in calls(&files) {
        assert!(!answered(&files, &call).0.is_empty());
        for length in 0..call.len() {
            answered(&files, &call[..length]);
        }
        for at in 0..call.len() {
            for value in [0, 1, 0x7f, 0x80, 0xff] {
                let mut damaged = call.clone();
                damaged[at] = value;
                answered(&files, &damaged);
            }
        }
    }
}
