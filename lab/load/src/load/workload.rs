//! What a run does.

use crate::named;

named! {
    /// What a run does on its file.
    pub enum Workload {
        /// READ blocks in order, from the start again at the end.
        Read = "read",
        /// READ blocks in random order.
        RandomRead = "randread",
        /// GETATTR of the file.
        Getattr = "getattr",
        /// LOOKUP of the file in its directory.
        Lookup = "lookup",
        /// ACCESS of the file, all bits.
        Access = "access",
        /// READDIRPLUS of the directory; one operation is one whole listing.
        ReaddirPlus = "readdirplus",
        /// Make the file anew, WRITE its blocks in order, UNSTABLE, COMMIT.
        Write = "write",
        /// WRITE blocks in random order, UNSTABLE, COMMIT at the end.
        RandomWrite = "randwrite",
        /// READ, WRITE UNSTABLE and GETATTR 2 : 1 : 1, blocks in random order, COMMIT at the end.
        Mix = "mix",
    }
}

impl Workload {
    /// Whether it moves file data.
    pub const fn moves_data(self) -> bool {
        self.writes() || matches!(self, Self::Read | Self::RandomRead)
    }

    /// Whether it writes.
    pub const fn writes(self) -> bool {
        matches!(self, Self::Write | Self::RandomWrite | Self::Mix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back() {
        for workload in Workload::ALL {
            assert_eq!(workload.name().parse(), Ok(workload));
        }
        assert!("reads".parse::<Workload>().is_err());
    }
}
