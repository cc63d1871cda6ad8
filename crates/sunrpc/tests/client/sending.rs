//! How calls leave: data from borrowed memory, many at a time, when the server does not read.

use crate::script::{
    Came, Coming, complete, connect, data_record, options, outcome, pattern, serve, submit,
    submit_with_sink, wait_until,
};
use pagewell_sunrpc::client::{
    BorrowedSlice, CallError, Client, DataSegments, EncodedCredential, Outgoing,
};
use pagewell_sunrpc::xdr::Decoder;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{channel, sync_channel};
use std::time::Duration;

/// Submits a call whose data is borrowed in uneven pieces; the memory lives as long as the call.
pub(crate) fn submit_data(client: &Client, length: usize) -> (Coming, Vec<u8>) {
    let data = pattern(length);
    let expected = data.clone();
    let slices = data
        .chunks(length / 700 + 7)
        .map(|piece| BorrowedSlice::new(NonNull::from(piece).cast(), piece.len()));
    // SAFETY: the memory is owned by the completion, and nobody writes to it.
    let segments = unsafe { DataSegments::new(slices.collect(), 0) };
    let head = u32::try_from(length).unwrap();
    let call = Outgoing::new(7, &EncodedCredential::of_process(), &head).with_data(segments);
    let (sender, coming) = channel();
    let complete = complete(sender, Vec::new());
    client.submit(call, move |outcome| {
        drop(data);
        complete(outcome);
    });
    (coming, expected)
}

#[test]
fn borrowed_data_arrives_as_it_is_with_its_padding() {
    let (sender, seen) = channel();
    let address = serve(move |_, mut peer| {
        while let Some(call) = peer.call() {
            peer.reply(call.xid, &[]);
            sender.send(call.arguments).unwrap();
        }
    });
    let client = connect(options(address).0);
    for length in [0, 1, 2, 3, 4, 5, 4096, 100_001, 1 << 20, (3 << 20) + 1] {
        let (coming, data) = submit_data(&client, length);
        outcome(&coming).unwrap();
        let arguments = seen.recv().unwrap();
        let mut decoder = Decoder::new(&arguments);
        let arrived = decoder.opaque(usize::MAX).unwrap();
        assert!(arrived == data, "{length}");
        assert_eq!(decoder.finish(), Ok(()));
    }
    let statistics = client.statistics();
    assert_eq!(
        (
            statistics.connections.get(),
            statistics.retransmissions.get()
        ),
        (1, 0)
    );
}

/// The server reads nothing more until all its replies have been read, and they are more than
/// sockets hold. A client that waited to send on the thread that receives would wait for ever.
#[test]
fn a_server_that_does_not_read_before_its_replies_are_read_is_no_deadlock() {
    const DATA: usize = 1 << 20;
    const ROUNDS: usize = 24;
    let address = serve(|_, mut peer| {
        for _ in 0..2 {
            let calls: Vec<_> = (0..ROUNDS).map_while(|_| peer.call()).collect();
            for call in calls {
                peer.send(&data_record(call.xid, &pattern(DATA)));
            }
        }
        peer.echo();
    });
    let client = Arc::new(connect(options(address).0));
    let (sender, receiver) = channel();
    for _ in 0..ROUNDS {
        let coming = submit_with_sink(&client, &1u32, DATA);
        sender.send(coming).unwrap();
    }
    // The completions of the first round, on the receiving thread, submit the second one, each
    // with much data.
    let first: Vec<_> = receiver.try_iter().collect();
    for coming in &first {
        let came = outcome(coming).unwrap();
        assert!(came.data == pattern(DATA));
    }
    let (done, all_done) = sync_channel(ROUNDS);
    for _ in 0..ROUNDS {
        let (client, done) = (client.clone(), done.clone());
        let call = Outgoing::new(1, &EncodedCredential::of_process(), &());
        client.clone().submit(call, move |_| {
            done.send(submit_data(&client, DATA).0).unwrap();
        });
    }
    for coming in all_done.iter().take(ROUNDS) {
        outcome(&coming).unwrap();
    }
    assert_eq!(client.statistics().connections.get(), 1);
}

#[test]
fn no_more_calls_are_on_their_way_than_allowed() {
    let address = serve(|_, mut peer| {
        for _ in 0..10 {
            let calls: Vec<_> = (0..5).map(|_| peer.call().unwrap()).collect();
            let again = peer
                .stream
                .set_read_timeout(Some(Duration::from_millis(20)));
            again.unwrap();
            let more = std::io::Read::read(&mut peer.stream, &mut [0; 1]);
            assert!(more.is_err(), "a sixth call before there was a reply");
            peer.stream.set_read_timeout(None).unwrap();
            for call in calls {
                peer.reply(call.xid, &call.arguments);
            }
        }
        peer.close();
    });
    let (mut options, _) = options(address);
    options.calls_max = 5;
    let client = connect(options);
    let coming: Vec<_> = (0..50u32).map(|number| submit(&client, &number)).collect();
    // A failed assertion of the server would cost the connection.
    for (number, coming) in (0u8..).zip(&coming) {
        let expected = Came {
            results: vec![0, 0, 0, number],
            data: Vec::new(),
            resent: false,
        };
        assert_eq!(outcome(coming), Ok(expected));
    }
}

#[test]
fn a_queue_without_end_is_refused() {
    let address = serve(|_, mut peer| peer.until_closed());
    let (mut options, _) = options(address);
    options.calls_max = 1;
    let client = connect(options);
    let refused = Arc::new(AtomicUsize::new(0));
    for _ in 0..70_000 {
        let refused = refused.clone();
        let call = Outgoing::new(1, &EncodedCredential::of_process(), &1u32);
        client.submit(call, move |outcome| {
            if matches!(outcome, Err(CallError::QueueFull)) {
                refused.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    let entered = client.statistics().in_flight() as usize;
    assert_eq!(entered + refused.load(Ordering::Relaxed), 70_000);
    assert!((65_536..=65_537).contains(&entered), "{entered}");
    client.stop();
    wait_until(|| client.statistics().in_flight() == 0);
}
