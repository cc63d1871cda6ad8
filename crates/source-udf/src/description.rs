//! The facts of a volume, for people.

use std::fmt;

use pagewell_fs::Timestamp;

/// How a partition is mapped to the image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartitionKind {
    /// Blocks lie where they are numbered.
    Physical,
    /// Through a table at the end of a write-once disc.
    Virtual,
    /// With damaged packets of a rewritable disc moved.
    Sparable,
    /// In a file that holds all entries and directories.
    Metadata,
    /// Of a kind that this reader does not know.
    Unknown,
}

impl fmt::Display for PartitionKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Physical => "physical",
            Self::Virtual => "virtual",
            Self::Sparable => "sparable",
            Self::Metadata => "metadata",
            Self::Unknown => "unknown",
        })
    }
}

/// The facts of a volume, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// Logical volume identifier.
    pub label: String,
    /// UDF revision in binary coded decimals: 0x0250 is 2.50.
    pub revision: u16,
    /// Bytes of a block.
    pub block_bytes: u32,
    /// Kinds of its partitions, in the order of their maps.
    pub partitions: Vec<PartitionKind>,
    /// When the volume was made, or else its file set.
    pub created: Option<Timestamp>,
    /// Bytes of its partitions that the image lacks, as after an interrupted download.
    pub missing_bytes: u64,
}

impl Description {
    /// The revision as people write it: `2.50`.
    #[must_use]
    pub fn revision_text(&self) -> String {
        format!("{:x}.{:02x}", self.revision >> 8, self.revision & 0xff)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn revisions() {
        let text = |revision| {
            let description = Description {
                label: String::new(),
                revision,
                block_bytes: 2048,
                partitions: Vec::new(),
                created: None,
                missing_bytes: 0,
            };
            description.revision_text()
        };
        assert_eq!(text(0x0102), "1.02");
        assert_eq!(text(0x0250), "2.50");
        assert_eq!(text(0xffff), "ff.ff");
    }
}
