//! What is generated: help, manual pages, completions, the list of metrics, the metrics.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use crate::support::{Fixture, run, tool};

const COMMANDS: [&str; 19] = [
    "serve",
    "mount",
    "umount",
    "ls",
    "cat",
    "cp",
    "stat",
    "sum",
    "check",
    "probe",
    "bench",
    "counters",
    "top",
    "clients",
    "disconnect",
    "reload",
    "config",
    "completions",
    "man",
];

#[test]
fn every_command_has_help_with_examples() {
    let top = run(&["--help"]).text();
    for command in COMMANDS {
        assert!(top.contains(&format!("\n  {command} ")), "{top}");
        // That of `bench` is told by the program that it starts.
        let text = match command {
            "bench" => run(&["help", command]).text(),
            _ => run(&[command, "--help"]).text(),
        };
        assert!(text.contains("Examples:"), "{command} has no examples");
        assert!(
            text.lines().all(|line| line.chars().count() <= 100),
            "{text}"
        );
    }
    let version = run(&["--version"]).text();
    assert_eq!(version, format!("pagewell {}\n", env!("CARGO_PKG_VERSION")));
    let nothing = run::<&str>(&[]);
    assert_eq!(nothing.code, Some(2));
    assert!(nothing.err.contains("Usage:"), "{}", nothing.err);
}

#[test]
fn manual_pages_are_written_for_every_command() {
    let directory = tempfile::tempdir().unwrap();
    let pages = directory.path().join("man1");
    run(&["man".as_ref(), pages.as_os_str()]).done();
    let written: BTreeSet<String> = fs::read_dir(&pages)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    let mut expected: BTreeSet<String> = COMMANDS
        .iter()
        .map(|command| format!("pagewell-{command}.1"))
        .collect();
    expected.insert("pagewell.1".to_owned());
    assert!(expected.is_subset(&written), "{written:?}");
    let is_part = |page: &&String| !expected.contains(*page);
    for page in written.iter().filter(is_part) {
        let of_command = |name: &&str| page.starts_with(&format!("pagewell-{name}-"));
        assert!(COMMANDS.iter().any(of_command), "{page}");
    }
    let page = fs::read_to_string(pages.join("pagewell-serve.1")).unwrap();
    assert!(page.contains(".TH pagewell-serve 1"), "{page}");
    for part in [
        "state\\-dir",
        "second signal ends it at once",
        "Memory of the page cache that all images share",
        "locks\\-ADDRESS:PORT",
        ".SH EXAMPLES\n.nf\n  pagewell",
    ] {
        assert!(page.contains(part), "{page} lacks {part}");
    }
    let page = run(&["man"]).text();
    for part in [
        ".TH pagewell 1",
        ".SH \"EXIT STATUS\"",
        ".SH ENVIRONMENT",
        ".SH FILES",
        ".SH \"SEE ALSO\"",
        "\\fBpagewell\\-cp\\fR(1)",
        "nfs://HOST",
    ] {
        assert!(page.contains(part), "{page} lacks {part}");
    }
    let sources = fs::read_to_string(directory.path().join("man7/pagewell-sources.7")).unwrap();
    for part in ["nfs://", "rsize=", ".SH \"SEE ALSO\"", "\\fBram:\\fISIZE"] {
        assert!(sources.contains(part), "{sources} lacks {part}");
    }
    for name in &written {
        let page = fs::read_to_string(pages.join(name)).unwrap();
        let told = [".SH \"EXIT STATUS\"", ".SH \"SEE ALSO\"", "sources\\fR(7)"];
        assert!(
            told.iter().all(|part| page.contains(part)),
            "{name}: {page}"
        );
    }
}

#[test]
fn help_names_the_options_of_servers() {
    let top = run(&["--help"]).text();
    assert!(
        top.contains("nfs://HOST") && top.contains("rsize=SIZE"),
        "{top}"
    );
}

#[test]
fn completions_are_scripts_that_their_shell_accepts() {
    let directory = tempfile::tempdir().unwrap();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = run(&["completions", shell]).text();
        assert!(script.contains("state-dir"), "{shell}");
        let has_experiments = script.contains("seekreadwrite");
        assert!(
            has_experiments || ["elvish", "powershell"].contains(&shell),
            "{shell}"
        );
        fs::write(directory.path().join(shell), script).unwrap();
    }
    tool(directory.path(), &["bash", "-n", "bash"]);
    for shell in ["bash", "fish"] {
        let script = fs::read_to_string(directory.path().join(shell)).unwrap();
        let starts = ["dir:", "iso:", "image:", "ram:", "nfs://"];
        assert!(starts.iter().all(|start| script.contains(start)), "{shell}");
    }
    let zsh = fs::read_to_string(directory.path().join("zsh")).unwrap();
    for command in ["ls", "cat", "cp", "stat", "sum"] {
        let at = zsh.find(&format!("\n({command})\n")).unwrap();
        let rest = &zsh[at..];
        let rest = &rest[..rest.find(";;").unwrap()];
        assert!(
            rest.contains("locations") && rest.contains("_files"),
            "{command}: {rest}"
        );
    }
}

#[test]
fn without_the_program_that_measures_bench_says_how_to_get_it() {
    let alone = tempfile::tempdir().unwrap();
    let program = alone.path().join("pagewell");
    fs::hard_link(env!("CARGO_BIN_EXE_pagewell"), &program)
        .or_else(|_| fs::copy(env!("CARGO_BIN_EXE_pagewell"), &program).map(drop))
        .unwrap();
    let mut command = std::process::Command::new(&program);
    let output = command
        .args(["bench", "hsfs"])
        .env("PATH", "")
        .output()
        .unwrap();
    let line = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{line}");
    assert!(
        line.contains("make install") && line.lines().count() == 1,
        "{line}"
    );
    let beside = alone.path().join("pagewell-bench");
    std::os::unix::fs::symlink("/bin/echo", &beside).unwrap();
    let mut command = std::process::Command::new(&program);
    let output = command.args(["bench", "hsfs", "--quick"]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "hsfs --quick\n");
}

/// What bash would offer for the end of a line, with colons that end words, as it has them.
fn offered(fixture: &Fixture, line: &str) -> Vec<String> {
    const ASK: &str = r#"
source ./script
COMP_LINE=$1 COMP_POINT=${#1}
# As readline cuts it: at spaces and colons, runs of colons being words.
words=${1//::/ :: }; read -ra COMP_WORDS <<<"$words"
[[ $1 == *' ' || $1 == *::  ]] && COMP_WORDS+=("")
[[ $1 == *:: ]] && unset 'COMP_WORDS[-1]'
COMP_WORDS[0]=$PROGRAM COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_pagewell_words "$PROGRAM" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"
((${#COMPREPLY[@]} == 0)) || printf '%s\n' "${COMPREPLY[@]}" | sort
"#;
    let output = std::process::Command::new("bash")
        .args(["-c", ASK, "bash", line])
        .current_dir(fixture.path())
        .env("PROGRAM", env!("CARGO_BIN_EXE_pagewell"))
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{line}");
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(str::to_owned).collect()
}

#[test]
fn bash_completes_files_and_what_is_inside_an_image() {
    let fixture = Fixture::new();
    fixture.iso();
    fs::write(
        fixture.path().join("script"),
        run(&["completions", "bash"]).text(),
    )
    .unwrap();
    let none: &[&str] = &[];
    for (line, expected) in [
        ("pagewell ls tr", &["tree", "tree.iso"][..]),
        ("pagewell cp -r ", &["script", "tree", "tree.iso"]),
        ("pagewell cat tree/s", &["tree/sub"]),
        ("pagewell cat tree.iso::", &["/"]),
        ("pagewell cat tree.iso::/su", &["/sub/"]),
        (
            "pagewell stat tree.iso::/sub/",
            &["/sub/deep/", "/sub/script"],
        ),
        ("pagewell sum tree.iso::/sub/deep/x", &["/sub/deep/x\\ y "]),
        ("pagewell sum tree.iso::/nothing/", none),
        ("pagewell cat nfs://127.0.0.1:1::/x", none),
        ("pagewell ls --recu", &["--recursive"]),
    ] {
        assert_eq!(offered(&fixture, line), expected, "{line}");
    }
    // No placeholder such as [LOCATION]... is ever offered.
    for line in [
        "pagewell completions ",
        "pagewell umount -",
        "pagewell cp -",
    ] {
        let words = offered(&fixture, line);
        assert!(!words.is_empty(), "{line}");
        assert!(
            !words.iter().any(|word| word.contains("LOCATION")),
            "{words:?}"
        );
    }
}

/// Checks a text in the format of Prometheus strictly: every metric has HELP and TYPE once and
/// before its samples, samples of one metric are together, no series twice, names and labels
/// are well formed, values are numbers, counters end in `_total` and are not negative.
pub(crate) fn check_exposition(text: &str) {
    let mut kinds: BTreeMap<String, String> = BTreeMap::new();
    let mut helps = BTreeSet::new();
    let mut series = BTreeSet::new();
    let mut current = String::new();
    let mut bucket: Option<(String, f64, f64)> = None;
    assert!(text.ends_with('\n'));
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').expect(line);
            assert!(helps.insert(name.to_owned()) && !help.is_empty(), "{line}");
            continue;
        }
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').expect(line);
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
            assert!(
                helps.contains(name),
                "{line} comes without or before its HELP"
            );
            assert!(
                kinds.insert(name.to_owned(), kind.to_owned()).is_none(),
                "{line}"
            );
            assert_eq!(name.ends_with("_total"), kind == "counter", "{line}");
            current = name.to_owned();
            continue;
        }
        let (key, value) = line.rsplit_once(' ').expect(line);
        assert!(series.insert(key.to_owned()), "{line} twice");
        let (name, labels) = key.split_once('{').unwrap_or((key, "}"));
        check_name(name);
        let labels = labels.strip_suffix('}').expect(line);
        for label in labels.split(',').filter(|label| !label.is_empty()) {
            let (label, value) = label.split_once('=').expect(line);
            check_name(label);
            let value = value
                .strip_prefix('"')
                .and_then(|rest| rest.strip_suffix('"'));
            assert!(!value.expect(line).contains(['"', '\\', '\n']), "{line}");
        }
        let kind = kinds.get(&current).expect(line);
        let belongs = name == current
            || kind == "histogram"
                && ["_bucket", "_sum", "_count"]
                    .iter()
                    .any(|end| name == format!("{current}{end}"));
        assert!(belongs, "{line} is not below its TYPE");
        let number: f64 = value.parse().expect(line);
        assert!(kind != "counter" || number >= 0.0, "{line}");
        assert!(number.is_finite(), "{line}");
        if name.ends_with("_bucket") && kind == "histogram" {
            let (others, bound) = labels.rsplit_once("le=").expect(line);
            let bound = bound.trim_matches('"').replace("+Inf", "inf");
            let bound: f64 = bound.parse().expect(line);
            let before = bucket.replace((others.to_owned(), bound, number));
            if let Some((before, lower, fewer)) = before.filter(|(before, ..)| before == others) {
                assert!(
                    lower < bound && fewer <= number,
                    "{line} after {before}{lower}"
                );
            }
        }
    }
    assert!(series.len() > 100, "{} series", series.len());
}

fn check_name(name: &str) {
    let first = name.chars().next().expect("a name");
    assert!(first.is_ascii_alphabetic() || first == '_', "{name}");
    let rest = |character: char| character.is_ascii_alphanumeric() || character == '_';
    assert!(name.chars().all(rest), "{name}");
}
