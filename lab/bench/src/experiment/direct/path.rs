//! The four ways to read the same bytes.

use pagewell_load::named;

named! {
    /// How bytes get from devices to a program.
    pub enum Path {
        /// Large requests, straight into the program's memory.
        Direct = "O_DIRECT",
        /// The same, cut into the smallest pieces of the device, as buffer heads were.
        Raw = "raw",
        /// Small reads through the cache, which reads ahead, and a copy of each.
        Buffered = "buffered",
        /// The same with a pin in place of the copy.
        NoCopy = "nocopy",
    }
}

impl Path {
    /// Whether it reads through the cache.
    pub const fn is_cached(self) -> bool {
        matches!(self, Self::Buffered | Self::NoCopy)
    }

    /// The usual bytes of an operation.
    pub const fn block_bytes(self) -> u64 {
        if self.is_cached() { 8 << 10 } else { 1 << 20 }
    }

    /// The report's numbers: eight disks, 16 GiB in all, one operation at a time.
    pub const fn reference(self) -> Reference {
        let (seconds, microseconds, cpu_seconds_per_gib) = match self {
            Self::Direct => (257.977_850, 15_867.0, 3.7),
            Self::Raw => (305.878_143, 18_583.0, 10.0),
            Self::Buffered => (125.288_417, 59.0, 10.1),
            Self::NoCopy => (87.827_854, 41.0, 7.7),
        };
        Reference {
            seconds,
            microseconds,
            cpu_seconds_per_gib,
        }
    }
}

/// One line of the report. Other hardware.
#[derive(Clone, Copy, Debug)]
pub struct Reference {
    /// For 16 GiB.
    pub seconds: f64,
    /// Mean of an operation, as printed.
    pub microseconds: f64,
    /// Processor time, from the profile's idle ticks.
    pub cpu_seconds_per_gib: f64,
}

impl Reference {
    /// 10^6 bytes per second.
    pub fn megabytes_per_second(&self) -> f64 {
        (16u64 << 30) as f64 / self.seconds / 1e6
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_references_are_those_of_the_report() {
        let rates = Path::ALL.map(|path| path.reference().megabytes_per_second());
        for (rate, expected) in rates.into_iter().zip([66.6, 56.2, 137.1, 195.6]) {
            assert!((rate - expected).abs() < 0.06, "{rate} {expected}");
        }
    }
}
