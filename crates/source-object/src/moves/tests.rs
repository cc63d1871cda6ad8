//! Moves in a store in memory that fails at each request.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use pagewell_object_client::{Error, Metadata, Upload};

use super::{Failure, Intent, Limits, Moved, Mover, unfinished};
use crate::testing::{Asked, Fault, Store};
use crate::upload::{Budget, Notes, Sizes, Uploader};

/// Larger objects are copied in parts.
const PART: u64 = 1_000;
const LIMITS: Limits = Limits {
    files_max: 1_000,
    bytes_max: 1_000_000,
};

struct NoNotes;

impl Notes for NoNotes {
    fn begun(&self, _: &Upload) {}
    fn ended(&self, _: &Upload) {}
}

fn uploader() -> Uploader {
    let sizes = Sizes {
        whole_bytes_max: 3_000,
        part_bytes_min: PART,
        part_bytes: 1_600,
        request_bytes: 200,
        ..Sizes::default()
    };
    Uploader::new(sizes, Budget::default(), true)
}

fn mover<'a>(store: &'a Store, uploader: &'a Uploader) -> Mover<'a> {
    Mover {
        remote: store,
        uploader,
        notes: &NoNotes,
        guards_deletes: true,
    }
}

fn store() -> Arc<Store> {
    Arc::new(Store::new(PART, 40))
}

fn metadata() -> Metadata {
    vec![("mode".to_owned(), b"33188".to_vec())]
}

fn pattern(length: usize, seed: usize) -> Vec<u8> {
    (0..length)
        .map(|at| (at * 7 + at / 251 + seed) as u8)
        .collect()
}

/// Moves `a` to `b`, as it is listed.
fn rename(store: &Store, uploader: &Uploader) -> Result<(), Failure> {
    let known = store.version("a").unwrap();
    let target = store.version("b");
    let mover = mover(store, uploader);
    let carried = mover.rename_file(("a", &known), "b", target.as_ref())?;
    assert!(carried.made.is_same(&store.version("b").unwrap()));
    Ok(())
}

fn kinds(asked: &[Asked]) -> Vec<&'static str> {
    let kind = |asked: &Asked| match asked {
        Asked::Head(_) => "head",
        Asked::Whole(_) | Asked::Get(..) => "get",
        Asked::List(_) => "list",
        Asked::Put(..) => "put",
        Asked::Part(..) => "part",
        Asked::Copy(..) => "copy",
        Asked::Create(_) | Asked::Complete(_) | Asked::Abort(_) | Asked::Uploads(_) => "upload",
        Asked::Delete(_) | Asked::DeleteMany(_) => "delete",
    };
    asked.iter().map(kind).collect()
}

#[test]
fn a_small_file_moves_by_three_requests() {
    for length in [0, 1, 1_000] {
        let (store, uploader) = (store(), uploader());
        store.place("a", &pattern(length, 1), &metadata());
        rename(&store, &uploader).unwrap();
        assert_eq!(kinds(&store.asked()), ["get", "put", "delete"]);
        assert_eq!(store.keys(), ["b"]);
        assert_eq!(store.bytes("b").unwrap(), pattern(length, 1));
        assert_eq!(store.metadata("b").unwrap(), metadata());
    }
}

#[test]
fn a_large_file_moves_inside_the_store() {
    let (store, uploader) = (store(), uploader());
    store.place("a", &pattern(20_000, 1), &metadata());
    store.place("b", b"replaced", &metadata());
    rename(&store, &uploader).unwrap();
    let expected = ["head", "upload", "copy", "upload", "delete"];
    assert_eq!(kinds(&store.asked()), expected);
    assert_eq!(store.keys(), ["b"]);
    assert_eq!(store.bytes("b").unwrap(), pattern(20_000, 1));
    assert_eq!(store.metadata("b").unwrap(), metadata());
}

#[test]
fn a_large_file_moves_where_the_store_copies_nothing() {
    let (store, uploader) = (store(), uploader());
    store.hook(|_, asked| match asked {
        Asked::Copy(..) => Fault::Before(Error::Unsupported("no copies".to_owned())),
        _ => Fault::None,
    });
    store.place("a", &pattern(20_000, 1), &metadata());
    rename(&store, &uploader).unwrap();
    assert_eq!(store.bytes("b").unwrap(), pattern(20_000, 1));
    assert_eq!(store.keys(), ["b"]);
}

#[test]
fn a_target_that_is_not_as_it_was_named_is_left_alone() {
    for length in [10, 20_000] {
        let (store, uploader) = (store(), uploader());
        let version = store.place("a", &pattern(length, 1), &metadata());
        let stale = store.place("b", b"old", &metadata());
        store.place("b", b"of another gateway", &metadata());
        let mover = mover(&store, &uploader);
        for target in [None, Some(&stale)] {
            let moved = mover.rename_file(("a", &version), "b", target);
            assert_eq!(moved, Err(Failure::Target));
        }
        store.remove("b");
        let moved = mover.rename_file(("a", &version), "b", Some(&stale));
        assert_eq!(moved, Err(Failure::Target));
        assert_eq!(store.keys(), ["a"]);
        assert_eq!(store.uploads_left(), 0);
        store.remove("a");
        let moved = mover.rename_file(("a", &version), "b", None);
        assert_eq!(moved, Err(Failure::NoSource));
    }
}

#[test]
fn a_source_that_changes_is_moved_as_it_is_then() {
    for (old, new) in [(10, 20), (10, 20_000), (20_000, 10), (20_000, 20_001)] {
        let is_at_last = |asked: &Asked| matches!(asked, Asked::Delete(_));
        let is_at_first = |asked: &Asked| matches!(asked, Asked::Put(..) | Asked::Copy(..));
        for is_moment in [is_at_first, is_at_last] {
            let (store, uploader) = (store(), uploader());
            store.place("a", &pattern(old, 1), &metadata());
            let (hooked, is_done) = (Arc::downgrade(&store), AtomicBool::new(false));
            store.hook(move |_, asked| {
                if is_moment(asked) && !is_done.swap(true, Ordering::AcqRel) {
                    let store = hooked.upgrade().unwrap();
                    store.place("a", &pattern(new, 2), &Metadata::new());
                }
                Fault::None
            });
            rename(&store, &uploader).unwrap();
            assert_eq!(store.keys(), ["b"]);
            assert_eq!(store.bytes("b").unwrap(), pattern(new, 2));
            assert_eq!(store.metadata("b").unwrap(), Metadata::new());
        }
    }
}

#[test]
fn a_source_that_changes_all_the_time_stays() {
    let (store, uploader) = (store(), uploader());
    store.place("a", b"0", &metadata());
    let (hooked, count) = (Arc::downgrade(&store), AtomicUsize::new(0));
    store.hook(move |_, asked| {
        if matches!(asked, Asked::Delete(_)) {
            let count = count.fetch_add(1, Ordering::AcqRel);
            let store = hooked.upgrade().unwrap();
            store.place("a", format!("{count}").as_bytes(), &Metadata::new());
        }
        Fault::None
    });
    let failed = rename(&store, &uploader);
    assert!(matches!(failed, Err(Failure::Remote(Error::TryLater(_)))));
    assert_eq!(store.bytes("a").unwrap(), b"3");
}

#[test]
fn where_deletes_are_not_guarded_a_look_goes_before() {
    let (store, uploader) = (store(), uploader());
    let version = store.place("a", b"1", &metadata());
    let (hooked, is_done) = (Arc::downgrade(&store), AtomicBool::new(false));
    store.hook(move |_, asked| {
        if matches!(asked, Asked::Head(_)) && !is_done.swap(true, Ordering::AcqRel) {
            hooked.upgrade().unwrap().place("a", b"2", &metadata());
        }
        Fault::None
    });
    let mover = Mover {
        guards_deletes: false,
        ..mover(&store, &uploader)
    };
    mover.rename_file(("a", &version), "b", None).unwrap();
    assert_eq!(store.bytes("b").unwrap(), b"2");
    let expected = ["get", "put", "head", "get", "put", "head", "delete"];
    assert_eq!(kinds(&store.asked()), expected);
}

/// From the request `at` on nothing is done; that one is, if `is_done`, and its answer is lost.
fn die(store: &Store, at: usize, is_done: bool) {
    let died = move || Error::Unreachable("the gateway has died".to_owned());
    store.hook(move |number, _| match number {
        number if number < at => Fault::None,
        number if number == at && is_done => Fault::After(died()),
        _ => Fault::Before(died()),
    });
}

#[test]
fn a_file_is_somewhere_whenever_its_mover_dies() {
    for length in [10, 20_000] {
        for (at, is_done) in (0..5).flat_map(|at| [(at, false), (at, true)]) {
            let (store, uploader) = (store(), uploader());
            store.place("a", &pattern(length, 1), &metadata());
            store.place("b", b"replaced", &metadata());
            die(&store, at, is_done);
            let moved = rename(&store, &uploader);
            store.unhook();
            let count = if length == 10 { 3 } else { 5 };
            assert_eq!(moved.is_ok(), at >= count, "{at}");
            let is_at = |key| store.bytes(key) == Some(pattern(length, 1));
            assert!(is_at("a") || is_at("b"), "{length} {at} {is_done}");
            // The same again goes on.
            if store.version("a").is_some() {
                rename(&store, &uploader).unwrap();
            }
            assert!(store.keys() == ["b"] && is_at("b"));
        }
    }
}

/// Objects of a directory, by what comes behind its prefix.
type Files = BTreeMap<String, Vec<u8>>;

fn files() -> Files {
    let named = |name: &str, bytes: Vec<u8>| (name.to_owned(), bytes);
    BTreeMap::from([
        named("", Vec::new()),
        named("empty", Vec::new()),
        named("large", pattern(5_000, 1)),
        named("small", pattern(100, 2)),
        named("sub/", Vec::new()),
        named("sub/deep/x", pattern(10, 3)),
        named("sub/y", pattern(1_001, 4)),
    ])
}

fn place(store: &Store, files: &Files) {
    for (name, bytes) in files {
        store.place(&format!("p/from/{name}"), bytes, &metadata());
    }
    store.place("p/from.txt", b"beside", &metadata());
}

fn rename_all(store: &Store, uploader: &Uploader, limits: Limits) -> Result<Moved, Failure> {
    mover(store, uploader).rename_directory("p/", ("p/from/", "p/to/"), limits, &|_, _, _| {})
}

/// Whether all files are below `p/to/`, and nothing else is but what was beside.
fn check_moved(store: &Store, files: &Files) {
    let mut expected: Vec<String> = files.keys().map(|name| format!("p/to/{name}")).collect();
    expected.insert(0, "p/from.txt".to_owned());
    assert_eq!(store.keys(), expected);
    for (name, bytes) in files {
        let key = format!("p/to/{name}");
        assert_eq!(store.bytes(&key).as_ref(), Some(bytes), "{name}");
        let kept = store.metadata(&key).unwrap();
        assert_eq!(kept[0], metadata()[0], "{name}");
    }
}

#[test]
fn a_directory_moves_with_all_that_it_has() {
    let (store, uploader) = (store(), uploader());
    place(&store, &files());
    let moved = rename_all(&store, &uploader, LIMITS).unwrap();
    let bytes = files().values().map(|bytes| bytes.len() as u64).sum();
    assert_eq!(moved, Moved { files: 7, bytes });
    check_moved(&store, &files());
    // And back, over an empty directory that has a marker.
    store.place("p/from/", b"", &Metadata::new());
    let names = ("p/to/", "p/from/");
    let mover = mover(&store, &uploader);
    mover
        .rename_directory("p/", names, LIMITS, &|_, _, _| {})
        .unwrap();
    assert_eq!(store.metadata("p/from/").unwrap()[0], metadata()[0]);
    assert_eq!(store.keys().len(), 8);
}

#[test]
fn a_directory_of_a_hundred_costs_three_requests_each() {
    let (store, uploader) = (Arc::new(Store::default()), uploader());
    for number in 0..100 {
        store.place(&format!("p/from/{number}"), b"bytes", &metadata());
    }
    rename_all(&store, &uploader, LIMITS).unwrap();
    let asked = store.asked();
    let count = |kind| kinds(&asked).iter().filter(|found| **found == kind).count();
    let counts = ["get", "put", "delete", "list"].map(count);
    // And both directories are listed, an intent is there, and at last it is seen that all went.
    assert_eq!(counts, [100, 101, 101, 3]);
    assert_eq!(asked.len(), 305);
}

#[test]
fn what_is_too_much_is_not_begun() {
    let (store, uploader) = (store(), uploader());
    place(&store, &files());
    let before = store.keys();
    let few = Limits {
        files_max: 6,
        ..LIMITS
    };
    let little = Limits {
        bytes_max: 6_000,
        ..LIMITS
    };
    for limits in [few, little] {
        let failed = rename_all(&store, &uploader, limits);
        assert_eq!(failed, Err(Failure::TooMuch));
    }
    assert_eq!(kinds(&store.asked()), ["list", "list"]);
    let mover = mover(&store, &uploader);
    let long = format!("{}/", "x".repeat(1_020));
    for (names, failure) in [
        (("p/from/", long.as_str()), Failure::TooLong),
        (("p/from/", "p/from/sub/"), Failure::Inside),
        (("p/from/", "p/from/"), Failure::Inside),
        (("p/none/", "p/to/"), Failure::NoSource),
    ] {
        let failed = mover.rename_directory("p/", names, LIMITS, &|_, _, _| {});
        assert_eq!(failed, Err(failure));
    }
    store.place("p/to/other", b"other", &metadata());
    let failed = rename_all(&store, &uploader, LIMITS);
    assert_eq!(failed, Err(Failure::NotEmpty));
    store.remove("p/to/other");
    assert_eq!(store.keys(), before);
}

#[test]
fn a_directory_is_whole_whenever_its_mover_dies() {
    for is_done in [false, true] {
        let mut at = 0;
        loop {
            let (store, uploader) = (store(), uploader());
            place(&store, &files());
            die(&store, at, is_done);
            let moved = rename_all(&store, &uploader, LIMITS);
            store.unhook();
            for (name, bytes) in files() {
                let found = ["p/from/", "p/to/"].map(|prefix| {
                    let key = format!("{prefix}{name}");
                    store.bytes(&key)
                });
                let is_right = |found: &Option<Vec<u8>>| found.as_ref().is_none_or(|f| *f == bytes);
                assert!(found.iter().all(is_right), "{name} {at}");
                assert!(found.iter().any(Option::is_some), "{name} {at}");
            }
            let is_intended = !unfinished(&*store, "p/").unwrap().is_empty();
            store.asked();
            let again = rename_all(&store, &uploader, LIMITS);
            match again {
                Ok(_) => {}
                // All had gone.
                Err(Failure::NoSource) => assert!(!is_intended),
                Err(failure) => panic!("{at} {is_done}: {failure:?}"),
            }
            check_moved(&store, &files());
            assert_eq!(unfinished(&*store, "p/").unwrap(), []);
            if moved.is_ok() && again == Err(Failure::NoSource) {
                break;
            }
            at += 1;
        }
        // There were as many deaths as requests.
        assert!(at > 25, "{at}");
    }
}

#[test]
fn an_intent_says_what_is_not_at_its_end() {
    let (store, uploader) = (store(), uploader());
    place(&store, &files());
    die(&store, 6, true);
    assert!(rename_all(&store, &uploader, LIMITS).is_err());
    store.unhook();
    let intent = Intent {
        from: "p/from/".to_owned(),
        to: "p/to/".to_owned(),
    };
    assert_eq!(unfinished(&*store, "p/").unwrap(), [intent]);
    assert_eq!(unfinished(&*store, "").unwrap(), []);
    // What is none is passed over.
    for (name, text) in [("x", "7\np/from/p/to/"), ("y", "99\nab"), ("z", "no")] {
        let key = format!(".pagewell/moves/{name}");
        store.place(&key, text.as_bytes(), &Metadata::new());
    }
    assert_eq!(unfinished(&*store, "").unwrap(), []);
}

#[test]
fn files_that_come_meanwhile_move_too_and_those_in_the_way_stay() {
    let (store, uploader) = (store(), uploader());
    place(&store, &files());
    let (hooked, is_done) = (Arc::downgrade(&store), AtomicBool::new(false));
    store.hook(move |_, asked| {
        if matches!(asked, Asked::Delete(_)) && !is_done.swap(true, Ordering::AcqRel) {
            let store = hooked.upgrade().unwrap();
            store.place("p/from/new", b"new", &metadata());
        }
        Fault::None
    });
    rename_all(&store, &uploader, LIMITS).unwrap();
    let mut expected = files();
    expected.insert("new".to_owned(), b"new".to_vec());
    check_moved(&store, &expected);

    let store = self::store();
    place(&store, &files());
    let hooked = Arc::downgrade(&store);
    store.hook(move |_, asked| {
        if *asked == Asked::Put("p/to/small".to_owned(), 100) {
            let store = hooked.upgrade().unwrap();
            store.place("p/to/small", b"of another gateway", &metadata());
        }
        Fault::None
    });
    let failed = rename_all(&store, &uploader, LIMITS);
    assert_eq!(failed, Err(Failure::Target));
    assert_eq!(store.bytes("p/to/small").unwrap(), b"of another gateway");
    assert_eq!(store.bytes("p/from/small").unwrap(), files()["small"]);
}

#[test]
fn movers_at_once_lose_nothing() {
    for round in 0..20 {
        let (store, uploader) = (store(), uploader());
        place(&store, &files());
        // In each round another request waits for the next one, which there is: all that both have
        // to do are more than 30.
        let barrier = Arc::new(std::sync::Barrier::new(2));
        let waited = AtomicUsize::new(0);
        store.hook(move |number, _| {
            if number >= round && waited.fetch_add(1, Ordering::AcqRel) < 2 {
                barrier.wait();
            }
            Fault::None
        });
        let results = std::thread::scope(|scope| {
            let movers = [0, 1].map(|_| scope.spawn(|| rename_all(&store, &uploader, LIMITS)));
            movers.map(|mover| mover.join().unwrap())
        });
        assert!(results.iter().any(Result::is_ok), "{results:?}");
        for result in results {
            let is_late = matches!(result, Err(Failure::NotEmpty | Failure::NoSource));
            assert!(result.is_ok() || is_late, "{result:?}");
        }
        check_moved(&store, &files());
    }
}
