//! What must hold, and whether it does.
//!
//! # Rule
//!
//! Counts decide. A count is the same on a busy machine and on a quiet one, so a wrong count is a
//! failure. A limit of time that is broken says as much of what else the machine did as of the
//! program: it is *not proven*, and fails nothing.

/// Something that must hold, and whether it does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The experiment that found out.
    pub experiment: &'static str,
    /// Whether it holds.
    pub pass: bool,
    /// A count, which nothing else on the machine changes; otherwise a time.
    pub exact: bool,
    /// What must hold, with what was measured.
    pub what: String,
}

/// What follows from a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// A count that is wrong.
    Failed,
    /// A limit of time that was broken.
    NotProven,
    /// It holds.
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
    /// What follows: the rule of the module's text.
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
