//! Bytes that are known by their place, fetches that are waited for, and what the tests of buckets
//! and of web servers share.

use std::ops::Range;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use pagewell_base::mix::Random;
use pagewell_object_client::{Error, ListPage, ListQuery, Remote, Result, Sink, Version};

use crate::place::Place;

/// Nothing of this takes long; more means that it hangs.
pub(crate) const HANGS: Duration = Duration::from_secs(300);

/// The bytes of a version of an object.
pub(crate) fn bytes(version: u64, length: usize) -> Vec<u8> {
    let mut random = Random(version);
    let mut bytes: Vec<u8> = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        bytes.extend_from_slice(&random.number().to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

struct Collect {
    bytes: Vec<u8>,
    done: Sender<(Vec<u8>, Result<()>)>,
}

impl Sink for Collect {
    fn put(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    fn end(self: Box<Self>, result: Result<()>) {
        let _ = self.done.send((self.bytes, result));
    }
}

/// A fetch that goes on.
pub(crate) struct Fetch(Receiver<(Vec<u8>, Result<()>)>);

impl Fetch {
    pub(crate) fn begin(
        remote: &dyn Remote,
        key: &str,
        version: &Version,
        range: Range<u64>,
    ) -> Self {
        let (done, receiver) = channel();
        let bytes = Vec::new();
        remote.fetch(key, version, range, Box::new(Collect { bytes, done }));
        Self(receiver)
    }

    /// All that came, and how it ended.
    pub(crate) fn end(self) -> (Vec<u8>, Result<()>) {
        self.0.recv_timeout(HANGS).expect("a fetch that ends")
    }
}

/// Fetches a range, and waits for it.
pub(crate) fn fetch(
    remote: &dyn Remote,
    key: &str,
    version: &Version,
    range: Range<u64>,
) -> Result<Vec<u8>> {
    let (bytes, result) = Fetch::begin(remote, key, version, range).end();
    result.map(|()| bytes)
}

/// The whole of an object as it is now.
pub(crate) fn read(remote: &dyn Remote, key: &str) -> Result<Vec<u8>> {
    let version = remote.head(key)?.version;
    fetch(remote, key, &version, 0..version.length_bytes)
}

/// Ranges at the edges and at random; not the first byte alone, for which busybox sends all.
pub(crate) fn ranges(length: u64) -> Vec<Range<u64>> {
    let mut ranges = vec![
        0..length,
        0..2,
        length - 1..length,
        65_535..65_537,
        1..length - 1,
    ];
    let mut random = Random(7);
    for _ in 0..16 {
        let first = random.below(length);
        ranges.push(first..first + 1 + random.below(length - first));
    }
    ranges
}

/// Fetches all ranges at once; of a server that ignores ranges, only the whole is read.
pub(crate) fn read_ranges(place: &Place, key: &str, expected: &[u8]) -> &'static str {
    let remote = place.remote.as_ref();
    let version = remote.head(key).unwrap().version;
    assert_eq!(version.length_bytes, expected.len() as u64);
    let ranges = ranges(version.length_bytes);
    let begin = |range: &Range<u64>| Fetch::begin(remote, key, &version, range.clone());
    let fetches: Vec<Fetch> = ranges.iter().map(begin).collect();
    let mut refused = 0;
    for (range, fetch) in ranges.iter().zip(fetches) {
        let (bytes, result) = fetch.end();
        let part = &expected[range.start as usize..range.end as usize];
        match result {
            Ok(()) => assert!(bytes == part, "{range:?} has other bytes"),
            Err(Error::Unsupported(_)) if bytes.is_empty() && part.len() < expected.len() => {
                refused += 1;
            }
            Err(error) => panic!("{range:?}: {error}"),
        }
    }
    match refused {
        0 => "ok",
        count if count + 1 == ranges.len() => "whole only",
        count => panic!("{count} of {} ranges were refused", ranges.len()),
    }
}

/// A page of a directory, or of all below it.
pub(crate) fn list(
    remote: &dyn Remote,
    prefix: &str,
    delimiter: bool,
    token: Option<String>,
    page_entries_max: u32,
) -> Result<ListPage> {
    remote.list(&ListQuery {
        prefix,
        delimiter,
        token,
        page_entries_max,
    })
}

/// All pages of a directory as one.
pub(crate) fn list_all(remote: &dyn Remote, prefix: &str, entries_max: u32) -> Result<ListPage> {
    let mut all = ListPage::default();
    // More pages than there can be entries mean that it does not end.
    for _ in 0..10_000 {
        let page = list(remote, prefix, true, all.next.take(), entries_max)?;
        all.objects.extend(page.objects);
        all.prefixes.extend(page.prefixes);
        all.next = page.next;
        if all.next.is_none() {
            all.prefixes.sort();
            all.prefixes.dedup();
            all.objects.sort_by(|one, other| one.key.cmp(&other.key));
            return Ok(all);
        }
    }
    panic!("the list of {prefix} does not end");
}

pub(crate) const DIRECTORIES: usize = 20;
pub(crate) const FILES: usize = 100;

/// A file of the tree that is walked, and its length.
pub(crate) fn file(directory: usize, number: usize) -> (String, usize) {
    let name = format!("walk/d{directory:02}/f{number:03}");
    (name, directory * 100 + number)
}

/// Lists the top, the tree and its directories, as `ls -lR` does; the number of requests.
pub(crate) fn walk(place: &Place) -> Result<u64> {
    place.proxy.reset_counts();
    let remote = place.remote.as_ref();
    let top = list_all(remote, "", 1000)?;
    assert!(
        top.prefixes.contains(&"walk/".to_owned()),
        "{:?}",
        top.prefixes
    );
    let tree = list_all(remote, "walk/", 1000)?;
    let expected: Vec<String> = (0..DIRECTORIES)
        .map(|at| format!("walk/d{at:02}/"))
        .collect();
    assert_eq!(tree.prefixes, expected);
    assert!(tree.objects.is_empty(), "{:?}", tree.objects);
    for (directory, prefix) in expected.iter().enumerate() {
        let page = list_all(remote, prefix, 1000)?;
        let objects = page.objects.iter();
        let found: Vec<_> = objects
            .map(|object| (object.key.clone(), object.version.length_bytes as usize))
            .collect();
        let expected: Vec<_> = (0..FILES).map(|number| file(directory, number)).collect();
        assert_eq!(found, expected);
    }
    Ok(place.proxy.counts().all().requests)
}

/// The name of an error, for a cell.
pub(crate) fn name_of(error: &Error) -> &'static str {
    match error {
        Error::NotFound => "not found",
        Error::Denied(_) => "denied",
        Error::Changed => "changed",
        Error::Exists => "exists",
        Error::Unreachable(_) => "unreachable",
        Error::TryLater(_) => "try later",
        Error::Protocol(_) => "protocol",
        Error::Invalid(_) => "refused",
        Error::Unsupported(_) => "unsupported",
    }
}
