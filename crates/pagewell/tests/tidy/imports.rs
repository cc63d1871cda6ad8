//! Which files of a crate know which others.

use std::collections::{BTreeMap, BTreeSet};

use crate::report;
use crate::repository::{Source, sources};
use crate::scanner::words;

/// More files than this never import each other in a circle.
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

/// The module of a file of a crate: `a::b` of `a/b.rs` and of `a/b/mod.rs`, nothing of `lib.rs`.
fn module(file: &str) -> String {
    let name = file.strip_suffix(".rs").unwrap_or(file);
    let name = name.strip_suffix("/mod").unwrap_or(name);
    if name == "lib" {
        return String::new();
    }
    name.replace('/', "::")
}

/// A path as it is from the top of the crate, if it is one of this crate.
fn absolute(path: &str, module: &str, is_module: impl Fn(&str) -> bool) -> Option<String> {
    let joined = |module: &str, rest: &str| [module, rest].join("::");
    let (first, rest) = path.split_once("::")?;
    let path = match first {
        "crate" => rest.to_owned(),
        "self" => joined(module, rest),
        "super" => {
            let (mut module, mut rest) = (module, rest);
            loop {
                module = module.rsplit_once("::").map_or("", |(parent, _)| parent);
                match rest.strip_prefix("super::") {
                    Some(inner) => rest = inner,
                    None => break joined(module, rest),
                }
            }
        }
        child if is_module(joined(module, child).trim_start_matches("::")) => joined(module, path),
        _ => return None,
    };
    Some(path.trim_start_matches("::").to_owned())
}

/// What a file imports of its crate, without that of its tests, and what it only shows.
fn imports(
    source: &Source,
    module: &str,
    is_module: impl Fn(&str) -> bool,
) -> (Vec<String>, Vec<String>) {
    let code = source.code.split("\nmod tests {").next().unwrap_or("");
    let (mut used, mut shown) = (Vec::new(), Vec::new());
    let mut rest = code.to_owned();
    for start in words(code, "use") {
        let end = start + code[start..].find(';').unwrap_or(0);
        let line = code[..start].rsplit('\n').next().unwrap_or("");
        let found = if line.trim_start().starts_with("pub") {
            &mut shown
        } else {
            &mut used
        };
        paths(&mut code[start + "use".len()..end].trim_start(), "", found);
        rest.replace_range(start..end, &" ".repeat(end - start));
    }
    for start in ["crate", "super"]
        .iter()
        .flat_map(|word| words(&rest, word))
    {
        let is_first = !rest[..start].ends_with(['(', ':']) && !rest[..start].ends_with("pub(in ");
        if is_first {
            paths(&mut &rest[start..], "", &mut used);
        }
    }
    let all = |found: Vec<String>| {
        let found = found.iter();
        found
            .filter_map(|path| absolute(path, module, &is_module))
            .collect()
    };
    (all(used), all(shown))
}

/// The modules that each module of a folder imports: those in which what it imports is defined,
/// wherever it is shown.
fn arrows(folder: &str, sources: &[Source]) -> BTreeMap<String, BTreeSet<String>> {
    let files: BTreeMap<String, &Source> = sources
        .iter()
        .filter_map(|source| {
            let file = source.path.to_str()?.strip_prefix(folder)?;
            Some((module(file), source))
        })
        .collect();
    let is_module = |path: &str| files.contains_key(path);
    let mut used = BTreeMap::new();
    let mut defined = BTreeMap::new();
    for (module, source) in &files {
        let (imported, shown) = imports(source, module, is_module);
        used.insert(module, imported);
        for path in shown {
            let name = path.rsplit("::").next().unwrap_or("");
            let name = [module.as_str(), name].join("::");
            defined.insert(name.trim_start_matches("::").to_owned(), path);
        }
    }
    let module_of = |path: &String| {
        let mut path = path;
        // As often as a name may be shown again.
        for _ in 0..8 {
            path = defined.get(path).unwrap_or(path);
        }
        let mut path = path.as_str();
        while !path.is_empty() && !is_module(path) {
            path = path.rsplit_once("::").map_or("", |(parent, _)| parent);
        }
        path.to_owned()
    };
    used.into_iter()
        .map(|(module, paths)| {
            let others = paths.iter().map(module_of);
            let others = others.filter(|other| other != module && is_module(other));
            (module.clone(), others.collect())
        })
        .collect()
}

/// The folder of the sources of the crate that a file belongs to: `crates/cache/src/`.
fn sources_of_crate(source: &Source) -> Option<String> {
    let mut names = source.path.to_str()?.split('/');
    let (top, name, src) = (names.next()?, names.next()?, names.next()?);
    let is_crate = ["crates", "lab"].contains(&top) && src == "src";
    is_crate.then(|| format!("{top}/{name}/src/"))
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
    let crates: BTreeSet<String> = sources.iter().filter_map(sources_of_crate).collect();
    assert!(crates.len() > 10, "the crates were not found");
    for folder in &crates {
        let arrows = arrows(folder, &sources);
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

#[test]
fn paths_are_found_from_the_top_of_the_crate() {
    let is_module = |path: &str| ["", "a", "a::b", "c"].contains(&path);
    let from = |module, path| absolute(path, module, is_module);
    assert_eq!(from("a::b", "crate::c::X"), Some("c::X".to_owned()));
    assert_eq!(from("a::b", "super::X"), Some("a::X".to_owned()));
    assert_eq!(from("a::b", "super::super::c::X"), Some("c::X".to_owned()));
    assert_eq!(from("a", "b::X"), Some("a::b::X".to_owned()));
    assert_eq!(from("", "a::X"), Some("a::X".to_owned()));
    assert_eq!(from("a::b", "std::fmt::Debug"), None);
    let files = ["lib.rs", "a.rs", "a/mod.rs", "a/b.rs"];
    assert_eq!(files.map(module), ["", "a", "a", "a::b"]);
}
