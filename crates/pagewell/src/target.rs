//! Whose counters are shown: a process of this machine, or one behind an address.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::{Context, anyhow};
use clap::Args;
use pagewell_monitor::control::{Peer, peers};
use pagewell_monitor::http;
use pagewell_monitor::http::token::Secret;
use pagewell_monitor::metrics::Snapshot;

use crate::failure::usage;
use crate::values;

/// The variable that has the token where no file is named.
const TOKEN_VARIABLE: &str = "PAGEWELL_HTTP_TOKEN";

/// Without either: the only one that runs here.
#[derive(Debug, Args)]
pub(crate) struct TargetArguments {
    /// Ask the process whose --http listens there, of any machine
    #[arg(long, value_name = "ADDR[:PORT]", value_parser = values::parse_address)]
    connect: Option<SocketAddr>,
    /// The token that it asks for is in this file [default: the variable PAGEWELL_HTTP_TOKEN has
    /// the token, if there is one]
    #[arg(
        long,
        value_name = "FILE",
        requires = "connect",
        value_hint = clap::ValueHint::FilePath
    )]
    http_token: Option<PathBuf>,
    /// Ask this process of this machine, which needs no --http
    #[arg(long, value_name = "PID", conflicts_with = "connect")]
    process: Option<u32>,
}

/// Without it: the only server that runs here.
#[derive(Debug, Args)]
pub(crate) struct ProcessArguments {
    /// Ask this process
    #[arg(long, value_name = "PID")]
    process: Option<u32>,
}

impl ProcessArguments {
    /// The server that is meant.
    pub(crate) fn server(&self) -> anyhow::Result<Peer> {
        let mut servers = peers();
        servers.retain(|peer| peer.kind == "serve");
        match choose(servers, self.process)? {
            Target::Process(server) => Ok(server),
            Target::Address(address, _) => Err(anyhow!("{address}: is no process")),
        }
    }
}

/// One that counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// With the token that it asks for.
    Address(SocketAddr, Option<Secret>),
    Process(Peer),
}

impl TargetArguments {
    /// The one that is meant.
    pub(crate) fn target(&self) -> anyhow::Result<Target> {
        match self.connect {
            Some(address) => Ok(Target::Address(address, self.token()?)),
            None => choose(peers(), self.process),
        }
    }

    fn token(&self) -> anyhow::Result<Option<Secret>> {
        if let Some(file) = &self.http_token {
            return Secret::read(file).map(Some).context("--http-token");
        }
        let variable = std::env::var_os(TOKEN_VARIABLE).filter(|value| !value.is_empty());
        let token = variable.map(|value| Secret::of(TOKEN_VARIABLE, value.as_encoded_bytes()));
        token.transpose()
    }
}

fn choose(mut peers: Vec<Peer>, process: Option<u32>) -> anyhow::Result<Target> {
    if let Some(process) = process {
        let mut peers = peers.into_iter();
        let found = peers.find(|peer| peer.process == process);
        return found
            .map(Target::Process)
            .ok_or_else(|| anyhow!("process {process} is no server or mount of pagewell"));
    }
    match peers.len() {
        1 => Ok(Target::Process(peers.remove(0))),
        0 => Err(anyhow!(
            "no server or mount of pagewell runs here (--connect ADDR asks one elsewhere, \
             which needs --http)"
        )),
        _ => {
            let list: Vec<String> = peers.iter().map(Peer::to_string).collect();
            Err(usage(format!(
                "several run here, say which with --process: {}",
                list.join(", ")
            )))
        }
    }
}

impl Target {
    /// Its counters.
    pub(crate) fn counters(&self) -> anyhow::Result<Snapshot> {
        match self {
            Self::Process(peer) => peer.counters(),
            Self::Address(address, token) => {
                let body = http::client::get(*address, "/stat.json", token.as_ref())?;
                Snapshot::parse(&body).with_context(|| address.to_string())
            }
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address, _) => write!(formatter, "{address}"),
            Self::Process(peer) => write!(formatter, "process {peer}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_only_one_is_found_and_of_several_one_is_asked_for() {
        let peer = |process| Peer {
            process,
            kind: "serve".to_owned(),
        };
        assert_eq!(
            choose(vec![peer(7)], None).unwrap(),
            Target::Process(peer(7))
        );
        let both = || vec![peer(7), peer(9)];
        assert_eq!(choose(both(), Some(9)).unwrap(), Target::Process(peer(9)));
        let error = choose(both(), None).unwrap_err().to_string();
        assert!(error.contains("7 (serve), 9 (serve)"), "{error}");
        assert!(choose(both(), Some(8)).is_err());
        assert!(
            choose(Vec::new(), None)
                .unwrap_err()
                .to_string()
                .contains("--connect")
        );
    }
}
