//! The numbers of this process, for Prometheus, for programs and for people.

mod buffers;
#[cfg(test)]
mod document;
mod nfsstat;
pub(crate) mod prometheus;
pub(crate) mod snapshot;
pub(crate) mod table;

pub(crate) use snapshot::Snapshot;
