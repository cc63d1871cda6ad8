//! Names of metadata that Azure takes, for all names. Azure takes names of C#: letters, digits and
//! underscores, without a digit in front.
//!
//! ```text
//!   mode, uid, mtime    as they are
//!   pagewell-write      pagewell_2dwrite     a byte that is not taken: _ and its two digits
//!   my_2dname           my_5f2dname          what looks so already: 5f between
//! ```
//!
//! The rule is one to one: names that others gave are the same after a change. Names of headers are
//! in lower case.

fn is_taken(byte: u8, is_first: bool) -> bool {
    byte == b'_' || byte.is_ascii_lowercase() || (byte.is_ascii_digit() && !is_first)
}

/// The byte that two digits stand for, if it is one of a header's name (RFC 9110, 5.6.2) that Azure
/// does not take.
fn coded(digits: &[u8], is_first: bool) -> Option<u8> {
    let digits = std::str::from_utf8(digits.get(..2)?).ok()?;
    let byte = u8::from_str_radix(digits, 16).ok()?;
    let is_lower = !digits
        .bytes()
        .any(|digit| digit.is_ascii_uppercase() || digit == b'+');
    let is_name = byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^`|~".contains(&byte);
    let is_coded = is_name && !byte.is_ascii_uppercase() && !is_taken(byte, is_first);
    (is_lower && is_coded).then_some(byte)
}

/// What stands behind an underscore: how many times `5f`, and then a code.
fn code_behind(rest: &[u8], is_first: bool) -> Option<(usize, u8)> {
    let mut times = 0;
    let mut rest = rest;
    loop {
        if let Some(byte) = coded(rest, is_first) {
            return Some((times, byte));
        }
        rest = rest.strip_prefix(b"5f")?;
        times += 1;
    }
}

pub(crate) fn to_azure(name: &str) -> String {
    let mut text = String::with_capacity(name.len() + 8);
    for (at, byte) in name.bytes().enumerate() {
        let is_first = at == 0;
        if !is_taken(byte, is_first) {
            text.push_str(&format!("_{byte:02x}"));
            continue;
        }
        text.push(char::from(byte));
        let rest = name.as_bytes().get(at + 1..).unwrap_or_default();
        if byte == b'_' && code_behind(rest, is_first).is_some() {
            text.push_str("5f");
        }
    }
    text
}

pub(crate) fn from_azure(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    let mut rest = name.as_bytes();
    while let Some((&byte, behind)) = rest.split_first() {
        let is_first = rest.len() == name.len();
        rest = behind;
        let code = (byte == b'_').then(|| code_behind(behind, is_first));
        match code.flatten() {
            Some((0, coded)) => {
                text.push(char::from(coded));
                rest = behind.get(2..).unwrap_or_default();
            }
            Some(_) => {
                text.push('_');
                // One of them was inserted; the others stand for themselves.
                rest = behind.get(2..).unwrap_or_default();
                let times = rest.chunks(2).take_while(|digits| *digits == b"5f").count();
                let kept = rest.get(..times * 2 + 2).unwrap_or_default();
                text.push_str(&String::from_utf8_lossy(kept));
                rest = rest.get(kept.len()..).unwrap_or_default();
            }
            None => text.push(char::from(byte)),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_those_that_azure_takes() {
        for (name, azure) in [
            ("mode", "mode"),
            ("mtime", "mtime"),
            ("my_name", "my_name"),
            ("pagewell-write", "pagewell_2dwrite"),
            ("a.b", "a_2eb"),
            ("7up", "_37up"),
            ("a7_", "a7_"),
            ("my_2dname", "my_5f2dname"),
            ("my_5f2dname", "my_5f5f2dname"),
            ("my_5fname", "my_5fname"),
            ("_37", "_5f37"),
            ("a_37", "a_37"),
            ("-", "_2d"),
            ("", ""),
        ] {
            assert_eq!(to_azure(name), azure);
            assert_eq!(from_azure(azure), name);
        }
    }

    /// All short names of what the rule looks at, both ways.
    #[test]
    fn the_rule_is_one_to_one() {
        const LETTERS: &[u8] = b"_25fd3-a";
        let mut names = vec![String::new()];
        for _ in 0..6 {
            let longer = names.iter().flat_map(|name| {
                LETTERS
                    .iter()
                    .map(move |letter| format!("{name}{}", char::from(*letter)))
            });
            names = longer.collect();
            for name in &names {
                let azure = to_azure(name);
                let mut bytes = azure.bytes().enumerate();
                assert!(bytes.all(|(at, byte)| is_taken(byte, at == 0)), "{azure}");
                assert_eq!(from_azure(&azure), *name);
                if name
                    .bytes()
                    .enumerate()
                    .all(|(at, byte)| is_taken(byte, at == 0))
                {
                    assert_eq!(to_azure(&from_azure(name)), *name);
                }
            }
        }
    }

    #[test]
    fn any_name_is_read() {
        bolero::check!().for_each(|bytes: &[u8]| {
            let _ = from_azure(&String::from_utf8_lossy(bytes));
        });
    }
}
