//! Which writer goes through a file once?
//!
//! Write-behind keeps a large copy from filling memory while the device is idle. A block written to
//! its end is no proof: that rule cost 8,750 waits in 10,000 writes. Required are
//!
//! - a stream: three calls, each near the end of the one before, as requests overtake each other;
//! - pages full of dirty bytes, each written once;
//! - that went to the device within no expiry interval just before;
//! - and a whole write (1 MiB, or what the device prefers) of such pages in a row.
//!
//! ```text
//!             behind            checked            end
//!   ----------+-----------------+------------------+----------> pages
//!    due, or    full and fresh,   not full yet      highest byte
//!    left alone not yet enough                      of the stream
//! ```
//!
//! A page not full when the stream is 16 MiB further, or not fresh, is left to other reasons. So is
//! all behind a stream that goes much further than it writes: random writes look so.
//!
//! Weaknesses: eight streams at a time; a call that overlaps dirty bytes spoils all its pages.

use std::ops::Range;
use std::time::Duration;

use pagewell_base::spans::Spans;

use super::Counts;
use super::dirty_map::DirtyMap;

const STREAMS_MAX: usize = 8;
/// How near its end a stream's call begins.
const REORDER_BYTES: u64 = 16 << 20;
const IDLE_FORGET: Duration = Duration::from_secs(5);
/// After the first.
const PROOF_CALLS: u32 = 2;
/// How much further than a call writes a stream may go.
const JUMP_BYTES: u64 = 1 << 20;
/// Least that is written behind a stream at a time.
pub(super) const BEHIND_BYTES_MIN: u64 = 1 << 20;
/// Of one generation: 64 KiB of memory.
const SPANS_MAX: usize = 2048;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fill {
    Empty,
    /// Dirty bytes were written once, none to the device lately.
    Partial,
    /// All bytes are such.
    Full,
    /// Left to the other reasons to write.
    Stale,
}

#[derive(Clone, Copy, Debug)]
struct Stream {
    /// First page not dealt with.
    behind: u64,
    /// First page not known to be full and fresh.
    checked: u64,
    /// After the highest byte.
    end: u64,
    calls: u32,
    pushed: bool,
    seen: Duration,
}

/// Pages written to the device lately.
///
/// Two generations, as in nbdkit: after an expiry interval the young one becomes the old one, so a
/// page is known for one to two. With too many spans write-behind rests for an interval.
#[derive(Debug, Default)]
struct Recent {
    young: Spans,
    old: Spans,
    turned: Duration,
    blind_until: Duration,
}

impl Recent {
    fn turn(&mut self, now: Duration, interval: Duration) {
        let age = now.saturating_sub(self.turned);
        if age < interval {
            return;
        }
        let young = std::mem::take(&mut self.young);
        self.old = match age < interval.saturating_mul(2) {
            true => young,
            false => Spans::default(),
        };
        self.turned = now;
    }

    fn note(&mut self, first: u64, end: u64, now: Duration, interval: Duration) -> bool {
        self.turn(now, interval);
        self.young.insert(first, end);
        if self.young.count() <= SPANS_MAX {
            return false;
        }
        self.young.clear();
        self.blind_until = now.saturating_add(interval);
        true
    }

    fn contains(&mut self, page: u64, now: Duration, interval: Duration) -> bool {
        self.turn(now, interval);
        let end = page.saturating_add(1);
        now < self.blind_until || self.young.overlaps(page, end) || self.old.overlaps(page, end)
    }
}

#[derive(Debug, Default)]
pub(super) struct Habit {
    streams: Vec<Stream>,
    recent: Recent,
}

impl Habit {
    pub(super) fn note(&mut self, pages: Range<u64>, now: Duration, interval: Duration) {
        self.recent.note(pages.start, pages.end, now, interval);
    }

    pub(super) fn is_recent(&mut self, page: u64, now: Duration, interval: Duration) -> bool {
        self.recent.contains(page, now, interval)
    }

    /// A call wrote `start..end`, partly for the first time. Returns pages to write.
    pub(super) fn step(
        &mut self,
        (start, end): (u64, u64),
        behind_bytes: u64,
        map: &DirtyMap,
        now: Duration,
        counts: &mut Counts,
    ) -> Vec<Range<u64>> {
        let near = |stream: &Stream| stream.end.abs_diff(start);
        let first = start / map.page_bytes();
        let candidates = self.streams.iter_mut().filter(|stream| {
            let passed = stream.pushed && first < stream.behind.saturating_sub(1);
            let idle = now.saturating_sub(stream.seen) >= IDLE_FORGET;
            near(stream) <= REORDER_BYTES && !passed && !idle
        });
        let Some(stream) = candidates.min_by_key(|stream| near(stream)) else {
            counts.streams += 1;
            self.begin(start, end, map.page_bytes(), now);
            return Vec::new();
        };
        let first = start.div_ceil(map.page_bytes());
        if !stream.pushed && first < stream.behind {
            // The first calls came in another order.
            stream.behind = first;
            stream.checked = first;
        }
        stream.seen = now;
        stream.calls = stream.calls.saturating_add(1);
        stream.end = stream.end.max(end);
        counts.sequential += 1;
        if stream.calls < PROOF_CALLS {
            return Vec::new();
        }
        stream.jump(end - start, map, counts);
        stream.check(behind_bytes, map, counts)
    }

    fn begin(&mut self, start: u64, end: u64, page_bytes: u64, now: Duration) {
        let first = start.div_ceil(page_bytes);
        let stream = Stream {
            behind: first,
            checked: first,
            end,
            calls: 0,
            pushed: false,
            seen: now,
        };
        if self.streams.len() < STREAMS_MAX {
            self.streams.push(stream);
        } else if let Some(oldest) = self.streams.iter_mut().min_by_key(|stream| stream.seen) {
            *oldest = stream;
        }
    }
}

impl Stream {
    /// Returns the pages gathered, unless one was written again meanwhile.
    fn push(&mut self, map: &DirtyMap, counts: &mut Counts) -> Option<Range<u64>> {
        let gathered = self.behind..self.checked;
        let stale = |page: &u64| !map.is_fresh(*page);
        if let Some(last) = gathered.clone().rev().find(stale) {
            counts.behind_spared_pages += last + 1 - self.behind;
            self.behind = last + 1;
            return None;
        }
        self.behind = self.checked;
        self.pushed = true;
        Some(gathered)
    }

    fn jump(&mut self, written_bytes: u64, map: &DirtyMap, counts: &mut Counts) {
        let last = self.end.saturating_sub(REORDER_BYTES) / map.page_bytes();
        let most = written_bytes.saturating_add(JUMP_BYTES) / map.page_bytes();
        let passed = last.saturating_sub(self.checked);
        if passed > most {
            counts.behind_skipped_pages += passed;
            self.checked = last;
            self.behind = last;
        }
    }

    /// Looks at pages left behind. Returns those to write.
    fn check(&mut self, behind_bytes: u64, map: &DirtyMap, counts: &mut Counts) -> Vec<Range<u64>> {
        let mut due = Vec::new();
        loop {
            counts.behind_looked_pages += 1;
            let (start, end) = map.span(self.checked);
            if end > self.end || start == end {
                return due;
            }
            match map.fill(self.checked) {
                Fill::Full => {
                    self.checked += 1;
                    if (self.checked - self.behind) * map.page_bytes() >= behind_bytes {
                        due.extend(self.push(map, counts));
                    }
                    continue;
                }
                Fill::Partial | Fill::Empty if self.end - end < REORDER_BYTES => return due,
                Fill::Partial => counts.behind_skipped_pages += 1,
                Fill::Empty => {
                    // A jump is not followed page by page.
                    let last = self.end / map.page_bytes();
                    let next = map.next_page(self.checked);
                    let next = next.map_or(last, |page| page.min(last));
                    counts.behind_skipped_pages += next - self.checked;
                    self.checked = next;
                    self.behind = next;
                    continue;
                }
                Fill::Stale => counts.behind_spared_pages += 1,
            }
            self.checked += 1;
            self.behind = self.checked;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Duration = Duration::from_secs(30);

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_page_is_known_for_one_interval_at_least_and_two_at_most() {
        for second in 0..30 {
            let mut recent = Recent::default();
            recent.note(1, 2, at(0), INTERVAL);
            recent.note(7, 9, at(second), INTERVAL);
            assert!(recent.contains(8, at(second + 29), INTERVAL));
            assert!(!recent.contains(9, at(second + 29), INTERVAL));
            assert!(!recent.contains(8, at(second + 60), INTERVAL));
        }
    }

    #[test]
    fn after_a_long_silence_nothing_is_recent() {
        let mut recent = Recent::default();
        recent.note(7, 8, at(1), INTERVAL);
        assert!(!recent.contains(7, at(100), INTERVAL));
    }

    #[test]
    fn too_many_spans_make_blind_for_an_interval() {
        let mut recent = Recent::default();
        let overflows =
            (0..3000).filter(|page| recent.note(2 * page, 2 * page + 1, at(9), INTERVAL));
        assert_eq!(overflows.count(), 1);
        assert!(recent.contains(1, at(38), INTERVAL));
        assert!(!recent.contains(1, at(39), INTERVAL));
    }
}
