//! The port mapper, version 2 (RFC 1833 section 3): the ports of programs. Its messages, and a
//! small blocking client of the one of this machine or of a caller's.

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
    /// The procedures of the port mapper, without CALLIT.
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
    /// The port of a program (`mapping`): the argument of SET, UNSET and GETPORT.
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

/// The local socket of rpcbind. Some builds of rpcbind take registrations only there.
const LOCAL_SOCKET: &str = "/run/rpcbind.sock";

/// Its name for people.
const PEER: &str = "the port mapper";

/// A connection to a port mapper, with a time limit for each call.
#[derive(Debug)]
pub struct Client(Caller);

impl Client {
    /// Connects to the port mapper at `address`, from the address `local` of this machine if given.
    /// `timeout` is the time for this and for each call; it must not be zero.
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

    /// Connects to the port mapper of this machine: by its local socket if there is one, else by
    /// TCP at 127.0.0.1:111.
    pub fn connect_here(timeout: Duration) -> Result<Self, Error> {
        Self::connect_local(Path::new(LOCAL_SOCKET), timeout).or_else(|_| {
            let address = SocketAddr::from((Ipv4Addr::LOCALHOST, PORT));
            Self::connect(&address, None, timeout)
        })
    }

    /// Registers `program` at `port` of [`PROTOCOL_TCP`] or [`PROTOCOL_UDP`] (SET). False when
    /// another program has the mapping, or the port mapper takes no registrations. A mapping of the
    /// same program and version must be removed first ([`Client::unregister`]).
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

    /// Removes the mappings of a program and version, of all protocols (UNSET). Returns the answer:
    /// rpcbind answers true also when there were none.
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
    /// The argument of UNSET and GETPORT.
    fn of_tcp(program: u32, version: u32) -> Self {
        Self {
            program,
            version,
            protocol: PROTOCOL_TCP,
            port: 0,
        }
    }
}
