//! Replies of every form, cut anywhere, in any order; and bytes that were changed on the way.

use crate::script::{
    Coming, Seen, connect, data_results, fragment, options, outcome, pattern, record, serve,
    submit, submit_with_sink, success,
};
use pagewell_sunrpc::client::CallError;
use proptest::prelude::*;
use std::time::Duration;

/// How the server answers one call.
#[derive(Clone, Debug)]
struct Answer {
    /// Bytes of data, or of results when the call has no sink.
    length: usize,
    sink: bool,
    /// The record comes in fragments of this size.
    fragment: Option<usize>,
    /// Its place among the replies.
    order: u32,
}

fn answer() -> impl Strategy<Value = Answer> {
    let length = prop_oneof![0usize..40, 400usize..700, 4000usize..140_000];
    let fragment = prop_oneof![3 => Just(None), 1 => (1usize..50_000).prop_map(Some)];
    (length, any::<bool>(), fragment, any::<u32>()).prop_map(|(length, sink, fragment, order)| {
        Answer {
            length,
            sink,
            // A record has at most 4096 fragments.
            fragment: fragment.map(|bytes: usize| bytes.max(length / 1000 + 1)),
            order,
        }
    })
}

fn encode(call: &Seen, answer: &Answer) -> Vec<u8> {
    let results = if answer.sink {
        data_results(&pattern(answer.length))
    } else {
        pattern(answer.length)
    };
    let body = success(call.xid, &results);
    let Some(size) = answer.fragment else {
        return record(&body);
    };
    let count = body.chunks(size).count();
    let pieces = body.chunks(size).enumerate();
    pieces
        .flat_map(|(index, piece)| fragment(piece, index + 1 == count))
        .collect()
}

/// Serves the answers in their order once all calls are there, cut at the given lengths. The calls
/// carry their number.
fn serve_answers(
    answers: Vec<Answer>,
    cuts: Vec<usize>,
    change: impl Fn(&mut Vec<u8>) + Send + 'static,
) -> std::net::SocketAddr {
    serve(move |connection, mut peer| {
        if connection > 0 {
            // Some have their end already: those that are left are answered one by one.
            while let Some(call) = peer.call() {
                let number = u32::from_be_bytes(call.arguments[..4].try_into().unwrap());
                peer.send(&encode(&call, &answers[number as usize]));
            }
            return;
        }
        let mut calls = Vec::new();
        while calls.len() < answers.len() {
            let Some(call) = peer.call() else { return };
            let number = u32::from_be_bytes(call.arguments[..4].try_into().unwrap()) as usize;
            calls.push((answers[number].order, call, number));
        }
        calls.sort_by_key(|(order, _, number)| (*order, *number));
        let mut stream = Vec::new();
        for (_, call, number) in &calls {
            stream.extend_from_slice(&encode(call, &answers[*number]));
        }
        change(&mut stream);
        let mut rest = &stream[..];
        for cut in cuts.iter().chain(std::iter::repeat(&usize::MAX)) {
            let (now, later) = rest.split_at((*cut).min(rest.len()));
            peer.send(now);
            rest = later;
            if rest.is_empty() {
                break;
            }
        }
        peer.until_closed();
    })
}

fn submit_all(client: &pagewell_sunrpc::client::Client, answers: &[Answer]) -> Vec<Coming> {
    let numbered = (0u32..).zip(answers);
    numbered
        .map(|(number, answer)| {
            if answer.sink {
                submit_with_sink(client, &number, answer.length)
            } else {
                submit(client, &number)
            }
        })
        .collect()
}

fn check(answer: &Answer, came: &crate::script::Came) {
    if answer.sink {
        assert!(came.data == pattern(answer.length), "{answer:?}");
        assert_eq!(came.results.len(), 8);
    } else {
        assert!(came.results == pattern(answer.length), "{answer:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn every_reply_reaches_its_call(
        answers in prop::collection::vec(answer(), 1..12),
        cuts in prop::collection::vec(1usize..3000, 0..60),
    ) {
        let address = serve_answers(answers.clone(), cuts, |_| ());
        let client = connect(options(address).0);
        let coming = submit_all(&client, &answers);
        for (answer, coming) in answers.iter().zip(&coming) {
            let came = outcome(coming).unwrap();
            check(answer, &came);
            prop_assert!(!came.resent);
        }
        let statistics = client.statistics();
        prop_assert_eq!(statistics.connections.get(), 1);
        prop_assert_eq!(statistics.in_flight(), 0);
    }

    /// Marks, heads and lengths that were changed: each call has one end, a right one or an error.
    /// The bytes of data themselves are not protected by anything.
    #[test]
    fn changed_bytes_harm_nothing_but_their_connection(
        answers in prop::collection::vec(answer(), 1..6),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let lengths: usize = answers.iter().map(|answer| answer.length).sum();
        let address = serve_answers(answers.clone(), Vec::new(), move |stream| {
            for (at, value) in &changes {
                // Mostly in the first head.
                let at = at.index(stream.len()) % 64;
                if let Some(byte) = stream.get_mut(at) {
                    *byte = *value;
                }
            }
        });
        let (mut options, _) = options(address);
        // A length that was changed may let the client wait for bytes that do not come.
        options.timeout = Duration::from_millis(50);
        let client = connect(options);
        let coming = submit_all(&client, &answers);
        for coming in &coming {
            match outcome(coming) {
                Ok(came) => prop_assert!(came.data.len() <= lengths),
                Err(CallError::Garbage { .. } | CallError::Refused(_)) => {}
                Err(error) => prop_assert!(false, "{}", error),
            }
        }
        prop_assert_eq!(client.statistics().in_flight(), 0);
    }
}
