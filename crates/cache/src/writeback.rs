//! Write-back: dirty bytes to the device, and commits, which wait until they are durable.

pub(crate) mod commit;
#[cfg(all(test, not(feature = "loom")))]
mod commit_tests;
pub(crate) mod flush;
pub(crate) mod submit;
#[cfg(all(test, not(feature = "loom")))]
mod submit_tests;

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use crate::dirty::set::DirtySet;
use crate::io_queue::IoQueue;
use crate::read::reader::Reader;
use crate::residency::pins::OwnPages;
use crate::writeback::submit::Staging;

/// Changes what memory has of one object, by writes and purges (`write.rs`), brings what is dirty
/// to it (`submit.rs`), and makes it durable (`flush.rs`, `commit.rs`).
pub(crate) struct Writer {
    pub(crate) own: Arc<OwnPages>,
    pub(crate) dirty: Arc<DirtySet>,
    pub(crate) queue: Arc<IoQueue>,
    pub(crate) reader: Arc<Reader>,
    pub(crate) staging: Arc<Staging>,
    /// What was written stays in memory until a flush was good.
    pub(crate) keeps: bool,
    pub(crate) timeout: Duration,
}

/// The writer as callers have it: when the last of them has gone, nobody can write any more.
pub(crate) struct Users(pub(crate) Arc<Writer>);

impl Deref for Users {
    type Target = Arc<Writer>;
    fn deref(&self) -> &Arc<Writer> {
        &self.0
    }
}

impl Drop for Users {
    fn drop(&mut self) {
        self.close();
    }
}
