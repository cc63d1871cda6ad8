//! The parts of a stripe and the halves of a mirror, opened together.

use std::sync::Arc;

use pagewell_device::Device;
use pagewell_source_image::Origin;

use super::{Opened, Storage, Want};
use crate::failure::one_line;
use crate::identity::FileIdentity;
use crate::mirror;

/// Parts of a whole, open.
#[derive(Default)]
pub(crate) struct Parts {
    /// The bytes of each.
    pub(crate) devices: Vec<Arc<dyn Device>>,
    pub(super) origins: Vec<Origin>,
    pub(super) files: Vec<FileIdentity>,
    pub(super) notes: Vec<String>,
    /// Why they cannot be written.
    pub(crate) read_only: Option<String>,
    /// Why halves of a mirror could not be opened that are not there.
    pub(crate) missing: Vec<String>,
}

impl Parts {
    pub(super) fn open(parts: &[Storage], want: Want) -> anyhow::Result<Self> {
        let mut all = Self::default();
        for part in parts {
            all.push(part.open_as(want)?);
        }
        Ok(all)
    }

    /// The halves of a mirror, in their order; [`mirror::Absent`] stands for those that are not
    /// there, if any is.
    pub(crate) fn open_halves(halves: &[Storage], want: Want) -> anyhow::Result<Self> {
        let (mut all, mut gone) = (Self::default(), Vec::new());
        for (place, half) in halves.iter().enumerate() {
            match half.open_as(want) {
                Ok(opened) => all.push(opened),
                Err(error) if mirror::is_absent(half) => gone.push((place, half, error)),
                Err(error) => return Err(error),
            }
        }
        let Some(present) = all.devices.first().cloned() else {
            return match gone.into_iter().next() {
                Some((_, _, error)) => Err(error),
                None => Ok(all),
            };
        };
        for (place, half, error) in gone {
            let name = match half {
                Storage::Path(path) => path.display().to_string(),
                _ => format!("half {}", place + 1),
            };
            all.devices
                .insert(place, mirror::Absent::beside(&*present, name));
            all.missing.push(one_line(&error));
        }
        Ok(all)
    }

    fn push(&mut self, opened: Opened) {
        self.devices.push(opened.device);
        self.origins.push(opened.origin);
        self.files.extend(opened.files);
        self.notes.extend(opened.notes);
        self.read_only = self.read_only.take().or(opened.read_only);
    }

    /// Their names, with commas between.
    pub(super) fn names(&self) -> String {
        let names: Vec<&str> = self.devices.iter().map(|device| device.name()).collect();
        names.join(",")
    }
}
