//! The mistakes of a configuration file.

use std::path::{Path, PathBuf};

use crate::failure::report;

/// Most mistakes in a report; a file of another kind has one in each line.
const SAID_MAX: usize = 20;

/// Mistakes in a file, [sorted](Self::into_result) at the end.
#[derive(Debug)]
pub(crate) struct Mistakes {
    file: PathBuf,
    found: Vec<(usize, String)>,
}

impl Mistakes {
    pub(crate) fn none(file: &Path) -> Self {
        Self {
            file: file.to_owned(),
            found: Vec::new(),
        }
    }

    /// Adds a mistake; lines count from 1.
    pub(crate) fn add(&mut self, line: usize, text: impl Into<String>) {
        self.found.push((line, text.into()));
    }

    pub(crate) fn count(&self) -> usize {
        self.found.len()
    }

    /// Adds those of `others` that are not there yet.
    pub(crate) fn extend(&mut self, others: Self) {
        for one in others.found {
            if !self.found.contains(&one) {
                self.found.push(one);
            }
        }
        self.found.sort_by_key(|(line, _)| *line);
    }

    /// `value` if there are none.
    pub(crate) fn into_result<T>(mut self, value: T) -> Result<T, Self> {
        self.found.sort_by_key(|(line, _)| *line);
        if self.found.is_empty() {
            Ok(value)
        } else {
            Err(self)
        }
    }

    /// At most [`SAID_MAX`] as `FILE:LINE: TEXT`, then the count of the rest.
    pub(crate) fn lines(&self) -> Vec<String> {
        let file = self.file.display();
        let said = self.found.iter().take(SAID_MAX);
        let mut lines: Vec<String> = said
            .map(|(line, text)| format!("{file}:{line}: {text}"))
            .collect();
        if let Some(more @ 1..) = self.found.len().checked_sub(SAID_MAX) {
            lines.push(format!("{file}: {more} more mistakes"));
        }
        lines
    }

    /// Reports all but the last, which becomes the error of a command.
    pub(crate) fn report(&self) -> anyhow::Error {
        let mut lines = self.lines();
        let last = lines.pop().unwrap_or_default();
        for line in lines {
            report(&line);
        }
        anyhow::anyhow!(last)
    }
}
