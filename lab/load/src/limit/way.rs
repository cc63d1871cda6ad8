//! How the data of a READ leaves.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::FileExt;

use rustix::fs::sendfile;
use rustix::net::{SendFlags, send};

use super::files::ReadFile;
use crate::named;

named! {
    /// One of the ways from the page cache to the socket.
    pub enum Way {
        /// One writev(2) of the head and of addresses in a mapping of the file.
        Mapping = "mapping",
        /// One pread(2) into a buffer that stays in the processor's cache, one writev(2).
        Copy = "copy",
        /// send(2) of the head with MSG_MORE, then sendfile(2).
        Sendfile = "sendfile",
    }
}

pub(super) struct Sender {
    way: Way,
    buffer: Vec<u8>,
}

impl Sender {
    pub(super) fn new(way: Way, read_bytes_max: usize) -> Self {
        let length = if way == Way::Copy { read_bytes_max } else { 0 };
        Self {
            way,
            buffer: vec![0; length],
        }
    }

    /// Sends `heads`, of which the last is that of a READ, and its data.
    pub(super) fn send(
        &mut self,
        mut socket: &TcpStream,
        heads: &[u8],
        file: &ReadFile,
        offset: u64,
        length: usize,
    ) -> io::Result<()> {
        let gone = || io::Error::from(io::ErrorKind::UnexpectedEof);
        match self.way {
            Way::Mapping => {
                let address = file.mapping.range(offset, length).ok_or_else(gone)?;
                let head = part(heads.as_ptr(), heads.len());
                write_parts(socket, [head, part(address.cast(), length)])
            }
            Way::Copy => {
                let data = self.buffer.get_mut(..length).ok_or_else(gone)?;
                file.file.read_exact_at(data, offset)?;
                let head = part(heads.as_ptr(), heads.len());
                write_parts(socket, [head, part(data.as_ptr(), length)])
            }
            Way::Sendfile => {
                let sent = send(socket, heads, SendFlags::MORE)?;
                socket.write_all(heads.get(sent..).unwrap_or_default())?;
                let (mut at, mut left) = (offset, length);
                while left > 0 {
                    let count = sendfile(socket.as_fd(), &file.file, Some(&mut at), left)?;
                    if count == 0 {
                        return Err(gone());
                    }
                    left = left.saturating_sub(count);
                }
                Ok(())
            }
        }
    }
}

/// Receives more of a stream; an error at its end.
pub(super) fn receive(mut socket: &TcpStream, into: &mut [u8]) -> io::Result<usize> {
    match socket.read(into)? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        count => Ok(count),
    }
}

const fn part(address: *const u8, length: usize) -> libc::iovec {
    libc::iovec {
        iov_base: address.cast_mut().cast(),
        iov_len: length,
    }
}

/// Writes both parts, whose memory only the kernel reads.
fn write_parts(socket: &TcpStream, mut parts: [libc::iovec; 2]) -> io::Result<()> {
    loop {
        let left = parts[0].iov_len + parts[1].iov_len;
        if left == 0 {
            return Ok(());
        }
        // SAFETY: both parts are memory of the callers that lives longer than the call, or
        // addresses of a mapping, which the kernel checks.
        let count = unsafe { libc::writev(socket.as_raw_fd(), parts.as_ptr(), 2) };
        let mut count = match usize::try_from(count) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => count,
            Err(_) => {
                let error = io::Error::last_os_error();
                if error.kind() == io::ErrorKind::Interrupted {
                    continue;
                }
                return Err(error);
            }
        };
        for part in &mut parts {
            let taken = count.min(part.iov_len);
            part.iov_base = part.iov_base.wrapping_byte_add(taken);
            part.iov_len -= taken;
            count -= taken;
        }
    }
}
