//! How storage is written on a command line.
//!
//! ```text
//! storage = PATH | "image:" PATH | "ram:" SIZE
//!         | "stripe:" CHUNK ":" list | "mirror:" list | "model:" MODEL ":" storage
//!         | "(" storage ")"
//! list    = storage {"," storage}
//! ```
//!
//! In a list a comma ends a storage; one that has commas of its own stands in parentheses:
//! `mirror:(stripe:64k:a,b),(stripe:64k:c,d)`. A path that begins with a parenthesis is written
//! `./(path`.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use pagewell_base::size;
use pagewell_device::model::Parameters;

use crate::failure::usage;

/// Storage inside storage, at most so deep.
const NESTING_MAX: usize = 4;

/// Storage, parsed and not yet looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Storage {
    /// A regular file or a block device.
    Path(PathBuf),
    /// So many zeros in memory.
    Ram(u64),
    /// Chunks of so many bytes, dealt to the parts in turn.
    Stripe(u64, Vec<Storage>),
    /// The same bytes on each part.
    Mirror(Vec<Storage>),
    /// A simulated device, by its description, over real bytes.
    Model(String, Box<Storage>),
}

impl Storage {
    /// Parses storage; looks at no file.
    pub(crate) fn parse(bytes: &[u8]) -> anyhow::Result<Self> {
        Self::parse_inside(bytes, 0)
    }

    /// The same with relative paths in this directory.
    pub(crate) fn in_directory(self, directory: &Path) -> Self {
        let all = |parts: Vec<Self>| {
            let parts = parts.into_iter();
            parts.map(|part| part.in_directory(directory)).collect()
        };
        match self {
            Self::Path(path) => Self::Path(directory.join(path)),
            Self::Ram(bytes) => Self::Ram(bytes),
            Self::Stripe(chunk_bytes, parts) => Self::Stripe(chunk_bytes, all(parts)),
            Self::Mirror(parts) => Self::Mirror(all(parts)),
            Self::Model(name, below) => {
                Self::Model(name, Box::new((*below).in_directory(directory)))
            }
        }
    }

    fn parse_inside(bytes: &[u8], depth: usize) -> anyhow::Result<Self> {
        if depth > NESTING_MAX {
            return Err(usage(format!(
                "storage is nested deeper than {NESTING_MAX} times"
            )));
        }
        if bytes.is_empty() {
            return Err(usage("the name of a file or device is empty"));
        }
        let inside = bytes.strip_prefix(b"(");
        if let Some(inside) = inside.and_then(|rest| rest.strip_suffix(b")")) {
            return Self::parse_inside(inside, depth + 1);
        }
        let path = |bytes: &[u8]| Self::Path(OsStr::from_bytes(bytes).into());
        let Some((kind, rest)) = kind_of(bytes) else {
            return Ok(path(bytes));
        };
        match kind {
            "image" if rest.is_empty() => Err(usage("image: a path must follow the colon")),
            "image" => Ok(path(rest)),
            "ram" => parse_size(rest).map(Self::Ram),
            "stripe" => {
                let (chunk, list) = split_at_colon(rest)
                    .ok_or_else(|| usage("stripe: write it as stripe:CHUNK:SOURCE,SOURCE..."))?;
                let chunk_bytes = parse_size(chunk).map_err(|error| error.context("stripe"))?;
                Ok(Self::Stripe(chunk_bytes, parse_list(list, depth)?))
            }
            "mirror" => Ok(Self::Mirror(parse_list(rest, depth)?)),
            "model" => {
                let (name, inner) = split_at_colon(rest)
                    .ok_or_else(|| usage("model: write it as model:NAME[,speed=X]:SOURCE"))?;
                let name = String::from_utf8_lossy(name).into_owned();
                Parameters::parse(&name).map_err(|error| usage(error.to_string()))?;
                let inner = Self::parse_inside(inner, depth + 1)?;
                Ok(Self::Model(name, Box::new(inner)))
            }
            "dir" | "iso" | "nfs" => Err(usage(format!(
                "a '{kind}:' source is not made of bytes: a file or device is wanted here"
            ))),
            _ => Ok(path(bytes)),
        }
    }

    /// The last name of the first file in it.
    pub(crate) fn name(&self) -> &[u8] {
        match self {
            Self::Path(path) => path.file_name().map_or(b"", OsStrExt::as_bytes),
            Self::Ram(_) => b"ram.img",
            Self::Stripe(..) => b"stripe.img",
            Self::Mirror(legs) => legs.first().map_or(b"", Self::name),
            Self::Model(_, inner) => inner.name(),
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

fn parse_list(bytes: &[u8], depth: usize) -> anyhow::Result<Vec<Storage>> {
    let parts = split_list(bytes)?;
    let parse = |part| Storage::parse_inside(part, depth + 1);
    parts.into_iter().map(parse).collect()
}

/// Cuts at commas outside of parentheses. Only a parenthesis at the beginning of a part counts.
fn split_list(bytes: &[u8]) -> anyhow::Result<Vec<&[u8]>> {
    let mut parts = Vec::new();
    let mut rest = bytes;
    loop {
        let end = if rest.first() == Some(&b'(') {
            let closing = closing(rest);
            let after = closing.filter(|at| matches!(rest.get(at + 1), None | Some(b',')));
            after.ok_or_else(|| usage("a parenthesis is not closed"))? + 1
        } else {
            let comma = rest.iter().position(|byte| *byte == b',');
            comma.unwrap_or(rest.len())
        };
        let (part, later) = rest.split_at(end);
        parts.push(part);
        match later.split_first() {
            Some((_, later)) => rest = later,
            None => return Ok(parts),
        }
    }
}

/// Where the parenthesis that the text begins with is closed.
fn closing(bytes: &[u8]) -> Option<usize> {
    let mut depth = 0u32;
    bytes.iter().position(|byte| {
        match byte {
            b'(' => depth += 1,
            b')' => depth -= 1,
            _ => {}
        }
        depth == 0
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::{USAGE, exit_code_of, one_line};

    fn path(text: &str) -> Storage {
        Storage::Path(text.into())
    }

    #[test]
    fn storage_is_told_by_its_prefix_and_nests() {
        let model = |inner| Storage::Model("dvd,speed=20".to_owned(), Box::new(inner));
        for (text, expected) in [
            ("a.img", path("a.img")),
            ("image:dir:x", path("dir:x")),
            ("odd:name", path("odd:name")),
            ("ram:1m", Storage::Ram(1 << 20)),
            ("stripe:64k:a", Storage::Stripe(65536, vec![path("a")])),
            (
                "mirror:a,ram:4k",
                Storage::Mirror(vec![path("a"), Storage::Ram(4096)]),
            ),
            ("model:dvd,speed=20:a,b", model(path("a,b"))),
            (
                "stripe:4k:(model:dvd,speed=20:a),image:b,(c,d)",
                Storage::Stripe(4096, vec![model(path("a")), path("b"), path("c,d")]),
            ),
            (
                "mirror:(mirror:a,b),(mirror:(c),d)",
                Storage::Mirror(vec![
                    Storage::Mirror(vec![path("a"), path("b")]),
                    Storage::Mirror(vec![path("c"), path("d")]),
                ]),
            ),
        ] {
            assert_eq!(Storage::parse(text.as_bytes()).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn what_is_no_storage_is_a_usage_error() {
        let deep = format!("{}a{}", "(".repeat(10_000), ")".repeat(10_000));
        for (text, part) in [
            ("", "empty"),
            ("image:", "a path must follow"),
            ("ram:x", "a size is a number"),
            ("stripe:64k", "stripe:CHUNK:SOURCE"),
            ("stripe:0:a", "the size is 0"),
            ("stripe:64k:a,,b", "empty"),
            ("mirror:", "empty"),
            ("mirror:(a", "not closed"),
            ("mirror:(a)b,c", "not closed"),
            ("model:dvd", "model:NAME"),
            ("model:tape:a", "no device model 'tape'"),
            ("model:dvd,speed=0:a", "speed"),
            ("mirror:dir:a", "a file or device is wanted"),
            (
                "model:dvd:model:dvd:model:dvd:model:dvd:model:dvd:a",
                "nested",
            ),
            (&deep, "nested"),
        ] {
            let error = Storage::parse(text.as_bytes()).unwrap_err();
            assert_eq!(exit_code_of(&error), USAGE, "{text}");
            let line = one_line(&error);
            assert!(line.contains(part), "{line} lacks {part}");
        }
    }
}
