//! Memory that is taken and given back, in the form of `netstat -m`: a line each, memory in use
//! first. After a run as much must be in use as before, but for pages in the cache.

use pagewell_counters::names;

use pagewell_base::size;
use pagewell_monitor::metrics::Snapshot;

pub(super) fn render(snapshot: &Snapshot) -> String {
    let gauge = |gauge| u64::try_from(snapshot.gauge(gauge)).unwrap_or(0);
    let counter = |counter| snapshot.counter(counter);
    let (used, pages) = (gauge(&names::CACHE_PAGES), gauge(&names::CACHE_ARENA_PAGES));
    format!(
        "\nBuffers:\n{used}/{}/{pages} cache pages in use/free/total, {} each; {} waits\n\
         {}/{}/{} cache pages pinned now/pinned/copied instead\n\
         {}/{} staging memory in use/staged\n\
         {}/{} request memory in use/requests that waited for it\n",
        pages.saturating_sub(used),
        size::display(gauge(&names::CACHE_ARENA_BYTES) / pages.max(1)),
        counter(&names::CACHE_MEMORY_WAITS),
        snapshot.pinned_pages,
        counter(&names::CACHE_PINNED_PAGES),
        counter(&names::CACHE_PINS_REFUSED),
        size::display(gauge(&names::CACHE_STAGING_BYTES)),
        size::display(counter(&names::CACHE_STAGED_BYTES)),
        size::display(gauge(&names::REQUEST_MEMORY_BYTES)),
        counter(&names::REQUEST_MEMORY_REFUSED),
    )
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
0 B/0 request memory in use/requests that waited for it
";
        assert_eq!(render(&snapshot), expected);
    }
}
