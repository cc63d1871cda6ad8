//! Keeps other programs away from files open for writing.
//!
//! Two caches of the same bytes would overwrite each other's data: a regular file gets an exclusive
//! `flock`, a block device `O_EXCL`, which also prevents a mount. Reading takes no lock. A killed
//! program holds its files until its last requests end, so a claim is retried.
//!
//! Weaknesses: `flock` is advisory. A file system without locks (some remote ones) causes a
//! warning.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Once;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use crate::warning::warn_once;

const TRIED_FOR: Duration = Duration::from_secs(2);
const TRIED_EVERY: Duration = Duration::from_millis(10);

/// Claims `file`, opened with the flags `access`. Returns the descriptor that holds the claim;
/// `None`: another program has one.
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

pub(super) fn open_again(file: &OwnedFd, flags: OFlags) -> Result<OwnedFd, Errno> {
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    rustix::fs::open(path, flags, Mode::empty())
}

fn lock(file: &OwnedFd) -> Result<(), Errno> {
    rustix::io::retry_on_intr(|| rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive))
}

/// A child process that is just starting shares the descriptor, so closing is not enough.
pub(super) fn release(file: &OwnedFd) {
    // Without a lock this fails harmlessly.
    let _ = rustix::fs::flock(file, FlockOperation::Unlock);
}
