//! House rules that no lint knows: sizes of files and functions, columns, leftovers, arguments
//! for `unsafe`, dead files, paths of one machine, and crates that the documents forget.
#![allow(
    clippy::expect_used,
    reason = "a test that cannot read the repository fails"
)]

mod figures;
mod imports;
mod parts;
mod paths;
mod repository;
mod scanner;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use repository::{Source, files, repository, sources};
use scanner::{functions, is_word, line_of, modules, words};

const FILE_LINES_MAX: usize = 800;
const FUNCTION_LINES_MAX: usize = 70;
const COLUMNS_MAX: usize = 100;

/// Built so that this file does not contain what it looks for.
fn leftovers() -> Vec<String> {
    let marks = ["todo", "unimplemented", "dbg"];
    let notes = [["FIX", "ME"], ["XX", "X"], ["TO", "DO"]];
    let marks = marks.iter().map(|name| format!("{name}!("));
    marks
        .chain(notes.iter().map(|parts| parts.concat()))
        .collect()
}

fn machine_paths() -> Vec<String> {
    ["work", "root", "home"]
        .iter()
        .map(|name| format!("/{name}/"))
        .collect()
}

/// Fails with all that was found, one `file:line: what` each.
fn report(found: Vec<String>) {
    assert!(found.is_empty(), "\n{}\n", found.join("\n"));
}

fn at(source: &Source, line: usize, what: &str) -> String {
    format!("{}:{}: {what}", source.path.display(), line + 1)
}

#[test]
fn files_and_functions_are_short() {
    let mut found = Vec::new();
    for source in sources() {
        let lines = source.text.lines().count();
        if lines > FILE_LINES_MAX {
            let what = format!("the file has {lines} lines, more than {FILE_LINES_MAX}");
            found.push(at(&source, lines - 1, &what));
        }
        for (first, last) in functions(&source.code) {
            let lines = last - first + 1;
            if lines > FUNCTION_LINES_MAX {
                let what = format!("a function of {lines} lines, more than {FUNCTION_LINES_MAX}");
                found.push(at(&source, first, &what));
            }
        }
    }
    report(found);
}

#[test]
fn lines_are_narrow_and_end_clean() {
    let mut found = Vec::new();
    for source in sources() {
        for (number, line) in source.text.lines().enumerate() {
            let columns = line.chars().count();
            if columns > COLUMNS_MAX {
                let what = format!("{columns} columns, more than {COLUMNS_MAX}");
                found.push(at(&source, number, &what));
            }
            if line.ends_with([' ', '\t', '\r']) {
                found.push(at(&source, number, "white space at the end of the line"));
            }
        }
        if !source.text.is_empty() && !source.text.ends_with('\n') {
            let last = source.text.lines().count() - 1;
            found.push(at(&source, last, "no line break at the end of the file"));
        }
    }
    report(found);
}

#[test]
fn nothing_is_left_unfinished_or_bound_to_one_machine() {
    let mut found = Vec::new();
    let leftovers = leftovers();
    let paths = machine_paths();
    for source in sources() {
        for (number, line) in source.text.lines().enumerate() {
            for mark in &leftovers {
                if line
                    .match_indices(mark.as_str())
                    .any(|(start, _)| is_word(line, start, mark.len()) || mark.ends_with('('))
                {
                    found.push(at(&source, number, &format!("'{mark}' is left")));
                }
            }
            for path in &paths {
                if line.contains(path.as_str()) {
                    found.push(at(
                        &source,
                        number,
                        &format!("'{path}' is a path of one machine"),
                    ));
                }
            }
        }
    }
    report(found);
}

/// Each `unsafe {` and `unsafe impl` has `SAFETY:` in the comment above it or on its line.
#[test]
fn unsafe_is_argued() {
    let mut found = Vec::new();
    for source in sources() {
        let lines: Vec<&str> = source.text.lines().collect();
        for start in words(&source.code, "unsafe") {
            let after = source.code[start + "unsafe".len()..].trim_start();
            if !after.starts_with('{') && !after.starts_with("impl") {
                continue;
            }
            let number = line_of(&source.code, start);
            if !is_argued(&lines, number) {
                found.push(at(&source, number, "unsafe without a SAFETY comment"));
            }
        }
    }
    report(found);
}

fn is_argued(lines: &[&str], number: usize) -> bool {
    // The statement that holds the block may have begun on earlier lines: up to the nearest
    // comment, at most four lines of code away.
    let mut code_lines = 0;
    for line in lines[..=number].iter().rev() {
        let line = line.trim();
        if line.contains("SAFETY:") {
            return true;
        }
        if !line.starts_with("//") {
            code_lines += 1;
        }
        if code_lines > 4 || line.is_empty() {
            return false;
        }
    }
    false
}

/// Every file is the root of a target or named by a `mod` in the file that owns its folder.
#[test]
fn no_file_is_dead() {
    let sources = sources();
    let by_path: BTreeMap<&Path, &Source> = sources
        .iter()
        .map(|source| (source.path.as_path(), source))
        .collect();
    let mut reached = BTreeSet::new();
    let mut waiting: Vec<&Path> = by_path
        .keys()
        .copied()
        .filter(|path| is_root(path))
        .collect();
    while let Some(path) = waiting.pop() {
        if !reached.insert(path) {
            continue;
        }
        for name in modules(&by_path[path].code) {
            let folder = folder_of(path);
            for file in [
                folder.join(format!("{name}.rs")),
                folder.join(&name).join("mod.rs"),
            ] {
                waiting.extend(
                    by_path
                        .get_key_value(file.as_path())
                        .map(|(known, _)| *known),
                );
            }
        }
    }
    let dead = by_path.iter().filter(|(path, _)| !reached.contains(*path));
    report(
        dead.map(|(_, source)| at(source, 0, "no `mod` names this file"))
            .collect(),
    );
}

/// `src/lib.rs`, `src/main.rs`, `build.rs`, and what lies directly in `src/bin`, `tests`,
/// `benches` and `examples`.
fn is_root(path: &Path) -> bool {
    let parent = path.parent().and_then(Path::file_name).unwrap_or_default();
    let name = path.file_name().unwrap_or_default();
    let grandparent = path
        .ancestors()
        .nth(2)
        .and_then(Path::file_name)
        .unwrap_or_default();
    let targets = ["tests", "benches", "examples", "bin", "fuzz_targets"];
    targets.iter().any(|folder| parent == *folder)
        || parent == "src" && (name == "lib.rs" || name == "main.rs")
        || targets.iter().any(|folder| grandparent == *folder) && name == "main.rs"
        || name == "build.rs"
}

/// Where the modules of a file lie: beside it when it owns its folder, else in one of its name.
fn folder_of(path: &Path) -> PathBuf {
    let parent = path.parent().unwrap_or(Path::new(""));
    let owner = is_root(path) || path.file_name().is_some_and(|name| name == "mod.rs");
    if owner {
        parent.to_path_buf()
    } else {
        path.with_extension("")
    }
}

/// What writes to the log can be asked for by the name that its lines have, and is documented.
#[test]
fn every_crate_that_logs_has_a_level() {
    let read = |path: &Path| fs::read_to_string(repository().join(path)).expect("a file");
    let documented = read(Path::new("docs/LOGGING.md"));
    let known = pagewell_logging::filter::CRATES;
    let mut wrong: Vec<_> = known
        .iter()
        .filter(|name| !documented.contains(&format!("`{name}`")))
        .map(|name| format!("docs/LOGGING.md:1: no `{name}`"))
        .collect();
    let is_manifest = |path: &PathBuf| path.ends_with("Cargo.toml") && path.starts_with("crates");
    let logs = |path: &PathBuf| read(path).contains("\ntracing.workspace");
    let manifests: Vec<_> = files().into_iter().filter(is_manifest).collect();
    let logging: Vec<_> = manifests.into_iter().filter(logs).collect();
    assert!(logging.len() > 5, "{logging:?}");
    for path in logging {
        let own = path.parent().and_then(Path::file_name).expect("a crate");
        let own = own.to_string_lossy().replace('-', "_");
        let shown = pagewell_logging::filter::crate_of(&format!("pagewell_{own}"));
        if !known.contains(&&*shown) {
            wrong.push(format!("{}:1: no level for {shown}", path.display()));
        }
    }
    report(wrong);
}

#[test]
fn the_architecture_names_every_crate() {
    let path = repository().join("docs/ARCHITECTURE.md");
    let text = fs::read_to_string(&path).expect("docs/ARCHITECTURE.md");
    let manifests = files()
        .into_iter()
        .filter(|path| path.ends_with("Cargo.toml"));
    let crates =
        manifests.filter_map(|path| Some(path.parent()?.file_name()?.to_str()?.to_owned()));
    let missing = crates.filter(|name| !text.contains(&format!("`{name}`")));
    report(
        missing
            .map(|name| format!("docs/ARCHITECTURE.md:1: no `{name}`"))
            .collect(),
    );
}

/// Only their tests may.
#[test]
fn what_is_shipped_needs_nothing_of_the_laboratory() {
    let of = |folder: &str| {
        let is_manifest = |path: &PathBuf| path.ends_with("Cargo.toml") && path.starts_with(folder);
        files().into_iter().filter(is_manifest).collect::<Vec<_>>()
    };
    let read = |path: &PathBuf| fs::read_to_string(repository().join(path)).expect("a manifest");
    let name = |text: &str| {
        let name = text.lines().find_map(|line| line.strip_prefix("name = "));
        name.map(|name| name.trim_matches('"').to_owned())
    };
    let laboratory: BTreeSet<String> = of("lab")
        .iter()
        .filter_map(|path| name(&read(path)))
        .collect();
    let shipped = of("crates");
    assert!(
        !laboratory.is_empty() && !shipped.is_empty(),
        "no manifests were found"
    );
    let mut found = Vec::new();
    for path in shipped {
        let mut section = String::new();
        for (number, line) in read(&path).lines().enumerate() {
            if line.starts_with('[') {
                section = line.trim_matches(['[', ']']).to_owned();
            }
            let names = [line, section.as_str()].map(|text| text.rsplit("dependencies.").next());
            let needed = names.into_iter().flatten().find_map(|text| {
                let end = text.find(['.', ' ', '=']).unwrap_or(text.len());
                laboratory.get(&text[..end])
            });
            let is_for_tests = section.starts_with("dev-dependencies") || section.contains(".dev-");
            if let Some(needed) = needed.filter(|_| !is_for_tests) {
                let place = path.display();
                found.push(format!(
                    "{place}:{}: {needed} is of the laboratory",
                    number + 1
                ));
            }
        }
    }
    report(found);
}

#[test]
fn make_asks_for_groups_of_packages_that_are_there() {
    let read = |name: &str| fs::read_to_string(repository().join(name)).expect("a file");
    let script = read("scripts/packages.sh");
    let table = script.split('\'').nth(1).expect("a table");
    let known: BTreeSet<&str> = table
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    let makefile = read("Makefile");
    let asked = makefile
        .lines()
        .filter_map(|line| line.split_once("scripts/packages.sh "))
        .flat_map(|(_, groups)| groups.split_whitespace());
    let unknown = asked.filter(|group| !known.contains(group));
    report(unknown.map(str::to_owned).collect());
}
