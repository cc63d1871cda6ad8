//! What written objects of a store share: the quota, the policy's share, and which are *active*:
//! something in them is not durable. Flusher, sync and close look at active ones only.
//!
//! **The flusher** is one thread for each cache, for writes by age or want of memory. It starts
//! with the first write, ends with the cache, and keeps neither cache nor stores.
//!
//! # The dirty quota
//!
//! **Problem.** Five stores that are stuck, each with its share of memory dirty, would have all of
//! it.
//!
//! **Rule.** All together have at most half of the cache. Half of that is divided among written
//! stores, as if there were four at least; the rest goes to the first. A store's part is its
//! policy's limit, so it writes earlier when there is less.
//!
//! ```text
//!   half of the cache:  | store 1  | store 2  | store 3  |        in common         |
//!                         for certain, each the same       3 3 3 1 1 1 1 1 . . . . .
//! ```
//!
//! **Weakness.** From the fifth store on what each has for certain falls, and what is above it goes
//! only as it is written: until then all together have more.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use pagewell_device::Error as DeviceError;
use pagewell_policy::writeback::{Settings, StoreShare, Tag, WriteBack};
use rustix::io::Errno;

use crate::Result;
use crate::dirty::set::{Still, close_wait};
use crate::page::PAGE;
use crate::sync::{Condvar, Mutex, Rank};

const COMMITTED_AT_ONCE: usize = 16;

pub(crate) trait Active: Send + Sync {
    /// Sends what may go; retires when nothing is left.
    fn drive(self: Arc<Self>);
    fn due_at(&self) -> Option<Instant>;
    fn notify(&self);
    fn replay(&self, error: DeviceError);
    fn hand_out(self: Arc<Self>) -> Tag;
    /// Whether that has been written or refused, soon; then the tag is forgotten.
    fn has_ended(&self, tag: Tag) -> bool;
    fn commit_all(self: Arc<Self>, closing: Option<&Closing>) -> Result<()>;
    /// Waits until then for what is on its way to the store.
    fn abandon(&self, until: Instant) -> u64;
    fn dirty_bytes(&self) -> u64;
    fn has_uncommitted(&self) -> bool;
}

/// The last commit of a store or object: over when the *store* has taken nothing for so long, else
/// each object would have that time again.
pub(crate) struct Closing {
    patience: Duration,
    taken: Mutex<Still<u64>>,
}

impl Closing {
    pub(crate) fn new(store: &WrittenStore, patience: Duration) -> Self {
        let taken = Mutex::new(Rank::Leaf, Still::new(store.taken()));
        Self { patience, taken }
    }

    pub(crate) fn patience(&self) -> Duration {
        self.patience
    }

    pub(crate) fn is_over(&self, store: &WrittenStore) -> bool {
        self.taken.lock().time(store.taken()) >= self.patience
    }
}

/// Objects that wait for their commit, and on a close what each has sent.
type Queue = VecDeque<(Arc<dyn Active>, Option<Tag>)>;

pub(crate) struct WrittenStore {
    quota: Arc<Quota>,
    flusher: Arc<Flusher>,
    share: StoreShare,
    settings: Settings,
    origin: Instant,
    number: u32,
    /// Most dirty memory, alone; now, and as opened.
    bytes_max: AtomicU64,
    bytes_max_usual: Option<u64>,
    active: Mutex<BTreeMap<u32, Weak<dyn Active>>>,
    is_enlisted: AtomicBool,
    is_abandoned: AtomicBool,
    losses: AtomicU64,
    taken: AtomicU64,
    progress: AtomicU64,
    no_room: Mutex<NoRoom>,
}

/// How often the device had no room, and what it said last.
#[derive(Clone, Default)]
pub(crate) struct NoRoom {
    pub count: u64,
    pub error: Option<DeviceError>,
}

impl WrittenStore {
    pub(crate) fn new(
        quota: Arc<Quota>,
        flusher: Arc<Flusher>,
        bytes_max_usual: Option<u64>,
        settings: impl FnOnce(u64) -> Settings,
    ) -> Self {
        let bytes_max = quota.store_bytes_max(bytes_max_usual);
        let settings = settings(bytes_max);
        Self {
            number: quota.add(),
            quota,
            flusher,
            share: StoreShare::new(settings),
            settings,
            origin: Instant::now(),
            bytes_max: AtomicU64::new(bytes_max),
            bytes_max_usual,
            active: Mutex::default(),
            is_enlisted: AtomicBool::new(false),
            is_abandoned: AtomicBool::new(false),
            losses: AtomicU64::new(0),
            taken: AtomicU64::new(0),
            progress: AtomicU64::new(0),
            no_room: Mutex::new(Rank::Leaf, NoRoom::default()),
        }
    }

    pub(crate) fn enlist(self: &Arc<Self>) {
        if !self.is_enlisted.load(Ordering::Relaxed)
            && !self.is_enlisted.swap(true, Ordering::AcqRel)
        {
            self.flusher.enlist(Arc::<Self>::downgrade(self));
        }
    }

    pub(crate) fn flusher(&self) -> &Flusher {
        &self.flusher
    }

    pub(crate) fn write_back(&self) -> WriteBack {
        WriteBack::of_store(self.settings, &self.share)
    }

    pub(crate) fn now(&self) -> Duration {
        self.origin.elapsed()
    }

    pub(crate) fn instant(&self, time: Duration) -> Option<Instant> {
        self.origin.checked_add(time)
    }

    pub(crate) fn allowance(&self) -> u64 {
        let bytes_max = self.bytes_max.load(Ordering::Relaxed);
        self.quota.allowance(self.number, bytes_max)
    }

    pub(crate) fn note_memory(&self, bytes: u64) {
        self.quota.set(self.number, bytes);
    }

    /// `None`: as opened. Writers that wait look again.
    pub(crate) fn limit(&self, bytes_max: Option<u64>) {
        let wanted = bytes_max.or(self.bytes_max_usual);
        let bytes_max = self.quota.store_bytes_max(wanted);
        if self.bytes_max.swap(bytes_max, Ordering::Relaxed) != bytes_max {
            self.active().iter().for_each(|object| object.notify());
        }
    }

    /// The caller has the lock of the object's dirty set.
    pub(crate) fn activate(&self, number: u32, object: &Weak<dyn Active>) {
        self.active.lock().insert(number, object.clone());
    }

    pub(crate) fn retire(&self, number: u32) {
        self.active.lock().remove(&number);
    }

    fn active(&self) -> Vec<Arc<dyn Active>> {
        let active = self.active.lock();
        active.values().filter_map(Weak::upgrade).collect()
    }

    pub(crate) fn go_on(&self) {
        self.progress.fetch_add(1, Ordering::AcqRel);
        self.active().iter().for_each(|object| object.notify());
        self.flusher.wake();
    }

    pub(crate) fn note_taken(&self, is_taken: bool) {
        self.taken.fetch_add(is_taken.into(), Ordering::AcqRel);
    }

    pub(crate) fn note_failed(&self, error: &DeviceError) {
        if let DeviceError::Failed {
            errno: Errno::NOSPC | Errno::DQUOT,
            ..
        } = error
        {
            let mut no_room = self.no_room.lock();
            no_room.count += 1;
            no_room.error = Some(error.clone());
        }
    }

    pub(crate) fn no_room(&self) -> NoRoom {
        self.no_room.lock().clone()
    }

    /// While this changes, the store is slow and not dead.
    pub(crate) fn taken(&self) -> u64 {
        self.taken.load(Ordering::Acquire)
    }

    pub(crate) fn progress(&self) -> u64 {
        self.progress.load(Ordering::Acquire)
    }

    /// The store lost what was not flushed: what other objects keep is dirty again.
    pub(crate) fn replay_others(&self, number: u32, error: &DeviceError) {
        let active = self.active.lock();
        let others = active.iter().filter(|(other, _)| **other != number);
        let others: Vec<_> = others.filter_map(|(_, object)| object.upgrade()).collect();
        drop(active);
        for object in others {
            object.replay(error.clone());
        }
    }

    pub(crate) fn lose(&self) {
        self.losses.fetch_add(1, Ordering::AcqRel);
    }

    pub(crate) fn losses(&self) -> u64 {
        self.losses.load(Ordering::Acquire)
    }

    pub(crate) fn is_abandoned(&self) -> bool {
        self.is_abandoned.load(Ordering::Acquire)
    }

    pub(crate) fn abandon(&self) -> u64 {
        self.is_abandoned.store(true, Ordering::Release);
        let (objects, until) = (self.active(), close_wait());
        // All at once: one that hangs takes no time from the others.
        objects.iter().for_each(|object| object.notify());
        objects.iter().map(|object| object.abandon(until)).sum()
    }

    pub(crate) fn dirty_bytes(&self) -> u64 {
        let active = self.active();
        active.iter().map(|object| object.dirty_bytes()).sum()
    }

    pub(crate) fn has_uncommitted(&self) -> bool {
        self.active().iter().any(|object| object.has_uncommitted())
    }

    /// Commits all objects, a few at a time.
    pub(crate) fn commit_each(&self, patience: Option<Duration>) -> Vec<Result<()>> {
        let closing = patience.map(|patience| Closing::new(self, patience));
        let mut queue = Queue::new();
        for object in self.active() {
            let sent = closing.as_ref().map(|_| object.clone().hand_out());
            queue.push_back((object, sent));
        }
        let (count, queue) = (queue.len(), Mutex::new(Rank::Leaf, queue));
        let done = Mutex::<Vec<Result<()>>>::default();
        let help = || {
            while let Some(object) = self.next_of(&queue, closing.as_ref()) {
                let result = object.commit_all(closing.as_ref());
                done.lock().push(result);
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..COMMITTED_AT_ONCE.min(count) {
                let thread = std::thread::Builder::new().name("cache-sync".to_owned());
                let _ = thread.spawn_scoped(scope, help);
            }
            help();
        });
        std::mem::take(&mut *done.lock())
    }

    /// The next object to commit. On a close one whose writes have ended, while there is time:
    /// others may block all threads for ever.
    fn next_of(&self, queue: &Mutex<Queue>, closing: Option<&Closing>) -> Option<Arc<dyn Active>> {
        loop {
            let (object, sent) = queue.lock().pop_front()?;
            let is_over = closing.is_none_or(|closing| closing.is_over(self));
            if is_over || sent.is_none_or(|tag| object.has_ended(tag)) {
                return Some(object);
            }
            queue.lock().push_back((object, sent));
        }
    }
}

impl Drop for WrittenStore {
    fn drop(&mut self) {
        self.quota.remove(self.number);
    }
}

impl WrittenStore {
    fn run(&self) {
        for object in self.active() {
            object.drive();
        }
    }

    fn due_at(&self) -> Option<Instant> {
        let active = self.active();
        active.iter().filter_map(|object| object.due_at()).min()
    }
}

/// So many stores take nothing from those before.
const STORES_MIN: u64 = 4;

pub(crate) struct Quota {
    size_bytes: u64,
    total: AtomicU64,
    stores: Mutex<HashMap<u32, u64>>,
    next: AtomicU32,
}

impl Quota {
    pub(crate) fn new(size_bytes: u64) -> Self {
        Self {
            size_bytes,
            total: AtomicU64::new(0),
            stores: Mutex::default(),
            next: AtomicU32::new(1),
        }
    }

    pub(crate) fn add(&self) -> u32 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn store_bytes_max(&self, wanted_bytes: Option<u64>) -> u64 {
        let wanted_bytes = wanted_bytes.unwrap_or(self.size_bytes / 5);
        wanted_bytes.clamp(PAGE, self.size_bytes / 2)
    }

    /// Purged pages count until their writes end: the sum may exceed what there is.
    pub(crate) fn set(&self, number: u32, bytes: u64) {
        let mut stores = self.stores.lock();
        stores.insert(number, bytes);
        self.total.store(stores.values().sum(), Ordering::Relaxed);
    }

    pub(crate) fn remove(&self, number: u32) {
        let mut stores = self.stores.lock();
        stores.remove(&number);
        self.total.store(stores.values().sum(), Ordering::Relaxed);
    }

    pub(crate) fn allowance(&self, number: u32, wanted_bytes: u64) -> u64 {
        let bytes_max = self.size_bytes / 2;
        let total = self.total.load(Ordering::Relaxed);
        if total.saturating_add(wanted_bytes) <= bytes_max {
            return wanted_bytes;
        }
        let stores = self.stores.lock();
        let is_known = stores.contains_key(&number);
        let count = stores.len() as u64 + u64::from(!is_known);
        let common = bytes_max / 2;
        let certain = common / count.max(STORES_MIN);
        let others = stores.iter().filter(|(other, _)| **other != number);
        let taken: u64 = others.map(|(_, bytes)| bytes.saturating_sub(certain)).sum();
        wanted_bytes.min(certain + common.saturating_sub(taken))
    }
}

/// How often the flusher looks at least.
const TICK: Duration = Duration::from_secs(5);
const TICK_MIN: Duration = Duration::from_millis(1);

#[derive(Default)]
pub(crate) struct Flusher {
    signals: Arc<Signals>,
}

#[derive(Default)]
struct Signals {
    orders: Mutex<Orders>,
    arrival: Condvar,
    running: AtomicBool,
}

#[derive(Default)]
struct Orders {
    stores: Vec<Weak<WrittenStore>>,
    started: bool,
    wake: bool,
    stop: bool,
}

impl Flusher {
    pub(crate) fn enlist(&self, store: Weak<WrittenStore>) {
        let mut orders = self.signals.orders.lock();
        orders.stores.push(store);
        if std::mem::replace(&mut orders.started, true) {
            return;
        }
        let signals = self.signals.clone();
        let thread = std::thread::Builder::new().name("cache-flusher".to_owned());
        match thread.spawn(move || signals.run()) {
            Ok(_) => self.signals.running.store(true, Ordering::Release),
            // Writers do its work, and nothing is written because of its age alone.
            Err(error) => {
                tracing::warn!(%error, "no thread for write-back: {error}");
            }
        }
    }

    pub(crate) fn is_running(&self) -> bool {
        self.signals.running.load(Ordering::Acquire)
    }

    pub(crate) fn wake(&self) {
        let mut orders = self.signals.orders.lock();
        if !std::mem::replace(&mut orders.wake, true) {
            self.signals.arrival.notify_one();
        }
    }
}

impl Drop for Flusher {
    fn drop(&mut self) {
        self.signals.orders.lock().stop = true;
        self.signals.arrival.notify_one();
    }
}

impl Signals {
    fn run(&self) {
        while let Some(stores) = self.wait_until(self.next()) {
            for store in stores {
                // A store that panics costs only its own requests.
                let _ = catch_unwind(AssertUnwindSafe(|| store.run()));
            }
        }
    }

    fn next(&self) -> Instant {
        let now = Instant::now();
        let stores = self.orders.lock().stores.clone();
        // One at a time, so that none stays because of the others.
        let times = stores.iter().filter_map(|store| store.upgrade()?.due_at());
        let next = times.min().unwrap_or(now + TICK);
        next.clamp(now + TICK_MIN, now + TICK)
    }

    fn wait_until(&self, next: Instant) -> Option<Vec<Arc<WrittenStore>>> {
        let mut orders = self.orders.lock();
        while !orders.stop && !orders.wake {
            let Some(left) = next.checked_duration_since(Instant::now()) else {
                break;
            };
            orders = self.arrival.wait(orders, left);
        }
        orders.wake = false;
        if orders.stop {
            return None;
        }
        orders.stores.retain(|store| store.strong_count() > 0);
        let stores = orders.stores.iter().filter_map(Weak::upgrade).collect();
        Some(stores)
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;

    /// Notes what it is asked in the order of all.
    struct Noted(Arc<Mutex<Vec<Option<Instant>>>>);

    impl Active for Noted {
        fn drive(self: Arc<Self>) {}

        fn due_at(&self) -> Option<Instant> {
            None
        }

        fn notify(&self) {
            self.0.lock().push(None);
        }

        fn replay(&self, _error: DeviceError) {}

        fn hand_out(self: Arc<Self>) -> Tag {
            unreachable!("nothing is committed")
        }

        fn has_ended(&self, _tag: Tag) -> bool {
            true
        }

        fn commit_all(self: Arc<Self>, _closing: Option<&Closing>) -> Result<()> {
            Ok(())
        }

        fn abandon(&self, until: Instant) -> u64 {
            self.0.lock().push(Some(until));
            10
        }

        fn dirty_bytes(&self) -> u64 {
            10
        }

        fn has_uncommitted(&self) -> bool {
            true
        }
    }

    #[test]
    fn objects_that_hang_have_one_time_together_at_the_end() {
        let (quota, flusher) = (Arc::new(Quota::new(1 << 20)), Arc::default());
        let store = WrittenStore::new(quota, flusher, None, Settings::new);
        let noted = Arc::new(Mutex::default());
        let objects = [1, 2, 3].map(|number| {
            let object: Arc<dyn Active> = Arc::new(Noted(noted.clone()));
            store.activate(number, &Arc::downgrade(&object));
            object
        });
        assert_eq!(store.abandon(), 10 * objects.len() as u64);
        let noted = noted.lock();
        let (notified, untils) = noted.split_at(objects.len());
        assert_eq!(notified, [None; 3], "all know before one is waited for");
        let same = |one: &Option<Instant>| one.is_some() && *one == untils[0];
        assert!(untils.len() == 3 && untils.iter().all(same), "{untils:?}");
    }

    #[test]
    fn one_has_what_it_wants_and_a_stuck_one_leaves_the_others_their_part() {
        let quota = Quota::new(2000);
        assert_eq!(quota.allowance(1, 400), 400);
        quota.set(1, 0);
        quota.set(1, 625);
        assert_eq!(quota.allowance(1, 1000), 625);
        // Nothing is left in common.
        assert_eq!(quota.allowance(2, 400), 125);
        quota.set(2, 125);
        assert_eq!(quota.allowance(1, 1000), 625);
        assert_eq!(quota.allowance(3, 400), 125);
        // With purged pages whose writes are under way.
        quota.set(1, 2100);
        assert_eq!(quota.allowance(2, 400), 125);
        quota.remove(1);
        assert_eq!(quota.allowance(2, 400), 400);
    }

    #[test]
    fn all_together_never_have_more() {
        let quota = Quota::new(8000);
        (0..5).for_each(|number| quota.set(number, 0));
        let mut random = 1_u64;
        let mut held = [0_u64; 5];
        for _ in 0..10_000 {
            random = pagewell_base::mix::mix(random.wrapping_add(0x9e37_79b9_7f4a_7c15));
            let number = usize::try_from(random % 5).unwrap();
            let allowed = quota.allowance(u32::try_from(number).unwrap(), 4000);
            if random >> 20 & 3 == 0 {
                held[number] -= held[number].min(random >> 30 & 511);
            } else if held[number] < allowed {
                held[number] += 1.max(allowed - held[number]).min(random >> 30 & 255);
            }
            quota.set(u32::try_from(number).unwrap(), held[number]);
            assert!(held.iter().sum::<u64>() <= 4000, "{held:?}");
            assert!(quota.allowance(0, 4000) >= 400);
        }
    }
}
