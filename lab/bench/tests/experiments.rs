//! The experiments on direct reads and on mappings, small, for what they count.
//!
//! Counters are of the whole process, so these tests run one at a time.
#![allow(clippy::unwrap_used, reason = "a test fails so")]

use std::io::Write;

use pagewell_base::sync::{Mutex, MutexGuard};
use pagewell_bench::experiment::{Options, Row, Session, direct, filecache, text};
use serde_json::Value;

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ONE_AT_A_TIME.lock()
}

fn session() -> Session {
    Session::new(Options {
        progress: false,
        ..Options::default()
    })
}

fn choice(targets: &[&str]) -> direct::Choice {
    direct::Choice {
        blocks: Some(4),
        block_bytes: Some(64 << 10),
        cache_bytes: Some(32 << 20),
        targets: targets.iter().map(|name| name.parse().unwrap()).collect(),
        ..direct::Choice::default()
    }
}

fn variant<'a>(session: &'a Session, name: Option<&str>) -> &'a Row {
    let mut rows = session.rows().iter();
    rows.find(|row| row.variant.as_deref() == name).unwrap()
}

/// Requirements that are about counts, not about time.
fn counts_hold(session: &Session) {
    assert_eq!(session.failures(), [] as [String; 0]);
    for verdict in session.verdicts() {
        let counts = ["device requests", "copied once", "windows mapped"];
        if counts.iter().any(|what| verdict.what.contains(what)) {
            assert!(verdict.pass, "{}", verdict.what);
        }
    }
}

#[test]
fn four_paths_read_the_same_bytes_with_the_requests_they_should() {
    let _alone = alone();
    let mut session = session();
    direct::run_choice(&mut session, &choice(&["model:nvme", "model:ssd"]));
    counts_hold(&session);
    assert_eq!(session.rows().len(), 5);
    let bytes = 2 * 4 * (64 << 10);
    for row in session.rows() {
        assert_eq!((row.operations, row.bytes), (Some(8), Some(bytes)));
        assert_eq!(row.seconds.len(), 3);
    }
    let requests = |name| variant(&session, name).device.as_ref().unwrap().requests;
    assert_eq!(requests(None), 8);
    assert_eq!(requests(Some("O_DIRECT, 8 at a time")), 8);
    assert_eq!(requests(Some("raw")), 8 * 128);
    let copied = |name| variant(&session, name).copied_bytes;
    assert_eq!(copied(Some("buffered")), Some(bytes));
    for name in [None, Some("raw"), Some("nocopy")] {
        assert_eq!(copied(name), Some(0), "{name:?}");
    }
    // Everything that was asked for once came once, read-ahead included.
    for name in ["buffered", "nocopy"] {
        assert!(requests(Some(name)) < 8 * 16, "{name}");
    }
    let text = text(&session);
    for part in [
        "compared byte by byte",
        "Completed reading 0 mbytes",
        "copy cost",
        "MiB/s",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn a_file_is_read_by_the_chosen_path_alone() {
    let _alone = alone();
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(&vec![7; 1 << 20]).unwrap();
    let path = file.path().to_str().unwrap();
    let mut session = session();
    let mut chosen = choice(&[path]);
    chosen.buffered = true;
    direct::run_choice(&mut session, &chosen);
    counts_hold(&session);
    assert_eq!(session.rows().len(), 1);
    assert_eq!(session.rows()[0].operations, Some(4));
    // What is not there is told, and what cannot be.
    for (targets, blocks, bytes, part) in [
        (["/nonexistent"], 4, 4096, "/nonexistent"),
        ([path], 257, 4096, "fewer than 257 blocks"),
        (["model:nvme"], 1, 1 << 40, "at most 64 MiB"),
    ] {
        let mut session = self::session();
        let mut chosen = choice(&targets);
        chosen.blocks = Some(blocks);
        chosen.block_bytes = Some(bytes);
        direct::run_choice(&mut session, &chosen);
        let failure = session.failures().concat();
        assert!(failure.contains(part), "{part}: {failure}");
    }
}

#[test]
fn windows_are_mapped_for_reads_and_direct_memory_never() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let choice = filecache::Choice {
        settings: filecache::Settings {
            cache_bytes: 4 << 20,
            threads: vec![1, 2],
            repeats: 1,
            reads: [1000; 3],
        },
        working_sets: vec![1 << 20],
        reads: 50,
        rounds: 2,
        directory: Some(directory.path().to_owned()),
    };
    let mut session = session();
    filecache::run_choice(&mut session, &choice);
    counts_hold(&session);
    assert_eq!(session.rows().len(), 3 * 2 * 2 + 6);
    let number = |row: &Row, name: &str| row.x.get(name).and_then(Value::as_u64);
    for row in session.rows() {
        if number(row, "threads").is_none() {
            continue;
        }
        let reads = 1000;
        assert_eq!(row.operations, Some(reads));
        assert_eq!(row.copied_bytes, Some(reads * 8192));
        let through = ["maps", "window_hits"].map(|name| number(row, name).unwrap());
        if row.x["mapping"] == "window" {
            assert_eq!(through.iter().sum::<u64>(), reads, "{}", row.case);
        } else {
            assert_eq!(through, [0, 0], "{}", row.case);
            assert_eq!(number(row, "unmaps"), Some(0));
        }
        let cached = !row.case.starts_with("large non-cached");
        assert_eq!(row.hit_ratio == Some(1.0), cached, "{}", row.case);
    }
    let text = text(&session);
    for part in [
        "unmaps/M",
        "reference us/op",
        "memcpy, huge pages",
        "2 threads",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}
