//! Servers that tell no attributes where they need not.

use std::collections::HashMap;
use std::io::{ErrorKind, Read, Result, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use pagewell_cache::CacheOptions;
use pagewell_fs::{CreateMode, Error, FileSystem, SetAttributes};
use pagewell_nfsd::Server;
use pagewell_sunrpc::nfs3::Procedure;

use super::{Mount, pattern, server};
use crate::layer::make_file;

/// Bytes of a call up to its procedure (RFC 5531 section 9).
pub(super) const PROCEDURE_AT: usize = 20;
/// Bytes of an answer without a verifier up to the status of NFS.
pub(super) const STATUS_AT: usize = 24;
/// Bytes of `fattr3` and `wcc_attr` (RFC 1813 section 2.6).
pub(super) const ATTRIBUTES_BYTES: usize = 84;
pub(super) const WCC_BYTES: usize = 24;

/// Procedures by transaction.
type Asked = Mutex<HashMap<[u8; 4], u32>>;

/// Stands between client and server, and takes attributes out of answers, or does something else.
pub(super) struct Silencer {
    address: SocketAddr,
    has_ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Silencer {
    pub(super) fn new(server: &Server) -> Self {
        Self::with(server, |_| true, silence)
    }

    /// `call` says of each procedure that is called whether it reaches the server; if not, that was
    /// the end of the connection. `answer` changes what comes back.
    pub(super) fn with(
        server: &Server,
        call: impl Fn(u32) -> bool + Send + Sync + 'static,
        answer: impl Fn(&mut Vec<u8>, u32) + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let has_ended = Arc::new(AtomicBool::new(false));
        let (ends, server) = (has_ended.clone(), server.address());
        let thread = std::thread::spawn(move || {
            let (call, answer) = (&call, &answer);
            std::thread::scope(|scope| {
                for client in listener.incoming() {
                    if ends.load(Ordering::Acquire) {
                        return;
                    }
                    let client = client.unwrap();
                    let server = TcpStream::connect(server).unwrap();
                    let (from, to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                    let asked = Arc::new(Asked::default());
                    let known = asked.clone();
                    scope.spawn(move || {
                        pass_on(from, to, |record| {
                            let number = word(record, PROCEDURE_AT);
                            known.lock().unwrap().insert(transaction(record), number);
                            call(number)
                        })
                    });
                    scope.spawn(move || {
                        pass_on(server, client, |record| {
                            let number = asked.lock().unwrap().remove(&transaction(record));
                            answer(record, number.unwrap());
                            true
                        })
                    });
                }
            });
        });
        Self {
            address,
            has_ended,
            thread: Some(thread),
        }
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn mount(&self, options: &str) -> Mount {
        Mount::at(self.address, options, CacheOptions::new(32 << 20))
    }
}

impl Drop for Silencer {
    fn drop(&mut self) {
        self.has_ended.store(true, Ordering::Release);
        drop(TcpStream::connect(self.address));
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

pub(super) fn word(record: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(record[at..at + 4].try_into().unwrap())
}

pub(super) fn transaction(record: &[u8]) -> [u8; 4] {
    record[..4].try_into().unwrap()
}

/// Passes records on until one of the two has gone, or `change` says that it is enough.
fn pass_on(mut from: TcpStream, mut to: TcpStream, mut change: impl FnMut(&mut Vec<u8>) -> bool) {
    let mut record = Vec::new();
    while read_record(&mut from, &mut record).is_ok() && change(&mut record) {
        if write_record(&mut to, &record).is_err() {
            break;
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}

pub(super) fn write_record(to: &mut TcpStream, record: &[u8]) -> Result<()> {
    let mark = 1 << 31 | u32::try_from(record.len()).unwrap();
    let mut all = mark.to_be_bytes().to_vec();
    all.extend_from_slice(record);
    to.write_all(&all)
}

pub(super) fn read_record(from: &mut TcpStream, record: &mut Vec<u8>) -> Result<()> {
    record.clear();
    loop {
        let mut mark = [0; 4];
        from.read_exact(&mut mark)?;
        let mark = u32::from_be_bytes(mark);
        let (begins, length) = (record.len(), (mark & 0x7fff_ffff) as usize);
        if length > 4 << 20 {
            return Err(ErrorKind::InvalidData.into());
        }
        record.resize(begins + length, 0);
        from.read_exact(&mut record[begins..])?;
        if mark >> 31 == 1 {
            return Ok(());
        }
    }
}

/// Takes attributes out that come first in an answer: what MOUNT answers has none.
fn silence(record: &mut Vec<u8>, number: u32) {
    if record.len() < STATUS_AT + 8 {
        return;
    }
    let is = |procedure: Procedure| procedure.number() == number;
    let mut at = STATUS_AT + 4;
    let mut take = |bytes: usize| {
        if word(record, at) == 1 {
            record.drain(at + 4..at + 4 + bytes);
            record[at + 3] = 0;
        }
        at += 4;
    };
    if is(Procedure::Read) {
        take(ATTRIBUTES_BYTES);
    }
    let directories = u32::from(is(Procedure::Rename));
    let files = [Procedure::Write, Procedure::Commit, Procedure::Setattr];
    let names = [Procedure::Remove, Procedure::Rmdir, Procedure::Rename];
    let is_change = files.into_iter().chain(names).any(is);
    for _ in 0..u32::from(is_change) + directories {
        take(WCC_BYTES);
        take(ATTRIBUTES_BYTES);
    }
}

#[test]
fn a_file_that_another_client_cuts_off_gives_short_data() {
    let (server, memory) = server();
    let bytes = pattern(1 << 20, 4);
    make_file(&*memory, b"file", &bytes);
    let silencer = Silencer::new(&server);
    let mount = silencer.mount("rsize=64k&readahead=0");
    let id = mount.lookup("file").unwrap();
    assert!(mount.read_by(&id, 4096).unwrap() == bytes);
    drop(mount);
    let mount = silencer.mount("rsize=64k&readahead=0");
    let opened = mount.open(&id);
    Mount::new(&server, "").truncate(&id, 100_000);
    assert!(mount.read_by(&id, 50_000).unwrap() == bytes[..100_000]);
    drop(opened);
}

#[test]
fn what_is_written_is_there() {
    let (server, _) = server();
    let silencer = Silencer::new(&server);
    let mount = silencer.mount("wsize=16k");
    let id = mount.create("file");
    let mut expected = Vec::new();
    for round in 0..5 {
        let bytes = pattern(50_000, round);
        mount.write(&id, expected.len() as u64, &bytes).unwrap();
        expected.extend_from_slice(&bytes);
        let size = mount.attributes(&id).size;
        assert_eq!(size, expected.len() as u64);
        assert!(mount.read(&id).unwrap() == expected);
        let cut = size - 7000;
        mount.truncate(&id, cut);
        assert_eq!(mount.attributes(&id).size, cut);
        expected.truncate(usize::try_from(cut).unwrap());
        mount.close(&id).unwrap();
        assert!(Mount::new(&server, "").read(&id).unwrap() == expected);
    }
}

#[test]
fn a_mode_that_was_set_is_not_told_as_it_was_before() {
    let (server, _) = server();
    let silencer = Silencer::new(&server);
    let mount = silencer.mount("");
    let id = mount.create("file");
    let mode = |mode, size| SetAttributes {
        mode: Some(mode),
        size,
        ..SetAttributes::default()
    };
    for (number, size) in [(0o600, None), (0o440, Some(10)), (0o640, None)] {
        let wanted = mode(number, size);
        assert_ne!(mount.attributes(&id).mode, number);
        let set = mount
            .filesystem
            .set_attributes(&mount.call(), &id, &wanted, None);
        let after = set.unwrap().after;
        assert!(after.is_none_or(|after| after.mode == number), "{after:?}");
        assert_eq!(mount.attributes(&id).mode, number);
    }
    let create = CreateMode::Guarded(mode(0o604, None));
    let root = mount.root();
    let made = mount
        .filesystem
        .create(&mount.call(), &root, b"new", &create);
    assert_eq!(made.unwrap().entry.attributes.mode, 0o604);
}

#[test]
fn names_that_others_make_beside_ours_are_seen() {
    let (server, _) = server();
    let silencer = Silencer::new(&server);
    let (mount, other) = (silencer.mount(""), Mount::new(&server, ""));
    mount.create("ours");
    assert_eq!(mount.lookup("theirs"), Err(Error::NotFound));
    // Not told: what comes next may be ours, as far as times say.
    let remove = |mount: &Mount, name: &[u8]| {
        let root = mount.root();
        mount.filesystem.remove(&mount.call(), &root, name).unwrap();
    };
    remove(&mount, b"ours");
    let theirs = other.create("theirs");
    assert_eq!(mount.lookup("theirs"), Ok(theirs));
    mount.create("again");
    remove(&mount, b"again");
    remove(&other, b"theirs");
    assert_eq!(mount.lookup("theirs"), Err(Error::NotFound));
}

/// Takes the attributes out of what CREATE and LOOKUP answer that come after the handle, and the
/// handle that CREATE need not tell.
fn silence_entries(record: &mut Vec<u8>, number: u32, tells_handle: bool) {
    let is_create = number == Procedure::Create.number();
    let is_lookup = number == Procedure::Lookup.number();
    // UMNT has the number of LOOKUP, and no results.
    if !(is_create || is_lookup) || record.len() < STATUS_AT + 8 || word(record, STATUS_AT) != 0 {
        return;
    }
    let handle_at = STATUS_AT + 4 + 4 * usize::from(is_create);
    let handle_bytes = word(record, handle_at).next_multiple_of(4) as usize;
    let at = handle_at + 4 + handle_bytes;
    assert_eq!(word(record, at), 1);
    record.drain(at + 4..at + 4 + ATTRIBUTES_BYTES);
    record[at + 3] = 0;
    if is_create && !tells_handle {
        assert_eq!(word(record, handle_at - 4), 1);
        record.drain(handle_at..at);
        record[handle_at - 1] = 0;
    }
}

#[test]
fn a_file_is_cut_off_that_has_become_longer_since_it_was_looked_at() {
    for tells_handle in [true, false] {
        check_cut_off(tells_handle);
    }
}

fn check_cut_off(tells_handle: bool) {
    let (server, _) = server();
    let silence = move |record: &mut Vec<u8>, number| {
        silence_entries(record, number, tells_handle);
    };
    let between = Silencer::with(&server, |_| true, silence);
    let (mount, other) = (between.mount("acregmin=60"), Mount::new(&server, ""));
    let id = other.create("file");
    assert_eq!(mount.lookup("file"), Ok(id));
    assert_eq!(mount.attributes(&id).size, 0);
    other.write(&id, 0, b"theirs").unwrap();
    other.close(&id).unwrap();
    let mode = CreateMode::Unchecked(SetAttributes {
        size: Some(0),
        ..SetAttributes::default()
    });
    let root = mount.root();
    let made = mount
        .filesystem
        .create(&mount.call(), &root, b"file", &mode);
    assert_eq!(made.unwrap().entry.attributes.size, 0);
    assert_eq!(Mount::new(&server, "").attributes(&id).size, 0);
}
