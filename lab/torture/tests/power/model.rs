//! What the database must hold: a map, changed by the same operations.

use std::collections::BTreeMap;

use crate::random::Random;

/// What a row holds: its bytes follow from a seed and a length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) seed: i64,
    pub(crate) length: usize,
}

impl Row {
    fn random(random: &mut Random) -> Self {
        let most = if random.one_in(12) { 30_000 } else { 1200 };
        Self {
            seed: random.number().cast_signed(),
            length: usize::try_from(random.below(most)).unwrap_or(0),
        }
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.length];
        Random::new(self.seed.cast_unsigned()).fill(&mut bytes);
        bytes
    }
}

/// One change of a transaction.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Change {
    /// A row, new or in place of what has this key.
    Put(i64, Row),
    /// All rows from one key to another.
    Remove(i64, i64),
}

/// The rows after a number of commits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Model {
    pub(crate) commits: i64,
    pub(crate) rows: BTreeMap<i64, Row>,
}

/// Keys are few, so that most writes hit a row that is there.
const KEYS: u64 = 300;
/// More rows than this are thinned out, so that the volume does not fill.
const ROWS_MAX: usize = 200;

impl Model {
    /// A transaction of random size.
    pub(crate) fn transaction(&self, random: &mut Random) -> Vec<Change> {
        let most = random.of(&[1, 3, 10, 60]);
        let count = 1 + random.below(most);
        let mut changes: Vec<Change> = (0..count)
            .map(|_| {
                let key = random.below(KEYS).cast_signed();
                if random.one_in(8) {
                    Change::Remove(key, key + random.below(20).cast_signed())
                } else {
                    Change::Put(key, Row::random(random))
                }
            })
            .collect();
        if self.rows.len() > ROWS_MAX {
            changes.push(Change::Remove(0, random.below(KEYS).cast_signed()));
        }
        changes
    }

    /// The rows after one more commit.
    pub(crate) fn after(&self, changes: &[Change]) -> Self {
        let mut next = self.clone();
        next.commits += 1;
        for change in changes {
            match *change {
                Change::Put(key, row) => {
                    next.rows.insert(key, row);
                }
                Change::Remove(first, last) => {
                    next.rows.retain(|key, _| !(first..=last).contains(key));
                }
            }
        }
        next
    }
}
