//! An HTTP client for one document, bounded in bytes and time.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use pagewell_base::late::in_words;

use super::token::Secret;

const ANSWER_BYTES_MAX: usize = 4 << 20;

/// From connecting to the last byte.
const TIME_MAX: Duration = Duration::from_secs(5);

/// Gets the body of `path` at `address`, with a token if the server needs one.
pub fn get(address: SocketAddr, path: &str, token: Option<&Secret>) -> anyhow::Result<Vec<u8>> {
    let answer = exchange(address, path, token)
        .map_err(|error| in_words(error, "it", TIME_MAX))
        .with_context(|| format!("{address}: no answer from a pagewell with --http there"))?;
    let split = answer.windows(4).position(|part| part == b"\r\n\r\n");
    let Some(split) = split else {
        bail!("{address}: the answer is not HTTP");
    };
    let (head, body) = answer.split_at(split);
    if !head.starts_with(b"HTTP/1.1 200 ") && !head.starts_with(b"HTTP/1.0 200 ") {
        let line = head.split(|byte| *byte == b'\r').next().unwrap_or(head);
        let line = String::from_utf8_lossy(&line[..line.len().min(80)]);
        if line.contains(" 401") {
            let wrong = match token {
                None => {
                    "it asks for a token: --http-token FILE, or the variable PAGEWELL_HTTP_TOKEN"
                }
                Some(_) => "it has another token",
            };
            bail!("{address}: {wrong}");
        }
        bail!("{address}{path}: {line}");
    }
    Ok(body.get(4..).unwrap_or_default().to_vec())
}

fn exchange(address: SocketAddr, path: &str, token: Option<&Secret>) -> std::io::Result<Vec<u8>> {
    let deadline = Instant::now() + TIME_MAX;
    let mut stream = TcpStream::connect_timeout(&address, TIME_MAX)?;
    stream.set_write_timeout(Some(TIME_MAX))?;
    let token = token.map(|token| format!("Authorization: {}\r\n", token.field()));
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: {address}\r\n{}Connection: close\r\n\r\n",
        token.unwrap_or_default()
    );
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    while read_some(&stream, &mut answer, ANSWER_BYTES_MAX + 1, deadline)? > 0 {
        if answer.len() > ANSWER_BYTES_MAX {
            return Err(std::io::Error::other("the answer is longer than 4 MiB"));
        }
    }
    Ok(answer)
}

/// Appends the next bytes of a connection to a buffer of at most `bytes_max`; 0 at its end.
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

/// Bytes of one read.
const PIECE_BYTES_MAX: usize = 64 << 10;
