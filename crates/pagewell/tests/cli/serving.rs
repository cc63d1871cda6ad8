//! `serve`: the ready line, signals, the HTTP endpoint, `counters`.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddress, UnixListener};
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::support::{Fixture, Run, Serve, ended, is_root, program, run, tool};

#[test]
fn the_ready_line_names_every_export() {
    let fixture = Fixture::new();
    let iso = fixture.iso();
    let tree = fixture.tree();
    let mut serve = Serve::start(&[
        &format!("/data={}", tree.display()),
        &format!("/the image={}", iso.display()),
        "/ram=ram:1m",
    ]);
    let address = serve.address();
    assert_ne!(address.port(), 0);
    let urls: Vec<String> = ["/data", "/the%20image", "/ram"]
        .iter()
        .map(|path| format!("nfs://{address}{path}"))
        .collect();
    assert_eq!(serve.urls(), urls);
    let lines = serve.lines_until("127.0.0.1:/ram Z:").concat();
    for part in [
        &format!(
            "port={0},mountport={0} 127.0.0.1:/data /mnt",
            address.port()
        ),
        "nolocks",
        "nolockd",
        "'127.0.0.1:/the image'",
    ] {
        assert!(lines.contains(part), "{lines} lacks {part}");
    }
    TcpStream::connect(address).unwrap();
}

#[test]
fn signals_stop_it_cleanly() {
    for signal in ["TERM", "INT"] {
        let serve = Serve::start(&["ram:1m"]);
        let address = serve.address();
        // An idle connection does not hold it up.
        let _idle = TcpStream::connect(address).unwrap();
        serve.signal(signal);
        let (code, out, err) = serve.end();
        assert_eq!((code, out.as_str()), (Some(0), ""), "{err}");
        assert!(
            err.contains("pagewell ") && err.contains("resident"),
            "{err}"
        );
        assert!(TcpStream::connect(address).is_err());
    }
}

#[test]
fn a_signal_that_arrives_twice_is_one_signal() {
    let serve = Serve::start(&["ram:1m"]);
    serve.signal_twice("TERM");
    let (code, _, err) = serve.end();
    assert_eq!(code, Some(0), "{err}");
}

#[test]
fn a_server_whose_source_does_not_answer_can_be_stopped() {
    let mute = TcpListener::bind("127.0.0.1:0").unwrap();
    let source = format!("nfs://{}/data", mute.local_addr().unwrap());
    let state = tempfile::tempdir().unwrap();
    let mut command = program();
    command.args(["serve", "--listen", "127.0.0.1:0", "--state-dir"]);
    let mut child = command.arg(state.path()).arg(source).spawn().unwrap();
    // It asks, and waits for the answer.
    let _connection = mute.accept().unwrap();
    let id = child.id().to_string();
    tool(state.path(), &["kill", "-s", "TERM", &id]);
    assert_eq!(ended(&mut child).signal(), Some(15));
}

/// In a network of its own, where the loopback interface has an address of a link.
const OF_A_LINK: &str = r#"
set -e
ip link set lo up
ip addr add fe80::1/64 dev lo nodad
"$PROGRAM" serve --state-dir "$STATE" --listen '[fe80::1%lo]:20777' --allow fe80::/10 \
    ram:1m >ready 2>commands &
trap 'kill $!' EXIT
for _ in $(seq 600); do grep -q ready ready && break; sleep 0.1; done
cat ready
grep -o ' \[fe80.*\]:/' commands | head -n 1
"$PROGRAM" stat 'nfs://[fe80::1%25lo]:20777/' >/dev/null
"$PROGRAM" stat 'nfs://[fe80::1%lo]:20777/' >/dev/null
"#;

#[test]
fn an_address_of_a_link_is_listened_on_and_called() {
    let namespace = Command::new("unshare").args(["-n", "ip", "link"]).output();
    if !namespace.is_ok_and(|output| output.status.success()) {
        pagewell_skip::skip("needs root, network namespaces and ip");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let output = Command::new("unshare")
        .args(["-n", "bash", "-c", OF_A_LINK])
        .current_dir(directory.path())
        .env("PROGRAM", env!("CARGO_BIN_EXE_pagewell"))
        .env("STATE", directory.path().join("state"))
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(
        said, "ready nfs://[fe80::1%25lo]:20777/\n [fe80::1%lo]:/\n",
        "{text}"
    );
}

/// In a network of its own, where a port mapper can be started without disturbing anybody.
const REGISTER: &str = r#"
set -e
mount -t tmpfs none /run
ip link set lo up
rpcbind -f -w &
trap 'kill $(jobs -p)' EXIT
for _ in $(seq 1200); do rpcinfo -p 127.0.0.1 >/dev/null 2>&1 && break; sleep 0.1; done
serve=("$PROGRAM" serve --state-dir "$STATE" --register ram:1m --listen)
wait_for() { for _ in $(seq 1200); do grep -q ready "$1" && break; sleep 0.1; done; }
"${serve[@]}" 127.0.0.2:20777 >ready &
server=$!
wait_for ready
rpcinfo -p 127.0.0.1 | grep -c 20777
timeout 120 "${serve[@]}" 127.0.0.3:20778 || echo "code $?"
timeout 120 "${serve[@]}" 127.0.0.3:20777 || echo "code $?"
kill -KILL $server; wait $server || true
"${serve[@]}" 127.0.0.2:20777 >again &
server=$!
wait_for again
rpcinfo -p 127.0.0.1 | grep -c 20777
for program in 100003 100005; do rpcinfo -d $program 3; done
rpcinfo -d 100021 4; rpcinfo -d 100024 1
"${serve[@]}" 127.0.0.3:20778 >other &
other=$!
wait_for other
kill -TERM $server; wait $server; echo "code $?"
rpcinfo -p 127.0.0.1 | grep -c 20778
kill -TERM $other; wait $other; echo "code $?"
rpcinfo -p 127.0.0.1 | grep -c 2077 || true
"${serve[@]}" 127.0.0.1:20779 >/dev/full || echo "code $?"
rpcinfo -p 127.0.0.1 | grep -c 2077 || true
"#;

#[test]
fn the_port_mapper_is_told_and_told_again_at_the_end() {
    let namespace = Command::new("unshare")
        .args([
            "-n",
            "-m",
            "sh",
            "-c",
            "command -v rpcbind && mount -t tmpfs none /run",
        ])
        .output();
    if !namespace.is_ok_and(|output| output.status.success()) {
        pagewell_skip::skip("needs root, network namespaces and rpcbind");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let output = Command::new("unshare")
        .args(["-n", "-m", "bash", "-c", REGISTER])
        .current_dir(directory.path())
        .env("PROGRAM", env!("CARGO_BIN_EXE_pagewell"))
        .env("STATE", directory.path().join("state"))
        .output()
        .unwrap();
    let out = String::from_utf8_lossy(&output.stdout);
    let err = String::from_utf8_lossy(&output.stderr);
    // NFS and MOUNT over TCP, NLM and NSM over UDP, too; a second server refused, at whatever
    // address; all of them again after a kill; a clean end that leaves what another server has
    // registered since; a clean end of that, none left; none either of one that could not say
    // that it is ready.
    let expected = [
        "6", "code 1", "code 1", "6", "code 0", "6", "code 0", "0", "code 1", "0",
    ];
    assert_eq!(out.lines().collect::<Vec<_>>(), expected, "{err}");
    assert!(
        err.contains("registered by another server, port 20777"),
        "{err}"
    );
}

#[test]
fn the_handle_key_survives_and_is_made_in_the_default_place() {
    let home = tempfile::tempdir().unwrap();
    let state = home.path().join("state");
    let arguments = [
        "--listen",
        "127.0.0.1:0",
        "--state-dir",
        state.to_str().unwrap(),
        "ram:1m",
    ];
    drop(Serve::start_exactly(&arguments));
    let key = std::fs::read(state.join("handle-key")).unwrap();
    assert_eq!(key.len(), 16);
    drop(Serve::start_exactly(&arguments));
    assert_eq!(std::fs::read(state.join("handle-key")).unwrap(), key);
}

#[test]
fn an_address_for_all_needs_allow_and_has_it() {
    let state = tempfile::tempdir().unwrap();
    let serve = Serve::start_exactly(&[
        "--state-dir",
        state.path().to_str().unwrap(),
        "--listen",
        "0.0.0.0:0",
        "--allow",
        "127.0.0.0/8",
        "--read-only",
        "--squash",
        "all",
        "--anon-uid",
        "1000",
        "--anon-gid",
        "1000",
        "--threads",
        "2",
        "--cookies-32bit",
        "ram:1m",
    ]);
    assert!(
        serve.urls()[0].starts_with("nfs://0.0.0.0:"),
        "{}",
        serve.ready
    );
}

fn get(address: SocketAddr, path: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}

#[test]
fn counters_are_served_and_shown() {
    let fixture = Fixture::new();
    let tree = fixture.tree();
    let mut serve = Serve::start(&["--http", "127.0.0.1:0", tree.to_str().unwrap()]);
    let address = serve.address();
    let http = serve.http();
    let url = format!(
        "nfs://127.0.0.1//a?version=3&nfsport={0}&mountport={0}",
        address.port()
    );
    let content = tool(fixture.path(), &["nfs-cat", &url]);
    assert_eq!(content, std::fs::read(tree.join("a")).unwrap());

    let (head, body) = get(http, "/metrics");
    assert!(head.contains("text/plain; version=0.0.4"), "{head}");
    super::documents::check_exposition(&body);
    let called = "pagewell_procedure_calls_total{program=\"nfs\",procedure=\"read\"} ";
    assert!(
        body.contains(called) && !body.contains(&format!("{called}0\n")),
        "{body}"
    );

    let (_, body) = get(http, "/stat.json");
    let json: Value = serde_json::from_str(&body).unwrap();
    let read = json["procedures"].as_array().unwrap();
    let read = read
        .iter()
        .find(|procedure| procedure["procedure"] == "read")
        .unwrap();
    assert!(read["calls"].as_u64().unwrap() >= 1, "{read}");
    assert!(read["latency_us"]["p99"].as_f64().unwrap() > 0.0, "{read}");

    let connect = http.to_string();
    let text = run(&["counters", "--connect", &connect]).text();
    assert!(
        text.contains("Server nfs v3:") && text.contains("\nread "),
        "{text}"
    );
    let all = run(&["counters", "--all", "--connect", &connect]).text();
    assert!(all.contains("\nsymlink "), "{all}");
    let json = run(&["counters", "--json", "--connect", &connect]).text();
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["schema"], 1);
    // Something else listens there.
    let line = run(&["counters", "--connect", &address.to_string()]).failed(1);
    assert!(line.contains(&address.to_string()), "{line}");

    serve.signal("TERM");
    let (code, _, err) = serve.end();
    assert_eq!(code, Some(0), "{err}");
    assert!(err.contains("Server nfs v3:"), "{err}");
}

#[test]
fn a_server_outside_the_namespace_of_processes_is_asked() {
    let serve = Serve::start(&["ram:1m"]);
    let run: Run = Command::new("unshare")
        .args(["--pid", "--fork", "--mount-proc"])
        .arg(env!("CARGO_BIN_EXE_pagewell"))
        .args(["counters", "--process", &serve.process_id().to_string()])
        .output()
        .unwrap()
        .into();
    if !is_root() && run.code != Some(0) {
        return pagewell_skip::skip("needs root for another namespace");
    }
    assert!(run.text().contains("pagewell"));
}

#[test]
fn names_that_another_user_has_taken_are_passed_over() {
    if !is_root() {
        return pagewell_skip::skip("only root can be two users");
    }
    let serve = Serve::start(&["ram:1m"]);
    let process = serve.process_id().to_string();
    let name = UnixAddress::from_abstract_name(format!("pagewell/{process}/a")).unwrap();
    // A thread has a user of its own, as the kernel sees it.
    let taken = std::thread::spawn(move || {
        let other = rustix::process::Uid::from_raw(65_534);
        rustix::thread::set_thread_res_uid(other, other, other).unwrap();
        UnixListener::bind_addr(&name).unwrap()
    });
    let _taken = taken.join().unwrap();
    let text = run(&["counters", "--process", &process]).text();
    assert!(text.contains("pagewell"), "{text}");
}

/// This machine is let in beside the networks that --allow names, unless it is not to be.
#[test]
fn allow_does_not_lock_this_machine_out_unless_asked() {
    let allow = ["--allow", "10.0.0.0/8"];
    let serve = Serve::start(&[&allow[..], &["ram:1m"]].concat());
    run(&["ls", serve.urls()[0]]).done();
    let serve = Serve::start(&[&allow[..], &["--no-loopback", "ram:1m"]].concat());
    let mut refused = TcpStream::connect(serve.address()).unwrap();
    refused
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    match refused.read(&mut [0]) {
        Ok(0) => {}
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
        Ok(_) => panic!("a stranger was answered"),
    }
    let serve = Serve::start(&["--allow", "127.0.0.1", "--no-loopback", "ram:1m"]);
    run(&["ls", serve.urls()[0]]).done();
    let wide = run(&["serve", "--allow", "::/64", "ram:1m"]).failed(2);
    assert!(wide.contains("IPv4"), "{wide}");
}

/// A limit of file sizes is an error of the write that meets it, not the end of the server.
#[test]
fn a_limit_of_file_sizes_does_not_end_the_server() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("exported");
    std::fs::create_dir(&path).unwrap();
    let long = directory.path().join("long");
    std::fs::write(&long, vec![1; 3 << 20]).unwrap();
    let served = path.to_string_lossy();
    let serve = Serve::start_limited(&["--squash", "none", &served], 1 << 20);
    let url = format!("{}::/copy", serve.urls()[0]);
    let failed = run(&["cp", &long.to_string_lossy(), &url]).failed(1);
    assert!(failed.to_lowercase().contains("too large"), "{failed}");
    run(&["ls", serve.urls()[0]]).done();
    let (code, _, err) = {
        serve.signal("TERM");
        serve.end()
    };
    assert_eq!(code, Some(0), "{err}");
}

/// A name that is not there is an answer of LOOKUP and no error in the counters.
#[test]
fn a_missing_name_is_no_error_in_the_counters() {
    let mut serve = Serve::start(&["--http", "127.0.0.1:0", "ram:1m"]);
    let http = serve.http();
    let missing = format!("{}::/missing", serve.urls()[0]);
    run(&["ls", &missing]).failed(1);
    let (_, body) = get(http, "/stat.json");
    let json: Value = serde_json::from_str(&body).unwrap();
    let procedures = json["procedures"].as_array().unwrap();
    let mut procedures = procedures.iter();
    let lookup = procedures
        .find(|procedure| procedure["procedure"] == "lookup")
        .unwrap();
    assert!(lookup["calls"].as_u64().unwrap() > 0, "{lookup}");
    assert_eq!(lookup["errors"].as_u64(), Some(0));
}
