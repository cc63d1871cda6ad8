//! What a run does.

use std::fmt;
use std::str::FromStr;

/// What a run does on its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    /// READ block after block, from the start again at the end.
    Read,
    /// READ blocks in random order.
    RandomRead,
    /// GETATTR of the file.
    Getattr,
    /// LOOKUP of the file in its directory.
    Lookup,
    /// ACCESS of the file, all bits.
    Access,
    /// READDIRPLUS of the directory, from the first entry to the last: one operation is one
    /// whole listing.
    ReaddirPlus,
    /// Make the file anew, WRITE it block after block UNSTABLE, COMMIT.
    Write,
    /// WRITE blocks in random order UNSTABLE, COMMIT at the end.
    RandomWrite,
    /// READ, WRITE UNSTABLE and GETATTR in the ratio 2 : 1 : 1, blocks in random order, COMMIT
    /// at the end.
    Mix,
}

impl Workload {
    /// All, in the order in which they are documented.
    pub const ALL: &'static [Self] = &[
        Self::Read,
        Self::RandomRead,
        Self::Getattr,
        Self::Lookup,
        Self::Access,
        Self::ReaddirPlus,
        Self::Write,
        Self::RandomWrite,
        Self::Mix,
    ];

    /// The name on the command line and in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::RandomRead => "randread",
            Self::Getattr => "getattr",
            Self::Lookup => "lookup",
            Self::Access => "access",
            Self::ReaddirPlus => "readdirplus",
            Self::Write => "write",
            Self::RandomWrite => "randwrite",
            Self::Mix => "mix",
        }
    }

    /// Whether it moves file data, so that blocks and sizes mean something.
    #[must_use]
    pub const fn moves_data(self) -> bool {
        match self {
            Self::Read | Self::RandomRead | Self::Write | Self::RandomWrite | Self::Mix => true,
            Self::Getattr | Self::Lookup | Self::Access | Self::ReaddirPlus => false,
        }
    }

    /// Whether it writes.
    #[must_use]
    pub const fn writes(self) -> bool {
        matches!(self, Self::Write | Self::RandomWrite | Self::Mix)
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

impl FromStr for Workload {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().find(|workload| workload.name() == text);
        found.copied().ok_or_else(|| {
            let names: Vec<&str> = Self::ALL.iter().map(|workload| workload.name()).collect();
            format!("'{text}' is none of {}", names.join(", "))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back() {
        for workload in Workload::ALL {
            assert_eq!(workload.name().parse(), Ok(*workload));
        }
        assert!("reads".parse::<Workload>().is_err());
    }
}
