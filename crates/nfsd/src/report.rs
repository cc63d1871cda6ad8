//! Reports to the operator of what storage did. A client is told "I/O error" and no more; where it
//! was, the server says on standard error.
//!
//! A bad disk fails many calls, and clients ask again: no more than [`LINES_MAX`] lines are
//! written in a [`PERIOD`], then one with the number of those that were not. All are counted.

use std::fmt::Display;
use std::time::{Duration, Instant};

use pagewell_base::line;
use pagewell_base::sync::Mutex;
use pagewell_counters::names::STORAGE_ERRORS;

const LINES_MAX: u32 = 10;
const PERIOD: Duration = Duration::from_secs(60);

/// Lines that were written lately.
pub(crate) struct Period {
    began: Option<Instant>,
    lines: u32,
    hidden: u64,
}

static PERIOD_NOW: Mutex<Period> = Mutex::new(Period::new());

impl Period {
    /// None was.
    pub(crate) const fn new() -> Self {
        Self {
            began: None,
            lines: 0,
            hidden: 0,
        }
    }

    /// Whether a line may be written now, and how many were not since the last one.
    fn admit(&mut self, now: Instant) -> Option<u64> {
        let is_over = self
            .began
            .is_none_or(|began| now.duration_since(began) >= PERIOD);
        if is_over {
            self.began = Some(now);
            self.lines = 0;
        }
        if self.lines >= LINES_MAX {
            self.hidden += 1;
            return None;
        }
        self.lines += 1;
        Some(std::mem::take(&mut self.hidden))
    }
}

/// Tells of an I/O error in an export, of the object at this place where that is known.
pub(crate) fn report(export: &str, place: Option<&str>, text: &str) {
    report_own("storage", &storage_text(export, place, text));
}

/// Tells of an I/O error with what the server keeps for itself.
pub(crate) fn report_own(subject: &str, text: &str) {
    STORAGE_ERRORS.add(1);
    say(&PERIOD_NOW, subject, text);
}

/// Writes a line about `subject`, if one may be written in this period.
pub(crate) fn say(period: &Mutex<Period>, subject: &str, text: impl Display) {
    let hidden = period.lock().admit(Instant::now());
    if let Some(hidden) = hidden {
        line::say(&counted(subject, text, hidden));
    }
}

fn storage_text(export: &str, place: Option<&str>, text: &str) -> String {
    let place = place.map_or(String::new(), |place| format!("{place}: "));
    format!("export {export}: {place}{text}")
}

/// A line about `subject`; so many before it were not written.
fn counted(subject: &str, text: impl Display, hidden: u64) -> String {
    match hidden {
        0 => format!("{subject}: {text}"),
        _ => format!("{subject}: {text} ({hidden} more were not shown)"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_disk_does_not_fill_the_log() {
        let mut period = Period::new();
        let start = Instant::now();
        let shown = (0..1000).filter(|_| period.admit(start).is_some()).count();
        assert_eq!(shown, LINES_MAX as usize);
        assert_eq!(period.admit(start + PERIOD), Some(990));
        assert_eq!(period.admit(start + PERIOD), Some(0));
    }

    #[test]
    fn a_report_is_one_line() {
        let said = |text: String, hidden| line::said(&counted("storage", text, hidden));
        assert_eq!(
            said(storage_text("/", None, "disk: at byte 5:\nEIO"), 0),
            "pagewell: storage: export /: disk: at byte 5:\\nEIO\n"
        );
        assert_eq!(
            said(storage_text("/data", Some("/srv/a\nb"), "EIO"), 3),
            "pagewell: storage: export /data: /srv/a\\nb: EIO (3 more were not shown)\n"
        );
    }
}
