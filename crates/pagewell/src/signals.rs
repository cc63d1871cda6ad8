//! Signals, without handlers: they are blocked in every thread and one thread waits for them.

use std::mem::MaybeUninit;
use std::time::{Duration, Instant};

/// timeout(1) and some shells signal a process and then its group, so that one wish to stop
/// arrives twice within microseconds. No user types a second wish so soon.
const SAME_SIGNAL: Duration = Duration::from_millis(500);

/// SIGINT, SIGTERM, SIGHUP unless it is ignored, and what else was asked for, blocked in this
/// thread and in those started later.
pub(crate) struct StopSignals {
    set: libc::sigset_t,
}

impl StopSignals {
    /// Blocks these signals and `others`. To be called before any other thread starts, for a thread
    /// inherits what is blocked.
    pub(crate) fn block(others: &[libc::c_int]) -> std::io::Result<Self> {
        let mut set = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: sigemptyset initialises all of the set that it is given; sigaddset and
        // pthread_sigmask then read and write that initialised set only.
        let (set, failed) = unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            let mut set = set.assume_init();
            libc::sigaddset(&raw mut set, libc::SIGINT);
            libc::sigaddset(&raw mut set, libc::SIGTERM);
            // With nohup(1) it is to go on when the terminal is closed.
            if !is_ignored(libc::SIGHUP) {
                libc::sigaddset(&raw mut set, libc::SIGHUP);
            }
            for signal in others {
                libc::sigaddset(&raw mut set, *signal);
            }
            let failed =
                libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
            (set, failed)
        };
        checked(failed).map(|()| Self { set })
    }

    /// Waits for the next signal.
    pub(crate) fn wait(&self) -> std::io::Result<()> {
        let mut signal = 0;
        // SAFETY: both pointers are to initialised values that outlive the call.
        checked(unsafe { libc::sigwait(&raw const self.set, &raw mut signal) })
    }

    /// From here on another signal ends the process at once, wherever it is. One that comes
    /// within [`SAME_SIGNAL`] is taken for the first one sent twice.
    pub(crate) fn end_on_another(self) {
        let first = Instant::now();
        // Without a thread the process ends when it is done, and not before.
        let _ = std::thread::Builder::new()
            .name("signals".to_owned())
            .spawn(move || {
                while self.wait().is_ok() {
                    if first.elapsed() >= SAME_SIGNAL {
                        self.end_by_signal();
                    }
                }
            });
    }

    /// Ends the process as SIGTERM would have.
    fn end_by_signal(&self) {
        // SAFETY: SIG_DFL is a valid disposition for SIGTERM and no handler is lost,
        // because this program installs none; the set is initialised.
        unsafe {
            libc::signal(libc::SIGTERM, libc::SIG_DFL);
            libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const self.set, std::ptr::null_mut());
            libc::raise(libc::SIGTERM);
            // The first process of a container outlives a signal that has no handler.
            libc::_exit(128 + libc::SIGTERM);
        }
    }
}

/// The error that a call has returned, if it is one.
fn checked(failed: libc::c_int) -> std::io::Result<()> {
    match failed {
        0 => Ok(()),
        errno => Err(std::io::Error::from_raw_os_error(errno)),
    }
}

/// Whether the process was started with a signal ignored.
fn is_ignored(signal: libc::c_int) -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: without a new action sigaction only fills in the present one, all of which is read
    // after it succeeded.
    unsafe {
        libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr()) == 0
            && action.assume_init().sa_sigaction == libc::SIG_IGN
    }
}

/// Lets a write past the limit of file sizes (`ulimit -f`) fail as one, with "file too large",
/// instead of ending the process and with it all mounts.
pub(crate) fn fail_past_file_size_limit() {
    // SAFETY: SIG_IGN is a valid disposition, and no other thread runs yet.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
    }
}

/// Lets a write to a pipe without a reader end the process quietly, as it ends other tools.
/// (Rust starts programs with SIGPIPE ignored; a server keeps it so.)
pub(crate) fn end_on_broken_pipe() {
    // SAFETY: SIG_DFL is a valid disposition, and no other thread runs yet.
    unsafe {
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
    }
}
