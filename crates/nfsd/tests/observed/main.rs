//! What the log shows of calls, seen by a subscriber of the test's own. A program of its own: what
//! is watched, and the thread that hears of it, is one for a whole process.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on fails"
)]

use std::fmt::{Debug, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use pagewell_nfsd::watch_calls;
use pagewell_sunrpc::nfs3::{Procedure, ReadArguments};
use pagewell_sunrpc::nlm4::{self, Lock, LockArguments, Reply};
use pagewell_wire::client::{Client, User, encoded};
use pagewell_wire::fixture::{export, ram, serve, serve_with};
use pagewell_wire::layer::{Layer, Stalls, make_file};
use pagewell_wire::operations::{data, handle};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// What was said, a line each: events with their levels and messages, spans with their fields.
static LINES: Mutex<Vec<String>> = Mutex::new(Vec::new());

struct Listener(AtomicU64);

#[derive(Default)]
struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        match field.name() {
            "message" => write!(self.0, " {value:?}").unwrap(),
            name => write!(self.0, " {name}={value:?}").unwrap(),
        }
    }
}

fn say(mut line: String, text: Text) {
    line += &text.0;
    LINES.lock().unwrap().push(line);
}

impl Subscriber for Listener {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let id = self.0.fetch_add(1, Ordering::Relaxed) + 1;
        let mut text = Text::default();
        span.record(&mut text);
        say(format!("span {id}"), text);
        Id::from_u64(id)
    }

    fn record(&self, span: &Id, values: &Record<'_>) {
        let mut text = Text::default();
        values.record(&mut text);
        say(format!("more of span {}", span.into_u64()), text);
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut text = Text::default();
        event.record(&mut text);
        say(event.metadata().level().to_string(), text);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

fn listen() {
    static ONCE: OnceLock<()> = OnceLock::new();
    ONCE.get_or_init(|| {
        tracing::subscriber::set_global_default(Listener(AtomicU64::new(0))).unwrap();
    });
}

/// The lines in which all parts are.
fn lines(parts: &[&str]) -> Vec<String> {
    let all = LINES.lock().unwrap();
    let found = all
        .iter()
        .filter(|line| parts.iter().all(|part| line.contains(part)));
    found.cloned().collect()
}

#[test]
fn calls_of_mount_and_about_locks_are_shown() {
    listen();
    let server = serve(vec![export("/locked", ram())]);
    let mut client = Client::connect(server.address(), User::root());
    let root = client.mount(b"/locked").unwrap();
    assert!(client.mount(b"/nothing").is_err());
    let file = client.make_file(&root, b"file", b"0123456789");
    let lock = encoded(&LockArguments {
        cookie: b"cookie",
        block: false,
        exclusive: true,
        lock: Lock {
            caller_name: b"machine",
            handle: &file,
            owner: b"7@machine",
            process: 7,
            offset: 0,
            length: 4,
        },
        reclaim: false,
        state: 5,
    });
    let procedure = nlm4::Procedure::UnmonitoredLock.number();
    let answer = client.call((nlm4::PROGRAM, nlm4::VERSION, procedure), &lock);
    assert_eq!(answer.decode::<Reply<'_>>().status, nlm4::Status::Granted);
    client.unmount(b"/locked");

    for (line, field) in [
        (
            "DEBUG MNT of /locked by 127.0.0.1, export /locked: ok in ",
            "result=\"ok\"",
        ),
        ("DEBUG MNT of /nothing by 127.0.0.1", "result=\"noent\""),
        ("UNMONITORED_LOCK of #", "result=\"granted\""),
        (
            "UMNT of /locked by 127.0.0.1, export /locked: ok in ",
            "microseconds=",
        ),
    ] {
        let found = lines(&["DEBUG ", line, field]);
        assert_eq!(found.len(), 1, "{line}: {found:?}");
    }
    let found = lines(&[
        "UNMONITORED_LOCK of #",
        " by 127.0.0.1, export /locked: granted in ",
    ]);
    assert_eq!(found.len(), 1, "{found:?}");
    for parts in [
        ["span ", "procedure=\"MNT\"", "client=127.0.0.1"],
        ["more of span ", "export=\"/locked\"", ""],
        ["more of span ", "object=\"/nothing\"", ""],
        ["span ", "procedure=\"UNMONITORED_LOCK\"", "uid=0"],
    ] {
        assert!(!lines(&parts).is_empty(), "{parts:?}");
    }
}

/// The storage of the file gives no answer until the test lets it, so that its call is slow however
/// fast the machine is, and quick enough for the other limit however slow.
#[test]
fn a_call_that_storage_holds_is_said_to_be_slow() {
    listen();
    let storage = ram();
    make_file(&*storage, b"held", b"text");
    let (layer, stalls) = Layer::new(storage, Stalls::at(&["read"]));
    let server = serve_with(vec![export("/slow", layer)], |config| {
        config.slow_after = Duration::from_secs(3600);
    });
    let mut client = Client::connect(server.address(), User::root());
    let root = client.mount(b"/slow").unwrap();
    let file = client.lookup(&root, b"held").unwrap().handle;
    let read = ReadArguments {
        file: handle(&file),
        offset: 0,
        count: 10,
    };
    let slow = || lines(&["WARN ", "slow: READ of ", ", export /slow: ok in "]);

    let least = Duration::from_millis(1);
    watch_calls(Some(least), false);
    let begun = client.start(Procedure::Read, &read);
    stalls.gate.wait_for(1);
    std::thread::sleep(least);
    assert!(slow().is_empty(), "it is not answered");
    stalls.gate.open();
    assert_eq!(data(&client.finish(begun)).unwrap().bytes, b"text");
    let found = slow();
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("limit=127.0.0.1"), "{found:?}");

    watch_calls(Some(Duration::from_secs(3600)), false);
    client.read(&file, 0, 10).unwrap();
    assert_eq!(slow().len(), 1, "the other was quick");
    let quick = lines(&["DEBUG ", " READ of ", ", export /slow: ok in "]);
    assert_eq!(quick.len(), 1, "{quick:?}");
}
