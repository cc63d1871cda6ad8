//! The configuration of a server: defaults, the file `pagewell.toml` and the command line.
//!
//! ```text
//!   arguments.rs the command line of serve
//!   file.rs      reads the file: its keys, and what each takes
//!    ├ table.rs     takes keys out of a table, and reports those left over
//!    └ mistakes.rs  mistakes by line
//!   log.rs       the log, in the file and what replaces it
//!   mounts.rs    the mounts, which no server reads
//!   limits.rs    limits of clients and exports
//!   allow.rs     clients of exports; names of hosts become addresses
//!   picker.rs    picks a value: of the command line, the file, or the default
//!   settings.rs  resolves all of it into one value, with the origin of each part
//!   shown.rs     writes that for people and programs
//! ```
//!
//! The command line wins over the file, the file over defaults. Keys of exports in `[server]` hold
//! for each export without its own.
//!
//! Known weakness: names of hosts are looked up when the file is read, so a host with a new address
//! is let in after the next reload.

pub(crate) mod allow;
pub(crate) mod arguments;
mod cache;
pub(crate) mod file;
pub(crate) mod limits;
pub(crate) mod log;
pub(crate) mod mistakes;
pub(crate) mod mounts;
pub(crate) mod picker;
pub(crate) mod settings;
pub(crate) mod shown;
mod table;
mod writing;

/// The file of the system's server.
pub(crate) const SYSTEM_FILE: &str = "/etc/pagewell/pagewell.toml";
