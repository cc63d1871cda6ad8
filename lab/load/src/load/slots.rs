//! The calls in flight on one connection.
//!
//! An xid is a sequence number above the number of its slot: a reply finds its call by one index,
//! in any order. The sequence is the process's, so that no xid comes again for four million calls
//! on any connection: a server that remembers replies by caller and xid would take the call for a
//! repetition.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Instant, SystemTime};

use super::LoadError;
use super::generator::Call;

const SLOT_BITS: u32 = 10;

/// The most calls in flight on one connection.
pub const DEPTH_MAX: usize = 1 << SLOT_BITS;

/// Numbers taken from the process's sequence at once.
const CHUNK: u32 = 256;

/// Sequence numbers that are unique in the process.
#[derive(Default)]
pub(super) struct Sequence {
    next: u32,
    left: u32,
}

impl Sequence {
    /// The next number, above the bits that name a slot.
    pub(super) fn next(&mut self) -> u32 {
        if self.left == 0 {
            self.next = PROCESS_SEQUENCE.fetch_add(CHUNK, Ordering::Relaxed);
            self.left = CHUNK;
        }
        self.next = self.next.wrapping_add(1);
        self.left -= 1;
        self.next << SLOT_BITS
    }
}

/// Starts anywhere, unlike that of an earlier process.
static PROCESS_SEQUENCE: LazyLock<AtomicU32> = LazyLock::new(|| {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let start = std::process::id() ^ now.unwrap_or_default().subsec_nanos();
    AtomicU32::new(start.wrapping_mul(0x9e37_79b9))
});

/// A call that was sent and not answered.
#[derive(Clone, Copy, Debug)]
pub(super) struct InFlight {
    pub(super) call: Call,
    /// When the operation began: when its first call was sent.
    pub(super) since: Instant,
}

#[derive(Clone, Copy)]
struct Slot {
    xid: u32,
    waiting: Option<InFlight>,
}

pub(super) struct Slots {
    slots: Vec<Slot>,
    free: Vec<u32>,
    sequence: Sequence,
}

impl Slots {
    /// `depth` places, at least one and at most [`DEPTH_MAX`].
    pub(super) fn new(depth: usize) -> Self {
        let depth = depth.clamp(1, DEPTH_MAX);
        let empty = Slot {
            xid: 0,
            waiting: None,
        };
        let free = (0..depth as u32).rev().collect();
        Self {
            slots: vec![empty; depth],
            free,
            sequence: Sequence::default(),
        }
    }

    pub(super) fn has_free(&self) -> bool {
        !self.free.is_empty()
    }

    pub(super) fn is_idle(&self) -> bool {
        self.free.len() == self.slots.len()
    }

    /// Takes a place for a call and returns its xid; `None` when all are taken.
    pub(super) fn claim(&mut self, call: Call, since: Instant) -> Option<u32> {
        let index = self.free.pop()?;
        let slot = self.slots.get_mut(index as usize)?;
        slot.xid = self.sequence.next() | index;
        slot.waiting = Some(InFlight { call, since });
        Some(slot.xid)
    }

    /// The call that a reply answers; frees its place.
    pub(super) fn answer(&mut self, xid: u32) -> Result<InFlight, LoadError> {
        let index = xid & (DEPTH_MAX as u32 - 1);
        let slot = self.slots.get_mut(index as usize);
        let slot = slot.filter(|slot| slot.xid == xid);
        let waiting = slot.and_then(|slot| slot.waiting.take());
        let waiting = waiting.ok_or(LoadError::UnknownXid { xid })?;
        self.free.push(index);
        Ok(waiting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_in_any_order_find_their_calls() {
        let mut slots = Slots::new(4);
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
        let mut slots = Slots::new(2);
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

    #[test]
    fn no_connection_uses_the_xid_of_another() {
        let mut seen = std::collections::HashSet::new();
        let mut sequences: Vec<Sequence> = (0..5).map(|_| Sequence::default()).collect();
        for _ in 0..1000 {
            for sequence in &mut sequences {
                assert!(seen.insert(sequence.next()));
            }
        }
        let now = Instant::now();
        let mut slots: Vec<Slots> = (0..5).map(|_| Slots::new(3)).collect();
        for slots in &mut slots {
            assert!(seen.insert(slots.claim(Call::Getattr, now).unwrap()));
        }
    }
}
