//! Options of a TCP connection for fast calls.
//!
//! Records are small or come whole, so waiting for more to send (Nagle's algorithm) only costs
//! time. Between two programs of one machine pacing gains nothing: some systems use a congestion
//! control that sends at a measured rate (BBR), with one timer interrupt for each burst, which in a
//! virtual machine is an exit to the host. On such a system half of the processor time of both
//! sides went there. Reno sends what the window allows, every Linux has it, and any process may
//! choose it. Connections that leave the machine keep the choice of its administrator.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::AsFd;

use rustix::net::sockopt;

/// A congestion control that does not pace.
const UNPACED: &str = "reno";

/// The names of those that pace begin so.
const PACED: &str = "bbr";

/// Has a socket begin its connections without pacing, whether it listens or is not connected yet: a
/// connection that BBR has begun to pace stays paced. Returns the congestion control that this
/// replaced, if any. Others than BBR stay, because some must act from the first packet: DCTCP asks
/// for ECN then, and is Reno without it.
pub fn begin_unpaced(socket: impl AsFd) -> Option<String> {
    let usual = sockopt::tcp_congestion(&socket).ok()?;
    if !usual.starts_with(PACED) {
        return None;
    }
    sockopt::set_tcp_congestion(&socket, UNPACED).ok()?;
    Some(usual)
}

/// Prepares a connection for calls. One that leaves the machine gets the `usual` congestion
/// control.
///
/// # Errors
///
/// The error of the system for a socket that is not connected any more.
pub fn prepare(socket: &TcpStream, usual: Option<&str>) -> io::Result<()> {
    socket.set_nodelay(true)?;
    let peer = socket.peer_addr()?.ip();
    if stays_here(socket, peer) {
        // A system without it paces.
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
