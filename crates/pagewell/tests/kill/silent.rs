//! A directory on a file system that falls silent: a FUSE mount whose program is stopped. Other
//! exports are served as before, and the server ends when it is told to.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use pagewell_sunrpc::nfs3::{Procedure, StableHow};
use pagewell_wire::client::{Client, User};
use pagewell_wire::operations::handle;

use crate::support::{Serve, program, run, tool};

/// More than a server has threads that receive, so that each of them has some.
const CONNECTIONS: usize = 16;

/// A mount that is taken away with the test. A program that uses it has errors then, and can end.
struct Mount {
    program: Child,
    place: String,
}

impl Mount {
    fn of(source: &Path, place: &Path) -> Self {
        let place = place.to_str().unwrap().to_owned();
        let source = format!("dir:{}", source.display());
        let mut program = program()
            .args(["mount", "--foreground", &source, &place])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut ready = String::new();
        let mut output = BufReader::new(program.stdout.take().unwrap());
        output.read_line(&mut ready).unwrap();
        assert!(ready.starts_with("ready "), "{ready:?}");
        Self { program, place }
    }

    fn signal(&self, name: &str) {
        let id = self.program.id().to_string();
        tool(Path::new("/"), &["kill", "-s", name, &id]);
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        self.signal("CONT");
        run(&["umount", "--lazy", &self.place]);
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}

/// A server of `/silent`, which is mounted, and `/other`.
struct Trial {
    mount: Mount,
    serve: Serve,
    _folder: tempfile::TempDir,
}

impl Trial {
    /// `None` where nothing can be mounted.
    fn start() -> Option<Self> {
        if fs::File::options().write(true).open("/dev/fuse").is_err() {
            pagewell_skip::skip("needs /dev/fuse");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for name in ["below", "place", "other"] {
            fs::create_dir(path(name)).unwrap();
        }
        fs::write(path("below").join("file"), [0; 8192]).unwrap();
        let mount = Mount::of(&path("below"), &path("place"));
        let named = |name: &str, place: &str| format!("/{name}={}", path(place).display());
        let (silent, other) = (named("silent", "place"), named("other", "other"));
        let serve = Serve::start(&["--squash", "none", &silent, &other]);
        Some(Self {
            mount,
            serve,
            _folder: folder,
        })
    }

    fn client(&self) -> Client {
        Client::connect(self.serve.address(), User::root())
    }

    /// Has many clients write and look where nothing answers. Those that only read are told to ask
    /// again after a while.
    fn ask_in_vain(&self) -> Vec<Client> {
        let mut client = self.client();
        let root = client.mount(b"/silent").unwrap();
        let file = client.lookup(&root, b"file").unwrap().handle;
        // It is held open for writing from now on.
        let write =
            |client: &mut Client| client.start_write(&file, 0, &[1; 4096], StableHow::Unstable);
        let xid = write(&mut client);
        client.finish(xid);
        self.mount.signal("STOP");
        let mut clients: Vec<_> = (0..CONNECTIONS).map(|_| self.client()).collect();
        for client in &mut clients {
            write(client);
            client.start(Procedure::Getattr, &handle(&file));
        }
        clients
    }
}

#[test]
fn other_exports_are_served_while_a_file_system_is_silent() {
    let Some(trial) = Trial::start() else { return };
    let mut before: Vec<_> = (0..CONNECTIONS).map(|_| trial.client()).collect();
    let other = before[0].mount(b"/other").unwrap();
    let _waiting = trial.ask_in_vain();
    let mut after: Vec<_> = (0..CONNECTIONS).map(|_| trial.client()).collect();
    // A call that is not answered fails the test after a minute.
    for client in before.iter_mut().chain(&mut after) {
        client.getattr(&other).unwrap();
    }
    for client in &mut after {
        client.start_mount(b"/silent");
        client.getattr(&other).unwrap();
    }
}

#[test]
fn a_server_ends_while_a_file_system_is_silent() {
    let Some(trial) = Trial::start() else { return };
    let waiting = trial.ask_in_vain();
    let Trial {
        mut serve,
        mount,
        _folder,
    } = trial;
    serve.signal("TERM");
    let began = Instant::now();
    serve.lines_until("/silent: written data is not on the device: ");
    assert!(began.elapsed() < Duration::from_secs(90));
    // The kernel closes the files of a program that has ended, and asks the file system then.
    mount.signal("CONT");
    let (code, _, said) = serve.end();
    assert_eq!(code, Some(1), "{said}");
    drop((waiting, mount));
}
