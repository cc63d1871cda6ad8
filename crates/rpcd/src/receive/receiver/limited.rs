//! What a receiver does while calls or bytes a second are limited: [`crate::limits`].

use std::time::{Duration, Instant};

use pagewell_counters::names;
use pagewell_policy::limits::{Cost, Reason};

use super::{Received, Receiver, Shared, Turn};
use crate::call::WaitingCall;
use crate::limits::Prepaid;
use crate::program::Program;

impl Receiver {
    /// A turn begins, and something is limited, or was before. Returns how long it must wait.
    #[cold]
    pub(super) fn begin_limited<P: Program>(
        &mut self,
        shared: &Shared<P>,
        is_limited: bool,
    ) -> Option<Duration> {
        self.is_limited = is_limited;
        // Without a call there is nothing to wait for, but the next event.
        if self.leftover.is_empty() && rustix::io::ioctl_fionread(&self.connection) == Ok(0) {
            self.set_waits(None);
            return None;
        }
        self.must_wait(shared)
    }

    /// How long the next call is to wait. In the middle of a call nothing waits: it may have memory
    /// that others want.
    pub(super) fn must_wait<P: Program>(&self, shared: &Shared<P>) -> Option<Duration> {
        let is_between = self.is_limited && self.assembly.is_empty();
        // One that is closed is to be let go of.
        let is_between = is_between && !self.connection.is_closed();
        let limits = &shared.dispatcher.bounds.limits;
        let wait = is_between.then(|| limits.wait(&self.connection)).flatten();
        self.set_waits(wait.map(|(_, reason)| reason));
        wait.map(|(wait, _)| wait)
    }

    /// Whether it waits and its client is gone or does not wait any more.
    pub fn waits_in_vain(&self) -> bool {
        self.connection.usage.waits_now() && self.connection.is_given_up()
    }

    /// Notes whether it waits, and why.
    pub(super) fn set_waits(&self, reason: Option<Reason>) {
        let usage = &self.connection.usage;
        if usage.waits_now() == reason.is_some() {
            return;
        }
        usage.set_waits(reason.is_some());
        let (change, counter) = match reason {
            None => (-1, None),
            Some(Reason::Client) => (1, Some(&names::LIMIT_CLIENT_WAITS)),
            Some(Reason::Export) => (1, Some(&names::LIMIT_EXPORT_WAITS)),
        };
        names::CONNECTIONS_LIMITED.add(change);
        if let Some(counter) = counter {
            counter.add(1);
        }
    }

    /// Keeps what was received until the next turn, which finds out how long it must wait.
    pub(super) fn hold(&mut self, rest: &[u8]) -> Turn {
        self.leftover = rest.to_vec();
        Turn::Again
    }

    /// Answers the call in a record, unless it has to go to the pool, and pays for it.
    #[cold]
    pub(super) fn answer_and_pay<P: Program>(
        &mut self,
        (shared, received): Received<'_, P>,
        record: &[u8],
        now: Instant,
    ) -> Option<WaitingCall<P::Pending>> {
        let before = self.batch.length();
        let mut state = self.answer_free((shared, received), record, now);
        match &mut state {
            None => self.pay(shared, record.len(), before),
            Some(state) => self.prepay(shared, record.len(), state),
        }
        state
    }

    /// Pays for a call that was answered, by what is behind the first `before` bytes of the batch.
    fn pay<P: Program>(&self, shared: &Shared<P>, received_bytes: usize, before: usize) {
        let sent_bytes = self.batch.length().saturating_sub(before);
        let cost = Cost {
            calls: 1,
            bytes: (received_bytes + sent_bytes) as u64,
        };
        let export = self.batch.tally.last_export();
        let limits = &shared.dispatcher.bounds.limits;
        limits.charge(&self.connection, export, cost);
    }

    /// Pays for a call that goes to the pool, and for the longest reply that there can be.
    fn prepay<P: Program>(
        &self,
        shared: &Shared<P>,
        received_bytes: usize,
        state: &mut WaitingCall<P::Pending>,
    ) {
        let (program, class) = (&shared.dispatcher.program, &state.class);
        let address = self.connection.peer.ip();
        let prepaid = Prepaid {
            export: program.label_of(class.subjects.export(), address),
            bytes: class.reply_bytes_max + class.listing_bytes_max,
        };
        let cost = Cost {
            calls: 1,
            bytes: (received_bytes + prepaid.bytes) as u64,
        };
        let limits = &shared.dispatcher.bounds.limits;
        limits.charge(&self.connection, prepaid.export, cost);
        state.prepaid = Some(prepaid);
    }
}
