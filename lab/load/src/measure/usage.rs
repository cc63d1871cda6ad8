//! What this process used, from getrusage(2): finer than `/proc`, and threads that have ended are
//! in it.

use std::time::Duration;

use super::number::Runs;

/// What this process had used at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UsageSample(Usage);

/// What this process used between two moments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Processor time in user mode, all threads.
    pub user: Duration,
    /// Processor time in the kernel, all threads.
    pub system: Duration,
    /// Voluntary and involuntary.
    pub context_switches: u64,
    /// Page faults, those that read from storage included.
    pub page_faults: u64,
}

impl Usage {
    /// Processor time in all.
    #[must_use]
    pub fn cpu(&self) -> Duration {
        self.user + self.system
    }

    /// The mean of several runs.
    #[must_use]
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
        }
    }
}

impl UsageSample {
    /// Now. All zero if the system refuses, which it does not.
    #[must_use]
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
        Self(Usage {
            user: duration(usage.ru_utime),
            system: duration(usage.ru_stime),
            context_switches: count(usage.ru_nvcsw) + count(usage.ru_nivcsw),
            page_faults: count(usage.ru_minflt) + count(usage.ru_majflt),
        })
    }

    /// What was used since then.
    #[must_use]
    pub fn used(&self) -> Usage {
        let (now, then) = (Self::now().0, self.0);
        Usage {
            user: now.user.saturating_sub(then.user),
            system: now.system.saturating_sub(then.system),
            context_switches: now.context_switches.saturating_sub(then.context_switches),
            page_faults: now.page_faults.saturating_sub(then.page_faults),
        }
    }
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
        let sample = UsageSample::now();
        let mut bytes = vec![1u8; 16 << 20];
        while sample.used().cpu() < Duration::from_millis(5) {
            bytes
                .iter_mut()
                .for_each(|byte| *byte = byte.wrapping_mul(3));
        }
        std::hint::black_box(&bytes);
        let used = sample.used();
        assert!(used.page_faults > 0, "{used:?}");
        assert!(used.cpu() >= used.user);
    }
}
