//! `serve --config`, `config check`, `config show`, and reloading.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use pagewell_sunrpc::nfs3::{Procedure, ReadArguments, StableHow, Status};
use serde_json::Value;

use crate::client::{Client, User};
use crate::operations::{data, handle};
use crate::support::{Run, Serve, program, run};

/// A directory with what is served and the configuration.
struct Place {
    base: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let base = tempfile::tempdir().unwrap();
        for name in ["one", "two"] {
            let directory = base.path().join(name);
            fs::create_dir(&directory).unwrap();
            fs::write(directory.join("file"), name).unwrap();
        }
        Self { base }
    }

    fn file(&self) -> PathBuf {
        self.base.path().join("pagewell.toml")
    }

    /// Writes the configuration, and returns its path as an argument.
    fn write(&self, text: &str) -> String {
        fs::write(self.file(), text).unwrap();
        self.file().to_str().unwrap().to_owned()
    }
}

fn export(name: &str, source: &str, rest: &str) -> String {
    format!("[[export]]\nname = \"{name}\"\nsource = \"{source}\"\nsquash = \"none\"\n{rest}\n")
}

/// The last line that the server says of this reload.
fn reload(serve: &mut Serve) -> String {
    serve.signal("HUP");
    let lines = serve.lines_until("reloaded");
    lines.last().unwrap().trim().to_owned()
}

fn connect(serve: &Serve) -> Client {
    Client::connect(serve.address(), User::root())
}

fn file_in(client: &mut Client, export: &str) -> Vec<u8> {
    let root = client.mount(export.as_bytes()).unwrap();
    client.lookup(&root, b"file").unwrap().handle
}

#[test]
fn a_file_is_served_by_and_relative_paths_are_beside_it() {
    let place = Place::new();
    let text = export("/one", "one", "label = \"The first\"");
    let config = place.write(&text);
    let mut serve = Serve::start(&["--config", &config, "/two=ram:1m"]);
    let address = serve.address();
    let urls: Vec<String> = ["/one", "/two"]
        .map(|name| format!("nfs://{address}{name}"))
        .into();
    assert_eq!(serve.urls(), urls);
    serve.lines_until("/one: The first, ");
    let mut client = connect(&serve);
    let file = file_in(&mut client, "/one");
    assert_eq!(client.read(&file, 0, 10).unwrap().bytes, b"one");
}

/// Everything that a reload can change changes on the connection of a client that is there; what
/// needs a restart is said, and a wrong file changes nothing.
#[test]
fn a_reload_changes_exports_and_drops_no_client() {
    let place = Place::new();
    let (one, two) = (export("/one", "one", ""), export("/two", "two", ""));
    let config = place.write(&format!("{one}{two}"));
    let mut serve = Serve::start(&["--config", &config]);
    let mut client = connect(&serve);
    let (first, second) = (file_in(&mut client, "/one"), file_in(&mut client, "/two"));
    assert!(reload(&mut serve).ends_with("reloaded: no export has changed"));

    place.write(&format!(
        "[server]\nthreads = 7\n{}{}",
        export("/one", "one", "read_only = true"),
        export("/three", "ram:1m", "")
    ));
    let said = reload(&mut serve);
    for part in [
        "added /three",
        "changed /one (read_only)",
        "removed /two",
        "restart: threads",
    ] {
        assert!(said.contains(part), "{said} lacks {part}");
    }
    let write = |client: &mut Client| client.write(&first, 0, b"O", StableHow::FileSync).err();
    assert_eq!(write(&mut client), Some(Status::ReadOnly));
    assert_eq!(client.getattr(&second), Err(Status::Stale));
    assert!(client.mount(b"/three").is_ok());

    place.write("[server]\nthread = 7\n[[export]]\nname = \"/one\"\n");
    let said = reload(&mut serve);
    assert!(
        said.contains("not reloaded, nothing has changed: "),
        "{said}"
    );
    assert!(said.contains("pagewell.toml:"), "{said}");
    assert!(client.mount(b"/three").is_ok());

    place.write(&format!(
        "{}{two}",
        export(
            "/one",
            "one",
            "allow = [\"10.0.0.0/8\"]\nno_loopback = true"
        )
    ));
    let said = reload(&mut serve);
    assert!(
        said.contains("changed /one (allow, no_loopback, read_only)"),
        "{said}"
    );
    assert_eq!(client.getattr(&first), Err(Status::AccessDenied));
    assert_eq!(
        client.read(&second, 0, 10).unwrap().bytes,
        b"two",
        "it is the same tree"
    );

    place.write(&one);
    reload(&mut serve);
    assert_eq!(write(&mut client), None);
    serve.signal("TERM");
    let (code, _, err) = serve.end();
    assert_eq!(code, Some(0), "{err}");
}

/// What a refused reload has opened is closed again, and the next one has nothing to say of it.
#[test]
fn a_refused_reload_leaves_no_notes() {
    let place = Place::new();
    let one = export("/one", "one", "");
    let config = place.write(&one);
    let mut serve = Serve::start(&["--config", &config, "--sandbox", "off"]);
    let (image, disc) = ("image:two/file", "iso:one/file");
    let more = export("/image", image, "") + &export("/disc", disc, "");
    place.write(&format!("{one}{more}"));
    serve.signal("HUP");
    serve.lines_until("not reloaded");

    place.write(&one);
    serve.signal("HUP");
    let lines = serve.lines_until("no export has changed");
    assert_eq!(lines.len(), 1, "{lines:?}");
}

/// Neither source is opened again: what is in memory would be lost, and an image that is written
/// would be in use.
#[test]
fn two_exports_exchange_their_sources() {
    let place = Place::new();
    let exports = |one, two| format!("{}{}", export("/one", one, ""), export("/two", two, ""));
    let config = place.write(&exports("ram:1m", "ram:2m"));
    let mut serve = Serve::start(&["--config", &config]);
    let mut client = connect(&serve);
    let root = client.mount(b"/one").unwrap();
    client.make_file(&root, b"file", b"here");

    place.write(&exports("ram:2m", "ram:1m"));
    let said = reload(&mut serve);
    assert!(
        said.ends_with("changed /one (source), /two (source)"),
        "{said}"
    );
    let file = file_in(&mut client, "/two");
    assert_eq!(client.read(&file, 0, 10).unwrap().bytes, b"here");
}

/// The command waits for the file to be read: what is written right after it, in two pieces as an
/// editor or a shell does, is never read half, and a client sees no export go away.
#[test]
fn the_command_waits_for_a_reload_and_says_what_came_of_it() {
    let place = Place::new();
    let one = export("/one", "one", "");
    let config = place.write(&one);
    let serve = Serve::start(&["--config", &config]);
    let process = serve.process_id().to_string();
    let reload = || run(&["reload", "--process", &process]);
    let mut client = connect(&serve);
    let file = file_in(&mut client, "/one");
    for round in 0..20 {
        place.write("");
        let more = export(&format!("/more{round}"), "one", "");
        place.write(&format!("{one}{more}"));
        let said = reload();
        assert_eq!(said.code, Some(0), "{}", said.err);
        let added = format!("reloaded: added /more{round}");
        assert!(said.err.contains(&added), "{}", said.err);
        client.read(&file, 0, 10).unwrap();
    }
    place.write(&one.replace("name", "naem"));
    let line = reload().failed(1);
    assert!(
        line.contains("nothing has changed") && line.contains("naem"),
        "{line}"
    );
    client.read(&file, 0, 10).unwrap();

    let plain = Serve::start(&[&place.base.path().join("one").display().to_string()]);
    let process = plain.process_id().to_string();
    let line = run(&["reload", "--process", &process]).failed(1);
    assert!(line.contains("without --config"), "{line}");
    let line = run(&["reload", "--process", "1"]).failed(1);
    assert!(line.contains("process 1 is no server"), "{line}");
}

/// A folder outside of all that a server was started with is refused on one line, with what helps.
#[test]
fn what_the_sandbox_keeps_out_changes_nothing_until_a_restart() {
    let (place, outside) = (Place::new(), tempfile::tempdir().unwrap());
    fs::write(outside.path().join("file"), "outside").unwrap();
    let one = export("/one", "one", "");
    let config = place.write(&one);
    let mut serve = Serve::start(&["--config", &config]);
    serve.signal("HUP");
    let begun = serve.lines_until("reloaded").concat();
    let mut client = connect(&serve);
    let file = file_in(&mut client, "/one");

    let added = export("/outside", path(outside.path()), "");
    let read_only = export("/one", "one", "read_only = true");
    place.write(&format!("{read_only}{added}"));
    serve.signal("HUP");
    let said = serve.lines_until("reloaded");
    if begun.contains("sandbox: ") && said.concat().contains("added /outside") {
        pagewell_skip::skip("this system has no Landlock");
        return;
    }
    let refused = format!(
        "pagewell: not reloaded, nothing has changed: {}: the sandbox forbids it, which was \
         entered without it: restart, or have the next start name a folder above it with \
         --sandbox-allow (in a file: sandbox_allow)\n",
        outside.path().display()
    );
    assert_eq!(said, [refused]);
    assert!(client.write(&file, 0, b"O", StableHow::FileSync).is_ok());
    assert!(client.mount(b"/outside").is_err(), "it is not there");

    let audited = format!(
        "[log]\naudit = \"{}/audit\"\n{one}",
        outside.path().display()
    );
    place.write(&audited);
    let said = reload(&mut serve);
    assert!(
        said.contains("audit log: ") && said.contains("sandbox"),
        "{said}"
    );
    assert!(!outside.path().join("audit").exists());

    place.write(&format!("{read_only}{added}"));
    serve.signal("TERM");
    assert_eq!(serve.end().0, Some(0));
    let serve = Serve::start(&["--config", &config]);
    let mut client = connect(&serve);
    let file = file_in(&mut client, "/outside");
    assert_eq!(client.read(&file, 0, 10).unwrap().bytes, b"outside");
    drop(serve);

    // What was said to help lets it be added while the server runs.
    let allowed = format!(
        "[server]\nsandbox_allow = [\"{}\"]\n",
        outside.path().display()
    );
    place.write(&format!("{allowed}{one}"));
    let mut serve = Serve::start(&["--config", &config]);
    place.write(&format!("{allowed}{one}{added}"));
    let said = reload(&mut serve);
    assert!(said.ends_with("reloaded: added /outside"), "{said}");
}

/// Levels, slow calls and the audit log change with a reload; the form of the log and the sandbox
/// do with a restart, which is said.
#[test]
fn a_reload_changes_the_log() {
    let place = Place::new();
    let one = export("/one", "one", "");
    let config = place.write(&format!("[server]\nsandbox = \"off\"\n{one}"));
    let mut serve = Serve::start(&["--config", &config]);
    let mut client = connect(&serve);
    let file = file_in(&mut client, "/one");

    place.write(&format!(
        "[server]\nsandbox = \"off\"\n[log]\nlevels = \"info,nfsd=debug\"\nslow = \"1h\"\n\
         audit = \"changes\"\n{one}{}",
        export("/two", "two", "audit = false")
    ));
    let said = reload(&mut serve);
    let expected = "reloaded: added /two; changed log (audit, levels, slow)";
    assert!(said.ends_with(expected), "{said}");
    let other = file_in(&mut client, "/two");
    for file in [&other, &file] {
        client.write(file, 0, b"O", StableHow::FileSync).unwrap();
    }
    let lines = serve.lines_until("export /one: ok").concat();
    assert!(
        lines.contains("WRITE of ") && !lines.contains("slow: "),
        "{lines}"
    );

    place.write(&format!(
        "[server]\nsandbox = \"auto\"\n[log]\nformat = \"json\"\nslow = \"0s\"\n{one}"
    ));
    let said = reload(&mut serve);
    for part in [
        "changed log (audit, levels, slow)",
        "removed /two",
        "needs a restart: format, sandbox",
    ] {
        assert!(said.contains(part), "{said} lacks {part}");
    }
    let recorded = fs::read_to_string(place.base.path().join("changes")).unwrap();
    let changes: Vec<Value> = recorded
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let exports: Vec<&Value> = changes.iter().map(|change| &change["export"]).collect();
    assert_eq!(exports, ["/one"], "{recorded}");
    client.read(&file, 0, 10).unwrap();
    let lines = serve.lines_until("slow: READ of ").concat();
    assert!(!lines.contains("{\""), "{lines}");
    client.write(&file, 0, b"P", StableHow::FileSync).unwrap();
    place.write(&one.replace("squash", "squahs"));
    assert!(reload(&mut serve).contains("nothing has changed"));
    client.read(&file, 0, 10).unwrap();
    serve.lines_until("slow: READ of ");
    let now = fs::read_to_string(place.base.path().join("changes")).unwrap();
    assert_eq!(now, recorded);
}

/// Limits change with a reload, for clients that are connected, and free those that wait.
#[test]
fn a_reload_changes_limits() {
    let place = Place::new();
    let image = place.base.path().join("disk.img");
    fs::write(&image, vec![1; 4 << 20]).unwrap();
    let (one, server) = (export("/one", "one", ""), "[server]\ncache = \"16m\"\n");
    let disk = |rest: &str| export("/disk", "image:disk.img", rest);
    let config = place.write(&format!("{server}{one}{}", disk("")));
    let mut serve = Serve::start(&["--config", &config]);
    let process = serve.process_id().to_string();
    let mut client = connect(&serve);
    let root = client.mount(b"/disk").unwrap();
    let file = client.lookup(&root, b"disk.img").unwrap().handle;

    let limits = "[limits]\nbytes_per_second = \"64k\"\n";
    let own = "calls_per_second = 1000000\ndirty = \"128k\"";
    place.write(&format!("{server}{limits}{one}{}", disk(own)));
    let said = reload(&mut serve);
    let expected = "changed limits (bytes_per_second), /disk (calls_per_second, dirty)";
    assert!(said.ends_with(expected), "{said}");
    // The first is paid for a quarter of a minute.
    let arguments = ReadArguments {
        file: handle(&file),
        offset: 0,
        count: 1 << 20,
    };
    let calls = [0, 1].map(|_| client.start(Procedure::Read, &arguments));
    let counters = || -> Value {
        let json = run(&["counters", "--json", "--process", &process]).text();
        serde_json::from_str(&json).unwrap()
    };
    let waits = || counters()["clients"][0]["limit_waits"].as_u64().unwrap();
    let begun = Instant::now();
    while waits() == 0 {
        assert!(begun.elapsed() < Duration::from_secs(120), "it never waits");
    }
    assert!(counters()["counters"]["pagewell_limit_client_waits_total"].as_u64() >= Some(1));
    let text = run(&["clients", "--process", &process, "--interval", "0.1"]).text();
    assert!(
        text.lines().next().unwrap().ends_with("limit waits"),
        "{text}"
    );

    place.write(&format!("{server}{one}{}", disk("")));
    let said = reload(&mut serve);
    assert!(said.ends_with(expected), "{said}");
    for call in calls {
        assert_eq!(data(&client.finish(call)).unwrap().bytes.len(), 1 << 20);
    }
    let waited = waits();
    for _ in 0..50 {
        client.read(&file, 0, 1 << 20).unwrap();
    }
    assert_eq!(waits(), waited, "nothing is limited");

    place.write(&format!(
        "{server}{}{}",
        disk(""),
        export("/one", "one", "dirty = \"1m\"")
    ));
    let said = reload(&mut serve);
    let expected = "nothing has changed: export /one: dirty is for images";
    assert!(said.contains(expected), "{said}");
}

/// An export with a cache of its own has its memory from the start.
#[test]
fn an_export_can_have_a_cache_of_its_own() {
    let place = Place::new();
    let image = place.base.path().join("disk.img");
    fs::write(&image, vec![1; 1 << 20]).unwrap();
    let disk = |rest: &str| export("/disk", "image:disk.img", rest);
    let one = export("/one", "one", "");
    let config = place.write(&format!("{one}{}", disk("cache = \"8m\"")));
    let mut serve = Serve::start(&["--config", &config]);
    let lines = serve.lines_until("/disk: cache: ").concat();
    assert!(lines.contains("/disk: cache: 8.0 MiB in "), "{lines}");
    place.write(&format!("{one}{}", disk("cache = \"16m\"")));
    let said = reload(&mut serve);
    assert!(said.ends_with("needs a restart: cache"), "{said}");
    for (rest, part) in [
        (disk("cache = \"1m\""), "at least 4 MiB"),
        (
            export("/two", "one", "cache = \"8m\""),
            "export /two: cache is for images",
        ),
    ] {
        place.write(&format!("{one}{rest}"));
        let line = run(&["serve", "--config", &config]).err;
        assert!(line.contains(part), "{line}");
    }
}

/// What is in memory is kept as long as its export is there, whatever is said of it or how it is
/// called.
#[test]
fn a_source_that_stays_is_not_opened_again() {
    let place = Place::new();
    let config = place.write(&export("/ram", "ram:1m", ""));
    let mut serve = Serve::start(&["--config", &config]);
    let mut client = connect(&serve);
    let root = client.mount(b"/ram").unwrap();
    let file = client.make_file(&root, b"file", b"kept");
    place.write(&export("/ram", "ram:1m", "read_only = true"));
    reload(&mut serve);
    place.write(&export("/ram", "ram:1m", ""));
    reload(&mut serve);
    assert_eq!(client.read(&file, 0, 10).unwrap().bytes, b"kept");
    place.write(&export("/memory", "ram:1m", ""));
    reload(&mut serve);
    let file = file_in(&mut client, "/memory");
    assert_eq!(client.read(&file, 0, 10).unwrap().bytes, b"kept");
    place.write(&export("/memory", "ram:2m", ""));
    assert!(reload(&mut serve).contains("changed /memory (source)"));
    assert_eq!(client.getattr(&file), Err(Status::Stale));
}

#[test]
fn without_a_file_the_signal_still_means_the_end() {
    let serve = Serve::start_with_hangup("default", &["ram:1m"]);
    serve.signal("HUP");
    let (code, _, err) = serve.end();
    assert_eq!(code, Some(0), "{err}");
}

#[test]
fn what_nohup_has_started_outlives_its_terminal() {
    let serve = Serve::start_with_hangup("ignore", &["ram:1m"]);
    serve.signal("HUP");
    connect(&serve).mount(b"/").unwrap();
    serve.signal("TERM");
    assert_eq!(serve.end().0, Some(0));
}

#[test]
fn check_says_each_mistake_with_its_line() {
    let place = Place::new();
    let config = place.write(&export("/one", "one", ""));
    let said = run(&["config", "check", &config]).text();
    assert_eq!(said, format!("{config}: no mistake; serves 1 export\n"));
    place.write(
        "[server]\nlisten = 1\n[[export]]\nname = \"/a\"\nsource = \"no/such\"\nsquahs = 1\n",
    );
    let Run { code, err, .. } = run(&["config", "check", &config]);
    assert_eq!(code, Some(1));
    let lines: Vec<&str> = err.lines().collect();
    assert_eq!(lines.len(), 3, "{err}");
    for (line, part) in [
        (0, ":2: listen = 1: a text in quotes is wanted"),
        (1, ":5: source = \"no/such\": "),
        (
            2,
            ":6: unknown key 'squahs' in [[export]], did you mean 'squash'?",
        ),
    ] {
        let expected = format!("pagewell: {config}{part}");
        assert!(lines[line].starts_with(&expected), "{err}");
    }
    let json = run(&["config", "check", "--json", &config]);
    let json: Value = serde_json::from_slice(&json.out).unwrap();
    assert_eq!(json["mistakes"].as_array().unwrap().len(), 3);
    let missing = run(&["config", "check", "/no/such.toml"]).failed(1);
    assert!(missing.contains("/no/such.toml: No such file"), "{missing}");
    let unserved = run(&["serve", "--config", &config]);
    assert_eq!(unserved.code, Some(1), "{}", unserved.err);
}

fn mount(source: &str, directory: &str, rest: &str) -> String {
    format!("[[mount]]\nsource = \"{source}\"\ndirectory = \"{directory}\"\n{rest}\n")
}

/// What is wrong with a mount disturbs neither a server by the same file nor other mounts, and what
/// is wrong with an export no mount.
#[test]
fn mounts_of_a_file_are_their_own_matter() {
    let place = Place::new();
    let wrong = mount("two", "second", "option = \"ro\"");
    let mounts = mount("one", "first", "options = \"ro,cache=8m\"") + &wrong;
    let config = place.write(&format!("{}{mounts}", export("/one", "one", "")));
    let mistake = format!(
        "pagewell: {config}:13: unknown key 'option' in [[mount]], did you mean 'options'?\n"
    );
    assert_eq!(run(&["config", "check", &config]).failed(1), mistake);
    let mut serve = Serve::start(&["--config", &config]);
    assert!(reload(&mut serve).ends_with("reloaded: no export has changed"));
    drop(serve);

    // Nothing is mounted by it, but the source is opened.
    let opened = |words: &[&str]| run(&[&["mount", "--fake", "--config", &config], words].concat());
    let at = |name: &str| place.base.path().join(name).to_str().unwrap().to_owned();
    opened(&[&at("first")]).done();
    assert_eq!(opened(&[&at("second")]).failed(1), mistake);
    assert_eq!(opened(&["--all"]).failed(1), mistake);
    assert!(
        opened(&[&at("first"), &at("second")])
            .failed(2)
            .contains("only the directory")
    );
    assert!(opened(&[]).failed(2).contains("SOURCE"));
    assert!(run(&["mount", "--all"]).failed(2).contains("--config"));

    let gone = mount("gone", "third", "options = \"noauto\"");
    place.write(&format!("{}{mounts}{gone}", export("/one", "no/such", "")));
    opened(&[&at("first")]).done();
    assert_eq!(opened(&["--all"]).failed(1), mistake);
    let missing = opened(&[&at("third")]).failed(1);
    assert!(missing.contains("gone: "), "{missing}");
    place.write(&format!("{}{gone}", mount("one", "first", "")));
    opened(&["--all"]).done();
    let unknown = opened(&[&at("fourth")]).failed(1);
    let expected = format!("no mount is at {}: there are {}", at("fourth"), at("first"));
    assert!(unknown.contains(&expected), "{unknown}");

    // What is not there at the moment is no mistake.
    let checked = run(&["config", "check", &config]);
    assert_eq!(checked.code, Some(0), "{}", checked.err);
    assert!(
        String::from_utf8(checked.out)
            .unwrap()
            .ends_with(", and has 2 mounts\n")
    );
    for part in [":3: ", ":6: ", "gone: No such file", "no such directory"] {
        assert!(checked.err.contains(part), "{} lacks {part}", checked.err);
    }
    let shown = run(&["config", "show", &config]).text();
    assert!(
        shown.contains(&format!("directory = \"{}\"", at("first"))),
        "{shown}"
    );
    let json = run(&["config", "show", "--json", &config]).text();
    let json: Value = serde_json::from_str(&json).unwrap();
    let last = json["settings"].as_array().unwrap().last().unwrap();
    assert_eq!(
        (&last["table"], &last["mount"], &last["value"]),
        (&"mount".into(), &at("third").into(), &"noauto".into())
    );
}

#[test]
fn show_says_where_each_value_comes_from() {
    let place = Place::new();
    let config = place.write(&format!(
        "[server]\nthreads = 8\n[log]\nlevels = \"debug\"\n{}",
        export("/one", "one", "")
    ));
    let options = ["--poll", "never", "--slow", "100ms"];
    let said = run(&[&["config", "show", &config][..], &options].concat()).text();
    let line = |key: &str| {
        let mut lines = said.lines();
        let words = lines
            .find(|line| line.starts_with(key))
            .unwrap()
            .split_whitespace();
        words.collect::<Vec<_>>().join(" ")
    };
    assert_eq!(line("threads"), format!("threads = 8 # {config}:2"));
    assert_eq!(line("poll"), "poll = \"never\" # command line");
    assert_eq!(line("register"), "register = false # default");
    assert_eq!(line("sandbox ="), "sandbox = \"auto\" # default");
    assert_eq!(line("levels"), format!("levels = \"debug\" # {config}:4"));
    assert_eq!(line("slow"), "slow = \"100ms\" # command line");
    assert_eq!(line("# audit"), "# audit is not set # default");
    assert_eq!(line("squash"), format!("squash = \"none\" # {config}:8"));
    let mut by_variable = program();
    by_variable.args(["config", "show", &config]);
    let output = by_variable.env("PAGEWELL_LOG", "error").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("# variable PAGEWELL_LOG\n"), "{text}");
    let json = run(&[
        "config",
        "show",
        "--json",
        "--config",
        &config,
        "/two=ram:1m",
    ])
    .text();
    let json: Value = serde_json::from_str(&json).unwrap();
    let two = json["settings"].as_array().unwrap().iter();
    let two = two.filter(|entry| entry["export"] == "/two" && entry["key"] == "source");
    let two: Vec<&Value> = two.collect();
    assert_eq!(
        (two.len(), &two[0]["from"]),
        (1, &Value::from("command line"))
    );
    // What is shown is a file that says the same.
    let again = place.base.path().join("again.toml");
    fs::write(&again, said).unwrap();
    assert!(
        run(&["config", "check", path(&again)])
            .text()
            .contains("1 export")
    );
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}
