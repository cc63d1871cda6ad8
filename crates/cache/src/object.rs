//! One device behind the cache: what its reads share.

use std::sync::Arc;
use std::time::Instant;

use pagewell_counters::names::CACHE_AHEAD_WASTED_BYTES;
use pagewell_device::{Device, Error as DeviceError};
use pagewell_policy::eviction::FrameIndex;
use pagewell_policy::readahead::{Feedback, ReadAhead};

use crate::dirty::set::{self, Writes};
use crate::io_queue::Queue;
use crate::open_options::OpenOptions;
use crate::page::{LENGTH_BYTES_MAX, PAGE, Units, key_of};
use crate::residency::pages::{Core, Page};
use crate::sync::{Mutex, Rank};
use crate::table::page_table::SlotIndex;
use crate::{Error, PAGE_BYTES, Result};

/// Smallest piece that is fetched.
pub(crate) const CHUNK_BYTES: u64 = 4096;
/// The same without page chunks: a sector of a disc.
const SECTOR_BYTES: u64 = 2048;
/// What a read of HSFS saw of a file at a time.
const SEGMENT_BYTES: u64 = 8192;
const UNITS_MAX: u64 = 32;
const _: () = assert!(PAGE / SECTOR_BYTES == UNITS_MAX);

/// One device behind the cache.
pub(crate) struct Object {
    pub(crate) core: Arc<Core>,
    pub(crate) settings: OpenOptions,
    /// What was written stays in memory until a flush was good.
    pub(crate) keeps: bool,
    pub(crate) number: u32,
    pub(crate) queue: Arc<Queue>,
    pub(crate) length_bytes: u64,
    /// Bytes of a unit: what one bit of [`Units`] stands for.
    pub(crate) unit_bytes: u64,
    /// Offsets and lengths of requests are multiples of this.
    pub(crate) block_bytes: u64,
    /// Writes are whole pieces of so many bytes: blocks, and what memory has to be aligned to.
    pub(crate) grain_bytes: u64,
    pub(crate) request_bytes_max: u64,
    /// Reads go in small steps, as those of HSFS did.
    pub(crate) stepwise: bool,
    /// Bytes of a step: what a reader has fetched at a time.
    pub(crate) step_bytes: u64,
    /// A second miss in a page fetches the rest of it; so does the first one of a file's first
    /// byte.
    pub(crate) widens: bool,
    pub(crate) rotational: bool,
    pub(crate) streams: Mutex<Box<dyn ReadAhead>>,
    pub(crate) wants_hits: bool,
    /// Most memory of pages with something dirty, if no other device has any.
    pub(crate) dirty_bytes_max: u64,
    pub(crate) origin: Instant,
    pub(crate) writes: Writes,
}

/// A page that somebody holds. Dropping it lets go.
pub(crate) struct Held {
    object: Arc<Object>,
    pub(crate) slot: SlotIndex,
    pub(crate) frame: FrameIndex,
}

impl Held {
    /// Whose page it is.
    pub(crate) fn object(&self) -> &Arc<Object> {
        &self.object
    }

    /// Some bytes of the page.
    ///
    /// # Safety
    /// They must have been fetched.
    pub(crate) unsafe fn bytes(&self, start: usize, length: usize) -> &[u8] {
        assert!(start + length <= PAGE_BYTES);
        let page = self.object.core.arena.address(self.frame);
        // SAFETY: inside the page, which stays where it is while it is held. No fetch writes to
        // bytes that are valid, and a writer needs to be alone in the page: while this hold is
        // there he changes a copy instead (`copy_on_write.rs`).
        unsafe { std::slice::from_raw_parts(page.as_ptr().add(start), length) }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.object.core.table.unpin(self.slot);
    }
}

impl Object {
    pub(crate) fn new(
        core: Arc<Core>,
        device: Arc<dyn Device>,
        settings: OpenOptions,
    ) -> Arc<Self> {
        let geometry = device.geometry();
        let options = core.options;
        let block_bytes = u64::from(geometry.logical_block_bytes.max(1));
        let unit_bytes = if options.page_chunk {
            CHUNK_BYTES
        } else {
            SECTOR_BYTES
        };
        let alignment_bytes = u64::from(geometry.memory_alignment_bytes);
        let unit_bytes = unit_bytes.max(block_bytes).max(alignment_bytes).min(PAGE);
        let length_bytes = device.length_bytes().min(LENGTH_BYTES_MAX);
        let request_bytes_max = if options.merge {
            let device_max = u64::from(geometry.transfer_bytes_max).max(unit_bytes);
            options.request_bytes_max.clamp(unit_bytes, device_max)
        } else {
            unit_bytes
        };
        let streams = settings.streams(length_bytes, unit_bytes, &geometry);
        let elevator = settings.elevator(&options, &geometry, request_bytes_max);
        let dirty_bytes_max = core.dirty_bytes_max(settings.dirty_bytes_max);
        let keeps = device.keeps_until_flush();
        let queue = Queue::new(device, elevator);
        if let Some(latency) = settings.latency {
            queue.note_latency(latency);
        }
        let object = Arc::new(Self {
            number: core.number_object(keeps),
            keeps,
            length_bytes,
            unit_bytes,
            block_bytes,
            grain_bytes: block_bytes.max(alignment_bytes).min(unit_bytes),
            request_bytes_max,
            wants_hits: streams.wants_hits(),
            step_bytes: if options.page_chunk {
                SEGMENT_BYTES
            } else {
                CHUNK_BYTES
            },
            stepwise: streams.wants_hits() || !options.page_chunk,
            rotational: geometry.rotational,
            widens: !geometry.rotational && options.page_chunk && options.merge,
            streams: Mutex::new(Rank::Leaf, streams),
            dirty_bytes_max,
            origin: Instant::now(),
            writes: Writes::new(set::settings(&settings, dirty_bytes_max, request_bytes_max)),
            queue: Arc::new(queue),
            settings,
            core,
        });
        object.core.register(&object);
        object
    }

    /// The name of a page of this object.
    pub(crate) fn key(&self, page: u64) -> u64 {
        key_of(self.number, page)
    }

    /// Takes a pinned page over.
    pub(crate) fn hold(self: &Arc<Self>, page: Page) -> Held {
        Held {
            object: self.clone(),
            slot: page.slot,
            frame: page.frame,
        }
    }

    /// Refuses a range that is not inside.
    pub(crate) fn check(&self, offset: u64, length: usize) -> Result<()> {
        let end = offset.checked_add(length as u64);
        if end.is_some_and(|end| end <= self.length_bytes) {
            return Ok(());
        }
        Err(Error::Device(DeviceError::PastEnd {
            device: self.queue.device().name().to_owned(),
            offset,
            length,
        }))
    }

    /// The units that hold `length` bytes of a page from `start`.
    pub(crate) fn units(&self, start: u64, length: u64) -> Units {
        let first = start / self.unit_bytes;
        let end = (start + length).div_ceil(self.unit_bytes);
        mask(end) & !mask(first)
    }

    /// All units of a page, fewer in the last one.
    pub(crate) fn all_units(&self, page: u64) -> Units {
        let rest = self.length_bytes.saturating_sub(page * PAGE).min(PAGE);
        mask(rest.div_ceil(self.unit_bytes))
    }

    /// Whether a file may begin at `offset`.
    pub(crate) fn begins_file_at(&self, offset: u64) -> bool {
        let alignment = self.settings.file_alignment_bytes;
        alignment.is_some_and(|alignment| offset.is_multiple_of(alignment))
    }

    /// A page was evicted before anybody read what read-ahead had fetched.
    pub(crate) fn wasted(&self, page: u64) {
        CACHE_AHEAD_WASTED_BYTES.add(PAGE);
        self.streams.lock().feedback(Feedback::Wasted {
            offset: page * PAGE,
            length: PAGE,
        });
    }
}

impl Drop for Object {
    fn drop(&mut self) {
        // A page with the flag would not go.
        let dirty = self.writes.lock();
        if dirty.stuck {
            self.core.clean_all(self.number);
        }
        drop(dirty);
        self.core.shares.remove(self.number);
        self.core.forget(self.number);
    }
}

/// The lowest `count` units.
fn mask(count: u64) -> Units {
    match u32::try_from(count) {
        Ok(count) if count < Units::BITS => (1 << count) - 1,
        _ => Units::MAX,
    }
}
