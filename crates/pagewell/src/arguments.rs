//! The command line as a whole: its commands, and its errors as one line.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Parser, Subcommand};

use crate::commands;

/// Serves files fast: directories, ISO 9660 images and memory, over NFSv3 and on the command line.
#[derive(Debug, Parser)]
#[command(
    name = "pagewell",
    version,
    max_term_width = 100,
    arg_required_else_help = true,
    propagate_version = true,
    after_help = AFTER_HELP
)]
pub(crate) struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

const AFTER_HELP: &str = "\
A SOURCE is:
  PATH        a directory or an ISO 9660 image, recognised by content
  dir:PATH    a directory
  iso:PATH    an ISO 9660 image
  ram:SIZE    a file system in memory, empty at first; SIZE takes k, m or g
A LOCATION is SOURCE, SOURCE::/PATH inside it, or a plain local file.

Examples:
  pagewell serve /srv/data                      export a directory over NFSv3
  pagewell serve /iso=debian.iso /tmp=ram:1g    export an image and 1 GiB of memory
  pagewell ls -lR debian.iso::/boot             look into an image
  pagewell cp debian.iso::/boot/vmlinuz .       take a file out of it

Exit codes: 0 done, 1 failed, 2 wrong usage.";

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve sources over NFSv3
    Serve(commands::serve::ServeArguments),
    /// List directories
    Ls(commands::ls::LsArguments),
    /// Write files to standard output
    Cat(commands::cat::CatArguments),
    /// Copy files and directories between any two locations
    Cp(commands::cp::CpArguments),
    /// Show all attributes of files
    Stat(commands::stat::StatArguments),
    /// Print SHA-256 checksums, as sha256sum does
    Sum(commands::sum::SumArguments),
    /// Show the counters of a running server
    Counters(commands::counters::CountersArguments),
    /// Print a completion script for a shell
    Completions(commands::completions::CompletionsArguments),
    /// Print the manual page, or write all manual pages to a directory
    Man(commands::man::ManArguments),
}

/// Parses a command line.
pub(crate) fn parse(
    arguments: impl IntoIterator<Item = OsString>,
) -> Result<Arguments, clap::Error> {
    Arguments::try_parse_from(arguments)
}

/// Whether a parse "error" is help or a version that was asked for.
#[must_use]
pub(crate) fn is_answer(error: &clap::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::DisplayHelp
            | ErrorKind::DisplayVersion
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
    )
}

/// A parse error on one line: what is wrong, what may have been meant, where to read on.
#[must_use]
pub(crate) fn one_line(error: &clap::Error) -> String {
    let rendered = error.render().to_string();
    let first = rendered.split("\n\n").next().unwrap_or_default();
    let words: Vec<&str> = first.split_whitespace().collect();
    let mut line = words.join(" ");
    if let Some(rest) = line.strip_prefix("error: ") {
        line = rest.to_owned();
    }
    for kind in [
        ContextKind::SuggestedArg,
        ContextKind::SuggestedSubcommand,
        ContextKind::SuggestedValue,
    ] {
        if let Some(suggestion) = error.get(kind).and_then(first_value) {
            line.push_str(&format!("; did you mean '{suggestion}'?"));
        }
    }
    let help = rendered
        .split("\n\n")
        .find_map(|part| part.trim().strip_prefix("Usage: "))
        .map_or("pagewell", |usage| command_of(usage));
    line.push_str(&format!(" (see '{help} --help')"));
    line
}

fn first_value(value: &ContextValue) -> Option<String> {
    match value {
        ContextValue::String(text) => Some(text.clone()),
        ContextValue::Strings(texts) => texts.first().cloned(),
        _ => None,
    }
}

/// `pagewell serve [OPTIONS] ...` -> `pagewell serve`.
fn command_of(usage: &str) -> &str {
    let end = usage
        .find(|character: char| "[<-".contains(character) || character.is_uppercase())
        .unwrap_or(usage.len());
    usage[..end].trim_end()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn line(arguments: &[&str]) -> String {
        let arguments = std::iter::once("pagewell").chain(arguments.iter().copied());
        let error = parse(arguments.map(OsString::from)).unwrap_err();
        assert!(!is_answer(&error), "{error}");
        one_line(&error)
    }

    #[test]
    fn the_definition_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn wrong_command_lines_are_told_on_one_line_with_a_way_on() {
        for (arguments, parts) in [
            (
                &["serve", "--lisen", "x", "/srv"][..],
                &["--lisen", "'--listen'", "'pagewell serve --help'"][..],
            ),
            (
                &["severe", "/srv"],
                &["severe", "'serve'", "'pagewell --help'"],
            ),
            (&["serve"], &["SOURCE", "'pagewell serve --help'"]),
            (&["cp", "a"], &["pagewell cp --help"]),
            (
                &["serve", "--squash", "some", "/srv"],
                &["some", "none, root, all"],
            ),
            (&["serve", "--threads", "0", "/srv"], &["--threads", "0"]),
            (
                &["serve", "--allow", "10.0.0.0/40", "/srv"],
                &["10.0.0.0/40", "--allow"],
            ),
            (
                &["serve", "--listen", "localhost", "/srv"],
                &["localhost", "--listen"],
            ),
        ] {
            let line = line(arguments);
            assert!(!line.contains('\n'), "{line}");
            for part in parts {
                assert!(line.contains(part), "{line} lacks {part}");
            }
        }
    }
}
