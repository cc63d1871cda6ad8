//! `pagewell sandbox-probe`: what a server's sandbox refuses, tried from inside. A hidden command
//! for tests.

use std::fs::{self, File};
use std::io::{Error, Result};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use nix::errno::Errno;
use nix::sys::ptrace;
use nix::unistd::Pid;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use rustix::net::{AddressFamily, SocketType, socket};
use rustix::thread::LinkNameSpaceType;

use crate::configuration::arguments::ServeArguments;
use crate::configuration::settings::Settings;
use crate::failure::Outcome;
use crate::{escape, output, sandbox, state};

/// How long to try a connection.
const CONNECT_TIME: Duration = Duration::from_secs(10);

/// Enter the sandbox of a server with these options, and try what it should refuse
///
/// A line for each attempt: what, and 'refused' or 'possible'. What is made is removed again.
#[derive(Debug, Args)]
pub(crate) struct SandboxProbeArguments {
    /// A file to read, and one in the same folder is made; repeatable
    #[arg(long, value_name = "PATH")]
    try_file: Vec<PathBuf>,
    /// A program to connect to
    #[arg(long, value_name = "ADDR:PORT")]
    try_connect: Option<SocketAddr>,
    /// A folder to mount something on, for a moment
    #[arg(long, value_name = "DIR")]
    try_mount: Option<PathBuf>,
    #[command(flatten)]
    serve: ServeArguments,
}

pub(crate) fn run(arguments: &SandboxProbeArguments) -> anyhow::Result<Outcome> {
    let settings = Settings::load(&arguments.serve)?;
    let state_directory = match &settings.state_dir {
        Some(directory) => directory.clone(),
        None => state::default_directory()?,
    };
    let lacks = sandbox::begin(&settings, &state_directory)?;
    let text = std::thread::scope(|scope| scope.spawn(|| attempts(arguments)).join());
    let text = text.ok().context("the attempts ended in a defect")?;
    let lacks = lacks
        .iter()
        .map(|lack| escape::text(lack.as_bytes()) + "\n");
    output::print((lacks.collect::<String>() + &text).as_bytes())?;
    Ok(Outcome::Done)
}

/// Makes all attempts, on a thread that began after the sandbox did.
fn attempts(arguments: &SandboxProbeArguments) -> String {
    let mut text = String::new();
    let mut add = |what: &str, outcome: Result<()>| {
        text += &match outcome {
            Ok(()) => format!("{what}: possible\n"),
            Err(error) => format!("{what}: refused ({error})\n"),
        };
    };
    for path in &arguments.try_file {
        let shown = path.display();
        add(&format!("read {shown}"), File::open(path).map(drop));
        add(&format!("make beside {shown}"), make_beside(path));
    }
    add("execute", Command::new("true").status().map(drop));
    add("listen", TcpListener::bind("127.0.0.1:0").map(drop));
    if let Some(address) = &arguments.try_connect {
        let connected = TcpStream::connect_timeout(address, CONNECT_TIME);
        add("connect", connected.map(drop));
    }
    if let Some(folder) = &arguments.try_mount {
        let mounted = mount("none", folder, "tmpfs", MountFlags::empty(), None);
        if mounted.is_ok() {
            let _ = unmount(folder, UnmountFlags::DETACH);
        }
        add("mount", mounted.map_err(Error::from));
    }
    add("name space", enter_name_space());
    add("packet socket", raw_socket());
    add("trace", trace());
    text
}

/// Asks to trace a process that cannot be there.
fn trace() -> Result<()> {
    match ptrace::attach(Pid::from_raw(i32::MAX)) {
        Ok(()) | Err(Errno::ESRCH) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn make_beside(path: &std::path::Path) -> Result<()> {
    let made = path.with_extension("pagewell-probe");
    File::create_new(&made)?;
    fs::remove_file(made)
}

/// Enters the network's name space in which the process is already.
fn enter_name_space() -> Result<()> {
    let own = File::open("/proc/self/ns/net")?;
    let kind = Some(LinkNameSpaceType::Network);
    Ok(rustix::thread::move_into_link_name_space(
        rustix::fd::AsFd::as_fd(&own),
        kind,
    )?)
}

fn raw_socket() -> Result<()> {
    Ok(socket(AddressFamily::PACKET, SocketType::DGRAM, None).map(drop)?)
}
