//! Counts as numbers and back. All counts of a measurement are below 2^52.

use super::median::median;

/// A count as a number to calculate with.
// Below 2^52.
pub fn number(count: impl TryInto<u64>) -> f64 {
    count.try_into().unwrap_or(u64::MAX) as f64
}

/// The count nearest to a mean of counts.
// Means of counts.
pub fn nearest(mean: f64) -> u64 {
    mean.round() as u64
}

/// The mean of some numbers; zero without any.
pub fn mean(numbers: impl IntoIterator<Item = f64>) -> f64 {
    let (sum, count) = numbers
        .into_iter()
        .fold((0.0, 0_u64), |(sum, count), value| (sum + value, count + 1));
    sum / number(count.max(1))
}

/// The runs of a case.
pub trait Runs<T> {
    /// The mean of a number over all runs; zero without any.
    fn mean(&self, of: impl Fn(&T) -> f64) -> f64;

    /// The mean of a count, rounded.
    fn mean_count(&self, of: impl Fn(&T) -> u64) -> u64;

    /// The median of a number; zero without runs.
    fn median(&self, of: impl Fn(&T) -> f64) -> f64;
}

impl<T> Runs<T> for [T] {
    fn mean(&self, of: impl Fn(&T) -> f64) -> f64 {
        mean(self.iter().map(of))
    }

    fn mean_count(&self, of: impl Fn(&T) -> u64) -> u64 {
        nearest(self.mean(|run| number(of(run))))
    }

    fn median(&self, of: impl Fn(&T) -> f64) -> f64 {
        let values: Vec<f64> = self.iter().map(of).collect();
        median(&values).unwrap_or(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_and_means_lead_to_one_another() {
        assert_eq!((number(3_usize), number(7_u64)), (3.0, 7.0));
        assert_eq!((nearest(2.5), nearest(-1.0)), (3, 0));
        assert_eq!((mean([1.0, 2.0]), mean([])), (1.5, 0.0));
    }
}
