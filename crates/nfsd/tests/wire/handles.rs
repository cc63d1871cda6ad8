//! Handles (RFC 1813, section 2.3.2) that are wrong, that are dead, that live on.

use std::collections::HashMap;
use std::sync::Arc;

use pagewell_nfsd::{Config, Server};
use pagewell_sunrpc::nfs3::{
    GetattrReply, LinkArguments, Procedure, RenameArguments, StableHow, Status,
};
use pagewell_sunrpc::rpc::Refusal;

use crate::client::{Client, User, encoded};
use crate::every_call::{changing, every_call, status_of};
use crate::fixture::{
    Fixture, Kind, connect, directory, export, on_each_kind, ram, serve, serve_with,
};
use crate::operations::{FileHandle, entry, handle};
use crate::process::Process;

/// Makes every call on `object` and expects the same status of all of them.
fn expect_of_every_call(client: &mut Client, object: &[u8], expected: Status) {
    for call in every_call(object) {
        let answer = client.nfs_raw(call.procedure, &call.arguments);
        let status = status_of(call.procedure, &answer);
        assert_eq!(status, expected, "{}", call.procedure.name());
    }
}

/// Handles that differ from a real one in one bit, or in length.
fn forged(object: &[u8]) -> Vec<FileHandle> {
    let mut forged: Vec<FileHandle> = (0..object.len())
        .map(|cut| object[..cut].to_vec())
        .collect();
    for bit in 0..object.len() * 8 {
        let mut flipped = object.to_vec();
        flipped[bit / 8] ^= 1 << (bit % 8);
        forged.push(flipped);
    }
    for more in 1..=64 - object.len() {
        let mut longer = object.to_vec();
        longer.resize(object.len() + more, 0);
        forged.push(longer);
    }
    forged
}

/// A handle that the server never made is BADHANDLE in every procedure.
#[test]
fn a_malformed_handle_is_badhandle_in_every_procedure() {
    on_each_kind(|fixture| {
        let (mut client, root) = fixture.client();
        let file = client.make_file(&root, b"file", b"content");
        let mut flipped = file.clone();
        *flipped.last_mut().unwrap() ^= 1;
        for wrong in [
            &[][..],
            &file[..1],
            &file[..13],
            &file[..14],
            &[0xff; 64],
            &flipped,
        ] {
            expect_of_every_call(&mut client, wrong, Status::BadHandle);
        }
        assert_eq!(client.read(&file, 0, 10).unwrap().bytes, b"content");
    });
}

/// The handle of an object that is gone is STALE in every procedure, never NOENT.
#[test]
fn the_handle_of_a_removed_object_is_stale_in_every_procedure() {
    on_each_kind(|fixture| {
        let (mut client, root) = fixture.client();
        let file = client.make_file(&root, b"file", b"content");
        let directory = client.make_directory(&root, b"directory");
        client.remove(&root, b"file").unwrap();
        client.rmdir(&root, b"directory").unwrap();
        for gone in [file, directory] {
            for call in every_call(&gone) {
                let answer = client.nfs_raw(call.procedure, &call.arguments);
                let status = status_of(call.procedure, &answer);
                // FSSTAT and FSINFO tell of the file system; the RFC lets them answer.
                let volume = matches!(call.procedure, Procedure::Fsstat | Procedure::Fsinfo);
                let fine = status == Status::Stale || (volume && status == Status::Ok);
                assert!(fine, "{} {status:?}", call.procedure.name());
            }
        }
    });
}

/// The second handle of RENAME and LINK is looked at as the first.
#[test]
fn the_second_handle_is_checked_too() {
    on_each_kind(|fixture| {
        let (mut client, root) = fixture.client();
        let file = client.make_file(&root, b"file", b"content");
        let gone = client.make_directory(&root, b"gone");
        client.rmdir(&root, b"gone").unwrap();
        for (second, expected) in [(&root[..5], Status::BadHandle), (&gone, Status::Stale)] {
            let from = entry(&root, b"file");
            let to = entry(second, b"new");
            let rename = RenameArguments { from, to };
            let answer = client.nfs(Procedure::Rename, &rename);
            assert_eq!(status_of(Procedure::Rename, &answer), expected);
            let link = LinkArguments {
                file: handle(&file),
                link: to,
            };
            let answer = client.nfs(Procedure::Link, &link);
            assert_eq!(status_of(Procedure::Link, &answer), expected);
        }
        assert_eq!(client.lookup(&root, b"file").unwrap().handle, file);
    });
}

/// An object of the wrong type gets the right error.
#[test]
fn objects_of_the_wrong_type_have_their_errors() {
    on_each_kind(|fixture| {
        let (mut client, root) = fixture.client();
        let file = client.make_file(&root, b"file", b"content");
        for call in changing(&file, &file) {
            let expected = match call.procedure {
                Procedure::Create | Procedure::Mkdir | Procedure::Symlink => Status::NotDirectory,
                Procedure::Mknod | Procedure::Remove | Procedure::Rmdir => Status::NotDirectory,
                Procedure::Rename | Procedure::Link => Status::NotDirectory,
                _ => continue,
            };
            let answer = client.nfs_raw(call.procedure, &call.arguments);
            let status = status_of(call.procedure, &answer);
            assert_eq!(status, expected, "{}", call.procedure.name());
        }
        assert_eq!(
            client.lookup(&file, b"x").unwrap_err(),
            Status::NotDirectory
        );
        let page = client.readdir(&file, 0, [0; 8], 4096);
        assert_eq!(page.unwrap_err(), Status::NotDirectory);
        let read = client.read(&root, 0, 10).unwrap_err();
        assert!(matches!(read, Status::IsDirectory | Status::Invalid));
        let write = client
            .write(&root, 0, b"x", StableHow::Unstable)
            .unwrap_err();
        assert!(matches!(write, Status::IsDirectory | Status::Invalid));
        for object in [&root, &file] {
            assert_eq!(client.readlink(object).unwrap_err(), Status::Invalid);
        }
    });
}

/// Nobody can make a handle: every bit and the length are authenticated; one longer
/// than the protocol allows is garbage.
#[test]
fn forged_handles_are_refused_whatever_bit_is_changed() {
    on_each_kind(|fixture| {
        let (mut client, root) = fixture.client();
        let file = client.make_file(&root, b"file", b"content");
        for object in [&root, &file] {
            let xids: Vec<u32> = forged(object)
                .iter()
                .map(|forged| client.start_raw(Procedure::Getattr, &encoded(&handle(forged))))
                .collect();
            for xid in xids {
                let answer = client.finish(xid);
                let failure = answer.decode::<GetattrReply>().unwrap_err();
                assert_eq!(failure.status, Status::BadHandle);
            }
        }
        let too_long = client.nfs_raw(Procedure::Getattr, &encoded(&&[1u8; 65][..]));
        assert_eq!(too_long.refusal(), Some(Refusal::GarbageArguments));
    });
}

fn serve_with_key(key: [u8; 16], names: &[&str]) -> Server {
    let exports = names.iter().map(|name| export(name, ram())).collect();
    serve_with(exports, |config: &mut Config| config.handle_key = key)
}

/// Handles of a server with another key, and of an export that is no longer served,
/// open nothing; a handle leads to its own export only.
#[test]
fn handles_belong_to_their_key_and_their_export() {
    let server = serve_with_key([1; 16], &["/a", "/b"]);
    let mut client = Client::connect(server.address(), User::root());
    let roots = [client.mount(b"/a").unwrap(), client.mount(b"/b").unwrap()];
    assert_ne!(roots[0], roots[1]);
    client.make_file(&roots[0], b"in a", b"");
    assert_eq!(
        client.lookup(&roots[1], b"in a").unwrap_err(),
        Status::NotFound
    );
    let crossing = client.rename((&roots[0], b"in a"), (&roots[1], b"in b"));
    assert_eq!(crossing.unwrap_err(), Status::CrossDevice);
    let file = client.lookup(&roots[0], b"in a").unwrap().handle;
    let crossing = client.link(&file, &roots[1], b"in b");
    assert_eq!(crossing.unwrap_err(), Status::CrossDevice);

    let other_key = serve_with_key([2; 16], &["/a", "/b"]);
    let mut client = Client::connect(other_key.address(), User::root());
    expect_of_every_call(&mut client, &roots[0], Status::BadHandle);

    let without_b = serve_with_key([1; 16], &["/a"]);
    let mut client = Client::connect(without_b.address(), User::root());
    expect_of_every_call(&mut client, &roots[1], Status::Stale);
    let restarted = client.getattr(&roots[0]);
    assert_eq!(restarted.unwrap_err(), Status::Stale, "memory is gone");
}

/// Another directory that is served by the same name, with the same key: handles of the
/// first open nothing, also of a file that has names in both.
#[test]
fn handles_belong_to_the_directory_that_was_served() {
    for kind in [Kind::Directory, Kind::PathHints] {
        let folder = tempfile::tempdir().unwrap();
        let [first, second] = ["first", "second"].map(|name| folder.path().join(name));
        std::fs::create_dir(&first).unwrap();
        std::fs::create_dir(&second).unwrap();
        std::fs::write(first.join("file"), b"secret").unwrap();
        std::fs::hard_link(first.join("file"), second.join("file")).unwrap();
        let serve_it = |path| serve(vec![export("/", Arc::new(directory(path, kind)))]);
        let server = serve_it(&first);
        let (mut client, root) = connect(&server);
        let file = client.lookup(&root, b"file").unwrap().handle;
        server.stop().unwrap();

        let server = serve_it(&second);
        let (mut client, other_root) = connect(&server);
        assert_eq!(client.read(&file, 0, 10).unwrap_err(), Status::Stale);
        expect_of_every_call(&mut client, &root, Status::Stale);
        let other_file = client.lookup(&other_root, b"file").unwrap().handle;
        assert_ne!(other_file, file);
        server.stop().unwrap();

        let server = serve_it(&first);
        let (mut client, _) = connect(&server);
        assert_eq!(client.read(&file, 0, 10).unwrap().bytes, b"secret");
    }
}

/// A directory that is removed and made again is found at the next mount; handles of the old one,
/// also of what was moved to the new one, stay stale.
#[test]
fn a_directory_that_was_made_again_is_found_by_the_next_mount() {
    for kind in [Kind::Directory, Kind::PathHints] {
        let folder = tempfile::tempdir().unwrap();
        let (path, aside) = (folder.path().join("served"), folder.path().join("aside"));
        std::fs::create_dir(&path).unwrap();
        let serve_it = || serve(vec![export("/", Arc::new(directory(&path, kind)))]);
        let server = serve_it();
        let (mut client, root) = connect(&server);
        let file = client.make_file(&root, b"file", b"content");
        std::fs::rename(path.join("file"), &aside).unwrap();
        std::fs::remove_dir(&path).unwrap();
        assert_eq!(client.getattr(&root).unwrap_err(), Status::Stale);
        client.mount(b"/").unwrap(); // nothing is there yet
        std::fs::create_dir(&path).unwrap();
        std::fs::rename(&aside, path.join("file")).unwrap();
        let new_root = client.mount(b"/").unwrap();
        let new_file = client.lookup(&new_root, b"file").unwrap().handle;
        assert_eq!(client.read(&new_file, 0, 10).unwrap().bytes, b"content");
        for old in [&root, &file] {
            assert_eq!(client.getattr(old).unwrap_err(), Status::Stale);
        }
        server.stop().unwrap();
        let server = serve_it();
        let (mut client, _) = connect(&server);
        assert_eq!(client.read(&new_file, 0, 10).unwrap().bytes, b"content");
    }
}

/// A handle outlives the rename of its object and of the object's parents.
#[test]
fn handles_outlive_renames_of_the_object_and_its_parents() {
    on_each_kind(|fixture| {
        let (mut client, root) = fixture.client();
        let top = client.make_directory(&root, b"top");
        let deep = client.make_directory(&top, b"deep");
        let file = client.make_file(&deep, b"file", b"content");
        let elsewhere = client.make_directory(&root, b"elsewhere");
        client
            .rename((&deep, b"file"), (&deep, b"renamed"))
            .unwrap();
        assert_eq!(client.read(&file, 0, 10).unwrap().bytes, b"content");
        client
            .rename((&root, b"top"), (&elsewhere, b"moved"))
            .unwrap();
        client.rename((&deep, b"renamed"), (&root, b"out")).unwrap();
        assert_eq!(client.read(&file, 0, 10).unwrap().bytes, b"content");
        assert_eq!(client.lookup(&root, b"out").unwrap().handle, file);
        client.make_file(&deep, b"in the moved directory", b"");
        let up = client.lookup(&deep, b"..").unwrap();
        assert_eq!(up.handle, top);
        assert_eq!(client.lookup(&top, b"..").unwrap().handle, elsewhere);
    });
}

/// A handle is never valid for another object, also when its number is used again.
#[test]
fn a_new_object_never_has_the_handle_of_an_old_one() {
    on_each_kind(|fixture| {
        let (mut client, root) = fixture.client();
        let mut dead: Vec<FileHandle> = Vec::new();
        for turn in 0..100 {
            let file = client.make_file(&root, b"file", b"x");
            assert!(!dead.contains(&file), "in turn {turn}");
            client.remove(&root, b"file").unwrap();
            dead.push(file);
        }
        client.make_file(&root, b"file", b"new");
        for gone in dead {
            assert_eq!(client.getattr(&gone).unwrap_err(), Status::Stale);
        }
    });
}

/// What the random test below knows of the served tree.
#[derive(Default)]
struct Model {
    /// Names in the two directories, and the number of the file.
    names: HashMap<(usize, Vec<u8>), usize>,
    handles: Vec<FileHandle>,
}

impl Model {
    fn check(&self, client: &mut Client) {
        for (number, file) in self.handles.iter().enumerate() {
            let lives = self.names.values().any(|other| *other == number);
            match client.read(file, 0, 100) {
                Ok(read) => {
                    assert!(lives, "file {number} is gone");
                    assert_eq!(read.bytes, number.to_string().into_bytes());
                }
                Err(status) => assert_eq!((status, lives), (Status::Stale, false), "{number}"),
            }
        }
    }

    /// One change; `random` chooses it.
    fn change(&mut self, client: &mut Client, directories: &[FileHandle; 2], random: u64) {
        let place = (random as usize & 1, vec![b'a' + (random >> 8) as u8 % 8]);
        let to = (
            (random >> 1) as usize & 1,
            vec![b'a' + (random >> 16) as u8 % 8],
        );
        let directory = &directories[place.0];
        let old = self.names.get(&place).copied();
        match (random >> 24) % 4 {
            0 if old.is_none() => {
                let number = self.handles.len();
                let content = number.to_string();
                let file = client.make_file(directory, &place.1, content.as_bytes());
                self.handles.push(file);
                self.names.insert(place, number);
            }
            1 => {
                let result = client.remove(directory, &place.1);
                assert_eq!(result.is_ok(), self.names.remove(&place).is_some());
            }
            2 => {
                let target = &directories[to.0];
                let result = client.rename((directory, &place.1), (target, &to.1));
                assert_eq!(result.is_ok(), old.is_some());
                let same = self.names.get(&to) == old.as_ref();
                if let (Some(number), false) = (old, same) {
                    self.names.remove(&place);
                    self.names.insert(to, number);
                }
            }
            _ => {
                let Some(number) = old else { return };
                let target = &directories[to.0];
                let result = client.link(&self.handles[number], target, &to.1);
                assert_eq!(result.is_ok(), !self.names.contains_key(&to));
                self.names.entry(to).or_insert(number);
            }
        }
    }
}

/// Whatever was created, linked, renamed and removed, and however often the server was
/// killed: each handle reads its own file, or is stale when the file has no name.
#[test]
fn handles_name_their_files_through_random_changes_and_restarts() {
    for kind in [Kind::Directory, Kind::PathHints] {
        let folder = tempfile::tempdir().unwrap();
        let mut server = Process::of_directory(folder.path(), kind);
        let (mut client, root) = server.client();
        let directories = [
            client.make_directory(&root, b"first"),
            client.make_directory(&root, b"second"),
        ];
        let mut model = Model::default();
        let mut random = 0x2545_f491_4f6c_dd1d_u64;
        for turn in 1..=240 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            model.change(&mut client, &directories, random);
            if turn % 60 == 0 {
                model.check(&mut client);
                server.kill();
                server = Process::of_directory(folder.path(), kind);
                client = server.client().0;
                model.check(&mut client);
            }
        }
        assert!(model.handles.len() > 20);
    }
}

/// Hiding a removed file that is open is the client's job; the server keeps a handle
/// until the last name goes, and not longer.
#[test]
fn a_file_can_be_read_until_its_last_name_is_removed() {
    on_each_kind(|fixture| {
        let (mut client, root) = fixture.client();
        let file = client.make_file(&root, b"one", b"content");
        let linked = client.link(&file, &root, b"two").unwrap();
        assert_eq!(linked.link_count, 2);
        assert_eq!(client.lookup(&root, b"two").unwrap().handle, file);
        client.remove(&root, b"one").unwrap();
        assert_eq!(client.getattr(&file).unwrap().link_count, 1);
        assert_eq!(client.read(&file, 0, 10).unwrap().bytes, b"content");
        client
            .write(&file, 0, b"CONTENT", StableHow::Unstable)
            .unwrap();
        client.remove(&root, b"two").unwrap();
        assert_eq!(client.read(&file, 0, 10).unwrap_err(), Status::Stale);
    });
}

/// RENAME over a file replaces it: the replaced one lives as long as it has names.
#[test]
fn rename_over_a_file_replaces_it() {
    on_each_kind(|fixture| {
        let (mut client, root) = fixture.client();
        let old = client.make_file(&root, b"name", b"old");
        client.link(&old, &root, b"kept").unwrap();
        let new = client.make_file(&root, b"new", b"new");
        client.rename((&root, b"new"), (&root, b"name")).unwrap();
        assert_eq!(client.lookup(&root, b"name").unwrap().handle, new);
        assert_eq!(client.read(&old, 0, 10).unwrap().bytes, b"old");
        client.rename((&root, b"name"), (&root, b"kept")).unwrap();
        assert_eq!(client.getattr(&old).unwrap_err(), Status::Stale);
        assert_eq!(client.read(&new, 0, 10).unwrap().bytes, b"new");
        client.make_file(&root, b".nfs0001", b"");
        client
            .rename((&root, b"kept"), (&root, b".nfs0001"))
            .unwrap();
        assert_eq!(client.read(&new, 0, 10).unwrap().bytes, b"new");
        client.remove(&root, b".nfs0001").unwrap();
        assert_eq!(client.read(&new, 0, 10).unwrap_err(), Status::Stale);
    });
}

/// Nothing but the handle names the export: exports of one server differ in the
/// file system number in their attributes.
#[test]
fn exports_have_file_system_numbers_of_their_own() {
    let server = serve(vec![export("/a", ram()), export("/b", ram())]);
    let mut client = Client::connect(server.address(), User::root());
    let mut numbers = Vec::new();
    for path in [&b"/a"[..], b"/b"] {
        let root = client.mount(path).unwrap();
        let file = client.make_file(&root, b"file", b"");
        let number = client.getattr(&root).unwrap().filesystem_id;
        assert_eq!(client.getattr(&file).unwrap().filesystem_id, number);
        numbers.push(number);
    }
    assert_ne!(numbers[0], numbers[1]);
    let single = Fixture::new(Kind::Ram);
    let (mut client, root) = single.client();
    assert_ne!(client.getattr(&root).unwrap().filesystem_id, 0);
}
