//! The eight workloads of the report, with its numbers.

use pagewell_base::mix::Random;

use crate::experiment::Mode;

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Workload {
    /// In random order instead of from the beginning.
    pub random: bool,
    /// Writes instead of reads.
    pub writes: bool,
    /// Bytes of an operation.
    pub block_bytes: u32,
}

const SMALL: u32 = 4 << 10;
const LARGE: u32 = 128 << 10;

impl Workload {
    /// All, in the order of the report.
    pub const ALL: [Self; 8] = [
        Self::new(false, false, SMALL),
        Self::new(false, false, LARGE),
        Self::new(true, false, SMALL),
        Self::new(true, false, LARGE),
        Self::new(false, true, SMALL),
        Self::new(false, true, LARGE),
        Self::new(true, true, SMALL),
        Self::new(true, true, LARGE),
    ];

    /// Large reads from the beginning.
    pub const READ_LARGE: Self = Self::ALL[1];
    /// Small reads in random order.
    pub const RANDOM_READ_SMALL: Self = Self::ALL[2];
    /// Small writes from the beginning: how a file is laid out.
    pub const LAYOUT: Self = Self::ALL[4];
    /// Small writes in random order.
    pub const RANDOM_WRITE_SMALL: Self = Self::ALL[6];

    const fn new(random: bool, writes: bool, block_bytes: u32) -> Self {
        Self {
            random,
            writes,
            block_bytes,
        }
    }

    /// For people: `random read 4k`.
    pub fn name(self) -> String {
        let order = if self.random { "random" } else { "sequential" };
        let kind = if self.writes { "write" } else { "read" };
        format!("{order} {kind} {}k", self.block_bytes >> 10)
    }

    /// fio's word.
    pub fn fio(self) -> &'static str {
        match (self.random, self.writes) {
            (false, false) => "read",
            (true, false) => "randread",
            (false, true) => "write",
            (true, true) => "randwrite",
        }
    }

    /// Numbers of blocks in the order of their use, each of `blocks` once; the same for a seed.
    pub fn order(self, blocks: u32, seed: u64) -> Vec<u32> {
        if self.random {
            shuffled(blocks, seed)
        } else {
            (0..blocks).collect()
        }
    }

    /// KB/s of the report, with 4 server threads or with 64.
    pub fn reference(self, mode: Mode, many_threads: bool) -> f64 {
        // Unpatched with few threads and with many, then patched.
        const RATES: [[f64; 8]; 4] = [
            [
                212_304.0, 276_067.0, 77_752.0, 107_683.0, 85_475.0, 663_511.0, 8993.6, 631_760.0,
            ],
            [
                616_679.0, 649_928.0, 89_969.0, 165_719.0, 88_834.0, 492_310.0, 8584.4, 474_227.0,
            ],
            [
                245_320.0, 315_568.0, 93_592.0, 164_267.0, 88_713.0, 653_636.0, 8876.7, 629_017.0,
            ],
            [
                642_230.0, 686_132.0, 94_534.0, 165_131.0, 90_388.0, 507_791.0, 8460.2, 483_727.0,
            ],
        ];
        let patched = usize::from(mode == Mode::Enhanced);
        let place = Self::ALL.iter().position(|one| *one == self);
        RATES[2 * patched + usize::from(many_threads)][place.unwrap_or(0)]
    }
}

/// The eight bytes at `offset`, a multiple of eight, of what is written with `seed`.
pub(super) fn word(offset: u64, seed: u64) -> u64 {
    (offset ^ seed.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

pub(super) fn fill(block: &mut [u8], offset: u64, seed: u64) {
    for (place, bytes) in (offset..).step_by(8).zip(block.chunks_exact_mut(8)) {
        bytes.copy_from_slice(&word(place, seed).to_le_bytes());
    }
}

/// Whether the first and the last word of a block are those of its place: cheap enough for every
/// read.
pub(super) fn is_right(block: &[u8], offset: u64, seed: u64) -> bool {
    let expected = |at: u64| word(offset + at, seed).to_le_bytes();
    let last = block.len().saturating_sub(8);
    block.len() >= 8 && block.starts_with(&expected(0)) && block[last..] == expected(last as u64)
}

/// All numbers below `count` in an order that depends on the seed alone.
pub(super) fn shuffled(count: u32, seed: u64) -> Vec<u32> {
    let mut order: Vec<u32> = (0..count).collect();
    let mut random = Random(seed);
    for left in (1..order.len()).rev() {
        // Not above left.
        let other = random.below(left as u64 + 1) as usize;
        order.swap(left, other);
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_block_comes_once() {
        for workload in Workload::ALL {
            let order = workload.order(1000, 7);
            assert_eq!(order, workload.order(1000, 7));
            let in_order = order.windows(2).all(|pair| pair[0] < pair[1]);
            assert_eq!(in_order, !workload.random);
            let mut sorted = order;
            sorted.sort_unstable();
            assert!(sorted.into_iter().eq(0..1000));
        }
        assert!(Workload::ALL[0].order(0, 1).is_empty());
    }

    #[test]
    fn what_stands_where_is_known() {
        let mut block = vec![0; 4096];
        fill(&mut block, 8192, 3);
        assert!(is_right(&block, 8192, 3));
        assert!(!is_right(&block, 4096, 3) && !is_right(&block, 8192, 4));
        block[4095] ^= 1;
        assert!(!is_right(&block, 8192, 3) && !is_right(&[], 0, 0));
    }

    #[test]
    fn the_references_are_those_of_the_report() {
        let random_write = Workload::RANDOM_WRITE_SMALL;
        assert_eq!(random_write.name(), "random write 4k");
        assert_eq!(random_write.reference(Mode::Baseline, false), 8993.6);
        assert_eq!(
            Workload::READ_LARGE.reference(Mode::Enhanced, true),
            686_132.0
        );
    }
}
