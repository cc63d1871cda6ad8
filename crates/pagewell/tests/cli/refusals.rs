//! `cp` into places that refuse a part of what is to be kept: servers that squash root or have no
//! rights themselves, and such as know no owners, modes, times, or kinds of files.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use pagewell::fs::ram::RamFileSystem;
use pagewell::fs::{
    Attributes, Call, Change, Created, Error, FileId, FileSystem, NodeKind, Result, SetAttributes,
    SetTime, Timestamp,
};
use pagewell::nfsd::{Config, Export, Server, Squash};
use pagewell_fs::forward;
use serde_json::Value;

use crate::support::{Fixture, Run, Serve, is_root, program, run_in, tool, unprivileged};

/// Memory that refuses something.
#[derive(Clone, Copy, PartialEq)]
enum Refused {
    Ownership,
    Modes,
    Times,
    All,
    Kinds,
}

struct Refusing(RamFileSystem, Refused);

impl FileSystem for Refusing {
    forward! { self => self.0;
        describe, root, limits, lookup, attributes, access, read_link, read, write, commit,
        read_directory, statistics, create, make_directory, remove, rename,
    }

    fn set_attributes(
        &self,
        call: &Call<'_>,
        id: &FileId,
        wanted: &SetAttributes,
        guard: Option<Timestamp>,
    ) -> Result<Change> {
        let is = |refused| self.1 == refused || self.1 == Refused::All;
        let owned = wanted.uid.is_some() || wanted.gid.is_some();
        Error::NotPermitted.when(is(Refused::Ownership) && owned)?;
        // FAT takes the modes that it has.
        let is_other = wanted.mode.is_some_and(|mode| mode & 0o077 != 0);
        Error::NotPermitted.when(is(Refused::Modes) && is_other)?;
        let is_set = matches!(wanted.modified, Some(SetTime::To(_)));
        Error::NotSupported.when(is(Refused::Times) && is_set)?;
        self.0.set_attributes(call, id, wanted, guard)
    }

    fn make_symlink(
        &self,
        call: &Call<'_>,
        directory: &FileId,
        name: &[u8],
        target: &[u8],
        attributes: &SetAttributes,
    ) -> Result<Created> {
        Error::NotSupported.when(self.1 == Refused::Kinds)?;
        self.0
            .make_symlink(call, directory, name, target, attributes)
    }

    fn make_node(
        &self,
        call: &Call<'_>,
        directory: &FileId,
        name: &[u8],
        kind: NodeKind,
        attributes: &SetAttributes,
    ) -> Result<Created> {
        Error::NotSupported.when(self.1 == Refused::Kinds)?;
        self.0.make_node(call, directory, name, kind, attributes)
    }

    fn link(
        &self,
        call: &Call<'_>,
        id: &FileId,
        directory: &FileId,
        name: &[u8],
    ) -> Result<(Attributes, Change)> {
        Error::NotSupported.when(self.1 == Refused::Kinds)?;
        self.0.link(call, id, directory, name)
    }
}

/// A server of such memory.
fn refusing(refused: Refused) -> (Server, String) {
    let memory = RamFileSystem::new(16 << 20).unwrap();
    let mut export = Export::new("/", Arc::new(Refusing(memory, refused)));
    export.squash = Squash::None;
    let mut config = Config::new(vec![export], [7; 16]);
    config.listen = "127.0.0.1:0".parse().unwrap();
    let server = Server::start(config).unwrap();
    let url = format!("nfs://{}/::/", server.address());
    (server, url)
}

/// Two files, a link and a directory with times, modes and an owner of their own.
fn tree(fixture: &Fixture) {
    let script = "chmod 755 .; mkdir s s/in; echo one >s/one; echo two >s/in/two; ln -s one s/link
                  chmod 640 s/one; chmod 4751 s/in/two; chmod 750 s/in
                  touch -d 2001-02-03T04:05:06 s/one s/in/two s/in
                  touch -h -d 2001-02-03T04:05:06 s/link";
    tool(fixture.path(), &["sh", "-c", script]);
    if is_root() {
        tool(fixture.path(), &["chown", "-hR", "1234:1234", "s"]);
        tool(fixture.path(), &["chmod", "4751", "s/in/two"]);
    }
}

/// Name, mode, and whether the time is that of [`tree`].
fn kept(fixture: &Fixture, place: &str) -> Vec<(String, String, bool)> {
    let names = ["one", "link", "in", "in/two"];
    let look = |name: &str| {
        let words = ["stat", "--json", &format!("{place}/{name}")];
        let shown: Value = serde_json::from_str(&run_in(fixture.path(), &words).text()).unwrap();
        let text = |field: &str| shown[0][field].as_str().unwrap().to_owned();
        let has_time = text("modified").starts_with("2001-02-03T04:05:06");
        (name.to_owned(), text("mode"), has_time)
    };
    names.map(look).to_vec()
}

#[test]
fn a_refused_attribute_costs_no_other_and_is_told_once() {
    if !is_root() {
        pagewell_skip::skip("needs root to give files away");
        return;
    }
    let fixture = Fixture::new();
    tree(&fixture);
    let all = "of 3 files and 2 directories: operation not permitted";
    for (refused, told, modes, has_times) in [
        (
            Refused::Ownership,
            &["ownership is not kept "][..],
            true,
            true,
        ),
        (Refused::Modes, &["permissions are not kept "], false, true),
        (Refused::Times, &["times are not kept "], true, false),
        (
            Refused::All,
            &[
                "ownership is not kept ",
                "permissions are not kept ",
                "times are not kept ",
            ],
            false,
            false,
        ),
    ] {
        let (server, url) = refusing(refused);
        let run = run_in(fixture.path(), &["cp", "-a", "s/.", &url]);
        assert_eq!(run.code, Some(1), "{}", run.err);
        let lines: Vec<&str> = run.err.lines().collect();
        let lines: Vec<&&str> = lines
            .iter()
            .filter(|line| !line.contains("extended"))
            .collect();
        assert_eq!(lines.len(), told.len(), "{}", run.err);
        for (line, told) in lines.iter().zip(told) {
            assert!(line.contains(told), "{}", run.err);
            assert!(
                !told.starts_with("owner") || line.ends_with(all),
                "{}",
                run.err
            );
        }
        for (name, mode, has_time) in kept(&fixture, url.trim_end_matches('/')) {
            assert_eq!(has_time, has_times, "{name}");
            let wanted = match name.as_str() {
                "one" => "0640",
                "in" => "0750",
                // The bit must not be given to the file of another.
                "in/two" if refused == Refused::Ownership => "0751",
                "in/two" => "4751",
                _ => continue,
            };
            assert!(!modes || mode == wanted, "{name}: {mode}");
        }
        let read = run_in(fixture.path(), &["cat", &format!("{url}in/two")]);
        assert_eq!(read.done(), b"two\n");
        server.stop().unwrap();
    }
}

#[test]
fn an_ordinary_user_hears_nothing_of_owners() {
    if !is_root() {
        pagewell_skip::skip("needs root to prepare a place for another user");
        return;
    }
    let fixture = Fixture::new();
    tree(&fixture);
    let script =
        "umask 0; mkdir open; chown -R 65534:65534 s; chmod 600 s/one; touch s/one -r s/in";
    tool(fixture.path(), &["sh", "-c", script]);
    let (server, url) = refusing(Refused::Ownership);
    let copied = shell_in(&fixture, &format!("umask 0; $OURS cp -r open {url}"));
    copied.done();
    let mut command = unprivileged(fixture.path());
    let words = ["cp", "-p", "s/one", &format!("{url}open/one")];
    let run: Run = command
        .current_dir(fixture.path())
        .args(words)
        .output()
        .unwrap()
        .into();
    run.done();
    let shown = run_in(fixture.path(), &["stat", &format!("{url}open/one")]).text();
    assert!(shown.contains("2001-02-03"), "{shown}");
    server.stop().unwrap();
}

fn shell_in(fixture: &Fixture, script: &str) -> Run {
    let output = Command::new("sh")
        .args(["-c", script])
        .current_dir(fixture.path())
        .env("OURS", env!("CARGO_BIN_EXE_pagewell"))
        .output();
    output.unwrap().into()
}

#[test]
fn what_the_target_makes_none_of_is_told_and_all_else_is_copied() {
    let fixture = Fixture::new();
    let script =
        "mkdir s; echo 1 >s/a; ln s/a s/b; ln s/a s/c; mkfifo s/f; ln -s a s/l; echo z >s/z";
    tool(fixture.path(), &["sh", "-c", script]);
    let (server, url) = refusing(Refused::Kinds);
    let words = ["cp", "-r", "--preserve=links", "s/.", &url];
    let run = run_in(fixture.path(), &words);
    assert_eq!(run.code, Some(1), "{}", run.err);
    let lines: Vec<&str> = run.err.lines().collect();
    assert_eq!(lines.len(), 4, "{}", run.err);
    assert!(
        lines[0].contains("the server makes no hard links"),
        "{}",
        lines[0]
    );
    assert!(
        lines[1].ends_with("s/./f: the target makes no named pipes"),
        "{}",
        lines[1]
    );
    assert!(
        lines[2].ends_with("s/./l: the target makes no symbolic links"),
        "{}",
        lines[2]
    );
    assert!(lines[3].ends_with("4 copied, 2 failed"), "{}", lines[3]);
    for (name, bytes) in [("a", b"1\n"), ("b", b"1\n"), ("c", b"1\n"), ("z", b"z\n")] {
        let there = format!("{url}{name}");
        assert_eq!(run_in(fixture.path(), &["cat", &there]).done(), bytes);
    }
    tool(fixture.path(), &["rm", "s/f", "s/l"]);
    let run = run_in(fixture.path(), &words);
    assert_eq!(
        (run.code, run.err.lines().count()),
        (Some(0), 1),
        "{}",
        run.err
    );
    server.stop().unwrap();
}

/// A directory that a server shows to root as to nobody.
fn squashing(fixture: &Fixture, without_root: bool) -> (Serve, PathBuf) {
    let exported = fixture.path().join("exported");
    fs::create_dir(&exported).unwrap();
    fs::set_permissions(fixture.path(), PermissionsExt::from_mode(0o755)).unwrap();
    std::os::unix::fs::chown(&exported, Some(65534), Some(65534)).unwrap();
    let path = exported.to_str().unwrap();
    let serve = match without_root {
        false => Serve::start(&[path]),
        true => Serve::start_unprivileged(fixture.path(), &[path]),
    };
    (serve, exported)
}

/// What must be there of [`tree`], however much was refused of owners.
fn check_copy(copy: &Path, run: &Run) {
    assert_eq!(run.code, Some(1), "{}", run.err);
    let told: Vec<&str> = run.err.lines().collect();
    let told: Vec<&&str> = told
        .iter()
        .filter(|line| !line.contains("extended"))
        .collect();
    assert_eq!(told.len(), 1, "{}", run.err);
    let sentence = "ownership is not kept of 3 files and 2 directories: operation not permitted";
    assert!(told[0].ends_with(sentence), "{}", run.err);
    for (name, mode) in [
        ("one", 0o640),
        ("in", 0o750),
        ("in/two", 0o751),
        ("link", 0o777),
    ] {
        let found = copy.join(name).symlink_metadata().unwrap();
        assert_eq!(found.mode() & 0o7777, mode, "{name}");
        assert_eq!((found.mtime(), found.uid()), (981_173_106, 65534), "{name}");
    }
    assert_eq!(fs::read(copy.join("in/two")).unwrap(), b"two\n");
}

#[test]
fn root_copies_with_times_and_modes_to_servers_that_give_it_no_rights() {
    if !is_root() {
        pagewell_skip::skip("needs root, which servers take for nobody");
        return;
    }
    for without_root in [false, true] {
        let fixture = Fixture::new();
        tree(&fixture);
        let (serve, exported) = squashing(&fixture, without_root);
        let target = format!("{}::/copy", serve.urls()[0]);
        let run = run_in(fixture.path(), &["cp", "-a", "s", &target]);
        check_copy(&exported.join("copy"), &run);
        // Again, over what is there.
        let run = run_in(fixture.path(), &["cp", "-a", "s/.", &target]);
        check_copy(&exported.join("copy"), &run);
    }
}

/// A mount that ends with the test.
struct Mount {
    child: Child,
    place: PathBuf,
}

impl Mount {
    fn new(source: &str, place: PathBuf) -> Self {
        fs::create_dir(&place).unwrap();
        let mut command = program();
        command.args(["mount", "--foreground", source]).arg(&place);
        let child = command.stderr(Stdio::null()).stdout(Stdio::null()).spawn();
        let mut mount = Self {
            child: child.unwrap(),
            place,
        };
        let device = |path: &Path| path.metadata().map(|found| found.dev()).ok();
        let begun = Instant::now();
        while device(&mount.place) == device(mount.place.parent().unwrap()) {
            assert!(
                mount.child.try_wait().unwrap().is_none(),
                "the mount has ended"
            );
            assert!(begun.elapsed() < Duration::from_secs(60), "no mount");
            std::thread::sleep(Duration::from_millis(20));
        }
        mount
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new(env!("CARGO_BIN_EXE_pagewell"))
            .args(["umount", "--lazy"])
            .arg(&self.place)
            .status();
        let _ = self.child.wait();
    }
}

#[test]
fn root_copies_so_into_a_mount_of_such_a_server() {
    if !is_root() || !Path::new("/dev/fuse").exists() {
        pagewell_skip::skip("needs root and FUSE");
        return;
    }
    let fixture = Fixture::new();
    tree(&fixture);
    let (serve, exported) = squashing(&fixture, false);
    let place = fixture.path().join("mounted");
    let source = serve.urls()[0].to_string();
    let mount = Mount::new(&source, place);
    let target = mount.place.join("copy");
    let run = run_in(fixture.path(), &["cp", "-a", "s", target.to_str().unwrap()]);
    check_copy(&exported.join("copy"), &run);
}
