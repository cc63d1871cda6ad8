//! A client machine that can be called: its port mapper, lock manager and status monitor, all on
//! one port.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use pagewell_sunrpc::nlm4::{self, Reply, Status, TestArguments};
use pagewell_sunrpc::portmap;
use pagewell_sunrpc::rpc::{encode_success, parse_call};
use pagewell_sunrpc::xdr::{Decode, Decoder, Encode, Encoder};

use crate::client::marked;

/// A call takes no longer on any machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A program, a procedure of it, and the arguments.
pub(super) type Called = (u32, u32, Vec<u8>);

pub(super) struct Peer {
    pub(super) port: u16,
    calls: Receiver<Called>,
}

impl Peer {
    /// A machine that answers `granted` when it is given a lock.
    pub(super) fn new(granted: Status) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let (sender, calls) = channel();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let sender = sender.clone();
                std::thread::spawn(move || answer_all(stream.unwrap(), port, granted, &sender));
            }
        });
        Self { port, calls }
    }

    /// The next call of a lock manager or status monitor.
    pub(super) fn next(&self) -> Called {
        self.calls.recv_timeout(PATIENCE).expect("to be called")
    }
}

fn answer_all(mut stream: TcpStream, port: u16, granted: Status, calls: &Sender<Called>) {
    let mut mark = [0; 4];
    while stream.read_exact(&mut mark).is_ok() {
        let length = u32::from_be_bytes(mark) & 0x7fff_ffff;
        let mut record = vec![0; length as usize];
        stream.read_exact(&mut record).unwrap();
        let (call, arguments) = parse_call(&record).unwrap();
        let mut reply = Vec::new();
        let mut encoder = Encoder::new(&mut reply);
        encode_success(&mut encoder, call.xid);
        if call.program == portmap::PROGRAM {
            assert_eq!(call.procedure, portmap::Procedure::Getport.number());
            encoder.u32(u32::from(port));
        } else {
            let body = arguments.rest();
            let is_granted = call.procedure == nlm4::Procedure::Granted.number();
            if call.program == nlm4::PROGRAM && is_granted {
                let given = TestArguments::decode(&mut Decoder::new(body)).unwrap();
                let cookie = given.cookie;
                let status = granted;
                Reply { cookie, status }.encode(&mut encoder);
            }
            let _ = calls.send((call.program, call.procedure, body.to_vec()));
        }
        stream.write_all(&marked(&reply)).unwrap();
    }
}
