//! Write-back: dirty bytes to the device, and commits, which wait until they are durable.

pub(crate) mod commit;
#[cfg(all(test, not(feature = "loom")))]
mod commit_tests;
pub(crate) mod flush;
pub(crate) mod staging;
pub(crate) mod submit;
#[cfg(all(test, not(feature = "loom")))]
mod submit_tests;

use std::sync::Arc;
use std::time::Duration;

use crate::dirty::set::DirtySet;
use crate::flusher::Flusher;
use crate::io_queue::IoQueue;
use crate::read::reader::Reader;
use crate::residency::own_pages::OwnPages;
use crate::writeback::staging::Staging;

/// Brings what is dirty of one device to it (`submit.rs`), and makes it durable (`flush.rs`,
/// `commit.rs`).
pub(crate) struct WriteOut {
    pub(crate) own: Arc<OwnPages>,
    pub(crate) dirty: Arc<DirtySet>,
    pub(crate) queue: Arc<IoQueue>,
    pub(crate) reader: Arc<Reader>,
    pub(crate) staging: Arc<Staging>,
    pub(crate) flusher: Arc<Flusher>,
    /// What was written stays in memory until a flush was good.
    pub(crate) keeps: bool,
    pub(crate) timeout: Duration,
}
