//! Users that write to one file.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use pagewell_fs::{
    Call, CreateMode, Credentials, Error, FileId, FileSystem, Result, SetAttributes, Stability,
};
use pagewell_nfsd::Server;
use pagewell_nfsd::config::{Export, Squash};
use pagewell_sunrpc::nfs3::Procedure;

use super::{Mount, pattern};
use crate::fixture::{export, ram, serve};
use crate::layer::{Event, Hook, Layer};

/// Notes who writes, and refuses one of them.
#[derive(Default)]
struct Watches {
    writes: Mutex<Vec<(u32, u64, usize)>>,
    refused: AtomicU32,
    /// Nobody but this user may read.
    reader: Mutex<Option<u32>>,
}

impl Hook for Watches {
    fn before(&self, event: &Event<'_>) -> Result<()> {
        if !event.may_block {
            return Err(Error::WouldBlock);
        }
        match event.operation {
            "write" if event.uid == self.refused.load(Ordering::Acquire) => {
                return Err(Error::QuotaExceeded);
            }
            "read"
                if self
                    .reader
                    .lock()
                    .unwrap()
                    .is_some_and(|uid| uid != event.uid) =>
            {
                return Err(Error::AccessDenied);
            }
            "write" => {
                let write = (event.uid, event.offset, event.count);
                self.writes.lock().unwrap().push(write);
            }
            _ => {}
        }
        Ok(())
    }
}

const ALICE: u32 = 1001;
const BOB: u32 = 1002;

/// A server, its hook, a mount, and a file that all may write to.
fn shared_file() -> (Server, Arc<Watches>, Mount, FileId) {
    let (layer, hook) = Layer::new(ram(), Watches::default());
    hook.refused.store(u32::MAX, Ordering::Release);
    let server = serve(vec![export("/", layer)]);
    let mount = Mount::new(&server, "");
    let id = mount.create("shared");
    let request = SetAttributes {
        mode: Some(0o666),
        ..Default::default()
    };
    let set = mount
        .filesystem
        .set_attributes(&mount.call(), &id, &request, None);
    set.unwrap();
    (server, hook, mount, id)
}

fn as_user<R>(uid: u32, act: impl FnOnce(&Call<'_>) -> R) -> R {
    let credentials = Credentials::new(uid, uid, &[]);
    act(&Call::new(&credentials, true))
}

fn write(mount: &Mount, uid: u32, id: &FileId, offset: u64, data: &[u8]) -> Result<()> {
    as_user(uid, |call| {
        let stability = Stability::Unstable;
        let written = mount.filesystem.write(call, id, offset, data, stability);
        written.map(drop)
    })
}

fn close(mount: &Mount, uid: u32, id: &FileId) -> Result<()> {
    as_user(uid, |call| mount.filesystem.close(call, id))
}

#[test]
fn data_is_written_as_the_user_that_wrote_it() {
    let (server, hook, mount, id) = shared_file();
    let bytes = pattern(40_000, 1);
    for (number, piece) in bytes.chunks(5000).enumerate() {
        let uid = if number % 4 < 2 { ALICE } else { BOB };
        write(&mount, uid, &id, number as u64 * 5000, piece).unwrap();
    }
    close(&mount, BOB, &id).unwrap();
    let mut owners = vec![0; bytes.len()];
    for (uid, offset, count) in &*hook.writes.lock().unwrap() {
        let at = usize::try_from(*offset).unwrap();
        owners[at..at + count].fill(*uid);
    }
    for (at, uid) in owners.iter().enumerate() {
        let expected = if at / 5000 % 4 < 2 { ALICE } else { BOB };
        assert_eq!(*uid, expected, "byte {at}");
    }
    assert_eq!(mount.calls(Procedure::Write), 4, "one for each turn");
    assert!(Mount::new(&server, "").read(&id).unwrap() == bytes);
}

#[test]
fn who_lost_bytes_is_told_and_nobody_else() {
    let (_server, hook, mount, id) = shared_file();
    let opened =
        [ALICE, BOB].map(|uid| as_user(uid, |call| mount.filesystem.open(call, &id)).unwrap());
    write(&mount, BOB, &id, 0, b"........").unwrap();
    close(&mount, BOB, &id).unwrap();
    hook.refused.store(ALICE, Ordering::Release);
    write(&mount, ALICE, &id, 0, b"alice").unwrap();
    write(&mount, BOB, &id, 5, b"bob").unwrap();
    assert_eq!(close(&mount, BOB, &id), Ok(()));
    assert_eq!(mount.read(&id).unwrap(), b".....bob", "what the server has");
    assert_eq!(close(&mount, ALICE, &id), Err(Error::QuotaExceeded));
    assert_eq!(close(&mount, ALICE, &id), Ok(()), "told once");
    // A program that has become another user since, and is the last.
    write(&mount, ALICE, &id, 0, b"alice").unwrap();
    let [alice, bob] = opened;
    drop(alice);
    assert_eq!(close(&mount, BOB, &id), Err(Error::QuotaExceeded));
    assert_eq!(close(&mount, BOB, &id), Ok(()));
    drop(bob);
    assert_eq!(mount.read(&id).unwrap(), b".....bob");
}

#[test]
fn what_was_written_before_a_change_of_rights_is_judged_by_those_of_before() {
    let (_server, _hook, mount, id) = shared_file();
    write(&mount, ALICE, &id, 0, b"alice").unwrap();
    let set = |attributes| {
        let set = mount
            .filesystem
            .set_attributes(&mount.call(), &id, &attributes, None);
        set.unwrap();
    };
    set(SetAttributes {
        mode: Some(0o600),
        ..Default::default()
    });
    assert_eq!(close(&mount, ALICE, &id), Ok(()));
    assert_eq!(mount.read(&id).unwrap(), b"alice");
    // The server takes set-user-id from a file that is written to.
    set(SetAttributes {
        mode: Some(0o666),
        uid: Some(ALICE),
        ..Default::default()
    });
    write(&mount, ALICE, &id, 0, b"again").unwrap();
    set(SetAttributes {
        mode: Some(0o4755),
        ..Default::default()
    });
    assert_eq!(close(&mount, ALICE, &id), Ok(()));
    assert_eq!(mount.open(&id).attributes.mode, 0o4755);
    // The owner of before may not write any more.
    set(SetAttributes {
        mode: Some(0o644),
        ..Default::default()
    });
    write(&mount, ALICE, &id, 0, b"third").unwrap();
    set(SetAttributes {
        uid: Some(BOB),
        ..Default::default()
    });
    assert_eq!(close(&mount, ALICE, &id), Ok(()));
}

/// A mount of a file that only one user may read, and that nobody has read there.
fn file_read_by(reader: u32) -> (Server, Mount, FileId) {
    let (server, hook, mount, id) = shared_file();
    mount.write(&id, 0, &[7; 4096]).unwrap();
    mount.close(&id).unwrap();
    let mount = Mount::new(&server, "");
    *hook.reader.lock().unwrap() = Some(reader);
    (server, mount, id)
}

/// Writes so many ranges that they are not kept apart.
fn write_pieces(mount: &Mount, uid: u32, id: &FileId) {
    for number in 0..9 {
        write(mount, uid, id, number * 200, b"x").unwrap();
    }
    close(mount, uid, id).unwrap();
}

#[test]
fn what_a_write_needs_to_be_read_is_read_as_the_user_that_writes() {
    let (_server, mount, id) = file_read_by(ALICE);
    write_pieces(&mount, ALICE, &id);
    // Whoever wrote before.
    let (_server, mount, id) = file_read_by(BOB);
    write(&mount, ALICE, &id, 0, b"x").unwrap();
    write_pieces(&mount, BOB, &id);
}

#[test]
fn what_a_write_needs_is_not_refused_because_of_a_user_that_has_read_before() {
    for reader in [BOB, rustix::process::geteuid().as_raw()] {
        let (server, hook, other, id) = shared_file();
        other.write(&id, 0, &[7; 4096]).unwrap();
        other.close(&id).unwrap();
        let mount = Mount::new(&server, "");
        let read = as_user(ALICE, |call| mount.filesystem.read(call, &id, 0, 4096));
        assert_eq!(read.unwrap().payload.len(), 4096);
        // What the mount has of it is old when it is opened again.
        other.write(&id, 0, &[8; 4096]).unwrap();
        other.close(&id).unwrap();
        drop(mount.open(&id));
        *hook.reader.lock().unwrap() = Some(reader);
        write_pieces(&mount, BOB, &id);
    }
}

#[test]
fn what_a_write_needs_is_read_as_the_process_where_the_writer_may_not_read() {
    let process = rustix::process::geteuid().as_raw();
    let (_server, mount, id) = file_read_by(process);
    write_pieces(&mount, ALICE, &id);
}

#[test]
fn a_write_that_fails_leaves_the_length_of_the_file() {
    let (server, hook, other, id) = shared_file();
    other.write(&id, 0, &[7; 3000]).unwrap();
    other.close(&id).unwrap();
    let mount = Mount::new(&server, "");
    *hook.reader.lock().unwrap() = Some(u32::MAX - 1);
    for number in 0..8 {
        write(&mount, ALICE, &id, number * 200, b"x").unwrap();
    }
    // One range more than are kept apart: the others must be read, which no user may.
    let refused = write(&mount, ALICE, &id, 2990, &[1; 100]);
    assert!(refused.is_err(), "{refused:?}");
    *hook.reader.lock().unwrap() = None;
    assert_eq!(mount.read(&id).unwrap().len(), 3000);
}

#[test]
fn a_user_that_the_server_calls_otherwise_writes_what_it_made_whatever_the_mode() {
    let files = ram();
    let with_mode = |mode| SetAttributes {
        mode: Some(mode),
        ..Default::default()
    };
    let root = files.root();
    let set = |call: &Call<'_>| files.set_attributes(call, &root, &with_mode(0o777), None);
    as_user(0, set).unwrap();
    let export = Export {
        squash: Squash::Root,
        ..export("/", files)
    };
    let server = serve(vec![export]);
    let (mount, other) = (Mount::new(&server, ""), Mount::new(&server, ""));
    let mode = CreateMode::Guarded(with_mode(0o444));
    let made = mount
        .filesystem
        .create(&mount.call(), &mount.root(), b"file", &mode);
    let id = made.unwrap().entry.id;
    assert_ne!(mount.attributes(&id).uid, 0);
    mount.write(&id, 0, b"data").unwrap();
    mount.close(&id).unwrap();
    assert_eq!(other.read(&other.lookup("file").unwrap()).unwrap(), b"data");
    // Another mount does not know whose it is.
    let refused = other.write(&other.lookup("file").unwrap(), 0, b"none");
    assert_eq!(refused, Err(Error::AccessDenied));
}

#[test]
fn every_call_carries_the_user_and_group_that_the_url_names() {
    let (server, hook, other, id) = shared_file();
    let set = |id: &FileId, mode| {
        let request = SetAttributes {
            mode: Some(mode),
            uid: Some(ALICE),
            ..Default::default()
        };
        let files = &other.filesystem;
        files
            .set_attributes(&other.call(), id, &request, None)
            .unwrap();
    };
    set(&other.root(), 0o755);
    // What its owner alone may do, whatever the mode says.
    set(&id, 0o400);
    *hook.reader.lock().unwrap() = Some(ALICE);
    let mount = Mount::new(&server, &format!("uid={ALICE}&gid=77"));
    write(&mount, BOB, &id, 0, b"bob").unwrap();
    close(&mount, BOB, &id).unwrap();
    assert_eq!(*hook.writes.lock().unwrap(), [(ALICE, 0, 3)]);
    assert_eq!(mount.read(&id).unwrap(), b"bob");
    let made = mount.attributes(&mount.create("made"));
    assert_eq!((made.uid, made.gid), (ALICE, 77));
}
