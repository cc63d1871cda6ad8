//! `ls`, `cat`, `stat`, `sum` against the tools of the system.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Stdio;

use serde_json::Value;

use crate::support::{Fixture, bytes, program, run, run_in, tool};

/// `ls` of the system in the form of ours: without the lines of totals.
fn system_ls(directory: &Path, options: &[&str], name: &str) -> String {
    let mut words = vec!["ls", "-A", "-1", "--time-style=+%Y-%m-%dT%H:%M:%SZ"];
    words.extend(options);
    words.push(name);
    let text = tool(directory, &words);
    let text = String::from_utf8_lossy(&text).into_owned();
    let lines = text.lines().filter(|line| !line.starts_with("total "));
    lines.map(|line| format!("{line}\n")).collect()
}

#[test]
fn ls_of_a_directory_is_that_of_the_system() {
    let fixture = Fixture::odd();
    for options in [&[][..], &["-l"], &["-R"], &["-lR"]] {
        let mut arguments = vec!["ls"];
        arguments.extend(options);
        arguments.push("tree");
        let ours = run_in(fixture.path(), &arguments).done();
        let mut options = options.to_vec();
        if arguments.iter().any(|option| option.starts_with("-l")) {
            options.push("-n");
        }
        let theirs = system_ls(fixture.path(), &options, "tree");
        let ours = String::from_utf8_lossy(&ours).into_owned();
        // A name with a newline makes two lines of one in both.
        assert_eq!(squeezed(&ours), squeezed(&theirs), "{options:?}");
    }
}

/// The lines without the alignment of columns.
fn squeezed(text: &str) -> Vec<String> {
    let squeezed = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    text.lines().map(squeezed).collect()
}

#[test]
fn dots_are_listed_when_asked_for() {
    let fixture = Fixture::new();
    let text = run_in(fixture.path(), &["ls", "-a", "dir:tree::/sub"]).text();
    assert_eq!(text, ".\n..\ndeep\nscript\n");
}

#[test]
fn ls_of_an_image_is_that_of_the_tree_it_was_made_of() {
    let fixture = Fixture::new();
    fixture.iso();
    let ours = run_in(fixture.path(), &["ls", "-R", "tree.iso"]).text();
    let theirs = system_ls(fixture.path(), &["-R"], "tree");
    assert_eq!(
        ours.replace("tree.iso::/", "tree/")
            .replace("tree.iso", "tree"),
        theirs
    );
    let long = run_in(
        fixture.path(),
        &["ls", "-l", "tree.iso::/link", "tree.iso::/big"],
    )
    .text();
    assert!(long.contains("tree.iso::/link -> sub/script\n"), "{long}");
    let size = (3 << 20) + 17;
    assert!(
        long.contains("-r--r--r--") && long.contains(&size.to_string()),
        "{long}"
    );
}

#[test]
fn ls_follows_links_to_directories_and_names_files_as_given() {
    let fixture = Fixture::new();
    let text = run_in(
        fixture.path(),
        &["ls", "tree/to-sub", "tree/a", "tree/link"],
    )
    .text();
    assert_eq!(text, "tree/a\ntree/link\n\ntree/to-sub:\ndeep\nscript\n");
    let text = run_in(fixture.path(), &["ls", "dir:tree::/to-sub/"]).text();
    assert_eq!(text, "deep\nscript\n");
}

#[test]
fn json_is_one_document_with_all_names() {
    let fixture = Fixture::odd();
    let text = run_in(fixture.path(), &["ls", "-R", "--json", "tree"]).text();
    let json: Value = serde_json::from_str(&text).unwrap();
    let top = &json[0];
    assert_eq!(top["location"], "tree");
    let entries = top["entries"].as_array().unwrap();
    let named = |name: &str| entries.iter().find(|entry| entry["name"] == name).unwrap();
    assert_eq!(named("new\nline")["type"], "file");
    assert_eq!(named("big")["size"], (3 << 20) + 17);
    assert_eq!(named("big")["mode"], "0444");
    assert_eq!(named("link")["target"], "sub/script");
    assert_eq!(named("\u{fffd}\u{fffd}")["name_hex"], "fffe");
    assert_eq!(named("fifo")["type"], "named pipe");
    assert_eq!(named("a")["modified"], "2001-02-03T04:05:06.000000000Z");
    let locations: Vec<&Value> = json
        .as_array()
        .unwrap()
        .iter()
        .map(|d| &d["location"])
        .collect();
    assert_eq!(
        locations,
        ["tree", "tree/empty", "tree/sub", "tree/sub/deep"]
    );
    // A failure goes to standard error and the document stays whole.
    let run = run_in(fixture.path(), &["ls", "--json", "tree", "nothing"]);
    assert_eq!(run.code, Some(1));
    assert!(serde_json::from_slice::<Value>(&run.out).is_ok());
    assert_eq!(run.err.lines().count(), 1);
}

#[test]
fn cat_gives_the_bytes_to_pipes_and_files() {
    let fixture = Fixture::new();
    fixture.iso();
    let big = bytes((3 << 20) + 17, (3 << 20) + 17);
    for location in [
        "tree/big",
        "dir:tree::/big",
        "tree.iso::/big",
        "iso:tree.iso::/./sub/../big",
    ] {
        let out = run_in(fixture.path(), &["cat", location]).done();
        assert!(out == big, "{location}");
        let path = fixture.path().join("out");
        for append in [false, true] {
            let mut options = fs::OpenOptions::new();
            options
                .create(true)
                .append(append)
                .write(true)
                .truncate(!append);
            let file = options.open(&path).unwrap();
            let mut command = program();
            command
                .current_dir(fixture.path())
                .args(["cat", location])
                .stdout(file);
            assert!(command.status().unwrap().success());
        }
        assert!(
            fs::read(&path).unwrap() == [big.as_slice(), &big].concat(),
            "{location}"
        );
    }
    let several = [
        "cat",
        "tree/a",
        "tree/none",
        "tree.iso::/link",
        "tree/to-sub/deep/x y",
    ];
    let out = run_in(fixture.path(), &several).done();
    assert!(out == [bytes(1, 1), bytes(100, 100), bytes(5000, 5000)].concat());
}

#[test]
fn cat_goes_on_after_a_failure() {
    let fixture = Fixture::new();
    let run = run_in(
        fixture.path(),
        &["cat", "tree/a", "nothing", "tree", "tree/a"],
    );
    assert_eq!(
        (run.code, run.out),
        (Some(1), [bytes(1, 1), bytes(1, 1)].concat())
    );
    assert_eq!(run.err.lines().count(), 2, "{}", run.err);
}

#[test]
fn a_reader_that_goes_away_ends_cat_quietly() {
    let fixture = Fixture::new();
    fixture.iso();
    for location in ["tree/big", "tree.iso::/big"] {
        let mut child = program()
            .current_dir(fixture.path())
            .args(["cat", location, location])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stderr), "");
        assert_eq!(
            output.status.code(),
            None,
            "ended by the signal, as other tools are"
        );
    }
}

#[test]
fn sums_are_those_of_sha256sum() {
    let fixture = Fixture::odd();
    let theirs = tool(
        fixture.path(),
        &[
            "sh",
            "-c",
            "cd tree; find . -type f -printf '%P\\0' | sort -z | xargs -0 sha256sum",
        ],
    );
    let ours = run_in(fixture.path(), &["sum", "-r", "tree"]).done();
    // find sorts whole paths, a walk sorts names: the lines are the same.
    let lines = |text: &[u8]| {
        let mut lines: Vec<Vec<u8>> = text.split(|b| *b == b'\n').map(<[u8]>::to_vec).collect();
        lines.sort();
        lines
    };
    assert_eq!(lines(&ours), lines(&theirs));
    let sums = fixture.path().join("sums");
    fs::write(&sums, &ours).unwrap();
    let check = ["sha256sum", "--quiet", "--strict", "-c", "../sums"];
    tool(&fixture.tree(), &check);
}

#[test]
fn sums_of_an_image_are_those_of_the_files() {
    let fixture = Fixture::new();
    fixture.iso();
    let ours = run_in(fixture.path(), &["sum", "-r", "tree.iso"]).text();
    let tree = run_in(fixture.path(), &["sum", "-r", "tree"]).text();
    assert_eq!(ours, tree);
    let image = run_in(fixture.path(), &["sum", "image:tree.iso"]).text();
    let theirs = tool(fixture.path(), &["sha256sum", "tree.iso"]);
    assert_eq!(&image.as_bytes()[..64], &theirs[..64]);
    let json = run_in(fixture.path(), &["sum", "--json", "tree/a", "tree.iso::/a"]).text();
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json[0]["sha256"], json[1]["sha256"]);
    assert_eq!(json[1]["location"], "tree.iso::/a");
    assert_eq!(json[0]["bytes"], 1);
}

#[test]
fn stat_shows_what_the_system_knows() {
    let fixture = Fixture::odd();
    let theirs = tool(
        fixture.path(),
        &["stat", "-c", "%s %a %h %u %g %i %X %Y %Z", "tree/big"],
    );
    let theirs = String::from_utf8(theirs).unwrap();
    let json = run_in(fixture.path(), &["stat", "--json", "tree/big", "tree/link"]).text();
    let json: Value = serde_json::from_str(&json).unwrap();
    let seconds = |name: &str| {
        let text = json[0][name].as_str().unwrap().to_owned();
        let epoch = tool(fixture.path(), &["date", "-d", &text, "+%s"]);
        String::from_utf8(epoch).unwrap().trim().to_owned()
    };
    let ours = format!(
        "{} {} {} {} {} {} {} {} {}\n",
        json[0]["size"],
        json[0]["mode"].as_str().unwrap().trim_start_matches('0'),
        json[0]["links"],
        json[0]["uid"],
        json[0]["gid"],
        json[0]["file_id"],
        seconds("accessed"),
        seconds("modified"),
        seconds("changed"),
    );
    assert_eq!(ours, theirs);
    assert_eq!(json[1]["type"], "symbolic link");
    assert_eq!(json[1]["target"], "sub/script");
    let text = run(&["stat", "ram:64m"]).text();
    assert!(
        text.contains("64 MiB") && text.contains("writable"),
        "{text}"
    );
    let iso = fixture.path().join("x.iso");
    let tree = fixture.path().join("tree/sub");
    tool(
        fixture.path(),
        &[
            "xorriso",
            "-as",
            "mkisofs",
            "-quiet",
            "-R",
            "-o",
            "x.iso",
            tree.to_str().unwrap(),
        ],
    );
    let text = String::from_utf8(run(&["stat".as_ref(), iso.as_os_str()]).done()).unwrap();
    assert!(
        text.contains("read-only") && text.contains("directory"),
        "{text}"
    );
    assert!(iso.as_os_str().as_bytes().ends_with(b"x.iso"));
}

/// Files of proc(5) say that they are empty.
#[test]
fn files_that_do_not_tell_their_size_are_read() {
    let path = "/proc/version";
    let expected = fs::read(path).unwrap();
    assert!(!expected.is_empty());
    assert_eq!(run(&["cat", path]).done(), expected);
    let ours = run(&["sum", path]).text();
    let theirs = tool(Path::new("/"), &["sha256sum", path]);
    assert_eq!(ours.as_bytes(), theirs);
}

#[test]
fn cat_does_not_read_what_it_writes() {
    let fixture = Fixture::new();
    for (words, input) in [
        ("tree/big", "tree/big"),
        ("-r tree", "tree/big"),
        ("-", "-"),
    ] {
        let path = fixture.tree().join("big");
        fs::write(&path, vec![7; 3 << 20]).unwrap();
        let script = format!("ulimit -f 40960; exec \"$0\" cat {words} <tree/big >>tree/big");
        let mut command = std::process::Command::new("sh");
        command.args(["-c", &script, env!("CARGO_BIN_EXE_pagewell")]);
        let output = command.current_dir(fixture.path()).output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        let expected = format!("pagewell: {input}: is the output\n");
        assert_eq!((output.status.code(), text), (Some(1), expected), "{words}");
        assert!(path.metadata().unwrap().len() < 4 << 20, "{words}");
    }
    // Nothing can be appended to nothing.
    run_in(fixture.path(), &["cat", "tree/none"]).done();
}

#[test]
fn cat_tells_which_side_failed() {
    let fixture = Fixture::new();
    let ours = env!("CARGO_BIN_EXE_pagewell");
    for (injected, said) in [
        ("sendfile:error=ESTALE", ""),
        ("sendfile:error=ESTALE:when=3+", ""),
        (
            "sendfile,preadv2:error=ESTALE:when=2+",
            "pagewell: tree/big: ",
        ),
        ("sendfile:error=ENOSPC", ""),
    ] {
        let script = format!("strace -qq -f -o log -e inject={injected} {ours} cat tree/big >out");
        let mut command = std::process::Command::new("sh");
        command.args(["-c", &script]).current_dir(fixture.path());
        let output = command.output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.success(), said.is_empty(), "{injected}");
        assert!(text.starts_with(said), "{injected}: {text}");
        if said.is_empty() {
            tool(fixture.path(), &["cmp", "tree/big", "out"]);
        }
    }
}

#[test]
fn output_that_cannot_be_written_is_named() {
    let fixture = Fixture::new();
    for arguments in [
        &["cat", "tree/big"][..],
        &["ls", "tree"],
        &["ls", "--json", "tree"],
        &["stat", "tree/a"],
        &["sum", "tree/a"],
    ] {
        let full = fs::File::options().write(true).open("/dev/full").unwrap();
        let mut command = program();
        command.args(arguments).current_dir(fixture.path());
        let output = command.stdout(full).output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {text}");
        assert!(text.starts_with("pagewell: standard output: "), "{text}");
    }
}
