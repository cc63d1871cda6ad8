//! Keeping other programs away from what is written.
//!
//! Two caches of the same bytes would overwrite each other's, so a program that opens a file for
//! writing takes an exclusive lock of it (`flock`); a block device is opened with `O_EXCL`, which
//! also keeps it from being mounted meanwhile. Reading needs no lock and hinders nobody. The lock
//! is advisory: programs that do not ask for it are not kept away.
//!
//! A program that was killed has its files until the system has ended its last requests, so a
//! claim is tried again for a moment: a server can be started as soon as the one before is gone.
//!
//! Where there are no locks (some remote file systems) the file is opened all the same: said
//! once, counted.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Once;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use crate::warning::warn_once;

/// How long a claim is tried.
const TRIED_FOR: Duration = Duration::from_secs(2);
const TRIED_EVERY: Duration = Duration::from_millis(10);

/// Claims what `file` is. The claim is held by the descriptor that comes back, if no other program
/// has one; `access` are the flags with which `file` was opened.
pub(super) fn claim(
    file: OwnedFd,
    access: OFlags,
    is_block_device: bool,
    name: &str,
) -> Option<OwnedFd> {
    let started = Instant::now();
    let claimed = loop {
        let claimed = if is_block_device {
            open_again(&file, access | OFlags::EXCL).map(Some)
        } else {
            lock(&file).map(|()| None)
        };
        let is_taken = matches!(claimed, Err(Errno::WOULDBLOCK | Errno::BUSY));
        if !is_taken || started.elapsed() >= TRIED_FOR {
            break claimed;
        }
        std::thread::sleep(TRIED_EVERY);
    };
    match claimed {
        Ok(other) => Some(other.unwrap_or(file)),
        Err(Errno::WOULDBLOCK | Errno::BUSY) => None,
        Err(errno) => {
            static ONCE: Once = Once::new();
            let text = format!("{name}: no lock ({errno}): nothing keeps other programs away");
            warn_once(&ONCE, &text);
            Some(file)
        }
    }
}

/// Opens the same file once more.
pub(super) fn open_again(file: &OwnedFd, flags: OFlags) -> Result<OwnedFd, Errno> {
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    rustix::fs::open(path, flags, Mode::empty())
}

fn lock(file: &OwnedFd) -> Result<(), Errno> {
    rustix::io::retry_on_intr(|| rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive))
}

/// Gives a lock back. Closing the descriptor is not enough: a child process that is just being
/// started has it too.
pub(super) fn release(file: &OwnedFd) {
    // Without a lock there is nothing to give back, and nothing to be done about an error.
    let _ = rustix::fs::flock(file, FlockOperation::Unlock);
}
