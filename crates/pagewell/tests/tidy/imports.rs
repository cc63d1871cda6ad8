//! Which files of a crate know which others.

use std::collections::{BTreeMap, BTreeSet};

use crate::report;
use crate::repository::{Source, sources};
use crate::scanner::words;

/// Where no more than [`CIRCLE_FILES_MAX`] files import each other in a circle.
const UNTIED: [&str; 1] = ["crates/cache/src/"];
const CIRCLE_FILES_MAX: usize = 3;

/// The paths behind the first word of a tree of imports: of `::{a, b::c}`, `a` and `b::c`.
fn paths(rest: &mut &str, prefix: &str, found: &mut Vec<String>) {
    let mut path = prefix.to_owned();
    loop {
        let is_name = |character: char| character.is_alphanumeric() || character == '_';
        let end = rest.find(|character| !is_name(character));
        let (name, behind) = rest.split_at(end.unwrap_or(rest.len()));
        path += name;
        let Some(inner) = behind.strip_prefix("::") else {
            *rest = behind;
            break;
        };
        path += "::";
        let Some(mut list) = inner.strip_prefix('{') else {
            *rest = inner;
            continue;
        };
        loop {
            list =
                list.trim_start_matches(|character: char| !is_name(character) && character != '}');
            if list.is_empty() || list.starts_with('}') {
                *rest = list.strip_prefix('}').unwrap_or(list);
                return;
            }
            paths(&mut list, &path, found);
            list = &list[list.find([',', '}']).unwrap_or(list.len())..];
        }
    }
    found.push(path.trim_start_matches("::").to_owned());
}

/// What a file imports of its crate, without that of its tests.
fn imports(source: &Source) -> Vec<String> {
    let code = source.code.split("\nmod tests {").next().unwrap_or("");
    let mut found = Vec::new();
    for start in words(code, "crate") {
        paths(&mut &code[start + "crate".len()..], "", &mut found);
    }
    found
}

/// The files that each file of a folder imports, by name without `.rs`.
fn arrows(folder: &str, sources: &[Source]) -> BTreeMap<String, BTreeSet<String>> {
    let name = |source: &Source| {
        let path = source.path.to_str()?.strip_prefix(folder)?;
        Some(path.strip_suffix(".rs")?.replace('/', "::"))
    };
    let files: BTreeMap<String, &Source> = sources
        .iter()
        .filter_map(|source| Some((name(source)?, source)))
        .collect();
    // A name that the crate shows is imported from where it is.
    let mut shown = BTreeMap::new();
    if let Some(root) = files.get("lib") {
        for start in words(&root.code, "pub") {
            let Some(tree) = root.code[start..].strip_prefix("pub use ") else {
                continue;
            };
            let mut found = Vec::new();
            paths(&mut &*tree, "", &mut found);
            let names = found.into_iter().filter_map(|path| {
                let (module, name) = path.rsplit_once("::")?;
                Some((name.to_owned(), module.to_owned()))
            });
            shown.extend(names);
        }
    }
    let file_of = |path: &String| {
        let mut path = shown.get(path).unwrap_or(path).as_str();
        while !files.contains_key(path) {
            path = path.rsplit_once("::")?.0;
        }
        Some(path.to_owned())
    };
    let known = |source: &Source| imports(source).iter().filter_map(file_of).collect();
    files
        .iter()
        .map(|(name, source)| (name.clone(), known(source)))
        .collect()
}

/// All files that are imported by a file, or by one that it imports, and so on.
fn reached<'a>(from: &str, arrows: &'a BTreeMap<String, BTreeSet<String>>) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut waiting: Vec<&str> = arrows[from].iter().map(String::as_str).collect();
    while let Some(file) = waiting.pop() {
        if reached.insert(file) {
            waiting.extend(arrows[file].iter().map(String::as_str));
        }
    }
    reached
}

#[test]
fn files_import_each_other_one_way() {
    let sources = sources();
    let mut found = Vec::new();
    for folder in UNTIED {
        let arrows = arrows(folder, &sources);
        assert!(arrows.len() > 10, "the files of {folder} were not found");
        let all: BTreeMap<_, _> = arrows
            .keys()
            .map(|file| (file.as_str(), reached(file, &arrows)))
            .collect();
        for (file, others) in &all {
            let circle = others.iter().filter(|other| all[**other].contains(file));
            let circle: Vec<_> = circle.copied().collect();
            if circle.len() > CIRCLE_FILES_MAX {
                let names = circle.join(", ");
                found.push(format!("{folder}{file}: imports itself through {names}"));
            }
        }
    }
    report(found);
}

#[test]
fn trees_of_imports_are_understood() {
    let read = |tree: &str| {
        let mut found = Vec::new();
        paths(&mut &*tree, "", &mut found);
        found
    };
    assert_eq!(read("::a::B;"), ["a::B"]);
    assert_eq!(
        read("::{A, b::{self, C as D}, e::F};"),
        ["A", "b::self", "b::C", "e::F"]
    );
    assert_eq!(read("::a::{\n    B,\n};\nuse c::D;"), ["a::B"]);
    assert_eq!(read("::a::{"), Vec::<String>::new());
}
