//! What is above exports: directories that can be mounted where no export has the name.

use std::sync::Arc;

use pagewell_nfsd::{Export, Server};
use pagewell_sunrpc::mount3;
use pagewell_sunrpc::nfs3::{
    FileType, Procedure, ReaddirPlusArguments, ReaddirPlusReply, Status, access, properties,
};

use crate::client::{Client, User};
use crate::every_call::{changing, every_call, looking, status_of};
use crate::fixture::{Kind, connect, directory, export, ram, serve};
use crate::operations::{FileHandle, handle};
use crate::pages::sorted;

fn serve_names(names: &[&str]) -> Server {
    serve(names.iter().map(|name| export(name, ram())).collect())
}

fn export_for(name: &str, network: &str) -> Export {
    let mut export = export(name, ram());
    export.allow = vec![network.parse().unwrap()];
    export
}

fn names(client: &mut Client, directory: &FileHandle) -> Vec<Vec<u8>> {
    sorted(&client.list(directory))
}

/// RFC 1813 section 3.3.3: LOOKUP of an export's name gives the handle that MNT gives, with
/// attributes of the export, whose `fsid` is another one.
#[test]
fn the_way_to_each_export_begins_at_the_root() {
    let server = serve_names(&["/a", "/b/c", "/b/d/e", "/a/deep"]);
    let (mut client, root) = connect(&server);
    let own = client.getattr(&root).unwrap();
    assert_eq!((own.file_type, own.mode), (FileType::Directory, 0o555));
    assert_eq!(names(&mut client, &root), [b"a", b"b"]);
    let above = client.lookup(&root, b"b").unwrap();
    assert_eq!(above.attributes.filesystem_id, own.filesystem_id);
    assert_ne!(above.attributes.file_id, own.file_id);
    assert_eq!(client.mount(b"/b").unwrap(), above.handle);
    assert_eq!(names(&mut client, &above.handle), [b"c", b"d"]);
    let further = client.lookup(&above.handle, b"d").unwrap().handle;
    for (parent, name, path) in [
        (&root, &b"a"[..], &b"/a"[..]),
        (&above.handle, b"c", b"/b/c"),
        (&further, b"e", b"/b/d/e"),
    ] {
        let found = client.lookup(parent, name).unwrap();
        assert_eq!(client.mount(path).unwrap(), found.handle);
        assert_ne!(found.attributes.filesystem_id, own.filesystem_id);
        let inside = client.getattr(&found.handle).unwrap();
        assert_eq!(inside, found.attributes);
        client.make_file(&found.handle, b"file", b"x");
    }
    let export = client.mount(b"/a").unwrap();
    assert_ne!(client.mount(b"/a/deep").unwrap(), export);
    let deep = client.lookup(&export, b"deep");
    assert_eq!(deep.unwrap_err(), Status::NotFound, "the export's own name");
}

/// RFC 1813 section 3.3.3: `.` and `..` are the directory and its parent; the root is its own.
#[test]
fn no_name_leads_out_of_the_pseudo_root() {
    let server = serve_names(&["/a", "/b/c"]);
    let (mut client, root) = connect(&server);
    let above = client.mount(b"/b").unwrap();
    for (directory, name, expected) in [
        (&root, &b"."[..], &root),
        (&root, b"..", &root),
        (&above, b".", &above),
        (&above, b"..", &root),
    ] {
        assert_eq!(client.lookup(directory, name).unwrap().handle, *expected);
    }
    for path in [&b"/b/.."[..], b"/..", b"", b"/b/../b/../.", b"//"] {
        assert_eq!(client.mount(path).unwrap(), root, "{path:?}");
    }
    let export = client.mount(b"/a").unwrap();
    assert_eq!(client.mount(b"/b/../a").unwrap(), export);
    assert_eq!(client.lookup(&export, b"..").unwrap().handle, export);
    for name in [&b"c"[..], b"aa", b"b/c"] {
        assert!(client.lookup(&root, name).is_err(), "{name:?}");
    }
    for none in [&b"/c"[..], b"/b/a", b"/b/c/none", b"/b/.../c"] {
        let refused = client.mount(none).unwrap_err();
        assert_eq!(refused, mount3::Status::NotFound, "{none:?}");
    }
    let long = client.lookup(&root, &[b'n'; 256]);
    assert_eq!(long.unwrap_err(), Status::NameTooLong);
}

/// RFC 1813 sections 3.3.16 and 3.3.17: a listing goes on after any of its cookies; entries of
/// READDIRPLUS are without attributes and handle, so that clients look up what is there.
#[test]
fn a_listing_goes_on_after_each_name() {
    let exports: Vec<String> = (0..40).map(|index| format!("/export {index}")).collect();
    let exports: Vec<&str> = exports.iter().map(String::as_str).collect();
    let server = serve_names(&exports);
    let (mut client, root) = connect(&server);
    let all = client.list(&root);
    assert_eq!(all.len(), 42);
    assert_eq!(client.list_from(&root, 0, 256), all);
    for (index, name) in all.iter().enumerate() {
        assert!(name.cookie < 1 << 63);
        assert_eq!(client.list_from(&root, name.cookie, 512), all[index + 1..]);
    }
    let arguments = ReaddirPlusArguments {
        directory: handle(&root),
        cookie: 0,
        verifier: [0; 8],
        directory_count: 8192,
        count_max: 8192,
    };
    let answer = client.nfs(Procedure::ReaddirPlus, &arguments);
    let page = answer.decode::<ReaddirPlusReply<'_>>();
    let page = page.map_err(|failure| failure.status).unwrap();
    assert!(page.end);
    let shown: Vec<_> = page.entries.iter().collect();
    assert_eq!(shown.len(), all.len());
    for (entry, name) in shown.iter().zip(&all) {
        assert_eq!((entry.name, entry.cookie), (&name.name[..], name.cookie));
        assert!(entry.handle.is_none() && entry.attributes.is_none());
    }
}

/// Each procedure that changes something is refused, also where one of two directories is in an
/// export; those that look answer as for a directory (RFC 1813 sections 3.3.1 to 3.3.20).
#[test]
fn nothing_above_exports_can_be_changed() {
    let server = serve_names(&["/a", "/b/c"]);
    for user in [User::root(), User::System(1000, 1000, Vec::new())] {
        let mut client = Client::connect(server.address(), user);
        let root = client.mount(b"/").unwrap();
        let export = client.mount(b"/a").unwrap();
        for directory in [&root, &client.mount(b"/b").unwrap()] {
            let calls = changing(directory, directory).into_iter();
            for call in calls.chain(changing(directory, &export)) {
                let answer = client.nfs_raw(call.procedure, &call.arguments);
                let status = status_of(call.procedure, &answer);
                assert_eq!(status, Status::ReadOnly, "{:?}", call.procedure);
            }
            for call in looking(directory) {
                let expected = match call.procedure {
                    Procedure::Lookup => Status::NotFound,
                    Procedure::Readlink => Status::Invalid,
                    Procedure::Read => Status::IsDirectory,
                    _ => Status::Ok,
                };
                let answer = client.nfs_raw(call.procedure, &call.arguments);
                let status = status_of(call.procedure, &answer);
                assert_eq!(status, expected, "{:?}", call.procedure);
            }
            let granted = client.access(directory, 63).unwrap();
            assert_eq!(granted, access::READ | access::LOOKUP);
        }
        let moved = client.rename((&export, b"name"), (&root, b"name"));
        assert_eq!(moved.unwrap_err(), Status::ReadOnly);
        let sizes = client.fsstat(&root).unwrap();
        assert_eq!((sizes.bytes_total, sizes.files_free), (0, 0));
        let information = client.fsinfo(&root).unwrap();
        assert_eq!(information.properties, properties::HOMOGENEOUS);
        assert_eq!(client.pathconf(&root).unwrap().name_bytes_max, 255);
    }
}

/// Handles are of paths: good in another life of the server, whatever else it exports, as long as
/// an export is below.
#[test]
fn handles_of_the_pseudo_root_outlive_a_restart() {
    let server = serve_names(&["/a", "/b/c"]);
    let (mut client, root) = connect(&server);
    let above = client.mount(b"/b").unwrap();
    let number = client.getattr(&above).unwrap().file_id;

    let server = serve_names(&["/b/c/d", "/x"]);
    let mut client = Client::connect(server.address(), User::root());
    assert_eq!(names(&mut client, &root), [b"b", b"x"]);
    assert_eq!(names(&mut client, &above), [b"c"]);
    assert_eq!(client.getattr(&above).unwrap().file_id, number);

    let server = serve_names(&["/a"]);
    let mut client = Client::connect(server.address(), User::root());
    assert_eq!(names(&mut client, &root), [b"a"]);
    assert_eq!(client.getattr(&above).unwrap_err(), Status::Stale);

    let server = serve_names(&["/", "/a"]);
    let (mut client, other) = connect(&server);
    assert_ne!(other, root);
    assert!(names(&mut client, &other).is_empty());
    for call in every_call(&root) {
        let answer = client.nfs_raw(call.procedure, &call.arguments);
        let status = status_of(call.procedure, &answer);
        assert_eq!(status, Status::Stale, "{:?}", call.procedure);
    }
}

/// An address that an export does not allow finds neither its name nor the way to it, not with a
/// handle from elsewhere either, and sees no mounts there.
#[test]
fn what_an_address_may_not_use_is_not_there_for_it() {
    let mut shared = export_for("/shared", "127.0.0.1");
    shared.allow.push("127.79.0.2".parse().unwrap());
    let server = serve(vec![
        export_for("/hidden/export", "127.0.0.1"),
        shared,
        export_for("/shared/own", "127.79.0.2"),
        export_for("/own", "127.79.0.2"),
    ]);
    let (mut one, root) = connect(&server);
    let mut other = Client::connect_from([127, 79, 0, 2], server.address(), User::root());
    assert_eq!(names(&mut one, &root), [&b"hidden"[..], b"shared"]);
    assert_eq!(other.mount(b"/").unwrap(), root);
    assert_eq!(names(&mut other, &root), [&b"own"[..], b"shared"]);
    assert_eq!(other.getattr(&root).unwrap().link_count, 4);
    let above = one.mount(b"/hidden").unwrap();
    assert_eq!(
        other.mount(b"/hidden").unwrap_err(),
        mount3::Status::NotFound
    );
    let found = other.lookup(&root, b"hidden");
    assert_eq!(found.unwrap_err(), Status::NotFound);
    for call in looking(&above) {
        let answer = other.nfs_raw(call.procedure, &call.arguments);
        // The sizes are those of all that the caller sees.
        let expected = match call.procedure {
            Procedure::Fsstat => Status::Ok,
            _ => Status::Stale,
        };
        assert_eq!(status_of(call.procedure, &answer), expected);
    }
    let listed = |client: &mut Client| -> Vec<Vec<u8>> {
        let mounted = client.mounted().into_iter();
        mounted.map(|(_, path)| path).collect()
    };
    assert_eq!(listed(&mut one), [&b"/"[..], b"/", b"/hidden"]);
    assert_eq!(listed(&mut other), [&b"/"[..], b"/"]);
    let mut stranger = Client::connect_from([127, 79, 0, 3], server.address(), User::root());
    assert!(stranger.try_next_answer().is_none(), "a stranger is closed");
}

/// An export for reserved ports is listed, and not entered from another port.
#[test]
fn an_export_for_reserved_ports_is_not_entered_from_others() {
    let mut secure = export("/secure", ram());
    secure.secure = true;
    let server = serve(vec![secure, export("/open", ram())]);
    let (mut client, root) = connect(&server);
    assert_eq!(names(&mut client, &root), [&b"open"[..], b"secure"]);
    let refused = client.lookup(&root, b"secure");
    assert_eq!(refused.unwrap_err(), Status::AccessDenied);
    client.lookup(&root, b"open").unwrap();
    let mut secure = export("/secure", ram());
    secure.secure = true;
    let server = serve(vec![secure]);
    let mut client = Client::connect(server.address(), User::root());
    let refused = client.mount(b"/").unwrap_err();
    assert_eq!(refused, mount3::Status::AccessDenied);
}

/// A directory that is gone takes only its own name from the pseudo root.
#[test]
fn an_export_whose_directory_is_gone_is_not_found() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("served");
    std::fs::create_dir(&path).unwrap();
    let served = export("/a", Arc::new(directory(&path, Kind::Directory)));
    let server = serve(vec![served, export("/b", ram())]);
    let (mut client, root) = connect(&server);
    client.lookup(&root, b"a").unwrap();
    std::fs::remove_dir(&path).unwrap();
    let gone = client.lookup(&root, b"a");
    assert_eq!(gone.unwrap_err(), Status::NotFound);
    client.lookup(&root, b"b").unwrap();
    std::fs::create_dir(&path).unwrap();
    let anew = client.lookup(&root, b"a").unwrap().handle;
    client.make_file(&anew, b"file", b"");
}
