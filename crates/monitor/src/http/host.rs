//! Which names this server answers to.
//!
//! Problem: a page of a foreign site can make a browser read from this machine, when the name of
//! that site is suddenly given the address of this machine ("DNS rebinding"). The browser then
//! says in `Host` which name it was told. Rule: an address is answered, and so are `localhost`
//! and the name of this machine; a client that has another name for it is told to use one of these.

use std::net::{IpAddr, Ipv6Addr};

/// The names of this machine.
pub struct Names {
    full: String,
}

impl Names {
    /// As the kernel knows them.
    pub fn of_this_machine() -> Self {
        let uname = rustix::system::uname();
        Self::new(&uname.nodename().to_string_lossy())
    }

    fn new(name: &str) -> Self {
        Self {
            full: name.to_ascii_lowercase(),
        }
    }

    /// Whether a `Host` field means this machine.
    pub fn has(&self, field: &str) -> bool {
        let Some(host) = without_port(field) else {
            return false;
        };
        if let Some(address) = host.strip_prefix('[') {
            let address = address.strip_suffix(']').unwrap_or_default();
            return address.parse::<Ipv6Addr>().is_ok();
        }
        let host = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
        let short = self.full.split('.').next().unwrap_or_default();
        host.parse::<IpAddr>()
            .is_ok_and(|address| address.is_ipv4())
            || host == "localhost"
            || (!host.is_empty() && (host == self.full || host == short))
    }
}

/// `Host = uri-host [ ":" port ]` (RFC 9112 section 3.2).
fn without_port(field: &str) -> Option<&str> {
    let end = field.rfind(']').unwrap_or(0);
    match field.get(end..)?.find(':') {
        None => Some(field),
        Some(colon) => {
            let (host, port) = field.split_at(end + colon);
            let digits = port.get(1..)?;
            digits
                .bytes()
                .all(|byte| byte.is_ascii_digit())
                .then_some(host)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_and_own_names_are_answered() {
        let names = Names::new("Box.example.org");
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
            assert!(names.has(own), "{own}");
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
            assert!(!names.has(foreign), "{foreign}");
        }
        assert!(!Names::new("").has(""));
    }
}
