use super::*;

const FAR: Duration = Duration::from_millis(50);
const READ: u64 = 128 << 10;

fn access(offset: u64, kind: AccessKind, now: Duration, latency: Duration) -> Access {
    Access {
        offset,
        length: READ,
        kind,
        budget_bytes: u64::MAX,
        now,
        bounds: None,
        latency: Some(latency),
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
