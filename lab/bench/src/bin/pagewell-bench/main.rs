//! `pagewell-bench`: what `pagewell bench` starts.

mod arguments;
mod compare;
mod names;
mod read;
mod result_file;

use std::process::ExitCode;

use pagewell::command_line;

fn main() -> ExitCode {
    command_line::run("bench", arguments::run)
}
