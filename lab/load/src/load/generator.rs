//! The calls of one connection.

use pagewell_base::mix::{Random, mix};
use pagewell_sunrpc::nfs3::Verifier;

use super::Workload;

/// One call, as far as the calls of a run differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Call {
    /// READ of the file.
    Read { offset: u64, count: u32 },
    /// WRITE to the file.
    Write { offset: u64, count: u32 },
    /// GETATTR of the file.
    Getattr,
    /// LOOKUP of the file.
    Lookup,
    /// ACCESS of the file.
    Access,
    /// READDIRPLUS of the directory after `cookie`; `entries` were listed before.
    ReaddirPlus {
        cookie: u64,
        verifier: Verifier,
        entries: u64,
    },
}

impl Call {
    const fn read((offset, count): (u64, u32)) -> Self {
        Self::Read { offset, count }
    }

    const fn write((offset, count): (u64, u32)) -> Self {
        Self::Write { offset, count }
    }
}

/// The calls of one connection, in order.
pub(super) struct Generator {
    workload: Workload,
    block_bytes: u32,
    file_bytes: u64,
    /// Next block of a sequential run.
    block: u64,
    /// Sequential runs: the block at which the connection is done; `None`: it starts over.
    last_block: Option<u64>,
    /// The same run every time.
    random: Random,
}

impl Generator {
    /// The calls of connection `index` of `connections`.
    ///
    /// Sequential runs divide the file evenly: each connection starts at its own part, and with
    /// `once` is done at its end.
    pub(super) fn new(
        workload: Workload,
        block_bytes: u32,
        file_bytes: u64,
        (index, connections): (usize, usize),
        once: bool,
    ) -> Self {
        let blocks = file_bytes.div_ceil(u64::from(block_bytes.max(1)));
        let (index, connections) = (index as u64, connections.max(1) as u64);
        let border = |part: u64| u128::from(blocks) * u128::from(part) / u128::from(connections);
        let border = |part: u64| u64::try_from(border(part)).unwrap_or(blocks);
        Self {
            workload,
            block_bytes,
            file_bytes,
            block: border(index),
            last_block: once.then(|| border(index + 1)),
            // Connections share nothing.
            random: Random(mix(index + 1)),
        }
    }

    /// The next call; `None` when the connection is done.
    pub(super) fn next(&mut self) -> Option<Call> {
        Some(match self.workload {
            Workload::Read => Call::read(self.next_block()?),
            Workload::Write => Call::write(self.next_block()?),
            Workload::RandomRead => Call::read(self.random_block()),
            Workload::RandomWrite => Call::write(self.random_block()),
            Workload::Mix => match self.random.below(4) {
                0 | 1 => Call::read(self.random_block()),
                2 => Call::write(self.random_block()),
                _ => Call::Getattr,
            },
            Workload::Getattr => Call::Getattr,
            Workload::Lookup => Call::Lookup,
            Workload::Access => Call::Access,
            Workload::ReaddirPlus => Call::ReaddirPlus {
                cookie: 0,
                verifier: [0; 8],
                entries: 0,
            },
        })
    }

    /// First byte and length of a block; the file's last one may be short.
    fn extent(&self, block: u64) -> (u64, u32) {
        let offset = block * u64::from(self.block_bytes);
        let rest = self.file_bytes.saturating_sub(offset);
        let count = u32::try_from(rest)
            .unwrap_or(u32::MAX)
            .min(self.block_bytes);
        (offset, count)
    }

    fn blocks(&self) -> u64 {
        self.file_bytes.div_ceil(u64::from(self.block_bytes.max(1)))
    }

    fn next_block(&mut self) -> Option<(u64, u32)> {
        match self.last_block {
            Some(last) if self.block >= last => return None,
            None if self.block >= self.blocks() => self.block = 0,
            _ => {}
        }
        let extent = self.extent(self.block);
        self.block += 1;
        Some(extent)
    }

    fn random_block(&mut self) -> (u64, u32) {
        let block = self.random.below(self.blocks());
        self.extent(block)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn offsets(mut generator: Generator, most: usize) -> Vec<(u64, u32)> {
        std::iter::from_fn(|| generator.next())
            .take(most)
            .map(|call| match call {
                Call::Read { offset, count } | Call::Write { offset, count } => (offset, count),
                _ => panic!("{call:?}"),
            })
            .collect()
    }

    #[test]
    fn connections_write_the_whole_file_once() {
        for connections in 1..6 {
            let mut all = Vec::new();
            for index in 0..connections {
                let part = (index, connections);
                all.extend(offsets(
                    Generator::new(Workload::Write, 100, 1030, part, true),
                    99,
                ));
            }
            let expected: Vec<_> = (0..11)
                .map(|block| (block * 100, if block == 10 { 30 } else { 100 }))
                .collect();
            assert_eq!(all, expected, "{connections} connections");
        }
    }

    #[test]
    fn endless_reads_start_over() {
        let generator = Generator::new(Workload::Read, 100, 250, (1, 2), false);
        let expected = [(100, 100), (200, 50), (0, 100), (100, 100)];
        assert_eq!(offsets(generator, 4), expected);
    }

    #[test]
    fn random_blocks_cover_the_file_and_stay_inside() {
        let generator = Generator::new(Workload::RandomRead, 8, 1003, (0, 1), false);
        let seen: BTreeSet<_> = offsets(generator, 5000).into_iter().collect();
        assert_eq!(seen.len(), 126);
        assert!(
            seen.iter()
                .all(|(offset, count)| offset + u64::from(*count) <= 1003)
        );
        let other = Generator::new(Workload::RandomRead, 8, 1003, (1, 2), false);
        let first = Generator::new(Workload::RandomRead, 8, 1003, (0, 2), false);
        assert_ne!(offsets(other, 20), offsets(first, 20));
    }

    #[test]
    fn a_mix_is_half_reads() {
        let mut generator = Generator::new(Workload::Mix, 8, 1003, (0, 1), false);
        let calls: Vec<_> = std::iter::from_fn(|| generator.next()).take(4000).collect();
        let reads = calls
            .iter()
            .filter(|call| matches!(call, Call::Read { .. }))
            .count();
        let writes = calls
            .iter()
            .filter(|call| matches!(call, Call::Write { .. }))
            .count();
        assert!((1800..2200).contains(&reads) && (800..1200).contains(&writes));
    }
}
