//! Whether two programs differ, judged by whole runs of many cases.
//!
//! Problem: repeats inside one run stand close together, and the next run of the same program
//! elsewhere: other memory, other neighbours, another state of the disk. Repeats alone show
//! differences between two runs of one program. Of sixty cases some look unusual by chance. Some
//! cases swing between two values, others are the times of a model and stay: quiet ones tell
//! nothing of the others.
//!
//! Rule: the mean of a whole run counts, as a logarithm, so that differences are factors.
//!
//! ```text
//!   spread of a case   between its runs, `freedom` = runs - 2
//!   spread of them all what three quarters of the cases do not exceed. It weighs as FREEDOM more
//!                      runs.
//!   needed             Student's point for (0.05 / cases) of the freedom, times the spread, once
//!                      of the case alone and once joined with that of all; never less than what
//!                      the repeats inside the runs show
//! ```
//!
//! A case that moved further than both has changed. The first keeps a case's own noise from
//! counting as a change; the second, a moderated t statistic (Smyth 2004), a case whose few runs
//! agree by chance. Fewer than four runs of each program say little of a case's spread, and prove
//! nothing.
//!
//! Weakness: a case that swings between two values can show one in all runs of a program and the
//! other in all of the next: eight runs are better than four.

use std::collections::HashMap;

use super::interval::student_point;
use super::number::number;

/// The weight of the spread of all cases, in runs. Four: tails as heavy as the differences in noise
/// between cases.
const FREEDOM: f64 = 4.0;
/// The least spread of a case: half a percent.
const SPREAD_MIN: f64 = 0.005;
/// Runs of each program that show the spread of a case.
pub const RUNS_MIN: usize = 4;
/// How often two runs of one program may differ by chance in anything.
const ERROR_RATE: f64 = 0.05;

/// The repeats of a case in each run, on both sides; all above zero.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Case {
    /// Of the program before.
    pub before: Vec<Vec<f64>>,
    /// Of the program in question.
    pub after: Vec<Vec<f64>>,
}

/// How a case moved.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Movement {
    /// After over before.
    pub ratio: f64,
    /// A ratio above this, or below its inverse, is no chance; none if unknown.
    pub needed: Option<f64>,
}

impl Movement {
    /// Whether the two are proven to differ.
    pub fn is_proven(&self) -> bool {
        self.needed
            .is_some_and(|needed| self.ratio > needed || self.ratio < 1.0 / needed)
    }
}

/// The runs of one side of a case.
struct Side {
    runs: f64,
    mean: f64,
    /// Sum of the squared distances of runs from their mean.
    squares: f64,
    /// Variance of a run's mean that its own repeats show, in the median run.
    inside: f64,
}

/// The movement of each case; none without numbers.
pub fn movements(cases: &[Case]) -> Vec<Option<Movement>> {
    let sides: Vec<Option<(Side, Side)>> = cases
        .iter()
        .map(|case| Side::of(&case.before).zip(Side::of(&case.after)))
        .collect();
    let known: Vec<&(Side, Side)> = sides.iter().flatten().collect();
    let prior = prior(&known);
    let share = ERROR_RATE / number(known.len().max(1));
    // Most cases have as many runs as the others.
    let mut points: HashMap<u64, f64> = HashMap::new();
    let mut point = |freedom: f64| {
        let point = points.entry(freedom.to_bits());
        *point.or_insert_with(|| student_point(freedom, share))
    };
    let each = sides.iter().map(|sides| {
        let sides = sides.as_ref()?;
        let (before, after) = sides;
        let needed = own_spread(sides).zip(prior).map(|(own, prior)| {
            let freedom = before.runs + after.runs - 2.0;
            let joined = (FREEDOM * prior + freedom * own) / (FREEDOM + freedom);
            let mut needed = |spread: f64, freedom: f64| {
                let spread = spread.max(SPREAD_MIN * SPREAD_MIN);
                let variance =
                    spread.max(before.inside) / before.runs + spread.max(after.inside) / after.runs;
                (point(freedom) * variance.sqrt()).exp()
            };
            needed(own, freedom).max(needed(joined, FREEDOM + freedom))
        });
        Some(Movement {
            ratio: (after.mean - before.mean).exp(),
            needed,
        })
    });
    each.collect()
}

fn own_spread((before, after): &(Side, Side)) -> Option<f64> {
    let freedom = before.runs + after.runs - 2.0;
    let is_enough = before.runs.min(after.runs) >= number(RUNS_MIN);
    is_enough.then(|| (before.squares + after.squares) / freedom)
}

/// The variance between runs of a program that three quarters of all cases do not exceed. With the
/// quieter half, chance in the noisier one would look like a difference.
fn prior(cases: &[&(Side, Side)]) -> Option<f64> {
    quantile(cases.iter().copied().filter_map(own_spread).collect(), 3)
}

impl Side {
    fn of(runs: &[Vec<f64>]) -> Option<Self> {
        let mut means = Vec::new();
        let mut inside = Vec::new();
        for run in runs {
            let count = number(run.len());
            let mean = run.iter().sum::<f64>() / count;
            if run.is_empty() || !mean.is_finite() || mean <= 0.0 {
                return None;
            }
            if run.len() > 1 {
                let squares: f64 = run.iter().map(|value| (value / mean - 1.0).powi(2)).sum();
                inside.push(squares / (count - 1.0) / count);
            }
            means.push(mean.ln());
        }
        let runs = number(means.len());
        let mean = means.iter().sum::<f64>() / runs;
        (runs > 0.0).then(|| Self {
            runs,
            mean,
            squares: means.iter().map(|value| (value - mean).powi(2)).sum(),
            inside: quantile(inside, 2).unwrap_or(0.0),
        })
    }
}

fn quantile(mut values: Vec<f64>, quarters: usize) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() * quarters / 4).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers around 1, as noisy as asked, normal enough, always the same.
    struct Noise(u64);

    impl Noise {
        fn next(&mut self, deviation: f64) -> f64 {
            let mut sum = 0.0;
            for _ in 0..12 {
                self.0 = self
                    .0
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                sum += f64::from(u32::try_from(self.0 >> 33).unwrap()) / f64::from(1u32 << 31);
            }
            ((sum - 6.0) * deviation).exp()
        }
    }

    /// Whole runs of one program on a machine whose speed drifts between runs and that is noisier
    /// in some cases than in others; repeats of a run are close together.
    fn whole_runs(noise: &mut Noise, cases: usize, runs: usize) -> Vec<Vec<Vec<f64>>> {
        let run = |noise: &mut Noise| -> Vec<Vec<f64>> {
            let machine = noise.next(0.02);
            let case = |number: usize, noise: &mut Noise| -> Vec<f64> {
                let deviation = [0.01, 0.03, 0.06][number % 3];
                let here = match number % 20 {
                    // the times of a model, but for a case that swings and one that is noise
                    4 => machine * noise.next(0.7).clamp(0.7, 1.3),
                    9 => noise.next(0.3),
                    10.. => noise.next(0.0005),
                    _ => machine * noise.next(deviation),
                };
                (0..5).map(|_| here * noise.next(0.004)).collect()
            };
            (0..cases).map(|number| case(number, noise)).collect()
        };
        (0..runs).map(|_| run(noise)).collect()
    }

    fn cases_of(before: &[Vec<Vec<f64>>], after: &[Vec<Vec<f64>>]) -> Vec<Case> {
        let of = |runs: &[Vec<Vec<f64>>], number: usize| -> Vec<Vec<f64>> {
            runs.iter().map(|run| run[number].clone()).collect()
        };
        (0..before[0].len())
            .map(|number| Case {
                before: of(before, number),
                after: of(after, number),
            })
            .collect()
    }

    #[test]
    fn two_runs_of_one_program_seldom_differ() {
        let mut noise = Noise(1);
        for runs in [1, 3, 4, 5, 8] {
            let differ = (0..100).filter(|_| {
                let before = whole_runs(&mut noise, 60, runs);
                let after = whole_runs(&mut noise, 60, runs);
                let found = movements(&cases_of(&before, &after));
                found.iter().flatten().any(Movement::is_proven)
            });
            let differ = differ.count();
            assert!(differ <= 5, "{runs} runs: {differ} of 100 comparisons");
        }
    }

    #[test]
    fn a_real_difference_is_found_the_sooner_the_more_runs_there_are() {
        let mut noise = Noise(2);
        for (runs, factor) in [(4, 1.35), (5, 1.2), (8, 1.15)] {
            let before = whole_runs(&mut noise, 60, runs);
            let mut after = whole_runs(&mut noise, 60, runs);
            for run in &mut after {
                run[7].iter_mut().for_each(|value| *value *= factor);
            }
            let found = movements(&cases_of(&before, &after));
            let proven: Vec<usize> = (0..60).filter(|n| found[*n].unwrap().is_proven()).collect();
            assert_eq!(proven, [7], "{runs} runs");
        }
    }

    #[test]
    fn little_is_said_of_little() {
        let one = |before: &[f64], after: &[f64]| Case {
            before: vec![before.to_vec()],
            after: vec![after.to_vec()],
        };
        let found = movements(&[one(&[1.0], &[9.0]), one(&[], &[1.0]), one(&[0.0], &[1.0])]);
        let first = found[0].unwrap();
        assert_eq!((first.needed, first.is_proven()), (None, false));
        assert_eq!(found[1..], [None, None]);
        assert!(movements(&[]).is_empty());
        // Counts that are the same but in one case: half a percent is the least spread.
        let runs = |count: f64| vec![vec![count]; RUNS_MIN];
        let case = |before: f64, after: f64| Case {
            before: runs(before),
            after: runs(after),
        };
        let mut counts = vec![case(5.0, 5.0); 20];
        counts[3] = case(5.0, 10.0);
        let found = movements(&counts);
        let proven = found.iter().flatten().filter(|found| found.is_proven());
        assert_eq!(proven.count(), 1);
        for case in &mut counts {
            case.after.pop();
        }
        let found = movements(&counts);
        assert!(found.iter().flatten().all(|found| found.needed.is_none()));
    }
}
