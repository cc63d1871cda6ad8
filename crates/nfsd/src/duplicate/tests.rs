use std::sync::atomic::{AtomicBool, Ordering};

use super::*;

/// A connection of these tests.
struct Line {
    token: u64,
    port: u16,
    gone: AtomicBool,
    delivered: AtomicBool,
    talked: AtomicBool,
}

impl Asker for Line {
    fn token(&self) -> u64 {
        self.token
    }
    fn port(&self) -> u16 {
        self.port
    }
    fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Relaxed)
    }
    fn has_delivered_all(&self) -> bool {
        !self.is_gone() && self.delivered.load(Ordering::Relaxed)
    }
    fn has_talked_since(&self, _then: Instant) -> bool {
        self.talked.load(Ordering::Relaxed)
    }
}

fn line(token: u64) -> Arc<Line> {
    Arc::new(Line {
        token,
        port: 1000 + token as u16,
        gone: AtomicBool::new(false),
        delivered: AtomicBool::new(false),
        talked: AtomicBool::new(false),
    })
}

fn cache_of(bytes_max: usize) -> (Duplicates<Line>, Instant) {
    (Duplicates::new([1; 16], bytes_max), Instant::now())
}

fn key_of(cache: &Duplicates<Line>, host: u8, xid: u32, record: &[u8]) -> Key {
    let is_write = record.starts_with(b"write");
    cache.key(IpAddr::from([10, 0, 0, host]), (xid, record), is_write, 10)
}

fn tokens(waiters: &[Arc<Line>]) -> Vec<u64> {
    waiters.iter().map(|waiter| waiter.token).collect()
}

/// Does a call that was not seen before.
fn done(cache: &Duplicates<Line>, key: &Key, on: &Arc<Line>, now: Instant) {
    assert_eq!(cache.begin(key, on, now), Seen::New);
    cache.finish(key, Some(b"ok"), now);
}

#[test]
fn a_done_call_is_replayed_and_a_running_one_is_not_begun_again() {
    let (cache, now) = cache_of(KEPT_BYTES_MAX);
    let call = key_of(&cache, 1, 5, b"remove a");
    assert_eq!(cache.begin(&call, &line(1), now), Seen::New);
    assert_eq!(cache.begin(&call, &line(2), now), Seen::InProgress);
    let waiters = cache.finish(&call, Some(b"ok"), now);
    assert_eq!(tokens(&waiters), [2]);
    let again = cache.begin(&call, &line(3), now);
    assert_eq!(again, Seen::Answered(b"ok".to_vec()));
    for (host, xid, record) in [
        (1, 6, &b"remove a"[..]),
        (1, 5, b"remove b"),
        (2, 5, b"remove a"),
    ] {
        let other = key_of(&cache, host, xid, record);
        assert_eq!(cache.begin(&other, &line(1), now), Seen::New);
    }
    let late = cache.begin(&call, &line(1), now + KEPT_FOR);
    assert_eq!(late, Seen::New, "too old");
}

#[test]
fn abandoned_calls_are_forgotten_unless_somebody_alive_waits() {
    let (cache, now) = cache_of(KEPT_BYTES_MAX);
    let call = key_of(&cache, 1, 5, b"x");
    assert_eq!(cache.begin(&call, &line(1), now), Seen::New);
    assert!(cache.abandon(&call));
    assert_eq!(cache.begin(&call, &line(1), now), Seen::New);
    let second = line(2);
    assert_eq!(cache.begin(&call, &second, now), Seen::InProgress);
    assert!(!cache.abandon(&call));
    second.gone.store(true, Ordering::Relaxed);
    assert!(cache.abandon(&call), "the one that waited is gone too");
    assert_eq!(cache.begin(&call, &line(3), now), Seen::New);
    cache.finish(&call, None, now);
    assert_eq!(cache.begin(&call, &line(1), now), Seen::New, "not kept");
}

/// Two connections are dead, and what the second one sent is read after the third has asked.
#[test]
fn everybody_alive_that_asked_again_is_answered_in_whatever_order_they_came() {
    let (cache, now) = cache_of(KEPT_BYTES_MAX);
    let call = key_of(&cache, 1, 5, b"x");
    let lines: Vec<_> = (1..=3).map(line).collect();
    assert_eq!(cache.begin(&call, &lines[0], now), Seen::New);
    for index in [2, 1, 1, 0] {
        assert_eq!(cache.begin(&call, &lines[index], now), Seen::InProgress);
    }
    lines[0].gone.store(true, Ordering::Relaxed);
    lines[1].gone.store(true, Ordering::Relaxed);
    assert!(!cache.abandon(&call));
    assert_eq!(tokens(&cache.finish(&call, Some(b"ok"), now)), [3, 2]);
    let other = key_of(&cache, 1, 6, b"x");
    assert_eq!(cache.begin(&other, &line(1), now), Seen::New);
    for token in 2..1000 {
        assert_eq!(cache.begin(&other, &line(token), now), Seen::InProgress);
    }
    let waiters = tokens(&cache.finish(&other, None, now));
    assert_eq!(waiters.len(), WAITERS_MAX);
    assert_eq!(waiters.last(), Some(&999));
}

#[test]
fn two_programs_behind_one_address_are_told_apart_by_the_port() {
    let (cache, now) = cache_of(KEPT_BYTES_MAX);
    let call = key_of(&cache, 1, 5, b"remove a");
    // What is known of the first connection and the one that asks, and whether it is told apart.
    let verdict = |first_is: (bool, bool), token: u64, asker_is: (bool, bool)| {
        let (first, asker) = (line(1), line(token));
        assert_eq!(cache.begin(&call, &first, now), Seen::New);
        cache.finish(&call, Some(b"first"), now);
        first.delivered.store(first_is.0, Ordering::Relaxed);
        first.gone.store(first_is.1, Ordering::Relaxed);
        asker.delivered.store(asker_is.0, Ordering::Relaxed);
        asker.talked.store(asker_is.1, Ordering::Relaxed);
        let verdict = cache.begin(&call, &asker, now);
        if verdict != Seen::New {
            // It has asked again once, and is not taken for another now.
            first.delivered.store(true, Ordering::Relaxed);
            asker.talked.store(true, Ordering::Relaxed);
            assert_eq!(
                cache.begin(&call, &asker, now),
                Seen::Answered(b"first".to_vec())
            );
        }
        cache.state.lock().shares.clear();
        verdict == Seen::New
    };
    assert!(verdict((true, false), 2, (true, true)), "another program");
    assert!(
        !verdict((false, false), 2, (true, true)),
        "the first reply may be lost"
    );
    assert!(
        !verdict((true, true), 2, (true, true)),
        "the first connection is gone"
    );
    assert!(
        !verdict((true, false), 2, (true, false)),
        "the call may be late"
    );
    assert!(
        !verdict((true, false), 2, (false, true)),
        "the asker may be gone"
    );
    assert!(!verdict((true, false), 11, (true, true)), "opened since");
    assert!(!verdict((true, false), 1, (true, true)), "the same port");
}

/// What one address does pushes out nothing of another's, writes push out writes, and the bound
/// holds.
#[test]
fn a_million_calls_of_one_address_leave_the_share_of_the_others() {
    let bytes_max = 1 << 20;
    let (cache, now) = cache_of(bytes_max);
    let on = line(1);
    let quiet: Vec<_> = (0..500)
        .map(|xid| key_of(&cache, 2, xid, b"remove"))
        .collect();
    for call in &quiet {
        done(&cache, call, &on, now);
    }
    let own = key_of(&cache, 1, 1, b"remove");
    done(&cache, &own, &on, now);
    for xid in 0..1_000_000 {
        done(&cache, &key_of(&cache, 1, xid, b"write"), &on, now);
        assert!(cache.state.lock().bytes <= bytes_max);
    }
    for call in quiet.iter().chain([&own]) {
        assert_eq!(cache.begin(call, &on, now), Seen::Answered(b"ok".to_vec()));
    }
    for host in 3..40 {
        for xid in 0..200 {
            done(&cache, &key_of(&cache, host, xid, b"remove"), &on, now);
        }
    }
    let state = cache.state.lock();
    assert!(state.bytes <= bytes_max);
    let sum: usize = state.shares.values().map(Calls::bytes).sum();
    assert_eq!(state.bytes, sum);
    for share in state.shares.values() {
        assert!(share.bytes() >= bytes_max / 80, "a share of its own");
    }
}

#[test]
fn hosts_of_one_ipv6_network_share_but_are_told_apart() {
    let (cache, now) = cache_of(KEPT_BYTES_MAX);
    let key = |host: &str| cache.key(host.parse().unwrap(), (1, b"call"), false, 10);
    done(&cache, &key("2001:db8::1"), &line(1), now);
    done(&cache, &key("2001:db8::2"), &line(1), now);
    done(&cache, &key("2001:db8:0:1::1"), &line(1), now);
    assert_eq!(cache.state.lock().shares.len(), 2);
    let mapped = key("::ffff:10.0.0.1");
    done(&cache, &mapped, &line(1), now);
    assert_ne!(cache.begin(&key("10.0.0.1"), &line(1), now), Seen::New);
}

#[test]
fn addresses_that_are_gone_are_forgotten() {
    let (cache, now) = cache_of(KEPT_BYTES_MAX);
    for host in 0..100 {
        done(&cache, &key_of(&cache, host, 1, b"call"), &line(1), now);
    }
    let call = key_of(&cache, 200, 1, b"call");
    assert_eq!(cache.begin(&call, &line(1), now + KEPT_FOR), Seen::New);
    let state = cache.state.lock();
    assert_eq!((state.shares.len(), state.bytes), (1, 0));
}
