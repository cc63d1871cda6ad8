//! Random histories of servers that fail, lie and change: what was fetched belongs to one version,
//! and what was written is there, or was refused and has changed nothing.
//!
//! `PAGEWELL_OBJECT_HISTORIES=N` has N tried; a failure names its seed.

use std::sync::Arc;

use bytes::Bytes;
use pagewell_base::mix::Random;
use pagewell_base::sync::Mutex;

use crate::error::Error;
use crate::fetch::{End, fetch};
use crate::s3::Bucket;
use crate::s3::tests::{bucket_of, options};
use crate::store::{Store as _, WholeObjects as _};
use crate::testing::{Collector, Script, Seen, Step, begin, reply};
use crate::version::Version;
use crate::writable::{Condition, Metadata};

const LENGTH: u64 = 100_000;

fn histories() -> u64 {
    let wanted = std::env::var("PAGEWELL_OBJECT_HISTORIES").ok();
    wanted
        .and_then(|number| number.parse().ok())
        .unwrap_or(1_000)
}

/// The bytes of a version: no two have a byte in common at the same place.
fn content(version: u64) -> Vec<u8> {
    (0..LENGTH)
        .map(|at| ((at.wrapping_mul(7) + version * 17) % 256) as u8)
        .collect()
}

fn tag(version: u64) -> String {
    format!("\"v{version}\"")
}

/// What is wrong with an answer that is right else.
fn spoiled(random: &mut Random, range: (usize, usize), version: u64) -> Step {
    let (first, end) = range;
    let all = content(version);
    let own = |first: usize, end: usize| format!("bytes {first}-{}/{LENGTH}", end - 1);
    let etag = tag(version);
    let right = own(first, end);
    let body = &all[first..end];
    let of = |headers: &[(&str, &str)], body: &[u8]| reply(206, headers, body);
    let headers = [("ETag", etag.as_str()), ("Content-Range", right.as_str())];
    let whole = of(&headers, body);
    let cut = random.below(body.len() as u64) as usize;
    match random.below(16) {
        0 => Step::Cut(begin(&whole, cut)),
        1 => Step::Stall(begin(&whole, cut)),
        2 => Step::Cut(Vec::new()),
        3 => Step::Stall(Vec::new()),
        4 => Step::Send(reply(503, &[("Retry-After", "2")], b"")),
        5 => Step::Send(reply(500, &[], b"<html>")),
        // A short body with a length that matches it.
        6 => Step::Send(of(&headers, &body[..cut])),
        // Bytes of another place, which the server says or not quite.
        7 => {
            let other = own(0, end - first);
            let headers = [headers[0], ("Content-Range", other.as_str())];
            Step::Send(of(&headers, &all[..end - first]))
        }
        8 => Step::Send(of(&headers[1..], body)),
        9 => Step::Send(of(&headers[..1], body)),
        10 => {
            let headers = [headers[0], headers[1], ("Content-Encoding", "gzip")];
            Step::Send(of(&headers, b"\x1f\x8b compressed"))
        }
        11 => Step::Send(reply(200, &headers[..1], &all)),
        12 => Step::Send(reply(307, &[("Location", "/bucket/k?again")], b"")),
        13 => Step::Send(reply(416, &[], b"")),
        14 => {
            let grown = format!("bytes {first}-{}/{}", end - 1, LENGTH + 1);
            let headers = [headers[0], ("Content-Range", grown.as_str())];
            Step::Send(of(&headers, body))
        }
        _ => Step::Cut(whole),
    }
}

/// A server whose object changes now and then, and which looks at conditions or not.
fn changing(seed: u64) -> Arc<Script> {
    let mut random = Random(seed);
    let mut version = 0;
    let (fails, changes) = (random.below(90), random.below(20));
    let is_strict = random.below(2) == 0;
    Script::of(move |seen: &[Seen]| {
        let request = seen.last().expect("a request");
        let range = request.header("range").and_then(|range| {
            let (first, last) = range.strip_prefix("bytes=")?.split_once('-')?;
            Some((first.parse().ok()?, last.parse::<usize>().ok()? + 1))
        });
        let range = range.expect("a range");
        if random.below(100) < changes {
            version += 1;
        }
        if is_strict && request.header("if-match") != Some(&tag(version)) {
            return Step::Send(reply(412, &[], b""));
        }
        if random.below(100) < fails {
            return spoiled(&mut random, range, version);
        }
        let right = format!("bytes {}-{}/{LENGTH}", range.0, range.1 - 1);
        let etag = tag(version);
        let headers = [("ETag", etag.as_str()), ("Content-Range", right.as_str())];
        Step::Send(reply(206, &headers, &content(version)[range.0..range.1]))
    })
}

#[tokio::test(start_paused = true)]
async fn bytes_are_those_of_one_version() {
    let (mut whole, mut changed) = (0, 0);
    for seed in 1..=histories() {
        let bucket = bucket_of(&changing(seed), &options());
        let mut random = Random(seed ^ 0x55);
        let first = random.below(LENGTH);
        let end = first + 1 + random.below(LENGTH - first);
        let version = Version {
            etag: Some(tag(0)),
            last_modified: None,
            length_bytes: LENGTH,
        };
        let sink = Collector::default();
        let call = bucket.get("k").expect("a call");
        let to = End::new(Box::new(sink.clone()));
        fetch(Arc::clone(&bucket), call, version, first..end, to).await;
        let collected = sink.collected();
        let expected = &content(0)[first as usize..end as usize];
        assert!(
            expected.starts_with(&collected.bytes),
            "seed {seed}: other bytes"
        );
        match collected.end.expect("an end") {
            Ok(()) => {
                assert!(
                    collected.bytes == expected,
                    "seed {seed}: bytes are missing"
                );
                whole += 1;
            }
            Err(Error::Changed) => changed += 1,
            Err(_) => {}
        }
    }
    // Histories without any of these would prove nothing.
    assert!(
        whole > histories() / 8 && changed > histories() / 16,
        "{whole} {changed}"
    );
}

/// An object of a store: its content is the name of the write that made it.
#[derive(Default)]
struct Stored {
    object: Option<(Vec<u8>, String, String)>,
    /// Writes that were done, in order.
    made: Vec<Vec<u8>>,
}

impl Stored {
    /// Does a PUT as a store that honours conditions does, and returns the answer.
    fn put(&mut self, request: &Seen) -> Vec<u8> {
        let now = self.object.as_ref().map(|(_, etag, _)| etag.as_str());
        let is_met = match (request.header("if-match"), request.header("if-none-match")) {
            (None, None) => true,
            (Some(etag), _) => now == Some(etag),
            (None, Some(_)) => now.is_none(),
        };
        if !is_met {
            let status = if now.is_none() { 404 } else { 412 };
            return reply(status, &[], b"");
        }
        let count = self.made.len();
        let etag = format!("\"write-{count}\"");
        let token = request.header("x-amz-meta-pagewell-write");
        let token = token.expect("a token").to_owned();
        self.made.push(request.body.clone());
        self.object = Some((request.body.clone(), etag.clone(), token));
        reply(200, &[("ETag", &etag)], b"")
    }

    fn answer(&mut self, request: &Seen) -> Vec<u8> {
        match (request.method.as_str(), &self.object) {
            ("PUT", _) => self.put(request),
            (_, None) => reply(404, &[], b""),
            (_, Some((body, etag, token))) => {
                let length = body.len().to_string();
                let headers = [
                    ("ETag", etag.as_str()),
                    ("Content-Length", &length),
                    ("x-amz-meta-pagewell-write", token),
                ];
                reply(200, &headers, b"")
            }
        }
    }
}

/// A store that loses answers and requests.
fn losing(seed: u64, stored: &Arc<Mutex<Stored>>) -> Arc<Script> {
    let mut random = Random(seed);
    let fails = random.below(70);
    let stored = Arc::clone(stored);
    Script::of(move |seen: &[Seen]| {
        let request = seen.last().expect("a request");
        if random.below(100) >= fails {
            return Step::Send(stored.lock().answer(request));
        }
        let is_done = random.below(2) == 0;
        if is_done {
            stored.lock().answer(request);
        }
        match random.below(4) {
            0 => Step::Cut(Vec::new()),
            1 => Step::Stall(Vec::new()),
            2 => Step::Send(reply(500, &[], b"")),
            _ => Step::Send(reply(503, &[("Retry-After", "1")], b"")),
        }
    })
}

async fn write(bucket: &Bucket, name: &str, condition: &Condition) -> Result<Version, Error> {
    let body = Bytes::from(name.to_owned().into_bytes());
    bucket.put("k", body, condition, &Metadata::new()).await
}

/// Two writers take turns at random; each bases its change on the last version that it knows.
#[tokio::test(start_paused = true)]
async fn writes_are_there_once_or_have_changed_nothing() {
    let (mut done, mut refused, mut lost) = (0, 0, 0);
    for seed in 1..=histories() {
        let stored = Arc::new(Mutex::new(Stored::default()));
        let bucket = bucket_of(&losing(seed, &stored), &options());
        let mut random = Random(seed ^ 0xAA);
        let mut known: [Option<Version>; 2] = [None, None];
        for turn in 0..8 {
            let writer = random.below(2) as usize;
            let name = format!("{turn} by {writer}");
            let condition = known[writer]
                .clone()
                .map_or(Condition::Absent, Condition::Is);
            let base = stored.lock().made.len();
            let result = write(&bucket, &name, &condition).await;
            let now = stored.lock();
            let times = now.made[base..]
                .iter()
                .filter(|made| **made == name.as_bytes())
                .count();
            assert!(times <= 1, "seed {seed}: written twice");
            match result {
                Ok(version) => {
                    let (body, etag, _) = now.object.as_ref().expect("an object");
                    assert_eq!(times, 1, "seed {seed}: acknowledged, and not there");
                    assert_eq!(body, name.as_bytes(), "seed {seed}");
                    assert_eq!(version.etag.as_ref(), Some(etag), "seed {seed}");
                    known[writer] = Some(version);
                    done += 1;
                }
                Err(Error::Exists | Error::Changed | Error::NotFound) => {
                    assert_eq!(times, 0, "seed {seed}: refused, and there");
                    let object = now.object.as_ref();
                    known[writer] = object.map(|(body, etag, _)| Version {
                        etag: Some(etag.clone()),
                        last_modified: None,
                        length_bytes: body.len() as u64,
                    });
                    refused += 1;
                }
                Err(Error::Unreachable(_) | Error::TryLater(_)) => {
                    // The budget has ended: it is open whether it happened.
                    known[writer] = None;
                    lost += 1;
                }
                Err(other) => panic!("seed {seed}: {other}"),
            }
        }
    }
    assert!(
        done > histories() && refused > histories() / 2,
        "{done} {refused} {lost}"
    );
}
