//! The page cache: storage read once, kept in memory mapped once, lent without a copy.
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
//! ```
//! use std::sync::Arc;
//! use pagewell_cache::{Cache, CacheOptions, ReadMode};
//! use pagewell_device::MemoryDevice;
//!
//! let cache = Cache::new(CacheOptions::new(16 << 20))?;
//! let device = cache.open(Arc::new(MemoryDevice::new("numbers", vec![7; 100_000])));
//! let mut bytes = [0; 8192];
//! device.read_at(65_000, &mut bytes, ReadMode::WAIT)?;
//! assert_eq!(bytes, [7; 8192]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod ahead;
mod arena;
mod cache;
mod cached;
mod core;
mod error;
mod fetch;
mod flight;
mod free_list;
mod object;
mod options;
mod queue;
mod run;
mod state;
mod sync;
mod table;
#[cfg(test)]
mod table_tests;
mod window;

pub use arena::PageSize;
pub use cache::Cache;
pub use cached::{CachedDevice, LentPage, PinnedPage, ReadMode};
pub use error::{CreateError, Error, Result, SizeError};
pub use options::{CacheOptions, MappingMode, ReadAheadRule};

/// Bytes of a page: the unit of lookup and eviction. Large, so that there are few of them; what
/// is fetched of one can be less.
pub const PAGE_BYTES: usize = 64 << 10;
/// Smallest cache.
pub const BYTES_MIN: u64 = 4 << 20;
