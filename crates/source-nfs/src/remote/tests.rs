use std::net::TcpListener;
use std::sync::mpsc;
use std::time::Duration;

use pagewell_device::{Buffer, Issuer, Outcome};
use pagewell_fs::FileId;
use pagewell_sunrpc::client::{Client, Options};

use super::*;
use crate::regions::{Region, SLOT_BITS};
use crate::url::Url;

#[test]
fn pieces_are_as_long_as_one_call_takes() {
    assert_eq!(pieces(300, 100), [100, 100, 100]);
    assert_eq!(pieces(301, 100), [100, 100, 100, 1]);
    assert_eq!(pieces(1, 100), [1]);
    assert!(pieces(0, 100).is_empty());
}

/// A device of three files, side by side in the address space and a thousand bytes long each, at a
/// server that takes connections and never answers.
struct Rig {
    device: RemoteDevice,
    regions: Vec<Region>,
    _server: TcpListener,
}

impl Rig {
    fn new() -> Self {
        let server = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let options = Options::new("nobody", vec![server.local_addr().unwrap()]);
        let client = Client::connect(100_003, 3, options).unwrap();
        let calls = Calls::new(client, &Url::parse("nfs://nobody/").unwrap(), 1);
        let files = Arc::new(Files::new(100, 10));
        let region = |name: &[u8]| {
            let node = files.node(&FileId::new(name).unwrap());
            node.lock().length.reported(1000);
            files.take_region(&node, 1000).unwrap()
        };
        let regions = [b"a", b"b", b"c"].map(|name| region(name)).to_vec();
        let remote = Arc::new(Remote {
            calls: Arc::new(calls),
            files,
            deferred: OnceLock::new(),
            read_bytes: 1 << 16,
            write_bytes: 1 << 16,
            nobody: EncodedCredential::of_process(),
            lacks_commit: AtomicBool::new(false),
        });
        Self {
            device: RemoteDevice(remote),
            regions,
            _server: server,
        }
    }

    /// What becomes at once of a request, and of its memory; nothing when it went to the server.
    fn ask(&self, operation: Operation, offset: u64, length: usize) -> Option<(Outcome, Vec<u8>)> {
        let mut buffer = Buffer::new(length, 1);
        buffer.fill(0xee);
        let (sender, receiver) = mpsc::channel();
        let request = Request::owned(
            operation,
            offset,
            buffer,
            Issuer::ReadAhead,
            move |outcome, buffer| drop(sender.send((outcome, buffer.to_vec()))),
        );
        self.device.submit(request);
        receiver.try_recv().ok()
    }
}

#[test]
fn bytes_without_an_owner_are_an_error_and_never_zeros() {
    let rig = Rig::new();
    let slot = 1u64 << SLOT_BITS;
    let [first, second, third] = [0, 1, 2].map(|index| rig.regions[index].start());
    assert_eq!((second, third), (first + slot, second + slot));
    for (offset, length) in [
        // Before the beginning of a file, and over it.
        (second - 4096, 4096),
        (second - 4096, 8192),
        (second - 1, 2),
        (third - (1 << 20), 1 << 20),
        // At the end of what a file may come to.
        (first + rig.regions[0].capacity(), 4096),
        (first + rig.regions[0].capacity() - 4096, 8192),
        // Where no file is.
        (third + slot, 4096),
        (third + 7 * slot, 1),
        (SPACE_BYTES - 4096, 4096),
    ] {
        for operation in [Operation::Read, Operation::Write] {
            let (outcome, memory) = rig.ask(operation, offset, length).unwrap();
            assert!(
                outcome.result.is_err(),
                "{operation:?} {length} at {offset}"
            );
            assert_eq!(outcome.transferred_bytes, 0);
            assert!(
                memory.iter().all(|byte| *byte == 0xee),
                "{length} at {offset}"
            );
        }
    }
}

#[test]
fn bytes_of_a_file_are_asked_for_and_those_behind_its_end_are_zeros() {
    let rig = Rig::new();
    let second = rig.regions[1].start();
    assert!(rig.ask(Operation::Read, second, 1000).is_none());
    assert!(rig.ask(Operation::Read, second + 999, 1).is_none());
    let (outcome, memory) = rig.ask(Operation::Read, second + 4096, 4096).unwrap();
    assert!(outcome.result.is_ok());
    assert_eq!(memory, [0; 4096]);
    rig.device.0.calls.end();
}

#[test]
fn what_waits_for_a_pause_ends_with_the_mount() {
    let rig = Rig::new();
    let remote = &rig.device.0;
    let (sender, receiver) = mpsc::channel();
    let add = |pause, number| {
        let sender = sender.clone();
        remote.after(pause, move |_| sender.send(number).unwrap());
    };
    add(Duration::from_secs(1000), 'b');
    add(Duration::ZERO, 'a');
    assert_eq!(receiver.recv(), Ok('a'));
    remote.end();
    assert_eq!(receiver.recv(), Ok('b'));
}
