//! Servers that lack procedures, or the bodies of answers.

use pagewell_fs::{CreateMode, Error, FileSystem, NodeKind, RenameMode, Result, SetAttributes};
use pagewell_nfsd::Server;
use pagewell_sunrpc::nfs3::{Procedure, Status};

use super::server;
use super::without_attributes::{STATUS_AT, Silencer, word};
use crate::fixture::{export, ram, serve};
use crate::layer::{Event, Hook, Layer, make_file};

/// `accept_stat` (RFC 5531 section 9).
pub(super) const PROGRAM_MISMATCH: u32 = 2;
pub(super) const PROCEDURE_UNAVAILABLE: u32 = 3;

/// Makes an answer a refusal of the call, with these words from the status on.
pub(super) fn refuse(record: &mut Vec<u8>, words: &[u32]) {
    record.truncate(STATUS_AT - 4);
    for word in words {
        record.extend_from_slice(&word.to_be_bytes());
    }
}

/// Makes an answer one with this status and a body of so many zeros.
fn fail(record: &mut Vec<u8>, status: Status, body_bytes: usize) {
    record.truncate(STATUS_AT);
    record.extend_from_slice(&status.number().to_be_bytes());
    record.resize(record.len() + body_bytes, 0);
}

/// Refuses what another part of it then says that it does not know.
struct Lacks(&'static [&'static str]);

impl Hook for Lacks {
    fn before(&self, event: &Event<'_>) -> Result<()> {
        Error::NotSupported.when(self.0.contains(&event.operation))
    }
}

const OPTIONAL: [Procedure; 4] = [
    Procedure::Link,
    Procedure::Mknod,
    Procedure::ReaddirPlus,
    Procedure::Pathconf,
];

#[test]
fn what_a_server_has_no_procedure_for_is_not_supported_and_the_rest_works() {
    let ways = [
        &[PROCEDURE_UNAVAILABLE][..],
        &[PROGRAM_MISMATCH],
        &[PROGRAM_MISMATCH, 3, 3],
    ];
    for words in ways {
        let memory = ram();
        make_file(&*memory, b"file", b"bytes");
        let (layer, _) = Layer::new(memory, Lacks(&["link", "make_node"]));
        let server = serve(vec![export("/", layer)]);
        let answer = move |record: &mut Vec<u8>, number| {
            if OPTIONAL.iter().any(|one| one.number() == number) {
                refuse(record, words);
            }
        };
        let between = Silencer::with(&server, |_| true, answer);
        let mount = between.mount("");
        let (files, call, root) = (&mount.filesystem, mount.call(), mount.root());
        let id = mount.lookup("file").unwrap();
        let linked = files.link(&call, &id, &root, b"other");
        assert_eq!(linked.map(drop), Err(Error::NotSupported), "{words:?}");
        let attributes = SetAttributes::default();
        let made = files.make_node(&call, &root, b"pipe", NodeKind::Fifo, &attributes);
        assert_eq!(made.map(drop), Err(Error::NotSupported));
        for _ in 0..2 {
            assert_eq!(mount.list(&root, false), ["file"]);
        }
        assert_eq!(mount.calls(Procedure::ReaddirPlus), 1, "it is known");
        assert_eq!(mount.read(&id).unwrap(), b"bytes");
        assert_eq!(files.limits().name_bytes_max, 255);
    }
}

/// Answers LINK with INVAL and so many zeros.
fn linked(body_bytes: usize) -> Result<()> {
    let (layer, _) = Layer::new(ram(), Lacks(&["link"]));
    let server = serve(vec![export("/", layer)]);
    let answer = move |record: &mut Vec<u8>, number| {
        if number == Procedure::Link.number() {
            fail(record, Status::Invalid, body_bytes);
        }
    };
    let between = Silencer::with(&server, |_| true, answer);
    let mount = between.mount("");
    let (id, root) = (mount.create("file"), mount.root());
    let linked = mount.filesystem.link(&mount.call(), &id, &root, b"other");
    assert_eq!(mount.lookup("file"), Ok(id));
    linked.map(drop)
}

#[test]
fn a_server_that_takes_link_for_symlink_has_no_link() {
    assert_eq!(linked(8), Err(Error::NotSupported));
    assert_eq!(linked(12), Err(Error::Invalid));
}

/// Leaves away what is behind the status of a failure.
fn cut_failures(server: &Server) -> Silencer {
    let answer = |record: &mut Vec<u8>, _| {
        if record.len() > STATUS_AT + 4 && word(record, STATUS_AT) != 0 {
            record.truncate(STATUS_AT + 4);
        }
    };
    Silencer::with(server, |_| true, answer)
}

#[test]
fn a_failure_without_its_body_is_that_failure() {
    let (server, memory) = server();
    let id = make_file(&*memory, b"file", b"bytes");
    let between = cut_failures(&server);
    let mount = between.mount("acregmin=0&acregmax=0&soft&timeo=50&retrans=1");
    let (files, call, root) = (&mount.filesystem, mount.call(), mount.root());
    assert_eq!(mount.lookup("missing"), Err(Error::NotFound));
    let attributes = SetAttributes::default();
    let made = files.make_directory(&call, &root, b"file", &attributes);
    assert_eq!(made.map(drop), Err(Error::Exists));
    let mode = CreateMode::Guarded(attributes);
    let made = files.create(&call, &root, b"file", &mode);
    assert_eq!(made.map(drop), Err(Error::Exists));
    let file = mount.lookup("file").unwrap();
    let listed = files.read_directory(&call, &file, 0, true, &mut |_| true);
    assert_eq!(listed.map(drop), Err(Error::NotDirectory));
    assert_eq!(files.read_link(&call, &file).map(drop), Err(Error::Invalid));
    let removed = files.remove(&call, &root, b"missing");
    assert_eq!(removed.map(drop), Err(Error::NotFound));
    let moved = files.rename(
        &call,
        (&root, b"missing"),
        (&root, b"other"),
        RenameMode::Replace,
    );
    assert_eq!(moved.map(drop), Err(Error::NotFound));
    mount.write(&file, 0, b"other").unwrap();
    let credentials = pagewell_fs::Credentials::root();
    let behind = super::root_call(&credentials);
    memory.remove(&behind, &memory.root(), b"file").unwrap();
    assert!(memory.attributes(&behind, &id).is_err());
    assert_eq!(mount.close(&file), Err(Error::Stale));
    assert_eq!(mount.read(&file), Err(Error::Stale));
    let set = files.set_attributes(&call, &file, &attributes, None);
    assert_eq!(set.map(drop), Err(Error::Stale));
    // One connection has served all of it.
    assert_eq!(mount.lookup("missing"), Err(Error::NotFound));
}
