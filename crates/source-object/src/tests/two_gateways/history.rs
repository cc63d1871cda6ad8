//! Random operations of two gateways over one store.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use pagewell_base::mix::Random;
use pagewell_base::sync::Mutex;
use pagewell_fs::Opened;
use pagewell_object_client::WritableRemote;

use super::super::*;
use super::chronicle::{Chronicle, GATEWAYS};
use super::draft::What;
use super::link::Link;

const NAMES: [&str; 3] = ["a", "b", "c"];

/// How a history goes.
#[derive(Clone, Copy)]
pub(super) struct Setup {
    /// One request in so many is not as it should be; 0: none.
    pub faults: u64,
    /// In one request in so many another program does something; 0: in none.
    pub others: u64,
    pub how: [How; GATEWAYS],
}

/// What is done when it is time.
type Late = Box<dyn FnOnce(&Shared) + Send>;

/// A gateway while it runs.
struct Member {
    opens: Mutex<Vec<(String, FileId, Opened)>>,
    gateway: Gateway,
    link: Arc<Link>,
    folder: TempDir,
}

/// What the gateways of a history share.
pub(super) struct Shared {
    pub setup: Setup,
    pub store: Arc<Store>,
    pub chronicle: Mutex<Chronicle>,
    pub late: Mutex<Vec<Late>>,
    /// The uploads that a gateway knows of.
    pub uploads: Mutex<Vec<(usize, String)>>,
    members: [Mutex<Option<Arc<Member>>>; GATEWAYS],
    random: Mutex<Random>,
    /// Writes that go on: what they ask belongs to no commit.
    writes: [AtomicUsize; GATEWAYS],
    /// An operation goes on in a request of another.
    is_nested: AtomicBool,
    /// A gateway takes no writes any more.
    is_ending: AtomicBool,
    is_over: AtomicBool,
}

impl Shared {
    fn new(seed: u64, setup: Setup) -> Arc<Self> {
        let shared = Arc::new(Self {
            setup,
            store: Arc::new(Store::new(100, 1000)),
            chronicle: Mutex::default(),
            late: Mutex::default(),
            uploads: Mutex::default(),
            members: Default::default(),
            random: Mutex::new(Random(seed)),
            writes: Default::default(),
            is_nested: AtomicBool::new(false),
            is_ending: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
        });
        shared.chronicle.lock().is_faulty = setup.faults > 0;
        for gateway in 0..GATEWAYS {
            shared.start(gateway, super::folder());
        }
        shared
    }

    pub(super) fn below(&self, most: u64) -> u64 {
        self.random.lock().below(most)
    }

    fn start(self: &Arc<Self>, gateway: usize, folder: TempDir) {
        let path = folder.path().to_owned();
        let link = Link::new(gateway, Arc::downgrade(self), path);
        let link = Arc::new(link);
        let how = self.setup.how[gateway];
        let member = Member {
            opens: Mutex::default(),
            gateway: Gateway::over(link.clone(), folder.path(), how, false),
            link,
            folder,
        };
        *self.members[gateway].lock() = Some(Arc::new(member));
    }

    fn member(&self, gateway: usize) -> Arc<Member> {
        self.members[gateway].lock().clone().unwrap()
    }

    fn faults(&self) -> u64 {
        if self.is_over.load(Ordering::Relaxed) {
            0
        } else {
            self.setup.faults
        }
    }

    pub(super) fn has_fault(&self) -> bool {
        let faults = self.faults();
        faults > 0 && self.below(faults) == 0
    }

    fn is_others_turn(&self) -> bool {
        let others = self.setup.others;
        let may = others > 0 && !self.is_over.load(Ordering::Relaxed);
        may && !self.is_nested.load(Ordering::Relaxed) && self.below(others) == 0
    }

    /// In a request of this gateway the other one does something.
    pub(super) fn others(self: &Arc<Self>, gateway: usize) {
        if self.is_others_turn() {
            self.is_nested.store(true, Ordering::Relaxed);
            self.operate(1 - gateway);
            self.is_nested.store(false, Ordering::Relaxed);
        }
    }

    /// While a file is sent, the same gateway writes to it.
    pub(super) fn own_write(self: &Arc<Self>, gateway: usize, name: &str) {
        let may = NAMES.contains(&name) && !self.is_ending.load(Ordering::Relaxed);
        // What is written to a file that others have removed ends with a new one of that name.
        let may = may && !self.chronicle.lock().is_creating(gateway, name);
        if may && self.is_others_turn() {
            self.is_nested.store(true, Ordering::Relaxed);
            let member = self.member(gateway);
            let id = member.gateway.tree.made_at(name).unwrap().id();
            self.write_if(&member, gateway, (name, &id), false);
            self.is_nested.store(false, Ordering::Relaxed);
        }
    }

    pub(super) fn is_writing(&self, gateway: usize) -> bool {
        self.writes[gateway].load(Ordering::Relaxed) > 0
    }

    /// Whether the gateway itself says that a file is changed.
    pub(super) fn is_changed(&self, gateway: usize, name: &str) -> bool {
        let member = self.members[gateway].lock().clone();
        let node = member.and_then(|member| member.gateway.tree.made_at(name));
        node.is_some_and(|node| node.file().is_some_and(|file| file.is_changed()))
    }

    fn log(&self, text: String) {
        self.chronicle.lock().log(text);
    }

    /// One operation of a gateway.
    fn operate(self: &Arc<Self>, gateway: usize) {
        let member = self.member(gateway);
        let name = NAMES[self.below(3) as usize];
        match self.below(100) {
            0..12 => self.create(&member, gateway, name),
            12..38 => self.with_id(&member, gateway, name, Self::write),
            38..45 => self.with_id(&member, gateway, name, Self::cut),
            45..58 => self.with_id(&member, gateway, name, Self::commit),
            58..70 => self.with_id(&member, gateway, name, Self::read),
            70..75 => self.with_id(&member, gateway, name, Self::open),
            75..79 => self.close(&member, gateway),
            79..83 => self.remove(&member, gateway, name),
            83..86 => self.rename(&member, gateway, name),
            86..89 => self.sync(&member, gateway),
            89..92 => self.with_id(&member, gateway, name, Self::evict),
            92..96 => {
                self.log(format!("{gateway} forgets its listing"));
                member.gateway.tree.root().directory().unwrap().expire();
            }
            96 => drop(self.late_request()),
            97 if self.setup.faults > 0 && !member.link.is_dead() => {
                self.log(format!("{gateway} is killed"));
                member.link.kill();
            }
            98 => return self.stop(member, gateway),
            _ => self.list(&member),
        }
        if member.link.is_dead() {
            self.restart(gateway, member);
        }
    }

    fn late_request(&self) -> bool {
        let mut late = self.late.lock();
        let at = self.below(late.len() as u64) as usize;
        let Some(work) = (at < late.len()).then(|| late.swap_remove(at)) else {
            return false;
        };
        drop(late);
        self.log("a late request is done".to_owned());
        work(self);
        true
    }

    fn list(&self, member: &Member) {
        let files = &member.gateway.files;
        let root = files.root();
        let _ = files.read_directory(&member.gateway.call(), &root, 2, true, &mut |_| true);
    }

    fn with_id(
        self: &Arc<Self>,
        member: &Arc<Member>,
        gateway: usize,
        name: &str,
        work: fn(&Arc<Self>, &Arc<Member>, usize, &str, &FileId),
    ) {
        let found = member.gateway.find(name);
        let is_changed = self.chronicle.lock().is_changed(gateway, name);
        match found {
            Ok(id) => work(self, member, gateway, name, &id),
            // A program that has it open goes on.
            Err(Error::NotFound) if is_changed => {
                let id = member.gateway.tree.made_at(name).unwrap().id();
                work(self, member, gateway, name, &id);
            }
            Err(error) => self.learn(member, gateway, &error),
        }
    }

    fn create(self: &Arc<Self>, member: &Arc<Member>, gateway: usize, name: &str) {
        self.log(format!("{gateway} makes {name}"));
        let is_at_once = self.setup.how[gateway].is_at_once;
        let mode = match is_at_once && self.below(2) == 0 {
            true => CreateMode::Exclusive(self.below(u64::MAX).to_be_bytes()),
            false => CreateMode::Guarded(SetAttributes::default()),
        };
        self.chronicle.lock().creating(gateway, name, true);
        let files = &member.gateway.files;
        let made = files.create(
            &member.gateway.call(),
            &files.root(),
            name.as_bytes(),
            &mode,
        );
        self.chronicle.lock().creating(gateway, name, false);
        match made {
            Ok(_) if member.link.is_dead() => {}
            Ok(_) => self
                .chronicle
                .lock()
                .note_created(gateway, name, is_at_once),
            Err(error) => self.learn(member, gateway, &error),
        }
    }

    fn write(self: &Arc<Self>, member: &Arc<Member>, gateway: usize, name: &str, id: &FileId) {
        self.write_if(member, gateway, (name, id), true);
    }

    fn write_if(
        &self,
        member: &Member,
        gateway: usize,
        (name, id): (&str, &FileId),
        may_block: bool,
    ) {
        let (offset_max, length_max) = match self.below(20) {
            0 => (150_000, 20_000),
            1..5 => (12_000, 6_000),
            _ => (400, 300),
        };
        let offset = self.below(offset_max) * self.below(2);
        let length = 1 + self.below(length_max);
        let mut random = Random(self.below(u64::MAX));
        let data: Vec<u8> = (0..length.div_ceil(8))
            .flat_map(|_| random.number().to_le_bytes())
            .take(length as usize)
            .collect();
        self.log(format!("{gateway} writes {offset}+{length} of {name}"));
        let what = What::Write(offset, data.clone().into());
        let serial = self.chronicle.lock().begin_edit(gateway, name, what);
        let call = Call::new(&member.gateway.root, may_block);
        let files = &member.gateway.files;
        self.writes[gateway].fetch_add(1, Ordering::Relaxed);
        let written = files.write(&call, id, offset, &data, Stability::Unstable);
        self.writes[gateway].fetch_sub(1, Ordering::Relaxed);
        let mut chronicle = self.chronicle.lock();
        match written {
            Ok(_) => chronicle.end_edit(gateway, name, serial),
            Err(error) => {
                chronicle.drop_edit(gateway, name, serial);
                drop(chronicle);
                if error != Error::WouldBlock {
                    self.learn(member, gateway, &error);
                }
            }
        }
    }

    fn cut(self: &Arc<Self>, member: &Arc<Member>, gateway: usize, name: &str, id: &FileId) {
        let size = self.below([300, 300, 300, 10_000, 100_000][self.below(5) as usize]);
        self.log(format!("{gateway} cuts {name} to {size}"));
        let what = What::Cut(size);
        let serial = self.chronicle.lock().begin_edit(gateway, name, what);
        match member.gateway.cut(id, size) {
            Ok(()) => {
                let mut chronicle = self.chronicle.lock();
                chronicle.end_edit(gateway, name, serial);
                drop(chronicle);
                if self.setup.how[gateway].is_at_once {
                    self.committed(member, (gateway, name), serial + 1, Ok(()));
                }
            }
            Err(error) => {
                if !self.setup.how[gateway].is_at_once {
                    self.chronicle.lock().drop_edit(gateway, name, serial);
                }
                self.learn(member, gateway, &error);
            }
        }
    }

    fn commit(self: &Arc<Self>, member: &Arc<Member>, gateway: usize, name: &str, id: &FileId) {
        self.log(format!("{gateway} commits {name}"));
        let serial = self.chronicle.lock().next();
        let committed = member.gateway.commit(id);
        self.committed(member, (gateway, name), serial, committed);
    }

    fn committed(&self, member: &Member, of: (usize, &str), serial: u64, committed: Result<()>) {
        let is_journaled = self.setup.how[of.0].acknowledge == Acknowledge::Journal;
        match committed {
            Ok(()) if member.link.is_dead() => {}
            Ok(()) => {
                let mut chronicle = self.chronicle.lock();
                chronicle.note_acknowledged(of, serial, is_journaled);
            }
            Err(error) => self.learn(member, of.0, &error),
        }
    }

    fn read(self: &Arc<Self>, member: &Arc<Member>, gateway: usize, name: &str, id: &FileId) {
        let is_open = member.opens.lock().iter().any(|open| open.0 == name);
        match member.gateway.read(id) {
            Ok(bytes) => {
                self.log(format!("{gateway} has read {} of {name}", bytes.len()));
                let mut chronicle = self.chronicle.lock();
                chronicle.note_read((gateway, name), (&bytes, is_open));
            }
            Err(error) => self.learn(member, gateway, &error),
        }
    }

    fn open(self: &Arc<Self>, member: &Arc<Member>, gateway: usize, name: &str, id: &FileId) {
        self.log(format!("{gateway} opens {name}"));
        match member.gateway.files.open(&member.gateway.call(), id) {
            Ok(opened) => {
                let open = (name.to_owned(), *id, opened);
                member.opens.lock().push(open);
            }
            Err(error) => self.learn(member, gateway, &error),
        }
    }

    fn close(self: &Arc<Self>, member: &Arc<Member>, gateway: usize) {
        let Some((name, id, opened)) = member.opens.lock().pop() else {
            return;
        };
        self.log(format!("{gateway} closes {name}"));
        let serial = self.chronicle.lock().next();
        let closed = member.gateway.files.close(&member.gateway.call(), &id);
        drop(opened);
        self.committed(member, (gateway, &name), serial, closed);
    }

    fn remove(self: &Arc<Self>, member: &Arc<Member>, gateway: usize, name: &str) {
        self.log(format!("{gateway} removes {name}"));
        match member.gateway.remove(name) {
            Ok(()) if member.link.is_dead() => {}
            Ok(()) => {
                self.chronicle.lock().note_removed(gateway, name);
                // What is made with the name is another file than the open one.
                member.opens.lock().retain(|open| open.0 != name);
            }
            Err(error) => self.learn(member, gateway, &error),
        }
    }

    fn rename(self: &Arc<Self>, member: &Arc<Member>, gateway: usize, from: &str) {
        let to = NAMES[self.below(3) as usize];
        if from == to {
            return;
        }
        self.log(format!("{gateway} renames {from} to {to}"));
        self.chronicle.lock().renaming(gateway, from, to, true);
        let renamed = member.gateway.rename(from, to);
        self.chronicle.lock().renaming(gateway, from, to, false);
        match renamed {
            Ok(()) if member.link.is_dead() => {}
            Ok(()) => {
                self.chronicle.lock().note_renamed(gateway, from, to);
                // What has either name from now on is another file than the open one.
                let is_other = |name: &str| name != from && name != to;
                member.opens.lock().retain(|open| is_other(&open.0));
            }
            Err(error) => self.learn(member, gateway, &error),
        }
    }

    fn sync(self: &Arc<Self>, member: &Arc<Member>, gateway: usize) {
        self.log(format!("{gateway} syncs"));
        let serial = self.chronicle.lock().next();
        match member.gateway.files.finish(Finish::Sync) {
            Ok(_) if member.link.is_dead() => {}
            Ok(_) => self.chronicle.lock().note_all_acknowledged(gateway, serial),
            Err(error) => {
                self.learn(member, gateway, &error);
                self.chronicle.lock().doubt(gateway);
            }
        }
    }

    /// All that memory has of a file is written back, and forgotten.
    fn evict(self: &Arc<Self>, member: &Arc<Member>, gateway: usize, name: &str, id: &FileId) {
        self.log(format!("{gateway} evicts {name}"));
        let call = member.gateway.call();
        let tree = &member.gateway.tree;
        let node = tree.resolve(&call, id);
        if let Ok(node) = node
            && let Ok(content) = node
                .file()
                .unwrap()
                .changed_content(node.key(), tree.data())
            && let Some(content) = content
        {
            content.stage().unwrap();
            content.forget();
        }
    }

    /// A gateway ends, and another one starts with its folder.
    fn stop(self: &Arc<Self>, member: Arc<Member>, gateway: usize) {
        if self.is_nested.load(Ordering::Relaxed) {
            return;
        }
        self.log(format!("{gateway} ends"));
        self.is_ending.store(true, Ordering::Relaxed);
        let patience = Duration::from_secs(60);
        let lost = member.gateway.files.finish(Finish::Within(patience));
        self.is_ending.store(false, Ordering::Relaxed);
        if member.link.is_dead() {
            return self.restart(gateway, member);
        }
        if lost != Ok(0) {
            self.chronicle
                .lock()
                .fail(format!("{gateway} has lost {lost:?}"));
        }
        *self.members[gateway].lock() = None;
        let Ok(member) = Arc::try_unwrap(member).map_err(drop) else {
            return;
        };
        let Member {
            opens,
            gateway: files,
            link,
            folder,
        } = member;
        drop((opens, files, link));
        self.look_at_kept(gateway, folder.path());
        self.chronicle.lock().restart(gateway, false);
        self.start(gateway, folder);
    }

    fn restart(self: &Arc<Self>, gateway: usize, member: Arc<Member>) {
        let Some(left) = member.link.take_left() else {
            return;
        };
        self.log(format!("{gateway} starts again"));
        *self.members[gateway].lock() = None;
        drop(member);
        self.look_at_kept(gateway, left.path());
        self.chronicle.lock().restart(gateway, true);
        self.start(gateway, left);
    }

    /// Files of conflicts that were not reported yet.
    fn look_at_kept(&self, gateway: usize, folder: &Path) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let Some(data) = path.to_str().unwrap().strip_suffix(".txt") else {
                continue;
            };
            let text = std::fs::read_to_string(&path).unwrap();
            let mut lines = text.lines();
            let name = lines.find_map(|line| line.strip_prefix("key ")).unwrap();
            let mut chronicle = self.chronicle.lock();
            chronicle.note_conflict(gateway, name, Path::new(data));
        }
    }

    /// What a call says that has failed.
    fn learn(&self, member: &Member, gateway: usize, error: &Error) {
        if *error != Error::NotFound {
            self.log(format!("  {gateway} fails: {error:?}"));
        }
        if member.link.is_dead() {
            return;
        }
        let mut chronicle = self.chronicle.lock();
        let text = match error {
            Error::Io(text) => text,
            Error::NotFound | Error::Stale | Error::Exists | Error::TryLater => return,
            _ => {
                chronicle.fail(format!("{gateway}: {error:?}"));
                return;
            }
        };
        if let Some((before, path)) = text.split_once("kept in ") {
            let name = NAMES
                .iter()
                .find(|name| before.contains(&format!(": {name} was")));
            chronicle.note_conflict(gateway, name.unwrap(), Path::new(path));
        } else if text.contains("could not be kept") {
            chronicle.fail(format!("{gateway}: {text}"));
        }
    }

    /// All faults end: everything comes to the store, or is reported.
    fn end(self: &Arc<Self>) {
        self.is_over.store(true, Ordering::Relaxed);
        while self.late_request() {}
        self.log("end".to_owned());
        for gateway in 0..GATEWAYS {
            let member = self.member(gateway);
            while !member.opens.lock().is_empty() {
                self.close(&member, gateway);
            }
            for name in NAMES {
                self.with_id(&member, gateway, name, Self::commit);
            }
            self.sync(&member, gateway);
            for name in NAMES {
                self.with_id(&member, gateway, name, Self::commit);
            }
            self.sync(&member, gateway);
        }
        for gateway in 0..GATEWAYS {
            let member = self.member(gateway);
            let serial = self.chronicle.lock().next();
            let synced = member.gateway.files.finish(Finish::Sync);
            let mut chronicle = self.chronicle.lock();
            match synced {
                Ok(_) => chronicle.note_all_acknowledged(gateway, serial),
                Err(error) => chronicle.fail(format!("{gateway}: at the end: {error}")),
            }
            drop(chronicle);
            member.gateway.tree.root().directory().unwrap().expire();
            for name in NAMES {
                let read = member
                    .gateway
                    .find(name)
                    .and_then(|id| member.gateway.read(&id));
                let is_right = match (&read, self.store.bytes(name)) {
                    (Ok(read), Some(stored)) => *read == stored,
                    (Err(Error::NotFound), None) => true,
                    _ => false,
                };
                if !is_right {
                    let read = read.map(|bytes| bytes.len());
                    let text = format!("{name}: {gateway} has {read:?} at the end");
                    self.chronicle.lock().fail(text);
                }
            }
        }
        self.look_at_uploads();
    }

    /// No upload is left behind, or it is noted.
    fn look_at_uploads(&self) {
        let left = self.store.uploads("").unwrap();
        let known = self.uploads.lock().clone();
        for gateway in 0..GATEWAYS {
            let member = self.members[gateway].lock().take();
            let Ok(member) = Arc::try_unwrap(member.unwrap()).map_err(drop) else {
                continue;
            };
            let Member {
                opens,
                gateway: files,
                link,
                folder,
            } = member;
            drop((opens, files, link));
            let opened = Staging::open(folder.path(), "bucket", 1 << 30).unwrap();
            for upload in &left {
                let is_known = known.contains(&(gateway, upload.id.clone()));
                let mut noted = opened.uploads.iter();
                if is_known && !noted.any(|noted| noted.upload_id == upload.id) {
                    let text = format!("{gateway} has forgotten an upload of {}", upload.key);
                    self.chronicle.lock().fail(text);
                }
            }
        }
    }

    fn check(&self, seed: u64) {
        let failure = self.chronicle.lock().failure();
        if let Some(failure) = failure {
            panic!("seed {seed}: {failure}");
        }
    }
}

/// One history.
pub(super) fn history(seed: u64, setup: Setup) {
    let shared = Shared::new(seed, setup);
    let steps = 20 + shared.below(21);
    for _ in 0..steps {
        let gateway = shared.below(2) as usize;
        shared.operate(gateway);
        shared.check(seed);
    }
    shared.end();
    shared.check(seed);
}
