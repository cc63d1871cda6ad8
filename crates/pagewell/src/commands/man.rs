//! `pagewell man`.

mod sections;

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use clap_mangen::Man;

use crate::failure::Outcome;
use crate::output;

/// What a SOURCE and a LOCATION are.
const SOURCES: &str = include_str!("man/pagewell-sources.7");

/// Print the manual page of the program, or write the pages of all commands to a directory.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  pagewell man | man -l -
  pagewell man /usr/local/share/man/man1")]
pub(crate) struct ManArguments {
    /// Write pagewell.1, pagewell-serve.1 and so on here, and pagewell-sources.7 to man7 beside it
    /// if it is called man1; made if it is missing
    #[arg(value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    directory: Option<PathBuf>,
}

/// Runs the command, for this program.
pub(crate) fn run(arguments: &ManArguments, program: clap::Command) -> anyhow::Result<Outcome> {
    let program = built(program);
    let pages = pages(&program);
    match &arguments.directory {
        Some(directory) => {
            write_all(&pages, directory)?;
            write(&beside(directory), "pagewell-sources.7", SOURCES.as_bytes())?;
        }
        None => {
            let page = pages.first().map(|page| page.render(&pages));
            let page = page.transpose()?.unwrap_or_default();
            output::print(&page)?;
        }
    }
    Ok(Outcome::Done)
}

/// Writes the pages of a program that is called as `pagewell COMMAND` to a directory.
///
/// # Errors
///
/// A file that cannot be written.
pub fn write_manual(
    program: &clap::Command,
    command: &str,
    directory: &Path,
) -> anyhow::Result<()> {
    let program = built(program.clone());
    let mut pages = Vec::new();
    add_pages(&mut pages, command, &program);
    write_all(&pages, directory)
}

/// A definition with all that clap adds to it.
fn built(definition: clap::Command) -> clap::Command {
    let mut definition = definition.disable_help_subcommand(true);
    definition.build();
    definition
}

/// One page of section 1.
struct Page {
    name: String,
    /// The command of the program that it belongs to.
    command: Option<String>,
    definition: clap::Command,
}

/// The page of the program, and those of all commands.
fn pages(program: &clap::Command) -> Vec<Page> {
    let mut pages = vec![Page {
        name: "pagewell".to_owned(),
        command: None,
        definition: program.clone(),
    }];
    for command in program.get_subcommands() {
        add_pages(&mut pages, command.get_name(), command);
    }
    pages
}

/// The page of a command, and those of its own commands.
fn add_pages(pages: &mut Vec<Page>, command_name: &str, command: &clap::Command) {
    let mut add = |name: String, definition: &clap::Command| {
        pages.push(Page {
            name,
            command: Some(command_name.to_owned()),
            definition: definition.clone(),
        });
    };
    let name = format!("pagewell-{command_name}");
    add(name.clone(), command);
    for part in command.get_subcommands().filter(|part| !part.is_hide_set()) {
        add(format!("{name}-{}", part.get_name()), part);
    }
}

impl Page {
    /// What clap_mangen calls EXTRA are our examples, whose lines are to stay lines.
    fn render(&self, all: &[Self]) -> std::io::Result<Vec<u8>> {
        let mut page = Vec::new();
        Man::new(self.definition.clone()).render(&mut page)?;
        let command = self.command.as_deref();
        let before = sections::before_examples(command);
        let names: Vec<String> = all.iter().map(|page| page.name.clone()).collect();
        let after = sections::see_also(&self.name, command, &names);
        let page = String::from_utf8_lossy(&page);
        let (page, version) = match page.split_once(".SH VERSION\n") {
            Some((page, version)) => (page, format!(".SH VERSION\n{version}")),
            None => (&*page, String::new()),
        };
        let (page, extra) = match page.split_once(".SH EXTRA\n") {
            Some((page, extra)) => (page, in_lines(extra)),
            None => (page, String::new()),
        };
        Ok([page, &before, &extra, &after, &version]
            .concat()
            .into_bytes())
    }
}

/// The section of examples, or of notes with examples in them.
fn in_lines(extra: &str) -> String {
    match extra.strip_prefix("Examples:\n") {
        Some(examples) => format!(".SH EXAMPLES\n.nf\n{examples}.fi\n"),
        None => format!(".SH NOTES\n.nf\n{extra}.fi\n"),
    }
}

fn write_all(pages: &[Page], directory: &Path) -> anyhow::Result<()> {
    for page in pages {
        write(directory, &format!("{}.1", page.name), &page.render(pages)?)?;
    }
    Ok(())
}

fn write(directory: &Path, name: &str, page: &[u8]) -> anyhow::Result<()> {
    std::fs::create_dir_all(directory).with_context(|| directory.display().to_string())?;
    let path = directory.join(name);
    std::fs::write(&path, page).with_context(|| path.display().to_string())
}

/// Where section 7 goes: each section has a directory of its own, and a caller that names man1
/// has them beside each other.
fn beside(directory: &Path) -> PathBuf {
    match directory.parent() {
        Some(parent) if directory.ends_with("man1") => parent.join("man7"),
        _ => directory.to_owned(),
    }
}
