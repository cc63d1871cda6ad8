//! RFC 1813, section 5: MOUNT, and clients that want locks.

use std::net::SocketAddr;
use std::sync::Arc;

use pagewell_nfsd::refusals::Reason;
use pagewell_nfsd::{Config, Server};
use pagewell_sunrpc::mount3::{self, DumpReply, ExportReply, Procedure, Status};
use pagewell_sunrpc::nfs3;
use pagewell_sunrpc::rpc::Refusal;

use crate::client::{Answer, Client, User, encoded};
use crate::fixture::{HANDLE_KEY, Kind, connect, directory, export, on_each_kind, ram, serve};

fn two_exports() -> (Server, Client) {
    let mut second = export("/second/deep", ram());
    second.allow = vec!["127.0.0.0/8".parse().unwrap(), "::1".parse().unwrap()];
    let server = serve(vec![export("/first", ram()), second]);
    let client = Client::connect(server.address(), User::root());
    (server, client)
}

/// Each of the six procedures replies, and there is no seventh.
#[test]
fn every_mount_procedure_replies() {
    let (_server, mut client) = two_exports();
    client.mount_call(Procedure::Null, &[]).decode::<()>();
    assert!(client.mounted().is_empty());
    client.mount(b"/first").unwrap();
    assert_eq!(
        client.mounted(),
        [(b"127.0.0.1".to_vec(), b"/first".to_vec())]
    );
    client.unmount(b"/first");
    assert!(client.mounted().is_empty());
    client.unmount(b"/never mounted");
    client.mount(b"/first").unwrap();
    client.mount(b"/second/deep").unwrap();
    assert_eq!(client.mounted().len(), 2);
    client.unmount_all();
    assert!(client.mounted().is_empty());
    let exports = client.exports();
    let paths: Vec<&[u8]> = exports.iter().map(|(path, _)| &path[..]).collect();
    assert_eq!(paths, [&b"/first"[..], b"/second/deep"]);
    assert_eq!(exports[1].1, [b"127.0.0.0/8".to_vec(), b"::1/128".to_vec()]);
    for procedure in [6, 7, 1000, u32::MAX] {
        let answer = client.call((mount3::PROGRAM, mount3::VERSION, procedure), &[]);
        assert_eq!(answer.refusal(), Some(Refusal::ProcedureUnavailable));
    }
    client.check_usable();
}

/// Older versions of MOUNT, which clients use to list and to unmount, answer as the
/// third; their handles are those of another NFS, so that they give none.
#[test]
fn older_versions_of_mount_do_all_but_mount() {
    let (_server, mut client) = two_exports();
    let path = encoded(&&b"/first"[..]);
    for version in [1, 2] {
        let mut call = |procedure: Procedure, arguments: &[u8]| {
            let target = (mount3::PROGRAM, version, procedure.number());
            client.call(target, arguments)
        };
        call(Procedure::Null, &[]).decode::<()>();
        let refused = call(Procedure::Mnt, &path).refusal();
        assert_eq!(refused, Some(Refusal::ProcedureUnavailable));
        let exports = call(Procedure::Export, &[]);
        let exports: ExportReply<'_> = exports.decode();
        let paths: Vec<_> = exports.iter().map(|entry| entry.path).collect();
        assert_eq!(paths, [&b"/first"[..], b"/second/deep"]);
        let count = |answer: &Answer| answer.decode::<DumpReply<'_>>().iter().count();
        for unmount in [Procedure::Umnt, Procedure::UmntAll] {
            client.mount(b"/first").unwrap();
            let mut call = |procedure: Procedure, arguments: &[u8]| {
                let target = (mount3::PROGRAM, version, procedure.number());
                client.call(target, arguments)
            };
            assert_eq!(count(&call(Procedure::Dump, &[])), 1);
            call(unmount, &path).decode::<()>();
            assert_eq!(count(&call(Procedure::Dump, &[])), 0, "{unmount:?}");
        }
        for procedure in [6, 7, 8] {
            let answer = client.call((mount3::PROGRAM, version, procedure), &[]);
            assert_eq!(answer.refusal(), Some(Refusal::ProcedureUnavailable));
        }
    }
    for version in [0, 4] {
        let answer = client.call((mount3::PROGRAM, version, 1), &path);
        let up_to_three = Refusal::ProgramMismatch { low: 1, high: 3 };
        assert_eq!(answer.refusal(), Some(up_to_three));
    }
}

/// What MNT is given may be written in several ways; what is not there is NOENT.
#[test]
fn paths_of_exports_are_found_however_they_are_written() {
    let (_server, mut client) = two_exports();
    let first = client.mount(b"/first").unwrap();
    for same in [&b"/first/"[..], b"//first", b"first", b"/./first/."] {
        assert_eq!(client.mount(same).unwrap(), first);
    }
    let deep = client.mount(b"/second/deep").unwrap();
    assert_ne!(deep, first);
    for none in [
        &b"/third"[..],
        b"/second/none",
        b"/firstly",
        b"/first/none",
        b"/nul\0",
    ] {
        let refused = client.mount(none).unwrap_err();
        assert!(
            matches!(refused, Status::NotFound | Status::Invalid),
            "{none:?}"
        );
    }
    let long = [&b"/first/"[..], &[b'n'; 300]].concat();
    assert_eq!(client.mount(&long).unwrap_err(), Status::NameTooLong);
    let too_long = encoded(&&[b'/'; 1025][..]);
    let answer = client.mount_call(Procedure::Mnt, &too_long);
    assert_eq!(answer.refusal(), Some(Refusal::GarbageArguments));
    let refused = client.mount_call(Procedure::Mnt, &[0, 0, 0, 9, b'/']);
    assert_eq!(refused.refusal(), Some(Refusal::GarbageArguments));
}

/// Bytes behind the arguments are ignored in MOUNT as in NFS.
#[test]
fn bytes_behind_the_arguments_are_ignored() {
    let (_server, mut client) = two_exports();
    let mut path = encoded(&&b"/first"[..]);
    path.extend([0; 4]);
    for (procedure, count) in [(Procedure::Mnt, 1), (Procedure::Umnt, 0)] {
        assert_eq!(client.mount_call(procedure, &path).refusal(), None);
        assert_eq!(client.mounted().len(), count, "{procedure:?}");
    }
}

/// A directory below an export can be mounted, a file or a link cannot, and `..` leads not above
/// the export.
#[test]
fn a_directory_below_an_export_can_be_mounted() {
    on_each_kind(|fixture| {
        let (mut client, root) = fixture.client();
        let below = client.make_directory(&root, b"below");
        let deep = client.make_directory(&below, b"deep");
        client.make_file(&root, b"file", b"");
        client
            .symlink(&root, b"link", b"below", nfs3::SetAttributes::default())
            .unwrap();
        assert_eq!(client.mount(b"/below").unwrap(), below);
        assert_eq!(client.mount(b"/below/deep").unwrap(), deep);
        assert_eq!(client.mount(b"/below/deep/..").unwrap(), below);
        assert_eq!(client.mount(b"/../..").unwrap(), root);
        for other in [&b"/file"[..], b"/link", b"/link/deep", b"/file/x"] {
            assert_eq!(client.mount(other).unwrap_err(), Status::NotDirectory);
        }
        let far = b"/x".repeat(400);
        assert!(client.mount(&far).is_err());
    });
}

/// What was mounted below an export is unmounted by the same path.
#[test]
fn a_directory_below_an_export_is_unmounted_by_its_path() {
    let (_server, mut client) = two_exports();
    let root = client.mount(b"/first").unwrap();
    client.make_directory(&root, b"below");
    client.mount(b"/first/below").unwrap();
    assert_eq!(client.mounted().len(), 2);
    client.unmount(b"/first/below");
    assert_eq!(
        client.mounted(),
        [(b"127.0.0.1".to_vec(), b"/first".to_vec())]
    );
    client.unmount(b"/first/");
    assert!(client.mounted().is_empty());
}

/// An address that is not allowed gets ACCES from MNT and from NFS with a handle from elsewhere.
#[test]
fn an_address_that_is_not_allowed_is_refused_by_mount_and_by_nfs() {
    let folder = tempfile::tempdir().unwrap();
    let open = export("/", Arc::new(directory(folder.path(), Kind::Directory)));
    let (mut client, root) = connect(&serve(vec![open]));
    let mut closed = export("/", Arc::new(directory(folder.path(), Kind::Directory)));
    closed.allow = vec!["10.0.0.0/8".parse().unwrap()];
    let server = serve(vec![closed, export("/open", ram())]);
    drop(client);
    client = Client::connect(server.address(), User::root());
    assert_eq!(client.mount(b"/").unwrap_err(), Status::AccessDenied);
    assert_eq!(client.mount(b"/below").unwrap_err(), Status::AccessDenied);
    for call in crate::every_call::every_call(&root) {
        let answer = client.nfs_raw(call.procedure, &call.arguments);
        let status = crate::every_call::status_of(call.procedure, &answer);
        assert_eq!(status, nfs3::Status::AccessDenied, "{:?}", call.procedure);
    }
    let root = client.mount(b"/open").unwrap();
    client.make_file(&root, b"file", b"");
    assert_eq!(client.mounted().len(), 1);
}

/// An export that is for reserved ports only is refused to a client that calls from another one.
#[test]
fn a_secure_export_is_for_reserved_ports_only() {
    let folder = tempfile::tempdir().unwrap();
    let open = export("/", Arc::new(directory(folder.path(), Kind::Directory)));
    let (_, root) = connect(&serve(vec![open]));
    let mut closed = export("/", Arc::new(directory(folder.path(), Kind::Directory)));
    closed.secure = true;
    for (peer, refusal) in [
        ("127.0.0.1:1023", None),
        ("127.0.0.1:1024", Some(Reason::PortNotReserved)),
        ("10.0.0.1:1023", Some(Reason::ExportNotAllowed)),
    ] {
        assert_eq!(closed.refusal(peer.parse().unwrap()), refusal, "{peer}");
    }
    let server = serve(vec![closed]);
    let mut client = Client::connect(server.address(), User::root());
    assert_eq!(client.mount(b"/").unwrap_err(), Status::AccessDenied);
    for call in crate::every_call::every_call(&root) {
        let answer = client.nfs_raw(call.procedure, &call.arguments);
        let status = crate::every_call::status_of(call.procedure, &answer);
        assert_eq!(status, nfs3::Status::AccessDenied, "{:?}", call.procedure);
    }
}

/// Without a list of networks only loopback may use an export.
#[test]
fn an_export_without_networks_is_for_loopback_only() {
    let export = export("/", ram());
    assert!(export.allow.is_empty());
    let loopback = ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"];
    assert!(
        loopback
            .iter()
            .all(|address| export.allows(address.parse().unwrap()))
    );
    let others = ["10.0.0.1", "192.168.1.1", "fe80::1", "::ffff:10.0.0.1"];
    assert!(
        !others
            .iter()
            .any(|address| export.allows(address.parse().unwrap()))
    );
}

/// A configuration that cannot be served is refused before anything listens.
#[test]
fn contradicting_exports_are_refused_at_start() {
    let start = |exports| {
        let mut config = Config::new(exports, HANDLE_KEY);
        config.listen = SocketAddr::from(([127, 0, 0, 1], 0));
        Server::start(config).map(|_| ()).unwrap_err().to_string()
    };
    assert!(start(vec![export("no-slash", ram())]).contains("no-slash"));
    assert!(start(vec![export("/a", ram()), export("/a", ram())]).contains("/a"));
    let first = serve(vec![export("/", ram())]);
    let mut config = Config::new(vec![export("/", ram())], HANDLE_KEY);
    config.listen = first.address();
    let refused = Server::start(config).map(|_| ()).unwrap_err().to_string();
    assert!(refused.contains(&first.address().to_string()), "{refused}");
}

/// Clients find the lock manager by the port mapper only, so the mount commands of the
/// manual, which do without, say that locks stay on the client. Lock managers of the version that
/// goes with NFSv3 and status monitors are answered, older ones and quotas are not.
#[test]
fn locks_are_answered_and_the_manual_says_what_needs_them() {
    let manual = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/OPERATING.md");
    let manual = std::fs::read_to_string(manual).unwrap();
    for (system, option) in [
        ("Linux", "nolock,"),
        ("macOS", "nolocks,"),
        ("FreeBSD", "nolockd,"),
        ("Windows", ",nolock "),
    ] {
        let line = manual
            .lines()
            .find(|line| line.starts_with(&format!("| {system}")) && line.contains("mount"));
        assert!(line.is_some_and(|line| line.contains(option)), "{system}");
    }
    assert!(manual.contains("\n## Locks\n"));
    let (_server, mut client) = two_exports();
    let only = |version| {
        Some(Refusal::ProgramMismatch {
            low: version,
            high: version,
        })
    };
    for (program, version, refusal) in [
        (100_021, 1, only(4)),
        (100_021, 3, only(4)),
        (100_021, 4, None),
        (100_024, 1, None),
        (100_024, 2, only(1)),
        (100_011, 1, Some(Refusal::ProgramUnavailable)),
        (100_011, 2, Some(Refusal::ProgramUnavailable)),
    ] {
        let answer = client.call((program, version, 0), &[]);
        assert_eq!(answer.refusal(), refusal, "{program} {version}");
    }
}
