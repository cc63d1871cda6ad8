//! The files of this repository.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::scanner::code_of;

/// One Rust file.
pub(crate) struct Source {
    /// From the top of the repository.
    pub(crate) path: PathBuf,
    /// All of it.
    pub(crate) text: String,
    /// The text with comments and the insides of strings blanked; lines stay lines.
    pub(crate) code: String,
}

/// The top of the repository.
pub(crate) fn repository() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors()
        .nth(2)
        .expect("crates/pagewell is two below")
        .to_path_buf()
}

/// All files under version control and new ones not ignored, or all files when there is no git.
pub(crate) fn files() -> Vec<PathBuf> {
    let listed = Command::new("git")
        .args([
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ])
        .current_dir(repository())
        .output();
    let mut found = match listed {
        Ok(output) if output.status.success() => String::from_utf8_lossy(&output.stdout)
            .split_terminator('\0')
            .map(PathBuf::from)
            .filter(|path| repository().join(path).is_file())
            .collect(),
        _ => walk(&repository()),
    };
    found.sort();
    assert!(
        found.len() > 10,
        "the files of the repository were not found"
    );
    found
}

fn walk(top: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![top.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)
            .expect("a folder of the repository")
            .flatten()
        {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            let kind = entry.file_type().expect("a type");
            if kind.is_dir() && !name.starts_with('.') && !name.starts_with("target") {
                folders.push(entry.path());
            } else if kind.is_file() {
                let path = entry.path();
                found.push(path.strip_prefix(top).expect("below the top").to_path_buf());
            }
        }
    }
    found
}

/// All Rust files.
pub(crate) fn sources() -> Vec<Source> {
    let rust = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "rs");
    let read = |path: PathBuf| {
        let text = fs::read_to_string(repository().join(&path)).expect("UTF-8");
        let code = code_of(&text);
        Source { path, text, code }
    };
    files().into_iter().filter(rust).map(read).collect()
}
