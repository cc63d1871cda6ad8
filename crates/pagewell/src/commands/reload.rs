//! `pagewell reload`.

use clap::Args;

use crate::failure::{Outcome, report};
use crate::target::ProcessArguments;

/// Have a running server read its configuration again, and say what has changed.
///
/// Waits until that is done. Exports are added, removed and changed without dropping a client; a
/// file with a mistake changes nothing, and the exit status is 1. SIGHUP asks for the same and
/// waits for nothing.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  pagewell config check /etc/pagewell/pagewell.toml
  pagewell reload")]
pub(crate) struct ReloadArguments {
    #[command(flatten)]
    process: ProcessArguments,
}

pub(crate) fn run(arguments: &ReloadArguments) -> anyhow::Result<Outcome> {
    report(&arguments.process.server()?.reload()?);
    Ok(Outcome::Done)
}
