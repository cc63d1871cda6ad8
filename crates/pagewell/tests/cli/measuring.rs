//! `bench`: what can be said without measuring.

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
fn results_are_compared() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    fs::write(path("before"), document(&[1.0, 1.01, 0.99])).unwrap();
    fs::write(path("after"), document(&[2.0, 2.01, 1.99])).unwrap();
    fs::write(path("broken"), "{").unwrap();
    let same = run(&["bench", "compare", &path("before"), &path("before")]).text();
    assert!(same.contains("not proven"), "{same}");
    let faster = run(&["bench", "compare", &path("after"), &path("before")]).text();
    assert!(faster.contains("better"), "{faster}");
    let line = run(&["bench", "compare", &path("before"), &path("broken")]).failed(1);
    assert!(line.contains("broken"), "{line}");
    let line = run(&["bench", "compare", &path("before"), &path("none")]).failed(1);
    assert!(line.contains("none"), "{line}");
}
