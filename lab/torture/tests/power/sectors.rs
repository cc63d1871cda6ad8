//! The contract of a [`Store`], without a database: sectors against a model.
//!
//! The model knows of each sector what it holds and what it has held since it was last made
//! durable. A read gives the former. After a power cut each sector must be one of these, whole;
//! which one is then what it holds.

use crate::lives::Report;
use crate::random::Random;
use crate::store::{Machine, Result, SECTOR_BYTES, Store};

/// Few enough that the same ones are written again and again, more than a page of any cache.
const SECTORS: usize = 700;
const SECTOR: usize = SECTOR_BYTES as usize;
const BYTES: usize = SECTORS * SECTOR;
/// Operations of a life that is not cut short.
const OPERATIONS_MAX: u64 = 250;

/// What a sector may be after a power cut; the last is what it is now.
type Versions = Vec<Vec<u8>>;

struct Model(Vec<Versions>);

impl Model {
    fn now(&self, offset: usize, length: usize) -> Vec<u8> {
        let sectors = offset / SECTOR..(offset + length).div_ceil(SECTOR);
        let bytes: Vec<u8> = self.0[sectors]
            .iter()
            .flat_map(|versions| versions.last().expect("a version").iter().copied())
            .collect();
        bytes[offset % SECTOR..][..length].to_vec()
    }

    fn write(&mut self, offset: usize, data: &[u8]) {
        let first = offset / SECTOR;
        let last = (offset + data.len()).div_ceil(SECTOR);
        let mut bytes = self.now(first * SECTOR, (last - first) * SECTOR);
        bytes[offset % SECTOR..][..data.len()].copy_from_slice(data);
        for (versions, bytes) in self.0[first..last].iter_mut().zip(bytes.chunks(SECTOR)) {
            versions.push(bytes.to_vec());
        }
    }

    /// Whole sectors of the range have no past any more.
    fn durable(&mut self, offset: usize, length: usize) {
        let sectors = offset.div_ceil(SECTOR)..(offset + length) / SECTOR;
        if sectors.start < sectors.end {
            for versions in &mut self.0[sectors] {
                versions.drain(..versions.len() - 1);
            }
        }
    }

    /// Takes what survived for what is.
    fn survived(&mut self, found: &[u8]) -> Result<()> {
        for (number, (versions, found)) in self.0.iter_mut().zip(found.chunks(SECTOR)).enumerate() {
            if !versions.iter().any(|version| version == found) {
                let count = versions.len();
                return Err(format!("sector {number} is none of the {count} it may be"));
            }
            *versions = vec![found.to_vec()];
        }
        Ok(())
    }
}

/// Lives of a store, each ended by a power cut.
pub(crate) fn run(
    machine: &mut dyn Machine,
    seed: u64,
    lives: u64,
    operations_max: u64,
) -> Result<Report> {
    let mut random = Random::new(seed);
    let mut model = Model(vec![vec![vec![0; SECTOR]]; SECTORS]);
    let mut report = Report::default();
    for life in 0..=lives {
        let last = life == lives;
        let cut_after = if last {
            u64::MAX
        } else {
            random.below(operations_max)
        };
        let store = machine.power_on(cut_after, Random::new(random.number()));
        let result = live(&*store, &mut model, &mut random, last, &mut report);
        let inside = store.is_cut();
        drop(store);
        machine.power_off();
        match result {
            Err(what) if !inside || what.starts_with("sector") => {
                return Err(format!("seed {seed}, life {life}, cut {cut_after}: {what}"));
            }
            _ if !last => {
                report.cuts += 1;
                report.cuts_inside += u64::from(inside);
            }
            _ => {}
        }
    }
    Ok(report)
}

fn live(
    store: &dyn Store,
    model: &mut Model,
    random: &mut Random,
    only_look: bool,
    report: &mut Report,
) -> Result<()> {
    let mut found = vec![0; BYTES];
    store.read(0, &mut found)?;
    model.survived(&found)?;
    report.found += SECTORS as u64;
    let operations = if only_look {
        0
    } else {
        random.below(OPERATIONS_MAX)
    };
    for _ in 0..operations {
        operate(store, model, random, report)?;
    }
    Ok(())
}

fn operate(
    store: &dyn Store,
    model: &mut Model,
    random: &mut Random,
    report: &mut Report,
) -> Result<()> {
    let most = random.of(&[10, 700, 5000, 150_000]);
    let mut length = usize::try_from(1 + random.below(most)).expect("short");
    let mut offset = usize::try_from(random.below((BYTES - length) as u64)).expect("short");
    if random.one_in(3) {
        (offset, length) = (offset - offset % SECTOR, length.next_multiple_of(SECTOR));
        length = length.min(BYTES - offset);
    }
    match random.below(10) {
        0..=5 => {
            let mut data = vec![0; length];
            random.fill(&mut data);
            // Before, because a write that fails may have been made.
            model.write(offset, &data);
            store.write(offset as u64, &data)
        }
        6 | 7 => {
            let mut found = vec![0; length];
            store.read(offset as u64, &mut found)?;
            if found == model.now(offset, length) {
                return Ok(());
            }
            Err(format!("sector {} reads wrong", offset / SECTOR))
        }
        8 => {
            store.sync()?;
            report.commits += 1;
            model.durable(0, BYTES);
            Ok(())
        }
        _ => {
            store.sync_range(offset as u64, length as u64)?;
            report.commits += 1;
            model.durable(offset, length);
            Ok(())
        }
    }
}
