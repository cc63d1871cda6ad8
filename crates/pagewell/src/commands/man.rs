//! `pagewell man`.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, CommandFactory};
use clap_mangen::Man;

use crate::arguments::Arguments;
use crate::failure::Outcome;

/// Print the manual page of the program, or write the pages of all commands to a directory.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  pagewell man | man -l -
  pagewell man /usr/local/share/man/man1")]
pub(crate) struct ManArguments {
    /// Write pagewell.1, pagewell-serve.1 and so on here; made if it is missing
    #[arg(value_name = "DIR")]
    directory: Option<PathBuf>,
}

/// Runs the command.
pub(crate) fn run(arguments: &ManArguments) -> anyhow::Result<Outcome> {
    let mut program = Arguments::command().disable_help_subcommand(true);
    program.build();
    match &arguments.directory {
        Some(directory) => write_all(&program, directory)?,
        None => {
            let page = render(&program)?;
            let mut out = std::io::stdout().lock();
            out.write_all(&page).context("standard output")?;
            out.flush().context("standard output")?;
        }
    }
    Ok(Outcome::Done)
}

/// One page. What clap_mangen calls EXTRA are our examples, whose lines are to stay lines.
fn render(command: &clap::Command) -> std::io::Result<Vec<u8>> {
    let mut page = Vec::new();
    Man::new(command.clone()).render(&mut page)?;
    let page = String::from_utf8_lossy(&page)
        .replace(".SH EXTRA\nExamples:\n", ".SH EXAMPLES\n.nf\n")
        .replace(".SH EXTRA\n", ".SH NOTES\n.nf\n")
        .replace(".SH VERSION\n", ".fi\n.SH VERSION\n");
    Ok(page.into_bytes())
}

fn write_all(program: &clap::Command, directory: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(directory).with_context(|| directory.display().to_string())?;
    let mut pages = vec![("pagewell.1".to_owned(), program.clone())];
    for command in program.get_subcommands() {
        let name = format!("pagewell-{}", command.get_name());
        for part in command.get_subcommands() {
            let name = format!("{name}-{}", part.get_name());
            pages.push((format!("{name}.1"), part.clone()));
        }
        pages.push((format!("{name}.1"), command.clone()));
    }
    for (name, command) in pages {
        let path = directory.join(name);
        let page = render(&command)?;
        std::fs::write(&path, page).with_context(|| path.display().to_string())?;
    }
    Ok(())
}
