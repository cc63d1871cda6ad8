//! Making the legs of a mirror equal again.
//!
//! One leg is the *source*; the others are compared with it, chunk by chunk, and only chunks that
//! differ are written:
//!
//! ```text
//!   source ── read ──┐
//!                    ├── equal? ── yes ──> next
//!   target ── read ──┘      └───── no ───> write to target
//! ```
//!
//! - The source is the first leg that is current; of legs that were left in use without a
//!   goodbye that is the one which is read meanwhile, so that no reader sees bytes go back.
//!   An operator who knows better may name another, even one that missed writes; but not one that
//!   is a mixture, because it was not completely resynchronised, as long as there is a good one.
//! - Before the first chunk the source is flushed and gets a new generation, and targets that are
//!   not as good as the source are recorded as being resynchronised, so that none of them is read
//!   before it is finished, whatever happens. A target is clean with the source's generation only
//!   after all of it was compared and flushed. Starting again compares all, and writes only what is
//!   left to write.
//! - Targets that are as good come first, and nothing is recorded before they are equal: the source
//!   may turn out to be bad, and then each of them is a source, too. Of legs that were left in use
//!   each block is a right answer, also while some of it is copied. Legs that are current should be
//!   equal; one that differs is recorded as being resynchronised before it is written to.
//! - Legs of which nothing is known are only compared: nothing tells which one is right. Where
//!   one was replaced, or two were written to without each other, the operator has to name the
//!   source.
//!
//! Chunks of 1 MiB are long enough for the rate of a disk. Eight that are read ahead, and as many
//! that are being written, keep one busy that has a queue; together they take 25 MiB. They are
//! compared in their order: one that is slow holds up the others.
//!
//! Nobody else may write to any leg meanwhile: the caller sees to that.

use std::collections::VecDeque;
use std::sync::{Arc, mpsc};

use pagewell_counters::names::{
    MIRROR_COMPARED_BYTES, MIRROR_RECORD_FAILURES, MIRROR_RESYNCHRONISED_BYTES,
};

use super::assess::{Assessment, Condition, GENERATION_MAX, MirrorError, Refusal, name_of};
use super::record::{LegState, MirrorRecord, RecordError, Standing};
use crate::combined::geometry_of;
use crate::waiting::Sent;
use crate::{Device, Error, Issuer, Operation, Request};

/// Bytes compared at a time.
const CHUNK_BYTES: u64 = 1 << 20;
/// Chunks being read, and chunks being written.
const CHUNKS_MAX: usize = 8;

/// A resynchronisation that has not begun.
pub struct Resync<'a> {
    legs: &'a [Arc<dyn Device>],
    record: &'a dyn MirrorRecord,
    source: usize,
    source_condition: Condition,
    compare_only: bool,
    /// What the legs were good for before; unknown, all of them, when they become a new mirror.
    conditions: Vec<Condition>,
    /// What each leg is to be at the end.
    standings: Vec<Standing>,
}

/// What was done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResyncReport {
    /// Bytes of targets that were compared.
    pub compared_bytes: u64,
    /// Bytes of chunks that differed or could not be read.
    pub differing_bytes: u64,
    /// Bytes written.
    pub copied_bytes: u64,
    /// First byte of the first chunk that differed, and the leg.
    pub first: Option<(usize, u64)>,
}

impl<'a> Resync<'a> {
    /// Looks at the records and decides. `from` names the source; then records that contradict
    /// each other are replaced by those of a new mirror. `identity` is random, for a new mirror.
    pub fn plan(
        name: &str,
        legs: &'a [Arc<dyn Device>],
        record: &'a dyn MirrorRecord,
        from: Option<usize>,
        identity: [u8; 16],
    ) -> Result<Self, MirrorError> {
        super::build(name, legs)?;
        if let Some(absent) = (0..legs.len()).find(|leg| record.binding(*leg).is_none()) {
            return Err(Refusal::Absent(name_of(legs, absent)).into());
        }
        let assessment = match Assessment::of(record, legs) {
            Err(MirrorError::Refused(_) | MirrorError::Record(RecordError::Garbled { .. }))
                if from.is_some() =>
            {
                None
            }
            found => Some(found?).filter(|found| !found.is_unknown()),
        };
        let anew = Self {
            legs,
            record,
            source: from.unwrap_or(0),
            source_condition: Condition::Unknown,
            compare_only: from.is_none(),
            conditions: vec![Condition::Unknown; legs.len()],
            standings: fresh(identity, legs, record),
        };
        let Some(assessment) = assessment else {
            return Ok(anew);
        };
        let certain = assessment.certain(legs);
        if from.is_none() {
            certain.clone()?;
        }
        let pairs = assessment.conditions.iter().zip(&assessment.standings);
        let current = pairs.enumerate().filter(|(_, (one, _))| one.is_good());
        let first = current.min_by_key(|(_, (_, standing))| standing.map(|one| one.index));
        let first = first.map(|(leg, _)| leg);
        let source = from.or(first).unwrap_or(0);
        let condition = assessment.conditions.get(source).copied();
        let source_condition = condition.unwrap_or(Condition::Unknown);
        if source_condition == Condition::Unfinished
            && let Some(good) = first
        {
            let (leg, good) = (name_of(legs, source), name_of(legs, good));
            return Err(Refusal::Unfinished(leg, good).into());
        }
        let (standings, conditions) = match certain {
            Ok(()) => (raised(&assessment, legs)?, assessment.conditions),
            // What is elsewhere and may come back is no leg of this one.
            Err(_) => (anew.standings, anew.conditions),
        };
        Ok(Self {
            source,
            source_condition,
            compare_only: false,
            conditions,
            standings,
            ..anew
        })
    }

    /// The leg that is copied from.
    #[must_use]
    pub fn source(&self) -> usize {
        self.source
    }

    /// What that leg was good for before.
    #[must_use]
    pub fn source_condition(&self) -> Condition {
        self.source_condition
    }

    /// Bytes that will be compared.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let length = self.legs.first().map_or(0, |leg| leg.length_bytes());
        length.saturating_mul(self.targets().count() as u64)
    }

    fn targets(&self) -> impl Iterator<Item = usize> + use<> {
        let source = self.source;
        (0..self.legs.len()).filter(move |leg| *leg != source)
    }

    /// Compares, and changes nothing. `progress` is told of bytes as they are done.
    pub fn compare(&self, progress: &mut dyn FnMut(u64)) -> Result<ResyncReport, MirrorError> {
        let mut report = ResyncReport::default();
        for target in self.targets() {
            self.pass(target, false, &mut report, progress)?;
        }
        Ok(report)
    }

    /// Makes all legs equal and records that they are.
    pub fn run(&self, progress: &mut dyn FnMut(u64)) -> Result<ResyncReport, MirrorError> {
        if self.compare_only {
            return self.adopt(progress);
        }
        let mut report = ResyncReport::default();
        let mut copy = |target| {
            self.pass(target, true, &mut report, progress)?;
            self.flush(target).map_err(MirrorError::from)
        };
        self.flush(self.source)?;
        let as_good = |leg: &usize| self.is_right(self.source) && self.is_right(*leg);
        let (good, others): (Vec<usize>, Vec<usize>) = self.targets().partition(as_good);
        good.iter().try_for_each(|target| copy(*target))?;
        self.store(self.source, LegState::Clean)?;
        for target in good {
            self.store(target, LegState::Clean)?;
        }
        for target in &others {
            self.store(*target, LegState::Resynchronising)?;
        }
        for target in others {
            copy(target)?;
            self.store(target, LegState::Clean)?;
        }
        Ok(report)
    }

    /// Whether each block of a leg is a right answer, by its record.
    fn is_right(&self, leg: usize) -> bool {
        let condition = self.conditions.get(leg);
        matches!(condition, Some(Condition::Current | Condition::Doubtful))
    }

    /// Takes legs of which nothing is known for a mirror, if they are equal.
    fn adopt(&self, progress: &mut dyn FnMut(u64)) -> Result<ResyncReport, MirrorError> {
        let report = self.compare(progress)?;
        if let Some((leg, offset)) = report.first {
            return Err(MirrorError::Differs {
                leg: name_of(self.legs, leg),
                other: name_of(self.legs, self.source),
                offset,
            });
        }
        (0..self.legs.len()).try_for_each(|leg| self.flush(leg))?;
        (0..self.legs.len()).try_for_each(|leg| self.store(leg, LegState::Clean))?;
        Ok(report)
    }

    fn store(&self, leg: usize, state: LegState) -> Result<(), MirrorError> {
        let Some(standing) = self.standings.get(leg) else {
            return Ok(());
        };
        let standing = Standing { state, ..*standing };
        let stored = self.record.store(leg, &standing);
        Ok(stored.inspect_err(|_| MIRROR_RECORD_FAILURES.add(1))?)
    }

    fn flush(&self, leg: usize) -> Result<(), Error> {
        let Some(device) = self.legs.get(leg) else {
            return Ok(());
        };
        let (sender, receiver) = mpsc::sync_channel(1);
        device.submit(Request::flush(Issuer::Flusher, move |outcome| {
            // The receiver waits below.
            drop(sender.send(outcome.result));
        }));
        let answer = receiver.recv();
        answer.unwrap_or(Err(Error::Abandoned { offset: 0 }))
    }

    /// Goes through all chunks of one target, in order.
    fn pass(
        &self,
        target: usize,
        write: bool,
        report: &mut ResyncReport,
        progress: &mut dyn FnMut(u64),
    ) -> Result<(), MirrorError> {
        let (Some(from), Some(to)) = (self.legs.get(self.source), self.legs.get(target)) else {
            return Ok(());
        };
        let (mut next, length) = (0, from.length_bytes());
        let mut reading: VecDeque<(Sent, Sent)> = VecDeque::with_capacity(CHUNKS_MAX);
        let mut writing: VecDeque<Sent> = VecDeque::with_capacity(CHUNKS_MAX + 1);
        let geometry = geometry_of(&[from.clone(), to.clone()]);
        let is_current = |leg: usize| self.conditions.get(leg) == Some(&Condition::Current);
        let mut is_unmarked = is_current(self.source) && is_current(target);
        loop {
            while next < length && reading.len() < CHUNKS_MAX {
                let bytes = CHUNK_BYTES.min(length - next);
                let read = |device| Sent::read(device, Issuer::Flusher, next, bytes, geometry);
                reading.push_back((read(&**from), read(&**to)));
                next += bytes;
            }
            let read = reading.pop_front();
            let writing_max = if read.is_some() { CHUNKS_MAX } else { 0 };
            while writing.len() > writing_max
                && let Some(written) = writing.pop_front()
            {
                written.wait()?;
                MIRROR_RESYNCHRONISED_BYTES.add(written.bytes);
                report.copied_bytes += written.bytes;
                done(written.bytes, report, progress);
            }
            let Some((good, other)) = read else {
                return Ok(());
            };
            let (offset, bytes) = (good.offset, good.bytes);
            let good = good.wait()?;
            // One that cannot be read is written: that may make a bad place good.
            let there = ..usize::try_from(bytes).unwrap_or(usize::MAX);
            let other = other.wait().ok();
            let is_equal = other.map(|other| other.get(there) == good.get(there));
            if is_equal == Some(false) && write && std::mem::take(&mut is_unmarked) {
                self.store(target, LegState::Resynchronising)?;
            }
            let is_equal = is_equal == Some(true);
            if !is_equal {
                report.differing_bytes += bytes;
                report.first = report.first.or(Some((target, offset)));
            }
            if is_equal || !write {
                done(bytes, report, progress);
            } else {
                let what = (Operation::Write, Issuer::Flusher);
                writing.push_back(Sent::new(&**to, what, offset, bytes, good));
            }
        }
    }
}

fn done(bytes: u64, report: &mut ResyncReport, progress: &mut dyn FnMut(u64)) {
    MIRROR_COMPARED_BYTES.add(bytes);
    report.compared_bytes += bytes;
    progress(bytes);
}

/// The standings of the same mirror, one generation later.
fn raised(assessment: &Assessment, legs: &[Arc<dyn Device>]) -> Result<Vec<Standing>, Refusal> {
    let mut standings: Vec<Standing> = assessment.standings.iter().flatten().copied().collect();
    let newest = standings.iter().map(|one| one.generation).max();
    let generation = newest.unwrap_or(0) + 1;
    if generation > GENERATION_MAX {
        return Err(Refusal::Impossible(name_of(legs, 0)));
    }
    for standing in &mut standings {
        standing.generation = generation;
        standing.state = LegState::Clean;
        standing.left_behind = 0;
    }
    Ok(standings)
}

/// The standings of a new mirror of these legs.
fn fresh(identity: [u8; 16], legs: &[Arc<dyn Device>], record: &dyn MirrorRecord) -> Vec<Standing> {
    let count = u8::try_from(legs.len()).unwrap_or(u8::MAX);
    let standing = |(index, leg): (u8, &Arc<dyn Device>)| Standing {
        identity,
        binding: record.binding(usize::from(index)).unwrap_or(0),
        ..Standing::first(index, count, leg.length_bytes())
    };
    (0..count).zip(legs).map(standing).collect()
}

#[cfg(test)]
mod tests;
