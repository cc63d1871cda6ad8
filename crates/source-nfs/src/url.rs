//! URLs of exports: `nfs://HOST[:PORT]/EXPORT[?OPTION[&OPTION]...]`.
//!
//! The path is that of MOUNT, with its slash; a URL names nothing below an export. `%` and two
//! hexadecimal digits stand for a byte, an address of IPv6 is in brackets, with its interface
//! behind `%25` (RFC 6874) or `%`. The URLs of libnfs have the same form.

use pagewell_base::line::one_line;
use pagewell_sunrpc::mount3::PATH_BYTES_MAX;

use super::options::{NfsOptions, ParseError};

/// What a URL begins with.
pub const SCHEME: &str = "nfs://";
/// Of a host (RFC 1035).
const HOST_BYTES_MAX: usize = 255;

/// An export, and how to mount it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    /// Without brackets.
    pub host: String,
    /// Begins with a slash.
    pub export: Vec<u8>,
    /// The port of the URL included.
    pub options: NfsOptions,
}

impl Url {
    /// Parses a URL.
    ///
    /// # Errors
    /// The wrong part, and what belongs there.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let rest = text
            .strip_prefix(SCHEME)
            .ok_or_else(|| ParseError::new("a URL of an export begins with nfs://"))?;
        if text.bytes().any(|byte| byte.is_ascii_control()) {
            return Err(ParseError::new(
                "a URL has no control characters (write %0A)",
            ));
        }
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        let slash = place.find('/');
        let (authority, path) = slash.map_or((place, "/"), |at| place.split_at(at));
        let mut options = NfsOptions::default();
        let host = parse_host(authority, &mut options)?;
        let export = unescape(path)?;
        if export.contains(&0) {
            return Err(ParseError::new("the path of an export has no NUL"));
        }
        if export.len() > PATH_BYTES_MAX {
            return Err(ParseError::new(
                "the path of an export has at most 1024 bytes",
            ));
        }
        for option in query.split('&').filter(|text| !text.is_empty()) {
            let option = String::from_utf8(unescape(option)?)
                .map_err(|_| ParseError::new("options are UTF-8"))?;
            options.set(&option)?;
        }
        options.check()?;
        Ok(Self {
            host,
            export,
            options,
        })
    }

    /// Host and export, for people.
    #[must_use]
    pub fn name(&self) -> String {
        let export = String::from_utf8_lossy(&self.export);
        let brackets = self.host.contains(':');
        let (open, close) = if brackets { ("[", "]") } else { ("", "") };
        one_line(&format!("{open}{}{close}:{export}", self.host))
    }
}

fn parse_host(authority: &str, options: &mut NfsOptions) -> Result<String, ParseError> {
    if authority.contains('@') {
        return Err(ParseError::new("a URL of an export names no user"));
    }
    let (host, port) = if let Some(rest) = authority.strip_prefix('[') {
        let Some((host, after)) = rest.split_once(']') else {
            return Err(ParseError::new("the address after [ has no ]"));
        };
        let host = parse_ipv6(host)?;
        match after.strip_prefix(':') {
            Some(port) => (host, Some(port)),
            None if after.is_empty() => (host, None),
            None => return Err(ParseError::new("only :PORT can follow the ]")),
        }
    } else {
        match authority.split_once(':') {
            Some((_, port)) if port.contains(':') => {
                return Err(ParseError::new(
                    "an address of IPv6 stands in brackets, and a port has one colon before it",
                ));
            }
            Some((host, port)) => (host.to_owned(), Some(port)),
            None => (authority.to_owned(), None),
        }
    };
    if host.is_empty() {
        return Err(ParseError::new("the host is missing: nfs://HOST/EXPORT"));
    }
    let is_odd = |letter: char| letter.is_whitespace() || letter.is_control();
    if host.len() > HOST_BYTES_MAX || host.contains(is_odd) {
        return Err(ParseError::new(format!("'{host}' is no name of a host")));
    }
    if let Some(port) = port {
        options.set(&format!("port={port}")).map_err(|_| {
            ParseError::new(format!("port '{port}' is not a number from 1 to 65535"))
        })?;
    }
    Ok(host)
}

/// An address of IPv6, and behind `%25` or `%` the interface of a link-local one.
fn parse_ipv6(host: &str) -> Result<String, ParseError> {
    let refused = || ParseError::new(format!("[{host}] is no address of IPv6"));
    let (address, interface) = match host.split_once('%') {
        Some((address, rest)) => match rest.strip_prefix("25").filter(|rest| !rest.is_empty()) {
            Some(escaped) => {
                let bytes = unescape(escaped)?;
                let interface = String::from_utf8(bytes).map_err(|_| refused())?;
                (address, Some(interface))
            }
            None => (address, Some(rest.to_owned())),
        },
        None => (host, None),
    };
    if address.parse::<std::net::Ipv6Addr>().is_err() {
        return Err(refused());
    }
    Ok(match interface {
        Some(interface) => format!("{address}%{interface}"),
        None => address.to_owned(),
    })
}

fn unescape(text: &str) -> Result<Vec<u8>, ParseError> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || rest.next().and_then(|byte| char::from(byte).to_digit(16));
        match (digit(), digit()) {
            #[allow(clippy::cast_possible_truncation)] // two digits are a byte
            (Some(high), Some(low)) => bytes.push((high << 4 | low) as u8),
            _ => return Err(ParseError::new("two hexadecimal digits must follow %")),
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_url_has_a_host_an_export_and_options() {
        for (text, host, port, export) in [
            ("nfs://server/export", "server", None, "/export"),
            ("nfs://server", "server", None, "/"),
            ("nfs://server/", "server", None, "/"),
            ("nfs://10.0.0.1:20490/a/b", "10.0.0.1", Some(20490), "/a/b"),
            ("nfs://[::1]/x", "::1", None, "/x"),
            ("nfs://[fe80::1%eth0]:7/x", "fe80::1%eth0", Some(7), "/x"),
            ("nfs://[fe80::1%25eth0]/x", "fe80::1%eth0", None, "/x"),
            ("nfs://[fe80::1%25a%2db]:7/x", "fe80::1%a-b", Some(7), "/x"),
            ("nfs://[fe80::1%25]/x", "fe80::1%25", None, "/x"),
            ("nfs://[fe80::1%2]/x", "fe80::1%2", None, "/x"),
            ("nfs://h/a%20b%2fc?", "h", None, "/a b/c"),
            ("nfs://h/x?port=9&ro", "h", Some(9), "/x"),
        ] {
            let url = Url::parse(text).unwrap();
            assert_eq!(
                (url.host.as_str(), url.options.port),
                (host, port),
                "{text}"
            );
            assert_eq!(url.export, export.as_bytes(), "{text}");
        }
        let url = Url::parse("nfs://h/x?mountport=7&rsize=64%6b&soft").unwrap();
        assert_eq!(url.options.mount_port, Some(7));
        assert_eq!(url.options.read_bytes, Some(65_536));
        assert!(url.options.soft);
        assert_eq!(url.name(), "h:/x");
        assert_eq!(
            Url::parse("nfs://[::1]/x%0a").unwrap().name(),
            "[::1]:/x\\n"
        );
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, part) in [
            ("http://h/x", "begins with nfs://"),
            ("nfs:///x", "host is missing"),
            ("nfs://:9/x", "host is missing"),
            ("nfs://u@h/x", "names no user"),
            ("nfs://h:0/x", "port '0'"),
            ("nfs://h:70000/x", "port '70000'"),
            ("nfs://h:/x", "port ''"),
            ("nfs://::1/x", "stands in brackets"),
            ("nfs://[::1/x", "has no ]"),
            ("nfs://[zz]/x", "no address of IPv6"),
            ("nfs://[zz%25eth0]/x", "no address of IPv6"),
            ("nfs://[fe80::1%25%f]/x", "hexadecimal"),
            ("nfs://[fe80::1%25a%20b]/x", "no name of a host"),
            ("nfs://[fe80::1%25a%00b]/x", "no name of a host"),
            ("nfs://[::1]x/", "only :PORT"),
            ("nfs://a b/x", "no name of a host"),
            ("nfs://h/%4", "hexadecimal"),
            ("nfs://h/%zz", "hexadecimal"),
            ("nfs://h/%00", "no NUL"),
            ("nfs://h/a\nb", "control characters"),
            ("nfs://h/x?what", "unknown option 'what'"),
            ("nfs://h/x?rsize=3", "1k to 1m"),
            ("nfs://h/x?%ff", "UTF-8"),
        ] {
            let error = Url::parse(text).unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
        let long = format!("nfs://h/{}", "x".repeat(1024));
        assert!(Url::parse(&long).is_err());
        let long = format!("nfs://{}/x", "h".repeat(256));
        assert!(Url::parse(&long).is_err());
    }

    proptest! {
        #[test]
        fn any_text_is_taken_or_refused(text in "nfs://[a-z\\[\\]:%@0-9]{0,12}/?.{0,30}") {
            if let Ok(url) = Url::parse(&text) {
                prop_assert!(url.export.starts_with(b"/"));
                prop_assert!(!url.host.is_empty());
                prop_assert!(!url.name().contains('\n'));
            }
        }
    }
}
