//! The cases of serving a directory, and the files they need.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::time::Duration;

use super::required::{Beside, Measure, Required};
use crate::load::{Load, Workload, write_pattern_file};

/// Reads: close to what the machine lets through, and faster than peers.
const READ: &[Required] = &[
    Required::rate(Beside::BestLimit, 0.85),
    Required::rate(Beside::Peer("unfs3"), 1.0),
    Required::rate(Beside::Peer("nfs-ganesha"), 1.3),
];
const COMMON_READ: &[Required] = &[
    Required::rate(Beside::BestLimit, 0.85),
    Required::rate(Beside::Peer("unfs3"), 1.0),
    Required::rate(Beside::Peer("nfs-ganesha"), 2.0),
    Required {
        measure: Measure::Processor,
        beside: Beside::Peer("nfs-ganesha"),
        factor: 0.5,
    },
];
/// Many small calls at once.
const SMALL: &[Required] = &[Required::rate(Beside::EachPeer, 2.0)];
/// One small call after the other: latency alone.
const SINGLE: &[Required] = &[
    Required::rate(Beside::EachPeer, 1.0),
    Required {
        measure: Measure::Processor,
        beside: Beside::EachPeer,
        factor: 1.3,
    },
];
/// Cases that wait for storage, or are large.
const NOT_SLOWER: &[Required] = &[Required::rate(Beside::EachPeer, 1.0)];

const READ_FILE: &str = "read.data";
const READ_FILE_BYTES: u64 = 1 << 30;
const RANDOM_FILE: &str = "random.data";
const RANDOM_FILE_BYTES: u64 = 256 << 20;
const WRITE_FILE: &str = "write.data";
const WRITE_FILE_BYTES: u64 = 512 << 20;
const LISTED_DIRECTORY: &str = "listed";
pub(super) const LISTED_FILES: u32 = 1000;

const KIB: u32 = 1 << 10;
/// Ways of the bare server to answer a READ.
const LIMITS_OF_READ: usize = 3;

/// The unit of a case's speed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rate {
    /// File data in 10^6 bytes per second.
    Megabytes,
    /// Operations per second.
    Operations,
}

impl Rate {
    /// The unit.
    pub const fn unit(self) -> &'static str {
        match self {
            Self::Megabytes => "MB/s",
            Self::Operations => "ops/s",
        }
    }
}

/// One thing that every server does in turn.
#[derive(Clone, Debug)]
pub struct Case {
    /// Unique name.
    pub name: String,
    /// The load.
    pub load: Load,
    /// The unit of its speed.
    pub rate: Rate,
    /// How many of the bare servers take part, the first ones.
    pub limits: usize,
    /// What the first server must reach.
    pub required: &'static [Required],
}

impl Case {
    fn new(workload: Workload, path: &str, block_bytes: u32, depth: usize) -> Self {
        let load = Load {
            block_bytes,
            depth,
            ..Load::new(workload, path)
        };
        let block = crate::report::bytes(block_bytes.into());
        let commit = if workload.writes() { " + commit" } else { "" };
        let name = match workload {
            Workload::Read => format!("read {block}, depth {depth}"),
            Workload::RandomRead => format!("random read {block}, depth {depth}"),
            Workload::Write => format!("write {block}, depth {depth}{commit}"),
            Workload::RandomWrite => format!("random write {block}, depth {depth}{commit}"),
            Workload::ReaddirPlus => format!("readdirplus of {LISTED_FILES}, depth {depth}"),
            _ => format!("{workload}, depth {depth}"),
        };
        let sequential = matches!(workload, Workload::Read | Workload::Write);
        let rate = if sequential {
            Rate::Megabytes
        } else {
            Rate::Operations
        };
        Self {
            name,
            load,
            rate,
            limits: 0,
            required: NOT_SLOWER,
        }
    }

    fn connections(mut self, connections: usize) -> Self {
        if connections > 1 {
            self.name = format!("{}, {connections} connections", self.name);
        }
        self.load.connections = connections;
        self
    }

    const fn limits(mut self, limits: usize) -> Self {
        self.limits = limits;
        self
    }

    const fn required(mut self, required: &'static [Required]) -> Self {
        self.required = required;
        self
    }
}

/// All cases of serving a directory made by [`prepare_directory`], each for `duration`.
pub fn serve_cases(duration: Duration) -> Vec<Case> {
    let mut write = Case::new(Workload::Write, WRITE_FILE, 128 * KIB, 16).limits(1);
    write.load.file_bytes = Some(WRITE_FILE_BYTES);
    let mut cases = read_cases();
    cases.extend(small_cases());
    cases.extend([
        Case::new(Workload::ReaddirPlus, LISTED_DIRECTORY, 64 * KIB, 4),
        write,
        Case::new(Workload::RandomWrite, RANDOM_FILE, 4 * KIB, 32).limits(1),
    ]);
    for case in &mut cases {
        let bounded = case.load.workload != Workload::Write;
        case.load.duration = bounded.then_some(duration);
    }
    cases
}

/// Sequential reads, in the sizes and depths of clients. All ways of the bare server take part:
/// size and machine decide which is the best.
fn read_cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for block_bytes in [1024 * KIB, 128 * KIB, 64 * KIB] {
        for connections in [1, 4] {
            for depth in [1, 4, 16] {
                let common = (block_bytes, depth, connections) == (128 * KIB, 16, 1);
                let case = Case::new(Workload::Read, READ_FILE, block_bytes, depth)
                    .connections(connections)
                    .required(if common { COMMON_READ } else { READ });
                cases.push(case.limits(LIMITS_OF_READ));
            }
        }
    }
    cases
}

/// Calls that a server answers with a few bytes, or with 8 KiB.
fn small_cases() -> Vec<Case> {
    let small = |workload, depth| Case::new(workload, READ_FILE, KIB, depth);
    let random_read = |depth| Case::new(Workload::RandomRead, READ_FILE, 8 * KIB, depth);
    let deep = |case: Case| case.required(SMALL).limits(1);
    let single = |case: Case| case.required(SINGLE).limits(1);
    vec![
        deep(random_read(32)),
        deep(random_read(32)).connections(4),
        single(random_read(1)),
        deep(small(Workload::Getattr, 32)),
        deep(small(Workload::Getattr, 32)).connections(4),
        single(small(Workload::Getattr, 1)),
        deep(small(Workload::Lookup, 32)),
        single(small(Workload::Lookup, 1)),
        small(Workload::Access, 32).required(SMALL),
    ]
}

/// Reads, writes and GETATTR at once on 64 connections, for the memory of a server.
pub fn memory_case(duration: Duration) -> Case {
    let mut case = Case::new(Workload::Mix, RANDOM_FILE, 128 << 10, 8).connections(64);
    case.load.duration = Some(duration);
    case.load.watch_memory = true;
    case
}

/// Makes the files of the cases, but for those of the right length.
///
/// # Errors
///
/// Those of the file system, each with the path.
pub fn prepare_directory(directory: &Path) -> io::Result<()> {
    for (name, bytes) in [
        (READ_FILE, READ_FILE_BYTES),
        (RANDOM_FILE, RANDOM_FILE_BYTES),
    ] {
        let path = directory.join(name);
        if fs::metadata(&path).map_or(0, |found| found.len()) != bytes {
            write_pattern_file(&path, bytes).map_err(|error| at(&path, &error))?;
        }
    }
    let listed = directory.join(LISTED_DIRECTORY);
    fs::create_dir_all(&listed).map_err(|error| at(&listed, &error))?;
    for number in 0..LISTED_FILES {
        let path = listed.join(format!("file-{number:04}"));
        File::create(&path).map_err(|error| at(&path, &error))?;
    }
    Ok(())
}

fn at(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn cases_have_names_of_their_own() {
        let mut cases = serve_cases(Duration::from_secs(1));
        cases.push(memory_case(Duration::from_secs(1)));
        let names: HashSet<_> = cases.iter().map(|case| case.name.as_str()).collect();
        assert_eq!(names.len(), cases.len());
        assert!(names.contains("read 128 KiB, depth 16"));
        assert!(names.contains("read 64 KiB, depth 1, 4 connections"));
        assert!(names.contains("write 128 KiB, depth 16 + commit"));
    }

    #[test]
    fn one_case_must_be_twice_as_fast_at_half_the_cost() {
        let cases = serve_cases(Duration::from_secs(1));
        let strict: Vec<_> = cases
            .iter()
            .filter(|case| case.required == COMMON_READ)
            .collect();
        assert_eq!(strict.len(), 1);
        assert_eq!(strict[0].name, "read 128 KiB, depth 16");
        let reads = cases.iter().filter(|case| case.required == READ);
        assert_eq!(reads.count(), 17);
    }
}
