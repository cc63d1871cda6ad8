//! Connections that die at any point while calls are held, sent again elsewhere and overtaken: no
//! state ever goes back, and every call is answered.
//!
//! Some clients share a server. Each has a file and a name of its own, so that a model of one value
//! says what must be there. A client sends a change, and then, by chance: waits for its reply; or
//! closes or resets the connection, opens another one and sends the same bytes again, some times
//! over; or loses the reply to a reset and sends them again. Before its next change it looks
//! whether all is as its last one left it. The file system keeps calls for a while, by chance.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use pagewell_base::mix::mix;
use pagewell_fs::{Error, Result};
use pagewell_sunrpc::nfs3::{
    CreateArguments, CreateHow, Procedure, ReadArguments, RenameArguments, SetAttributes,
    SetattrArguments, StableHow, Status, WriteArguments,
};

use crate::client::{Client, User, encoded, marked, next_xid};
use crate::every_call::status_of;
use crate::fixture::{connect, export, ram, serve, serve_with};
use crate::layer::{Event, Hook, Layer};
use crate::operations::{FileHandle, entry, handle, mode};

const SEEDS: u64 = 4;
const CLIENTS: u64 = 4;
const CHANGES: u64 = 60;

/// The largest file in bytes.
const FILE_BYTES: usize = 40_000;

/// Chance that follows from a seed (SplitMix64).
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// True in `percent` of 100 cases.
    fn is(&mut self, percent: u64) -> bool {
        self.next() % 100 < percent
    }
}

/// Keeps some calls for some milliseconds.
struct Holds {
    seed: u64,
    calls: AtomicU64,
}

impl Hook for Holds {
    fn before(&self, event: &Event<'_>) -> Result<()> {
        let number = self.calls.fetch_add(1, Ordering::Relaxed);
        let chance = mix(self.seed ^ number);
        if !event.may_block {
            // Attributes that go with an answer are left out when they cannot be had at once.
            return if event.operation == "attributes" || chance.is_multiple_of(4) {
                Ok(())
            } else {
                Err(Error::WouldBlock)
            };
        }
        if chance.is_multiple_of(3) {
            std::thread::sleep(Duration::from_micros(chance / 3 % 6000));
        }
        Ok(())
    }
}

/// What a client expects to find.
#[derive(Default)]
struct Model {
    content: Vec<u8>,
    /// Its second object has this name at the moment.
    name: Option<Vec<u8>>,
}

/// A client of the fault test.
struct Subject {
    number: u64,
    address: std::net::SocketAddr,
    chance: Chance,
    client: Client,
    root: FileHandle,
    file: FileHandle,
    model: Model,
}

impl Subject {
    fn connect(&self) -> Client {
        Client::connect(self.address, User::root())
    }

    /// Goes over to a new connection; the old one ends in one way or another.
    fn move_on(&mut self) {
        let next = self.connect();
        let last = std::mem::replace(&mut self.client, next);
        if self.chance.is(50) {
            drop(last);
        } else {
            last.reset();
        }
    }

    /// Fills the connection, so that what follows is not read for a while.
    fn fill(&mut self) {
        for _ in 0..18 {
            let file = handle(&self.file);
            let (offset, count) = (0, 1 << 20);
            let arguments = encoded(&ReadArguments {
                file,
                offset,
                count,
            });
            let record = marked(&self.client.record(next_xid(), Procedure::Read, &arguments));
            self.client.try_send(&record);
        }
    }

    /// Makes a change that must succeed, on as many connections as it takes.
    fn change(&mut self, procedure: Procedure, arguments: &[u8]) {
        let xid = next_xid();
        let record = marked(&self.client.record(xid, procedure, arguments));
        if self.chance.is(10) {
            self.fill();
        }
        self.client.try_send(&record);
        while self.chance.is(45) {
            if self.chance.is(50) {
                let pause = self.chance.next() % 3000;
                std::thread::sleep(Duration::from_micros(pause));
            }
            self.move_on();
            self.client.try_send(&record);
        }
        self.expect_done(procedure, xid);
        // Its reply was lost with its connection.
        while self.chance.is(30) {
            let next = self.connect();
            std::mem::replace(&mut self.client, next).reset();
            self.client.try_send(&record);
            self.expect_done(procedure, xid);
        }
    }

    fn expect_done(&mut self, procedure: Procedure, xid: u32) {
        let status = status_of(procedure, &self.client.finish(xid));
        assert_eq!(status, Status::Ok, "client {} {procedure:?}", self.number);
    }

    fn step(&mut self) {
        match self.chance.next() % 6 {
            0 | 1 => self.write(),
            2 => self.truncate(),
            3 | 4 => self.make_or_remove(),
            _ => self.rename(),
        }
        self.check();
    }

    fn write(&mut self) {
        let length = 1 + self.chance.next() as usize % FILE_BYTES;
        let value = self.chance.next();
        let data: Vec<u8> = (0..length).map(|at| (value >> (at % 57)) as u8).collect();
        let arguments = WriteArguments {
            file: handle(&self.file),
            offset: 0,
            count: length as u32,
            stable: StableHow::FileSync,
            data: &data,
        };
        self.change(Procedure::Write, &encoded(&arguments));
        let content = &mut self.model.content;
        content.resize(content.len().max(length), 0);
        content[..length].copy_from_slice(&data);
    }

    fn truncate(&mut self) {
        let length = self.chance.next() as usize % FILE_BYTES / 4;
        let arguments = SetattrArguments {
            object: handle(&self.file),
            attributes: SetAttributes {
                size: Some(length as u64),
                ..SetAttributes::default()
            },
            guard: None,
        };
        self.change(Procedure::Setattr, &encoded(&arguments));
        self.model.content.resize(length, 0);
    }

    fn names(&self) -> [Vec<u8>; 2] {
        ["a", "b"].map(|name| format!("{name}{}", self.number).into_bytes())
    }

    fn make_or_remove(&mut self) {
        let root = self.root.clone();
        if let Some(name) = self.model.name.take() {
            let object = entry(&root, &name);
            let arguments = object;
            self.change(Procedure::Remove, &encoded(&arguments));
        } else {
            let [name, _] = self.names();
            let what = entry(&root, &name);
            let how = CreateHow::Guarded(mode(0o600));
            let arguments = CreateArguments { what, how };
            self.change(Procedure::Create, &encoded(&arguments));
            self.model.name = Some(name);
        }
    }

    fn rename(&mut self) {
        let Some(from) = self.model.name.clone() else {
            return;
        };
        let root = self.root.clone();
        let [first, second] = self.names();
        let to = if from == first { second } else { first };
        let arguments = RenameArguments {
            from: entry(&root, &from),
            to: entry(&root, &to),
        };
        self.change(Procedure::Rename, &encoded(&arguments));
        self.model.name = Some(to);
    }

    /// Everything is as the last change left it.
    fn check(&mut self) {
        let root = self.root.clone();
        let read = self.client.read(&self.file, 0, 1 << 20).unwrap();
        let is_same = read.bytes == self.model.content;
        assert!(is_same, "the file of client {} went back", self.number);
        for name in self.names() {
            let expected = self.model.name.as_ref() == Some(&name);
            let found = self.client.lookup(&root, &name);
            let shown = String::from_utf8_lossy(&name).into_owned();
            assert_eq!(found.is_ok(), expected, "{shown} went back");
        }
    }
}

/// Runs one seed on one file system; afterwards all is looked at once more, when the server has
/// done whatever it still had to do.
fn run(seed: u64) {
    let storage = ram();
    let holds = Holds {
        seed: mix(seed),
        calls: AtomicU64::new(0),
    };
    let (layer, _) = Layer::new(storage.clone(), holds);
    let server = serve_with(vec![export("/", layer)], |config| config.threads = 3);
    let address = server.address();
    let subjects = (0..CLIENTS).map(|number| {
        let (mut client, root) = connect(&server);
        let file = client.make_file(&root, format!("file{number}").as_bytes(), b"");
        Subject {
            number,
            address,
            chance: Chance(mix(seed * CLIENTS + number)),
            client,
            root,
            file,
            model: Model::default(),
        }
    });
    let subjects: Vec<Subject> = subjects.collect();
    let mut done: Vec<Subject> = std::thread::scope(|scope| {
        let running: Vec<_> = subjects
            .into_iter()
            .map(|mut subject| {
                scope.spawn(move || {
                    for _ in 0..CHANGES {
                        subject.step();
                    }
                    subject
                })
            })
            .collect();
        let joined = running.into_iter().map(|thread| thread.join());
        joined
            .map(|subject| subject.expect("all went well"))
            .collect()
    });
    server.stop().unwrap();
    let again = serve(vec![export("/", Arc::clone(&storage) as _)]);
    for subject in &mut done {
        subject.client = connect(&again).0;
        subject.check();
    }
}

/// Whatever happens to connections, every change is done once and in its place.
#[test]
fn no_state_goes_back_when_connections_die() {
    for seed in 0..SEEDS {
        eprintln!("seed {seed}");
        run(seed);
    }
}
