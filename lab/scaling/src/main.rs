//! `pagewell-scaling`: counts what the threads of a server share for each operation.
//!
//! Whether a server goes on growing with the number of processors is decided by what its threads
//! write to in common: a cache line that two processors write to is fetched from the other one
//! each time, and the more there are, the longer that takes. Seconds measured on a small machine
//! do not show it. So this program counts instead: it runs the threads of a real server one
//! instruction at a time (ptrace(2)), notes each write to memory, and says how many of an
//! operation's writes go to a cache line that another thread writes to as well, and in which
//! function. Two clients make the operations, each on a connection and a reader of its own; the
//! hard case is that both use the same file.
//!
//! Weaknesses: writes of the kernel are not seen. Two objects that lie on one line by chance count
//! as one that is shared, which is right: it costs the same. A line that one thread writes and
//! others only read is not counted.

mod operations;
#[cfg(target_arch = "x86_64")]
mod step;
mod symbols;
mod table;
mod writes;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

/// Count what the threads of a server share for each operation
#[derive(Debug, Parser)]
struct Arguments {
    /// The program to run, with line tables for the names of functions
    #[arg(long, value_name = "FILE", default_value = "target/release/pagewell")]
    program: PathBuf,
    /// Operations of each of the two clients, at least; so many at once as --depth says
    #[arg(long, value_name = "N", default_value_t = 32)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=10_000))]
    operations: u32,
    /// Operations that a client sends at once
    #[arg(long, value_name = "N", default_value_t = 16)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=64))]
    depth: u32,
    /// Only operations whose name contains this
    #[arg(long, value_name = "TEXT", default_value = "")]
    only: String,
    /// Name the functions that write to shared lines
    #[arg(long)]
    places: bool,
}

impl Arguments {
    /// How often a client sends as many operations as it sends at once.
    fn rounds(&self) -> u32 {
        self.operations.div_ceil(self.depth)
    }

    /// What each client does.
    fn done(&self) -> u32 {
        self.rounds() * self.depth
    }
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("pagewell-scaling: {error:#}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(target_arch = "x86_64")]
fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let counted = operations::count_all(arguments)?;
    print!("{}", table::text(&counted, arguments.places));
    Ok(())
}

#[cfg(not(target_arch = "x86_64"))]
fn run(_: &Arguments) -> anyhow::Result<()> {
    anyhow::bail!("instructions are read on x86-64 only")
}
