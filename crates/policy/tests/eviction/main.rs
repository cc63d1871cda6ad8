//! All policies against a model, and what S3-FIFO promises.

#![allow(unreachable_pub)]

mod compared;

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

use compared::{Clock, Eviction, Lru, Replay, Sieve};
use pagewell_policy::eviction::{
    Arrival, FrameIndex, Frames, HEAT_MAX, S3Fifo, SKIPS_MAX, SPARED_MAX,
};
use proptest::prelude::*;

const MIB: u64 = 1 << 20;
const PAGE_BYTES: u64 = 64 << 10;

/// A policy for so many places.
type New = fn(u32) -> Box<dyn Eviction>;

const POLICIES: [(&str, New); 4] = [
    ("s3-fifo", |frames| Box::new(S3Fifo::new(frames))),
    ("lru", |frames| Box::new(Lru::new(frames))),
    ("clock", |frames| Box::new(Clock::new(frames))),
    ("sieve", |frames| Box::new(Sieve::new(frames))),
];

/// The owner of the pages.
struct Owner {
    heat: Vec<Cell<u8>>,
    stuck: RefCell<BTreeSet<u32>>,
    asked: Cell<usize>,
}

impl Owner {
    fn new(frames: u32) -> Self {
        Self {
            heat: vec![Cell::new(0); frames as usize],
            stuck: RefCell::default(),
            asked: Cell::new(0),
        }
    }

    fn warm(&self, frame: u32) {
        let heat = &self.heat[frame as usize];
        heat.set((heat.get() + 1).min(HEAT_MAX));
    }
}

impl Frames for Owner {
    fn is_evictable(&self, frame: FrameIndex) -> bool {
        self.asked.set(self.asked.get() + 1);
        !self.stuck.borrow().contains(&frame.0)
    }

    fn heat(&self, frame: FrameIndex) -> u8 {
        self.heat[frame.0 as usize].get()
    }

    fn cool(&self, frame: FrameIndex, heat: u8) {
        assert!(heat <= HEAT_MAX);
        self.heat[frame.0 as usize].set(heat);
    }
}

/// Runs operations; the resident places are the model.
fn follow(mut policy: Box<dyn Eviction>, frames: u32, operations: &[(u8, u32, u64)]) {
    let owner = Owner::new(frames);
    let mut resident = BTreeSet::new();
    for (operation, number, key) in operations {
        let frame = number % frames;
        match operation {
            0..=3 if !resident.contains(&frame) => {
                let arrival = if key % 3 == 0 {
                    Arrival::Stream
                } else {
                    Arrival::Demand
                };
                owner.cool(FrameIndex(frame), 0);
                policy.inserted(FrameIndex(frame), *key, arrival);
                resident.insert(frame);
            }
            0..=5 => {
                owner.warm(frame);
                policy.hit(FrameIndex(frame));
            }
            6 => {
                policy.removed(FrameIndex(frame));
                resident.remove(&frame);
            }
            7 => {
                owner.stuck.borrow_mut().insert(frame);
            }
            8 => {
                owner.stuck.borrow_mut().remove(&frame);
            }
            _ => {
                let may_go = resident.difference(&owner.stuck.borrow()).count();
                let victim = policy.victim(&owner);
                assert_eq!(victim.is_some(), may_go > 0);
                if let Some(victim) = victim {
                    assert!(!owner.stuck.borrow().contains(&victim.0));
                    assert!(resident.remove(&victim.0), "not there");
                }
            }
        }
    }
    owner.stuck.borrow_mut().clear();
    while let Some(victim) = policy.victim(&owner) {
        assert!(resident.remove(&victim.0), "went twice");
    }
    assert!(resident.is_empty(), "lost: {resident:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn every_place_is_known_once_and_only_what_may_go_goes(
        frames in 1_u32..40,
        operations in prop::collection::vec((0_u8..12, any::<u32>(), 0_u64..100), 0..200),
    ) {
        for (_, new) in POLICIES {
            follow(new(frames), frames, &operations);
        }
    }
}

#[test]
fn with_everything_stuck_the_search_is_bounded_and_goes_on_later() {
    const FRAMES: u32 = 10_000;
    for (name, new) in POLICIES {
        let owner = Owner::new(FRAMES);
        let mut policy = new(FRAMES);
        for frame in 0..FRAMES {
            let arrival = [Arrival::Demand, Arrival::Stream][(frame % 2) as usize];
            policy.inserted(FrameIndex(frame), u64::from(frame), arrival);
            owner.stuck.borrow_mut().insert(frame);
        }
        assert_eq!(policy.victim(&owner), None);
        assert!(owner.asked.get() <= 4 * (SKIPS_MAX as usize + 1), "{name}");
        owner.stuck.borrow_mut().remove(&(FRAMES - 1));
        let found = (0..FRAMES).find_map(|_| policy.victim(&owner));
        assert_eq!(found, Some(FrameIndex(FRAMES - 1)), "{name}");
    }
}

#[test]
fn with_everything_hot_the_search_is_bounded_and_finds_one() {
    const FRAMES: u32 = 10_000;
    for (name, new) in POLICIES {
        let owner = Owner::new(FRAMES);
        let mut policy = new(FRAMES);
        for frame in 0..FRAMES {
            policy.inserted(FrameIndex(frame), u64::from(frame), Arrival::Demand);
            owner.cool(FrameIndex(frame), HEAT_MAX);
        }
        assert!(policy.victim(&owner).is_some(), "{name}");
        assert!(owner.asked.get() <= SPARED_MAX as usize + 1, "{name}");
    }
}

#[test]
fn places_the_arena_does_not_have_are_ignored() {
    for (_, new) in POLICIES {
        let mut policy = new(0);
        policy.inserted(FrameIndex(7), 1, Arrival::Demand);
        policy.hit(FrameIndex(7));
        policy.removed(FrameIndex(u32::MAX));
        assert_eq!(policy.victim(&Owner::new(0)), None);
    }
}

#[test]
fn a_page_hit_in_the_small_queue_or_named_by_a_ghost_is_kept() {
    let owner = Owner::new(10);
    let mut policy = S3Fifo::new(10);
    for frame in 0..10 {
        policy.inserted(FrameIndex(frame), u64::from(frame), Arrival::Demand);
    }
    owner.warm(0);
    assert_eq!(policy.victim(&owner), Some(FrameIndex(1)), "0 went to main");
    assert_eq!(owner.heat(FrameIndex(0)), 0, "and starts anew there");
    policy.inserted(FrameIndex(1), 1, Arrival::Demand);
    let victims: Vec<u32> = std::iter::from_fn(|| policy.victim(&owner))
        .map(|f| f.0)
        .collect();
    // The small queue down to its share, main, and the rest.
    assert_eq!(victims, [2, 3, 4, 5, 6, 7, 8, 0, 1, 9]);
}

#[test]
fn pages_of_streams_go_first_above_their_share() {
    let owner = Owner::new(20);
    let mut policy = S3Fifo::new(20);
    for frame in 0..20 {
        let arrival = [Arrival::Demand, Arrival::Stream][(frame % 2) as usize];
        policy.inserted(FrameIndex(frame), u64::from(frame), arrival);
    }
    owner.warm(3);
    let victims: Vec<u32> = std::iter::from_fn(|| policy.victim(&owner))
        .map(|f| f.0)
        .collect();
    assert_eq!(victims[..4], [1, 5, 7, 9], "3 was hit");
    let demanded = [0, 2, 4, 6, 8, 10, 12, 14, 3, 16, 18];
    assert_eq!(victims[4..15], demanded);
    assert_eq!(victims[15..], [11, 13, 15, 17, 19]);
}

/// 4 GiB stream through 256 MiB in which 64 MiB are warm. The warm set is read at a twentieth
/// of the rate of the stream: once while five times the cache streams by.
fn warm_pages_left(policy: Box<dyn Eviction>, arrival: Arrival) -> u64 {
    const FRAMES: u64 = 256 * MIB / PAGE_BYTES;
    const WARM: u64 = 64 * MIB / PAGE_BYTES;
    let mut cache = Replay::new(FRAMES as u32, policy);
    for _ in 0..4 {
        for page in 0..WARM {
            cache.access(page, Arrival::Demand);
        }
    }
    for page in 0..4096 * MIB / PAGE_BYTES {
        cache.access(1_000_000 + page, arrival);
        if page % 20 == 0 {
            cache.access(page / 20 % WARM, Arrival::Demand);
        }
    }
    let left = (0..WARM).filter(|page| cache.is_resident(*page)).count() as u64;
    left * 100 / WARM
}

#[test]
fn a_stream_leaves_the_warm_set_where_it_is() {
    let frames = 4096;
    for arrival in [Arrival::Stream, Arrival::Demand] {
        let s3fifo = warm_pages_left(Box::new(S3Fifo::new(frames)), arrival);
        assert!(s3fifo >= 90, "{s3fifo} % left, {arrival:?}");
        let lru = warm_pages_left(Box::new(Lru::new(frames)), arrival);
        assert!(lru < 50, "{lru} % left, {arrival:?}");
    }
}

#[test]
fn a_page_that_cannot_go_after_all_keeps_its_name() {
    let mut policy = S3Fifo::new(10);
    let owner = Owner::new(10);
    for frame in 0..10 {
        policy.inserted(FrameIndex(frame), u64::from(frame), Arrival::Demand);
    }
    assert_eq!(policy.victim(&owner), Some(FrameIndex(0)));
    policy.put_back(FrameIndex(0));
    // The ghosts know it, so it is in the main queue.
    let order: Vec<u32> =
        std::iter::from_fn(|| policy.victim(&owner).map(|frame| frame.0)).collect();
    assert_eq!(order, [1, 2, 3, 4, 5, 6, 7, 8, 0, 9]);
}
