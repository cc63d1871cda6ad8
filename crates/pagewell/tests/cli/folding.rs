//! `cp` to a server on which names that differ only in their case are one.

use std::sync::Arc;

use pagewell::fs::ram::RamFileSystem;
use pagewell::fs::{Call, CreateMode, Created, Entry, FileId, FileSystem, Limits, Result};
use pagewell::nfsd::{Config, Export, Server};
use pagewell_fs::forward;

use crate::support::{run_in, tool};

/// Memory that knows no capital letters.
struct Folding(RamFileSystem);

impl FileSystem for Folding {
    forward! { self => self.0;
        describe, root, attributes, set_attributes, access, read_link, read, write, commit,
        read_directory, statistics,
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
