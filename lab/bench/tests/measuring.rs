//! `pagewell-bench`: what can be said without measuring, and that it ends as it should.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "what a test cannot do makes it fail"
)]

use std::ffi::OsStr;
use std::fs;
use std::process::{Command, Output};

fn output(arguments: &[impl AsRef<OsStr>]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pagewell-bench"));
    command.args(arguments).output().unwrap()
}

/// Standard output of what must succeed.
fn text(arguments: &[&str]) -> String {
    let output = output(arguments);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {error}");
    String::from_utf8(output.stdout).unwrap()
}

/// The one line on standard error of what must end so.
fn failed(code: i32, arguments: &[&str]) -> String {
    let output = output(arguments);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}");
    let line = String::from_utf8(output.stderr).unwrap();
    let is_line = line.starts_with("pagewell: ") && line.trim_end().lines().count() == 1;
    assert!(is_line, "{line}");
    line
}

fn document(seconds: &[f64]) -> String {
    format!(
        r#"{{"schema": 1, "rows": [{{"experiment": "hsfs", "case": "dd", "mode": "enhanced",
            "phase": "cold", "x": {{"seconds_each": {seconds:?}}}}}]}}"#
    )
}

#[test]
fn experiments_are_known_by_name() {
    let line = failed(2, &["nfs", "--sise", "1m"]);
    let told = line.contains("'--size'") && line.contains("'pagewell bench nfs --help'");
    assert!(told, "{line}");
    let line = failed(2, &["hfs"]);
    assert!(line.contains("hsfs") && line.contains("all"), "{line}");
    let line = failed(2, &["hsfs", "--repeat", "0"]);
    assert!(line.contains("--repeat"), "{line}");
    failed(2, &["compare", "one.json"]);
}

#[test]
fn nfs_is_measured_against_a_server_in_another_process() {
    let directory = tempfile::tempdir().unwrap();
    let json = directory.path().join("result");
    let words = "nfs --quick --size 1m --time-max 2 --json";
    let mut arguments: Vec<&OsStr> = words.split(' ').map(OsStr::new).collect();
    arguments.push(json.as_os_str());
    // It ends early, and what must hold may not in so short a time; what was measured is there.
    let ended = output(&arguments);
    let error = String::from_utf8_lossy(&ended.stderr);
    assert!(matches!(ended.status.code(), Some(0 | 1)), "{error}");
    let json: serde_json::Value = serde_json::from_slice(&fs::read(&json).unwrap()).unwrap();
    assert!(json["rows"].is_array(), "{json}");
    let none = output(&["nfs", "nfs://127.0.0.1:1/", "--quick"]);
    let out = String::from_utf8_lossy(&none.stdout);
    assert_eq!(none.status.code(), Some(1), "{out}");
    assert!(out.contains("127.0.0.1"), "{out}");
}

#[test]
fn results_are_compared() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    for (program, seconds) in [("before", 1.0), ("after", 2.0)] {
        fs::create_dir(path(program)).unwrap();
        for (number, noise) in [1.0, 1.01, 0.99, 1.02].into_iter().enumerate() {
            let file = format!("{program}/{number}.json");
            fs::write(path(&file), document(&[seconds * noise])).unwrap();
        }
    }
    fs::write(path("broken"), "{").unwrap();
    let same = text(&["compare", &path("before"), &path("before")]);
    assert!(same.contains("not proven (needs"), "{same}");
    let faster = text(&["compare", &path("after"), &path("before")]);
    assert!(faster.contains("better"), "{faster}");
    assert!(
        faster.contains("4 and 4 runs, 1 cases, 1 proven"),
        "{faster}"
    );
    let one = path("before/0.json");
    let once = text(&["compare", &one, &path("after/0.json")]);
    assert!(once.contains("too few runs"), "{once}");
    let line = failed(1, &["compare", directory.path().to_str().unwrap(), &one]);
    assert!(line.contains("no .json file"), "{line}");
    let line = failed(1, &["compare", &path("before"), &path("broken")]);
    assert!(line.contains("broken"), "{line}");
    let line = failed(1, &["compare", &path("before"), &path("none")]);
    assert!(line.contains("none"), "{line}");
}

#[test]
fn help_names_the_experiments_and_the_manual_has_a_page_for_each_command() {
    let help = text(&["--help"]);
    assert!(
        help.contains("Examples:") && help.contains("Usage: pagewell bench"),
        "{help}"
    );
    for experiment in ["hsfs", "seekreadwrite", "direct", "nfs", "filecache", "all"] {
        assert!(help.contains(&format!("- {experiment}:")), "{help}");
    }
    let pages = tempfile::tempdir().unwrap();
    text(&["man", pages.path().to_str().unwrap()]);
    for name in ["", "-compare", "-direct", "-nfs", "-seekreadwrite"] {
        let page = fs::read_to_string(pages.path().join(format!("pagewell-bench{name}.1")));
        let page = page.unwrap();
        for part in [
            ".SH EXAMPLES\n.nf\n  pagewell bench",
            ".SH ENVIRONMENT",
            ".SH \"SEE ALSO\"",
        ] {
            assert!(page.contains(part), "{name}: {page} lacks {part}");
        }
    }
}
