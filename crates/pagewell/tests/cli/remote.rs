//! Exports of servers as sources: `nfs://HOST/EXPORT`.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process::Stdio;
use std::time::Duration;

use crate::support::{Fixture, Serve, bytes, is_root, program, run, tool};

/// Serves a directory as root would be served, and gives the URL.
fn serve(source: &str) -> (Serve, String) {
    let serve = Serve::start(&["--squash", "none", source]);
    let url = serve.urls()[0].to_owned();
    (serve, url)
}

#[test]
fn what_is_served_can_be_looked_at() {
    let fixture = Fixture::new();
    let tree = fixture.tree();
    let (_serve, url) = serve(tree.to_str().unwrap());
    let names = run(&["ls", &url]).text();
    assert_eq!(names, run(&["ls", tree.to_str().unwrap()]).text());
    let file = format!("{url}::/sub/deep/x y");
    assert!(run(&["cat", &file]).done() == bytes(5000, 5000));
    let big = format!("{url}?rsize=64k::/big");
    assert!(run(&["cat", &big]).done() == bytes((3 << 20) + 17, (3 << 20) + 17));
    let sums = run(&["sum", &big, &file]).text();
    let local = tool(&tree, &["sha256sum", "big", "sub/deep/x y"]);
    let digests =
        |text: &str| -> Vec<String> { text.lines().map(|line| line[..64].to_owned()).collect() };
    assert_eq!(
        digests(&sums),
        digests(std::str::from_utf8(&local).unwrap())
    );
    let stat = run(&["stat", &format!("{url}::/sub/script")]).text();
    assert!(stat.contains("100") && stat.contains("755"), "{stat}");
}

#[test]
fn trees_are_copied_there_and_back() {
    let fixture = Fixture::new();
    let exported = fixture.path().join("exported");
    fs::create_dir(&exported).unwrap();
    let (serve, url) = serve(exported.to_str().unwrap());
    let tree = fixture.tree();
    run(&[
        "cp",
        "-rp",
        tree.to_str().unwrap(),
        &format!("{url}::/copy"),
    ])
    .done();
    let back = fixture.path().join("back");
    let copied = run(&[
        "cp",
        "-rp",
        &format!("{url}::/copy"),
        back.to_str().unwrap(),
    ]);
    assert_eq!(copied.code, Some(0), "{}", copied.err);
    // Whether there were any is not told by a server.
    assert_eq!(copied.err.lines().count(), 1, "{}", copied.err);
    assert!(
        copied.err.contains("access control lists"),
        "{}",
        copied.err
    );
    for copy in [exported.join("copy"), back] {
        tool(
            fixture.path(),
            &[
                "diff",
                "-r",
                "--no-dereference",
                "tree",
                copy.to_str().unwrap(),
            ],
        );
        let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode();
        assert_eq!(
            mode(&copy.join("sub/script")),
            mode(&tree.join("sub/script"))
        );
        let time = |path: &std::path::Path| fs::metadata(path).unwrap().modified().unwrap();
        assert_eq!(time(&copy.join("a")), time(&tree.join("a")));
        assert_eq!(time(&copy.join("sub/deep")), time(&tree.join("sub/deep")));
    }
    // Over what is there, and a shorter file over a longer one.
    let short = fixture.path().join("short");
    fs::write(&short, b"short").unwrap();
    run(&["cp", short.to_str().unwrap(), &format!("{url}::/copy/a")]).done();
    assert_eq!(fs::read(exported.join("copy/a")).unwrap(), b"short");
    drop(serve);
}

#[test]
fn an_export_can_be_served_again() {
    let fixture = Fixture::new();
    let (_first, url) = serve("ram:16m");
    let second = Serve::start(&["--squash", "none", &format!("/again={url}")]);
    let again = second.urls()[0].to_owned();
    let tree = fixture.tree();
    run(&[
        "cp",
        "-r",
        tree.to_str().unwrap(),
        &format!("{again}::/copy"),
    ])
    .done();
    let back = fixture.path().join("back");
    run(&["cp", "-r", &format!("{url}::/copy"), back.to_str().unwrap()]).done();
    tool(
        fixture.path(),
        &["diff", "-r", "--no-dereference", "tree", "back"],
    );
    second.signal("TERM");
    let (code, _, err) = second.end();
    assert_eq!(code, Some(0), "{err}");
}

#[test]
fn a_copy_outlives_the_death_of_its_server() {
    let fixture = Fixture::new();
    let exported = fixture.path().join("exported");
    let (source, state) = (fixture.path().join("source"), fixture.path().join("state"));
    for directory in [&exported, &source, &state] {
        fs::create_dir(directory).unwrap();
    }
    for number in 0..60usize {
        let name = source.join(format!("file{number}"));
        fs::write(name, bytes(200_000 + number, number as u64)).unwrap();
    }
    let start = |listen: &str| {
        let words = [
            "--state-dir",
            state.to_str().unwrap(),
            "--listen",
            listen,
            "--squash",
            "none",
        ];
        let mut words: Vec<&str> = words.to_vec();
        words.push(exported.to_str().unwrap());
        Serve::start_exactly(&words)
    };
    // An address of its own, so that no other server takes the port meanwhile.
    let mut serve = start("127.9.8.21:0");
    let address = serve.address().to_string();
    // Each call takes a while, so that the copy is still under way.
    let target = format!("nfs://{address}/?delay=2&timeo=50::/copy");
    let mut copy = program()
        .args(["cp", "-r", source.to_str().unwrap(), &target])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let copied = || fs::read_dir(exported.join("copy")).map_or(0, Iterator::count);
    for round in 1..=3 {
        // Not before it has mounted.
        while copied() < 10 * round && copy.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_millis(5));
        }
        serve.signal("KILL");
        serve.end();
        serve = start(&address);
    }
    let output = copy.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    tool(fixture.path(), &["diff", "-r", "source", "exported/copy"]);
}

#[test]
fn a_server_that_serves_only_reserved_ports_is_told_so() {
    let secure = Serve::start(&["--secure", "/data=ram:1m"]);
    let url = format!("{}?noresvport", secure.urls()[0]);
    let line = run(&["ls", &url]).failed(1);
    for part in [
        "denies access to /data",
        "ports below 1024",
        "\"insecure\" in /etc/exports",
    ] {
        assert!(line.contains(part), "{line}");
    }
}

#[test]
fn seconds_that_are_meant_for_timeo_are_doubted() {
    let (serve, url) = serve("ram:1m");
    let seen = run(&["ls", &format!("{url}?timeo=700")]);
    assert_eq!(seen.code, Some(0), "{}", seen.err);
    assert_eq!(seen.err.lines().count(), 1, "{}", seen.err);
    assert!(seen.err.contains("waits 70 s"), "{}", seen.err);
    run(&["ls", &format!("{url}?timeo=600")]).done();
    drop(serve);
}

#[test]
fn all_is_done_as_the_user_that_the_url_names() {
    if !is_root() {
        return pagewell_skip::skip("needs root");
    }
    let fixture = Fixture::new();
    let exported = fixture.path().join("exported");
    fs::create_dir(&exported).unwrap();
    tool(fixture.path(), &["chown", "1234:567", "exported"]);
    tool(fixture.path(), &["chmod", "700", "exported"]);
    let (_serve, url) = serve(exported.to_str().unwrap());
    let script = fixture.tree().join("sub/script");
    let copy = |options: &str| {
        let target = format!("{url}?{options}::/copy");
        run(&["cp", script.to_str().unwrap(), &target])
    };
    let refused = copy("uid=4321").failed(1);
    assert!(refused.contains("ermission denied"), "{refused}");
    copy("uid=1234&gid=567").done();
    let made = fs::metadata(exported.join("copy")).unwrap();
    assert_eq!((made.uid(), made.gid()), (1234, 567));
    copy("uid=1234&gid=7").done();
}

#[test]
fn what_cannot_be_mounted_is_one_line() {
    let (serve, url) = serve("ram:1m");
    for (source, code, part) in [
        (format!("{url}nowhere"), 1, "nowhere"),
        ("nfs://127.0.0.1:1/x".to_owned(), 1, "127.0.0.1"),
        (format!("{url}?bogus"), 2, "unknown option 'bogus'"),
        ("nfs:x".to_owned(), 2, "begins with nfs://"),
    ] {
        let line = run(&["ls", &source]).failed(code);
        assert!(line.contains(part), "{line}");
    }
    drop(serve);
}

/// The root of a server with several exports is a tree with all of them. Their files have the same
/// inode numbers, and are others.
#[test]
fn all_exports_of_a_server_are_one_tree() {
    let fixture = Fixture::new();
    let serve = Serve::start(&["--squash", "none", "/first=ram:1m", "/below/second=ram:1m"]);
    let address = serve.address();
    for (export, content) in [("first", "one"), ("below/second", "two")] {
        let local = fixture.path().join(content);
        fs::create_dir(&local).unwrap();
        fs::write(local.join("file"), content).unwrap();
        fs::hard_link(local.join("file"), local.join("link")).unwrap();
        let there = format!("nfs://{address}/{export}::/copy");
        run(&["cp", "-rd", local.to_str().unwrap(), &there]).done();
    }
    let root = format!("nfs://{address}/");
    let listed = run(&["ls", "-R", &root]).text();
    for part in ["::/below/second/copy:\n", "::/first/copy:\nfile\nlink\n"] {
        assert!(listed.contains(part), "{listed}");
    }
    let file = format!("{root}::/below/second/copy/link");
    assert_eq!(run(&["cat", &file]).text(), "two");
    let all = fixture.path().join("all");
    run(&["cp", "-rd", &root, all.to_str().unwrap()]).done();
    for (file, content) in [
        ("first/copy/link", "one"),
        ("below/second/copy/link", "two"),
    ] {
        assert_eq!(fs::read_to_string(all.join(file)).unwrap(), content);
    }
    let none = run(&["ls", &format!("nfs://{address}/none")]).failed(1);
    assert!(none.contains("no export /none"), "{none}");
}

#[test]
fn a_file_of_a_server_is_the_same_by_each_of_its_names() {
    let fixture = Fixture::new();
    let export = format!("/e={}", fixture.tree().display());
    let serve = Serve::start(&["--squash", "none", &export, "/other=ram:1m"]);
    let port = serve.address().port();
    let numbers = format!("nfs://127.0.0.1:{port}/e::");
    for other in [
        format!("nfs://localhost:{port}/e::"),
        format!("nfs://127.0.0.1:{port}/::/e"),
    ] {
        for (from, to) in [(&numbers, &other), (&other, &numbers)] {
            let line = run(&["cp", &format!("{from}/big"), &format!("{to}/big")]).failed(1);
            assert!(line.contains("same file"), "{line}");
            let [from, to] = [format!("{from}/sub"), format!("{to}/sub/deep/new")];
            let line = run(&["cp", "-r", &from, &to]).failed(1);
            assert!(line.contains("into itself"), "{line}");
        }
    }
    let big = fs::read(fixture.tree().join("big")).unwrap();
    assert!(big == bytes((3 << 20) + 17, (3 << 20) + 17));
    assert!(!fixture.tree().join("sub/deep/new").exists());
}

#[test]
fn a_file_of_a_server_of_this_machine_is_the_same_by_its_path() {
    let fixture = Fixture::new();
    let tree = fixture.tree();
    let local = tree.to_str().unwrap();
    let export = format!("/e={local}");
    let serve = Serve::start(&["--squash", "none", &export, "/other=ram:1m"]);
    let port = serve.address().port();
    let urls = [
        format!("nfs://127.0.0.1:{port}/e::"),
        format!("nfs://127.0.0.1:{port}/::/e"),
    ];
    // Without kernel handles only numbers tell, and above several exports they are others.
    let known = if is_root() { 2 } else { 1 };
    for url in &urls[..known] {
        for (from, to) in [(&**url, local), (local, &**url)] {
            let line = run(&["cp", &format!("{from}/big"), &format!("{to}/big")]).failed(1);
            assert!(line.contains("same file"), "{line}");
            run(&["cp", &format!("{from}/a"), &format!("{to}/none")]).done();
        }
        let into = tree.join("sub/deep");
        let line = run(&["cp", "-r", &format!("{url}/sub"), into.to_str().unwrap()]);
        assert!(line.err.contains("into itself"), "{}", line.err);
    }
    let big = fs::read(tree.join("big")).unwrap();
    assert!(big == bytes((3 << 20) + 17, (3 << 20) + 17));
}

#[test]
fn what_two_servers_have_is_not_one_for_having_one_number() {
    let fixture = Fixture::new();
    let state = fixture.path().join("state");
    // Both have the key of their user, and give the same numbers.
    let start = || {
        let state = state.to_str().unwrap();
        let listen = ["--state-dir", state, "--listen", "127.0.0.1:0"];
        Serve::start_exactly(&[&listen[..], &["--squash", "none", "/e=ram:1m"]].concat())
    };
    let servers = [start(), start()];
    let [one, other] = servers.each_ref().map(|serve| {
        let port = serve.address().port();
        format!("nfs://127.0.0.1:{port}/e::")
    });
    for (there, content) in [(&one, "first"), (&other, "second")] {
        let local = fixture.path().join("file");
        fs::write(&local, content).unwrap();
        run(&["cp", local.to_str().unwrap(), &format!("{there}/file")]).done();
    }
    let file = format!("{other}/file");
    run(&["cp", &format!("{one}/file"), &file]).done();
    assert_eq!(run(&["cat", &file]).text(), "first");
    run(&["cp", "-r", &format!("{one}/"), &format!("{other}/copy")]).done();
    assert_eq!(run(&["ls", &format!("{other}/copy")]).text(), "file\n");
}
