//! A cache and a device in virtual time, as far as a read-ahead policy can see them.

#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]
// Each test binary uses its part.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::time::Duration;

use pagewell_policy::readahead::{Access, AccessKind, Adaptive, Bounds, Counts, Feedback, Plan};

pub const KIB: u64 = 1024;
pub const MIB: u64 = 1024 * KIB;
/// A unit of the model: the smallest thing that is cached.
pub const UNIT: u64 = 4 * KIB;
/// A page of the model: what a marker belongs to.
pub const PAGE: u64 = 64 * KIB;

/// An access with all the budget there is.
pub fn access(offset: u64, length: u64, kind: AccessKind, milliseconds: u64) -> Access {
    Access {
        offset,
        length,
        kind,
        budget_bytes: u64::MAX,
        spare_bytes: 0,
        now: Duration::from_millis(milliseconds),
        bounds: None,
        latency: None,
    }
}

/// Bytes that a plan asks for.
pub fn bytes_of(plan: &Plan) -> u64 {
    plan.fetch.iter().map(|range| range.end - range.start).sum()
}

/// What a device takes for a request: a latency, a seek if it does not go on, and its bytes.
#[derive(Clone, Copy, Debug)]
pub struct Device {
    pub latency: Duration,
    pub seek: Duration,
    pub bytes_per_second: u64,
    /// Requests at the same time, each at the full rate. Without a limit (0) only the bytes of
    /// requests follow each other and their latencies overlap, as on the way to a server.
    pub depth: usize,
}

impl Device {
    /// A server at the end of a way.
    pub fn far(latency: Duration, bytes_per_second: u64) -> Self {
        Self {
            latency,
            seek: Duration::ZERO,
            bytes_per_second,
            depth: 0,
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Unit {
    ready: Duration,
    ahead: bool,
    read: bool,
    order: u64,
}

/// What the model has seen.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    pub reads: u64,
    pub demand_requests: u64,
    pub ahead_requests: u64,
    pub ahead_bytes: u64,
    pub wasted_bytes: u64,
    pub late: u64,
    pub waited: Duration,
}

/// The model. Panics when the policy breaks its contract.
pub struct Model {
    pub policy: Adaptive,
    pub seen: Seen,
    /// What the next reads say about the end of their file.
    pub bounds: Option<Bounds>,
    /// What the next reads say about memory.
    pub spare_bytes: u64,
    length: u64,
    capacity_units: usize,
    unread_bytes_max: u64,
    unread_bytes: u64,
    device: Device,
    busy: Vec<Duration>,
    /// The least time of a request, on a device that is far.
    least: Option<(Duration, Duration)>,
    head: u64,
    units: HashMap<u64, Unit>,
    order: BTreeMap<u64, u64>,
    next_order: u64,
    markers: Vec<u64>,
}

impl Model {
    pub fn new(policy: Adaptive, length: u64, capacity: u64, device: Device) -> Self {
        Self {
            policy,
            seen: Seen::default(),
            bounds: None,
            spare_bytes: 0,
            length,
            capacity_units: usize::try_from(capacity / UNIT).unwrap(),
            unread_bytes_max: capacity / 2,
            unread_bytes: 0,
            device,
            busy: vec![Duration::ZERO; device.depth.max(1)],
            least: None,
            head: 0,
            units: HashMap::new(),
            order: BTreeMap::new(),
            next_order: 0,
            markers: Vec::new(),
        }
    }

    /// What the device takes at least is known before the first read.
    pub fn know_latency(&mut self) {
        self.least = Some((self.device.latency, Duration::ZERO));
    }

    pub fn counts(&self) -> Counts {
        self.policy.counts()
    }

    /// Reads, and says when the bytes are there.
    pub fn read(&mut self, offset: u64, length: u64, now: Duration) -> Duration {
        let end = (offset + length).min(self.length);
        self.seen.reads += 1;
        let mut done = now;
        let mut at = offset;
        while at < end {
            let part_end = end.min((at / PAGE + 1) * PAGE);
            done = done.max(self.read_part(at, part_end, end, now));
            at = part_end;
        }
        self.seen.waited += done - now;
        done
    }

    fn read_part(&mut self, offset: u64, end: u64, read_end: u64, now: Duration) -> Duration {
        let wanted = offset / UNIT..end.div_ceil(UNIT);
        let mut missing = false; // not there at all
        let mut demanded = false; // on its way, but not because of read-ahead
        let mut ready = now;
        for unit in wanted.clone() {
            match self.units.get(&unit) {
                Some(unit) => {
                    ready = ready.max(unit.ready);
                    demanded |= unit.ready > now && !unit.ahead;
                }
                None => missing = true,
            }
        }
        let marked = self
            .markers
            .iter()
            .position(|marker| marker / PAGE == offset / PAGE);
        let kind = match () {
            () if missing || demanded => Some(AccessKind::Miss),
            () if ready > now => Some(AccessKind::Late),
            () if marked.is_some() => Some(AccessKind::Marker),
            () => None,
        };
        if let Some(place) = marked {
            self.markers.swap_remove(place);
        }
        if missing {
            // The reader fetches all that its read lacks, in one request.
            let lacking: Vec<u64> = (offset / UNIT..read_end.div_ceil(UNIT))
                .filter(|unit| !self.units.contains_key(unit))
                .collect();
            self.seen.demand_requests += 1;
            ready = ready.max(self.fetch(&lacking, now, false));
        }
        self.seen.late += u64::from(kind == Some(AccessKind::Late));
        if let Some(kind) = kind {
            let length = end - offset;
            let budget_bytes = self.budget_bytes();
            let told = Access {
                offset,
                length,
                kind,
                budget_bytes,
                spare_bytes: self.spare_bytes,
                now,
                bounds: self.bounds,
                latency: self.latency(now),
            };
            let plan = self.policy.access(&told);
            self.carry_out(plan, now);
        }
        for unit in wanted {
            self.mark_read(unit);
        }
        ready
    }

    /// The least time of an answer, once there was one.
    fn latency(&self, now: Duration) -> Option<Duration> {
        let known = self.least.filter(|(_, came)| *came <= now);
        known.map(|(least, _)| least)
    }

    /// What was read ahead and not yet used may be half of the cache.
    fn budget_bytes(&self) -> u64 {
        self.unread_bytes_max.saturating_sub(self.unread_bytes)
    }

    fn mark_read(&mut self, number: u64) {
        if let Some(unit) = self.units.get_mut(&number)
            && !unit.read
        {
            unit.read = true;
            if unit.ahead {
                self.unread_bytes -= UNIT;
                let offset = number * UNIT;
                self.policy.feedback(Feedback::Useful {
                    offset,
                    length: UNIT,
                });
            }
        }
    }

    fn carry_out(&mut self, plan: Plan, now: Duration) {
        assert!(
            bytes_of(&plan) <= self.budget_bytes(),
            "over the budget: {plan:?}"
        );
        for range in plan.fetch.into_iter().chain(plan.along) {
            assert!(
                range.start < range.end && range.end <= self.length,
                "{range:?}"
            );
            let fresh: Vec<u64> = (range.start / UNIT..range.end.div_ceil(UNIT))
                .filter(|unit| !self.units.contains_key(unit))
                .collect();
            if !fresh.is_empty() {
                self.seen.ahead_requests += 1;
                self.seen.ahead_bytes += fresh.len() as u64 * UNIT;
                self.unread_bytes += fresh.len() as u64 * UNIT;
                self.fetch(&fresh, now, true);
            }
        }
        if let Some(marker) = plan.marker {
            assert!(marker < self.length);
            self.markers.push(marker);
        }
        if let Some(range) = plan.release {
            self.release(range);
        }
    }

    /// Frees what was read in a range.
    fn release(&mut self, range: Range<u64>) {
        assert!(
            range.start < range.end && range.end <= self.length,
            "{range:?}"
        );
        for number in range.start.div_ceil(UNIT)..range.end / UNIT {
            if self.units.get(&number).is_some_and(|unit| unit.read) {
                self.remove(number);
            }
        }
    }

    fn fetch(&mut self, units: &[u64], now: Duration, ahead: bool) -> Duration {
        let server = (0..self.busy.len())
            .min_by_key(|server| self.busy[*server])
            .unwrap();
        let first = units.first().copied().unwrap_or(0);
        let seek = if first == self.head {
            Duration::ZERO
        } else {
            self.device.seek
        };
        self.head = units.last().copied().unwrap_or(0) + 1;
        let far = self.device.depth == 0;
        let latency = self.device.latency;
        let mut ready = now.max(self.busy[server]) + latency + seek;
        if far {
            // What was sent before is still on its way; the first bytes are sent when it is out.
            ready = (now + latency).max(self.busy[server]);
        }
        for number in units {
            let nanoseconds = UNIT * 1_000_000_000 / self.device.bytes_per_second;
            ready += Duration::from_nanos(nanoseconds);
            self.insert(
                *number,
                Unit {
                    ready,
                    ahead,
                    read: false,
                    order: self.next_order,
                },
            );
        }
        self.busy[server] = ready;
        let took = ready - now;
        if far && self.least.is_none_or(|(least, _)| took < least) {
            let came = self.least.map_or(ready, |(_, came)| came);
            self.least = Some((took, came));
        }
        ready
    }

    fn insert(&mut self, number: u64, unit: Unit) {
        self.next_order += 1;
        self.order.insert(unit.order, number);
        self.units.insert(number, unit);
        while self.units.len() > self.capacity_units {
            let Some((_, oldest)) = self.order.first_key_value() else {
                break;
            };
            self.remove(*oldest);
        }
    }

    fn remove(&mut self, number: u64) {
        let Some(unit) = self.units.remove(&number) else {
            return;
        };
        self.order.remove(&unit.order);
        if unit.ahead && !unit.read {
            self.seen.wasted_bytes += UNIT;
            self.unread_bytes -= UNIT;
            let offset = number * UNIT;
            self.policy.feedback(Feedback::Wasted {
                offset,
                length: UNIT,
            });
        }
    }
}

/// A generator of numbers that are the same in each run (xorshift).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }
}
