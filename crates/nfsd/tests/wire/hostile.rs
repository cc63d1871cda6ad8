//! Clients that send nonsense, or nothing, or one byte at a time.

use std::net::TcpStream;

use pagewell_sunrpc::nfs3::{Procedure, Status};

use crate::client::{Client, User, encoded, marked, next_xid};
use crate::every_call::{every_call, status_of};
use crate::fixture::{Fixture, Kind, connect, export, ram, serve_with};
use crate::operations::handle;
use crate::process::Process;

/// A record cut anywhere, before the end of the connection: nothing is done, other clients go on.
#[test]
fn records_that_end_early_do_nothing() {
    let server = Process::of_ram();
    let (mut client, root) = server.client();
    for call in every_call(&root) {
        let record = marked(&client.record(next_xid(), call.procedure, &call.arguments));
        for length in (0..record.len()).step_by(3) {
            let mut cut = Client::connect(server.address, User::root());
            cut.send(&record[..length]);
        }
        client.check_usable();
    }
    assert_eq!(client.list(&root).len(), 2, "only . and ..");
}

/// A client that ends its side after its calls still gets its replies.
#[test]
fn replies_come_after_the_client_has_ended_its_side() {
    let fixture = Fixture::new(Kind::Ram);
    let (mut client, root) = fixture.client();
    let xids: Vec<u32> = (0..50)
        .map(|_| client.start_raw(Procedure::Getattr, &encoded(&handle(&root))))
        .collect();
    client.end_sending();
    for xid in xids {
        let status = status_of(Procedure::Getattr, &client.finish(xid));
        assert_eq!(status, Status::Ok);
    }
    assert!(client.try_next_answer().is_none());
}

/// One byte at a time is slow, not wrong; others are served between any two bytes.
#[test]
fn a_record_may_come_one_byte_at_a_time() {
    let fixture = Fixture::new(Kind::Ram);
    let (mut client, root) = fixture.client();
    let (mut other, _) = fixture.client();
    let xids = [next_xid(), next_xid()];
    for xid in xids {
        let record = client.record(xid, Procedure::Getattr, &encoded(&handle(&root)));
        for byte in marked(&record) {
            client.send(&[byte]);
            other.check_usable();
        }
    }
    for xid in xids {
        let status = status_of(Procedure::Getattr, &client.finish(xid));
        assert_eq!(status, Status::Ok);
    }
}

/// Two hundred connections at once, most of them silent or in the middle of a record.
#[test]
fn two_hundred_connections_are_served() {
    let server = Process::of_ram();
    let (mut client, root) = server.client();
    let before = server.resident_bytes();
    let mut clients: Vec<Client> = (0..200)
        .map(|_| Client::connect(server.address, User::root()))
        .collect();
    for half_open in clients.iter_mut().step_by(2) {
        let record = half_open.record(next_xid(), Procedure::Getattr, &encoded(&handle(&root)));
        half_open.send(&marked(&record)[..30]);
    }
    for other in clients.iter_mut().skip(1).step_by(2) {
        assert_eq!(other.lookup(&root, b".").unwrap().handle, root);
    }
    client.check_usable();
    let grown = server.resident_bytes().saturating_sub(before);
    assert!(grown < 16 << 20, "{grown} bytes for 200 connections");
    drop(clients);
    client.check_usable();
}

/// One connection too many is closed at once; when another one ends, there is room again.
#[test]
fn connections_over_the_limit_are_closed() {
    let server = serve_with(vec![export("/", ram())], |config| {
        config.connections_max = 3
    });
    let mut clients = Vec::new();
    for _ in 0..3 {
        clients.push(connect(&server).0);
    }
    let mut over = Client::connect(server.address(), User::root());
    assert!(over.try_next_answer().is_none());
    for client in &mut clients {
        client.check_usable();
    }
    clients.pop();
    loop {
        let mut again = Client::connect(server.address(), User::root());
        let record = again.record(next_xid(), Procedure::Null, &[]);
        if again.try_send(&marked(&record)) && again.try_next_answer().is_some() {
            break;
        }
    }
}

/// Connections that come and go leave nothing behind.
#[test]
fn connections_that_come_and_go_take_no_memory() {
    let server = Process::of_ram();
    let (mut client, root) = server.client();
    let churn = |count: usize| {
        for number in 0..count {
            let mut stream = Client::connect(server.address, User::root());
            match number % 4 {
                0 => stream.check_usable(),
                1 => stream.send(&[0x80, 0, 0]),
                2 => stream.send(&[0x80, 0x10, 0, 0, 1, 2, 3]),
                _ => drop(TcpStream::connect(server.address).unwrap()),
            }
        }
    };
    churn(400);
    client.lookup(&root, b".").unwrap();
    let before = server.resident_bytes();
    churn(2000);
    client.lookup(&root, b".").unwrap();
    let grown = server.resident_bytes().saturating_sub(before);
    assert!(grown < 3 << 20, "{grown} bytes left behind");
}

/// Random bytes on a thousand connections: the server lives and its memory does not grow.
#[test]
fn random_bytes_are_survived() {
    let server = Process::of_ram();
    let (mut client, root) = server.client();
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random
    };
    let calls = every_call(&root);
    let mut resident = 0;
    for round in 0..600 {
        let mut hostile = Client::connect(server.address, User::root());
        let call = &calls[next() as usize % calls.len()];
        let mut bytes = marked(&client.record(next_xid(), call.procedure, &call.arguments));
        for _ in 0..1 + next() % 8 {
            let at = next() as usize % bytes.len();
            bytes[at] = next() as u8;
        }
        // The server may close the connection before all is sent.
        hostile.try_send(&bytes);
        hostile.try_send(&bytes);
        if round == 100 {
            client.check_usable();
            resident = server.resident_bytes();
        }
    }
    assert_eq!(client.lookup(&root, b".").unwrap().handle, root);
    let grown = server.resident_bytes().saturating_sub(resident);
    assert!(grown < 4 << 20, "{grown} bytes");
}
