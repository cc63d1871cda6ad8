//! A server in a process of its own, to be killed and measured.
//!
//! The process is the test program again; [`ROLE`] has it serve: a test of it that is named
//! `serve_as_child` calls [`serve_as_child`]. It ends when its standard input ends, so that it does
//! not outlive a test that fails.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use pagewell_fs::FileSystem;
use rustix::process::{Resource, Rlimit, setrlimit};

use crate::client::{Client, User};
use crate::fixture::{self, Kind};
use crate::layer::{Layer, Stalls};
use crate::operations::FileHandle;

/// What the process is to serve.
const ROLE: &str = "PAGEWELL_WIRE_ROLE";

/// A running server process.
pub struct Process {
    child: Child,
    pub address: SocketAddr,
}

/// A process whose memory and descriptors are looked at.
#[derive(Clone, Copy)]
pub struct Watched(u32);

impl Process {
    /// Serves a directory.
    pub fn of_directory(path: &Path, kind: Kind) -> Self {
        let role = if kind == Kind::PathHints {
            "path-hints"
        } else {
            "directory"
        };
        Self::start(&format!("{role} {}", path.display()))
    }

    /// Serves a file as a disk image that can be written.
    pub fn of_image(path: &Path) -> Self {
        Self::start(&format!("image {}", path.display()))
    }

    /// Serves a RAM file system.
    pub fn of_ram() -> Self {
        Self::start("ram")
    }

    /// Serves a RAM file system with no more than `descriptors` for everything.
    pub fn of_few_descriptors(descriptors: u64) -> Self {
        Self::start(&format!("few {descriptors}"))
    }

    /// Serves a RAM file system in which writes wait for [`Process::release`].
    pub fn of_stalled_writes() -> Self {
        Self::start("stalled")
    }

    fn start(role: &str) -> Self {
        let program = std::env::current_exe().unwrap();
        let mut child = Command::new(program)
            .args(["--exact", "serve_as_child", "--nocapture"])
            .env(ROLE, role)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.as_mut().unwrap()).lines();
        let address = lines
            .map_while(Result::ok)
            .find_map(|line| line.strip_prefix("listening ")?.parse().ok())
            .expect("the process tells where it listens");
        Self { child, address }
    }

    /// A client that is root, and the root of the export.
    pub fn client(&self) -> (Client, FileHandle) {
        let mut client = Client::connect(self.address, User::root());
        let root = client.mount(b"/").expect("mounted");
        (client, root)
    }

    /// Lets the writes go on.
    pub fn release(&mut self) {
        self.child.stdin.as_mut().unwrap().write_all(b".").unwrap();
    }

    /// Ends the process at once, as a crash would.
    pub fn kill(mut self) {
        self.end();
    }

    /// What it takes.
    pub fn watched(&self) -> Watched {
        Watched(self.child.id())
    }

    /// Memory that the process holds, in bytes.
    pub fn resident_bytes(&self) -> u64 {
        self.watched().resident_bytes()
    }

    /// Descriptors that the process has open.
    pub fn descriptors(&self) -> usize {
        self.watched().descriptors()
    }

    fn end(&mut self) {
        // SIGKILL; a process that has ended already is no error here.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Watched {
    /// The process of the test.
    pub fn myself() -> Self {
        Self(std::process::id())
    }

    /// [`Process::resident_bytes`].
    pub fn resident_bytes(self) -> u64 {
        let path = format!("/proc/{}/status", self.0);
        let status = std::fs::read_to_string(path).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kilobytes = line.and_then(|line| line.split_whitespace().next());
        kilobytes.unwrap().parse::<u64>().unwrap() << 10
    }

    /// [`Process::descriptors`].
    pub fn descriptors(self) -> usize {
        let open = std::fs::read_dir(format!("/proc/{}/fd", self.0));
        open.unwrap().count()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
    }
}

/// Serves what the environment says in a process that [`Process::start`] started; returns at once
/// in any other process.
pub fn serve_as_child() {
    let Ok(role) = std::env::var(ROLE) else {
        return;
    };
    let mut stalls = None;
    let filesystem: Arc<dyn FileSystem> = match role.split_once(' ') {
        None if role == "ram" => fixture::ram(),
        None => {
            let (layer, hook) = Layer::new(fixture::ram(), Stalls::at(&["write"]));
            stalls = Some(hook);
            layer
        }
        Some(("few", descriptors)) => {
            let most = Some(descriptors.parse().unwrap());
            let limit = Rlimit {
                current: most,
                maximum: most,
            };
            setrlimit(Resource::Nofile, limit).unwrap();
            fixture::ram()
        }
        Some(("path-hints", path)) => {
            Arc::new(fixture::directory(Path::new(path), Kind::PathHints))
        }
        Some(("image", path)) => Arc::new(fixture::image(Path::new(path))),
        Some((_, path)) => Arc::new(fixture::directory(Path::new(path), Kind::Directory)),
    };
    let server = fixture::serve(vec![fixture::export("/", filesystem)]);
    println!("\nlistening {}", server.address());
    let mut input = std::io::stdin();
    while input.read(&mut [0]).is_ok_and(|count| count > 0) {
        if let Some(hook) = &stalls {
            hook.gate.open();
        }
    }
}
