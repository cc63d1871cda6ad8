//! Exports that are replaced while clients use them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pagewell_fs::FileSystem;
use pagewell_nfsd::{Export, Server};
use pagewell_sunrpc::nfs3::{CreateHow, Procedure, ReadArguments, StableHow, Status};

use crate::client::{Client, User};
use crate::fixture::{export, ram, serve};
use crate::layer::{Layer, Stalls, make_file};
use crate::operations::{FileHandle, handle, mode};

/// A last resort: nothing here waits as long.
const PATIENCE: Duration = Duration::from_secs(120);

fn client_of(server: &Server) -> Client {
    Client::connect(server.address(), User::root())
}

/// A file in the export of this name, as a client finds it.
fn found(client: &mut Client, name: &[u8]) -> FileHandle {
    let root = client.mount(name).unwrap();
    client.lookup(&root, b"file").unwrap().handle
}

fn with_file() -> Arc<dyn FileSystem> {
    let filesystem = ram();
    make_file(&*filesystem, b"file", b"content");
    filesystem
}

/// Of two exports and their order nothing counts but what is said of each: one that stays keeps its
/// handles, one that is gone has stale ones, and one that is new can be mounted, all on the
/// connection of before.
#[test]
fn what_stays_keeps_its_handles() {
    let (first, second, third) = (with_file(), with_file(), with_file());
    let server = serve(vec![export("/a", first), export("/b", second.clone())]);
    let mut client = client_of(&server);
    let (in_first, in_second) = (found(&mut client, b"/a"), found(&mut client, b"/b"));
    let next = vec![export("/c", third), export("/b", second)];
    let retired = server.exports().replace(next).unwrap();
    let names: Vec<&str> = retired.iter().map(|retired| &*retired.name).collect();
    assert_eq!(names, ["/a"]);
    assert_eq!(client.getattr(&in_first), Err(Status::Stale));
    assert_eq!(client.read(&in_second, 0, 7).unwrap().bytes, b"content");
    let in_third = found(&mut client, b"/c");
    assert_eq!(client.read(&in_third, 0, 7).unwrap().bytes, b"content");
    assert!(client.mount(b"/a").is_err());
    let listed: Vec<Vec<u8>> = client.exports().into_iter().map(|(path, _)| path).collect();
    assert_eq!(listed, [b"/c".to_vec(), b"/b".to_vec()]);
    for retired in retired {
        assert_eq!(retired.finish(PATIENCE), None);
    }
}

/// Each setting counts from the next call on, for clients that are there, too.
#[test]
fn settings_change_for_those_that_are_connected() {
    let filesystem = with_file();
    let server = serve(vec![export("/", filesystem.clone())]);
    let mut client = client_of(&server);
    let file = found(&mut client, b"/");
    let change = |change: fn(&mut Export)| {
        let mut changed = export("/", filesystem.clone());
        change(&mut changed);
        let retired = server.exports().replace(vec![changed]).unwrap();
        assert!(retired.is_empty(), "its source is served as before");
    };
    let write = |client: &mut Client| client.write(&file, 0, b"C", StableHow::FileSync).err();
    assert_eq!(write(&mut client), None);
    change(|export| export.read_only = true);
    assert_eq!(write(&mut client), Some(Status::ReadOnly));
    change(|export| export.allow = vec!["10.0.0.0/8".parse().unwrap()]);
    assert_eq!(write(&mut client), Some(Status::AccessDenied));
    change(|export| export.secure = true);
    assert_eq!(write(&mut client), Some(Status::AccessDenied));
    change(|export| (export.squash, export.anonymous) = (pagewell_nfsd::Squash::All, (7, 8)));
    let root = client.mount(b"/").unwrap();
    let how = CreateHow::Guarded(mode(0o600));
    let made = client.create(&root, b"made", how).unwrap().attributes;
    assert_eq!((made.uid, made.gid), (7, 8));
    change(|_| {});
    assert_eq!(write(&mut client), None);
}

/// What makes no sense together changes nothing.
#[test]
fn what_cannot_be_served_changes_nothing() {
    let server = serve(vec![export("/a", with_file())]);
    let mut client = client_of(&server);
    let file = found(&mut client, b"/a");
    let twice = vec![export("/b", ram()), export("/b", ram())];
    let error = server.exports().replace(twice).err().unwrap().to_string();
    assert!(error.contains("'/b' is there twice"), "{error}");
    assert!(client.getattr(&file).is_ok());
    assert!(client.mount(b"/b").is_err());
}

/// A server may serve nothing for a while: what is above the exports is there, and empty.
#[test]
fn all_exports_may_come_and_go() {
    let server = serve(vec![]);
    let exports = server.exports();
    exports.replace(vec![export("/a", with_file())]).unwrap();
    let mut client = client_of(&server);
    let file = found(&mut client, b"/a");
    for retired in exports.replace(vec![]).unwrap() {
        assert_eq!(retired.finish(PATIENCE), None);
    }
    assert_eq!(client.getattr(&file), Err(Status::Stale));
    drop(server);
    let error = exports.replace(vec![]).err().unwrap().to_string();
    assert!(error.contains("stopping"), "{error}");
}

/// A source is closed when the last call that uses it has ended, and not before.
#[test]
fn a_source_is_closed_when_its_calls_have_ended() {
    let storage = ram();
    let id = make_file(&*storage, b"file", b"content");
    let (layer, stalls) = Layer::new(storage, Stalls::at(&["read"]));
    let source = Arc::downgrade(&layer);
    let server = serve(vec![export("/", layer)]);
    let mut client = client_of(&server);
    let file = found(&mut client, b"/");
    stalls.objects.lock().insert(id);
    let arguments = ReadArguments {
        file: handle(&file),
        offset: 0,
        count: 7,
    };
    let xid = client.start(Procedure::Read, &arguments);
    stalls.gate.wait_for(1);
    let mut retired = server.exports().replace(vec![]).unwrap();
    let retired = retired.pop().unwrap();
    let closing = std::thread::spawn(move || retired.finish(PATIENCE));
    assert!(source.upgrade().is_some(), "a call uses it");
    stalls.gate.open();
    let answer = client.finish(xid);
    assert_eq!(crate::operations::data(&answer).unwrap().bytes, b"content");
    assert_eq!(closing.join().unwrap(), None);
    assert!(source.upgrade().is_none(), "nothing uses it");
}

/// Clients of an export that does not change notice nothing of 200 changes around it.
#[test]
fn clients_notice_nothing_of_changes_around_them() {
    let (steady, other) = (with_file(), with_file());
    let server = serve(vec![export("/steady", steady.clone())]);
    let address: SocketAddr = server.address();
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let readers = [0, 1].map(|_| {
            let is_done = &is_done;
            scope.spawn(move || {
                let mut client = Client::connect(address, User::root());
                let file = found(&mut client, b"/steady");
                let mut calls = 0_u64;
                while !is_done.load(Ordering::Relaxed) || calls == 0 {
                    assert_eq!(client.read(&file, 0, 7).unwrap().bytes, b"content");
                    client.write(&file, 0, b"c", StableHow::Unstable).unwrap();
                    calls += 1;
                }
            })
        });
        for round in 0..200 {
            let mut next = vec![export("/steady", steady.clone())];
            if round % 2 == 0 {
                let place = round / 2 % 2;
                next.insert(place, export("/other", other.clone()));
            }
            let retired = server.exports().replace(next).unwrap();
            assert_eq!(retired.len(), usize::from(round % 2 == 1));
            for retired in retired {
                assert_eq!(retired.finish(PATIENCE), None);
            }
        }
        is_done.store(true, Ordering::Relaxed);
        for reader in readers {
            reader.join().unwrap();
        }
    });
}
