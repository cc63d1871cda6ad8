//! Images inside other things: raw sectors, images of burning programs, partitions.
//!
//! **Problem.** The bytes of a disc reach people in wrappings: dumps of whole sectors with their
//! checks, images with a table of tracks, disks with partitions. A reader of a file system wants
//! sectors of 2048 bytes and nothing else.
//!
//! **Rule.** The bytes decide, never the name. A wrapping is a device over a device, so wrappings
//! nest; each is taken off only when a volume of a disc is found below it, and a device that holds
//! such a volume is left alone. The one exception are sheets (`.cue`, `.ccd`, `.toc`, `.mds`):
//! small descriptions beside the image, which only their names tell. A caller opens the file that
//! a [`Sheet`] names.
//!
//! ```text
//!  file ──> track of a sheet or .nrg ──> sectors of 2352 bytes ──> 2048 bytes each ──> volume
//!       └─> partition ──────────────────────────────────────────────────────────────> volume
//! ```
//!
//! A device of this crate keeps nothing and starts no thread unless its module says so; the page
//! cache is above it. A request costs one request of the device below, which may be a little
//! longer. What is missing or damaged is an error of the requests that touch it, never zeros.
//!
//! **Known weaknesses.** Of several data tracks the first one counts. Sectors of mode 2 form 2
//! (video and audio, 2324 bytes) have no 2048 bytes of data and are errors, as in a drive. Checks
//! of raw sectors (EDC, ECC) are not computed.

mod bytes;
mod error;
mod fetch;
mod nrg;
mod partition;
mod raw;
mod sector;
mod sectors;
mod sheet;
mod track;
mod volume;
mod window;

use std::fmt;
use std::sync::Arc;

use pagewell_device::Device;

pub use error::{Error, Result};
pub use sheet::{SHEET_BYTES_MAX, Sheet};

/// Wrappings around each other: a compressed disk with a partition of raw sectors has three.
const LAYERS_MAX: usize = 4;

/// A wrapping that was taken off, in words: "partition 1 (MBR, at byte 1048576)".
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layer(String);

impl fmt::Display for Layer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// A device and what it is with all wrappings taken off.
pub struct Unwrapped {
    /// The bytes of the volume; the device itself when no volume was found in it.
    pub device: Arc<dyn Device>,
    /// The wrappings, the outermost first.
    pub layers: Vec<Layer>,
}

/// Takes off the wrappings of a device. With a sheet, `device` is the file that it names.
///
/// # Errors
/// Those of reading, and of a wrapping that is recognised and damaged.
pub fn unwrap(device: Arc<dyn Device>, sheet: Option<&Sheet>) -> Result<Unwrapped> {
    if let Some(sheet) = sheet {
        let (track, layer) = sheet.open(&device)?;
        let mut inside = take_off(track)?;
        if volume::is_in(&*inside.device)? {
            inside.layers.insert(0, layer);
            return Ok(inside);
        }
    }
    take_off(device)
}

fn take_off(device: Arc<dyn Device>) -> Result<Unwrapped> {
    let mut current = device.clone();
    let mut layers = Vec::new();
    while !volume::is_in(&*current)? {
        let next = match layers.len() < LAYERS_MAX {
            true => inside(&current)?,
            false => None,
        };
        let Some((below, layer)) = next else {
            return Ok(Unwrapped {
                device,
                layers: Vec::new(),
            });
        };
        current = below;
        layers.push(layer);
    }
    Ok(Unwrapped {
        device: current,
        layers,
    })
}

/// What one wrapping less makes of a device.
type Inside = Option<(Arc<dyn Device>, Layer)>;

fn inside(device: &Arc<dyn Device>) -> Result<Inside> {
    for open in [nrg::open, raw::open, partition::open] {
        if let Some(found) = open(device)? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}
