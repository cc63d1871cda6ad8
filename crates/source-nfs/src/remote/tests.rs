use std::net::TcpListener;
use std::sync::mpsc;
use std::time::Duration;

use pagewell_device::{Buffer, Issuer, Outcome};
use pagewell_fs::FileId;

use super::*;
use crate::testing::calls;

#[test]
fn pieces_are_as_long_as_one_call_takes() {
    assert_eq!(pieces(300, 100), [100, 100, 100]);
    assert_eq!(pieces(301, 100), [100, 100, 100, 1]);
    assert_eq!(pieces(1, 100), [1]);
    assert!(pieces(0, 100).is_empty());
}

/// A file of a thousand bytes, at a server that takes connections and never answers.
struct Rig {
    remote: Arc<Remote>,
    node: Arc<Node>,
    _server: TcpListener,
}

impl Rig {
    fn new() -> Self {
        let (calls, server) = calls();
        let node = Arc::new(Node::new(FileId::new(b"a").unwrap(), 1));
        node.lock().length_mut().reported(1000);
        let files = Arc::new(Files::new(calls.clone(), 100));
        let remote = Arc::new(Remote::new(calls, files, (1 << 16, 1 << 16), None));
        Self {
            remote,
            node,
            _server: server,
        }
    }

    /// What becomes at once of a read, and of its memory; nothing when it went to the server.
    fn read(&self, offset: u64, length: usize) -> Option<(Outcome, Vec<u8>)> {
        let mut buffer = Buffer::new(length, 1);
        buffer.fill(0xee);
        let (sender, receiver) = mpsc::channel();
        let request = Request::owned(
            Operation::Read,
            offset,
            buffer,
            Issuer::ReadAhead,
            move |outcome, buffer| drop(sender.send((outcome, buffer.to_vec()))),
        );
        RemoteFile::new(&self.remote, &self.node).submit(request);
        receiver.try_recv().ok()
    }
}

#[test]
fn bytes_of_a_file_are_asked_for_and_those_behind_its_end_are_zeros() {
    let mut rig = Rig::new();
    assert!(rig.read(0, 1000).is_none());
    assert!(rig.read(999, 1).is_none());
    for offset in [4096, 1 << 45] {
        let (outcome, memory) = rig.read(offset, 4096).unwrap();
        assert!(outcome.result.is_ok());
        assert_eq!(memory, [0; 4096]);
    }
    // Of a file that is known no more nothing is said: zeros would be taken for its bytes.
    rig.remote.calls.end();
    rig.node = Arc::new(Node::new(FileId::new(b"b").unwrap(), 2));
    let (outcome, memory) = rig.read(4096, 4096).unwrap();
    assert!(matches!(outcome.result, Err(DeviceError::Abandoned { .. })));
    assert_eq!(memory, [0xee; 4096]);
}

#[test]
fn what_waits_for_a_pause_ends_with_the_mount() {
    let rig = Rig::new();
    let remote = &rig.remote;
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
