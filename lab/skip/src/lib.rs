//! How a test says that it cannot run here.
//!
//! The test runner keeps the output of a test that passes, so that a test which returns early
//! looks like one that ran. A skipped test therefore also writes a line into the file that the
//! environment variable `PAGEWELL_SKIPS` names; `make test` lists these lines, and fails because of
//! them where `CI` is set.

use std::fmt::Display;
use std::fs::OpenOptions;
use std::io::Write;
use std::thread;

/// Names the file that gets one line for each skipped test.
pub const FILE_VARIABLE: &str = "PAGEWELL_SKIPS";

/// Records that the calling test does not run, or not all of it, and why. The test returns next.
///
/// # Panics
///
/// When the file that `PAGEWELL_SKIPS` names cannot be written: a skip that nobody sees is the
/// fault that this function is against.
pub fn skip(why: impl Display) {
    eprintln!("SKIPPED: {why}");
    let Some(path) = std::env::var_os(FILE_VARIABLE) else {
        return;
    };
    let program = std::env::current_exe().unwrap_or_default();
    let program = program.file_stem().unwrap_or_default().to_string_lossy();
    // The runner names a thread after its test; the hash behind the program's name says nothing.
    let program = program.rsplit_once('-').map_or(&*program, |(name, _)| name);
    let thread = thread::current();
    let line = format!("{program} {}: {why}\n", thread.name().unwrap_or("?"));
    let file = OpenOptions::new().append(true).create(true).open(&path);
    let written = file.and_then(|mut file| file.write_all(line.as_bytes()));
    assert!(written.is_ok(), "{}: {written:?}", path.display());
}
