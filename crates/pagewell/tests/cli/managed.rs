//! `serve` under a service manager: sockets that it gives, notices that it gets.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use pagewell_sunrpc::nfs3::Procedure;
use pagewell_wire::client::{Client, User};
use rustix::io::{FdFlags, fcntl_setfd};
use tempfile::TempDir;

use super::support::{Run, ended};

/// Gives the program the descriptors that are named first, as a manager does: from 3 on.
const MANAGER: &str = "
import fcntl, os, sys
count = int(sys.argv[1])
high = [fcntl.fcntl(int(one), fcntl.F_DUPFD, 100) for one in sys.argv[2:2 + count]]
for index, one in enumerate(high):
    os.dup2(one, 3 + index)
os.environ['LISTEN_FDS'] = str(count)
os.environ['LISTEN_PID'] = str(os.getpid())
os.execv(sys.argv[2 + count], sys.argv[2 + count:])
";

/// The program with these descriptors.
fn managed(given: &[BorrowedFd<'_>], state: &TempDir) -> Command {
    let mut command = Command::new("python3");
    command.args(["-c", MANAGER, &given.len().to_string()]);
    for one in given {
        fcntl_setfd(one, FdFlags::empty()).expect("a descriptor");
        command.arg(one.as_raw_fd().to_string());
    }
    command.arg(env!("CARGO_BIN_EXE_pagewell"));
    command.args(["serve", "--listen", "127.0.0.1:1", "--state-dir"]);
    command.arg(state.path()).arg("ram:1m");
    command.env("LC_ALL", "C").stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn stop(mut child: Child) {
    let id = child.id().to_string();
    super::support::tool(Path::new("/"), &["kill", &id]);
    assert_eq!(ended(&mut child).code(), Some(0));
}

fn connect(address: SocketAddr) -> Client {
    Client::connect(address, User::root())
}

#[test]
fn sockets_of_a_manager_are_used_and_a_restart_is_a_pause() {
    let state = tempfile::tempdir().unwrap();
    let four = TcpListener::bind("127.0.0.1:0").unwrap();
    // Not every machine has IPv6.
    let six = TcpListener::bind("[::1]:0").ok();
    let all: Vec<_> = [&four].into_iter().chain(&six).collect();
    let given: Vec<_> = all.iter().map(|one| one.as_fd()).collect();
    let first = managed(&given, &state).spawn().unwrap();
    let mut client = connect(four.local_addr().unwrap());
    client.check_usable();
    for listener in &all {
        connect(listener.local_addr().unwrap()).check_usable();
    }
    stop(first);
    assert!(
        client.try_next_answer().is_none(),
        "its connection has ended"
    );
    // Between the two the manager has the socket: clients connect, and wait.
    let mut client = connect(four.local_addr().unwrap());
    let xid = client.start(Procedure::Null, &());
    let second = managed(&given, &state).spawn().unwrap();
    client.finish(xid).decode::<()>();
    stop(second);
}

#[test]
fn sockets_of_another_kind_are_refused_by_name() {
    let state = tempfile::tempdir().unwrap();
    let good = TcpListener::bind("127.0.0.1:0").unwrap();
    let local = UnixListener::bind(state.path().join("socket")).unwrap();
    let datagrams = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let connection = std::net::TcpStream::connect(good.local_addr().unwrap()).unwrap();
    let file = std::fs::File::open("/dev/null").unwrap();
    let wrong: [(BorrowedFd<'_>, &str); 4] = [
        (local.as_fd(), "not a valid tcp socket"),
        (datagrams.as_fd(), "not a valid tcp socket"),
        (connection.as_fd(), "does not listen"),
        (file.as_fd(), "not a socket"),
    ];
    for (one, reason) in wrong {
        let run = managed(&[good.as_fd(), one], &state).output().unwrap();
        let message = Run::from(run).failed(1);
        assert!(
            message.contains("socket 2 of the service manager"),
            "{message}"
        );
        assert!(message.contains(reason), "{message}");
        assert!(message.contains("ListenStream="), "{message}");
    }
}

#[test]
fn a_manager_hears_of_readiness_life_and_the_end() {
    let state = tempfile::tempdir().unwrap();
    let path = state.path().join("notify");
    let manager = UnixDatagram::bind(&path).unwrap();
    manager
        .set_read_timeout(Some(Duration::from_secs(600)))
        .unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut command = managed(&[listener.as_fd()], &state);
    command
        .env("NOTIFY_SOCKET", &path)
        .env("WATCHDOG_USEC", "400000");
    let child = command.spawn().unwrap();
    let next = || {
        let mut text = [0; 500];
        loop {
            match manager.recv(&mut text) {
                Ok(length) => break String::from_utf8(text[..length].to_vec()).unwrap(),
                // A signal of another test's child; no call with a time limit is begun again.
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => panic!("no notice: {error}"),
            }
        }
    };
    let address = listener.local_addr().unwrap();
    let ready = format!("READY=1\nSTATUS=serving 1 export at {address}\n");
    let mut notices = vec![next()];
    while notices.iter().filter(|one| *one == "WATCHDOG=1\n").count() < 3 {
        notices.push(next());
    }
    assert!(notices.contains(&ready), "{notices:?}");
    stop(child);
    while !next().starts_with("STOPPING=1\n") {}
}

#[test]
fn a_manager_that_cannot_be_spoken_to_is_named() {
    let state = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut command = managed(&[listener.as_fd()], &state);
    command.env("NOTIFY_SOCKET", "/no/such/socket");
    let child = command.spawn().unwrap();
    connect(listener.local_addr().unwrap()).check_usable();
    let id = child.id().to_string();
    super::support::tool(Path::new("/"), &["kill", &id]);
    let run = Run::from(child.wait_with_output().unwrap());
    assert_eq!(run.code, Some(0));
    assert!(
        run.err.contains("NOTIFY_SOCKET=/no/such/socket"),
        "{}",
        run.err
    );
}
