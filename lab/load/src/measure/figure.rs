//! The number of a case for people.

use serde_json::{Value, json};

use crate::measure::Interval;

/// Which way is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// Times and costs.
    Lower,
    /// Rates.
    Higher,
}

/// A number of a case, once for each repeat.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// Its unit, such as `MB/s` or `us/read`.
    pub unit: &'static str,
    /// Which way is better.
    pub better: Better,
    /// One for each repeat.
    pub each: Vec<f64>,
}

impl Figure {
    /// A rate.
    pub fn rate(unit: &'static str, each: Vec<f64>) -> Self {
        let better = Better::Higher;
        Self { unit, better, each }
    }

    /// A time or a cost.
    pub fn cost(unit: &'static str, each: Vec<f64>) -> Self {
        let better = Better::Lower;
        Self { unit, better, each }
    }

    /// The mean of all repeats, with its interval.
    pub fn interval(&self) -> Option<Interval> {
        Interval::of(&self.each)
    }

    pub(super) fn json(&self) -> Value {
        let better = match self.better {
            Better::Lower => "lower",
            Better::Higher => "higher",
        };
        json!({ "unit": self.unit, "better": better, "each": self.each })
    }
}
