//! A small blocking client of the machine's own port mapper (rpcbind).

use super::{Mapping, PORT, PROGRAM, PROTOCOL_TCP, Procedure, VERSION};
use crate::rpc::{Call, Credential, ReplyError, encode_call, parse_reply};
use crate::xdr::{self, Decode, Decoder, Encode, Encoder};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Where rpcbind has its local socket. Some builds of rpcbind take registrations only there.
const LOCAL_SOCKET: &str = "/run/rpcbind.sock";
/// The most bytes of a reply. Those of SET, UNSET and GETPORT have 28, or 428 with the longest
/// verifier.
const REPLY_BYTES_MAX: usize = 1024;
/// In a record mark: the fragment is the last of its record (RFC 5531 section 11).
const LAST_FRAGMENT: u32 = 1 << 31;

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

/// A connection to a port mapper. Each call waits no longer than the time given at the start.
#[derive(Debug)]
pub struct Client {
    stream: Stream,
    timeout: Duration,
    xid: u32,
}

impl Client {
    /// Connects to the port mapper at `address`. `timeout` is the time for this and for each
    /// call; it must not be zero.
    pub fn connect(address: &Address, timeout: Duration) -> Result<Self, ClientError> {
        let stream = match address {
            Address::Tcp(address) => Stream::Tcp(TcpStream::connect_timeout(address, timeout)?),
            Address::Local(path) => Stream::Local(UnixStream::connect(path)?),
        };
        Ok(Self {
            stream,
            timeout,
            xid: std::process::id(),
        })
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
        let mapping = Mapping {
            program,
            version,
            protocol: PROTOCOL_TCP,
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
        self.xid = self.xid.wrapping_add(1);
        let deadline = Instant::now() + self.timeout;
        self.send(procedure, mapping)?;
        let record = self.receive(deadline)?;
        let (xid, mut results) = parse_reply(&record)?;
        if xid != self.xid {
            return Err(ClientError::WrongCall);
        }
        Ok(T::decode(&mut results)?)
    }

    fn send(&mut self, procedure: Procedure, mapping: &Mapping) -> Result<(), ClientError> {
        let mut record = Vec::new();
        let mut encoder = Encoder::new(&mut record);
        encoder.u32(0);
        let call = Call {
            xid: self.xid,
            program: PROGRAM,
            version: VERSION,
            procedure: procedure.number(),
            credential: Credential::None,
        };
        encode_call(&mut encoder, &call);
        mapping.encode(&mut encoder);
        #[allow(clippy::cast_possible_truncation)] // 56 bytes
        let length = (encoder.position() - 4) as u32;
        encoder.patch_u32(0, LAST_FRAGMENT | length);
        self.stream.set_write_timeout(self.timeout)?;
        self.stream.write_all(&record)?;
        Ok(())
    }

    /// Takes one record of any number of fragments. The deadline ends it even when the other
    /// side sends a byte now and then, or empty fragments without end.
    fn receive(&mut self, deadline: Instant) -> Result<Vec<u8>, ClientError> {
        let mut record = Vec::new();
        loop {
            let mut mark = [0; 4];
            self.read_exact(&mut mark, deadline)?;
            let mark = Decoder::new(&mark).u32()?;
            let start = record.len();
            let end = start + (mark & !LAST_FRAGMENT) as usize;
            if end > REPLY_BYTES_MAX {
                return Err(ClientError::TooLong);
            }
            record.resize(end, 0);
            self.read_exact(&mut record[start..], deadline)?;
            if mark & LAST_FRAGMENT != 0 {
                return Ok(record);
            }
        }
    }

    fn read_exact(&mut self, mut target: &mut [u8], deadline: Instant) -> io::Result<()> {
        while !target.is_empty() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            self.stream.set_read_timeout(left)?;
            match self.stream.read(target) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => target = target.split_at_mut(count).1,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Err(io::ErrorKind::TimedOut.into());
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Either kind of stream.
#[derive(Debug)]
enum Stream {
    Tcp(TcpStream),
    Local(UnixStream),
}

impl Stream {
    fn set_read_timeout(&self, timeout: Duration) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.set_read_timeout(Some(timeout)),
            Self::Local(stream) => stream.set_read_timeout(Some(timeout)),
        }
    }

    fn set_write_timeout(&self, timeout: Duration) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.set_write_timeout(Some(timeout)),
            Self::Local(stream) => stream.set_write_timeout(Some(timeout)),
        }
    }

    fn read(&mut self, target: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(target),
            Self::Local(stream) => stream.read(target),
        }
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.write_all(bytes),
            Self::Local(stream) => stream.write_all(bytes),
        }
    }
}
