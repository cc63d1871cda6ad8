//! Values of options, with errors that say what is wanted.

use std::net::{IpAddr, Ipv6Addr, SocketAddr, ToSocketAddrs};

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use pagewell_monitor::http::place::Place;

/// The port of `serve --http` and `counters --connect` without a given one.
pub(crate) const DEFAULT_PORT: u16 = 20491;

/// The first words behind `pagewell bench`, for completion.
pub const BENCH_WORDS: [&str; 8] = [
    "hsfs",
    "seekreadwrite",
    "direct",
    "nfs",
    "filecache",
    "all",
    "compare",
    "read",
];

/// Parses one of a few words: each with its value, and a line for help.
pub(crate) fn choice<T: Clone + Send + Sync>(
    words: &'static [(&'static str, T, &'static str)],
) -> impl TypedValueParser<Value = T> {
    let values = words.iter();
    let values = values.map(|(word, _, help)| PossibleValue::new(*word).help(*help));
    PossibleValuesParser::new(values).try_map(|chosen| {
        let found = words.iter().find(|(word, ..)| *word == chosen);
        found.map(|(_, value, _)| value.clone()).ok_or("unknown")
    })
}

/// Parses `HOST` or `HOST:PORT`: a name or an address, IPv6 with a port in brackets, link-local
/// with its interface.
pub(crate) fn parse_address(text: &str) -> Result<SocketAddr, String> {
    let form = "an address is like 127.0.0.1, 127.0.0.1:20491, [::1]:20491 or localhost:20491";
    let bare = text
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
        .unwrap_or(text);
    if let Ok(address) = bare.parse::<IpAddr>() {
        return Ok((address, DEFAULT_PORT).into());
    }
    if is_of_link(bare) {
        return look_up(bare, DEFAULT_PORT);
    }
    match text.contains(':') {
        true => parse_with_port(text, form),
        false => resolve(text, DEFAULT_PORT, form),
    }
}

/// Parses where to serve HTTP: `unix:PATH`, or as [`parse_address`].
pub(crate) fn parse_http_place(text: &str) -> Result<Place, String> {
    match text.strip_prefix("unix:") {
        Some("") => Err("a path is wanted, as in unix:/run/pagewell/http".to_owned()),
        Some(path) => Ok(Place::Unix(path.into())),
        None => parse_address(text)
            .map(Place::Tcp)
            .map_err(|error| format!("{error}, or a socket, as unix:PATH")),
    }
}

pub(crate) fn parse_address_and_port(text: &str) -> Result<SocketAddr, String> {
    parse_with_port(
        text,
        "an address is like 127.0.0.1:20490, [::1]:20490 or localhost:20490",
    )
}

fn parse_with_port(text: &str, form: &str) -> Result<SocketAddr, String> {
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    let of_link = text
        .strip_prefix('[')
        .and_then(|rest| rest.split_once("]:"));
    let (host, port) = of_link.or_else(|| text.split_once(':')).ok_or(form)?;
    let port = port.parse().map_err(|_| form)?;
    if of_link.is_some() && is_of_link(host) {
        return look_up(host, port);
    }
    resolve(host, port, form)
}

/// Whether this is an IPv6 address with its interface, such as `fe80::1%eth0`.
fn is_of_link(host: &str) -> bool {
    host.split_once('%')
        .is_some_and(|(address, _)| address.parse::<Ipv6Addr>().is_ok())
}

/// The address of a name: one of IPv4 if it has any, as the defaults are of IPv4.
fn resolve(host: &str, port: u16, form: &str) -> Result<SocketAddr, String> {
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    // Digits and dots alone are meant as an address.
    let is_number = host
        .bytes()
        .all(|byte| byte.is_ascii_digit() || byte == b'.');
    if host.is_empty() || is_number || !host.bytes().all(is_name) {
        return Err(form.to_owned());
    }
    look_up(host, port)
}

fn look_up(host: &str, port: u16) -> Result<SocketAddr, String> {
    let found = (host, port).to_socket_addrs();
    let found: Vec<SocketAddr> = found
        .map_err(|error| format!("'{host}' is not known: {error}"))?
        .collect();
    let first = found.iter().find(|address| address.is_ipv4());
    first
        .or(found.first())
        .copied()
        .ok_or_else(|| format!("'{host}' has no address"))
}

/// Parses a number from 1 to `most`.
///
/// # Errors
///
/// Any other text; the error says what is wanted.
pub fn parse_count(text: &str, most: u32) -> Result<u32, String> {
    let number = text
        .parse()
        .ok()
        .filter(|number| (1..=most).contains(number));
    number.ok_or_else(|| format!("a number from 1 to {most} is wanted"))
}

pub(crate) fn parse_id(text: &str) -> Result<u32, String> {
    text.parse()
        .map_err(|_| format!("a number from 0 to {} is wanted", u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddrV6;

    #[test]
    fn users_are_numbers() {
        assert_eq!(parse_id("0"), Ok(0));
        assert_eq!(parse_id("4294967295"), Ok(u32::MAX));
        for bad in ["", "nobody", "-1", "4294967296"] {
            assert!(parse_id(bad).unwrap_err().contains("number from 0"));
        }
    }

    #[test]
    fn hosts_may_have_names() {
        // Every system knows this one (RFC 6761 section 6.3).
        assert_eq!(
            parse_address_and_port("localhost:80"),
            Ok("127.0.0.1:80".parse().unwrap())
        );
        assert_eq!(
            parse_address("localhost"),
            Ok("127.0.0.1:20491".parse().unwrap())
        );
        for bad in [
            "localhost",
            ":80",
            "localhost:",
            "1:80",
            "a b:80",
            "127.1:80",
            "::1:x",
        ] {
            let error = parse_address_and_port(bad).unwrap_err();
            assert!(error.contains("127.0.0.1:20490"), "{bad}: {error}");
        }
        // A name that is never given (RFC 6761 section 6.4).
        let error = parse_address("pagewell.invalid:80").unwrap_err();
        assert!(error.contains("'pagewell.invalid'"), "{error}");
    }

    #[test]
    fn addresses_of_a_link_have_an_interface() {
        // Every system has this one, and its number is 1.
        let expected = |port| SocketAddrV6::new("fe80::1".parse().unwrap(), port, 0, 1).into();
        for text in ["[fe80::1%lo]:80", "[fe80::1%1]:80"] {
            assert_eq!(parse_address_and_port(text), Ok(expected(80)), "{text}");
            assert_eq!(parse_address(text), Ok(expected(80)), "{text}");
        }
        for text in ["fe80::1%lo", "[fe80::1%lo]"] {
            assert_eq!(parse_address(text), Ok(expected(DEFAULT_PORT)), "{text}");
        }
        let error = parse_address_and_port("[fe80::1%no-such]:80").unwrap_err();
        assert!(error.contains("'fe80::1%no-such'"), "{error}");
        for bad in ["fe80::1%lo:80", "[x%lo]:80", "[fe80::1%lo]80"] {
            assert!(parse_address_and_port(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_port_may_be_left_out() {
        for (text, address) in [
            ("127.0.0.1", "127.0.0.1:20491"),
            ("127.0.0.1:0", "127.0.0.1:0"),
            ("::1", "[::1]:20491"),
            ("[::1]", "[::1]:20491"),
            ("[::1]:80", "[::1]:80"),
        ] {
            assert_eq!(parse_address(text), Ok(address.parse().unwrap()), "{text}");
        }
        for bad in [
            "",
            "localhost:",
            "localhost:x",
            "local host",
            "127.0.0.1:",
            "127.0.0.1:65536",
            ":80",
            "[::1",
            "1.2.3",
        ] {
            assert!(parse_address(bad).is_err(), "{bad}");
        }
    }
}
