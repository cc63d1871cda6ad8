//! How a command ends, and the report of its failure: one line on standard error.

use std::process::ExitCode;

use crate::escape;

/// How a command ended that did not fail as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All was done: exit code 0.
    Done,
    /// Some was not, and each failure was reported: exit code 1.
    Incomplete,
}

impl Outcome {
    /// `Done` when nothing failed.
    pub fn from_failures(failures: u64) -> Self {
        if failures == 0 {
            Self::Done
        } else {
            Self::Incomplete
        }
    }
}

/// The exit code of a command; reports its failure.
pub(crate) fn exit_code(ended: anyhow::Result<Outcome>) -> ExitCode {
    ExitCode::from(match ended {
        Ok(Outcome::Done) => 0,
        Ok(Outcome::Incomplete) => FAILED,
        Err(error) => {
            tracing::error!("{}", one_line(&error));
            exit_code_of(&error)
        }
    })
}

pub(crate) const FAILED: u8 = 1;
/// Exit code of a command line that makes no sense.
pub(crate) const USAGE: u8 = 2;

/// A command line that can never work: exit code 2.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Usage(pub(crate) String);

/// Standard output cannot be written: the command ends.
#[derive(Debug, thiserror::Error)]
#[error("standard output: {0}")]
pub(crate) struct OutputFailed(pub(crate) std::io::Error);

pub(crate) fn usage(text: impl Into<String>) -> anyhow::Error {
    Usage(text.into()).into()
}

/// The exit code of an error: 2 for [`Usage`], else 1.
pub(crate) fn exit_code_of(error: &anyhow::Error) -> u8 {
    if error.chain().any(|cause| cause.is::<Usage>()) {
        USAGE
    } else {
        FAILED
    }
}

/// The error and its causes on one line, safe on a terminal.
pub(crate) fn one_line(error: &anyhow::Error) -> String {
    escape::text(without_numbers(&format!("{error:#}")).as_bytes())
}

/// Logs a failure: `pagewell: TEXT` on standard error, one line, unless the log has another form.
pub(crate) fn report(text: &str) {
    tracing::warn!("{}", shown(text));
}

/// Logs what is no failure.
pub(crate) fn note(text: &str) {
    tracing::info!("{}", shown(text));
}

/// A text on one line, safe on a terminal.
fn shown(text: &str) -> String {
    escape::text(without_numbers(text).as_bytes())
}

/// The text without the numbers that the standard library puts behind the system's words.
fn without_numbers(text: &str) -> String {
    const MARK: &str = " (os error ";
    let mut words = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(MARK) {
        words += before;
        let end = after.trim_start_matches(|digit: char| digit.is_ascii_digit());
        rest = match end.strip_prefix(')') {
            Some(behind) => behind,
            None => {
                words += MARK;
                after
            }
        };
    }
    words + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_need_no_numbers() {
        let missing = std::io::Error::from_raw_os_error(2).to_string();
        assert!(missing.contains("(os error 2)"));
        let line = format!("a: {missing} and b: {missing}, no more");
        let words = "a: No such file or directory and b: No such file or directory, no more";
        assert_eq!(without_numbers(&line), words);
        for plain in ["", "(os error 2)", "a (os error 2", "a (os error y) b"] {
            assert_eq!(without_numbers(plain), plain);
        }
    }

    #[test]
    fn usage_is_found_below_context() {
        let error = usage("size of 0").context("ram:0");
        assert_eq!(exit_code_of(&error), USAGE);
        assert_eq!(one_line(&error), "ram:0: size of 0");
        assert_eq!(exit_code_of(&anyhow::anyhow!("no such file")), FAILED);
    }

    #[test]
    fn an_error_stays_on_one_line() {
        assert_eq!(one_line(&anyhow::anyhow!("a\nb\x1b[2J")), "a\\nb\\033[2J");
    }
}
