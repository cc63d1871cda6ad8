//! How a stopping server closes the connections of active clients.
//!
//! The kernel resets a connection that is closed with unread data, or that gets more; replies in
//! flight are lost, and the client repeats done calls on the next server. So the server ends its
//! side first and discards input: the client reads all replies before it sees the end.
//!
//! Weakness: a client with a round trip over [`END_WITHIN`] is reset.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::{RecvFlags, Shutdown, recv, shutdown};

use crate::connection::Connection;

/// A client with a call this recent is active.
const AT_WORK_WITHIN: Duration = Duration::from_millis(100);

/// For such a client to end its side.
const END_WITHIN: Duration = Duration::from_millis(200);

/// Discarded of one connection in a row.
const PIECES_MAX: usize = 16;

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

/// Returns whether the client has ended its side.
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
