//! The process whose counters are shown: on this machine, or behind an address.

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

/// The variable with the token, if no file is named.
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
    pub(crate) fn server(&self) -> anyhow::Result<Peer> {
        let mut servers = peers();
        servers.retain(|peer| peer.kind == "serve");
        choose(servers, self.process, "server", "")
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Address(SocketAddr, Option<Secret>),
    Process(Peer),
}

impl TargetArguments {
    pub(crate) fn target(&self) -> anyhow::Result<Target> {
        match self.connect {
            Some(address) => Ok(Target::Address(address, self.token()?)),
            None => {
                let elsewhere = " (--connect ADDR asks one elsewhere, which needs --http)";
                choose(peers(), self.process, "server or mount", elsewhere).map(Target::Process)
            }
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

/// The process meant among `peers`, each a `what`; without one, the message ends with the `advice`.
fn choose(
    mut peers: Vec<Peer>,
    process: Option<u32>,
    what: &str,
    advice: &str,
) -> anyhow::Result<Peer> {
    if let Some(process) = process {
        let mut peers = peers.into_iter();
        let found = peers.find(|peer| peer.process == process);
        return found.ok_or_else(|| anyhow!("process {process} is no {what} of pagewell"));
    }
    match peers.len() {
        1 => Ok(peers.remove(0)),
        0 => Err(anyhow!("no {what} of pagewell runs here{advice}")),
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
        let choose = |peers, process| choose(peers, process, "server", ", see --http");
        assert_eq!(choose(vec![peer(7)], None).unwrap(), peer(7));
        let both = || vec![peer(7), peer(9)];
        assert_eq!(choose(both(), Some(9)).unwrap(), peer(9));
        let refusal = |peers, process| choose(peers, process).unwrap_err().to_string();
        let several = refusal(both(), None);
        assert!(several.contains("7 (serve), 9 (serve)"), "{several}");
        assert_eq!(
            refusal(both(), Some(8)),
            "process 8 is no server of pagewell"
        );
        assert_eq!(
            refusal(Vec::new(), None),
            "no server of pagewell runs here, see --http"
        );
    }
}
