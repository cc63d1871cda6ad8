//! Silence: attempts that end, calls that fail, and the injected delay.

use crate::script::{
    connect, echo, listener_of_its_own, options, outcome, serve, submit, wait_until,
};
use pagewell_sunrpc::client::{CallError, Patience};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

const SHORT: Duration = Duration::from_millis(100);

#[test]
fn a_hard_call_is_sent_again_after_silence() {
    let address = serve(|index, mut peer| {
        if index < 2 {
            peer.until_closed();
        } else {
            peer.echo();
        }
    });
    let (mut options, messages) = options(address);
    options.timeout = SHORT;
    let client = connect(options);
    assert_eq!(echo(&client, 3), Ok((3, true)));
    // A busy machine may need further attempts.
    let statistics = client.statistics();
    assert!(statistics.timeouts.get() >= 2 && statistics.reconnections.get() >= 2);
    assert_eq!(
        statistics.retransmissions.get(),
        statistics.reconnections.get()
    );
    let expected = [
        "server script not responding, still trying",
        "server script OK",
    ];
    assert_eq!(messages.all()[..2], expected);
}

#[test]
fn a_soft_call_fails_when_its_attempts_are_used_up() {
    let address = serve(|_, mut peer| peer.until_closed());
    let (mut options, _) = options(address);
    options.timeout = SHORT;
    options.patience = Patience::Soft {
        attempts: 2,
        timeout: Duration::from_secs(3600),
    };
    let client = connect(options);
    let error = echo(&client, 3).unwrap_err();
    let CallError::TimedOut { after } = error else {
        panic!("{error}");
    };
    assert!(
        after >= 3 * SHORT,
        "the second attempt waits twice as long: {after:?}"
    );
    assert_eq!(client.statistics().timeouts.get(), 2);
}

#[test]
fn a_soft_call_fails_when_its_time_is_used_up_and_its_late_reply_is_no_surprise() {
    let (sender, go_on) = channel::<()>();
    let address = serve(move |_, mut peer| {
        let call = peer.call().unwrap();
        go_on.recv().unwrap();
        peer.reply(call.xid, &call.arguments);
        peer.echo();
    });
    let (mut options, messages) = options(address);
    options.patience = Patience::Soft {
        attempts: 9,
        // It has to be sent before.
        timeout: 20 * SHORT,
    };
    let client = connect(options);
    assert!(matches!(echo(&client, 3), Err(CallError::TimedOut { .. })));
    sender.send(()).unwrap();
    wait_until(|| client.statistics().late_replies.get() == 1);
    let statistics = client.statistics();
    assert_eq!(
        (
            statistics.unexpected_replies.get(),
            statistics.connections.get()
        ),
        (0, 1)
    );
    assert!(messages.all().iter().all(|line| !line.contains("garbage")));
}

#[test]
fn a_soft_call_fails_while_the_server_cannot_be_reached() {
    let listener = listener_of_its_own(13);
    let (mut options, _) = options(listener.local_addr().unwrap());
    options.patience = Patience::Soft {
        attempts: 9,
        timeout: SHORT,
    };
    let client = connect(options);
    drop(listener);
    assert!(matches!(echo(&client, 3), Err(CallError::TimedOut { .. })));
}

#[test]
fn an_injected_delay_holds_each_reply_and_lets_calls_overlap() {
    let address = serve(|_, mut peer| peer.echo());
    let (mut options, _) = options(address);
    options.delay = Some(Duration::from_millis(200));
    let client = connect(options);
    let start = Instant::now();
    let coming: Vec<_> = (0..50u32).map(|number| submit(&client, &number)).collect();
    for coming in &coming {
        outcome(coming).unwrap();
    }
    assert!(start.elapsed() >= Duration::from_millis(200));
    let shortest = client.statistics().procedures()[1].latency.quantiles();
    // One after the other would be ten seconds; every latency would differ.
    assert!(shortest.sum >= 50 * Duration::from_millis(200));
    assert_eq!(client.statistics().retransmissions.get(), 0);
    // What is held when the client is stopped is delivered all the same.
    let held = submit(&client, &1u32);
    wait_until(|| client.statistics().received_bytes.get() >= 51 * 32);
    client.stop();
    assert_eq!(
        outcome(&held).map(|came| came.results).ok(),
        Some(vec![0, 0, 0, 1])
    );
}
