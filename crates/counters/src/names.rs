//! The name of every counter and gauge, in a list for each part of the program.
//!
//! `docs/METRICS.md` is generated from [`counters`] and [`GAUGES`].

use crate::Counter;

macro_rules! register {
    ($list:ident, $kind:ident: $($ident:ident = $name:literal, $help:literal;)*) => {
        $(#[doc = $help] pub static $ident: $kind = $kind::new($name, $help);)*
        /// All of the kind, in display order.
        pub static $list: &[&$kind] = &[$(&$ident),*];
    };
}

// Behind the macro, which they use.
mod cache;
mod client;
mod devices;
mod file_systems;
mod gauges;
mod mounts;
mod objects;
mod server;
#[cfg(test)]
mod tests;

pub use cache::*;
pub use client::*;
pub use devices::*;
pub use file_systems::*;
pub use gauges::*;
pub use mounts::*;
pub use objects::*;
pub use server::*;

/// All counters, in display order.
pub fn counters() -> impl Iterator<Item = &'static Counter> + Clone {
    let parts = [
        SERVER,
        CACHE,
        DEVICES,
        FILE_SYSTEMS,
        CLIENT,
        OBJECTS,
        MOUNTS,
    ];
    parts.into_iter().flatten().copied()
}
