//! Where the system gives no thread at all, the caller does the work. A process of its own, as the
//! limit is the process'.

#![allow(clippy::unwrap_used)] // a failed check is a failed test

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use pagewell_device::testing::{PATIENCE, request};
use pagewell_device::{Buffer, Operation};
use pagewell_staging::{StagedFile, Staging};
use rustix::process::{Resource, Rlimit, setrlimit};

const FOLDER: &str = "PAGEWELL_STAGING_THREADS";
/// Less than the stack of a thread.
const SPARE_BYTES: u64 = 1 << 20;

fn transfer(file: &StagedFile, operation: Operation, bytes: &[u8]) -> Vec<u8> {
    let mut buffer = Buffer::new(bytes.len(), 512);
    buffer.copy_from_slice(bytes);
    let (request, pending) = request(operation, 0, buffer);
    file.submit(request);
    let (outcome, buffer) = pending.recv_timeout(PATIENCE).unwrap();
    outcome.result.unwrap();
    buffer.to_vec()
}

fn leave_no_room_for_threads() {
    let sizes = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = sizes.split(' ').next().unwrap().parse().unwrap();
    let bytes = pages * rustix::param::page_size() as u64 + SPARE_BYTES;
    let little = Rlimit {
        current: Some(bytes),
        maximum: Some(bytes),
    };
    setrlimit(Resource::As, little).unwrap();
    assert!(std::thread::Builder::new().spawn(|| {}).is_err());
}

fn write_without_threads(folder: &Path) {
    let opened = Staging::open(folder, "s3://bucket", 64 << 20).unwrap();
    let file = opened.staging.create("key");
    leave_no_room_for_threads();
    transfer(&file, Operation::Write, b"staged");
    assert_eq!(transfer(&file, Operation::Read, &[0; 6]), b"staged");
    file.cut(3);
    assert_eq!(file.stored_bytes(), 3);
}

#[test]
fn without_any_thread_the_caller_does_the_work() {
    if let Some(folder) = std::env::var_os(FOLDER) {
        return write_without_threads(Path::new(&folder));
    }
    let folder = tempfile::tempdir().unwrap();
    let name = "without_any_thread_the_caller_does_the_work";
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture", "--test-threads=1"])
        .env(FOLDER, folder.path())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let since = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if since.elapsed() > PATIENCE {
            child.kill().unwrap();
            break child.wait().unwrap();
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    };
    assert!(status.success(), "{status}");
}
