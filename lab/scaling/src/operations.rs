//! The operations, and the servers that do them.

use std::fs::OpenOptions;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, bail};
use pagewell_sunrpc::nfs3::{Procedure, ReadArguments, StableHow};
use pagewell_wire::client::{Client, User};
use pagewell_wire::operations::{entry, handle};
use tempfile::TempDir;

use crate::symbols::Symbols;
use crate::writes::Writes;
use crate::{Arguments, step};

/// Bytes of each file: what one WRITE may have.
const FILE_BYTES: usize = 1 << 20;

/// Operations before threads are watched: until then memory is taken, ways are tried, and names
/// are learnt.
const WARM_UP: u32 = 600;

const FILES: [&str; 2] = ["first", "second"];

/// What was counted of one kind of operation, for each of them.
pub(crate) struct Counted {
    /// What it is.
    pub(crate) name: &'static str,
    /// Where both clients write to, if they use one file.
    pub(crate) one_file: Vec<Place>,
    /// The same if each has a file of its own.
    pub(crate) own_files: Vec<Place>,
    /// Atomic read-modify-writes, with a file for each.
    pub(crate) locked: f64,
    /// Instructions in user space.
    pub(crate) instructions: f64,
    /// System calls.
    pub(crate) system_calls: f64,
}

/// An instruction that writes to memory which another thread writes to as well.
pub(crate) struct Place {
    /// How often each operation does.
    pub(crate) writes: f64,
    /// The part of these that is atomic.
    pub(crate) locked: f64,
    /// The functions that it is in, from the innermost.
    pub(crate) functions: Vec<String>,
}

#[derive(Clone, Copy)]
enum Operation {
    Attributes,
    Lookup,
    Read(u32),
    Write(usize),
}

impl Operation {
    /// The answer has at least so many if it is not that of a failure (RFC 1813 section 3.3).
    fn answer_bytes_min(self) -> usize {
        match self {
            Self::Attributes => 84,
            Self::Lookup | Self::Write(_) => 120,
            Self::Read(count) => count as usize,
        }
    }
}

/// Each with its name, whose last word is that of the export.
const OVER_THE_NETWORK: [(&str, Operation); 9] = [
    ("GETATTR, directory", Operation::Attributes),
    ("LOOKUP, directory", Operation::Lookup),
    ("READ 8 KiB, directory", Operation::Read(8 << 10)),
    ("READ 128 KiB, directory", Operation::Read(128 << 10)),
    ("READ 8 KiB, cached image", Operation::Read(8 << 10)),
    ("READ 128 KiB, cached image", Operation::Read(128 << 10)),
    ("READ 128 KiB, memory", Operation::Read(128 << 10)),
    ("WRITE 8 KiB, directory", Operation::Write(8 << 10)),
    ("WRITE 8 KiB, memory", Operation::Write(8 << 10)),
];

const MOUNTED: &str = "read 128 KiB, FUSE mount of an image";

/// Counts everything that is asked for.
pub(crate) fn count_all(arguments: &Arguments) -> anyhow::Result<Vec<Counted>> {
    let work = tempfile::tempdir()?;
    prepare(work.path())?;
    let mut all = Vec::new();
    for (name, operation) in OVER_THE_NETWORK {
        if name.contains(&arguments.only) {
            let export = format!("/{}", name.rsplit(' ').next().unwrap_or(name));
            let seen = [[0, 0], [0, 1]].map(|files| {
                let server = Server::start(&arguments.program, work.path())?;
                server.watch(&export, operation, files, arguments)
            });
            let [one, own] = seen;
            all.push(counted(name, arguments, [&one?, &own?])?);
        }
    }
    if MOUNTED.contains(&arguments.only) {
        let seen = watch_mounted(arguments, &work)?;
        all.push(counted(MOUNTED, arguments, [&seen, &seen])?);
    }
    Ok(all)
}

/// What was seen, and where the instructions are.
type Seen = (Writes, Symbols);

fn prepare(work: &Path) -> anyhow::Result<()> {
    std::fs::create_dir(work.join("shared"))?;
    for file in FILES {
        std::fs::write(work.join("shared").join(file), vec![7; FILE_BYTES])?;
    }
    // Two readers of a mount read different pages of it.
    std::fs::write(work.join("image"), vec![7; 2 * FILE_BYTES])?;
    Ok(())
}

/// A program of Pagewell's that runs.
struct Running(Child);

impl Running {
    /// Starts it, and waits until it says that it is ready; returns the first such line.
    fn start(command: &mut Command) -> anyhow::Result<(Self, String)> {
        let child = command.stdout(Stdio::piped()).spawn();
        let mut running = Self(child.with_context(|| format!("{command:?} does not start"))?);
        let output = running.0.stdout.take().context("no output")?;
        for line in BufReader::new(output).lines() {
            let line = line?;
            if let Some(ready) = line.strip_prefix("ready ") {
                return Ok((running, ready.to_owned()));
            }
        }
        bail!("{command:?} has ended");
    }

    fn watch(self, work: impl FnOnce() + Send) -> anyhow::Result<Seen> {
        let symbols = Symbols::of_process(self.0.id())?;
        Ok((step::watch(self.0.id(), work)?, symbols))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It has ended already if it was watched.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct Server {
    running: Running,
    address: SocketAddr,
}

impl Server {
    fn start(program: &Path, work: &Path) -> anyhow::Result<Self> {
        let mut command = Command::new(program);
        command.stderr(Stdio::null());
        command.args(["serve", "--listen", "127.0.0.1:0", "--squash", "none"]);
        // A thread that polls does instructions all the time, and what is stepped cannot be timed.
        command.args(["--poll", "never", "--state-dir"]);
        command.arg(work.join("state"));
        command.arg(format!("/directory={}", work.join("shared").display()));
        command.arg(format!("/image=image:{}", work.join("image").display()));
        command.arg("/memory=ram:64m");
        let (running, ready) = Running::start(&mut command)?;
        let address = ready
            .strip_prefix("nfs://")
            .and_then(|rest| rest.split('/').next());
        let address = address
            .context("the server does not say where it is")?
            .parse()?;
        Ok(Self { running, address })
    }

    /// Two clients do an operation, each on one of these files.
    fn watch(
        self,
        export: &str,
        operation: Operation,
        files: [usize; 2],
        arguments: &Arguments,
    ) -> anyhow::Result<Seen> {
        let begin = || Session::begin(&self, export);
        let mut sessions = [begin()?, begin()?];
        let mut run = |rounds: u32| {
            for _ in 0..rounds {
                for (session, file) in sessions.iter_mut().zip(files) {
                    session.do_some(operation, file, arguments.depth);
                }
            }
        };
        run(WARM_UP.div_ceil(arguments.depth));
        self.running.watch(|| run(arguments.rounds()))
    }
}

/// A client, the root of an export, and the files in it.
struct Session {
    client: Client,
    root: Vec<u8>,
    files: [Vec<u8>; 2],
    names: [&'static str; 2],
}

impl Session {
    fn begin(server: &Server, export: &str) -> anyhow::Result<Self> {
        let mut client = Client::connect(server.address, User::root());
        let mounted = client.mount(export.as_bytes());
        let Ok(root) = mounted else {
            bail!("{export} cannot be mounted");
        };
        let names = match export {
            "/image" => ["image"; 2],
            _ => FILES,
        };
        let mut files = [Vec::new(), Vec::new()];
        for (file, name) in files.iter_mut().zip(names) {
            *file = match client.lookup(&root, name.as_bytes()) {
                Ok(found) => found.handle,
                Err(_) => client.make_file(&root, name.as_bytes(), &vec![7; FILE_BYTES]),
            };
        }
        Ok(Self {
            client,
            root,
            files,
            names,
        })
    }

    /// Sends an operation; returns how its answer is to be recognised.
    fn start(&mut self, operation: Operation, file: usize, round: u32) -> u32 {
        let (file, name) = (&self.files[file], self.names[file]);
        let object = handle(file);
        let offset = u64::from(round % 8) * (128 << 10);
        match operation {
            Operation::Attributes => self.client.start(Procedure::Getattr, &object),
            Operation::Lookup => {
                let arguments = entry(&self.root, name.as_bytes());
                self.client.start(Procedure::Lookup, &arguments)
            }
            Operation::Read(count) => {
                let arguments = ReadArguments {
                    file: object,
                    offset,
                    count,
                };
                self.client.start(Procedure::Read, &arguments)
            }
            Operation::Write(count) => {
                let data = vec![7; count];
                let stable = StableHow::Unstable;
                self.client.start_write(file, offset, &data, stable)
            }
        }
    }

    /// As many operations as are sent at once, to the last answer.
    fn do_some(&mut self, operation: Operation, file: usize, depth: u32) {
        let calls: Vec<u32> = (0..depth)
            .map(|round| self.start(operation, file, round))
            .collect();
        for call in calls {
            let bytes = self.client.finish(call).body_bytes();
            assert!(bytes >= operation.answer_bytes_min(), "it fails");
        }
    }
}

fn counted(
    name: &'static str,
    arguments: &Arguments,
    [one, own]: [&Seen; 2],
) -> anyhow::Result<Counted> {
    let all = f64::from(2 * arguments.done());
    // Far below 2^52.
    let each = |count: u64| count as f64 / all;
    let places = |(writes, symbols): &Seen| -> anyhow::Result<Vec<_>> {
        let places = writes.shared();
        let instructions: Vec<u64> = places.iter().map(|place| place.instruction).collect();
        let functions = symbols.functions(&instructions)?;
        let places = places.iter().zip(functions);
        let places = places.map(|(place, functions)| Place {
            writes: each(place.writes),
            locked: each(place.locked),
            functions,
        });
        Ok(places.collect())
    };
    Ok(Counted {
        name,
        one_file: places(one)?,
        own_files: places(own)?,
        locked: each(own.0.locked()),
        instructions: each(own.0.instructions()),
        system_calls: each(own.0.system_calls().values().sum()),
    })
}

/// Reads past the kernel's page cache, so that each read comes to the mount.
fn watch_mounted(arguments: &Arguments, work: &TempDir) -> anyhow::Result<Seen> {
    let mountpoint = work.path().join("mounted");
    std::fs::create_dir(&mountpoint)?;
    let mut command = Command::new(&arguments.program);
    command.args(["mount", "--foreground"]);
    command.arg(format!("image:{}", work.path().join("image").display()));
    command.arg(&mountpoint);
    let (running, _) = Running::start(&mut command)?;
    let _mounted = Mounted {
        program: &arguments.program,
        mountpoint: &mountpoint,
    };
    let open = || {
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(libc::O_DIRECT);
        options.open(mountpoint.join("image"))
    };
    let files = [open()?, open()?];
    let run = |rounds: u32| {
        std::thread::scope(|scope| {
            for (number, file) in files.iter().enumerate() {
                scope.spawn(move || {
                    let mut buffer = Aligned::default();
                    for round in 0..rounds {
                        let place = u64::from(round % 8) * 2 + number as u64;
                        let done = file.read_exact_at(&mut buffer.0, place * (128 << 10));
                        assert!(done.is_ok(), "the read fails");
                    }
                });
            }
        });
    };
    run(WARM_UP);
    running.watch(|| run(arguments.done()))
}

/// A mount. Dropping it takes it away, also after an error.
struct Mounted<'a> {
    program: &'a Path,
    mountpoint: &'a Path,
}

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        let mut command = Command::new(self.program);
        // It says itself what is wrong.
        let _ = command.arg("umount").arg(self.mountpoint).status();
    }
}

#[repr(align(4096))]
struct Aligned([u8; 128 << 10]);

impl Default for Aligned {
    fn default() -> Self {
        Self([0; 128 << 10])
    }
}
