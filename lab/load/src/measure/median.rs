//! The median of a few numbers, and their spread.

/// The median of several numbers, the lowest and the highest.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The median.
    pub median: f64,
    /// The lowest.
    pub low: f64,
    /// The highest.
    pub high: f64,
}

impl Spread {
    /// Of some numbers; `None` without any.
    pub fn of(values: &[f64]) -> Option<Self> {
        let median = median(values)?;
        let low = values.iter().copied().fold(f64::INFINITY, f64::min);
        let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        Some(Self { median, low, high })
    }
}

/// The middle number, or the mean of the two in the middle; `None` without any.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let upper = *sorted.get(sorted.len() / 2)?;
    let lower = *sorted.get((sorted.len() - 1) / 2)?;
    Some(f64::midpoint(lower, upper))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_is_that_of_the_sorted_numbers() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        let spread = Spread::of(&[2.0, 9.0, 1.0]).unwrap();
        assert_eq!(
            spread,
            Spread {
                median: 2.0,
                low: 1.0,
                high: 9.0
            }
        );
        assert_eq!(Spread::of(&[]), None);
    }
}
