//! The clients that may use an export: addresses, networks and names of hosts.
//!
//! A name stands for its addresses when the configuration is read. A name without one lets no
//! client in, and is reported.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::fmt;
use std::net::{IpAddr, ToSocketAddrs};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use pagewell_base::network::Network;
use pagewell_base::sync::Mutex;

/// Addresses of a name that count: each call looks through all of an export.
const ADDRESSES_MAX: usize = 16;
/// How long to look up all names together.
const LOOK_UP_FOR: Duration = Duration::from_secs(5);
const THREADS_MAX: usize = 16;
/// The longest name (RFC 1035 section 2.3.4).
const NAME_BYTES_MAX: usize = 253;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Allowed {
    Network(Network),
    Host(String),
}

impl FromStr for Allowed {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
        // Digits and dots alone, and text with a colon or a slash, are meant as addresses.
        let is_host =
            text.bytes().all(is_name) && text.bytes().any(|byte| byte.is_ascii_alphabetic());
        if is_host && text.len() <= NAME_BYTES_MAX {
            return Ok(Self::Host(text.to_owned()));
        }
        text.parse()
            .map(Self::Network)
            .map_err(|error: String| format!("{error}, nor the name of a host"))
    }
}

impl fmt::Display for Allowed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Network(network) => network.fmt(formatter),
            Self::Host(name) => name.fmt(formatter),
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Hosts(HashMap<String, Vec<IpAddr>>);

impl Hosts {
    /// Looks up all names, within [`LOOK_UP_FOR`]. Also returns a line for each name without an
    /// address.
    pub(crate) fn look_up<'a>(lists: impl IntoIterator<Item = &'a Allowed>) -> (Self, Vec<String>) {
        let hosts = lists.into_iter().filter_map(|allowed| match allowed {
            Allowed::Host(name) => Some(name.clone()),
            Allowed::Network(_) => None,
        });
        let names: BTreeSet<String> = hosts.collect();
        let answers = ask(&names);
        let silent = || format!("no answer within {} s", LOOK_UP_FOR.as_secs());
        let (mut found, mut warnings) = (HashMap::new(), Vec::new());
        for name in names {
            let answer = answers.get(&name).cloned();
            match answer.unwrap_or_else(|| Err(silent())) {
                Ok(addresses) => _ = found.insert(name, addresses),
                Err(reason) => warnings.push(format!(
                    "allow: the host '{name}' is not known ({reason}): nobody is let in by it"
                )),
            }
        }
        (Self(found), warnings)
    }

    /// The networks of a list, with this machine's own unless `no_loopback`. A list without any
    /// known address lets no client in.
    pub(crate) fn networks(&self, allow: &[Allowed], no_loopback: bool) -> Vec<Network> {
        if allow.is_empty() {
            return Vec::new();
        }
        let mut networks = Vec::new();
        for allowed in allow {
            match allowed {
                Allowed::Network(network) => networks.push(*network),
                Allowed::Host(name) => {
                    let addresses = self.0.get(name).into_iter().flatten();
                    networks.extend(addresses.filter_map(|address| network_of(*address)));
                }
            }
        }
        if !no_loopback {
            networks.extend(Network::LOOPBACK);
        }
        if networks.is_empty() {
            // An empty list would mean this machine. No call comes from this address.
            networks.extend(network_of(IpAddr::from([0, 0, 0, 0])));
        }
        networks
    }
}

fn network_of(address: IpAddr) -> Option<Network> {
    address.to_string().parse().ok()
}

type Answer = Result<Vec<IpAddr>, String>;

/// Asks for several names at a time. A resolver cannot be interrupted: late answers stay with their
/// threads.
fn ask(names: &BTreeSet<String>) -> HashMap<String, Answer> {
    let waiting: VecDeque<String> = names.iter().cloned().collect();
    let waiting = Arc::new(Mutex::new(waiting));
    let (sender, answers) = channel();
    for _ in 0..names.len().min(THREADS_MAX) {
        let (waiting, sender) = (waiting.clone(), sender.clone());
        let thread = std::thread::Builder::new().name("host names".to_owned());
        // The other threads take the names of a thread that cannot start.
        let _ = thread.spawn(move || {
            loop {
                let next = waiting.lock().pop_front();
                let Some(name) = next else { break };
                let answer = addresses(&name);
                if sender.send((name, answer)).is_err() {
                    break;
                }
            }
        });
    }
    drop(sender);
    let deadline = Instant::now() + LOOK_UP_FOR;
    let mut found = HashMap::new();
    while found.len() < names.len() {
        let left = deadline.saturating_duration_since(Instant::now());
        let Ok((name, answer)) = answers.recv_timeout(left) else {
            break;
        };
        found.insert(name, answer);
    }
    waiting.lock().clear();
    found
}

fn addresses(name: &str) -> Answer {
    let found = (name, 0).to_socket_addrs();
    let found = found.map_err(|error| error.to_string())?;
    let mut addresses: Vec<IpAddr> = found.map(|address| address.ip()).collect();
    addresses.sort_unstable();
    addresses.dedup();
    addresses.truncate(ADDRESSES_MAX);
    if addresses.is_empty() {
        return Err("it has no address".to_owned());
    }
    Ok(addresses)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_networks_and_names_are_told_apart() {
        for name in ["localhost", "a.example", "build-7", "x1"] {
            assert_eq!(name.parse(), Ok(Allowed::Host(name.to_owned())));
        }
        for network in ["10.0.0.1", "10.0.0.0/8", "::1", "fe80::/10"] {
            let parsed = network.parse().unwrap();
            assert_eq!(Allowed::from_str(network), Ok(Allowed::Network(parsed)));
        }
        for bad in ["", "10.0.0", "10.0.0.0/33", "host/24", "a b", "*.example"] {
            let error = Allowed::from_str(bad).unwrap_err();
            assert!(error.contains("name of a host"), "{bad}: {error}");
        }
    }

    #[test]
    fn names_become_addresses_and_unknown_ones_let_nobody_in() {
        // Names that every system knows, and that none does (RFC 6761 sections 6.3 and 6.4).
        let known: Allowed = "localhost".parse().unwrap();
        let unknown: Allowed = "pagewell.invalid".parse().unwrap();
        let (hosts, warnings) = Hosts::look_up([&known, &unknown]);
        assert_eq!(warnings.len(), 1);
        assert!(warnings[0].contains("'pagewell.invalid'"), "{warnings:?}");
        let local = IpAddr::from([127, 0, 0, 1]);
        let allows = |list: &[Allowed], address: IpAddr| {
            let networks = hosts.networks(list, true);
            assert!(!networks.is_empty(), "that would be this machine");
            networks.iter().any(|network| network.contains(address))
        };
        assert!(allows(&[known], local));
        assert!(!allows(&[unknown], local));
        assert!(hosts.networks(&[], true).is_empty());
    }
}
