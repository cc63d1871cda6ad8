//! Every wrong input: one line that names the thing and the reason, the right exit code, and
//! nothing left listening.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;

use crate::support::{Fixture, Run, run, run_in, unprivileged};

/// Runs `serve` with these arguments, which must be refused.
fn refused(code: i32, arguments: &[&str], parts: &[&str]) {
    let state = tempfile::tempdir().unwrap();
    let mut all = vec!["serve", "--state-dir", state.path().to_str().unwrap()];
    if !arguments.contains(&"--listen") {
        all.extend(["--listen", "127.0.0.1:0"]);
    }
    all.extend(arguments);
    let line = run(&all).failed(code);
    for part in parts {
        assert!(line.contains(part), "{line} lacks {part}");
    }
}

#[test]
fn sources_that_are_not_there_or_not_supported() {
    refused(1, &["/no/such/dir"], &["/no/such/dir", "o such file"]);
    refused(1, &["iso:/no/such.iso"], &["/no/such.iso"]);
    refused(1, &["dir:/etc/passwd"], &["/etc/passwd"]);
    refused(
        2,
        &["smb://host/share"],
        &["smb://host/share", "unknown kind"],
    );
    refused(
        1,
        &["nfs://host.invalid/export"],
        &["host.invalid:/export", "cannot find the server"],
    );
    refused(2, &["nfs://host/export?rsise=4k"], &["rsise"]);
    refused(1, &["image:/dev/null"], &["/dev/null", "neither"]);
}

#[test]
fn files_that_are_no_image() {
    let fixture = Fixture::new();
    let file = fixture.tree().join("big");
    let path = file.to_str().unwrap();
    refused(1, &[&format!("iso:{path}")], &[path]);
    // The first sectors of a real image, and nothing after.
    let image = fs::read(fixture.iso()).unwrap();
    for length in [0, 32_768, 32_768 + 7, 40_000] {
        fs::write(file.with_extension("cut"), &image[..length]).unwrap();
        let cut = file.with_extension("cut");
        refused(1, &[&format!("iso:{}", cut.display())], &["big.cut"]);
    }
}

#[test]
fn a_directory_that_may_not_be_read() {
    let fixture = Fixture::new();
    let closed = fixture.path().join("closed");
    fs::create_dir(&closed).unwrap();
    fs::set_permissions(&closed, PermissionsExt::from_mode(0o000)).unwrap();
    fs::set_permissions(fixture.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let state = tempfile::tempdir().unwrap();
    fs::set_permissions(state.path(), PermissionsExt::from_mode(0o777)).unwrap();
    let run: Run = unprivileged(fixture.path())
        .args(["serve", "--listen", "127.0.0.1:0", "--state-dir"])
        .arg(state.path())
        .arg(&closed)
        .output()
        .unwrap()
        .into();
    let line = run.failed(1);
    let reason = line.contains("not readable") || line.contains("ermission denied");
    assert!(line.contains("closed") && reason, "{line}");
}

#[test]
fn exports_without_or_with_the_same_name() {
    refused(2, &["/a=ram:1m", "/a=ram:2m"], &["/a", "ram:1m", "ram:2m"]);
    refused(2, &["/a=ram:1m", "ram:2m"], &["ram:2m", "need names"]);
    refused(2, &["/a/../b=ram:1m"], &["/a/../b"]);
}

#[test]
fn sizes_that_make_no_sense() {
    refused(2, &["ram:0"], &["ram:0", "0"]);
    refused(2, &["/x=ram:0g"], &["ram:0g"]);
    refused(2, &["ram:"], &["ram:"]);
    refused(2, &["ram:lots"], &["ram:lots", "number"]);
    refused(2, &["ram:99999999999g"], &["ram:99999999999g", "beyond"]);
    refused(2, &["--threads", "0", "ram:1m"], &["--threads", "0"]);
}

#[test]
fn a_port_that_is_taken() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    refused(1, &["--listen", &address, "ram:1m"], &[&address, "in use"]);
    refused(1, &["--http", &address, "ram:1m"], &[&address, "in use"]);
}

#[test]
fn nothing_is_left_listening() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = listener.local_addr().unwrap().to_string();
    // An address of its own, so that no other server gets the port.
    let other = TcpListener::bind("127.9.8.23:0").unwrap();
    let free = other.local_addr().unwrap().to_string();
    drop(other);
    refused(
        1,
        &["--listen", &taken, "--http", &free, "ram:1m"],
        &[&taken],
    );
    assert!(TcpListener::bind(&free).is_ok(), "{free} is still in use");
    refused(1, &["--listen", &free, "/no/such/dir"], &["/no/such/dir"]);
    assert!(TcpListener::bind(&free).is_ok(), "{free} is still in use");
}

#[test]
fn an_open_address_without_a_word_on_who_may_connect() {
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0"] {
        refused(
            2,
            &["--listen", address, "ram:1m"],
            &["--listen", "--allow", "loopback"],
        );
        refused(
            2,
            &["--http", address, "ram:1m"],
            &["--http", "--allow", "loopback"],
        );
    }
}

#[test]
fn a_state_directory_that_cannot_be_written() {
    let fixture = Fixture::new();
    let below_a_file = fixture.tree().join("a/state");
    let state = below_a_file.to_str().unwrap();
    let line = run(&[
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--state-dir",
        state,
        "ram:1m",
    ])
    .failed(1);
    assert!(
        line.contains(state) && line.contains("--state-dir"),
        "{line}"
    );
}

#[test]
fn locations_that_are_not_there() {
    let fixture = Fixture::new();
    fixture.iso();
    for (arguments, part) in [
        (&["ls", "nothing"][..], "nothing: no such file"),
        (&["ls", "nowhere/nothing"], "nowhere"),
        (
            &["ls", "tree.iso::/nothing"],
            "tree.iso::/nothing: no such file",
        ),
        (
            &["cat", "tree.iso::/a/below"],
            "tree.iso::/a/below: not a directory",
        ),
        (&["cat", "tree"], "tree: is a directory"),
        (&["cat", "tree.iso"], "tree.iso: is a directory"),
        (&["cat", "tree/dangling"], "tree/dangling"),
        (&["sum", "tree"], "tree: is a directory (-r"),
        (&["sum", "tree.iso"], "image:PATH"),
        (&["stat", "tree.iso::/sub/nothing"], "sub/nothing"),
        (&["cp", "tree", "copy"], "tree: is a directory (-r"),
        (&["cp", "nothing", "copy"], "nothing"),
        (&["cp", "tree/a", "no/such/copy"], "no/such"),
        (
            &["cp", "tree/a", "tree/none", "tree/big"],
            "tree/big: is not a directory",
        ),
        (&["cp", "tree/a", "tree.iso"], "read-only"),
        (&["cp", "-r", "tree", "tree/a"], "tree"),
        (&["counters", "--connect", "127.0.0.1:1"], "127.0.0.1:1"),
        (&["probe", "http://127.0.0.1:1/x"], "127.0.0.1:1"),
    ] {
        let line = run_in(fixture.path(), arguments).failed(1);
        assert!(line.contains(part), "{line} lacks {part}");
    }
    for (arguments, part) in [
        (&["ls"][..], "LOCATION"),
        (&["ls", "--jsn", "tree"], "--json"),
        (&["ls", ""], "empty"),
        (&["probe", "tree"], "s3://"),
        (&["probe", "s3://bucket?speed=9"], "speed"),
        (&["cat", "ram:0::/x"], "ram:0"),
        (&["cp", "tree/a"], "LOCATION"),
        (&["counters", "--connect", "host:x"], "--connect"),
        (&["ls", "server:/export"], "nfs://server/export"),
        (
            &["cp", "-r", "tree", "192.0.2.1:/export"],
            "nfs://192.0.2.1/export",
        ),
        (&["cat", "tree.iso:/a"], "tree.iso::/a"),
        (&["completions", "dos"], "dos"),
    ] {
        let line = run_in(fixture.path(), arguments).failed(2);
        assert!(line.contains(part), "{line} lacks {part}");
    }
}

#[test]
fn a_message_stays_on_one_line_whatever_the_name() {
    let fixture = Fixture::new();
    let line = run_in(fixture.path(), &["cat", "a\nb\u{1b}[2J"]).failed(1);
    assert!(line.contains("a\\nb\\033[2J"), "{line}");
}

#[test]
fn the_command_that_is_most_alike_is_suggested() {
    for (word, meant) in [("mont", "mount"), ("moutn", "mount"), ("srve", "serve")] {
        let line = run(&[word]).failed(2);
        let suggestion = format!("'{word}'; did you mean '{meant}'?");
        assert!(line.contains(&suggestion), "{line}");
    }
}
