//! RFC 1813, sections 3.3.7 and 3.3.21: write verifiers, failed write-back, what a stable write
//! promises, ranges of COMMIT.

use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use pagewell_fs::{Error, Result};
use pagewell_nfsd::Server;
use pagewell_source_dir::durability::{KernelSync, SyncCalls};
use pagewell_source_dir::{Directory, Options};
use pagewell_sunrpc::nfs3::{StableHow, Status};
use rustix::io::Errno;
use tempfile::TempDir;

use crate::fixture::{Kind, connect, export, on_each_kind, ram, serve};
use crate::layer::{Event, Gate, Hook, Layer, Stalls};
use crate::operations::written;
use crate::process::Process;

const STABLE: [StableHow; 3] = [
    StableHow::Unstable,
    StableHow::DataSync,
    StableHow::FileSync,
];

/// The verifier is the same in all WRITE and COMMIT replies of one life of the server,
/// whatever the stability.
#[test]
fn the_verifier_is_the_same_in_all_replies_of_one_life() {
    on_each_kind(|fixture| {
        let (mut client, root) = fixture.client();
        let file = client.make_file(&root, b"file", b"");
        let first = client.commit(&file, 0, 0).unwrap().verifier;
        for stable in STABLE {
            let written = client.write(&file, 5, b"12345", stable).unwrap();
            assert_eq!(written.verifier, first);
            assert_eq!(client.commit(&file, 0, 0).unwrap().verifier, first);
        }
        let (mut other, _) = fixture.client();
        assert_eq!(other.commit(&file, 0, 0).unwrap().verifier, first);
    });
}

/// After a crash the verifier is another one, so that the client sends its unstable
/// data again; then all bytes are there.
#[test]
fn after_a_crash_the_verifier_differs_and_data_sent_again_is_kept() {
    for kind in [Kind::Directory, Kind::PathHints] {
        let folder = tempfile::tempdir().unwrap();
        let server = Process::of_directory(folder.path(), kind);
        let (mut client, root) = server.client();
        let file = client.make_file(&root, b"file", b"");
        let pieces: Vec<Vec<u8>> = (0..8u8).map(|byte| vec![byte + 1; 10_000]).collect();
        let mut verifiers = Vec::new();
        for (offset, piece) in (0..).step_by(10_000).zip(&pieces) {
            let written = client.write(&file, offset, piece, StableHow::Unstable);
            verifiers.push(written.unwrap().verifier);
        }
        assert!(verifiers.iter().all(|verifier| *verifier == verifiers[0]));
        server.kill();

        let server = Process::of_directory(folder.path(), kind);
        let (mut client, _) = server.client();
        let committed = client.commit(&file, 0, 0).unwrap();
        assert_ne!(committed.verifier, verifiers[0], "the loss would go unseen");
        for (offset, piece) in (0..).step_by(10_000).zip(&pieces) {
            let written = client.write(&file, offset, piece, StableHow::Unstable);
            assert_eq!(written.unwrap().verifier, committed.verifier);
        }
        let again = client.commit(&file, 0, 0).unwrap();
        assert_eq!(again.verifier, committed.verifier);
        let read = client.read(&file, 0, 100_000).unwrap();
        assert!(read.bytes == pieces.concat() && read.end);
    }
}

/// Fails the next sync, and changes the verifier as a file system must.
#[derive(Default)]
struct FailingSync {
    fail: AtomicBool,
    failures: AtomicUsize,
}

impl FailingSync {
    fn check(&self) -> bool {
        let fails = self.fail.swap(false, Ordering::SeqCst);
        self.failures
            .fetch_add(usize::from(fails), Ordering::SeqCst);
        fails
    }
}

impl Hook for FailingSync {
    fn before(&self, event: &Event<'_>) -> Result<()> {
        if event.operation == "commit" && self.check() {
            return Err(Error::Io("the disk is gone".to_owned()));
        }
        Ok(())
    }

    fn verifier(&self, inner: [u8; 8]) -> [u8; 8] {
        let failures = self.failures.load(Ordering::SeqCst) as u64;
        u64::from_be_bytes(inner)
            .wrapping_add(failures)
            .to_be_bytes()
    }
}

/// The same below a served directory: the system call itself fails.
struct FailingCalls(Arc<FailingSync>);

impl SyncCalls for FailingCalls {
    fn sync_data(&self, file: BorrowedFd<'_>) -> Result<(), Errno> {
        if self.0.check() {
            return Err(Errno::IO);
        }
        KernelSync.sync_data(file)
    }

    fn sync_all(&self, file: BorrowedFd<'_>) -> Result<(), Errno> {
        if self.0.check() {
            return Err(Errno::IO);
        }
        KernelSync.sync_all(file)
    }
}

fn serve_directory(calls: impl SyncCalls + 'static) -> (Server, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let options = Options {
        metadata_sync: false,
        sync_calls: Arc::new(calls),
        ..Options::default()
    };
    let directory = Directory::open(folder.path(), options).unwrap();
    (serve(vec![export("/", Arc::new(directory))]), folder)
}

fn check_failed_commit(server: &Server, failing: &FailingSync) {
    let (mut client, root) = connect(server);
    let file = client.make_file(&root, b"file", b"");
    let lost = client.write(&file, 0, b"precious", StableHow::Unstable);
    failing.fail.store(true, Ordering::SeqCst);
    assert_eq!(client.commit(&file, 0, 0).unwrap_err(), Status::Io);
    let again = client.write(&file, 0, b"precious", StableHow::Unstable);
    let again = again.unwrap();
    assert_ne!(again.verifier, lost.unwrap().verifier);
    let committed = client.commit(&file, 0, 0).unwrap();
    assert_eq!(committed.verifier, again.verifier);
    assert_eq!(client.read(&file, 0, 100).unwrap().bytes, b"precious");
}

/// A failed write-back is an error of COMMIT and changes the verifier, so that another
/// client which wrote before learns of it too; data sent again is readable.
#[test]
fn a_failed_write_back_is_reported_and_changes_the_verifier() {
    let (layer, failing) = Layer::new(ram(), FailingSync::default());
    check_failed_commit(&serve(vec![export("/", layer)]), &failing);

    let failing = Arc::new(FailingSync::default());
    let (server, _folder) = serve_directory(FailingCalls(failing.clone()));
    check_failed_commit(&server, &failing);
}

/// A stable write whose sync failed is an error, not a promise.
#[test]
fn a_stable_write_whose_sync_failed_is_an_error() {
    let failing = Arc::new(FailingSync::default());
    let (server, _folder) = serve_directory(FailingCalls(failing.clone()));
    let (mut client, root) = connect(&server);
    let file = client.make_file(&root, b"file", b"");
    let before = client.commit(&file, 0, 0).unwrap().verifier;
    for stable in [StableHow::DataSync, StableHow::FileSync] {
        failing.fail.store(true, Ordering::SeqCst);
        let failed = client.write(&file, 0, b"data", stable);
        assert_eq!(failed.unwrap_err(), Status::Io, "{stable:?}");
    }
    assert_ne!(client.commit(&file, 0, 0).unwrap().verifier, before);
}

/// Syncs stay at a gate.
struct GatedCalls(Arc<Gate>);

impl SyncCalls for GatedCalls {
    fn sync_data(&self, file: BorrowedFd<'_>) -> Result<(), Errno> {
        self.0.pass();
        KernelSync.sync_data(file)
    }

    fn sync_all(&self, file: BorrowedFd<'_>) -> Result<(), Errno> {
        self.0.pass();
        KernelSync.sync_all(file)
    }
}

/// The reply to a DATA_SYNC or FILE_SYNC write comes only after the system call that
/// makes the data stable has returned; that to an UNSTABLE one does not wait for it.
#[test]
fn a_stable_write_is_answered_after_the_sync_call_returned() {
    for stable in STABLE {
        let gate = Arc::new(Gate::default());
        let (server, _folder) = serve_directory(GatedCalls(gate.clone()));
        let (mut client, root) = connect(&server);
        let file = client.make_file(&root, b"file", b"");
        assert_eq!(gate.arrived(), 0);
        let xid = client.start_write(&file, 0, b"data", stable);
        if stable != StableHow::Unstable {
            gate.wait_for(1);
            assert!(!client.has_answer(), "answered before it was stable");
            gate.open();
        }
        let written = written(&client.finish(xid), stable).unwrap();
        assert!(written.committed >= stable);
        gate.open();
        let before = gate.arrived();
        client.commit(&file, 0, 0).unwrap();
        assert!(
            stable != StableHow::Unstable || gate.arrived() > before,
            "COMMIT of unstable data calls sync"
        );
    }
}

/// The server itself does not answer before the file system has returned.
#[test]
fn a_write_is_answered_after_the_file_system_returned() {
    let (layer, stalls) = Layer::new(ram(), Stalls::at(&["write", "commit"]));
    let server = serve(vec![export("/", layer)]);
    let (mut client, root) = connect(&server);
    let file = client.make_file(&root, b"file", b"");
    let xid = client.start_write(&file, 0, b"data", StableHow::FileSync);
    stalls.gate.wait_for(1);
    assert!(!client.has_answer());
    stalls.gate.open();
    written(&client.finish(xid), StableHow::FileSync).unwrap();
}

/// Remembers the ranges of COMMIT.
#[derive(Default)]
struct Ranges(Mutex<Vec<(u64, usize)>>);

impl Hook for Ranges {
    fn before(&self, event: &Event<'_>) -> Result<()> {
        if event.operation == "commit" {
            self.0.lock().unwrap().push((event.offset, event.count));
        }
        Ok(())
    }
}

const RANGES: [(u64, u32); 6] = [
    (0, 0),
    (5, 0),
    (0, u32::MAX),
    (u64::MAX, 0),
    (u64::MAX, 1),
    (u64::MAX, u32::MAX),
];

/// COMMIT of zero bytes is to the end of the file, and no offset and count overflow.
#[test]
fn commit_of_zero_bytes_is_to_the_end_of_the_file() {
    on_each_kind(|fixture| {
        let (mut client, root) = fixture.client();
        let file = client.make_file(&root, b"file", b"");
        for (offset, count) in RANGES {
            let written = client.write(&file, 3, b"data", StableHow::Unstable);
            let committed = client.commit(&file, offset, count).unwrap();
            assert_eq!(committed.verifier, written.unwrap().verifier);
        }
        assert_eq!(client.read(&file, 0, 10).unwrap().bytes, b"\0\0\0data");
    });
    let (layer, ranges) = Layer::new(ram(), Ranges::default());
    let server = serve(vec![export("/", layer)]);
    let (mut client, root) = connect(&server);
    let file = client.make_file(&root, b"file", b"");
    for (offset, count) in RANGES {
        client.commit(&file, offset, count).unwrap();
    }
    let seen = ranges.0.lock().unwrap().clone();
    assert_eq!(seen, RANGES.map(|(offset, count)| (offset, count as usize)));
}
