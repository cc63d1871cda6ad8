//! One run of experiments: its options, its time, its results.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use pagewell_load::measure::Row;
use pagewell_load::report::{Outcome, Verdict};

use super::{Error, Experiment, Picture};

/// How to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Smaller cases: all experiments in minutes.
    pub quick: bool,
    /// How often each case runs.
    pub repeat: usize,
    /// Afterwards nothing new begins.
    pub time_max: Duration,
    /// Show progress on standard error, if that is a terminal.
    pub progress: bool,
}

impl Options {
    /// An amount of a quick run, or of a full one.
    pub(super) fn amount<T>(&self, quick: T, full: T) -> T {
        if self.quick { quick } else { full }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            quick: false,
            repeat: 1,
            time_max: Duration::from_hours(2),
            progress: true,
        }
    }
}

/// No time was left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the time for all experiments has passed")]
pub struct OutOfTime;

/// One run of experiments.
#[derive(Debug)]
pub struct Session {
    options: Options,
    started: Instant,
    terminal: bool,
    experiment: &'static str,
    begun: Vec<&'static str>,
    rows: Vec<Row>,
    verdicts: Vec<Verdict>,
    notes: Vec<(&'static str, String)>,
    pictures: Vec<Picture>,
    failures: Vec<String>,
}

impl Session {
    /// A run that begins now.
    pub fn new(options: Options) -> Self {
        Self {
            options,
            started: Instant::now(),
            terminal: options.progress && std::io::stderr().is_terminal(),
            experiment: "",
            begun: vec![""],
            rows: Vec::new(),
            verdicts: Vec::new(),
            notes: Vec::new(),
            pictures: Vec::new(),
            failures: Vec::new(),
        }
    }

    /// How to run.
    pub fn options(&self) -> Options {
        self.options
    }

    /// The end of the time, for loops on other threads.
    pub fn deadline(&self) -> Instant {
        self.started + self.options.time_max
    }

    /// Shows what begins now. Call it before each case and each repeat.
    ///
    /// # Errors
    ///
    /// No time is left.
    pub fn step(&self, what: &str) -> Result<(), OutOfTime> {
        if Instant::now() >= self.deadline() {
            return Err(OutOfTime);
        }
        self.show(&format!("{}: {what}", self.experiment));
        Ok(())
    }

    /// Keeps a row.
    pub fn push(&mut self, mut row: Row) {
        row.experiment = self.experiment;
        self.rows.push(row);
    }

    /// Keeps a requirement on a time, or on something that depends on times.
    pub fn verdict(&mut self, pass: bool, what: impl Into<String>) {
        self.judge(false, (pass, what.into()));
    }

    /// Keeps a requirement on a count.
    pub fn exact(&mut self, pass: bool, what: impl Into<String>) {
        self.judge(true, (pass, what.into()));
    }

    /// Keeps rows.
    pub fn rows_of(&mut self, rows: impl IntoIterator<Item = Row>) {
        rows.into_iter().for_each(|row| self.push(row));
    }

    /// Keeps requirements on times.
    pub fn times(&mut self, all: impl IntoIterator<Item = (bool, String)>) {
        all.into_iter().for_each(|one| self.judge(false, one));
    }

    /// Keeps requirements on counts.
    pub fn counts(&mut self, all: impl IntoIterator<Item = (bool, String)>) {
        all.into_iter().for_each(|one| self.judge(true, one));
    }

    fn judge(&mut self, exact: bool, (pass, what): (bool, String)) {
        self.verdicts.push(Verdict {
            experiment: self.experiment,
            pass,
            exact,
            what,
        });
    }

    /// Keeps lines above the table of the experiment.
    pub fn note(&mut self, text: impl Into<String>) {
        self.notes.push((self.experiment, text.into()));
    }

    /// Keeps a picture for the page.
    pub fn picture(&mut self, mut picture: Picture) {
        picture.experiment = self.experiment;
        self.pictures.push(picture);
    }

    /// Keeps pictures for the page.
    pub fn pictures_of(&mut self, pictures: impl IntoIterator<Item = Picture>) {
        pictures.into_iter().for_each(|one| self.picture(one));
    }

    /// The pictures.
    pub fn pictures(&self) -> &[Picture] {
        &self.pictures
    }

    /// The rows of the present experiment.
    pub(super) fn own_rows(&self) -> Vec<&Row> {
        let own = |row: &&Row| row.experiment == self.experiment;
        self.rows.iter().filter(own).collect()
    }

    /// The experiments that have left something, in their order.
    pub fn experiments(&self) -> Vec<&'static str> {
        let has_left = |name: &&&'static str| {
            self.rows.iter().any(|row| row.experiment == **name)
                || self.notes.iter().any(|(of, _)| of == *name)
                || self
                    .verdicts
                    .iter()
                    .any(|verdict| verdict.experiment == **name)
        };
        self.begun.iter().filter(has_left).copied().collect()
    }

    /// What was measured.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// The requirements.
    pub fn verdicts(&self) -> &[Verdict] {
        &self.verdicts
    }

    /// The notes, each with its experiment.
    pub fn notes(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.notes.iter().map(|(name, text)| (*name, text.as_str()))
    }

    /// Why experiments ended early.
    pub fn failures(&self) -> &[String] {
        &self.failures
    }

    /// Whether everything ran and no verdict is a failure: [`Verdict::outcome`].
    pub fn is_good(&self) -> bool {
        let is_failed = |verdict: &Verdict| verdict.outcome() == Outcome::Failed;
        self.failures.is_empty() && !self.verdicts.iter().any(is_failed)
    }

    /// Removes the line of progress.
    pub fn finish(&self) {
        self.show("");
    }

    /// Runs an experiment, and once more when a time is not met: a machine that was busy for a
    /// moment breaks it. A time that is broken twice is not proven, a count that is wrong once is
    /// wrong. After an early end its reason and what was measured are kept.
    pub(super) fn conduct(
        &mut self,
        experiment: Experiment,
        run: impl Fn(&mut Self) -> Result<(), Error>,
    ) {
        self.begin(experiment.name());
        let first = self.verdicts.len();
        if let Err(error) = run(self) {
            self.stopped(&error);
            return;
        }
        let failed = |verdict: &Verdict| !verdict.pass && !verdict.exact;
        if !self.verdicts.iter().skip(first).any(failed) {
            return;
        }
        let mut again = Self {
            started: self.started,
            terminal: self.terminal,
            ..Self::new(self.options)
        };
        again.begin(experiment.name());
        // Without time for a second run the first one stands.
        if run(&mut again).is_ok() {
            self.judge_again(first, &again.verdicts);
        }
    }

    /// A time is met if it was in either run, a count if it was in both. Both runs judge in the
    /// same order.
    fn judge_again(&mut self, first: usize, again: &[Verdict]) {
        let Some(verdicts) = self.verdicts.get_mut(first..) else {
            return;
        };
        if verdicts.len() != again.len() {
            return;
        }
        for (verdict, again) in verdicts.iter_mut().zip(again) {
            let counts = if verdict.exact {
                verdict.pass && !again.pass
            } else {
                !verdict.pass
            };
            if counts {
                verdict.pass = again.pass;
                verdict.what = format!("{} (the first run: {})", again.what, verdict.what);
            }
        }
    }

    pub(super) fn begin(&mut self, experiment: &'static str) {
        self.experiment = experiment;
        if !self.begun.contains(&experiment) {
            self.begun.push(experiment);
        }
    }

    pub(super) fn stopped(&mut self, error: &Error) {
        self.failures.push(format!("{}: {error}", self.experiment));
    }

    fn show(&self, text: &str) {
        if self.terminal {
            let seconds = self.started.elapsed().as_secs();
            let mut line = "\r\x1b[K".to_owned();
            if !text.is_empty() {
                line += &format!("{:>3}:{:02}  {text}", seconds / 60, seconds % 60);
            }
            // Progress that cannot be shown is not worth an error.
            let _ = std::io::stderr().write_all(line.as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{Mode, Phase};
    use std::cell::Cell;

    /// What is left of an experiment whose two runs judge so.
    fn judged(runs: [&[bool]; 2]) -> (Session, usize) {
        let mut session = Session::new(Options::default());
        session.verdict(false, "of another experiment");
        let count = Cell::new(0);
        session.conduct(Experiment::Hsfs, |session| {
            for (number, pass) in runs[count.get()].iter().enumerate() {
                session.verdict(*pass, format!("limit {number}, run {}", count.get()));
            }
            count.set(count.get() + 1);
            Ok(())
        });
        (session, count.get())
    }

    #[test]
    fn what_is_late_is_run_again_and_is_late_when_it_is_twice() {
        let (session, count) = judged([&[true, false, false], &[false, true, false]]);
        let passed: Vec<bool> = session.verdicts().iter().map(|one| one.pass).collect();
        assert_eq!((count, &passed[..]), (2, &[false, true, true, false][..]));
        let what = &session.verdicts()[2].what;
        assert_eq!(what, "limit 1, run 1 (the first run: limit 1, run 0)");
        let (session, count) = judged([&[true, true], &[]]);
        assert_eq!((count, session.verdicts().len()), (1, 3));
        let (session, _) = judged([&[false], &[true, true]]);
        assert!(!session.verdicts()[1].pass, "another judgement");
    }

    #[test]
    fn a_count_that_fails_once_has_failed() {
        let passed = |counts: [bool; 2], times: [bool; 2]| {
            let mut session = Session::new(Options::default());
            let run = Cell::new(0);
            session.conduct(Experiment::Hsfs, |session| {
                session.exact(counts[run.get()], "a count");
                session.verdict(times[run.get()], "a time");
                run.set(run.get() + 1);
                Ok(())
            });
            let passed: Vec<bool> = session.verdicts().iter().map(|one| one.pass).collect();
            (run.get(), passed)
        };
        assert_eq!(passed([false, true], [true, true]), (1, vec![false, true]));
        assert_eq!(passed([false, true], [false, true]), (2, vec![false, true]));
        assert_eq!(passed([true, false], [false, true]), (2, vec![false, true]));
    }

    #[test]
    fn what_was_measured_before_the_end_stays() {
        let mut session = Session::new(Options {
            time_max: Duration::ZERO,
            progress: false,
            ..Options::default()
        });
        session.begin("some");
        session.push(Row::new("a case", Mode::Baseline, Phase::Cold));
        let error = Error::from(session.step("more").unwrap_err());
        session.stopped(&error);
        assert_eq!(session.rows()[0].experiment, "some");
        assert!(!session.is_good());
        assert!(session.failures()[0].starts_with("some: the time"));
    }

    #[test]
    fn one_wrong_count_is_not_good_and_a_broken_time_is() {
        let mut session = Session::new(Options::default());
        session.exact(true, "yes");
        session.verdict(false, "late");
        assert!(session.is_good());
        session.exact(false, "no");
        assert!(!session.is_good());
    }
}
