//! Pitfalls 19 and 20: calls that come twice, and what remembering them costs.

use std::sync::atomic::{AtomicUsize, Ordering};

use pagewell_fs::{Error, Result};
use pagewell_sunrpc::nfs3::{
    CreateArguments, CreateHow, LinkArguments, Procedure, SetattrArguments, Status,
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

/// Pitfall 19: a REMOVE sent again on a new connection, from another port, gets the first reply to
/// the byte, not NOENT; again and again, also after other calls.
#[test]
fn row_19_a_retransmission_on_another_connection_is_replayed() {
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
        drop(client);
        for _ in 0..2 {
            let (mut again, _) = fixture.client();
            again.make_file(&root, b"file", b"the name is in use again");
            again.send(&record);
            assert_eq!(again.finish(xid), first);
            again.remove(&root, b"file").expect("it was not removed");
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

/// Pitfall 19: the same for every procedure that must not be done twice: done again, each would
/// fail.
#[test]
fn row_19_every_change_is_done_once() {
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
            let record = marked(&client.record(xid, procedure, &arguments));
            client.send(&record);
            let first = client.finish(xid);
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

/// Pitfall 19: another credential with the same identifier and arguments is another call, and so
/// are other arguments with the same identifier.
#[test]
fn row_19_another_user_or_other_arguments_are_no_retransmission() {
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

/// Pitfall 19: a retransmission while the first is still being done is not done too, and when the
/// first connection is gone the answer goes to the one that asked again.
#[test]
fn row_19_a_call_under_way_is_done_once_and_answered_on_the_new_connection() {
    for first_stays in [true, false] {
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
        let first = if first_stays {
            Some(client)
        } else {
            drop(client);
            None
        };
        again.check_usable();
        slow.gate.open();
        let answer = again.finish(xid);
        removed(&answer).unwrap();
        if let Some(mut first) = first {
            assert_eq!(first.finish(xid), answer);
        }
        assert_eq!(slow.done.load(Ordering::SeqCst), 1);
        again.check_usable();
        assert!(!again.has_answer(), "answered more than once");
    }
}

/// Pitfall 19: two clients may have the same identifier for calls that look alike but are made at
/// different objects.
#[test]
fn row_19_the_same_identifier_for_another_object_is_another_call() {
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

/// Pitfall 20: what is remembered is bounded: once so many calls that must not be done twice were
/// made that the bound is reached, tens of thousands more take no memory.
#[test]
fn row_20_tens_of_thousands_of_removes_take_no_more_memory() {
    let server = Process::of_ram();
    let (mut client, root) = server.client();
    many_removes(&mut client, &root, 70_000);
    let before = server.resident_bytes();
    many_removes(&mut client, &root, 50_000);
    let after = server.resident_bytes();
    let grown = after.saturating_sub(before);
    assert!(grown < 2 << 20, "{before} bytes grew to {after}");
}
