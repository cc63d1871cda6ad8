//! The files that docs/ARCHITECTURE.md lists on the paths of calls are there, are listed once, are
//! as many as it states, and never become more.

use std::collections::BTreeSet;
use std::fs;

use crate::report;
use crate::repository::{files, repository};

/// The files on each path. A path that became shorter lowers its number here.
const FILES_MAX: [(&str, usize); 4] = [
    ("a READ of a directory", 29),
    ("a READ of an image", 32),
    ("WRITE and COMMIT of an image", 59),
    ("the read through FUSE", 44),
];

/// The files of `text`, such as ``rpcd `pool reply/{batch,send_queue}`; fs `payload` ``, each as
/// `crate/src/name.rs`.
fn listed(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for part in text.split(';') {
        let mut pieces = part.split('`');
        let name = pieces.next().unwrap_or("").trim();
        for file in pieces.next().unwrap_or("").split_whitespace() {
            let (before, inner) = file.split_once('{').unwrap_or((file, ""));
            let alternatives = inner.trim_end_matches('}').split(',');
            found.extend(alternatives.map(|last| format!("crates/{name}/src/{before}{last}.rs")));
        }
    }
    found
}

/// The rows of the table, each with its call, the number of files that it states, and the files.
fn rows(text: &str) -> Vec<(String, usize, Vec<String>)> {
    let table = text.split("### The files on these paths").nth(1);
    let lines = table.unwrap_or("").lines();
    let rows = lines.skip_while(|line| !line.starts_with("|---")).skip(1);
    rows.take_while(|line| line.starts_with('|'))
        .filter_map(|line| {
            let mut cells = line.trim_matches('|').split(" | ");
            let (call, count) = cells.next()?.rsplit_once(": ")?;
            let files = listed(cells.next()?);
            Some((call.trim().to_owned(), count.trim().parse().ok()?, files))
        })
        .collect()
}

#[test]
fn the_files_on_the_paths_of_calls_are_there_and_counted() {
    let text = fs::read_to_string(repository().join("docs/ARCHITECTURE.md"));
    let text = text.expect("docs/ARCHITECTURE.md");
    let present: BTreeSet<String> = files()
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    let rows = rows(&text);
    let mut wrong = Vec::new();
    for (call, stated, files) in &rows {
        if files.len() != *stated {
            let count = files.len();
            wrong.push(format!("{call}: {count} files are listed, {stated} stated"));
        }
        let unknown = files.iter().filter(|file| !present.contains(*file));
        wrong.extend(unknown.map(|file| format!("{call}: there is no {file}")));
        let once: BTreeSet<&String> = files.iter().collect();
        if once.len() != files.len() {
            wrong.push(format!("{call}: a file is listed twice"));
        }
    }
    let counts: Vec<usize> = rows.iter().map(|(_, stated, _)| *stated).collect();
    let [each, directory, image, write, commit, fuse] = counts[..] else {
        wrong.push(format!("six paths are expected, not {counts:?}"));
        return report(wrong);
    };
    // A WRITE of an image passes what a READ of it passes, but the payload.
    let passed = [
        each + directory,
        each + image,
        each + image - 1 + write + commit,
        fuse,
    ];
    for ((path, files_max), files) in FILES_MAX.into_iter().zip(passed) {
        if files != files_max {
            wrong.push(format!(
                "{path} passes {files} files, {files_max} is the bound"
            ));
        }
    }
    let [of_directory, of_image, change, fuse] = passed;
    let sums = format!(
        "A READ passes {of_directory} files for a directory and {of_image} for an image, {} in \
         all; WRITE and COMMIT together pass {change}, the read through FUSE {fuse}.",
        each + directory + image,
    );
    if !text
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
        .contains(&sums)
    {
        wrong.push(format!("it should say: {sums}"));
    }
    report(wrong);
}

#[test]
fn files_of_a_row_are_read() {
    assert_eq!(
        listed("rpcd `pool reply/{batch,send_queue}`; fs `payload`"),
        [
            "crates/rpcd/src/pool.rs",
            "crates/rpcd/src/reply/batch.rs",
            "crates/rpcd/src/reply/send_queue.rs",
            "crates/fs/src/payload.rs",
        ]
    );
}
