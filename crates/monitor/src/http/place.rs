//! The address of an HTTP server: a port, or a Unix socket.

use std::fmt;
use std::io::{Error, ErrorKind, Result};
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::fs::Mode;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with,
};

/// The value of `--http`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A TCP port; 0 picks one.
    Tcp(SocketAddr),
    /// A socket in the file system, for this user and group.
    Unix(PathBuf),
}

impl Place {
    /// The address, unless it is of this machine alone.
    #[must_use]
    pub fn reachable(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(address) if !address.ip().to_canonical().is_loopback() => Some(*address),
            Self::Tcp(_) | Self::Unix(_) => None,
        }
    }

    /// The URL of a path, for messages.
    #[must_use]
    pub fn url(&self, path: &str) -> String {
        match self {
            Self::Tcp(address) => format!("http://{address}{path}"),
            Self::Unix(socket) => {
                let socket = socket.to_string_lossy();
                format!("http://localhost{path} (curl --unix-socket {socket})")
            }
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(formatter, "{address}"),
            Self::Unix(path) => write!(formatter, "unix:{}", path.display()),
        }
    }
}

/// A listening socket.
pub(super) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener, SocketFile),
}

/// The file of a Unix socket, removed at the end, unless another by now.
pub(super) struct SocketFile {
    path: PathBuf,
    identity: (u64, u64),
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if identity(&self.path).is_ok_and(|found| found == self.identity) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn identity(path: &Path) -> Result<(u64, u64)> {
    let found = std::fs::symlink_metadata(path)?;
    Ok((found.dev(), found.ino()))
}

impl Listener {
    /// Listens.
    ///
    /// # Errors
    ///
    /// The address or the socket is in use, another kind of file has its name, or the system's
    /// error.
    pub(super) fn bind(place: &Place) -> Result<Self> {
        match place {
            Place::Tcp(address) => TcpListener::bind(address).map(Self::Tcp),
            Place::Unix(path) => bind_file(path),
        }
    }

    /// Its actual address.
    pub(super) fn place(&self) -> Result<Place> {
        match self {
            Self::Tcp(listener) => listener.local_addr().map(Place::Tcp),
            Self::Unix(_, file) => Ok(Place::Unix(file.path.clone())),
        }
    }

    /// A copy of its descriptor.
    pub(super) fn descriptor(&self) -> Result<OwnedFd> {
        match self {
            Self::Tcp(listener) => listener.try_clone().map(OwnedFd::from),
            Self::Unix(listener, _) => listener.try_clone().map(OwnedFd::from),
        }
    }

    /// The next connection, and its address; `None` at a Unix socket.
    pub(super) fn accept(&self) -> Result<(OwnedFd, Option<IpAddr>)> {
        match self {
            Self::Tcp(listener) => {
                let (stream, peer) = listener.accept()?;
                Ok((stream.into(), Some(peer.ip().to_canonical())))
            }
            Self::Unix(listener, _) => listener.accept().map(|(stream, _)| (stream.into(), None)),
        }
    }
}

/// Replaces the socket of a process that has died.
fn bind_file(path: &Path) -> Result<Listener> {
    match std::fs::symlink_metadata(path) {
        Ok(found) if !found.file_type().is_socket() => {
            let reason = "there is a file of this name that is no socket";
            return Err(Error::new(ErrorKind::AlreadyExists, reason));
        }
        Ok(_) => match UnixStream::connect(path) {
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
                std::fs::remove_file(path)?;
            }
            _ => return Err(ErrorKind::AddrInUse.into()),
        },
        Err(_) => {}
    }
    let listener = listen_at(path)?;
    // The umask may have taken the group's right.
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(SOCKET_MODE))?;
    let file = SocketFile {
        path: path.to_path_buf(),
        identity: identity(path)?,
    };
    Ok(Listener::Unix(listener, file))
}

/// The file has these permissions from the first moment: the process may have no umask.
fn listen_at(path: &Path) -> Result<UnixListener> {
    let address = SocketAddrUnix::new(path)?;
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::fs::fchmod(&socket, Mode::from_raw_mode(SOCKET_MODE))?;
    bind(&socket, &address)?;
    listen(&socket, WAITING_MAX)?;
    Ok(socket.into())
}

/// Connections that are not accepted yet.
const WAITING_MAX: i32 = 128;

/// Connecting needs write permission: for the user, and the group of a reverse proxy.
const SOCKET_MODE: u32 = 0o660;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_socket_that_nothing_answers_is_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let place = Place::Unix(path.clone());
        std::fs::write(&path, "kept").unwrap();
        let error = Listener::bind(&place).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::AlreadyExists);
        std::fs::remove_file(&path).unwrap();
        drop(UnixListener::bind(&path).unwrap());
        let listener = Listener::bind(&place).unwrap();
        let error = Listener::bind(&place).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::AddrInUse);
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, SOCKET_MODE);
        drop(listener);
        assert!(!path.exists());
    }

    #[test]
    fn no_other_user_may_connect_at_any_moment() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let (stop, looked) = std::sync::mpsc::channel::<()>();
        let watched = path.clone();
        let watcher = std::thread::spawn(move || {
            let mut seen = 0;
            while looked.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty) {
                seen |= std::fs::metadata(&watched).map_or(0, |found| found.permissions().mode());
            }
            seen & 0o777
        });
        for _ in 0..2000 {
            drop(Listener::bind(&Place::Unix(path.clone())).unwrap());
        }
        drop(stop);
        let seen = watcher.join().unwrap();
        assert_eq!(seen & 0o007, 0, "{seen:o}");
    }

    #[test]
    fn the_socket_of_another_stays() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let listener = Listener::bind(&Place::Unix(path.clone())).unwrap();
        std::fs::rename(&path, directory.path().join("moved")).unwrap();
        let _other = UnixListener::bind(&path).unwrap();
        drop(listener);
        assert!(path.exists());
    }
}
