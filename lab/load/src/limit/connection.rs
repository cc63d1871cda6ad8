//! One connection of a bare server.

use std::io::{self, Write};
use std::net::TcpStream;

use pagewell_sunrpc::record::{self, MARKER_BYTES, Marker};
use pagewell_sunrpc::stream::prepare;

use super::answers::{Data, READ_BYTES_MAX, WRITE_BYTES_MAX, answer};
use super::files::Files;
use super::way::{Sender, Way, receive};

/// The longest record with its marker: a WRITE and its head.
const RECORD_BYTES_MAX: usize = WRITE_BYTES_MAX + (4 << 10);
/// Replies are gathered up to this.
const GATHERED_BYTES_MAX: usize = 64 << 10;

/// Answers calls in order until the connection ends or a record is malformed. Replies without data
/// are gathered while more calls have arrived.
pub(super) fn serve(mut socket: &TcpStream, files: &Files, way: Way) -> io::Result<()> {
    prepare(socket, None)?;
    let mut sender = Sender::new(way, READ_BYTES_MAX);
    let mut replies = Vec::with_capacity(2 * GATHERED_BYTES_MAX);
    let mut input = vec![0; 2 * RECORD_BYTES_MAX];
    let (mut start, mut end) = (0, 0);
    loop {
        while let Some((call, bytes)) = record::whole(&input[start..end]) {
            if let Some(data) = answer(files, call, &mut replies) {
                let Data {
                    file,
                    offset,
                    length,
                } = data;
                sender.send(socket, &replies, file, offset, length)?;
                replies.clear();
                replies.resize(length.wrapping_neg() & 3, 0);
            }
            if replies.len() >= GATHERED_BYTES_MAX {
                socket.write_all(&replies)?;
                replies.clear();
            }
            start += bytes;
        }
        if !replies.is_empty() {
            socket.write_all(&replies)?;
            replies.clear();
        }
        if let Some(marker) = input[start..end].first_chunk() {
            check(*marker)?;
        }
        if start == end {
            (start, end) = (0, 0);
        } else if input.len() - start < RECORD_BYTES_MAX {
            input.copy_within(start..end, 0);
            (start, end) = (0, end - start);
        }
        end += receive(socket, &mut input[end..])?;
    }
}

/// Refuses an incomplete record that cannot become whole here.
fn check(marker: [u8; MARKER_BYTES]) -> io::Result<()> {
    let Marker { length, last } = Marker::parse(marker);
    if last && length <= RECORD_BYTES_MAX - MARKER_BYTES {
        Ok(())
    } else {
        Err(io::ErrorKind::InvalidData.into())
    }
}
