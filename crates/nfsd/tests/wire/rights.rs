//! Who a caller becomes, and exports that must not be changed.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pagewell_fs as fs;
use pagewell_nfsd::Squash;
use pagewell_sunrpc::nfs3::{CreateHow, FileAttributes, Procedure, SetAttributes, Status, access};
use pagewell_sunrpc::nlm4;

use crate::client::{Client, User};
use crate::every_call::{changing, looking, status_of};
use crate::fixture::{Fixture, Kind, directory, export, ram, serve_with};
use crate::layer::{Event, Hook, Layer};
use crate::locks::{NOBODY, program};
use crate::operations::mode;

const ANONYMOUS: (u32, u32) = (4001, 4002);

/// The owner of what a user creates on an export that squashes so.
fn owner_of_new_file(fixture: &Fixture, user: User) -> FileAttributes {
    let mut client = Client::connect(fixture.address(), user);
    let root = client.mount(b"/").unwrap();
    let how = CreateHow::Guarded(mode(0o640));
    let made = client.create(&root, b"file", how).unwrap();
    client.remove(&root, b"file").unwrap();
    made.attributes
}

fn squashing(kind: Kind, squash: Squash) -> Fixture {
    let fixture = Fixture::with(kind, |export| {
        export.squash = squash;
        export.anonymous = ANONYMOUS;
    });
    if kind != Kind::Ram {
        permit(&fixture.folder().join("exported"), 0o777);
    }
    fixture
}

fn permit(path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// The squashed are the anonymous user, the others are themselves; AUTH_NONE is always anonymous.
#[test]
fn callers_are_squashed_as_the_export_says() {
    let root = || User::System(0, 0, Vec::new());
    let user = || User::System(1000, 1001, vec![1002]);
    let of_root_group = || User::System(1000, 0, vec![0, 5]);
    for kind in Kind::ALL {
        let table = [
            (Squash::None, root(), (0, 0)),
            (Squash::None, user(), (1000, 1001)),
            (Squash::None, of_root_group(), (1000, 0)),
            (Squash::None, User::Nobody, ANONYMOUS),
            (Squash::Root, root(), ANONYMOUS),
            (Squash::Root, user(), (1000, 1001)),
            (Squash::Root, of_root_group(), (1000, ANONYMOUS.1)),
            (Squash::Root, User::Nobody, ANONYMOUS),
            (Squash::All, root(), ANONYMOUS),
            (Squash::All, user(), ANONYMOUS),
            (Squash::All, User::Nobody, ANONYMOUS),
        ];
        for (squash, user, expected) in table {
            let fixture = squashing(kind, squash);
            if !fixture.knows_users() {
                return;
            }
            let made = owner_of_new_file(&fixture, user.clone());
            assert_eq!(
                (made.uid, made.gid),
                expected,
                "{kind:?} {squash:?} {user:?}"
            );
        }
    }
}

/// A squashed root has no power over the files of others; its groups give it nothing either.
#[test]
fn a_squashed_root_has_no_power() {
    for kind in Kind::ALL {
        let fixture = squashing(kind, Squash::Root);
        if !fixture.knows_users() {
            return;
        }
        let mut owner = fixture.client_of(1000);
        let root = owner.mount(b"/").unwrap();
        let how = CreateHow::Guarded(mode(0o600));
        let file = owner.create(&root, b"private", how).unwrap().handle;
        let mut client = Client::connect(fixture.address(), User::System(0, 0, vec![0, 1000]));
        assert_eq!(client.read(&file, 0, 10).unwrap_err(), Status::AccessDenied);
        let refused = client.setattr(&file, mode(0o666), None).unwrap_err();
        assert!(matches!(
            refused,
            Status::NotPermitted | Status::AccessDenied
        ));
        assert_eq!(
            client.access(&file, access::READ | access::MODIFY).unwrap(),
            0
        );
        let all = access::READ | access::MODIFY | access::EXTEND;
        assert_eq!(owner.access(&file, all).unwrap(), all);
    }
}

/// Supplementary groups count.
#[test]
fn supplementary_groups_give_their_rights() {
    for kind in Kind::ALL {
        let fixture = squashing(kind, Squash::Root);
        if !fixture.knows_users() {
            return;
        }
        let mut owner = Client::connect(fixture.address(), User::System(1000, 2000, vec![]));
        let root = owner.mount(b"/").unwrap();
        let how = CreateHow::Guarded(mode(0o640));
        let file = owner.create(&root, b"shared", how).unwrap().handle;
        for (groups, readable) in [(vec![2000], true), (vec![5, 2000], true), (vec![5], false)] {
            let user = User::System(1001, 1001, groups);
            let mut client = Client::connect(fixture.address(), user);
            let granted = client.access(&file, access::READ).unwrap() == access::READ;
            assert_eq!(granted, readable);
            assert_eq!(client.read(&file, 0, 10).is_ok(), readable);
        }
    }
}

/// Every procedure that changes something is ROFS on a read-only export, and every other one
/// works; ACCESS grants no change.
#[test]
fn a_read_only_export_refuses_every_change() {
    for kind in [Kind::Directory, Kind::PathHints] {
        let fixture = Fixture::with(kind, |export| export.read_only = true);
        let exported = fixture.folder().join("exported");
        std::fs::write(exported.join("name"), "content").unwrap();
        let (mut client, root) = fixture.client();
        let file = client.lookup(&root, b"name").unwrap().handle;
        let before = client.getattr(&file).unwrap();
        for object in [&root, &file] {
            for call in changing(object, &root) {
                let answer = client.nfs_raw(call.procedure, &call.arguments);
                let status = status_of(call.procedure, &answer);
                assert_eq!(status, Status::ReadOnly, "{}", call.procedure.name());
            }
        }
        for call in looking(&root) {
            let answer = client.nfs_raw(call.procedure, &call.arguments);
            let expected = match call.procedure {
                Procedure::Readlink => Status::Invalid,
                Procedure::Read => Status::IsDirectory,
                _ => Status::Ok,
            };
            assert_eq!(status_of(call.procedure, &answer), expected);
        }
        assert_eq!(client.read(&file, 0, 10).unwrap().bytes, b"content");
        let after = client.getattr(&file).unwrap();
        assert_eq!((after.wcc(), after.mode), (before.wcc(), before.mode));
        let changes = access::MODIFY | access::EXTEND | access::DELETE;
        for object in [&root, &file] {
            let granted = client.access(object, changes | access::READ).unwrap();
            assert_eq!(granted, access::READ);
        }
    }
}

/// COMMIT needs the permission of WRITE, so that others cannot make the disk busy; the owner has
/// it, whatever the mode.
#[test]
fn a_commit_needs_the_right_to_write() {
    for kind in Kind::ALL {
        let fixture = Fixture::new(kind);
        if !fixture.knows_users() {
            return;
        }
        let (mut root, directory) = fixture.client();
        let file = root.make_file(&directory, b"file", b"content");
        let set = SetAttributes {
            mode: Some(0o444),
            uid: Some(1000),
            gid: Some(1000),
            ..SetAttributes::default()
        };
        root.setattr(&file, set, None).unwrap();
        let refused = fixture.client_of(2000).commit(&file, 0, 0).unwrap_err();
        assert_eq!(refused, Status::AccessDenied, "{kind:?}");
        fixture.client_of(1000).commit(&file, 0, 0).unwrap();
        root.commit(&file, 0, 0).unwrap();
        root.setattr(&file, mode(0o666), None).unwrap();
        fixture.client_of(2000).commit(&file, 0, 0).unwrap();
    }
}

/// Storage that opens a file of the server for each call.
struct Opens(PathBuf);

impl Hook for Opens {
    fn before(&self, _event: &Event<'_>) -> fs::Result<()> {
        let opened = std::fs::File::open(&self.0);
        opened
            .map(drop)
            .map_err(|error| fs::Error::Io(error.to_string()))
    }
}

/// A directory is changed as the caller; what its thread does next for another export, or for a
/// lock, is done as the server.
#[test]
fn a_thread_acts_as_its_caller_for_directories_alone() {
    let folder = tempfile::tempdir().unwrap();
    let exported = folder.path().join("exported");
    std::fs::create_dir(&exported).unwrap();
    permit(&exported, 0o777);
    let own = folder.path().join("own");
    std::fs::write(&own, b"").unwrap();
    permit(&own, 0o600);
    let (other, _) = Layer::new(ram(), Opens(own));
    let exports = vec![
        export(
            "/directory",
            Arc::new(directory(&exported, Kind::Directory)),
        ),
        export("/other", other),
    ];
    let server = serve_with(exports, |config| {
        config.locks.port_mapper = NOBODY;
        config.locks.records = Some(folder.path().join("locks"));
    });
    let mut client = Client::connect(server.address(), User::System(1000, 1000, Vec::new()));
    let [root, other] = [b"/directory", &b"/other"[..]].map(|path| client.mount(path).unwrap());
    let file = client.make_file(&root, b"file", b"content");
    // The receiving thread, and one that may wait, most often the same.
    client.getattr(&other).unwrap();
    for round in 0..20 {
        let name = format!("folder{round}").into_bytes();
        client.make_directory(&root, &name);
        client.make_directory(&other, &name);
    }
    client.make_directory(&root, b"last");
    let mut program = program::Program::new(server.address(), "anna", 1, &file);
    program.client = client;
    assert_eq!(program.lock(program::WRITE, (0, 0)), nlm4::Status::Granted);
}
