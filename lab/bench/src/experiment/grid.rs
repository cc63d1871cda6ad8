//! Plain tables for notes: what an experiment shows beyond its rows.

/// Cells below titles, columns as wide as their widest cell, the first `words` columns to the
/// left and the rest to the right.
pub(super) fn grid(titles: &[&str], words: usize, lines: &[Vec<String>]) -> String {
    let titles: Vec<String> = titles.iter().map(|title| (*title).to_owned()).collect();
    let all = || std::iter::once(&titles).chain(lines);
    let width = |column: usize| {
        let cells = all().filter_map(|line| line.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..titles.len()).map(width).collect();
    let mut text = String::new();
    for line in all() {
        let mut row = String::new();
        for (column, (cell, width)) in line.iter().zip(&widths).enumerate() {
            let pad = " ".repeat(width - cell.chars().count());
            if column < words {
                row += &format!("{cell}{pad}  ");
            } else {
                row += &format!("{pad}{cell}  ");
            }
        }
        text += row.trim_end();
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let line = |word: &str, number: &str| vec![word.to_owned(), number.to_owned()];
        let text = grid(
            &["path", "us"],
            1,
            &[line("raw", "1"), line("buffered", "1234")],
        );
        assert_eq!(text, "path        us\nraw          1\nbuffered  1234\n");
    }
}
