//! The port mapper, version 2 (RFC 1833 section 3): which program listens on which port. Its
//! messages, and a small blocking client of this machine's own or that of a caller.

use crate::caller::{Caller, Error, Target};
use crate::xdr::{self, Decoder, List, xdr_enumeration, xdr_structure};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

/// The program number.
pub const PROGRAM: u32 = 100_000;
/// The version.
pub const VERSION: u32 = 2;
/// The port it listens on.
pub const PORT: u16 = 111;
/// Protocol number of TCP.
pub const PROTOCOL_TCP: u32 = 6;
/// Protocol number of UDP.
pub const PROTOCOL_UDP: u32 = 17;

xdr_enumeration! {
    /// A procedure of the port mapper that is used here; CALLIT is not.
    pub enum Procedure {
        /// Do nothing.
        Null = 0,
        /// Enter a mapping; answers whether it was entered.
        Set = 1,
        /// Remove the mappings of a program and version; answers whether they are gone.
        Unset = 2,
        /// The port of a program, version and protocol; 0 when there is none.
        Getport = 3,
        /// All mappings.
        Dump = 4,
    }
}

xdr_structure! {
    /// Where a program listens (`mapping`): the argument of SET, UNSET and GETPORT.
    #[derive(Hash)]
    pub struct Mapping {
        /// Program number.
        pub program: u32,
        /// Version of the program.
        pub version: u32,
        /// [`PROTOCOL_TCP`] or [`PROTOCOL_UDP`]; UNSET ignores it.
        pub protocol: u32,
        /// Port; UNSET and GETPORT ignore it.
        pub port: u32,
    }
}

/// The result of DUMP (`pmaplist`).
pub type DumpReply<'a> = List<'a, Mapping>;

/// Where rpcbind has its local socket. Some builds of rpcbind take registrations only there.
const LOCAL_SOCKET: &str = "/run/rpcbind.sock";

/// What people call it.
const PEER: &str = "the port mapper";

/// A connection to a port mapper. Each call waits no longer than the time given at the start.
#[derive(Debug)]
pub struct Client(Caller);

impl Client {
    /// Connects to the port mapper at `address`, from the address `local` of this machine if one is
    /// given. `timeout` is the time for this and for each call; it must not be zero.
    pub fn connect(
        address: &SocketAddr,
        local: Option<IpAddr>,
        timeout: Duration,
    ) -> Result<Self, Error> {
        Ok(Self(Caller::connect(PEER, address, local, timeout)?))
    }

    /// Connects to the port mapper at a local stream socket.
    pub fn connect_local(path: &Path, timeout: Duration) -> Result<Self, Error> {
        Ok(Self(Caller::connect_local(PEER, path, timeout)?))
    }

    /// Connects to the port mapper of this machine: by its local socket where there is one, else
    /// by TCP at 127.0.0.1:111.
    pub fn connect_here(timeout: Duration) -> Result<Self, Error> {
        Self::connect_local(Path::new(LOCAL_SOCKET), timeout).or_else(|_| {
            let address = SocketAddr::from((Ipv4Addr::LOCALHOST, PORT));
            Self::connect(&address, None, timeout)
        })
    }

    /// Enters that `program` listens on `port` of [`PROTOCOL_TCP`] or [`PROTOCOL_UDP`] (SET).
    /// Returns whether it was entered: another program may have it, or the port mapper takes no
    /// registrations. An older mapping of the same program and version is in the way:
    /// [`Client::unregister`] first.
    pub fn register(
        &mut self,
        program: u32,
        version: u32,
        protocol: u32,
        port: u16,
    ) -> Result<bool, Error> {
        let mapping = Mapping {
            program,
            version,
            protocol,
            port: u32::from(port),
        };
        self.call(Procedure::Set, &mapping, |results| results.bool())
    }

    /// Removes the mappings of a program and version, of all protocols (UNSET). Returns what the
    /// port mapper says: false when it did not remove them, true when they are gone; rpcbind says
    /// true also when there were none.
    pub fn unregister(&mut self, program: u32, version: u32) -> Result<bool, Error> {
        let mapping = Mapping::of_tcp(program, version);
        self.call(Procedure::Unset, &mapping, |results| results.bool())
    }

    /// The TCP port of a program and version (GETPORT), if it has one.
    pub fn port_of(&mut self, program: u32, version: u32) -> Result<Option<u16>, Error> {
        let mapping = Mapping::of_tcp(program, version);
        self.call(Procedure::Getport, &mapping, |results| {
            let port = u16::try_from(results.u32()?).map_err(|_| xdr::Error::BadValue)?;
            Ok((port != 0).then_some(port))
        })
    }

    fn call<T>(
        &mut self,
        procedure: Procedure,
        mapping: &Mapping,
        read: impl FnOnce(&mut Decoder<'_>) -> xdr::Result<T>,
    ) -> Result<T, Error> {
        let target = Target {
            program: PROGRAM,
            version: VERSION,
            procedure: procedure.number(),
        };
        self.0.call(target, mapping, read)
    }
}

impl Mapping {
    /// What UNSET and GETPORT are asked about.
    fn of_tcp(program: u32, version: u32) -> Self {
        Self {
            program,
            version,
            protocol: PROTOCOL_TCP,
            port: 0,
        }
    }
}
