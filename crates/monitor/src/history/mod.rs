//! The history of a process over a minute, an hour and a day, in fixed memory.
//!
//! Problem: a page opened after a fault must show what came before, and a server must not grow for
//! it. Rule: one thread reads each second the *series*. Three *rings* keep them, each with its own
//! step; a coarse ring reads the same running totals, so that its rates and percentiles are exact.
//!
//! ```text
//!   second    step 1 s, 90 points    a minute
//!   seconds   step 10 s, 366 points  an hour
//!   minutes   step 240 s, 366 points a day
//! ```
//!
//! Gauges are means over the step.
//!
//! Known weaknesses: it begins anew with the process, and a day's step hides a short burst.

mod reading;
mod ring;
mod sampler;
mod series;

use pagewell_base::sync::Mutex;
use serde::Serialize;

use reading::Reading;
use ring::Ring;
pub(crate) use sampler::Sampler;
use series::SERIES;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Span {
    Minute,
    Hour,
    Day,
}

impl Span {
    const ALL: [Self; 3] = [Self::Minute, Self::Hour, Self::Day];

    /// The span with this name.
    pub(crate) fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|span| span.name() == name)
    }

    fn name(self) -> &'static str {
        match self {
            Self::Minute => "minute",
            Self::Hour => "hour",
            Self::Day => "day",
        }
    }

    /// Seconds between points.
    fn step_seconds(self) -> u32 {
        match self {
            Self::Minute => 1,
            Self::Hour => 10,
            Self::Day => 240,
        }
    }

    /// More than the span has, for late readers.
    fn points(self) -> usize {
        match self {
            Self::Minute => 90,
            Self::Hour | Self::Day => 366,
        }
    }
}

pub(crate) struct History(Mutex<[Ring; 3]>);

/// A part of the history: the document of `/history.json`.
#[derive(Debug, Serialize)]
pub(crate) struct Part {
    range: &'static str,
    interval_seconds: u32,
    /// Ends of the intervals, in seconds since 1970.
    times: Vec<f64>,
    series: Vec<Values>,
}

#[derive(Debug, Serialize)]
struct Values {
    name: &'static str,
    unit: &'static str,
    /// One for each time; `None` without events.
    values: Vec<Option<f32>>,
}

impl History {
    /// An empty history, with all its memory.
    pub(crate) fn new() -> Self {
        let rings = Span::ALL.map(|span| Ring::new(span.step_seconds(), span.points()));
        Self(Mutex::new(rings))
    }

    /// Adds a reading, a second after the last.
    fn note(&self, reading: &Reading) {
        for ring in self.0.lock().iter_mut() {
            ring.note(reading);
        }
    }

    /// The points after a time.
    pub(crate) fn since(&self, span: Span, seconds: f64) -> Part {
        let rings = self.0.lock();
        let [minute, hour, day] = &*rings;
        let ring = match span {
            Span::Minute => minute,
            Span::Hour => hour,
            Span::Day => day,
        };
        let points: Vec<_> = ring.points().filter(|point| point.time > seconds).collect();
        let values = |number: usize| {
            let values = points.iter().map(|point| point.values.get(number).copied());
            values
                .map(|value| value.filter(|value| value.is_finite()))
                .collect()
        };
        let series = SERIES.iter().enumerate();
        Part {
            range: span.name(),
            interval_seconds: span.step_seconds(),
            times: points.iter().map(|point| point.time).collect(),
            series: series
                .map(|(number, series)| Values {
                    name: series.name,
                    unit: series.unit,
                    values: values(number),
                })
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All memory of the history, with what the longest histograms of a running server take.
    #[test]
    fn the_memory_is_fixed_and_small() {
        let history = History::new();
        let bytes = |history: &History| -> usize {
            let rings = history.0.lock();
            size_of::<History>() + rings.iter().map(Ring::bytes).sum::<usize>()
        };
        let before = bytes(&history);
        let mut reading = Reading::take();
        for second in 0..100_000 {
            reading.time = f64::from(second);
            history.note(&reading);
        }
        let after = bytes(&history);
        assert!(after <= before + HISTOGRAMS_BYTES, "{before} {after}");
        assert!(after + HISTOGRAMS_BYTES < 2 << 20, "{after}");
    }

    /// Three readings of the totals, each with the histograms of four groups of calls.
    const HISTOGRAMS_BYTES: usize = 3 * 4 * 41 * 8 * size_of::<u64>();

    #[test]
    fn each_span_has_its_step_and_forgets_what_is_older() {
        let history = History::new();
        let mut reading = Reading::take();
        for second in 0..=7200 {
            reading.time = f64::from(second);
            history.note(&reading);
        }
        for (span, first, last) in [
            (Span::Minute, 7111.0, 7200.0),
            (Span::Hour, 3550.0, 7200.0),
            (Span::Day, 240.0, 7200.0),
        ] {
            let part = history.since(span, 0.0);
            let ends = (part.times.first().copied(), part.times.last().copied());
            assert_eq!(ends, (Some(first), Some(last)), "{span:?}");
            assert!(
                part.series
                    .iter()
                    .all(|one| one.values.len() == part.times.len())
            );
        }
        assert_eq!(history.since(Span::Minute, 7198.0).times, [7199.0, 7200.0]);
        assert_eq!(Span::of("hour"), Some(Span::Hour));
        assert_eq!(Span::of("year"), None);
    }
}
