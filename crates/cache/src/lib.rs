//! The page cache: storage read once, kept in memory mapped once, pinned without a copy, and
//! written late, in large pieces and in order.
//!
//! What is cached are *objects*: a device, a file of a server. An object has a length, which may
//! move, pages, dirty bytes and flushes. It belongs to a *store*, a mount or a device, whose
//! objects share a queue, a quota of dirty memory, bandwidth and latency.
//!
//! ```text
//!  read ──> Reader: hit ──> page table ──────────────> page, pinned ──> copy, or payload
//!              └─ miss ──> claims ───> io_queue (elevator) ──> Object
//!
//!  write ──> Writer ──> page, dirty ──> DirtySet ──> Submitter ────────> io_queue ──> Object
//!               └─ pinned: a copy                       ↑ commit, flusher
//! ```
//!
//! A miss gets frames ([`pagewell_policy::eviction`]), is claimed unless a thread fetches it
//! already, and becomes requests that the elevator orders and merges
//! ([`pagewell_policy::elevator`]). What is written goes to the store for memory, age or a commit
//! ([`pagewell_policy::writeback`]). What fails stays dirty.
//!
//! # Folders
//!
//! Each knows only what is above it.
//!
//! | folder | holds |
//! |---|---|
//! | `frame` | memory for pages, which of it is free |
//! | `table` | the page table, and a guess of where a page is |
//! | `residency` | which page has which frame, pins, what is valid or in flight, what goes |
//! | `dirty` | what is not durable of an object, what a store has of that, its quota, the flusher |
//! | `read` | hit, miss, claim, read-ahead |
//! | `writeback` | submit loop, staging, flush, commit |
//! | `write` | writes into pages, copy-on-write, purges |
//!
//! `page`, `sync` and `io_queue` are below what uses them; `store` and `cache` put the parts
//! together.
//!
//! # Who may touch which byte when
//!
//! A byte of a page is in a unit, mostly of 4 KiB, which is in one of these states:
//!
//! ```text
//!               claim                      the device
//!   not valid ─────────> in flight ─────────────────────> valid
//!     │  ↑ ↑                                               ↑ │
//!     │  │ └──────────────────── purge ────────────────────┼─┘
//!     │  └─ write of a part: only those bytes count, and   │
//!     │     a fetch of the rest leaves them as they are    │
//!     └──────────────── write of the whole unit ───────────┘
//! ```
//!
//! | what | needs | so that |
//! |---|---|---|
//! | read a valid byte | a pin | the page keeps its frame, and a writer sees the pin |
//! | change a valid byte | page lock, `WRITING`, no other pin | no reader sees a change |
//! | the same of a page that others pin | a copy, which takes the name | what is pinned stays |
//! | change another byte | page lock, in-flight lock, no fetch of its unit | none overwrites it |
//! | claim a unit | a pin, in-flight lock, the name still there | one thread fetches it |
//! | make a unit valid | its claim, or in-flight lock | valid bytes are complete |
//! | stage dirty bytes | page lock, a pin | no part of a write is sent alone |
//! | purge a unit | as to change it; where others pin the page, it loses its name | as above |
//! | take a name away | page, insertion, in-flight and dirty lock | it is found before or after |
//! | set or clear `DIRTY` | dirty lock | what is dirty keeps its frame |
//! | free a frame | no pin, not `DIRTY` | nothing is used or lost |
//!
//! `orders.rs` tries these rules in every order, and `table/orders.rs` those of the page table.
//!
//! # Order of locks
//!
//! A thread takes a lock only after all that it has, and no two of one rank; a debug build checks
//! it (`sync.rs`). No device and no completion is called under a lock.
//!
//! ```text
//!   page ──> insertion ──> move ──> in flight ──> dirty ──> leaves
//! ```
//!
//! | lock | of | guards |
//! |---|---|---|
//! | page | a page's name | writers, purges and staging of the page against each other |
//! | insertion | an extent's name | the key is added once |
//! | move | the cache | names that change frames against a look at all frames |
//! | in flight | a frame | its fetches |
//! | dirty | an object | its dirty set |
//! | leaves | | eviction, lists, streams, queue, quota, staging, flusher, active, ends of fetches |
//!
//! # Use
//!
//! ```
//! use std::sync::Arc;
//! use pagewell_cache::{Cache, CacheOptions, ReadMode, WriteMode};
//! use pagewell_device::RamDevice;
//!
//! let cache = Cache::new(CacheOptions::new(16 << 20))?;
//! let device = cache.open(Arc::new(RamDevice::holding("numbers", &[7; 100_000])));
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
mod cached_object;
mod dirty;
mod error;
mod frame;
mod io_queue;
mod memory_limit;
mod mode;
mod open_options;
mod options;
#[cfg(test)]
#[cfg(feature = "loom")] // apart, so that Clippy sees that it is a test
mod orders;
mod page;
mod read;
mod residency;
mod store;
mod sync;
mod table;
mod write;
mod writeback;

pub use cache::Cache;
pub use cached_object::{CachedDevice, CachedObject, DirtyLimit};
pub use error::{CreateError, Error, Result, SizeError};
pub use frame::PageSize;
pub use memory_limit::{memory_available_bytes, memory_bytes};
pub use mode::{ReadMode, WriteMode};
pub use open_options::OpenOptions;
pub use options::{CacheOptions, ReadAheadRule};
pub use page::LENGTH_BYTES_MAX;
pub use pagewell_policy::readahead::Bounds;
pub use residency::pins::{PagePin, PinnedPage};
pub use store::CachedStore;

/// Of a page, the unit of lookup and eviction: large, so that there are few.
pub const PAGE_BYTES: usize = 64 << 10;
/// Smallest cache.
pub const BYTES_MIN: u64 = 4 << 20;
