//! Limits of calls and bytes a second, with rates at which a wait would outlast the test: what goes
//! on need not wait. Clients differ by their addresses of loopback.

use std::net::IpAddr;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pagewell_counters::served::Client as Seen;
use pagewell_fs::{Error, FileSystem, Result};
use pagewell_nfsd::clients::CLIENTS;
use pagewell_nfsd::{Rates, Server};
use pagewell_sunrpc::nfs3::{GetattrReply, Procedure, ReadArguments, StableHow, WriteArguments};

use crate::client::{Answer, Client, User};
use crate::fixture::{export, ram, serve, serve_with};
use crate::layer::{Event, Hook, Layer, Stalls, make_file};
use crate::operations::{FileHandle, handle};

/// A last resort: nothing here waits as long.
const PATIENCE: Duration = Duration::from_secs(120);

/// Bytes that a READ of the file pays.
const FILE_BYTES: u32 = 1 << 20;

fn bytes(rate: u64) -> Rates {
    Rates {
        bytes: NonZeroU64::new(rate),
        ..Rates::default()
    }
}

fn with_file() -> Arc<dyn FileSystem> {
    let filesystem = ram();
    make_file(&*filesystem, b"file", &vec![1; FILE_BYTES as usize]);
    filesystem
}

/// A client at this address, and the file of an export.
fn client(from: [u8; 4], server: &Server, export: &[u8]) -> (Client, FileHandle) {
    let mut client = Client::connect_from(from, server.address(), User::root());
    let root = client.mount(export).unwrap();
    let file = client.lookup(&root, b"file").unwrap().handle;
    (client, file)
}

fn seen(address: [u8; 4]) -> Seen {
    let all = CLIENTS.list(Instant::now());
    let is_it = |client: &Seen| client.address == IpAddr::from(address);
    all.into_iter().find(is_it).expect("it has connected")
}

/// Sends a call that is not answered before its time; the server knows that it waits.
fn start_late(address: [u8; 4], client: &mut Client, file: &FileHandle) -> u32 {
    let xid = client.start(Procedure::Getattr, &handle(file));
    wait_for(address, 1);
    xid
}

/// Waits until so many connections of a client wait.
fn wait_for(address: [u8; 4], connections: usize) {
    let begun = Instant::now();
    while seen(address).limited_connections != connections {
        assert!(begun.elapsed() < PATIENCE, "{:?}", seen(address));
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn is_ok(answer: &Answer) -> bool {
    let reply: GetattrReply = answer.decode();
    reply.is_ok()
}

/// A client that has had more than it may waits, by itself, until its limit is gone.
#[test]
fn a_client_over_its_limit_waits_alone() {
    let server = serve(vec![export("/", with_file())]);
    let (one, two) = ([127, 90, 0, 1], [127, 90, 0, 2]);
    let (mut slow, file) = client(one, &server, b"/");
    let (mut second, _) = client(one, &server, b"/");
    let (mut other, _) = client(two, &server, b"/");
    server.exports().limit_clients(bytes(10_000));
    // A hundred seconds' worth.
    let read = slow.read(&file, 0, FILE_BYTES).unwrap();
    assert_eq!(read.bytes.len(), FILE_BYTES as usize);
    let late = start_late(one, &mut slow, &file);
    // Not paid for on this connection, but by this client.
    let second_late = second.start(Procedure::Getattr, &handle(&file));
    wait_for(one, 2);
    for _ in 0..3 {
        other.getattr(&file).unwrap();
    }
    let (seen_one, seen_two) = (seen(one), seen(two));
    assert_eq!((seen_one.limited_connections, seen_one.limit_waits), (2, 2));
    assert_eq!((seen_two.limited_connections, seen_two.limit_waits), (0, 0));
    server.exports().limit_clients(Rates::default());
    assert!(is_ok(&slow.finish(late)) && is_ok(&second.finish(second_late)));
    for _ in 0..100 {
        slow.getattr(&file).unwrap();
    }
    assert_eq!(seen(one).limited_connections, 0);
}

/// An export at its limit has its clients wait, those of others do not, and a change of the limit
/// frees what waits.
#[test]
fn an_export_at_its_limit_leaves_others_alone() {
    let (limited, free) = (with_file(), with_file());
    let exports = |rates| {
        let mut first = export("/a", limited.clone());
        first.limits = rates;
        vec![first, export("/b", free.clone())]
    };
    let server = serve(exports(Rates::default()));
    let (one, two) = ([127, 91, 0, 1], [127, 91, 0, 2]);
    let (mut slow, file) = client(one, &server, b"/a");
    let (mut other, other_file) = client(two, &server, b"/b");
    let limit = |rates| assert!(server.exports().replace(exports(rates)).unwrap().is_empty());
    limit(bytes(10_000));
    slow.read(&file, 0, FILE_BYTES).unwrap();
    let late = start_late(one, &mut slow, &file);
    for _ in 0..100 {
        other.getattr(&other_file).unwrap();
    }
    assert_eq!(seen(two).limit_waits, 0);
    assert_eq!(seen(one).limited_connections, 1, "it still waits");
    limit(bytes(10_001));
    assert!(is_ok(&slow.finish(late)), "what it owed is forgiven");
}

/// A call that goes to the pool pays for the longest reply before there is one, and has back what
/// that was too much.
#[test]
fn calls_of_the_pool_pay_in_advance() {
    let storage = ram();
    let id = make_file(&*storage, b"file", b"content");
    let (layer, stalls) = Layer::new(storage, Stalls::at(&["read"]));
    let server = serve(vec![export("/", layer)]);
    let address = [127, 92, 0, 1];
    let (mut slow, file) = client(address, &server, b"/");
    stalls.objects.lock().insert(id);
    server.exports().limit_clients(bytes(10_000));
    let arguments = ReadArguments {
        file: handle(&file),
        offset: 0,
        count: FILE_BYTES,
    };
    let read = slow.start(Procedure::Read, &arguments);
    stalls.gate.wait_for(1);
    let late = start_late(address, &mut slow, &file);
    stalls.gate.open();
    let answer = slow.finish(read);
    assert_eq!(crate::operations::data(&answer).unwrap().bytes, b"content");
    assert!(is_ok(&slow.finish(late)));
    assert_eq!(seen(address).limit_waits, 1);
}

/// A call that is dropped because its connection is closed has all back.
#[test]
fn calls_that_are_dropped_pay_for_no_reply() {
    let storage = ram();
    let id = make_file(&*storage, b"file", b"content");
    let (layer, stalls) = Layer::new(storage, Stalls::at(&["read"]));
    let server = serve_with(vec![export("/", layer)], |config| config.threads = 1);
    let (one, two) = ([127, 95, 0, 1], [127, 95, 0, 2]);
    let (mut busy, file) = client(one, &server, b"/");
    let (mut closed, _) = client(two, &server, b"/");
    stalls.objects.lock().insert(id);
    let arguments = ReadArguments {
        file: handle(&file),
        offset: 0,
        count: FILE_BYTES,
    };
    let read = busy.start(Procedure::Read, &arguments);
    stalls.gate.wait_for(1);
    server.exports().limit_clients(bytes(10_000));
    closed.start(Procedure::Read, &arguments);
    start_late(two, &mut closed, &file);
    assert_eq!(CLIENTS.disconnect(IpAddr::from(two)), 1);
    stalls.gate.open();
    busy.finish(read);
    let mut again = Client::connect_from(two, server.address(), User::root());
    again.getattr(&file).unwrap();
}

/// A defect in each read that may wait.
struct Defect;

impl Hook for Defect {
    fn before(&self, event: &Event<'_>) -> Result<()> {
        if event.operation == "read" {
            Error::WouldBlock.unless(event.may_block)?;
            panic!("a defect");
        }
        Ok(())
    }
}

/// Neither does one that a defect ends, as its client can do nothing about it.
#[test]
fn calls_that_a_defect_ends_pay_for_no_reply() {
    let (layer, _) = Layer::new(with_file(), Defect);
    let server = serve(vec![export("/", layer)]);
    let address = [127, 96, 0, 1];
    let (mut ended, file) = client(address, &server, b"/");
    server.exports().limit_clients(bytes(10_000));
    let arguments = ReadArguments {
        file: handle(&file),
        offset: 0,
        count: FILE_BYTES,
    };
    ended.start(Procedure::Read, &arguments);
    assert!(ended.try_next_answer().is_none());
    let mut again = Client::connect_from(address, server.address(), User::root());
    again.getattr(&file).unwrap();
}

/// Long records and small ones come one behind the other, and the connection is held between any
/// two of them: each is answered once, and nothing is mixed up.
#[test]
fn what_comes_in_one_stream_is_held_between_calls() {
    let filesystem = ram();
    make_file(&*filesystem, b"file", b"");
    let server = serve(vec![export("/", filesystem)]);
    let (mut client, file) = client([127, 93, 0, 1], &server, b"/");
    server.exports().limit_clients(Rates {
        calls: NonZeroU64::new(200),
        bytes: NonZeroU64::new(32 << 20),
    });
    let lengths = [300_000, 100, 100, 70_000, 5_000, 1 << 20, 1, 12_000];
    let mut calls = Vec::new();
    let mut expected = Vec::new();
    for (number, length) in lengths.into_iter().cycle().take(64).enumerate() {
        let data = vec![u8::try_from(number).unwrap(); length];
        let offset = expected.len() as u64;
        let write = WriteArguments {
            file: handle(&file),
            offset,
            count: u32::try_from(length).unwrap(),
            stable: StableHow::Unstable,
            data: &data,
        };
        calls.push(client.start(Procedure::Write, &write));
        expected.extend_from_slice(&data);
        calls.push(client.start(Procedure::Getattr, &handle(&file)));
        calls.push(client.start(Procedure::Null, &()));
    }
    for call in calls {
        client.finish(call);
    }
    server.exports().limit_clients(Rates::default());
    for (number, part) in expected.chunks(1 << 20).enumerate() {
        let length = u32::try_from(part.len()).unwrap();
        let read = client.read(&file, (number << 20) as u64, length).unwrap();
        assert!(read.bytes == part, "MiB {number}");
    }
}

/// A client that has ended its side and connected anew does not keep a place on a connection that
/// waits.
#[test]
fn a_connection_that_waits_for_a_client_that_is_gone_is_closed() {
    let server = serve(vec![export("/", with_file())]);
    let address = [127, 94, 0, 1];
    let (mut slow, file) = client(address, &server, b"/");
    // Paid for longer than anything waits here.
    server.exports().limit_clients(bytes(1000));
    slow.read(&file, 0, FILE_BYTES).unwrap();
    start_late(address, &mut slow, &file);
    slow.end_sending();
    let _again = Client::connect_from(address, server.address(), User::root());
    wait_for(address, 0);
    assert!(slow.try_next_answer().is_none());
}
