//! Lives of one database: each ends in a power cut, and the next begins with what that left.
//!
//! ```text
//!   power on ── mount ── recover ── check ── write ... ┬ cut at some operation ──> next life
//!                                                       └ enough: cut after the last commit ─┘
//! ```
//!
//! All choices follow from one seed. A cut comes as likely early (in the recovery from the last
//! one) as late.

use std::sync::Arc;

use crate::database::{Database, End, Journal, Known};
use crate::random::Random;
use crate::store::{Machine, Store};
use crate::vfs::Registered;
use crate::volume::Volume;

/// Transactions of a life that is not cut short.
const TRANSACTIONS_MAX: u64 = 25;

/// What was done, for people.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Report {
    /// Times the power failed, and of these in the middle of an operation.
    pub(crate) cuts: u64,
    pub(crate) cuts_inside: u64,
    /// Transactions whose commit returned.
    pub(crate) commits: u64,
    /// Transactions that were looked for after a cut and found, each after each cut.
    pub(crate) found: u64,
}

impl Report {
    pub(crate) fn add(&mut self, other: &Self) {
        self.cuts += other.cuts;
        self.cuts_inside += other.cuts_inside;
        self.commits += other.commits;
        self.found += other.found;
    }
}

/// A series of lives.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) lives: u64,
    pub(crate) journal: Journal,
    /// Operations of the machine among which the cut is, in a life.
    pub(crate) operations_max: u64,
}

impl Plan {
    /// Lives them. An error is what was found wrong.
    pub(crate) fn run(&self, machine: &mut dyn Machine) -> Result<Report, String> {
        let mut random = Random::new(self.seed);
        let mut known = Known::default();
        let mut report = Report::default();
        self.format(machine, &mut random)?;
        for life in 0..=self.lives {
            // The last one only looks.
            let last = life == self.lives;
            let cut_after = match random.below(4) {
                _ if last => u64::MAX,
                0 => random.below(self.operations_max.min(60)),
                1 => u64::MAX,
                _ => random.below(self.operations_max),
            };
            let store = machine.power_on(cut_after, Random::new(random.number()));
            let end = self.live(life, store.clone(), &mut known, &mut random, last);
            let inside = store.is_cut();
            drop(store);
            machine.power_off();
            match end {
                Err(End::Wrong(what)) => {
                    return Err(format!("{self:?}, life {life}, cut {cut_after}: {what}"));
                }
                Err(End::Cut) | Ok(()) if !last => {
                    report.cuts += 1;
                    report.cuts_inside += u64::from(inside);
                }
                _ => {}
            }
        }
        report.commits = known.committed.commits.cast_unsigned();
        report.found = known.found;
        Ok(report)
    }

    fn format(&self, machine: &mut dyn Machine, random: &mut Random) -> Result<(), String> {
        let store = machine.power_on(u64::MAX, Random::new(random.number()));
        Volume::format(&*store)?;
        drop(store);
        machine.power_off();
        Ok(())
    }

    fn live(
        &self,
        life: u64,
        store: Arc<dyn Store>,
        known: &mut Known,
        random: &mut Random,
        only_look: bool,
    ) -> Result<(), End> {
        let volume = match Volume::mount(store.clone(), Random::new(random.number())) {
            Ok(volume) => Arc::new(volume),
            Err(_) if store.is_cut() => return Err(End::Cut),
            Err(error) => return Err(End::Wrong(error)),
        };
        // A name of its own for each, because tests run side by side.
        let address = Arc::as_ptr(&volume).addr();
        let name = format!("pagewell-{address:x}-{life}");
        let vfs = Registered::new(&name, volume.clone(), random.one_in(2));
        let database = Database::open(&vfs, volume, self.journal, random)?;
        database.check(known)?;
        if !only_look {
            let transactions = 1 + random.below(TRANSACTIONS_MAX);
            for _ in 0..transactions {
                database.work(known, random)?;
            }
        }
        Ok(())
    }
}
