//! Values of options, with errors that say what is wanted.

/// The port of `serve --http` and `counters --connect` when none is given.
pub(crate) const DEFAULT_PORT: u16 = 20491;

/// Parses `ADDRESS` or `ADDRESS:PORT`; the address is numeric, IPv6 with a port in brackets.
pub(crate) fn parse_address(text: &str) -> Result<std::net::SocketAddr, String> {
    let bare = text
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
        .unwrap_or(text);
    text.parse()
        .or_else(|_| {
            let address: std::net::IpAddr = bare.parse()?;
            Ok((address, DEFAULT_PORT).into())
        })
        .map_err(|_: std::net::AddrParseError| {
            "an address is like 127.0.0.1, 127.0.0.1:20491 or [::1]:20491".to_owned()
        })
}

/// Parses `ADDRESS:PORT`.
pub(crate) fn parse_address_and_port(text: &str) -> Result<std::net::SocketAddr, String> {
    text.parse()
        .map_err(|_| "an address is like 127.0.0.1:20490 or [::1]:20490".to_owned())
}

/// Parses a number from 1 to `most`.
pub(crate) fn parse_count(text: &str, most: u32) -> Result<u32, String> {
    let number = text
        .parse()
        .ok()
        .filter(|number| (1..=most).contains(number));
    number.ok_or_else(|| format!("a number from 1 to {most} is wanted"))
}

/// Parses the number of a user or a group.
pub(crate) fn parse_id(text: &str) -> Result<u32, String> {
    text.parse()
        .map_err(|_| format!("a number from 0 to {} is wanted", u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_numbers() {
        assert_eq!(parse_id("0"), Ok(0));
        assert_eq!(parse_id("4294967295"), Ok(u32::MAX));
        for bad in ["", "nobody", "-1", "4294967296"] {
            assert!(parse_id(bad).unwrap_err().contains("number from 0"));
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
            "localhost",
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
