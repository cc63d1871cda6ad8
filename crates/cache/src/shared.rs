//! What all devices of a cache share.

use std::sync::Arc;

use crate::dirty::quota::Quota;
use crate::flusher::Flusher;
use crate::frame::arena::Arena;
use crate::options::CacheOptions;
use crate::read::pinned::PinBudget;
use crate::residency::pages::Pages;
use crate::writeback::staging::Staging;
use crate::{CreateError, PAGE_BYTES};

/// What all devices of a cache share.
pub(crate) struct Shared {
    pub(crate) options: CacheOptions,
    pub(crate) pages: Arc<Pages>,
    pub(crate) quota: Arc<Quota>,
    pub(crate) staging: Arc<Staging>,
    pub(crate) flusher: Arc<Flusher>,
    pub(crate) pins: Arc<PinBudget>,
}

impl Shared {
    pub(crate) fn new(options: CacheOptions) -> Result<Self, CreateError> {
        let frames = options.frames()?;
        let arena = match options.memory_is_file {
            true => Arena::new_in_file(frames)?,
            false => Arena::new(frames, &options)?,
        };
        let reader_keeps = options.free_behind && options.reader_keeps;
        Ok(Self {
            options,
            pages: Arc::new(Pages::new(arena, reader_keeps)?),
            quota: Arc::new(Quota::new(u64::from(frames) * PAGE_BYTES as u64)),
            staging: Arc::default(),
            flusher: Arc::default(),
            pins: Arc::new(PinBudget::new(frames)),
        })
    }
}
