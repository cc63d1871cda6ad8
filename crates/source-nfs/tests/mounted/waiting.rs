//! A READ that is not answered holds up who asked for it, and nobody else.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use pagewell_fs::{Credentials, FileSystem, Payload, ReadReply, Result, SetAttributes, Stability};
use pagewell_nfsd::Server;

use super::{Mount, pattern, root_call};
use crate::fixture::{export, ram, serve};
use crate::layer::{Event, Gate, Hook, Layer, make_file};

const MIB: usize = 1 << 20;
/// Long on any machine; less than a gate is closed.
const PATIENCE: Duration = Duration::from_secs(60);

/// Storage that keeps each read of the byte at 1 MiB until the gate is open.
#[derive(Default)]
struct OneSlowPlace {
    gate: Gate,
    is_on: AtomicBool,
    /// It keeps not the read, but what that has found.
    is_late: AtomicBool,
    /// The next read to be answered is that one.
    is_there: AtomicBool,
}

impl Hook for OneSlowPlace {
    fn before(&self, event: &Event<'_>) -> Result<()> {
        if !event.may_block {
            return Err(pagewell_fs::Error::WouldBlock);
        }
        let is_there = event.operation == "read" && event.offset == MIB as u64;
        if is_there && self.is_on.load(Ordering::Acquire) {
            if self.is_late.load(Ordering::Acquire) {
                self.is_there.store(true, Ordering::Release);
            } else {
                self.gate.pass();
            }
        }
        Ok(())
    }

    fn reply(&self, mut inner: ReadReply) -> ReadReply {
        if self.is_there.swap(false, Ordering::AcqRel) {
            let mut found = vec![0; inner.payload.len()];
            assert_eq!(inner.payload.copy_to(&mut found, true), Ok(found.len()));
            inner.payload = Payload::Bytes(found);
            self.gate.pass();
        }
        inner
    }
}

/// A mount of a file of two mebibytes, of which the second is not answered.
struct Stuck {
    server: Server,
    hook: std::sync::Arc<OneSlowPlace>,
    behind: std::sync::Arc<dyn FileSystem>,
    file: pagewell_fs::FileId,
    bytes: Vec<u8>,
}

impl Stuck {
    fn new() -> Self {
        let behind = ram();
        let bytes = pattern(2 * MIB, 31);
        let file = make_file(&*behind, b"file", &bytes);
        let (layer, hook) = Layer::new(behind.clone(), OneSlowPlace::default());
        let server = serve(vec![export("/", layer)]);
        hook.is_on.store(true, Ordering::Release);
        Self {
            server,
            hook,
            behind,
            file,
            bytes,
        }
    }

    /// Runs something while a read of the second mebibyte waits for the server; it is to end before
    /// the read does.
    fn beside_a_slow_read(&self, what: &str, work: impl FnOnce(&Mount) + Send) {
        let mount = Mount::new(&self.server, "rsize=64k&readahead=0");
        let id = mount.lookup("file").unwrap();
        let read = |offset: usize| {
            mount
                .filesystem
                .read(&mount.call(), &id, offset as u64, 4096)
        };
        assert_eq!(read(0).unwrap().payload.len(), 4096);
        std::thread::scope(|scope| {
            // Also when an assertion fails: the threads have to end.
            let _opens = Opens(&self.hook.gate);
            let slow = scope.spawn(|| read(MIB));
            self.hook.gate.wait_for(1);
            let (sender, receiver) = mpsc::channel();
            let (mount, read) = (&mount, &read);
            scope.spawn(move || {
                work(mount);
                let first = read(0).unwrap().payload.len();
                sender.send(first).unwrap();
            });
            let first = receiver.recv_timeout(PATIENCE);
            assert_eq!(first, Ok(4096), "{what} waits for another thread's READ");
            assert!(!slow.is_finished());
            self.hook.gate.open();
            slow.join().unwrap().unwrap();
        });
    }
}

/// Opens a gate when it goes.
struct Opens<'a>(&'a Gate);

impl Drop for Opens<'_> {
    fn drop(&mut self) {
        self.0.open();
    }
}

#[test]
fn a_change_of_somebody_else_is_seen_while_a_read_is_not_answered() {
    let stuck = Stuck::new();
    stuck.beside_a_slow_read("an open", |mount| {
        let credentials = Credentials::root();
        let call = root_call(&credentials);
        let written = stuck
            .behind
            .write(&call, &stuck.file, 0, b"theirs", Stability::FileSync);
        written.unwrap();
        let id = mount.lookup("file").unwrap();
        assert!(!mount.open(&id).keep_cache);
        let reply = mount.filesystem.read(&mount.call(), &id, 0, 6).unwrap();
        let mut seen = [0; 6];
        reply.payload.copy_to(&mut seen, true).unwrap();
        assert_eq!(&seen, b"theirs");
    });
}

#[test]
fn a_file_is_cut_off_while_a_read_is_not_answered() {
    let stuck = Stuck::new();
    stuck.beside_a_slow_read("a truncation", |mount| {
        let id = mount.lookup("file").unwrap();
        let request = SetAttributes {
            size: Some(MIB as u64 + 100),
            ..Default::default()
        };
        mount
            .filesystem
            .set_attributes(&mount.call(), &id, &request, None)
            .unwrap();
        mount.write(&id, 10, b"mine").unwrap();
        mount.commit(&id).unwrap();
    });
    // What the slow read brought in late did not come back.
    let mount = Mount::new(&stuck.server, "");
    let mut expected = stuck.bytes[..MIB + 100].to_vec();
    expected[10..14].copy_from_slice(b"mine");
    assert!(mount.read(&mount.lookup("file").unwrap()).unwrap() == expected);
}

#[test]
fn what_a_read_brings_after_a_cut_does_not_come_back() {
    let stuck = Stuck::new();
    stuck.hook.is_late.store(true, Ordering::Release);
    let mount = Mount::new(&stuck.server, "rsize=64k&readahead=0");
    let id = mount.lookup("file").unwrap();
    std::thread::scope(|scope| {
        let _opens = Opens(&stuck.hook.gate);
        let slow = scope.spawn(|| mount.filesystem.read(&mount.call(), &id, MIB as u64, 4096));
        stuck.hook.gate.wait_for(1);
        mount.truncate(&id, 1000);
        mount.truncate(&id, 2 * MIB as u64);
        stuck.hook.gate.open();
        assert!(slow.join().unwrap().is_ok());
    });
    let seen = mount.read(&id).unwrap();
    assert!(seen[..1000] == stuck.bytes[..1000] && seen[1000..] == vec![0; 2 * MIB - 1000]);
}
