//! Replies that break off, lie, or do not come: right bytes or an error, from all servers.

use pagewell_object_client::Error;

use crate::bucket::put;
use crate::place::{Place, cell};
use crate::support::{Fetch, bytes, fetch, name_of};
use crate::web::replace;

/// What happens to one GET, and in a second round to all.
const FAULTS: [&str; 12] = [
    "reset=100000",
    "close=100000",
    "short=1000",
    "content-range=-10",
    "no-etag",
    "weak-etag",
    "gzip",
    "lost-reply",
    "status=500",
    "status=503,retry-after=1",
    "status=429",
    "applied=502",
];

/// Reads a range that all faults touch, all of it where ranges are ignored, and checks what came;
/// how it ended.
fn read_range(place: &Place, key: &str, content: &[u8], fault: &str) -> Result<(), Error> {
    place.set_script("");
    let remote = place.remote.as_ref();
    let version = remote.head(key).unwrap().version;
    let mut range = 1_000..901_000;
    if fetch(remote, key, &version, 1..3).is_err() {
        range = 0..version.length_bytes;
    }
    place.set_script(fault);
    let (bytes, result) = Fetch::begin(remote, key, &version, range.clone()).end();
    let part = &content[range.start as usize..range.end as usize];
    assert!(part.starts_with(&bytes), "{fault}: other bytes");
    assert!(
        result.is_err() || bytes.len() == part.len(),
        "{fault}: not all"
    );
    result
}

/// Faults that end in an error although they came but once.
fn once(place: &Place, key: &str, content: &[u8]) -> String {
    let failed = FAULTS.iter().filter_map(|fault| {
        let result = read_range(place, key, content, &format!("get only=1 {fault}"));
        let name = fault.split('=').next().unwrap_or_default();
        Some(format!("{name} {}", name_of(&result.err()?)))
    });
    let failed: Vec<String> = failed.collect();
    if failed.is_empty() {
        return "ok".to_owned();
    }
    format!("ok, but: {}", failed.join(", "))
}

/// Faults that each reply has.
fn always(place: &Place, key: &str, content: &[u8]) {
    for fault in FAULTS {
        let result = read_range(place, key, content, &format!("get {fault}"));
        // What has no tag and no range has none that could be wrong.
        let is_bare = place.remote.head(key).unwrap().version.is_weak();
        let is_cut = ["reset=100000", "close=100000"].contains(&fault);
        assert!(is_bare || result.is_ok() == is_cut, "{fault}: {result:?}");
    }
}

#[test]
#[ignore = "needs a server: tests/objects/run.sh"]
fn s3_faults() {
    let content = bytes(1, 1 << 20);
    let place = Place::bucket("");
    put(&place, "faults/one", &content);
    let seen = once(&place, "faults/one", &content);
    cell("a reply breaks", &seen);
    always(&Place::impatient_bucket(""), "faults/one", &content);
}

#[test]
#[ignore = "needs a server: tests/objects/run.sh"]
fn web_faults() {
    let content = bytes(1, 1 << 20);
    replace("faults.bin", &content, 1_000);
    let place = Place::web("");
    let seen = once(&place, "faults.bin", &content);
    cell("a reply breaks", &seen);
    // Of a bucket the signature says that a range was asked for.
    let whole = read_range(&place, "faults.bin", &content, "get only=1 whole");
    let is_refused = matches!(whole, Err(Error::Unsupported(_)));
    assert!(is_refused || place.remote.head("faults.bin").unwrap().version.is_weak());
    always(&Place::impatient_web(""), "faults.bin", &content);
}
