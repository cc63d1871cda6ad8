//! The head of a request, parsed from bytes that may be anything (RFC 9112 sections 2 and 3).

/// The most bytes of a request's head.
pub const REQUEST_BYTES_MAX: usize = 8 << 10;

/// What the bytes so far are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed<'a> {
    /// Not complete: read on.
    Partial,
    /// A GET of this path, without its query, from a server of this name, if it is told, as all
    /// browsers do. Of two names, or one that cannot be read, none is left: the empty one.
    Get(&'a str, Option<&'a str>),
    /// Another method: 405.
    OtherMethod,
    /// No HTTP/1 request: 400.
    Malformed,
    /// Longer than [`REQUEST_BYTES_MAX`]: 431.
    TooLong,
}

/// Parses what has been received. Of the header fields only `Host` changes an answer.
pub fn parse(bytes: &[u8]) -> Parsed<'_> {
    let Some(head) = head(bytes).filter(|head| head.len() <= REQUEST_BYTES_MAX) else {
        return match bytes.len() {
            ..REQUEST_BYTES_MAX => Parsed::Partial,
            _ => Parsed::TooLong,
        };
    };
    let mut lines = head.split(|byte| *byte == b'\n');
    let line = lines.next().unwrap_or_default();
    let Ok(line) = std::str::from_utf8(line.strip_suffix(b"\r").unwrap_or(line)) else {
        return Parsed::Malformed;
    };
    let mut words = line.split(' ');
    match (words.next(), words.next(), words.next(), words.next()) {
        (Some(method), Some(target), Some("HTTP/1.1" | "HTTP/1.0"), None)
            if target.starts_with('/') && method.bytes().all(|byte| byte.is_ascii_uppercase()) =>
        {
            match method {
                "GET" => {
                    let path = target.split(['?', '#']).next().unwrap_or(target);
                    Parsed::Get(path, host(lines))
                }
                "" => Parsed::Malformed,
                _ => Parsed::OtherMethod,
            }
        }
        _ => Parsed::Malformed,
    }
}

/// The `Host` field among these.
fn host<'a>(fields: impl Iterator<Item = &'a [u8]>) -> Option<&'a str> {
    let mut hosts = fields.filter_map(|field| {
        let colon = field.iter().position(|byte| *byte == b':')?;
        let (name, value) = field.split_at(colon);
        let is_host = name.trim_ascii().eq_ignore_ascii_case(b"host");
        is_host.then(|| value.get(1..).unwrap_or_default())
    });
    let host = std::str::from_utf8(hosts.next()?).unwrap_or_default();
    Some(match hosts.next() {
        None => host.trim_ascii(),
        Some(_) => "",
    })
}

/// What is up to and with the empty line, if that is there.
fn head(bytes: &[u8]) -> Option<&[u8]> {
    let full = bytes.windows(4).position(|part| part == b"\r\n\r\n");
    let bare = bytes.windows(2).position(|part| part == b"\n\n");
    let ends = [full.map(|at| at + 4), bare.map(|at| at + 2)];
    ends.into_iter().flatten().min().map(|end| &bytes[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_told_apart() {
        for (bytes, parsed) in [
            (&b""[..], Parsed::Partial),
            (b"GET / HTTP/1.1\r\n", Parsed::Partial),
            (
                b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n",
                Parsed::Get("/metrics", Some("a")),
            ),
            (
                b"GET /metrics?a=b HTTP/1.0\n\n",
                Parsed::Get("/metrics", None),
            ),
            (b"GET / HTTP/1.1\r\n\r\nrest\n\n", Parsed::Get("/", None)),
            (b"POST / HTTP/1.1\r\n\r\n", Parsed::OtherMethod),
            (b" / HTTP/1.1\r\n\r\n", Parsed::Malformed),
            (b"GET  / HTTP/1.1\r\n\r\n", Parsed::Malformed),
            (b"GET / HTTP/2\r\n\r\n", Parsed::Malformed),
            (b"GET http://a/ HTTP/1.1\r\n\r\n", Parsed::Malformed),
            (b"get / HTTP/1.1\r\n\r\n", Parsed::Malformed),
            (b"GET /\xff HTTP/1.1\r\n\r\n", Parsed::Malformed),
            (b"\x16\x03\x01\x00\n\n", Parsed::Malformed),
        ] {
            assert_eq!(parse(bytes), parsed, "{}", String::from_utf8_lossy(bytes));
        }
    }

    #[test]
    fn the_host_is_found_and_only_one_is_taken() {
        for (bytes, expected) in [
            (&b"GET / HTTP/1.1\r\n\r\n"[..], None),
            (b"GET / HTTP/1.1\r\nHost: a:1\r\n\r\n", Some("a:1")),
            (b"GET / HTTP/1.1\nX: y\nhOST:b\n\nHost: c\n", Some("b")),
            (b"GET / HTTP/1.1\r\nHost:\r\n\r\n", Some("")),
            (b"GET / HTTP/1.1\r\nHost : e\r\n\r\n", Some("e")),
            (b"GET / HTTP/1.1\r\nHost: \xff\r\n\r\n", Some("")),
            (
                b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil\r\n\r\n",
                Some(""),
            ),
        ] {
            let parsed = Parsed::Get("/", expected);
            assert_eq!(parse(bytes), parsed, "{}", String::from_utf8_lossy(bytes));
        }
    }

    #[test]
    fn long_requests_are_cut_off() {
        let mut long = b"GET / HTTP/1.1\r\n".to_vec();
        long.resize(REQUEST_BYTES_MAX - 1, b'a');
        assert_eq!(parse(&long), Parsed::Partial);
        long.push(b'a');
        assert_eq!(parse(&long), Parsed::TooLong);
        long.extend_from_slice(b"\r\n\r\n");
        assert_eq!(parse(&long), Parsed::TooLong);
    }
}
