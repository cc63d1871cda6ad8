//! Refused clients: log lines, and counts by address, both bounded; the address refused longest ago
//! is dropped first.

use std::collections::VecDeque;
use std::fmt;
use std::net::IpAddr;

use pagewell_base::sync::Mutex;
use pagewell_counters::served::Refused;

const ADDRESSES_MAX: usize = 128;

/// Why a client is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// By all exports.
    NotAllowed,
    /// By the export.
    ExportNotAllowed,
    /// The export is for reserved ports.
    PortNotReserved,
    /// In all or of this address.
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

/// In order of the last refusal.
static REFUSED: Mutex<VecDeque<Refused>> = Mutex::new(VecDeque::new());

/// Logs and counts.
pub fn note(peer: IpAddr, reason: Reason) {
    let address = peer.to_canonical();
    count(&mut REFUSED.lock(), address, reason);
    tracing::warn!(limit = %address, client = %address, "refused: {address}: {reason}");
}

/// The latest last.
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
