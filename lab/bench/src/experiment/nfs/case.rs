//! The table of the report: each workload, baseline and enhanced, with few server threads and with
//! many.

use pagewell_source_nfs::ReadAhead;

use super::recording::Recording;
use super::run::{Memory, Place, Setting};
use super::workload::Workload;
use crate::experiment::{Mode, Phase, Result};

/// Read-ahead in blocks on the mount with many threads, as in the report.
const READ_AHEAD_MANY: u32 = 8;
/// The default of the report's client.
const READ_AHEAD_FEW: u32 = 1;
/// Passes over the file: the first finds nothing, the second all.
const PASSES: u64 = 2;

/// A server and a mount of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Configuration {
    /// 4 server threads, default read-ahead.
    Few,
    /// 64 server threads, read-ahead of 8 blocks.
    Many,
}

impl Configuration {
    pub(super) const ALL: [Self; 2] = [Self::Few, Self::Many];

    /// Threads of the server that may wait for storage.
    pub(super) fn threads(self) -> u32 {
        match self {
            Self::Few => 4,
            Self::Many => 64,
        }
    }

    /// For people, without the threads of a foreign server.
    pub(super) fn name(self, ours: bool) -> String {
        let threads = if ours {
            format!("{} threads, ", self.threads())
        } else {
            String::new()
        };
        match self {
            Self::Few => format!("{threads}default read-ahead"),
            Self::Many => format!("{threads}read-ahead {READ_AHEAD_MANY}"),
        }
    }

    fn read_ahead(self, mode: Mode) -> ReadAhead {
        match (self, mode) {
            (Self::Few, Mode::Baseline) => ReadAhead::Blocks(READ_AHEAD_FEW),
            (Self::Few, Mode::Enhanced) => ReadAhead::Auto,
            (Self::Many, _) => ReadAhead::Blocks(READ_AHEAD_MANY),
        }
    }
}

pub(super) struct Case {
    pub(super) workload: Workload,
    pub(super) configuration: Configuration,
    pub(super) mode: Mode,
    pub(super) memory: Memory,
    /// Runs of each phase: new, and, for reads, the same again.
    pub(super) phases: Vec<(Phase, Vec<Recording>)>,
}

/// All cells, the modes of a workload side by side.
pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for configuration in Configuration::ALL {
        for workload in Workload::ALL {
            for mode in [Mode::Baseline, Mode::Enhanced] {
                cases.push(Case::new(workload, configuration, mode, Memory::Whole));
            }
        }
    }
    cases
}

/// Random writes of 4 KiB with the cache of a usual mount.
pub(super) fn usual_cases() -> Vec<Case> {
    let (workload, few) = (Workload::RANDOM_WRITE_SMALL, Configuration::Few);
    let case = |mode| Case::new(workload, few, mode, Memory::Usual);
    [Mode::Baseline, Mode::Enhanced].map(case).into()
}

/// The cell of these three, if it has runs.
pub(super) fn find(
    cases: &[Case],
    workload: Workload,
    configuration: Configuration,
    mode: Mode,
) -> Option<&Case> {
    cases.iter().find(|case| {
        let own = (case.workload, case.configuration, case.mode);
        own == (workload, configuration, mode) && !case.first().is_empty()
    })
}

impl Case {
    fn new(workload: Workload, configuration: Configuration, mode: Mode, memory: Memory) -> Self {
        let phases = match (workload.writes, workload.random) {
            (true, _) => &[Phase::Cold][..],
            // Random reads warm the cache gradually.
            (false, true) => &[Phase::Warming, Phase::Warm],
            (false, false) => &[Phase::Cold, Phase::Warm],
        };
        let phases = phases.iter().map(|phase| (*phase, Vec::new()));
        Self {
            workload,
            configuration,
            mode,
            memory,
            phases: phases.collect(),
        }
    }

    pub(super) fn name(&self, ours: bool) -> String {
        let memory = match self.memory {
            Memory::Whole => "",
            Memory::Usual => ", the cache of a mount in use",
        };
        format!(
            "{}, {}{memory}",
            self.workload.name(),
            self.configuration.name(ours)
        )
    }

    pub(super) fn run(&mut self, place: &Place) -> Result<()> {
        let setting = Setting {
            mode: self.mode,
            read_ahead: self.configuration.read_ahead(self.mode),
            transfer_bytes: (self.mode == Mode::Baseline).then_some(super::run::REPORT_BLOCK_BYTES),
            round_trip: None,
            memory: self.memory,
        };
        let recordings = if self.workload.writes {
            vec![place.write(&setting, self.workload)?]
        } else {
            place.read(&setting, self.workload, PASSES)?
        };
        for ((_, runs), recording) in self.phases.iter_mut().zip(recordings) {
            runs.push(recording);
        }
        Ok(())
    }

    /// Runs of the first phase.
    pub(super) fn first(&self) -> &[Recording] {
        self.phases.first().map_or(&[], |(_, runs)| runs)
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Recording> {
        self.phases.iter().flat_map(|(_, runs)| runs)
    }
}
