//! What is compared: the cases of serving a directory, and the files they need.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::time::Duration;

use crate::load::{Load, Workload, write_pattern_file};

/// The file that is read.
const READ_FILE: &str = "read.data";
const READ_FILE_BYTES: u64 = 1 << 30;
/// The file that is written in random order.
const RANDOM_FILE: &str = "random.data";
const RANDOM_FILE_BYTES: u64 = 256 << 20;
/// The file that every run of the sequential write makes anew.
const WRITE_FILE: &str = "write.data";
const WRITE_FILE_BYTES: u64 = 512 << 20;
/// The directory that is listed, and how many files it has.
const LISTED_DIRECTORY: &str = "listed";
const LISTED_FILES: u32 = 1000;

/// What the speed of a case is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rate {
    /// File data in 10^6 bytes per second.
    Megabytes,
    /// Operations per second.
    Operations,
}

impl Rate {
    /// The unit.
    #[must_use]
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
    /// What is done.
    pub load: Load,
    /// What is compared.
    pub rate: Rate,
    /// Processor time is compared too, and these factors are required of the first server over
    /// the second: so much the rate, so little the processor time per byte.
    pub required: Required,
}

/// What the first server must reach, relative to the second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Required {
    /// At least this many times the rate.
    pub rate_factor: f64,
    /// At most this many times the processor time per byte.
    pub cpu_factor: Option<f64>,
}

/// Simply faster.
const FASTER: Required = Required {
    rate_factor: 1.0,
    cpu_factor: None,
};
/// What reads of common size must reach.
const TWICE_AT_HALF: Required = Required {
    rate_factor: 2.0,
    cpu_factor: Some(0.5),
};

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
            required: FASTER,
        }
    }

    fn connections(mut self, connections: usize) -> Self {
        self.name = format!("{}, {connections} connections", self.name);
        self.load.connections = connections;
        self
    }

    fn required(mut self, required: Required) -> Self {
        self.required = required;
        self
    }
}

/// All cases of serving a directory that [`prepare_directory`] made, each for `duration`.
#[must_use]
pub fn serve_cases(duration: Duration) -> Vec<Case> {
    const KIB: u32 = 1 << 10;
    let read = |block_bytes, depth| Case::new(Workload::Read, READ_FILE, block_bytes, depth);
    let random_read = || Case::new(Workload::RandomRead, READ_FILE, 8 * KIB, 32);
    let small = |workload| Case::new(workload, READ_FILE, KIB, 32);
    let mut write = Case::new(Workload::Write, WRITE_FILE, 128 * KIB, 16);
    write.load.file_bytes = Some(WRITE_FILE_BYTES);
    let mut cases = vec![
        read(1024 * KIB, 8),
        read(128 * KIB, 16).required(TWICE_AT_HALF),
        read(64 * KIB, 8),
        random_read(),
        small(Workload::Getattr),
        small(Workload::Lookup),
        small(Workload::Access),
        Case::new(Workload::ReaddirPlus, LISTED_DIRECTORY, 64 * KIB, 4),
        write,
        Case::new(Workload::RandomWrite, RANDOM_FILE, 4 * KIB, 32),
        read(128 * KIB, 16).connections(2),
        random_read().connections(2),
        small(Workload::Getattr).connections(2),
    ];
    for case in &mut cases {
        let bounded = case.load.workload != Workload::Write;
        case.load.duration = bounded.then_some(duration);
    }
    cases
}

/// Reads, writes and GETATTR at once on 64 connections: how much memory a server takes for it.
#[must_use]
pub fn memory_case(duration: Duration) -> Case {
    let mut case = Case::new(Workload::Mix, RANDOM_FILE, 128 << 10, 8).connections(64);
    case.load.duration = Some(duration);
    case
}

/// Makes the files that the cases need and that are not there in the right length.
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
        assert!(names.contains("read 128 KiB, depth 16, 2 connections"));
        assert!(names.contains("write 128 KiB, depth 16 + commit"));
    }

    #[test]
    fn one_case_must_be_twice_as_fast_at_half_the_cost() {
        let cases = serve_cases(Duration::from_secs(1));
        let strict: Vec<_> = cases
            .iter()
            .filter(|case| case.required == TWICE_AT_HALF)
            .collect();
        assert_eq!(strict.len(), 1);
        assert_eq!(strict[0].name, "read 128 KiB, depth 16");
    }
}
