//! RFC 1813, section 3.3.8: exclusive creation, attributes at creation, files whose mode forbids
//! writing.

use pagewell_sunrpc::nfs3::{
    CreateHow, DeviceNumber, FileType, NodeData, SetAttributes, SetTime, StableHow, Status, Time,
};

use crate::client::Client;
use crate::fixture::{Fixture, Kind, on_each_kind};
use crate::operations::mode;
use crate::process::Process;

const FIRST: CreateHow = CreateHow::Exclusive([1, 2, 3, 4, 5, 6, 7, 8]);
const SECOND: CreateHow = CreateHow::Exclusive([8, 7, 6, 5, 4, 3, 2, 1]);

/// What a client does after an exclusive CREATE: it sets all attributes.
fn finish_creation(client: &mut Client, file: &[u8]) {
    let attributes = SetAttributes {
        mode: Some(0o600),
        accessed: SetTime::ToServerTime,
        modified: SetTime::ToServerTime,
        ..SetAttributes::default()
    };
    client.setattr(file, attributes, None).unwrap();
    assert_eq!(client.getattr(file).unwrap().mode, 0o600);
}

/// EXCLUSIVE with the same verifier twice is the same file, with another verifier the
/// name exists; SETATTR makes it an ordinary file.
#[test]
fn exclusive_create_with_the_same_verifier_is_a_retry() {
    on_each_kind(|fixture| {
        let (mut client, root) = fixture.client();
        let made = client.create(&root, b"file", FIRST).unwrap();
        let retried = client.create(&root, b"file", FIRST).unwrap();
        assert_eq!(retried.handle, made.handle);
        assert_eq!(retried.attributes.file_id, made.attributes.file_id);
        let other = client.create(&root, b"file", SECOND);
        assert_eq!(other.unwrap_err(), Status::Exists);
        finish_creation(&mut client, &made.handle);
        for how in [FIRST, SECOND] {
            let late = client.create(&root, b"file", how);
            assert_eq!(late.unwrap_err(), Status::Exists);
        }
        let zero = CreateHow::Exclusive([0; 8]);
        let made = client.create(&root, b"zero", zero).unwrap();
        assert_eq!(
            client.create(&root, b"zero", zero).unwrap().handle,
            made.handle
        );
    });
}

/// A file that was made otherwise, or is no file, is no retry.
#[test]
fn exclusive_create_over_what_was_made_otherwise_exists() {
    on_each_kind(|fixture| {
        let (mut client, root) = fixture.client();
        client.make_file(&root, b"file", b"content");
        client.make_directory(&root, b"directory");
        client
            .symlink(&root, b"link", b"nowhere", SetAttributes::default())
            .unwrap();
        for name in [&b"file"[..], b"directory", b"link"] {
            for how in [FIRST, CreateHow::Exclusive([0; 8])] {
                let result = client.create(&root, name, how);
                assert_eq!(result.unwrap_err(), Status::Exists, "{name:?}");
            }
        }
        assert_eq!(
            client.lookup(&root, b"nowhere").unwrap_err(),
            Status::NotFound
        );
    });
}

/// The verifier survives a crash of the server.
#[test]
fn exclusive_create_is_a_retry_also_after_a_restart() {
    for kind in [Kind::Directory, Kind::PathHints] {
        let folder = tempfile::tempdir().unwrap();
        let server = Process::of_directory(folder.path(), kind);
        let (mut client, root) = server.client();
        let made = client.create(&root, b"file", FIRST).unwrap();
        server.kill();
        let server = Process::of_directory(folder.path(), kind);
        let (mut client, _) = server.client();
        let retried = client.create(&root, b"file", FIRST).unwrap();
        assert_eq!(retried.handle, made.handle);
        let other = client.create(&root, b"file", SECOND);
        assert_eq!(other.unwrap_err(), Status::Exists);
        finish_creation(&mut client, &made.handle);
    }
}

const TIME: Time = Time {
    seconds: 1_234_567_890,
    nanoseconds: 123_456_789,
};

/// All 144 combinations of what `sattr3` may hold.
fn combinations() -> Vec<SetAttributes> {
    let times = [SetTime::Keep, SetTime::ToServerTime, SetTime::To(TIME)];
    let mut all = Vec::new();
    for accessed in times {
        for modified in times {
            for bits in 0..16 {
                all.push(SetAttributes {
                    mode: (bits & 1 != 0).then_some(0o4751),
                    uid: (bits & 2 != 0).then_some(1000),
                    gid: (bits & 4 != 0).then_some(1001),
                    size: (bits & 8 != 0).then_some(5000),
                    accessed,
                    modified,
                });
            }
        }
    }
    all
}

/// CREATE, MKDIR, SYMLINK and MKNOD take every combination of attributes: Windows sets
/// both times.
#[test]
fn every_combination_of_attributes_is_taken_at_creation() {
    on_each_kind(|fixture| {
        let (mut client, root) = fixture.client();
        for (number, set) in combinations().into_iter().enumerate() {
            let how = match number % 2 {
                0 => CreateHow::Guarded(set),
                _ => CreateHow::Unchecked(set),
            };
            let name = format!("file {number}");
            let made = client.create(&root, name.as_bytes(), how).unwrap();
            check_made(fixture, &set, &made.attributes);
            assert_eq!(made.attributes.size, set.size.unwrap_or(0));
            let now = client.getattr(&made.handle).unwrap();
            assert_eq!(now, made.attributes);
            let name = format!("directory {number}");
            let made = client.mkdir(&root, name.as_bytes(), set).unwrap();
            check_made(fixture, &set, &made.attributes);
        }
        for (number, set) in combinations().into_iter().enumerate().step_by(7) {
            let name = format!("link {number}");
            let made = client.symlink(&root, name.as_bytes(), b"to", set).unwrap();
            assert_eq!(client.readlink(&made.handle).unwrap(), b"to");
            let name = format!("fifo {number}");
            let made = client
                .mknod(&root, name.as_bytes(), NodeData::Fifo(set))
                .unwrap();
            check_made(fixture, &set, &made.attributes);
        }
    });
}

fn check_made(
    fixture: &Fixture,
    set: &SetAttributes,
    found: &pagewell_sunrpc::nfs3::FileAttributes,
) {
    if let Some(mode) = set.mode {
        assert_eq!(found.mode, mode, "{set:?}");
    }
    if fixture.knows_users() {
        assert_eq!(found.uid, set.uid.unwrap_or(0), "{set:?}");
        assert_eq!(found.gid, set.gid.unwrap_or(0), "{set:?}");
    }
    if set.accessed == SetTime::To(TIME) {
        assert_eq!(found.accessed, TIME, "{set:?}");
    }
    if set.modified == SetTime::To(TIME) {
        assert_eq!(found.modified, TIME, "{set:?}");
    } else {
        assert_ne!(found.modified, TIME);
    }
}

/// UNCHECKED on a file that exists applies the size and keeps the file.
#[test]
fn unchecked_create_of_an_existing_file_applies_only_the_size() {
    on_each_kind(|fixture| {
        let (mut client, root) = fixture.client();
        let file = client.make_file(&root, b"file", b"content");
        let set = SetAttributes {
            size: Some(3),
            ..mode(0o777)
        };
        let made = client
            .create(&root, b"file", CreateHow::Unchecked(set))
            .unwrap();
        assert_eq!(made.handle, file);
        assert_eq!((made.attributes.size, made.attributes.mode), (3, 0o644));
        let guarded = client.create(&root, b"file", CreateHow::Guarded(set));
        assert_eq!(guarded.unwrap_err(), Status::Exists);
        assert_eq!(client.read(&file, 0, 10).unwrap().bytes, b"con");
    });
}

/// Every type that MKNOD makes, and those that it does not.
#[test]
fn nodes_of_every_type_are_made() {
    on_each_kind(|fixture| {
        let (mut client, root) = fixture.client();
        let set = mode(0o600);
        let device = DeviceNumber { major: 1, minor: 3 };
        let mut nodes = vec![NodeData::Socket(set), NodeData::Fifo(set)];
        if fixture.knows_users() {
            nodes.push(NodeData::CharacterDevice(set, device));
            nodes.push(NodeData::BlockDevice(set, device));
        }
        for (number, node) in nodes.into_iter().enumerate() {
            let name = format!("node {number}");
            let made = client.mknod(&root, name.as_bytes(), node).unwrap();
            if let NodeData::CharacterDevice(_, device) | NodeData::BlockDevice(_, device) = node {
                assert_eq!(made.attributes.device, device);
            }
            let again = client.mknod(&root, name.as_bytes(), node);
            assert_eq!(again.unwrap_err(), Status::Exists);
            let read = client.read(&made.handle, 0, 10);
            assert_eq!(read.unwrap_err(), Status::Invalid, "never opened");
        }
        for other in [FileType::Regular, FileType::Directory, FileType::Symlink] {
            let result = client.mknod(&root, b"other", NodeData::Unmakable(other));
            assert_eq!(result.unwrap_err(), Status::BadType);
        }
    });
}

/// The owner may write a file whose mode forbids it (it was open when the mode was
/// given); other users may not.
#[test]
fn the_owner_may_write_a_file_whose_mode_forbids_it() {
    on_each_kind(|fixture| {
        if !fixture.knows_users() {
            return;
        }
        let (mut root_client, root) = fixture.client();
        let shared = root_client.make_directory(&root, b"shared");
        let mut owner = fixture.client_of(1000);
        let made = owner
            .create(&shared, b"file", CreateHow::Guarded(mode(0o444)))
            .unwrap();
        assert_eq!((made.attributes.uid, made.attributes.mode), (1000, 0o444));
        let file = made.handle;
        owner
            .write(&file, 0, b"by owner", StableHow::Unstable)
            .unwrap();
        owner.commit(&file, 0, 0).unwrap();
        let mut other = fixture.client_of(1001);
        let refused = other.write(&file, 0, b"by other", StableHow::Unstable);
        assert_eq!(refused.unwrap_err(), Status::AccessDenied);
        assert_eq!(other.read(&file, 0, 100).unwrap().bytes, b"by owner");
        owner.setattr(&file, mode(0o200), None).unwrap();
        assert_eq!(owner.read(&file, 0, 100).unwrap().bytes, b"by owner");
        let refused = other.read(&file, 0, 100);
        assert_eq!(refused.unwrap_err(), Status::AccessDenied);
    });
}
