//! The parts of a source's spelling on a command line.

use std::path::{Path, PathBuf};

use pagewell_base::size;

use crate::failure::usage;

/// Where the bytes of a source are; not looked at yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Storage {
    Path(PathBuf),
    /// In memory of this size, zeros at first.
    Ram(u64),
    Url(String),
    /// An object of a bucket, or a file of a web server; or all below it.
    Object(String),
}

impl Storage {
    /// Its path; an error if it has none.
    pub(crate) fn path(&self) -> anyhow::Result<&Path> {
        match self {
            Self::Path(path) => Ok(path),
            Self::Ram(_) | Self::Url(_) | Self::Object(_) => Err(usage("a path is wanted")),
        }
    }

    /// Its size, in bytes; an error if it has none from the command line.
    pub(crate) fn size(&self) -> anyhow::Result<u64> {
        match self {
            Self::Ram(bytes) => Ok(*bytes),
            Self::Path(_) | Self::Url(_) | Self::Object(_) => Err(usage("a size is wanted")),
        }
    }

    /// Its URL; an error if it is on this machine.
    pub(crate) fn url(&self) -> anyhow::Result<&str> {
        match self {
            Self::Url(url) | Self::Object(url) => Ok(url),
            Self::Path(_) | Self::Ram(_) => Err(usage("a URL is wanted")),
        }
    }
}

/// The prefix of a kind with a digit.
const BUCKET: &str = "s3";

/// Splits `prefix:rest`. A prefix is two or more lower-case letters, or that of buckets: `a:b`,
/// `a1:b` and `./x:y` are paths.
pub(crate) fn split_prefix(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let (prefix, rest) = split_at_colon(bytes)?;
    let is_word = prefix.len() >= 2 && prefix.iter().all(u8::is_ascii_lowercase);
    let prefix = std::str::from_utf8(prefix).ok()?;
    (is_word || prefix == BUCKET).then_some((prefix, rest))
}

pub(crate) fn parse_size(bytes: &[u8]) -> anyhow::Result<u64> {
    let text = std::str::from_utf8(bytes).map_err(|_| usage("the size is not a number"))?;
    size::parse_positive(text).map_err(usage)
}

fn split_at_colon(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let colon = bytes.iter().position(|byte| *byte == b':')?;
    Some((bytes.get(..colon)?, bytes.get(colon + 1..)?))
}
