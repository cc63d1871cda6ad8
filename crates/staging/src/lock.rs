//! The lock of the folder (flock(2)), and whether to wait for it.
//!
//! A killed process has the lock until the system has ended its last requests: the next one waits.
//! A living one keeps the lock, so waiting would be in vain.
//!
//! ```text
//!   locked ──> /proc/locks names another process ──> it lives: refused at once
//!         │                                     └──> it is being killed, or is gone: tried again
//!         └──> not named (another name space, an overlay), or this one: tried again
//! ```
//!
//! Weakness: a process asked to end (SIGTERM) counts as living until it has ended.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, major, minor};
use rustix::io::Errno;

/// For a process that may be ending.
pub(crate) const LOCK_TRIED_FOR: Duration = Duration::from_secs(2);
const LOCK_TRIED_EVERY: Duration = Duration::from_millis(10);
/// Of a file of `/proc`: some 100,000 locks.
const LIST_BYTES_MAX: u64 = 8 << 20;
/// A flag of a process that ends (`PF_EXITING`).
const EXITING: u64 = 0x4;
/// In a mask of signals.
const KILLED: u64 = 1 << 8;

/// Takes the lock of a folder, tried for `tried_for` while no living process has it.
///
/// # Errors
/// [`Errno::WOULDBLOCK`]: another has it; and those of flock(2).
pub(crate) fn lock(folder: &File, tried_for: Duration) -> Result<(), Errno> {
    let started = Instant::now();
    loop {
        let operation = FlockOperation::NonBlockingLockExclusive;
        let locked = rustix::io::retry_on_intr(|| rustix::fs::flock(folder, operation));
        if locked != Err(Errno::WOULDBLOCK)
            || started.elapsed() >= tried_for
            || is_held_by_the_living(folder)
        {
            return locked;
        }
        std::thread::sleep(LOCK_TRIED_EVERY);
    }
}

fn is_held_by_the_living(folder: &File) -> bool {
    let Ok(metadata) = folder.metadata() else {
        return false;
    };
    let (device, number) = (metadata.dev(), metadata.ino());
    let file = format!("{:02x}:{:02x}:{number}", major(device), minor(device));
    let list = read("/proc/locks").unwrap_or_default();
    // This process may be closing the folder on another thread.
    let other = holder(&list, &file).filter(|process| *process != std::process::id());
    other.is_some_and(|process| {
        let read = |name: &str| read(&format!("/proc/{process}/{name}")).unwrap_or_default();
        lives(&read("stat"), &read("status"))
    })
}

fn read(path: &str) -> std::io::Result<String> {
    let mut text = String::new();
    let file = File::open(path)?;
    file.take(LIST_BYTES_MAX).read_to_string(&mut text)?;
    Ok(text)
}

/// The process with the lock of a file, by the system's list (proc(5)): `1: FLOCK ADVISORY WRITE
/// 4857 fe:00:1234 0 EOF`.
fn holder(list: &str, file: &str) -> Option<u32> {
    list.lines().find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            [_, "FLOCK", _, _, process, found, ..] if found == file => process.parse().ok(),
            _ => None,
        }
    })
}

/// Whether a process runs and is not being killed, by its `stat` and `status` (proc(5)).
fn lives(stat: &str, status: &str) -> bool {
    // Its name is in parentheses, of any bytes.
    let Some((_, rest)) = stat.rsplit_once(") ") else {
        return false;
    };
    let mut words = rest.split(' ');
    let state = words.next().unwrap_or("X");
    let flags = words.nth(5).and_then(|flags| flags.parse::<u64>().ok());
    let runs = !["Z", "X", "x"].contains(&state);
    let pending = status.lines().filter_map(|line| {
        let mask = line
            .strip_prefix("SigPnd:")
            .or_else(|| line.strip_prefix("ShdPnd:"))?;
        u64::from_str_radix(mask.trim(), 16).ok()
    });
    runs && flags.is_some_and(|flags| flags & EXITING == 0)
        && pending.fold(0, |all, mask| all | mask) & KILLED == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_had_when_it_is_free() {
        let folder = tempfile::tempdir().unwrap();
        let open = || File::open(folder.path()).unwrap();
        let (first, second) = (open(), open());
        lock(&first, Duration::ZERO).unwrap();
        assert_eq!(lock(&second, Duration::ZERO), Err(Errno::WOULDBLOCK));
        // That this process has it is no reason to give up.
        assert!(!is_held_by_the_living(&second));
        drop(first);
        lock(&second, LOCK_TRIED_FOR).unwrap();
    }

    #[test]
    fn this_process_lives() {
        let read = |name: &str| read(&format!("/proc/self/{name}")).unwrap();
        assert!(lives(&read("stat"), &read("status")));
    }

    #[test]
    fn the_holder_is_found_by_the_file() {
        let list = "1: POSIX  ADVISORY  READ 11 fe:00:77 0 EOF\n\
                    2: FLOCK  ADVISORY  WRITE 12 fe:00:78 0 EOF\n\
                    2: -> FLOCK  ADVISORY  WRITE 13 fe:00:77 0 EOF\n\
                    3: FLOCK  ADVISORY  WRITE 14 fe:00:77 0 EOF\n";
        assert_eq!(holder(list, "fe:00:77"), Some(14));
        assert_eq!(holder(list, "fe:00:79"), None);
        assert_eq!(holder("", "fe:00:77"), None);
    }

    #[test]
    fn what_is_being_killed_does_not_live() {
        let stat = |state: &str, flags: u64| format!("7 (a) b) {state} 1 7 7 0 -1 {flags} 0 0");
        let status =
            |own: &str, shared: &str| format!("Name:\ta\nSigPnd:\t{own}\nShdPnd:\t{shared}\n");
        let quiet = status("0000000000000000", "0000000000004000");
        assert!(lives(&stat("S", 0x40_0140), &quiet));
        assert!(!lives(&stat("Z", 0x40_0140), &quiet));
        assert!(!lives(&stat("D", 0x40_0144), &quiet));
        assert!(!lives(
            &stat("D", 0x40_0140),
            &status("0000000000000100", "0")
        ));
        assert!(!lives(
            &stat("D", 0x40_0140),
            &status("0", "0000000000000100")
        ));
        assert!(!lives("", ""));
    }
}
