//! A server in a program of one's own: a directory and memory, each as an export.
//!
//!     cargo run -p pagewell-examples --bin embedded DIRECTORY
//!
//! Clients of this machine mount it with
//! `mount -t nfs -o vers=3,tcp,nolock,port=PORT,mountport=PORT 127.0.0.1:/files /mnt`.

use std::error::Error as Failure;
use std::path::Path;
use std::sync::Arc;

use pagewell_nfsd::{Config, Export, Server, Squash};
use pagewell_source_dir::{Directory, Options};
use pagewell_source_ram::RamFileSystem;

const SCRATCH_BYTES_MAX: u64 = 64 << 20;

fn main() -> Result<(), Box<dyn Failure>> {
    let directory = std::env::args_os()
        .nth(1)
        .ok_or("usage: embedded DIRECTORY")?;
    let files = Directory::open(Path::new(&directory), Options::default())?;
    let scratch = RamFileSystem::new(SCRATCH_BYTES_MAX)?;
    let exports = vec![
        Export {
            read_only: true,
            ..Export::new("/files", Arc::new(files))
        },
        Export {
            squash: Squash::None,
            ..Export::new("/scratch", Arc::new(scratch))
        },
    ];
    let server = Server::start(pagewell_examples::on_any_port(Config::new(
        exports, [7; 16],
    )))?;
    println!("serving {}", server.address());
    pagewell_examples::wait_for_end_of_input();
    // What was acknowledged as unstable is written before this returns.
    Ok(server.stop()?)
}
