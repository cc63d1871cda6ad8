//! The calls in flight on one connection.
//!
//! An xid is a number that grows with each call, above the number of the slot that waits for the
//! reply: the reply finds its call by one index, in whatever order replies come, and an xid comes
//! again only after four million calls.

use std::time::Instant;

use super::LoadError;
use super::generator::Call;

const SLOT_BITS: u32 = 10;

/// The most calls in flight on one connection.
pub const DEPTH_MAX: usize = 1 << SLOT_BITS;

/// A call that was sent and not answered.
#[derive(Clone, Copy, Debug)]
pub(super) struct InFlight {
    pub(super) call: Call,
    /// When the operation began: for what follows on a first call, when that one was sent.
    pub(super) since: Instant,
}

#[derive(Clone, Copy)]
struct Slot {
    xid: u32,
    waiting: Option<InFlight>,
}

/// A fixed number of places for calls in flight.
pub(super) struct Slots {
    slots: Vec<Slot>,
    free: Vec<u32>,
    sequence: u32,
}

impl Slots {
    /// `depth` places, at least one and at most [`DEPTH_MAX`]. `seed` makes the xids of two
    /// connections differ.
    pub(super) fn new(depth: usize, seed: u32) -> Self {
        let depth = depth.clamp(1, DEPTH_MAX);
        let empty = Slot {
            xid: 0,
            waiting: None,
        };
        #[allow(clippy::cast_possible_truncation)] // at most DEPTH_MAX
        let free = (0..depth as u32).rev().collect();
        Self {
            slots: vec![empty; depth],
            free,
            sequence: seed,
        }
    }

    /// Whether one more call may be sent.
    pub(super) fn has_free(&self) -> bool {
        !self.free.is_empty()
    }

    /// Whether no reply is due.
    pub(super) fn is_idle(&self) -> bool {
        self.free.len() == self.slots.len()
    }

    /// Takes a place for a call and names it; `None` when all are taken.
    pub(super) fn claim(&mut self, call: Call, since: Instant) -> Option<u32> {
        let index = self.free.pop()?;
        let slot = self.slots.get_mut(index as usize)?;
        self.sequence = self.sequence.wrapping_add(1);
        slot.xid = (self.sequence << SLOT_BITS) | index;
        slot.waiting = Some(InFlight { call, since });
        Some(slot.xid)
    }

    /// The call that a reply answers; its place is free again.
    pub(super) fn answer(&mut self, xid: u32) -> Result<InFlight, LoadError> {
        let unknown = LoadError::UnknownXid { xid };
        let index = xid & (DEPTH_MAX as u32 - 1);
        let Some(slot) = self
            .slots
            .get_mut(index as usize)
            .filter(|slot| slot.xid == xid)
        else {
            return Err(unknown);
        };
        let Some(waiting) = slot.waiting.take() else {
            return Err(unknown);
        };
        self.free.push(index);
        Ok(waiting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_in_any_order_find_their_calls() {
        let mut slots = Slots::new(4, 7);
        let now = Instant::now();
        let xids: Vec<u32> = (0..4)
            .map(|block| {
                slots
                    .claim(
                        Call::Read {
                            offset: block,
                            count: 1,
                        },
                        now,
                    )
                    .unwrap()
            })
            .collect();
        assert!(!slots.has_free() && slots.claim(Call::Getattr, now).is_none());
        for order in [2, 0, 3, 1] {
            let answered = slots.answer(xids[order]).unwrap().call;
            assert_eq!(
                answered,
                Call::Read {
                    offset: order as u64,
                    count: 1
                }
            );
        }
        assert!(slots.is_idle());
    }

    #[test]
    fn a_reply_counts_once_and_only_for_its_call() {
        let mut slots = Slots::new(2, u32::MAX - 1);
        let now = Instant::now();
        let first = slots.claim(Call::Getattr, now).unwrap();
        for strange in [
            first ^ 1,
            first ^ (1 << SLOT_BITS),
            first | (DEPTH_MAX as u32 - 1),
        ] {
            let result = slots.answer(strange);
            assert!(matches!(result, Err(LoadError::UnknownXid { xid }) if xid == strange));
        }
        assert!(slots.answer(first).is_ok());
        assert!(slots.answer(first).is_err());
        let second = slots.claim(Call::Getattr, now).unwrap();
        assert_ne!(first, second);
        assert!(slots.answer(first).is_err());
    }
}
