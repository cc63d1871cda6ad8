//! What the command lines of this program and of `pagewell-bench` share.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::{failure, gone, signals};

pub use crate::commands::cat::read;
pub use crate::commands::man::write_manual;
pub use crate::engine::Layer;
pub use crate::failure::Outcome;
pub use crate::time_text::seconds_text;
pub use crate::values::{BENCH_WORDS, parse_count};

/// Runs `pagewell COMMAND`: parses its command line, calls `work`, returns the exit code: 0 done, 1
/// failed, 2 wrong usage.
pub fn run<A: Parser>(command: &str, work: impl FnOnce(&A) -> anyhow::Result<Outcome>) -> ExitCode {
    pagewell_logging::start();
    let words: Vec<OsString> = std::env::args_os().collect();
    match parse(command, &words) {
        Ok(parsed) => {
            signals::fail_past_file_size_limit();
            signals::end_on_broken_pipe();
            failure::exit_code(work(&parsed))
        }
        Err(code) => code,
    }
}

/// Parses the command line of `pagewell COMMAND`, or of `pagewell` if `command` is empty. Prints
/// mistakes and help; the error is the exit code.
pub(crate) fn parse<A: Parser>(command: &str, words: &[OsString]) -> Result<A, ExitCode> {
    A::try_parse_from(words).map_err(|error| {
        if is_answer(&error) {
            // Standard output is broken: there is nowhere to say so.
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(failure::USAGE));
        }
        let command = name_of(&A::command(), command, words);
        failure::report(&one_line(&error, &command));
        ExitCode::from(failure::USAGE)
    })
}

/// Whether a parse "error" is help or a version.
pub(crate) fn is_answer(error: &clap::Error) -> bool {
    use ErrorKind::{DisplayHelp, DisplayHelpOnMissingArgumentOrSubcommand, DisplayVersion};
    let kind = error.kind();
    matches!(
        kind,
        DisplayHelp | DisplayVersion | DisplayHelpOnMissingArgumentOrSubcommand
    )
}

/// What to say of an option or a command of earlier versions.
fn gone(error: &clap::Error) -> Option<String> {
    let name = match error.kind() {
        ErrorKind::UnknownArgument => ContextKind::InvalidArg,
        ErrorKind::InvalidSubcommand => ContextKind::InvalidSubcommand,
        _ => return None,
    };
    let Some(ContextValue::String(name)) = error.get(name) else {
        return None;
    };
    gone::advice(name.split('=').next().unwrap_or_default())
}

/// A parse error on one line.
pub(crate) fn one_line(error: &clap::Error, command: &str) -> String {
    if let Some(line) = gone(error) {
        return line;
    }
    let rendered = error.render().to_string();
    let first = rendered.split("\n\n").next().unwrap_or_default();
    let words: Vec<&str> = first.split_whitespace().collect();
    let line = words.join(" ");
    let mut line = line.strip_prefix("error: ").unwrap_or(&line).to_owned();
    for kind in [
        ContextKind::SuggestedArg,
        ContextKind::SuggestedSubcommand,
        ContextKind::SuggestedValue,
    ] {
        let suggestion = match error.get(kind) {
            Some(ContextValue::String(text)) => Some(text),
            // The likeliest is last.
            Some(ContextValue::Strings(texts)) => texts.last(),
            _ => None,
        };
        if let Some(suggestion) = suggestion {
            line.push_str(&format!("; did you mean '{suggestion}'?"));
        }
    }
    let space = if command.is_empty() { "" } else { " " };
    line + &format!(" (see 'pagewell{space}{command} --help')")
}

/// The command of `words`, the program's name first: `bench nfs`.
pub(crate) fn name_of(program: &clap::Command, name: &str, words: &[OsString]) -> String {
    let words = words.iter().skip(1).filter_map(|word| word.to_str());
    let mut names = Vec::from_iter((!name.is_empty()).then_some(name));
    let mut command = program;
    for name in words.filter(|word| !word.starts_with('-')) {
        let Some(found) = command.find_subcommand(name) else {
            break;
        };
        names.push(name);
        command = found;
    }
    names.join(" ")
}
