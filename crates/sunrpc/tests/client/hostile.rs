//! Servers that lie or do not know what they say.

use crate::script::{
    Came, Coming, Peer, connect, data_record, data_results, echo, fragment, options, outcome,
    pattern, record, serve, submit, submit_with_sink, success, wait_until,
};
use pagewell_sunrpc::client::{CallError, Client, Patience};
use pagewell_sunrpc::rpc::{Refusal, encode_refusal};
use pagewell_sunrpc::xdr::Encoder;
use std::time::Duration;

/// A first connection served by `first`, all others echo.
fn serve_first(first: impl Fn(&mut Peer) + Send + 'static) -> std::net::SocketAddr {
    serve(move |index, mut peer| {
        if index == 0 {
            first(&mut peer);
            peer.close();
        } else {
            peer.echo();
        }
    })
}

#[test]
fn replies_to_nobody_are_skipped_and_counted() {
    let address = serve(|_, mut peer| {
        while let Some(call) = peer.call() {
            peer.reply(call.xid ^ 0x8000_0000, b"not this one");
            peer.reply(call.xid, &call.arguments);
        }
    });
    let client = connect(options(address).0);
    for number in 0..10 {
        assert_eq!(echo(&client, number), Ok((number, false)));
    }
    let statistics = client.statistics();
    assert_eq!(statistics.unexpected_replies.get(), 10);
    assert_eq!(
        (
            statistics.connections.get(),
            statistics.invalid_replies.get()
        ),
        (1, 0)
    );
}

#[test]
fn a_flood_of_replies_to_nobody_costs_the_connection_and_one_message() {
    let address = serve_first(|peer| {
        let call = peer.call().unwrap();
        for number in 1..100 {
            peer.reply(call.xid.wrapping_add(number), b"flood");
        }
        peer.until_closed();
    });
    let (options, messages) = options(address);
    let client = connect(options);
    assert_eq!(echo(&client, 7), Ok((7, true)));
    let reported = "server script answers garbage (replies to calls that were never made); \
                connection given up";
    assert_eq!(messages.all(), [reported]);
    let statistics = client.statistics();
    assert_eq!(
        (statistics.connections.get(), statistics.reconnections.get()),
        (2, 1)
    );
    assert_eq!(statistics.invalid_replies.get(), 1);
}

#[test]
fn records_that_make_no_sense_cost_the_connection_and_the_call_is_made_again() {
    let broken: [fn(u32) -> Vec<u8>; 6] = [
        |_| 0xffff_ffffu32.to_be_bytes().to_vec(),
        |_| record(b""),
        |_| record(b"abcd"),
        |_| fragment(b"", false).repeat(5000),
        |_| fragment(&vec![0; 2 << 20], false).repeat(2),
        |xid| [&fragment(&xid.to_be_bytes(), false)[..], &record(&[])].concat(),
    ];
    for (number, bytes) in (0..).zip(broken) {
        let address = serve_first(move |peer| {
            let call = peer.call().unwrap();
            peer.send(&bytes(call.xid));
            peer.until_closed();
        });
        let (options, messages) = options(address);
        let client = connect(options);
        assert_eq!(echo(&client, number), Ok((number, true)), "{number}");
        assert_eq!(messages.all().len(), 1, "{:?}", messages.all());
        assert_eq!(echo(&client, 99), Ok((99, false)));
    }
}

#[test]
fn a_server_that_sends_nothing_but_garbage_ends_the_call() {
    let address = serve(|_, mut peer| {
        if peer.call().is_some() {
            peer.send(&[0xff; 4]);
        }
        peer.until_closed();
    });
    let (options, messages) = options(address);
    let client = connect(options);
    let error = echo(&client, 1).unwrap_err();
    assert!(matches!(&error, CallError::Garbage { reason } if reason.contains("2147483647")));
    assert_eq!(client.statistics().invalid_replies.get(), 3);
    assert_eq!(messages.all().len(), 1, "reported once a minute");
}

#[test]
fn a_reply_whose_head_is_malformed_fails_its_call_and_no_other() {
    let address = serve_first(|peer| {
        let calls = [peer.call().unwrap(), peer.call().unwrap()];
        let mut reply = success(calls[0].xid, &[]);
        reply[11] = 9; // neither accepted nor denied
        peer.send(&record(&reply));
        peer.until_closed();
    });
    let client = connect(options(address).0);
    let (first, second) = (submit(&client, &1u32), submit(&client, &2u32));
    assert!(matches!(outcome(&first), Err(CallError::Garbage { .. })));
    let came = outcome(&second).unwrap();
    assert_eq!((came.results, came.resent), (vec![0, 0, 0, 2], true));
}

#[test]
fn results_that_cannot_be_decoded_cost_the_connection() {
    let address = serve_first(|peer| {
        let call = peer.call().unwrap();
        peer.reply(call.xid, b"ab");
        peer.until_closed();
    });
    let (options, messages) = options(address);
    let client = connect(options);
    assert!(matches!(echo(&client, 1), Err(CallError::Garbage { .. })));
    assert_eq!(messages.all().len(), 1);
    assert_eq!(echo(&client, 2).map(|answer| answer.0), Ok(2));
    assert_eq!(client.statistics().reconnections.get(), 1);
}

#[test]
fn a_refusal_reaches_the_caller_and_the_connection_stays() {
    let address = serve(|_, mut peer| {
        while let Some(call) = peer.call() {
            let mut reply = Vec::new();
            let refusal = Refusal::ProcedureUnavailable;
            encode_refusal(&mut Encoder::new(&mut reply), call.xid, refusal);
            peer.send(&record(&reply));
        }
    });
    let client = connect(options(address).0);
    let refused = CallError::Refused(Refusal::ProcedureUnavailable);
    assert_eq!(echo(&client, 1), Err(refused.clone()));
    assert_eq!(
        outcome(&submit_with_sink(&client, &1u32, 100)),
        Err(refused)
    );
    assert_eq!(client.statistics().connections.get(), 1);
}

fn read_once(bytes: impl Fn(u32) -> Vec<u8> + Send + 'static, capacity: usize) -> (Client, Coming) {
    let address = serve(move |_, mut peer| {
        if let Some(call) = peer.call() {
            peer.send(&bytes(call.xid));
        }
        peer.until_closed();
    });
    let client = connect(options(address).0);
    let coming = submit_with_sink(&client, &1u32, capacity);
    (client, coming)
}

#[test]
fn data_that_does_not_fit_is_refused_before_it_is_taken() {
    let broken: [fn(u32) -> Vec<u8>; 4] = [
        // One byte more than there is room for.
        |xid| data_record(xid, &pattern(101)),
        // Data said to be longer than its record.
        |xid| {
            let mut results = data_results(&pattern(80));
            results[7] = 90;
            record(&success(xid, &results))
        },
        // A length of four GiB.
        |xid| record(&success(xid, &[0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff])),
        // The record ends before the length.
        |xid| record(&success(xid, &[0, 0, 0, 0])),
    ];
    for bytes in broken {
        let (client, coming) = read_once(bytes, 100);
        let came = outcome(&coming);
        assert!(matches!(came, Err(CallError::Garbage { .. })), "{came:?}");
        assert_eq!(client.statistics().invalid_replies.get(), 1);
    }
}

#[test]
fn short_and_no_data_are_told_as_they_are() {
    for length in [0, 1, 3, 99, 100] {
        let (_client, coming) = read_once(move |xid| data_record(xid, &pattern(length)), 100);
        let expected = Came {
            results: data_results(&pattern(length))[..8].to_vec(),
            data: pattern(length),
            resent: false,
        };
        assert_eq!(outcome(&coming), Ok(expected));
    }
    // An error without data.
    let (_client, coming) = read_once(|xid| record(&success(xid, &[0, 0, 0, 70])), 100);
    let came = outcome(&coming).unwrap();
    assert_eq!((came.results, came.data), (vec![0, 0, 0, 70], vec![]));
}

#[test]
fn one_byte_now_and_then_does_not_keep_a_soft_call() {
    let address = serve(|_, mut peer| {
        if let Some(call) = peer.call() {
            for byte in data_record(call.xid, &pattern(10_000)) {
                peer.send(&[byte]);
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    });
    let (mut options, _) = options(address);
    options.patience = Patience::Soft {
        attempts: 3,
        timeout: Duration::from_millis(300),
    };
    let client = connect(options);
    let came = outcome(&submit_with_sink(&client, &1u32, 10_000));
    assert!(matches!(came, Err(CallError::TimedOut { .. })), "{came:?}");
    client.stop();
    wait_until(|| client.statistics().in_flight() == 0);
}
