//! `--http`: the page, its socket and its token. How it looks is for `tests/page`.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;

use serde_json::Value;

use crate::support::{Fixture, Run, Serve, program, run};

/// The answer of a socket, with one more field.
fn ask(socket: &Path, path: &str, field: &str) -> String {
    let mut stream = UnixStream::connect(socket).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: files.example\r\n{field}\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

/// The document of programs at this address.
fn stat(address: SocketAddr) -> Value {
    let mut stream = TcpStream::connect(address).unwrap();
    let request =
        format!("GET /stat.json HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (_, body) = text.split_once("\r\n\r\n").unwrap();
    serde_json::from_str(body).unwrap()
}

#[test]
fn it_is_at_a_socket_for_who_has_the_token() {
    let fixture = Fixture::new();
    let socket = fixture.path().join("page");
    let token = fixture.path().join("token");
    std::fs::write(&token, "0123456789abcdef\n").unwrap();
    let place = format!("unix:{}", socket.display());
    let token = token.to_str().unwrap();
    let mut serve = Serve::start(&["--http", &place, "--http-token", token, "/a=ram:1m"]);
    let said = serve.lines_until("metrics http://").concat();
    assert!(
        said.contains("page http://localhost/ (curl --unix-socket "),
        "{said}"
    );
    let status = |path: &str, field: &str| ask(&socket, path, field)[9..12].to_owned();
    let right = "Authorization: Bearer 0123456789abcdef\r\n";
    for path in ["/", "/metrics", "/stat.json", "/history.json"] {
        assert_eq!(status(path, ""), "401", "{path}");
        assert_eq!(status(path, right), "200", "{path}");
    }
    assert_eq!(
        (
            status("/readyz", "").as_str(),
            status("/", "Range: x\r\n").as_str()
        ),
        ("200", "401")
    );
    let answer = ask(&socket, "/stat.json", right);
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    let json: Value = serde_json::from_str(body).unwrap();
    assert_eq!(
        (&json["process"], &json["ready"]),
        (&"serve".into(), &true.into())
    );
    let export = &json["exports"][0];
    assert_eq!(
        (&export["name"], &export["read_only"]),
        (&"/a".into(), &false.into())
    );
    serve.signal("TERM");
    assert_eq!(serve.end().0, Some(0));
    assert!(!socket.exists(), "the socket is removed");
}

/// What is wrong with an export is seen on the page, and not of one that is well.
#[test]
fn exports_have_their_warnings() {
    let fixture = Fixture::new();
    let at = |name: &str| fixture.path().join(name);
    std::fs::write(at("disk.img"), vec![7; 1 << 20]).unwrap();
    std::fs::create_dir(at("gone")).unwrap();
    let exports = [
        format!("/tree={}", fixture.tree().display()),
        format!("/gone={}", at("gone").display()),
        format!("/disk=image:{}", at("disk.img").display()),
    ];
    let options = ["--http", "127.0.0.1:0", "--cache", "8m"];
    let exports = exports.each_ref().map(String::as_str);
    let mut serve = Serve::start(&[&options[..], &exports].concat());
    let address = serve.http();
    let warnings = || -> Vec<String> {
        let body = stat(address);
        let exports = body["exports"].as_array().unwrap().iter();
        let of = |export: &Value| {
            let lines = export["warnings"].as_array().unwrap().iter();
            lines
                .map(|line| line.as_str().unwrap())
                .collect::<Vec<_>>()
                .join("; ")
        };
        exports.map(of).collect()
    };
    assert_eq!(warnings(), ["", "", ""]);
    std::fs::remove_dir(at("gone")).unwrap();
    std::fs::OpenOptions::new()
        .write(true)
        .truncate(true)
        .open(at("disk.img"))
        .unwrap();
    let disk = format!("{}::/disk.img", serve.urls()[2]);
    run(&["cat", &disk]).failed(1);
    let begun = std::time::Instant::now();
    let seen = loop {
        let seen = warnings();
        if seen[1].contains("not there any more") {
            break seen;
        }
        assert!(begun.elapsed().as_secs() < 60, "{seen:?}");
        std::thread::sleep(std::time::Duration::from_millis(50));
    };
    assert_eq!(seen[0], "");
    assert!(seen[2].starts_with("its storage failed "), "{seen:?}");
}

/// Programs of ours give the token from a file or a variable, never on their command line.
#[test]
fn counters_and_the_like_have_the_token() {
    let fixture = Fixture::new();
    let (token, other) = (fixture.path().join("token"), fixture.path().join("other"));
    std::fs::write(&token, "0123456789abcdef\n").unwrap();
    std::fs::write(&other, "0123456789abcdeF\n").unwrap();
    let (token, other) = (token.to_str().unwrap(), other.to_str().unwrap());
    let mut serve = Serve::start(&["--http", "127.0.0.1:0", "--http-token", token, "ram:1m"]);
    let address = serve.http().to_string();
    for (command, option) in [
        ("counters", "--json"),
        ("top", "--once"),
        ("clients", "--interval=100ms"),
    ] {
        let words = [command, option, "--connect", &address];
        let refused = run(&words).failed(1);
        assert!(
            refused.contains("--http-token FILE, or the variable"),
            "{refused}"
        );
        let with = |file| run(&[&words[..], &["--http-token", file]].concat());
        let refused = with(other).failed(1);
        assert!(refused.contains("another token"), "{refused}");
        with(token).done();
        let by_variable = |value: &str| {
            let mut command = program();
            command.args(words).env("PAGEWELL_HTTP_TOKEN", value);
            command.output().unwrap().into()
        };
        Run::done(by_variable("0123456789abcdef"));
        let wrong: Run = by_variable("short");
        assert!(
            wrong
                .failed(1)
                .contains("PAGEWELL_HTTP_TOKEN: a token has 16 to")
        );
    }
    let alone = run(&["counters", "--http-token", token]).failed(2);
    assert!(alone.contains("--connect"), "{alone}");
    let disclosed = std::fs::read(format!("/proc/{}/cmdline", serve.process_id())).unwrap();
    assert!(!String::from_utf8_lossy(&disclosed).contains("0123456789"));
}

#[test]
fn what_cannot_be_is_said() {
    let fixture = Fixture::new();
    let file = fixture.path().join("file");
    std::fs::write(&file, "short\n").unwrap();
    let file = file.to_str().unwrap();
    let place = format!("unix:{file}");
    for (code, options, parts) in [
        (1, &["--http", &place][..], [&place[..], "no socket"]),
        (2, &["--http", "unix:"], ["--http", "a path is wanted"]),
        (2, &["--http-token", file], ["--http-token", "--http"]),
        (
            1,
            &["--http", "127.0.0.1:0", "--http-token", file],
            ["--http-token", "16 to 512"],
        ),
        (
            1,
            &["--http", "127.0.0.1:0", "--http-token", "/no/such"],
            ["/no/such", "No such file"],
        ),
    ] {
        let mut arguments = vec!["serve", "--listen", "127.0.0.1:0"];
        arguments.extend(options);
        arguments.push("ram:1m");
        let error = run(&arguments).failed(code);
        for part in parts {
            assert!(error.contains(part), "{options:?}: {error}");
        }
    }
}
