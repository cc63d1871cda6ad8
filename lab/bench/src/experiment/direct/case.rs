//! Cases: what is read by which paths, and how often.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use pagewell_base::size;
use pagewell_layers::model::Parameters;

use super::path::Path;
use super::reading::{Plan, Reading, read};
use super::scratch::Scratch;
use super::target::{Maker, PIECE_BYTES, Target, TargetName};
use crate::experiment::{Result, system};

const MIB: u64 = 1 << 20;
/// The report's disks.
const DISK: &str = "fc-15k";
const DISKS: u64 = 8;
/// Requests at a time over eight disks, to show overlap: two for each, so that a disk has the next
/// one while the last reply is on its way.
const DISKS_DEPTH: usize = 16;
const FILE_DEPTH: usize = 8;
/// The raw path makes two thousand requests where others make one: it reads one of so many parts of
/// the others' bytes, enough for its rates.
const RAW_PART: u64 = 16;
/// Read-ahead may have an eighth of it: 8 MiB for each of the disks.
const CACHE_BYTES: u64 = 512 * MIB;
/// The end of the names of cases whose direct reads are not direct.
const NOT_DIRECT: &str = ", without O_DIRECT, which is refused";
const CHECKED_BYTES: u64 = 4 * MIB;
/// The small pieces of the raw path would take seconds.
const CHECKED_BLOCK_BYTES: u64 = 128 << 10;

/// What to read, and how. Without a target modelled disks and a scratch file, without a path all
/// four.
#[derive(Clone, Debug, Default, Args)]
pub struct Choice {
    /// Files, block devices or modelled disks (model:NAME[,OPTION=VALUE]...)
    #[arg(value_name = "TARGET")]
    pub targets: Vec<TargetName>,
    /// Operations on each target; written as a size is
    #[arg(long, value_name = "N", value_parser = size::parse_positive)]
    pub blocks: Option<u64>,
    /// Bytes of an operation, by default 1m of direct and raw reads and 8k of the others
    #[arg(long = "bs", value_name = "SIZE", value_parser = size::parse_positive)]
    pub block_bytes: Option<u64>,
    /// Large requests into the program's memory
    #[arg(long)]
    pub direct: bool,
    /// The same, in pieces of 512 bytes
    #[arg(long)]
    pub raw: bool,
    /// Small reads through the cache, copied
    #[arg(long)]
    pub buffered: bool,
    /// Small reads through the cache, pinned
    #[arg(long)]
    pub nocopy: bool,
    /// Where the scratch file is made; by default TMPDIR
    #[arg(long, value_name = "PATH")]
    pub directory: Option<PathBuf>,
    /// Memory of the cache, that of all targets.
    #[arg(skip)]
    pub cache_bytes: Option<u64>,
}

/// One path over some targets.
#[derive(Clone, Debug)]
pub(super) struct Line {
    pub(super) path: Path,
    pub(super) depth: usize,
    pub(super) plan: Plan,
    pub(super) readings: Vec<Reading>,
}

/// Some paths over the same targets.
pub(super) struct Case {
    pub(super) name: String,
    pub(super) kind: Kind,
    makers: Vec<Maker>,
    /// Bytes of the pieces of a raw read.
    pub(super) piece_bytes: u64,
    pub(super) lines: Vec<Line>,
    /// Bytes that every path has read for comparison.
    pub(super) checked_bytes: u64,
}

/// Decides a case's requirements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// One modelled disk.
    Disk,
    /// Eight of them.
    Disks,
    /// A file.
    File,
    /// Named by the user.
    Named,
}

impl Choice {
    fn wants(&self, path: Path) -> bool {
        let asked = [self.direct, self.raw, self.buffered, self.nocopy];
        asked == [false; 4] || asked[path as usize]
    }

    fn line(&self, path: Path, depth: usize, target_bytes: u64) -> Line {
        let block_bytes = self.block_bytes.unwrap_or(path.block_bytes()).max(1);
        // The user's choice is read whole.
        let part = if path == Path::Raw && self.targets.is_empty() {
            RAW_PART
        } else {
            1
        };
        let enough = (target_bytes / part / block_bytes).max(1);
        let blocks = if self.targets.is_empty() {
            self.blocks
                .map_or(enough, |blocks| blocks.min(target_bytes / block_bytes))
        } else {
            self.blocks.unwrap_or(enough)
        };
        Line {
            path,
            depth,
            plan: Plan {
                path,
                block_bytes,
                blocks: blocks.max(1),
                depth,
                cache_bytes: self.cache_bytes.unwrap_or(CACHE_BYTES),
                check: false,
            },
            readings: Vec::new(),
        }
    }

    /// One operation at a time on every path, then many on the direct one.
    fn lines(&self, target_bytes: u64, depth: usize) -> Vec<Line> {
        let paths = Path::ALL.into_iter().filter(|path| self.wants(*path));
        let mut lines: Vec<Line> = paths.map(|path| self.line(path, 1, target_bytes)).collect();
        if self.wants(Path::Direct) && depth > 1 {
            lines.push(self.line(Path::Direct, depth, target_bytes));
        }
        lines
    }
}

/// The cases, with their scratch file.
pub(super) fn cases(choice: &Choice, quick: bool) -> Result<Vec<Case>> {
    if !choice.targets.is_empty() {
        return Ok(vec![named(choice, quick)?]);
    }
    let disk_bytes = if quick { 16 * MIB } else { 128 * MIB };
    let file_bytes = if quick { 256 * MIB } else { 1024 * MIB };
    let disks = |count: u64| -> Result<Vec<Maker>> {
        let parameters = Parameters::parse(DISK)?;
        let make = |seed| Maker::Model {
            parameters: parameters.clone(),
            length_bytes: disk_bytes,
            seed,
        };
        Ok((1..=count).map(make).collect())
    };
    let scratch = Arc::new(
        Scratch::new(choice.directory.as_deref(), file_bytes, 77)
            .map_err(system("a scratch file"))?,
    );
    let case = |name: &str, kind, makers, bytes, depth| Case {
        name: name.to_owned(),
        kind,
        makers,
        piece_bytes: PIECE_BYTES,
        lines: choice.lines(bytes, depth),
        checked_bytes: 0,
    };
    Ok(vec![
        case("1 modelled disk", Kind::Disk, disks(1)?, disk_bytes, 1),
        case(
            "8 modelled disks",
            Kind::Disks,
            disks(DISKS)?,
            disk_bytes,
            DISKS_DEPTH,
        ),
        case(
            "a file",
            Kind::File,
            vec![Maker::Scratch(scratch)],
            file_bytes,
            FILE_DEPTH,
        ),
    ])
}

fn named(choice: &Choice, quick: bool) -> Result<Case> {
    let makers = choice.targets.iter().zip(1..);
    let makers = makers.map(|(name, number)| Maker::named(name, number));
    let makers: Vec<Maker> = makers.collect();
    let mut shortest = u64::MAX;
    for maker in &makers {
        shortest = shortest.min(maker.open()?.top.length_bytes());
    }
    // A modelled disk has endless bytes, and takes its time.
    let most = if quick { 64 * MIB } else { 1024 * MIB };
    let depth = 2 * makers.len().max(4);
    Ok(Case {
        name: format!("{} named", makers.len()),
        kind: Kind::Named,
        lines: choice.lines(shortest.min(most), depth),
        makers,
        piece_bytes: PIECE_BYTES,
        checked_bytes: 0,
    })
}

impl Case {
    fn open(&self) -> Result<Vec<Target>> {
        self.makers.iter().map(Maker::open).collect()
    }

    pub(super) fn targets(&self) -> Result<Vec<String>> {
        let targets = self.open()?;
        Ok(targets
            .iter()
            .map(|target| target.top.name().to_owned())
            .collect())
    }

    /// Learns from the targets.
    fn learn(&mut self, targets: &[Target]) {
        let blocks = targets.iter().map(Target::piece_bytes);
        self.piece_bytes = blocks.max().unwrap_or(PIECE_BYTES);
        let is_direct = targets.iter().all(|target| target.is_direct);
        if !is_direct && !self.name.ends_with(NOT_DIRECT) {
            self.name += NOT_DIRECT;
        }
    }

    /// Each path once over a few bytes of known value, all compared.
    pub(super) fn check(&mut self) -> Result<()> {
        for index in 0..self.lines.len() {
            let targets = self.open()?;
            self.learn(&targets);
            if targets.iter().any(|target| target.pattern.is_none()) {
                return Ok(());
            }
            let plan = self.lines[index].plan;
            let block_bytes = plan.block_bytes.min(CHECKED_BLOCK_BYTES);
            let some = (CHECKED_BYTES / block_bytes / targets.len() as u64).max(1);
            let plan = Plan {
                block_bytes,
                blocks: some.min(plan.blocks * (plan.block_bytes / block_bytes)),
                check: true,
                ..plan
            };
            self.checked_bytes += read(&plan, &targets)?.bytes;
        }
        Ok(())
    }

    /// One more run of every line, in turn.
    pub(super) fn round(&mut self) -> Result<()> {
        for index in 0..self.lines.len() {
            let targets = self.open()?;
            let reading = read(&self.lines[index].plan, &targets)?;
            self.lines[index].readings.push(reading);
        }
        Ok(())
    }

    /// The line of a path with one operation at a time, or with many.
    pub(super) fn line(&self, path: Path, one: bool) -> Option<&Line> {
        let mut lines = self.lines.iter();
        lines.find(|line| line.path == path && (line.depth == 1) == one)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_whose_direct_reads_are_none_says_so() {
        let choice = Choice {
            targets: vec!["model:nvme".parse().unwrap()],
            ..Choice::default()
        };
        let mut case = named(&choice, true).unwrap();
        let mut targets = case.open().unwrap();
        case.learn(&targets);
        assert_eq!(case.name, "1 named");
        targets[0].is_direct = false;
        case.learn(&targets);
        case.learn(&targets);
        assert_eq!(case.name, "1 named, without O_DIRECT, which is refused");
    }
}
