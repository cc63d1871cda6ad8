//! The head of a request or of a reply: its lines as they came, so that what is not changed goes on
//! byte by byte.

use std::io::{self, BufRead, Read as _};

/// More than any server allows.
const HEAD_BYTES_MAX: usize = 256 << 10;

/// Bad data from one of the two sides.
pub(crate) fn bad(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// A line without its end; empty also at the end of the stream.
pub(crate) fn read_line(from: &mut impl BufRead, bytes_max: usize) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    let limit = u64::try_from(bytes_max).unwrap_or(u64::MAX);
    from.by_ref().take(limit).read_until(b'\n', &mut line)?;
    if line.len() >= bytes_max {
        return Err(bad("a line that is too long"));
    }
    while line.ends_with(b"\n") || line.ends_with(b"\r") {
        line.pop();
    }
    Ok(line)
}

#[derive(Clone)]
pub(crate) struct Head {
    /// The first one is that of the request or of the status.
    lines: Vec<Vec<u8>>,
}

impl Head {
    /// A head made here: its first line and its fields.
    pub(crate) fn new(first: &str, fields: &[(&str, &str)]) -> Self {
        let fields = fields.iter();
        let fields = fields.map(|(name, value)| format!("{name}: {value}").into_bytes());
        let lines = std::iter::once(first.as_bytes().to_vec())
            .chain(fields)
            .collect();
        Self { lines }
    }

    /// The next head; nothing at the end of the stream.
    pub(crate) fn read(from: &mut impl BufRead) -> io::Result<Option<Self>> {
        let mut lines = Vec::new();
        let mut bytes = 0;
        loop {
            if from.fill_buf()?.is_empty() {
                let is_between = lines.is_empty();
                return is_between
                    .then_some(None)
                    .ok_or_else(|| bad("a head that is cut off"));
            }
            let line = read_line(from, HEAD_BYTES_MAX)?;
            bytes += line.len();
            if bytes > HEAD_BYTES_MAX {
                return Err(bad("a head that is too long"));
            }
            match (line.is_empty(), lines.is_empty()) {
                (true, false) => return Ok(Some(Self { lines })),
                // An empty line in front of a request is allowed (RFC 9112, section 2.2).
                (true, true) => {}
                (false, _) => lines.push(line),
            }
        }
    }

    fn first(&self) -> String {
        let line = self.lines.first().map_or(&[][..], Vec::as_slice);
        String::from_utf8_lossy(line).into_owned()
    }

    /// The method and the target of a request.
    pub(crate) fn request(&self) -> io::Result<(String, String)> {
        let first = self.first();
        let mut words = first.split(' ');
        match (words.next(), words.next(), words.next()) {
            (Some(method), Some(target), Some(version)) if version.starts_with("HTTP/1.") => {
                Ok((method.to_owned(), target.to_owned()))
            }
            _ => Err(bad("no request of HTTP/1.1")),
        }
    }

    /// The status of a reply.
    pub(crate) fn status(&self) -> io::Result<u16> {
        let first = self.first();
        let mut words = first.split(' ');
        let status = match words.next() {
            Some(version) if version.starts_with("HTTP/1.") => words.next(),
            _ => None,
        };
        status
            .and_then(|word| word.parse().ok())
            .ok_or_else(|| bad("no reply of HTTP/1.1"))
    }

    fn value<'a>(line: &'a [u8], name: &str) -> Option<&'a [u8]> {
        let (own, rest) = line.split_at_checked(name.len())?;
        let rest = rest.strip_prefix(b":")?;
        own.eq_ignore_ascii_case(name.as_bytes())
            .then(|| rest.trim_ascii())
    }

    /// The first field of this name.
    pub(crate) fn get(&self, name: &str) -> Option<String> {
        let mut fields = self.lines.iter().skip(1);
        let value = fields.find_map(|line| Self::value(line, name))?;
        Some(String::from_utf8_lossy(value).into_owned())
    }

    /// Whether a field lists this word.
    pub(crate) fn lists(&self, name: &str, word: &str) -> bool {
        let value = self.get(name).unwrap_or_default();
        value
            .split(',')
            .any(|listed| listed.trim().eq_ignore_ascii_case(word))
    }

    /// Takes all fields of this name away.
    pub(crate) fn remove(&mut self, name: &str) {
        let mut number = 0;
        self.lines.retain(|line| {
            number += 1;
            number == 1 || Self::value(line, name).is_none()
        });
    }

    /// One field of this name, with this value.
    pub(crate) fn set(&mut self, name: &str, value: &str) {
        self.remove(name);
        self.lines.push(format!("{name}: {value}").into_bytes());
    }

    /// As it goes on.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = self.lines.join(&b"\r\n"[..]);
        bytes.extend_from_slice(b"\r\n\r\n");
        bytes
    }

    /// All lines, for people.
    pub(crate) fn lines(&self) -> Vec<String> {
        let lines = self.lines.iter();
        lines
            .map(|line| String::from_utf8_lossy(line).into_owned())
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> io::Result<Option<Head>> {
        Head::read(&mut text.as_bytes())
    }

    #[test]
    fn a_head_goes_on_as_it_came() {
        let text =
            "GET /a//b/%7E?x=1 HTTP/1.1\r\nhOST:  h:80 \r\nx-amz-meta-\u{e9}: \u{e9}\r\n\r\n";
        let head = read(text).unwrap().unwrap();
        assert_eq!(head.to_bytes(), text.as_bytes());
        let (method, target) = head.request().unwrap();
        assert_eq!((&*method, &*target), ("GET", "/a//b/%7E?x=1"));
        assert_eq!(head.get("Host").as_deref(), Some("h:80"));
    }

    #[test]
    fn fields_are_set_and_removed() {
        let mut head = read("HTTP/1.1 206 Partial Content\nETag: \"a\"\netag: b\nB: c, CLOSE\n\n");
        let head = head.as_mut().unwrap().as_mut().unwrap();
        assert_eq!(head.status().unwrap(), 206);
        assert!(head.lists("b", "close") && !head.lists("b", "clos"));
        head.set("ETag", "W/\"a\"");
        assert_eq!(
            head.lines(),
            [
                "HTTP/1.1 206 Partial Content",
                "B: c, CLOSE",
                "ETag: W/\"a\""
            ]
        );
        head.remove("etag");
        assert_eq!(head.get("etag"), None);
    }

    #[test]
    fn what_is_no_head_is_refused() {
        assert!(read("").unwrap().is_none());
        assert!(read("GET / HTTP/1.1\r\nHost: h\r\n").is_err());
        assert!(read(&format!("GET / HTTP/1.1\r\na: {}", "x".repeat(300_000))).is_err());
        for text in ["GET /\r\n\r\n", "GET / HTTP/2\r\n\r\n"] {
            assert!(read(text).unwrap().unwrap().request().is_err(), "{text}");
        }
        assert!(read("ICY 200\r\n\r\n").unwrap().unwrap().status().is_err());
    }
}
