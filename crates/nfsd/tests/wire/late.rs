//! Calls that come late: what a client gave up is not begun, and what was done is not done again.

use std::sync::atomic::{AtomicUsize, Ordering};

use pagewell_fs::{Error, Result};
use pagewell_nfsd::Server;
use pagewell_sunrpc::nfs3::{
    AccessArguments, Procedure, ReadArguments, SetAttributes, SetattrArguments, StableHow, Status,
    WriteArguments,
};

use crate::client::{Client, User, encoded, marked, next_xid};
use crate::every_call::status_of;
use crate::fixture::{Fixture, Kind, connect, export, on_each_kind, ram, serve_with};
use crate::layer::{Event, Gate, Hook, Layer};
use crate::operations::{FileHandle, handle, removed};

/// More than the server has readers: of so many connections one is at the reader of any other.
const READERS_MAX: usize = 9;

fn truncate_record(client: &Client, xid: u32, file: &[u8]) -> Vec<u8> {
    let arguments = SetattrArguments {
        object: handle(file),
        attributes: SetAttributes {
            size: Some(0),
            ..SetAttributes::default()
        },
        guard: None,
    };
    marked(&client.record(xid, Procedure::Setattr, &encoded(&arguments)))
}

fn write_record(client: &Client, xid: u32, file: &[u8], data: &[u8]) -> Vec<u8> {
    let arguments = WriteArguments {
        file: handle(file),
        offset: 0,
        count: data.len() as u32,
        stable: StableHow::FileSync,
        data,
    };
    marked(&client.record(xid, Procedure::Write, &encoded(&arguments)))
}

/// ACCESS stays at a gate; changes are counted; everything may wait.
#[derive(Default)]
struct Held {
    gate: Gate,
    changes: AtomicUsize,
}

impl Hook for Held {
    fn before(&self, event: &Event<'_>) -> Result<()> {
        if !event.may_block {
            return Err(Error::WouldBlock);
        }
        match event.operation {
            "access" => self.gate.pass(),
            "set_attributes" | "write" => {
                self.changes.fetch_add(1, Ordering::SeqCst);
            }
            _ => {}
        }
        Ok(())
    }
}

/// A server whose only thread is stalled, with a file of four bytes.
struct Busy {
    server: Server,
    held: std::sync::Arc<Held>,
    /// Its call holds the thread.
    holder: Client,
    root: FileHandle,
    file: FileHandle,
}

impl Busy {
    fn new() -> Self {
        let (layer, held) = Layer::new(ram(), Held::default());
        let server = serve_with(vec![export("/", layer)], |config| config.threads = 1);
        let (mut holder, root) = connect(&server);
        let file = holder.make_file(&root, b"file", b"kept");
        let object = handle(&root);
        holder.start(Procedure::Access, &AccessArguments { object, access: 1 });
        held.gate.wait_for(1);
        held.changes.store(0, Ordering::SeqCst);
        Self {
            server,
            held,
            holder,
            root,
            file,
        }
    }

    /// New connections, so many that every reader has seen what came before them.
    fn connect(&self) -> Vec<Client> {
        (0..READERS_MAX).map(|_| connect(&self.server).0).collect()
    }

    fn changes(&self) -> usize {
        self.held.changes.load(Ordering::SeqCst)
    }

    /// How many changes were made when the server has done whatever it still had to do.
    fn changes_in_the_end(mut self) -> usize {
        self.held.gate.open();
        let other = serve_with(vec![export("/", ram())], |_| {});
        std::mem::replace(&mut self.server, other).stop().unwrap();
        self.changes()
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.held.gate.open();
    }
}

/// A change that waits for a thread is dropped when the client has closed its connection and has
/// opened another one, or has reset it.
#[test]
fn a_change_that_waits_is_dropped_when_its_client_has_gone() {
    for resets in [false, true] {
        let busy = Busy::new();
        let mut gone = Client::connect(busy.server.address(), User::root());
        gone.check_usable();
        gone.send(&truncate_record(&gone, next_xid(), &busy.file));
        // Every record before an end of the connection is received.
        gone.check_usable();
        if resets {
            gone.reset();
        } else {
            drop(gone);
        }
        let mut clients = busy.connect();
        busy.held.gate.open();
        // Behind the dropped one in the queue of the only thread.
        for client in &mut clients {
            let read = client.read(&busy.file, 0, 10).unwrap();
            assert_eq!(read.bytes, b"kept");
        }
        assert_eq!(busy.changes_in_the_end(), 0);
    }
}

/// The change of a client that has closed its connection is done once, before newer ones, when the
/// client asks again on another connection while it waits.
#[test]
fn a_change_that_waits_is_done_once_for_the_client_that_asks_again() {
    for resets in [false, true] {
        let mut busy = Busy::new();
        let mut first = Client::connect(busy.server.address(), User::root());
        let old = write_record(&first, next_xid(), &busy.file, b"OLD!");
        let truncation = truncate_record(&first, next_xid(), &busy.file);
        first.send(&truncation);
        first.send(&old);
        first.check_usable();
        let mut again = busy.connect().remove(0);
        let answers = [&truncation, &old].map(|record| {
            again.send(record);
            u32::from_be_bytes([record[4], record[5], record[6], record[7]])
        });
        again.check_usable();
        if resets {
            first.reset();
        } else {
            drop(first);
        }
        let _others = busy.connect();
        busy.held.gate.open();
        let status = status_of(Procedure::Setattr, &again.finish(answers[0]));
        assert_eq!(status, Status::Ok);
        let status = status_of(Procedure::Write, &again.finish(answers[1]));
        assert_eq!(status, Status::Ok);
        assert_eq!(busy.changes(), 2);
        let written = again.write(&busy.file, 0, b"NEW!", StableHow::FileSync);
        written.unwrap();
        let read = busy.holder.read(&busy.file, 0, 10).unwrap();
        assert_eq!(read.bytes, b"NEW!");
        assert!(busy.holder.lookup(&busy.root, b"file").is_ok());
        assert_eq!(busy.changes_in_the_end(), 3);
    }
}

/// What the server had not even read of a connection that is gone is not begun.
#[test]
fn unread_changes_of_a_client_that_has_gone_are_dropped() {
    let busy = Busy::new();
    let mut gone = Client::connect(busy.server.address(), User::root());
    for _ in 0..20 {
        // Replies of 16 MiB on their way: more is not taken from the connection.
        let file = handle(&busy.file);
        let (offset, count) = (0, 1 << 20);
        gone.start(
            Procedure::Read,
            &ReadArguments {
                file,
                offset,
                count,
            },
        );
    }
    gone.send(&truncate_record(&gone, next_xid(), &busy.file));
    drop(gone);
    let mut clients = busy.connect();
    busy.held.gate.open();
    for client in &mut clients {
        client.read(&busy.file, 0, 10).unwrap();
    }
    assert_eq!(busy.changes_in_the_end(), 0);
}

/// A client that ends its side after its last call, as nc does, gets the answers, however long they
/// take: nothing says that it has gone.
#[test]
fn a_client_that_only_ends_its_side_has_its_changes_done() {
    let busy = Busy::new();
    let mut client = Client::connect(busy.server.address(), User::root());
    let xids = [next_xid(), next_xid()];
    client.send(&truncate_record(&client, xids[0], &busy.file));
    client.send(&write_record(&client, xids[1], &busy.file, b"last words"));
    client.end_sending();
    busy.held.gate.open();
    let status = status_of(Procedure::Setattr, &client.finish(xids[0]));
    assert_eq!(status, Status::Ok);
    let status = status_of(Procedure::Write, &client.finish(xids[1]));
    assert_eq!(status, Status::Ok);
    assert!(client.try_next_answer().is_none());
}

/// A WRITE or a truncation that was done is not done again after a newer WRITE, when its connection
/// was reset and it is sent again on another one.
#[test]
fn a_repeated_change_does_not_undo_a_newer_one() {
    on_each_kind(|fixture| {
        let (mut client, root) = fixture.client();
        let file = client.make_file(&root, b"file", b"");
        let long = vec![b'o'; 100_000];
        let write = next_xid();
        let truncation = next_xid();
        let records = [
            (
                Procedure::Write,
                write,
                write_record(&client, write, &file, &long),
            ),
            (
                Procedure::Setattr,
                truncation,
                truncate_record(&client, truncation, &file),
            ),
        ];
        let first = records.each_ref().map(|(procedure, xid, record)| {
            client.send(record);
            let answer = client.finish(*xid);
            assert_eq!(status_of(*procedure, &answer), Status::Ok);
            answer
        });
        client
            .write(&file, 0, b"newer", StableHow::FileSync)
            .unwrap();
        client.reset();
        for _ in 0..2 {
            let (mut again, _) = fixture.client();
            for ((_, xid, record), first) in records.iter().zip(&first) {
                again.send(record);
                assert_eq!(again.finish(*xid), *first);
            }
            assert_eq!(again.read(&file, 0, 200_000).unwrap().bytes, b"newer");
            again.reset();
        }
    });
}

/// The same identifier with other data long after the head is another WRITE.
#[test]
fn other_data_is_another_write() {
    let fixture = Fixture::new(Kind::Ram);
    let (mut client, root) = fixture.client();
    let file = client.make_file(&root, b"file", b"");
    let mut data = vec![0; 65_536];
    let xid = next_xid();
    for value in 1..4 {
        data[60_000] = value;
        client.send(&write_record(&client, xid, &file, &data));
        let answer = client.finish(xid);
        assert_eq!(status_of(Procedure::Write, &answer), Status::Ok);
        assert_eq!(client.read(&file, 60_000, 1).unwrap().bytes, [value]);
    }
}

/// AUTH_SYS carries a stamp that means nothing; clients may change it from one transmission to the
/// next.
#[test]
fn another_stamp_is_the_same_call() {
    let fixture = Fixture::new(Kind::Ram);
    let (mut client, root) = fixture.client();
    client.make_file(&root, b"file", b"");
    let xid = next_xid();
    let object = crate::operations::entry(&root, b"file");
    let arguments = encoded(&object);
    let mut record = marked(&client.record(xid, Procedure::Remove, &arguments));
    client.send(&record);
    removed(&client.finish(xid)).unwrap();
    // Behind marker, head of the call, and flavor and length of the credential.
    record[4 + 32..4 + 36].copy_from_slice(&[9, 8, 7, 6]);
    client.send(&record);
    removed(&client.finish(xid)).expect("the first reply");
}

/// Two programs behind one address that live at the same time may choose the same identifiers.
#[test]
fn two_programs_with_equal_identifiers_are_distinguished() {
    let fixture = Fixture::new(Kind::Ram);
    let (mut first, root) = fixture.client();
    let (mut second, _) = fixture.client();
    let file = first.make_file(&root, b"file", b"");
    let xid = next_xid();
    for number in 0..2 {
        let (program, other) = if number == 0 {
            (&mut first, &mut second)
        } else {
            (&mut second, &mut first)
        };
        let record = write_record(program, xid, &file, b"mine");
        program.send(&record);
        let answer = program.finish(xid);
        assert_eq!(status_of(Procedure::Write, &answer), Status::Ok);
        assert_eq!(program.read(&file, 0, 10).unwrap().bytes, b"mine");
        program
            .write(&file, 0, b"none", StableHow::FileSync)
            .unwrap();
        other.check_usable();
    }
}
