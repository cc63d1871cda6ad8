//! Tells the code of a Rust file from its comments and strings, and finds functions and modules.
//!
//! It is a scanner, not a parser: it knows line and nested block comments, plain, raw and byte
//! strings, characters and brackets. Weakness: what a macro generates is not seen.

/// Blanks comments and the insides of strings and characters; line breaks stay.
pub(crate) fn code_of(text: &str) -> String {
    let mut rest = text;
    let mut code = String::with_capacity(text.len());
    let mut before = ' ';
    while let Some(first) = rest.chars().next() {
        let blank = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            block_comment(rest)
        } else if let Some(length) = raw_string(rest, before) {
            length
        } else if first == '"' {
            string(rest)
        } else if first == '\'' {
            character(rest)
        } else {
            0
        };
        if blank == 0 {
            code.push(first);
            before = first;
            rest = &rest[first.len_utf8()..];
        } else {
            let (skipped, after) = rest.split_at(blank);
            code.extend(skipped.chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
            before = ' ';
            rest = after;
        }
    }
    code
}

fn block_comment(text: &str) -> usize {
    let mut depth = 0usize;
    let mut at = 0;
    while at < text.len() {
        let rest = &text.as_bytes()[at..];
        if rest.starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if rest.starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    text.len()
}

/// The length of a raw string that begins here, `r"` or `r#"` (a `b` or `c` before it is code).
fn raw_string(text: &str, before: char) -> Option<usize> {
    if before.is_alphanumeric() && !"bc".contains(before) || before == '_' {
        return None;
    }
    let marks = text.strip_prefix('r')?;
    let hashes = marks.len() - marks.trim_start_matches('#').len();
    let inside = marks[hashes..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    let length = inside.find(&end)?;
    Some(1 + hashes + 1 + length + end.len())
}

fn string(text: &str) -> usize {
    let mut escaped = false;
    for (at, character) in text.char_indices().skip(1) {
        match character {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// The length of a character literal, or 0 for a lifetime.
fn character(text: &str) -> usize {
    let mut characters = text.char_indices().skip(1);
    match characters.next() {
        Some((_, '\\')) => {
            characters.next();
            text[3..].find('\'').map_or(0, |at| 3 + at + 1)
        }
        Some(_) => match characters.next() {
            Some((at, '\'')) => at + 1,
            _ => 0,
        },
        None => 0,
    }
}

pub(crate) fn is_word(text: &str, start: usize, length: usize) -> bool {
    let word = |c: char| c.is_alphanumeric() || c == '_';
    !text[..start].chars().next_back().is_some_and(word)
        && !text[start + length..].chars().next().is_some_and(word)
}

/// Where a word stands in the code, as byte offsets.
pub(crate) fn words<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    code.match_indices(word)
        .map(|(start, _)| start)
        .filter(move |start| is_word(code, *start, word.len()))
}

pub(crate) fn line_of(text: &str, offset: usize) -> usize {
    text[..offset].matches('\n').count()
}

/// First and last line of each function with a body.
pub(crate) fn functions(code: &str) -> Vec<(usize, usize)> {
    let body = |start: usize| {
        // `fn(u8) -> u8` is a type.
        let name = code[start + 2..].trim_start();
        if !name.starts_with(|c: char| c.is_alphabetic() || c == '_') {
            return None;
        }
        let open = start + head_length(&code[start..])?;
        let end = open + block_length(&code[open..])?;
        Some((line_of(code, start), line_of(code, end)))
    };
    words(code, "fn").filter_map(body).collect()
}

/// How far the body is from here; `None` when a semicolon outside brackets ends the declaration.
fn head_length(code: &str) -> Option<usize> {
    let mut depth = 0i32;
    for (at, character) in code.char_indices() {
        match character {
            '(' | '[' => depth += 1,
            ')' | ']' => depth -= 1,
            '{' if depth == 0 => return Some(at),
            ';' if depth == 0 => return None,
            _ => {}
        }
    }
    None
}

/// Where the block that begins here is closed.
fn block_length(code: &str) -> Option<usize> {
    let mut depth = 0usize;
    for (at, character) in code.char_indices() {
        match character {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ => continue,
        }
        if depth == 0 {
            return Some(at);
        }
    }
    None
}

/// Names in `mod name;`, also those whose declaration a macro or an attribute precedes.
pub(crate) fn modules(code: &str) -> Vec<String> {
    let named = |start: usize| {
        let (name, _) = code[start + 3..].split_once(';')?;
        let name = name.trim();
        let plain = name.chars().all(|c| c.is_alphanumeric() || c == '_');
        (plain && !name.is_empty()).then(|| name.to_owned())
    };
    words(code, "mod").filter_map(named).collect()
}

#[test]
fn the_scanner_tells_code_from_the_rest() {
    for (text, code) in [
        ("a // }\nb", "a     \nb"),
        ("a /* { /* } */ } */ b", "a                   b"),
        (r#"f("}\"}") + 1"#, "f(      ) + 1"),
        (
            "r#\"}\"#;",
            "        ;".trim_start_matches(' ').trim_start(),
        ),
        (
            "'{' '\\'' '\\u{7d}' 'a: &'static str",
            "               'a: &'static str",
        ),
    ] {
        assert_eq!(code_of(text).trim(), code.trim(), "{text}");
        assert_eq!(code_of(text).len(), text.len(), "{text}");
    }
    assert_eq!(code_of("for r in x {}"), "for r in x {}");
}

#[test]
fn the_scanner_finds_functions_and_modules() {
    let text = "fn a() {\n  let x: fn(u8) -> u8 = b;\n}\ntrait T {\n  fn c(x: [u8; 4]);\n}\n\
                fn d(x: [u8; 4]) -> u8 {\n  '{';\n  1\n}\nmod e;\nmod f { mod g; }\n";
    let code = code_of(text);
    assert_eq!(functions(&code), [(0, 2), (6, 9)]);
    assert_eq!(modules(&code), ["e", "g"]);
}
