//! Calls over UDP: lock calls of BSD clients, and notices of restarts.
//!
//! One thread receives, and answers what does not block; a few threads for each export do the rest.
//! A share bounds each export's waiting calls. Addresses without an export get no reply: a spoofed
//! sender reflects nothing.
//!
//! Clients accept replies and call-backs only from the address they called, which the kernel
//! reports with each datagram (IP_PKTINFO, RFC 3542 section 6.1).

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

/// Longest names and handles, with a margin.
const CALL_BYTES_MAX: usize = 8192;
/// Of each export, for blocking calls.
const THREADS_MAX: usize = 4;
/// Of all exports; more are dropped, and clients repeat them.
const WAITING_MAX: usize = 256;
const TICK: Duration = Duration::from_millis(500);

struct Datagram {
    record: Vec<u8>,
    from: SocketAddr,
    /// The target, our address.
    local: Option<IpAddr>,
    export: u32,
}

/// For [`serve`].
pub fn bind(address: SocketAddr) -> std::io::Result<UdpSocket> {
    let socket = UdpSocket::bind(address)?;
    match address {
        SocketAddr::V4(_) => setsockopt(&socket, Ipv4PacketInfo, &true)?,
        SocketAddr::V6(_) => setsockopt(&socket, Ipv6RecvPacketInfo, &true)?,
    }
    Ok(socket)
}

/// Until the server stops.
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
            // Mostly an ICMP error for an earlier reply.
            Err(_) => {
                std::thread::sleep(Duration::from_millis(1));
                continue;
            }
        };
        // A full buffer may hold a cut datagram.
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

/// `Err`: the number of the export that the call would wait for.
fn answer(
    program: &impl Program,
    socket: &UdpSocket,
    datagram: &Datagram,
    may_block: bool,
) -> Result<(), u32> {
    let ends = (datagram.from, datagram.local);
    if let Some(reply) = program.answer_datagram(&datagram.record, ends, may_block)? {
        // The client repeats a call whose reply gets lost.
        let _ = send(socket, &reply, ends);
    }
    Ok(())
}

/// Length, sender, and target.
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

fn send(
    socket: &UdpSocket,
    bytes: &[u8],
    (to, local): (SocketAddr, Option<IpAddr>),
) -> nix::Result<usize> {
    let (four, six);
    // The routes decide the interface.
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
