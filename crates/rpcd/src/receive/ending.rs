//! How a server that stops lets go of clients that are at work.
//!
//! **Problem.** A client sends calls as long as it knows of no end. A connection that is closed
//! with something received and not taken, or to which more comes, is reset by the system; replies
//! that are on their way are lost with it, and the client repeats to the next server what has been
//! done.
//!
//! **Rule.** The sending side ends first. The client has all replies before it sees that, ends its
//! own side, and repeats elsewhere only what was not done. What comes meanwhile is thrown away.
//!
//! **Known weakness.** A client that is farther away than [`END_WITHIN`] is reset all the same.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::{RecvFlags, Shutdown, recv, shutdown};

use crate::connection::Connection;

/// A client with so recent a call may have sent the next one already.
const AT_WORK_WITHIN: Duration = Duration::from_millis(100);

/// So long such a client has to end its side.
const END_WITHIN: Duration = Duration::from_millis(200);

/// So many pieces of one connection are thrown away before the next one has its turn.
const PIECES_MAX: usize = 16;

/// Ends the connections of clients that are at work. It takes [`END_WITHIN`] at the most.
pub(super) fn end_gently<'a>(
    connections: impl Iterator<Item = &'a Connection>,
    scratch: &mut [u8],
) {
    let began = Instant::now();
    let is_at_work = |one: &&Connection| one.idle_for(began) < AT_WORK_WITHIN;
    let mut at_work: Vec<_> = connections.filter(is_at_work).collect();
    for connection in &at_work {
        // One that is gone already needs no end.
        let _ = shutdown(connection, Shutdown::Write);
    }
    while !at_work.is_empty() && began.elapsed() < END_WITHIN {
        at_work.retain(|one| !throw_away(one, scratch));
        if !at_work.is_empty() {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Takes what has come and throws it away. Returns whether the other side has ended.
fn throw_away(socket: impl AsFd, scratch: &mut [u8]) -> bool {
    for _ in 0..PIECES_MAX {
        match recv(&socket, &mut *scratch, RecvFlags::DONTWAIT) {
            Ok((0, _)) => return true,
            Ok(_) => {}
            Err(Errno::AGAIN | Errno::INTR) => return false,
            Err(_) => return true,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn replies_and_an_end_arrive_though_more_calls_come() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        server.write_all(b"replies").unwrap();
        client.write_all(&[1; 100_000]).unwrap();
        shutdown(&server, Shutdown::Write).unwrap();
        let mut scratch = [0; 1000];
        assert!(!throw_away(&server, &mut scratch), "it has not ended");
        client.write_all(b"one more").unwrap();
        let mut replies = String::new();
        client.read_to_string(&mut replies).unwrap();
        assert_eq!(replies, "replies");
        client.shutdown(std::net::Shutdown::Write).unwrap();
        while !throw_away(&server, &mut scratch) {
            std::thread::yield_now();
        }
        assert_eq!(server.read(&mut scratch).unwrap(), 0, "nothing is left");
    }
}
