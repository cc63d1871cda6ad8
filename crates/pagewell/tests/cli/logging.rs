//! What `serve` and `mount` write to their log.

use serde_json::Value;

use crate::support::{Fixture, Serve, program, run};

/// Serves a tree with these options, has `work` done with the URL of its export, and gives back
/// what was said on standard error.
fn said(options: &[&str], work: impl FnOnce(&str)) -> String {
    let fixture = Fixture::new();
    let export = format!("/data={}", fixture.tree().display());
    let serve = Serve::start(&[options, &[export.as_str()]].concat());
    let url = serve.urls()[0].to_owned();
    work(&url);
    serve.signal("TERM");
    let (code, _, text) = serve.end();
    assert_eq!(code, Some(0), "{text}");
    text
}

fn objects(text: &str) -> Vec<Value> {
    let object = |line: &str| {
        serde_json::from_str(line).unwrap_or_else(|error| panic!("{line:?} is no JSON: {error}"))
    };
    text.lines().map(object).collect()
}

#[test]
fn each_call_is_a_line_of_json() {
    let text = said(
        &["--log-format", "json", "--log", "warn,nfsd=debug"],
        |url| {
            run(&["cat", &format!("{url}::/a")]).done();
        },
    );
    let all = objects(&text);
    let call = |procedure: &str| {
        let found = all.iter().find(|line| line["procedure"] == procedure);
        found.unwrap_or_else(|| panic!("no {procedure} in {text}"))
    };
    let lookup = call("LOOKUP");
    assert_eq!(lookup["name"], "a");
    for line in [lookup, call("READ")] {
        assert_eq!(line["level"], "debug");
        assert_eq!(line["crate"], "nfsd");
        assert_eq!(line["client"], "127.0.0.1");
        assert_eq!(line["export"], "/data");
        assert_eq!(line["result"], "ok");
        assert!(
            line["uid"].is_u64() && line["microseconds"].is_u64(),
            "{line}"
        );
        assert!(line["object"].as_str().unwrap().starts_with('/'), "{line}");
        assert!(line["time"].as_str().unwrap().ends_with('Z'), "{line}");
    }
}

#[test]
fn people_are_told_of_slow_calls_with_time_and_level() {
    // Every call takes as long as this.
    let text = said(&["--slow", "0", "--log", "info"], |url| {
        run(&["cat", &format!("{url}::/a")]).done();
    });
    let is_slow = |line: &&str| line.contains(" WARN nfsd: slow: LOOKUP of a in ");
    let line = text.lines().find(is_slow);
    let line = line.unwrap_or_else(|| panic!("nothing was slow: {text}"));
    assert!(
        line.contains(" by 127.0.0.1, export /data: ok in "),
        "{line}"
    );
    assert!(!text.contains("DEBUG"), "{text}");
}

#[test]
fn changes_are_recorded_in_a_file_of_their_own() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("audit");
    let copied = directory.path().join("copied");
    std::fs::write(&copied, "text").unwrap();
    let text = said(
        &["--audit", file.to_str().unwrap(), "--squash", "none"],
        |url| {
            let target = format!("{url}::/new");
            run(&["cp", copied.to_str().unwrap(), &target]).done();
            run(&["cat", &target]).done();
        },
    );
    assert!(!text.contains("audit"), "{text}");
    let all = objects(&std::fs::read_to_string(&file).unwrap());
    let procedures: Vec<_> = all
        .iter()
        .filter_map(|line| line["procedure"].as_str())
        .collect();
    assert!(procedures.contains(&"WRITE"), "{procedures:?}");
    assert!(!procedures.contains(&"READ"), "{procedures:?}");
    let made = all
        .iter()
        .find(|line| line["procedure"] == "CREATE")
        .unwrap();
    assert_eq!(
        (&made["crate"], &made["result"]),
        (&"audit".into(), &"ok".into())
    );
    assert_eq!(made["uid"], made["used_uid"]);
}

#[test]
fn what_is_wrong_is_said_before_anything_is_served() {
    for (options, part) in [
        (
            ["--log", "nfs=debug"],
            "no crate 'nfs': one of audit, cache",
        ),
        (["--log", "loud"], "no level 'loud'"),
        (["--log-format", "xml"], "json"),
        (["--slow", "soon"], "a time is written like"),
    ] {
        let all = [&["serve"], &options[..], &["ram:1m"]].concat();
        let error = run(&all).failed(2);
        assert!(error.contains(part), "{error}");
    }
    let error = run(&["serve", "--audit", "/nonexistent/audit", "ram:1m"]).failed(1);
    assert!(
        error.contains("audit log /nonexistent/audit: No such file"),
        "{error}"
    );
    let mut command = program();
    command
        .args(["serve", "ram:1m"])
        .env("PAGEWELL_LOG", "loud");
    let output = command.output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("PAGEWELL_LOG: no level 'loud'"), "{error}");
    assert_eq!(output.status.code(), Some(2));
}
