//! What must hold, and whether it does.

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

impl Verdict {
    /// Its line: PASS or FAIL, and what.
    #[must_use]
    pub fn line(&self) -> String {
        let word = if self.pass { "PASS" } else { "FAIL" };
        format!("{word} {}\n", self.what)
    }
}
