//! The names of this server.
//!
//! Problem: a foreign site can make a browser read from this machine, when its name suddenly
//! resolves to this machine's address ("DNS rebinding"). The `Host` field then has that name. Rule:
//! the server accepts addresses, `localhost` and the name of this machine; a refusal lists these.

use std::net::{Ipv4Addr, Ipv6Addr};

/// Whether a `Host` field means this machine.
pub fn is_own(field: &str) -> bool {
    let uname = rustix::system::uname();
    is_of(field, &uname.nodename().to_string_lossy())
}

/// Whether a `Host` field means the machine of this name.
fn is_of(field: &str, machine: &str) -> bool {
    let Some(host) = without_port(field) else {
        return false;
    };
    if let Some(address) = host.strip_prefix('[') {
        let address = address.strip_suffix(']').unwrap_or_default();
        return address.parse::<Ipv6Addr>().is_ok();
    }
    let host = host.strip_suffix('.').unwrap_or(host);
    let short = machine.split('.').next().unwrap_or_default();
    let mut names = ["localhost", machine, short].into_iter();
    host.parse::<Ipv4Addr>().is_ok()
        || (!host.is_empty() && names.any(|name| name.eq_ignore_ascii_case(host)))
}

/// `Host = uri-host [ ":" port ]` (RFC 9112 section 3.2).
fn without_port(field: &str) -> Option<&str> {
    let end = field.rfind(']').unwrap_or(0);
    match field.get(end..)?.find(':') {
        None => Some(field),
        Some(colon) => {
            let (host, port) = field.split_at(end + colon);
            let digits = port.get(1..)?;
            let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
            is_number.then_some(host)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_and_own_names_are_answered() {
        let own_name = "Box.example.org";
        for own in [
            "127.0.0.1",
            "127.0.0.1:20491",
            "10.1.2.3:",
            "[::1]",
            "[::1]:20491",
            "localhost",
            "LOCALHOST:20491",
            "localhost.",
            "box",
            "box:80",
            "box.example.org.",
        ] {
            assert!(is_of(own, own_name), "{own}");
        }
        for foreign in [
            "",
            ":80",
            "evil.example.org",
            "box.evil.org",
            "localhost.evil.org",
            "127.0.0.1.evil.org",
            "evil.org:127",
            "localhost:evil",
            "::1",
            "[evil]",
            "[::1",
            "box example",
        ] {
            assert!(!is_of(foreign, own_name), "{foreign}");
        }
        assert!(!is_of("", ""));
    }
}
