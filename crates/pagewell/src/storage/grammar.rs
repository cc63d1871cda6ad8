//! How storage is written on a command line.
//!
//! ```text
//! storage = PATH | "image:" PATH | "ram:" SIZE
//! ```

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use pagewell_base::size;

use crate::failure::usage;
use crate::gone;

/// Storage, parsed and not yet looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Storage {
    /// A regular file or a block device.
    Path(PathBuf),
    /// So many zeros in memory.
    Ram(u64),
}

impl Storage {
    /// Parses storage; looks at no file.
    pub(crate) fn parse(bytes: &[u8]) -> anyhow::Result<Self> {
        if bytes.is_empty() {
            return Err(usage("the name of a file or device is empty"));
        }
        let path = |bytes: &[u8]| Self::Path(OsStr::from_bytes(bytes).into());
        let Some((kind, rest)) = kind_of(bytes) else {
            return Ok(path(bytes));
        };
        match kind {
            "image" if rest.is_empty() => Err(usage("image: a path must follow the colon")),
            "image" => Ok(path(rest)),
            "ram" => parse_size(rest).map(Self::Ram),
            "stripe" | "mirror" | "model" => Err(usage(gone::advice(kind).unwrap_or_default())),
            "dir" | "iso" | "nfs" => Err(usage(format!(
                "a '{kind}:' source is not made of bytes: a file or device is wanted here"
            ))),
            _ => Ok(path(bytes)),
        }
    }

    /// The same with relative paths in this directory.
    pub(crate) fn in_directory(self, directory: &Path) -> Self {
        match self {
            Self::Path(path) => Self::Path(directory.join(path)),
            Self::Ram(bytes) => Self::Ram(bytes),
        }
    }
}

/// Splits `kind:rest`. A kind is two or more lower-case letters: `a:b` and `./x:y` are paths.
pub(crate) fn kind_of(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let (kind, rest) = split_at_colon(bytes)?;
    let is_kind = kind.len() >= 2 && kind.iter().all(u8::is_ascii_lowercase);
    let kind = std::str::from_utf8(kind).ok().filter(|_| is_kind)?;
    Some((kind, rest))
}

pub(crate) fn parse_size(bytes: &[u8]) -> anyhow::Result<u64> {
    let text = std::str::from_utf8(bytes).map_err(|_| usage("the size is not a number"))?;
    size::parse_positive(text).map_err(usage)
}

fn split_at_colon(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let colon = bytes.iter().position(|byte| *byte == b':')?;
    Some((bytes.get(..colon)?, bytes.get(colon + 1..)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::{USAGE, exit_code_of, one_line};

    fn path(text: &str) -> Storage {
        Storage::Path(text.into())
    }

    #[test]
    fn storage_is_known_by_its_prefix() {
        for (text, expected) in [
            ("a.img", path("a.img")),
            ("image:dir:x", path("dir:x")),
            ("odd:name", path("odd:name")),
            ("ram:1m", Storage::Ram(1 << 20)),
            ("(a,b)", path("(a,b)")),
        ] {
            assert_eq!(Storage::parse(text.as_bytes()).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn what_is_no_storage_is_a_usage_error() {
        for (text, part) in [
            ("", "empty"),
            ("image:", "a path must follow"),
            ("ram:x", "a size is a number"),
            ("stripe:64k:a,b", "md, LVM"),
            ("mirror:a,b", "can be read by itself"),
            ("model:dvd:a", "pagewell bench read"),
            ("dir:a", "a file or device is wanted"),
        ] {
            let error = Storage::parse(text.as_bytes()).unwrap_err();
            assert_eq!(exit_code_of(&error), USAGE, "{text}");
            let line = one_line(&error);
            assert!(line.contains(part), "{line} lacks {part}");
        }
    }
}
