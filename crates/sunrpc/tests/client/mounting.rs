//! MOUNT servers that say no in different ways.

use pagewell_sunrpc::client::{MountError, MountOptions, SourcePort, mount};
use pagewell_sunrpc::mount3::{self, ExportEntry, MountOk, MountReply, Procedure, Status};
use pagewell_sunrpc::nfs3::Handle;
use pagewell_sunrpc::record::LAST_FRAGMENT;
use pagewell_sunrpc::rpc::{
    AuthenticationStatus, Refusal, encode_refusal, encode_success, parse_call,
};
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
    options.source_port = SourcePort::Any;
    options
}

/// What is said of servers that may refuse the port of a caller.
const ADVICE: &str = " (servers often serve only ports below 1024, and this call came from \
     another: let those in at the server, by \"insecure\" in /etc/exports or \"allow connections \
     from non-privileged ports\" in the settings of a NAS, or run this as root and without \
     noresvport)";

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
        let error = mount(&options(port)).unwrap_err().to_string();
        let is_denied = expected.contains("denies access");
        let advice = if is_denied { ADVICE } else { "" };
        assert_eq!(error, format!("{expected}{advice}"));
    }
}

#[test]
fn a_caller_from_a_reserved_port_is_not_advised_to_be_one() {
    let (port, _called) = serve(Err(Status::AccessDenied), &[]);
    let mut reserved = options(port);
    reserved.source_port = SourcePort::Reserved;
    match mount(&reserved).unwrap_err() {
        MountError::Connect(_) => pagewell_skip::skip("no port below 1024 can be used"),
        error => assert_eq!(error.to_string(), "localhost denies access to /data/x"),
    }
}

#[test]
fn a_server_that_refuses_the_credential_denies_access() {
    for status in [
        AuthenticationStatus::TooWeak,
        AuthenticationStatus::BadCredential,
    ] {
        let port = refuses(Refusal::Authentication(status), Refusal::ProgramUnavailable);
        let error = mount(&options(port)).unwrap_err().to_string();
        assert_eq!(error, format!("localhost denies access to /data/x{ADVICE}"));
    }
}

#[test]
fn a_server_of_version_4_alone_is_told() {
    let newer = Refusal::ProgramMismatch { low: 4, high: 4 };
    let port = refuses(Refusal::ProgramUnavailable, newer);
    for mount_port in [None, Some(port)] {
        let mut named = options(port);
        (named.nfs_port, named.mount_port) = (Some(port), mount_port);
        let error = mount(&named).unwrap_err();
        assert!(matches!(error, MountError::Version4Only { .. }), "{error}");
        assert!(
            error
                .to_string()
                .contains("localhost speaks NFS version 4 only")
        );
    }
}

#[test]
fn a_server_that_cannot_be_found_or_reached_is_told() {
    let mut unknown = options(1);
    unknown.host = "no-such-host.invalid".to_owned();
    let error = mount(&unknown).unwrap_err();
    assert!(matches!(error, MountError::Resolve { .. }), "{error}");
    // An address of its own, so that no other test is given the port.
    let listener = TcpListener::bind("127.9.8.11:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let mut nobody = options(port);
    nobody.host = "127.9.8.11".to_owned();
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
    // Where nobody listens, nobody else is either. No other test is given a port of this address.
    let listener = TcpListener::bind("127.9.8.12:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    (named.nfs_port, named.host) = (Some(port), "127.9.8.12".to_owned());
    let error = mount(&named).unwrap_err();
    assert!(matches!(error, MountError::Connect(_)), "{error}");
}

/// A port of a server that knows no MOUNT, and no NFS either.
fn refuses_programs() -> u16 {
    refuses(Refusal::ProgramUnavailable, Refusal::ProgramUnavailable)
}

/// A port of a server that refuses every call: those of MOUNT, and those of NFS.
fn refuses(mount_call: Refusal, nfs_call: Refusal) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut marker = [0; 4];
            while stream.read_exact(&mut marker).is_ok() {
                let length = u32::from_be_bytes(marker) & !LAST_FRAGMENT;
                let mut record = vec![0; length as usize];
                stream.read_exact(&mut record).unwrap();
                let (call, _) = parse_call(&record).unwrap();
                let is_mount = call.program == mount3::PROGRAM;
                let refusal = if is_mount { mount_call } else { nfs_call };
                let mut answer = vec![0; 4];
                encode_refusal(&mut Encoder::new(&mut answer), call.xid, refusal);
                let marker = (answer.len() - 4) as u32 | LAST_FRAGMENT;
                answer[..4].copy_from_slice(&marker.to_be_bytes());
                stream.write_all(&answer).unwrap();
            }
        }
    });
    port
}

#[test]
fn a_port_that_does_not_speak_mount_is_told() {
    let port = refuses_programs();
    let error = mount(&options(port)).unwrap_err();
    assert!(matches!(error, MountError::NotServed { .. }), "{error}");
}
