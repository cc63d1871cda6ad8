//! How many system calls a process makes, counted by the kernel (perf_event_open(2)).
//!
//! Each thread gets a counter on the tracepoint `raw_syscalls:sys_enter`, which later threads
//! inherit. It stops nothing, unlike strace(1), but while a counter is open every call of every
//! process on the machine takes the kernel's slower entry, some hundred nanoseconds more: a counted
//! run should not be timed.
//!
//! The number of the tracepoint is in tracefs, which must be mounted and which only root may read.

use std::fs;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

/// Where tracefs is, or was.
const TRACEPOINT: [&str; 2] = [
    "/sys/kernel/tracing/events/raw_syscalls/sys_enter/id",
    "/sys/kernel/debug/tracing/events/raw_syscalls/sys_enter/id",
];

/// `PERF_TYPE_TRACEPOINT`.
const TYPE_TRACEPOINT: u32 = 2;
/// The bit `inherit` of the flags.
const INHERIT: u64 = 1 << 1;
/// `PERF_FLAG_FD_CLOEXEC`.
const CLOSE_ON_EXEC: libc::c_ulong = 1 << 3;

/// The first version of `perf_event_attr`, as far as a counter needs it.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint_type: u32,
    breakpoint_address: u64,
}

/// Counts the system calls of a process from now on.
#[derive(Debug)]
pub struct SystemCalls {
    counters: Vec<OwnedFd>,
}

impl SystemCalls {
    /// Counts for all threads of the process and those that they start.
    ///
    /// # Errors
    ///
    /// There is no such process, tracefs is not mounted, or the system does not permit it.
    pub fn of(process: u32) -> io::Result<Self> {
        let tracepoint = tracepoint()?;
        let mut counters = Vec::new();
        for thread in fs::read_dir(format!("/proc/{process}/task"))?.flatten() {
            let Some(thread) = thread.file_name().to_str().and_then(|id| id.parse().ok()) else {
                continue;
            };
            match open(tracepoint, thread) {
                Ok(counter) => counters.push(counter),
                // The thread has ended.
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Self { counters })
    }

    /// Calls so far.
    ///
    /// # Errors
    ///
    /// A counter cannot be read, which does not happen.
    pub fn count(&self) -> io::Result<u64> {
        let mut total = 0;
        for counter in &self.counters {
            let mut bytes = [0; size_of::<u64>()];
            if rustix::io::read(counter, &mut bytes)? != bytes.len() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            total += u64::from_ne_bytes(bytes);
        }
        Ok(total)
    }
}

fn tracepoint() -> io::Result<u64> {
    let found = TRACEPOINT.iter().map(fs::read_to_string);
    let text = found.reduce(Result::or).transpose()?.unwrap_or_default();
    let number = text.trim().parse();
    number.map_err(|_| io::Error::other("a tracepoint's id is no number"))
}

fn open(tracepoint: u64, thread: libc::pid_t) -> io::Result<OwnedFd> {
    let attributes = Attributes {
        kind: TYPE_TRACEPOINT,
        size: size_of::<Attributes>() as u32,
        config: tracepoint,
        flags: INHERIT,
        ..Attributes::default()
    };
    // SAFETY: the pointer is to a structure of the length in its `size`; on any processor and in no
    // group.
    let result = unsafe {
        let (processor, group): (libc::c_int, libc::c_int) = (-1, -1);
        let attributes = std::ptr::from_ref(&attributes);
        let call = libc::SYS_perf_event_open;
        libc::syscall(call, attributes, thread, processor, group, CLOSE_ON_EXEC)
    };
    let descriptor = i32::try_from(result).map_err(io::Error::other)?;
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call has just made it, and nothing else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_of_old_and_new_threads_are_counted_where_it_is_permitted() {
        let counter = match SystemCalls::of(std::process::id()) {
            Ok(counter) => counter,
            Err(error) => {
                let expected = [io::ErrorKind::NotFound, io::ErrorKind::PermissionDenied];
                assert!(expected.contains(&error.kind()), "{error}");
                return;
            }
        };
        let before = counter.count().unwrap();
        let calls = || (0..500).for_each(|_| drop(fs::metadata("/")));
        calls();
        std::thread::spawn(calls).join().unwrap();
        let counted = counter.count().unwrap() - before;
        assert!(counted >= 1000, "{counted}");
    }

    #[test]
    fn a_process_that_is_not_there_is_an_error() {
        assert!(SystemCalls::of(u32::MAX).is_err());
    }
}
