//! Objects of one store: what of one does not touch another.

#![allow(clippy::unwrap_used)] // tests

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use pagewell_cache::{
    Cache, CacheOptions, CachedObject, CachedStore, LENGTH_BYTES_MAX, OpenOptions, ReadAheadRule,
    ReadMode, WriteMode,
};
use pagewell_device::{Error, Geometry, Object, Operation, Request, Store};

const PAGE: u64 = 65_536;
const PAGE_BYTES: usize = 65_536;
const MIB: u64 = 1 << 20;

/// A store of sheets, which keeps what was written until a flush.
struct Shelf;

impl Store for Shelf {
    fn name(&self) -> &'static str {
        "shelf"
    }
    fn geometry(&self) -> Geometry {
        Geometry::MEMORY
    }
    fn keeps_until_flush(&self) -> bool {
        true
    }
}

/// An object of any length: pages that were written, and `fill` everywhere else.
#[derive(Default)]
struct Sheet {
    fill: u8,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    pages: BTreeMap<u64, Vec<u8>>,
    reads: u64,
    writes: u64,
    flushes: u64,
    /// Writes wait.
    holds: bool,
    held: Vec<Request>,
    /// So many flushes say that what was not flushed is gone.
    replays: u64,
}

impl Sheet {
    fn new(fill: u8) -> Arc<Self> {
        let state = Mutex::default();
        Arc::new(Self { fill, state })
    }

    /// Reads, writes and flushes that were asked for.
    fn counts(&self) -> (u64, u64, u64) {
        let state = self.state.lock().unwrap();
        (state.reads, state.writes, state.flushes)
    }

    fn hold(&self) {
        self.state.lock().unwrap().holds = true;
    }

    fn held(&self) -> usize {
        self.state.lock().unwrap().held.len()
    }

    fn release(&self) {
        let mut state = self.state.lock().unwrap();
        state.holds = false;
        let held = std::mem::take(&mut state.held);
        drop(state);
        held.into_iter().for_each(|request| self.transfer(request));
    }

    fn transfer(&self, mut request: Request) {
        let (operation, mut at) = (request.operation(), request.offset());
        let mut state = self.state.lock().unwrap();
        for mut slice in request.slices_mut() {
            while !slice.is_empty() {
                let start = usize::try_from(at % PAGE).unwrap();
                let count = slice.len().min(PAGE_BYTES - start);
                let (now, later) = slice.split_at_mut(count);
                let fill = || vec![self.fill; PAGE_BYTES];
                if operation == Operation::Write {
                    let page = state.pages.entry(at / PAGE).or_insert_with(fill);
                    page[start..start + count].copy_from_slice(now);
                } else {
                    let page = state.pages.get(&(at / PAGE)).cloned();
                    now.copy_from_slice(&page.unwrap_or_else(fill)[start..start + count]);
                }
                at += count as u64;
                slice = later;
            }
        }
        drop(state);
        request.succeed();
    }
}

impl Object for Sheet {
    fn submit(&self, request: Request) {
        let mut state = self.state.lock().unwrap();
        match request.operation() {
            Operation::Read => state.reads += 1,
            Operation::Write if state.holds => {
                state.writes += 1;
                return state.held.push(request);
            }
            Operation::Write => state.writes += 1,
            Operation::Flush => {
                state.flushes += 1;
                let is_replay = state.replays > 0;
                state.replays = state.replays.saturating_sub(1);
                drop(state);
                let device = "shelf".to_owned();
                return match is_replay {
                    true => request.fail(0, Error::Replay { device }),
                    false => request.succeed(),
                };
            }
        }
        drop(state);
        self.transfer(request);
    }
}

fn store(cache: CacheOptions) -> (Cache, CachedStore) {
    let cache = Cache::new(cache).unwrap();
    let options = OpenOptions {
        read_ahead: ReadAheadRule::Off,
        ..cache.open_options()
    };
    let store = cache.open_store(Arc::new(Shelf), options);
    (cache, store)
}

fn small() -> (Cache, CachedStore) {
    store(CacheOptions::new(16 * MIB))
}

fn read(object: &CachedObject, offset: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    object.read_at(offset, &mut bytes, ReadMode::WAIT).unwrap();
    bytes
}

fn write(object: &CachedObject, offset: u64, bytes: &[u8]) {
    object.write_at(offset, bytes, WriteMode::WAIT).unwrap();
}

#[test]
fn a_commit_of_one_object_neither_sends_nor_waits_for_what_another_has() {
    let (_cache, store) = small();
    let (one, other) = (Sheet::new(1), Sheet::new(2));
    let [mine, others] = [&one, &other].map(|sheet| store.open(sheet.clone(), None));
    // Two writes each, so that neither is durable without a flush.
    for object in [&mine, &others] {
        write(object, 0, &[7; 100]);
        write(object, 4 * PAGE, &[7; 100]);
    }
    other.hold();
    let writer = others.clone();
    let stuck = std::thread::spawn(move || writer.commit(0, LENGTH_BYTES_MAX));
    while other.held() < 2 {
        std::thread::yield_now();
    }
    mine.commit(0, LENGTH_BYTES_MAX).unwrap();
    assert_eq!(one.counts(), (0, 2, 1));
    assert_eq!(other.counts(), (0, 2, 0));
    assert!(!mine.has_dirty(0, MIB) && !mine.has_unflushed(0, MIB));
    assert!(others.has_dirty(0, MIB) && store.has_uncommitted());
    other.release();
    stuck.join().unwrap().unwrap();
    assert_eq!(other.counts(), (0, 2, 1));
    store.sync().unwrap();
    assert_eq!((one.counts(), other.counts()), ((0, 2, 1), (0, 2, 1)));
    assert!(!store.has_uncommitted());
}

#[test]
fn a_sync_commits_all_objects() {
    let (_cache, store) = small();
    let sheets: Vec<_> = (0..50).map(Sheet::new).collect();
    let objects = sheets.iter().map(|sheet| store.open(sheet.clone(), None));
    let objects: Vec<_> = objects.collect();
    for object in &objects {
        write(object, 10, &[9; 10]);
    }
    store.sync().unwrap();
    assert_eq!(store.dirty_bytes(), 0);
    for sheet in &sheets {
        assert_eq!(sheet.state.lock().unwrap().pages[&0][10..20], [9; 10]);
    }
}

#[test]
fn a_purge_of_one_object_costs_its_pages_and_no_others() {
    let (_cache, store) = small();
    let (one, other) = (Sheet::new(1), Sheet::new(2));
    let [mine, others] = [&one, &other].map(|sheet| store.open(sheet.clone(), None));
    for object in [&mine, &others] {
        for page in [0, 1, 1 << 20] {
            read(object, page * PAGE, PAGE_BYTES);
        }
        write(object, 2 * PAGE, &[7; 10]);
    }
    let (before, reads) = (others.resident_pages(), other.counts().0);
    mine.discard(0, u64::MAX);
    assert!(mine.resident_pages() == (0, 0) && !mine.has_pages());
    assert!(others.resident_pages() == before && others.has_pages());
    assert_eq!((mine.dirty_bytes(), others.dirty_bytes()), (0, 10));
    assert_eq!(read(&others, 0, 2 * PAGE_BYTES), vec![2; 2 * PAGE_BYTES]);
    assert_eq!(other.counts().0, reads, "it was in memory");
    assert_eq!(read(&mine, 2 * PAGE, 10), [1; 10]);
}

#[test]
fn objects_are_as_long_as_names_of_pages_are() {
    let (_cache, store) = small();
    let object = store.open(Sheet::new(5), None);
    for offset in [1 << 40, 5 << 40, LENGTH_BYTES_MAX - 10] {
        write(&object, offset, &[1; 10]);
        object.commit(offset, 10).unwrap();
        object.discard(0, LENGTH_BYTES_MAX);
        assert_eq!(read(&object, offset, 10), [1; 10]);
        assert_eq!(read(&object, offset - 10, 10), [5; 10]);
    }
    let past = object.write_at(LENGTH_BYTES_MAX - 5, &[1; 10], WriteMode::WAIT);
    assert!(past.is_err());
}

/// Numbers are a part of the names of pages.
#[test]
fn a_number_that_is_given_out_again_shows_no_page_of_before() {
    let (_cache, store) = small();
    let (mut numbers, mut again) = (HashSet::new(), 0);
    for round in 0..200 {
        let fill = u8::try_from(round).unwrap();
        let object = store.open(Sheet::new(fill), None);
        again += usize::from(!numbers.insert(format!("{object:?}")));
        assert_eq!(read(&object, 0, 3 * PAGE_BYTES), vec![fill; 3 * PAGE_BYTES]);
        write(&object, PAGE, &[255; 10]);
        let pinned = object.pin_all(0, 100, ReadMode::WAIT).unwrap().unwrap();
        drop(object);
        // What is pinned stays, and its number with it.
        assert_eq!(pinned[0].as_ref(), [fill; 100]);
    }
    assert!(again > 100, "{again}");
}

#[test]
fn the_end_of_an_object_moves() {
    let (_cache, store) = small();
    let sheet = Sheet::new(3);
    let object = store.open(sheet.clone(), Some(PAGE + 100));
    let end = |object: &CachedObject, length: u64| {
        assert_eq!(object.length_bytes(), length);
        let past = object.read_at(length - 5, &mut [0; 10], ReadMode::WAIT);
        assert!(past.is_err(), "{length}");
        read(object, length - 10, 10)
    };
    assert_eq!(end(&object, PAGE + 100), [3; 10]);
    write(&object, PAGE + 90, &[4; 10]);
    // Longer: what comes is asked for, and what is dirty stays.
    object.set_length(3 * PAGE);
    assert_eq!(end(&object, 3 * PAGE), [3; 10]);
    assert_eq!(
        read(&object, PAGE + 80, 30),
        [[3; 10], [4; 10], [3; 10]].concat()
    );
    // Shorter: what is behind is forgotten, dirty or not, and what is before it stays.
    write(&object, 2 * PAGE, &[5; 100]);
    object.set_length(PAGE + 95);
    assert_eq!(object.dirty_bytes(), 5);
    assert_eq!(end(&object, PAGE + 95), [[3; 5], [4; 5]].concat());
    object.commit(0, LENGTH_BYTES_MAX).unwrap();
    object.set_length(3 * PAGE);
    assert_eq!(
        read(&object, PAGE + 85, 20),
        [[3; 5], [4; 5], [3; 5], [3; 5]].concat()
    );
    assert_eq!(read(&object, 2 * PAGE, 100), [3; 100]);
    assert_eq!(
        sheet.state.lock().unwrap().pages.len(),
        1,
        "only what was kept went"
    );
}

/// However many objects have something dirty, all together have no more than the store may.
#[test]
fn dirty_memory_is_the_stores_and_not_that_of_each_object() {
    let most = 8 * PAGE;
    let (_cache, store) = store(CacheOptions {
        dirty_bytes_max: Some(most),
        ..CacheOptions::new(16 * MIB)
    });
    let sheets: Vec<_> = (0..100).map(Sheet::new).collect();
    let open = |sheet: &Arc<Sheet>| store.open(sheet.clone(), None);
    let objects: Vec<_> = sheets.iter().map(open).collect();
    for object in &objects {
        write(object, 0, &[9; 10]);
        let pages: u64 = objects.iter().map(|object| object.dirty_pages()).sum();
        assert!(pages * PAGE <= most, "{pages} pages");
    }
    store.sync().unwrap();
    for sheet in &sheets {
        assert_eq!(sheet.state.lock().unwrap().pages[&0][..10], [9; 10]);
    }
}

/// A store that was started again has lost what no flush has covered, of whatever object.
#[test]
fn what_the_flush_of_one_object_says_of_the_store_is_true_of_all() {
    let (_cache, store) = small();
    let (one, other) = (Sheet::new(1), Sheet::new(2));
    let [mine, others] = [&one, &other].map(|sheet| store.open(sheet.clone(), None));
    for object in [&mine, &others] {
        write(object, 0, &[7; 100]);
        write(object, 4 * PAGE, &[7; 100]);
        object.write_out(0, MIB).unwrap();
        assert!(!object.has_dirty(0, MIB) && object.has_unflushed(0, MIB));
    }
    one.state.lock().unwrap().replays = 1;
    other.state.lock().unwrap().pages.clear();
    let losses = store.loss_epoch();
    mine.commit(0, MIB).unwrap();
    others.write_out(0, MIB).unwrap();
    assert_eq!(other.state.lock().unwrap().pages.len(), 2, "written again");
    others.commit(0, MIB).unwrap();
    assert_eq!(store.loss_epoch(), losses, "nothing is lost");
}

#[test]
fn a_store_that_is_given_up_says_what_is_lost_of_all_objects() {
    let (_cache, store) = small();
    let sheets = [Sheet::new(1), Sheet::new(2), Sheet::new(3)];
    let objects = sheets
        .each_ref()
        .map(|sheet| store.open(sheet.clone(), None));
    write(&objects[0], 0, &[9; 10]);
    write(&objects[1], 0, &[9; 20]);
    sheets[0].hold();
    sheets[1].hold();
    assert_eq!(store.abandon(), 30);
    assert!(store.loss_epoch() > 0);
    for object in &objects {
        let written = object.write_at(0, &[1; 10], WriteMode::WAIT);
        assert!(written.is_err(), "{written:?}");
    }
    assert!(objects[0].commit(0, MIB).is_err());
    sheets.iter().for_each(|sheet| sheet.release());
}

/// Two pages of each, so that each needs a flush.
fn written(store: &CachedStore, sheets: &[Arc<Sheet>]) -> Vec<CachedObject> {
    let objects = sheets.iter().map(|sheet| store.open(sheet.clone(), None));
    let objects: Vec<_> = objects.collect();
    for object in &objects {
        write(object, 0, &[7; 100]);
        write(object, 4 * PAGE, &[7; 100]);
    }
    objects
}

/// Nothing is written before its time.
fn large() -> (Cache, CachedStore) {
    store(CacheOptions {
        dirty_bytes_max: Some(64 * MIB),
        ..CacheOptions::new(128 * MIB)
    })
}

/// Many times more than are committed at a time.
const MANY: u8 = 100;

#[test]
fn the_objects_of_a_silent_store_are_given_up_together() {
    // A busy machine may take long to see the end: then longer, all the same.
    let patiences = (0..7).map(|doublings| Duration::from_millis(100 << doublings));
    let is_one_wait = |patience: Duration| {
        let (_cache, store) = large();
        let sheets: Vec<_> = (0..MANY).map(Sheet::new).collect();
        let _objects = written(&store, &sheets);
        sheets.iter().for_each(|sheet| sheet.hold());
        let began = Instant::now();
        assert_eq!(store.close_within(patience), u64::from(MANY) * 200);
        let took = began.elapsed();
        sheets.iter().for_each(|sheet| sheet.release());
        assert!(took >= patience, "{took:?}");
        took < patience * 3
    };
    assert!({ patiences }.any(is_one_wait), "each waits by itself");
}

#[test]
fn what_hangs_keeps_nothing_else_of_a_store_from_being_written_at_its_end() {
    let (_cache, store) = large();
    // More than are committed at a time, and whose writes are fewer than a queue sends at a time.
    let hung: Vec<_> = (0..18).map(Sheet::new).collect();
    let well: Vec<_> = (0..MANY).map(Sheet::new).collect();
    hung.iter().for_each(|sheet| sheet.hold());
    let _objects = [written(&store, &hung), written(&store, &well)];
    let (are_written, lost) = std::thread::scope(|scope| {
        let closing = scope.spawn(|| store.close_within(Duration::MAX));
        let are_written = || well.iter().all(|sheet| sheet.counts() == (0, 2, 1));
        let began = Instant::now();
        while !are_written() && began.elapsed() < Duration::from_secs(300) {
            std::thread::yield_now();
        }
        let lost = store.abandon();
        closing.join().unwrap();
        (are_written(), lost)
    });
    assert!(are_written, "{lost}");
    assert_eq!(lost, 18 * 200);
    hung.iter().for_each(|sheet| sheet.release());
}
