//! What the command lines of this program and of those beside it share: `pagewell-bench` reports
//! and ends as `pagewell` does.

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use clap::Parser;
use pagewell_fs::Timestamp;

use crate::arguments::{is_answer, one_line};
use crate::commands::man;
use crate::{failure, signals, time_text};

pub use crate::failure::Outcome;
pub use crate::values::{BENCH_WORDS, parse_count};

/// Runs a program beside this one that is called as `pagewell COMMAND`: parses its command line,
/// runs it, and returns the exit code: 0 done, 1 failed, 2 wrong usage.
pub fn run<A: Parser>(command: &str, work: impl FnOnce(&A) -> anyhow::Result<Outcome>) -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().collect();
    match A::try_parse_from(&words) {
        Ok(parsed) => {
            signals::fail_past_file_size_limit();
            signals::end_on_broken_pipe();
            failure::exit_code(work(&parsed))
        }
        Err(error) => refuse(&error, Some(&name_of(&A::command(), command, &words))),
    }
}

/// Says what is wrong with a command line on one line, or prints the help that it asked for.
pub(crate) fn refuse(error: &clap::Error, command: Option<&str>) -> ExitCode {
    if is_answer(error) {
        // Broken standard output: there is nowhere to say so.
        let _ = error.print();
        return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(failure::USAGE));
    }
    failure::report(&one_line(error, command));
    ExitCode::from(failure::USAGE)
}

/// The name of the command that the words behind the program's name are for, as `bench nfs`.
pub(crate) fn name_of(program: &clap::Command, name: &str, words: &[OsString]) -> String {
    let words = words.iter().skip(1).filter_map(|word| word.to_str());
    let mut names = Vec::from_iter((!name.is_empty()).then_some(name));
    let mut command = program;
    for name in words.filter(|word| !word.starts_with('-')) {
        let Some(found) = command.find_subcommand(name) else {
            break;
        };
        names.push(name);
        command = found;
    }
    names.join(" ")
}

/// Writes the manual pages of a program that is called as `pagewell COMMAND` to a directory.
///
/// # Errors
///
/// A file that cannot be written.
pub fn write_manual(
    program: &clap::Command,
    command: &str,
    directory: &Path,
) -> anyhow::Result<()> {
    man::write_command(program, command, directory)
}

/// `2026-01-31T23:59:59Z`, of seconds since 1970.
#[must_use]
pub fn seconds_text(seconds: i64) -> String {
    time_text::seconds(Timestamp {
        seconds,
        nanoseconds: 0,
    })
}
