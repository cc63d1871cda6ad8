//! Files of a mount are objects of their own: what one has to wait for, another has not.

use std::sync::{Arc, Condvar, Mutex};

use pagewell_cache::{CacheOptions, LENGTH_BYTES_MAX};
use pagewell_fs::{Credentials, Error, FileId, FileSystem, Result};
use pagewell_sunrpc::nfs3::Procedure;

use super::{Mount, pattern, root_call, server};
use crate::fixture::{export, ram, serve};
use crate::layer::{Event, Hook, Layer};

/// Counts WRITEs and COMMITs by file, and keeps WRITEs of one file waiting.
#[derive(Default)]
struct Counting {
    state: Mutex<State>,
    released: Condvar,
}

#[derive(Default)]
struct State {
    calls: Vec<(&'static str, FileId)>,
    held: Option<FileId>,
    waiting: usize,
}

impl Counting {
    fn calls(&self, operation: &str, id: &FileId) -> usize {
        let state = self.state.lock().unwrap();
        let calls = state.calls.iter();
        calls
            .filter(|(name, of)| *name == operation && of == id)
            .count()
    }
}

impl Hook for Counting {
    fn before(&self, event: &Event<'_>) -> Result<()> {
        if !matches!(event.operation, "write" | "commit") {
            return Ok(());
        }
        if !event.may_block {
            return Err(Error::WouldBlock);
        }
        let mut state = self.state.lock().unwrap();
        state.calls.push((event.operation, event.id));
        if event.operation == "write" && state.held == Some(event.id) {
            state.waiting += 1;
            while state.held.is_some() {
                state = self.released.wait(state).unwrap();
            }
        }
        Ok(())
    }
}

#[test]
fn a_commit_of_one_file_sends_only_what_is_its_own_and_waits_for_no_other() {
    let memory: Arc<dyn FileSystem> = ram();
    let (layer, hook) = Layer::new(memory.clone(), Counting::default());
    let server = serve(vec![export("/", layer)]);
    let mount = Mount::new(&server, "");
    let [one, other] = ["one", "other"].map(|name| mount.create(name));
    let credentials = Credentials::root();
    let call = root_call(&credentials);
    let at_server = |name: &str| {
        let found = memory.lookup(&call, &memory.root(), name.as_bytes());
        found.unwrap().id
    };
    let [one_there, other_there] = ["one", "other"].map(at_server);
    let bytes = pattern(1000, 1);
    for id in [&one, &other] {
        // Apart, so that they are several writes, and need a COMMIT.
        for place in 0..3 {
            mount.write(id, place << 22, &bytes).unwrap();
        }
    }
    hook.state.lock().unwrap().held = Some(other_there);
    std::thread::scope(|scope| {
        let stuck = scope.spawn(|| mount.commit(&other));
        while hook.state.lock().unwrap().waiting == 0 {
            std::thread::yield_now();
        }
        mount.commit(&one).unwrap();
        assert_eq!(hook.calls("write", &one_there), 3);
        assert_eq!(hook.calls("commit", &one_there), 1);
        assert_eq!(
            hook.calls("commit", &other_there),
            0,
            "it is not waited for"
        );
        assert!(!stuck.is_finished());
        hook.state.lock().unwrap().held = None;
        hook.released.notify_all();
        stuck.join().unwrap().unwrap();
    });
    assert_eq!(hook.calls("write", &other_there), 3);
    assert_eq!(hook.calls("commit", &one_there), 1);
    assert_eq!(hook.calls("commit", &other_there), 1);
    assert_eq!(mount.calls(Procedure::Commit), 2);
}

#[test]
fn files_beyond_a_tebibyte_are_read_and_written() {
    let (server, _) = server();
    let mount = Mount::new(&server, "");
    let id = mount.create("long");
    let places = [0, (1 << 40) - 500, 9 << 40, LENGTH_BYTES_MAX - 1000];
    for (place, seed) in places.into_iter().zip(1..) {
        mount.write(&id, place, &pattern(1000, seed)).unwrap();
    }
    assert_eq!(mount.attributes(&id).size, LENGTH_BYTES_MAX);
    mount.commit(&id).unwrap();
    let other = Mount::new(&server, "");
    for (place, seed) in places.into_iter().zip(1..) {
        for mount in [&mount, &other] {
            let read = mount.filesystem.read(&mount.call(), &id, place, 1000);
            let mut bytes = vec![0; 1000];
            assert_eq!(read.unwrap().payload.copy_to(&mut bytes, true), Ok(1000));
            assert!(bytes == pattern(1000, seed), "at {place}");
        }
    }
    let past = mount.write(&id, LENGTH_BYTES_MAX, b"past");
    assert_eq!(past, Err(Error::FileTooLarge));
    mount.truncate(&id, 100);
    assert_eq!(mount.read(&id).unwrap(), pattern(1000, 1)[..100]);
}

/// Each file has pages of its own, and its names are given to other files when it is gone.
#[test]
fn many_files_in_turn_show_what_is_theirs() {
    let (server, memory) = server();
    let cache = CacheOptions::new(4 << 20);
    let mount = Mount::with_cache(&server, "actimeo=600", cache);
    for round in 0..3 {
        for number in 0..300 {
            let name = format!("f{number}");
            let bytes = pattern(5000, round * 1000 + number);
            if round > 0 {
                let (files, root) = (&mount.filesystem, mount.root());
                files.remove(&mount.call(), &root, name.as_bytes()).unwrap();
            }
            let id = mount.create(&name);
            mount.write(&id, 0, &bytes).unwrap();
            mount.close(&id).unwrap();
            assert!(mount.read(&id).unwrap() == bytes, "{name}");
        }
    }
    let credentials = Credentials::root();
    let call = root_call(&credentials);
    for number in 0..300 {
        let name = format!("f{number}");
        let found = memory.lookup(&call, &memory.root(), name.as_bytes());
        assert_eq!(found.unwrap().attributes.size, 5000);
        let id = mount.lookup(&name).unwrap();
        assert!(mount.read(&id).unwrap() == pattern(5000, 2000 + number));
    }
}
