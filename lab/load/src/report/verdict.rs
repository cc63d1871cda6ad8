//! Requirements, and whether they are met.
//!
//! # Rule
//!
//! Counts decide: a count is the same on a busy machine and on a quiet one, so a wrong one is a
//! failure. A broken limit of time may come from the machine's other work: it is *not proven*, and
//! fails nothing.

/// A requirement, and whether it is met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The experiment.
    pub experiment: &'static str,
    /// Whether it is met.
    pub pass: bool,
    /// Whether it is a count, which nothing else on the machine changes; otherwise a time.
    pub exact: bool,
    /// The requirement, with the measured number.
    pub what: String,
}

/// What follows from a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// A wrong count.
    Failed,
    /// A broken limit of time.
    NotProven,
    /// It is met.
    Passed,
}

impl Outcome {
    /// Its word in lines.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Failed => "FAIL",
            Self::NotProven => "NOT PROVEN",
            Self::Passed => "PASS",
        }
    }
}

impl Verdict {
    /// The outcome by the rule of the module's text.
    pub const fn outcome(&self) -> Outcome {
        match (self.pass, self.exact) {
            (true, _) => Outcome::Passed,
            (false, true) => Outcome::Failed,
            (false, false) => Outcome::NotProven,
        }
    }

    /// Its line: PASS, FAIL or NOT PROVEN, and what.
    pub fn line(&self) -> String {
        format!("{} {}\n", self.outcome().word(), self.what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_decide_and_times_that_are_broken_prove_nothing() {
        let verdict = |pass, exact| Verdict {
            experiment: "hsfs",
            pass,
            exact,
            what: "8 requests".to_owned(),
        };
        for (pass, exact, outcome, line) in [
            (true, true, Outcome::Passed, "PASS 8 requests\n"),
            (true, false, Outcome::Passed, "PASS 8 requests\n"),
            (false, true, Outcome::Failed, "FAIL 8 requests\n"),
            (false, false, Outcome::NotProven, "NOT PROVEN 8 requests\n"),
        ] {
            let verdict = verdict(pass, exact);
            assert_eq!(
                (verdict.outcome(), verdict.line()),
                (outcome, line.to_owned())
            );
        }
    }
}
