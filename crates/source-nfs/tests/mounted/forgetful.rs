//! Servers that forget what was not committed.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use pagewell_fs::{
    Call, Credentials, Error, FileId, FileSystem, Finish, Result, SetAttributes, SetTime,
    Stability, Timestamp,
};
use pagewell_nfsd::Server;
use pagewell_sunrpc::nfs3::Procedure;

use super::lenient::{PROCEDURE_UNAVAILABLE, refuse};
use super::without_attributes::Silencer;
use super::{LASTING, Mount, pattern, root_call};
use crate::fixture::{export, ram, serve};
use crate::layer::{Event, Hook, Layer};

const MIB: usize = 1 << 20;

/// What a write has replaced: where, the bytes, and the length of the file.
struct Undo {
    id: FileId,
    offset: u64,
    bytes: Vec<u8>,
    size: u64,
}

/// A server whose memory is lost when it crashes: what was not committed goes back to what it was.
struct Forgetful {
    inner: Arc<dyn FileSystem>,
    undo: Mutex<Vec<Undo>>,
    crashes: AtomicU64,
    /// So many COMMITs are preceded by a crash.
    crashes_before_commit: AtomicUsize,
    /// No write is stable, though it should be, and it is said so.
    is_never_stable: AtomicBool,
    /// There is no COMMIT.
    lacks_commit: AtomicBool,
}

impl Forgetful {
    fn crash(&self) {
        let credentials = Credentials::root();
        let call = root_call(&credentials);
        let mut undone = self.undo.lock().unwrap();
        for undo in undone.drain(..).rev() {
            let written = self.inner.write(
                &call,
                &undo.id,
                undo.offset,
                &undo.bytes,
                Stability::FileSync,
            );
            let size = SetAttributes {
                size: Some(undo.size),
                ..Default::default()
            };
            let cut = self.inner.set_attributes(&call, &undo.id, &size, None);
            // A file that was removed meanwhile has nothing to lose.
            assert!(written.is_ok() == cut.is_ok());
        }
        // While nobody can commit: a COMMIT that comes next must not say that nothing was lost.
        self.crashes.fetch_add(1, Ordering::AcqRel);
        drop(undone);
    }
}

impl Hook for Forgetful {
    fn before(&self, event: &Event<'_>) -> Result<()> {
        if !event.may_block {
            return Err(Error::WouldBlock);
        }
        let credentials = Credentials::root();
        let call = root_call(&credentials);
        match event.operation {
            // All of the file, as servers do that synchronise it.
            "write" if event.is_stable => {
                self.undo.lock().unwrap().retain(|undo| undo.id != event.id);
            }
            "write" => {
                #[allow(clippy::cast_possible_truncation)] // a WRITE
                let old = self
                    .inner
                    .read(&call, &event.id, event.offset, event.count as u32)?;
                let mut bytes = vec![0; old.payload.len()];
                old.payload.copy_to(&mut bytes, true)?;
                let size = old.attributes.size;
                let (id, offset) = (event.id, event.offset);
                self.undo.lock().unwrap().push(Undo {
                    id,
                    offset,
                    bytes,
                    size,
                });
            }
            "commit" if self.lacks_commit.load(Ordering::Acquire) => {
                return Err(Error::NotSupported);
            }
            "commit" => {
                let left = self.crashes_before_commit.load(Ordering::Acquire);
                if left > 0 {
                    self.crashes_before_commit
                        .store(left - 1, Ordering::Release);
                    self.crash();
                }
                self.undo.lock().unwrap().retain(|undo| undo.id != event.id);
            }
            _ => {}
        }
        Ok(())
    }

    fn stability(&self, asked: Stability) -> Stability {
        if self.is_never_stable.load(Ordering::Acquire) {
            Stability::Unstable
        } else {
            asked
        }
    }

    fn verifier(&self, inner: [u8; 8]) -> [u8; 8] {
        (u64::from_be_bytes(inner) ^ self.crashes.load(Ordering::Acquire)).to_be_bytes()
    }
}

fn forgetful_server() -> (Server, Arc<Forgetful>) {
    let memory = ram();
    let forgetful = Forgetful {
        inner: memory.clone(),
        undo: Mutex::default(),
        crashes: AtomicU64::new(0),
        crashes_before_commit: AtomicUsize::new(0),
        is_never_stable: AtomicBool::new(false),
        lacks_commit: AtomicBool::new(false),
    };
    let (layer, hook) = Layer::new(memory, forgetful);
    (serve(vec![export("/", layer)]), hook)
}

#[test]
fn nothing_is_lost_when_the_server_forgets_what_it_was_given() {
    let (server, hook) = forgetful_server();
    let mount = Mount::new(&server, "wsize=64k");
    let ids: Vec<FileId> = (0..5)
        .map(|number| mount.create(&format!("f{number}")))
        .collect();
    let mut expected: Vec<Vec<u8>> = vec![Vec::new(); ids.len()];
    for round in 0..6 {
        for (index, id) in ids.iter().enumerate() {
            let bytes = pattern(200_000, round * 100 + index as u64);
            // With holes, so that what is written again needs a COMMIT.
            let at = expected[index].len() + 100_000;
            expected[index].resize(at, 0);
            mount.write(id, at as u64, &bytes).unwrap();
            expected[index].extend_from_slice(&bytes);
        }
        // Everything is at the server, and nothing committed.
        for id in &ids {
            mount.attributes(id);
        }
        if round % 2 == 0 {
            hook.crash();
        } else {
            hook.crashes_before_commit.store(3, Ordering::Release);
        }
        mount.commit(&ids[round as usize % ids.len()]).unwrap();
    }
    let before = mount.filesystem.write_verifier(None);
    mount.filesystem.finish(Finish::Sync).unwrap();
    assert_eq!(
        mount.filesystem.write_verifier(None),
        before,
        "nobody is told"
    );
    assert!(hook.crashes.load(Ordering::Acquire) >= 6);
    hook.crash();
    let other = Mount::new(&server, "");
    for (id, expected) in ids.iter().zip(&expected) {
        assert!(other.read(id).unwrap() == *expected);
        assert!(mount.read(id).unwrap() == *expected);
    }
}

/// Brings bytes of a new file to the server, which has not committed them then.
fn uncommitted(mount: &Mount, name: &str, bytes: &[u8]) -> FileId {
    let id = mount.create(name);
    let commits = mount.calls(Procedure::Commit);
    mount.write(&id, 0, bytes).unwrap();
    assert_eq!(mount.attributes(&id).size, bytes.len() as u64);
    assert_eq!(mount.calls(Procedure::Commit), commits);
    id
}

#[test]
fn what_a_server_forgets_is_appended_to_at_its_end() {
    type Look = fn(&Mount, &FileId) -> u64;
    let looks: [Look; 4] = [
        |mount, id| mount.attributes(id).size,
        |mount, id| mount.open(id).attributes.size,
        |mount, id| {
            let read = mount.filesystem.read(&mount.call(), id, 0, 10);
            read.unwrap().attributes.size
        },
        |mount, _| {
            let found = mount
                .filesystem
                .lookup(&mount.call(), &mount.root(), b"log");
            found.unwrap().attributes.size
        },
    ];
    for (number, look) in looks.into_iter().enumerate() {
        let (server, hook) = forgetful_server();
        // Believing nothing, each look sees what the server has now.
        let mount = Mount::new(&server, "acregmin=0&acregmax=0");
        let mut expected = pattern(10_000, 1);
        let id = uncommitted(&mount, "log", &expected);
        hook.crash();
        let size = look(&mount, &id);
        assert_eq!(size, 10_000, "look {number}");
        mount.write(&id, size, b"appended").unwrap();
        expected.extend_from_slice(b"appended");
        assert!(mount.read(&id).unwrap() == expected, "look {number}");
        mount.close(&id).unwrap();
        hook.crash();
        let other = Mount::new(&server, "");
        assert!(other.read(&id).unwrap() == expected, "look {number}");
    }
}

/// What was forgotten before a flush, and is at the server again, is not missed by the next.
#[test]
fn what_a_server_forgets_is_written_again_once() {
    let (server, hook) = forgetful_server();
    let mount = Mount::new(&server, "wsize=64k");
    let mut bytes = pattern(3 << 20, 3);
    bytes[MIB..2 * MIB].fill(0);
    let id = mount.create("file");
    // One write alone would be a stable one the second time.
    for at in [0, 2 * MIB] {
        mount.write(&id, at as u64, &bytes[at..at + MIB]).unwrap();
    }
    assert_eq!(mount.attributes(&id).size, bytes.len() as u64);
    let writes = mount.calls(Procedure::Write);
    hook.crashes_before_commit.store(1, Ordering::Release);
    mount.commit(&id).unwrap();
    assert_eq!(mount.calls(Procedure::Write), 2 * writes);
    assert_eq!(mount.calls(Procedure::Commit), 2);
    hook.crash();
    assert!(Mount::new(&server, "").read(&id).unwrap() == bytes);
}

#[test]
fn what_was_forgotten_is_at_the_server_when_attributes_are_told() {
    let (server, hook) = forgetful_server();
    let (mount, other) = (Mount::new(&server, ""), Mount::new(&server, ""));
    let [one, two] = ["one", "two"].map(|name| uncommitted(&mount, name, &[7; 5000]));
    hook.crash();
    // This finds out for all files.
    mount.commit(&one).unwrap();
    assert_eq!(mount.attributes(&two).size, 5000);
    assert_eq!(other.read(&two).unwrap(), [7; 5000]);
}

#[test]
fn a_length_or_time_that_is_set_outlives_what_is_written_again() {
    let bytes = pattern(10_000, 1);
    let time = Timestamp {
        seconds: 1_000_000_000,
        nanoseconds: 0,
    };
    for crash_comes_first in [false, true] {
        for size in [0, 100, 20_000] {
            let (server, hook) = forgetful_server();
            let mount = Mount::new(&server, "acregmin=0&acregmax=0");
            let id = uncommitted(&mount, "file", &bytes);
            if crash_comes_first {
                hook.crash();
            }
            mount.truncate(&id, size);
            let request = SetAttributes {
                modified: Some(SetTime::To(time)),
                ..Default::default()
            };
            mount
                .filesystem
                .set_attributes(&mount.call(), &id, &request, None)
                .unwrap();
            hook.crash();
            assert_eq!(mount.attributes(&id).size, size);
            let mut expected = bytes.clone();
            expected.resize(usize::try_from(size).unwrap(), 0);
            assert!(mount.read(&id).unwrap() == expected, "{size}");
            mount.filesystem.finish(Finish::Sync).unwrap();
            let other = Mount::new(&server, "");
            assert_eq!(other.attributes(&id).modified, time);
            assert!(other.read(&id).unwrap() == expected, "{size}");
        }
    }
}

#[test]
fn what_others_cut_off_does_not_come_back() {
    let bytes = pattern(10_000, 1);
    for commits in 0..3 {
        let (server, _) = forgetful_server();
        let mount = Mount::new(&server, "acregmin=0&acregmax=0");
        let id = uncommitted(&mount, "file", &bytes);
        match commits {
            0 => {}
            1 => mount.commit(&id).unwrap(),
            _ => drop(mount.filesystem.finish(Finish::Sync).unwrap()),
        }
        Mount::new(&server, "").truncate(&id, 100);
        assert_eq!(mount.attributes(&id).size, 100, "{commits}");
        assert!(mount.read(&id).unwrap() == bytes[..100], "{commits}");
        // One that was made already costs no other.
        assert_eq!(mount.calls(Procedure::Commit), 1, "{commits}");
        mount.write(&id, 100, b"more").unwrap();
        mount.close(&id).unwrap();
        assert_eq!(Mount::new(&server, "").attributes(&id).size, 104);
    }
}

#[test]
fn who_must_not_wait_is_told_of_what_is_not_committed() {
    let (server, hook) = forgetful_server();
    let mount = Mount::new(&server, LASTING);
    let id = uncommitted(&mount, "file", &[1; 5000]);
    assert_eq!(mount.read(&id).unwrap(), [1; 5000]);
    let hasty = Call::new(&mount.credentials, false);
    let attributes = mount.filesystem.attributes(&hasty, &id);
    assert_eq!(attributes.unwrap().size, 5000);
    let read = mount.filesystem.read(&hasty, &id, 0, 5000);
    assert_eq!(read.unwrap().payload.len(), 5000);
    assert_eq!(mount.calls(Procedure::Commit), 0);
    hook.crash();
    // It is not known yet.
    let attributes = mount.filesystem.attributes(&hasty, &id);
    assert_eq!(attributes.unwrap().size, 5000);
}

#[test]
fn a_server_that_makes_nothing_stable_is_asked_to_commit() {
    for options in ["", "sync", "wsize=4k"] {
        for crashes in [0, 1, 3] {
            let (server, hook) = forgetful_server();
            let mount = Mount::new(&server, options);
            let id = mount.create("file");
            hook.is_never_stable.store(true, Ordering::Release);
            hook.crashes_before_commit.store(crashes, Ordering::Release);
            // One write and nothing else: it goes as a stable one.
            let bytes = pattern(10_000, 1);
            mount.write(&id, 0, &bytes).unwrap();
            mount.commit(&id).unwrap();
            hook.crash();
            let seen = Mount::new(&server, "").read(&id).unwrap();
            assert!(seen == bytes, "{options}, {crashes} crashes");
        }
    }
}

/// Calls of COMMIT and what they are answered by a server that has none: `is_refused` as by one
/// that does not know the procedure.
fn without_commit(is_refused: bool) -> (Server, Arc<Forgetful>, Silencer) {
    let (server, hook) = forgetful_server();
    hook.lacks_commit.store(true, Ordering::Release);
    let answer = move |record: &mut Vec<u8>, number| {
        if is_refused && number == Procedure::Commit.number() {
            refuse(record, &[PROCEDURE_UNAVAILABLE]);
        }
    };
    let between = Silencer::with(&server, |_| true, answer);
    (server, hook, between)
}

#[test]
fn what_is_written_to_a_server_without_commit_is_made_stable_by_writing() {
    for is_refused in [false, true] {
        let (server, hook, between) = without_commit(is_refused);
        let mount = between.mount("wsize=64k");
        let files: Vec<_> = (0..5)
            .map(|number| {
                let bytes = pattern(300_000, number);
                let id = mount.create(&format!("file{number}"));
                mount.write(&id, 0, &bytes[..200_000]).unwrap();
                // It is at the server, and may be forgotten there.
                mount.attributes(&id);
                mount.write(&id, 200_000, &bytes[200_000..]).unwrap();
                (id, bytes)
            })
            .collect();
        for (id, _) in &files {
            mount.commit(id).unwrap();
        }
        mount.filesystem.finish(Finish::Sync).unwrap();
        hook.crash();
        let other = Mount::new(&server, "");
        for (id, bytes) in &files {
            assert!(other.read(id).unwrap() == *bytes);
        }
        // Those of one flush leave together.
        assert!(mount.calls(Procedure::Commit) <= 5);
        let commits = mount.calls(Procedure::Commit);
        mount.write(&files[0].0, 0, b"more").unwrap();
        mount.commit(&files[0].0).unwrap();
        assert_eq!(mount.calls(Procedure::Commit), commits, "it is known");
        hook.crash();
        let seen = Mount::new(&server, "").read(&files[0].0).unwrap();
        assert!(seen[..4] == *b"more" && seen[4..] == files[0].1[4..]);
    }
}

#[test]
fn a_server_that_can_promise_nothing_is_an_error() {
    for is_refused in [false, true] {
        for options in ["", "sync"] {
            let (_server, hook, between) = without_commit(is_refused);
            hook.is_never_stable.store(true, Ordering::Release);
            let mount = between.mount(options);
            let id = mount.create("file");
            let written = mount.write(&id, 0, &pattern(100_000, 1));
            let ended = written.and_then(|()| mount.commit(&id));
            let Err(Error::Io(text)) = ended else {
                panic!("{ended:?}");
            };
            assert!(text.contains("COMMIT"), "{text}");
        }
    }
}
