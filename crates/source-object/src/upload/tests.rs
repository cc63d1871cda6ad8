//! Uploads to a store in memory, of sizes that are small.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use pagewell_base::spans::Spans;
use pagewell_base::sync::{Condvar, Mutex};
use pagewell_fs::Error as FileError;
use pagewell_object_client::{Condition, Error, Metadata, Remote, Upload, Version};

use super::{Base, Budget, Failure, NewObject, Notes, Sizes, Source, Uploader};
use crate::testing::{Asked, Fault, Store};

const PART: u64 = 1_000;

fn sizes() -> Sizes {
    Sizes {
        whole_bytes_max: 3_000,
        part_bytes_min: PART,
        part_bytes: 1_600,
        copy_bytes: 50_000,
        request_bytes: 200,
        ..Sizes::default()
    }
}

fn uploader() -> Uploader {
    Uploader::new(sizes(), Budget::default(), true)
}

/// The bytes of an object, and how many are in use.
struct Memory(Vec<u8>);

impl Source for Memory {
    fn read(&self, offset: u64, target: &mut [u8]) -> Result<(), FileError> {
        let start = usize::try_from(offset).unwrap();
        target.copy_from_slice(&self.0[start..start + target.len()]);
        Ok(())
    }
}

/// A source that fails.
struct Broken;

impl Source for Broken {
    fn read(&self, _: u64, _: &mut [u8]) -> Result<(), FileError> {
        Err(FileError::Io("meant".to_owned()))
    }
}

/// Uploads that were begun and have not ended.
#[derive(Default)]
struct Open(Mutex<Vec<String>>);

impl Notes for Open {
    fn begun(&self, upload: &Upload) {
        self.0.lock().push(upload.id.clone());
    }

    fn ended(&self, upload: &Upload) {
        self.0.lock().retain(|id| *id != upload.id);
    }
}

fn pattern(length: u64, seed: u64) -> Vec<u8> {
    (0..length)
        .map(|at| (at * 7 + at / 251 + seed) as u8)
        .collect()
}

fn metadata() -> Metadata {
    vec![("mode".to_owned(), b"33188".to_vec())]
}

/// What an object becomes, with its base.
struct Case {
    bytes: Vec<u8>,
    base: Option<(Version, u64)>,
    dirty: Spans,
    condition: Condition,
}

impl Case {
    /// One that has no base.
    fn new(bytes: Vec<u8>) -> Self {
        Self {
            bytes,
            base: None,
            dirty: Spans::default(),
            condition: Condition::Absent,
        }
    }

    /// `key` has these bytes, and becomes them with `change` at `offset`.
    fn changed(store: &Store, mut bytes: Vec<u8>, offset: usize, change: &[u8]) -> Self {
        let version = store.place("key", &bytes, &Vec::new());
        let kept_bytes = version.length_bytes;
        let end = offset + change.len();
        bytes.resize(bytes.len().max(end), 0);
        bytes[offset..end].copy_from_slice(change);
        let mut dirty = Spans::default();
        dirty.insert(offset as u64, end as u64);
        Self {
            bytes,
            base: Some((version.clone(), kept_bytes)),
            dirty,
            condition: Condition::Is(version),
        }
    }

    fn upload(&self, uploader: &Uploader, store: &Store, notes: &Open) -> Result<Version, Failure> {
        self.upload_from(uploader, store, &Memory(self.bytes.clone()), notes)
    }

    fn upload_from(
        &self,
        uploader: &Uploader,
        store: &Store,
        source: &dyn Source,
        notes: &Open,
    ) -> Result<Version, Failure> {
        let metadata = metadata();
        let object = NewObject {
            key: "key",
            base: self.base.as_ref().map(|(version, kept_bytes)| Base {
                key: "key",
                version,
                kept_bytes: *kept_bytes,
            }),
            length_bytes: self.bytes.len() as u64,
            dirty: &self.dirty,
            condition: &self.condition,
            metadata: &metadata,
        };
        uploader.upload(store, &object, source, notes)
    }
}

fn store() -> Arc<Store> {
    Arc::new(Store::new(PART, 1_000))
}

fn sent(asked: &[Asked]) -> u64 {
    let bytes = asked.iter().map(|asked| match asked {
        Asked::Put(_, bytes) | Asked::Part(_, bytes) => *bytes,
        _ => 0,
    });
    bytes.sum()
}

#[test]
fn a_small_object_is_one_request() {
    for length in [0, 1, 3_000] {
        let (store, notes) = (store(), Open::default());
        let case = Case::new(pattern(length, 1));
        let made = case.upload(&uploader(), &store, &notes).unwrap();
        assert_eq!(store.asked(), [Asked::Put("key".to_owned(), length)]);
        assert!(made.is_same(&store.head("key").unwrap().version));
        assert_eq!(store.bytes("key").unwrap(), case.bytes);
        assert_eq!(store.metadata("key").unwrap(), metadata());
    }
}

#[test]
fn a_large_object_is_sent_in_parts() {
    let (store, notes) = (store(), Open::default());
    let case = Case::new(pattern(40_123, 1));
    case.upload(&uploader(), &store, &notes).unwrap();
    let asked = store.asked();
    // Begun, 26 parts, completed.
    assert_eq!((asked.len(), sent(&asked)), (28, 40_123));
    assert_eq!(store.bytes("key").unwrap(), case.bytes);
    assert_eq!(store.metadata("key").unwrap(), metadata());
    assert!(notes.0.lock().is_empty());
}

#[test]
fn what_did_not_change_is_copied() {
    let (store, notes) = (store(), Open::default());
    let appended = Case::changed(&store, pattern(20_000, 1), 20_000, b"abcd");
    appended.upload(&uploader(), &store, &notes).unwrap();
    let asked = store.asked();
    assert_eq!((asked.len(), sent(&asked)), (4, 4));
    assert_eq!(store.bytes("key").unwrap(), appended.bytes);
    let changed = Case::changed(&store, appended.bytes, 9_000, b"abcdef");
    changed.upload(&uploader(), &store, &notes).unwrap();
    let asked = store.asked();
    assert_eq!((asked.len(), sent(&asked)), (5, PART));
    assert_eq!(store.bytes("key").unwrap(), changed.bytes);
}

#[test]
fn random_changes_make_the_bytes_that_are_meant() {
    let mut random = 3_u64;
    let mut next = |below: u64| {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % below
    };
    let (store, notes, uploader) = (store(), Open::default(), uploader());
    for round in 0..300 {
        let old = pattern(next(15_000), round);
        let version = store.place("key", &old, &Vec::new());
        let kept_bytes = next(version.length_bytes + 1);
        let mut bytes = old;
        bytes.truncate(usize::try_from(kept_bytes).unwrap());
        bytes.resize(usize::try_from(kept_bytes + next(5_000)).unwrap(), 0);
        let mut dirty = Spans::default();
        for _ in 0..next(4) {
            let start = next(bytes.len() as u64 + 1);
            let end = (start + next(2_000)).min(bytes.len() as u64);
            bytes[start as usize..end as usize].fill(round as u8);
            dirty.insert(start, end);
        }
        let case = Case {
            bytes,
            base: Some((version.clone(), kept_bytes)),
            dirty,
            condition: Condition::Is(version),
        };
        case.upload(&uploader, &store, &notes).unwrap();
        assert_eq!(store.bytes("key").unwrap(), case.bytes);
    }
    assert_eq!(store.uploads_left(), 0);
}

#[test]
fn a_condition_that_does_not_hold_leaves_the_object_as_it_is() {
    let (store, notes) = (store(), Open::default());
    for length in [10, 20_000] {
        let case = Case::changed(&store, pattern(length, 1), 3, b"own");
        store.place("key", b"of another gateway", &Vec::new());
        let failed = case.upload(&uploader(), &store, &notes);
        assert_eq!(failed, Err(Failure::Remote(Error::Changed)));
        assert_eq!(store.bytes("key").unwrap(), b"of another gateway");
        store.remove("key");
        let failed = case.upload(&uploader(), &store, &notes);
        assert_eq!(failed, Err(Failure::Remote(Error::NotFound)));
        assert_eq!(store.bytes("key"), None);
        store.place("key", b"of another gateway", &Vec::new());
        let failed = Case::new(pattern(length, 1)).upload(&uploader(), &store, &notes);
        assert_eq!(failed, Err(Failure::Remote(Error::Exists)));
        assert_eq!(store.uploads_left(), 0);
    }
    assert!(notes.0.lock().is_empty());
}

#[test]
fn each_request_that_fails_ends_the_upload() {
    for is_done in [false, true] {
        for at in 0..7 {
            let (store, notes) = (store(), Open::default());
            let case = Case::changed(&store, pattern(20_000, 1), 9_000, &[9; 3_000]);
            let old = store.bytes("key");
            let error = Error::Denied("meant".to_owned());
            let thrown = error.clone();
            store.hook(move |number, asked| match asked {
                Asked::Abort(_) => Fault::None,
                _ if number != at => Fault::None,
                _ if is_done => Fault::After(thrown.clone()),
                _ => Fault::Before(thrown.clone()),
            });
            let failed = case.upload(&uploader(), &store, &notes);
            let asked = store.asked();
            if at >= 6 {
                assert!(failed.is_ok() && asked.len() == 6, "{asked:?}");
                continue;
            }
            assert_eq!(failed, Err(Failure::Remote(error)), "{at}");
            let is_ended = at == 5 && is_done;
            assert_eq!(store.bytes("key") == old, !is_ended);
            // An upload whose name was lost is swept by its age.
            assert_eq!(store.uploads_left(), usize::from(at == 0 && is_done));
            assert!(notes.0.lock().is_empty());
        }
    }
}

#[test]
fn an_upload_that_cannot_be_given_up_stays_noted() {
    let (store, notes) = (store(), Open::default());
    let case = Case::new(pattern(20_000, 1));
    store.hook(|_, asked| match asked {
        Asked::Part(3, _) | Asked::Abort(_) => {
            Fault::Before(Error::Unreachable("meant".to_owned()))
        }
        _ => Fault::None,
    });
    assert!(case.upload(&uploader(), &store, &notes).is_err());
    assert_eq!((store.uploads_left(), notes.0.lock().len()), (1, 1));
}

#[test]
fn bytes_that_cannot_be_read_make_no_object() {
    let (store, notes) = (store(), Open::default());
    for length in [10, 20_000] {
        let case = Case::new(pattern(length, 1));
        let failed = case.upload_from(&uploader(), &store, &Broken, &notes);
        let error = FileError::Io("meant".to_owned());
        assert_eq!(failed, Err(Failure::Local(error)));
        assert!(store.keys().is_empty() && store.uploads_left() == 0);
    }
}

#[test]
fn a_store_that_copies_nothing_gets_all_bytes() {
    let (store, notes, uploader) = (store(), Open::default(), uploader());
    store.hook(|_, asked| match asked {
        Asked::Copy(..) => Fault::Before(Error::Unsupported("no copies".to_owned())),
        _ => Fault::None,
    });
    for is_first in [true, false] {
        let case = Case::changed(&store, pattern(20_000, 1), 20_000, b"abcd");
        case.upload(&uploader, &store, &notes).unwrap();
        assert_eq!(store.bytes("key").unwrap(), case.bytes);
        let asked = store.asked();
        let copies = asked
            .iter()
            .filter(|asked| matches!(asked, Asked::Copy(..)));
        assert_eq!(copies.count(), usize::from(is_first));
        assert!(sent(&asked) >= 20_004 && store.uploads_left() == 0);
    }
}

#[test]
fn one_object_that_is_not_copied_says_nothing_of_others() {
    let store = Arc::new(Store::new(PART, 1_000).of_whole_copies());
    let (notes, uploader) = (Open::default(), uploader());
    store.hook(|_, asked| match asked {
        Asked::Copy(..) => Fault::Before(Error::Unsupported("of a class of its own".to_owned())),
        _ => Fault::None,
    });
    for is_refused in [true, false] {
        let case = Case::changed(&store, pattern(20_000, 1), 20_000, b"abcd");
        case.upload(&uploader, &store, &notes).unwrap();
        assert_eq!(store.bytes("key").unwrap(), case.bytes);
        let asked = store.asked();
        let is_copy = |asked: &Asked| matches!(asked, Asked::Copy(..));
        assert_eq!(asked.iter().filter(|asked| is_copy(asked)).count(), 1);
        assert_eq!(sent(&asked), if is_refused { 20_004 } else { 4 });
        store.unhook();
    }
}

#[test]
fn an_object_is_copied_as_a_whole_or_not_at_all() {
    let store = Arc::new(Store::new(PART, 1_000).of_whole_copies());
    let notes = Open::default();
    // More than one copy has at a store of ranges.
    let appended = Case::changed(&store, pattern(120_000, 1), 120_000, b"abcd");
    appended.upload(&uploader(), &store, &notes).unwrap();
    let asked = store.asked();
    assert_eq!((asked.len(), sent(&asked)), (4, 4));
    assert!(asked.contains(&Asked::Copy(1, 0..120_000)));
    assert_eq!(store.bytes("key").unwrap(), appended.bytes);
    // What has changed inside, or was cut, is sent.
    let changed = Case::changed(&store, appended.bytes.clone(), 9_000, b"abcdef");
    let mut cut = Case::changed(&store, appended.bytes, 0, b"");
    cut.bytes.truncate(100_000);
    cut.base = cut.base.map(|(version, _)| (version, 100_000));
    for mut case in [changed, cut] {
        case.condition = Condition::Always;
        case.upload(&uploader(), &store, &notes).unwrap();
        assert_eq!(sent(&store.asked()), case.bytes.len() as u64);
        assert_eq!(store.bytes("key").unwrap(), case.bytes);
    }
}

#[test]
fn an_upload_that_others_end_is_no_conflict() {
    let (store, notes) = (store(), Open::default());
    let case = Case::changed(&store, pattern(20_000, 1), 9_000, b"abc");
    store.hook(|_, asked| match asked {
        Asked::Complete(_) => Fault::Before(Error::NotFound),
        _ => Fault::None,
    });
    let failed = case.upload(&uploader(), &store, &notes);
    assert!(matches!(failed, Err(Failure::Remote(Error::TryLater(_)))));
}

#[test]
fn much_is_not_sent_under_a_condition_that_fails_already() {
    let (store, notes) = (store(), Open::default());
    store.place("key", b"there", &Vec::new());
    let case = Case::new(vec![0; 64 << 20]);
    let uploader = Uploader::new(Sizes::default(), Budget::default(), true);
    let failed = case.upload(&uploader, &store, &notes);
    assert_eq!(failed, Err(Failure::Remote(Error::Exists)));
    assert_eq!(store.asked(), [Asked::Head("key".to_owned())]);
}

/// Bodies that have been filled and not been answered, at most.
struct Counted {
    bytes: Vec<u8>,
    now: Arc<AtomicU64>,
    most: AtomicU64,
}

impl Source for Counted {
    fn read(&self, _: u64, target: &mut [u8]) -> Result<(), FileError> {
        target.fill(self.bytes[0]);
        let length = target.len() as u64;
        let now = self.now.fetch_add(length, Ordering::Relaxed) + length;
        self.most.fetch_max(now, Ordering::Relaxed);
        Ok(())
    }
}

#[test]
fn a_store_that_stands_still_gets_no_more_memory() {
    let store = store();
    let uploader = Uploader::new(sizes(), Budget::new(5_000, 64), true);
    let now = Arc::new(AtomicU64::new(0));
    let stalled = Arc::new((Mutex::new(true), Condvar::new()));
    let waiting = Arc::new(AtomicUsize::new(0));
    let (hooked, gate, filled) = (waiting.clone(), stalled.clone(), now.clone());
    store.hook(move |_, asked| {
        if let Asked::Part(_, bytes) = asked {
            hooked.fetch_add(1, Ordering::AcqRel);
            let mut is_stalled = gate.0.lock();
            while *is_stalled {
                is_stalled = gate.1.wait(is_stalled);
            }
            filled.fetch_sub(*bytes, Ordering::Relaxed);
        }
        Fault::None
    });
    let source = Counted {
        bytes: vec![7],
        now,
        most: AtomicU64::new(0),
    };
    std::thread::scope(|scope| {
        for number in 0..3 {
            let (store, source, uploader) = (&store, &source, &uploader);
            scope.spawn(move || {
                let (dirty, metadata) = (Spans::default(), metadata());
                let object = NewObject {
                    key: &format!("key{number}"),
                    base: None,
                    length_bytes: 40_000,
                    dirty: &dirty,
                    condition: &Condition::Absent,
                    metadata: &metadata,
                };
                let notes = Open::default();
                uploader.upload(&**store, &object, source, &notes).unwrap();
            });
        }
        // As many as there is memory for have come to the store; no more can.
        while waiting.load(Ordering::Acquire) < 3 {
            std::thread::yield_now();
        }
        *stalled.0.lock() = false;
        stalled.1.notify_all();
    });
    assert!(source.most.load(Ordering::Relaxed) <= 5_000);
    for number in 0..3 {
        assert_eq!(store.bytes(&format!("key{number}")).unwrap(), [7; 40_000]);
    }
}
