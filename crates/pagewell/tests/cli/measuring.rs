//! `bench`: what can be said without measuring.

use std::ffi::OsStr;
use std::fs;

use crate::support::run;

fn document(seconds: &[f64]) -> String {
    format!(
        r#"{{"schema": 1, "rows": [{{"experiment": "hsfs", "case": "dd", "mode": "enhanced",
            "phase": "cold", "x": {{"seconds_each": {seconds:?}}}}}]}}"#
    )
}

#[test]
fn experiments_are_known_by_name() {
    let line = run(&["bench", "hfs"]).failed(2);
    assert!(line.contains("hsfs") && line.contains("all"), "{line}");
    let line = run(&["bench", "hsfs", "--repeat", "0"]).failed(2);
    assert!(line.contains("--repeat"), "{line}");
    run(&["bench", "compare", "one.json"]).failed(2);
}

#[test]
fn nfs_is_measured_against_a_server_in_another_process() {
    let directory = tempfile::tempdir().unwrap();
    let json = directory.path().join("result");
    let words = "bench nfs --quick --size 1m --time-max 2 --json";
    let mut arguments: Vec<&OsStr> = words.split(' ').map(OsStr::new).collect();
    arguments.push(json.as_os_str());
    // It ends early, and what must hold may not in so short a time; what was measured is there.
    let ended = run(&arguments);
    assert!(matches!(ended.code, Some(0 | 1)), "{}", ended.err);
    let json: serde_json::Value = serde_json::from_slice(&fs::read(&json).unwrap()).unwrap();
    assert!(json["rows"].is_array(), "{json}");
    let none = run(&["bench", "nfs", "nfs://127.0.0.1:1/", "--quick"]);
    let out = String::from_utf8_lossy(&none.out);
    assert!(
        none.code == Some(1) && out.contains("127.0.0.1"),
        "{out} {}",
        none.err
    );
}

#[test]
fn results_are_compared() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    for (program, seconds) in [("before", 1.0), ("after", 2.0)] {
        fs::create_dir(path(program)).unwrap();
        for (number, noise) in [1.0, 1.01, 0.99].into_iter().enumerate() {
            let file = format!("{program}/{number}.json");
            fs::write(path(&file), document(&[seconds * noise])).unwrap();
        }
    }
    fs::write(path("broken"), "{").unwrap();
    let same = run(&["bench", "compare", &path("before"), &path("before")]).text();
    assert!(same.contains("not proven (needs"), "{same}");
    let faster = run(&["bench", "compare", &path("after"), &path("before")]).text();
    assert!(faster.contains("better"), "{faster}");
    assert!(
        faster.contains("3 and 3 runs, 1 cases, 1 proven"),
        "{faster}"
    );
    let one = path("before/0.json");
    let once = run(&["bench", "compare", &one, &path("after/0.json")]).text();
    assert!(once.contains("too few cases and runs"), "{once}");
    let line = run(&["bench", "compare", directory.path().to_str().unwrap(), &one]).failed(1);
    assert!(line.contains("no .json file"), "{line}");
    let line = run(&["bench", "compare", &path("before"), &path("broken")]).failed(1);
    assert!(line.contains("broken"), "{line}");
    let line = run(&["bench", "compare", &path("before"), &path("none")]).failed(1);
    assert!(line.contains("none"), "{line}");
}
