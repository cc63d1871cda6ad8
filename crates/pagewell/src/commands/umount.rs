//! `pagewell umount`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use clap::Args;
use pagewell_fuse::{UnmountError, mounted_on, unmount, unmount_entry};
use pagewell_monitor::control::{Ended, Ending, ending_of};

use super::mount::named_users;
use super::mount_place::{resolved, waits};
use crate::failure::{Outcome, report};
use crate::progress::Progress;

/// How long the process of a mount may take to end once all is written.
const PROCESS_WAIT: Duration = Duration::from_secs(10);

/// Unmount what `pagewell mount` mounted.
///
/// Waits until what was written is on the source's device, and fails with what was lost if it could
/// not be brought there, or when that is not known, as the process of the mount is gone or cannot
/// be asked. Then it waits until that process has ended, so that what the source lies on can be
/// unmounted next. What is not a mount of pagewell is left alone.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  pagewell umount /mnt
  pagewell umount --lazy /mnt      take it from its place although programs use it")]
pub(crate) struct UmountArguments {
    /// Take it from its place at once and do not wait; it ends when the last program that uses it
    /// is done, and the system log says whether all was written
    #[arg(long, short)]
    lazy: bool,
    /// Where it is mounted
    #[arg(value_name = "MOUNTPOINT")]
    place: PathBuf,
}

pub(crate) fn run(arguments: &UmountArguments) -> anyhow::Result<Outcome> {
    let place = resolved(&arguments.place)?;
    // Before the mount goes: afterwards its program is not known.
    let entry = mounted_on(&place).filter(|_| !arguments.lazy);
    let ending = entry.as_ref();
    let ending = ending.and_then(|entry| ending_of(&entry.device, entry.user));
    let unmounted = match &entry {
        // A program of ours has answered for it.
        Some(entry) if ending.is_some() => unmount_entry(entry, arguments.lazy),
        _ => unmount(&place, arguments.lazy),
    };
    match unmounted {
        Ok(()) => {}
        Err(UnmountError::Busy(_)) => {
            return Err(anyhow!(
                "{} is in use{} (--lazy takes it from its place all the same)",
                place.display(),
                named_users(&place)
            ));
        }
        Err(error) => return Err(error.into()),
    }
    let shown = place.display();
    match ending {
        Some(ending) => wait_for_end(ending, &place)?,
        None if arguments.lazy => {}
        // Which of the two cannot be found out: for a user whom the mount is not open to, the
        // kernel itself answers.
        None => bail!(
            "{shown} is unmounted, but it is not known whether all was written: the program that \
             served it is gone, or cannot be asked (it may run in a container); the system log may \
             say more"
        ),
    }
    Ok(Outcome::Done)
}

/// Waits until all is written and the process of the mount is gone.
fn wait_for_end(mut ending: Ending, place: &Path) -> anyhow::Result<()> {
    let told = wait_until_written(&mut ending);
    let place = place.display();
    if let Ok(Ended::UsedElsewhere) = told {
        report(&format!(
            "{place} is unmounted here and still used elsewhere, in another mount namespace: the \
             rest is written when that ends, and the system log says whether it could be"
        ));
        return Ok(());
    }
    if let Some(process) = ending.wait_for_process(PROCESS_WAIT) {
        report(&format!(
            "{place} is unmounted, but process {process}, which served it, has not ended after \
             {} s: until it does, what it served is in use",
            PROCESS_WAIT.as_secs()
        ));
    }
    if let Ended::Kept(bytes) = told.with_context(|| format!("{place} is unmounted"))? {
        report(&format!("{place} is unmounted; {}", waits(bytes)));
    }
    Ok(())
}

fn wait_until_written(ending: &mut Ending) -> anyhow::Result<Ended> {
    let mut progress = Progress::new(true);
    progress.begin("to be written");
    let mut left_before: Option<u64> = None;
    ending.wait(|left| {
        let before = *left_before.get_or_insert_with(|| {
            progress.expect(Some(left));
            left
        });
        progress.add(before.saturating_sub(left));
        left_before = Some(left.min(before));
    })
}
