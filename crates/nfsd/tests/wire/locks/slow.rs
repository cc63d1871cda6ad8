//! Locks in an export whose storage is stalled do not delay other exports.

use std::net::UdpSocket;
use std::sync::Arc;
use std::time::Duration;

use pagewell_nfsd::Server;
use pagewell_sunrpc::nlm4::{self, Procedure, Status};

use super::NOBODY;
use super::program::{Program, WRITE};
use crate::client::{User, call_record, next_xid};
use crate::fixture::{connect, export, ram, serve_with};
use crate::layer::{Layer, Stalls, make_file};
use crate::operations::FileHandle;

const THREADS: usize = 2;

/// A server with an export in which every call waits, and asking for permission never ends; and
/// with one in which every call waits for a moment.
struct Served {
    server: Server,
    stalls: Arc<Stalls>,
    slow: FileHandle,
    quick: FileHandle,
}

impl Served {
    fn new() -> Self {
        let (slow, stalls) = Layer::new(ram(), Stalls::at(&["access"]));
        let (quick, _) = Layer::new(ram(), Stalls::at(&[]));
        for storage in [&slow.inner, &quick.inner] {
            make_file(&**storage, b"file", b"");
        }
        let exports = vec![export("/slow", slow), export("/quick", quick)];
        let server = serve_with(exports, |config| {
            config.threads = THREADS;
            config.slow_after = Duration::from_millis(250);
            config.locks.port_mapper = NOBODY;
            config.locks.datagrams = true;
        });
        let (mut client, _) = connect(&server);
        let mut file = |path: &[u8]| {
            let root = client.mount(path).unwrap();
            client.lookup(&root, b"file").unwrap().handle
        };
        let (slow, quick) = (file(b"/slow"), file(b"/quick"));
        Self {
            server,
            stalls,
            slow,
            quick,
        }
    }

    fn program(&self, process: i32, file: &[u8]) -> Program {
        Program::new(self.server.address(), "anna", process, file)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.stalls.gate.open();
    }
}

#[test]
fn locks_by_datagrams_do_not_wait_for_another_export() {
    let served = Served::new();
    let socket = UdpSocket::bind(("127.0.0.1", 0)).unwrap();
    let mut buffer = [0; 1024];
    let lock = |process, file| {
        let program = served.program(process, file);
        let arguments = program.lock_arguments(WRITE, (0, 1), (false, false));
        let target = (nlm4::PROGRAM, nlm4::VERSION, Procedure::Lock.number());
        let record = call_record(next_xid(), target, &User::root(), &arguments);
        socket.send_to(&record, served.server.address()).unwrap();
    };
    lock(0, &served.slow);
    served.stalls.gate.wait_for(1);
    for process in 1..400 {
        lock(process, &served.slow);
    }
    // Some of so many are lost on the way; clients ask again.
    let timeout = Some(Duration::from_secs(1));
    socket.set_read_timeout(timeout).unwrap();
    let answered = (0..120).any(|_| {
        lock(1, &served.quick);
        socket.recv(&mut buffer).is_ok()
    });
    assert!(answered);
}

#[test]
fn locks_and_mounts_do_not_wait_for_another_export() {
    let served = Served::new();
    let mut waiting: Vec<Program> = Vec::new();
    for process in 0..16 * THREADS as i32 {
        let mut program = served.program(process, &served.slow);
        let arguments = program.lock_arguments(WRITE, (0, 1), (false, false));
        let target = (nlm4::PROGRAM, nlm4::VERSION, Procedure::Lock.number());
        program.client.start_call(target, &arguments);
        waiting.push(program);
    }
    served.stalls.gate.wait_for(THREADS);
    let mut program = served.program(1, &served.quick);
    assert_eq!(program.lock(WRITE, (0, 1)), Status::Granted);
    let missing = program.client.mount(b"/quick/missing");
    assert!(missing.is_err());
    // What was not begun is asked for again, as after a restart.
    let mut late = served.program(1, &served.slow);
    assert_eq!(late.lock(WRITE, (0, 1)), Status::GracePeriod);
}
