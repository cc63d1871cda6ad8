//! What goes wrong, and when: one rule a line.
//!
//! ```text
//! rule      = operation range action {condition}
//! operation = "read" | "write" | "durable" | "flush" | "any"
//! range     = "*" | FIRST ".." [END] | ".." END        bytes; END is the first one not included
//! action    = "error" ERRNO                             fails at the first byte of the range
//!           | "short" SIZE                              fails after so many bytes
//!           | "stall" (TIME | "forever")                is held back, then goes on
//! condition = "after" N                                 not the first N
//!           | "every" N                                 of the rest: the Nth, 2 Nth, ...
//!           | "times" N | "once"                        then never again
//!           | "for" ISSUER                              reader, read-ahead, flusher or metadata
//! ```
//!
//! Sizes and times are those of `pagewell_base::size` and `duration`; ERRNO is a name such as `EIO`
//! or a number. A `#` begins a comment.
//!
//! `write` is every write, `durable` those that have to survive a power failure by themselves. A
//! flush has no bytes: a rule for `flush` has the range `*` and no `short`, and `any` with another
//! range leaves flushes alone.
//!
//! A rule counts the requests that touch its range, are for its issuer and, for `short`, are
//! longer than what it leaves. The rules are asked in order; the first one that fires decides, and
//! the rules behind it do not see the request. For example:
//!
//! ```text
//! read 4096..8192 error EIO            # a bad sector
//! read * short 512 after 10 once
//! read 1m.. stall 5s times 3
//! any * error ETIMEDOUT every 100 for read-ahead
//! write * error ENOSPC after 20        # full
//! any * error ENODEV after 50          # gone
//! flush * error EIO once
//! ```

use std::ops::Range;
use std::time::Duration;

use pagewell_base::{duration, size};
use rustix::io::Errno;

use pagewell_device::{Issuer, Operation, Request};

/// More rules than anybody writes by hand; every request is compared with all of them.
const RULES_MAX: usize = 1000;
/// Longer lines are refused.
const LINE_BYTES_MAX: usize = 1000;

/// A line that is no rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {reason}")]
pub struct ScriptError {
    /// Its number, from 1.
    pub line: usize,
    /// What is wrong.
    pub reason: String,
}

/// What happens to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Error(Errno),
    Short(u64),
    /// `None`: until it is released.
    Stall(Option<Duration>),
}

/// Which requests a rule is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    Any,
    Of(Operation),
    Durable,
}

impl Asked {
    fn is(self, request: &Request) -> bool {
        match self {
            Self::Any => true,
            Self::Of(operation) => operation == request.operation(),
            Self::Durable => request.is_durable(),
        }
    }
}

/// Every byte there is, and flushes.
const ALL: Range<u64> = 0..u64::MAX;

#[derive(Clone, Debug)]
struct Rule {
    operation: Asked,
    range: Range<u64>,
    action: Action,
    after: u64,
    every: u64,
    times: u64,
    issuer: Option<Issuer>,
    seen: u64,
    fired: u64,
}

/// Rules and how often each has seen a request. See the module's text.
#[derive(Clone, Debug, Default)]
pub struct Script {
    rules: Vec<Rule>,
}

/// What a rule that fired says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fired {
    pub(super) action: Action,
    /// First byte of the rule's range.
    pub(super) first: u64,
}

impl Script {
    /// Reads rules, one a line.
    pub fn parse(text: &str) -> Result<Self, ScriptError> {
        let mut rules = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let fail = |reason: String| ScriptError {
                line: index + 1,
                reason,
            };
            if line.len() > LINE_BYTES_MAX {
                return Err(fail(format!("longer than {LINE_BYTES_MAX} bytes")));
            }
            let line = line.split('#').next().unwrap_or_default();
            let mut words = line.split_whitespace();
            let Some(operation) = words.next() else {
                continue;
            };
            if rules.len() == RULES_MAX {
                return Err(fail(format!("more than {RULES_MAX} rules")));
            }
            rules.push(parse_rule(operation, &mut words).map_err(fail)?);
        }
        Ok(Self { rules })
    }

    /// Counts a request and says what happens to it.
    pub(super) fn judge(&mut self, request: &Request) -> Option<Fired> {
        self.rules.iter_mut().find_map(|rule| rule.judge(request))
    }
}

impl Rule {
    fn judge(&mut self, request: &Request) -> Option<Fired> {
        let first = request.offset();
        let end = first.saturating_add(request.len() as u64);
        let touches = match request.operation() {
            Operation::Flush => self.range == ALL,
            Operation::Read | Operation::Write => first < self.range.end && self.range.start < end,
        };
        let too_short = match self.action {
            Action::Short(left) => request.len() as u64 <= left,
            Action::Error(_) | Action::Stall(_) => false,
        };
        let is_other =
            !self.operation.is(request) || self.issuer.is_some_and(|it| it != request.issuer());
        if !touches || too_short || is_other || self.fired >= self.times {
            return None;
        }
        self.seen += 1;
        let past = self.seen.checked_sub(self.after).filter(|past| *past > 0)?;
        if !past.is_multiple_of(self.every) {
            return None;
        }
        self.fired += 1;
        Some(Fired {
            action: self.action,
            first: self.range.start,
        })
    }
}

type Words<'a> = std::str::SplitWhitespace<'a>;

fn parse_rule(operation: &str, words: &mut Words<'_>) -> Result<Rule, String> {
    let operation = match operation {
        "read" => Asked::Of(Operation::Read),
        "write" => Asked::Of(Operation::Write),
        "durable" => Asked::Durable,
        "flush" => Asked::Of(Operation::Flush),
        "any" => Asked::Any,
        _ => {
            return Err(format!(
                "'{operation}' is not read, write, durable, flush or any"
            ));
        }
    };
    let range = parse_range(word(words, "a range")?)?;
    let is_flush = operation == Asked::Of(Operation::Flush);
    if is_flush && range != ALL {
        return Err("a flush has no bytes: its range is *".to_owned());
    }
    let action = match word(words, "error, short or stall")? {
        "error" => Action::Error(parse_errno(word(words, "an error's name")?)?),
        "short" if is_flush => return Err("a flush has no bytes to be short of".to_owned()),
        "short" => Action::Short(size::parse(word(words, "a size")?)?),
        "stall" => Action::Stall(match word(words, "a time")? {
            "forever" => None,
            time => Some(duration::parse(time)?),
        }),
        other => return Err(format!("'{other}' is not error, short or stall")),
    };
    let mut rule = Rule {
        operation,
        range,
        action,
        after: 0,
        every: 1,
        times: u64::MAX,
        issuer: None,
        seen: 0,
        fired: 0,
    };
    while let Some(condition) = words.next() {
        match condition {
            "after" => rule.after = parse_count(word(words, "a number")?, 0)?,
            "every" => rule.every = parse_count(word(words, "a number")?, 1)?,
            "times" => rule.times = parse_count(word(words, "a number")?, 1)?,
            "once" => rule.times = 1,
            "for" => rule.issuer = Some(parse_issuer(word(words, "an issuer")?)?),
            other => {
                return Err(format!("'{other}' is not after, every, times, once or for"));
            }
        }
    }
    Ok(rule)
}

fn word<'a>(words: &mut Words<'a>, expected: &str) -> Result<&'a str, String> {
    words
        .next()
        .ok_or_else(|| format!("the line ends where {expected} should be"))
}

fn parse_range(text: &str) -> Result<Range<u64>, String> {
    if text == "*" {
        return Ok(ALL);
    }
    let (first, end) = text
        .split_once("..")
        .ok_or_else(|| format!("'{text}' is no range, write it like *, 4096..8192 or 1m.."))?;
    let first = if first.is_empty() {
        0
    } else {
        size::parse(first)?
    };
    let end = if end.is_empty() {
        u64::MAX
    } else {
        size::parse(end)?
    };
    if first >= end {
        return Err(format!("the range '{text}' is empty"));
    }
    Ok(first..end)
}

fn parse_count(text: &str, low: u64) -> Result<u64, String> {
    let count = text.parse().ok().filter(|count| *count >= low);
    count.ok_or_else(|| format!("'{text}' is no whole number from {low}"))
}

fn parse_issuer(text: &str) -> Result<Issuer, String> {
    let mut issuers = Issuer::ALL.into_iter();
    issuers
        .find(|issuer| issuer.name() == text)
        .ok_or_else(|| format!("'{text}' is not reader, read-ahead, flusher or metadata"))
}

fn parse_errno(text: &str) -> Result<Errno, String> {
    const NAMES: [(&str, Errno); 16] = [
        ("EPERM", Errno::PERM),
        ("EINTR", Errno::INTR),
        ("EIO", Errno::IO),
        ("ENXIO", Errno::NXIO),
        ("EAGAIN", Errno::AGAIN),
        ("ENOMEM", Errno::NOMEM),
        ("EACCES", Errno::ACCESS),
        ("EBUSY", Errno::BUSY),
        ("ENODEV", Errno::NODEV),
        ("EINVAL", Errno::INVAL),
        ("ENOSPC", Errno::NOSPC),
        ("EROFS", Errno::ROFS),
        ("ENODATA", Errno::NODATA),
        ("EILSEQ", Errno::ILSEQ),
        ("ETIMEDOUT", Errno::TIMEDOUT),
        ("ESTALE", Errno::STALE),
    ];
    if let Some((_, errno)) = NAMES.iter().find(|(name, _)| *name == text) {
        return Ok(*errno);
    }
    let number = text.parse().ok();
    let number = number.filter(|number| (1..4096).contains(number));
    number.map(Errno::from_raw_os_error).ok_or_else(|| {
        let names: Vec<_> = NAMES.iter().map(|(name, _)| *name).collect();
        format!(
            "'{text}' is no error; write a number or one of {}",
            names.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewell_device::Buffer;

    fn request(operation: Operation, offset: u64, length: usize, issuer: Issuer) -> Request {
        Request::owned(operation, offset, Buffer::new(length, 1), issuer, |_, _| {})
    }

    fn read(offset: u64, length: usize) -> Request {
        request(Operation::Read, offset, length, Issuer::Reader)
    }

    /// Which of 12 equal reads fire.
    fn fires(rule: &str) -> Vec<usize> {
        let mut script = Script::parse(rule).unwrap();
        (1..=12)
            .filter(|_| script.judge(&read(0, 4096)).is_some())
            .collect()
    }

    #[test]
    fn conditions_say_when() {
        assert_eq!(fires("read * error EIO"), (1..=12).collect::<Vec<_>>());
        assert_eq!(fires("read * error EIO once"), [1]);
        assert_eq!(fires("read * error EIO times 3 after 2"), [3, 4, 5]);
        assert_eq!(fires("read * short 512 after 10"), [11, 12]);
        assert_eq!(fires("any * error 5 every 4"), [4, 8, 12]);
        assert_eq!(fires("any * error 5 every 4 after 1 times 2"), [5, 9]);
        assert_eq!(
            fires("read * error EIO once\nread * error EIO every 2"),
            [1, 3, 5, 7, 9, 11]
        );
        assert_eq!(fires("write * error EIO"), [0; 0]);
        assert_eq!(fires("read * error EIO for read-ahead"), [0; 0]);
        assert_eq!(fires("read * short 4096"), [0; 0]);
        assert_eq!(fires("\n  # nothing\n"), [0; 0]);
    }

    #[test]
    fn ranges_say_where() {
        for (range, touched) in [
            ("*", [true; 5]),
            ("4096..8192", [false, true, true, true, false]),
            ("8k..", [false, false, false, true, true]),
            ("..1", [true, true, false, false, false]),
        ] {
            let requests = [(0, 4096), (0, 4097), (5000, 1), (8191, 2), (8192, 1)];
            for ((offset, length), expected) in requests.into_iter().zip(touched) {
                let mut script = Script::parse(&format!("read {range} error EIO")).unwrap();
                let fired = script.judge(&read(offset, length)).is_some();
                assert_eq!(fired, expected, "{range} {offset} {length}");
            }
        }
    }

    #[test]
    fn the_first_rule_that_fires_decides() {
        let text = "write * error EROFS\nany * stall 5s for metadata\nany * stall forever once\n\
                    read 1k.. error ENODATA";
        let mut script = Script::parse(text).unwrap();
        let mut action = |operation, issuer| {
            let fired = script.judge(&request(operation, 0, 4096, issuer));
            fired.map(|fired| (fired.action, fired.first))
        };
        let stall = Action::Stall(Some(Duration::from_secs(5)));
        assert_eq!(action(Operation::Read, Issuer::Metadata), Some((stall, 0)));
        let error = Action::Error(Errno::ROFS);
        assert_eq!(action(Operation::Write, Issuer::Flusher), Some((error, 0)));
        let forever = Action::Stall(None);
        assert_eq!(action(Operation::Read, Issuer::Reader), Some((forever, 0)));
        let error = Action::Error(Errno::NODATA);
        assert_eq!(action(Operation::Read, Issuer::Reader), Some((error, 1024)));
    }

    #[test]
    fn writes_and_flushes_have_their_own_words() {
        let flush = || Request::flush(Issuer::Flusher, |_| ());
        let plain = || request(Operation::Write, 0, 512, Issuer::Flusher);
        let durable = || {
            let mut write = plain();
            write.set_durable();
            write
        };
        // Read, write, durable write, flush.
        for (rule, fires) in [
            ("read * error EIO", [true, false, false, false]),
            ("write * error ENOSPC", [false, true, true, false]),
            ("durable * error EIO", [false, false, true, false]),
            ("flush * stall forever", [false, false, false, true]),
            ("any * error ENODEV", [true; 4]),
            ("any 0.. error ENODEV", [true; 4]),
            ("any 0..512 error EIO", [true, true, true, false]),
            ("any * short 0", [true, true, true, false]),
            ("any * error EIO for flusher", [false, true, true, true]),
        ] {
            let requests = [read(0, 512), plain(), durable(), flush()];
            let fired = requests.map(|request| {
                let mut script = Script::parse(rule).unwrap();
                script.judge(&request).is_some()
            });
            assert_eq!(fired, fires, "{rule}");
        }
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        for (rule, reason) in [
            (
                "reed * error EIO",
                "'reed' is not read, write, durable, flush or any",
            ),
            ("flush 0..1 error EIO", "a flush has no bytes: its range"),
            ("flush * short 1", "a flush has no bytes to be short"),
            ("read", "the line ends where a range should be"),
            ("read 5 error EIO", "'5' is no range"),
            ("read 8..8 error EIO", "the range '8..8' is empty"),
            ("read -1.. error EIO", "a size is a number"),
            (
                "read *",
                "the line ends where error, short or stall should be",
            ),
            ("read * fail", "'fail' is not error, short or stall"),
            ("read * error", "the line ends where an error's name"),
            (
                "read * error EWHAT",
                "'EWHAT' is no error; write a number or one of EPERM",
            ),
            ("read * error 0", "'0' is no error"),
            ("read * error 4096", "'4096' is no error"),
            ("read * short x", "a size is a number"),
            ("read * stall 5d", "a time is written like"),
            ("read * error EIO every 0", "'0' is no whole number from 1"),
            ("read * error EIO times", "the line ends where a number"),
            (
                "read * error EIO twice",
                "'twice' is not after, every, times, once or for",
            ),
            ("read * error EIO for me", "'me' is not reader, read-ahead"),
            (&"x".repeat(1001), "longer than 1000 bytes"),
        ] {
            let error = Script::parse(&format!("# comment\n\n{rule}\n")).unwrap_err();
            assert_eq!(error.line, 3);
            assert!(error.to_string().starts_with("line 3: "), "{error}");
            assert!(error.reason.contains(reason), "{error}");
        }
        let many = "read * error EIO\n".repeat(1001);
        assert_eq!(Script::parse(&many).unwrap_err().line, 1001);
    }
}
