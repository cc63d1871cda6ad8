//! The client of the port mapper against a small port mapper, and against ill-behaved ones.

#![allow(clippy::unwrap_used)] // helpers of tests are tests

use pagewell_sunrpc::caller::Error;
use pagewell_sunrpc::portmap::{Client, Mapping, PROGRAM, PROTOCOL_TCP, Procedure, VERSION};
use pagewell_sunrpc::rpc::{Refusal, encode_refusal, encode_success, parse_call};
use pagewell_sunrpc::xdr::{Decode, Encoder};
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Long enough for a busy machine; no test waits for it.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Answers calls as a port mapper does until the caller hangs up.
fn serve(stream: &mut (impl Read + Write)) {
    let mut mappings: Vec<Mapping> = Vec::new();
    let mut mark = [0; 4];
    while stream.read_exact(&mut mark).is_ok() {
        let length = u32::from_be_bytes(mark) & 0x7fff_ffff;
        let mut record = vec![0; length as usize];
        stream.read_exact(&mut record).unwrap();
        let reply = answer(&record, &mut mappings);
        stream.write_all(&in_fragments(&reply)).unwrap();
    }
}

fn answer(record: &[u8], mappings: &mut Vec<Mapping>) -> Vec<u8> {
    let (call, mut arguments) = parse_call(record).unwrap();
    assert_eq!((call.program, call.version), (PROGRAM, VERSION));
    let wanted = Mapping::decode(&mut arguments).unwrap();
    arguments.finish().unwrap();
    let same =
        |mapping: &Mapping| (mapping.program, mapping.version) == (wanted.program, wanted.version);
    let mut reply = Vec::new();
    let mut encoder = Encoder::new(&mut reply);
    encode_success(&mut encoder, call.xid);
    match Procedure::from_number(call.procedure).unwrap() {
        Procedure::Set => {
            let free = !mappings.iter().any(same);
            if free {
                mappings.push(wanted);
            }
            encoder.bool(free);
        }
        Procedure::Unset => {
            let before = mappings.len();
            mappings.retain(|mapping| !same(mapping));
            encoder.bool(mappings.len() < before);
        }
        Procedure::Getport => {
            assert_eq!(wanted.protocol, PROTOCOL_TCP);
            encoder.u32(mappings.iter().find(|m| same(m)).map_or(0, |m| m.port));
        }
        other => panic!("{other:?} was not to be called"),
    }
    reply
}

/// The record as a fragment of five bytes, an empty one, and the rest.
fn in_fragments(record: &[u8]) -> Vec<u8> {
    let (first, rest) = record.split_at(5);
    let mut bytes = vec![0, 0, 0, 5];
    bytes.extend_from_slice(first);
    bytes.extend_from_slice(&[0; 4]);
    bytes.extend_from_slice(&(0x8000_0000 | rest.len() as u32).to_be_bytes());
    bytes.extend_from_slice(rest);
    bytes
}

/// Runs `peer` on the first connection to a port of its own.
fn tcp_peer(
    peer: impl FnOnce(&mut std::net::TcpStream) + Send + 'static,
) -> (SocketAddr, JoinHandle<()>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let thread = thread::spawn(move || peer(&mut listener.accept().unwrap().0));
    (address, thread)
}

/// What comes of a call to a peer that reads the call and answers with `bytes`, which may
/// depend on the xid.
fn after_answer(bytes: impl FnOnce(u32) -> Vec<u8> + Send + 'static) -> Error {
    let (address, thread) = tcp_peer(move |stream| {
        let mut call = [0; 60];
        stream.read_exact(&mut call).unwrap();
        let xid = u32::from_be_bytes([call[4], call[5], call[6], call[7]]);
        stream.write_all(&bytes(xid)).unwrap();
    });
    let mut client = Client::connect(&address, None, TIMEOUT).unwrap();
    let error = client.port_of(100_003, 3).unwrap_err();
    thread.join().unwrap();
    error
}

fn register_ask_and_remove(client: &mut Client) {
    assert_eq!(client.port_of(100_003, 3).unwrap(), None);
    assert!(client.register(100_003, 3, PROTOCOL_TCP, 20490).unwrap());
    assert_eq!(client.port_of(100_003, 3).unwrap(), Some(20490));
    assert_eq!(client.port_of(100_005, 3).unwrap(), None);
    assert!(!client.register(100_003, 3, PROTOCOL_TCP, 20491).unwrap());
    assert!(client.unregister(100_003, 3).unwrap());
    assert!(!client.unregister(100_003, 3).unwrap());
    assert_eq!(client.port_of(100_003, 3).unwrap(), None);
}

#[test]
fn programs_are_registered_over_tcp() {
    let (address, thread) = tcp_peer(serve);
    let mut client = Client::connect(&address, None, TIMEOUT).unwrap();
    register_ask_and_remove(&mut client);
    drop(client);
    thread.join().unwrap();
}

#[test]
fn programs_are_registered_over_a_local_socket() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("rpcbind.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let thread = thread::spawn(move || serve(&mut listener.accept().unwrap().0));
    let mut client = Client::connect_local(&path, TIMEOUT).unwrap();
    register_ask_and_remove(&mut client);
    drop(client);
    thread.join().unwrap();
}

#[test]
fn nobody_listening_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("nobody");
    let error = Client::connect_local(&path, TIMEOUT).unwrap_err();
    assert!(matches!(error, Error::Io(e) if e.kind() == ErrorKind::NotFound));
}

#[test]
fn a_peer_that_says_nothing_is_given_up() {
    let (hold, held) = std::sync::mpsc::channel::<()>();
    let (address, thread) = tcp_peer(move |_| {
        let _ = held.recv();
    });
    let mut client = Client::connect(&address, None, Duration::from_millis(20)).unwrap();
    let error = client.port_of(100_003, 3).unwrap_err();
    assert!(matches!(error, Error::Io(e) if e.kind() == ErrorKind::TimedOut));
    drop(hold);
    thread.join().unwrap();
}

#[test]
fn empty_fragments_without_end_are_given_up() {
    let (address, thread) = tcp_peer(|stream| while stream.write_all(&[0; 4096]).is_ok() {});
    let mut client = Client::connect(&address, None, Duration::from_millis(20)).unwrap();
    let error = client.port_of(100_003, 3).unwrap_err();
    assert!(matches!(error, Error::Io(e) if e.kind() == ErrorKind::TimedOut));
    drop(client);
    thread.join().unwrap();
}

#[test]
fn a_peer_that_hangs_up_is_an_error() {
    let error = after_answer(|_| vec![0x80, 0, 0]);
    assert!(matches!(error, Error::Io(e) if e.kind() == ErrorKind::UnexpectedEof));
}

#[test]
fn a_record_of_two_gibibytes_is_refused_before_it_is_read() {
    let error = after_answer(|_| vec![0xff; 4]);
    assert!(matches!(error, Error::TooLong(_)));
}

#[test]
fn the_answer_to_another_call_is_refused() {
    let error = after_answer(|xid| {
        let mut reply = Vec::new();
        encode_success(&mut Encoder::new(&mut reply), xid.wrapping_add(1));
        in_fragments(&reply)
    });
    assert!(matches!(error, Error::WrongCall(_)));
}

#[test]
fn a_refusal_and_an_empty_result_are_told_apart() {
    let error = after_answer(|xid| {
        let mut reply = Vec::new();
        encode_refusal(
            &mut Encoder::new(&mut reply),
            xid,
            Refusal::ProgramUnavailable,
        );
        in_fragments(&reply)
    });
    let text = "the port mapper: the server refused the call: ProgramUnavailable";
    assert_eq!(error.to_string(), text);
    let error = after_answer(|xid| {
        let mut reply = Vec::new();
        encode_success(&mut Encoder::new(&mut reply), xid);
        in_fragments(&reply)
    });
    assert!(matches!(error, Error::Malformed { .. }));
}

#[test]
fn a_port_over_65535_is_refused() {
    let error = after_answer(|xid| {
        let mut reply = Vec::new();
        let mut encoder = Encoder::new(&mut reply);
        encode_success(&mut encoder, xid);
        encoder.u32(65_536);
        in_fragments(&reply)
    });
    assert!(matches!(error, Error::Malformed { .. }));
}
