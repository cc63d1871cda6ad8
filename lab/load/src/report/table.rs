//! Cells below titles, for a terminal and for a document.

use std::ops::RangeBounds;

/// A table; see the module's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    columns: Vec<Column>,
    /// The cells; each row is as long as the titles.
    pub rows: Vec<Vec<String>>,
}

/// The title of a column, and the side of its cells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// The text above.
    pub title: String,
    /// Numbers are on the right, words on the left.
    pub is_number: bool,
}

impl Table {
    /// A table of these rows, with numbers in some columns.
    pub fn new<'a>(
        titles: impl IntoIterator<Item = &'a str>,
        numbers: impl RangeBounds<usize>,
        rows: Vec<Vec<String>>,
    ) -> Self {
        let columns = titles.into_iter().enumerate().map(|(index, title)| Column {
            title: title.to_owned(),
            is_number: numbers.contains(&index),
        });
        let columns = columns.collect();
        Self { columns, rows }
    }

    /// The table without its empty columns.
    #[must_use]
    pub fn without_empty_columns(mut self) -> Self {
        let is_used = |column: usize| {
            let mut cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.any(|cell| !cell.is_empty())
        };
        let used: Vec<bool> = (0..self.columns.len()).map(is_used).collect();
        retain(&mut self.columns, &used);
        self.rows.iter_mut().for_each(|row| retain(row, &used));
        self
    }

    /// The columns, from the left.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// For a terminal: columns as wide as their widest cell.
    pub fn text(&self) -> String {
        let width = |(index, column): (usize, &Column)| {
            let cells = self.rows.iter().filter_map(|row| row.get(index));
            let widths = cells.map(|cell| cell.chars().count());
            widths.fold(column.title.chars().count(), usize::max)
        };
        let widths: Vec<usize> = self.columns.iter().enumerate().map(width).collect();
        let mut text = String::new();
        for row in self.lines() {
            let mut line = String::new();
            for ((cell, width), column) in row.iter().zip(&widths).zip(&self.columns) {
                line += &if column.is_number {
                    format!("{cell:>width$}  ")
                } else {
                    format!("{cell:<width$}  ")
                };
            }
            text += line.trim_end();
            text.push('\n');
        }
        text
    }

    /// For a document.
    pub fn markdown(&self) -> String {
        let sides = self.columns.iter().map(|column| match column.is_number {
            true => " ---: |",
            false => " --- |",
        });
        let sides = format!("|{}\n", sides.collect::<String>());
        let mut lines = self.lines().map(|row| format!("| {} |\n", row.join(" | ")));
        let titles = lines.next().unwrap_or_default();
        titles + &sides + &lines.collect::<String>()
    }

    fn lines(&self) -> impl Iterator<Item = Vec<&str>> {
        let titles = self.columns.iter().map(|column| column.title.as_str());
        let rows = self.rows.iter();
        let rows = rows.map(|row| row.iter().map(String::as_str).collect());
        std::iter::once(titles.collect()).chain(rows)
    }
}

fn retain<T>(list: &mut Vec<T>, used: &[bool]) {
    let mut used = used.iter();
    list.retain(|_| used.next().is_some_and(|used| *used));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let line = |word: &str, number: &str| {
            let cells = [word, "", number].map(str::to_owned);
            cells.to_vec()
        };
        let rows = vec![line("raw", "1"), line("buffered", "1234")];
        Table::new(["path", "variant", "us"], 2.., rows)
    }

    #[test]
    fn columns_are_aligned() {
        let text = table().without_empty_columns().text();
        assert_eq!(text, "path        us\nraw          1\nbuffered  1234\n");
    }

    #[test]
    fn a_document_has_the_sides_below_the_titles() {
        let markdown = table().markdown();
        let lines: Vec<&str> = markdown.lines().collect();
        assert_eq!(lines[0], "| path | variant | us |");
        assert_eq!(lines[1], "| --- | --- | ---: |");
        assert_eq!(lines[3], "| buffered |  | 1234 |");
    }
}
