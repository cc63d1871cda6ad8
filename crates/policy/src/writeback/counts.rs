//! What write-back did.

/// How often each branch was taken since the beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Writers let through at once.
    pub granted: u64,
    /// Writers told to pause.
    pub paused: u64,
    /// Nanoseconds of those pauses.
    pub paused_nanoseconds: u64,
    /// Pauses that would have been longer than the longest one allowed.
    pub pauses_capped: u64,
    /// Writers that may not wait, and would have had to pause.
    pub would_pause: u64,
    /// Writers refused because dirty memory was at its hard limit.
    pub refused: u64,
    /// Writers refused because the device became slow, and their share is used up.
    pub refused_late: u64,
    /// Writers that met a block under write-out, under the rules of the report.
    pub busy: u64,
    /// Calls that made bytes dirty.
    pub wrote: u64,
    /// Bytes that they brought.
    pub wrote_bytes: u64,
    /// Of them, bytes that were dirty already: writes to the device that were saved.
    pub rewritten_bytes: u64,
    /// Of them, bytes that were under write-out, and are dirty again.
    pub redirtied_bytes: u64,
    /// Blocks whose scattered dirty bytes were made one range.
    pub joined: u64,
    /// Writes handed out.
    pub writes: u64,
    /// Bytes in them.
    pub write_bytes: u64,
    /// Writes handed out for a tag.
    pub tagged_writes: u64,
    /// Writes handed out because bytes were dirty for too long.
    pub expired_writes: u64,
    /// Writes handed out again some time after they had failed.
    pub retry_writes: u64,
    /// Writes handed out behind a sequential writer.
    pub behind_writes: u64,
    /// Writes handed out because dirty memory was above its background limit.
    pub background_writes: u64,
    /// Writes handed out because a block was filled, under the rules of the report.
    pub block_writes: u64,
    /// Times that another file got its turn.
    pub turns: u64,
    /// Of them, because the file before had used up its chunk.
    pub chunks_used_up: u64,
    /// Times that tagged bytes let others go first, so that commits starve nobody.
    pub tags_yielded: u64,
    /// Times that writing stopped because enough was under write-out.
    pub flight_stops: u64,
    /// Writes that succeeded.
    pub written: u64,
    /// Bytes in them.
    pub written_bytes: u64,
    /// Writes that failed.
    pub failed: u64,
    /// Pages whose wait after a failure was over.
    pub retried_pages: u64,
    /// Ends of writes that were not known, or whose file was forgotten.
    pub finished_unknown: u64,
    /// Tags set.
    pub tags: u64,
    /// Tags that found nothing to write.
    pub tags_empty: u64,
    /// Tags that ended with everything written.
    pub tags_written: u64,
    /// Tags that ended with a failure.
    pub tags_failed: u64,
    /// Bytes that were dirty or under write-out when their file was forgotten.
    pub forgotten_bytes: u64,
    /// Bytes that were dirty or under write-out when they were discarded.
    pub discarded_bytes: u64,
    /// Bytes that were written and dirty again, as a flush failed.
    pub replayed_bytes: u64,
    /// Writes whose bytes are dirty again though they did not fail: not sent, as bytes of them had
    /// been discarded, or sent while a flush failed.
    pub put_back: u64,
    /// Write streams begun.
    pub streams: u64,
    /// Writes that went on with a stream.
    pub sequential: u64,
    /// Pages that a stream left for later because they had been dirty or written shortly before.
    pub behind_spared_pages: u64,
    /// Pages that a stream had passed before they were full.
    pub behind_skipped_pages: u64,
    /// Pages that were looked at to find what lies behind a sequential writer.
    pub behind_looked_pages: u64,
    /// Times that the memory of recent writes overflowed, so that write-behind rested.
    pub recent_overflows: u64,
    /// Measurements of the bandwidth.
    pub bandwidth_steps: u64,
    /// Measurements thrown away because the device had too little to do.
    pub bandwidth_steps_idle: u64,
    /// Times that the hard limit rose.
    pub limit_rises: u64,
    /// Times that it fell.
    pub limit_falls: u64,
}
