//! Pagewell: the program, and its library.
//!
//! A program takes a file system of [`fs`] and calls its methods, or starts an [`nfsd::Server`]
//! inside itself:
//!
//! ```
//! use pagewell::{fs, nfsd};
//! use std::sync::Arc;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let memory = fs::ram::RamFileSystem::new(1 << 20)?;
//! let export = nfsd::Export::new("/", Arc::new(memory));
//! let mut config = nfsd::Config::new(vec![export], [0; 16]); // a real key is random and kept
//! config.listen = "127.0.0.1:0".parse()?;
//! let server = nfsd::Server::start(config)?;
//! println!("serving at {}", server.address());
//! server.stop()?;
//! # Ok(())
//! # }
//! ```
//!
//! # The life of a read
//!
//! 1. A `Reader` ([`rpcd::receive::reader`]) learns from epoll that a socket has bytes. The
//!    `Receiver` of the connection ([`rpcd::receive::receiver`]) finds whole records in them
//!    ([`sunrpc`], record marking) where they lie.
//! 2. [`nfs3d::nfs3::Nfs3::answer`] decodes the call in place. The handle becomes an
//!    [`nfsd::Export`] and an [`fs::FileId`]; [`nfsd::Export::squashed`] makes the caller's
//!    [`fs::Credentials`].
//! 3. [`fs::FileSystem::read`], with [`fs::Call::may_block`] false, says where the bytes are: an
//!    [`fs::Payload`], a range of an open file for [`fs::dir`], pages for [`fs::ram`], and pages of
//!    the [`cache`] for [`fs::iso`] and [`fs::image`]: a [`cache::CachedDevice`] lends those that
//!    it has and fetches the others from a [`device::Device`].
//! 4. Small payloads are copied into the block of replies ([`rpcd::reply`]). Of large ones pages
//!    are sent from where they are, and a file's range by sendfile ([`rpcd::reply::file_range`]).
//! 5. [`rpcd::reply`] sends all ready replies in one system call; [`pagewell_counters::procedures`]
//!    counts the call and its time.
//!
//! If the bytes are not in memory, step 3 or 4 answers [`fs::Error::WouldBlock`]. A thread of the
//! [`rpcd::pool`] then does steps 2 to 5 with `may_block` true; if storage takes longer than
//! [`nfsd::Config::slow_after`], the client is asked to try later.
//!
//! # The life of a write
//!
//! 1. The record arrives as above. A large one gets a buffer of its own, within the memory for
//!    requests of the whole server ([`rpcd::request_memory`]); a client that wants more is not read
//!    until some is free.
//! 2. A WRITE that must wait goes to the pool with that buffer. [`fs::FileSystem::write`] gets a
//!    slice of the buffer: the decoder copies no data.
//! 3. [`fs::dir`] writes it to the file (pwrite) and synchronises as the [`fs::Stability`] asks;
//!    [`fs::ram`] puts it into pages. The reply has the stability reached and the write verifier.
//! 4. COMMIT is [`fs::FileSystem::commit`]. If unstable data was lost in between, the verifier has
//!    changed, and the client sends its data again.
//! 5. A change that must not be done twice is remembered with its reply ([`nfs3d::duplicate`]), so
//!    that a retransmission gets the same answer.
//!
//! The commands `ls`, `cat`, `cp`, `stat` and `sum` call [`fs::FileSystem`] themselves.

pub use pagewell_cache as cache;
pub use pagewell_counters as counters;
pub use pagewell_device as device;
pub use pagewell_fuse as fuse;
pub use pagewell_nfs3d as nfs3d;
pub use pagewell_nfsd as nfsd;
pub use pagewell_rpcd as rpcd;
pub use pagewell_sunrpc as sunrpc;

/// The contract of file systems, and the sources, a module each.
pub mod fs {
    pub use pagewell_fs::*;
    pub use pagewell_source_dir as dir;
    pub use pagewell_source_image as image;
    pub use pagewell_source_iso as iso;
    pub use pagewell_source_nfs as nfs;
    pub use pagewell_source_object as object;
    pub use pagewell_source_ram as ram;
    pub use pagewell_source_udf as udf;
}

mod allocator;
mod arguments;
mod background;
mod bucket_arguments;
#[doc(hidden)]
pub mod command_line;
mod commands;
mod configuration;
mod copy;
mod disc_facts;
mod disc_spelling;
mod engine;
mod escape;
mod export;
mod failure;
mod gone;
mod identity;
mod kinds;
mod listing;
mod location;
mod log_arguments;
mod mount_commands;
mod mount_helper;
mod open;
mod output;
mod progress;
mod recognise;
mod registration;
mod sandbox;
mod sandbox_arguments;
mod service_manager;
mod signals;
mod source;
mod state;
mod storage;
mod stream;
mod stream_file;
mod target;
mod time_text;
mod values;
mod writing_arguments;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::CommandFactory;

/// Runs the program with this command line, the program's name first. Returns the exit code: 0
/// done, 1 failed, 2 wrong usage.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    pagewell_logging::start();
    let arguments = mount_helper::command_line(arguments.into_iter().collect());
    let parsed: arguments::Arguments = match command_line::parse("", &arguments) {
        Ok(parsed) => parsed,
        Err(code) => return code,
    };
    signals::fail_past_file_size_limit();
    use commands::Command::{Mount, Serve};
    if !matches!(parsed.command, Serve(_) | Mount(_)) {
        signals::end_on_broken_pipe();
    }
    let ended = commands::run(&parsed.command, arguments::Arguments::command);
    failure::exit_code(ended)
}
