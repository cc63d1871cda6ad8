//! What the sandbox of a server refuses, tried from inside, and what works in it.

use std::collections::BTreeSet;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use pagewell_wire::client::{Client, User};

use crate::support::{Fixture, Serve, is_root, program, run, unprivileged};

/// What was tried from inside and is refused, or possible.
#[derive(Debug)]
struct Tried {
    refused: BTreeSet<String>,
    possible: BTreeSet<String>,
    /// What this system cannot take away.
    lacks: Vec<String>,
}

/// Tries all in the sandbox of a server of `source`.
fn tries(mut command: Command, folder: &Path, sandbox: &str, source: &str) -> Tried {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let at = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    command.args(["sandbox-probe", "--sandbox", sandbox]);
    command.args(["--state-dir", &at("state"), "--listen", "127.0.0.1:20490"]);
    command.args(["--try-file", &at("outside/file"), "--try-file"]);
    command.args([&at("tree/file"), "--try-mount", &at("outside")]);
    command.args(["--try-connect", &address, source]);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let text = text.replace(folder.to_str().unwrap(), "");
    let of = |outcome: &str| {
        let lines = text.lines().filter_map(|line| line.split_once(": "));
        let lines = lines.filter(|(_, said)| said.starts_with(outcome));
        lines.map(|(what, _)| what.to_owned()).collect()
    };
    let lacks = text.lines().filter(|line| line.starts_with("sandbox: "));
    Tried {
        refused: of("refused"),
        possible: of("possible"),
        lacks: lacks.map(str::to_owned).collect(),
    }
}

/// A folder with a directory and an image to serve, and a file outside of both.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for name in ["tree", "outside", "state"] {
        let path = folder.path().join(name);
        fs::create_dir(&path).unwrap();
        fs::write(path.join("file"), "content").unwrap();
        give(&path);
        give(&path.join("file"));
    }
    let image = folder.path().join("image");
    fs::write(&image, [0; 1 << 16]).unwrap();
    give(&image);
    fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
    folder
}

fn give(path: &Path) {
    if is_root() {
        std::os::unix::fs::chown(path, Some(65_534), Some(65_534)).unwrap();
    }
}

const OUTSIDE: [&str; 2] = ["read /outside/file", "make beside /outside/file"];
const INSIDE: [&str; 2] = ["read /tree/file", "make beside /tree/file"];
/// What an ordinary user may do, too.
const BY_ANYBODY: [&str; 5] = ["connect", "execute", "listen", "name space", "trace"];
const BY_ROOT: [&str; 2] = ["mount", "packet socket"];

fn set<'a>(parts: &[&[&'a str]]) -> BTreeSet<&'a str> {
    parts.concat().into_iter().collect()
}

fn is(found: &BTreeSet<String>, wanted: &BTreeSet<&str>) -> bool {
    found.iter().map(String::as_str).eq(wanted.iter().copied())
}

#[test]
fn what_a_server_does_not_need_is_refused_from_inside_and_possible_without_the_sandbox() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    for as_root in [true, false] {
        let command = || match as_root {
            true => program(),
            false => unprivileged(folder.path()),
        };
        // Who may enter a name space is root.
        let others: &[&str] = if as_root && is_root() { &BY_ROOT } else { &[] };
        for (source, in_tree) in [
            (at("tree"), true),
            (format!("image:{}", at("image")), false),
            ("ram:1m".to_owned(), false),
        ] {
            let free = tries(command(), folder.path(), "off", &source);
            let mut wanted = set(&[&OUTSIDE, &INSIDE, &BY_ANYBODY, others]);
            if others.is_empty() {
                wanted.remove("name space");
            }
            assert!(is(&free.possible, &wanted), "{source}: {free:?}");
            let tried = tries(command(), folder.path(), "auto", &source);
            if !tried.lacks.is_empty() {
                pagewell_skip::skip(format!("this system lacks: {:?}", tried.lacks));
                return;
            }
            let possible = if in_tree { set(&[&INSIDE]) } else { set(&[]) };
            assert!(is(&tried.possible, &possible), "{source}: {tried:?}");
            let all = set(&[&OUTSIDE, &INSIDE, &BY_ANYBODY, &BY_ROOT]);
            let refused = all.difference(&possible).copied().collect();
            assert!(is(&tried.refused, &refused), "{source}: {tried:?}");
        }
    }
}

#[test]
fn a_source_of_another_server_leaves_connections_and_an_export_to_be_read_is_not_changed() {
    let folder = folder();
    let remote = tries(program(), folder.path(), "auto", "nfs://127.0.0.1/x");
    if !remote.lacks.is_empty() {
        pagewell_skip::skip(format!("this system lacks: {:?}", remote.lacks));
        return;
    }
    assert!(
        is(&remote.possible, &set(&[&["connect", "listen"]])),
        "{remote:?}"
    );
    let tree = folder.path().join("tree");
    let mut command = program();
    command.arg("sandbox-probe").arg("--read-only").arg(&tree);
    command.arg("--state-dir").arg(folder.path().join("state"));
    let output = command.arg("--try-file").arg(tree.join("file")).output();
    let text = String::from_utf8(output.unwrap().stdout).unwrap();
    let shown = tree.join("file").display().to_string();
    assert!(text.contains(&format!("read {shown}: possible")), "{text}");
    assert!(
        text.contains(&format!("make beside {shown}: refused")),
        "{text}"
    );
}

/// What all threads of a server have in common in `/proc/PID/task/*/status`.
fn of_all_threads(serve: &Serve, name: &str) -> String {
    let tasks = fs::read_dir(format!("/proc/{}/task", serve.process_id())).unwrap();
    let statuses = tasks.map(|task| fs::read_to_string(task.unwrap().path().join("status")));
    let values: BTreeSet<String> = statuses
        .map_while(Result::ok)
        .map(|status| {
            let line = status.lines().find(|line| line.starts_with(name)).unwrap();
            line[name.len()..].trim_start_matches(':').trim().to_owned()
        })
        .collect();
    assert_eq!(values.len(), 1, "{name}: {values:?}");
    values.into_iter().next().unwrap()
}

#[test]
fn every_thread_of_a_server_is_in_it_and_the_counters_say_so() {
    let fixture = Fixture::new();
    let image = fixture.path().join("disk.img");
    fs::write(&image, vec![0; 1 << 20]).unwrap();
    let image = format!("image:{}", image.display());
    let tree = fixture.tree().display().to_string();
    for (source, kept) in [(&tree, 0x0820_00df_u64), (&image, 1 << 14)] {
        let mut serve = Serve::start(&["--http", "127.0.0.1:0", source]);
        run(&["ls", "-R", serve.urls()[0]]).done();
        assert_eq!(of_all_threads(&serve, "NoNewPrivs"), "1");
        assert_eq!(of_all_threads(&serve, "Seccomp:"), "2");
        let kept = if is_root() { kept } else { 0 };
        // A thread that acts for a caller has fewer of them in effect.
        let found = u64::from_str_radix(&of_all_threads(&serve, "CapPrm"), 16).unwrap();
        assert_eq!(found, kept, "{source}");
        let http = serve.http().to_string();
        let counters = run(&["counters", "--json", "--connect", &http]);
        let counters = String::from_utf8(counters.out).unwrap();
        let line = format!("\"pagewell_sandbox_capabilities\": {}", kept.count_ones());
        assert!(counters.contains(&line), "{counters}");
    }
}

#[test]
fn what_the_kernel_has_forgotten_is_found_by_its_handle() {
    let fixture = Fixture::new();
    let state = fixture.path().join("state");
    let (state, tree) = (state.to_str().unwrap(), fixture.tree());
    let arguments = [
        "--state-dir",
        state,
        "--listen",
        "127.0.0.1:0",
        tree.to_str().unwrap(),
    ];
    let connect =
        |serve: &Serve| Client::connect(serve.address(), User::System(4321, 4321, vec![]));
    let serve = Serve::start_exactly(&arguments);
    let mut client = connect(&serve);
    let mut at = client.mount(b"/").unwrap();
    for name in [&b"sub"[..], b"deep"] {
        at = client.lookup(&at, name).unwrap().handle;
    }
    let root = client.mount(b"/").unwrap();
    let file = client.lookup(&root, b"big").unwrap().handle;
    drop(serve);
    if !is_root() || fs::write("/proc/sys/vm/drop_caches", "2").is_err() {
        pagewell_skip::skip("needs root to have the kernel forget paths");
        return;
    }
    let serve = Serve::start_exactly(&arguments);
    let mut client = connect(&serve);
    let data = client.read(&file, 0, 100).unwrap();
    assert_eq!(data.bytes, fs::read(tree.join("big")).unwrap()[..100]);
    client.getattr(&at).unwrap();
    client.lookup(&at, b"x y").unwrap();
}
