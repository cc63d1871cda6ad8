//! The proxy between a client and a server that are both here: what passes unchanged, and each
//! fault as the client sees it.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod client;
mod origin;

use std::io::{BufRead as _, BufReader, ErrorKind, Read as _};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use client::{Client, Reply};
use origin::{OBJECT_BYTES, Origin, byte_at};
use pagewell_object_proxy::{Control, Fault, Kind, Link, Proxy, Rule, Script, Which};

/// Nothing of this takes long; more means that it hangs.
const HANGS: Duration = Duration::from_secs(120);

fn proxy(origin: &Origin, script: &str) -> Proxy {
    Proxy::start(origin.address(), script.parse().unwrap()).unwrap()
}

/// The reply to a GET of the object, of a range of it if one is given.
fn get(proxy: &Proxy, range: Option<&str>) -> std::io::Result<Reply> {
    let mut client = Client::connect(proxy.address());
    client.get("/object", range)
}

fn is_object(bytes: &[u8], first: usize) -> bool {
    let mut places = bytes.iter().zip(first..);
    places.all(|(byte, at)| *byte == byte_at(at))
}

#[test]
fn requests_and_replies_pass_unchanged() {
    let origin = Origin::start();
    let proxy = proxy(&origin, "");
    let mut client = Client::connect(proxy.address());
    let reply = client.get("/object", Some("bytes=10-19")).unwrap();
    assert_eq!(reply.status, 206);
    assert!(reply.body.len() == 10 && is_object(&reply.body, 10));
    assert_eq!(reply.field("etag"), Some("\"one\""));
    let whole = client.get("/object", None).unwrap();
    assert!(whole.body.len() == OBJECT_BYTES && is_object(&whole.body, 0));
    let chunked = client.get("/chunked", None).unwrap();
    assert!(chunked.body.len() == OBJECT_BYTES && is_object(&chunked.body, 0));
    let odd = "/b/a//b%7E/../x%20?list-type=2&prefix=a%2F";
    client.get(odd, None).unwrap();
    let heads = origin.heads();
    let last = heads.last().unwrap();
    assert_eq!(last[0], format!("GET {odd} HTTP/1.1"));
    // As the client sent it, and signed it.
    assert!(
        last.contains(&"Host: signed.example:1234".to_owned()),
        "{last:?}"
    );
    assert_eq!(proxy.seen()[3].head, *last);
    // The server saw one connection, too.
    assert_eq!((origin.connections(), proxy.counts().connections()), (1, 1));
}

#[test]
fn bodies_go_up_with_a_length_in_chunks_and_when_asked_for() {
    let origin = Origin::start();
    let proxy = proxy(&origin, "");
    let mut client = Client::connect(proxy.address());
    let body: Vec<u8> = (0..200_000).map(byte_at).collect();
    for (number, fields) in [
        "",
        "Transfer-Encoding: chunked\r\n",
        "Expect: 100-continue\r\n",
    ]
    .into_iter()
    .enumerate()
    {
        let target = format!("/put/{number}");
        assert_eq!(client.put(&target, fields, &body).unwrap().status, 200);
        assert!(origin.stored(&target) == Some(body.clone()), "{fields}");
    }
    // A server that refuses before the body has come.
    let refused = client
        .put("/refuse", "Expect: 100-continue\r\n", &body)
        .unwrap();
    assert_eq!(refused.status, 412);
    let put = proxy.counts().of(Kind::Put);
    assert_eq!(put.requests, 4);
    assert!((600_000..610_000).contains(&put.bytes_up), "{put:?}");
}

#[test]
fn requests_and_bytes_are_counted_by_kind() {
    let origin = Origin::start();
    let proxy = proxy(&origin, "");
    let mut client = Client::connect(proxy.address());
    client.get("/b?list-type=2", None).unwrap();
    client.get("/object", Some("bytes=0-999")).unwrap();
    client.get("/object", Some("bytes=0-1999")).unwrap();
    client.head("/object").unwrap();
    let counts = proxy.counts();
    assert_eq!(counts.all().requests, 4);
    assert_eq!(counts.of(Kind::Get).requests, 2);
    assert_eq!(
        (
            counts.of(Kind::List).requests,
            counts.of(Kind::Head).requests
        ),
        (1, 1)
    );
    let down = counts.of(Kind::Get).bytes_down;
    assert!((3_000..4_000).contains(&down), "{down}");
    let seen = proxy.seen();
    assert_eq!(seen[2].field("RANGE"), Some("bytes=0-1999"));
    assert_eq!(
        (seen[2].status, seen[2].body_bytes_down),
        (Some(206), 2_000)
    );
    assert_eq!((seen[3].status, seen[3].body_bytes_down), (Some(200), 0));
    proxy.reset_counts();
    assert_eq!(proxy.counts().all().requests, 0);
    assert!(proxy.seen().is_empty());
}

#[test]
fn replies_break_off_where_the_script_says() {
    let origin = Origin::start();
    let proxy = proxy(
        &origin,
        "get first=2 reset=100000; get after=2 close=100000",
    );
    for kind in [
        ErrorKind::ConnectionReset,
        ErrorKind::ConnectionReset,
        ErrorKind::UnexpectedEof,
    ] {
        let mut client = Client::connect(proxy.address());
        let error = client.get("/object", None).unwrap_err();
        assert_eq!(error.kind(), kind);
        assert!(is_object(&client.received, 0));
        assert_eq!(client.received.len(), 100_000);
    }
    // A reply that is shorter is whole.
    assert_eq!(get(&proxy, Some("bytes=0-9")).unwrap().body.len(), 10);
}

#[test]
fn a_reply_stalls_and_a_request_hangs_until_the_client_gives_up() {
    let origin = Origin::start();
    let proxy = proxy(&origin, "get only=1 stall=1000; get only=2 hang");
    for received in [1000, 0] {
        let mut client = Client::connect(proxy.address());
        client.set_patience(Duration::from_millis(200));
        let error = client.get("/object", None).unwrap_err();
        assert!([ErrorKind::WouldBlock, ErrorKind::TimedOut].contains(&error.kind()));
        assert_eq!(client.received.len(), received);
    }
    assert_eq!(origin.heads().len(), 1);
    assert_eq!(get(&proxy, None).unwrap().body.len(), OBJECT_BYTES);
}

#[test]
fn an_object_is_replaced_in_the_middle_of_a_reply() {
    let origin = Origin::start();
    let proxy = proxy(&origin, "get only=1 hold=500000");
    let address = proxy.address();
    let reader = std::thread::spawn(move || Client::connect(address).get("/object", None));
    assert!(proxy.wait_until_held(HANGS));
    origin.replace();
    proxy.release();
    assert_eq!(
        reader.join().unwrap().unwrap().field("etag"),
        Some("\"one\"")
    );
    assert_eq!(get(&proxy, None).unwrap().field("etag"), Some("\"two\""));
}

#[test]
fn an_object_is_replaced_before_the_rest_is_asked_for() {
    let origin = Origin::start();
    let proxy = proxy(&origin, "get only=1 reset=500000; get only=2 wait");
    assert!(get(&proxy, None).is_err());
    let address = proxy.address();
    let rest = std::thread::spawn(move || {
        let mut client = Client::connect(address);
        client.get("/object", Some("bytes=500000-600000"))
    });
    assert!(proxy.wait_until_held(HANGS));
    // It has not gone on.
    assert_eq!(origin.heads().len(), 1);
    origin.replace();
    proxy.release();
    assert_eq!(rest.join().unwrap().unwrap().field("etag"), Some("\"two\""));
}

#[test]
fn replies_lie_about_their_length_and_their_range() {
    let origin = Origin::start();
    let proxy = proxy(
        &origin,
        "get in=/object only=1 short=1000; get only=2 content-range=-5",
    );
    let short = get(&proxy, Some("bytes=0-9999")).unwrap();
    assert_eq!(short.field("content-length"), Some("9000"));
    assert_eq!(
        short.field("content-range"),
        Some(&*format!("bytes 0-9999/{OBJECT_BYTES}"))
    );
    assert!(short.body.len() == 9000 && is_object(&short.body, 0));
    let wrong = get(&proxy, Some("bytes=10-19")).unwrap();
    assert_eq!(
        wrong.field("content-range"),
        Some(&*format!("bytes 5-14/{OBJECT_BYTES}"))
    );
    assert!(wrong.body.len() == 10 && is_object(&wrong.body, 10));
}

#[test]
fn etags_vanish_and_become_weak_and_bodies_are_compressed() {
    let origin = Origin::start();
    let script = "any only=1 no-etag; any only=2 weak-etag; any only=3 gzip; any only=4 whole";
    let proxy = proxy(&origin, script);
    let range = Some("bytes=0-999");
    assert_eq!(get(&proxy, range).unwrap().field("etag"), None);
    assert_eq!(get(&proxy, range).unwrap().field("etag"), Some("W/\"one\""));
    let gzip = get(&proxy, range).unwrap();
    assert_eq!(gzip.field("content-encoding"), Some("gzip"));
    let mut body = Vec::new();
    let mut decoder = flate2::read::GzDecoder::new(&gzip.body[..]);
    decoder.read_to_end(&mut body).unwrap();
    assert!(body.len() == 1000 && is_object(&body, 0));
    let whole = get(&proxy, range).unwrap();
    assert_eq!((whole.status, whole.body.len()), (200, OBJECT_BYTES));
    // What the client asked for is still what is seen.
    assert_eq!(proxy.seen()[3].field("range"), range);
}

#[test]
fn the_proxy_answers_for_the_server() {
    let origin = Origin::start();
    let place = "/moved{target}";
    let script = format!("any only=1 status=503,retry-after=7; any only=2 redirect=308,{place}");
    let proxy = proxy(&origin, &script);
    let mut client = Client::connect(proxy.address());
    let busy = client.put("/put/a", "", b"body").unwrap();
    assert_eq!((busy.status, busy.field("retry-after")), (503, Some("7")));
    assert!(String::from_utf8_lossy(&busy.body).contains("<Code>SlowDown</Code>"));
    let moved = client.get("/object?x", None).unwrap();
    assert_eq!(
        (moved.status, moved.field("location")),
        (308, Some("/moved/object?x"))
    );
    // The same connection goes on.
    assert_eq!(client.get("/object", None).unwrap().status, 200);
    assert_eq!((origin.heads().len(), origin.stored("/put/a")), (1, None));
}

#[test]
fn a_request_is_applied_and_its_reply_lost() {
    let origin = Origin::start();
    let proxy = proxy(&origin, "put only=1 lost-reply; put only=2 applied=500");
    let mut client = Client::connect(proxy.address());
    let lost = client.put("/put/a", "", b"one").unwrap_err();
    assert_eq!(lost.kind(), ErrorKind::ConnectionReset);
    let mut client = Client::connect(proxy.address());
    assert_eq!(client.put("/put/b", "", b"two").unwrap().status, 500);
    assert_eq!(origin.stored("/put/a").as_deref(), Some(&b"one"[..]));
    assert_eq!(origin.stored("/put/b").as_deref(), Some(&b"two"[..]));
}

#[test]
fn uploads_are_cut_and_changed() {
    let origin = Origin::start();
    let proxy = proxy(
        &origin,
        "put only=1 cut-upload=70000; put only=2 flip-upload=70000",
    );
    let body = vec![0; 100_000];
    let mut client = Client::connect(proxy.address());
    assert!(client.put("/put/a", "", &body).is_err());
    let mut client = Client::connect(proxy.address());
    assert_eq!(client.put("/put/b", "", &body).unwrap().status, 200);
    let stored = origin.stored("/put/b").unwrap();
    let changed: Vec<usize> = (0..100_000).filter(|at| stored[*at] != 0).collect();
    assert_eq!((changed.as_slice(), stored.len()), (&[70_000][..], 100_000));
    assert_eq!(origin.stored("/put/a"), None);
    assert_eq!(proxy.seen()[0].body_bytes_up, 70_000);
}

#[test]
fn a_line_has_latency_and_bandwidth() {
    let origin = Origin::start();
    let link = Link {
        latency: Duration::from_millis(20),
        down_bytes_per_second: 10 << 20,
        up_bytes_per_second: 0,
    };
    let proxy = Proxy::start(origin.address(), Script::on(link)).unwrap();
    let mut client = Client::connect(proxy.address());
    let begun = Instant::now();
    client.head("/object").unwrap();
    assert!(begun.elapsed() >= Duration::from_millis(40));
    let begun = Instant::now();
    client.get("/object", None).unwrap();
    // 1 MiB takes a tenth of a second.
    assert!(begun.elapsed() >= Duration::from_millis(119));
    let late = Rule::new(Fault::Delay(Duration::from_millis(50)));
    proxy.set_script(Script::default().with(late.of(Kind::Head).on(Which::Only(2))));
    client.head("/object").unwrap();
    let begun = Instant::now();
    client.head("/object").unwrap();
    assert!(begun.elapsed() >= Duration::from_millis(50));
}

#[test]
fn a_server_that_closes_each_connection_is_connected_anew() {
    let origin = Origin::start();
    let proxy = proxy(&origin, "");
    let mut client = Client::connect(proxy.address());
    // It says so, and the client's connection ends as well.
    assert_eq!(client.get("/close", None).unwrap().status, 200);
    assert!(client.get("/object", None).is_err());
    let mut client = Client::connect(proxy.address());
    client.get("/object", None).unwrap();
    // It does not say so.
    origin.close_all();
    assert_eq!(client.get("/object", None).unwrap().status, 200);
    assert_eq!(origin.connections(), 3);
}

#[test]
fn a_proxy_ends_whoever_waits() {
    let origin = Origin::start();
    let proxy = proxy(&origin, "get only=1 hold=10; get only=2 stall=10; get hang");
    let address = proxy.address();
    let clients: Vec<_> = (0..3)
        .map(|_| std::thread::spawn(move || Client::connect(address).get("/object", None)))
        .collect();
    assert!(proxy.wait_until_held(HANGS));
    let begun = Instant::now();
    while proxy.seen().len() < 3 && begun.elapsed() < HANGS {
        std::thread::yield_now();
    }
    drop(proxy);
    for client in clients {
        assert!(client.join().unwrap().is_err());
    }
}

#[test]
fn only_loopback_is_served_and_asked() {
    let elsewhere = "192.0.2.1:80".parse().unwrap();
    let here = "127.0.0.1:0".parse().unwrap();
    assert!(Proxy::start(elsewhere, Script::default()).is_err());
    assert!(Proxy::start_at("0.0.0.0:0".parse().unwrap(), here, Script::default()).is_err());
}

#[test]
fn another_process_asks_by_http() {
    let origin = Origin::start();
    let proxy = std::sync::Arc::new(proxy(&origin, ""));
    let control = Control::start(0, proxy.clone()).unwrap();
    let ask = |method: &str, target: &str, body: &str| {
        let mut client = Client::connect(control.address());
        let reply = client.ask(method, target, "", body.as_bytes()).unwrap();
        (reply.status, String::from_utf8(reply.body).unwrap())
    };
    assert_eq!(
        ask("PUT", "/script", "get only=1 no-etag"),
        (200, String::new())
    );
    assert_eq!(get(&proxy, None).unwrap().field("etag"), None);
    let (_, counts) = ask("GET", "/counts", "");
    assert!(
        counts.contains("\"get\":{") && counts.contains("\"requests\":1"),
        "{counts}"
    );
    let (_, requests) = ask("GET", "/requests", "");
    assert!(requests.contains("\"target\":\"/object\""), "{requests}");
    assert_eq!(ask("POST", "/reset", "").0, 200);
    assert_eq!(proxy.counts().all().requests, 0);
    let (status, error) = ask("PUT", "/script", "get explode");
    assert_eq!((status, error.contains("'explode'")), (400, true));
    assert_eq!(ask("GET", "/nothing", "").0, 404);
    // Something that is no HTTP does no harm.
    let mut other = std::net::TcpStream::connect(control.address()).unwrap();
    std::io::Write::write_all(&mut other, b"\x16\x03\r\n\r\n").unwrap();
    let _ = other.read(&mut [0]);
    assert_eq!(ask("POST", "/release", "").0, 200);
}

#[test]
fn the_program_says_where_it_listens() {
    let origin = Origin::start();
    let mut program = Command::new(env!("CARGO_BIN_EXE_pagewell-object-proxy"));
    let program = program.arg(origin.address().to_string());
    let program = program.args(["--script", "get only=1 weak-etag; get only=2 hang"]);
    let mut child = program.stdout(Stdio::piped()).spawn().unwrap();
    let mut ready = String::new();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    output.read_line(&mut ready).unwrap();
    let words: Vec<&str> = ready.split_whitespace().collect();
    let ["ready", address, "control", control] = words[..] else {
        panic!("{ready}");
    };
    let mut client = Client::connect(address.parse().unwrap());
    let reply = client.get("/object", Some("bytes=0-9")).unwrap();
    assert_eq!(reply.field("etag"), Some("W/\"one\""));
    let mut asking = Client::connect(control.parse().unwrap());
    let counts = asking.get("/counts", None).unwrap();
    assert!(String::from_utf8_lossy(&counts.body).contains("\"connections\":1"));
    child.kill().unwrap();
    child.wait().unwrap();

    let mut program = Command::new(env!("CARGO_BIN_EXE_pagewell-object-proxy"));
    let output = program
        .args(["127.0.0.1:9", "--script", "get explode"])
        .output();
    let output = output.unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && error.contains("'explode'"),
        "{error}"
    );
}
