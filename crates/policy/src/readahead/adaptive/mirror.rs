//! The way back from the mirrored space, in which backward streams are forward ones.

use std::ops::Range;

use super::super::Plan;
use super::super::settings::{Settings, down, up};
use super::super::stream::Step;

/// A backward batch is asked for in so many pieces, the last one first.
const BACKWARD_PIECES: u64 = 4;

/// Turns a step of the mirrored space around.
pub(super) fn backward_plan(step: Step, settings: &Settings, mirror: u64) -> Plan {
    let turn =
        |range: Range<u64>| mirror.saturating_sub(range.end)..mirror.saturating_sub(range.start);
    let within = |range: Range<u64>| {
        let end = range.end.min(settings.length_bytes);
        (range.start < end).then_some(range.start..end)
    };
    let mut fetch = Vec::new();
    if let Some(range) = step.fetch {
        let piece = (range.end - range.start) / BACKWARD_PIECES;
        let piece = up(piece.max(1), settings.page_bytes);
        let mut start = range.start;
        while start < range.end {
            let end = range.end.min(down(start + piece, settings.page_bytes));
            fetch.extend(within(turn(start..end)));
            start = end;
        }
    }
    Plan {
        fetch,
        // The page that begins at the marker in the mirror ends there in the file.
        marker: step
            .marker
            .and_then(|marker| mirror.checked_sub(marker)?.checked_sub(1)),
        release: step.release.map(turn).and_then(within),
    }
}
