//! The engine with its mechanisms on, off, and as OpenSolaris had them.

use std::time::Duration;

use pagewell_cache::{CacheOptions, ReadAheadRule};

use super::reading::Pieces;
use crate::experiment::{Mode, SECTOR_BYTES, baseline};

/// The longest transfer of the report's drive.
const REPORT_TRANSFER_BYTES: u64 = 16 << 10;

#[derive(Clone, Copy, Debug)]
pub(super) struct Variant {
    pub(super) mode: Mode,
    pub(super) name: Option<&'static str>,
    pub(super) pieces: Pieces,
    change: fn(&mut CacheOptions),
}

impl Variant {
    /// Everything off.
    pub(super) const BASELINE: Self = Self {
        mode: Mode::Baseline,
        name: None,
        pieces: Pieces::Pages,
        change: |options| *options = baseline(options.size_bytes),
    };
    /// Everything on.
    pub(super) const ENHANCED: Self = Self {
        mode: Mode::Enhanced,
        name: None,
        pieces: Pieces::Whole,
        change: |_| {},
    };
    /// As the report had it.
    pub(super) const REPORT: Self = Self {
        pieces: Pieces::Segments,
        ..Self::without("HSFS rule", |options| {
            // The reader itself reads ahead.
            options.read_ahead = ReadAheadRule::Off;
            options.request_bytes_max = REPORT_TRANSFER_BYTES;
        })
    };
    /// Each mechanism off alone.
    pub(super) const ABLATIONS: [Self; 5] = [
        Self::without("no read-ahead", |options| {
            options.read_ahead = ReadAheadRule::Off;
        }),
        Self::without("no elevator", |options| options.elevator = false),
        Self::without("no merge", |options| options.merge = false),
        Self {
            pieces: Pieces::Pages,
            ..Self::without("no page chunk", |options| options.unit_bytes = SECTOR_BYTES)
        },
        Self::without("no free-behind", |options| options.free_behind = false),
    ];

    const fn without(name: &'static str, change: fn(&mut CacheOptions)) -> Self {
        Self {
            mode: Mode::Enhanced,
            name: Some(name),
            pieces: Pieces::Whole,
            change,
        }
    }

    /// The settings of a cache of this size before a device whose clock runs `speed` times as fast:
    /// deadlines shrink.
    pub(super) fn options(&self, size_bytes: u64, speed: f64) -> CacheOptions {
        let mut options = CacheOptions::new(size_bytes);
        (self.change)(&mut options);
        options.read_deadline = options
            .read_deadline
            .map(|deadline: Duration| deadline.div_f64(speed));
        // A read of 1 MiB in pieces of 2 KiB, each with a seek and fifteen others before it.
        options.read_timeout = Duration::from_secs(600);
        options
    }

    /// Its name in notes.
    pub(super) fn label(&self) -> &'static str {
        self.name.unwrap_or(self.mode.name())
    }
}
