//! What a TCP connection needs to carry calls fast.
//!
//! Records are small or come whole, so that waiting for more to send (Nagle's algorithm) only costs
//! time. And between two programs of one machine nothing is gained by pacing: some systems choose a
//! congestion control that sends at the rate which it has measured (BBR), one timer interrupt for
//! each burst, which in a virtual machine is an exit to the host. On such a system half of the
//! processor time of both sides went there. Reno sends what the window allows, every Linux has it,
//! and any process may choose it. Connections that leave the machine keep what its administrator
//! chose.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::AsFd;

use rustix::net::sockopt;

/// The congestion control that every Linux has and that does not pace.
const UNPACED: &str = "reno";

/// How the names of those begin that pace.
const PACED: &str = "bbr";

/// Has a socket begin its connections without pacing, be it one that listens or one that is not
/// connected yet: what BBR has begun to pace stays paced. Returns what they would have begun with,
/// if this has changed it. What does not pace is left alone, because some of it must be there from
/// the first packet: DCTCP asks for ECN then, and is Reno without it.
pub fn begin_unpaced(socket: impl AsFd) -> Option<String> {
    let usual = sockopt::tcp_congestion(&socket).ok()?;
    if !usual.starts_with(PACED) {
        return None;
    }
    sockopt::set_tcp_congestion(&socket, UNPACED).ok()?;
    Some(usual)
}

/// Prepares a connection for calls. One that leaves the machine has the `usual` congestion control.
///
/// # Errors
///
/// What the system says of a socket that is no connection any more.
pub fn prepare(socket: &TcpStream, usual: Option<&str>) -> io::Result<()> {
    socket.set_nodelay(true)?;
    let peer = socket.peer_addr()?.ip();
    if stays_here(socket, peer) {
        // Where the system does not have it, bytes are paced.
        let _ = sockopt::set_tcp_congestion(socket, UNPACED);
    } else if let Some(usual) = usual {
        // The system has let this listener have it.
        let _ = sockopt::set_tcp_congestion(socket, usual);
    }
    Ok(())
}

/// Whether what is sent to `peer` does not leave the machine.
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
