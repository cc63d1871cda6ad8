//! How sure a mean is: Student's interval, and Welch's comparison of two means.
//!
//! The 97.5 % point of Student's distribution is needed for any `v >= 1` degrees of freedom, whole
//! or not. With `x = sqrt(v) tan(a)` the density becomes `cos(a)^(v-1)`, smooth on a bounded
//! interval: a sum over small steps gives the point to four digits without tables or the gamma
//! function.
//!
//! Weakness: both assume independent and roughly normal runs; a machine that is busy for half of
//! the runs gives neither.

use super::number::number;

/// A mean and its range of 95 % certainty.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The mean.
    pub mean: f64,
    /// Lower and upper end; none for one number.
    pub range: Option<(f64, f64)>,
}

/// How two means differ.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Difference {
    /// Of the second over the first.
    pub ratio: f64,
    /// The range of the ratio with 95 % certainty, taking the first mean as given; none for too few
    /// numbers.
    pub range: Option<(f64, f64)>,
}

impl Difference {
    /// Whether the means are proven to differ.
    pub fn is_proven(&self) -> bool {
        self.range
            .is_some_and(|(low, high)| low > 1.0 || high < 1.0)
    }
}

impl Interval {
    /// Of some numbers; none without any.
    pub fn of(values: &[f64]) -> Option<Self> {
        let (mean, variance) = moments(values)?;
        let count = number(values.len());
        let range = variance.map(|variance| {
            let half = student(count - 1.0) * (variance / count).sqrt();
            (mean - half, mean + half)
        });
        Some(Self { mean, range })
    }
}

/// Compares the means of two sets of runs; none when one is empty or the first mean is not above
/// zero.
pub fn difference(first: &[f64], second: &[f64]) -> Option<Difference> {
    let (mean, variance) = moments(first)?;
    let (other_mean, other_variance) = moments(second)?;
    if mean <= 0.0 {
        return None;
    }
    let ratio = other_mean / mean;
    let range = variance.zip(other_variance).map(|(variance, other)| {
        let (count, other_count) = (number(first.len()), number(second.len()));
        let (part, other_part) = (variance / count, other / other_count);
        let sum = part + other_part;
        let below = part * part / (count - 1.0) + other_part * other_part / (other_count - 1.0);
        // Identical numbers have no spread: they are exact.
        let freedom = if below > 0.0 { sum * sum / below } else { 1e6 };
        let half = student(freedom.max(1.0)) * sum.sqrt() / mean;
        (ratio - half, ratio + half)
    });
    Some(Difference { ratio, range })
}

/// The mean, and the variance of at least two numbers; none without any.
pub fn moments(values: &[f64]) -> Option<(f64, Option<f64>)> {
    if values.is_empty() {
        return None;
    }
    let count = number(values.len());
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    Some((mean, (values.len() > 1).then(|| squares / (count - 1.0))))
}

/// The 97.5 % point of Student's distribution.
fn student(freedom: f64) -> f64 {
    student_point(freedom, 0.05)
}

/// The number that this `share` of all draws from Student's distribution exceeds on either side.
/// Above 1,000 degrees of freedom the distribution is that of 1,000.
pub(super) fn student_point(freedom: f64, share: f64) -> f64 {
    const STEPS: u32 = 100_000;
    let freedom = freedom.min(1000.0);
    let width = std::f64::consts::FRAC_PI_2 / f64::from(STEPS);
    let middle = |step: u32| (f64::from(step) + 0.5) * width;
    let density = |step: u32| middle(step).cos().powf(freedom - 1.0);
    let whole: f64 = (0..STEPS).map(density).sum();
    // Up to this angle lie all but `share` of the upper half.
    let mut rest = whole * (1.0 - share);
    for step in 0..STEPS {
        let here = density(step);
        if here >= rest {
            let angle = (f64::from(step) + rest / here) * width;
            return freedom.sqrt() * angle.tan();
        }
        rest -= here;
    }
    f64::INFINITY
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_points_are_those_of_the_tables() {
        for (freedom, expected) in [
            (1.0, 12.706),
            (2.0, 4.303),
            (3.0, 3.182),
            (9.0, 2.262),
            (30.0, 2.042),
            (1e9, 1.962),
        ] {
            let found = student(freedom);
            assert!((found / expected - 1.0).abs() < 1e-3, "{freedom}: {found}");
        }
        assert!(student(2.5) < student(2.0) && student(2.5) > student(3.0));
        for (freedom, share, expected) in [(4.0, 0.001, 8.610), (10.0, 0.01, 3.169)] {
            let found = student_point(freedom, share);
            assert!((found / expected - 1.0).abs() < 1e-3, "{freedom}: {found}");
        }
    }

    #[test]
    fn one_number_has_no_interval() {
        assert_eq!(Interval::of(&[]), None);
        let one = Interval::of(&[3.0]).unwrap();
        assert_eq!((one.mean, one.range), (3.0, None));
        let (low, high) = Interval::of(&[1.0, 2.0, 3.0]).unwrap().range.unwrap();
        // 4.303 times 1 / sqrt(3).
        assert!((low - (2.0 - 2.484)).abs() < 1e-3 && (high - 4.484).abs() < 1e-3);
    }

    #[test]
    fn a_difference_is_proven_only_beyond_the_noise() {
        let noisy = [1.0, 1.1, 0.9, 1.05, 0.95];
        let same = difference(&noisy, &[1.02, 0.92, 1.08, 1.0, 0.97]).unwrap();
        assert!(!same.is_proven(), "{same:?}");
        let slower = difference(&noisy, &[1.5, 1.6, 1.4, 1.55, 1.45]).unwrap();
        assert!(slower.is_proven() && (slower.ratio - 1.5).abs() < 1e-9);
        assert!(!difference(&[1.0], &[2.0]).unwrap().is_proven());
        assert_eq!(difference(&[], &[1.0]), None);
        assert_eq!(difference(&[0.0], &[1.0]), None);
        let exact = difference(&[2.0, 2.0], &[2.0, 2.0]).unwrap();
        assert_eq!((exact.ratio, exact.is_proven()), (1.0, false));
    }
}
