//! Running the program, and trees to run it on.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// The program under test.
pub(crate) fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pagewell"));
    command.env("LC_ALL", "C").stdin(Stdio::null());
    command
}

/// The program as a user without rights runs it, from `directory`.
pub(crate) fn unprivileged(directory: &Path) -> Command {
    if !is_root() {
        return program();
    }
    // The program itself may lie where nobody else can reach it. It is copied by another process:
    // what this one has open to write, its children have for a moment, and it cannot be run.
    tool(
        directory,
        &["cp", env!("CARGO_BIN_EXE_pagewell"), "pagewell"],
    );
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
    command
        .arg(directory.join("pagewell"))
        .env("LC_ALL", "C")
        .stdin(Stdio::null());
    command
}

/// What a run left.
pub(crate) struct Run {
    pub(crate) code: Option<i32>,
    pub(crate) out: Vec<u8>,
    pub(crate) err: String,
}

impl From<Output> for Run {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            out: output.stdout,
            err: String::from_utf8(output.stderr).expect("messages are UTF-8"),
        }
    }
}

impl Run {
    /// Standard output of a run that must have gone well and said nothing else.
    pub(crate) fn done(self) -> Vec<u8> {
        assert_eq!((self.code, self.err.as_str()), (Some(0), ""));
        self.out
    }

    /// [`Run::done`] as text.
    pub(crate) fn text(self) -> String {
        String::from_utf8(self.done()).expect("UTF-8")
    }

    /// The one message of a run that must have failed with `code` and printed nothing.
    pub(crate) fn failed(self, code: i32) -> String {
        assert_eq!(self.code, Some(code), "{}", self.err);
        assert_eq!(self.err.lines().count(), 1, "{}", self.err);
        assert!(self.err.starts_with("pagewell: "), "{}", self.err);
        assert_eq!(String::from_utf8_lossy(&self.out), "");
        self.err
    }
}

/// Runs the program to its end.
pub(crate) fn run<S: AsRef<OsStr>>(arguments: &[S]) -> Run {
    program().args(arguments).output().expect("runs").into()
}

/// Runs the program in a directory.
pub(crate) fn run_in<S: AsRef<OsStr>>(directory: &Path, arguments: &[S]) -> Run {
    let mut command = program();
    command.current_dir(directory).args(arguments);
    command.output().expect("runs").into()
}

/// Runs another tool, which must succeed, and returns its standard output.
pub(crate) fn tool(directory: &Path, words: &[&str]) -> Vec<u8> {
    let output = Command::new(words[0])
        .args(&words[1..])
        .current_dir(directory)
        .env("LC_ALL", "C")
        .env("TZ", "UTC")
        .stdin(Stdio::null())
        .output()
        .unwrap_or_else(|error| panic!("{}: {error} (is its package installed?)", words[0]));
    assert!(
        output.status.success(),
        "{words:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    output.stdout
}

/// Whether the tests run as root.
pub(crate) fn is_root() -> bool {
    let status = fs::read_to_string("/proc/self/status").expect("/proc");
    let uids = status.lines().find(|line| line.starts_with("Uid:"));
    uids.and_then(|line| line.split_whitespace().nth(2)) == Some("0")
}

/// A directory `tree` of files of all sorts in a directory of its own.
pub(crate) struct Fixture {
    pub(crate) base: TempDir,
}

/// Bytes without a pattern that a wrong offset could hide.
pub(crate) fn bytes(length: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(2) + 1;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(99);
        (state >> 56) as u8
    };
    (0..length).map(|_| next()).collect()
}

impl Fixture {
    /// Names that every file system and image format here can hold.
    pub(crate) fn new() -> Self {
        let base = tempfile::tempdir().expect("a temporary directory");
        let tree = base.path().join("tree");
        for directory in ["", "empty", "sub", "sub/deep"] {
            fs::create_dir(tree.join(directory)).expect("mkdir");
        }
        for (name, length, mode) in [
            ("a", 1, 0o644),
            ("none", 0, 0o600),
            (".hidden", 10, 0o644),
            ("big", (3 << 20) + 17, 0o444),
            ("sub/script", 100, 0o755),
            ("sub/deep/x y", 5000, 0o640),
        ] {
            let path = tree.join(name);
            fs::write(&path, bytes(length, length as u64)).expect("write");
            fs::set_permissions(&path, PermissionsExt::from_mode(mode)).expect("chmod");
        }
        symlink("sub/script", tree.join("link")).expect("symlink");
        symlink("sub", tree.join("to-sub")).expect("symlink");
        symlink("/nowhere/at all", tree.join("dangling")).expect("symlink");
        let fixture = Self { base };
        for (path, time) in [
            ("tree/a", "2001-02-03T04:05:06Z"),
            ("tree/sub/deep/x y", "1999-12-31T23:59:59Z"),
            ("tree/sub/deep", "2010-01-01T00:00:00Z"),
        ] {
            tool(fixture.base.path(), &["touch", "-d", time, path]);
        }
        fixture
    }

    /// With names that only a Unix file system can hold, and files that are special.
    pub(crate) fn odd() -> Self {
        let fixture = Self::new();
        let tree = fixture.tree();
        for name in [
            &b"new\nline"[..],
            b"back\\slash",
            b"carriage\rreturn",
            b"\xff\xfe",
        ] {
            fs::write(tree.join(OsStr::from_bytes(name)), name).expect("write");
        }
        tool(&tree, &["mkfifo", "fifo"]);
        fixture
    }

    pub(crate) fn path(&self) -> &Path {
        self.base.path()
    }

    pub(crate) fn tree(&self) -> PathBuf {
        self.base.path().join("tree")
    }

    /// The tree as an ISO image `tree.iso` with Rock Ridge and Joliet.
    pub(crate) fn iso(&self) -> PathBuf {
        tool(
            self.path(),
            &[
                "xorriso", "-as", "mkisofs", "-quiet", "-R", "-J", "-o", "tree.iso", "tree",
            ],
        );
        self.path().join("tree.iso")
    }

    /// The tree as a session of ISO 9660 that begins at this sector of its disc; its bytes.
    pub(crate) fn session(&self, name: &str, first_sector: u32) -> Vec<u8> {
        let place = format!("0,{first_sector}");
        tool(
            self.path(),
            &[
                "genisoimage",
                "-quiet",
                "-R",
                "-C",
                &place,
                "-o",
                name,
                "tree",
            ],
        );
        fs::read(self.path().join(name)).unwrap()
    }
}

/// Waits for the end of a program, which is to come by itself.
pub(crate) fn ended(child: &mut Child) -> ExitStatus {
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if begun.elapsed() > Duration::from_secs(120) {
            child.kill().unwrap();
            panic!("it goes on");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A running server, ended with the test.
pub(crate) struct Serve {
    child: Child,
    pub(crate) ready: String,
    stderr: BufReader<std::process::ChildStderr>,
    _state: Option<TempDir>,
}

impl Serve {
    /// Starts `pagewell serve` with these arguments, on a port that is free, and waits until it
    /// is ready.
    pub(crate) fn start(arguments: &[&str]) -> Self {
        Self::start_by(program(), arguments)
    }

    /// The same where no file can be written past so many bytes, as on a full file system.
    pub(crate) fn start_limited(arguments: &[&str], file_bytes_max: u64) -> Self {
        let mut shell = Command::new("sh");
        let blocks = (file_bytes_max / 512).to_string();
        let script = "ulimit -f \"$0\"; exec \"$@\"";
        let program = env!("CARGO_BIN_EXE_pagewell");
        shell.args(["-c", script, &blocks, program]);
        shell.env("LC_ALL", "C").stdin(Stdio::null());
        Self::start_by(shell, arguments)
    }

    /// The same with SIGHUP as env(1) sets it, `default` or `ignore`: what nohup(1) has started
    /// ignores it, the tests as well.
    pub(crate) fn start_with_hangup(set: &str, arguments: &[&str]) -> Self {
        let mut env = Command::new("env");
        env.args([
            &format!("--{set}-signal=HUP"),
            env!("CARGO_BIN_EXE_pagewell"),
        ]);
        env.env("LC_ALL", "C").stdin(Stdio::null());
        Self::start_by(env, arguments)
    }

    /// The same by a user without rights, from `directory`.
    pub(crate) fn start_unprivileged(directory: &Path, arguments: &[&str]) -> Self {
        let state = directory.join("state");
        fs::create_dir(&state).expect("mkdir");
        if is_root() {
            std::os::unix::fs::chown(&state, Some(65534), Some(65534)).expect("chown");
        }
        let state = state.to_str().expect("UTF-8");
        let all = [
            &["--state-dir", state, "--listen", "127.0.0.1:0"],
            arguments,
        ]
        .concat();
        Self::spawn(unprivileged(directory), &all)
    }

    fn start_by(command: Command, arguments: &[&str]) -> Self {
        let state = tempfile::tempdir().expect("a temporary directory");
        let mut all = vec![
            OsString::from("--state-dir"),
            state.path().into(),
            "--listen".into(),
            "127.0.0.1:0".into(),
        ];
        all.extend(arguments.iter().map(OsString::from));
        let mut serve = Self::spawn(command, &all);
        serve._state = Some(state);
        serve
    }

    /// Starts `pagewell serve` with exactly these arguments.
    pub(crate) fn start_exactly<S: AsRef<OsStr>>(arguments: &[S]) -> Self {
        Self::spawn(program(), arguments)
    }

    fn spawn<S: AsRef<OsStr>>(mut command: Command, arguments: &[S]) -> Self {
        let mut child = command
            .arg("serve")
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("starts");
        let mut stdout = BufReader::new(child.stdout.take().expect("piped"));
        let mut stderr = BufReader::new(child.stderr.take().expect("piped"));
        let mut ready = String::new();
        stdout.read_line(&mut ready).expect("a line");
        if !ready.starts_with("ready ") {
            let mut text = String::new();
            let _ = child.kill();
            let _ = stderr.read_to_string(&mut text);
            panic!("not ready: {ready:?} {text}");
        }
        // Nothing more may come on standard output; the pipe is closed with the child.
        child.stdout = Some(stdout.into_inner());
        Self {
            child,
            ready,
            stderr,
            _state: None,
        }
    }

    /// The URLs of the ready line.
    pub(crate) fn urls(&self) -> Vec<&str> {
        self.ready.split_whitespace().skip(1).collect()
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        let rest = self.urls()[0].strip_prefix("nfs://").expect("a URL");
        let end = rest.find('/').expect("a path");
        rest[..end].parse().expect("an address")
    }

    /// Lines of standard error up to and with the first that contains `part`.
    pub(crate) fn lines_until(&mut self, part: &str) -> Vec<String> {
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            let got = self.stderr.read_line(&mut line).expect("a line");
            assert!(got > 0, "the server ended without {part:?}: {lines:?}");
            let found = line.contains(part);
            lines.push(line);
            if found {
                return lines;
            }
        }
    }

    /// A path as the programs of libnfs name it.
    pub(crate) fn libnfs_url(&self, path: &str) -> String {
        let port = self.address().port();
        format!("nfs://127.0.0.1/{path}?version=3&nfsport={port}&mountport={port}")
    }

    /// Where it answers HTTP.
    pub(crate) fn http(&mut self) -> SocketAddr {
        let lines = self.lines_until("metrics http://");
        let line = lines.last().expect("a line");
        let rest = line.trim().strip_prefix("metrics http://").expect("a URL");
        rest.strip_suffix("/metrics")
            .expect("a path")
            .parse()
            .expect("an address")
    }

    /// Its number among processes.
    pub(crate) fn process_id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal by name.
    pub(crate) fn signal(&self, name: &str) {
        let id = self.process_id().to_string();
        tool(Path::new("/"), &["kill", "-s", name, &id]);
    }

    /// Sends a signal two times, as timeout(1) does.
    pub(crate) fn signal_twice(&self, name: &str) {
        let id = self.process_id().to_string();
        tool(Path::new("/"), &["kill", "-s", name, &id, &id]);
    }

    /// Waits for the end: the exit code, what else came on standard output, the rest of
    /// standard error.
    pub(crate) fn end(mut self) -> (Option<i32>, String, String) {
        let mut out = String::new();
        let mut err = String::new();
        let mut stdout = self.child.stdout.take().expect("piped");
        self.stderr.read_to_string(&mut err).expect("text");
        stdout.read_to_string(&mut out).expect("text");
        let status = self.child.wait().expect("ends");
        (status.code(), out, err)
    }
}

impl Drop for Serve {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
