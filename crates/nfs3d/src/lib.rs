//! MOUNT and NFS version 3 (RFC 1813) as programs, with the duplicate-request cache.

mod audit;
mod convert;
mod creation;
mod data;
mod directory;
pub mod duplicate;
mod handler;
pub mod long_write;
pub mod mount;
mod names;
pub mod nfs3;
mod object;
pub mod observed;
pub mod statistics;
mod volume;
