//! What a power cut leaves of writes that were not on the medium.
//!
//! Every write is lost, torn or whole, and the rest reaches the medium in some order. A sector is
//! never torn. How much is lost, how much is torn and the order are drawn first: cuts which lose
//! nothing or all are as likely as those in between.

use pagewell_base::mix::{Random, mix};

use super::log::Entry;

/// Storage writes so many bytes at once or not at all.
pub(super) const SECTOR_BYTES: usize = 512;

/// What became of the writes in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Damage {
    /// Nothing of them reached the medium.
    pub lost: u64,
    /// Some of their sectors reached it.
    pub torn: u64,
    /// All of their sectors did, though older writes may have overwritten newer ones.
    pub whole: u64,
}

fn below(random: &mut Random, bound: usize) -> usize {
    random.below(bound as u64) as usize
}

pub(super) fn draw(mut entries: Vec<Entry>, seed: u64) -> (Vec<Entry>, Damage) {
    let mut random = Random(mix(seed));
    let mut damage = Damage::default();
    let (kept, torn) = (random.below(5), random.below(5));
    match random.below(3) {
        0 => {}
        1 => entries.reverse(),
        _ => {
            for last in (1..entries.len()).rev() {
                entries.swap(last, below(&mut random, last + 1));
            }
        }
    }
    let mut left = Vec::new();
    for entry in entries {
        let sectors = entry.bytes.len().div_ceil(SECTOR_BYTES);
        let mut parts = Vec::new();
        if random.below(4) < kept {
            if random.below(4) < torn {
                parts = tear(&entry, sectors, &mut random);
            } else {
                parts.push(entry.clone());
            }
        }
        let there: usize = parts.iter().map(|part| part.bytes.len()).sum();
        match there {
            0 => damage.lost += 1,
            _ if there < entry.bytes.len() => damage.torn += 1,
            _ => damage.whole += 1,
        }
        left.extend(parts);
    }
    (left, damage)
}

/// Some sectors of a write: its beginning, or random ones.
fn tear(entry: &Entry, sectors: usize, random: &mut Random) -> Vec<Entry> {
    let ends = (random.below(2) == 0).then(|| below(random, sectors + 1));
    let mut parts = Vec::new();
    for (index, bytes) in entry.bytes.chunks(SECTOR_BYTES).enumerate() {
        let stays = ends.map_or_else(|| random.below(2) == 0, |end| index < end);
        if stays {
            parts.push(Entry {
                sequence: entry.sequence,
                offset: entry.offset + (index * SECTOR_BYTES) as u64,
                bytes: bytes.into(),
            });
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries() -> Vec<Entry> {
        let entry = |sequence: u64| Entry {
            sequence,
            offset: sequence * 512,
            bytes: vec![1; 2048 + 100].into(),
        };
        (0..6).map(entry).collect()
    }

    #[test]
    fn a_seed_says_all_and_everything_happens() {
        let (mut sum, mut nothing, mut all, mut ordered, mut mixed) =
            (Damage::default(), 0, 0, 0, 0);
        for seed in 0..2000 {
            let (left, damage) = draw(entries(), seed);
            assert_eq!((left.clone(), damage), draw(entries(), seed));
            assert_eq!(damage.lost + damage.torn + damage.whole, 6);
            for part in &left {
                assert!(part.offset.is_multiple_of(512));
                let inside = part.offset - part.sequence * 512;
                let end = inside + part.bytes.len() as u64;
                assert!(end.is_multiple_of(512) || end == 2148);
            }
            nothing += u64::from(damage.lost == 6);
            all += u64::from(damage.whole == 6);
            let sorted = left.is_sorted_by_key(|part| part.sequence);
            ordered += u64::from(sorted && left.len() > 2);
            mixed += u64::from(!sorted);
            sum.lost += damage.lost;
            sum.torn += damage.torn;
            sum.whole += damage.whole;
        }
        assert!(nothing > 300 && all > 30 && ordered > 200 && mixed > 500);
        assert!(
            sum.lost > 3000 && sum.torn > 1000 && sum.whole > 1000,
            "{sum:?}"
        );
    }
}
