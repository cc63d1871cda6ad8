//! How long does a thread look for work again and again before it sleeps?
//!
//! # Problem
//!
//! A client that waits for each answer before it sends the next call leaves a server idle between
//! its calls, for some microseconds. A thread that sleeps then must be woken, and its processor
//! with it, which takes longer than the call. A thread that *polls* has the next call at once, but
//! uses a processor that may be wanted: by another program, or even by the client that it waits
//! for. Which of the two is right depends on the clients and on the machine.
//!
//! # Rule
//!
//! A wait is *short* when work comes within the limit. After [`TRUSTED`] short waits in a row the
//! thread polls, for as long as the limit; each poll that finds work keeps it polling. A wait that
//! is longer ends that: the thread sleeps at once until waits are short again.
//!
//! Polls that find nothing although waits are short say that polling itself keeps the work away
//! (there is one processor, and the client needs it), or that work comes just too late. Each
//! such poll doubles the number of short waits that must be seen before the next one, and each
//! that finds work halves it. A poll during which the thread did not have the processor counts as
//! one that found nothing.
//!
//! What was seen of some clients is not held against another one: a new connection ends all doubt.
//!
//! A poll needs a processor, and so does a client on the same machine that is to send what the
//! poll looks for. A thread is *at work* while its waits are short. While more threads are at work
//! than half of the processors, which is told from outside, no thread polls: there is work for the
//! processors, and a thread that sleeps lets go of one.
//!
//! ```text
//!   work  x  x  x  x  x  x  x  x           x  x  x  x  x  x
//!   wait   zz zz zz zz pp pp pp ppp zzzzzzz zz zz zz zz pp      p polls, z sleeps
//! ```
//!
//! # Weaknesses
//!
//! One call in a hundred that is late costs one limit of processor time: all gaps are treated
//! alike, and the limit is not learnt. Clients that come in turn look like one client that is
//! quick. Clients of other machines leave the processors alone, and many of them are not polled for
//! nevertheless.

use std::time::Duration;

/// Short waits in a row before the first poll.
pub const TRUSTED: u32 = 4;

/// The most short waits in a row that are asked for after polls in vain.
pub const DOUBTED_MAX: u32 = 4096;

/// How a wait went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waited {
    /// Until there was work.
    pub total: Duration,
    /// Whether the thread slept, at once or after a poll.
    pub slept: bool,
    /// Whether it polled, but did not have the processor all the time.
    pub was_interrupted: bool,
}

/// What one thread does when it has no work.
#[derive(Clone, Debug)]
pub struct Polling {
    limit: Duration,
    short_waits: u32,
    asked_for: u32,
    /// The wait that is under way began, or begins, with a poll.
    polls: bool,
    is_at_work: bool,
}

impl Polling {
    /// Polls for `limit` at the most, where it pays.
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

    /// A wait begins: how long to poll before sleeping. `is_crowded`: more threads are at work than
    /// half of the processors.
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

    /// The wait is over that began last.
    pub fn waited(&mut self, waited: Waited) {
        let polled = self.polls;
        // Being woken takes its time, too.
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
