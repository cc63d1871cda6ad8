//! Where an HTTP server listens: an address, or a Unix socket.

use std::fmt;
use std::io::{Error, ErrorKind, Result};
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// What `--http` names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A TCP port; 0 picks one.
    Tcp(SocketAddr),
    /// A socket in the file system, for this user and group.
    Unix(PathBuf),
}

impl Place {
    /// The address that others may reach, if it has one that is not of this machine alone.
    #[must_use]
    pub fn reachable(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(address) if !address.ip().to_canonical().is_loopback() => Some(*address),
            Self::Tcp(_) | Self::Unix(_) => None,
        }
    }

    /// How a person asks for this path there.
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

/// A socket that listens.
pub(super) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener, SocketFile),
}

/// The file of a Unix socket, removed when it goes, unless it has become another's.
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
    /// The address or the socket is in use, a file that is no socket has its name, or what the
    /// system says.
    pub(super) fn bind(place: &Place) -> Result<Self> {
        match place {
            Place::Tcp(address) => TcpListener::bind(address).map(Self::Tcp),
            Place::Unix(path) => bind_file(path),
        }
    }

    /// Where it really listens.
    pub(super) fn place(&self) -> Result<Place> {
        match self {
            Self::Tcp(listener) => listener.local_addr().map(Place::Tcp),
            Self::Unix(_, file) => Ok(Place::Unix(file.path.clone())),
        }
    }

    /// Its descriptor once more.
    pub(super) fn descriptor(&self) -> Result<OwnedFd> {
        match self {
            Self::Tcp(listener) => listener.try_clone().map(OwnedFd::from),
            Self::Unix(listener, _) => listener.try_clone().map(OwnedFd::from),
        }
    }

    /// The next connection, and its peer unless that is a program of this machine at a Unix socket.
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

/// What a process that has died left there is replaced.
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
    let listener = UnixListener::bind(path)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(SOCKET_MODE))?;
    let file = SocketFile {
        path: path.to_path_buf(),
        identity: identity(path)?,
    };
    Ok(Listener::Unix(listener, file))
}

/// Who may connect may write: the user, and the group for a reverse proxy.
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
