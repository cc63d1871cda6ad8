//! `cp` to a server on which names that differ only in their case are one.

use std::sync::Arc;

use pagewell::fs::ram::RamFileSystem;
use pagewell::fs::{
    Access, Attributes, Call, Change, Committed, CreateMode, Created, DirectoryEntry,
    DirectoryPage, Entry, FileId, FileSystem, Limits, ReadReply, Result, SetAttributes, Stability,
    Statistics, Timestamp, Written,
};
use pagewell::nfsd::{Config, Export, Server};

use crate::support::{run_in, tool};

/// Memory that knows no capital letters.
struct Folding(RamFileSystem);

impl FileSystem for Folding {
    fn describe(&self) -> String {
        "folding".to_owned()
    }

    fn root(&self) -> FileId {
        self.0.root()
    }

    fn limits(&self) -> Limits {
        Limits {
            case_insensitive: true,
            ..self.0.limits()
        }
    }

    fn lookup(&self, call: &Call<'_>, directory: &FileId, name: &[u8]) -> Result<Entry> {
        self.0.lookup(call, directory, &name.to_ascii_lowercase())
    }

    fn attributes(&self, call: &Call<'_>, id: &FileId) -> Result<Attributes> {
        self.0.attributes(call, id)
    }

    fn set_attributes(
        &self,
        call: &Call<'_>,
        id: &FileId,
        attributes: &SetAttributes,
        guard: Option<Timestamp>,
    ) -> Result<Change> {
        self.0.set_attributes(call, id, attributes, guard)
    }

    fn access(&self, call: &Call<'_>, id: &FileId, wanted: Access) -> Result<(Access, Attributes)> {
        self.0.access(call, id, wanted)
    }

    fn read_link(&self, call: &Call<'_>, id: &FileId) -> Result<(Vec<u8>, Attributes)> {
        self.0.read_link(call, id)
    }

    fn read(&self, call: &Call<'_>, id: &FileId, offset: u64, count: u32) -> Result<ReadReply> {
        self.0.read(call, id, offset, count)
    }

    fn write(
        &self,
        call: &Call<'_>,
        id: &FileId,
        offset: u64,
        data: &[u8],
        stability: Stability,
    ) -> Result<Written> {
        self.0.write(call, id, offset, data, stability)
    }

    fn commit(&self, call: &Call<'_>, id: &FileId, offset: u64, count: u32) -> Result<Committed> {
        self.0.commit(call, id, offset, count)
    }

    fn create(
        &self,
        call: &Call<'_>,
        directory: &FileId,
        name: &[u8],
        mode: &CreateMode,
    ) -> Result<Created> {
        let name = name.to_ascii_lowercase();
        self.0.create(call, directory, &name, mode)
    }

    fn read_directory(
        &self,
        call: &Call<'_>,
        directory: &FileId,
        cookie: u64,
        with_attributes: bool,
        visit: &mut dyn FnMut(&DirectoryEntry<'_>) -> bool,
    ) -> Result<DirectoryPage> {
        let with = with_attributes;
        self.0.read_directory(call, directory, cookie, with, visit)
    }

    fn statistics(&self, call: &Call<'_>) -> Result<Statistics> {
        self.0.statistics(call)
    }
}

#[test]
fn two_names_that_are_one_in_the_target_are_not_copied_to_it_both() {
    let memory = RamFileSystem::new(16 << 20).unwrap();
    let mut config = Config::new(vec![Export::new("/", Arc::new(Folding(memory)))], [7; 16]);
    config.listen = "127.0.0.1:0".parse().unwrap();
    let server = Server::start(config).unwrap();
    let target = format!("nfs://{}/::/", server.address());
    let base = tempfile::tempdir().unwrap();
    let script = "mkdir s; for i in 1 2 3 4 5 6; do \
                  head -c 500000 /dev/zero >s/f$i; head -c 400000 /dev/urandom >s/F$i; done";
    tool(base.path(), &["sh", "-c", script]);
    for _ in 0..2 {
        let run = run_in(base.path(), &["cp", "-r", "s/.", &target]);
        assert_eq!(run.code, Some(1), "{}", run.err);
        let lines: Vec<&str> = run.err.lines().collect();
        assert_eq!(lines.len(), 7, "{}", run.err);
        assert!(lines[0].ends_with("/f1: will not overwrite what this copy has just made there"));
        for number in 1..=6 {
            let there = format!("{target}f{number}");
            let copied = run_in(base.path(), &["cat", &there]).done();
            let first = std::fs::read(base.path().join(format!("s/F{number}"))).unwrap();
            assert!(copied == first, "{number}");
        }
    }
    server.stop().unwrap();
}
