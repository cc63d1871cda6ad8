//! A small HTTP/1.1 server for the counters, and the client that `pagewell counters` uses.
//!
//! Both do as little of the protocol as serves the purpose: GET, one request a connection,
//! `Connection: close`. Everything is bounded: bytes of a request, seconds of a connection,
//! connections at once. [`host`] says which names are answered to.

pub mod client;
pub mod host;
pub mod request;
pub mod server;

use std::io::Read;
use std::net::TcpStream;
use std::time::Instant;

/// Adds the next bytes of a connection to a buffer of at most `bytes_max`; 0 at its end.
fn read_some(
    stream: &TcpStream,
    buffer: &mut Vec<u8>,
    bytes_max: usize,
    deadline: Instant,
) -> std::io::Result<usize> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(std::io::ErrorKind::TimedOut.into());
    }
    stream.set_read_timeout(Some(left))?;
    let before = buffer.len();
    let most = PIECE_BYTES_MAX.min(bytes_max - before);
    buffer.resize(before + most, 0);
    let got = (&*stream).read(&mut buffer[before..]);
    buffer.truncate(before + *got.as_ref().unwrap_or(&0));
    got
}

/// Bytes that are read at once.
const PIECE_BYTES_MAX: usize = 64 << 10;
