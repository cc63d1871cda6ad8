//! `pagewell man`.

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use clap_mangen::Man;

use crate::failure::Outcome;
use crate::{kinds, output};

/// What a SOURCE and a LOCATION are, but for the kinds.
const SOURCES: &str = include_str!("man/pagewell-sources.7");
/// The line of it where the kinds belong.
const KINDS: &str = ".\\\" KINDS\n";

/// Sections before the examples. A line before each names its pages: commands, `pagewell`, or
/// `every`.
const SECTIONS: &str = include_str!("man/sections.roff");

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

pub(crate) fn run(arguments: &ManArguments, program: clap::Command) -> anyhow::Result<Outcome> {
    let program = built(program);
    let pages = pages(&program);
    match &arguments.directory {
        Some(directory) => {
            write_all(&pages, directory)?;
            let sources = SOURCES.replace(KINDS, &kinds::manual());
            write(&beside(directory), "pagewell-sources.7", sources.as_bytes())?;
        }
        None => {
            let page = pages.first().map(|page| page.render(&pages));
            let page = page.transpose()?.unwrap_or_default();
            output::print(&page)?;
        }
    }
    Ok(Outcome::Done)
}

/// Writes the pages of `pagewell COMMAND` to a directory.
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
    write_all(
        &pages_of(format!("pagewell-{command}"), &program),
        directory,
    )
}

/// A definition with all that clap adds to it.
fn built(definition: clap::Command) -> clap::Command {
    let mut definition = definition.disable_help_subcommand(true);
    definition.build();
    definition
}

struct Page<'a> {
    name: String,
    definition: &'a clap::Command,
}

fn pages(program: &clap::Command) -> Vec<Page<'_>> {
    let mut pages = vec![Page {
        name: "pagewell".to_owned(),
        definition: program,
    }];
    for command in program.get_subcommands().filter(|part| !part.is_hide_set()) {
        pages.extend(pages_of(
            format!("pagewell-{}", command.get_name()),
            command,
        ));
    }
    pages
}

fn pages_of(name: String, definition: &clap::Command) -> Vec<Page<'_>> {
    let parts = definition
        .get_subcommands()
        .filter(|part| !part.is_hide_set());
    let of_part = |part: &'_ clap::Command| format!("{name}-{}", part.get_name());
    let mut pages: Vec<Page<'_>> = parts
        .map(|part| Page {
            name: of_part(part),
            definition: part,
        })
        .collect();
    pages.insert(0, Page { name, definition });
    pages
}

impl Page<'_> {
    /// What clap_mangen calls EXTRA are our examples, whose lines stay lines.
    fn render(&self, all: &[Self]) -> std::io::Result<Vec<u8>> {
        let mut page = Vec::new();
        // clap_mangen would name without a word what the short help leaves out.
        let definition = self.definition.clone();
        let definition = definition.mut_args(|argument| argument.hide_short_help(false));
        Man::new(definition).render(&mut page)?;
        // The command, behind the name of the program.
        let command = self.name.split('-').nth(1);
        let before = before_examples(command);
        let names: Vec<String> = all.iter().map(|page| page.name.clone()).collect();
        let after = see_also(&self.name, command, &names);
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

fn write_all(pages: &[Page<'_>], directory: &Path) -> anyhow::Result<()> {
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

/// Where section 7 goes: man7 beside man1, else the same directory.
fn beside(directory: &Path) -> PathBuf {
    match directory.parent() {
        Some(parent) if directory.ends_with("man1") => parent.join("man7"),
        _ => directory.to_owned(),
    }
}

/// The sections before the examples; `command` is none for the program itself.
fn before_examples(command: Option<&str>) -> String {
    let page = command.unwrap_or("pagewell");
    let sections = SECTIONS
        .split(".\\\" ")
        .filter_map(|section| section.split_once('\n'));
    let of_page = |pages: &str| pages.split(' ').any(|name| name == page || name == "every");
    let texts = sections.filter(|(pages, _)| of_page(pages));
    texts.map(|(_, text)| text).collect()
}

/// The last section: related pages.
fn see_also(page: &str, command: Option<&str>, all: &[String]) -> String {
    let mut names: Vec<String> = match command {
        None => all.to_vec(),
        Some(_) => vec!["pagewell".to_owned()],
    };
    let beside: &[&str] = match command {
        Some("serve") => &["pagewell-mount", "pagewell-counters", "pagewell-top"],
        Some("mount") => &["pagewell-umount", "pagewell-serve"],
        Some("umount") => &["pagewell-mount"],
        Some("counters") => &["pagewell-top", "pagewell-serve"],
        Some("top") => &["pagewell-counters", "pagewell-serve"],
        Some("cp") => &["pagewell-ls", "pagewell-sum"],
        Some("ls" | "cat" | "stat") => &["pagewell-cp"],
        Some("probe") => &["pagewell-mount"],
        Some("sum") => &["pagewell-cp", "pagewell-cat"],
        _ => &[],
    };
    names.extend(beside.iter().map(|name| (*name).to_owned()));
    names.retain(|name| name != page);
    let foreign = match command {
        Some("serve") => "nfs(5), rpcbind(8), systemd.service(5)",
        Some("mount" | "umount") => "fusermount3(1), mount(8), fuse(4)",
        Some("cp") => "cp(1)",
        Some("ls") => "ls(1)",
        Some("cat") => "cat(1)",
        Some("stat") => "stat(1)",
        Some("sum") => "sha256sum(1)",
        Some("counters" | "top") => "nfsstat(8)",
        Some("man") => "man(1)",
        _ => "",
    };
    let mut text = String::from(".SH \"SEE ALSO\"\n");
    for name in names {
        text += &format!("\\fB{}\\fR(1),\n", name.replace('-', "\\-"));
    }
    text += "\\fBpagewell\\-sources\\fR(7)";
    for page in foreign.split(", ").filter(|page| !page.is_empty()) {
        text += &format!(",\n{}", page.replace('-', "\\-"));
    }
    text.push('\n');
    text
}
