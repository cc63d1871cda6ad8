//! Types own their state: each has its `impl` in few files, and no field is open to other modules
//! but those of plain records, whose fields are all `pub`.
//!
//! Weakness: only their names distinguish types. A name that a crate defines in two files may have
//! its `impl` in twice as many.

use std::collections::{BTreeMap, BTreeSet};

use crate::repository::{Source, sources};
use crate::scanner::words;
use crate::{at, report};

/// Files with an `impl` of one type.
const IMPL_FILES_MAX: usize = 3;
/// Crates with open fields, and how many there were before this rule, or are left.
const OPEN: [(&str, usize); 12] = [
    ("device", 11),
    ("fs", 1),
    ("fuse", 1),
    ("logging", 9),
    ("monitor", 10),
    ("nfs3d", 12),
    ("pagewell", 218),
    ("source-dir", 15),
    ("source-image", 9),
    ("source-iso", 14),
    ("source-ram", 16),
    ("sunrpc", 42),
];

/// The crate of a file of production.
fn crate_of(source: &Source) -> Option<String> {
    let path = source.path.to_str()?.strip_prefix("crates/")?;
    let (name, file) = path.split_once("/src/")?;
    let is_test = file.contains("tests/") || file.ends_with("tests.rs") || file == "testing.rs";
    (!is_test).then(|| name.to_owned())
}

/// The type that an `impl` is of, whose code begins behind that word.
fn type_of(code: &str) -> Option<String> {
    let head = code.split('{').next()?;
    let head = match head.trim_start().strip_prefix('<') {
        Some(_) => behind_generics(head)?,
        None => head,
    };
    let of = head.rsplit(" for ").next()?;
    let path = of.split(['<', ' ', '\n']).find(|word| !word.is_empty())?;
    let name = path.rsplit("::").next()?.trim_start_matches('&');
    let is_name = name.starts_with(|first: char| first.is_ascii_uppercase());
    is_name.then(|| name.to_owned())
}

/// What comes behind `<...>`.
fn behind_generics(head: &str) -> Option<&str> {
    let mut depth = 0;
    let mut before = ' ';
    for (offset, character) in head.char_indices() {
        match character {
            '<' => depth += 1,
            '>' if before != '-' => depth -= 1,
            _ => {}
        }
        if depth == 0 && character == '>' {
            return head.get(offset + 1..);
        }
        before = character;
    }
    None
}

/// The names that a file defines.
fn defined(code: &str) -> BTreeSet<String> {
    let name = |start: usize| {
        let word = code[start..].split_whitespace().nth(1)?;
        let end = word.find(|c: char| !c.is_alphanumeric());
        Some(word[..end.unwrap_or(word.len())].to_owned())
    };
    let kinds = ["struct", "enum"].into_iter();
    kinds
        .flat_map(|kind| words(code, kind).filter_map(name))
        .collect()
}

/// Whether a line declares a field that is open to a part of the crate.
fn opens_a_field(line: &str) -> bool {
    let scopes = ["pub(super) ", "pub(crate) ", "pub(in "];
    let is_tuple = line.contains("struct ")
        && scopes
            .iter()
            .any(|scope| line.contains(&format!("({scope}")));
    let named = scopes
        .iter()
        .find_map(|scope| line.trim_start().strip_prefix(scope));
    let is_named = named.is_some_and(|rest| {
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_');
        let behind = end.map_or("", |end| &rest[end..]);
        behind.starts_with(": ")
    });
    is_tuple || is_named
}

#[test]
fn a_type_has_its_impl_in_few_files() {
    let mut files: BTreeMap<(String, String), BTreeSet<String>> = BTreeMap::new();
    let mut places: BTreeMap<(String, String), usize> = BTreeMap::new();
    for source in sources() {
        let Some(name) = crate_of(&source) else {
            continue;
        };
        for defined in defined(&source.code) {
            *places.entry((name.clone(), defined)).or_default() += 1;
        }
        let starts = words(&source.code, "impl");
        let blocks = starts.filter(|start| source.code[..*start].ends_with('\n'));
        for of in blocks.filter_map(|start| type_of(&source.code[start + 4..])) {
            let path = source.path.display().to_string();
            files.entry((name.clone(), of)).or_default().insert(path);
        }
    }
    let mut found = Vec::new();
    for (key, files) in files {
        let most = IMPL_FILES_MAX * places.get(&key).copied().unwrap_or(usize::MAX / 8);
        if files.len() > most {
            let files: Vec<String> = files.into_iter().collect();
            found.push(format!("{} has its impl in {}", key.1, files.join(", ")));
        }
    }
    report(found);
}

#[test]
fn no_field_is_open_to_a_part_of_its_crate() {
    let mut open: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for source in sources() {
        let Some(name) = crate_of(&source) else {
            continue;
        };
        let lines = source.code.lines().enumerate();
        let lines = lines.filter(|(_, line)| opens_a_field(line));
        let found = lines.map(|(number, _)| at(&source, number, "a field that other modules use"));
        open.entry(name).or_default().extend(found);
    }
    let mut found = Vec::new();
    for (name, fields) in open {
        let excepted = OPEN.iter().find(|(excepted, _)| *excepted == name);
        match excepted.map_or(0, |(_, count)| *count) {
            0 => found.extend(fields),
            count if count == fields.len() => {}
            count => {
                let now = fields.len();
                found.push(format!("{name}: {now} open fields, {count} are excepted"));
            }
        }
    }
    report(found);
}

#[test]
fn types_and_open_fields_are_found() {
    let of = |code: &str| type_of(code);
    assert_eq!(of(" Writer {"), Some("Writer".to_owned()));
    assert_eq!(of("<T: Fn() -> u8> Of<T> {"), Some("Of".to_owned()));
    assert_eq!(of(" fmt::Debug for a::Tree<'_> {"), Some("Tree".to_owned()));
    assert_eq!(of(" Code for u32 {"), None);
    assert!(opens_a_field("    pub(super) name: u8,"));
    assert!(opens_a_field("struct Of(pub(crate) u8);"));
    for line in [
        "    pub name: u8,",
        "    pub(super) fn a(b: u8) {",
        "pub(crate) use a::b;",
    ] {
        assert!(!opens_a_field(line), "{line}");
    }
}
