//! What may differ from store to store behind a cache.
//!
//! A server answers late, many requests at a time, so more has to be on its way; and it may come
//! back after an hour, so callers may want to wait for ever.

use std::time::Duration;

use pagewell_device::Geometry;
use pagewell_policy::elevator::{Class, Depth, Order, Settings};
use pagewell_policy::readahead::{Adaptive, Settings as ReadAheadSettings};

use crate::PAGE_BYTES;
use crate::options::{CacheOptions, ReadAheadRule};
use crate::residency::pages::{SEEN_BYTES, SEEN_FROM_BYTES_MAX};

/// Streams of one server: many files are read at a time.
const REMOTE_STREAMS_MAX: usize = 64;
/// Of each stream at first: 40 ms at 100 MB/s, and some requests of 1 MiB; and where growth ends:
/// 50 ms at 1.3 GB/s.
const REMOTE_DISTANCE_BYTES: (u64, u64) = (4 << 20, 64 << 20);

const BLOCK_BYTES_MAX: u64 = 1 << 30;
/// A server has no head: all but what is kept for readers that wait.
const REMOTE_READ_AHEAD_DEPTH: Depth = Depth {
    minimum: 4,
    maximum: 48,
};
const REMOTE_READ_DEPTH: Depth = Depth {
    minimum: 16,
    maximum: 64,
};

/// Settings of one store behind a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenOptions {
    /// Which rule guesses what will be read.
    pub read_ahead: ReadAheadRule,
    /// Reads that had to wait this long for the device fail; [`Duration::MAX`]: never.
    pub read_timeout: Duration,
    /// The same for writes and commits; [`Duration::MAX`]: never.
    pub write_timeout: Duration,
    /// As [`CacheOptions::dirty_bytes_max`], with what has to stay until a flush.
    pub dirty_bytes_max: Option<u64>,
    /// As [`CacheOptions::dirty_time_max`].
    pub dirty_time_max: Duration,
    /// Write before memory is needed; off where a commit takes bytes from memory. See
    /// [`pagewell_policy::writeback::Settings`].
    pub writes_early: bool,
    /// As [`CacheOptions::unit_bytes`], where requests are dear, or a neighbour may be unreadable;
    /// `None`: the cache's.
    pub unit_bytes: Option<u64>,
    /// The least time of an answer, where it is known; `None`: reads show it.
    pub latency: Option<Duration>,
}

impl OpenOptions {
    /// The settings of [`crate::Cache::open`] in a cache with these options.
    #[must_use]
    pub fn new(options: &CacheOptions) -> Self {
        Self {
            read_ahead: options.read_ahead,
            read_timeout: options.read_timeout,
            write_timeout: options.write_timeout,
            dirty_bytes_max: options.dirty_bytes_max,
            dirty_time_max: options.dirty_time_max,
            writes_early: true,
            unit_bytes: None,
            latency: None,
        }
    }

    /// With this store's lengths, where larger.
    pub(crate) fn over(&self, options: &CacheOptions) -> CacheOptions {
        let request_bytes = match self.read_ahead {
            ReadAheadRule::Server { request_bytes } => request_bytes,
            ReadAheadRule::Adaptive | ReadAheadRule::Blocks { .. } | ReadAheadRule::Off => 0,
        };
        CacheOptions {
            request_bytes_max: options.request_bytes_max.max(request_bytes),
            unit_bytes: self.unit_bytes.unwrap_or(options.unit_bytes),
            ..*options
        }
    }

    pub(crate) fn streams(
        &self,
        length_bytes: Option<u64>,
        unit_bytes: u64,
        geometry: &Geometry,
    ) -> Adaptive {
        let length = length_bytes.unwrap_or(SEEN_FROM_BYTES_MAX);
        let flash = ReadAheadSettings::flash(length);
        let remote =
            |(distance_bytes_min, distance_bytes_max), block_bytes: u64| ReadAheadSettings {
                streams_max: REMOTE_STREAMS_MAX,
                distance_bytes_min,
                distance_bytes_max,
                batch_bytes_min: block_bytes.max(PAGE_BYTES as u64),
                block_bytes: Some(block_bytes),
                ..flash
            };
        let settings = match self.read_ahead {
            ReadAheadRule::Adaptive if geometry.rotational => ReadAheadSettings::rotating(length),
            ReadAheadRule::Adaptive => flash,
            ReadAheadRule::Server { request_bytes } => ReadAheadSettings {
                brings_along: true,
                ..remote(REMOTE_DISTANCE_BYTES, request_bytes)
            },
            ReadAheadRule::Off | ReadAheadRule::Blocks { count: 0, .. } => ReadAheadSettings::off(),
            ReadAheadRule::Blocks { block_bytes, count } => {
                let block = block_bytes.clamp(1, BLOCK_BYTES_MAX);
                let block = block.next_multiple_of(PAGE_BYTES as u64);
                let distance = block.saturating_mul(u64::from(count));
                remote((distance, distance), block)
            }
        };
        Adaptive::new(ReadAheadSettings {
            page_bytes: PAGE_BYTES as u64,
            unit_bytes,
            // Reads of an object's first byte begin streams.
            file_alignment_bytes: length_bytes.is_none().then_some(SEEN_BYTES),
            ..settings
        })
    }

    pub(crate) fn elevator(
        &self,
        options: &CacheOptions,
        geometry: &Geometry,
        request_bytes_max: u64,
    ) -> Settings {
        if !options.elevator && !options.merge {
            return Settings::plain();
        }
        let mut settings = if geometry.rotational {
            Settings::rotating(request_bytes_max)
        } else {
            Settings::flash(request_bytes_max)
        };
        let is_local = matches!(
            self.read_ahead,
            ReadAheadRule::Adaptive | ReadAheadRule::Off
        );
        if !is_local {
            settings.depths[Class::SynchronousRead as usize] = REMOTE_READ_DEPTH;
            settings.depths[Class::AsynchronousRead as usize] = REMOTE_READ_AHEAD_DEPTH;
        }
        settings.merge = options.merge;
        settings.read_deadline = options.read_deadline;
        if !options.elevator {
            settings.order = Order::Arrival;
            settings.read_deadline = None;
            settings.write_deadline = None;
        }
        settings.depth_max = settings.depth_max.min(geometry.queue_depth.max(1));
        settings
    }
}
