//! Calls over UDP: the lock managers of the BSDs make them, and notices of restarts come so.
//!
//! One thread receives and answers what need not wait; what may wait goes to a few others for each
//! export, and an export with many that wait leaves room for those of others. Calls of addresses
//! that no export allows are not answered at all, and neither are other programs: a sender with a
//! false address learns nothing and reaches no machine.
//!
//! A client takes an answer only from the address that it asked, and is called back from there. A
//! socket that listens at all addresses does not tell which one that is, so the kernel is asked for
//! it with each datagram (IP_PKTINFO, RFC 3542 section 6.1).

use std::io::{ErrorKind, IoSlice, IoSliceMut};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::Duration;

use libc::{in_addr, in_pktinfo, in6_addr, in6_pktinfo};
use nix::cmsg_space;
use nix::sys::socket::sockopt::{Ipv4PacketInfo, Ipv6RecvPacketInfo};
use nix::sys::socket::{ControlMessage, ControlMessageOwned, MsgFlags, SockaddrStorage};
use nix::sys::socket::{recvmsg, sendmsg, setsockopt};
use pagewell_base::sync::Mutex;

use crate::dispatch::Dispatcher;
use crate::pool::{Flow, Pool};
use crate::program::Program;
use crate::share::{Address, Shares};

/// The longest call: names and handles of the longest kind, with room to spare.
const CALL_BYTES_MAX: usize = 8192;
/// Threads for calls that wait, of each export.
const THREADS_MAX: usize = 4;
/// Calls that wait, of all exports; more are dropped, and asked again.
const WAITING_MAX: usize = 256;
/// How often the thread looks whether the server stops.
const TICK: Duration = Duration::from_millis(500);

struct Datagram {
    record: Vec<u8>,
    from: SocketAddr,
    /// The address of ours that it was sent to.
    local: Option<IpAddr>,
    /// The number of the export that it waits for.
    export: u32,
}

/// A socket for [`serve`].
pub fn bind(address: SocketAddr) -> std::io::Result<UdpSocket> {
    let socket = UdpSocket::bind(address)?;
    match address {
        SocketAddr::V4(_) => setsockopt(&socket, Ipv4PacketInfo, &true)?,
        SocketAddr::V6(_) => setsockopt(&socket, Ipv6RecvPacketInfo, &true)?,
    }
    Ok(socket)
}

/// Answers until the server stops.
pub fn serve<P: Program>(dispatcher: &Arc<Dispatcher<P>>, socket: UdpSocket) {
    let socket = Arc::new(socket);
    let waiting = Arc::new(Mutex::new(Shares::new(WAITING_MAX)));
    let (answers, begun, program) = (socket.clone(), waiting.clone(), dispatcher.program.clone());
    let pool = Pool::new(THREADS_MAX, move |datagram: Datagram| {
        begun.lock().subtract(datagram.export, 1);
        let _ = answer(&*program, &answers, &datagram, true);
    });
    let _ = socket.set_read_timeout(Some(TICK));
    let mut buffer = vec![0; CALL_BYTES_MAX];
    while !dispatcher.is_stopping() {
        let (length, from, local) = match receive(&socket, &mut buffer) {
            Ok(received) => received,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                continue;
            }
            // Mostly that an earlier answer could not be delivered.
            Err(_) => {
                std::thread::sleep(Duration::from_millis(1));
                continue;
            }
        };
        // What fills the buffer may have been longer.
        if length == buffer.len() || !dispatcher.program.allows(from.ip()) {
            continue;
        }
        let mut datagram = Datagram {
            record: buffer.get(..length).unwrap_or(&[]).to_vec(),
            from,
            local,
            export: 0,
        };
        let Err(export) = answer(&*dispatcher.program, &socket, &datagram, false) else {
            continue;
        };
        if !waiting.lock().take_one(export) {
            continue;
        }
        datagram.export = export;
        let flow = Flow {
            export,
            address: Address::of(from.ip()),
            token: u64::from(from.port()),
        };
        pool.queue(&flow, datagram);
    }
    pool.stop();
}

/// An error when the call would wait for an export.
fn answer(
    program: &impl Program,
    socket: &UdpSocket,
    datagram: &Datagram,
    may_block: bool,
) -> Result<(), u32> {
    let ends = (datagram.from, datagram.local);
    if let Some(reply) = program.answer_datagram(&datagram.record, ends, may_block)? {
        // An answer that gets lost is asked for again.
        let _ = send(socket, &reply, ends);
    }
    Ok(())
}

/// Receives a datagram: its length, where it is from, and the address of ours that it was sent to.
fn receive(
    socket: &UdpSocket,
    buffer: &mut [u8],
) -> std::io::Result<(usize, SocketAddr, Option<IpAddr>)> {
    let mut pieces = [IoSliceMut::new(buffer)];
    let mut space = cmsg_space!(in6_pktinfo);
    let (descriptor, flags) = (socket.as_raw_fd(), MsgFlags::empty());
    let message = recvmsg::<SockaddrStorage>(descriptor, &mut pieces, Some(&mut space), flags)?;
    let local = message.cmsgs()?.find_map(|told| match told {
        ControlMessageOwned::Ipv4PacketInfo(info) => {
            let octets = info.ipi_spec_dst.s_addr.to_ne_bytes();
            Some(IpAddr::from(octets))
        }
        ControlMessageOwned::Ipv6PacketInfo(info) => Some(IpAddr::from(info.ipi6_addr.s6_addr)),
        _ => None,
    });
    let four = |from: &SockaddrStorage| Some(SocketAddr::from(*from.as_sockaddr_in()?));
    let six = |from: &SockaddrStorage| Some(SocketAddr::from(*from.as_sockaddr_in6()?));
    let from = message.address.as_ref();
    let from = from.and_then(|from| four(from).or_else(|| six(from)));
    Ok((message.bytes, from.ok_or(ErrorKind::InvalidData)?, local))
}

/// Sends a datagram from the address `local` of ours.
fn send(
    socket: &UdpSocket,
    bytes: &[u8],
    (to, local): (SocketAddr, Option<IpAddr>),
) -> nix::Result<usize> {
    let (four, six);
    // The kernel chooses the interface by its routes.
    let from = match local {
        None => None,
        Some(IpAddr::V4(local)) => {
            four = in_pktinfo {
                ipi_ifindex: 0,
                ipi_spec_dst: in_addr {
                    s_addr: u32::from_ne_bytes(local.octets()),
                },
                ipi_addr: in_addr { s_addr: 0 },
            };
            Some(ControlMessage::Ipv4PacketInfo(&four))
        }
        Some(IpAddr::V6(local)) => {
            six = in6_pktinfo {
                ipi6_addr: in6_addr {
                    s6_addr: local.octets(),
                },
                ipi6_ifindex: 0,
            };
            Some(ControlMessage::Ipv6PacketInfo(&six))
        }
    };
    let (pieces, to) = ([IoSlice::new(bytes)], SockaddrStorage::from(to));
    let (descriptor, flags) = (socket.as_raw_fd(), MsgFlags::empty());
    sendmsg(descriptor, &pieces, from.as_slice(), flags, Some(&to))
}
