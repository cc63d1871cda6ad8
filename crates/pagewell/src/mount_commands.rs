//! The commands that mount an export on a client.

use std::fmt::Write;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::net::UnixDatagram;

use crate::escape;

/// The URL of an export, as in the ready line; `%25` is the sign before an interface.
pub(crate) fn url(address: SocketAddr, export: &str) -> String {
    let path = escape::url_path(export.as_bytes());
    let (ip, port) = (address.ip(), address.port());
    match interface_of(address) {
        Some(name) => {
            let name = escape::url_path(name.as_bytes());
            format!("nfs://[{ip}%25{name}]:{port}{path}")
        }
        None => format!("nfs://{address}{path}"),
    }
}

/// The interface of a link-local address, or its number when it is gone.
fn interface_of(address: SocketAddr) -> Option<String> {
    let SocketAddr::V6(address) = address else {
        return None;
    };
    let number = address.scope_id();
    let name = || {
        let socket = UnixDatagram::unbound().ok()?;
        rustix::net::netdevice::index_to_name(socket, number).ok()
    };
    (number != 0).then(|| name().unwrap_or_else(|| number.to_string()))
}

/// One command for each kind of client. `host_name` stands for the server when it listens on all
/// addresses. FreeBSD and Windows ask the port mapper for the port of MOUNT.
///
/// With `locks` clients find the lock manager through the port mapper, over IPv4. A client on the
/// same machine finds its own there, so its locks stay local.
pub(crate) fn for_export(
    address: SocketAddr,
    export: &str,
    host_name: &str,
    locks: bool,
) -> String {
    let port = address.port();
    let ip = address.ip().to_canonical();
    let (host, transport) = match ip {
        _ if ip.is_unspecified() => (host_name.to_owned(), "tcp"),
        IpAddr::V4(ip) => (ip.to_string(), "tcp"),
        IpAddr::V6(ip) => match interface_of(address) {
            Some(name) => (format!("[{ip}%{name}]"), "tcp6"),
            None => (format!("[{ip}]"), "tcp6"),
        },
    };
    let locks = locks && transport == "tcp" && !ip.is_loopback();
    let without = |option: &'static str| if locks { "" } else { option };
    let place = format!("{host}:{export}");
    // Its shell has double quotes alone.
    let windows_place = match place.contains(' ') {
        true => format!("\"{place}\""),
        false => place.clone(),
    };
    let place = quoted(&place);
    let ports = format!("port={port},mountport={port}");
    let mut text = String::new();
    let unix = |without_locks, directory| {
        let locks = without(without_locks);
        format!("mount -t nfs -o vers=3,proto={transport},{locks}{ports} {place} {directory}")
    };
    let (freebsd, windows) = (without("nolockd,"), without(",nolock"));
    for (system, command) in [
        ("Linux", unix("nolock,", "/mnt")),
        // Its root directory is read-only.
        ("macOS", unix("nolocks,", "/private/mnt")),
        (
            "FreeBSD",
            format!("mount -t nfs -o nfsv3,tcp,{freebsd}port={port} {place} /mnt  # --register"),
        ),
        (
            "Windows",
            format!("mount -o anon{windows} {windows_place} Z:  (needs --register)"),
        ),
    ] {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "  {system:<8} {command}");
    }
    text
}

/// `text` as one word of a shell; zsh refuses brackets that match no file.
pub(crate) fn quoted(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/:.-_~+@%,".contains(&byte);
    if text.bytes().all(plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_system_gets_its_command() {
        let address = "127.0.0.1:20490".parse().unwrap();
        let text = for_export(address, "/data", "host", true);
        assert_eq!(text.lines().count(), 4);
        let linux = "Linux    mount -t nfs \
                     -o vers=3,proto=tcp,nolock,port=20490,mountport=20490 127.0.0.1:/data /mnt";
        assert!(text.contains(linux), "{text}");
        let text = for_export("[::1]:1".parse().unwrap(), "/", "host", false);
        assert!(
            text.contains("proto=tcp6") && text.contains(" '[::1]:/' "),
            "{text}"
        );
        let text = for_export("0.0.0.0:1".parse().unwrap(), "/it's", "host", false);
        assert!(text.contains(" 'host:/it'\\''s' "), "{text}");
        assert_eq!(text.matches("nolock").count(), 4);
        let text = for_export("0.0.0.0:1".parse().unwrap(), "/", "host", true);
        assert!(!text.contains("nolock"), "{text}");
        let text = for_export("[fe80::1%1]:1".parse().unwrap(), "/", "host", true);
        assert!(text.contains(" '[fe80::1%lo]:/' "), "{text}");
        let text = for_export("127.0.0.1:1".parse().unwrap(), "/a b", "host", false);
        assert!(text.contains(" '127.0.0.1:/a b' /mnt"), "{text}");
        assert!(text.contains(" \"127.0.0.1:/a b\" Z:"), "{text}");
        let text = for_export("[fd00::1]:1".parse().unwrap(), "/", "host", true);
        assert_eq!(text.matches("nolock").count(), 4, "{text}");
    }

    #[test]
    fn urls_are_encoded() {
        let address = "[::1]:20490".parse().unwrap();
        assert_eq!(url(address, "/"), "nfs://[::1]:20490/");
        assert_eq!(url(address, "/a b"), "nfs://[::1]:20490/a%20b");
        let address = "[fe80::1%1]:7".parse().unwrap();
        assert_eq!(url(address, "/"), "nfs://[fe80::1%25lo]:7/");
        let address = "[fe80::1%4000000000]:7".parse().unwrap();
        assert_eq!(url(address, "/"), "nfs://[fe80::1%254000000000]:7/");
    }
}
