//! One test for each rule of the elevator.

use std::time::Duration;

use super::Class::{AsynchronousRead, AsynchronousWrite, SynchronousRead};
use super::*;

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;
const START: Duration = Duration::from_secs(10);
const LATER: Duration = Duration::from_secs(20);

fn rotating() -> Settings {
    Settings {
        depth_max: 1,
        ..Settings::rotating(MIB)
    }
}

fn without_deadline() -> Settings {
    Settings {
        read_deadline: None,
        write_deadline: None,
        ..rotating()
    }
}

/// An elevator that names requests 0, 1, 2... as they come.
struct Bench {
    elevator: Elevator,
    next: u64,
}

impl Bench {
    fn new(settings: Settings) -> Self {
        Self {
            elevator: Elevator::new(settings),
            next: 0,
        }
    }

    fn add(&mut self, class: Class, offset: u64, length: u64) -> RequestId {
        self.add_at(class, offset, length, START)
    }

    fn add_at(&mut self, class: Class, offset: u64, length: u64, now: Duration) -> RequestId {
        let id = RequestId(self.next);
        self.next += 1;
        let extent = Extent { offset, length };
        assert!(self.elevator.insert(id, (0, extent), class, now));
        id
    }

    /// Dispatches and completes one.
    fn step(&mut self, now: Duration) -> Option<Dispatch> {
        let dispatch = self.elevator.dispatch(now)?;
        assert!(self.elevator.complete(dispatch.id));
        Some(dispatch)
    }

    /// Dispatches and completes all.
    fn drain(&mut self, now: Duration) -> Vec<Dispatch> {
        std::iter::from_fn(|| self.step(now)).collect()
    }
}

fn starts(dispatches: &[Dispatch]) -> Vec<u64> {
    dispatches.iter().map(|d| d.extent.offset).collect()
}

fn ids(dispatch: &Dispatch) -> Vec<u64> {
    dispatch.members.iter().map(|member| member.id.0).collect()
}

#[test]
fn the_order_is_ascending_from_the_head_then_from_the_lowest() {
    let mut bench = Bench::new(without_deadline());
    bench.add(SynchronousRead, 50 * MIB, 4 * KIB);
    bench.step(START);
    for offset in [90, 10, 70, 30, 50] {
        bench.add(SynchronousRead, offset * MIB, 4 * KIB);
    }
    let dispatches = bench.drain(START);
    assert_eq!(
        starts(&dispatches),
        [70 * MIB, 90 * MIB, 10 * MIB, 30 * MIB, 50 * MIB]
    );
    let reasons: Vec<Reason> = dispatches.iter().map(|d| d.reason).collect();
    use Reason::{Order, Wrap};
    assert_eq!(reasons, [Order, Order, Wrap, Order, Order]);
    let counts = bench.elevator.counts();
    assert_eq!((counts.wraps, counts.backward_moves), (1, 1));
}

#[test]
fn adjacent_requests_are_merged_up_to_exactly_the_longest_transfer() {
    for settings in [rotating(), Settings::flash(16 * KIB)] {
        let settings = Settings {
            transfer_bytes_max: 16 * KIB,
            ..settings
        };
        let mut bench = Bench::new(settings);
        for page in 0..11 {
            bench.add(SynchronousRead, page * 4 * KIB, 4 * KIB);
        }
        let dispatches = bench.drain(START);
        let lengths: Vec<u64> = dispatches.iter().map(|d| d.extent.length).collect();
        assert_eq!(lengths, [16 * KIB, 16 * KIB, 12 * KIB]);
        assert_eq!(bench.elevator.counts().merged, 8);
    }
}

#[test]
fn a_request_longer_than_the_longest_transfer_goes_alone() {
    let mut bench = Bench::new(rotating());
    bench.add(SynchronousRead, 0, 3 * MIB);
    bench.add(SynchronousRead, 3 * MIB, KIB);
    let members: Vec<usize> = bench.drain(START).iter().map(|d| d.members.len()).collect();
    assert_eq!(members, [1, 1]);
}

#[test]
fn objects_neither_travel_together_nor_wait_for_each_other() {
    for settings in [rotating(), Settings::flash(MIB)] {
        let mut elevator = Elevator::new(Settings {
            read_gap_bytes_max: 8 * KIB,
            ..settings
        });
        let mut add = |id, object, offset, class| {
            let length = 4 * KIB;
            let bytes = (object, Extent { offset, length });
            assert!(elevator.insert(RequestId(id), bytes, class, START));
        };
        // The same bytes of two objects, one read and one written; and what would be adjacent.
        add(0, 7, 4 * KIB, AsynchronousWrite);
        add(1, 8, 4 * KIB, SynchronousRead);
        add(2, 7, 8 * KIB, AsynchronousWrite);
        add(3, 8, 0, SynchronousRead);
        let mut seen = Vec::new();
        while let Some(dispatch) = elevator.dispatch(START) {
            seen.push((
                dispatch.object,
                dispatch.extent.offset / KIB,
                ids(&dispatch),
            ));
            assert!(elevator.complete(dispatch.id));
        }
        seen.sort_unstable();
        assert_eq!(seen, [(7, 4, vec![0, 2]), (8, 0, vec![3, 1])]);
        assert_eq!(elevator.counts().overlapped, 0);
    }
}

#[test]
fn growth_goes_backward_too_and_members_ascend() {
    let mut bench = Bench::new(rotating());
    bench.add(AsynchronousRead, 100 * KIB, 4 * KIB);
    bench.add(AsynchronousRead, 96 * KIB, 4 * KIB);
    bench.add(SynchronousRead, 104 * KIB, 4 * KIB);
    bench.add(AsynchronousRead, 108 * KIB, 4 * KIB);
    let dispatch = bench.step(START).unwrap();
    assert_eq!(ids(&dispatch), [1, 0, 2, 3]);
    assert_eq!(dispatch.class, SynchronousRead, "the more urgent one");
}

#[test]
fn growth_backward_stops_at_the_head() {
    let mut bench = Bench::new(without_deadline());
    bench.add(SynchronousRead, 0, 100 * KIB);
    bench.step(START);
    bench.add(AsynchronousRead, 90 * KIB, 10 * KIB);
    bench.add(SynchronousRead, 100 * KIB, 4 * KIB);
    let dispatch = bench.step(START).unwrap();
    assert_eq!((ids(&dispatch), dispatch.reason), (vec![2], Reason::Order));
    assert_eq!(bench.step(START).unwrap().reason, Reason::Wrap);
}

#[test]
fn small_holes_are_bridged_by_reads_and_never_by_writes() {
    for (class, settings, expected) in [
        (SynchronousRead, rotating(), 1),
        (AsynchronousWrite, rotating(), 2),
        (SynchronousRead, Settings::flash(MIB), 2),
    ] {
        let mut bench = Bench::new(settings);
        bench.add(class, 0, 4 * KIB);
        bench.add(class, 36 * KIB, 4 * KIB);
        let dispatches = bench.drain(START);
        assert_eq!(dispatches.len(), expected, "{class:?}");
        let counts = bench.elevator.counts();
        let bridged = if expected == 1 { 32 * KIB } else { 0 };
        assert_eq!(counts.bridged_gap_bytes, bridged);
    }
    let mut bench = Bench::new(rotating());
    bench.add(SynchronousRead, 0, 4 * KIB);
    bench.add(SynchronousRead, 36 * KIB + 1, 4 * KIB);
    assert_eq!(bench.drain(START).len(), 2, "one byte too wide");
}

#[test]
fn overlapping_reads_are_never_in_one_dispatch() {
    let mut bench = Bench::new(rotating());
    bench.add(SynchronousRead, 0, 8 * KIB);
    bench.add(SynchronousRead, 4 * KIB, 8 * KIB);
    bench.add(SynchronousRead, 8 * KIB, 8 * KIB);
    let members: Vec<Vec<u64>> = bench.drain(START).iter().map(ids).collect();
    assert_eq!(members, [vec![0, 2], vec![1]]);
}

#[test]
fn reads_and_writes_are_never_in_one_dispatch() {
    let mut bench = Bench::new(rotating());
    bench.add(AsynchronousRead, 0, 4 * KIB);
    bench.add(AsynchronousWrite, 4 * KIB, 4 * KIB);
    bench.add(AsynchronousRead, 8 * KIB, 4 * KIB);
    let members: Vec<Vec<u64>> = bench.drain(START).iter().map(ids).collect();
    assert_eq!(members, [vec![0, 2], vec![1]]);
}

#[test]
fn what_overlaps_a_write_keeps_its_order() {
    let mut bench = Bench::new(Settings::rotating(MIB));
    bench.add(AsynchronousWrite, 0, 8 * KIB);
    bench.add(SynchronousRead, 4 * KIB, 8 * KIB);
    bench.add(AsynchronousWrite, 8 * KIB, 8 * KIB);
    assert_eq!(bench.elevator.counts().overlapped, 2);
    for expected in 0..3 {
        let dispatch = bench.elevator.dispatch(START).unwrap();
        assert_eq!(ids(&dispatch), [expected]);
        assert_eq!(bench.elevator.dispatch(START), None, "the rest waits");
        assert!(bench.elevator.complete(dispatch.id));
    }
}

#[test]
fn an_overdue_request_goes_next() {
    let mut bench = Bench::new(rotating());
    bench.add_at(AsynchronousRead, 0, KIB, START);
    let write = bench.add_at(AsynchronousWrite, 9 * MIB, KIB, START);
    for number in 1..4 {
        let now = START + READ_DEADLINE - Duration::from_nanos(1);
        bench.add_at(SynchronousRead, number * 10 * MIB, KIB, now);
    }
    let almost = START + READ_DEADLINE - Duration::from_nanos(1);
    assert_eq!(bench.step(almost).unwrap().extent.offset, 10 * MIB);
    let overdue = bench.step(START + READ_DEADLINE).unwrap();
    assert_eq!((ids(&overdue), overdue.reason), (vec![0], Reason::Deadline));
    let onward = bench.step(START + READ_DEADLINE).unwrap();
    assert_eq!(onward.extent.offset, 20 * MIB, "goes on from there");
    let mut bench = Bench::new(rotating());
    bench.elevator.insert(
        write,
        (
            0,
            Extent {
                offset: 0,
                length: 1,
            },
        ),
        AsynchronousWrite,
        START,
    );
    bench.add_at(SynchronousRead, 10 * MIB, KIB, START + WRITE_DEADLINE);
    assert_eq!(
        bench.step(START + WRITE_DEADLINE).unwrap().reason,
        Reason::Deadline
    );
}

/// The elevator of HSFS became first come, first served when everything was overdue.
#[test]
fn the_order_survives_load() {
    let mut bench = Bench::new(rotating());
    let mut place = 7;
    for number in 0..2000 {
        place = (place * 7919 + 13) % 100_003;
        let came = START + Duration::from_micros(number);
        bench.add_at(SynchronousRead, place * MIB, 8 * KIB, came);
    }
    let dispatches = bench.drain(LATER);
    let sent: usize = dispatches.iter().map(|d| d.members.len()).sum();
    assert_eq!(sent, 2000);
    let counts = bench.elevator.counts();
    assert!(counts.deadline_picks > 0 && counts.deadline_postponed > 0);
    let batch = BATCH_BYTES.div_ceil(SEEK_CHARGE_BYTES + 8 * KIB);
    assert!(counts.deadline_picks <= counts.dispatched / batch + 1);
    let moves_back = starts(&dispatches)
        .windows(2)
        .filter(|w| w[1] < w[0])
        .count() as u64;
    assert_eq!(moves_back, counts.backward_moves);
    assert!(moves_back <= counts.wraps + counts.deadline_picks);
    assert!(moves_back < counts.dispatched / 8, "{counts:?}");
}

/// Whatever comes in front of it, a request goes within a batch for each older one and its own.
#[test]
fn a_deadline_bounds_the_wait_and_without_one_requests_starve() {
    let wait = |settings: Settings| {
        let mut bench = Bench::new(settings);
        bench.add_at(SynchronousRead, 1 << 40, KIB, START);
        bench.step(START);
        let low = bench.add_at(SynchronousRead, 0, KIB, START);
        for number in 1..1000_u64 {
            let offset = (1 << 40) + number * MIB;
            bench.add_at(SynchronousRead, offset, 8 * KIB, LATER);
            if bench.step(LATER).unwrap().members[0].id == low {
                return Some(number);
            }
        }
        None
    };
    assert_eq!(wait(without_deadline()), None);
    assert!(wait(rotating()).unwrap() <= 16);
}

#[test]
fn classes_keep_to_their_depths() {
    let mut bench = Bench::new(Settings::rotating(MIB));
    for class in Class::ALL {
        let base = (class as u64) << 40;
        for number in 0..40 {
            bench.add(class, base + number * 10 * MIB, KIB);
        }
    }
    let mut of = [0; 3];
    while let Some(dispatch) = bench.elevator.dispatch(START) {
        of[dispatch.class as usize] += 1;
    }
    assert_eq!(of, [10, 3, 10]);
    assert_eq!(bench.elevator.in_flight(), 23);
    assert_eq!(bench.elevator.counts().depth_refusals, 1);
}

#[test]
fn minimums_are_granted_however_busy_the_others_are() {
    for (depth_max, expected) in [
        (1, [1, 0, 0]),
        (2, [1, 1, 0]),
        (4, [2, 1, 1]),
        (13, [10, 1, 2]),
    ] {
        let settings = Settings {
            depth_max,
            ..Settings::rotating(MIB)
        };
        let mut bench = Bench::new(settings);
        for class in [AsynchronousWrite, AsynchronousRead, SynchronousRead] {
            for number in 0..40 {
                bench.add(class, ((class as u64) << 40) + number * 10 * MIB, KIB);
            }
        }
        let mut of = [0; 3];
        while let Some(dispatch) = bench.elevator.dispatch(START) {
            of[dispatch.class as usize] += 1;
        }
        assert_eq!(of, expected, "{depth_max} places");
    }
}

#[test]
fn a_run_goes_on_before_a_more_urgent_class_but_not_for_ever() {
    let mut bench = Bench::new(without_deadline());
    for number in 0..16 {
        bench.add(AsynchronousRead, number * MIB, MIB);
    }
    bench.step(START);
    let reader = bench.add(SynchronousRead, 100 * MIB, 8 * KIB);
    let before = std::iter::from_fn(|| bench.step(START))
        .take_while(|dispatch| dispatch.members[0].id != reader)
        .map(|dispatch| dispatch.extent.length);
    assert_eq!(before.sum::<u64>() + MIB, RUN_BYTES_MAX);
    assert_eq!(bench.step(START).unwrap().reason, Reason::Wrap);
}

#[test]
fn a_promoted_request_is_more_urgent_and_keeps_its_age() {
    let mut bench = Bench::new(rotating());
    bench.add(AsynchronousRead, 10 * MIB, KIB);
    let waited_for = bench.add(AsynchronousRead, 20 * MIB, KIB);
    bench.elevator.promote(waited_for, SynchronousRead);
    bench.elevator.promote(waited_for, AsynchronousRead);
    bench.elevator.promote(RequestId(99), SynchronousRead);
    assert_eq!(bench.elevator.counts().promoted, 1);
    let dispatch = bench.elevator.dispatch(START).unwrap();
    assert_eq!((ids(&dispatch), dispatch.class), (vec![1], SynchronousRead));
    bench.elevator.promote(waited_for, SynchronousRead);
    assert_eq!(bench.elevator.counts().promoted, 1, "it is gone");

    let mut bench = Bench::new(rotating());
    let old = bench.add(AsynchronousRead, 0, KIB);
    bench.add_at(SynchronousRead, 10 * MIB, KIB, LATER);
    bench.elevator.promote(old, SynchronousRead);
    assert_eq!(ids(&bench.step(LATER).unwrap()), [0], "overdue at once");
}

#[test]
fn plain_is_first_come_first_served_one_by_one() {
    let mut bench = Bench::new(Settings::plain());
    let classes = [AsynchronousWrite, AsynchronousRead, SynchronousRead];
    for (number, class) in classes.iter().cycle().take(9).enumerate() {
        bench.add(*class, (9 - number as u64) * KIB, KIB);
    }
    let dispatch = bench.elevator.dispatch(LATER).unwrap();
    assert_eq!(bench.elevator.dispatch(LATER), None);
    assert!(bench.elevator.complete(dispatch.id));
    let order: Vec<u64> = bench.drain(LATER).iter().flat_map(ids).collect();
    assert_eq!(order, [1, 2, 3, 4, 5, 6, 7, 8]);
}

#[test]
fn flash_goes_as_it_came() {
    let mut bench = Bench::new(Settings::flash(MIB));
    for offset in [5, 3, 9, 1] {
        bench.add(SynchronousRead, offset * MIB, KIB);
    }
    let order = starts(&bench.drain(START));
    assert_eq!(order, [5 * MIB, 3 * MIB, 9 * MIB, MIB]);
}

#[test]
fn what_makes_no_sense_is_refused() {
    let mut elevator = Elevator::new(rotating());
    let mut insert = |id, offset, length| {
        elevator.insert(
            RequestId(id),
            (0, Extent { offset, length }),
            SynchronousRead,
            START,
        )
    };
    assert!(!insert(1, 0, 0));
    assert!(!insert(1, u64::MAX, 1));
    assert!(insert(1, u64::MAX - 1, 1));
    assert!(!insert(1, 0, 1), "the name is in use");
    assert_eq!(elevator.counts().refused, 3);
    let dispatch = elevator.dispatch(START).unwrap();
    assert!(elevator.complete(dispatch.id));
    assert!(!elevator.complete(dispatch.id), "done already");
    assert!(!elevator.complete(DispatchId(77)));
}
