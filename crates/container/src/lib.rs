//! Images inside other things: raw sectors, tracks of burning programs, partitions, compression.
//!
//! **Problem.** Discs are kept in wrappings; a reader of a file system wants sectors of 2048 bytes.
//!
//! **Rule.** The bytes decide, and the name only of sheets, small descriptions beside the image; a
//! caller opens the files that a [`Sheet`] names. A wrapping is a device over a device, so
//! wrappings nest; each is taken off only when a volume of a disc is found below it. A device that
//! holds such a volume is left alone, unless a track or a partition of it is wanted.
//!
//! ```text
//!  file ──> track of a sheet or .nrg ──> sectors of 2352 bytes ──> 2048 bytes each ──> volume
//!       ├─> gzip, xz, zstd, CSO, CHD ──> ...
//!       ├─> partition ──────────────────────────────────────────────────────────────> volume
//!       └─> later session of a disc ────────────────────────────────────────────────> volume
//! ```
//!
//! A device of this crate keeps nothing and starts no thread unless it decompresses. A request
//! costs one, perhaps longer, request of the device below. What is missing or damaged is an error
//! of the requests that touch it, never zeros.
//!
//! **Known weaknesses.** Sectors of mode 2 form 2 (video and audio, 2324 bytes) are errors, as in a
//! drive. Checks of raw sectors (EDC, ECC) are not computed.

mod bytes;
mod chd_image;
mod cso;
mod error;
mod fetch;
mod joined;
mod lz4;
mod nrg;
mod partition;
mod pool;
mod raw;
mod sector;
mod sectors;
mod session;
mod sheet;
mod stream;
mod track;
mod tracks;
pub mod volume;
mod window;

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use pagewell_device::{Device, RamDevice, completion_panicked};

pub use error::{Error, Result};
pub use partition::{Partition, partitions};
pub use sheet::{OpenBeside, SHEET_BYTES_MAX, Sheet};

/// A compressed disk with a partition of raw sectors has three.
const LAYERS_MAX: usize = 4;

/// A wrapping that was taken off, in words: "partition 1 (MBR, at byte 1048576)".
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layer(String);

impl fmt::Display for Layer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// How far wrappings are taken off.
#[derive(Clone, Copy)]
pub enum Depth<'a> {
    /// To see whether there is a volume: the device has only the first part of compressed data.
    Look,
    /// To read all of it. The function gets now and then how many bytes of a device that has to be
    /// read once are.
    Open(&'a dyn Fn(u64)),
}

/// A device with all wrappings taken off.
pub struct Unwrapped {
    /// The volume, or the device itself when there is none.
    pub device: Arc<dyn Device>,
    /// The wrappings, the outermost first.
    pub layers: Vec<Layer>,
    /// What is wrong with them, in words that can follow "it".
    pub troubles: Vec<String>,
}

/// What of an image is wanted; by itself the first that holds a volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// The track of a disc, by its number.
    pub track: Option<usize>,
    /// The partition of a disk, as its table counts.
    pub partition: Option<usize>,
}

impl Wanted {
    /// Whether anything is.
    #[must_use]
    pub fn is_any(self) -> bool {
        self != Self::default()
    }

    fn missing(self, device: &dyn Device) -> Error {
        let what = match self.partition.filter(|_| self.track.is_none()) {
            Some(number) => partition::without(device, number),
            None => "an image without a table of tracks".to_owned(),
        };
        Error::damaged(device, what)
    }
}

/// Takes off the wrappings of a device.
///
/// # Errors
/// Those of reading, of a damaged wrapping, and where nothing is that is wanted.
pub fn unwrap(device: Arc<dyn Device>, wanted: Wanted, depth: Depth<'_>) -> Result<Unwrapped> {
    let name = device.name().to_owned();
    guarded(name, || take_off(device, wanted, depth, LAYERS_MAX))
}

/// The same of a sheet.
///
/// # Errors
/// The same.
pub fn unwrap_sheet(
    sheet: &Sheet,
    open: &OpenBeside<'_>,
    wanted: Wanted,
    depth: Depth<'_>,
) -> Result<Unwrapped> {
    guarded(sheet.title().to_owned(), || {
        let mut rest = wanted;
        if let Some(found) = sheet.open(open, &mut rest)? {
            let mut inside = take_off(found.device, rest, depth, LAYERS_MAX)?;
            if wanted.is_any() || has_volume(&*inside.device) {
                inside.layers.insert(0, Layer(found.words));
                inside.troubles.splice(0..0, found.troubles);
                return Ok(inside);
            }
        }
        take_off(sheet.open_first(open)?, wanted, depth, LAYERS_MAX)
    })
}

/// A decoder that panics has left nothing that is used again.
fn guarded(name: String, work: impl FnOnce() -> Result<Unwrapped>) -> Result<Unwrapped> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
        completion_panicked();
        Err(Error::Damaged {
            device: name,
            what: "an image that its decoder fails on".to_owned(),
        })
    })
}

fn take_off(
    device: Arc<dyn Device>,
    wanted: Wanted,
    depth: Depth<'_>,
    layers_max: usize,
) -> Result<Unwrapped> {
    let mut current = device.clone();
    let mut rest = wanted;
    let (mut layers, mut troubles) = (Vec::new(), Vec::new());
    // An error counts here; what is below a wrapping may be something else.
    let mut is_found = volume::is_in(&*device)? && !rest.is_any();
    while !is_found {
        let next = match layers_max.checked_sub(layers.len() + 1) {
            Some(more) => inside(&current, &mut rest, depth, more)?,
            None => None,
        };
        let Some(next) = next else {
            if rest.is_any() {
                return Err(rest.missing(&*current));
            }
            if wanted.is_any() {
                break;
            }
            return Ok(Unwrapped {
                device,
                layers: Vec::new(),
                troubles: Vec::new(),
            });
        };
        current = next.device;
        layers.push(Layer(next.words));
        troubles.extend(next.troubles);
        is_found = has_volume(&*current) && !rest.is_any();
    }
    if let Some((session, first)) = session::open(&current) {
        troubles.extend(session::shortfall(&*current, first, current.length_bytes()));
        current = Arc::new(session);
        layers.push(Layer(format!(
            "a session from sector {first} of its disc on"
        )));
    }
    Ok(Unwrapped {
        device: current,
        layers,
        troubles,
    })
}

fn has_volume(device: &dyn Device) -> bool {
    volume::is_in(device).unwrap_or(false)
}

struct Inside {
    device: Arc<dyn Device>,
    words: String,
    /// What is wrong with it, in words that can follow "it".
    troubles: Vec<String>,
}

impl Inside {
    fn new(device: Arc<dyn Device>, words: String) -> Self {
        Self {
            device,
            words,
            troubles: Vec::new(),
        }
    }
}

/// Takes off a wrapping, and from what is wanted what that answers.
type Opener = fn(&Arc<dyn Device>, &mut Wanted) -> Result<Option<Inside>>;

/// Takes off one wrapping; `more` may be below it.
fn inside(
    device: &Arc<dyn Device>,
    wanted: &mut Wanted,
    depth: Depth<'_>,
    more: usize,
) -> Result<Option<Inside>> {
    if let Some(found) = compressed(device, *wanted, depth, more)? {
        return Ok(Some(found));
    }
    let openers: [Opener; 6] = [
        |device, _| cso::open(device),
        chd_image::open,
        partition::open_wanted,
        nrg::open,
        |device, _| raw::open(device),
        partition::open,
    ];
    let mut unread = None;
    for open in openers {
        match open(device, wanted) {
            Ok(None) => {}
            // A sector that cannot be read does not say what the device is.
            Err(error @ Error::Device(_)) => unread = unread.or(Some(error)),
            found => return found,
        }
    }
    unread.map_or(Ok(None), Err)
}

/// Decompresses a device whose first part has a volume, or in which something is wanted.
fn compressed(
    device: &Arc<dyn Device>,
    wanted: Wanted,
    depth: Depth<'_>,
    more: usize,
) -> Result<Option<Inside>> {
    let Some(prefix) = stream::prefix(device)? else {
        return Ok(None);
    };
    let prefix: Arc<dyn Device> = Arc::new(RamDevice::holding(device.name(), &prefix));
    if !wanted.is_any() {
        let look = take_off(prefix.clone(), wanted, Depth::Look, more)?;
        if !has_volume(&*look.device) {
            return Ok(None);
        }
    }
    match depth {
        Depth::Look => Ok(Some(Inside::new(prefix, "compressed".to_owned()))),
        Depth::Open(progress) => stream::open(device, progress).map(Some),
    }
}
