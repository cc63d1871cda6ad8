//! `pagewell completions`.

mod bash;

use clap::builder::PossibleValuesParser;
use clap::{Args, Command};
use clap_complete::Shell;

use crate::failure::Outcome;
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

/// Runs the command, for this program.
pub(crate) fn run(arguments: &CompletionsArguments, program: &Command) -> anyhow::Result<Outcome> {
    let mut script = Vec::new();
    // The program that measures has these; this one takes any word for it.
    let words = PossibleValuesParser::new(BENCH_WORDS);
    let bench =
        |bench: Command| bench.mut_arg("arguments", |words_of| words_of.value_parser(words));
    let mut command = program.clone().mut_subcommand("bench", bench);
    clap_complete::generate(arguments.shell, &mut command, "pagewell", &mut script);
    if arguments.shell == Shell::Bash {
        script.extend(bash::places(program).into_bytes());
    }
    if arguments.shell == Shell::Fish {
        // Its generator leaves out what is no option.
        let words = BENCH_WORDS.join(" ");
        let line =
            format!("complete -c pagewell -n '__fish_seen_subcommand_from bench' -fa '{words}'\n");
        script.extend(line.into_bytes());
    }
    output::print(&script)?;
    Ok(Outcome::Done)
}
