//! The body of a message: where it ends (RFC 9112, section 6), read without its chunks.

use std::io::{self, BufRead, Read};

use crate::head::{Head, bad, read_line};

/// Of the line in front of a chunk.
const CHUNK_LINE_BYTES_MAX: usize = 4 << 10;
/// Of the lines behind the last chunk.
const TRAILERS_MAX: usize = 100;

/// How the end of a body is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// There is none.
    None,
    /// In bytes.
    Length(u64),
    Chunked,
    /// With the connection.
    UntilClose,
}

impl Framing {
    pub(crate) fn of_request(head: &Head) -> io::Result<Self> {
        Self::stated(head).map(|stated| stated.unwrap_or(Self::None))
    }

    /// Of the reply to a request with this method.
    pub(crate) fn of_reply(head: &Head, method: &str) -> io::Result<Self> {
        let status = head.status()?;
        if method == "HEAD" || status < 200 || [204, 304].contains(&status) {
            return Ok(Self::None);
        }
        Self::stated(head).map(|stated| stated.unwrap_or(Self::UntilClose))
    }

    fn stated(head: &Head) -> io::Result<Option<Self>> {
        if head.lists("transfer-encoding", "chunked") {
            return Ok(Some(Self::Chunked));
        }
        let Some(length) = head.get("content-length") else {
            return Ok(None);
        };
        let length = length.parse().map_err(|_| bad("a length that is none"))?;
        Ok(Some(Self::Length(length)))
    }
}

/// Reads a body; the end of it is the end of the reading. A body that is cut off is an error.
pub(crate) struct Body<'a, R> {
    from: &'a mut R,
    framing: Framing,
    /// Of the body, or of the chunk.
    left_bytes: u64,
    is_at_end: bool,
}

impl<'a, R: BufRead> Body<'a, R> {
    pub(crate) fn new(from: &'a mut R, framing: Framing) -> Self {
        let left_bytes = match framing {
            Framing::Length(length) => length,
            _ => 0,
        };
        let is_at_end = matches!(framing, Framing::None | Framing::Length(0));
        Self {
            from,
            framing,
            left_bytes,
            is_at_end,
        }
    }

    /// Goes to the next chunk.
    fn next_chunk(&mut self) -> io::Result<()> {
        let line = self.line()?;
        let digits = line.split(|byte| *byte == b';').next().unwrap_or_default();
        let digits = String::from_utf8_lossy(digits);
        self.left_bytes =
            u64::from_str_radix(digits.trim(), 16).map_err(|_| bad("a chunk without a length"))?;
        if self.left_bytes > 0 {
            return Ok(());
        }
        self.is_at_end = true;
        for _ in 0..TRAILERS_MAX {
            if self.line()?.is_empty() {
                return Ok(());
            }
        }
        Err(bad("too many trailers"))
    }

    /// A line; the end of the stream is an error.
    fn line(&mut self) -> io::Result<Vec<u8>> {
        if self.from.fill_buf()?.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        read_line(self.from, CHUNK_LINE_BYTES_MAX)
    }
}

impl<R: BufRead> Read for Body<'_, R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.framing == Framing::Chunked && !self.is_at_end && self.left_bytes == 0 {
            self.next_chunk()?;
        }
        if self.is_at_end || into.is_empty() {
            return Ok(0);
        }
        if self.framing == Framing::UntilClose {
            let count = self.from.read(into)?;
            self.is_at_end = count == 0;
            return Ok(count);
        }
        let most = usize::try_from(self.left_bytes).unwrap_or(usize::MAX);
        let most = most.min(into.len());
        let count = self.from.read(&mut into[..most])?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.left_bytes -= u64::try_from(count).unwrap_or(0);
        if self.left_bytes == 0 {
            match self.framing {
                Framing::Chunked => drop(self.line()?),
                _ => self.is_at_end = true,
            }
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(mut text: &[u8], framing: Framing) -> io::Result<(Vec<u8>, Vec<u8>)> {
        let mut read = Vec::new();
        Body::new(&mut text, framing).read_to_end(&mut read)?;
        Ok((read, text.to_vec()))
    }

    #[test]
    fn a_body_ends_where_its_head_says() {
        let both = |a: &[u8], b: &[u8]| (a.to_vec(), b.to_vec());
        assert_eq!(
            all(b"abcd", Framing::Length(3)).unwrap(),
            both(b"abc", b"d")
        );
        assert_eq!(all(b"abcd", Framing::None).unwrap(), both(b"", b"abcd"));
        assert_eq!(
            all(b"abcd", Framing::UntilClose).unwrap(),
            both(b"abcd", b"")
        );
        let chunks = b"2;x=y\r\nab\r\n1\r\nc\r\n0\r\nTrailer: t\r\n\r\nd";
        assert_eq!(all(chunks, Framing::Chunked).unwrap(), both(b"abc", b"d"));
    }

    #[test]
    fn a_body_that_is_cut_off_is_an_error() {
        assert!(all(b"ab", Framing::Length(3)).is_err());
        for text in [
            &b"2\r\na"[..],
            b"2\r\nab",
            b"2\r\nab\r\n",
            b"0\r\n",
            b"0\r\nTrailer: t\r\n",
            b"x\r\n",
            b"",
        ] {
            assert!(all(text, Framing::Chunked).is_err(), "{text:?}");
        }
    }

    #[test]
    fn replies_without_a_body_are_known() {
        let head = |first: &str| Head::new(first, &[("Content-Length", "5")]);
        let of = |first, method| Framing::of_reply(&head(first), method).unwrap();
        assert_eq!(of("HTTP/1.1 200 OK", "GET"), Framing::Length(5));
        assert_eq!(of("HTTP/1.1 200 OK", "HEAD"), Framing::None);
        assert_eq!(of("HTTP/1.1 304 Not Modified", "GET"), Framing::None);
        let open = Head::new("HTTP/1.0 200 OK", &[]);
        assert_eq!(
            Framing::of_reply(&open, "GET").unwrap(),
            Framing::UntilClose
        );
        assert_eq!(Framing::of_request(&open).unwrap(), Framing::None);
        let wrong = Head::new("HTTP/1.1 200 OK", &[("Content-Length", "-1")]);
        assert!(Framing::of_reply(&wrong, "GET").is_err());
    }
}
