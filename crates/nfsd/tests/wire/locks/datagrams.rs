//! Locks that are asked for by datagrams.

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use pagewell_sunrpc::nlm4::{self, Procedure, Reply, Status};
use pagewell_sunrpc::rpc::parse_reply;
use pagewell_sunrpc::xdr::Decode;

use super::Served;
use super::program::{Program, READ, WRITE};
use crate::client::{User, call_record, next_xid};

/// A socket that takes datagrams from `server` alone.
fn connected(server: SocketAddr) -> UdpSocket {
    let here = if server.is_ipv4() {
        "127.0.0.1:0"
    } else {
        "[::1]:0"
    };
    let socket = UdpSocket::bind(here).unwrap();
    let patience = Some(Duration::from_secs(60));
    socket.set_read_timeout(patience).unwrap();
    socket.connect(server).unwrap();
    socket
}

fn lock(socket: &UdpSocket, program: &Program, (exclusive, range): (bool, (u64, u64))) -> Status {
    let arguments = program.lock_arguments(exclusive, range, (false, false));
    let target = (nlm4::PROGRAM, nlm4::VERSION, Procedure::Lock.number());
    let record = call_record(next_xid(), target, &User::root(), &arguments);
    socket.send(&record).unwrap();
    let mut buffer = [0; 1024];
    let length = socket.recv(&mut buffer).unwrap();
    let (_, mut results) = parse_reply(&buffer[..length]).unwrap();
    Reply::decode(&mut results).unwrap().status
}

#[test]
fn datagrams_are_answered_too() {
    let served = Served::new(|config| config.locks.datagrams = true);
    let socket = connected(served.address);
    let [one, two] = [served.program("anna", 1), served.program("anna", 2)];
    assert_eq!(lock(&socket, &one, (WRITE, (0, 10))), Status::Granted);
    assert_eq!(lock(&socket, &two, (WRITE, (5, 10))), Status::Denied);
    assert_eq!(served.program("bert", 1).lock(READ, (9, 1)), Status::Denied);
    // Nothing but locks is to be had that way.
    let record = call_record(next_xid(), (100_003, 3, 0), &User::root(), &[]);
    socket.send(&record).unwrap();
    let mut buffer = [0; 1024];
    let length = socket.recv(&mut buffer).unwrap();
    assert!(parse_reply(&buffer[..length]).is_err());
}

/// Of several addresses of the server a client knows the one that it asked: it takes answers from
/// there, and gets its restart notice from there and under that name.
#[test]
fn datagrams_are_answered_from_the_address_that_was_asked() {
    let folder = tempfile::tempdir().unwrap();
    let four = ("0.0.0.0:0", &["127.0.0.5", "127.0.0.1"][..]);
    let both = ("[::]:0", &["127.0.0.6", "::1"][..]);
    for (listen, addresses) in [four, both] {
        if listen == both.0 && UdpSocket::bind("[::1]:0").is_err() {
            pagewell_skip::skip("needs IPv6");
            continue;
        }
        for asked in addresses {
            let records = folder.path().join(asked);
            let served = Served::new(|config| {
                config.listen = listen.parse().unwrap();
                config.locks.datagrams = true;
                config.locks.records = Some(records.clone());
            });
            let server = SocketAddr::new(asked.parse().unwrap(), served.address.port());
            let program = served.program("anna", 1);
            let granted = lock(&connected(server), &program, (WRITE, (0, 0)));
            assert_eq!(granted, Status::Granted, "{listen} {asked}");
            let listed = std::fs::read_to_string(&records).unwrap();
            let known = format!(" {asked} ");
            assert!(listed.contains(&known), "{listed} lacks {known}");
        }
    }
}
