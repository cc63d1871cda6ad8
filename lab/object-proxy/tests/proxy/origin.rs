//! A server of one object with two versions, of chunks, and of what was put.

use std::collections::HashMap;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

use pagewell_base::sync::Mutex;

pub(crate) const OBJECT_BYTES: usize = 1 << 20;

pub(crate) fn byte_at(place: usize) -> u8 {
    (place % 251).to_le_bytes()[0]
}

#[derive(Default)]
struct State {
    heads: Vec<Vec<String>>,
    stored: HashMap<String, Vec<u8>>,
    open: Vec<TcpStream>,
    connections: usize,
    is_replaced: bool,
}

pub(crate) struct Origin {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
}

impl Origin {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(Mutex::new(State::default()));
        let shared = state.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let state = shared.clone();
                state.lock().connections += 1;
                state.lock().open.push(stream.try_clone().unwrap());
                std::thread::spawn(move || while serve(&state, &stream).unwrap_or(false) {});
            }
        });
        Self { address, state }
    }

    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn heads(&self) -> Vec<Vec<String>> {
        self.state.lock().heads.clone()
    }

    pub(crate) fn stored(&self, target: &str) -> Option<Vec<u8>> {
        self.state.lock().stored.get(target).cloned()
    }

    pub(crate) fn connections(&self) -> usize {
        self.state.lock().connections
    }

    /// The object has its second version.
    pub(crate) fn replace(&self) {
        self.state.lock().is_replaced = true;
    }

    /// Closes without a word.
    pub(crate) fn close_all(&self) {
        for stream in &self.state.lock().open {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

fn read_chunks(reader: &mut impl io::BufRead) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let length = usize::from_str_radix(line.trim(), 16).unwrap();
        let begin = body.len();
        body.resize(begin + length, 0);
        reader.read_exact(&mut body[begin..])?;
        reader.read_line(&mut line)?;
        if length == 0 {
            return Ok(body);
        }
    }
}

/// One request; whether there may be another.
fn serve(state: &Mutex<State>, stream: &TcpStream) -> io::Result<bool> {
    // Without a buffer that outlives a request: a client sends one at a time.
    let mut reader = BufReader::with_capacity(1, stream);
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(false);
        }
        if line.trim().is_empty() {
            break;
        }
        lines.push(line.trim().to_owned());
    }
    let field = |name: &str| {
        let mut lines = lines.iter();
        lines.find_map(|line| line.strip_prefix(name).map(str::to_owned))
    };
    let mut words = lines[0].split(' ');
    let (method, target) = (words.next().unwrap(), words.next().unwrap().to_owned());
    state.lock().heads.push(lines.clone());
    let mut stream = stream;
    if target == "/refuse" {
        stream.write_all(b"HTTP/1.1 412 Precondition Failed\r\nContent-Length: 0\r\n\r\n")?;
        return Ok(false);
    }
    if method == "PUT" {
        if field("Expect: ").is_some() {
            stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
        }
        let body = match field("Content-Length: ") {
            Some(length) => {
                let mut body = vec![0; length.parse().unwrap()];
                reader.read_exact(&mut body)?;
                body
            }
            None => read_chunks(&mut reader)?,
        };
        state.lock().stored.insert(target, body);
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")?;
        return Ok(true);
    }
    send_object(state, stream, method, &target, field("Range: bytes="))?;
    Ok(target != "/close")
}

fn send_object(
    state: &Mutex<State>,
    mut stream: &TcpStream,
    method: &str,
    target: &str,
    range: Option<String>,
) -> io::Result<()> {
    let etag = if state.lock().is_replaced {
        "two"
    } else {
        "one"
    };
    let (mut first, mut end) = (0, OBJECT_BYTES);
    let mut head = "HTTP/1.1 200 OK\r\n".to_owned();
    if let Some((from, last)) = range.as_deref().and_then(|range| range.split_once('-')) {
        (first, end) = (from.parse().unwrap(), last.parse::<usize>().unwrap() + 1);
        head = format!(
            "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes {first}-{last}/{OBJECT_BYTES}\r\n"
        );
    }
    head += &format!("ETag: \"{etag}\"\r\n");
    if target == "/close" {
        head += "Connection: close\r\n";
    }
    let is_chunked = target == "/chunked";
    head += &match is_chunked {
        true => "Transfer-Encoding: chunked\r\n\r\n".to_owned(),
        false => format!("Content-Length: {}\r\n\r\n", end - first),
    };
    stream.write_all(head.as_bytes())?;
    let body: Vec<u8> = (first..end).map(byte_at).collect();
    match (method, is_chunked) {
        ("HEAD", _) => Ok(()),
        (_, false) => stream.write_all(&body),
        (_, true) => {
            for chunk in body.chunks(100_000) {
                write!(stream, "{:x}\r\n", chunk.len())?;
                stream.write_all(chunk)?;
                stream.write_all(b"\r\n")?;
            }
            stream.write_all(b"0\r\n\r\n")
        }
    }
}
