//! Memory that is taken and given back, in the manner of `netstat -m`: one line each, what is in
//! use first. After any run what is in use must be what it was before, but for pages that the
//! cache keeps because it is a cache.

use std::fmt::Write;

use pagewell_counters::names;

use pagewell_base::size;
use pagewell_monitor::metrics::Snapshot;

/// Renders the lines of pools that exist; all of them if `all` are wanted.
pub(super) fn render(snapshot: &Snapshot, all: bool) -> String {
    let gauge = |gauge| u64::try_from(snapshot.gauge(gauge)).unwrap_or(0);
    let counter = |counter| snapshot.counter(counter);
    let mut text = String::new();
    let pages = gauge(&names::CACHE_ARENA_PAGES);
    // Writing to a String cannot fail.
    if pages > 0 || all {
        let used = gauge(&names::CACHE_PAGES);
        let each = size::display(gauge(&names::CACHE_ARENA_BYTES) / pages.max(1));
        let free = pages.saturating_sub(used);
        let waits = counter(&names::CACHE_MEMORY_WAITS);
        let _ = writeln!(
            text,
            "{used}/{free}/{pages} cache pages in use/free/total, {each} each; {waits} waits"
        );
        let (pinned, refused) = (snapshot.pinned_pages, counter(&names::CACHE_PINS_REFUSED));
        let ever = counter(&names::CACHE_PINNED_PAGES);
        let _ = writeln!(
            text,
            "{pinned}/{ever}/{refused} cache pages pinned now/pinned/copied instead"
        );
        let staging = size::display(gauge(&names::CACHE_STAGING_BYTES));
        let staged = size::display(counter(&names::CACHE_STAGED_BYTES));
        let _ = writeln!(text, "{staging}/{staged} staging memory in use/staged");
    }
    let used = gauge(&names::REQUEST_MEMORY_BYTES);
    let refused = counter(&names::REQUEST_MEMORY_REFUSED);
    if used > 0 || refused > 0 || counter(&names::CONNECTIONS_ACCEPTED) > 0 || all {
        let used = size::display(used);
        let _ = writeln!(
            text,
            "{used}/{refused} request memory in use/requests that waited for it"
        );
    }
    if text.is_empty() {
        return text;
    }
    format!("\nBuffers:\n{text}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pools_are_told_in_one_line_each() {
        let mut snapshot = Snapshot::take();
        snapshot.gauges.values_mut().for_each(|value| *value = 0);
        snapshot.counters.values_mut().for_each(|value| *value = 0);
        snapshot.pinned_pages = 0;
        assert_eq!(render(&snapshot, false), "");
        assert_eq!(render(&snapshot, true).lines().count(), 6);
        for (gauge, value) in [
            (&names::CACHE_ARENA_PAGES, 1024),
            (&names::CACHE_ARENA_BYTES, 1024 << 13),
            (&names::CACHE_PAGES, 160),
        ] {
            snapshot.gauges.insert(gauge.name.to_owned(), value);
        }
        snapshot.pinned_pages = 2;
        let pinned = names::CACHE_PINNED_PAGES.name.to_owned();
        snapshot.counters.insert(pinned, 5);
        let expected = "
Buffers:
160/864/1024 cache pages in use/free/total, 8.0 KiB each; 0 waits
2/5/0 cache pages pinned now/pinned/copied instead
0 B/0 B staging memory in use/staged
";
        assert_eq!(render(&snapshot, false), expected);
    }
}
