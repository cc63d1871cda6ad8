//! Options of a TCP connection for fast calls.
//!
//! Nagle's algorithm only delays records, which are small or come whole. Within one machine pacing
//! gains nothing: BBR, the default of some systems, takes a timer interrupt for each burst, which
//! in a virtual machine took half of the processor time of both sides. Reno does not pace, and
//! every process of every Linux may choose it. Connections that leave the machine keep the
//! administrator's choice.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::AsFd;

use rustix::net::sockopt;

const UNPACED: &str = "reno";

/// The prefix of those that pace.
const PACED: &str = "bbr";

/// Disables pacing on a socket before its connections begin: BBR paces to the end. Returns the
/// replaced congestion control, if any. Only BBR is replaced: DCTCP, say, must request ECN from the
/// first packet on.
pub fn begin_unpaced(socket: impl AsFd) -> Option<String> {
    let usual = sockopt::tcp_congestion(&socket).ok()?;
    if !usual.starts_with(PACED) {
        return None;
    }
    sockopt::set_tcp_congestion(&socket, UNPACED).ok()?;
    Some(usual)
}

/// Prepares a connection for calls; one that leaves the machine gets the congestion control
/// `usual`.
///
/// # Errors
///
/// The system's, for an unconnected socket.
pub fn prepare(socket: &TcpStream, usual: Option<&str>) -> io::Result<()> {
    socket.set_nodelay(true)?;
    let peer = socket.peer_addr()?.ip();
    if stays_here(socket, peer) {
        // Else the connection is paced.
        let _ = sockopt::set_tcp_congestion(socket, UNPACED);
    } else if let Some(usual) = usual {
        // The listener had it before.
        let _ = sockopt::set_tcp_congestion(socket, usual);
    }
    Ok(())
}

/// Whether data to `peer` stays on the machine.
#[must_use]
pub fn stays_here(socket: impl AsFd, peer: IpAddr) -> bool {
    let here = rustix::net::getsockname(socket).map(SocketAddr::try_from);
    matches!(here, Ok(Ok(here)) if here.ip() == peer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn a_connection_within_the_machine_is_not_paced() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let usual = begin_unpaced(&listener);
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, _) = listener.accept().unwrap();
        for socket in [&client, &server] {
            prepare(socket, usual.as_deref()).unwrap();
            assert!(socket.nodelay().unwrap());
            assert_eq!(sockopt::tcp_congestion(socket).unwrap(), UNPACED);
        }
    }

    #[test]
    fn a_listener_that_does_not_pace_keeps_its_congestion_control() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        for name in [UNPACED, "cubic"] {
            // A system may have no other than Reno.
            if sockopt::set_tcp_congestion(&listener, name).is_ok() {
                assert_eq!(begin_unpaced(&listener), None);
                assert_eq!(sockopt::tcp_congestion(&listener).unwrap(), name);
            }
        }
    }

    #[test]
    fn a_listener_that_paces_begins_without() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let usual = sockopt::tcp_congestion(&listener).unwrap();
        if usual.starts_with(PACED) {
            assert_eq!(begin_unpaced(&listener), Some(usual));
            assert_eq!(sockopt::tcp_congestion(&listener).unwrap(), UNPACED);
        }
    }
}
