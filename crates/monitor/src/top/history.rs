//! The last values of every number, for sparklines.

use std::collections::{BTreeMap, VecDeque};

use super::measure::Look;

/// As many as the widest terminal shows.
const VALUES_MAX: usize = 600;

/// The last looks.
#[derive(Debug, Default)]
pub struct History {
    /// The last look; before there is one it says which process it is.
    pub last: Look,
    values: BTreeMap<String, VecDeque<f64>>,
}

impl History {
    /// Remembers a look. A number that has no value counts as zero in its sparkline.
    pub fn push(&mut self, look: Look) {
        for measure in &look.measures {
            let values = self.values.entry(measure.name.clone()).or_default();
            values.push_front(measure.value.unwrap_or(0.0));
            values.truncate(VALUES_MAX);
        }
        self.last = look;
    }

    /// The values of a number, the last one first.
    pub fn values(&self, name: &str) -> impl Iterator<Item = f64> + '_ {
        self.values.get(name).into_iter().flatten().copied()
    }
}
