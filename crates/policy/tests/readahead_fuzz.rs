//! Arbitrary events for every read-ahead policy: no panic, no overflow, nothing past the end and
//! nothing above the budget, at any offset up to the last of 64 bits.

use std::time::Duration;

use pagewell_policy::readahead::{Access, AccessKind, Adaptive, Bounds, Feedback, Settings};

/// Bytes of input for one event.
const EVENT_BYTES: usize = 12;
/// The default of the generator is 64 bytes, which is five events.
const INPUT_BYTES_MAX: usize = 200 * EVENT_BYTES;

/// Numbers as they hurt: near 0, near the end, near the last offset, near the last access.
fn number(bytes: &[u8], length: u64, last: u64) -> u64 {
    let value = bytes
        .iter()
        .skip(1)
        .fold(0, |sum, byte| sum << 8 | u64::from(*byte));
    match bytes.first().copied().unwrap_or(0) % 8 {
        0 => value,
        1 => length.saturating_sub(value),
        2 => u64::MAX - value,
        3 => last.saturating_sub(value),
        4 => last.saturating_add(value & 0xFFFF),
        5 => value << 32,
        _ => last,
    }
}

/// A file that may lie anywhere.
fn bounds(offset: u64, size: u64, more: u64) -> Bounds {
    Bounds {
        start: offset.wrapping_mul(size) >> (size % 64),
        end: offset.saturating_add(more),
    }
}

fn feed(policy: &mut Adaptive, length: u64, input: &[u8]) {
    let mut now = Duration::ZERO;
    let (mut last, mut marker) = (0, 0);
    for event in input.chunks_exact(EVENT_BYTES) {
        let (what, offset) = (event[0], number(&event[1..6], length, last));
        let size = match event[6] % 4 {
            0 => 4096,
            1 => u64::from(event[7]) + 1,
            2 => u64::from(event[7]) << 12 | 1,
            _ => u64::MAX >> (event[7] % 64),
        };
        now = now.saturating_add(match event[8] % 4 {
            0 => Duration::ZERO,
            1 => Duration::from_micros(u64::from(event[9])),
            2 => Duration::from_secs(u64::from(event[9])),
            _ => Duration::from_millis(1),
        });
        let budget_bytes = match event[10] % 3 {
            0 => u64::from(event[11]) << 10,
            _ => u64::MAX,
        };
        let (offset, kind) = match what % 7 {
            0 => (marker, AccessKind::Marker),
            1 | 2 => (offset, AccessKind::Miss),
            3 => (offset, AccessKind::Late),
            4 => {
                policy.feedback(Feedback::Useful {
                    offset,
                    length: size,
                });
                continue;
            }
            5 => {
                policy.feedback(Feedback::Wasted {
                    offset,
                    length: size,
                });
                continue;
            }
            _ => {
                policy.feedback(Feedback::Refused { offset });
                continue;
            }
        };
        let plan = policy.access(&Access {
            offset,
            length: size,
            kind,
            budget_bytes,
            spare_bytes: budget_bytes,
            now,
            bounds: (size % 3 == 0).then(|| bounds(offset, size, budget_bytes)),
            latency: (size % 5 > 1).then(|| Duration::from_micros(size % 60_000)),
        });
        last = offset.saturating_add(size);
        marker = plan.marker.unwrap_or(marker);
        assert!(plan.marker.is_none_or(|marker| marker < length));
        let mut bytes = 0;
        for range in &plan.fetch {
            assert!(range.start < range.end && range.end <= length);
            bytes += range.end - range.start;
        }
        assert!(bytes <= budget_bytes);
        assert!(
            plan.release
                .is_none_or(|range| range.start < range.end && range.end <= length)
        );
    }
}

#[test]
fn arbitrary_events() {
    bolero::check!()
        .with_iterations(4000)
        .with_generator(bolero::produce::<Vec<u8>>().with().len(0..=INPUT_BYTES_MAX))
        .for_each(|input: &Vec<u8>| {
            let (choice, events) = input.split_at(input.len().min(2));
            let choice = choice
                .iter()
                .fold(0, |sum, byte| sum << 8 | usize::from(*byte));
            let lengths = [0, 1, 4097, 1 << 20, 1 << 34, u64::MAX - 1, u64::MAX];
            let length = lengths[choice % lengths.len()];
            let flash = Settings::flash(length);
            let tiny = Settings {
                page_bytes: 1 << (choice % 20),
                unit_bytes: 1,
                distance_bytes_min: 1,
                distance_bytes_max: 1,
                streams_max: 2,
                ..flash
            };
            let huge = Settings {
                distance_bytes_min: u64::MAX,
                distance_bytes_max: u64::MAX,
                batch_bytes_min: u64::MAX,
                ..flash
            };
            for settings in [flash, Settings::rotating(length), tiny, huge] {
                feed(&mut Adaptive::new(settings), length, events);
            }
            feed(&mut Adaptive::new(Settings::off()), length, events);
        });
}
