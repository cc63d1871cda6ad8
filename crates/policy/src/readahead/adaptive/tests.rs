use super::*;

const MIB: u64 = 1 << 20;
const FAR: Duration = Duration::from_millis(50);
const READ: u64 = 128 << 10;

fn access(offset: u64, kind: AccessKind, now: Duration, latency: Duration) -> Access {
    Access {
        offset,
        length: READ,
        kind,
        budget_bytes: u64::MAX,
        spare_bytes: 0,
        now,
        bounds: None,
        latency: Some(latency),
    }
}

/// A stream that waited for each window of a far device, where it is now, and the time.
fn learnt() -> (Adaptive, u64, Duration) {
    let mut policy = Adaptive::new(Settings {
        batch_bytes_min: MIB,
        block_bytes: Some(MIB),
        ..Settings::flash(1 << 40)
    });
    let (mut position, mut now) = (0, FAR);
    let mut plan = policy.access(&access(0, AccessKind::Miss, now, FAR));
    for _ in 0..5 {
        position = plan.fetch.last().unwrap().end - READ;
        now += FAR;
        plan = policy.access(&access(position, AccessKind::Late, now, FAR));
    }
    assert!(policy.learnt.at(FAR) > 16 * MIB, "{policy:?}");
    (policy, position + READ, now)
}

#[test]
fn a_live_stream_does_not_restore_what_refused_memory_has_halved() {
    let (mut policy, position, now) = learnt();
    let before = policy.learnt.at(FAR);
    let offset = position + 4 * MIB;
    policy.feedback(Feedback::Refused { offset });
    assert_eq!(policy.learnt.at(FAR), before / 2);
    for (touch, kind) in [AccessKind::Marker, AccessKind::Late, AccessKind::Late]
        .into_iter()
        .enumerate()
    {
        let offset = position + touch as u64 * MIB;
        let now = now + FAR * u32::try_from(touch + 1).unwrap();
        policy.access(&access(offset, kind, now, FAR));
        assert_eq!(policy.learnt.at(FAR), before / 2, "{kind:?} {policy:?}");
    }
}

#[test]
fn what_was_needed_far_away_is_not_learnt_at_a_latency_that_dips() {
    let (mut policy, mut position, mut now) = learnt();
    let before = policy.learnt.at(FAR);
    for kind in [AccessKind::Marker, AccessKind::Late, AccessKind::Marker] {
        // One answer came out of the server's memory.
        now += FAR;
        position += MIB;
        policy.access(&access(position, kind, now, FAR / 50));
        assert_eq!(policy.learnt.at(FAR), before, "{kind:?} {policy:?}");
    }
}

#[test]
fn without_read_ahead_nothing_is_ever_asked_for() {
    let mut none = Adaptive::new(Settings::off());
    for step in 0..100 {
        let now = Duration::from_millis(step);
        let told = access(step * READ, AccessKind::Miss, now, FAR);
        assert_eq!(none.access(&told), Plan::default());
    }
    assert_eq!((none.counts().random, none.counts().plans), (100, 0));
}

/// What is fetched along with the reads at random of one object.
fn scattered(policy: &mut Adaptive, reads: std::ops::Range<u64>) -> Vec<std::ops::Range<u64>> {
    let plans = reads.map(|number| {
        let offset = (number * number * 7919 % 797) * READ;
        policy.access(&Access {
            spare_bytes: u64::MAX,
            bounds: Some(crate::readahead::Bounds {
                start: 0,
                end: 100 * MIB,
            }),
            ..access(offset, AccessKind::Miss, FAR * number as u32, FAR)
        })
    });
    plans.filter_map(|plan| plan.along).collect()
}

#[test]
fn what_comes_along_ends_with_waste_and_begins_with_another_object() {
    let settings = Settings {
        file_alignment_bytes: Some(1 << 40),
        brings_along: true,
        ..Settings::flash(1 << 41)
    };
    let mut policy = Adaptive::new(settings);
    let pieces = scattered(&mut policy, 1..12);
    assert_eq!(pieces.first().unwrap().start, 0);
    let (offset, length) = (MIB, READ);
    policy.feedback(Feedback::Wasted { offset, length });
    assert_eq!(scattered(&mut policy, 12..40), []);
    policy.gone(0);
    assert_eq!(scattered(&mut policy, 40..52).first().unwrap().start, 0);
    let alone = Settings {
        brings_along: false,
        ..settings
    };
    assert_eq!(scattered(&mut Adaptive::new(alone), 1..40), []);
}
