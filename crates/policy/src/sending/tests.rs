//! Machines on which the order of costs differs, with noise and interruptions.

use super::*;

/// A sequence that looks random and is the same each time.
struct Noise(u64);

impl Noise {
    fn next(&mut self, below: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }

    /// The cost of one reply give or take 30 percent, and once in twenty times that of an
    /// interruption.
    fn of(&mut self, cost: u64) -> u64 {
        self.within(30, cost)
    }

    /// In a stretch of many replies half of that is levelled out.
    fn of_stretch(&mut self, time: u64) -> u64 {
        self.within(15, time)
    }

    fn within(&mut self, percent: u64, cost: u64) -> u64 {
        let noisy = cost * (100 - percent + self.next(2 * percent + 1)) / 100;
        if self.next(20) == 0 {
            noisy * 10
        } else {
            noisy
        }
    }
}

/// Costs of copying, mapping and splicing 128 KiB, in nanoseconds.
const MACHINES: [[u64; 3]; 3] = [
    [60_000, 40_000, 75_000],
    [55_000, 90_000, 30_000],
    [45_000, 70_000, 65_000],
];

const BYTES: usize = 128 << 10;

/// Sends `replies` from a machine that tells no times; returns what they have cost.
fn run(sending: &mut Sending, costs: [u64; 3], noise: &mut Noise, replies: u32) -> u64 {
    let mut total = 0;
    let mut since = 0;
    for _ in 0..replies {
        since += 1;
        if since >= sending.interval() {
            since = 0;
            let way = sending.trial();
            sending.sampled(way, BYTES, noise.of(costs[way as usize]));
            total += costs[way as usize];
        } else {
            total += costs[sending.best() as usize];
        }
    }
    total
}

#[test]
fn the_cheapest_way_is_found_within_200_replies_on_each_machine() {
    for costs in MACHINES {
        let least = *costs.iter().min().unwrap();
        for start in Way::ALL {
            for seed in 0..200 {
                let mut sending = Sending::new(start);
                let noise = &mut Noise(seed);
                run(&mut sending, costs, noise, 200);
                let found = costs[sending.best() as usize];
                assert!(
                    found * 10 <= least * 11,
                    "{costs:?} {start:?} {seed}: {sending:?}"
                );
            }
        }
    }
}

#[test]
fn trials_cost_little_once_it_is_found() {
    for costs in MACHINES {
        let least = *costs.iter().min().unwrap();
        let mut sending = Sending::new(Way::Splice);
        let noise = &mut Noise(7);
        run(&mut sending, costs, noise, 200);
        let replies = 100_000;
        let cost = run(&mut sending, costs, noise, replies);
        let most = least * u64::from(replies) * 101 / 100;
        assert!(cost <= most, "{costs:?}: {cost} of at most {most}");
    }
}

#[test]
fn it_does_not_flap_between_ways_that_cost_the_same() {
    for costs in [[50_000; 3], [50_000, 51_000, 49_000]] {
        let mut switches = 0;
        for seed in 0..20 {
            let mut sending = Sending::new(Way::Copy);
            run(&mut sending, costs, &mut Noise(seed), 100_000);
            switches += sending.switches();
        }
        assert!(switches <= 20 * 12, "{switches} in 20 runs");
    }
}

#[test]
fn a_machine_that_changes_is_noticed() {
    let mut sending = Sending::new(Way::Copy);
    let noise = &mut Noise(3);
    run(&mut sending, MACHINES[0], noise, 50_000);
    assert_eq!(sending.best(), Way::Map);
    run(&mut sending, MACHINES[1], noise, 50_000);
    assert_eq!(sending.best(), Way::Splice);
}

/// The same with stretches of replies, which take `times` to deliver.
fn run_timed(
    sending: &mut Sending,
    (costs, times): ([u64; 3], [u64; 3]),
    noise: &mut Noise,
    stretches: u32,
) -> u64 {
    go_on(sending, (costs, times), noise, stretches, &mut 0)
}

/// `since`: stretches since the last trial.
fn go_on(
    sending: &mut Sending,
    (costs, times): ([u64; 3], [u64; 3]),
    noise: &mut Noise,
    stretches: u32,
    since: &mut u32,
) -> u64 {
    let mut total = 0;
    for _ in 0..stretches {
        *since += 1;
        let mut way = sending.best();
        if *since >= sending.interval() {
            *since = 0;
            let is_timed = sending.is_timing();
            way = sending.trial();
            sending.sampled(way, BYTES, noise.of(costs[way as usize]));
            if is_timed {
                sending.delivered(way, BYTES, noise.of_stretch(times[way as usize]));
            }
        }
        total += times[way as usize];
    }
    total
}

/// Costs of the sender, times to deliver, and the way that is right.
const RECEIVERS: [([u64; 3], [u64; 3], Way); 4] = [
    // The sender saves by splicing, and the receiver is the slower for it.
    ([46_000, 34_000, 25_000], [46_000, 34_000, 51_000], Way::Map),
    (
        [46_000, 44_000, 25_000],
        [47_000, 63_000, 70_000],
        Way::Copy,
    ),
    // The network is the limit: the sender alone decides.
    ([46_000, 34_000, 25_000], [1_100_000; 3], Way::Splice),
    // What is cheap for the sender is fast, too.
    (
        [46_000, 34_000, 25_000],
        [46_000, 34_000, 30_000],
        Way::Splice,
    ),
];

#[test]
fn what_the_receiver_pays_counts_where_it_delays() {
    for (costs, times, right) in RECEIVERS {
        let mut wrong = 0;
        for seed in 0..600 {
            let mut sending = Sending::new(Way::ALL[seed as usize % 3]);
            let noise = &mut Noise(seed);
            run_timed(&mut sending, (costs, times), noise, 4000);
            wrong += u32::from(sending.best() != right);
            let stretches = 20_000;
            let time = run_timed(&mut sending, (costs, times), noise, stretches);
            let most = times[right as usize] * u64::from(stretches) * 103 / 100;
            assert!(time <= most, "{times:?} {seed}: {time} of at most {most}");
        }
        assert!(
            wrong <= 18,
            "{times:?}: {wrong} of 600 were wrong at one moment"
        );
    }
}

#[test]
fn ways_that_take_the_same_time_are_not_changed_for_it() {
    let costs = ([50_000, 52_000, 50_000], [60_000, 61_000, 62_500]);
    let mut switches = 0;
    for seed in 0..20 {
        let mut sending = Sending::new(Way::Copy);
        run_timed(&mut sending, costs, &mut Noise(seed), 100_000);
        switches += sending.switches();
    }
    assert!(switches <= 20 * 12, "{switches} in 20 runs");
}

#[test]
fn connections_that_are_too_short_to_time_are_not_tried_for_ever() {
    let costs = MACHINES[2];
    let mut sending = Sending::new(Way::Splice);
    let noise = &mut Noise(5);
    run(&mut sending, costs, noise, 200);
    assert_eq!(sending.best(), Way::Copy);
    assert!(sending.interval() >= INTERVAL_MIN);
}

#[test]
fn another_connection_finds_what_is_right_for_it() {
    let [(costs, times, right), ..] = RECEIVERS;
    let mut sending = Sending::new(Way::Copy);
    let noise = &mut Noise(11);
    run_timed(&mut sending, (costs, [1_100_000; 3]), noise, 50_000);
    assert_eq!(sending.best(), Way::Splice);
    let mut sending = sending.for_another();
    assert_eq!(sending.best(), Way::Splice);
    run_timed(&mut sending, (costs, times), noise, 5000);
    assert_eq!(sending.best(), right);
}

#[test]
fn connections_that_come_and_go_seldom_try_what_others_have_found_dear() {
    let (costs, times, right) = RECEIVERS[3];
    let noise = &mut Noise(5);
    let mut sending = Sending::new(Way::Copy);
    run_timed(&mut sending, (costs, times), noise, 1000);
    let stretches = 60;
    let (mut time, mut since, connections) = (0, 0, 100);
    for _ in 0..connections {
        sending = sending.for_another();
        time += go_on(&mut sending, (costs, times), noise, stretches, &mut since);
    }
    let least = times[right as usize] * u64::from(stretches) * connections;
    assert!(time * 100 <= least * 101, "{time}, at the least {least}");
}

#[test]
fn connections_that_come_and_go_find_what_is_right_for_all_of_them() {
    let [(costs, times, right), ..] = RECEIVERS;
    let noise = &mut Noise(7);
    let mut sending = Sending::new(Way::Copy);
    run_timed(&mut sending, (costs, [1_100_000; 3]), noise, 1000);
    assert_eq!(sending.best(), Way::Splice);
    let mut since = 0;
    for _ in 0..500 {
        sending = sending.for_another();
        go_on(&mut sending, (costs, times), noise, 10, &mut since);
    }
    assert_eq!(sending.best(), right);
}

#[test]
fn what_other_connections_do_to_the_times_decides_nothing() {
    // Four clients of a machine with two processors.
    let (costs, time) = ([46_000, 34_000, 25_000], 60_000);
    let mut right = 0;
    for seed in 0..50 {
        let mut sending = Sending::new(Way::ALL[seed as usize % 3]);
        let noise = &mut Noise(seed);
        for _ in 0..2000 {
            let is_timed = sending.is_timing();
            let way = sending.trial();
            sending.sampled(way, BYTES, noise.of(costs[way as usize]));
            if is_timed {
                sending.delivered(way, BYTES, noise.within(60, time));
            }
            right += u32::from(sending.best() == Way::Splice);
        }
    }
    assert!(right >= 50 * 2000 / 100 * 97, "{right} of {}", 50 * 2000);
}

#[test]
fn what_others_do_to_the_times_of_connections_that_come_and_go_decides_nothing() {
    let (costs, time) = ([46_000, 34_000, 25_000], 60_000);
    let (mut right, mut all) = (0, 0);
    for seed in 0..50 {
        let mut sending = Sending::new(Way::Copy);
        let noise = &mut Noise(seed);
        run_timed(&mut sending, (costs, [time; 3]), noise, 100);
        let mut since = 0;
        for _ in 0..100 {
            sending = sending.for_another();
            for _ in 0..30 {
                since += 1;
                if since >= sending.interval() {
                    since = 0;
                    let way = sending.trial();
                    sending.sampled(way, BYTES, noise.of(costs[way as usize]));
                    sending.delivered(way, BYTES, noise.within(60, time));
                }
                right += u32::from(sending.best() == Way::Splice);
                all += 1;
            }
        }
    }
    assert!(right * 100 >= all * 97, "{right} of {all}");
}

#[test]
fn senseless_samples_do_no_harm() {
    let mut sending = Sending::new(Way::Copy);
    for (bytes, time) in [(0, 0), (0, u64::MAX), (usize::MAX, u64::MAX), (1, 0)] {
        for way in Way::ALL {
            sending.sampled(way, bytes, time);
            sending.delivered(way, bytes, time);
        }
    }
    assert!(sending.interval() >= 1);
}
