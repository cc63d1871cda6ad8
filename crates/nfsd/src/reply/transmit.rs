//! Pieces of replies to a socket: the system calls.
//!
//! sendfile(2) ends with a segment of its own, however short, and wakes the receiver for it. So a
//! connection is corked while ranges of files leave with other pieces behind them: the end of one
//! reply and the head of the next one share a segment. To cork and uncork costs two system calls,
//! which a single reply would gain nothing by.

use std::collections::VecDeque;
use std::os::fd::{AsFd, AsRawFd};

use pagewell_counters::names;
use rustix::io::Errno;
use rustix::net::sockopt;

use crate::reply::batch::Piece;

/// The most ranges of one sendmsg; more only make the kernel copy the list.
const RANGES_MAX: usize = 64;

/// Sends pieces until none is left; those that have left are removed.
pub fn pieces(
    socket: &impl AsFd,
    pieces: &mut VecDeque<Piece>,
    offset: &mut usize,
) -> Result<(), Errno> {
    // Only TCP can be corked.
    let is_corked = more_follows_a_file(pieces) && sockopt::set_tcp_cork(socket, true).is_ok();
    let result = all(socket, pieces, offset);
    if is_corked {
        // It fails only if the connection is dead, which the next call says, too.
        let _ = sockopt::set_tcp_cork(socket, false);
    }
    result
}

fn more_follows_a_file(pieces: &VecDeque<Piece>) -> bool {
    let mut from_file = pieces
        .iter()
        .skip_while(|piece| !matches!(piece, Piece::File(_)));
    from_file.nth(1).is_some()
}

fn all(socket: &impl AsFd, pieces: &mut VecDeque<Piece>, offset: &mut usize) -> Result<(), Errno> {
    loop {
        let Some(first) = pieces.front_mut() else {
            return Ok(());
        };
        if let Piece::File(range) = first {
            match range.send_to(socket) {
                Ok(()) => drop(pieces.pop_front()),
                Err(Errno::NODATA) => *first = fallen_back(range.copied()?),
                Err(errno) => return Err(errno),
            }
            continue;
        }
        *offset += in_memory(socket, pieces, *offset)?;
        while let Some(first) = pieces.front() {
            if matches!(first, Piece::File(_)) || *offset < first.length() {
                break;
            }
            *offset -= first.length();
            pieces.pop_front();
        }
    }
}

/// Sends the leading pieces that are in memory with one system call.
fn in_memory(
    socket: &impl AsFd,
    pieces: &mut VecDeque<Piece>,
    offset: usize,
) -> Result<usize, Errno> {
    let mut ranges = [range_of(&[]); RANGES_MAX];
    let (mut count, mut mapped_bytes) = (0, 0);
    for (slot, piece) in ranges.iter_mut().zip(pieces.iter()) {
        *slot = match piece {
            Piece::Bytes(bytes) => range_of(bytes),
            Piece::Page(page) => range_of(page),
            Piece::Mapped(range) => {
                mapped_bytes += range.len();
                libc::iovec {
                    iov_base: range.address().cast_mut().cast(),
                    iov_len: range.len(),
                }
            }
            Piece::File(_) => break,
        };
        count += 1;
    }
    // All of the first piece has not left, or it would not be there.
    let [first, ..] = &mut ranges;
    first.iov_base = first.iov_base.wrapping_byte_add(offset);
    first.iov_len = first.iov_len.saturating_sub(offset);
    let more = count < pieces.len();
    // SAFETY: these are ranges of pieces, which stay until the call has returned. The memory of a
    // mapping may be nowhere: then the call answers EFAULT.
    match unsafe { send_ranges(socket, &ranges[..count], more) } {
        Err(Errno::FAULT) => {
            fill_first_mapped(pieces)?;
            Ok(0)
        }
        Ok(sent) => {
            names::MAPPED_BYTES.add(sent.min(mapped_bytes) as u64);
            Ok(sent)
        }
        Err(errno) => Err(errno),
    }
}

/// A file was cut short while it was to be sent from its mapping.
fn fill_first_mapped(pieces: &mut VecDeque<Piece>) -> Result<(), Errno> {
    for piece in pieces {
        if let Piece::Mapped(range) = piece {
            *piece = fallen_back(range.copied()?);
            break;
        }
    }
    Ok(())
}

/// The bytes of a file that was cut short while it was to be sent: what is there was read, and
/// zeros follow, because the reply has promised as many.
fn fallen_back(bytes: Vec<u8>) -> Piece {
    names::SEND_FAULTS.add(1);
    Piece::Bytes(bytes)
}

/// Sends bytes; returns how many left.
pub fn bytes(socket: &impl AsFd, bytes: &[u8]) -> Result<usize, Errno> {
    // SAFETY: the range is that of a slice.
    unsafe { send_ranges(socket, &[range_of(bytes)], false) }
}

fn range_of(bytes: &[u8]) -> libc::iovec {
    libc::iovec {
        iov_base: bytes.as_ptr().cast_mut().cast(),
        iov_len: bytes.len(),
    }
}

/// One system call. `more` says that other bytes follow at once.
///
/// # Safety
///
/// Each range is memory that can be read, or addresses of a mapping, until the call has returned.
unsafe fn send_ranges(
    socket: &impl AsFd,
    ranges: &[libc::iovec],
    more: bool,
) -> Result<usize, Errno> {
    let mut flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
    if more {
        flags |= libc::MSG_MORE;
    }
    // SAFETY: all zeros are a message without address, ranges and control data.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = ranges.as_ptr().cast_mut();
    // Its type differs between C libraries; there are at most RANGES_MAX.
    message.msg_iovlen = ranges.len() as _;
    names::SEND_CALLS.add(1);
    loop {
        // SAFETY: the message has nothing but ranges, for which the caller answers; the kernel
        // only reads it.
        let sent = unsafe { libc::sendmsg(socket.as_fd().as_raw_fd(), &raw const message, flags) };
        if let Ok(sent) = usize::try_from(sent) {
            return Ok(sent);
        }
        let error = std::io::Error::last_os_error();
        let errno = Errno::from_raw_os_error(error.raw_os_error().unwrap_or(libc::EIO));
        if errno != Errno::INTR {
            return Err(errno);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reply::file_range::FileRange;
    use pagewell_fs::OpenFile;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_file_that_was_cut_short_gives_what_is_left_of_it_and_zeros() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[7; 50_000]).unwrap();
        let file = OpenFile::new(file.into());
        let mapped = |offset| Piece::Mapped(file.mapped(offset, 20_000).unwrap());
        let range = |offset| Piece::File(FileRange::new(file.clone(), offset, 20_000));
        let mut waiting: VecDeque<Piece> = [
            Piece::Bytes(vec![1; 100]),
            mapped(0),
            Piece::Bytes(vec![2; 100]),
            mapped(30_000),
            range(0),
            Piece::Bytes(vec![3; 100]),
            range(30_000),
            range(40_000),
        ]
        .into();
        rustix::fs::ftruncate(&file, 40_000).unwrap();
        let (here, mut there) = UnixStream::pair().unwrap();
        pieces(&here, &mut waiting, &mut 0).unwrap();
        drop(here);
        let mut received = Vec::new();
        there.read_to_end(&mut received).unwrap();
        let parts = [
            vec![1; 100],
            vec![7; 20_000],
            vec![2; 100],
            vec![7; 10_000],
            vec![0; 10_000],
            vec![7; 20_000],
            vec![3; 100],
            vec![7; 10_000],
            vec![0; 30_000],
        ];
        assert!(received == parts.concat());
    }

    /// Segments with data that a connection has sent: `tcpi_data_segs_out` of tcp(7).
    fn segments(socket: &impl AsFd) -> u32 {
        const DATA_SEGMENTS_AT: usize = 156;
        let mut information = [0u8; 256];
        let mut length = information.len() as libc::socklen_t;
        // SAFETY: the kernel writes `length` bytes at the most, and that is what there is.
        let status = unsafe {
            libc::getsockopt(
                socket.as_fd().as_raw_fd(),
                libc::IPPROTO_TCP,
                libc::TCP_INFO,
                information.as_mut_ptr().cast(),
                &raw mut length,
            )
        };
        assert!(status == 0 && length as usize >= DATA_SEGMENTS_AT + 4);
        let count = &information[DATA_SEGMENTS_AT..DATA_SEGMENTS_AT + 4];
        u32::from_ne_bytes(count.try_into().unwrap())
    }

    #[test]
    fn replies_from_files_share_segments_and_the_last_one_leaves_at_once() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[7; 4096]).unwrap();
        let file = OpenFile::new(file.into());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut there = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (here, _) = listener.accept().unwrap();
        here.set_nodelay(true).unwrap();
        let replies = 12;
        let mut waiting = VecDeque::new();
        for _ in 0..replies {
            waiting.push_back(Piece::Bytes(vec![1; 100]));
            waiting.push_back(Piece::File(FileRange::new(file.clone(), 0, 4096)));
        }
        pieces(&here, &mut waiting, &mut 0).unwrap();
        let sent = segments(&here);
        assert!(sent < replies / 2, "{sent} segments");
        assert!(!sockopt::tcp_cork(&here).unwrap());
        let mut received = vec![0; replies as usize * 4196];
        there.read_exact(&mut received).unwrap();
        assert!(
            received
                .chunks(4196)
                .all(|reply| reply[..100] == [1; 100] && reply[100..] == [7; 4096])
        );
    }
}
