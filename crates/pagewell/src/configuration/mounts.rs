//! The mounts in the configuration: each `[[mount]]`, for `pagewell mount --config`.
//!
//! A server does not read them, and a mount reads nothing else: a mistake in one hinders neither
//! the server nor other mounts. `pagewell config check` checks all.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde_json::json;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::file::{self, read_text};
use super::mistakes::Mistakes;
use super::picker::{Entry, Origin, Section};
use super::table::{At, Lines, Table, text};
use crate::commands::mount_options;
use crate::failure::one_line;
use crate::source::Source;

const MOUNTS_MAX: usize = 256;

#[derive(Clone, Debug)]
pub(crate) struct MountTable {
    /// The source, and its text.
    pub(crate) source: At<(Source, OsString)>,
    pub(crate) directory: At<PathBuf>,
    /// As `-o` takes them.
    pub(crate) options: Option<At<String>>,
}

/// All mounts of a file that make sense.
#[derive(Debug)]
pub(crate) struct Mounts {
    path: PathBuf,
    /// Their directories are unique.
    pub(crate) tables: Vec<MountTable>,
}

impl Mounts {
    /// Reads the mounts of a file, and the mistakes in others. An error is one of reading.
    pub(crate) fn read(path: &Path) -> anyhow::Result<(Self, Mistakes)> {
        Ok(Self::parse(path, &read_text(path)?))
    }

    pub(crate) fn parse(path: &Path, text: &str) -> (Self, Mistakes) {
        let lines = Lines::of(text);
        let mut mounts = Self {
            path: path.to_owned(),
            tables: Vec::new(),
        };
        let mut mistakes = Mistakes::none(path);
        let Some(document) = file::document(text, &lines, &mut mistakes) else {
            return (mounts, mistakes);
        };
        for (key, value) in document.get_ref() {
            let line = lines.at(&key.span());
            match (&**key.get_ref(), value.get_ref()) {
                ("mount", DeValue::Array(tables)) if tables.len() > MOUNTS_MAX => {
                    let count = tables.len();
                    mistakes.add(
                        line,
                        format!("{count} mounts, at most {MOUNTS_MAX} are taken"),
                    );
                }
                ("mount", DeValue::Array(tables)) => {
                    let tables = tables.iter();
                    tables.for_each(|table| mounts.add(table, &lines, &mut mistakes));
                }
                ("mount", _) => mistakes.add(line, "mount: each is written [[mount]]"),
                _ => {}
            }
        }
        (mounts, mistakes)
    }

    fn add(&mut self, table: &Spanned<DeValue<'_>>, lines: &Lines, mistakes: &mut Mistakes) {
        let line = lines.at(&table.span());
        let DeValue::Table(entries) = table.get_ref() else {
            return mistakes.add(line, "mount: each is written [[mount]]");
        };
        let folder = self.path.parent().unwrap_or(Path::new(""));
        let before = mistakes.count();
        let Some(table) = read_mount((entries, line), folder, lines, mistakes) else {
            return;
        };
        if mistakes.count() > before {
            // Without a misspelt word it would be another mount, such as a writable one.
            return;
        }
        let directory = &table.directory;
        let mut others = self.tables.iter();
        match others.find(|other| other.directory.value == directory.value) {
            Some(first) => {
                let first = first.directory.line;
                let shown = directory.value.display();
                let text = format!("two mounts are at {shown}: here and in line {first}");
                mistakes.add(directory.line, text);
            }
            None => self.tables.push(table),
        }
    }

    /// The mount at a directory, however that is written.
    pub(crate) fn at(&self, directory: &Path) -> Option<&MountTable> {
        let whole = |path: &Path| path.canonicalize().or_else(|_| std::path::absolute(path));
        let wanted = whole(directory).ok()?;
        let is_it = |table: &&MountTable| {
            whole(&table.directory.value).is_ok_and(|directory| directory == wanted)
        };
        self.tables.iter().find(is_it)
    }

    pub(crate) fn warnings(&self) -> Vec<String> {
        let file = self.path.display();
        let of_one = |table: &MountTable| {
            let missing = table.source.value.0.check_presence().err();
            let missing = missing.map(|error| (table.source.line, one_line(&error)));
            let place = &table.directory.value;
            let nowhere = || format!("{}: there is no such directory", place.display());
            let nowhere = (!place.is_dir()).then(|| (table.directory.line, nowhere()));
            let lines = missing.into_iter().chain(nowhere);
            lines
                .map(|(line, text)| format!("{file}:{line}: {text}"))
                .collect::<Vec<_>>()
        };
        self.tables.iter().flat_map(of_one).collect()
    }

    pub(crate) fn entries(&self) -> Vec<Entry> {
        let of_one = |table: &MountTable| {
            let section = Section::Mount(table.directory.value.to_string_lossy().into_owned());
            let from = |line: Option<usize>| match line {
                Some(line) => Origin::File(self.path.clone(), line),
                None => Origin::Default,
            };
            let (options, place) = (&table.options, &table.directory);
            let source = table.source.value.1.to_string_lossy();
            [
                ("source", json!(source), Some(table.source.line)),
                ("directory", json!(place.value), Some(place.line)),
                (
                    "options",
                    json!(options.as_ref().map(|options| &options.value)),
                    options.as_ref().map(|options| options.line),
                ),
            ]
            .map(|(key, value, line)| Entry {
                section: section.clone(),
                key,
                value,
                origin: from(line),
            })
        };
        self.tables.iter().flat_map(of_one).collect()
    }
}

/// The mount, if the table makes sense.
fn read_mount(
    (entries, line): (&DeTable<'_>, usize),
    folder: &Path,
    lines: &Lines,
    mistakes: &mut Mistakes,
) -> Option<MountTable> {
    let mut table = Table::new("[[mount]]", entries, lines, mistakes);
    let source = |text: &str| {
        let source = Source::parse(text.as_ref()).map_err(|error| one_line(&error))?;
        Ok::<_, String>((source.in_directory(folder), OsString::from(text)))
    };
    let directory = |text: &str| match text {
        "" => Err("a directory is wanted"),
        path => Ok(folder.join(path)),
    };
    let options = |text: &str| mount_options::check(text).map(|()| text.to_owned());
    let source = table.require("source", line, text(source));
    let directory = table.require("directory", line, text(directory));
    let options = table.take("options", text(options));
    table.end();
    Some(MountTable {
        source: source?,
        directory: directory?,
        options,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> (Mounts, Vec<String>) {
        let (mounts, mistakes) = Mounts::parse(Path::new("/p/f.toml"), text);
        (mounts, mistakes.lines())
    }

    #[test]
    fn a_mount_has_a_source_a_directory_and_options() {
        let text = "\
[server]
threads = 0
[[mount]]
source = \"image:a.img\"
directory = \"/srv/./far\"
options = \"ro,cache=64m,nofail\"
[[mount]]
source = \"ram:1m\"
directory = \"near\"
";
        let (mounts, mistakes) = parsed(text);
        assert!(
            mistakes.is_empty(),
            "the server is not looked at: {mistakes:?}"
        );
        let table = mounts.at(Path::new("/srv/far/")).unwrap();
        assert_eq!(table.options.as_ref().unwrap().line, 6);
        let image = Source::parse("image:/p/a.img".as_ref()).unwrap();
        assert_eq!(table.source.value.0, image);
        assert!(mounts.at(Path::new("/p/near")).is_some());
        assert!(mounts.at(Path::new("/p")).is_none());
        assert_eq!(mounts.entries().len(), 6);
    }

    #[test]
    fn each_mistake_is_said_with_its_line_and_the_other_mounts_are_there() {
        let good = "[[mount]]\nsource = \"ram:1m\"\ndirectory = \"/a\"\n";
        for (text, line, part) in [
            ("[[mount]]\nsource = \"ram:1m\"", 4, "has no 'directory'"),
            ("[[mount]]\ndirectory = \"/b\"", 4, "has no 'source'"),
            (
                "[[mount]]\nsource = \"ram:x\"\ndirectory = \"/b\"",
                5,
                "ram:x",
            ),
            (
                "[[mount]]\nsource = \"ram:1m\"\ndirectory = \"/b\"\noption = \"ro\"",
                7,
                "'option' in [[mount]], did you mean 'options'?",
            ),
            (
                "[[mount]]\nsource = \"ram:1m\"\ndirectory = \"/b\"\noptions = \"read\"",
                7,
                "-o read: unknown, did you mean 'threads=N'? (there are ro, rw",
            ),
            (
                "[[mount]]\nsource = \"ram:2m\"\ndirectory = \"/a\"",
                6,
                "two mounts are at /a: here and in line 3",
            ),
        ] {
            let (mounts, mistakes) = parsed(&format!("{good}{text}"));
            assert_eq!(mistakes.len(), 1, "{text}: {mistakes:?}");
            let place = format!("/p/f.toml:{line}: ");
            assert!(mistakes[0].starts_with(&place), "{text}: {mistakes:?}");
            assert!(mistakes[0].contains(part), "{text}: {mistakes:?}");
            assert!(mounts.at(Path::new("/a")).is_some());
            assert!(mounts.at(Path::new("/b")).is_none(), "{text}");
        }
        for text in ["mount = 1", "[mount]\nsource = \"ram:1m\""] {
            assert_eq!(
                parsed(text).1,
                ["/p/f.toml:1: mount: each is written [[mount]]"]
            );
        }
    }
}
