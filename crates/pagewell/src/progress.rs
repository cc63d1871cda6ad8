//! A progress bar for long work, messages beside it, and the count of failures.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::escape;
use crate::failure::{self, Outcome};

/// Work shorter than this shows no bar.
const QUIET_FOR: Duration = Duration::from_secs(1);

/// Counts bytes; draws a bar on a terminal if the work is long.
pub(crate) struct Progress {
    bar: ProgressBar,
    wanted: bool,
    pub(crate) failures: u64,
}

impl Progress {
    /// A bar, if one is `wanted` and standard error is a terminal.
    pub(crate) fn new(wanted: bool) -> Self {
        use std::io::IsTerminal;
        let wanted = wanted && std::io::stderr().is_terminal();
        Self {
            bar: ProgressBar::hidden(),
            wanted,
            failures: 0,
        }
    }

    /// Expects `bytes` in all, if known; the bar then shows how much is left.
    pub(crate) fn expect(&mut self, bytes: Option<u64>) {
        match bytes {
            Some(bytes) => self.bar.set_length(bytes),
            None => self.bar.unset_length(),
        }
    }

    /// Begins with the object of this name.
    pub(crate) fn begin(&mut self, name: &str) {
        if self.wanted {
            self.bar.set_message(name.to_owned());
        }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bar.position()
    }

    /// Counts bytes of the object with this label.
    pub(crate) fn add_of(&mut self, bytes: u64, label: &[u8]) {
        if self.wanted {
            self.begin(&escape::text(label));
        }
        self.add(bytes);
    }

    pub(crate) fn add(&mut self, bytes: u64) {
        self.bar.inc(bytes);
        if self.wanted && self.bar.is_hidden() && self.bar.elapsed() >= QUIET_FOR {
            self.show();
        }
    }

    fn show(&self) {
        let form = match self.bar.length() {
            Some(_) => {
                "{bar:30} {binary_bytes}/{binary_total_bytes} {binary_bytes_per_sec} \
                 {eta} {wide_msg}"
            }
            None => "{spinner} {binary_bytes} {binary_bytes_per_sec} {wide_msg}",
        };
        if let Ok(style) = ProgressStyle::with_template(form) {
            self.bar.set_style(style);
        }
        let terminal = ProgressDrawTarget::stderr_with_hz(5);
        self.bar.set_draw_target(terminal);
        // Bytes before the bar must not count in its first moment.
        self.bar.reset_eta();
    }

    pub(crate) fn fail(&mut self, text: &str) {
        self.failures += 1;
        self.report(text);
    }

    /// The outcome of a command whose failures were all counted here.
    pub(crate) fn outcome(&self) -> Outcome {
        Outcome::from_failures(self.failures)
    }

    /// Reports on standard error, above the bar.
    pub(crate) fn report(&self, text: &str) {
        self.bar.suspend(|| failure::report(text));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
