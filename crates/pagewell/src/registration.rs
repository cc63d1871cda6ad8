//! Registration with the port mapper (rpcbind) of this machine.
//!
//! Without NFS and MOUNT the server does not start. NLM and NSM, for locks, are registered if
//! possible: a machine that mounts other servers has its own, and can have one of each only.

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener};
use std::time::Duration;

use pagewell_sunrpc::portmap::{Client, PROTOCOL_TCP, PROTOCOL_UDP};
use pagewell_sunrpc::{mount3, nfs3, nlm4, nsm};

/// Longest wait for one answer of the port mapper.
const PORT_MAPPER_TIME: Duration = Duration::from_secs(5);

type Program = (u32, u32);

const SERVED: [Program; 2] = [
    (nfs3::PROGRAM, nfs3::VERSION),
    (mount3::PROGRAM, mount3::VERSION),
];
const LOCKS: [Program; 2] = [(nlm4::PROGRAM, nlm4::VERSION), (nsm::PROGRAM, nsm::VERSION)];

/// What was registered, to be taken back at the end.
pub(crate) struct Registration {
    programs: Vec<Program>,
    /// Why locks cannot be registered.
    no_locks: Option<anyhow::Error>,
}

impl Registration {
    /// Makes way for the programs of a server that does not listen yet, so a used port is not its
    /// own. A mapping to an unused port is left from a killed server, and removed.
    pub(crate) fn prepare() -> anyhow::Result<Self> {
        let mut mapper = Client::connect_here(PORT_MAPPER_TIME)?;
        clear(&mut mapper, SERVED, "server")?;
        Ok(Self {
            programs: Vec::new(),
            no_locks: clear(&mut mapper, LOCKS, "program").err(),
        })
    }

    pub(crate) fn add_served(&mut self, port: u16) -> anyhow::Result<()> {
        self.add(SERVED, &[PROTOCOL_TCP], port)
    }

    /// Registers the programs for locks. If another program has one, that is an error, and clients
    /// have to mount with local locks.
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

    /// Takes back what a server at `port` has registered, unless another has replaced it.
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

/// Makes way for these programs, if no living `other` has one of them.
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

/// Whether a program of this machine listens at a TCP port, at any address: a mapping has none.
fn is_used(port: u16) -> bool {
    let anywhere: [IpAddr; 2] = [Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()];
    anywhere.into_iter().any(|address| {
        let error = TcpListener::bind((address, port)).err();
        // Without permission to look, the port counts as used.
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
