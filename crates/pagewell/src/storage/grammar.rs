//! Where the bytes of a source are, and the parts of how that is written on a command line.

use std::path::{Path, PathBuf};

use pagewell_base::size;

use crate::failure::usage;

/// Where the bytes of a source are; parsed and not yet looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Storage {
    /// At a path of this machine.
    Path(PathBuf),
    /// In memory of this size, zeros at first.
    Ram(u64),
    /// At a server.
    Url(String),
}

impl Storage {
    /// Its path.
    ///
    /// # Errors
    ///
    /// It is at none.
    pub(crate) fn path(&self) -> anyhow::Result<&Path> {
        match self {
            Self::Path(path) => Ok(path),
            Self::Ram(_) | Self::Url(_) => Err(usage("a path is wanted")),
        }
    }

    /// Its size, in bytes.
    ///
    /// # Errors
    ///
    /// It has none that was given.
    pub(crate) fn size(&self) -> anyhow::Result<u64> {
        match self {
            Self::Ram(bytes) => Ok(*bytes),
            Self::Path(_) | Self::Url(_) => Err(usage("a size is wanted")),
        }
    }

    /// Its URL.
    ///
    /// # Errors
    ///
    /// It is on this machine.
    pub(crate) fn url(&self) -> anyhow::Result<&str> {
        match self {
            Self::Url(url) => Ok(url),
            Self::Path(_) | Self::Ram(_) => Err(usage("a URL is wanted")),
        }
    }
}

/// Splits `prefix:rest`. A prefix is two or more lower-case letters: `a:b` and `./x:y` are paths.
pub(crate) fn split_prefix(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let (prefix, rest) = split_at_colon(bytes)?;
    let is_prefix = prefix.len() >= 2 && prefix.iter().all(u8::is_ascii_lowercase);
    let prefix = std::str::from_utf8(prefix).ok().filter(|_| is_prefix)?;
    Some((prefix, rest))
}

/// Parses a size that is more than nothing.
pub(crate) fn parse_size(bytes: &[u8]) -> anyhow::Result<u64> {
    let text = std::str::from_utf8(bytes).map_err(|_| usage("the size is not a number"))?;
    size::parse_positive(text).map_err(usage)
}

fn split_at_colon(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let colon = bytes.iter().position(|byte| *byte == b':')?;
    Some((bytes.get(..colon)?, bytes.get(colon + 1..)?))
}
