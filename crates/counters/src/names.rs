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
    RAM_PAGES_COPIED = "pagewell_ram_pages_copied_total",
        "Pages of RAM files copied at a write because a reader still held them.";
    RAM_REFUSED = "pagewell_ram_refused_total",
        "Changes of a RAM file system refused or cut short because it was full.";
}

register! { GAUGES, Gauge:
    CONNECTIONS = "pagewell_connections", "Client connections open now.";
    RAM_BYTES = "pagewell_ram_bytes", "Bytes charged to RAM file systems now.";
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
