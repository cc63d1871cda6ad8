//! What the bytes of an image come from: a file, a block device, memory, or several of them.
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

mod parts;

use std::ffi::OsStr;
use std::mem::take;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use pagewell_device::model::Parameters;
use pagewell_device::{
    Device, Engine, Error as DeviceError, FileDevice, FileOptions, Model, RamDevice, Stripe,
};
use pagewell_fs::source::OpenError;
use pagewell_source_image::Origin;
use rustix::io::Errno;

use crate::failure::usage;
use crate::identity::FileIdentity;
use crate::mirror;
use crate::source::kind_of;
use pagewell_base::size;

pub(crate) use parts::Parts;

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

/// Storage, open.
pub(crate) struct Opened {
    /// The bytes.
    pub(crate) device: Arc<dyn Device>,
    /// What they are made of.
    pub(crate) origin: Origin,
    /// The files and block devices that they lie in.
    pub(crate) files: Vec<FileIdentity>,
    /// A line for each file and block device: how it is read and written.
    pub(crate) notes: Vec<String>,
    /// Why it cannot be written; `None` when it can.
    pub(crate) read_only: Option<String>,
}

/// What storage is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Want {
    /// To be read.
    Read,
    /// To be written, too, when every part allows it.
    Write,
    /// The same, also a mirror of which a half is missing.
    WriteDegraded,
}

impl Want {
    fn writes(self) -> bool {
        self != Self::Read
    }
}

/// What nobody asked to write.
const NOT_ASKED: &str = "opened to be read";

impl Storage {
    /// Parses storage; looks at no file.
    pub(crate) fn parse(bytes: &[u8]) -> anyhow::Result<Self> {
        Self::parse_inside(bytes, 0)
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
    fn name(&self) -> &[u8] {
        match self {
            Self::Path(path) => path.file_name().map_or(b"", OsStrExt::as_bytes),
            Self::Ram(_) => b"ram.img",
            Self::Stripe(..) => b"stripe.img",
            Self::Mirror(halves) => halves.first().map_or(b"", Self::name),
            Self::Model(_, inner) => inner.name(),
        }
    }

    /// Opens all of it; to be written, too, when that is asked for and every part allows it.
    pub(crate) fn open(&self, want: Want) -> anyhow::Result<Opened> {
        self.open_unless(want, &mut || mirror::why_not_alone(self))
    }

    /// `why_not` says why this may only be read.
    fn open_unless(
        &self,
        want: Want,
        why_not: &mut dyn FnMut() -> Option<String>,
    ) -> anyhow::Result<Opened> {
        if want.writes()
            && let Some(reason) = why_not()
        {
            return Ok(Opened {
                read_only: Some(reason),
                ..self.open_as(Want::Read)?
            });
        }
        let opened = self.open_as(want)?;
        if !want.writes() {
            return Ok(opened);
        }
        // The locks may have been waited for while their holder made a mirror of this.
        let Some(reason) = opened.read_only.clone().or_else(why_not) else {
            return Ok(opened);
        };
        // Parts that could be written are not kept from others who want to.
        drop(opened);
        Ok(Opened {
            read_only: Some(reason),
            ..self.open_as(Want::Read)?
        })
    }

    /// The same, and also what is a half of a mirror is opened to be written.
    pub(crate) fn open_as(&self, want: Want) -> anyhow::Result<Opened> {
        match self {
            Self::Path(path) => open_path(path, want.writes()),
            Self::Ram(bytes) => Ok(Opened {
                device: Arc::new(RamDevice::new(&format!("ram:{bytes}"), *bytes)),
                origin: Origin::of_parts(b"ram.img", &[]),
                files: Vec::new(),
                notes: Vec::new(),
                read_only: (!want.writes()).then(|| NOT_ASKED.to_owned()),
            }),
            Self::Stripe(chunk_bytes, parts) => {
                let parts = Parts::open(parts, want)?;
                let name = format!("stripe:{chunk_bytes}:{}", parts.names());
                Ok(Opened {
                    device: Arc::new(Stripe::new(&name, parts.devices, *chunk_bytes)?),
                    origin: Origin::of_parts(b"stripe.img", &parts.origins),
                    files: parts.files,
                    notes: parts.notes,
                    read_only: parts.read_only,
                })
            }
            Self::Mirror(halves) => {
                let mut parts = Parts::open_halves(halves, want)?;
                let name = format!("mirror:{}", parts.names());
                let origin =
                    Origin::of_parts(halves.first().map_or(b"", Self::name), &parts.origins);
                let (files, notes) = (take(&mut parts.files), take(&mut parts.notes));
                let mirror = mirror::open(&name, halves, parts, want)?;
                Ok(Opened {
                    // The same one with a half and without it.
                    origin: match mirror.identity {
                        Some(identity) => origin.known_by(&identity),
                        None => origin,
                    },
                    device: mirror.device,
                    files,
                    notes,
                    read_only: mirror.read_only,
                })
            }
            Self::Model(parameters, inner) => {
                let inner = inner.open_as(want)?;
                Ok(Opened {
                    device: model(inner.device, Parameters::parse(parameters)?)?,
                    ..inner
                })
            }
        }
    }
}

/// A simulated device over the bytes of another.
pub(crate) fn model(
    device: Arc<dyn Device>,
    parameters: Parameters,
) -> anyhow::Result<Arc<dyn Device>> {
    let name = device.name().to_owned();
    let model = Model::new(device, parameters).context(name)?;
    Ok(Arc::new(model))
}

fn open_path(path: &Path, writable: bool) -> anyhow::Result<Opened> {
    let origin = Origin::of_path(path)?;
    let files = vec![FileIdentity::of_path(path)?];
    let (device, read_only) = if writable {
        open_to_write(path, &origin)?
    } else {
        (open_to_read(path)?, Some(NOT_ASKED.to_owned()))
    };
    let used = if read_only.is_none() {
        "read and written"
    } else {
        "read"
    };
    let way = if device.is_direct() {
        "past the kernel's page cache"
    } else {
        "through the kernel's page cache"
    };
    let engine = match device.engine() {
        Engine::Workers => "threads",
        Engine::Ring | Engine::Automatic => "io_uring",
    };
    Ok(Opened {
        notes: vec![format!("{}: {used} {way}, by {engine}", device.name())],
        device: Arc::new(device),
        origin,
        files,
        read_only,
    })
}

fn open_to_read(path: &Path) -> Result<FileDevice, OpenError> {
    FileDevice::open(path).map_err(|error| OpenError::of_device(path, error))
}

/// Opens a file to be written; to be read, with the reason, when it does not allow more. That
/// root may write to anything is no reason to write to what is marked as not to be written.
fn open_to_write(path: &Path, origin: &Origin) -> Result<(FileDevice, Option<String>), OpenError> {
    let name = path.display();
    if !origin.has_write_permission() {
        let reason = format!("{name}: its permissions let nobody write");
        return Ok((open_to_read(path)?, Some(reason)));
    }
    let options = FileOptions {
        writable: true,
        ..FileOptions::default()
    };
    match FileDevice::open_with(path, options) {
        Ok(device) => Ok((device, None)),
        Err(DeviceError::Open { errno, .. }) if DENIED.contains(&errno) => {
            Ok((open_to_read(path)?, Some(format!("{name}: {errno}"))))
        }
        Err(error) => Err(OpenError::of_device(path, error)),
    }
}

/// What the system says of files that may be read and not written.
const DENIED: [Errno; 4] = [Errno::ACCESS, Errno::PERM, Errno::ROFS, Errno::TXTBSY];

fn parse_size(bytes: &[u8]) -> anyhow::Result<u64> {
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

    #[test]
    fn what_became_a_half_while_its_lock_was_waited_for_is_only_read() {
        let storage = Storage::Ram(4096);
        let mut asked = 0;
        let mut later = || {
            asked += 1;
            (asked == 2).then(|| "a half".to_owned())
        };
        let opened = storage.open_unless(Want::Write, &mut later).unwrap();
        assert_eq!(opened.read_only.as_deref(), Some("a half"));
        assert_eq!(asked, 2);
        let opened = storage.open_unless(Want::Write, &mut || None).unwrap();
        assert_eq!(opened.read_only, None);
    }
}
