//! Clients in virtual time, as a server serves them: a connection makes a call when its pass lets
//! it, and pays.

use std::num::NonZeroU64;
use std::time::Duration;

use pagewell_base::mix::Random;
use proptest::prelude::*;

use super::*;

fn rates(calls: u64, bytes: u64) -> Rates {
    Rates {
        calls: NonZeroU64::new(calls),
        bytes: NonZeroU64::new(bytes),
    }
}

/// One that always has a call to make.
#[derive(Clone, Debug)]
struct Greedy {
    client: Client,
    export: Export,
    cost: Cost,
    pass: Pass,
    had: Cost,
    /// The longest between two calls.
    longest: Duration,
    called_at: Duration,
}

impl Greedy {
    fn new(client: Client, export: Export, bytes: u64) -> Self {
        Self {
            client,
            export,
            cost: Cost { calls: 1, bytes },
            pass: Pass::default(),
            had: Cost::default(),
            longest: Duration::ZERO,
            called_at: Duration::ZERO,
        }
    }
}

/// The latest that a connection asks again.
const ASK_AFTER: Duration = Duration::from_millis(100);

/// Lets them call until `end`; a call takes `step` at least.
fn simulate(limiter: &mut Limiter, all: &mut [Greedy], (begin, end): (Duration, Duration)) {
    let step = Duration::from_micros(10);
    let mut next: Vec<Duration> = vec![begin; all.len()];
    loop {
        let first = (0..all.len()).min_by_key(|at| next[*at]).unwrap();
        let (now, one) = (next[first], &mut all[first]);
        if now >= end {
            return;
        }
        if let Some((wait, _)) = limiter.wait(now, one.client, &mut one.pass) {
            next[first] = now + wait.clamp(Duration::from_nanos(1), ASK_AFTER);
            continue;
        }
        limiter.charge(now, (one.client, one.export), one.cost, &mut one.pass);
        one.had.calls += one.cost.calls;
        one.had.bytes += one.cost.bytes;
        one.longest = one.longest.max(now - one.called_at);
        one.called_at = now;
        next[first] = now + step;
    }
}

fn assert_near(had: u64, expected: f64, percent: f64) {
    let ratio = had as f64 / expected;
    let allowed = percent / 100.0;
    assert!(
        (1.0 - allowed..1.0 + allowed).contains(&ratio),
        "{had} of {expected}"
    );
}

const SECONDS: Duration = Duration::from_secs(10);

#[test]
fn a_client_has_its_calls_or_its_bytes_however_many_connections_it_has() {
    for connections in [1, 7, 64] {
        for (limit, bytes, calls) in [
            (rates(500, 0), 100, 500.0),
            (rates(0, 1 << 20), 4096, 256.0),
            (rates(100_000, 1 << 20), 4096, 256.0),
            (rates(20, 1 << 30), 1 << 20, 20.0),
        ] {
            let mut limiter = Limiter::default();
            limiter.limit_clients(limit);
            let mut all = vec![Greedy::new(7, 0, bytes); connections];
            simulate(&mut limiter, &mut all, (Duration::ZERO, SECONDS));
            let had = all.iter().map(|one| one.had.calls).sum();
            // The burst is a hundredth of it, and each connection may be a call ahead.
            let ahead = 100.0 * connections as f64 / (calls * 10.0);
            assert_near(had, calls * 10.0, 1.5 + ahead);
            let starved = all.iter().map(|one| one.longest).max().unwrap();
            let turn = connections as f64 / calls;
            assert!(starved.as_secs_f64() < 2.0 * turn + 0.2, "{starved:?}");
        }
    }
}

#[test]
fn clients_do_not_wait_for_each_other() {
    let mut limiter = Limiter::default();
    limiter.limit_clients(rates(100, 0));
    let mut all = vec![Greedy::new(1, 0, 100); 50];
    all.push(Greedy::new(2, 0, 100));
    simulate(&mut limiter, &mut all, (Duration::ZERO, SECONDS));
    let other = all.pop().unwrap();
    assert_near(other.had.calls, 1000.0, 2.0);
    assert_near(all.iter().map(|one| one.had.calls).sum(), 1000.0, 7.0);
}

#[test]
fn an_export_is_shared_equally_and_used_fully() {
    let mut limiter = Limiter::default();
    limiter.limit_exports([(3, rates(1000, 0)), (4, rates(0, 0))]);
    let mut all = vec![Greedy::new(1, 3, 100); 40];
    all.extend([Greedy::new(2, 3, 100), Greedy::new(3, 4, 100)]);
    simulate(&mut limiter, &mut all, (Duration::ZERO, SECONDS));
    let [free, second] = [all.pop().unwrap(), all.pop().unwrap()];
    assert!(free.had.calls > 900_000, "another export has no limit");
    let first: u64 = all.iter().map(|one| one.had.calls).sum();
    assert_near(first, 5000.0, 4.0);
    assert_near(second.had.calls, 5000.0, 4.0);
    assert_near(first + second.had.calls, 10_000.0, 2.0);
    // One alone has all of it.
    all.iter_mut().for_each(|one| one.had = Cost::default());
    let times = (SECONDS, 2 * SECONDS);
    simulate(&mut limiter, &mut all, times);
    assert_near(all.iter().map(|one| one.had.calls).sum(), 10_000.0, 3.0);
}

#[test]
fn a_new_connection_waits_for_the_debts_of_its_client() {
    let mut limiter = Limiter::default();
    limiter.limit_clients(rates(0, 1000));
    limiter.limit_exports([(1, rates(0, 100)), (2, rates(7, 0))]);
    let bytes = |bytes| Cost { calls: 1, bytes };
    let mut pass = Pass::default();
    limiter.charge(Duration::ZERO, (1, 1), bytes(3000), &mut pass);
    let wait =
        |limiter: &mut Limiter, client, pass: &mut Pass| limiter.wait(Duration::ZERO, client, pass);
    let expected = Some((Duration::from_secs(30) - BURST, Reason::Export));
    assert_eq!(wait(&mut limiter, 1, &mut pass), expected);
    assert_eq!(wait(&mut limiter, 1, &mut Pass::default()), expected);
    assert_eq!(wait(&mut limiter, 2, &mut Pass::default()), None);
    // What is given back shortens the wait of that connection, and of new ones.
    limiter.refund(Duration::ZERO, (1, 1), 2000, &mut pass);
    let expected = Some((Duration::from_secs(10) - BURST, Reason::Export));
    assert_eq!(wait(&mut limiter, 1, &mut pass), expected);
    assert_eq!(wait(&mut limiter, 1, &mut Pass::default()), expected);
    limiter.limit_exports([]);
    let expected = Some((Duration::from_secs(1) - BURST, Reason::Client));
    assert_eq!(wait(&mut limiter, 1, &mut pass), expected);
}

#[test]
fn a_limit_that_is_taken_away_or_raised_frees_what_waits() {
    let mut limiter = Limiter::default();
    limiter.limit_clients(rates(1, 0));
    limiter.limit_exports([(1, rates(1, 0))]);
    let mut pass = Pass::default();
    let cost = Cost {
        calls: 1000,
        bytes: 0,
    };
    limiter.charge(Duration::ZERO, (1, 1), cost, &mut pass);
    let (wait, reason) = limiter.wait(Duration::ZERO, 1, &mut pass).unwrap();
    assert!(wait > Duration::from_secs(999) && reason == Reason::Client);
    limiter.limit_clients(Rates::default());
    let (wait, reason) = limiter.wait(Duration::ZERO, 1, &mut pass).unwrap();
    assert!(wait > Duration::from_secs(999) && reason == Reason::Export);
    limiter.limit_exports([]);
    assert!(!limiter.is_limit());
    assert_eq!(limiter.wait(Duration::ZERO, 1, &mut pass), None);
}

#[test]
fn one_connection_waits_for_both_of_its_exports() {
    let mut limiter = Limiter::default();
    limiter.limit_exports([(1, rates(1, 0)), (2, rates(10, 0))]);
    let mut pass = Pass::default();
    for export in [1, 2] {
        let cost = Cost { calls: 5, bytes: 0 };
        limiter.charge(Duration::ZERO, (1, export), cost, &mut pass);
    }
    let (wait, _) = limiter.wait(Duration::ZERO, 1, &mut pass).unwrap();
    assert_eq!(wait, Duration::from_secs(5) - BURST);
}

#[test]
fn a_new_connection_waits_for_the_debts_of_the_account_that_its_client_shares() {
    let mut limiter = Limiter::default();
    limiter.limit_clients(rates(0, 1000));
    let bytes = |bytes| Cost { calls: 1, bytes };
    let last = CLIENTS_MAX as Client;
    let mut pass = Pass::default();
    for client in 0..=last {
        pass = Pass::default();
        limiter.charge(Duration::ZERO, (client, 0), bytes(3000), &mut pass);
    }
    let wait = |limiter: &mut Limiter, pass: &mut Pass| {
        let waits = limiter.wait(Duration::ZERO, last, pass);
        waits.map_or(Duration::ZERO, |(wait, _)| wait)
    };
    let seconds = |number| Duration::from_secs(number) - BURST;
    assert_eq!(wait(&mut limiter, &mut pass), seconds(3));
    assert_eq!(wait(&mut limiter, &mut Pass::default()), seconds(3));
    limiter.refund(Duration::ZERO, (last, 0), 1000, &mut pass);
    assert_eq!(wait(&mut limiter, &mut pass), seconds(2));
    assert_eq!(wait(&mut limiter, &mut Pass::default()), seconds(2));
}

#[test]
fn a_million_addresses_take_a_bounded_table() {
    let mut limiter = Limiter::default();
    limiter.limit_clients(rates(10, 0));
    let mut waits = 0;
    for client in 0..1_000_000 {
        // A client in debt keeps its bucket.
        let now = Duration::from_micros(client as u64);
        let mut pass = Pass::default();
        let cost = Cost { calls: 2, bytes: 0 };
        limiter.charge(now, (client, 0), cost, &mut pass);
        waits += u64::from(limiter.wait(now, client, &mut pass).is_some());
    }
    assert!(limiter.clients.len() <= CLIENTS_MAX + 1);
    assert!(waits > 0);
    let mut pass = Pass::default();
    let later = Duration::from_hours(48);
    limiter.charge(later, (1, 0), Cost::default(), &mut pass);
    assert_eq!(limiter.wait(later, 1, &mut pass), None);
    assert!(
        limiter.clients.len() < 10,
        "those that are free are forgotten"
    );
}

proptest! {
    #[test]
    fn no_time_has_more_than_its_rate_and_a_burst(
        seed: u64,
        calls in 1_u64..2000,
        bytes in (64_u64 << 10)..(64 << 20),
        clients in 1_usize..6,
        connections in 1_usize..4,
        of_export: bool,
    ) {
        let mut limiter = Limiter::default();
        let limit = rates(calls, bytes);
        match of_export {
            true => limiter.limit_exports([(1, limit)]),
            false => limiter.limit_clients(limit),
        }
        let mut random = Random(seed);
        let mut passes = vec![Pass::default(); clients * connections];
        let mut had = vec![Cost::default(); clients];
        let most = Cost { calls: 1, bytes: 1 << 20 };
        let mut now = Duration::ZERO;
        for _ in 0..3000 {
            now += Duration::from_micros(random.below(3000));
            let at = random.below(passes.len() as u64) as usize;
            if limiter.wait(now, (at % clients) as Client, &mut passes[at]).is_none() {
                let cost = Cost { calls: 1, bytes: random.below(1 << 20) };
                let client = at % clients;
                limiter.charge(now, (client as Client, 1), cost, &mut passes[at]);
                had[client].calls += 1;
                had[client].bytes += cost.bytes;
            }
            // A call on each connection may be ahead, and bursts of parts add up.
            let time = now.as_secs_f64() + BURST.as_secs_f64() * 3.0;
            let ahead = if of_export { passes.len() } else { connections } as f64;
            let all = had.iter().fold(Cost::default(), |sum, one| Cost {
                calls: sum.calls + one.calls,
                bytes: sum.bytes + one.bytes,
            });
            let limited = if of_export { vec![all] } else { had.clone() };
            for one in limited {
                let calls_max = calls as f64 * time + ahead * most.calls as f64;
                let bytes_max = bytes as f64 * time + ahead * most.bytes as f64;
                prop_assert!(one.calls as f64 <= calls_max + 1.0, "{one:?} at {now:?}");
                prop_assert!(one.bytes as f64 <= bytes_max + 1.0, "{one:?} at {now:?}");
            }
        }
    }
}
