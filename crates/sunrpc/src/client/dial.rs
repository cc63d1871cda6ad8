//! Makes connections, from a reserved port if wanted.
//!
//! Reserved ports (below 1024) only prove a privilege on some machine; many servers insist. The
//! search starts at a random port, goes down to 512, and skips ports whose last connection lingers.
//! After a loss the same port is preferred: servers often remember calls by it.

use super::options::{Options, SourcePort};
use crate::stream::{begin_unpaced, prepare};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{SocketAddrAny, SocketFlags, SocketType, bind, connect, socket_with, sockopt};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// Above the well-known ones.
const RESERVED_PORTS: std::ops::Range<u16> = 512..1024;
/// Period of checks whether an attempt is still wanted.
const STOP_CHECK: Duration = Duration::from_millis(20);
/// Silence before a keep-alive probe, and time between [`KEEP_ALIVE_COUNT`] probes.
const KEEP_ALIVE: Duration = Duration::from_secs(60);
const KEEP_ALIVE_COUNT: u32 = 5;

/// Why a client could not connect.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// No address is given.
    #[error("{server} has no address")]
    NoAddress {
        /// Of the server.
        server: String,
    },
    /// No port below 1024 is available.
    #[error("no port below 1024 can be used to connect to {server}: {error}")]
    ReservedPort {
        /// Of the server.
        server: String,
        /// The system's reason.
        error: io::Error,
    },
    /// No address accepts.
    #[error("cannot connect to {server} ({address}): {error}")]
    Failed {
        /// Of the server.
        server: String,
        /// The last one.
        address: SocketAddr,
        /// The system's reason.
        error: io::Error,
    },
    /// No thread starts.
    #[error("the system gives no thread: {0}")]
    Thread(io::Error),
    /// The client was stopped.
    #[error("the client was stopped")]
    Stopped,
}

pub(super) fn scatter() -> u32 {
    (RandomState::new().build_hasher().finish() >> 32) as u32
}

/// From port `again` if possible, while `wanted`, to the first address that accepts.
pub(super) fn dial(
    options: &Options,
    again: Option<u16>,
    wanted: impl Fn() -> bool,
) -> Result<TcpStream, ConnectError> {
    let server = || options.server.clone();
    let mut failure = ConnectError::NoAddress { server: server() };
    for address in &options.addresses {
        let attempt = Attempt {
            address: *address,
            deadline: Instant::now() + options.connect_timeout,
            wanted: &wanted,
        };
        let reserved = is_reserved(options.source_port, address);
        let same_port = again.map(|port| attempt.connect_from(Some(port)));
        let made = match same_port {
            Some(Ok(stream)) => Ok(stream),
            Some(Err(error)) if !may_differ_elsewhere(&error) => Err(error),
            _ if reserved => attempt.connect_from_reserved(),
            _ => attempt.connect_from(None),
        };
        let error = match made {
            Ok(stream) => return Ok(stream),
            Err(_) if !wanted() => return Err(ConnectError::Stopped),
            Err(error) => error,
        };
        failure = if reserved && error.kind() == io::ErrorKind::PermissionDenied {
            ConnectError::ReservedPort {
                server: server(),
                error,
            }
        } else {
            ConnectError::Failed {
                server: server(),
                address: *address,
                error,
            }
        };
    }
    Err(failure)
}

struct Attempt<'a> {
    address: SocketAddr,
    deadline: Instant,
    wanted: &'a dyn Fn() -> bool,
}

impl Attempt<'_> {
    fn connect_from_reserved(&self) -> io::Result<TcpStream> {
        let count = RESERVED_PORTS.len();
        let first = RESERVED_PORTS
            .rev()
            .cycle()
            .skip(scatter() as usize % count);
        let mut failure = io::Error::from(io::ErrorKind::AddrInUse);
        for port in first.take(count) {
            match self.connect_from(Some(port)) {
                Err(error) if is_taken(&error) => failure = error,
                result => return result,
            }
        }
        Err(failure)
    }

    fn connect_from(&self, port: Option<u16>) -> io::Result<TcpStream> {
        let socket = socket_for(&self.address)?;
        if let Some(port) = port {
            sockopt::set_socket_reuseaddr(&socket, true)?;
            bind(&socket, &any_address(&self.address, port))?;
        }
        if self.address.ip().is_loopback() {
            begin_unpaced(&socket);
        }
        match connect(&socket, &self.address) {
            Ok(()) => {}
            Err(Errno::INPROGRESS | Errno::INTR) => self.wait(&socket)?,
            Err(error) => return Err(error.into()),
        }
        let stream = TcpStream::from(socket);
        if stream.local_addr()? == stream.peer_addr()? {
            // No server listens, and the system chose the called port as source.
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        stream.set_nonblocking(false)?;
        prepare(&stream, None)?;
        // Else the end of a peer shows later: when a call gets no reply.
        let _ = sockopt::set_socket_keepalive(&stream, true);
        let _ = sockopt::set_tcp_keepidle(&stream, KEEP_ALIVE);
        let _ = sockopt::set_tcp_keepintvl(&stream, KEEP_ALIVE);
        let _ = sockopt::set_tcp_keepcnt(&stream, KEEP_ALIVE_COUNT);
        Ok(stream)
    }

    fn wait(&self, socket: &OwnedFd) -> io::Result<()> {
        loop {
            let left = self.deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || !(self.wanted)() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            let slice = Timespec::try_from(left.min(STOP_CHECK)).unwrap_or_default();
            let mut ready = [PollFd::new(socket, PollFlags::OUT)];
            match poll(&mut ready, Some(&slice)) {
                Ok(0) | Err(Errno::INTR) => {}
                Ok(_) => {
                    sockopt::socket_error(socket)??;
                    return Ok(());
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}

fn socket_for(address: &SocketAddr) -> io::Result<OwnedFd> {
    let family = SocketAddrAny::from(*address).address_family();
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(socket_with(family, SocketType::STREAM, flags, None)?)
}

fn any_address(like: &SocketAddr, port: u16) -> SocketAddr {
    if like.is_ipv4() {
        SocketAddr::from((Ipv4Addr::UNSPECIFIED, port))
    } else {
        SocketAddr::from((Ipv6Addr::UNSPECIFIED, port))
    }
}

fn may_differ_elsewhere(error: &io::Error) -> bool {
    is_taken(error) || error.kind() == io::ErrorKind::PermissionDenied
}

/// Makes the close a reset, after which the next connection can use the port.
pub(super) fn forget(stream: &TcpStream) {
    // Else the next connection uses another port.
    let _ = sockopt::set_socket_linger(stream, Some(Duration::ZERO));
}

/// Whether another port may help.
fn is_taken(error: &io::Error) -> bool {
    use io::ErrorKind::{AddrInUse, AddrNotAvailable};
    matches!(error.kind(), AddrInUse | AddrNotAvailable)
}

/// Whether the process has the privilege.
fn may_bind_reserved(address: &SocketAddr) -> bool {
    socket_for(address).is_ok_and(|socket| {
        let ports = RESERVED_PORTS.rev();
        let mut tries = ports.map(|port| bind(&socket, &any_address(address, port)));
        tries.find(|result| *result != Err(Errno::ADDRINUSE)) == Some(Ok(()))
    })
}

pub(super) fn is_reserved(source_port: SourcePort, address: &SocketAddr) -> bool {
    match source_port {
        SourcePort::Any => false,
        SourcePort::Reserved => true,
        SourcePort::ReservedIfPossible => may_bind_reserved(address),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    fn options(listener: &TcpListener, source_port: SourcePort) -> Options {
        let mut options = Options::new("here", vec![listener.local_addr().unwrap()]);
        options.source_port = source_port;
        options
    }

    #[test]
    fn the_first_address_that_answers_is_taken() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        // An address of its own, so that no other test is given the port.
        let closed = TcpListener::bind("127.9.8.10:0").unwrap();
        let unused = closed.local_addr().unwrap();
        drop(closed);
        let mut options = options(&listener, SourcePort::Any);
        options.addresses.insert(0, unused);
        let stream = dial(&options, None, || true).unwrap();
        assert_eq!(stream.peer_addr().unwrap(), listener.local_addr().unwrap());
        options.addresses.truncate(1);
        let error = dial(&options, None, || true).unwrap_err();
        let expected = format!("cannot connect to here ({unused}): ");
        assert!(error.to_string().starts_with(&expected), "{error}");
        options.addresses.clear();
        let error = dial(&options, None, || true).unwrap_err();
        assert!(matches!(error, ConnectError::NoAddress { .. }));
    }

    #[test]
    fn a_lost_connection_is_made_again_from_the_same_port() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let options = options(&listener, SourcePort::Any);
        let same_port = || {
            let first = dial(&options, None, || true).unwrap();
            let port = first.local_addr().unwrap().port();
            let elsewhere = dial(&options, Some(port), || true).unwrap();
            let other = elsewhere.local_addr().unwrap().port();
            assert_ne!(other, port, "the first is still there");
            forget(&first);
            drop(first);
            let again = dial(&options, Some(port), || true).unwrap();
            again.local_addr().unwrap().port() == port
        };
        // Another program may be given the port in between, but not each time.
        assert!((0..20).any(|_| same_port()));
    }

    #[test]
    fn reserved_ports_are_used_by_who_may() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let insisting = dial(&options(&listener, SourcePort::Reserved), None, || true);
        let possible = may_bind_reserved(&listener.local_addr().unwrap());
        match insisting {
            Ok(stream) => {
                assert!(possible);
                assert!(RESERVED_PORTS.contains(&stream.local_addr().unwrap().port()));
            }
            Err(error) => {
                assert!(!possible, "{error}");
                assert!(matches!(error, ConnectError::ReservedPort { .. }));
            }
        }
        let options = options(&listener, SourcePort::ReservedIfPossible);
        let stream = dial(&options, None, || true).unwrap();
        let port = stream.local_addr().unwrap().port();
        assert_eq!(RESERVED_PORTS.contains(&port), possible);
    }
}
