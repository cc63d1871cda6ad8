//! `--http`: the page, its socket and its token. How it looks is for `tests/page`.

use std::io::{Read, Write};
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
