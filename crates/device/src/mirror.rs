//! Several devices with the same bytes.
//!
//! - A read goes to one *leg* that is in service: the one with the fewest requests on their way.
//!   When several have as few, the one whose last request ended nearest, if going to another
//!   place costs time; else they take turns.
//! - A read that fails is tried on the other legs, one after the other, before it is an error.
//!   That alone does not take a leg out of service: the block may be the only bad one.
//! - A write goes to all legs in service and is complete when all have answered. A leg whose
//!   write fails while another's succeeds no longer has the right bytes: it is taken out of
//!   service, for good, before the write completes. Nothing is read from it again.
//! - A flush goes to all legs in service, too. A leg that cannot flush while another can may
//!   have lost what the other has: it is taken out of service like one that missed a write.
//! - When a leg has failed at a write or a flush, nothing is read from it until the others have
//!   answered, too, and it is clear whether it stays. When that happens to each leg while a read
//!   is there, the read is tried once more, and given from any leg that is still in service.
//! - What a leg brings after it was taken out of service is thrown away, and read again from
//!   another leg: the read may have been chosen for it before, but be given to a caller that
//!   came after the write that it missed.
//! - A write that fails on every leg is an error and changes nobody's service: the last leg is
//!   never given up. As after any failed write, the bytes of its range are undefined until they
//!   are written again. The same holds for a flush, and for all that was written since the last
//!   good one.
//!
//! ```text
//!               ┌──> leg 0   2 on their way
//!   read ───────┤
//!      fewest └─┴──> leg 1   1 on its way   <── this one; leg 0 if it fails
//! ```
//!
//! **Across restarts** each leg has a record (`mirror/record.rs`) with a generation. It is raised
//! for those in service before a write that another leg missed completes (`mirror/keeper.rs`),
//! so that a leg that was left behind is known when the mirror is opened again
//! (`mirror/assess.rs`) and is not read until it has been made equal (`mirror/resync.rs`).
//!
//! Known weaknesses: after an unclean end all bytes of the legs have to be compared, for nobody
//! notes where writes were on their way. A change of a leg behind the mirror's back is not
//! noticed. Writes that overlap and are on their way at the same time may reach the legs in
//! different orders: the caller must not issue such. While a write is on its way, two reads one
//! after the other may see it and then not see it. A leg that hangs and does not fail holds up
//! the writes and flushes of all. What a leg has lost may be read from it until it says so, at the
//! next flush. A mirror that is only read learns from the records when it is
//! opened, and does not notice that a leg missed a write of another process later.

mod assess;
mod keeper;
mod record;
mod resync;

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Once};

use pagewell_base::sync::Mutex;
use pagewell_counters::names::{
    MIRROR_FLUSHES_FAILED, MIRROR_HALVES_FAILED, MIRROR_READS_FAILED, MIRROR_READS_RETRIED,
    MIRROR_READS_STALE, MIRROR_WRITES_FAILED,
};

pub use assess::{Assessment, Condition, MirrorError, Refusal};
pub use record::{LegState, MemoryRecord, MirrorRecord, RecordError, Standing};
pub use resync::{Resync, ResyncReport};

use crate::combined::{CombineError, check_count, geometry_of};
use crate::device::check;
use crate::warning::warn_once;
use crate::{Device, Error, Geometry, Memory, Operation, Outcome, Request};
use keeper::Keeper;

/// Devices with the same bytes.
pub struct Mirror {
    shared: Arc<Shared>,
}

struct Shared {
    name: String,
    legs: Vec<Arc<Leg>>,
    /// Legs in service, a bit for each.
    in_service: AtomicU64,
    /// Held while legs are taken out of service, so that the last one stays.
    service: Mutex<()>,
    turn: AtomicUsize,
    geometry: Geometry,
    length_bytes: u64,
    /// Nothing when it was opened to be read: then nothing may be written.
    keeper: Option<Keeper>,
    /// Writes that are complete and not durable by themselves.
    written: AtomicU64,
    /// As many of these are durable.
    flushed: AtomicU64,
    /// A write or a flush has failed on all legs: they may differ.
    torn: AtomicBool,
}

/// Which legs a read may be given from, a bit for each: asked anew whenever it matters.
type Legs = fn(&Shared) -> u64;

struct Leg {
    device: Arc<dyn Device>,
    on_their_way: AtomicUsize,
    /// Writes and flushes that have failed there and that other legs have not answered yet.
    suspected: AtomicUsize,
    last_end: AtomicU64,
    warned: Once,
}

impl Mirror {
    /// A mirror of 1 to 64 devices of equal length, as its record says it is: without the legs
    /// that may not be read, which are told in the assessment. When the last block is
    /// a part, their blocks must be equal too: a request for it would be too long for the leg with
    /// smaller ones.
    ///
    /// For writing the legs must have a record ([`Resync`] makes the first), and it must be
    /// possible to store those of legs that are good: they are stored once more, unchanged.
    /// Without a record all legs are taken for equal. Writes to a mirror that was not opened for
    /// writing fail (`EROFS`).
    ///
    /// For a leg that is missing (it has no [`MirrorRecord::binding`]) any device stands in that
    /// has the length of the others: it is not used. It is left behind before the first write.
    pub fn open(
        name: &str,
        children: Vec<Arc<dyn Device>>,
        record: Arc<dyn MirrorRecord>,
        writable: bool,
    ) -> Result<(Self, Assessment), MirrorError> {
        let mut shared = build(name, &children)?;
        let assessment = Assessment::of(&*record, &children)?;
        assessment.check_readable()?;
        if writable && assessment.is_unknown() {
            return Err(Refusal::NeverCompared.into());
        }
        for (leg, condition) in assessment.conditions.iter().enumerate() {
            *shared.in_service.get_mut() |= u64::from(condition.is_good()) << leg;
        }
        if writable {
            shared.keeper = Some(Keeper::open(record, &assessment)?);
        }
        let shared = Arc::new(shared);
        Ok((Self { shared }, assessment))
    }

    /// How many legs are in service.
    #[must_use]
    pub fn legs_in_service(&self) -> usize {
        self.shared.in_service().count_ones() as usize
    }
}

impl Drop for Mirror {
    fn drop(&mut self) {
        if let Some(keeper) = &self.shared.keeper {
            keeper.join();
        }
    }
}

/// Puts legs together, none of them in service, and keeps nothing about them.
fn build(name: &str, children: &[Arc<dyn Device>]) -> Result<Shared, CombineError> {
    check_count(name, children.len())?;
    let geometry = geometry_of(children);
    let length_bytes = children.first().map_or(0, |child| child.length_bytes());
    for child in children {
        if child.length_bytes() != length_bytes {
            return Err(CombineError::Unequal {
                device: name.to_owned(),
                other: child.name().to_owned(),
                other_bytes: child.length_bytes(),
                length_bytes,
            });
        }
    }
    let block_bytes = geometry.logical_block_bytes;
    let differs = |child: &Arc<dyn Device>| child.geometry().logical_block_bytes != block_bytes;
    if !length_bytes.is_multiple_of(u64::from(block_bytes)) && children.iter().any(differs) {
        return Err(CombineError::Tail {
            device: name.to_owned(),
            length_bytes,
            block_bytes,
        });
    }
    let leg = |device: &Arc<dyn Device>| {
        Arc::new(Leg {
            device: device.clone(),
            on_their_way: AtomicUsize::new(0),
            suspected: AtomicUsize::new(0),
            last_end: AtomicU64::new(0),
            warned: Once::new(),
        })
    };
    Ok(Shared {
        name: name.to_owned(),
        legs: children.iter().map(leg).collect(),
        in_service: AtomicU64::new(0),
        service: Mutex::new(()),
        turn: AtomicUsize::new(0),
        geometry,
        length_bytes,
        keeper: None,
        written: AtomicU64::new(0),
        flushed: AtomicU64::new(0),
        torn: AtomicBool::new(false),
    })
}

impl Leg {
    /// Sends a request that is counted until it is complete.
    fn submit(self: &Arc<Self>, mut request: Request) {
        self.on_their_way.fetch_add(1, Ordering::Relaxed);
        let end = request.offset().saturating_add(request.len() as u64);
        self.last_end.store(end, Ordering::Relaxed);
        let leg = self.clone();
        request.observe(move |_| {
            leg.on_their_way.fetch_sub(1, Ordering::Relaxed);
        });
        self.device.submit(request);
    }
}

impl Shared {
    /// The best of these legs for a read at `offset`.
    fn choose(&self, offset: u64, legs: u64) -> Option<(usize, &Arc<Leg>)> {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let count = self.legs.len();
        let candidates = self.members(legs);
        candidates.min_by_key(|(index, leg)| {
            let way = if self.geometry.rotational {
                leg.last_end.load(Ordering::Relaxed).abs_diff(offset)
            } else {
                ((index + count - turn % count) % count) as u64
            };
            (leg.on_their_way.load(Ordering::Relaxed), way)
        })
    }

    /// Reads from the best leg that was not tried: one that may be read if there is one, else one
    /// of `legs`. What it brings is good if it is one of `legs` then. `last` is how the one before
    /// it failed.
    fn read(self: &Arc<Self>, request: Request, legs: Legs, tried: u64, last: Option<Outcome>) {
        let offset = request.offset();
        let best = self.choose(offset, self.readable() & !tried);
        let best = best.or_else(|| self.choose(offset, legs(self) & !tried));
        let Some((index, leg)) = best else {
            let Some(outcome) = last else {
                // None has failed: each was suspected just when it had answered, and may be
                // trusted by now. Now all in service will do, and there is always one.
                return self.read(request, Self::in_service, 0, None);
            };
            MIRROR_READS_FAILED.add(1);
            return request.complete(outcome);
        };
        if last.is_some() {
            MIRROR_READS_RETRIED.add(1);
        }
        let (shared, is_good) = (self.clone(), self.is_good(&request));
        let copy = request.relay(move |request, outcome| {
            let tried = tried | 1 << index;
            if legs(&shared) & (1 << index) == 0 {
                // It missed a write meanwhile, which may be complete: the bytes may be too old.
                MIRROR_READS_STALE.add(1);
                shared.read(request, legs, tried, last);
            } else if is_good(&outcome) {
                // A thread that waits for it may end the mirror, which must have ended then.
                drop(shared);
                request.complete(outcome);
            } else {
                shared.read(request, legs, tried, Some(outcome));
            }
        });
        leg.submit(copy);
    }

    /// Sends a write or a flush to all legs in service.
    fn spread(self: &Arc<Self>, request: Request) {
        let flushed = self.written.load(Ordering::SeqCst);
        let asked = self.in_service();
        let (shared, is_good) = (self.clone(), self.is_good(&request));
        let copies = request.fan_out(asked.count_ones() as usize, move |request, outcomes| {
            let failed: Vec<bool> = outcomes.iter().map(|outcome| !is_good(outcome)).collect();
            let (outcome, good) = shared.judge(&request, asked, outcomes);
            for ((_, leg), failed) in shared.members(asked).zip(failed) {
                leg.suspected.fetch_sub(failed.into(), Ordering::SeqCst);
            }
            if good == 0 {
                shared.torn.store(true, Ordering::SeqCst);
            } else if request.operation() == Operation::Flush {
                shared.flushed.fetch_max(flushed, Ordering::SeqCst);
            } else if !request.is_durable() {
                shared.written.fetch_add(1, Ordering::SeqCst);
            }
            shared.finish(request, outcome, good);
        });
        for ((_, leg), mut copy) in self.members(asked).zip(copies) {
            let own = leg.clone();
            copy.observe(move |outcome| {
                own.suspected
                    .fetch_add((!is_good(outcome)).into(), Ordering::SeqCst);
            });
            leg.submit(copy);
        }
    }

    /// Tells whether a leg has done all that can be done. The last block may be a part: an error,
    /// and yet all that there is. A flush has no bytes that could tell.
    fn is_good(&self, request: &Request) -> impl Fn(&Outcome) -> bool + Copy + use<> {
        let (operation, there) = (request.operation(), request.bytes_there(self.length_bytes));
        move |outcome| match operation {
            Operation::Flush => outcome.result.is_ok(),
            Operation::Read | Operation::Write => outcome.transferred_bytes >= there,
        }
    }

    /// The outcome of a write or flush that these legs were asked for, and the legs that have
    /// it; takes those out of service that missed it.
    fn judge(&self, request: &Request, asked: u64, outcomes: Vec<Outcome>) -> (Outcome, u64) {
        let is_good = self.is_good(request);
        let guard = self.service.lock();
        let (mut good, mut best, mut bad) = (0u64, None, Vec::new());
        for ((index, leg), outcome) in self.members(asked).zip(outcomes) {
            if self.in_service() & (1 << index) == 0 {
                continue;
            }
            if is_good(&outcome) {
                good |= 1 << index;
                best = Some(outcome);
            } else {
                bad.push((index, leg, outcome));
            }
        }
        if let Some(outcome) = best {
            for (index, leg, failure) in bad {
                let error = failure.result.as_ref().err();
                let reason = error.map_or_else(|| "a short write".to_owned(), ToString::to_string);
                self.leave(index, leg, &reason);
            }
            return (outcome, good);
        }
        drop(guard);
        match request.operation() {
            Operation::Flush => MIRROR_FLUSHES_FAILED.add(1),
            Operation::Read | Operation::Write => MIRROR_WRITES_FAILED.add(1),
        }
        let failures = bad.into_iter().map(|(_, _, outcome)| outcome);
        let worst = failures.min_by_key(|outcome| outcome.transferred_bytes);
        let outcome = worst.unwrap_or_else(|| Outcome {
            transferred_bytes: 0,
            // Every leg that was asked has failed since; those left did not get it.
            result: Err(Error::Abandoned {
                offset: request.offset(),
            }),
        });
        (outcome, 0)
    }

    /// The legs in service, a bit for each.
    fn in_service(&self) -> u64 {
        self.in_service.load(Ordering::SeqCst)
    }

    /// Those of them that may be read: a leg that has failed may leave soon. When all have, none is
    /// better than the others.
    fn readable(&self) -> u64 {
        // First: a leg leaves before it is suspected no more.
        let is_trusted = |leg: &Arc<Leg>| leg.suspected.load(Ordering::SeqCst) == 0;
        let legs = self.members(u64::MAX);
        let trusted = legs.fold(0, |bits, (index, leg)| {
            bits | u64::from(is_trusted(leg)) << index
        });
        let in_service = self.in_service();
        match in_service & trusted {
            0 => in_service,
            some => some,
        }
    }

    /// The legs that have a bit, and which ones they are.
    fn members(&self, bits: u64) -> impl Iterator<Item = (usize, &Arc<Leg>)> {
        let legs = self.legs.iter().enumerate();
        legs.filter(move |(index, _)| bits & (1 << index) != 0)
    }

    /// Takes one of them out of service.
    fn leave(&self, index: usize, leg: &Leg, reason: &str) {
        self.in_service.fetch_and(!(1 << index), Ordering::SeqCst);
        MIRROR_HALVES_FAILED.add(1);
        let (mirror, name) = (&self.name, leg.device.name());
        let text = format!("{mirror}: {name} is out of service: {reason}");
        warn_once(&leg.warned, &text);
    }

    /// Whether all legs in service hold the same bytes, durably.
    fn is_flushed(&self) -> bool {
        !self.torn.load(Ordering::SeqCst)
            && self.flushed.load(Ordering::SeqCst) == self.written.load(Ordering::SeqCst)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.mark_clean();
    }
}

impl Device for Mirror {
    fn name(&self) -> &str {
        &self.shared.name
    }

    fn length_bytes(&self) -> u64 {
        self.shared.length_bytes
    }

    fn geometry(&self) -> Geometry {
        self.shared.geometry
    }

    fn submit(&self, request: Request) {
        if let Err(error) = check(self, &request) {
            return request.fail(0, error);
        }
        match request.operation() {
            Operation::Flush if self.shared.keeper.is_none() => request.succeed(),
            Operation::Flush => self.shared.spread(request),
            _ if request.is_empty() => request.succeed(),
            Operation::Read => self.shared.read(request, Shared::readable, 0, None),
            Operation::Write => self.shared.write(request),
        }
    }

    fn register_memory(&self, memory: &Memory) {
        for leg in &self.shared.legs {
            leg.device.register_memory(memory);
        }
    }
}

#[cfg(test)]
mod tests;
