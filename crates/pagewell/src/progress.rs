//! A progress bar for long work, and messages that do not tear it.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::escape;
use crate::failure;

/// Work shorter than this shows no bar.
const QUIET_FOR: Duration = Duration::from_secs(1);

/// Counts bytes; draws a bar when standard error is a terminal and the work is long.
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
    wanted: bool,
    started: Instant,
    bytes: u64,
    bytes_expected: Option<u64>,
    name: String,
}

impl Progress {
    /// A bar, if one is `wanted` and standard error is a terminal.
    #[must_use]
    pub(crate) fn new(wanted: bool) -> Self {
        use std::io::IsTerminal;
        Self {
            bar: None,
            wanted: wanted && std::io::stderr().is_terminal(),
            started: Instant::now(),
            bytes: 0,
            bytes_expected: None,
            name: String::new(),
        }
    }

    /// Expects `bytes` in all, when that is known; the bar then shows how much is left.
    pub(crate) fn expect(&mut self, bytes: Option<u64>) {
        self.bytes_expected = bytes;
    }

    /// Begins with the object of this name.
    pub(crate) fn begin(&mut self, name: &str) {
        if self.wanted {
            name.clone_into(&mut self.name);
            if let Some(bar) = &self.bar {
                bar.set_message(self.name.clone());
            }
        }
    }

    /// The bytes that were counted.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Counts bytes that are done of the object with this label.
    pub(crate) fn add_of(&mut self, bytes: u64, label: &[u8]) {
        if self.wanted {
            self.begin(&escape::text(label));
        }
        self.add(bytes);
    }

    /// Counts bytes that are done.
    pub(crate) fn add(&mut self, bytes: u64) {
        self.bytes += bytes;
        if !self.wanted {
            return;
        }
        if let Some(bar) = &self.bar {
            bar.inc(bytes);
        } else if self.started.elapsed() >= QUIET_FOR {
            self.show();
        }
    }

    fn show(&mut self) {
        let (length, form) = match self.bytes_expected {
            Some(bytes) => (
                Some(bytes),
                "{bar:30} {binary_bytes}/{binary_total_bytes} {binary_bytes_per_sec} \
                 {eta} {wide_msg}",
            ),
            None => (
                None,
                "{spinner} {binary_bytes} {binary_bytes_per_sec} {wide_msg}",
            ),
        };
        let bar = ProgressBar::with_draw_target(length, ProgressDrawTarget::stderr_with_hz(5));
        if let Ok(style) = ProgressStyle::with_template(form) {
            bar.set_style(style);
        }
        bar.set_message(self.name.clone());
        bar.set_position(self.bytes);
        // What was done before the bar came must not count as done in its first moment.
        bar.reset_eta();
        self.bar = Some(bar);
    }

    /// Reports one failure on standard error, above the bar.
    pub(crate) fn report(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| failure::report(text)),
            None => failure::report(text),
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
