//! A client that shows what came, also of a reply that broke off.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
    fields: Vec<(String, String)>,
}

impl Reply {
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let mut fields = self.fields.iter();
        fields
            .find(|(own, _)| own.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }
}

pub(crate) struct Client {
    stream: BufReader<TcpStream>,
    /// Of the body of the last reply, whether it was whole or not.
    pub(crate) received: Vec<u8>,
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        Self {
            stream: BufReader::new(stream),
            received: Vec::new(),
        }
    }

    pub(crate) fn set_patience(&self, most: Duration) {
        self.stream.get_ref().set_read_timeout(Some(most)).unwrap();
    }

    pub(crate) fn get(&mut self, target: &str, range: Option<&str>) -> io::Result<Reply> {
        let fields = range.map(|range| format!("Range: {range}\r\n"));
        self.ask("GET", target, &fields.unwrap_or_default(), b"")
    }

    pub(crate) fn head(&mut self, target: &str) -> io::Result<Reply> {
        self.ask("HEAD", target, "", b"")
    }

    pub(crate) fn put(&mut self, target: &str, fields: &str, body: &[u8]) -> io::Result<Reply> {
        self.ask("PUT", target, fields, body)
    }

    /// Sends a request, in chunks if the fields say so, and reads the reply.
    pub(crate) fn ask(
        &mut self,
        method: &str,
        target: &str,
        fields: &str,
        body: &[u8],
    ) -> io::Result<Reply> {
        self.received.clear();
        let is_chunked = fields.contains("chunked");
        let waits = fields.contains("100-continue");
        let mut head =
            format!("{method} {target} HTTP/1.1\r\nHost: signed.example:1234\r\n{fields}");
        if !is_chunked && !body.is_empty() {
            head += &format!("Content-Length: {}\r\n", body.len());
        }
        let mut stream = self.stream.get_ref();
        stream.write_all(format!("{head}\r\n").as_bytes())?;
        if waits {
            let (status, _) = self.read_head()?;
            if status != 100 {
                return Ok(Reply {
                    status,
                    body: Vec::new(),
                    fields: Vec::new(),
                });
            }
        }
        let mut stream = self.stream.get_ref();
        if is_chunked {
            for chunk in body.chunks(30_000) {
                write!(stream, "{:x}\r\n", chunk.len())?;
                stream.write_all(chunk)?;
                stream.write_all(b"\r\n")?;
            }
            stream.write_all(b"0\r\n\r\n")?;
        } else {
            stream.write_all(body)?;
        }
        let (status, fields) = self.read_head()?;
        let mut reply = Reply {
            status,
            body: Vec::new(),
            fields,
        };
        if method != "HEAD" {
            self.read_body(&reply)?;
            reply.body = std::mem::take(&mut self.received);
        }
        Ok(reply)
    }

    fn read_head(&mut self) -> io::Result<(u16, Vec<(String, String)>)> {
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            if self.stream.read_line(&mut line)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if line.trim().is_empty() {
                break;
            }
            lines.push(line.trim().to_owned());
        }
        let status = lines[0].split(' ').nth(1).unwrap().parse().unwrap();
        let fields = lines[1..].iter().map(|line| {
            let (name, value) = line.split_once(": ").unwrap();
            (name.to_owned(), value.to_owned())
        });
        Ok((status, fields.collect()))
    }

    fn read_exactly(&mut self, mut left: usize) -> io::Result<()> {
        let mut piece = [0; 4096];
        while left > 0 {
            let count = self.stream.read(&mut piece[..left.min(4096)])?;
            if count == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.received.extend_from_slice(&piece[..count]);
            left -= count;
        }
        Ok(())
    }

    fn read_body(&mut self, reply: &Reply) -> io::Result<()> {
        if reply.field("transfer-encoding") != Some("chunked") {
            let length = reply.field("content-length").unwrap();
            return self.read_exactly(length.parse().unwrap());
        }
        loop {
            let mut line = String::new();
            self.stream.read_line(&mut line)?;
            let length = usize::from_str_radix(line.trim(), 16).unwrap();
            self.read_exactly(length)?;
            self.stream.read_line(&mut line)?;
            if length == 0 {
                return Ok(());
            }
        }
    }
}
