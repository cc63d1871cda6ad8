//! Ends attempts of calls without a reply.
//!
//! Over TCP a reply is lost only with its connection, so without one the server is slow, or
//! silently gone. A connection that brings nothing for the time of an attempt is given up, and its
//! calls are sent again over the next one. A server that answers other calls gets four times as
//! long. Each further attempt waits longer: a call that takes a server longer than the first must
//! end, too.
//!
//! Calls of a soft client fail when their time or attempts are used up. The connection of a call
//! whose memory is in use is given up, and the using thread ends the call.

use super::call::{CallError, ClientShared, PendingCall};
use super::options::Patience;
use super::slot::{Slot, SlotState};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Before a message.
const SILENCE: Duration = Duration::from_secs(10);
/// Multiples of the first attempt.
const ATTEMPT_FACTOR_MAX: u32 = 10;
/// For a server that answers other calls.
const BUSY_FACTOR: u32 = 4;
/// Bounds of the period of looks.
const LOOK_EVERY: (Duration, Duration) = (Duration::from_millis(5), Duration::from_secs(1));

pub(super) fn run(shared: &Arc<ClientShared>, slots: &[Slot]) {
    let options = &shared.options;
    let shortest = match options.patience {
        Patience::Hard => options.timeout,
        Patience::Soft { timeout, .. } => options.timeout.min(timeout),
    };
    let every = (shortest / 8).clamp(LOOK_EVERY.0, LOOK_EVERY.1);
    while !shared.sleep(every) {
        for slot in slots {
            look(shared, slots, slot);
        }
    }
}

fn look(shared: &Arc<ClientShared>, slots: &[Slot], slot: &Slot) {
    let now = Instant::now();
    let mut state = slot.state.lock();
    if state.table.is_empty() {
        return;
    }
    let silence = silence_of(shared, slot, &state, now);
    // A server that answers on another connection is alive.
    let silence_min = SILENCE.min(shared.options.timeout);
    let is_silent = silence.is_some_and(|silence| silence >= silence_min)
        && slots.iter().all(|slot| {
            let heard = slot.heard(shared);
            now.saturating_duration_since(heard) >= silence_min
        });
    let given_up = state.link.as_ref().is_some_and(|link| link.given_up);
    let quiet = silence.unwrap_or_default();
    let mut overdue = 0;
    let mut over = Vec::new();
    for entry in state.table.entries_mut() {
        if !given_up && is_overdue(entry, shared.options.timeout, quiet, now) {
            entry.timeouts += 1;
            overdue += 1;
        }
        if is_over(entry, shared.options.patience, now) {
            over.push(entry.call.xid);
        }
    }
    shared.counted.timeouts.add(overdue);
    let mut ended: Vec<(PendingCall, Duration)> = Vec::new();
    let mut held = false;
    for xid in over {
        let (given_up, is_held) = state.table.give_up(xid, now);
        held |= is_held;
        ended.extend(given_up);
    }
    if (held || overdue > 0)
        && let Some(link) = &mut state.link
    {
        link.give_up();
    }
    slot.note_load(&state);
    if ended.is_empty() {
        drop(state);
    } else {
        // Other calls take the places of the failed ones.
        slot.send(state);
    }
    // Not under the lock: the log may wait.
    if is_silent {
        shared.report_silence();
    }
    for (entry, after) in ended {
        entry.fail(shared, CallError::TimedOut { after });
    }
}

/// How long calls have waited without received bytes, or without a connection.
fn silence_of(
    shared: &ClientShared,
    slot: &Slot,
    state: &SlotState,
    now: Instant,
) -> Option<Duration> {
    let begin = match &state.link {
        Some(link) => state
            .table
            .oldest_sent()?
            .max(link.since)
            .max(slot.heard(shared)),
        None => state.table.oldest_submitted()?,
    };
    Some(now.saturating_duration_since(begin))
}

fn is_overdue(entry: &PendingCall, timeout: Duration, silence: Duration, now: Instant) -> bool {
    entry.sent.is_some_and(|sent| {
        let age = now.saturating_duration_since(sent);
        is_too_old(age, entry.timeouts, timeout, silence)
    })
}

/// Whether an attempt of this age, after so many failures, is used up.
fn is_too_old(age: Duration, timeouts: u32, timeout: Duration, silence: Duration) -> bool {
    let attempt = timeouts.saturating_add(1).min(ATTEMPT_FACTOR_MAX);
    let limit = timeout.saturating_mul(attempt);
    age >= limit && (silence >= limit || age >= limit.saturating_mul(BUSY_FACTOR))
}

fn is_over(entry: &PendingCall, patience: Patience, now: Instant) -> bool {
    match patience {
        Patience::Hard => false,
        Patience::Soft { attempts, timeout } => {
            let age = now.saturating_duration_since(entry.submitted);
            age >= timeout || entry.timeouts >= attempts.max(1)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_ends_an_attempt_and_other_replies_buy_time() {
        let seconds = Duration::from_secs;
        let timeout = seconds(60);
        for (age, timeouts, silence, expected) in [
            (59, 0, 59, false),
            (60, 0, 60, true),
            (60, 0, 59, false),
            (239, 0, 1, false),
            (240, 0, 0, true),
            (119, 1, 119, false),
            (120, 1, 120, true),
            (599, 50, 599, false),
            (600, 50, 600, true),
            (2400, u32::MAX, 0, true),
        ] {
            let found = is_too_old(seconds(age), timeouts, timeout, seconds(silence));
            assert_eq!(found, expected, "{age} {timeouts} {silence}");
        }
        let forever = Duration::MAX;
        assert!(!is_too_old(seconds(1 << 40), 3, forever, seconds(1 << 40)));
    }
}
