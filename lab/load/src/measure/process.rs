//! What a process used, from `/proc` (proc(5)).
//!
//! Processor time is counted by the kernel in nanoseconds and shown in clock ticks, so one
//! reading is up to 10 ms off: runs should last a second or more. Threads that ended count in
//! the processor time and not in the context switches.

use std::fs;
use std::io;
use std::time::Duration;

/// What a process had used at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessSample {
    /// Processor time in user mode, all threads.
    pub user: Duration,
    /// Processor time in the kernel, all threads.
    pub system: Duration,
    /// Voluntary and involuntary, of the threads that live.
    pub context_switches: u64,
    /// Memory resident now, in bytes.
    pub resident_bytes: u64,
    /// The most memory that was ever resident, in bytes.
    pub resident_bytes_high: u64,
}

/// What a process used between two moments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessUse {
    /// Processor time in user mode.
    pub user: Duration,
    /// Processor time in the kernel.
    pub system: Duration,
    /// Voluntary and involuntary.
    pub context_switches: u64,
    /// The most memory that was resident up to the second moment, in bytes.
    pub resident_bytes_high: u64,
}

impl ProcessUse {
    /// Processor time in all.
    #[must_use]
    pub fn cpu(&self) -> Duration {
        self.user + self.system
    }
}

impl ProcessSample {
    /// Reads the use of a process.
    ///
    /// # Errors
    ///
    /// The process is not there, or `/proc` is not what it should be.
    pub fn of(process: u32) -> io::Result<Self> {
        let stat = fs::read_to_string(format!("/proc/{process}/stat"))?;
        let status = fs::read_to_string(format!("/proc/{process}/status"))?;
        let malformed = || io::Error::other(format!("/proc/{process}/stat has a strange form"));
        let (user, system) = processor_ticks(&stat).ok_or_else(malformed)?;
        let mut context_switches = 0;
        for thread in fs::read_dir(format!("/proc/{process}/task"))?.flatten() {
            // A thread may end while it is looked at.
            let status = fs::read_to_string(thread.path().join("status")).unwrap_or_default();
            context_switches += status_number(&status, "voluntary_ctxt_switches")
                + status_number(&status, "nonvoluntary_ctxt_switches");
        }
        Ok(Self {
            user: ticks(user),
            system: ticks(system),
            context_switches,
            resident_bytes: status_number(&status, "VmRSS") * 1024,
            resident_bytes_high: status_number(&status, "VmHWM") * 1024,
        })
    }

    /// What was used since an earlier moment.
    #[must_use]
    pub fn since(&self, before: &Self) -> ProcessUse {
        ProcessUse {
            user: self.user.saturating_sub(before.user),
            system: self.system.saturating_sub(before.system),
            context_switches: self
                .context_switches
                .saturating_sub(before.context_switches),
            resident_bytes_high: self.resident_bytes_high,
        }
    }
}

/// Resident memory that is no file's, in bytes: the pages of a file that is mapped are the page
/// cache, which has them with and without the mapping.
pub(super) fn own_bytes(status: &str) -> u64 {
    (status_number(status, "RssAnon") + status_number(status, "RssShmem")) * 1024
}

/// `utime` and `stime`, the 14th and 15th field. The second field, the name, may contain
/// anything; it ends at the last closing parenthesis.
fn processor_ticks(stat: &str) -> Option<(u64, u64)> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace().skip(11);
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

/// The number of a line `name: number`, 0 when there is none.
fn status_number(status: &str, name: &str) -> u64 {
    status
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
        .and_then(|rest| rest.split_ascii_whitespace().next()?.parse().ok())
        .unwrap_or(0)
}

fn ticks(count: u64) -> Duration {
    let per_second = rustix::param::clock_ticks_per_second().max(1);
    let nanoseconds = u128::from(count) * 1_000_000_000 / u128::from(per_second);
    Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_spaces_and_parentheses_shifts_nothing() {
        let stat = "7 (a) b (c) S 1 7 7 0 -1 4194560 11 12 13 14 250 31 0 0 20 0 1 0 5 6 7";
        assert_eq!(processor_ticks(stat), Some((250, 31)));
        assert_eq!(processor_ticks("7 (a) S 1 2"), None);
        assert_eq!(processor_ticks(""), None);
    }

    #[test]
    fn lines_are_found_by_their_whole_name() {
        let status = "Name:\tx\nVmHWM:\t    5120 kB\nnonvoluntary_ctxt_switches:\t3\n";
        assert_eq!(status_number(status, "VmHWM"), 5120);
        assert_eq!(status_number(status, "voluntary_ctxt_switches"), 0);
        assert_eq!(status_number(status, "nonvoluntary_ctxt_switches"), 3);
    }

    #[test]
    fn this_process_uses_memory() {
        let sample = ProcessSample::of(std::process::id()).unwrap();
        let status = fs::read_to_string("/proc/self/status").unwrap();
        assert!(own_bytes(&status) > 0);
        assert!(sample.resident_bytes > 0 && sample.resident_bytes_high >= sample.resident_bytes);
        assert_eq!(sample.since(&sample).cpu(), Duration::ZERO);
        assert!(ProcessSample::of(u32::MAX).is_err());
    }
}
