//! What to type on a client to mount an export.

use std::fmt::Write;
use std::net::SocketAddr;

use crate::escape;

/// The URL of an export, as in the ready line.
#[must_use]
pub(crate) fn url(address: SocketAddr, export: &str) -> String {
    format!("nfs://{address}{}", escape::url_path(export.as_bytes()))
}

/// One command for each kind of client. `host_name` stands for the server when it listens on all
/// addresses. FreeBSD and Windows have no option for the port of MOUNT: they ask the port mapper.
#[must_use]
pub(crate) fn for_export(address: SocketAddr, export: &str, host_name: &str) -> String {
    let port = address.port();
    let ip = address.ip();
    let (host, transport) = match ip {
        _ if ip.is_unspecified() => (host_name.to_owned(), "tcp"),
        std::net::IpAddr::V4(ip) => (ip.to_string(), "tcp"),
        std::net::IpAddr::V6(ip) => (format!("[{ip}]"), "tcp6"),
    };
    let place = quoted(&format!("{host}:{export}"));
    let ports = format!("port={port},mountport={port}");
    let mut text = String::new();
    for (system, command) in [
        (
            "Linux",
            format!("mount -t nfs -o vers=3,proto={transport},nolock,{ports} {place} /mnt"),
        ),
        (
            "macOS",
            format!("mount -t nfs -o vers=3,proto={transport},nolocks,{ports} {place} /mnt"),
        ),
        (
            "FreeBSD",
            format!("mount -t nfs -o nfsv3,tcp,nolockd,port={port} {place} /mnt  # --register"),
        ),
        (
            "Windows",
            format!("mount -o anon,nolock {place} Z:  (needs --register)"),
        ),
    ] {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "  {system:<8} {command}");
    }
    text
}

/// `text` as one word of a shell.
fn quoted(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/:.-_[]~+@%,".contains(&byte);
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
        let text = for_export(address, "/data", "host");
        assert_eq!(text.lines().count(), 4);
        let linux = "Linux    mount -t nfs \
                     -o vers=3,proto=tcp,nolock,port=20490,mountport=20490 127.0.0.1:/data /mnt";
        assert!(text.contains(linux), "{text}");
        let text = for_export("[::1]:1".parse().unwrap(), "/", "host");
        assert!(
            text.contains("proto=tcp6") && text.contains(" [::1]:/ "),
            "{text}"
        );
        let text = for_export("0.0.0.0:1".parse().unwrap(), "/it's", "host");
        assert!(text.contains(" 'host:/it'\\''s' "), "{text}");
    }

    #[test]
    fn urls_are_encoded() {
        let address = "[::1]:20490".parse().unwrap();
        assert_eq!(url(address, "/"), "nfs://[::1]:20490/");
        assert_eq!(url(address, "/a b"), "nfs://[::1]:20490/a%20b");
    }
}
