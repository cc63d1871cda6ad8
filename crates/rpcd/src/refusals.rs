//! Clients that were turned away: one line in the log for each (not too many), counts by address.
//!
//! A client can be turned away as often as it likes, so both are bounded: lines in number and
//! time, addresses in number. Of more addresses the one that came last longest ago is forgotten.

use std::collections::VecDeque;
use std::fmt;
use std::net::IpAddr;

use pagewell_base::sync::Mutex;
use pagewell_counters::served::Refused;

/// Addresses whose counts are kept.
const ADDRESSES_MAX: usize = 128;

/// Why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// No export allows the address.
    NotAllowed,
    /// The export that it asked for does not allow the address.
    ExportNotAllowed,
    /// The export is for reserved ports only.
    PortNotReserved,
    /// There are too many connections, or too many of this address.
    NoSlot,
}

impl fmt::Display for Reason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::NotAllowed => "no export allows this address (see --allow)",
            Self::ExportNotAllowed => "the export does not allow this address (see --allow)",
            Self::PortNotReserved => "only calls from ports below 1024 are served (--secure)",
            Self::NoSlot => "too many connections",
        })
    }
}

/// In the order in which they were last turned away.
static REFUSED: Mutex<VecDeque<Refused>> = Mutex::new(VecDeque::new());

/// Tells that a client was turned away.
pub fn note(peer: IpAddr, reason: Reason) {
    let address = peer.to_canonical();
    count(&mut REFUSED.lock(), address, reason);
    tracing::warn!(limit = %address, client = %address, "refused: {address}: {reason}");
}

/// The counts of all addresses that are remembered, the latest last.
pub fn by_address() -> Vec<Refused> {
    REFUSED.lock().iter().copied().collect()
}

fn count(all: &mut VecDeque<Refused>, address: IpAddr, reason: Reason) {
    let known = all.iter().position(|of| of.address == address);
    let known = known.and_then(|at| all.remove(at));
    let mut refused = known.unwrap_or(Refused {
        address,
        not_allowed: 0,
        no_slot: 0,
    });
    match reason {
        Reason::NoSlot => refused.no_slot += 1,
        Reason::NotAllowed | Reason::ExportNotAllowed | Reason::PortNotReserved => {
            refused.not_allowed += 1;
        }
    }
    if all.len() >= ADDRESSES_MAX {
        all.pop_front();
    }
    all.push_back(refused);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_counted_and_bounded() {
        let all = &mut VecDeque::new();
        let address = |number: u32| IpAddr::from(number.to_be_bytes());
        for number in 0..1000 {
            count(all, address(number), Reason::NotAllowed);
            count(all, address(7), Reason::NoSlot);
        }
        assert_eq!(all.len(), ADDRESSES_MAX);
        let seven = all.back().unwrap();
        assert_eq!((seven.not_allowed, seven.no_slot), (1, 1000));
        assert_eq!(all[0].address, address(1000 - 127));
    }
}
