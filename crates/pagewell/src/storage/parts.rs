//! What was opened: storage, and the parts of a stripe or the legs of a mirror together.

use std::sync::Arc;

use pagewell_device::Device;
use pagewell_source_image::Origin;

use crate::identity::FileIdentity;

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
    /// The same, also a mirror of which a leg is missing.
    WriteDegraded,
}

impl Want {
    pub(super) fn writes(self) -> bool {
        self != Self::Read
    }
}

/// Parts of a whole, open.
#[derive(Default)]
pub(crate) struct Parts {
    /// The bytes of each.
    pub(crate) devices: Vec<Arc<dyn Device>>,
    pub(crate) origins: Vec<Origin>,
    pub(crate) files: Vec<FileIdentity>,
    pub(crate) notes: Vec<String>,
    /// Why they cannot be written.
    pub(crate) read_only: Option<String>,
    /// Why legs of a mirror could not be opened that are not there.
    pub(crate) missing: Vec<String>,
}

impl Parts {
    pub(super) fn push(&mut self, opened: Opened) {
        self.devices.push(opened.device);
        self.origins.push(opened.origin);
        self.files.extend(opened.files);
        self.notes.extend(opened.notes);
        self.read_only = self.read_only.take().or(opened.read_only);
    }

    /// Their names, with commas between.
    pub(crate) fn names(&self) -> String {
        let names: Vec<&str> = self.devices.iter().map(|device| device.name()).collect();
        names.join(",")
    }
}
