//! Several devices with the same bytes.
//!
//! - A read goes to one *half* that is in service: the one with the fewest requests on their way.
//!   When several have as few, the one whose last request ended nearest, if going to another
//!   place costs time; else they take turns.
//! - A read that fails is tried on the other halves, one after the other, before it is an error.
//!   That alone does not take a half out of service: the block may be the only bad one.
//! - A write goes to all halves in service and is complete when all have answered. A half whose
//!   write fails while another's succeeds no longer has the right bytes: it is taken out of
//!   service, for good, before the write completes. Nothing is read from it again.
//! - A write that fails on every half is an error and changes nobody's service: the last half is
//!   never given up. As after any failed write, the bytes of its range are undefined until they
//!   are written again.
//!
//! ```text
//!               ┌──> half 0   2 on their way
//!   read ───────┤
//!      fewest └─┴──> half 1   1 on its way   <── this one; half 0 if it fails
//! ```
//!
//! Known weaknesses: the marks are in memory; a half that failed is in service again when the
//! mirror is made anew, so whoever makes it has to know. Writes that overlap and are on their way
//! at the same time may reach the halves in different orders: the caller must not issue such.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Once, PoisonError};

use pagewell_counters::names::{
    MIRROR_HALVES_FAILED, MIRROR_READS_FAILED, MIRROR_READS_RETRIED, MIRROR_WRITES_FAILED,
};

use crate::bounds::{bytes_there, check};
use crate::combined::{CombineError, check_count, geometry_of};
use crate::warning::warn_once;
use crate::{Device, Geometry, Memory, Operation, Outcome, Request};

/// Devices with the same bytes.
pub struct Mirror {
    shared: Arc<Shared>,
}

struct Shared {
    name: String,
    halves: Vec<Half>,
    /// Held while halves are taken out of service, so that the last one stays.
    service: Mutex<()>,
    turn: AtomicUsize,
    geometry: Geometry,
    length_bytes: u64,
}

struct Half {
    device: Arc<dyn Device>,
    on_their_way: AtomicUsize,
    last_end: AtomicU64,
    failed: AtomicBool,
    warned: Once,
}

impl Mirror {
    /// A mirror of 1 to 64 devices of equal length. When the last block is a part, their blocks
    /// must be equal too: a request for it would be too long for the half with smaller ones.
    pub fn new(name: &str, children: Vec<Arc<dyn Device>>) -> Result<Self, CombineError> {
        check_count(name, children.len())?;
        let geometry = geometry_of(&children);
        let length_bytes = children.first().map_or(0, |child| child.length_bytes());
        for child in &children {
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
        let half = |device| Half {
            device,
            on_their_way: AtomicUsize::new(0),
            last_end: AtomicU64::new(0),
            failed: AtomicBool::new(false),
            warned: Once::new(),
        };
        Ok(Self {
            shared: Arc::new(Shared {
                name: name.to_owned(),
                halves: children.into_iter().map(half).collect(),
                service: Mutex::new(()),
                turn: AtomicUsize::new(0),
                geometry,
                length_bytes,
            }),
        })
    }

    /// How many halves are in service.
    #[must_use]
    pub fn halves_in_service(&self) -> usize {
        let halves = self.shared.halves.iter();
        halves.filter(|half| half.in_service()).count()
    }
}

impl Half {
    fn in_service(&self) -> bool {
        !self.failed.load(Ordering::Acquire)
    }

    /// Sends a request that is counted until it is complete.
    fn submit(&self, shared: &Arc<Shared>, index: usize, mut request: Request) {
        self.on_their_way.fetch_add(1, Ordering::Relaxed);
        let end = request.offset().saturating_add(request.len() as u64);
        self.last_end.store(end, Ordering::Relaxed);
        let shared = shared.clone();
        request.observe(move |_| {
            if let Some(half) = shared.halves.get(index) {
                half.on_their_way.fetch_sub(1, Ordering::Relaxed);
            }
        });
        self.device.submit(request);
    }
}

impl Shared {
    /// The best half for a read at `offset`, without those whose bit is set in `tried`.
    fn choose(&self, offset: u64, tried: u64) -> Option<usize> {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let count = self.halves.len();
        let candidates = self.halves.iter().enumerate();
        let candidates =
            candidates.filter(|(index, half)| tried & (1 << index) == 0 && half.in_service());
        let best = candidates.min_by_key(|(index, half)| {
            let way = if self.geometry.rotational {
                half.last_end.load(Ordering::Relaxed).abs_diff(offset)
            } else {
                ((index + count - turn % count) % count) as u64
            };
            (half.on_their_way.load(Ordering::Relaxed), way)
        });
        best.map(|(index, _)| index)
    }

    /// Reads from the best half that was not tried. `last` is how the one before it failed.
    fn read(self: &Arc<Self>, request: Request, tried: u64, last: Option<Outcome>) {
        let Some(index) = self.choose(request.offset(), tried) else {
            MIRROR_READS_FAILED.add(1);
            // There is always a half in service, so one was tried. Else it is abandoned.
            if let Some(outcome) = last {
                request.complete(outcome);
            }
            return;
        };
        if last.is_some() {
            MIRROR_READS_RETRIED.add(1);
        }
        let shared = self.clone();
        let copy = request.relay(move |request, outcome| {
            // The last block may be a part: an error, and yet all that there is.
            if outcome.transferred_bytes >= bytes_there(shared.length_bytes, &request) {
                return request.complete(outcome);
            }
            shared.read(request, tried | 1 << index, Some(outcome));
        });
        if let Some(half) = self.halves.get(index) {
            half.submit(self, index, copy);
        }
    }

    fn write(self: &Arc<Self>, request: Request) {
        let indexes = 0..self.halves.len();
        let in_service = |index: &usize| self.halves.get(*index).is_some_and(Half::in_service);
        let written: Vec<usize> = indexes.filter(in_service).collect();
        let shared = self.clone();
        let indexes = written.clone();
        let copies = request.fan_out(written.len(), move |request, outcomes| {
            let outcome = shared.judge(&request, &indexes, outcomes);
            request.complete(outcome);
        });
        for (index, copy) in written.into_iter().zip(copies) {
            if let Some(half) = self.halves.get(index) {
                half.submit(self, index, copy);
            }
        }
    }

    /// The outcome of a write on these halves; takes those out of service that missed it.
    fn judge(&self, request: &Request, written: &[usize], outcomes: Vec<Outcome>) -> Outcome {
        let there = bytes_there(self.length_bytes, request);
        let guard = self.service.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut good, mut bad) = (None, Vec::new());
        let mut worst: Option<Outcome> = None;
        for (index, outcome) in written.iter().zip(outcomes) {
            let Some(half) = self.halves.get(*index).filter(|half| half.in_service()) else {
                continue;
            };
            if outcome.transferred_bytes >= there {
                good = Some(outcome);
            } else {
                let bytes = outcome.transferred_bytes;
                if worst
                    .as_ref()
                    .is_none_or(|worst| bytes < worst.transferred_bytes)
                {
                    worst = Some(outcome.clone());
                }
                bad.push((half, outcome));
            }
        }
        if let Some(outcome) = good {
            for (half, failure) in bad {
                half.fail(&self.name, &failure);
            }
            return outcome;
        }
        drop(guard);
        MIRROR_WRITES_FAILED.add(1);
        worst.unwrap_or_else(|| Outcome {
            transferred_bytes: 0,
            // Every half that was written to has failed since; those left did not get it.
            result: Err(crate::Error::Abandoned {
                offset: request.offset(),
            }),
        })
    }
}

impl Half {
    fn fail(&self, mirror: &str, failure: &Outcome) {
        self.failed.store(true, Ordering::Release);
        MIRROR_HALVES_FAILED.add(1);
        let name = self.device.name();
        let error = failure.result.as_ref().err();
        let reason = error.map_or_else(|| "a short write".to_owned(), ToString::to_string);
        let text = format!("{mirror}: {name} is out of service: {reason}");
        warn_once(&self.warned, &text);
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
            _ if request.is_empty() => request.succeed(),
            Operation::Read => self.shared.read(request, 0, None),
            Operation::Write => self.shared.write(request),
        }
    }

    fn register_memory(&self, memory: &Memory) {
        for half in &self.shared.halves {
            half.device.register_memory(memory);
        }
    }
}

#[cfg(test)]
mod tests;
