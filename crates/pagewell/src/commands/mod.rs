//! The commands.

mod below;
pub(crate) mod bench;
pub(crate) mod cat;
pub(crate) mod check;
pub(crate) mod clients;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod counters;
pub(crate) mod cp;
pub(crate) mod disconnect;
pub(crate) mod ls;
pub(crate) mod man;
pub(crate) mod mount;
mod mount_configured;
pub(crate) mod mount_options;
mod mount_place;
pub(crate) mod probe;
pub(crate) mod reload;
pub(crate) mod sandbox_probe;
pub(crate) mod serve;
pub(crate) mod serving;
pub(crate) mod stat;
pub(crate) mod sum;
pub(crate) mod top;
pub(crate) mod umount;

use clap::Subcommand;

use crate::configuration::arguments::ServeArguments;
use crate::failure::Outcome;

/// The commands; what each does stands beside its arguments.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Serve(Box<ServeArguments>),
    Mount(Box<mount::MountArguments>),
    #[command(visible_alias = "unmount")]
    Umount(umount::UmountArguments),
    Ls(ls::LsArguments),
    Cat(cat::CatArguments),
    Cp(cp::CpArguments),
    Stat(stat::StatArguments),
    Sum(sum::SumArguments),
    Check(check::CheckArguments),
    Probe(probe::ProbeArguments),
    Bench(bench::BenchArguments),
    Counters(counters::CountersArguments),
    Top(top::TopArguments),
    Clients(clients::ClientsArguments),
    Disconnect(disconnect::DisconnectArguments),
    Reload(reload::ReloadArguments),
    Config(config::ConfigArguments),
    Completions(completions::CompletionsArguments),
    Man(man::ManArguments),
    #[command(hide = true)]
    SandboxProbe(Box<sandbox_probe::SandboxProbeArguments>),
}

pub(crate) fn run(command: &Command, program: fn() -> clap::Command) -> anyhow::Result<Outcome> {
    match command {
        Command::Serve(arguments) => serve::run(arguments),
        Command::Mount(arguments) => mount::run(arguments),
        Command::Umount(arguments) => umount::run(arguments),
        Command::Ls(arguments) => ls::run(arguments),
        Command::Cat(arguments) => cat::run(arguments),
        Command::Cp(arguments) => cp::run(arguments),
        Command::Stat(arguments) => stat::run(arguments),
        Command::Sum(arguments) => sum::run(arguments),
        Command::Check(arguments) => check::run(arguments),
        Command::Probe(arguments) => probe::run(arguments),
        Command::Bench(arguments) => bench::run(arguments),
        Command::Counters(arguments) => counters::run(arguments),
        Command::Top(arguments) => top::run(arguments),
        Command::Clients(arguments) => clients::run(arguments),
        Command::Disconnect(arguments) => disconnect::run(arguments),
        Command::Reload(arguments) => reload::run(arguments),
        Command::Config(arguments) => config::run(arguments),
        Command::Completions(arguments) => completions::run(arguments, &program()),
        Command::Man(arguments) => man::run(arguments, program()),
        Command::SandboxProbe(arguments) => sandbox_probe::run(arguments),
    }
}
