//! What misspelt options of a disc may mean:
//!
//! ```text
//! x.iso?tre=rr      'tre' is no option of a disc; iso:x.iso?tree=rr may be meant
//! iso:x.iso?joliet  'joliet' is no option of a disc; iso:x.iso?tree=joliet may be meant
//! iso:x.iso?uid=me  uid=me: a number is wanted
//! ```
//!
//! Only where the file exists: any other text is a file's name, or means something to a server.

use std::path::Path;

use pagewell_base::likeness;
use pagewell_disc::{DiscOptions, OPTIONS};

/// What people put between options.
const SEPARATORS: [char; 4] = ['&', ',', ';', '?'];

const NO_OPTION: &str = "is no option of a disc";

/// The mistakes in options behind `iso:`, and what may be meant.
pub(crate) fn behind_iso(text: &str) -> Option<String> {
    let (image, list) = behind_a_file(text)?;
    let reading = Reading::of(list);
    (!reading.faults.is_empty()).then(|| reading.hint(image))
}

/// How to write options behind a path without a kind.
pub(crate) fn behind_a_path(text: &str) -> Option<String> {
    let (image, list) = behind_a_file(text)?;
    let reading = Reading::of(list);
    // Any other text with a `?` is more likely the name of a file.
    (list.contains('=') || reading.written.is_some()).then(|| reading.hint(image))
}

/// How to write `udf:x.iso`, which has a tree in place of a kind.
pub(crate) fn kind_for_tree(text: &str) -> Option<String> {
    let (tree, rest) = text.split_once(':')?;
    let is_tree = DiscOptions::default().set("tree", tree) == Ok(true);
    let image = rest.split('?').next()?;
    (is_tree && is_file(image)).then(|| format!("iso:{image}?tree={tree}"))
}

fn is_file(path: &str) -> bool {
    Path::new(path).metadata().is_ok_and(|it| !it.is_dir())
}

/// A file and the text behind its `?`, unless the whole text names a file.
fn behind_a_file(text: &str) -> Option<(&str, &str)> {
    let splits = text.match_indices('?');
    let mut splits = splits.map(|(at, _)| (&text[..at], &text[at + 1..]));
    let found = splits.find(|(image, _)| is_file(image))?;
    (!Path::new(text).exists()).then_some(found)
}

struct Reading {
    /// As it should be written, where that can be seen.
    written: Option<String>,
    faults: Vec<String>,
    names_are_known: bool,
}

impl Reading {
    fn of(list: &str) -> Self {
        let mut faults = Vec::new();
        let mut written = Some(Vec::new());
        for option in list.split(SEPARATORS) {
            match (read_option(option, &mut faults), &mut written) {
                (Some(option), Some(all)) => all.push(option),
                _ => written = None,
            }
        }
        let no_option = |fault: &String| fault.ends_with(NO_OPTION);
        let names_are_known = !faults.iter().any(no_option);
        if list.contains(&SEPARATORS[1..]) {
            faults.push("options have & between them".to_owned());
        }
        Self {
            written: written.map(|all| all.join("&")),
            faults,
            names_are_known,
        }
    }

    fn hint(&self, image: &str) -> String {
        let faults = self.faults.join(", ");
        match &self.written {
            Some(list) if faults.is_empty() => {
                format!("no such file; options follow iso:, as in iso:{image}?{list}")
            }
            Some(list) => format!("no such file, and {faults}; iso:{image}?{list} may be meant"),
            None if self.names_are_known => {
                format!("no such file, and {faults} (options follow iso:{image}?)")
            }
            None => {
                let forms = OPTIONS.map(|(form, _)| form).join(", ");
                format!("no such file, and {faults} (behind iso:{image}? there are {forms})")
            }
        }
    }
}

/// The option as it should be written, if that can be seen.
fn read_option(option: &str, faults: &mut Vec<String>) -> Option<String> {
    let (name, value) = option.split_once('=').unwrap_or((option, ""));
    let names = OPTIONS.map(|(form, _)| form.split('=').next().unwrap_or(form));
    if !names.contains(&name) {
        faults.push(format!("'{name}' {NO_OPTION}"));
        let tree = option.to_lowercase();
        if DiscOptions::default().set("tree", &tree) == Ok(true) {
            return Some(format!("tree={tree}"));
        }
    }
    let name = likeness::nearest(&name.to_lowercase(), &names)?;
    let small = value.to_lowercase();
    match DiscOptions::default().set(name, value) {
        Ok(_) => Some(format!("{name}={value}")),
        Err(wanted) => {
            faults.push(wanted);
            let is_fit = DiscOptions::default().set(name, &small) == Ok(true);
            is_fit.then(|| format!("{name}={small}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_message_says_what_is_wrong_and_how_it_is_written() {
        let no_option = |name: &str| format!("'{name}' is no option of a disc");
        let meant = |list: &str| format!("; iso:Cargo.toml?{list} may be meant");
        let wanted = "tree=RR: one of udf, rr, iso1999, joliet, iso is wanted";
        for (list, right) in [
            ("tre=rr", no_option("tre") + &meant("tree=rr")),
            ("Tree=rr", no_option("Tree") + &meant("tree=rr")),
            ("rr", no_option("rr") + &meant("tree=rr")),
            ("tree=RR", wanted.to_owned() + &meant("tree=rr")),
            (
                "tree=rr&seson=2",
                no_option("seson") + &meant("tree=rr&session=2"),
            ),
            (
                "tree=rr,uid=5",
                "options have & between them".to_owned() + &meant("tree=rr&uid=5"),
            ),
            (
                "tre=rr?gid=6",
                no_option("tre") + ", options have & between them" + &meant("tree=rr&gid=6"),
            ),
        ] {
            let text = format!("Cargo.toml?{list}");
            let expected = format!("no such file, and {right}");
            assert_eq!(behind_iso(&text).as_ref(), Some(&expected), "{list}");
            assert_eq!(behind_a_path(&text), Some(expected), "{list}");
        }
    }

    #[test]
    fn what_cannot_be_guessed_is_said_with_what_there_is() {
        for (list, part) in [
            ("zzz=1", "'zzz' is no option of a disc"),
            ("tree=best", "tree=best: one of udf, rr"),
            (
                "tre=best",
                "'tre' is no option of a disc, tree=best: one of",
            ),
            ("uid=me&tree=rr", "uid=me: a number is wanted"),
            ("mode=u+x", "an octal mode such as 0755"),
        ] {
            let text = format!("Cargo.toml?{list}");
            for hint in [behind_iso(&text), behind_a_path(&text)] {
                let hint = hint.unwrap();
                assert!(hint.contains(part), "{hint}");
                let all = "(behind iso:Cargo.toml? there are tree=auto|udf";
                let end = "(options follow iso:Cargo.toml?)";
                assert!(hint.contains(all) == hint.contains(NO_OPTION), "{hint}");
                assert!(hint.contains(all) || hint.ends_with(end), "{hint}");
            }
        }
        for list in ["", "tree", "tree=rr&"] {
            let hint = behind_iso(&format!("Cargo.toml?{list}")).unwrap();
            assert!(hint.starts_with("no such file, and "), "{hint}");
        }
    }

    #[test]
    fn nothing_is_said_of_other_texts() {
        for text in [
            "none.iso?tre=rr",
            "src?tre=rr",
            "Cargo.toml",
            "Cargo.toml?tree=rr",
        ] {
            assert_eq!(behind_iso(text), None, "{text}");
        }
        for text in ["Cargo.toml?", "Cargo.toml?x", "none.iso?tree=rr"] {
            assert_eq!(behind_a_path(text), None, "{text}");
        }
        for text in ["udf:none.iso", "iso:Cargo.toml?", "zip:Cargo.toml"] {
            let found = kind_for_tree(text);
            assert!(found.is_none() || text.starts_with("iso:"), "{found:?}");
        }
        let right = "no such file; options follow iso:, as in iso:Cargo.toml?tree=rr";
        assert_eq!(behind_a_path("Cargo.toml?tree=rr").unwrap(), right);
    }
}
