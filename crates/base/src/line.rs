//! Texts for people, on one line.

/// Escapes control characters, which a name or a server may contain.
#[must_use]
pub fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_control() {
            line.extend(character.escape_default());
        } else {
            line.push(character);
        }
    }
    line
}

/// `pagewell: TEXT`, as one line.
#[must_use]
pub fn said(text: &str) -> String {
    format!("pagewell: {}\n", one_line(text))
}
