//! Stalled storage. Clients get "try later", everything else goes
//! on.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use pagewell_fs::{Error, FileSystem};
use pagewell_nfsd::Server;
use pagewell_sunrpc::nfs3::{
    CommitArguments, CreateHow, Procedure, ReadArguments, StableHow, Status,
};

use crate::client::{Client, User};
use crate::every_call::status_of;
use crate::fixture::{connect, export, ram, serve_with};
use crate::layer::{Event, Hook, Layer, Stalls, make_file};
use crate::operations::{FileHandle, data, handle, mode, written};

const THREADS: usize = 4;
/// Of one READ, and of all calls of a connection that are under way.
const READ_BYTES_MAX: u32 = 1 << 20;
const IN_FLIGHT_BYTES_MAX: usize = 16 << 20;

/// How long a call may take: little.
const SLOW_AFTER: Duration = Duration::from_millis(250);
/// How often a test may have to double a time, on a machine that is too busy for it.
const DOUBLINGS: u32 = 8;

/// A server with few threads and little patience. Its file system keeps everything that is done
/// to the files `slow-0` and on until the gate is opened.
struct Stalled {
    server: Server,
    stalls: std::sync::Arc<Stalls>,
}

const EVERYTHING: [&str; 6] = [
    "read",
    "write",
    "commit",
    "attributes",
    "set_attributes",
    "access",
];

impl Stalled {
    fn new(slow_files: usize) -> Self {
        Self::of(slow_files, &EVERYTHING)
    }

    /// Besides the file system that stalls there is one that does not, at `/healthy`.
    fn of(slow_files: usize, operations: &[&'static str]) -> Self {
        Self::with((THREADS, SLOW_AFTER), slow_files, operations)
    }

    fn with(
        (threads, slow_after): (usize, Duration),
        slow_files: usize,
        operations: &[&'static str],
    ) -> Self {
        let storage = ram();
        let (layer, stalls) = Layer::new(storage.clone(), Stalls::at(operations));
        for number in 0..slow_files {
            let name = format!("slow-{number}");
            let id = make_file(&*storage, name.as_bytes(), b"slow");
            stalls.objects.lock().insert(id);
        }
        make_file(&*storage, b"quick", b"quick");
        let stalling = export("/", layer);
        let healthy = ram();
        make_file(&*healthy, b"quick", b"quick");
        let (healthy, _) = Layer::new(healthy, Stalls::at(&[]));
        let exports = vec![stalling, export("/healthy", healthy)];
        let server = serve_with(exports, |config| {
            config.threads = threads;
            config.slow_after = slow_after;
        });
        Self { server, stalls }
    }

    fn files(&self, client: &mut Client, root: &[u8], count: usize) -> Vec<FileHandle> {
        let names = (0..count).map(|number| format!("slow-{number}"));
        names
            .map(|name| patiently(|| client.lookup(root, name.as_bytes())).handle)
            .collect()
    }
}

impl Drop for Stalled {
    fn drop(&mut self) {
        self.stalls.gate.open();
    }
}

fn start_read(client: &mut Client, file: &[u8]) -> u32 {
    start_read_of(client, file, 100)
}

fn start_read_of(client: &mut Client, file: &[u8], count: u32) -> u32 {
    let arguments = ReadArguments {
        file: handle(file),
        offset: 0,
        count,
    };
    client.start(Procedure::Read, &arguments)
}

/// Asks again, as clients do: on a busy machine a healthy file may be late for once.
fn patiently<T>(mut ask: impl FnMut() -> Result<T, Status>) -> T {
    for _ in 0..3000 {
        match ask() {
            Err(Status::Jukebox) => std::thread::sleep(Duration::from_millis(20)),
            other => return other.unwrap(),
        }
    }
    panic!("told to ask again for ever");
}

fn check_quick(client: &mut Client, root: &[u8]) {
    let quick = patiently(|| client.lookup(root, b"quick")).handle;
    let read = patiently(|| client.read(&quick, 0, 10));
    assert_eq!(read.bytes, b"quick");
    let how = CreateHow::Unchecked(mode(0o600));
    let made = patiently(|| client.create(root, b"made meanwhile", how));
    patiently(|| client.write(&made.handle, 0, b"x", StableHow::FileSync));
}

/// A call that storage holds is answered JUKEBOX; calls for other files are not affected; when
/// storage is back, the client that asks again is served.
#[test]
fn a_stalled_file_is_jukebox_and_others_are_served() {
    let stalled = Stalled::new(1);
    let (mut client, root) = connect(&stalled.server);
    let slow = stalled.files(&mut client, &root, 1).remove(0);
    let read = start_read(&mut client, &slow);
    stalled.stalls.gate.wait_for(1);
    check_quick(&mut client, &root);
    assert_eq!(data(&client.finish(read)).unwrap_err(), Status::Jukebox);
    for _ in 0..50 {
        let again = start_read(&mut client, &slow);
        assert_eq!(data(&client.finish(again)).unwrap_err(), Status::Jukebox);
    }
    assert_eq!(
        stalled.stalls.gate.arrived(),
        1,
        "asking again takes no thread"
    );
    check_quick(&mut client, &root);
    stalled.stalls.gate.open();
    let read = patiently(|| client.read(&slow, 0, 100));
    assert_eq!(read.bytes, b"slow");
}

/// Every procedure that only reads a stalled file gets "try later".
#[test]
fn every_look_at_a_stalled_file_is_jukebox() {
    let stalled = Stalled::new(1);
    let (mut client, root) = connect(&stalled.server);
    let slow = stalled.files(&mut client, &root, 1).remove(0);
    for procedure in [
        Procedure::Getattr,
        Procedure::Access,
        Procedure::Read,
        Procedure::Pathconf,
    ] {
        let calls = crate::every_call::looking(&slow);
        let call = calls.iter().find(|call| call.procedure == procedure);
        let answer = client.nfs_raw(procedure, &call.unwrap().arguments);
        assert_eq!(status_of(procedure, &answer), Status::Jukebox);
    }
}

/// A connection is not charged for reads that were answered early, although their threads are still
/// held: it is read from, and other exports are served on it.
#[test]
fn large_reads_of_a_stalled_file_do_not_hold_up_their_connection() {
    let reads_max = IN_FLIGHT_BYTES_MAX / READ_BYTES_MAX as usize;
    for doublings in 0..DOUBLINGS {
        let limits = (2 * reads_max, SLOW_AFTER * 2_u32.pow(doublings));
        let stalled = Stalled::with(limits, 1, &["read"]);
        let (mut client, root) = connect(&stalled.server);
        let healthy = client.mount(b"/healthy").unwrap();
        let slow = stalled.files(&mut client, &root, 1).remove(0);
        let reads: Vec<u32> = (0..reads_max)
            .map(|_| start_read_of(&mut client, &slow, READ_BYTES_MAX))
            .collect();
        for read in reads {
            assert_eq!(data(&client.finish(read)).unwrap_err(), Status::Jukebox);
        }
        check_quick(&mut client, &healthy);
        // Else some came when the file was known to be slow, and took no thread.
        if stalled.stalls.gate.arrived() == reads_max {
            return;
        }
    }
    panic!("they are never held all at once");
}

/// A change that storage holds may still happen, so it is never answered before it is known; it
/// does not keep others from being served.
#[test]
fn a_stalled_change_is_answered_when_it_is_done() {
    let stalled = Stalled::of(1, &["write"]);
    let (mut client, root) = connect(&stalled.server);
    let slow = stalled.files(&mut client, &root, 1).remove(0);
    let write = client.start_write(&slow, 0, b"SLOW", StableHow::FileSync);
    stalled.stalls.gate.wait_for(1);
    // Longer than the server's patience: reads of the file are answered JUKEBOX by then.
    loop {
        match client.read(&slow, 0, 100) {
            Err(status) => break assert_eq!(status, Status::Jukebox),
            Ok(_) => check_quick(&mut client, &root),
        }
    }
    stalled.stalls.gate.open();
    written(&client.finish(write), StableHow::FileSync).unwrap();
    let read = patiently(|| client.read(&slow, 0, 100));
    assert_eq!(read.bytes, b"SLOW");
}

/// More calls for one stalled file than there are threads: all are answered JUKEBOX and none of
/// the others waits for storage.
#[test]
fn many_calls_for_one_stalled_file_do_not_use_up_the_threads() {
    let stalled = Stalled::new(1);
    let (mut client, root) = connect(&stalled.server);
    let slow = stalled.files(&mut client, &root, 1).remove(0);
    let reads: Vec<u32> = (0..THREADS * 10)
        .map(|_| start_read(&mut client, &slow))
        .collect();
    stalled.stalls.gate.wait_for(1);
    for read in reads {
        assert_eq!(data(&client.finish(read)).unwrap_err(), Status::Jukebox);
    }
    check_quick(&mut client, &root);
    assert!(stalled.stalls.gate.arrived() <= 2 * THREADS);
}

/// Many more stalled files than threads: all calls get
/// JUKEBOX, other exports are served as ever, and other files of the same one are served or get
/// JUKEBOX, but never no reply.
#[test]
fn many_stalled_files_do_not_use_up_the_threads() {
    let files = THREADS * 5;
    let stalled = Stalled::new(files);
    let (mut client, root) = connect(&stalled.server);
    let (mut other, _) = connect(&stalled.server);
    let healthy = other.mount(b"/healthy").unwrap();
    let slow = stalled.files(&mut client, &root, files);
    let quick = patiently(|| client.lookup(&root, b"quick")).handle;
    for _ in 0..3 {
        let reads: Vec<u32> = slow
            .iter()
            .map(|file| start_read(&mut client, file))
            .collect();
        stalled.stalls.gate.wait_for(THREADS);
        check_quick(&mut other, &healthy);
        for read in reads {
            assert_eq!(data(&client.finish(read)).unwrap_err(), Status::Jukebox);
        }
        check_quick(&mut other, &healthy);
        match client.read(&quick, 0, 10) {
            Ok(read) => assert_eq!(read.bytes, b"quick"),
            Err(status) => assert_eq!(status, Status::Jukebox),
        }
    }
    assert!(stalled.stalls.gate.arrived() <= 3 * THREADS);
    stalled.stalls.gate.open();
    patiently(|| client.read(&slow[0], 0, 10));
    check_quick(&mut client, &root);
}

/// A call that waits behind stalled ones is served without another call having to come.
#[test]
fn a_call_behind_stalled_ones_is_served_by_itself() {
    let stalled = Stalled::new(THREADS);
    let (mut client, root) = connect(&stalled.server);
    let slow = stalled.files(&mut client, &root, THREADS);
    let quick = patiently(|| client.lookup(&root, b"quick")).handle;
    for file in &slow {
        start_read(&mut client, file);
    }
    stalled.stalls.gate.wait_for(THREADS);
    let object = handle(&quick);
    let waits = client.start(Procedure::Getattr, &object);
    let status = status_of(Procedure::Getattr, &client.finish(waits));
    assert!(matches!(status, Status::Ok | Status::Jukebox), "{status:?}");
    patiently(|| client.getattr(&quick));
}

/// Stalled changes, which are not answered early, do not use up the threads either.
#[test]
fn stalled_changes_leave_threads_for_others() {
    let stalled = Stalled::of(THREADS, &["write"]);
    let (mut client, root) = connect(&stalled.server);
    let slow = stalled.files(&mut client, &root, THREADS);
    let writes: Vec<u32> = slow
        .iter()
        .map(|file| client.start_write(file, 0, b"SLOW", StableHow::Unstable))
        .collect();
    stalled.stalls.gate.wait_for(THREADS);
    let (mut other, _) = connect(&stalled.server);
    check_quick(&mut other, &root);
    stalled.stalls.gate.open();
    for write in writes {
        written(&client.finish(write), StableHow::Unstable).unwrap();
    }
}

/// A server that is stopped while calls are under way finishes them first.
#[test]
fn a_stopping_server_finishes_what_was_begun() {
    let (layer, stalls) = Layer::new(ram(), Stalls::at(&["write"]));
    let server = serve_with(vec![export("/", layer)], |_| {});
    let (mut client, root) = connect(&server);
    let file = client.make_file(&root, b"file", b"");
    let write = client.start_write(&file, 0, b"data", StableHow::FileSync);
    stalls.gate.wait_for(1);
    let address = server.address();
    let stopping = std::thread::spawn(move || server.stop());
    while std::net::TcpStream::connect(address).is_ok() {
        std::thread::sleep(Duration::from_millis(1));
    }
    stalls.gate.open();
    written(&client.finish(write), StableHow::FileSync).unwrap();
    stopping.join().unwrap().unwrap();
    assert!(client.try_next_answer().is_none(), "the connection ends");
}

/// A drive that does one read after the other, each in this time.
struct Drive {
    head: Mutex<()>,
    read_time: Duration,
}

impl Hook for Drive {
    fn before(&self, event: &Event<'_>) -> pagewell_fs::Result<()> {
        if !event.may_block {
            return Err(Error::WouldBlock);
        }
        if event.operation == "read" {
            let _head = self.head.lock().unwrap();
            std::thread::sleep(self.read_time);
        }
        Ok(())
    }
}

/// Slow storage that moves has patience: twenty readers that repeat at once on "try later" get
/// their data, not hundreds of thousands of such replies.
#[test]
fn slow_storage_with_many_readers_does_its_work() {
    let mut sent_away = Vec::new();
    // While a busy machine holds the drive itself up, nothing moves: then slower, all the same.
    for doublings in 0..DOUBLINGS {
        sent_away.push(sent_away_by_slow_storage(2_u32.pow(doublings)));
        if sent_away
            .last()
            .is_some_and(|times| *times <= READERS as u64 * READS)
        {
            return;
        }
    }
    panic!("{sent_away:?} for {READERS} times {READS} reads");
}

const READERS: usize = 20;
const READS: u64 = 6;

/// How often readers get "try later" from a drive that is `times` slower than its calls may
/// take. One round of all of them takes longer than a call may.
fn sent_away_by_slow_storage(times: u32) -> u64 {
    let storage = ram();
    make_file(&*storage, b"disc", &[7; 4096]);
    let drive = Drive {
        head: Mutex::default(),
        read_time: times * Duration::from_millis(25),
    };
    let (layer, _) = Layer::new(storage, drive);
    let server = serve_with(vec![export("/", layer)], |config| {
        config.threads = 2 * READERS;
        config.slow_after = times * Duration::from_millis(400);
    });
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..READERS)
            .map(|_| {
                scope.spawn(|| {
                    let (mut client, root) = connect(&server);
                    let file = patiently(|| client.lookup(&root, b"disc")).handle;
                    let mut sent_away = 0;
                    for offset in 0..READS {
                        while let Err(status) = client.read(&file, offset, 10) {
                            assert_eq!(status, Status::Jukebox);
                            sent_away += 1;
                        }
                    }
                    sent_away
                })
            })
            .collect();
        let counts = readers.into_iter().map(|reader| reader.join().unwrap());
        counts.sum()
    })
}

/// A COMMIT that takes long holds up no other calls: what was written is read meanwhile, and more
/// is written.
#[test]
fn a_commit_that_takes_long_does_not_make_its_file_slow() {
    let stalled = Stalled::of(1, &["commit"]);
    let (mut client, root) = connect(&stalled.server);
    let slow = stalled.files(&mut client, &root, 1).remove(0);
    let arguments = CommitArguments {
        file: handle(&slow),
        offset: 0,
        count: 0,
    };
    let commit = client.start(Procedure::Commit, &arguments);
    stalled.stalls.gate.wait_for(1);
    // Long enough for the server to find that storage holds it.
    let start = Instant::now();
    while start.elapsed() < 4 * SLOW_AFTER {
        assert_eq!(patiently(|| client.read(&slow, 0, 100)).bytes, b"slow");
        patiently(|| client.write(&slow, 0, b"slow", StableHow::Unstable));
    }
    stalled.stalls.gate.open();
    let status = status_of(Procedure::Commit, &client.finish(commit));
    assert_eq!(status, Status::Ok);
}

/// Threads that one export or one client keeps are never those of another, from the first moment
/// on: nothing here is ever found to be slow.
#[test]
fn stalled_calls_of_one_export_or_client_do_not_hold_up_others() {
    let storage = ram();
    let slow = make_file(&*storage, b"slow-0", b"slow");
    make_file(&*storage, b"quick", b"quick");
    let (layer, stalls) = Layer::new(storage, Stalls::at(&["read"]));
    stalls.objects.lock().insert(slow);
    let (healthy, _) = Layer::new(ram(), Stalls::at(&[]));
    make_file(&*healthy.inner, b"quick", b"quick");
    let exports = vec![export("/", layer), export("/healthy", healthy)];
    let server = serve_with(exports, |config| config.threads = THREADS);
    let stalled = Stalled { server, stalls };
    let (mut client, root) = connect(&stalled.server);
    let slow = client.lookup(&root, b"slow-0").unwrap().handle;
    let reads: Vec<u32> = (0..THREADS * 5)
        .map(|_| start_read(&mut client, &slow))
        .collect();
    stalled.stalls.gate.wait_for(THREADS * 3 / 4);
    let (mut other, _) = connect(&stalled.server);
    let healthy = other.mount(b"/healthy").unwrap();
    for _ in 0..20 {
        check_quick(&mut other, &healthy);
        check_quick(&mut other, &root);
    }
    stalled.stalls.gate.open();
    for read in reads {
        assert_eq!(data(&client.finish(read)).unwrap().bytes, b"slow");
    }
}

/// MOUNTs that wait for storage take no more threads once it is found to hold one: those that tell
/// clients to ask again are left.
#[test]
fn mounts_of_a_stalled_export_leave_threads_to_calls_that_try_later() {
    let storage = ram();
    let slow = make_file(&*storage, b"slow-0", b"slow");
    let root_id = storage.root();
    let (layer, stalls) = Layer::new(storage, Stalls::at(&["read", "lookup"]));
    stalls.objects.lock().insert(slow);
    let server = serve_with(vec![export("/", layer)], |config| {
        config.threads = THREADS;
        config.slow_after = SLOW_AFTER;
    });
    let stalled = Stalled { server, stalls };
    let (mut client, root) = connect(&stalled.server);
    let slow = stalled.files(&mut client, &root, 1).remove(0);
    stalled.stalls.objects.lock().insert(root_id);
    let start_mount = || {
        let mut client = Client::connect(stalled.server.address(), User::root());
        client.start_mount(b"/missing");
        client
    };
    let mounting: Vec<Client> = (0..16 * THREADS).map(|_| start_mount()).collect();
    stalled.stalls.gate.wait_for(THREADS);
    // Long enough for the watcher to give the export all threads that it may have.
    std::thread::sleep(Duration::from_secs(2));
    let read = start_read(&mut client, &slow);
    assert_eq!(data(&client.finish(read)).unwrap_err(), Status::Jukebox);
    // Not answered: there is no "ask again later", and the client of a closed connection does.
    let mut late = start_mount();
    assert!(late.try_next_answer().is_none());
    drop(mounting);
}
