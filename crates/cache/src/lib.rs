//! The page cache: storage read once, kept in memory mapped once, lent without a copy; and
//! written late, in large pieces and in order.
//!
//! ```text
//!  reader ──> CachedDevice ──> table ──────────────── hit ──> page in the arena
//!                   │            └─ miss ──> fetch ──> queue (elevator) ──> Device
//!                   └─ marker, miss ──> streams (read-ahead) ─┘      │
//!                                                 eviction <── place for a page
//! ```
//!
//! The life of a read: [`CachedDevice::read_at`] looks each page up in the page table, which pins
//! it in the same step; if its bytes are there, they are copied and the pin is taken back. If not,
//! the pages get places ([`pagewell_policy::eviction`] says whose), the units that nobody
//! fetches yet are claimed, and become requests that the elevator orders and merges
//! ([`pagewell_policy::elevator`]); the device puts the bytes straight into the pages. Misses and
//! touches of marked pages are told to the read-ahead policy
//! ([`pagewell_policy::readahead`]), which has more fetched before it is wanted.
//!
//! ```text
//!  writer ──> CachedDevice ──> page ──> dirty (policy) ──> flusher, commits ──> drive
//!                                │ held by readers: a copy takes its name        │
//!                                └───────────── a copy ──> queue ──> Device <────┘
//! ```
//!
//! The life of a write: [`CachedDevice::write_at`] asks the write-back policy
//! ([`pagewell_policy::writeback`]) whether there is room, which may make it pause. Each page gets
//! a place without being read; the writer becomes alone in it, or, where readers hold it, in a
//! copy that takes its name, so that nothing that is lent ever changes; then the bytes are copied
//! and noted as dirty. From now on the page cannot be evicted, and can be read and written again.
//! When there is a reason, memory, age or a commit, the policy hands out runs of dirty bytes; they
//! are copied into memory of their own, blocks that are not whole are filled first, and the
//! elevator sends them. [`CachedDevice::commit`] tags what is dirty, waits for it, and flushes the
//! device together with all who wait. What fails stays dirty; what is lost is told.
//!
//! ```
//! use std::sync::Arc;
//! use pagewell_cache::{Cache, CacheOptions, ReadMode, WriteMode};
//! use pagewell_device::{MemoryDevice, RamDevice};
//!
//! let cache = Cache::new(CacheOptions::new(16 << 20))?;
//! let device = cache.open(Arc::new(MemoryDevice::new("numbers", vec![7; 100_000])));
//! let mut bytes = [0; 8192];
//! device.read_at(65_000, &mut bytes, ReadMode::WAIT)?;
//! assert_eq!(bytes, [7; 8192]);
//!
//! let device = cache.open(Arc::new(RamDevice::new("scratch", 100_000)));
//! device.write_at(1000, b"kept", WriteMode::WAIT)?;
//! device.commit(1000, 4)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod cache;
mod cached_device;
mod dirty;
mod error;
mod flusher;
mod frame;
mod invalidate;
mod io_queue;
mod layout;
mod memory_limit;
mod mode;
mod open_options;
mod options;
#[cfg(all(test, feature = "loom"))]
mod orders;
mod page;
mod read;
mod residency;
mod shared;
mod sync;
mod table;
mod write;
mod writeback;

pub use cache::Cache;
pub use cached_device::CachedDevice;
pub use error::{CreateError, Error, Result, SizeError};
pub use frame::arena::PageSize;
pub use memory_limit::{memory_available_bytes, memory_bytes};
pub use mode::{ReadMode, WriteMode};
pub use open_options::{DeviceReadAhead, OpenOptions, ReadAheadWindows};
pub use options::{CacheOptions, MappingMode, ReadAheadRule, WriteRule};
pub use pagewell_policy::readahead::Bounds;
pub use read::pinned::{LentPage, PinnedPage};

/// Bytes of a page: the unit of lookup and eviction. Large, so that there are few of them; what
/// is fetched of one can be less.
pub const PAGE_BYTES: usize = 64 << 10;
/// Smallest cache.
pub const BYTES_MIN: u64 = 4 << 20;
