//! Which clients a server has, and how their connections are ended.

use std::io::Read;
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;

use super::support::{Fixture, Serve, run, tool};

#[test]
fn clients_are_listed_by_address_and_export() {
    let fixture = Fixture::new();
    let tree = fixture.tree();
    let one = format!("/one={}", tree.display());
    let serve = Serve::start(&[&one, "/two=ram:1m"]);
    let process = serve.process_id().to_string();
    let none = run(&["clients", "--process", &process, "--interval", "0.1"]).text();
    assert_eq!(none, "no client has connected\n");

    tool(fixture.path(), &["nfs-cat", &serve.libnfs_url("one/a")]);
    let json = run(&["counters", "--json", "--process", &process]).text();
    let json: Value = serde_json::from_str(&json).unwrap();
    let client = &json["clients"][0];
    assert_eq!(client["address"], "127.0.0.1");
    assert_eq!(client["locks"], 0);
    let exports = client["exports"].as_array().unwrap();
    let of = |name: &str| exports.iter().find(|export| export["export"] == name);
    let length = std::fs::metadata(tree.join("a")).unwrap().len();
    assert!(of("/one").unwrap()["sent_bytes"].as_u64().unwrap() > length);
    assert!(of("/one").unwrap()["calls"].as_u64().unwrap() > 1);
    assert_eq!(of("/two"), None, "{client}");

    let text = run(&["clients", "--process", &process, "--interval", "0.1"]).text();
    let mut lines = text.lines();
    assert!(lines.next().unwrap().starts_with("client"), "{text}");
    let shown = |line: &str| line.starts_with("127.0.0.1  /one ");
    assert!(lines.any(shown), "{text}");
}

#[test]
fn connections_of_a_client_are_ended() {
    let serve = Serve::start(&["ram:1m"]);
    let process = serve.process_id().to_string();
    let disconnect = |address: &str| run(&["disconnect", "--process", &process, address]);
    let mut stream = TcpStream::connect(serve.address()).unwrap();
    let line = disconnect("127.0.0.2").failed(1);
    assert!(line.contains("127.0.0.2 has no connection"), "{line}");
    // Accepted a moment after it was made.
    let deadline = std::time::Instant::now() + Duration::from_secs(60);
    while disconnect("127.0.0.1").code != Some(0) {
        assert!(std::time::Instant::now() < deadline, "it is never there");
    }
    stream
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    assert_eq!(stream.read(&mut [0; 8]).unwrap(), 0);
    let line = disconnect("somebody").failed(2);
    assert!(line.contains("somebody"), "{line}");
}
