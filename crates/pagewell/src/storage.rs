//! How the bytes of a source are opened.

pub(crate) mod contained;
mod former_leg;
pub(crate) mod grammar;

use std::path::Path;
use std::sync::Arc;

use pagewell_device::{Device, Engine, Error as DeviceError, FileDevice, FileOptions, RamDevice};
use pagewell_disk_tier::Tier;
use pagewell_fs::source::OpenError;
use pagewell_source_bytes::open_error;
use pagewell_source_image::Origin;
use pagewell_source_object::OpenedObject;
use rustix::io::Errno;

use crate::failure::usage;
use crate::identity::FileIdentity;

pub(crate) use grammar::Storage;

const NOT_ASKED: &str = "opened to be read";

pub(crate) struct Opened {
    pub(crate) device: Arc<dyn Device>,
    pub(crate) origin: Origin,
    /// The file or block device in which they lie.
    pub(crate) files: Vec<FileIdentity>,
    /// How it is read and written.
    pub(crate) notes: Vec<String>,
    /// Why it cannot be written; `None` if it can.
    pub(crate) read_only: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Want {
    Read,
    /// Reading, and writing if possible.
    Write,
}

impl Storage {
    /// Opens it; for writing if wanted and possible. Pages of an object go to the tier.
    pub(crate) fn open(&self, want: Want, tier: Option<Arc<Tier>>) -> anyhow::Result<Opened> {
        match self {
            Self::Path(path) => match (want, former_leg::why_read_only(path)) {
                (Want::Write, Some(reason)) => Ok(Opened {
                    read_only: Some(reason),
                    ..open_path(path, false)?
                }),
                _ => open_path(path, want == Want::Write),
            },
            Self::Url(url) => Err(usage(format!("{url}: a file or device is wanted here"))),
            Self::Object(url) => Ok(of_object(pagewell_source_object::open_object(url, tier)?)),
            Self::Ram(bytes) => Ok(Opened {
                device: Arc::new(RamDevice::new(&format!("ram:{bytes}"), *bytes)),
                origin: Origin::of_memory(b"ram.img"),
                files: Vec::new(),
                notes: Vec::new(),
                read_only: (want == Want::Read).then(|| NOT_ASKED.to_owned()),
            }),
        }
    }
}

/// An object of a bucket or a file of a web server, for reading.
pub(crate) fn of_object(object: OpenedObject) -> Opened {
    let name = object.device.name().to_owned();
    let weak = "its server gives it no tag: a change is only seen by its time and length";
    let origin = Origin::of_memory(&object.name).known_by(&object.identity);
    Opened {
        origin: origin.changed_at(object.modified),
        device: Arc::new(object.device),
        files: Vec::new(),
        notes: object
            .is_weak
            .then(|| format!("{name}: {weak}"))
            .into_iter()
            .collect(),
        read_only: Some("what has an address is only read".to_owned()),
    }
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
        Engine::Ring => "io_uring",
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
    FileDevice::open(path).map_err(|error| open_error(path, error))
}

/// Opens a file for writing; else for reading, with the reason. Root does not write to files marked
/// read-only.
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
        Err(error) => Err(open_error(path, error)),
    }
}

/// Errors of files that may be read but not written.
const DENIED: [Errno; 4] = [Errno::ACCESS, Errno::PERM, Errno::ROFS, Errno::TXTBSY];
