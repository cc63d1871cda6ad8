//! Signals, without handlers: blocked in every thread, and one thread waits for them.

use std::mem::MaybeUninit;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// timeout(1) and some shells signal a process and then its group, so that one stop arrives twice
/// within microseconds.
const SAME_SIGNAL: Duration = Duration::from_millis(500);

/// SIGINT, SIGTERM, SIGHUP unless it is ignored, and further ones.
struct StopSignals {
    set: libc::sigset_t,
}

/// Calls `stop`, which must not wait, at the first signal to stop: SIGINT, SIGTERM, SIGHUP unless
/// it is ignored, or one of `others`. Another signal ends the process at once, unless it comes
/// within [`SAME_SIGNAL`]. Until [`Opening::done`] the first one does, too: a source may be silent.
///
/// Call it before any other thread starts: threads inherit what is blocked.
pub(crate) fn watch(
    others: &[libc::c_int],
    stop: impl FnOnce() + Send + 'static,
) -> std::io::Result<Opening> {
    watch_reloading(others, stop, None::<fn()>)
}

/// The same, but with `reload`, which must not wait, SIGHUP calls that at any time, even if it was
/// ignored.
pub(crate) fn watch_reloading(
    others: &[libc::c_int],
    stop: impl FnOnce() + Send + 'static,
    reload: Option<impl Fn() + Send + 'static>,
) -> std::io::Result<Opening> {
    let signals = StopSignals::block(others, reload.is_some())?;
    let is_open = Arc::new(AtomicBool::new(false));
    let opening = Opening(Arc::clone(&is_open));
    let thread = std::thread::Builder::new().name("signals".to_owned());
    thread.spawn(move || {
        let reloads = |signal| signal == libc::SIGHUP && reload.is_some();
        loop {
            match (signals.wait(), &reload) {
                (Ok(libc::SIGHUP), Some(reload)) => reload(),
                // Without waits the process could not be ended later.
                (Err(_), _) => signals.end_process(),
                (Ok(_), _) if !is_open.load(Ordering::Acquire) => signals.end_process(),
                (Ok(_), _) => break,
            }
        }
        let first = Instant::now();
        stop();
        while let Ok(signal) = signals.wait() {
            if first.elapsed() >= SAME_SIGNAL && !reloads(signal) {
                signals.end_process();
            }
        }
    })?;
    Ok(opening)
}

/// There is nothing to stop in order yet.
#[must_use]
pub(crate) struct Opening(Arc<AtomicBool>);

impl Opening {
    /// From here on there is.
    pub(crate) fn done(self) {
        self.0.store(true, Ordering::Release);
    }
}

impl StopSignals {
    /// Blocks them in this thread and those started later.
    fn block(others: &[libc::c_int], reloads: bool) -> std::io::Result<Self> {
        let mut set = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: sigemptyset initialises all of its set; sigaddset and pthread_sigmask then use
        // that initialised set only.
        let (set, failed) = unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            let mut set = set.assume_init();
            libc::sigaddset(&raw mut set, libc::SIGINT);
            libc::sigaddset(&raw mut set, libc::SIGTERM);
            // With nohup(1) the program goes on when the terminal closes.
            if reloads || !is_ignored(libc::SIGHUP) {
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

    fn wait(&self) -> std::io::Result<libc::c_int> {
        let mut signal = 0;
        // SAFETY: both pointers are to initialised values that outlive the call.
        let failed = unsafe { libc::sigwait(&raw const self.set, &raw mut signal) };
        checked(failed).map(|()| signal)
    }

    /// Ends the process as SIGTERM would have.
    fn end_process(&self) {
        // SAFETY: SIG_DFL is a valid disposition for SIGTERM and no handler is lost,
        // because this program installs none; the set is initialised.
        unsafe {
            libc::signal(libc::SIGTERM, libc::SIG_DFL);
            libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const self.set, std::ptr::null_mut());
            libc::raise(libc::SIGTERM);
            // The first process of a container survives a signal without a handler.
            libc::_exit(128 + libc::SIGTERM);
        }
    }
}

/// The error of a call that returns its number.
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

/// Lets a write past the limit of file sizes (`ulimit -f`) fail, instead of ending the process and
/// all its mounts.
pub(crate) fn fail_past_file_size_limit() {
    // SAFETY: SIG_IGN is a valid disposition, and no other thread runs yet.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
    }
}

/// Lets a write to a pipe without a reader end the process, as in other tools. (Rust starts
/// programs with SIGPIPE ignored; a server keeps it so.)
pub(crate) fn end_on_broken_pipe() {
    // SAFETY: SIG_DFL is a valid disposition, and no other thread runs yet.
    unsafe {
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
    }
}
