//! What the bytes of an image come from: a file, a block device, memory, or several of them
//! ([`grammar`] says how that is written), and how they are opened.

pub(crate) mod grammar;
pub(crate) mod parts;

use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use pagewell_device::model::Parameters;
use pagewell_device::{
    Device, Engine, Error as DeviceError, FileDevice, FileOptions, Geometry, Model, RamDevice,
    Request, Stripe,
};
use pagewell_fs::source::OpenError;
use pagewell_source_image::Origin;
use rustix::io::Errno;

use crate::failure::one_line;
use crate::identity::FileIdentity;
use crate::mirror;

pub(crate) use grammar::Storage;
pub(crate) use parts::{Opened, Parts, Want};

/// What nobody asked to write.
const NOT_ASKED: &str = "opened to be read";

impl Storage {
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
        // Parts that could be written are not kept from other programs that want to.
        drop(opened);
        Ok(Opened {
            read_only: Some(reason),
            ..self.open_as(Want::Read)?
        })
    }

    /// The same, and also what is a leg of a mirror is opened to be written.
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
                let parts = open_parts(parts, want)?;
                let name = format!("stripe:{chunk_bytes}:{}", parts.names());
                Ok(Opened {
                    device: Arc::new(Stripe::new(&name, parts.devices, *chunk_bytes)?),
                    origin: Origin::of_parts(b"stripe.img", &parts.origins),
                    files: parts.files,
                    notes: parts.notes,
                    read_only: parts.read_only,
                })
            }
            Self::Mirror(legs) => mirror::open(legs, open_legs(legs, want)?, want),
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

/// The parts of a whole.
fn open_parts(parts: &[Storage], want: Want) -> anyhow::Result<Parts> {
    let mut all = Parts::default();
    for part in parts {
        all.push(part.open_as(want)?);
    }
    Ok(all)
}

/// The legs of a mirror, in their order; [`Absent`] stands for those that are not
/// there, if any is.
pub(crate) fn open_legs(legs: &[Storage], want: Want) -> anyhow::Result<Parts> {
    let (mut all, mut gone) = (Parts::default(), Vec::new());
    for (place, leg) in legs.iter().enumerate() {
        match leg.open_as(want) {
            Ok(opened) => all.push(opened),
            Err(error) if mirror::is_absent(leg) => gone.push((place, leg, error)),
            Err(error) => return Err(error),
        }
    }
    let Some(present) = all.devices.first().cloned() else {
        return match gone.into_iter().next() {
            Some((_, _, error)) => Err(error),
            None => Ok(all),
        };
    };
    for (place, leg, error) in gone {
        let name = match leg {
            Storage::Path(path) => path.display().to_string(),
            _ => format!("leg {}", place + 1),
        };
        all.devices.insert(place, Absent::beside(&*present, name));
        all.missing.push(one_line(&error));
    }
    Ok(all)
}

/// Stands in for a leg that is missing: a device of which nothing is there.
struct Absent {
    name: String,
    length_bytes: u64,
    geometry: Geometry,
}

impl Absent {
    /// In a mirror with this leg.
    fn beside(other: &dyn Device, name: String) -> Arc<dyn Device> {
        Arc::new(Self {
            name,
            length_bytes: other.length_bytes(),
            geometry: other.geometry(),
        })
    }
}

impl Device for Absent {
    fn name(&self) -> &str {
        &self.name
    }

    fn length_bytes(&self) -> u64 {
        self.length_bytes
    }

    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn submit(&self, request: Request) {
        let offset = request.offset();
        request.fail(0, DeviceError::failed(&self.name, offset, Errno::NODEV));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_became_a_leg_while_its_lock_was_waited_for_is_only_read() {
        let storage = Storage::Ram(4096);
        let mut asked = 0;
        let mut later = || {
            asked += 1;
            (asked == 2).then(|| "a leg".to_owned())
        };
        let opened = storage.open_unless(Want::Write, &mut later).unwrap();
        assert_eq!(opened.read_only.as_deref(), Some("a leg"));
        assert_eq!(asked, 2);
        let opened = storage.open_unless(Want::Write, &mut || None).unwrap();
        assert_eq!(opened.read_only, None);
    }
}
