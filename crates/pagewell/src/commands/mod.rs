//! The commands: each a file with its arguments and what it does.

mod below;
pub(crate) mod bench;
pub(crate) mod cat;
pub(crate) mod completions;
pub(crate) mod counters;
pub(crate) mod cp;
pub(crate) mod ls;
pub(crate) mod man;
pub(crate) mod mirror;
pub(crate) mod mount;
mod mount_options;
pub(crate) mod serve;
mod serving;
pub(crate) mod stat;
pub(crate) mod sum;
pub(crate) mod top;
pub(crate) mod umount;

use clap::CommandFactory;

use crate::arguments::{Arguments, Command};
use crate::failure::Outcome;

/// Runs a command.
pub(crate) fn run(command: &Command) -> anyhow::Result<Outcome> {
    match command {
        Command::Serve(arguments) => serve::run(arguments),
        Command::Mount(arguments) => mount::run(arguments),
        Command::Umount(arguments) => umount::run(arguments),
        Command::Ls(arguments) => ls::run(arguments),
        Command::Cat(arguments) => cat::run(arguments),
        Command::Cp(arguments) => cp::run(arguments),
        Command::Stat(arguments) => stat::run(arguments),
        Command::Sum(arguments) => sum::run(arguments),
        Command::Mirror(arguments) => mirror::run(arguments),
        Command::Bench(arguments) => bench::run(arguments),
        Command::Counters(arguments) => counters::run(arguments),
        Command::Top(arguments) => top::run(arguments),
        Command::Completions(arguments) => completions::run(arguments, &Arguments::command()),
        Command::Man(arguments) => man::run(arguments, Arguments::command()),
    }
}
