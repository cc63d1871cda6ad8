//! What a server works by: defaults, the file `pagewell.toml` and the command line.
//!
//! ```text
//!   arguments.rs the command line of serve
//!   file.rs      reads the file: which keys there are, and what each takes
//!    ├ table.rs     takes keys out of a table, and says what is left over
//!    └ mistakes.rs  what is wrong with it, by line
//!   log.rs       what is said of the log, in the file and instead of it
//!   mounts.rs    what is said of mounts, which no server looks at
//!   limits.rs    what clients and exports may have a second
//!   allow.rs     who may use an export; names of hosts become addresses
//!   picker.rs    picks a value: of the command line, of the file, or the default
//!   settings.rs  resolves all of it into one value, and where each part of it comes from
//!   shown.rs     writes that for people and programs
//! ```
//!
//! The command line wins over the file, and the file over the defaults. What `[server]` says of
//! exports holds for each that does not say it by itself.
//!
//! Known weakness: names of hosts are looked up when the file is read, so a host that gets another
//! address is let in after the next reload.

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
