//! Traffic of each client by export, at little cost for a call.
//!
//! A batch counts its replies in its thread's memory; its connection takes the counts when it is
//! sent. [Clients](crate::clients) sum connections on demand:
//!
//! ```text
//!   reply ──> Tally of the batch ──> Usage of the connection ──> Clients, when it is looked at
//!   (each call)          (each send)                  └── its end ──> past counts of the address
//! ```
//!
//! A connection counts a bounded number of exports. Replies of the duplicate cache do not count.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use pagewell_base::sync::Mutex;
use pagewell_counters::served::Traffic;

const EXPORTS_MAX: usize = 64;

/// An interned export name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExportLabel(usize);

impl ExportLabel {
    /// No export.
    pub const NONE: Self = Self(0);

    /// Of a name.
    pub fn of(name: &str) -> Self {
        let mut names = NAMES.lock();
        let at = names.iter().position(|known| known == name);
        Self(at.map_or_else(
            || {
                names.push(name.to_owned());
                names.len()
            },
            |at| at + 1,
        ))
    }

    /// Its number.
    pub fn number(self) -> usize {
        self.0
    }

    /// Empty for no export.
    pub fn name(self) -> String {
        let at = self.0.checked_sub(1);
        let names = NAMES.lock();
        at.and_then(|at| names.get(at)).cloned().unwrap_or_default()
    }
}

static NAMES: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Traffic by export.
#[derive(Debug, Default)]
pub struct ByExport(Vec<(ExportLabel, Traffic)>);

impl ByExport {
    fn add(&mut self, label: ExportLabel, more: Traffic) {
        let has_space = self.0.len() < EXPORTS_MAX;
        let of = |wanted: ExportLabel| move |entry: &&mut (ExportLabel, Traffic)| entry.0 == wanted;
        if let Some((_, traffic)) = self.0.iter_mut().find(of(label)) {
            return traffic.add(more);
        }
        if has_space {
            return self.0.push((label, more));
        }
        // The first entry takes the rest.
        if let Some((_, traffic)) = self.0.first_mut() {
            traffic.add(more);
        }
    }

    /// Adds other counts.
    pub fn add_all(&mut self, other: &Self) {
        for (label, traffic) in &other.0 {
            self.add(*label, *traffic);
        }
    }

    /// Exports and their traffic.
    pub fn iter(&self) -> impl Iterator<Item = (ExportLabel, Traffic)> {
        self.0.iter().copied()
    }
}

/// Of a batch.
#[derive(Debug, Default)]
pub struct Tally {
    /// Of the next counted reply.
    export: ExportLabel,
    /// The last replies to one export: nearly always all.
    last: (ExportLabel, Traffic),
    before: ByExport,
}

impl Tally {
    /// For the next counted reply.
    #[inline]
    pub fn set_export(&mut self, export: ExportLabel) {
        self.export = export;
    }

    /// Of the last counted reply.
    pub fn last_export(&self) -> ExportLabel {
        self.last.0
    }

    /// Counts a reply.
    #[inline]
    pub fn count(&mut self, received_bytes: usize, sent_bytes: usize) {
        let export = std::mem::take(&mut self.export);
        if self.last.0 != export {
            self.change(export);
        }
        self.last.1.add(Traffic {
            calls: 1,
            received_bytes: received_bytes as u64,
            sent_bytes: sent_bytes as u64,
        });
    }

    #[cold]
    fn change(&mut self, export: ExportLabel) {
        let (label, traffic) = std::mem::replace(&mut self.last, (export, Traffic::default()));
        if traffic.calls > 0 {
            self.before.add(label, traffic);
        }
    }
}

/// Of a connection.
#[derive(Debug, Default)]
pub struct Usage {
    by_export: Mutex<ByExport>,
    waits: AtomicU64,
    waits_now: AtomicBool,
}

impl Usage {
    /// From a batch.
    pub fn take(&self, tally: &mut Tally) {
        let (label, traffic) = &mut tally.last;
        // Earlier counts imply later ones.
        if traffic.calls == 0 {
            return;
        }
        let mut by_export = self.by_export.lock();
        by_export.add_all(&tally.before);
        by_export.add(*label, std::mem::take(traffic));
        tally.before.0.clear();
    }

    /// To `sum`.
    pub fn add_to(&self, sum: &mut ByExport) {
        sum.add_all(&self.by_export.lock());
    }

    /// Throttled from now on, or no longer.
    pub fn set_waits(&self, waits: bool) {
        if self.waits_now.swap(waits, Ordering::Relaxed) != waits {
            self.waits.fetch_add(waits.into(), Ordering::Relaxed);
        }
    }

    /// Whether it is throttled.
    pub fn waits_now(&self) -> bool {
        self.waits_now.load(Ordering::Relaxed)
    }

    /// How often it was throttled.
    pub fn waits(&self) -> u64 {
        self.waits.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn traffic(calls: u64, received_bytes: u64, sent_bytes: u64) -> Traffic {
        Traffic {
            calls,
            received_bytes,
            sent_bytes,
        }
    }

    #[test]
    fn a_batch_counts_its_replies_by_export() {
        let (one, other) = (ExportLabel::of("/usage-one"), ExportLabel::of("/usage-two"));
        assert_eq!(ExportLabel::of("/usage-one"), one);
        let (mut tally, usage) = (Tally::default(), Usage::default());
        for (label, received, sent) in [(one, 10, 100), (other, 20, 200), (one, 1, 2)] {
            tally.set_export(label);
            tally.count(received, sent);
        }
        tally.count(5, 6);
        usage.take(&mut tally);
        usage.take(&mut tally);
        let by_export = usage.by_export.lock();
        let expected = [
            (one, traffic(2, 11, 102)),
            (other, traffic(1, 20, 200)),
            (ExportLabel::NONE, traffic(1, 5, 6)),
        ];
        assert_eq!(by_export.0, expected);
    }

    #[test]
    fn the_exports_of_a_connection_are_bounded() {
        let (mut tally, usage) = (Tally::default(), Usage::default());
        for number in 0..2 * EXPORTS_MAX {
            tally.set_export(ExportLabel(number + 1));
            tally.count(1, 1);
        }
        usage.take(&mut tally);
        let by_export = usage.by_export.lock();
        assert_eq!(by_export.0.len(), EXPORTS_MAX);
        let calls: u64 = by_export.iter().map(|(_, traffic)| traffic.calls).sum();
        assert_eq!(calls, 2 * EXPORTS_MAX as u64, "nothing is left out");
    }
}
