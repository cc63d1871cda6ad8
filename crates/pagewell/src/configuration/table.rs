//! A table of a configuration file: keys are taken out, and those left over are mistakes.

use std::ops::Range;

use pagewell_base::likeness;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::mistakes::Mistakes;
use crate::gone;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct At<T> {
    pub(crate) value: T,
    /// From 1.
    pub(crate) line: usize,
}

pub(super) struct Lines(Vec<usize>);

impl Lines {
    pub(super) fn of(text: &str) -> Self {
        let ends = text.bytes().enumerate();
        let ends = ends.filter(|(_, byte)| *byte == b'\n');
        Self(ends.map(|(at, _)| at).collect())
    }

    /// The line where this part of the text begins, from 1.
    pub(super) fn at(&self, part: &Range<usize>) -> usize {
        self.0.partition_point(|end| *end < part.start) + 1
    }
}

pub(super) struct Table<'t> {
    /// As it is written: `[server]`.
    name: &'static str,
    entries: &'t DeTable<'t>,
    lines: &'t Lines,
    mistakes: &'t mut Mistakes,
    known: Vec<&'static str>,
}

impl<'t> Table<'t> {
    pub(super) fn new(
        name: &'static str,
        entries: &'t DeTable<'t>,
        lines: &'t Lines,
        mistakes: &'t mut Mistakes,
    ) -> Self {
        Self {
            name,
            entries,
            lines,
            mistakes,
            known: Vec::new(),
        }
    }

    /// The value of an optional key. The error of `parse` says what is wanted.
    pub(super) fn take<T>(
        &mut self,
        key: &'static str,
        parse: impl FnOnce(&DeValue<'_>) -> Result<T, String>,
    ) -> Option<At<T>> {
        self.known.push(key);
        let (name, value) = self
            .entries
            .iter()
            .find(|(name, _)| name.get_ref() == key)?;
        let line = self.lines.at(&name.span());
        match parse(value.get_ref()) {
            Ok(value) => Some(At { value, line }),
            Err(wanted) => {
                let given = shown(value.get_ref());
                self.mistakes
                    .add(line, format!("{key} = {given}: {wanted}"));
                None
            }
        }
    }

    /// The value of a required key; `line` is that of the table.
    pub(super) fn require<T>(
        &mut self,
        key: &'static str,
        line: usize,
        parse: impl FnOnce(&DeValue<'_>) -> Result<T, String>,
    ) -> Option<At<T>> {
        let has_key = self.entries.keys().any(|name| name.get_ref() == key);
        if !has_key {
            let name = self.name;
            self.mistakes
                .add(line, format!("{name} has no '{key}', which it needs"));
        }
        self.take(key, parse)
    }

    /// Reports each key that was not taken.
    pub(super) fn end(self) {
        for key in self.entries.keys() {
            let name = key.get_ref();
            if !self.known.iter().any(|known| name == known) {
                let line = self.lines.at(&key.span());
                let text = unknown(name, self.name, &self.known);
                self.mistakes.add(line, text);
            }
        }
    }
}

/// The message on an unknown key: advice on a former key, the key meant, or all keys.
pub(super) fn unknown(key: &str, table: &str, known: &[&'static str]) -> String {
    if let Some(advice) = gone::advice(key) {
        return advice;
    }
    let place = if table.is_empty() {
        String::new()
    } else {
        format!(" in {table}")
    };
    match likeness::nearest(key, known) {
        Some(meant) => format!("unknown key '{key}'{place}, did you mean '{meant}'?"),
        None => format!(
            "unknown key '{key}'{place}, which takes {}",
            known.join(", ")
        ),
    }
}

/// A value for messages, cut when it is long.
fn shown(value: &DeValue<'_>) -> String {
    const CHARACTERS_MAX: usize = 60;
    let text = match value {
        DeValue::String(text) => format!("\"{text}\""),
        DeValue::Integer(number) => number.as_str().to_owned(),
        DeValue::Float(number) => number.as_str().to_owned(),
        DeValue::Boolean(value) => value.to_string(),
        DeValue::Datetime(time) => time.to_string(),
        DeValue::Array(_) => "[...]".to_owned(),
        DeValue::Table(_) => "{...}".to_owned(),
    };
    if text.chars().count() <= CHARACTERS_MAX {
        return text;
    }
    let beginning: String = text.chars().take(CHARACTERS_MAX).collect();
    beginning + "..."
}

/// Takes a text for `parse`.
pub(super) fn text<T, E: ToString>(
    parse: impl FnOnce(&str) -> Result<T, E>,
) -> impl FnOnce(&DeValue<'_>) -> Result<T, String> {
    |value| match value {
        DeValue::String(text) => parse(text).map_err(|error| error.to_string()),
        _ => Err("a text in quotes is wanted".to_owned()),
    }
}

pub(super) fn switch(value: &DeValue<'_>) -> Result<bool, String> {
    let wanted = || "true or false is wanted, without quotes".to_owned();
    value.as_bool().ok_or_else(wanted)
}

/// Takes a number; `parse` gets it as text.
pub(super) fn number<T, E: ToString>(
    parse: impl FnOnce(&str) -> Result<T, E>,
) -> impl FnOnce(&DeValue<'_>) -> Result<T, String> {
    |value| {
        let number = match value {
            DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix()).ok(),
            _ => None,
        };
        // No number is refused with the words for a wrong one.
        let text = number.map(|number| number.to_string());
        parse(&text.unwrap_or_default()).map_err(|error| error.to_string())
    }
}

/// Takes a text or a number, such as a size.
pub(super) fn text_or_number<T, E: ToString>(
    parse: impl Fn(&str) -> Result<T, E>,
) -> impl FnOnce(&DeValue<'_>) -> Result<T, String> {
    move |value| match value {
        DeValue::String(_) => text(parse)(value),
        _ => number(parse)(value),
    }
}

/// Takes one of a few words.
pub(super) fn word<T: Clone>(
    words: &'static [(&'static str, T, &'static str)],
) -> impl FnOnce(&DeValue<'_>) -> Result<T, String> {
    move |value| {
        let given = value.as_str();
        let found = words.iter().find(|(word, ..)| given == Some(word));
        found.map(|(_, value, _)| value.clone()).ok_or_else(|| {
            let all: Vec<String> = words
                .iter()
                .map(|(word, ..)| format!("\"{word}\""))
                .collect();
            format!("one of {} is wanted", all.join(", "))
        })
    }
}

/// Takes a list of at most `most` texts.
pub(super) fn list<T>(
    most: usize,
    example: &'static str,
    parse: impl Fn(&str) -> Result<T, String>,
) -> impl FnOnce(&DeValue<'_>) -> Result<Vec<T>, String> {
    move |value| {
        let wanted = || format!("a list is wanted, such as {example}");
        let items: &[Spanned<DeValue<'_>>] = value.as_array().ok_or_else(wanted)?;
        if items.len() > most {
            return Err(format!(
                "has {} entries, at most {most} are taken",
                items.len()
            ));
        }
        let parse =
            |item: &Spanned<DeValue<'_>>| parse(item.get_ref().as_str().ok_or_else(wanted)?);
        items.iter().map(parse).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_counted_from_one() {
        let lines = Lines::of("a\n\nb\n");
        let at = [0, 1, 2, 3, 4].map(|at| lines.at(&(at..at)));
        assert_eq!(at, [1, 1, 2, 3, 3]);
        assert_eq!(Lines::of("").at(&(0..0)), 1);
    }

    #[test]
    fn near_misses_are_named() {
        let known = ["squash", "source", "read_only"];
        for (key, meant) in [
            ("squahs", "squash"),
            ("sorce", "source"),
            ("readonly", "read_only"),
            ("read-only", "read_only"),
        ] {
            let text = unknown(key, "[[export]]", &known);
            let expected = format!("unknown key '{key}' in [[export]], did you mean '{meant}'?");
            assert_eq!(text, expected);
        }
        let text = unknown("send_path", "[server]", &known);
        assert!(text.starts_with("send_path is gone: "), "{text}");
        let text = unknown("xyz", "", &known);
        assert_eq!(
            text,
            "unknown key 'xyz', which takes squash, source, read_only"
        );
    }
}
