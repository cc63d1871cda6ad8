//! A blocking caller for rare calls to untrusted programs (port mappers, lock managers, status
//! monitors): one at a time on a stream, each with a deadline. [`crate::client`] is for many calls.

use crate::record::{LAST_FRAGMENT, MARKER_BYTES, Marker};
use crate::rpc::{Call, Credential, ReplyError, encode_call, parse_reply};
use crate::xdr::{self, Decoder, Encode, Encoder};
use pagewell_base::late::in_words;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, SocketAddrAny, SocketAddrUnix, SocketFlags, SocketType, bind, connect,
    socket_with,
};
use std::fmt::Debug;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

/// Bytes of a reply. The port mapper's have at most 428; a lock manager's repeat a cookie of this
/// program.
const REPLY_BYTES_MAX: usize = 1024;

/// A procedure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// Program.
    pub program: u32,
    /// Its version.
    pub version: u32,
    /// Procedure.
    pub procedure: u32,
}

/// An error of a call.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The peer is unreachable or too slow.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// A reply without results.
    #[error("{peer}: {error}")]
    Reply {
        /// Name of the peer, for people.
        peer: &'static str,
        /// Its reason.
        error: ReplyError,
    },
    /// A malformed reply.
    #[error("the answer of {peer}: {error}")]
    Malformed {
        /// Name of the peer, for people.
        peer: &'static str,
        /// The defect.
        error: xdr::Error,
    },
    /// A reply of more than 1024 bytes.
    #[error("the answer of {0} is too long")]
    TooLong(&'static str),
    /// A reply to another call.
    #[error("{0} answered another call")]
    WrongCall(&'static str),
}

/// A connection for calls.
#[derive(Debug)]
pub struct Caller {
    stream: Box<dyn Stream>,
    peer: &'static str,
    timeout: Duration,
    xid: u32,
}

impl Caller {
    /// Connects to `address`, from the own address `local` if given. `peer` names the peer in
    /// messages. `timeout`, which must not be zero, limits this and each call.
    pub fn connect(
        peer: &'static str,
        address: &SocketAddr,
        local: Option<IpAddr>,
        timeout: Duration,
    ) -> Result<Self, Error> {
        let stream = match local {
            None => TcpStream::connect_timeout(address, timeout),
            Some(local) => connect_from(address, local, timeout),
        };
        let stream = stream.map_err(|error| in_words(error, peer, timeout))?;
        Ok(Self::new(peer, stream, timeout))
    }

    /// Connects to a local stream socket.
    pub fn connect_local(
        peer: &'static str,
        path: &Path,
        timeout: Duration,
    ) -> Result<Self, Error> {
        let stream = connect_to_path(path, timeout);
        let stream = stream.map_err(|error| in_words(error, peer, timeout))?;
        Ok(Self::new(peer, stream, timeout))
    }

    fn new(peer: &'static str, stream: impl Stream + 'static, timeout: Duration) -> Self {
        Self {
            stream: Box::new(stream),
            peer,
            timeout,
            xid: std::process::id(),
        }
    }

    /// Makes a call without a user; `read` decodes the results.
    pub fn call<T>(
        &mut self,
        target: Target,
        arguments: &impl Encode,
        read: impl FnOnce(&mut Decoder<'_>) -> xdr::Result<T>,
    ) -> Result<T, Error> {
        self.xid = self.xid.wrapping_add(1);
        let deadline = Instant::now() + self.timeout;
        let (peer, timeout) = (self.peer, self.timeout);
        let sent = self.send(target, arguments);
        sent.map_err(|error| in_words(error, peer, timeout))?;
        let record = self.receive(deadline).map_err(|error| match error {
            Error::Io(error) => Error::Io(in_words(error, peer, timeout)),
            error => error,
        })?;
        let reply = parse_reply(&record).map_err(|error| Error::Reply { peer, error });
        let (xid, mut results) = reply?;
        if xid != self.xid {
            return Err(Error::WrongCall(peer));
        }
        read(&mut results).map_err(|error| Error::Malformed { peer, error })
    }

    fn send(&mut self, target: Target, arguments: &impl Encode) -> io::Result<()> {
        let mut record = Vec::new();
        let mut encoder = Encoder::new(&mut record);
        encoder.u32(0);
        let call = Call {
            xid: self.xid,
            program: target.program,
            version: target.version,
            procedure: target.procedure,
            credential: Credential::None,
        };
        encode_call(&mut encoder, &call);
        arguments.encode(&mut encoder);
        // Some kilobytes.
        let length = u32::try_from(encoder.position() - 4).unwrap_or(u32::MAX);
        encoder.patch_u32(0, LAST_FRAGMENT | length);
        set_socket_timeout(&self.stream, Timeout::Send, Some(self.timeout))?;
        self.stream.write_all(&record)
    }

    /// Receives a record. The deadline also ends replies of single bytes or endless empty
    /// fragments.
    fn receive(&mut self, deadline: Instant) -> Result<Vec<u8>, Error> {
        let mut record = Vec::new();
        loop {
            let mut marker = [0; MARKER_BYTES];
            self.read_exact(&mut marker, deadline)?;
            let marker = Marker::parse(marker);
            let start = record.len();
            let end = start + marker.length;
            if end > REPLY_BYTES_MAX {
                return Err(Error::TooLong(self.peer));
            }
            record.resize(end, 0);
            let (_, fragment) = record.split_at_mut(start);
            self.read_exact(fragment, deadline)?;
            if marker.last {
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
            set_socket_timeout(&self.stream, Timeout::Recv, Some(left))?;
            match self.stream.read(target) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => target = target.split_at_mut(count).1,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Connects from an own address, perhaps the only one that the peer knows.
fn connect_from(address: &SocketAddr, local: IpAddr, timeout: Duration) -> io::Result<TcpStream> {
    let family = SocketAddrAny::from(*address).address_family();
    let socket = socket_for(family, timeout)?;
    bind(&socket, &SocketAddr::new(local, 0))?;
    connect(&socket, address)?;
    Ok(TcpStream::from(socket))
}

fn connect_to_path(path: &Path, timeout: Duration) -> io::Result<UnixStream> {
    let address = SocketAddrUnix::new(path)?;
    let socket = socket_for(AddressFamily::UNIX, timeout)?;
    connect(&socket, &address)?;
    Ok(UnixStream::from(socket))
}

fn socket_for(family: AddressFamily, timeout: Duration) -> io::Result<OwnedFd> {
    let socket = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    // Linux limits connect(2) by it, too (socket(7), SO_SNDTIMEO).
    set_socket_timeout(&socket, Timeout::Send, Some(timeout))?;
    Ok(socket)
}

trait Stream: Read + Write + AsFd + Debug + Send + Sync {}

impl Stream for TcpStream {}
impl Stream for UnixStream {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, TcpListener};

    #[test]
    fn a_local_program_that_takes_no_connections_is_not_waited_for_for_ever() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let (family, kind) = (AddressFamily::UNIX, SocketType::STREAM);
        let listener = socket_with(family, kind, SocketFlags::CLOEXEC, None).unwrap();
        bind(&listener, &SocketAddrUnix::new(&path).unwrap()).unwrap();
        rustix::net::listen(&listener, 0).unwrap();
        let connect = || Caller::connect_local("it", &path, Duration::from_millis(50));
        let mut taken = Vec::new();
        let refused = (0..100).find_map(|_| connect().map(|caller| taken.push(caller)).err());
        let text = refused.expect("its queue is full at some time").to_string();
        assert_eq!(text, "it did not answer within 50ms");
    }

    #[test]
    fn a_machine_that_takes_no_connections_is_named() {
        let listener = socket_for(AddressFamily::INET, Duration::from_secs(60)).unwrap();
        bind(&listener, &SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap();
        rustix::net::listen(&listener, 0).unwrap();
        let listener = TcpListener::from(listener);
        let address = listener.local_addr().unwrap();
        for local in [None, Some(IpAddr::from([127, 0, 0, 9]))] {
            let timeout = Duration::from_millis(50);
            let connect = || Caller::connect("its lock manager", &address, local, timeout);
            let mut taken = Vec::new();
            let refused = (0..100).find_map(|_| connect().map(|caller| taken.push(caller)).err());
            let refused = refused.expect("its queue is full at some time");
            let text = "its lock manager did not answer within 50ms";
            assert_eq!(refused.to_string(), text);
            assert!(matches!(refused, Error::Io(error) if error.kind() == io::ErrorKind::TimedOut));
        }
    }

    #[test]
    fn the_address_that_calls_can_be_chosen() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let local = IpAddr::from([127, 0, 0, 9]);
        let _caller =
            Caller::connect("it", &address, Some(local), Duration::from_secs(60)).unwrap();
        assert_eq!(listener.accept().unwrap().1.ip(), local);
    }
}
