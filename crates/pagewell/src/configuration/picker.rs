//! Values to show, and where each comes from: the command line, the file or the default.

use std::fmt;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::table::At;
use crate::export::ExportArgument;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    pub(crate) section: Section,
    /// As in the file.
    pub(crate) key: &'static str,
    /// As in the file; null if unset.
    pub(crate) value: Value,
    pub(crate) origin: Origin,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Section {
    Server,
    Log,
    Limits,
    Export(String),
    Mount(String),
}

impl Section {
    /// The directory of its mount.
    pub(crate) fn mount(&self) -> Option<&str> {
        match self {
            Self::Mount(directory) => Some(directory),
            Self::Server | Self::Log | Self::Limits | Self::Export(_) => None,
        }
    }

    /// The name of its export.
    pub(crate) fn export(&self) -> Option<&str> {
        match self {
            Self::Export(name) => Some(name),
            Self::Server | Self::Log | Self::Limits | Self::Mount(_) => None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// It is not set.
    Default,
    File(PathBuf, usize),
    CommandLine,
    /// The variable for the levels of the log.
    Variable,
    /// The command line; the file has something else here.
    Instead(PathBuf, usize),
}

impl fmt::Display for Origin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => formatter.write_str("default"),
            Self::File(path, line) => write!(formatter, "{}:{line}", path.display()),
            Self::CommandLine => formatter.write_str("command line"),
            Self::Variable => formatter.write_str("variable PAGEWELL_LOG"),
            Self::Instead(path, line) => {
                write!(
                    formatter,
                    "command line, instead of {}:{line}",
                    path.display()
                )
            }
        }
    }
}

/// Picks values, and notes where each comes from.
pub(super) struct Picker<'f> {
    path: &'f Path,
    /// The table of the next values.
    pub(super) section: Section,
    pub(super) entries: Vec<Entry>,
}

impl<'f> Picker<'f> {
    /// Picks among values of the file at this path and others.
    pub(super) fn new(path: Option<&'f Path>) -> Self {
        Self {
            path: path.unwrap_or(Path::new("")),
            section: Section::Server,
            entries: Vec::new(),
        }
    }

    /// From here on values are of this export. `lines`: where the file has its name and source, or
    /// those of the one that it replaces if it `is_given` on the command line.
    pub(super) fn begin(
        &mut self,
        argument: &ExportArgument,
        lines: Option<(usize, usize)>,
        is_given: bool,
    ) {
        self.section = Section::Export(argument.name.clone());
        let (name, source) = lines.unzip();
        for (key, text, line) in [
            ("name", argument.name.clone(), name),
            (
                "source",
                argument.text.to_string_lossy().into_owned(),
                source,
            ),
        ] {
            let path = || self.path.to_owned();
            let origin = match line {
                None => Origin::CommandLine,
                Some(line) if is_given => Origin::Instead(path(), line),
                Some(line) => Origin::File(path(), line),
            };
            self.note(key, json!(text), origin);
        }
    }

    pub(super) fn note(&mut self, key: &'static str, value: Value, origin: Origin) {
        self.entries.push(Entry {
            section: self.section.clone(),
            key,
            value,
            origin,
        });
    }

    /// Picks what the command line has `given`, else the file's value, else the default.
    pub(super) fn pick<T>(
        &mut self,
        key: &'static str,
        (given, file): (Option<T>, Option<(T, usize)>),
        default: T,
        shown: impl FnOnce(&T) -> Value,
    ) -> T {
        let (value, origin) = match (given, file) {
            (Some(value), None) => (value, Origin::CommandLine),
            (Some(value), Some((_, line))) => (value, Origin::Instead(self.path.to_owned(), line)),
            (None, Some((value, line))) => (value, Origin::File(self.path.to_owned(), line)),
            (None, None) => (default, Origin::Default),
        };
        self.note(key, shown(&value), origin);
        value
    }
}

/// A value of the file with its line.
pub(super) fn at<T: Clone>(value: &Option<At<T>>) -> Option<(T, usize)> {
    value.as_ref().map(|at| (at.value.clone(), at.line))
}

/// The same of a value that may be missing.
pub(super) fn some<T: Clone>(value: &Option<At<T>>) -> Option<(Option<T>, usize)> {
    at(value).map(|(value, line)| (Some(value), line))
}

pub(super) fn word_of<T: PartialEq>(words: &[(&'static str, T, &'static str)], value: &T) -> Value {
    let found = words.iter().find(|(_, one, _)| one == value);
    found.map_or(Value::Null, |(word, ..)| json!(word))
}
