//! Clients that were turned away: one line on standard error for each (not too many), counts by
//! address.
//!
//! A client can be turned away as often as it likes, so both are bounded: lines in number and
//! time, addresses in number. Of more addresses the one that came last longest ago is forgotten.

use std::collections::VecDeque;
use std::fmt;
use std::io::Write;
use std::net::IpAddr;
use std::time::Instant;

use pagewell_base::sync::Mutex;

use crate::report::{Period, line};

/// Addresses whose counts are kept.
const ADDRESSES_MAX: usize = 128;

/// Why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// No export allows the address.
    NotAllowed,
    /// The export that it asked for does not allow the address.
    ExportNotAllowed,
    /// There are too many connections, or too many of this address.
    NoSlot,
}

impl fmt::Display for Reason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::NotAllowed => "no export allows this address (see --allow)",
            Self::ExportNotAllowed => "the export does not allow this address (see --allow)",
            Self::NoSlot => "too many connections",
        })
    }
}

/// How often an address was turned away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The client.
    pub address: IpAddr,
    /// Because it is not allowed: connections, mounts and calls.
    pub not_allowed: u64,
    /// Because there was no slot.
    pub no_slot: u64,
}

struct State {
    period: Period,
    /// In the order in which they were last turned away.
    refused: VecDeque<Refused>,
}

static STATE: Mutex<State> = Mutex::new(State {
    period: Period::new(),
    refused: VecDeque::new(),
});

/// Tells that a client was turned away.
pub fn note(peer: IpAddr, reason: Reason) {
    let address = peer.to_canonical();
    let mut state = STATE.lock();
    state.count(address, reason);
    let hidden = state.period.admit(Instant::now());
    drop(state);
    let Some(hidden) = hidden else { return };
    let text = line("refused", &format!("{address}: {reason}"), hidden);
    // There is nowhere left to say that it could not be said.
    let _ = std::io::stderr().write_all(text.as_bytes());
}

/// The counts of all addresses that are remembered, the latest last.
#[must_use]
pub fn by_address() -> Vec<Refused> {
    STATE.lock().refused.iter().copied().collect()
}

impl State {
    fn count(&mut self, address: IpAddr, reason: Reason) {
        let known = self.refused.iter().position(|of| of.address == address);
        let known = known.and_then(|at| self.refused.remove(at));
        let mut refused = known.unwrap_or(Refused {
            address,
            not_allowed: 0,
            no_slot: 0,
        });
        match reason {
            Reason::NotAllowed | Reason::ExportNotAllowed => refused.not_allowed += 1,
            Reason::NoSlot => refused.no_slot += 1,
        }
        if self.refused.len() >= ADDRESSES_MAX {
            self.refused.pop_front();
        }
        self.refused.push_back(refused);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_counted_and_bounded() {
        let mut state = State {
            period: Period::new(),
            refused: VecDeque::new(),
        };
        let address = |number: u32| IpAddr::from(number.to_be_bytes());
        for number in 0..1000 {
            state.count(address(number), Reason::NotAllowed);
            state.count(address(7), Reason::NoSlot);
        }
        assert_eq!(state.refused.len(), ADDRESSES_MAX);
        let seven = state.refused.back().unwrap();
        assert_eq!((seven.not_allowed, seven.no_slot), (1, 1000));
        assert_eq!(state.refused[0].address, address(1000 - 127));
    }
}
