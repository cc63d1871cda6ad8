//! `pagewell umount`.

use std::path::PathBuf;

use anyhow::{Context, anyhow};
use clap::Args;
use pagewell_fuse::{UnmountError, unmount};

use super::mount::named_users;
use crate::failure::Outcome;

/// Unmount what `pagewell mount` mounted.
///
/// What was written is on the source's device when the program that served the mount has ended,
/// a moment after this returns.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  pagewell umount /mnt
  pagewell umount --lazy /mnt      take it from its place although programs use it")]
pub(crate) struct UmountArguments {
    /// Take it from its place at once; it ends when the last program that uses it is done
    #[arg(long, short)]
    lazy: bool,
    /// Where it is mounted
    #[arg(value_name = "MOUNTPOINT")]
    place: PathBuf,
}

/// Runs the command.
pub(crate) fn run(arguments: &UmountArguments) -> anyhow::Result<Outcome> {
    // Looking at the mount itself would ask the program that serves it, which may be gone.
    let place = std::path::absolute(&arguments.place)
        .with_context(|| arguments.place.display().to_string())?;
    match unmount(&place, arguments.lazy) {
        Ok(()) => Ok(Outcome::Done),
        Err(UnmountError::Busy(_)) => Err(anyhow!(
            "{} is in use{} (--lazy takes it from its place all the same)",
            place.display(),
            named_users(&place)
        )),
        Err(error) => Err(error.into()),
    }
}
