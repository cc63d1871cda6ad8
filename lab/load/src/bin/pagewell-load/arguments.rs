//! The command line.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use pagewell_base::{duration, size};
use pagewell_load::compare::Server;
use pagewell_load::load::{Load, LoadError, Target, Workload};

/// Makes NFS version 3 load over TCP and measures the answers.
#[derive(Parser)]
#[command(name = "pagewell-load", version)]
pub(crate) struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What to do.
#[derive(Subcommand)]
pub(crate) enum Command {
    /// Make one load on one server.
    Run(RunArguments),
    /// Have several servers do the same cases in turn; fail when the first is not as good as it
    /// must be.
    Compare(CompareArguments),
    /// Make the files in a directory that `compare` needs there: read.data, random.data, and 1000
    /// empty ones in listed. What has one of these names already and is not as long is replaced.
    Prepare {
        /// The directory that the servers export.
        directory: PathBuf,
    },
    /// Make a local file whose every byte `run --verify read` can check.
    MakeFile {
        /// The file; it is replaced.
        path: PathBuf,
        /// Its length.
        #[arg(value_parser = size::parse)]
        size: u64,
    },
}

/// One load.
#[derive(Args)]
pub(crate) struct RunArguments {
    /// read, randread, getattr, lookup, access, readdirplus, write, randwrite or mix.
    workload: Workload,
    /// The file below the export; for readdirplus the directory. write replaces it.
    #[arg(default_value = "")]
    path: String,
    /// Where NFS listens.
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:2049")]
    nfs: SocketAddr,
    /// Where MOUNT listens; the same as NFS unless given.
    #[arg(long, value_name = "ADDR:PORT")]
    mount: Option<SocketAddr>,
    /// The export to mount.
    #[arg(long, default_value = "/")]
    export: String,
    /// Bytes of one READ or WRITE, or of one READDIRPLUS reply.
    #[arg(long, value_parser = size::parse, default_value = "128k")]
    block: u64,
    /// Bytes of the file to use; write needs it.
    #[arg(long, value_parser = size::parse)]
    size: Option<u64>,
    /// Calls in flight on each connection.
    #[arg(long, default_value_t = 1)]
    depth: usize,
    /// Connections, a thread each.
    #[arg(long, default_value_t = 1)]
    connections: usize,
    /// How long to go on; write ends at the size of the file.
    #[arg(long, value_name = "TIME", value_parser = duration::parse, default_value = "3s")]
    seconds: Duration,
    /// Read the file once, however long it takes.
    #[arg(long)]
    once: bool,
    /// Write data that can be checked, and check every byte that is read; not for timing.
    #[arg(long)]
    verify: bool,
    /// Process of the server, to report what it uses.
    #[arg(long, value_name = "PID")]
    pub(crate) server_pid: Option<u32>,
    /// Count the system calls of that process; not for timing. Needs root and tracefs.
    #[arg(long, requires = "server_pid")]
    system_calls: bool,
    /// Print a JSON result.
    #[arg(long)]
    pub(crate) json: bool,
}

/// A comparison.
#[derive(Args)]
pub(crate) struct CompareArguments {
    /// name=NAME,version=TEXT,nfs=ADDR:PORT,mount=ADDR:PORT,pid=PID,kind=KIND,without=WORKLOAD,
    /// export=PATH; the first is the one in question. KIND is server, or limit for a bare one
    /// that only does what is judged by it; WORKLOAD is what it cannot do. The export comes last
    /// and may hold any character.
    #[arg(long = "server", value_name = "SERVER", value_parser = server, required = true)]
    pub(crate) servers: Vec<Server>,
    /// The directory that all of them export. The files of `prepare` are made in it, random.data is
    /// written to, and write.data is replaced and removed.
    #[arg(long)]
    pub(crate) directory: PathBuf,
    /// How often each server does each case.
    #[arg(long, default_value_t = 5)]
    pub(crate) repeat: usize,
    /// How long one run takes.
    #[arg(long, value_name = "TIME", value_parser = duration::parse, default_value = "1s")]
    pub(crate) seconds: Duration,
    /// What the reader of the results is to know, for example that a server is missing.
    #[arg(long, default_value = "")]
    pub(crate) note: String,
    /// Only cases whose name contains this.
    #[arg(long, default_value = "")]
    pub(crate) only: String,
    /// Write a JSON result to this file.
    #[arg(long)]
    pub(crate) json: Option<PathBuf>,
    /// Write the table to this file, between the lines `<!-- bench-serve begin -->` and
    /// `<!-- bench-serve end -->`.
    #[arg(long)]
    pub(crate) markdown: Option<PathBuf>,
    /// The command to name beside the table.
    #[arg(long, default_value = "pagewell-load compare")]
    pub(crate) command: String,
}

fn server(text: &str) -> Result<Server, String> {
    let address = |text: &str| {
        let address = text.parse::<SocketAddr>();
        address.map_err(|_| format!("'{text}' is not ADDR:PORT"))
    };
    let mut parts = HashMap::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (key, value) = rest
            .split_once('=')
            .ok_or_else(|| format!("no = in '{rest}'"))?;
        let (value, after) = match key {
            "export" => (value, ""),
            _ => value.split_once(',').unwrap_or((value, "")),
        };
        parts.insert(key, value);
        rest = after;
    }
    let nfs = parts.remove("nfs").ok_or("nfs=ADDR:PORT is missing")?;
    let mount = parts.remove("mount").unwrap_or(nfs);
    let is_no_process = |_: std::num::ParseIntError| "pid is not a process".to_owned();
    let server = Server {
        name: parts.remove("name").ok_or("name=NAME is missing")?.into(),
        version: parts.remove("version").unwrap_or_default().into(),
        target: Target {
            nfs: address(nfs)?,
            mount: address(mount)?,
            export: parts.remove("export").unwrap_or("/").into(),
        },
        process: parts
            .remove("pid")
            .map(str::parse)
            .transpose()
            .map_err(is_no_process)?,
        limit: match parts.remove("kind") {
            None | Some("server") => false,
            Some("limit") => true,
            Some(other) => return Err(format!("'{other}' is neither server nor limit")),
        },
        without: parts.remove("without").map(str::parse).transpose()?,
    };
    match parts.keys().next() {
        Some(key) => Err(format!("'{key}' is not known")),
        None => Ok(server),
    }
}

impl RunArguments {
    pub(crate) fn load(&self) -> Result<Load, LoadError> {
        let wrong = |what: &str| LoadError::Settings(what.to_owned());
        let block_bytes = u32::try_from(self.block).map_err(|_| wrong("the block is too long"))?;
        let unbounded = self.once || self.workload == Workload::Write;
        Ok(Load {
            workload: self.workload,
            path: self.path.clone(),
            block_bytes,
            file_bytes: self.size,
            depth: self.depth,
            connections: self.connections,
            duration: (!unbounded).then_some(self.seconds),
            verify: self.verify,
            count_system_calls: self.system_calls,
            watch_memory: false,
        })
    }

    pub(crate) fn target(&self) -> Target {
        Target {
            nfs: self.nfs,
            mount: self.mount.unwrap_or(self.nfs),
            export: self.export.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        use clap::CommandFactory;
        Arguments::command().debug_assert();
    }

    #[test]
    fn a_server_is_described_by_its_parts() {
        let text = "name=peer,version=4.3 (VFS),nfs=127.0.0.1:5,pid=7,export=/a,b=c";
        let found = server(text).unwrap();
        assert_eq!(
            (found.name.as_str(), found.version.as_str()),
            ("peer", "4.3 (VFS)")
        );
        assert_eq!(
            (found.target.export.as_str(), found.process),
            ("/a,b=c", Some(7))
        );
        assert_eq!(found.target.mount, found.target.nfs);
        assert_eq!((found.limit, found.without), (false, None));
        let found = server("name=x,nfs=127.0.0.1:5,kind=limit,without=readdirplus").unwrap();
        assert_eq!(
            (found.limit, found.without),
            (true, Some(Workload::ReaddirPlus))
        );
        for wrong in [
            "",
            "name=x",
            "nfs=127.0.0.1:5",
            "name=x,nfs=5",
            "name=x,port=5",
            "x",
            "name=x,nfs=127.0.0.1:5,kind=peer",
            "name=x,nfs=127.0.0.1:5,without=all",
        ] {
            assert!(server(wrong).is_err(), "{wrong}");
        }
    }
}
