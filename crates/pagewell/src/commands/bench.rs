//! `pagewell bench`: the program `pagewell-bench`, which measures and is not needed to serve.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

use anyhow::Context;
use clap::Args;

use crate::failure::Outcome;

/// Has the experiments; installed beside this program.
const PROGRAM: &str = "pagewell-bench";

/// Measure: repeat well-known reports of slow storage, baseline against enhanced.
///
/// What it takes is told by `pagewell bench --help`.
#[derive(Debug, Args)]
#[command(
    disable_help_flag = true,
    after_help = "\
Examples:
  pagewell bench --help                             all experiments and options
  pagewell bench hsfs --quick                       a DVD, modelled, in about a minute
  pagewell bench compare before/ now/               what has changed? Four or more runs of each"
)]
pub(crate) struct BenchArguments {
    /// An experiment or `compare`, and its options
    #[arg(
        value_name = "ARGUMENT",
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    arguments: Vec<OsString>,
}

/// Becomes that program. Returns only when it cannot be started.
pub(crate) fn run(arguments: &BenchArguments) -> anyhow::Result<Outcome> {
    let here = std::env::current_exe().context("this program's path")?;
    let beside = here.with_file_name(PROGRAM);
    let program = if beside.exists() {
        beside
    } else {
        PROGRAM.into()
    };
    let error = Command::new(&program).args(&arguments.arguments).exec();
    if error.kind() == std::io::ErrorKind::NotFound {
        anyhow::bail!(
            "{PROGRAM} is neither beside {} nor on the PATH: the package pagewell-bench has it; \
             from source, `make build` builds it and `make install` installs it",
            here.display()
        );
    }
    Err(error).with_context(|| program.display().to_string())
}
