//! Tests of which thread may touch which byte of a page when, under loom: the real parts of a
//! cache, whose memory loom watches.

use std::ops::Range;
use std::sync::Arc;

use loom::sync::atomic::{AtomicU8, Ordering};
use pagewell_device::RamDevice;
use pagewell_policy::eviction::Arrival;

use crate::cached_object::CachedDevice;
use crate::dirty::set::close_wait;
use crate::frame::Arena;
use crate::page::{PAGE, Part};
use crate::read::claim::{Claims, Wanted};
use crate::table::DIRTY;
use crate::write::{Attempt, Piece};
use crate::{Cache, CacheOptions, PAGE_BYTES};

const UNIT: usize = 4096;
/// Bytes of the page before anything happens.
const OLD: u8 = 1;
/// What a writer writes.
const NEW: u8 = 9;

/// A device of one page, of which units are in memory.
struct Model {
    device: CachedDevice,
}

impl Model {
    fn new(units: u64) -> Arc<Self> {
        let frames = 3;
        let options = CacheOptions::new(u64::from(frames) * PAGE);
        let arena = Arena::new(frames, &options).unwrap();
        let cache = Cache::with(options, arena).unwrap();
        let ram = Arc::new(RamDevice::new("ram", PAGE));
        let device = cache.open(ram);
        device.writer().dirty().start();
        let this = Self { device };
        let pages = this.device.reader().own().pages();
        let page = pages.find_or_make(this.key(), Arrival::Demand, 0).unwrap();
        // SAFETY: no other thread knows the page.
        unsafe { pages.arena().fill(page.frame(), 0, &[OLD; PAGE_BYTES]) };
        pages.validate(page.frame(), (1 << units) - 1);
        pages.table().unpin(page.slot);
        Arc::new(this)
    }

    fn key(&self) -> u64 {
        self.device.reader().own().layout().key(0)
    }

    /// Writes to units while others may have pinned the page, or fetch them.
    fn write(&self, units: Range<usize>) {
        let source = &vec![NEW; units.len() * UNIT];
        let part = part(units);
        let writer = &self.device.writer();
        while !matches!(writer.try_piece(&Piece { part, source }), Attempt::Done(_)) {
            loom::thread::yield_now();
        }
    }

    /// Pins the page, looks at a unit twice, and fetches what is missing of another.
    fn read(&self, looked_at: usize, fetched: Option<usize>, version: &AtomicU8) {
        let own = &self.device.reader().own();
        let Some(found) = own.pages().find(self.key()) else {
            // It is between two names, or purged.
            return;
        };
        let units = fetched.map_or(0, |unit| 1 << unit);
        let wanted = Wanted::new(own, found, 0, units);
        let look = || {
            let is_valid = own.pages().valid(wanted.pin.frame()) >> looked_at & 1 == 1;
            // SAFETY: the test is that no thread writes to it meanwhile.
            is_valid.then(|| unsafe { wanted.pin.bytes(looked_at * UNIT, UNIT)[0] })
        };
        let first = look();
        let mut claims = Claims::default();
        let fetcher = self.device.reader().fetcher();
        fetcher.claim(&wanted, false, false, &mut claims);
        for mut claim in claims.ours {
            // The device reads what it has when it is asked.
            let bytes = [version.load(Ordering::SeqCst); UNIT];
            let start = fetched.unwrap() * UNIT;
            // SAFETY: the test is that nobody else uses what was claimed.
            unsafe { own.pages().arena().fill(wanted.pin.frame(), start, &bytes) };
            let units = claim.units();
            claim.end(units, Ok(()));
        }
        assert_eq!(first.or_else(look), look(), "what is pinned has changed");
    }

    /// A byte of each of the first two units of the page, if it is valid; and whether the page has
    /// something dirty.
    fn end(&self) -> ([Option<u8>; 2], bool) {
        let pages = self.device.reader().own().pages();
        let Some(found) = pages.find(self.key()) else {
            return ([None; 2], false);
        };
        let valid = pages.valid(found.frame());
        let byte = |unit: usize| {
            // SAFETY: no other thread is there any more.
            let bytes = unsafe { pages.arena().bytes(found.frame(), unit * UNIT, UNIT) };
            (valid >> unit & 1 == 1).then_some(bytes[0])
        };
        let bytes = [byte(0), byte(1)];
        let is_dirty = found.state.has(DIRTY);
        assert_eq!(found.state.pins(), 0);
        pages.table().unpin(found.slot);
        self.device.writer().dirty().abandon(close_wait());
        (bytes, is_dirty)
    }
}

fn part(units: Range<usize>) -> Part {
    Part {
        page: 0,
        start: (units.start * UNIT) as u64,
        length: (units.len() * UNIT) as u64,
    }
}

fn orders(preemptions: usize, test: impl Fn() + Sync + Send + 'static) {
    let mut orders = loom::model::Builder::new();
    orders.preemption_bound = Some(preemptions);
    orders.max_branches = 20_000;
    orders.check(test);
}

/// A reader claims a unit, and another client changes it: the bytes that the device had before are
/// not valid afterwards, and no byte that is pinned changes.
#[test]
fn what_was_asked_for_before_a_purge_is_not_read_after_it() {
    orders(3, || {
        let (model, version) = (Model::new(1), Arc::new(AtomicU8::new(OLD)));
        let (other, others) = (model.clone(), version.clone());
        let reader = loom::thread::spawn(move || other.read(0, Some(1), &others));
        version.store(NEW, Ordering::SeqCst);
        model.device.discard(UNIT as u64, UNIT as u64);
        reader.join().unwrap();
        let ([_, purged], _) = model.end();
        assert!(matches!(purged, None | Some(NEW)), "{purged:?}");
    });
}

/// A reader claims a unit in a page that a writer detaches because of the reader's pin.
#[test]
fn a_write_beside_a_claim_is_not_lost() {
    orders(3, || {
        let (model, version) = (Model::new(1), Arc::new(AtomicU8::new(OLD)));
        let (other, others) = (model.clone(), version.clone());
        let reader = loom::thread::spawn(move || other.read(0, Some(1), &others));
        model.write(0..1);
        reader.join().unwrap();
        let ([written, _], is_dirty) = model.end();
        assert_eq!((written, is_dirty), (Some(NEW), true));
    });
}

/// A reader claims the unit that a writer writes, whichever comes first.
#[test]
fn a_write_to_what_is_claimed_is_not_overwritten() {
    orders(3, || {
        let (model, version) = (Model::new(1), Arc::new(AtomicU8::new(OLD)));
        let (other, others) = (model.clone(), version.clone());
        let reader = loom::thread::spawn(move || other.read(0, Some(1), &others));
        model.write(1..2);
        reader.join().unwrap();
        assert_eq!(model.end(), ([Some(OLD), Some(NEW)], true));
    });
}

/// All three at a time: one claims a unit, one writes to the unit beside it, which detaches the
/// page, and one purges the first.
#[test]
fn a_claim_a_write_and_a_purge_of_one_page() {
    orders(2, || {
        let (model, version) = (Model::new(1), Arc::new(AtomicU8::new(OLD)));
        let (other, others) = (model.clone(), version.clone());
        let reader = loom::thread::spawn(move || other.read(0, Some(1), &others));
        let other = model.clone();
        let writer = loom::thread::spawn(move || other.write(0..1));
        version.store(NEW, Ordering::SeqCst);
        model.device.discard(UNIT as u64, UNIT as u64);
        writer.join().unwrap();
        reader.join().unwrap();
        let ([written, purged], is_dirty) = model.end();
        assert_eq!((written, is_dirty), (Some(NEW), true));
        assert!(matches!(purged, None | Some(NEW)), "{purged:?}");
    });
}

/// Write-back copies a range while a writer changes all of it: it copies all of the old bytes or
/// all of the new ones, also where a pin makes the writer detach the page.
#[test]
fn what_is_staged_is_never_half_of_a_write() {
    orders(3, || {
        let model = Model::new(2);
        let other = model.clone();
        let pinned = model
            .device
            .reader()
            .own()
            .pages()
            .find(model.key())
            .unwrap();
        let pinned = model.device.reader().own().own(pinned);
        let writer = loom::thread::spawn(move || other.write(0..2));
        let mut staged = [0; 2 * UNIT];
        let submit = model.device.writer().submitter();
        let missing = submit.copy_out(&part(0..2), &mut staged);
        assert_eq!(missing, Some(0));
        let is = |byte: u8| staged.iter().all(|other| *other == byte);
        assert!(is(OLD) || is(NEW), "{} {}", staged[0], staged[UNIT]);
        // SAFETY: both were valid when it was pinned.
        let bytes = unsafe { pinned.bytes(0, 2 * UNIT) };
        assert!(bytes.iter().all(|byte| *byte == OLD), "pinned");
        drop(pinned);
        writer.join().unwrap();
        assert_eq!(model.end(), ([Some(NEW); 2], true));
    });
}
