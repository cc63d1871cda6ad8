//! The line, and all that happens on it. The first rule that fires decides; the others count the
//! request all the same.
//!
//! As text, a line each, or separated by semicolons:
//!
//! ```text
//!   latency=50ms down=100m up=100m     the link; sizes are bytes in a second
//!   get only=3 reset=1m                the third GET is reset behind 1 MiB
//!   any one-in=20,seed=1 status=503,retry-after=1
//!   put in=/big lost-reply             every PUT of these
//! ```

use std::str::FromStr;

use pagewell_base::{duration, size};

use crate::{Fault, Kind, Link, Rule};

/// See the module's text.
#[derive(Clone, Debug, Default)]
pub struct Script {
    link: Link,
    rules: Vec<Rule>,
}

impl Script {
    /// On this line nothing happens.
    pub const fn on(link: Link) -> Self {
        let rules = Vec::new();
        Self { link, rules }
    }

    /// And this.
    #[must_use]
    pub fn with(mut self, rule: Rule) -> Self {
        self.rules.push(rule);
        self
    }

    pub(crate) const fn link(&self) -> Link {
        self.link
    }

    /// What happens to a request.
    pub(crate) fn fault_of(&mut self, kind: Kind, target: &str) -> Option<Fault> {
        let mut first = None;
        for rule in &mut self.rules {
            let fault = rule.fires(kind, target);
            first = first.or(fault);
        }
        first
    }

    /// A line that is one of the link; nothing when it is none.
    fn set_link(&mut self, line: &str) -> Option<Result<(), String>> {
        let mut words = line.split_whitespace().peekable();
        let is_of_link = |word: &&str| {
            let names = ["latency=", "down=", "up="];
            names.iter().any(|name| word.starts_with(name))
        };
        words.peek().filter(|word| is_of_link(word))?;
        let (link, rate) = (&mut self.link, size::parse);
        for word in words {
            let set = match word.split_once('=') {
                Some(("latency", value)) => duration::parse(value).map(|it| link.latency = it),
                Some(("down", value)) => rate(value).map(|it| link.down_bytes_per_second = it),
                Some(("up", value)) => rate(value).map(|it| link.up_bytes_per_second = it),
                _ => Err("latency=TIME, down=SIZE and up=SIZE are known".to_owned()),
            };
            if let Err(error) = set {
                return Some(Err(format!("'{word}': {error}")));
            }
        }
        Some(Ok(()))
    }
}

impl FromStr for Script {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut script = Self::default();
        for line in text.split(['\n', ';']) {
            let line = line.split('#').next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            match script.set_link(line) {
                Some(set) => set?,
                None => script.rules.push(line.parse()?),
            }
        }
        Ok(script)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_text_is_a_script() {
        let text = "latency=5ms down=1k # slow\n\nget hang; any no-etag\nup=2k\n";
        let mut script: Script = text.parse().unwrap();
        let link = Link {
            latency: Duration::from_millis(5),
            down_bytes_per_second: 1024,
            up_bytes_per_second: 2048,
        };
        assert_eq!(script.link(), link);
        assert_eq!(script.fault_of(Kind::Get, "/"), Some(Fault::Hang));
        assert_eq!(script.fault_of(Kind::Put, "/"), Some(Fault::NoEtag));
        for text in ["latency=x", "down=1k side=2", "hang"] {
            assert!(text.parse::<Script>().is_err(), "{text}");
        }
    }

    #[test]
    fn every_rule_counts() {
        let mut script: Script = "get only=1 hang; get only=2 gzip".parse().unwrap();
        assert_eq!(script.fault_of(Kind::Get, "/"), Some(Fault::Hang));
        assert_eq!(script.fault_of(Kind::Get, "/"), Some(Fault::Gzip));
        assert_eq!(script.fault_of(Kind::Get, "/"), None);
    }
}
