//! Receiving under rate limits ([`crate::limits`]).

use std::time::{Duration, Instant};

use pagewell_counters::names;
use pagewell_policy::limits::{Cost, Reason};

use super::{Received, Receiver, Shared, Turn};
use crate::call::WaitingCall;
use crate::limits::Prepaid;
use crate::program::Program;

impl Receiver {
    /// Begins a turn while a limit is set, or was; returns how long the connection must wait.
    #[cold]
    pub(super) fn begin_limited<P: Program>(
        &mut self,
        shared: &Shared<P>,
        is_limited: bool,
    ) -> Option<Duration> {
        self.is_limited = is_limited;
        // Without a call there is only the next event to wait for.
        if self.leftover.is_empty() && rustix::io::ioctl_fionread(&self.connection) == Ok(0) {
            self.set_waits(None);
            return None;
        }
        self.must_wait(shared)
    }

    /// How long the next call must wait. A begun one does not, as it may have memory that others
    /// want.
    pub(super) fn must_wait<P: Program>(&self, shared: &Shared<P>) -> Option<Duration> {
        let is_between = self.is_limited && self.assembly.is_empty();
        // A closed connection is to be dropped.
        let is_between = is_between && !self.connection.is_closed();
        let limits = &shared.dispatcher.bounds.limits;
        let wait = is_between.then(|| limits.wait(&self.connection)).flatten();
        self.set_waits(wait.map(|(_, reason)| reason));
        wait.map(|(wait, _)| wait)
    }

    /// Whether it waits for a client that is gone.
    pub fn waits_in_vain(&self) -> bool {
        self.connection.usage.waits_now() && self.connection.is_given_up()
    }

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

    /// Keeps the input until the next turn, which finds the wait.
    pub(super) fn throttle(&mut self, rest: &[u8]) -> Turn {
        self.leftover = rest.to_vec();
        Turn::Again
    }

    /// Answers a call, or returns it for the pool; pays for it.
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

    /// Pays for an answered call; its reply begins at `before` in the batch.
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

    fn prepay<P: Program>(
        &self,
        shared: &Shared<P>,
        received_bytes: usize,
        state: &mut WaitingCall<P::Pending>,
    ) {
        let (program, class) = (&shared.dispatcher.program, &state.class);
        let address = self.connection.peer.ip();
        let export = program.label_of(class.subjects.export(), address);
        let reply_bytes = class.reply_bytes_max + class.listing_bytes_max;
        let limits = &shared.dispatcher.bounds.limits;
        let bytes = (received_bytes, reply_bytes);
        state.prepaid = Some(Prepaid::pay(limits, &self.connection, export, bytes));
    }
}
