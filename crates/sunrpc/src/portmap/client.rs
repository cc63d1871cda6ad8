//! A small blocking client of a port mapper (rpcbind): this machine's own, or that of a caller.

use super::{Mapping, PORT, PROGRAM, PROTOCOL_TCP, Procedure, VERSION};
use crate::caller::{self, Caller, Target};
use crate::rpc::{Credential, ReplyError};
use crate::xdr::{self, Decode};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where rpcbind has its local socket. Some builds of rpcbind take registrations only there.
const LOCAL_SOCKET: &str = "/run/rpcbind.sock";

/// How to reach a port mapper.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// By TCP.
    Tcp(SocketAddr),
    /// By a local stream socket.
    Local(PathBuf),
}

/// Why a port mapper could not be asked, or said no.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// It cannot be reached, or does not answer in time.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It answers without results.
    #[error("the port mapper: {0}")]
    Reply(#[from] ReplyError),
    /// Its answer cannot be decoded.
    #[error("the answer of the port mapper: {0}")]
    Malformed(#[from] xdr::Error),
    /// Its answer is longer than any answer should be.
    #[error("the answer of the port mapper is too long")]
    TooLong,
    /// It answers another call.
    #[error("the port mapper answered another call")]
    WrongCall,
    /// It did not enter the mapping: another program has it, or it takes no registrations.
    #[error("the port mapper refused to register the program")]
    NotRegistered,
}

impl From<caller::Error> for ClientError {
    fn from(error: caller::Error) -> Self {
        match error {
            caller::Error::Io(error) => Self::Io(error),
            caller::Error::Reply(error) => Self::Reply(error),
            caller::Error::Malformed(error) => Self::Malformed(error),
            caller::Error::TooLong => Self::TooLong,
            caller::Error::WrongCall => Self::WrongCall,
        }
    }
}

/// A connection to a port mapper. Each call waits no longer than the time given at the start.
#[derive(Debug)]
pub struct Client(Caller);

impl Client {
    /// Connects to the port mapper at `address`. `timeout` is the time for this and for each
    /// call; it must not be zero.
    pub fn connect(address: &Address, timeout: Duration) -> Result<Self, ClientError> {
        Ok(Self(match address {
            Address::Tcp(address) => Caller::connect(address, None, timeout)?,
            Address::Local(path) => Caller::connect_local(path, timeout)?,
        }))
    }

    /// Connects to the port mapper of another machine from the address `local` of this one.
    pub fn connect_from(
        local: Option<IpAddr>,
        address: &SocketAddr,
        timeout: Duration,
    ) -> Result<Self, ClientError> {
        Ok(Self(Caller::connect(address, local, timeout)?))
    }

    /// Connects to the port mapper of this machine: by its local socket where there is one, else
    /// by TCP at 127.0.0.1:111.
    pub fn connect_here(timeout: Duration) -> Result<Self, ClientError> {
        let local = Address::Local(Path::new(LOCAL_SOCKET).to_owned());
        Self::connect(&local, timeout).or_else(|_| {
            let address = SocketAddr::from((Ipv4Addr::LOCALHOST, PORT));
            Self::connect(&Address::Tcp(address), timeout)
        })
    }

    /// Enters that `program` listens on TCP port `port` (SET). An older mapping of the same
    /// program and version is in the way: [`Client::unregister`] first.
    pub fn register(&mut self, program: u32, version: u32, port: u16) -> Result<(), ClientError> {
        self.register_protocol(program, version, PROTOCOL_TCP, port)
    }

    /// [`Client::register`] for [`PROTOCOL_TCP`] or [`super::PROTOCOL_UDP`].
    pub fn register_protocol(
        &mut self,
        program: u32,
        version: u32,
        protocol: u32,
        port: u16,
    ) -> Result<(), ClientError> {
        let mapping = Mapping {
            program,
            version,
            protocol,
            port: u32::from(port),
        };
        if self.call::<bool>(Procedure::Set, &mapping)? {
            Ok(())
        } else {
            Err(ClientError::NotRegistered)
        }
    }

    /// Removes the mappings of a program and version, of all protocols (UNSET). Returns what the
    /// port mapper says: false when it did not remove them, true when they are gone; rpcbind says
    /// true also when there were none.
    pub fn unregister(&mut self, program: u32, version: u32) -> Result<bool, ClientError> {
        let mapping = Mapping {
            program,
            version,
            protocol: PROTOCOL_TCP,
            port: 0,
        };
        self.call(Procedure::Unset, &mapping)
    }

    /// The TCP port of a program and version (GETPORT), if it has one.
    pub fn port_of(&mut self, program: u32, version: u32) -> Result<Option<u16>, ClientError> {
        let mapping = Mapping {
            program,
            version,
            protocol: PROTOCOL_TCP,
            port: 0,
        };
        let port: u32 = self.call(Procedure::Getport, &mapping)?;
        let port = u16::try_from(port).map_err(|_| xdr::Error::BadValue)?;
        Ok((port != 0).then_some(port))
    }

    fn call<T: for<'a> Decode<'a>>(
        &mut self,
        procedure: Procedure,
        mapping: &Mapping,
    ) -> Result<T, ClientError> {
        let target = Target {
            program: PROGRAM,
            version: VERSION,
            procedure: procedure.number(),
        };
        Ok(self.0.call(target, Credential::None, mapping, |results| {
            T::decode(results)
        })?)
    }
}
