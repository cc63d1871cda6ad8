//! Keeping the record of the legs true while a mirror is written to.
//!
//! ```text
//!   first write ──> held ──┐                          ┌──> sent to the legs
//!                          ├──> record is stored ─────┤
//!   write that a leg ──────┘    (a thread of its own) └──> completed
//!   missed ──> waiting
//! ```
//!
//! One rule makes it safe: a write or a flush completes well only when every leg that the record
//! calls current has it. So the first write is *held* until all legs are known to be in use,
//! and a write that a leg missed *waits* until the record of those that have it has a higher
//! generation. Until then nobody has been told that it is done.
//!
//! - A record that could not be stored may be there all the same. So when some legs cannot be
//!   recorded and others can, they go out of service and the others get a yet higher generation.
//! - When no leg can be recorded, the writes that wait fail, nobody's service changes, and the
//!   next write tries again.
//! - At the end, when everything that was written has been flushed and no write has failed, the
//!   legs are marked clean. After a write that failed everywhere they may differ in its range:
//!   then they stay marked in use, and the next opening reads the first alone.
//!
//! Storing waits for storage, which a completion must not: a thread does it, which ends when there
//! is nothing left to store.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;

use pagewell_base::sync::Mutex;
use pagewell_counters::names::MIRROR_RECORD_FAILURES;
use rustix::io::Errno;

use super::Shared;
use super::assess::{Assessment, GENERATION_MAX};
use super::record::{LegState, MirrorRecord, RecordError, Standing};
use crate::completing::join_others;
use crate::{Error, Outcome, Request};

/// The record of a mirror that is open for writing.
pub(super) struct Keeper {
    record: Arc<dyn MirrorRecord>,
    /// As they were at opening, by leg.
    standings: Vec<Standing>,
    /// Legs that the record calls current.
    recorded: AtomicU64,
    state: Mutex<State>,
}

struct State {
    /// The highest that any leg may have.
    generation: u64,
    /// The current legs are recorded as being in use.
    in_use: bool,
    /// A thread is at work.
    working: bool,
    /// The one at work, and those before it that have not ended yet.
    workers: Vec<JoinHandle<()>>,
    /// Writes that came before `in_use`.
    held: Vec<Request>,
    /// What is done on some legs, and a leg that the record calls current is not among them.
    waiting: Vec<Waiting>,
}

struct Waiting {
    request: Request,
    outcome: Outcome,
    /// Legs that have it.
    good: u64,
}

impl Keeper {
    /// For a mirror that is to be written to; stores the standings of legs that are good once more.
    pub(super) fn open(
        record: Arc<dyn MirrorRecord>,
        assessment: &Assessment,
    ) -> Result<Self, RecordError> {
        let any = assessment.standings.iter().flatten().next().copied();
        let (mut standings, mut recorded) = (Vec::new(), 0);
        let all = assessment.standings.iter().zip(&assessment.conditions);
        for (leg, (standing, condition)) in all.enumerate() {
            // One that is missing may think what it likes.
            let is_newest = standing.is_none_or(|one| {
                one.generation == assessment.generation && one.state != LegState::Resynchronising
            });
            recorded |= u64::from(is_newest) << leg;
            if let Some(standing) = standing
                && condition.is_good()
            {
                record.store(leg, standing)?;
            }
            // That of a leg that is missing is never stored.
            standings.extend(standing.or(any));
        }
        Ok(Self {
            record,
            standings,
            recorded: AtomicU64::new(recorded),
            state: Mutex::new(State {
                generation: assessment.generation,
                in_use: false,
                working: false,
                workers: Vec::new(),
                held: Vec::new(),
                waiting: Vec::new(),
            }),
        })
    }

    /// Stores the standing of each of these legs: all others are left behind. Returns those that
    /// have it for certain, and the last error.
    fn store(&self, legs: u64, generation: u64, state: LegState) -> (u64, Option<RecordError>) {
        let (mut stored, mut last) = (0, None);
        let all = self.standings.iter().enumerate();
        let kept = || all.clone().filter(|(leg, _)| legs & (1 << leg) != 0);
        let bits = kept().fold(0, |all, (_, standing)| all | standing.bit());
        for (leg, standing) in kept() {
            let standing = Standing {
                generation,
                state,
                left_behind: all_legs(standing.count) & !bits,
                ..*standing
            };
            match self.record.store(leg, &standing) {
                Ok(()) => stored |= 1 << leg,
                Err(error) => {
                    MIRROR_RECORD_FAILURES.add(1);
                    last = Some(error);
                }
            }
        }
        (stored, last)
    }

    /// Waits for all threads but this one. One that has nothing left to store may still have the
    /// mirror: it would mark the legs clean when the next opening writes to them.
    pub(super) fn join(&self) {
        let workers = std::mem::take(&mut self.state.lock().workers);
        join_others(workers);
    }
}

impl Shared {
    /// Sends a write on when the legs are known to be in use; until then it is held.
    pub(super) fn write(self: &Arc<Self>, request: Request) {
        let Some(keeper) = &self.keeper else {
            let error = Error::failed(&self.name, request.offset(), Errno::ROFS);
            return request.fail(0, error);
        };
        let mut state = keeper.state.lock();
        if state.in_use {
            drop(state);
            return self.spread(request);
        }
        state.held.push(request);
        drop(state);
        self.settle_soon(keeper);
    }

    /// Completes a write or flush that the legs in `good` have, now or when that is recorded. By
    /// value: a thread that waits for it may end the mirror, which must have ended then.
    pub(super) fn finish(self: Arc<Self>, request: Request, outcome: Outcome, good: u64) {
        if let Some(keeper) = &self.keeper
            && good != 0
            && keeper.recorded.load(Ordering::SeqCst) & !good != 0
        {
            keeper.state.lock().waiting.push(Waiting {
                request,
                outcome,
                good,
            });
            return self.settle_soon(keeper);
        }
        drop(self);
        request.complete(outcome);
    }

    /// Has a thread store what is to be stored; without a thread it is done here.
    fn settle_soon(self: &Arc<Self>, keeper: &Keeper) {
        let mut state = keeper.state.lock();
        if state.working {
            return;
        }
        state.working = true;
        let own = self.clone();
        let builder = std::thread::Builder::new().name("pagewell-mirror".to_owned());
        match builder.spawn(move || own.settle()) {
            Ok(worker) => {
                state.workers.retain(|worker| !worker.is_finished());
                state.workers.push(worker);
            }
            Err(_) => {
                drop(state);
                self.clone().settle();
            }
        }
    }

    /// Stores until the record says what is true, then lets go what waited for it. By value: the
    /// mirror must be able to end as soon as the last request is complete.
    fn settle(self: Arc<Self>) {
        let Some(keeper) = &self.keeper else {
            return;
        };
        loop {
            let raised = self.raise(keeper);
            let mut state = keeper.state.lock();
            let in_service = self.in_service();
            if raised
                .as_ref()
                .is_ok_and(|recorded| *recorded != in_service)
            {
                continue;
            }
            state.working = false;
            let held = std::mem::take(&mut state.held);
            let waiting = std::mem::take(&mut state.waiting);
            drop(state);
            let place = self.name.clone();
            let recorded = keeper.recorded.load(Ordering::SeqCst);
            for request in held {
                match raised.is_ok() {
                    true => self.spread(request),
                    false => give_up(request, &place, &raised),
                }
            }
            drop(self);
            for one in waiting {
                if raised.is_ok() && recorded & !one.good == 0 {
                    one.request.complete(one.outcome);
                } else {
                    give_up(one.request, &place, &raised);
                }
            }
            return;
        }
    }

    /// Records the legs in service, and no others, as the current ones, in use. Returns them.
    fn raise(&self, keeper: &Keeper) -> Result<u64, RecordError> {
        let mut wanted = self.in_service();
        let mut generation = {
            let state = keeper.state.lock();
            let same = wanted == keeper.recorded.load(Ordering::SeqCst);
            if same && state.in_use {
                return Ok(wanted);
            }
            // A leg that the record calls current and that is not must be left behind.
            state.generation + u64::from(!same)
        };
        loop {
            if generation > GENERATION_MAX {
                return Err(RecordError::Garbled {
                    place: self.name.clone(),
                    reason: "too many generations".to_owned(),
                });
            }
            let (stored, error) = keeper.store(wanted, generation, LegState::InUse);
            if let Some(error) = &error {
                self.leave_unrecorded(wanted & !stored, stored, error);
            }
            let now = self.in_service();
            let mut state = keeper.state.lock();
            state.generation = generation;
            match error {
                None if stored == now => {
                    state.in_use = true;
                    keeper.recorded.store(stored, Ordering::SeqCst);
                    return Ok(stored);
                }
                Some(error) if stored == 0 => return Err(error),
                _ => {}
            }
            wanted = now;
            generation += 1;
        }
    }

    /// Takes legs whose record cannot be kept out of service, unless none would be left.
    fn leave_unrecorded(&self, unrecorded: u64, stored: u64, error: &RecordError) {
        let _guard = self.service.lock();
        let in_service = self.in_service();
        if stored & in_service == 0 {
            return;
        }
        let reason = format!("its record cannot be kept: {error}");
        let members = self.members(unrecorded & in_service);
        members.for_each(|(index, leg)| self.leave(index, leg, &reason));
    }

    /// Marks the legs clean, at the end, if they are.
    pub(super) fn mark_clean(&self) {
        let Some(keeper) = &self.keeper else {
            return;
        };
        let state = keeper.state.lock();
        let recorded = keeper.recorded.load(Ordering::SeqCst);
        if state.in_use && recorded == self.in_service() && self.is_flushed() {
            // What cannot be marked stays marked as in use: that is safe, and it was counted.
            keeper.store(recorded, state.generation, LegState::Clean);
        }
    }
}

/// A bit for each of so many legs.
fn all_legs(count: u8) -> u64 {
    u64::MAX >> 64u8.saturating_sub(count).min(63)
}

/// What the system says where there is no room.
const FULL: [Errno; 2] = [Errno::NOSPC, Errno::DQUOT];

/// Fails a request because it could not be recorded.
fn give_up(request: Request, mirror: &str, raised: &Result<u64, RecordError>) {
    let offset = request.offset();
    let error = match raised {
        Ok(_) => Error::Abandoned { offset },
        Err(error) => Error::Failed {
            device: format!("{mirror}: record of the legs: {error}"),
            offset,
            // What is full is where the record is, not the mirror.
            errno: match error {
                RecordError::Failed { errno, .. } if !FULL.contains(errno) => *errno,
                _ => Errno::IO,
            },
        },
    };
    request.fail(0, error);
}

#[cfg(test)]
mod tests;
