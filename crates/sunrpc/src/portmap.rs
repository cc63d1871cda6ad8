//! The port mapper, version 2 (RFC 1833 section 3): its messages, and a blocking client.

use crate::caller::{Caller, Error, Target};
use crate::xdr::{self, Decoder, List, xdr_enumeration, xdr_structure};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

/// The program number.
pub const PROGRAM: u32 = 100_000;
/// The version.
pub const VERSION: u32 = 2;
/// Its port.
pub const PORT: u16 = 111;
/// Protocol number of TCP.
pub const PROTOCOL_TCP: u32 = 6;
/// Protocol number of UDP.
pub const PROTOCOL_UDP: u32 = 17;

xdr_enumeration! {
    /// The procedures of the port mapper, without CALLIT.
    pub enum Procedure {
        /// Does nothing.
        Null = 0,
        /// Adds a mapping; answers whether it was added.
        Set = 1,
        /// Removes the mappings of a program and version; answers whether they are gone.
        Unset = 2,
        /// The port of a program, version and protocol; 0 without one.
        Getport = 3,
        /// All mappings.
        Dump = 4,
    }
}

xdr_structure! {
    /// The port of a program (`mapping`), the argument of SET, UNSET and GETPORT.
    #[derive(Hash)]
    pub struct Mapping {
        /// Program.
        pub program: u32,
        /// Its version.
        pub version: u32,
        /// [`PROTOCOL_TCP`] or [`PROTOCOL_UDP`]; UNSET ignores it.
        pub protocol: u32,
        /// Port; UNSET and GETPORT ignore it.
        pub port: u32,
    }
}

/// The result of DUMP (`pmaplist`).
pub type DumpReply<'a> = List<'a, Mapping>;

/// The socket of rpcbind, where alone some builds accept registrations.
const LOCAL_SOCKET: &str = "/run/rpcbind.sock";

const PEER: &str = "the port mapper";

/// A connection to a port mapper.
#[derive(Debug)]
pub struct Client(Caller);

impl Client {
    /// [`Caller::connect`].
    pub fn connect(
        address: &SocketAddr,
        local: Option<IpAddr>,
        timeout: Duration,
    ) -> Result<Self, Error> {
        Ok(Self(Caller::connect(PEER, address, local, timeout)?))
    }

    /// Connects to a port mapper at a local stream socket.
    pub fn connect_local(path: &Path, timeout: Duration) -> Result<Self, Error> {
        Ok(Self(Caller::connect_local(PEER, path, timeout)?))
    }

    /// Connects to this machine's: by its local socket, else by TCP at 127.0.0.1:111.
    pub fn connect_here(timeout: Duration) -> Result<Self, Error> {
        Self::connect_local(Path::new(LOCAL_SOCKET), timeout).or_else(|_| {
            let address = SocketAddr::from((Ipv4Addr::LOCALHOST, PORT));
            Self::connect(&address, None, timeout)
        })
    }

    /// Registers `program` at `port` of [`PROTOCOL_TCP`] or [`PROTOCOL_UDP`] (SET). False when the
    /// mapping exists or is refused.
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

    /// Removes all mappings of a program and version (UNSET); true also without any.
    pub fn unregister(&mut self, program: u32, version: u32) -> Result<bool, Error> {
        let mapping = Mapping::of_tcp(program, version);
        self.call(Procedure::Unset, &mapping, |results| results.bool())
    }

    /// The TCP port of a program and version (GETPORT), if any.
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
    fn of_tcp(program: u32, version: u32) -> Self {
        Self {
            program,
            version,
            protocol: PROTOCOL_TCP,
            port: 0,
        }
    }
}
