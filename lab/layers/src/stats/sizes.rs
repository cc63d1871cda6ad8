//! How many requests had which size, in the form of dtrace's `lquantize`.
//!
//! ```text
//!            value  ------------- Distribution ------------- count
//!             2048 |                                         0
//!             4096 |@@@@@@@                                  2
//! ```
//!
//! A row is named by its smallest size. Forty signs are all requests, rounded for each row. One
//! empty row is shown before the first used one and one behind the last.

use std::fmt;

pub(super) const STEP: u64 = 2048;
/// Buckets; the last one has all sizes from 2 MiB.
pub(super) const BUCKETS: usize = (2 << 20) / STEP as usize + 1;
const SIGNS: usize = 40;

/// Counts of sizes. See the module's text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SizeHistogram {
    /// Number N counts requests of 2048 N up to, not including, 2048 (N + 1) bytes, the last one
    /// all longer ones.
    pub counts: Vec<u64>,
}

impl SizeHistogram {
    pub(super) fn empty() -> Self {
        let counts = vec![0; BUCKETS];
        Self { counts }
    }

    pub(super) fn count(&mut self, length: usize) {
        let bucket = (length / STEP as usize).min(BUCKETS - 1);
        if let Some(count) = self.counts.get_mut(bucket) {
            *count += 1;
        }
    }

    /// Requests of `from` to, not including, `to` bytes, both multiples of 2048.
    pub fn between(&self, from: u64, to: u64) -> u64 {
        let rows = (0u64..).map(|row| row * STEP).zip(&self.counts);
        let rows = rows.filter(|(value, _)| (from..to).contains(value));
        rows.map(|(_, count)| count).sum()
    }

    /// All requests.
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Adds the counts of another one.
    pub fn add(&mut self, other: &Self) {
        if self.counts.len() < other.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        for (sum, count) in self.counts.iter_mut().zip(&other.counts) {
            *sum += count;
        }
    }
}

impl fmt::Display for SizeHistogram {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total = self.total();
        let is_used = |count: &u64| *count > 0;
        let Some(first) = self.counts.iter().position(is_used) else {
            return Ok(());
        };
        let last = self.counts.iter().rposition(is_used).unwrap_or(first);
        let title = "------------- Distribution -------------";
        writeln!(formatter, "{:>16} {title:>41} {:<9}", "value", "count")?;
        if first == 0 {
            write_row(formatter, "< 0", 0, total)?;
        }
        let end = self.counts.len() - 1;
        for row in first.saturating_sub(1)..=(last + 1).min(end) {
            let count = self.counts.get(row).copied().unwrap_or(0);
            let value = row as u64 * STEP;
            if row == BUCKETS - 1 {
                write_row(formatter, &format!(">= {value}"), count, total)?;
            } else {
                write_row(formatter, &value.to_string(), count, total)?;
            }
        }
        Ok(())
    }
}

fn write_row(
    formatter: &mut fmt::Formatter<'_>,
    value: &str,
    count: u64,
    total: u64,
) -> fmt::Result {
    let signs = (SIGNS as f64 * count as f64 / total as f64).round();
    // 0 to 40.
    let signs = "@".repeat((signs as usize).min(SIGNS));
    writeln!(formatter, "{value:>16} |{signs:<SIGNS$} {count:<9}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(sizes: &[(usize, u64)]) -> String {
        let mut histogram = SizeHistogram::empty();
        for (length, count) in sizes {
            (0..*count).for_each(|_| histogram.count(*length));
        }
        let text = histogram.to_string();
        // dtrace fills the last column with spaces.
        assert!(text.lines().all(|line| line.len() == 68), "{text}");
        let lines = text.lines().map(|line| line.trim_end().to_owned() + "\n");
        lines.collect()
    }

    #[test]
    fn rows_look_as_those_of_dtrace() {
        assert_eq!(
            shown(&[(2048, 524_288)]),
            "           value  ------------- Distribution ------------- count
               0 |                                         0
            2048 |@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@ 524288
            4096 |                                         0
"
        );
        assert_eq!(
            shown(&[(4096, 2), (12_288, 1), (20_480, 1), (24_576, 7)]),
            "           value  ------------- Distribution ------------- count
            2048 |                                         0
            4096 |@@@@@@@                                  2
            6144 |                                         0
            8192 |                                         0
           10240 |                                         0
           12288 |@@@@                                     1
           14336 |                                         0
           16384 |                                         0
           18432 |                                         0
           20480 |@@@@                                     1
           22528 |                                         0
           24576 |@@@@@@@@@@@@@@@@@@@@@@@@@                7
           26624 |                                         0
"
        );
        assert_eq!(
            shown(&[(12_288, 1), (16_384, 65_522)]),
            "           value  ------------- Distribution ------------- count
           10240 |                                         0
           12288 |                                         1
           14336 |                                         0
           16384 |@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@ 65522
           18432 |                                         0
"
        );
    }

    #[test]
    fn the_ends_of_the_scale() {
        assert_eq!(shown(&[]), "");
        assert_eq!(
            shown(&[(512, 3), (usize::MAX, 1)]).lines().nth(1),
            Some("             < 0 |                                         0")
        );
        assert_eq!(
            shown(&[(2 << 20, 1)]),
            "           value  ------------- Distribution ------------- count
         2095104 |                                         0
      >= 2097152 |@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@ 1
"
        );
        let mut histogram = SizeHistogram {
            counts: vec![1, 2, 3],
        };
        histogram.add(&SizeHistogram {
            counts: vec![1, 1, 1, 1],
        });
        assert_eq!(histogram.counts, [2, 3, 4, 1]);
        assert_eq!(histogram.between(2048, 6144), 7);
    }
}
