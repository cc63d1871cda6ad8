//! Which requests something happens to. It follows from the number of a request among those that
//! the rule is about, in the order in which their heads came.

use std::str::FromStr;

use pagewell_base::mix::{STEP, mix};

use crate::{Fault, Kind};

/// Which of the requests that a rule is about, by their numbers, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// All.
    Every,
    /// `only=3`: this one.
    Only(u64),
    /// `first=3`: so many.
    First(u64),
    /// `after=3`: not the first so many.
    After(u64),
    /// `one-in=10,seed=7`: one of so many, as a generator with this seed says for each number.
    OneIn {
        /// So many.
        times: u64,
        /// Any.
        seed: u64,
    },
}

impl Which {
    fn holds(self, number: u64) -> bool {
        match self {
            Self::Every => true,
            Self::Only(only) => number == only,
            Self::First(count) => number <= count,
            Self::After(count) => number > count,
            Self::OneIn { times, seed } => {
                mix(mix(seed).wrapping_add(number.wrapping_mul(STEP))).is_multiple_of(times.max(1))
            }
        }
    }
}

/// What happens to which requests.
#[derive(Clone, Debug)]
pub struct Rule {
    /// Nothing: all kinds.
    kind: Option<Kind>,
    /// What the target contains.
    part: String,
    which: Which,
    fault: Fault,
    seen: u64,
}

impl Rule {
    /// What happens to every request.
    pub const fn new(fault: Fault) -> Self {
        Self {
            kind: None,
            part: String::new(),
            which: Which::Every,
            fault,
            seen: 0,
        }
    }

    /// Only to requests of this kind.
    #[must_use]
    pub const fn of(mut self, kind: Kind) -> Self {
        self.kind = Some(kind);
        self
    }

    /// Only to those whose target contains this.
    #[must_use]
    pub fn within(mut self, part: &str) -> Self {
        part.clone_into(&mut self.part);
        self
    }

    /// Only to these of them.
    #[must_use]
    pub const fn on(mut self, which: Which) -> Self {
        self.which = which;
        self
    }

    /// Counts a request if the rule is about it; what happens to it.
    pub(crate) fn fires(&mut self, kind: Kind, target: &str) -> Option<Fault> {
        if self.kind.is_some_and(|own| own != kind) || !target.contains(&self.part) {
            return None;
        }
        self.seen += 1;
        self.which.holds(self.seen).then(|| self.fault.clone())
    }
}

fn which(name: &str, value: &str) -> Option<Result<Which, String>> {
    let number = |value: &str| {
        let number = value.parse::<u64>();
        number.map_err(|_| format!("'{name}={value}': '{value}' is no number that fits"))
    };
    Some(match name {
        "every" => Ok(Which::Every),
        "only" => number(value).map(Which::Only),
        "first" => number(value).map(Which::First),
        "after" => number(value).map(Which::After),
        "one-in" => {
            let (times, seed) = value.split_once(",seed=").unwrap_or((value, "0"));
            number(times).and_then(|times| number(seed).map(|seed| Which::OneIn { times, seed }))
        }
        _ => return None,
    })
}

impl FromStr for Rule {
    type Err = String;

    /// `KIND [in=TEXT] [WHICH] FAULT`, where KIND is `any` or the name of a [`Kind`].
    fn from_str(text: &str) -> Result<Self, String> {
        let mut words = text.split_whitespace();
        let kind = words.next().unwrap_or_default();
        let kind = match Kind::named(kind) {
            None if kind != "any" => return Err(format!("'{kind}' is no kind of request")),
            kind => kind,
        };
        let (mut part, mut on, mut fault) = ("", Which::Every, None);
        for word in words {
            let (name, value) = word.split_once('=').unwrap_or((word, ""));
            if name == "in" {
                part = value;
            } else if let Some(which) = which(name, value) {
                on = which?;
            } else if fault.replace(word.parse()?).is_some() {
                return Err(format!("'{text}': more than one fault"));
            }
        }
        let fault = fault.ok_or_else(|| format!("'{text}': nothing happens"))?;
        let rule = Self::new(fault).within(part).on(on);
        Ok(Self { kind, ..rule })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(which: Which) -> Vec<u64> {
        (1..=6).filter(|number| which.holds(*number)).collect()
    }

    #[test]
    fn numbers_are_chosen() {
        assert_eq!(numbers(Which::Every), [1, 2, 3, 4, 5, 6]);
        assert_eq!(numbers(Which::Only(3)), [3]);
        assert_eq!(numbers(Which::First(2)), [1, 2]);
        assert_eq!(numbers(Which::After(4)), [5, 6]);
        let count = |seed| {
            let which = Which::OneIn { times: 10, seed };
            (0..10_000).filter(|number| which.holds(*number)).count()
        };
        assert!((900..1_100).contains(&count(1)), "{}", count(1));
        assert_ne!(count(1), count(2));
    }

    #[test]
    fn only_what_a_rule_is_about_is_counted() {
        let mut rule: Rule = "get in=/a only=2 no-etag".parse().unwrap();
        assert_eq!(rule.fires(Kind::Get, "/b/a"), None);
        assert_eq!(rule.fires(Kind::Get, "/b/b"), None);
        assert_eq!(rule.fires(Kind::Put, "/b/a"), None);
        assert_eq!(rule.fires(Kind::Get, "/b/a"), Some(Fault::NoEtag));
        assert_eq!(rule.fires(Kind::Get, "/b/a"), None);
    }

    #[test]
    fn what_is_no_rule_is_refused() {
        for text in [
            "",
            "fetch hang",
            "get",
            "get only=x hang",
            "get hang gzip",
            "get sometimes hang",
        ] {
            assert!(text.parse::<Rule>().is_err(), "{text}");
        }
        let rule: Rule = "any one-in=3,seed=4 hang".parse().unwrap();
        assert_eq!(rule.which, Which::OneIn { times: 3, seed: 4 });
        assert_eq!(rule.kind, None);
    }
}
