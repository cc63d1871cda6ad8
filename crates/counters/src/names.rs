//! The name of every counter of the program, in one place.
//!
//! `docs/METRICS.md` is generated from [`COUNTERS`] and [`GAUGES`].

use crate::{Counter, Gauge};

macro_rules! register {
    ($list:ident, $kind:ident: $($ident:ident = $name:literal, $help:literal;)*) => {
        $(#[doc = $help] pub static $ident: $kind = $kind::new($name, $help);)*
        /// All of the kind, in the order in which they are shown.
        pub static $list: &[&$kind] = &[$(&$ident),*];
    };
}

register! { COUNTERS, Counter:
    COPIED_BYTES = "pagewell_copied_bytes_total",
        "Bytes of file data copied in user space or between kernel and user space.";
    SPLICED_BYTES = "pagewell_spliced_bytes_total",
        "Bytes of file data sent without a copy in user space.";
    DEVICE_READS = "pagewell_device_reads_total", "Read requests made to files and block devices.";
    DEVICE_READ_BYTES = "pagewell_device_read_bytes_total",
        "Bytes read from files and block devices.";
    DEVICE_READ_ERRORS = "pagewell_device_read_errors_total",
        "Reads that a file or block device refused.";
    DEVICE_WOULD_BLOCK = "pagewell_device_would_block_total",
        "Reads given up because they would have waited and the thread may not.";
    ISO_DIRECTORY_HITS = "pagewell_iso_directory_cache_hits_total",
        "Directories of images found parsed.";
    ISO_DIRECTORY_MISSES = "pagewell_iso_directory_cache_misses_total",
        "Directories of images that had to be parsed.";
    ISO_NODE_HITS = "pagewell_iso_node_cache_hits_total",
        "Objects of images found in memory.";
    ISO_NODE_MISSES = "pagewell_iso_node_cache_misses_total",
        "Objects of images that had to be read from their records.";
    ISO_READS_IN_PLACE = "pagewell_iso_reads_in_place_total",
        "Reads of files in images that lie in one piece.";
    ISO_READS_GATHERED = "pagewell_iso_reads_gathered_total",
        "Reads of files in images gathered from several pieces.";
    ISO_READS_PAST_END = "pagewell_iso_reads_past_end_total",
        "Reads of files in images cut short or refused because the image is truncated.";
    ISO_MALFORMED_RECORDS = "pagewell_iso_malformed_records_total",
        "Directory records of images whose lengths contradict each other.";
    ISO_MALFORMED_SYSTEM_USE = "pagewell_iso_malformed_system_use_total",
        "System use entries of images that are damaged or out of bounds.";
    ISO_ENDIAN_MISMATCHES = "pagewell_iso_endian_mismatches_total",
        "Numbers of images whose two byte orders differ.";
    ISO_NAMES_REPEATED = "pagewell_iso_names_repeated_total",
        "Names of images given a number because they were repeated.";
}

register! { GAUGES, Gauge:
    CONNECTIONS = "pagewell_connections", "Client connections open now.";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_well_formed() {
        let mut seen = std::collections::HashSet::new();
        let counters = COUNTERS
            .iter()
            .map(|counter| (counter.name(), counter.help()));
        let gauges = GAUGES.iter().map(|gauge| (gauge.name(), gauge.help()));
        for (name, help) in counters.clone().chain(gauges) {
            assert!(seen.insert(name), "{name} twice");
            assert!(
                name.starts_with("pagewell_") && help.ends_with('.'),
                "{name}"
            );
        }
        assert!(
            counters
                .into_iter()
                .all(|(name, _)| name.ends_with("_total"))
        );
    }
}
