//! Connections beside the first, to servers that do not take them, or take them and are of no use.

use crate::script::{Peer, connect, options, outcome, pattern, submit};
use std::net::TcpListener;
use std::time::Duration;

/// So much is too much to let another call wait behind it.
const LARGE_BYTES: usize = 300 << 10;

/// Nobody waits for a connection in the making as long as another stands. The second is never
/// made here: the queue of the server is full, and the system lets what comes on top wait.
#[test]
fn no_call_waits_for_a_further_connection() {
    let listener = full_listener();
    let (mut options, _) = options(listener.local_addr().unwrap());
    options.connections = 4;
    let client = connect(options);
    let (stream, _) = listener.accept().unwrap();
    let mut crowd = Vec::new();
    while let Some(stream) = crowd_in(&listener) {
        crowd.push(stream);
    }
    let server = std::thread::spawn(move || Peer { stream }.echo());
    let large = pattern(LARGE_BYTES);
    for _ in 0..3 {
        let coming: Vec<_> = (0..8).map(|_| submit(&client, &&large[..])).collect();
        for coming in &coming {
            let came = coming.recv_timeout(Duration::from_secs(8)).expect("soon");
            assert_eq!(came.unwrap().results[4..], large);
        }
    }
    assert_eq!(client.statistics().connections, 1);
    drop(client);
    server.join().unwrap();
}

/// Whose queue takes one connection.
fn full_listener() -> TcpListener {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    rustix::net::listen(&listener, 0).unwrap();
    listener
}

/// A connection in the queue; none when it is full.
fn crowd_in(listener: &TcpListener) -> Option<std::net::TcpStream> {
    let address = listener.local_addr().unwrap();
    std::net::TcpStream::connect_timeout(&address, Duration::from_millis(300)).ok()
}
