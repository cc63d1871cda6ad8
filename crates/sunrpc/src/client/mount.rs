//! MOUNT: from the name of an export to its root handle and the addresses of NFS.
//!
//! MOUNT is on the port of NFS (as Pagewell's) or on one from the port mapper, tried in this order.
//! A given port is the only one tried: the port mapper may know another server of the machine, with
//! other files under the same names. Where no port speaks MOUNT, a call of NFS detects servers of
//! version 4 alone.

use super::call::{CallError, EncodedCredential, Outgoing};
use super::connection::Client;
use super::dial::{ConnectError, is_reserved};
use super::options::{Options, Patience, SourcePort};
use crate::mount3::{
    self, ExportReply, MountReply, PATH_BYTES_MAX, PathArguments, Procedure, Status,
};
use crate::nfs3;
use crate::portmap;
use crate::rpc::Refusal;
use crate::xdr::Decode;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::time::Duration;

const NFS_PORT: u16 = 2049;
/// AUTH_NONE and AUTH_SYS.
const FLAVORS: [u32; 2] = [0, 1];
/// The lowest version that this client lacks.
const NEWER_VERSION: u32 = 4;
/// Advice after a refusal that may be due to the source port.
const PORT_ADVICE: &str = " (servers often serve only ports below 1024, and this call came from \
    another: let those in at the server, by \"insecure\" in /etc/exports or \"allow connections \
    from non-privileged ports\" in the settings of a NAS, or run this as root and without \
    noresvport)";
/// Those of a host.
const ADDRESSES_MAX: usize = 16;
/// In an error.
const EXPORTS_LISTED_MAX: usize = 20;

/// An export, and how to mount it.
#[derive(Clone, Debug)]
pub struct MountOptions {
    /// Name or address of the server.
    pub host: String,
    /// Path of the export.
    pub export: Vec<u8>,
    /// Port of NFS; by default that of the port mapper, else 2049.
    pub nfs_port: Option<u16>,
    /// Port of MOUNT; by default that of NFS, then, with neither given, that of the port mapper.
    pub mount_port: Option<u16>,
    /// Of calls.
    pub source_port: SourcePort,
    /// The caller of MOUNT.
    pub credential: EncodedCredential,
    /// For each step.
    pub timeout: Duration,
}

impl MountOptions {
    /// `export` of `host`, for the user of this process.
    #[must_use]
    pub fn new(host: impl Into<String>, export: impl Into<Vec<u8>>) -> Self {
        Self {
            host: host.into(),
            export: export.into(),
            nfs_port: None,
            mount_port: None,
            source_port: SourcePort::ReservedIfPossible,
            credential: EncodedCredential::of_process(),
            timeout: Duration::from_secs(10),
        }
    }

    fn shown_export(&self) -> String {
        String::from_utf8_lossy(&self.export).into_owned()
    }

    /// The error when the server refuses this client. `place` describes the export.
    fn denied(&self, addresses: &[SocketAddr], place: &str) -> String {
        let mut reserved = addresses
            .iter()
            .map(|address| is_reserved(self.source_port, address));
        let advice = if reserved.any(|reserved| !reserved) {
            PORT_ADVICE
        } else {
            ""
        };
        let (host, export) = (&self.host, self.shown_export());
        format!("{host} denies access to {export}{place}{advice}")
    }

    fn call(&self, procedure: Procedure) -> Outgoing {
        let path = PathArguments { path: &self.export };
        Outgoing::new(procedure.number(), &self.credential, &path)
    }
}

/// A mounted export.
#[derive(Clone, Debug)]
pub struct Mounted {
    /// Handle of its root.
    pub handle: Vec<u8>,
    /// The addresses of NFS.
    pub addresses: Vec<SocketAddr>,
    mount_addresses: Vec<SocketAddr>,
    options: MountOptions,
}

/// The texts are for people.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// The server's name has no address.
    #[error("cannot find the server {host}: {error}")]
    Resolve {
        /// Of the server.
        host: String,
        /// The system's reason.
        error: io::Error,
    },
    /// The server is unreachable.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// It does not exist, or the server refuses it.
    #[error("{0}")]
    NotGiven(String),
    /// Another unexpected answer.
    #[error("{0}")]
    Failed(String),
    /// An invalid path.
    #[error("an export is a path that begins with / and has at most {PATH_BYTES_MAX} bytes")]
    BadExport,
    /// The server lacks version 3.
    #[error("{host} speaks NFS version 4 only, and this is a client of version 3")]
    Version4Only {
        /// Of the server.
        host: String,
    },
    /// No port speaks MOUNT.
    #[error("{host} does not serve MOUNT version 3: {reason}")]
    NotServed {
        /// Of the server.
        host: String,
        /// The answer of the port mapper.
        reason: String,
    },
}

/// Whether a refusal of NFS version 3 shows a server of newer versions only.
#[must_use]
pub fn has_newer_versions_only(refusal: Refusal) -> bool {
    matches!(refusal, Refusal::ProgramMismatch { low, .. } if low >= NEWER_VERSION)
}

/// Mounts an export.
pub fn mount(options: &MountOptions) -> Result<Mounted, MountError> {
    if options.export.len() > PATH_BYTES_MAX || !options.export.starts_with(b"/") {
        return Err(MountError::BadExport);
    }
    let resolved = resolve(&options.host)?;
    let nfs_port = match options.nfs_port {
        Some(port) => port,
        None => {
            ask_port_mapper(options, &resolved, nfs3::PROGRAM, nfs3::VERSION).unwrap_or(NFS_PORT)
        }
    };
    let addresses = with_port(&resolved, nfs_port);
    let mounted = find(options, &resolved, &addresses);
    match mounted {
        Err(MountError::NotServed { .. }) if has_no_version_3(options, &addresses) => {
            let host = options.host.clone();
            Err(MountError::Version4Only { host })
        }
        mounted => mounted,
    }
}

fn find(
    options: &MountOptions,
    resolved: &[SocketAddr],
    addresses: &[SocketAddr],
) -> Result<Mounted, MountError> {
    let ask_port = |port| {
        let mounted = ask(options, &with_port(resolved, port), addresses)?;
        mounted.ok_or_else(|| not_served(options, does_not_speak(port, options)))
    };
    if let Some(port) = options.mount_port.or(options.nfs_port) {
        return ask_port(port);
    }
    let same = ask(options, addresses, addresses);
    match same {
        Ok(Some(mounted)) => return Ok(mounted),
        Ok(None) | Err(MountError::Connect(_)) => {}
        Err(error) => return Err(error),
    }
    let found = ask_port_mapper(options, resolved, mount3::PROGRAM, mount3::VERSION);
    match (found, same) {
        (Ok(port), _) => ask_port(port),
        (Err(_), Err(error)) => Err(error),
        (Err(reason), Ok(_)) => Err(not_served(options, reason)),
    }
}

fn does_not_speak(port: u16, options: &MountOptions) -> String {
    let advice = if options.mount_port.is_none() && options.nfs_port.is_some() {
        " (give mountport=N, or no port at all: then the port mapper is asked)"
    } else {
        ""
    };
    format!("port {port} does not speak it{advice}")
}

fn not_served(options: &MountOptions, reason: String) -> MountError {
    let host = options.host.clone();
    MountError::NotServed { host, reason }
}

fn resolve(host: &str) -> Result<Vec<SocketAddr>, MountError> {
    let failed = |error| MountError::Resolve {
        host: host.to_owned(),
        error,
    };
    // URLs have IPv6 addresses in brackets.
    let name = host
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
        .unwrap_or(host);
    let mut found: Vec<_> = (name, 0).to_socket_addrs().map_err(failed)?.collect();
    found.truncate(ADDRESSES_MAX);
    if found.is_empty() {
        return Err(failed(io::ErrorKind::NotFound.into()));
    }
    Ok(found)
}

fn with_port(addresses: &[SocketAddr], port: u16) -> Vec<SocketAddr> {
    let mut addresses = addresses.to_vec();
    for address in &mut addresses {
        address.set_port(port);
    }
    addresses
}

/// The port of a program, from the first port mapper that answers.
fn ask_port_mapper(
    options: &MountOptions,
    addresses: &[SocketAddr],
    program: u32,
    version: u32,
) -> Result<u16, String> {
    let mut failure = String::new();
    for address in with_port(addresses, portmap::PORT) {
        let answer = portmap::Client::connect(&address, None, options.timeout)
            .and_then(|mut mapper| mapper.port_of(program, version));
        match answer {
            Ok(Some(port)) => return Ok(port),
            Ok(None) => failure = "its port mapper does not know the program".to_owned(),
            Err(error) => failure = format!("its port mapper cannot be asked: {error}"),
        }
    }
    Err(failure)
}

fn has_no_version_3(options: &MountOptions, addresses: &[SocketAddr]) -> bool {
    let Ok(client) = connect_to(options, addresses, (nfs3::PROGRAM, nfs3::VERSION)) else {
        return false;
    };
    let null = nfs3::Procedure::Null.number();
    let answer = client.call(Outgoing::new(null, &options.credential, &()), |_| Ok(()));
    matches!(answer, Err(CallError::Refused(refusal)) if has_newer_versions_only(refusal))
}

fn connect(options: &MountOptions, addresses: &[SocketAddr]) -> Result<Client, ConnectError> {
    connect_to(options, addresses, (mount3::PROGRAM, mount3::VERSION))
}

fn connect_to(
    options: &MountOptions,
    addresses: &[SocketAddr],
    (program, version): (u32, u32),
) -> Result<Client, ConnectError> {
    let mut settings = Options::new(&options.host, addresses.to_vec());
    settings.source_port = options.source_port;
    settings.connect_timeout = options.timeout;
    settings.timeout = options.timeout;
    settings.patience = Patience::Soft {
        attempts: 1,
        timeout: options.timeout,
    };
    Client::connect(program, version, settings)
}

/// `None`: no MOUNT there.
fn ask(
    options: &MountOptions,
    mount_addresses: &[SocketAddr],
    addresses: &[SocketAddr],
) -> Result<Option<Mounted>, MountError> {
    let client = connect(options, mount_addresses)?;
    let (host, export) = (&options.host, options.shown_export());
    let answer = client.call(options.call(Procedure::Mnt), |decoder| {
        let reply = MountReply::decode(decoder)?;
        Ok(reply.map(|body| (body.handle.as_bytes().to_vec(), body.flavors)))
    });
    let (handle, flavors) = match answer {
        Ok(answer) => answer
            .value
            .map_err(|status| explained(&client, options, mount_addresses, status))?,
        Err(CallError::Refused(Refusal::ProgramUnavailable | Refusal::ProgramMismatch { .. })) => {
            return Ok(None);
        }
        Err(CallError::Refused(Refusal::Authentication(_))) => {
            return Err(MountError::Failed(options.denied(mount_addresses, "")));
        }
        Err(error) => {
            let text = format!("cannot mount {export} of {host}: {error}");
            return Err(MountError::Failed(text));
        }
    };
    let flavors = flavors.as_slice();
    if !flavors.is_empty() && !flavors.iter().any(|flavor| FLAVORS.contains(flavor)) {
        return Err(MountError::Failed(format!(
            "{host} asks for an authentication for {export} that is not known here ({flavors:?})"
        )));
    }
    Ok(Some(Mounted {
        handle,
        addresses: addresses.to_vec(),
        mount_addresses: mount_addresses.to_vec(),
        options: options.clone(),
    }))
}

/// The error for a status of MNT.
fn explained(
    client: &Client,
    options: &MountOptions,
    addresses: &[SocketAddr],
    status: Status,
) -> MountError {
    let (host, export) = (&options.host, options.shown_export());
    let reason = match status {
        Status::AccessDenied | Status::NotPermitted | Status::NotFound | Status::NotDirectory => {
            return MountError::NotGiven(not_given(client, options, addresses, status));
        }
        Status::Io => "its storage failed",
        Status::Invalid => "it does not take the path",
        Status::NameTooLong => "the path is too long",
        Status::NotSupported => "it does not support that",
        Status::Ok => "no reason is given",
        _ => "an error of the server",
    };
    MountError::Failed(format!("{host} does not mount {export}: {reason}"))
}

/// Some servers report "access denied" for missing exports.
fn not_given(
    client: &Client,
    options: &MountOptions,
    addresses: &[SocketAddr],
    status: Status,
) -> String {
    let (host, export) = (&options.host, options.shown_export());
    let exports = exports(client, &options.credential);
    let inside = export_around(&export, &exports);
    let same = |name: &String| name.trim_end_matches('/') == export.trim_end_matches('/');
    let is_there = exports.is_empty() || exports.iter().any(same) || inside.is_some();
    let whole = inside.map_or_else(String::new, |inside| format!("; the export is {inside}"));
    match status {
        Status::NotDirectory => format!("{export} is not a directory{whole}"),
        Status::AccessDenied | Status::NotPermitted if is_there => {
            options.denied(addresses, &whole)
        }
        _ if exports.is_empty() => format!("{host} has no export {export}"),
        _ => format!("{host} has no export {export}; it has {}", listed(&exports)),
    }
}

fn listed(exports: &[String]) -> String {
    let (shown, others) = exports.split_at(exports.len().min(EXPORTS_LISTED_MAX));
    let more = match others.len() {
        0 => String::new(),
        count => format!(" and {count} more"),
    };
    shown.join(", ") + &more
}

/// The longest export that contains `path`, if that is no export itself.
fn export_around(path: &str, exports: &[String]) -> Option<String> {
    let path = path.trim_end_matches('/');
    let is_around = |name: &&String| {
        let rest = path.strip_prefix(name.trim_end_matches('/'));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let around = exports.iter().filter(is_around);
    let around = around.max_by_key(|name| name.trim_end_matches('/').len())?;
    (around.trim_end_matches('/') != path).then(|| around.clone())
}

fn exports(client: &Client, credential: &EncodedCredential) -> Vec<String> {
    let call = Outgoing::new(Procedure::Export.number(), credential, &());
    let answer = client.call(call, |decoder| {
        let exports = ExportReply::decode(decoder)?;
        let names = exports
            .iter()
            .map(|export| String::from_utf8_lossy(export.path).into_owned());
        Ok(names.collect())
    });
    answer.map(|answer| answer.value).unwrap_or_default()
}

impl Mounted {
    /// Mounts again; returns the root's handle, which a restarted server may have changed.
    pub fn ask_again(&self) -> Result<Vec<u8>, MountError> {
        mount(&self.options).map(|mounted| mounted.handle)
    }

    /// The error when NFS refuses the handle of MOUNT.
    #[must_use]
    pub fn denied(&self) -> MountError {
        MountError::Failed(self.options.denied(&self.addresses, ""))
    }

    /// The error when NFS lacks version 3 although MOUNT has it.
    #[must_use]
    pub fn version_4_only(&self) -> MountError {
        let host = self.options.host.clone();
        MountError::Version4Only { host }
    }

    /// Informs the server of the unmount. A failure does no harm.
    pub fn unmount(&self) {
        if let Ok(client) = connect(&self.options, &self.mount_addresses) {
            let _ = client.call(self.options.call(Procedure::Umnt), |_| Ok(()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_export_around_a_path_is_the_nearest_one() {
        let exports = ["/".to_owned(), "/srv".to_owned(), "/srv/a/".to_owned()];
        for (path, around) in [
            ("/srv/a/b", Some("/srv/a/")),
            ("/srv/ab", Some("/srv")),
            ("/srvx", Some("/")),
            ("/srv", None),
            ("/srv/a", None),
            ("/srv/a/", None),
            ("/", None),
        ] {
            let found = export_around(path, &exports);
            assert_eq!(found.as_deref(), around, "{path}");
        }
        assert_eq!(export_around("/x", &exports[1..]), None);
    }
}
