//! What everybody expects of commands with these names: options of `ls`, lists of `sum`, standard
//! input.

use std::fs::{self, File};
use std::io::Write;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::support::{Fixture, Run, Serve, bytes, program, run, run_in, tool};

fn lines(text: &str) -> Vec<String> {
    let squeezed = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    text.lines().map(squeezed).collect()
}

#[test]
fn ls_sorts_and_shows_as_that_of_the_system() {
    let fixture = Fixture::new();
    tool(
        fixture.path(),
        &[
            "sh",
            "-c",
            "cd tree; touch -d 1999-01-01 none; touch -d 2030-01-01 sub",
        ],
    );
    for options in [
        "-t", "-S", "-tr", "-Sr", "-1", "-lS", "-lt", "-lh", "-i", "-li", "-d", "-ld", "-p",
    ] {
        let ours = run_in(fixture.path(), &["ls", options, "tree"]).text();
        let numbers = if options.contains('l') { "-n" } else { "-1" };
        let style = "--time-style=+%Y-%m-%dT%H:%M:%SZ";
        let theirs = tool(
            fixture.path(),
            &["ls", "-A", "-1", numbers, style, options, "tree"],
        );
        let theirs = String::from_utf8(theirs).unwrap();
        let theirs: Vec<String> = lines(&theirs)
            .into_iter()
            .filter(|line| !line.starts_with("total "))
            .collect();
        assert_eq!(lines(&ours), theirs, "{options}");
    }
    fixture.iso();
    let text = run_in(fixture.path(), &["ls", "-lhS", "tree.iso"]).text();
    assert!(text.lines().next().unwrap().contains(" 3.1M "), "{text}");
    assert!(run(&["ls", "--help"]).text().contains("--human-readable"));
}

#[test]
fn json_comes_as_lines_when_asked_for() {
    let fixture = Fixture::new();
    let text = run_in(
        fixture.path(),
        &["ls", "-R", "--json=lines", "tree", "tree/a"],
    )
    .text();
    let lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.len(), 1 + 9 + 2 + 1);
    assert_eq!(lines[0]["name"], "tree/a");
    let deep = lines.last().unwrap();
    assert_eq!(
        (&deep["location"], &deep["name"]),
        (&"tree/sub/deep".into(), &"x y".into())
    );
    assert_eq!(deep["size"], 5000);
}

/// Runs the program with this on its standard input.
fn fed(arguments: &[&str], input: &[u8]) -> Run {
    let mut child = program()
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    // One that refuses its input does not read all of it.
    let feeder = std::thread::spawn(move || drop(stdin.write_all(&input)));
    let output = child.wait_with_output().unwrap();
    feeder.join().unwrap();
    output.into()
}

/// Runs a shell in the folder of a fixture; `$OURS` is the program.
fn scripted(fixture: &Fixture, script: &str) -> Output {
    let mut shell = Command::new("sh");
    shell.args(["-c", script]).current_dir(fixture.path());
    shell.env("OURS", env!("CARGO_BIN_EXE_pagewell"));
    shell.output().unwrap()
}

#[test]
fn standard_input_and_pipes_are_read() {
    let input = bytes(3_000_017, 1);
    for name in ["-", "/dev/stdin", "/dev/fd/0"] {
        assert!(fed(&["cat", name], &input).done() == input, "{name}");
    }
    let theirs = Command::new("sh")
        .args(["-c", "printf abc | sha256sum"])
        .output()
        .unwrap();
    assert_eq!(fed(&["sum", "-"], b"abc").done(), theirs.stdout);
    let fixture = Fixture::new();
    let a = fixture.tree().join("a");
    let both = fed(
        &["cat", a.to_str().unwrap(), "-", a.to_str().unwrap()],
        b"middle",
    )
    .done();
    assert_eq!(
        both,
        [bytes(1, 1), b"middle".to_vec(), bytes(1, 1)].concat()
    );
    // A file as standard input, from where it is.
    let output = program()
        .args(["cat", "-"])
        .stdin(File::open(fixture.tree().join("big")).unwrap())
        .output()
        .unwrap();
    assert!(output.stdout == bytes((3 << 20) + 17, (3 << 20) + 17));
    let script = "mkfifo pipe; echo through >pipe & $OURS cat pipe; wait";
    let output = scripted(&fixture, script);
    assert_eq!(output.stdout, b"through\n");
}

#[test]
fn standard_input_and_pipes_are_copied() {
    let fixture = Fixture::new();
    let place = |name: &str| fixture.path().join(name);
    let copy = place("copy");
    let shown = copy.to_str().unwrap();
    let input = bytes(3_000_017, 1);
    for name in ["-", "/dev/stdin", "/dev/fd/0"] {
        fed(&["cp", name, shown], &input).done();
        assert!(fs::read(&copy).unwrap() == input, "{name}");
    }
    fs::remove_file(&copy).unwrap();
    fed(&["cp", "-a", "-", shown], b"").done();
    assert_eq!(fs::metadata(&copy).unwrap().len(), 0);
    fed(&["cp", "-n", "-", shown], b"not this").done();
    assert_eq!(fs::metadata(&copy).unwrap().len(), 0);
    let directory = fed(&["cp", "-", fixture.path().to_str().unwrap()], b"abc");
    assert_eq!(directory.code, Some(1));
    assert_eq!(
        directory.err,
        "pagewell: -: has no name of its own: name the copy\n"
    );
    // Over the beginning of a disk image, of which nothing else changes.
    fs::write(place("disk"), [7; 5000]).unwrap();
    let disk = format!("image:{}", place("disk").display());
    let begun = fed(&["cp", "-", &disk], b"begin");
    assert!(begun.code == Some(0) && begun.err.contains("5 bytes are copied, the 4995"));
    let kept = fs::read(place("disk")).unwrap();
    assert!(kept.starts_with(b"begin\x07") && kept.len() == 5000);
    let large = fed(&["cp", "-", &disk], &input);
    assert!(
        large.code == Some(1) && large.err.contains("more bytes than"),
        "{}",
        large.err
    );
    // Its own copy would grow for ever.
    let script = "mkfifo pipe; echo through >pipe & $OURS cp pipe made; wait; cat made
        $OURS cp - made <made; $OURS cp - made <<end; cat made
over it
end";
    let output = scripted(&fixture, script);
    assert_eq!(output.stdout, b"through\nover it\n");
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(
        error,
        "pagewell: -: its copy would be written over what is being read\n"
    );
}

#[test]
fn lists_of_sums_are_checked_wherever_the_copy_is() {
    let fixture = Fixture::odd();
    let list = run_in(fixture.path(), &["sum", "-r", "tree"]).done();
    let count = list.iter().filter(|byte| **byte == b'\n').count();
    fs::write(fixture.path().join("list"), &list).unwrap();
    let local = run_in(&fixture.tree(), &["sum", "-c", "../list"]).done();
    let theirs = tool(&fixture.tree(), &["sha256sum", "-c", "../list"]);
    assert_eq!(local, theirs);
    let serve = Serve::start(&["--squash", "none", fixture.tree().to_str().unwrap()]);
    for place in ["tree", "dir:tree", serve.urls()[0]] {
        let checked = run_in(fixture.path(), &["sum", "-c", "list", place]).done();
        assert_eq!(checked, theirs, "{place}");
        let quiet = run_in(fixture.path(), &["sum", "--quiet", "-c", "list", place]).done();
        assert_eq!(quiet, b"", "{place}");
    }
    fs::write(fixture.tree().join("a"), "other").unwrap();
    fs::remove_file(fixture.tree().join("none")).unwrap();
    let run = run_in(fixture.path(), &["sum", "--quiet", "-c", "list", "tree"]);
    assert_eq!(run.code, Some(1));
    let mut out: Vec<&str> = std::str::from_utf8(&run.out).unwrap().lines().collect();
    out.sort_unstable();
    assert_eq!(out, ["a: FAILED", "none: FAILED open or read"]);
    assert!(
        run.err
            .contains(&format!("list: 1 of {count} sums do not match")),
        "{}",
        run.err
    );
    assert!(run.err.contains("could not be read"), "{}", run.err);
    // Nothing leads out of the place that is checked.
    let outside = format!("{}  ../outside\n", "0".repeat(64));
    fs::write(fixture.path().join("outside"), "").unwrap();
    fs::write(fixture.path().join("list"), outside).unwrap();
    let run = run_in(fixture.path(), &["sum", "-c", "list", "tree"]);
    assert_eq!(run.out, b"../outside: FAILED open or read\n");
    let line = run_in(fixture.path(), &["sum", "-c", "tree/big"]).failed(1);
    assert!(line.contains("tree/big"), "{line}");
}

#[test]
fn named_files_are_listed_in_the_same_columns() {
    let fixture = Fixture::new();
    let listed = run_in(fixture.path(), &["ls", "-l", "tree/none", "tree/big"]).text();
    let mut places = listed.lines().map(|line| line.find("tree/").unwrap());
    assert_eq!(places.next(), places.next(), "{listed}");
}

#[test]
fn comments_in_a_list_of_sums_are_left_out() {
    let fixture = Fixture::new();
    let sums = run_in(fixture.path(), &["sum", "tree/a"]).text();
    fs::write(fixture.path().join("list"), format!("# of today\n\n{sums}")).unwrap();
    let checked = run_in(fixture.path(), &["sum", "-c", "list"]).text();
    assert_eq!(checked, "tree/a: OK\n");
}

#[test]
fn a_list_of_sums_names_files_before_places_in_sources() {
    let fixture = Fixture::new();
    for name in ["image:a", "ram:x", "nfs://host/a"] {
        let path = fixture.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, name).unwrap();
    }
    let script = "sha256sum image:a ram:x nfs://host/a >list; $OURS sum image:tree/a >>list";
    let made = Command::new("sh")
        .args(["-c", script])
        .current_dir(fixture.path())
        .env("OURS", env!("CARGO_BIN_EXE_pagewell"))
        .status();
    assert!(made.unwrap().success());
    let checked = run_in(fixture.path(), &["sum", "-c", "list"]).text();
    let expected = "image:a: OK\nram:x: OK\nnfs://host/a: OK\nimage:tree/a: OK\n";
    assert_eq!(checked, expected);
}

#[test]
fn what_is_asked_for_twice_is_asked_for() {
    let fixture = Fixture::new();
    let once = run_in(fixture.path(), &["ls", "-l", "tree"]).text();
    assert_eq!(run_in(fixture.path(), &["ls", "-ll", "tree"]).text(), once);
    run_in(fixture.path(), &["cp", "-rR", "tree", "copy"]).done();
    tool(
        fixture.path(),
        &["diff", "-r", "--no-dereference", "tree", "copy"],
    );
    run_in(fixture.path(), &["sum", "-rr", "tree"]).done();
    run_in(fixture.path(), &["cat", "-r", "-r", "tree/sub"]).done();
}

#[test]
fn sums_of_several_places_have_the_names_of_their_copies() {
    let fixture = Fixture::new();
    fixture.iso();
    let sources = ["tree/sub", "tree.iso::/sub/deep", "tree/a"];
    let list = run_in(fixture.path(), &[&["sum", "-r"][..], &sources].concat()).text();
    assert!(
        list.contains("  sub/script\n") && list.contains("  deep/x y\n"),
        "{list}"
    );
    assert!(list.contains("  tree/a\n"), "{list}");
}

#[test]
fn names_on_a_terminal_are_escaped() {
    let fixture = Fixture::new();
    fs::write(fixture.tree().join("evil\u{1b}[2J"), "").unwrap();
    let script = "script -qec '$OURS sum -r tree' /dev/null | cat";
    let output = scripted(&fixture, script);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        text.contains("evil\\033[2J") && !text.contains('\u{1b}'),
        "{text:?}"
    );
}

#[test]
fn hosts_have_names() {
    let state = tempfile::tempdir().unwrap();
    let state = state.path().to_str().unwrap();
    let listen = [
        "--state-dir",
        state,
        "--listen",
        "localhost:0",
        "--http",
        "localhost:0",
        "ram:1m",
    ];
    let mut serve = Serve::start_exactly(&listen);
    assert!(
        serve.urls()[0].starts_with("nfs://127.0.0.1:"),
        "{}",
        serve.ready
    );
    let port = serve.http().port();
    let text = run(&["counters", "--connect", &format!("localhost:{port}")]).text();
    assert!(!text.is_empty());
}
