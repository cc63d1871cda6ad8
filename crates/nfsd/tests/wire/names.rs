//! Names, links that must not be followed, what may replace what.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use pagewell_sunrpc::nfs3::{
    CreateHow, FileType, NodeData, Procedure, SetAttributes, StableHow, Status,
};
use pagewell_sunrpc::rpc::Refusal;

use crate::client::{Client, encoded};
use crate::fixture::{Fixture, Kind, on_each_kind};
use crate::operations::{handle, mode};
use crate::pages::sorted;

/// Names that are none are refused by every procedure that takes a name.
#[test]
fn names_that_are_none_are_refused() {
    let refusals = [
        (vec![], Status::Invalid),
        (b"a/b".to_vec(), Status::Invalid),
        (b"/".to_vec(), Status::Invalid),
        (b"/etc/passwd".to_vec(), Status::Invalid),
        (b"../x".to_vec(), Status::Invalid),
        (b"nul\0".to_vec(), Status::Invalid),
        (b"\0".to_vec(), Status::Invalid),
        (vec![b'n'; 256], Status::NameTooLong),
        (vec![b'n'; 4096], Status::NameTooLong),
        ("ä".repeat(128).into_bytes(), Status::NameTooLong),
    ];
    on_each_kind(|fixture| {
        let (mut client, root) = fixture.client();
        let file = client.make_file(&root, b"file", b"");
        for (name, expected) in &refusals {
            let results = every_name_call(&mut client, &root, &file, name);
            for (what, status) in results {
                let fine = status == *expected
                    || (name.is_empty()
                        && matches!(status, Status::NotFound | Status::AccessDenied))
                    || (name.contains(&b'/') && status == Status::AccessDenied);
                assert!(fine, "{what} {name:?}: {status:?}");
            }
        }
        let mut arguments = encoded(&handle(&root));
        arguments.extend(encoded(&&vec![b'n'; 4097][..]));
        let answer = client.nfs_raw(Procedure::Lookup, &arguments);
        assert_eq!(answer.refusal(), Some(Refusal::GarbageArguments));
        assert_eq!(sorted(&client.list(&root)), [b"file"]);
    });
}

fn every_name_call(
    client: &mut Client,
    root: &[u8],
    file: &[u8],
    name: &[u8],
) -> Vec<(&'static str, Status)> {
    let mut results = every_change_by_name(client, root, file, name);
    results.push(("lookup", client.lookup(root, name).unwrap_err()));
    let node = NodeData::Fifo(mode(0o600));
    results.push(("mknod", client.mknod(root, name, node).unwrap_err()));
    results
}

/// `.` and `..` are found, `..` of the root is the root, and neither can be made,
/// moved or removed.
#[test]
fn dot_and_dot_dot_are_found_and_never_changed() {
    on_each_kind(|fixture| {
        let (mut client, root) = fixture.client();
        let directory = client.make_directory(&root, b"directory");
        let file = client.make_file(&directory, b"file", b"");
        assert_eq!(client.lookup(&root, b"..").unwrap().handle, root);
        assert_eq!(client.lookup(&root, b".").unwrap().handle, root);
        assert_eq!(client.lookup(&directory, b"..").unwrap().handle, root);
        assert_eq!(client.lookup(&directory, b".").unwrap().handle, directory);
        let found = client.lookup(&directory, b"..").unwrap();
        assert_eq!(found.attributes.file_type, FileType::Directory);
        assert_eq!(
            found.directory.file_id,
            client.getattr(&directory).unwrap().file_id
        );
        let root_id = client.getattr(&root).unwrap().file_id;
        for name in client.list(&root) {
            if name.name == b".." || name.name == b"." {
                assert_eq!(name.file_id, root_id, "nothing of what is above is told");
            }
        }
        for dots in [&b"."[..], b".."] {
            for (what, status) in every_change_by_name(&mut client, &directory, &file, dots) {
                let known = matches!(
                    status,
                    Status::Exists | Status::Invalid | Status::NotEmpty | Status::IsDirectory
                );
                assert!(known, "{what} {dots:?}: {status:?}");
            }
        }
        assert_eq!(sorted(&client.list(&directory)), [b"file"]);
    });
}

fn every_change_by_name(
    client: &mut Client,
    root: &[u8],
    file: &[u8],
    name: &[u8],
) -> Vec<(&'static str, Status)> {
    let set = mode(0o600);
    let how = CreateHow::Guarded(set);
    vec![
        ("create", client.create(root, name, how).unwrap_err()),
        ("mkdir", client.mkdir(root, name, set).unwrap_err()),
        (
            "symlink",
            client.symlink(root, name, b"to", set).unwrap_err(),
        ),
        ("remove", client.remove(root, name).unwrap_err()),
        ("rmdir", client.rmdir(root, name).unwrap_err()),
        ("link", client.link(file, root, name).unwrap_err()),
        (
            "rename from",
            client.rename((root, name), (root, b"new")).unwrap_err(),
        ),
        (
            "rename to",
            client.rename((root, b"file"), (root, name)).unwrap_err(),
        ),
    ]
}

/// A name is bytes: of any encoding or none, up to 255.
#[test]
fn any_bytes_are_a_name_up_to_255() {
    let names = [
        vec![b'n'; 255],
        "ä".repeat(127).into_bytes(),
        vec![0xff, 0xfe, 0x80],
        b" ".to_vec(),
        b"...".to_vec(),
        b"\n\t\x7f".to_vec(),
        b"back\\slash".to_vec(),
        b"._apple".to_vec(),
    ];
    on_each_kind(|fixture| {
        let (mut client, root) = fixture.client();
        for name in &names {
            let file = client.make_file(&root, name, name);
            assert_eq!(client.lookup(&root, name).unwrap().handle, file);
            assert_eq!(client.read(&file, 0, 300).unwrap().bytes, *name);
        }
        let mut expected = names.to_vec();
        expected.sort();
        assert_eq!(sorted(&client.list(&root)), expected);
        let lower = client.lookup(&root, &[b'N'; 255]);
        assert_eq!(lower.unwrap_err(), Status::NotFound, "case matters");
    });
}

/// The server follows no symbolic link: not in LOOKUP, not in CREATE, not as a
/// directory of anything.
#[test]
fn symbolic_links_are_not_followed() {
    on_each_kind(|fixture| {
        let (mut client, root) = fixture.client();
        let directory = client.make_directory(&root, b"directory");
        client.make_file(&directory, b"file", b"content");
        let set = SetAttributes::default();
        for (name, target) in [
            (&b"up"[..], &b"../outside"[..]),
            (b"inside", b"directory"),
            (b"absolute", b"/etc"),
            (b"dangling", b"nowhere"),
            (b"to file", b"directory/file"),
        ] {
            let link = client.symlink(&root, name, target, set).unwrap().handle;
            let found = client.lookup(&root, name).unwrap();
            assert_eq!(found.handle, link);
            assert_eq!(found.attributes.file_type, FileType::Symlink);
            assert_eq!(found.attributes.size, target.len() as u64);
            assert_eq!(client.readlink(&link).unwrap(), target);
            let through = client.lookup(&link, b"file");
            assert_eq!(through.unwrap_err(), Status::NotDirectory);
            let how = CreateHow::Unchecked(mode(0o600));
            let through = client.create(&link, b"new", how);
            assert_eq!(through.unwrap_err(), Status::NotDirectory);
            let over = client.create(&root, name, how);
            assert_eq!(over.unwrap_err(), Status::Exists);
            assert!(client.read(&link, 0, 10).is_err());
            let page = client.readdir(&link, 0, [0; 8], 4096);
            assert_eq!(page.unwrap_err(), Status::NotDirectory);
        }
        assert_eq!(
            client.lookup(&root, b"nowhere").unwrap_err(),
            Status::NotFound
        );
        let up = client.lookup(&root, b"up").unwrap().handle;
        client.setattr(&up, mode(0o777), None).ok();
        client.rename((&root, b"up"), (&root, b"renamed")).unwrap();
        client.link(&up, &root, b"again").unwrap();
        client.remove(&root, b"renamed").unwrap();
        assert_eq!(client.readlink(&up).unwrap(), b"../outside");
        for bad in [&b""[..], b"a\0b"] {
            let made = client.symlink(&root, b"bad", bad, set);
            assert_eq!(made.unwrap_err(), Status::Invalid);
        }
    });
}

/// Swaps a directory and a link to the outside until it is stopped.
fn swap_until(exported: &Path, stop: &AtomicBool, swaps: &AtomicUsize) {
    let (name, other) = (exported.join("swapped"), exported.join("other"));
    while !stop.load(Ordering::SeqCst) {
        let exchange = rustix::fs::RenameFlags::EXCHANGE;
        let here = rustix::fs::CWD;
        rustix::fs::renameat_with(here, &name, here, &other, exchange).unwrap();
        swaps.fetch_add(1, Ordering::SeqCst);
    }
}

/// No escape by a rename race: while a program on the host swaps a directory for a link
/// to the outside, nothing outside of the export is seen or touched.
#[test]
fn swapping_a_directory_for_a_link_leads_nowhere() {
    for kind in [Kind::Directory, Kind::PathHints] {
        let fixture = Fixture::new(kind);
        let outside = fixture.folder().join("outside");
        fs::write(outside.join("secret"), "secret").unwrap();
        let untouched = fs::metadata(&outside).unwrap().modified().unwrap();
        let exported = fixture.folder().join("exported");
        fs::create_dir(exported.join("swapped")).unwrap();
        fs::write(exported.join("swapped/inner"), "inner").unwrap();
        symlink(&outside, exported.join("other")).unwrap();
        let (stop, swaps) = (AtomicBool::new(false), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            scope.spawn(|| swap_until(&exported, &stop, &swaps));
            let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                attack(&fixture);
            }));
            stop.store(true, Ordering::SeqCst);
            result.unwrap();
        });
        assert!(swaps.load(Ordering::SeqCst) > 10);
        let left: Vec<_> = fs::read_dir(&outside).unwrap().collect();
        assert_eq!(left.len(), 1, "{left:?}");
        assert_eq!(
            fs::read_to_string(outside.join("secret")).unwrap(),
            "secret"
        );
        assert_eq!(
            fs::metadata(&outside).unwrap().modified().unwrap(),
            untouched
        );
    }
}

fn attack(fixture: &Fixture) {
    let (mut client, root) = fixture.client();
    let mut directory = None;
    for turn in 0..400 {
        let names: [&[u8]; 2] = [b"swapped", b"other"];
        let found = client.lookup(&root, names[turn % 2]);
        if let Ok(found) = &found
            && found.attributes.file_type == FileType::Directory
        {
            directory = Some(found.handle.clone());
        }
        let target = match (&found, &directory) {
            (Ok(found), _) => found.handle.clone(),
            (Err(_), Some(directory)) => directory.clone(),
            _ => continue,
        };
        assert!(client.lookup(&target, b"secret").is_err());
        let name = format!("made-{turn}");
        let how = CreateHow::Unchecked(mode(0o600));
        if let Ok(made) = client.create(&target, name.as_bytes(), how) {
            // The file may be on its way elsewhere; what counts is where bytes go.
            let _ = client.write(&made.handle, 0, b"data", StableHow::Unstable);
        }
        let _ = client.remove(&target, b"secret");
        let _ = client.rename((&target, b"secret"), (&root, b"stolen"));
        let up = client.lookup(&target, b"..");
        assert!(up.is_err() || up.unwrap().handle == root);
    }
    assert!(directory.is_some(), "the directory was never met");
}

/// What may replace and remove what, as on a local file system.
#[test]
fn files_and_directories_replace_only_their_like() {
    on_each_kind(|fixture| {
        let (mut client, root) = fixture.client();
        let full = client.make_directory(&root, b"full");
        client.make_file(&full, b"inner", b"");
        client.make_directory(&root, b"empty");
        client.make_file(&root, b"file", b"");
        let removed = client.remove(&root, b"empty").unwrap_err();
        assert!(matches!(
            removed,
            Status::IsDirectory | Status::NotPermitted
        ));
        assert_eq!(
            client.rmdir(&root, b"file").unwrap_err(),
            Status::NotDirectory
        );
        let full_errors = [Status::NotEmpty, Status::Exists];
        assert!(full_errors.contains(&client.rmdir(&root, b"full").unwrap_err()));
        assert_eq!(client.rmdir(&root, b"none").unwrap_err(), Status::NotFound);
        assert_eq!(client.remove(&root, b"none").unwrap_err(), Status::NotFound);
        let mut rename = |from: &[u8], to_directory: &[u8], to: &[u8]| {
            client.rename((&root, from), (to_directory, to)).map(|_| ())
        };
        assert_eq!(
            rename(b"none", &root, b"new").unwrap_err(),
            Status::NotFound
        );
        assert_eq!(
            rename(b"full", &full, b"self").unwrap_err(),
            Status::Invalid
        );
        assert!(full_errors.contains(&rename(b"empty", &root, b"full").unwrap_err()));
        let over = rename(b"file", &root, b"empty").unwrap_err();
        assert!(matches!(over, Status::IsDirectory | Status::Exists));
        let over = rename(b"empty", &root, b"file").unwrap_err();
        assert!(matches!(over, Status::NotDirectory | Status::Exists));
        rename(b"file", &root, b"file").unwrap();
        rename(b"full", &root, b"empty").unwrap();
        assert_eq!(sorted(&client.list(&root)), [&b"empty"[..], b"file"]);
        assert_eq!(client.lookup(&root, b"empty").unwrap().handle, full);
        assert_eq!(client.lookup(&full, b"..").unwrap().handle, root);
    });
}

/// A directory cannot go below itself, however deep; two names of one file renamed
/// onto each other both stay.
#[test]
fn rename_makes_no_loop_and_loses_no_link() {
    on_each_kind(|fixture| {
        let (mut client, root) = fixture.client();
        let top = client.make_directory(&root, b"top");
        let middle = client.make_directory(&top, b"middle");
        let bottom = client.make_directory(&middle, b"bottom");
        for below in [&top, &middle, &bottom] {
            let looped = client.rename((&root, b"top"), (below, b"loop"));
            assert_eq!(looped.unwrap_err(), Status::Invalid);
        }
        let file = client.make_file(&root, b"one", b"content");
        client.link(&file, &bottom, b"two").unwrap();
        client.rename((&root, b"one"), (&bottom, b"two")).unwrap();
        assert_eq!(client.getattr(&file).unwrap().link_count, 2);
        assert_eq!(client.lookup(&root, b"one").unwrap().handle, file);
        assert_eq!(client.lookup(&bottom, b"two").unwrap().handle, file);
        let linked = client.link(&top, &root, b"hard").unwrap_err();
        let refused = [Status::IsDirectory, Status::NotPermitted, Status::Invalid];
        assert!(refused.contains(&linked), "{linked:?}");
        assert_eq!(client.getattr(&top).unwrap().link_count, 3);
    });
}
