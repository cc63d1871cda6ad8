//! The least that any NFS client must do to read a file, as a bound for all of them: it sends READs
//! and throws the replies away in the kernel, without copying them or looking at them.
//!
//! `cargo run --release -p pagewell-sunrpc --example bare_reader -- HOST NFS_PORT MOUNT_PORT EXPORT
//! NAME CALLS CONNECTIONS`
//!
//! CALLS of 1 MiB are on their way at a time on each of the CONNECTIONS, which read a part of the
//! file each, in a thread of its own. The first reply is looked at, to know how long the others
//! are; a server that answers in another way makes the sum of the bytes wrong, and this ends with
//! an error or waits for bytes that do not come.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::ops::Range;

use pagewell_sunrpc::client::{Client, EncodedCredential, MountOptions, Options, Outgoing, mount};
use pagewell_sunrpc::nfs3::{self, DirectoryOperation, Handle, LookupReply};
use pagewell_sunrpc::nfs3::{Procedure, ReadArguments};
use pagewell_sunrpc::record::{LAST_FRAGMENT, MARKER_BYTES, Marker};
use pagewell_sunrpc::rpc::{Call, Credential, SystemCredential, encode_call};
use pagewell_sunrpc::xdr::{Decode, Encode, Encoder, Words};
use rustix::net::{RecvFlags, recv};

type Failure = Box<dyn std::error::Error + Send + Sync>;

const USAGE: &str = "usage: bare_reader HOST NFS_PORT MOUNT_PORT EXPORT NAME CALLS CONNECTIONS";
/// Bytes of one READ.
const READ_BYTES: u32 = 1 << 20;
/// Bytes that are thrown away in one system call.
const DISCARD_BYTES: usize = 4 << 20;

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [host, nfs_port, mount_port, export, name, calls, connections] = &arguments[..] else {
        return Err(USAGE.into());
    };
    let mut options = MountOptions::new(host.as_str(), export.as_bytes());
    options.nfs_port = Some(nfs_port.parse()?);
    options.mount_port = Some(mount_port.parse()?);
    let mounted = mount(&options)?;
    let (file, size) = look_up(host, mounted.addresses.clone(), &mounted.handle, name)?;
    let address = mounted.addresses.first().ok_or("no address")?;
    let (calls, connections): (u64, u64) = (calls.parse()?, connections.parse()?);
    let reads = size / u64::from(READ_BYTES);
    let bytes = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..connections)
            .map(|number| {
                let part = reads * number / connections..reads * (number + 1) / connections;
                let file = &file;
                scope.spawn(move || read_part(address, file, part, calls))
            })
            .collect();
        let parts = threads.into_iter().map(|thread| thread.join());
        parts
            .map(|part| part.map_err(|_| "a thread panicked")?)
            .sum::<Result<u64, Failure>>()
    });
    println!("{} bytes of replies thrown away", bytes?);
    Ok(())
}

/// The handle and the size of a file in the root.
fn look_up(
    host: &str,
    addresses: Vec<SocketAddr>,
    root: &[u8],
    name: &str,
) -> Result<(Vec<u8>, u64), Failure> {
    let client = Client::connect(nfs3::PROGRAM, nfs3::VERSION, Options::new(host, addresses))?;
    let what = DirectoryOperation {
        directory: Handle::new(root).ok_or("a handle that is too long")?,
        name: name.as_bytes(),
    };
    let who = EncodedCredential::of_process();
    let call = Outgoing::new(Procedure::Lookup.number(), &who, &what);
    let found = client.call(call, |decoder| {
        Ok(match LookupReply::decode(decoder)? {
            LookupReply::Ok(found) => {
                let size = found.object_attributes.map(|attributes| attributes.size);
                Some((found.object.as_bytes().to_vec(), size))
            }
            LookupReply::Err(_) => None,
        })
    })?;
    let (file, size) = found.value.ok_or("there is no such file")?;
    Ok((file, size.ok_or("the server does not tell the size")?))
}

/// Reads a part of the file, in READs; bytes of all replies.
fn read_part(
    address: &SocketAddr,
    file: &[u8],
    part: Range<u64>,
    calls_max: u64,
) -> Result<u64, Failure> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    let reads = part.end - part.start;
    if reads < 2 {
        return Err("the file is too small".into());
    }
    send(&mut stream, file, part.start)?;
    let mut marker = [0; MARKER_BYTES];
    stream.read_exact(&mut marker)?;
    let Marker { length, last } = Marker::parse(marker);
    if !last || length < READ_BYTES as usize {
        return Err(format!("the first reply begins with {length} bytes, last: {last}").into());
    }
    let record_bytes = (length + MARKER_BYTES) as u64;
    let mut sent = 1;
    let mut nowhere = vec![0; DISCARD_BYTES];
    let (mut received, expected) = (MARKER_BYTES as u64, record_bytes * reads);
    while received < expected {
        while sent < reads.min(received / record_bytes + calls_max) {
            send(&mut stream, file, part.start + sent)?;
            sent += 1;
        }
        received += discard(&stream, &mut nowhere, expected - received)?;
    }
    Ok(received)
}

fn send(stream: &mut TcpStream, file: &[u8], number: u64) -> Result<(), Failure> {
    let mut message = vec![0; MARKER_BYTES];
    let mut encoder = Encoder::new(&mut message);
    let call = Call {
        xid: u32::try_from(number)?,
        program: nfs3::PROGRAM,
        version: nfs3::VERSION,
        procedure: Procedure::Read.number(),
        credential: Credential::System(SystemCredential {
            stamp: 0,
            machine_name: b"",
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
            gids: Words::default(),
        }),
    };
    encode_call(&mut encoder, &call);
    let arguments = ReadArguments {
        file: Handle::new(file).ok_or("a handle that is too long")?,
        offset: number * u64::from(READ_BYTES),
        count: READ_BYTES,
    };
    arguments.encode(&mut encoder);
    let length = u32::try_from(message.len() - MARKER_BYTES)?;
    message[..MARKER_BYTES].copy_from_slice(&(length | LAST_FRAGMENT).to_be_bytes());
    Ok(stream.write_all(&message)?)
}

/// Takes some bytes out of the socket; TCP copies none of them (tcp(7), `MSG_TRUNC`).
fn discard(stream: &TcpStream, nowhere: &mut [u8], most: u64) -> Result<u64, Failure> {
    let most = nowhere.len().min(usize::try_from(most)?);
    let (_, count) = recv(stream, &mut nowhere[..most], RecvFlags::TRUNC)?;
    if count == 0 {
        return Err("the server closed the connection".into());
    }
    Ok(count as u64)
}
