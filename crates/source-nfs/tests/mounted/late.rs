//! Answers that come late, from a server whose clock stands still.

use std::collections::HashMap;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use pagewell_cache::CacheOptions;
use pagewell_fs::FileSystem;
use pagewell_nfsd::Server;
use pagewell_sunrpc::nfs3::Procedure;

use super::without_attributes::{
    ATTRIBUTES_BYTES, PROCEDURE_AT, STATUS_AT, WCC_BYTES, read_record, transaction, word,
    write_record,
};
use super::{Mount, pattern, server};

/// Where the times are in `fattr3` and `wcc_attr` (RFC 1813 section 2.6).
const TIMES_AT: usize = 60;
const WCC_TIMES_AT: usize = 8;
/// A test that fails must not wait for ever.
const PATIENCE: Duration = Duration::from_secs(60);

/// An answer, and where it is to go.
type Kept = (Vec<u8>, Arc<Mutex<TcpStream>>);

/// What all connections share.
#[derive(Default)]
struct Shared {
    /// The next answer to a GETATTR is kept back.
    keeps: AtomicBool,
    /// What is kept back, and where it is to go.
    kept: Mutex<Option<Kept>>,
    came: Condvar,
    has_ended: AtomicBool,
}

/// Stands between client and server, stops the clock, and keeps an answer back.
struct Delayer {
    address: SocketAddr,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Delayer {
    fn new(server: &Server) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared::default());
        let (all, server) = (shared.clone(), server.address());
        let thread = std::thread::spawn(move || {
            std::thread::scope(|scope| {
                for client in listener.incoming() {
                    if all.has_ended.load(Ordering::Acquire) {
                        return;
                    }
                    let client = client.unwrap();
                    let server = TcpStream::connect(server).unwrap();
                    let asked = Arc::new(Mutex::new(HashMap::new()));
                    let known = asked.clone();
                    let (from, to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                    scope.spawn(move || {
                        let to = Arc::new(Mutex::new(to));
                        pass_on(from, &to, |record| {
                            let number = word(record, PROCEDURE_AT);
                            known.lock().unwrap().insert(transaction(record), number);
                            false
                        });
                    });
                    let all = all.clone();
                    scope.spawn(move || {
                        let to = Arc::new(Mutex::new(client));
                        pass_on(server, &to, |record| {
                            let number = asked.lock().unwrap().remove(&transaction(record));
                            let number = number.unwrap();
                            stop_clock(record, number);
                            let is_kept = number == Procedure::Getattr.number()
                                && all.keeps.swap(false, Ordering::AcqRel);
                            if is_kept {
                                let kept = (record.clone(), to.clone());
                                *all.kept.lock().unwrap() = Some(kept);
                                all.came.notify_all();
                            }
                            is_kept
                        });
                    });
                }
            });
        });
        Self {
            address,
            shared,
            thread: Some(thread),
        }
    }

    /// Waits until there is an answer that is kept back.
    fn wait(&self) {
        let kept = self.shared.kept.lock().unwrap();
        let waited = self
            .shared
            .came
            .wait_timeout_while(kept, PATIENCE, |kept| kept.is_none());
        assert!(waited.unwrap().0.is_some(), "no answer came");
    }

    /// Lets it go.
    fn release(&self) {
        if let Some((record, to)) = self.shared.kept.lock().unwrap().take() {
            write_record(&mut to.lock().unwrap(), &record).unwrap();
        }
    }
}

impl Drop for Delayer {
    fn drop(&mut self) {
        self.shared.has_ended.store(true, Ordering::Release);
        drop(TcpStream::connect(self.address));
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Passes records on, but those that `keep` says, until one of the two has gone.
fn pass_on(mut from: TcpStream, to: &Mutex<TcpStream>, mut keep: impl FnMut(&mut Vec<u8>) -> bool) {
    let mut record = Vec::new();
    while read_record(&mut from, &mut record).is_ok() {
        if !keep(&mut record) && write_record(&mut to.lock().unwrap(), &record).is_err() {
            break;
        }
    }
    let _ = to.lock().unwrap().shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
}

/// Makes all times of files the same.
fn stop_clock(record: &mut [u8], number: u32) {
    if record.len() < STATUS_AT + 8 || word(record, STATUS_AT) != 0 {
        return;
    }
    let is = |procedure: Procedure| procedure.number() == number;
    let mut at = STATUS_AT + 4;
    if is(Procedure::Getattr) && record.len() >= at + ATTRIBUTES_BYTES {
        record[at + TIMES_AT..at + ATTRIBUTES_BYTES].fill(1);
    }
    let mut stop = |bytes: usize, times_at: usize| {
        if word(record, at) == 1 {
            record[at + 4 + times_at..at + 4 + bytes].fill(1);
            at += bytes;
        }
        at += 4;
    };
    let changes = [Procedure::Write, Procedure::Commit, Procedure::Setattr];
    if changes.into_iter().any(is) {
        stop(WCC_BYTES, WCC_TIMES_AT);
        stop(ATTRIBUTES_BYTES, TIMES_AT);
    }
    if is(Procedure::Read) {
        stop(ATTRIBUTES_BYTES, TIMES_AT);
    }
}

#[test]
fn a_length_that_was_set_is_not_undone_by_a_late_answer() {
    let bytes = pattern(100_000, 1);
    for size in [0, 10, 200_000] {
        let (server, _) = server();
        let delayer = Delayer::new(&server);
        let options = CacheOptions::new(32 << 20);
        let mount = Mount::at(delayer.address, "acregmin=60", options);
        let id = mount.create("file");
        mount.write(&id, 0, &bytes).unwrap();
        mount.close(&id).unwrap();
        delayer.shared.keeps.store(true, Ordering::Release);
        std::thread::scope(|scope| {
            let opener = scope.spawn(|| mount.open(&id).attributes.size);
            delayer.wait();
            mount.truncate(&id, size);
            delayer.release();
            assert_eq!(opener.join().unwrap(), size);
        });
        assert_eq!(mount.attributes(&id).size, size);
        let reply = mount.filesystem.read(&mount.call(), &id, size, 10).unwrap();
        assert!(reply.end_of_file && reply.payload.is_empty());
        let mut expected = bytes.clone();
        expected.resize(usize::try_from(size).unwrap(), 0);
        let end = mount.attributes(&id).size;
        mount.write(&id, end, b"appended").unwrap();
        expected.extend_from_slice(b"appended");
        mount.close(&id).unwrap();
        assert!(
            Mount::new(&server, "").read(&id).unwrap() == expected,
            "{size}"
        );
    }
}

#[test]
fn what_was_appended_is_not_undone_by_a_late_answer() {
    let (server, _) = server();
    let delayer = Delayer::new(&server);
    let mount = Mount::at(delayer.address, "acregmin=60", CacheOptions::new(32 << 20));
    let id = mount.create("log");
    let mut expected = Vec::new();
    for round in 0..10 {
        delayer.shared.keeps.store(true, Ordering::Release);
        std::thread::scope(|scope| {
            let opener = scope.spawn(|| drop(mount.open(&id)));
            delayer.wait();
            let line = pattern(1000 + round, round as u64);
            mount.write(&id, expected.len() as u64, &line).unwrap();
            expected.extend_from_slice(&line);
            mount.commit(&id).unwrap();
            delayer.release();
            opener.join().unwrap();
        });
        assert_eq!(mount.attributes(&id).size, expected.len() as u64);
    }
    mount.close(&id).unwrap();
    assert!(Mount::new(&server, "").read(&id).unwrap() == expected);
}
