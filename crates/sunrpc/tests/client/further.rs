//! Connections beside the first, to servers that do not take them, or take them and are of no use.

use crate::script::{
    FAR, Peer, connect, data_record, echo, listener_of_its_own, options, outcome, pattern,
    requests, serve, submit, submit_with_sink, wait_until,
};
use pagewell_sunrpc::client::{Client, Options};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Barrier};
use std::time::Duration;

/// So much is too much to let another call wait behind it.
const LARGE_BYTES: usize = 300 << 10;

/// A server whose connections are all served at once, by `script`; it is given the number of the
/// connection.
fn serve_all(script: impl Fn(usize, Peer) + Send + Sync + 'static) -> SocketAddr {
    let script = Arc::new(script);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for (index, stream) in listener.incoming().enumerate() {
            let (stream, script) = (stream.unwrap(), script.clone());
            std::thread::spawn(move || script(index, Peer { stream }));
        }
    });
    address
}

/// A client whose connections have all been made: they are at the first large call, which does not
/// wait for them.
fn connect_all(options: Options) -> Client {
    let connections = options.connections as u64;
    let client = connect(options);
    outcome(&submit(&client, &&pattern(LARGE_BYTES)[..])).unwrap();
    wait_until(|| client.statistics().connections.get() == connections);
    client
}

/// Makes so many large calls at once, and waits until each has its own arguments back.
fn call_large(client: &Client, count: usize) {
    let large = pattern(LARGE_BYTES);
    let coming: Vec<_> = (0..count).map(|_| submit(client, &&large[..])).collect();
    for coming in &coming {
        assert_eq!(outcome(coming).unwrap().results[4..], large);
    }
}

#[test]
fn several_connections_share_large_calls() {
    // After the first call each connection answers only when all four have one.
    let all = Barrier::new(4);
    let address = serve_all(move |index, mut peer| {
        if index == 0 {
            let call = peer.call().unwrap();
            peer.reply(call.xid, &call.arguments);
        }
        let first = peer.call().unwrap();
        all.wait();
        peer.reply(first.xid, &first.arguments);
        peer.echo();
    });
    let (mut options, _) = options(address);
    options.connections = 4;
    let client = connect_all(options);
    call_large(&client, 4);
    assert_eq!(client.statistics().connections.get(), 4);
    for number in 0..100 {
        assert_eq!(echo(&client, number), Ok((number, false)));
    }
    assert_eq!(client.statistics().connections.get(), 4);
}

#[test]
fn small_calls_stay_on_one_connection() {
    let address = serve(|_, mut peer| {
        let calls: Vec<_> = (0..16).map(|_| peer.call().unwrap()).collect();
        for call in calls {
            peer.reply(call.xid, &call.arguments);
        }
    });
    let (mut options, _) = options(address);
    options.connections = 4;
    let client = connect(options);
    let coming: Vec<_> = (0..16u32).map(|number| submit(&client, &number)).collect();
    for (number, coming) in (0u8..).zip(&coming) {
        assert_eq!(outcome(coming).unwrap().results, [0, 0, 0, number]);
    }
    assert_eq!(client.statistics().connections.get(), 1);
}

/// A server that takes one connection serves what was meant for the others, too.
#[test]
fn calls_of_connections_that_cannot_be_made_go_over_others() {
    let listener = listener_of_its_own(17);
    let address = listener.local_addr().unwrap();
    let server = std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        drop(listener);
        Peer { stream }.echo();
    });
    let (mut options, _) = options(address);
    options.connections = 4;
    let client = connect(options);
    assert_eq!(echo(&client, 1), Ok((1, false)));
    let large = pattern(LARGE_BYTES);
    for _ in 0..3 {
        let coming: Vec<_> = (0..8).map(|_| submit(&client, &&large[..])).collect();
        for coming in &coming {
            let came = outcome(coming).unwrap();
            assert_eq!((&came.results[4..], came.resent), (&large[..], false));
        }
    }
    let statistics = client.statistics();
    assert_eq!(
        (statistics.connections.get(), statistics.in_flight()),
        (1, 0)
    );
    drop(client);
    server.join().unwrap();
}

/// A server at its limit takes a further connection and closes it at once.
#[test]
fn a_server_that_closes_further_connections_answers_every_call() {
    let address = serve_all(|index, mut peer| {
        if index == 0 {
            return peer.echo();
        }
        // With the beginning of a call, so that it was sent.
        let _ = std::io::Read::read(&mut peer.stream, &mut [0; 64]);
        peer.close();
    });
    let (mut options, _) = options(address);
    options.connections = 4;
    let client = connect_all(options);
    for _ in 0..3 {
        call_large(&client, 8);
    }
    let made = client.statistics().connections.get();
    assert!(made < 20, "{made} connections");
}

/// What is silent on a further connection is asked over the one that answers.
#[test]
fn a_further_connection_that_never_answers_costs_one_attempt() {
    let address = serve_all(|index, mut peer| match index {
        0 => peer.echo(),
        _ => peer.until_closed(),
    });
    let (mut options, messages) = options(address);
    options.connections = 2;
    // Of what the first connection is asked on a busy machine, nothing takes so long.
    options.timeout = Duration::from_secs(5);
    let client = connect_all(options);
    let large = pattern(LARGE_BYTES);
    let coming: Vec<_> = (0..4).map(|_| submit(&client, &&large[..])).collect();
    let start = std::time::Instant::now();
    for coming in &coming {
        while coming.try_recv().is_err() {
            // The first connection is in use all the time. While it is busy, one of these may get
            // on the second; the next do not wait for that.
            let _ = submit(&client, &1u32).recv_timeout(Duration::from_millis(5));
            assert!(start.elapsed() < FAR, "a call is lost");
        }
    }
    assert_eq!(client.statistics().connections.get(), 2);
    assert_eq!(
        messages.all(),
        Vec::<String>::new(),
        "the server does respond"
    );
}

/// Nobody waits for a connection in the making as long as another stands. The second is never
/// made here: the queue of the server is full, and the system lets what comes on top wait.
#[test]
fn no_call_waits_for_a_further_connection() {
    let listener = full_listener();
    let (mut options, _) = options(listener.local_addr().unwrap());
    options.connections = 4;
    options.connect_timeout = 10 * FAR;
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
            assert_eq!(outcome(coming).unwrap().results[4..], large);
        }
    }
    assert_eq!(client.statistics().connections.get(), 1);
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

/// Calls that were sent over a connection which then cannot be made again are not lost, since the
/// server answers over another.
#[test]
fn calls_of_a_connection_that_is_lost_for_good_go_over_another() {
    let listener = listener_of_its_own(18);
    let address = listener.local_addr().unwrap();
    let server = std::thread::spawn(move || {
        let first = listener.accept().unwrap().0;
        let second = listener.accept().unwrap().0;
        drop(listener);
        let first = std::thread::spawn(move || Peer { stream: first }.echo());
        // It answers once, and is a good connection until it is lost with the next call.
        let mut second = Peer { stream: second };
        let call = second.call().unwrap();
        second.reply(call.xid, &call.arguments);
        let _ = second.call();
        second.close();
        first.join().unwrap();
    });
    let (mut options, _) = options(address);
    options.connections = 2;
    let client = connect_all(options);
    for _ in 0..4 {
        call_large(&client, 4);
    }
    assert_eq!(client.statistics().connections.get(), 2);
    drop(client);
    server.join().unwrap();
}

/// Connections end at once, after some calls or not at all, and calls go from one to another
/// meanwhile: each is completed once, with its own data.
#[test]
fn calls_survive_connections_that_come_and_go() {
    let address = serve_all(|index, mut peer| {
        let calls_max = [usize::MAX, 0, 3, 1, 9, 0, 30, 2][index * 5 % 8];
        // The one without an end is only the first, so that all of them are lost at times.
        for _ in 0..calls_max.min(if index == 0 { 100 } else { 60 }) {
            let Some(call) = peer.call() else { return };
            match call.procedure {
                6 => peer.send(&data_record(call.xid, &call.arguments)),
                _ => peer.reply(call.xid, &call.arguments),
            }
        }
        peer.close();
    });
    let (mut options, _) = options(address);
    options.connections = 4;
    let client = connect(options);
    std::thread::scope(|scope| {
        for part in 0..4usize {
            let client = &client;
            scope.spawn(move || {
                for round in 0..30 {
                    let coming: Vec<_> = (0..8)
                        .map(|number| {
                            let mut data = pattern(1 << (2 + (part + round + number) % 18));
                            data[..4].copy_from_slice(&(number as u32).to_be_bytes());
                            let coming = match number % 2 {
                                0 => submit(client, &&data[..]),
                                _ => submit_with_sink(client, &&data[..], data.len() + 4),
                            };
                            (coming, data)
                        })
                        .collect();
                    for (coming, data) in &coming {
                        let came = outcome(coming).unwrap();
                        let bytes = [&came.results[..], &came.data[..]].concat();
                        assert!(bytes.ends_with(data), "data of another call");
                        assert!(coming.recv().is_err(), "completed twice");
                    }
                }
            });
        }
    });
    let statistics = client.statistics();
    assert_eq!((requests(&client), statistics.in_flight()), (960, 0));
    assert!(statistics.reconnections.get() > 0);
}
