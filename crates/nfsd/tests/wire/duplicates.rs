//! Calls that come twice (RFC 1813, section 4.5), and what remembering them costs.

use std::sync::atomic::{AtomicUsize, Ordering};

use pagewell_fs::{Error, Result};
use pagewell_sunrpc::nfs3::{
    CreateArguments, CreateHow, LinkArguments, MkdirArguments, Procedure, SetattrArguments,
    StableHow, Status, WriteArguments,
};

use crate::client::{Client, User, encoded, marked, next_xid};
use crate::every_call::{AnyCall, changing, status_of};
use crate::fixture::{connect, export, on_each_kind, ram, serve};
use crate::layer::{Event, Gate, Hook, Layer};
use crate::operations::{entry, handle, mode, removed};
use crate::process::Process;

fn remove_record(client: &Client, xid: u32, directory: &[u8], name: &[u8]) -> Vec<u8> {
    let object = entry(directory, name);
    let arguments = encoded(&object);
    marked(&client.record(xid, Procedure::Remove, &arguments))
}

/// A REMOVE whose connection was reset gets the first reply to the byte on a new one,
/// from another port, not NOENT; again and again, also after other calls.
#[test]
fn a_retransmission_on_another_connection_is_replayed() {
    on_each_kind(|fixture| {
        let (mut client, root) = fixture.client();
        client.make_file(&root, b"file", b"");
        let xid = next_xid();
        let record = remove_record(&client, xid, &root, b"file");
        client.send(&record);
        let first = client.finish(xid);
        removed(&first).unwrap();
        client.send(&record);
        assert_eq!(client.finish(xid), first);
        client.reset();
        for _ in 0..2 {
            let (mut again, _) = fixture.client();
            again.make_file(&root, b"file", b"the name is in use again");
            again.send(&record);
            assert_eq!(again.finish(xid), first);
            again.remove(&root, b"file").expect("it was not removed");
            again.reset();
        }
    });
}

/// Makes what a call needs to succeed; returns its arguments.
fn prepare(client: &mut Client, root: &[u8], file: &[u8], call: AnyCall) -> Vec<u8> {
    // What the calls before have left.
    for name in [&b"name"[..], b"other"] {
        let _ = client
            .remove(root, name)
            .or_else(|_| client.rmdir(root, name));
    }
    match call.procedure {
        Procedure::Setattr => {
            let guard = Some(client.getattr(file).unwrap().changed);
            let (object, attributes) = (handle(file), mode(0o600));
            return encoded(&SetattrArguments {
                object,
                attributes,
                guard,
            });
        }
        Procedure::Link => {
            let link = entry(root, b"other");
            let file = handle(file);
            return encoded(&LinkArguments { file, link });
        }
        Procedure::Remove | Procedure::Rename => {
            client.make_file(root, b"name", b"");
        }
        Procedure::Rmdir => {
            client.make_directory(root, b"name");
        }
        _ => {}
    }
    call.arguments
}

/// The same for every procedure that must not be done twice: done again, each would
/// fail.
#[test]
fn every_change_is_done_once() {
    on_each_kind(|fixture| {
        let (mut client, root) = fixture.client();
        let file = client.make_file(&root, b"file", b"content");
        for call in changing(&root, &root) {
            let procedure = call.procedure;
            if matches!(procedure, Procedure::Write | Procedure::Commit) {
                continue;
            }
            let arguments = prepare(&mut client, &root, &file, call);
            let xid = next_xid();
            let (mut lost, _) = fixture.client();
            let record = marked(&lost.record(xid, procedure, &arguments));
            lost.send(&record);
            let first = lost.finish(xid);
            lost.reset();
            let status = status_of(procedure, &first);
            let no_devices = procedure == Procedure::Mknod && !fixture.knows_users();
            assert!(
                status == Status::Ok || no_devices,
                "{procedure:?} {status:?}"
            );
            let (mut again, _) = fixture.client();
            again.send(&record);
            assert_eq!(again.finish(xid), first, "{procedure:?}");
        }
    });
}

/// Another credential with the same identifier and arguments is another call, and so
/// are other arguments with the same identifier.
#[test]
fn another_user_or_other_arguments_are_no_retransmission() {
    on_each_kind(|fixture| {
        let (mut client, root) = fixture.client();
        client.make_file(&root, b"file", b"");
        client.make_file(&root, b"other", b"");
        let xid = next_xid();
        let record = remove_record(&client, xid, &root, b"file");
        client.send(&record);
        removed(&client.finish(xid)).unwrap();
        for user in [
            User::System(0, 0, vec![5]),
            User::System(0, 1, Vec::new()),
            User::System(1000, 0, Vec::new()),
            User::Nobody,
        ] {
            let mut other = Client::connect(fixture.address(), user);
            let record = remove_record(&other, xid, &root, b"file");
            other.send(&record);
            let status = removed(&other.finish(xid)).unwrap_err();
            assert!(matches!(status, Status::NotFound | Status::AccessDenied));
        }
        let record = remove_record(&client, xid, &root, b"other");
        client.send(&record);
        removed(&client.finish(xid)).expect("another name");
    });
}

/// REMOVE stays at a gate and is counted; everything may wait.
#[derive(Default)]
struct SlowRemove {
    gate: Gate,
    done: AtomicUsize,
}

impl Hook for SlowRemove {
    fn before(&self, event: &Event<'_>) -> Result<()> {
        if !event.may_block {
            return Err(Error::WouldBlock);
        }
        if event.operation == "remove" && event.name == b"file" {
            self.done.fetch_add(1, Ordering::SeqCst);
            self.gate.pass();
        }
        Ok(())
    }
}

/// A retransmission while the first is still being done is not done too: once the first
/// connection is gone the answer goes to the one that asked again, and once only.
#[test]
fn a_call_under_way_is_done_once_and_answered_on_the_new_connection() {
    for is_reset in [false, true] {
        let (layer, slow) = Layer::new(ram(), SlowRemove::default());
        let server = serve(vec![export("/", layer)]);
        let (mut client, root) = connect(&server);
        client.make_file(&root, b"file", b"");
        let xid = next_xid();
        let record = remove_record(&client, xid, &root, b"file");
        client.send(&record);
        slow.gate.wait_for(1);
        let (mut again, _) = connect(&server);
        for _ in 0..3 {
            again.send(&record);
            again.check_usable();
        }
        if is_reset {
            client.reset();
        } else {
            drop(client);
        }
        again.check_usable();
        slow.gate.open();
        let answer = again.finish(xid);
        removed(&answer).unwrap();
        assert_eq!(slow.done.load(Ordering::SeqCst), 1);
        again.check_usable();
        assert!(!again.has_answer(), "answered more than once");
    }
}

/// Sends a MKDIR or RMDIR of `d` with an identifier of the test's choice.
fn change_d(client: &mut Client, (procedure, xid): (Procedure, u32), root: &[u8]) -> Status {
    let what = entry(root, b"d");
    let arguments = match procedure {
        Procedure::Mkdir => encoded(&MkdirArguments {
            what,
            attributes: mode(0o700),
        }),
        _ => encoded(&what),
    };
    let record = marked(&client.record(xid, procedure, &arguments));
    client.send(&record);
    status_of(procedure, &client.finish(xid))
}

/// A client that numbers its calls from a constant on each connection, and has closed the one
/// before in order, is not answered with what it did there.
#[test]
fn a_new_client_is_not_answered_out_of_the_replies_of_one_that_has_gone() {
    on_each_kind(|fixture| {
        let xid = next_xid();
        let (mut first, root) = fixture.client();
        let made = change_d(&mut first, (Procedure::Mkdir, xid), &root);
        let removed = change_d(&mut first, (Procedure::Rmdir, xid + 1), &root);
        assert_eq!((made, removed), (Status::Ok, Status::Ok));
        drop(first);
        for expected in [Status::Ok, Status::Exists] {
            let mut next = Client::connect(fixture.address(), User::root());
            let status = change_d(&mut next, (Procedure::Mkdir, xid), &root);
            assert_eq!(status, expected);
            next.lookup(&root, b"d").expect("it is there");
        }
    });
}

/// The same program run twice, with CREATE, WRITE FILE_SYNC and LOOKUP, numbers from 10.
#[test]
fn a_program_that_is_run_again_makes_its_file_again() {
    on_each_kind(|fixture| {
        let (mut other, root) = fixture.client();
        for _ in 0..3 {
            let mut program = Client::connect(fixture.address(), User::root());
            let what = entry(&root, b"file");
            let how = CreateHow::Unchecked(mode(0o600));
            let create = encoded(&CreateArguments { what, how });
            program.send(&marked(&program.record(10, Procedure::Create, &create)));
            let answer = program.finish(10);
            assert_eq!(status_of(Procedure::Create, &answer), Status::Ok);
            let file = other.lookup(&root, b"file").expect("it was made").handle;
            let write = encoded(&WriteArguments {
                file: handle(&file),
                offset: 0,
                count: 4,
                stable: StableHow::FileSync,
                data: b"data",
            });
            program.send(&marked(&program.record(11, Procedure::Write, &write)));
            let answer = program.finish(11);
            assert_eq!(status_of(Procedure::Write, &answer), Status::Ok);
            let found = program.lookup(&root, b"file").expect("it is there");
            assert_eq!(other.read(&found.handle, 0, 10).unwrap().bytes, b"data");
            other.remove(&root, b"file").unwrap();
        }
    });
}

/// A MKDIR whose connection was reset is not done twice.
#[test]
fn a_directory_whose_reply_was_lost_is_not_made_twice() {
    on_each_kind(|fixture| {
        let xid = next_xid();
        let (mut lost, root) = fixture.client();
        assert_eq!(
            change_d(&mut lost, (Procedure::Mkdir, xid), &root),
            Status::Ok
        );
        lost.reset();
        let (mut again, _) = fixture.client();
        assert_eq!(
            change_d(&mut again, (Procedure::Mkdir, xid), &root),
            Status::Ok
        );
    });
}

/// Two programs on one machine take the second of the clock as identifier, and one directory as
/// their lock. Whichever connection is the older, and whether the first call is done or not, only
/// one has it.
#[test]
fn two_programs_with_one_identifier_do_not_both_have_the_lock() {
    on_each_kind(|fixture| {
        for older_is_first in [true, false] {
            let (older, root) = fixture.client();
            let (newer, _) = fixture.client();
            let mut programs = [older, newer];
            if !older_is_first {
                programs.reverse();
            }
            let xid = next_xid();
            let lock = (Procedure::Mkdir, xid);
            let statuses = programs.each_mut().map(|one| change_d(one, lock, &root));
            assert_eq!(statuses, [Status::Ok, Status::Exists]);
            change_d(&mut programs[0], (Procedure::Rmdir, xid + 1), &root);
        }
    });
}

/// MKDIR stays at a gate, and is counted.
#[derive(Default)]
struct SlowMkdir {
    gate: Gate,
    done: AtomicUsize,
}

impl Hook for SlowMkdir {
    fn before(&self, event: &Event<'_>) -> Result<()> {
        if event.operation == "make_directory" {
            if !event.may_block {
                return Err(Error::WouldBlock);
            }
            self.done.fetch_add(1, Ordering::SeqCst);
            self.gate.pass();
        }
        Ok(())
    }
}

/// The same while the first call is still being done.
#[test]
fn a_call_like_one_under_way_is_made_when_that_one_has_its_answer() {
    let (layer, slow) = Layer::new(ram(), SlowMkdir::default());
    let server = serve(vec![export("/", layer)]);
    let (mut first, root) = connect(&server);
    let (mut second, _) = connect(&server);
    let xid = next_xid();
    let arguments = encoded(&MkdirArguments {
        what: entry(&root, b"d"),
        attributes: mode(0o700),
    });
    let record = marked(&first.record(xid, Procedure::Mkdir, &arguments));
    first.send(&record);
    slow.gate.wait_for(1);
    second.send(&record);
    second.check_usable();
    slow.gate.open();
    let status = |client: &mut Client| status_of(Procedure::Mkdir, &client.finish(xid));
    assert_eq!(status(&mut first), Status::Ok);
    assert_eq!(status(&mut second), Status::Exists);
    assert_eq!(slow.done.load(Ordering::SeqCst), 2);
}

/// On a connection that works no client sends a call again that was answered, unless it makes
/// nothing else in between.
#[test]
fn on_one_connection_an_identifier_can_be_used_again() {
    on_each_kind(|fixture| {
        let (mut client, root) = fixture.client();
        let xid = next_xid();
        for step in [0, 1] {
            for (procedure, number) in [(Procedure::Mkdir, 0), (Procedure::Rmdir, step)] {
                let call = (procedure, xid + number);
                assert_eq!(change_d(&mut client, call, &root), Status::Ok);
            }
        }
        let lock = (Procedure::Mkdir, xid);
        assert_eq!(change_d(&mut client, lock, &root), Status::Ok);
        client.lookup(&root, b"d").expect("it is there");
    });
}

/// Two clients may have the same identifier for calls that look alike but are made at
/// different objects.
#[test]
fn the_same_identifier_for_another_object_is_another_call() {
    on_each_kind(|fixture| {
        let (mut client, root) = fixture.client();
        let directories = [
            client.make_directory(&root, b"first"),
            client.make_directory(&root, b"second"),
        ];
        let xid = next_xid();
        let mut handles = Vec::new();
        for directory in &directories {
            let what = entry(directory, b"file");
            let how = CreateHow::Guarded(mode(0o600));
            let arguments = encoded(&CreateArguments { what, how });
            let record = client.record(xid, Procedure::Create, &arguments);
            client.send(&marked(&record));
            let answer = client.finish(xid);
            assert_eq!(status_of(Procedure::Create, &answer), Status::Ok);
            handles.push(client.lookup(directory, b"file").unwrap().handle);
        }
        assert_ne!(handles[0], handles[1]);
    });
}

/// Sends REMOVE calls of names that do not exist, a few hundred at a time.
fn many_removes(client: &mut Client, root: &[u8], count: usize) {
    let mut left = count;
    while left > 0 {
        let now = left.min(500);
        let mut stream = Vec::new();
        let xids: Vec<u32> = (0..now)
            .map(|number| {
                let xid = next_xid();
                let name = format!("none of {left} {number}");
                stream.extend(remove_record(client, xid, root, name.as_bytes()));
                xid
            })
            .collect();
        client.send(&stream);
        for xid in xids {
            assert_eq!(removed(&client.finish(xid)).unwrap_err(), Status::NotFound);
        }
        left -= now;
    }
}

/// What is remembered is bounded: once so many calls that must not be done twice were
/// made that the bound is reached, tens of thousands more take no memory.
#[test]
fn tens_of_thousands_of_removes_take_no_more_memory() {
    let server = Process::of_ram();
    let (mut client, root) = server.client();
    many_removes(&mut client, &root, 70_000);
    let before = server.resident_bytes();
    many_removes(&mut client, &root, 50_000);
    let after = server.resident_bytes();
    let grown = after.saturating_sub(before);
    assert!(grown < 2 << 20, "{before} bytes grew to {after}");
}
