//! Clients that send more than can be done. Memory is bounded, others are served.

use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

use pagewell_fs::Result;

use pagewell_sunrpc::nfs3::{Procedure, ReadArguments, StableHow, Status, WriteArguments};

use crate::client::{Client, User, encoded, marked, next_xid};
use crate::fixture::{connect, export, ram, serve_with};
use crate::layer::{Event, Hook, Layer, Stalls};
use crate::operations::{data, entry, handle, removed, written};
use crate::process::Process;

const WRITES: usize = 2000;
const WRITE_BYTES: usize = 1 << 20;

/// What the server may take for requests: its budget, and some for what surrounds them.
const GROWTH_BYTES_MAX: u64 = (24 << 20) + (16 << 20);

/// The stream of a WRITE of 1 MiB.
fn write_record(client: &Client, xid: u32, file: &[u8], content: &[u8]) -> Vec<u8> {
    let arguments = encoded(&WriteArguments {
        file: handle(file),
        offset: 0,
        count: content.len() as u32,
        stable: StableHow::Unstable,
        data: content,
    });
    marked(&client.record(xid, Procedure::Write, &arguments))
}

/// Sends the same call again and again, each time with another identifier.
fn flood(mut stream: TcpStream, mut record: Vec<u8>, xids: &[u32]) {
    for xid in xids {
        record[4..8].copy_from_slice(&xid.to_be_bytes());
        stream.write_all(&record).unwrap();
    }
}

/// 2,000 WRITEs of 1 MiB sent at once to storage that stands still: the server takes
/// as many as its budget and lets TCP hold the rest; other clients are served all the while; when
/// storage goes on, all are answered.
#[test]
fn two_thousand_writes_at_once_stay_within_the_memory_budget() {
    let mut server = Process::of_stalled_writes();
    let (mut client, root) = server.client();
    let file = client.make_file(&root, b"file", b"");
    let (mut other, _) = server.client();
    other.check_usable();
    let before = server.resident_bytes();
    let content = vec![7; WRITE_BYTES];
    let xids: Vec<u32> = (0..WRITES).map(|_| next_xid()).collect();
    let record = write_record(&client, 0, &file, &content);
    let sender = client.sender();
    std::thread::scope(|scope| {
        let flooding = scope.spawn(|| flood(sender, record, &xids));
        for _ in 0..200 {
            other.lookup(&root, b"file").unwrap();
        }
        let grown = server.resident_bytes().saturating_sub(before);
        assert!(
            grown < GROWTH_BYTES_MAX,
            "{grown} bytes while it stood still"
        );
        assert!(!flooding.is_finished(), "nothing held the sender back");
        server.release();
        for (number, xid) in xids.iter().enumerate() {
            let answer = client.finish(*xid);
            let written = written(&answer, StableHow::Unstable).unwrap();
            assert_eq!(written.count as usize, WRITE_BYTES);
            if number % 100 == 0 {
                assert_eq!(other.getattr(&file).unwrap().size as usize, WRITE_BYTES);
                let grown = server.resident_bytes().saturating_sub(before);
                assert!(grown < GROWTH_BYTES_MAX, "{grown} bytes in the flood");
            }
        }
        flooding.join().unwrap();
    });
}

/// The budget is one for all connections, and each of them gets its turn.
#[test]
fn many_connections_share_one_budget_and_all_are_served() {
    let mut server = Process::of_stalled_writes();
    let (mut client, root) = server.client();
    let file = client.make_file(&root, b"file", b"");
    let before = server.resident_bytes();
    let content = vec![7; WRITE_BYTES];
    let mut writers: Vec<(Client, Vec<u32>)> = (0..30)
        .map(|_| {
            let xids = (0..4).map(|_| next_xid()).collect();
            (Client::connect(server.address, User::root()), xids)
        })
        .collect();
    std::thread::scope(|scope| {
        for (writer, xids) in &writers {
            let record = write_record(writer, 0, &file, &content);
            let (sender, xids) = (writer.sender(), xids.clone());
            scope.spawn(move || flood(sender, record, &xids));
        }
        for _ in 0..200 {
            client.lookup(&root, b"file").unwrap();
        }
        let grown = server.resident_bytes().saturating_sub(before);
        assert!(grown < GROWTH_BYTES_MAX, "{grown} bytes");
        server.release();
        for (writer, xids) in &mut writers {
            for xid in xids.iter() {
                written(&writer.finish(*xid), StableHow::Unstable).unwrap();
            }
        }
    });
}

/// Removes at a leisurely pace, so that calls pile up.
struct Slow;

impl Hook for Slow {
    fn before(&self, event: &Event<'_>) -> Result<()> {
        if event.operation == "remove" {
            std::thread::sleep(Duration::from_micros(100));
        }
        Ok(())
    }
}

/// A client with more small calls under way than are taken at once is read again as
/// soon as some are done, every time.
#[test]
fn a_client_that_was_held_back_is_read_again() {
    let (layer, _) = Layer::new(ram(), Slow);
    let server = serve_with(vec![export("/", layer)], |_| {});
    for _ in 0..3 {
        let (mut client, root) = connect(&server);
        let xids: Vec<u32> = (0..20_000).map(|_| next_xid()).collect();
        let object = entry(&root, b"none");
        let record = client.record(0, Procedure::Remove, &encoded(&object));
        let sender = client.sender();
        std::thread::scope(|scope| {
            scope.spawn(|| flood(sender, marked(&record), &xids));
            for xid in &xids {
                let status = removed(&client.finish(*xid)).unwrap_err();
                assert_eq!(status, Status::NotFound);
            }
        });
    }
}

/// A connection that waits for memory is served when memory is free again, also when
/// others that waited before it have been called for nothing or have gone away.
#[test]
fn whoever_waits_for_memory_gets_it() {
    let (layer, stalls) = Layer::new(ram(), Stalls::at(&["write"]));
    let server = serve_with(vec![export("/", layer)], |config| config.threads = 32);
    let (mut client, root) = connect(&server);
    let file = client.make_file(&root, b"file", b"");
    let new_client = || Client::connect(server.address(), User::root());
    let content = vec![7; WRITE_BYTES];
    let mut holders: Vec<(Client, Vec<u32>)> = (0..4)
        .map(|_| (new_client(), (0..6).map(|_| next_xid()).collect()))
        .collect();
    let mut last = new_client();
    let last_xid = next_xid();
    std::thread::scope(|scope| {
        for (holder, xids) in &holders {
            let record = write_record(holder, 0, &file, &content);
            let (sender, xids) = (holder.sender(), xids.clone());
            scope.spawn(move || flood(sender, record, &xids));
        }
        // With what arrives behind them they are all that one export may have.
        stalls.gate.wait_for(9);
        // One sends its record in many packets, each of which makes the server look again.
        let mut restless = new_client();
        let restless_xid = next_xid();
        let record = write_record(&restless, restless_xid, &file, &content);
        for piece in record[..100_000].chunks(1000) {
            restless.send(piece);
            client.check_usable();
        }
        // Some give up while they wait.
        for _ in 0..20 {
            let mut gone = new_client();
            gone.send(&record[..50_000]);
            client.check_usable();
        }
        let record_of_last = write_record(&last, 0, &file, &content);
        let sender = last.sender();
        scope.spawn(move || flood(sender, record_of_last, &[last_xid]));
        for _ in 0..200 {
            client.check_usable();
        }
        stalls.gate.open();
        for (holder, xids) in &mut holders {
            for xid in xids.iter() {
                written(&holder.finish(*xid), StableHow::Unstable).unwrap();
            }
        }
        written(&last.finish(last_xid), StableHow::Unstable).unwrap();
        restless.send(&record[100_000..]);
        written(&restless.finish(restless_xid), StableHow::Unstable).unwrap();
    });
}

/// A client that asks for much and reads nothing keeps no more than a few replies in
/// the server, and others are served.
#[test]
fn a_client_that_does_not_read_its_replies_is_bounded() {
    let mut server = Process::of_stalled_writes();
    server.release();
    let (mut client, root) = server.client();
    let file = client.make_file(&root, b"file", &vec![7; WRITE_BYTES]);
    let mut deaf: Vec<Client> = (0..8)
        .map(|_| Client::connect(server.address, User::root()))
        .collect();
    let before = server.resident_bytes();
    let arguments = ReadArguments {
        file: handle(&file),
        offset: 0,
        count: WRITE_BYTES as u32,
    };
    let mut xids = Vec::new();
    for client in &mut deaf {
        let started = (0..100).map(|_| client.start(Procedure::Read, &arguments));
        xids.push(started.collect::<Vec<u32>>());
    }
    for _ in 0..100 {
        assert_eq!(client.read(&file, 0, 10).unwrap().bytes, [7; 10]);
    }
    let grown = server.resident_bytes().saturating_sub(before);
    assert!(grown < GROWTH_BYTES_MAX, "{grown} bytes of replies");
    for (client, xids) in deaf.iter_mut().zip(xids) {
        for xid in xids {
            assert_eq!(data(&client.finish(xid)).unwrap().bytes.len(), WRITE_BYTES);
        }
    }
}
