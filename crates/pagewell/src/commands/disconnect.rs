//! `pagewell disconnect`.

use std::net::IpAddr;

use clap::Args;
use pagewell_monitor::control::Peer;

use crate::failure::{Outcome, report};
use crate::target::ProcessArguments;

/// End the connections of a client to a running server.
///
/// A client that wants more connects anew, and repeats what was not answered: that costs a pause
/// and no error. To keep a client out, take its address from what --allow names.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  pagewell clients
  pagewell disconnect 192.168.122.7")]
pub(crate) struct DisconnectArguments {
    #[command(flatten)]
    process: ProcessArguments,
    /// The client's address
    #[arg(value_name = "ADDRESS")]
    address: IpAddr,
}

pub(crate) fn run(arguments: &DisconnectArguments) -> anyhow::Result<Outcome> {
    let server: Peer = arguments.process.server()?;
    let ended = server.disconnect(arguments.address)?;
    if ended == 0 {
        anyhow::bail!("{} has no connection", arguments.address);
    }
    let connections = match ended {
        1 => "1 connection".to_owned(),
        ended => format!("{ended} connections"),
    };
    report(&format!("{}: {connections} ended", arguments.address));
    Ok(Outcome::Done)
}
