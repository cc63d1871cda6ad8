//! What a server registers with the port mapper (rpcbind) of its machine.
//!
//! NFS and MOUNT have to be registered, or the server does not start. NLM and NSM, for locks, are
//! registered when they can be: a machine that mounts other servers has a lock manager and a status
//! monitor of its own, which are there already, and each machine can have one of them only.

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener};
use std::time::Duration;

use pagewell_sunrpc::portmap::{Client, PROTOCOL_TCP, PROTOCOL_UDP};
use pagewell_sunrpc::{mount3, nfs3, nlm4, nsm};

/// Longest wait for one answer of the port mapper.
const PORT_MAPPER_TIME: Duration = Duration::from_secs(5);

/// A program and its version.
type Program = (u32, u32);

const SERVED: [Program; 2] = [
    (nfs3::PROGRAM, nfs3::VERSION),
    (mount3::PROGRAM, mount3::VERSION),
];
const LOCKS: [Program; 2] = [(nlm4::PROGRAM, nlm4::VERSION), (nsm::PROGRAM, nsm::VERSION)];

/// What was registered, to be taken back at the end.
pub(crate) struct Registration {
    programs: Vec<Program>,
    /// Why there is no place for what locks need.
    no_locks: Option<anyhow::Error>,
}

impl Registration {
    /// Makes way for the programs of a server that does not listen yet: a port that is used is not
    /// its own. A mapping to a port that is not used is what a server that was killed left behind,
    /// and is removed; another one stays.
    pub(crate) fn prepare() -> anyhow::Result<Self> {
        let mut mapper = Client::connect_here(PORT_MAPPER_TIME)?;
        clear(&mut mapper, SERVED, "server")?;
        Ok(Self {
            programs: Vec::new(),
            no_locks: clear(&mut mapper, LOCKS, "program").err(),
        })
    }

    /// Registers the programs of the server, which listens at `port`.
    pub(crate) fn add_served(&mut self, port: u16) -> anyhow::Result<()> {
        self.add(SERVED, &[PROTOCOL_TCP], port)
    }

    /// Registers what locks need. When another program has it, that is an error, and clients have
    /// to mount with their option that keeps locks local.
    pub(crate) fn add_locks(&mut self, port: u16) -> anyhow::Result<()> {
        match self.no_locks.take() {
            Some(reason) => Err(reason),
            None => self.add(LOCKS, &[PROTOCOL_TCP, PROTOCOL_UDP], port),
        }
    }

    fn add(&mut self, programs: [Program; 2], protocols: &[u32], port: u16) -> anyhow::Result<()> {
        let mut mapper = Client::connect_here(PORT_MAPPER_TIME)?;
        for (number, version) in programs {
            self.programs.push((number, version));
            for protocol in protocols {
                let is_entered = mapper.register(number, version, *protocol, port)?;
                anyhow::ensure!(
                    is_entered,
                    "the port mapper refused to register the program"
                );
            }
        }
        Ok(())
    }

    /// Takes back what a server at `port` had registered, and no other has by now.
    pub(crate) fn take_back(&self, port: u16) -> anyhow::Result<()> {
        let mut mapper = Client::connect_here(PORT_MAPPER_TIME)?;
        for (program, version) in &self.programs {
            if mapper.port_of(*program, *version)? == Some(port) {
                mapper.unregister(*program, *version)?;
            }
        }
        Ok(())
    }
}

/// Makes way for the registration of these programs, if no `other` that is alive has one of them.
fn clear(mapper: &mut Client, programs: [Program; 2], other: &str) -> anyhow::Result<()> {
    for (program, version) in programs {
        match mapper.port_of(program, version)? {
            Some(port) if is_used(port) => {
                anyhow::bail!("program {program} is registered by another {other}, port {port}")
            }
            Some(_) => {
                mapper.unregister(program, version)?;
            }
            None => {}
        }
    }
    Ok(())
}

/// Whether a program of this machine listens at a port of TCP, at whatever address: a mapping has
/// none, so it may be any.
fn is_used(port: u16) -> bool {
    let anywhere: [IpAddr; 2] = [Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()];
    anywhere.into_iter().any(|address| {
        let error = TcpListener::bind((address, port)).err();
        // What may not be known is not taken for free.
        let in_use = [ErrorKind::AddrInUse, ErrorKind::PermissionDenied];
        error.is_some_and(|error| in_use.contains(&error.kind()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_used_at_whatever_address_of_this_machine() {
        for address in ["127.0.0.1:0", "127.0.0.77:0", "0.0.0.0:0"] {
            let listener = TcpListener::bind(address).unwrap();
            let port = listener.local_addr().unwrap().port();
            assert!(is_used(port), "{address}");
        }
    }
}
