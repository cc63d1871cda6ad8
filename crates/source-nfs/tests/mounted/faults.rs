//! Servers that refuse, stall, lie and go away.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pagewell_fs::{Credentials, Error, FileId, FileSystem, Finish, ReadReply, Result};
use pagewell_nfsd::Server;
use pagewell_sunrpc::nfs3::{Procedure, Status};

use super::without_attributes::{STATUS_AT, Silencer};
use super::{Mount, pattern, root_call, server};
use crate::fixture::{export, ram, serve, serve_with};
use crate::layer::{Event, Hook, Layer, make_file};

/// Refuses calls with an error: always, or so many times.
#[derive(Default)]
struct Refuses {
    is_on: AtomicBool,
    writes_of: Mutex<HashSet<FileId>>,
    /// Attributes of these are told to be gone.
    is_stale: AtomicBool,
    not_ready: AtomicUsize,
    refused: AtomicUsize,
}

impl Hook for Refuses {
    fn before(&self, event: &Event<'_>) -> Result<()> {
        let is_data = matches!(event.operation, "read" | "write" | "commit" | "lookup");
        if is_data && self.not_ready.load(Ordering::Acquire) > 0 {
            self.not_ready.fetch_sub(1, Ordering::AcqRel);
            self.refused.fetch_add(1, Ordering::AcqRel);
            return Err(Error::TryLater);
        }
        let is_one = || self.writes_of.lock().unwrap().contains(&event.id);
        let is_asked = event.operation == "attributes";
        if is_asked && self.is_stale.load(Ordering::Acquire) && is_one() {
            return Err(Error::Stale);
        }
        let is_refused =
            self.is_on.load(Ordering::Acquire) && event.operation == "write" && is_one();
        if is_refused {
            Err(Error::NoSpace)
        } else {
            Ok(())
        }
    }
}

#[test]
fn an_error_of_a_write_is_told_once_and_to_its_file_only() {
    let (layer, hook) = Layer::new(ram(), Refuses::default());
    let server = serve(vec![export("/", layer)]);
    let mount = Mount::new(&server, "");
    let (good, full) = (mount.create("good"), mount.create("full"));
    mount.write(&full, 0, b"before").unwrap();
    mount.close(&full).unwrap();
    // The ids of the server's own file system are inside the handles; both are refused by name.
    let inner = server_id(&hook, &mount, "full");
    hook.writes_of.lock().unwrap().insert(inner);
    hook.is_on.store(true, Ordering::Release);
    mount.write(&good, 0, &[1; 100_000]).unwrap();
    mount.write(&full, 0, &[2; 100_000]).unwrap();
    let verifier = |id| {
        let committed = mount.filesystem.commit(&mount.call(), id, 0, 0);
        committed.unwrap().verifier
    };
    let before = verifier(&good);
    assert_eq!(mount.close(&full), Err(Error::NoSpace));
    assert_eq!(verifier(&good), before, "nothing of it was lost");
    assert_ne!(
        verifier(&full),
        before,
        "what did not close is told otherwise"
    );
    assert_eq!(mount.close(&full), Ok(()), "told once");
    assert_eq!(
        mount.read(&full).unwrap(),
        b"before",
        "what the server does not have"
    );
    assert_eq!(mount.read(&good).unwrap(), [1; 100_000]);
    hook.is_on.store(false, Ordering::Release);
    mount.write(&full, 0, b"after!").unwrap();
    mount.commit(&full).unwrap();
    assert_eq!(Mount::new(&server, "").read(&full).unwrap(), b"after!");
    hook.is_on.store(true, Ordering::Release);
    mount.write(&full, 0, b"again").unwrap();
    assert_eq!(mount.filesystem.finish(Finish::Sync), Err(Error::NoSpace));
    assert_eq!(mount.filesystem.finish(Finish::Sync), Ok(0));
}

#[test]
fn an_error_of_an_object_that_was_taken_for_removed_is_told() {
    let memory = ram();
    let (layer, hook) = Layer::new(memory.clone(), Refuses::default());
    let server = serve(vec![export("/", layer)]);
    let mount = Mount::new(&server, "");
    let id = mount.create("file");
    let inner = server_id(&hook, &mount, "file");
    let credentials = Credentials::root();
    let call = root_call(&credentials);
    memory
        .link(&call, &inner, &memory.root(), b"other")
        .unwrap();
    mount.write(&id, 0, b"bytes").unwrap();
    // As a server does that calls another object by this handle later.
    hook.writes_of.lock().unwrap().insert(inner);
    hook.is_stale.store(true, Ordering::Release);
    let root = mount.root();
    mount
        .filesystem
        .remove(&mount.call(), &root, b"file")
        .unwrap();
    hook.is_stale.store(false, Ordering::Release);
    hook.is_on.store(true, Ordering::Release);
    let again = mount.lookup("other").unwrap();
    assert_eq!(again, id);
    mount.write(&again, 0, b"lost").unwrap();
    assert_eq!(mount.commit(&again), Err(Error::NoSpace));
}

/// The identifier that the server's file system has for a name.
fn server_id(hook: &Refuses, mount: &Mount, name: &str) -> FileId {
    assert!(!hook.is_on.load(Ordering::Acquire));
    // Handles of this project's server end with the identifier.
    let handle = mount.lookup(name).unwrap();
    FileId::new(&handle.as_bytes()[14..]).unwrap()
}

#[test]
fn a_server_that_is_not_ready_is_asked_again() {
    let (layer, hook) = Layer::new(ram(), Refuses::default());
    let server = serve(vec![export("/", layer)]);
    let mount = Mount::new(&server, "");
    let id = mount.create("file");
    mount.write(&id, 0, b"patience").unwrap();
    hook.not_ready.store(3, Ordering::Release);
    mount.close(&id).unwrap();
    let other = Mount::new(&server, "");
    hook.not_ready.store(2, Ordering::Release);
    assert_eq!(other.lookup("file"), Ok(id));
    hook.not_ready.store(2, Ordering::Release);
    assert_eq!(other.read(&id).unwrap(), b"patience");
    assert_eq!(hook.refused.load(Ordering::Acquire), 7);
    // A soft mount has as much patience as with a server that does not answer.
    let soft = Mount::new(&server, "soft");
    hook.not_ready.store(4, Ordering::Release);
    assert_eq!(soft.lookup("file"), Ok(id));
    let soft = Mount::new(&server, "soft&timeo=10&retrans=2");
    hook.not_ready.store(100, Ordering::Release);
    assert_eq!(soft.lookup("file"), Err(Error::TryLater));
}

#[test]
fn a_server_that_is_not_ready_to_be_mounted_is_asked_again() {
    let (server, _) = server();
    let is_first = AtomicBool::new(true);
    let between = Silencer::with(
        &server,
        |_| true,
        move |record, number| {
            if number == Procedure::Fsinfo.number() && is_first.swap(false, Ordering::AcqRel) {
                record.truncate(STATUS_AT);
                record.extend_from_slice(&Status::Jukebox.number().to_be_bytes());
                record.extend_from_slice(&[0; 4]);
            }
        },
    );
    assert_eq!(between.mount("").lookup("file"), Err(Error::NotFound));
}

/// Gives only a part of what a read asks for.
struct GivesLittle;

impl Hook for GivesLittle {
    fn before(&self, _: &Event<'_>) -> Result<()> {
        Ok(())
    }

    fn reply(&self, mut inner: ReadReply) -> ReadReply {
        let length = inner.payload.len();
        if length > 1000 {
            inner.payload.truncate(length / 3);
            inner.end_of_file = false;
        }
        inner
    }
}

#[test]
fn short_answers_are_asked_on() {
    let memory = ram();
    let bytes = pattern(300_000, 5);
    make_file(&*memory, b"file", &bytes);
    let (layer, _) = Layer::new(memory, GivesLittle);
    let server = serve(vec![export("/", layer)]);
    let mount = Mount::new(&server, "");
    let id = mount.lookup("file").unwrap();
    assert!(mount.read(&id).unwrap() == bytes);
}

/// Says that the end is there where it is not, or nothing at all.
struct Lies {
    nothing: bool,
}

impl Hook for Lies {
    fn before(&self, _: &Event<'_>) -> Result<()> {
        Ok(())
    }

    fn reply(&self, mut inner: ReadReply) -> ReadReply {
        inner.payload.truncate(if self.nothing { 0 } else { 1000 });
        inner.end_of_file = !self.nothing;
        inner
    }
}

#[test]
fn lies_about_data_end_in_zeros_or_errors() {
    for nothing in [false, true] {
        let memory = ram();
        let bytes = pattern(300_000, 5);
        make_file(&*memory, b"file", &bytes);
        let (layer, _) = Layer::new(memory, Lies { nothing });
        let server = serve(vec![export("/", layer)]);
        let mount = Mount::new(&server, "rsize=1m&readahead=0");
        let id = mount.lookup("file").unwrap();
        match mount.read(&id) {
            Ok(seen) if !nothing => assert!(seen[..1000] == bytes[..1000]),
            Err(Error::Io(text)) if nothing => assert!(text.contains("127.0.0.1"), "{text}"),
            other => panic!("{nothing}: {other:?}"),
        }
    }
}

#[test]
fn what_is_removed_behind_our_back_is_stale() {
    let (server, memory) = server();
    make_file(&*memory, b"file", b"bytes");
    let mount = Mount::new(&server, "acregmin=0&acregmax=0&acdirmin=0&acdirmax=0");
    let id = mount.lookup("file").unwrap();
    assert_eq!(mount.read(&id).unwrap(), b"bytes");
    let credentials = Credentials::root();
    memory
        .remove(&root_call(&credentials), &memory.root(), b"file")
        .unwrap();
    assert_eq!(mount.read(&id), Err(Error::Stale));
    assert_eq!(mount.lookup("file"), Err(Error::NotFound));
    let written = mount.write(&id, 0, b"x");
    assert!(written == Err(Error::Stale) || mount.close(&id) == Err(Error::Stale));
    // One name, another object: the name is looked up again.
    make_file(&*memory, b"file", b"other");
    let again = mount.lookup("file").unwrap();
    assert_ne!(again, id);
    assert_eq!(mount.read(&again).unwrap(), b"other");
}

/// A server of `memory` at an address of its own, so that nobody takes its port when it has gone;
/// or at the port of one that has.
fn server_at(memory: &Arc<dyn FileSystem>, address: SocketAddr) -> Server {
    serve_with(vec![export("/", memory.clone())], |config| {
        config.listen = address
    })
}

#[test]
fn a_restart_of_the_server_is_waited_for() {
    let memory: Arc<dyn FileSystem> = ram();
    let server = server_at(&memory, SocketAddr::from(([127, 9, 8, 19], 0)));
    let address = server.address();
    let mount = Mount::new(&server, "timeo=50");
    let id = mount.create("file");
    let bytes = pattern(500_000, 9);
    mount.write(&id, 0, &bytes[..250_000]).unwrap();
    mount.attributes(&id);
    server.stop().unwrap();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            mount.write(&id, 250_000, &bytes[250_000..]).unwrap();
            mount.close(&id).unwrap();
            mount.create("another");
        });
        std::thread::sleep(Duration::from_millis(50));
        let server = server_at(&memory, address);
        writer.join().unwrap();
        assert!(Mount::new(&server, "").read(&id).unwrap() == bytes);
        assert!(mount.lookup("another").is_ok());
        mount.filesystem.finish(Finish::Abandon).unwrap();
    });
}

#[test]
fn a_server_that_is_gone_does_not_keep_a_mount() {
    let memory: Arc<dyn FileSystem> = ram();
    let server = server_at(&memory, SocketAddr::from(([127, 9, 8, 20], 0)));
    let hard = Mount::new(&server, "");
    let soft = Mount::new(&server, "soft&timeo=2&retrans=20");
    let (one, other) = (hard.create("one"), soft.create("other"));
    hard.write(&one, 0, &[1; 5000]).unwrap();
    soft.write(&other, 0, &[2; 7000]).unwrap();
    drop(server);
    assert!(matches!(soft.close(&other), Err(Error::Io(_))));
    assert!(matches!(soft.lookup("nothing"), Err(Error::Io(_))));
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| hard.close(&one));
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!(hard.filesystem.finish(Finish::Abandon), Ok(5000));
        assert!(matches!(waits.join().unwrap(), Err(Error::Io(_))));
    });
    assert!(matches!(hard.read(&one), Err(Error::Io(_)) | Ok(_)));
    assert_eq!(hard.calls(Procedure::Commit), 0);
}

#[test]
fn mounts_that_cannot_be_say_why() {
    let (server, _) = server();
    let cache = pagewell_cache::Cache::new(pagewell_cache::CacheOptions::new(4 << 20)).unwrap();
    let address = server.address();
    for (url, part) in [
        (format!("nfs://{address}/nowhere"), "nowhere"),
        ("nfs://127.0.0.1:1/?timeo=10".to_owned(), "127.0.0.1"),
    ] {
        let url = pagewell_source_nfs::Url::parse(&url).unwrap();
        let error = pagewell_source_nfs::NfsFileSystem::mount(&url, &cache)
            .unwrap_err()
            .to_string();
        assert!(error.contains(part), "{error}");
        assert!(!error.contains('\n'), "{error}");
    }
}
