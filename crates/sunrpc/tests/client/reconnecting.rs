//! Connections that are lost, and calls that are sent again.

use crate::script::{
    Peer, Seen, connect, data_record, echo, listener_of_its_own, options, outcome, pattern, record,
    requests, serve, submit, submit_with_sink, success, wait_until,
};
use pagewell_sunrpc::client::{CallError, Client, ConnectError, Options};
use std::net::TcpListener;
use std::sync::mpsc::channel;
use std::time::Duration;

#[test]
fn calls_without_a_reply_are_sent_again_with_the_same_xid() {
    let (sender, seen) = channel::<(usize, Seen)>();
    let address = serve(move |index, mut peer| {
        if index < 2 {
            for _ in 0..3 {
                sender.send((index, peer.call().unwrap())).unwrap();
            }
            return peer.close();
        }
        while let Some(call) = peer.call() {
            sender.send((index, call.clone())).unwrap();
            peer.reply(call.xid, &call.arguments);
        }
    });
    let client = connect(options(address).0);
    let coming: Vec<_> = (0..3u32).map(|number| submit(&client, &number)).collect();
    for (number, coming) in (0u8..).zip(&coming) {
        let came = outcome(coming).unwrap();
        assert_eq!((came.results, came.resent), (vec![0, 0, 0, number], true));
    }
    let seen: Vec<_> = seen.iter().take(9).collect();
    for (connection, calls) in seen.chunks(3).enumerate() {
        for (call, first) in calls.iter().zip(&seen) {
            assert_eq!(call.0, connection);
            assert_eq!(call.1, first.1, "the same call in the same order");
        }
    }
    let statistics = client.statistics();
    assert_eq!(
        (requests(&client), statistics.retransmissions.get()),
        (3, 6)
    );
    assert_eq!(statistics.reconnections.get(), 2);
    assert_eq!(echo(&client, 5), Ok((5, false)));
}

#[test]
fn a_reply_that_broke_off_is_received_again_from_the_start() {
    let data = pattern(300_000);
    let expected = data.clone();
    let address = serve(move |index, mut peer| {
        let Some(call) = peer.call() else { return };
        let reply = data_record(call.xid, &data);
        // Each attempt gets further; the first not even through the marker.
        let cut = [2, 20, 40, 200, 60_000, 299_999, reply.len()];
        let count = cut[index.min(6)];
        // What a lost connection brought must not stay.
        let mut reply = reply[..count].to_vec();
        if index < 6 {
            reply.iter_mut().skip(36).for_each(|byte| *byte ^= 0xff);
        }
        peer.send(&reply);
        if index >= 6 {
            peer.until_closed();
        }
        peer.close();
    });
    let client = connect(options(address).0);
    let came = outcome(&submit_with_sink(&client, &1u32, 300_000)).unwrap();
    assert!(came.data == expected && came.resent);
    assert_eq!(client.statistics().reconnections.get(), 6);
}

#[test]
fn a_server_that_is_down_for_a_while_loses_nothing() {
    let listener = listener_of_its_own(14);
    let address = listener.local_addr().unwrap();
    let (mut options, messages) = options(address);
    // After this people are told.
    options.timeout = Duration::from_millis(100);
    let client = connect(options);
    drop(listener.accept().unwrap());
    drop(listener);
    let coming: Vec<_> = (0..20u32).map(|number| submit(&client, &number)).collect();
    wait_until(|| !messages.all().is_empty());
    assert_eq!(
        messages.all(),
        ["server script not responding, still trying"]
    );
    assert!(coming.iter().all(|coming| coming.try_recv().is_err()));
    let listener = TcpListener::bind(address).unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let stream = stream.unwrap();
            Peer { stream }.echo();
        }
    });
    for (number, coming) in (0u8..).zip(&coming) {
        assert_eq!(outcome(coming).unwrap().results, [0, 0, 0, number]);
    }
    wait_until(|| messages.all().len() >= 2);
    assert_eq!(messages.all()[1], "server script OK");
}

#[test]
fn an_idle_connection_that_is_closed_is_made_again_when_it_is_needed() {
    let (sender, closed) = channel();
    let address = serve(move |_, mut peer| {
        let call = peer.call().unwrap();
        peer.reply(call.xid, &call.arguments);
        peer.close();
        sender.send(()).unwrap();
    });
    let client = connect(options(address).0);
    for number in 0..5 {
        // Whether the call was sent into the closed connection first is up to the system.
        assert_eq!(echo(&client, number).unwrap().0, number);
        closed.recv().unwrap();
        assert_eq!(client.statistics().connections.get(), u64::from(number) + 1);
    }
}

#[test]
fn all_calls_end_when_the_client_is_stopped() {
    let address = serve(|_, mut peer| peer.until_closed());
    let client = connect(options(address).0);
    let coming: Vec<_> = (0..1000u32)
        .map(|number| submit(&client, &number))
        .collect();
    let waiting = client.clone();
    let thread = std::thread::spawn(move || echo(&waiting, 1));
    wait_until(|| client.statistics().in_flight() == 1001);
    client.stop();
    for coming in &coming {
        assert_eq!(outcome(coming), Err(CallError::Stopped));
    }
    assert_eq!(thread.join().unwrap(), Err(CallError::Stopped));
    assert_eq!(echo(&client, 2), Err(CallError::Stopped));
    assert_eq!(client.statistics().in_flight(), 0);
}

#[test]
fn a_client_of_a_server_that_is_gone_can_be_stopped() {
    let listener = listener_of_its_own(15);
    let client = connect(options(listener.local_addr().unwrap()).0);
    drop(listener);
    let coming = submit(&client, &1u32);
    drop(client);
    assert_eq!(outcome(&coming), Err(CallError::Stopped));
}

#[test]
fn who_is_not_there_is_told_at_once() {
    let listener = listener_of_its_own(16);
    let address = listener.local_addr().unwrap();
    drop(listener);
    let connected = Client::connect(1, 1, Options::new("nobody", vec![address]));
    let error = connected.err().unwrap();
    assert!(matches!(error, ConnectError::Failed { .. }), "{error}");
}

#[test]
fn a_completion_that_panics_does_not_take_the_connection_along() {
    let address = serve(|_, mut peer| peer.echo());
    let client = connect(options(address).0);
    let credential = pagewell_sunrpc::client::EncodedCredential::of_process();
    let call = pagewell_sunrpc::client::Outgoing::new(1, &credential, &1u32);
    client.submit(call, |_| panic!("a defect of the caller"));
    assert_eq!(echo(&client, 2), Ok((2, false)));
    assert_eq!(client.statistics().connections.get(), 1);
}

#[test]
fn a_reply_before_its_call_is_sent_waits_for_the_memory() {
    // The call is too long for the socket; the server answers when it has seen the beginning.
    let (sender, go_on) = channel::<()>();
    let address = serve(move |_, mut peer| {
        let mut head = [0; 44];
        std::io::Read::read_exact(&mut peer.stream, &mut head).unwrap();
        let xid = u32::from_be_bytes(head[4..8].try_into().unwrap());
        peer.send(&record(&success(xid, &[0, 0, 0, 9])));
        go_on.recv().unwrap();
        peer.until_closed();
    });
    let client = connect(options(address).0);
    let coming = crate::sending::submit_data(&client, 64 << 20).0;
    let after = std::time::Duration::from_millis(200);
    assert!(
        coming.recv_timeout(after).is_err(),
        "it is still being sent"
    );
    sender.send(()).unwrap();
    assert_eq!(outcome(&coming).unwrap().results, [0, 0, 0, 9]);
}
