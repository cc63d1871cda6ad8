//! How long does a thread look for work before it sleeps?
//!
//! Waking a thread takes longer than a call; one that *polls* uses a processor that the client may
//! want.
//!
//! A wait is *short* when work comes within the limit. After [`TRUSTED`] short waits in a row the
//! thread polls for as long as the limit, until a wait is longer. A poll in vain while waits are
//! short (it keeps the work away, or work comes just too late), or one that lost the processor,
//! doubles that number; a poll that finds work halves it; a new connection resets it. While more
//! threads have short waits than 1/2 of the processors, none polls.
//!
//! ```text
//!   work  x  x  x  x  x  x  x  x           x  x  x  x  x  x
//!   wait   zz zz zz zz pp pp pp ppp zzzzzzz zz zz zz zz pp      p polls, z sleeps
//! ```
//!
//! Weaknesses: one late call in a hundred costs one limit of processor time; the limit is not
//! learnt. Clients in turn look like one quick client. Many clients are not polled for, even on
//! other machines.

use std::time::Duration;

/// Short waits in a row before the first poll.
pub const TRUSTED: u32 = 4;

/// Most short waits that polls in vain require.
pub const DOUBTED_MAX: u32 = 4096;

/// How a wait went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waited {
    /// Until there was work.
    pub total: Duration,
    /// Whether the thread slept, at once or after a poll.
    pub slept: bool,
    /// Whether the poll lost the processor for a while.
    pub was_interrupted: bool,
}

/// What one thread does when it has no work.
#[derive(Clone, Debug)]
pub struct Polling {
    limit: Duration,
    short_waits: u32,
    asked_for: u32,
    polls: bool,
    is_at_work: bool,
}

impl Polling {
    /// Polls for at most `limit`.
    #[must_use]
    pub fn new(limit: Duration) -> Self {
        Self {
            limit,
            short_waits: 0,
            asked_for: TRUSTED,
            polls: false,
            is_at_work: false,
        }
    }

    /// A wait begins. Returns how long to poll; `is_crowded`: not.
    #[must_use]
    pub fn begin(&mut self, is_crowded: bool) -> Duration {
        self.polls = self.short_waits >= self.asked_for && !is_crowded && !self.limit.is_zero();
        if self.polls {
            self.limit
        } else {
            Duration::ZERO
        }
    }

    /// Another client has come.
    pub fn trust_again(&mut self) {
        self.asked_for = TRUSTED;
    }

    /// Whether the last wait was short.
    #[must_use]
    pub fn is_at_work(&self) -> bool {
        self.is_at_work
    }

    /// The last wait is over.
    pub fn waited(&mut self, waited: Waited) {
        let polled = self.polls;
        // Being woken takes time, too.
        let is_short = waited.total <= self.limit.saturating_mul(2);
        self.is_at_work = is_short;
        let found = polled && !waited.slept && !waited.was_interrupted;
        if found {
            self.asked_for = (self.asked_for / 2).max(TRUSTED);
        } else if polled {
            self.short_waits = 0;
            if is_short || waited.was_interrupted {
                self.asked_for = self.asked_for.saturating_mul(2).min(DOUBTED_MAX);
            }
        }
        if !is_short {
            self.short_waits = 0;
        } else if found || !polled {
            self.short_waits = self.short_waits.saturating_add(1);
        }
    }
}

#[cfg(test)]
mod tests;
