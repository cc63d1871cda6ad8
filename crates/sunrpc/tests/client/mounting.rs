//! MOUNT servers that say no in different ways.

use pagewell_sunrpc::client::{MountError, MountOptions, mount};
use pagewell_sunrpc::mount3::{self, ExportEntry, MountOk, MountReply, Procedure, Status};
use pagewell_sunrpc::nfs3::Handle;
use pagewell_sunrpc::record::LAST_FRAGMENT;
use pagewell_sunrpc::rpc::{Refusal, encode_refusal, encode_success, parse_call};
use pagewell_sunrpc::xdr::{Encode, Encoder, List, Words, encode_item, encode_list_end};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// A server of MOUNT alone: how it answers MNT, and what it says it exports. The other end of the
/// channel hears which procedures were called.
fn serve(reply: MountReply<'static>, exports: &'static [&'static str]) -> (u16, Receiver<u32>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (sender, called) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut marker = [0; 4];
            while stream.read_exact(&mut marker).is_ok() {
                let length = u32::from_be_bytes(marker) & !LAST_FRAGMENT;
                let mut record = vec![0; length as usize];
                stream.read_exact(&mut record).unwrap();
                let (call, _) = parse_call(&record).unwrap();
                let mut answer = vec![0; 4];
                let mut encoder = Encoder::new(&mut answer);
                if call.program == mount3::PROGRAM {
                    encode_success(&mut encoder, call.xid);
                    match Procedure::from_number(call.procedure) {
                        Some(Procedure::Mnt) => reply.encode(&mut encoder),
                        Some(Procedure::Export) => encode_exports(&mut encoder, exports),
                        _ => {}
                    }
                    let _ = sender.send(call.procedure);
                } else {
                    encode_refusal(&mut encoder, call.xid, Refusal::ProgramUnavailable);
                }
                let marker = (answer.len() - 4) as u32 | LAST_FRAGMENT;
                answer[..4].copy_from_slice(&marker.to_be_bytes());
                stream.write_all(&answer).unwrap();
            }
        }
    });
    (port, called)
}

fn encode_exports(encoder: &mut Encoder<'_>, exports: &[&str]) {
    for path in exports {
        let entry = ExportEntry {
            path: path.as_bytes(),
            groups: List::empty(),
        };
        encode_item(encoder, &entry);
    }
    encode_list_end(encoder);
}

fn options(port: u16) -> MountOptions {
    let mut options = MountOptions::new("localhost", "/data/x");
    options.nfs_port = Some(7);
    options.mount_port = Some(port);
    options.timeout = Duration::from_secs(60);
    options
}

fn granted(flavors: &[u32]) -> MountReply<'static> {
    Ok(MountOk {
        handle: Handle::new(&[1, 2, 3]).unwrap(),
        flavors: Words::new(flavors).unwrap(),
    })
}

#[test]
fn a_mount_has_the_handle_and_the_addresses_of_nfs() {
    let (port, called) = serve(granted(&[390_003, 1]), &[]);
    let mounted = mount(&options(port)).unwrap();
    assert_eq!(mounted.handle, [1, 2, 3]);
    assert!(mounted.addresses.iter().all(|address| address.port() == 7));
    assert_eq!(called.recv(), Ok(Procedure::Mnt.number()));
    mounted.unmount();
    assert_eq!(called.recv(), Ok(Procedure::Umnt.number()));
}

/// More exports than a message can hold.
const MANY: [&str; 22] = ["/a"; 22];
const MANY_WITH_IT: [&str; 22] = {
    let mut exports = MANY;
    exports[21] = "/data/x";
    exports
};

#[test]
fn errors_are_told_in_words() {
    for (reply, exports, expected) in [
        (
            Err(Status::AccessDenied),
            &["/data"][..],
            "localhost denies access to /data/x; the export is /data",
        ),
        (
            Err(Status::AccessDenied),
            &["/dat", "/other"],
            "localhost has no export /data/x; it has /dat, /other",
        ),
        (
            Err(Status::NotFound),
            &[],
            "localhost has no export /data/x",
        ),
        (
            Err(Status::AccessDenied),
            &["/data/x", "/data"],
            "localhost denies access to /data/x",
        ),
        (
            Err(Status::AccessDenied),
            &MANY_WITH_IT,
            "localhost denies access to /data/x",
        ),
        (
            Err(Status::NotFound),
            &MANY,
            "localhost has no export /data/x; it has /a, /a, /a, /a, /a, /a, /a, /a, /a, /a, /a, \
             /a, /a, /a, /a, /a, /a, /a, /a, /a and 2 more",
        ),
        (
            Err(Status::NotDirectory),
            &["/other", "/data"],
            "/data/x is not a directory; the export is /data",
        ),
        (
            Err(Status::ServerFault),
            &[],
            "localhost does not mount /data/x: an error of the server",
        ),
        (
            granted(&[6, 390_003]),
            &[],
            "localhost asks for an authentication for /data/x that is not known here \
             ([6, 390003])",
        ),
    ] {
        let (port, _called) = serve(reply, exports);
        let error = mount(&options(port)).unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
}

#[test]
fn a_server_that_cannot_be_found_or_reached_is_told() {
    let mut unknown = options(1);
    unknown.host = "no-such-host.invalid".to_owned();
    let error = mount(&unknown).unwrap_err();
    assert!(matches!(error, MountError::Resolve { .. }), "{error}");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let mut nobody = options(port);
    nobody.host = "127.0.0.1".to_owned();
    let error = mount(&nobody).unwrap_err();
    assert!(matches!(error, MountError::Connect(_)), "{error}");
}

#[test]
fn a_port_that_is_named_is_that_of_mount_too() {
    let (port, called) = serve(granted(&[1]), &[]);
    let mut named = options(port);
    (named.nfs_port, named.mount_port) = (Some(port), None);
    let mounted = mount(&named).unwrap();
    let addresses = &mounted.addresses;
    assert!(addresses.iter().all(|address| address.port() == port));
    assert_eq!(called.recv(), Ok(Procedure::Mnt.number()));
}

#[test]
fn nobody_else_is_asked_when_a_named_port_does_not_speak_mount() {
    let port = refuses_programs();
    let mut named = options(port);
    (named.nfs_port, named.mount_port) = (Some(port), None);
    let error = mount(&named).unwrap_err();
    // Not what a port mapper says, nor that there is none.
    let text = error.to_string();
    assert!(matches!(error, MountError::NotServed { .. }), "{text}");
    assert!(
        text.contains(&format!("port {port} does not speak it")),
        "{text}"
    );
    assert!(text.contains("mountport=N"), "{text}");
    // Where nobody listens, nobody else is either.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    (named.nfs_port, named.host) = (Some(port), "127.0.0.1".to_owned());
    let error = mount(&named).unwrap_err();
    assert!(matches!(error, MountError::Connect(_)), "{error}");
}

/// A port of a server that knows no MOUNT.
fn refuses_programs() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut head = [0; 8];
        stream.read_exact(&mut head).unwrap();
        let xid = u32::from_be_bytes(head[4..].try_into().unwrap());
        let mut answer = 0x8000_0018u32.to_be_bytes().to_vec();
        let mut encoder = Encoder::new(&mut answer);
        encode_refusal(&mut encoder, xid, Refusal::ProgramUnavailable);
        stream.write_all(&answer).unwrap();
        let _ = stream.read_to_end(&mut Vec::new());
    });
    port
}

#[test]
fn a_port_that_does_not_speak_mount_is_told() {
    let port = refuses_programs();
    let error = mount(&options(port)).unwrap_err();
    assert!(matches!(error, MountError::NotServed { .. }), "{error}");
}
