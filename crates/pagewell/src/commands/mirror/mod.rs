//! `pagewell mirror`.

mod resync;
mod status;

use std::ffi::OsStr;
use std::sync::Arc;

use clap::{Args, Subcommand};
use pagewell_device::Device;

use crate::failure::{Outcome, usage};
use crate::mirror::Records;
use crate::source::Source;
use crate::storage::{Storage, Want, open_legs};

/// Look after mirrors: see how their legs stand, and make them equal.
///
/// A mirror that is written to keeps a record of each leg, beside a file as
/// PATH.pagewell-mirror, for a block device in the state directory. A leg that missed a write
/// is not read again before it has been made equal. A record is about one file or disk: another
/// in its place is not used, and never copied from unless --from says so.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  pagewell mirror status mirror:a.img,b.img             how the legs stand
  pagewell mirror resync mirror:a.img,b.img             make them equal
  pagewell mirror resync mirror:a.img,new.img --from a.img    replace a leg")]
pub(crate) struct MirrorArguments {
    /// What to do.
    #[command(subcommand)]
    command: MirrorCommand,
}

#[derive(Debug, Subcommand)]
enum MirrorCommand {
    Resync(resync::ResyncArguments),
    Status(status::StatusArguments),
}

/// Runs the command.
pub(crate) fn run(arguments: &MirrorArguments) -> anyhow::Result<Outcome> {
    match &arguments.command {
        MirrorCommand::Resync(arguments) => resync::run(arguments),
        MirrorCommand::Status(arguments) => status::run(arguments),
    }
}

/// The legs of a mirror, open.
struct Legs {
    /// The mirror, as messages call it.
    name: String,
    devices: Vec<Arc<dyn Device>>,
    /// Why legs could not be opened that are missing.
    missing: Vec<String>,
    records: Records,
}

impl Legs {
    /// Parses a source that has to be a mirror.
    fn parse(text: &OsStr) -> anyhow::Result<Vec<Storage>> {
        match Source::parse(text)? {
            Source::Storage(Storage::Mirror(legs))
            | Source::Image(Storage::Mirror(legs))
            | Source::Iso(Storage::Mirror(legs)) => Ok(legs),
            _ => Err(usage(format!(
                "{}: is no mirror: write it as mirror:SOURCE,SOURCE...",
                text.display()
            ))),
        }
    }

    /// Opens each leg by itself. For writing each is kept from other programs.
    fn open(text: &OsStr, storage: &[Storage], writable: bool) -> anyhow::Result<Self> {
        let name = text.to_string_lossy().into_owned();
        let want = if writable { Want::Write } else { Want::Read };
        let parts = open_legs(storage, want)?;
        if let Some(reason) = parts.read_only.filter(|_| writable) {
            anyhow::bail!("{name}: cannot be written: {reason}");
        }
        let records = Records::of(storage, &parts.devices)?;
        Ok(Self {
            name,
            devices: parts.devices,
            missing: parts.missing,
            records,
        })
    }
}
