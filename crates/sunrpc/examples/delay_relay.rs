//! Makes a local server look remote to any client: a relay of TCP connections that keeps all bytes
//! for half a round trip on each way. It adds no limit of bandwidth; bytes in flight overlap.
//!
//! `cargo run --release -p pagewell-sunrpc --example delay_relay -- SERVER:PORT MILLISECONDS`
//!
//! Prints `listening PORT` and runs until it is ended. What it costs itself (two copies of every
//! byte, and the threads' wake-ups) is the same for all clients: measure it with 0 milliseconds.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::time::{Duration, Instant};

/// Bytes that are forwarded at a time.
const PIECE_BYTES: usize = 256 << 10;
/// Pieces on their way at a time, in one direction: 64 MiB, 50 ms at 1.3 GB/s.
const PIECES_MAX: usize = 256;

/// Bytes, how many of them count, and when they are due.
type Piece = (Vec<u8>, usize, Instant);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(server), Some(delay)) = (arguments.next(), arguments.next()) else {
        return Err("usage: delay_relay SERVER:PORT MILLISECONDS".into());
    };
    let delay: f64 = delay.parse()?;
    let way = Duration::try_from_secs_f64(delay / 2000.0)?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    println!("listening {}", listener.local_addr()?.port());
    for client in listener.incoming() {
        let client = client?;
        let server = TcpStream::connect(&server)?;
        for stream in [&client, &server] {
            stream.set_nodelay(true)?;
        }
        start(client.try_clone()?, server.try_clone()?, way);
        start(server, client, way);
    }
    Ok(())
}

/// Passes on what comes `from` there `to` the other side, each byte `way` later.
fn start(from: TcpStream, to: TcpStream, way: Duration) {
    let (send, pieces) = sync_channel(PIECES_MAX);
    let (give_back, free) = channel();
    std::thread::spawn(move || receive(from, &send, &free, way));
    std::thread::spawn(move || deliver(to, &pieces, &give_back));
}

fn receive(mut from: TcpStream, send: &SyncSender<Piece>, free: &Receiver<Vec<u8>>, way: Duration) {
    loop {
        // A piece that was used before is in the processor's cache.
        let mut piece = free.try_recv().unwrap_or_else(|_| vec![0; PIECE_BYTES]);
        match from.read(&mut piece) {
            Ok(count) if count > 0 => {
                if send.send((piece, count, Instant::now() + way)).is_err() {
                    return;
                }
            }
            _ => return,
        }
    }
}

fn deliver(mut to: TcpStream, pieces: &Receiver<Piece>, give_back: &Sender<Vec<u8>>) {
    for (piece, count, due) in pieces {
        let early = due.saturating_duration_since(Instant::now());
        if !early.is_zero() {
            std::thread::sleep(early);
        }
        if to.write_all(&piece[..count]).is_err() {
            break;
        }
        let _ = give_back.send(piece);
    }
    let _ = to.shutdown(Shutdown::Both);
}
