//! TLB shoot-downs, as the kernel counts them.
//!
//! A processor that changes a mapping interrupts every other one that may remember the old one.
//! `/proc/interrupts` has a line `TLB` with a number for each processor (x86 only); `/proc/vmstat`
//! counts flushes if the kernel was built so. Both are of the whole machine, so a quiet one gives
//! the better number.

use std::fs;

/// Counts of the whole machine since its start, absent if the kernel has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Shootdowns {
    /// Interrupts because of another processor's change, on all processors.
    pub(super) interrupts: Option<u64>,
    /// Flushes that went to other processors.
    pub(super) remote_flushes: Option<u64>,
}

impl Shootdowns {
    pub(super) fn now() -> Self {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        Self {
            interrupts: interrupts(&read("/proc/interrupts")),
            remote_flushes: flushes(&read("/proc/vmstat")),
        }
    }

    pub(super) fn since(&self, before: &Self) -> Self {
        let less = |now: Option<u64>, before: Option<u64>| {
            now.zip(before)
                .map(|(now, before)| now.saturating_sub(before))
        };
        Self {
            interrupts: less(self.interrupts, before.interrupts),
            remote_flushes: less(self.remote_flushes, before.remote_flushes),
        }
    }
}

fn interrupts(text: &str) -> Option<u64> {
    let line = text
        .lines()
        .find_map(|line| line.trim_start().strip_prefix("TLB:"))?;
    let numbers = line.split_ascii_whitespace();
    Some(numbers.map_while(|word| word.parse::<u64>().ok()).sum())
}

fn flushes(text: &str) -> Option<u64> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("nr_tlb_remote_flush "))?;
    line.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_found_and_processors_added() {
        let text = "           CPU0       CPU1\n  0:  5  6 IO-APIC timer\n\
                    CAL:   7   8   Function call interrupts\n\
                    TLB:     359089     356291   TLB shootdowns\n";
        assert_eq!(interrupts(text), Some(715_380));
        assert_eq!(interrupts("CAL: 1 2\n"), None);
        assert_eq!(
            flushes("nr_tlb_remote_flush_received 9\nnr_tlb_remote_flush 4\n"),
            Some(4)
        );
        assert_eq!(flushes(""), None);
        let before = Shootdowns {
            interrupts: Some(5),
            remote_flushes: None,
        };
        let now = Shootdowns {
            interrupts: Some(9),
            remote_flushes: Some(3),
        };
        let expected = Shootdowns {
            interrupts: Some(4),
            remote_flushes: None,
        };
        assert_eq!(now.since(&before), expected);
    }
}
