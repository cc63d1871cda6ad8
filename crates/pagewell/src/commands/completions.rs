//! `pagewell completions`.

use clap::builder::PossibleValuesParser;
use clap::{Args, Command};
use clap_complete::Shell;

use crate::failure::Outcome;
use crate::kinds::KINDS;
use crate::output;
use crate::values::BENCH_WORDS;

/// Print a completion script for a shell.
///
/// Names of files are completed for all of them, and in bash what is inside an image, too: after
/// `debian.iso::/`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  pagewell completions bash > ~/.local/share/bash-completion/completions/pagewell
  pagewell completions zsh > ~/.zfunc/_pagewell
  pagewell completions fish > ~/.config/fish/completions/pagewell.fish")]
pub(crate) struct CompletionsArguments {
    /// The shell
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

pub(crate) fn run(arguments: &CompletionsArguments, program: &Command) -> anyhow::Result<Outcome> {
    let mut script = Vec::new();
    // `pagewell-bench` has these; this program takes any word.
    let words = PossibleValuesParser::new(BENCH_WORDS);
    let bench =
        |bench: Command| bench.mut_arg("arguments", |words_of| words_of.value_parser(words));
    let mut command = program.clone().mut_subcommand("bench", bench);
    clap_complete::generate(arguments.shell, &mut command, "pagewell", &mut script);
    if arguments.shell == Shell::Bash {
        script.extend(places(program).into_bytes());
    }
    if arguments.shell == Shell::Fish {
        // The generator leaves out what is no option.
        let words = BENCH_WORDS.join(" ");
        let line =
            format!("complete -c pagewell -n '__fish_seen_subcommand_from bench' -fa '{words}'\n");
        script.extend(line.into_bytes());
        for kind in KINDS.iter().filter(|kind| !kind.prefix.is_empty()) {
            let (start, commands) = (kind.start(), place_commands(program).join(" "));
            let line = format!(
                "complete -c pagewell -n '__fish_seen_subcommand_from {commands}' -a '{start}' -d \
                 '{}'\n",
                kind.help
            );
            script.extend(line.into_bytes());
        }
    }
    output::print(&script)?;
    Ok(Outcome::Done)
}

/// What the generated script for bash lacks: names of files, and of what is inside an image.
///
/// These functions complete places, and take placeholders of arguments out. To bash
/// `debian.iso::/boot` is three words (COMP_WORDBREAKS): the whole is taken from the line, and the
/// offer is the rest behind the last colon.
///
/// Which commands take places, and which options take a value, is read from `program`.
fn places(program: &clap::Command) -> String {
    let mut options: Vec<String> = program
        .get_subcommands()
        .flat_map(clap::Command::get_arguments)
        .filter(|argument| !argument.is_positional() && argument.get_action().takes_values())
        // An optional value is behind an equals sign.
        .filter(|argument| !argument.is_require_equals_set())
        .flat_map(|argument| {
            let long = argument.get_long().map(|name| format!("--{name}"));
            let short = argument.get_short().map(|name| format!("-{name}"));
            long.into_iter().chain(short)
        })
        .collect();
    options.sort();
    options.dedup();
    // The same letter may be a flag of another command.
    options.retain(|option| option.starts_with("--"));
    let starts = KINDS.iter().filter(|kind| !kind.prefix.is_empty());
    let starts: Vec<String> = starts.map(|kind| kind.start()).collect();
    FUNCTIONS
        .replace("@COMMANDS@", &place_commands(program).join("|"))
        .replace("@KINDS@", &starts.join(" "))
        .replace("@OPTIONS@", &options.join("|"))
}

fn place_commands(program: &clap::Command) -> Vec<&str> {
    let is_place = |argument: &clap::Arg| {
        use clap::ValueHint::{AnyPath, DirPath};
        argument.is_positional() && matches!(argument.get_value_hint(), AnyPath | DirPath)
    };
    let takes_places = |command: &&clap::Command| command.get_positionals().any(is_place);
    program
        .get_subcommands()
        .filter(takes_places)
        .flat_map(clap::Command::get_name_and_visible_aliases)
        .collect()
}

const FUNCTIONS: &str = include_str!("completions/places.bash");
