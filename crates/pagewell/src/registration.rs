//! What a server registers with the port mapper (rpcbind) of its machine.
//!
//! NFS and MOUNT have to be registered, or the server does not start. NLM and NSM, for locks, are
//! registered when they can be: a machine that mounts other servers has a lock manager and a status
//! monitor of its own, which are there already, and each machine can have one of them only.

use std::net::SocketAddr;
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
}

impl Registration {
    /// Registers the programs of a server at `port`. A mapping to a port where nothing listens is
    /// what a server that was killed left behind, and is replaced; one where a server listens is
    /// not.
    pub(crate) fn new(port: u16) -> anyhow::Result<Self> {
        let mut registration = Self {
            programs: Vec::new(),
        };
        let added = registration.add(&SERVED, &[PROTOCOL_TCP], port, "server");
        // Half of it is of no use.
        added.inspect_err(|_| drop(registration.take_back()))?;
        Ok(registration)
    }

    /// Registers what locks need. When another program has it, that is an error, and clients have
    /// to mount with their option that keeps locks local.
    pub(crate) fn add_locks(&mut self, port: u16) -> anyhow::Result<()> {
        self.add(&LOCKS, &[PROTOCOL_TCP, PROTOCOL_UDP], port, "program")
    }

    /// Registers all of these programs, if no `other` has one of them.
    fn add(
        &mut self,
        programs: &[Program],
        protocols: &[u32],
        port: u16,
        other: &str,
    ) -> anyhow::Result<()> {
        let mut mapper = Client::connect_here(PORT_MAPPER_TIME)?;
        for program in programs {
            if let Some(taken) = clear(&mut mapper, *program)? {
                let number = program.0;
                anyhow::bail!("program {number} is registered by another {other}, port {taken}");
            }
        }
        for (number, version) in programs {
            self.programs.push((*number, *version));
            for protocol in protocols {
                let is_entered = mapper.register(*number, *version, *protocol, port)?;
                anyhow::ensure!(
                    is_entered,
                    "the port mapper refused to register the program"
                );
            }
        }
        Ok(())
    }

    /// Takes everything back.
    pub(crate) fn take_back(&self) -> anyhow::Result<()> {
        let mut mapper = Client::connect_here(PORT_MAPPER_TIME)?;
        for (program, version) in &self.programs {
            mapper.unregister(*program, *version)?;
        }
        Ok(())
    }
}

/// Makes way for a registration; the port of the program that has it, if it is alive.
fn clear(mapper: &mut Client, (program, version): Program) -> anyhow::Result<Option<u16>> {
    let Some(port) = mapper.port_of(program, version)? else {
        return Ok(None);
    };
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    if std::net::TcpStream::connect_timeout(&address, PORT_MAPPER_TIME).is_ok() {
        return Ok(Some(port));
    }
    mapper.unregister(program, version)?;
    Ok(None)
}
