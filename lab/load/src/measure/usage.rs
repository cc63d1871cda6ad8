//! What a process used: this one by getrusage(2), another one by `/proc` (proc(5)).
//!
//! getrusage(2) is finer, and includes threads that have ended. `/proc` counts processor time in
//! clock ticks, so one reading is up to 10 ms off and runs should last a second or more; its
//! context switches lack ended threads.

use std::fs;
use std::io;
use std::time::Duration;

use super::number::Runs;

/// What a process has used since it began, or between two moments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Processor time in user mode, all threads.
    pub user: Duration,
    /// Processor time in the kernel, all threads.
    pub system: Duration,
    /// Voluntary and involuntary.
    pub context_switches: u64,
    /// Page faults, also those that read from storage; unknown of another process.
    pub page_faults: u64,
    /// The most resident memory so far, in bytes.
    pub resident_bytes_high: u64,
}

impl Usage {
    /// Of this process so far. All zero if the system refuses, which it does not.
    pub fn now() -> Self {
        let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
        // SAFETY: the pointer is valid for one rusage, which the call fills.
        let result = unsafe { libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr()) };
        if result != 0 {
            return Self::default();
        }
        // SAFETY: all zeros is a valid rusage, and the call has filled it.
        let usage = unsafe { usage.assume_init() };
        let count = |number: libc::c_long| u64::try_from(number).unwrap_or(0);
        Self {
            user: duration(usage.ru_utime),
            system: duration(usage.ru_stime),
            context_switches: count(usage.ru_nvcsw) + count(usage.ru_nivcsw),
            page_faults: count(usage.ru_minflt) + count(usage.ru_majflt),
            resident_bytes_high: count(usage.ru_maxrss) * 1024,
        }
    }

    /// Of another process so far.
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
            // The thread may have ended.
            let status = fs::read_to_string(thread.path().join("status")).unwrap_or_default();
            for kind in ["voluntary_ctxt_switches", "nonvoluntary_ctxt_switches"] {
                context_switches += field_number(&status, kind).unwrap_or(0);
            }
        }
        Ok(Self {
            user: ticks(user),
            system: ticks(system),
            context_switches,
            page_faults: 0,
            resident_bytes_high: field_number(&status, "VmHWM").unwrap_or(0) * 1024,
        })
    }

    /// Processor time in all.
    pub fn cpu(&self) -> Duration {
        self.user + self.system
    }

    /// What was used since an earlier moment.
    pub fn since(&self, before: &Self) -> Self {
        Self {
            user: self.user.saturating_sub(before.user),
            system: self.system.saturating_sub(before.system),
            context_switches: self
                .context_switches
                .saturating_sub(before.context_switches),
            page_faults: self.page_faults.saturating_sub(before.page_faults),
            resident_bytes_high: self.resident_bytes_high,
        }
    }

    /// What this process has used since then.
    pub fn until_now(&self) -> Self {
        Self::now().since(self)
    }

    /// The mean of several runs.
    pub fn mean(runs: impl IntoIterator<Item = Self>) -> Self {
        let runs: Vec<Self> = runs.into_iter().collect();
        let time = |of: fn(&Self) -> Duration| {
            Duration::from_secs_f64(runs.mean(|run| of(run).as_secs_f64()))
        };
        Self {
            user: time(|run| run.user),
            system: time(|run| run.system),
            context_switches: runs.mean_count(|run| run.context_switches),
            page_faults: runs.mean_count(|run| run.page_faults),
            resident_bytes_high: runs.mean_count(|run| run.resident_bytes_high),
        }
    }
}

/// Resident memory outside files, in bytes: pages of a mapped file are the page cache, with and
/// without the mapping.
pub(super) fn own_bytes(status: &str) -> u64 {
    let kilobytes = ["RssAnon", "RssShmem"].map(|name| field_number(status, name).unwrap_or(0));
    kilobytes.iter().sum::<u64>() * 1024
}

pub(super) fn field_number(text: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines();
    let rest = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    rest.split_ascii_whitespace().next()?.parse().ok()
}

/// `utime` and `stime`, the 14th and 15th field. The second field, the name, ends at the last
/// closing parenthesis.
fn processor_ticks(stat: &str) -> Option<(u64, u64)> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace().skip(11);
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

fn ticks(count: u64) -> Duration {
    let per_second = rustix::param::clock_ticks_per_second().max(1);
    let nanoseconds = u128::from(count) * 1_000_000_000 / u128::from(per_second);
    Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX))
}

fn duration(time: libc::timeval) -> Duration {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let micro = u64::try_from(time.tv_usec).unwrap_or(0);
    Duration::from_secs(seconds) + Duration::from_micros(micro)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_and_memory_are_seen() {
        let before = Usage::now();
        let mut bytes = vec![1u8; 16 << 20];
        while before.until_now().cpu() < Duration::from_millis(5) {
            bytes
                .iter_mut()
                .for_each(|byte| *byte = byte.wrapping_mul(3));
        }
        std::hint::black_box(&bytes);
        let used = before.until_now();
        assert!(used.page_faults > 0, "{used:?}");
        assert!(used.cpu() >= used.user);
        assert!(used.resident_bytes_high >= 16 << 20);
    }

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
        assert_eq!(field_number(status, "VmHWM"), Some(5120));
        assert_eq!(field_number(status, "voluntary_ctxt_switches"), None);
        assert_eq!(field_number(status, "nonvoluntary_ctxt_switches"), Some(3));
        assert_eq!(field_number(status, "Name"), None);
    }

    #[test]
    fn this_process_uses_memory() {
        let used = Usage::of(std::process::id()).unwrap();
        let status = fs::read_to_string("/proc/self/status").unwrap();
        assert!(own_bytes(&status) > 0 && used.resident_bytes_high > 0);
        assert_eq!(used.since(&used).cpu(), Duration::ZERO);
        assert!(Usage::of(u32::MAX).is_err());
    }
}
