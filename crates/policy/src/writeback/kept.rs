//! Bytes that are written and not safe yet: the device may lose them, and say so.
//!
//! Problem: a server takes writes without making them durable, and forgets them when it is started
//! again. The cache has to have them until a flush was good, or they are gone for good.
//!
//! Rule: what is written goes from *under write-out* to *kept*. A flush covers all that is kept
//! when it begins; when it succeeds that is clean, and when it does not, everything that is kept is
//! dirty again.
//!
//! ```text
//!                                  flush begins            flush is good
//!   under write-out -----> kept ----------------> covered ---------------> clean
//!                           |                        |
//!   dirty <-----------------+-----------------------+  flush failed
//! ```
//!
//! A kept page is memory that a writer cannot have, so it counts like a dirty one where writers
//! ask for room. So that they get it, a flush is wanted when kept pages alone are more than the
//! background limit, or an eighth of the limit and writers are about to be slowed; and when the
//! oldest was kept for as long as a dirty byte may be. After a failure that has to wait, like
//! writes, but only a moment after a replay.
//!
//! Why there is no deadlock: what is dirty and not under write-out is at most seven eighths of the
//! limit, and a page less than all of it, or it is being written. A writer that is refused sees the
//! whole limit used. Then what is kept is at least an eighth, and a page, when the writes have
//! ended, so a flush is wanted.

use std::time::Duration;

use pagewell_base::spans::Span;

use super::settings::retry_delay;
use super::{Extent, WriteBack, WriteId};

/// More spans than this make a flush wanted: each costs memory that no limit counts.
const SPANS_MAX: usize = 65_536;
/// Kept pages are in the way of writers when they are one part in so many of the background limit.
const KEPT_DIVISOR: u64 = 4;
/// The wait after a replay. Short, and always the same: a server that was started again once is
/// well, and the longer bytes wait for their flush, the likelier it is that they are lost again.
const REPLAY_DELAY: Duration = Duration::from_millis(10);

/// What is known of flushes.
#[derive(Debug, Default)]
pub(super) struct Flushes {
    /// Bytes that no flush covers yet are kept since then.
    since: Option<Duration>,
    /// One is on its way.
    running: bool,
    retry_at: Duration,
    retry_delay: Duration,
}

impl WriteBack {
    /// [`WriteBack::finished`] with success, of a write that the device may still lose.
    pub fn finished_unflushed(&mut self, id: WriteId, now: Duration) {
        let bytes = &mut self.bytes;
        let start = self.starts.get(&id);
        let Some(flight) = start.and_then(|start| bytes.flights.get(start)) else {
            return self.finished(id, true, now);
        };
        if flight.doubtful {
            // Dirty again, though it has ended well: one write may be several messages.
            return self.put_back(id, now);
        }
        if !flight.forgotten {
            for &(start, end) in &flight.parts {
                bytes.kept.insert(start, end);
            }
            self.flushes.since.get_or_insert(self.now.max(now));
        }
        // The pages see it when the write lands.
        self.finished(id, true, now);
    }

    /// A flush of the device begins: it covers what was written until now.
    pub fn flush_begins(&mut self) {
        self.flushes.running = true;
        self.flushes.since = None;
        let kept = std::mem::take(&mut self.bytes.kept);
        self.bytes.covered.extend(kept);
    }

    /// The flush was good: what it covered is clean. Says what that is.
    pub fn flush_succeeded(&mut self) -> Vec<Extent> {
        self.flushes = Flushes {
            since: self.flushes.since,
            ..Flushes::default()
        };
        let clean: Vec<Span> = std::mem::take(&mut self.bytes.covered).iter().collect();
        for &(start, end) in &clean {
            self.refresh(start, end);
        }
        clean.into_iter().map(Extent::of).collect()
    }

    /// A flush failed: everything that is kept is dirty again. Says how many bytes that are. When
    /// it failed because the device had lost what was not flushed, and is well, the next one need
    /// not wait for long (`is_replay`).
    pub fn flush_failed(&mut self, is_replay: bool, now: Duration) -> u64 {
        let now = self.advance(now);
        let flushes = &mut self.flushes;
        flushes.running = false;
        flushes.since = None;
        flushes.retry_delay = if is_replay {
            REPLAY_DELAY
        } else {
            retry_delay(flushes.retry_delay)
        };
        flushes.retry_at = now.saturating_add(flushes.retry_delay);
        for flight in self.bytes.flights.values_mut() {
            flight.doubtful = true;
        }
        let mut bytes = 0;
        for spans in [&mut self.bytes.kept, &mut self.bytes.covered].map(std::mem::take) {
            bytes += spans.bytes();
            for (start, end) in spans.iter() {
                self.bytes.dirty.insert(start, end);
                self.refresh(start, end);
            }
        }
        self.counts.replayed_bytes += bytes;
        bytes
    }

    /// After [`WriteBack::flush_failed`] of a flush that had been given up: another is on its way.
    pub fn flush_goes_on(&mut self) {
        self.flushes.running = true;
    }

    /// Whether a flush is wanted although nobody waits for one.
    #[must_use]
    pub fn wants_flush(&self, now: Duration) -> bool {
        self.flush_at().is_some_and(|at| at <= self.now.max(now))
    }

    /// When a flush will be wanted, if nothing else happens.
    pub(super) fn flush_at(&self) -> Option<Duration> {
        let since = self.flushes.since.filter(|_| !self.flushes.running)?;
        if self.bytes.kept.is_empty() {
            return None; // all of it was discarded
        }
        let at = if self.is_pressed() {
            Duration::ZERO
        } else {
            since.saturating_add(self.settings.expire)
        };
        Some(at.max(self.flushes.retry_at))
    }

    /// Whether kept pages are in the way of writers.
    fn is_pressed(&self) -> bool {
        let limits = self.limits();
        let kept_pages = self.share.totals().only_kept.get();
        let kept_bytes = self.pages.memory_bytes(kept_pages);
        let held_bytes = self.store_memory_bytes();
        // The limit need not be a number of pages.
        let is_full = held_bytes.saturating_add(self.settings.page_bytes) > limits.hard_bytes;
        let is_tight = is_full || held_bytes > limits.free_run_bytes;
        let share_bytes = limits.background_bytes / KEPT_DIVISOR;
        let share_bytes = share_bytes - share_bytes % self.settings.page_bytes;
        kept_bytes > limits.background_bytes
            || is_tight && kept_bytes > 0 && kept_bytes >= share_bytes
            || self.bytes.kept.count() > SPANS_MAX
    }

    /// Bytes that are written and wait for a flush.
    #[must_use]
    pub fn kept_bytes(&self) -> u64 {
        self.bytes.kept.bytes() + self.bytes.covered.bytes()
    }

    /// The memory of pages that are nothing else but kept, in bytes.
    #[must_use]
    pub fn kept_memory_bytes(&self) -> u64 {
        self.pages.memory_bytes(self.pages.only_kept)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Admission, Settings, TagState};
    use super::*;

    const PAGE: u64 = 65_536;
    const NOW: Duration = Duration::from_secs(1);

    fn bytes(offset: u64, length: u64) -> Extent {
        Extent { offset, length }
    }

    fn policy(pages: u64) -> WriteBack {
        WriteBack::new(Settings::new(pages * PAGE))
    }

    /// Writes everything out that is tagged or due.
    fn write(policy: &mut WriteBack, now: Duration) -> u64 {
        let mut bytes = 0;
        while let Some(write) = policy.next(now) {
            bytes += write.extent.length;
            policy.finished_unflushed(write.id, now);
        }
        bytes
    }

    #[test]
    fn what_is_written_is_kept_until_a_flush_was_good() {
        let mut policy = policy(100);
        policy.wrote(bytes(100, 1000), NOW);
        let tag = policy.tag(bytes(0, PAGE), NOW);
        assert_eq!(write(&mut policy, NOW), 1000);
        assert_eq!(policy.tag_state(tag), TagState::Written);
        let all = bytes(0, u64::MAX);
        assert!(policy.is_dirty(all) && !policy.is_unwritten(all));
        assert_eq!((policy.dirty_bytes(), policy.kept_bytes()), (0, 1000));
        assert_eq!(
            (policy.dirty_pages(), policy.kept_memory_bytes()),
            (1, PAGE)
        );
        policy.flush_begins();
        // Written while the flush is on its way: the next one covers it.
        policy.wrote(bytes(600, 1000), NOW);
        policy.tag(bytes(0, PAGE), NOW);
        assert_eq!(write(&mut policy, NOW), 1000);
        assert_eq!(policy.flush_succeeded(), [bytes(100, 1000)]);
        assert_eq!(policy.kept_bytes(), 1000);
        assert_eq!(policy.dirty_in(all).collect::<Vec<_>>(), [bytes(600, 1000)]);
        policy.flush_begins();
        policy.flush_succeeded();
        assert!(!policy.is_dirty(all));
        assert_eq!((policy.dirty_pages(), policy.kept_memory_bytes()), (0, 0));
        assert_eq!(policy.next_at(NOW), None);
    }

    #[test]
    fn everything_kept_is_dirty_again_after_a_replay() {
        let mut policy = policy(100);
        policy.wrote(bytes(0, 1000), NOW);
        policy.tag(bytes(0, PAGE), NOW);
        write(&mut policy, NOW);
        policy.flush_begins();
        policy.wrote(bytes(500, 1000), NOW);
        policy.wrote(bytes(PAGE, 10), NOW);
        policy.tag(bytes(0, PAGE), NOW);
        write(&mut policy, NOW);
        assert_eq!(policy.discard(bytes(0, 100)), 0);
        assert_eq!(policy.flush_failed(true, NOW), 400 + 1000 + 500);
        assert_eq!((policy.dirty_bytes(), policy.kept_bytes()), (1410, 0));
        policy.tag(bytes(0, PAGE), NOW);
        assert_eq!(write(&mut policy, NOW), 1400);
        assert_eq!(policy.forget(), 1410);
        assert_eq!((policy.dirty_pages(), policy.kept_bytes()), (0, 0));
    }

    #[test]
    fn an_old_one_makes_a_flush_wanted_and_a_failure_puts_it_off() {
        let mut policy = policy(100);
        policy.wrote(bytes(0, 1000), NOW);
        policy.tag(bytes(0, PAGE), NOW);
        write(&mut policy, NOW);
        let at = NOW + policy.settings.expire;
        assert_eq!(policy.next_at(NOW), Some(at));
        assert!(!policy.wants_flush(NOW) && policy.wants_flush(at));
        policy.flush_begins();
        assert!(!policy.wants_flush(at));
        assert_eq!(policy.next_at(at), None);
        policy.flush_failed(false, at);
        policy.tag(bytes(0, PAGE), at);
        write(&mut policy, at);
        assert!(!policy.wants_flush(at));
        let later = at + policy.settings.expire * 2;
        assert!(policy.wants_flush(later));
    }

    #[test]
    fn the_late_failure_of_a_flush_that_was_given_up_is_not_the_end_of_the_next() {
        let mut policy = policy(100);
        policy.wrote(bytes(0, 1000), NOW);
        policy.tag(bytes(0, PAGE), NOW);
        write(&mut policy, NOW);
        policy.flush_begins();
        policy.flush_failed(false, NOW);
        policy.tag(bytes(0, PAGE), NOW);
        write(&mut policy, NOW);
        policy.flush_begins();
        // The one before is answered.
        policy.flush_failed(false, NOW);
        policy.flush_goes_on();
        policy.tag(bytes(0, PAGE), NOW);
        write(&mut policy, NOW);
        let later = NOW + policy.settings.expire * 2;
        assert_eq!(policy.kept_bytes(), 1000);
        assert!(!policy.wants_flush(later), "one is on its way");
        assert_eq!(policy.next_at(later), None);
        policy.flush_succeeded();
        assert!(policy.wants_flush(later), "it did not cover them");
    }

    #[test]
    fn writers_who_are_refused_get_room_by_flushes_whatever_the_limit() {
        for pages in [1, 2, 3, 4, 5, 7, 16, 33] {
            // The limit need not be a number of pages.
            for more in [0, 1, PAGE / 2, PAGE - 1] {
                let settings = Settings::new(pages * PAGE + more);
                let mut policy = WriteBack::new(settings);
                let mut now = NOW;
                let mut flushes = 0;
                for page in 0..500 {
                    let one = bytes(page * PAGE, 100);
                    while policy.admit(one, true, now) == Admission::Refused {
                        let moved = write(&mut policy, now) > 0;
                        let wanted = policy.wants_flush(now);
                        assert!(moved || wanted, "nothing helps, {pages} pages, page {page}");
                        if wanted {
                            policy.flush_begins();
                            assert!(!policy.flush_succeeded().is_empty());
                            flushes += 1;
                        }
                    }
                    policy.wrote(one, now);
                    assert!(policy.dirty_pages() <= pages);
                    now += Duration::from_millis(1);
                }
                let least = 500 / pages;
                assert!(flushes > 0 && flushes <= least * 5, "{flushes} for {pages}");
            }
        }
    }
}
