//! `pagewell bench compare`.

use std::fs;
use std::io::Write;
use std::path::Path;

use anyhow::Context;
use pagewell::command_line::Outcome;
use pagewell_load::measure::compare_documents;

/// Compares, and prints what has changed.
pub(crate) fn run(before: &Path, after: &Path) -> anyhow::Result<Outcome> {
    let found =
        compare_documents(&read_all(before)?, &read_all(after)?).map_err(anyhow::Error::msg)?;
    std::io::stdout().lock().write_all(found.text.as_bytes())?;
    Ok(Outcome::from_failures(found.worse as u64))
}

/// The results in a folder, by name, or that of one file.
fn read_all(path: &Path) -> anyhow::Result<Vec<serde_json::Value>> {
    if !path.is_dir() {
        return Ok(vec![read(path)?]);
    }
    let entries = fs::read_dir(path).with_context(|| path.display().to_string())?;
    let mut files = Vec::new();
    for entry in entries {
        let file = entry.with_context(|| path.display().to_string())?.path();
        if file
            .extension()
            .is_some_and(|extension| extension == "json")
        {
            files.push(file);
        }
    }
    files.sort();
    anyhow::ensure!(!files.is_empty(), "{}: holds no .json file", path.display());
    files.iter().map(|file| read(file)).collect()
}

pub(crate) fn read(path: &Path) -> anyhow::Result<serde_json::Value> {
    let text = fs::read(path).with_context(|| path.display().to_string())?;
    serde_json::from_slice(&text).with_context(|| {
        let path = path.display();
        format!("{path}: is not what pagewell bench --json writes")
    })
}
