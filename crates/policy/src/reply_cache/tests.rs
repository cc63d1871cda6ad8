use std::cell::Cell;
use std::rc::Rc;

use super::*;

const BYTES_MAX: usize = 10 << 20;

/// A connection of these tests. Unless a test says otherwise it lives, and nothing on it has been
/// acknowledged.
#[derive(Clone)]
struct TestLine {
    token: u64,
    delivery: Rc<Cell<Delivery>>,
    arrived_after: Rc<Cell<Duration>>,
    is_live: Rc<Cell<bool>>,
}

impl Line for TestLine {
    fn token(&self) -> u64 {
        self.token
    }
    fn delivery(&self, _sent_at: SentAt) -> Delivery {
        self.delivery.get()
    }
    fn arrived_after(&self, _overlaps: bool, _now: Duration) -> Duration {
        self.arrived_after.get()
    }
    fn is_live(&self) -> bool {
        self.is_live.get()
    }
}

fn line(token: u64) -> TestLine {
    TestLine {
        token,
        delivery: Rc::new(Cell::new(Delivery::Open)),
        arrived_after: Rc::new(Cell::new(NOW + HELD_FOR)),
        is_live: Rc::new(Cell::new(true)),
    }
}

const SENT: SentAt = SentAt::Byte(1);
const NOW: Duration = Duration::from_secs(1000);
const SOON: Duration = Duration::from_millis(1_000_100);

fn key(share: u128, xid: u32) -> Key {
    let digest = 7;
    Key {
        share,
        identity: Identity { xid, digest },
        is_write: false,
    }
}

fn place(number: u64) -> Place {
    Place {
        number,
        overlaps: false,
    }
}

fn look(cache: &mut ReplyCache<TestLine>, on: &TestLine, number: u64, now: Duration) -> Verdict {
    cache.look(&key(1, 5), (on, place(number)), None, now)
}

/// The same, and once more when a reset would have been heard of.
fn settled(cache: &mut ReplyCache<TestLine>, on: &TestLine, number: u64, now: Duration) -> Verdict {
    match look(cache, on, number, now) {
        Verdict::Held(held) => {
            let later = now + SETTLED_AFTER;
            cache.look(&key(1, 5), (on, place(number)), Some(held), later)
        }
        other => other,
    }
}

/// A cache with one call that was answered `first` on a line, its first one there.
fn with_one(on: &TestLine) -> ReplyCache<TestLine> {
    let mut cache = ReplyCache::new(BYTES_MAX);
    assert_eq!(look(&mut cache, on, 1, NOW), Verdict::New);
    cache.finish(&key(1, 5), b"first", SENT, NOW);
    cache
}

fn first(moved: Moved) -> Verdict {
    Verdict::Answered(b"first".to_vec(), moved)
}

#[test]
fn other_calls_are_other_calls() {
    let on = line(1);
    let mut cache = with_one(&on);
    for other in [key(2, 5), key(1, 6)] {
        assert_eq!(cache.look(&other, (&on, place(2)), None, NOW), Verdict::New);
    }
    let late = look(&mut cache, &line(2), 1, NOW + KEPT_FOR);
    assert_eq!(late, Verdict::New, "too old");
}

#[test]
fn on_one_connection_it_is_new_when_another_call_came_since() {
    let on = line(1);
    let mut cache = with_one(&on);
    assert_eq!(look(&mut cache, &on, 2, NOW), first(Moved::No));
    assert_eq!(look(&mut cache, &on, 3, NOW), first(Moved::No));
    let overlaps = Place {
        number: 9,
        overlaps: true,
    };
    assert_eq!(
        cache.look(&key(1, 5), (&on, overlaps), None, NOW),
        first(Moved::No)
    );
    assert_eq!(look(&mut cache, &on, 20, NOW), Verdict::New);
    assert_eq!(look(&mut cache, &on, 22, NOW), Verdict::InProgress);
}

#[test]
fn what_is_under_way_is_neither_begun_again_nor_answered_elsewhere() {
    let mut cache = ReplyCache::new(BYTES_MAX);
    let (on, other) = (line(1), line(2));
    assert_eq!(look(&mut cache, &on, 1, NOW), Verdict::New);
    assert_eq!(look(&mut cache, &on, 2, NOW), Verdict::InProgress);
    let Verdict::Held(held) = look(&mut cache, &other, 1, NOW) else {
        panic!("it waits");
    };
    let again = |cache: &mut ReplyCache<_>, now| {
        cache.look(&key(1, 5), (&other, place(1)), Some(held), now)
    };
    cache.finish(&key(1, 5), b"first", SENT, NOW);
    assert_eq!(again(&mut cache, NOW), Verdict::Held(held));
    on.delivery.set(Delivery::Arrived);
    assert_eq!(again(&mut cache, NOW), Verdict::Held(held));
    let later = NOW + SETTLED_AFTER;
    assert_eq!(again(&mut cache, later), Verdict::New, "another client's");
    cache.abandon(&key(1, 5));
    assert_eq!(look(&mut cache, &on, 9, NOW), Verdict::New, "it never was");
}

#[test]
fn a_later_connection_gets_the_kept_reply_only_when_the_first_was_lost() {
    for (delivery, wanted) in [
        (Delivery::Arrived, Verdict::New),
        (Delivery::Lost, first(Moved::Yes)),
    ] {
        let on = line(1);
        let mut cache = with_one(&on);
        on.delivery.set(delivery);
        assert_eq!(settled(&mut cache, &line(2), 1, SOON), wanted);
    }
    let on = line(1);
    let mut cache = with_one(&on);
    let held = look(&mut cache, &line(2), 1, SOON);
    assert!(matches!(held, Verdict::Held(_)));
    let again_at = NOW + HELD_FOR;
    let third = line(3);
    let again = look(&mut cache, &third, 1, again_at);
    assert_eq!(again, first(Moved::Yes));
    cache.sent(&key(1, 5), &line(1), SentAt::UNKNOWN);
    cache.sent(&key(1, 5), &third, SENT);
    third.delivery.set(Delivery::Arrived);
    assert_eq!(settled(&mut cache, &line(4), 1, again_at), Verdict::New);
}

/// The call comes on another connection before the reset of the first is heard of.
#[test]
fn a_reset_can_be_overtaken() {
    let on = line(1);
    let mut cache = with_one(&on);
    on.delivery.set(Delivery::Arrived);
    let other = line(2);
    let Verdict::Held(held) = look(&mut cache, &other, 1, SOON) else {
        panic!("it waits");
    };
    on.delivery.set(Delivery::Lost);
    on.is_live.set(false);
    let again = cache.look(&key(1, 5), (&other, place(1)), Some(held), SOON);
    assert_eq!(again, first(Moved::Yes));

    // One that was ended in order is not waited for.
    let on = line(1);
    let mut cache = with_one(&on);
    on.delivery.set(Delivery::Arrived);
    on.is_live.set(false);
    assert_eq!(look(&mut cache, &line(2), 1, SOON), Verdict::New);
}

#[test]
fn a_late_call_is_no_new_one() {
    let in_time = NOW - GIVEN_UP_AFTER_MIN;
    let late = in_time - Duration::from_millis(1);
    let kept = || first(Moved::No);
    for (token, arrived_after, is_live, wanted) in [
        (4, SOON, true, Verdict::New),
        (4, in_time, true, Verdict::New),
        (4, late, true, kept()),
        (4, SOON, false, kept()),
        (6, in_time, false, Verdict::New),
        (6, late, true, kept()),
    ] {
        let on = line(5);
        let mut cache = with_one(&on);
        on.delivery.set(Delivery::Arrived);
        let other = line(token);
        other.arrived_after.set(arrived_after);
        other.is_live.set(is_live);
        assert_eq!(settled(&mut cache, &other, 8, SOON), wanted);
    }
}

/// It is read late, but where its client waits now.
#[test]
fn a_lost_reply_moves_to_a_later_connection_also_when_the_call_is_late() {
    let on = line(5);
    let mut cache = with_one(&on);
    on.delivery.set(Delivery::Lost);
    let late = NOW - GIVEN_UP_AFTER_MIN - Duration::from_millis(1);
    for (token, moved) in [(4, Moved::No), (6, Moved::Yes)] {
        let other = line(token);
        other.arrived_after.set(late);
        assert_eq!(look(&mut cache, &other, 1, SOON), first(moved));
    }
}

fn done(cache: &mut ReplyCache<TestLine>, key: &Key, on: &TestLine) {
    assert_eq!(cache.look(key, (on, place(1)), None, NOW), Verdict::New);
    cache.finish(key, b"ok", SENT, NOW);
}

/// What one address does pushes out nothing of another's, writes push out writes, and the bound
/// holds.
#[test]
fn a_million_calls_of_one_address_leave_the_share_of_the_others() {
    let bytes_max = 1 << 20;
    let mut cache = ReplyCache::new(bytes_max);
    let on = line(1);
    let quiet: Vec<_> = (0..500).map(|xid| key(2, xid)).collect();
    for call in &quiet {
        done(&mut cache, call, &on);
    }
    let own = key(1, 2_000_000);
    done(&mut cache, &own, &on);
    for xid in 0..1_000_000 {
        let write = Key {
            is_write: true,
            ..key(1, xid)
        };
        done(&mut cache, &write, &on);
        assert!(cache.bytes() <= bytes_max);
    }
    for call in quiet.iter().chain([&own]) {
        let again = cache.look(call, (&on, place(2)), None, NOW);
        assert_eq!(again, Verdict::Answered(b"ok".to_vec(), Moved::No));
    }
    for share in 3..40 {
        for xid in 0..200 {
            done(&mut cache, &key(share, xid), &on);
        }
    }
    assert!(cache.bytes() <= bytes_max);
    let shares: Vec<_> = cache.shares().collect();
    let sum: usize = shares.iter().map(|(_, bytes)| bytes).sum();
    assert_eq!(cache.bytes(), sum);
    for (_, bytes) in shares {
        assert!(bytes >= bytes_max / 80, "a share of its own");
    }
}

#[test]
fn addresses_that_are_gone_are_forgotten() {
    let mut cache = ReplyCache::new(BYTES_MAX);
    for share in 0..100 {
        done(&mut cache, &key(share, 1), &line(1));
    }
    let call = (&line(1), place(1));
    let look = cache.look(&key(200, 1), call, None, NOW + KEPT_FOR);
    assert_eq!(look, Verdict::New);
    assert_eq!((cache.shares().count(), cache.bytes()), (1, 0));
}
