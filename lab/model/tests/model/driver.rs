//! Runs operations on a file system and on the reference, and compares.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Debug;

use pagewell_fs::{
    Call, Change, CreateMode, Created, Credentials, Entry, Error, FileId, FileSystem, FileType,
    Result, SetAttributes, Stability, Timestamp,
};

use crate::object::{Before, Body};
use crate::operation::{Creation, Guard, Operation, Pick, Place, Step};
use crate::reference::{Expected, How, Model, Named, Traits};

/// A file system under test.
pub(crate) trait Instance {
    fn filesystem(&self) -> &dyn FileSystem;

    /// Ends the life of the file system and begins another on the same storage; false when that
    /// cannot be.
    fn restart(&mut self) -> bool;
}

pub(crate) struct Driver<'a> {
    pub(crate) instance: Box<dyn Instance>,
    pub(crate) model: Model,
    /// Identifier of each object of the model.
    ids: Vec<FileId>,
    free_at_start: u64,
    /// Name of the operation that runs.
    operation: String,
    outcomes: &'a RefCell<Outcomes>,
}

fn superuser() -> Credentials {
    Credentials::root()
}

/// How often each operation ended how.
pub(crate) type Outcomes = BTreeMap<String, BTreeMap<String, u32>>;

/// A pattern that shows where each byte belongs.
fn pattern(offset: u64, count: usize, byte: u8) -> Vec<u8> {
    (offset..)
        .take(count)
        .map(|at| byte.wrapping_add((at / 256) as u8).wrapping_add(at as u8))
        .collect()
}

impl<'a> Driver<'a> {
    /// The root must be an empty directory.
    pub(crate) fn new(
        instance: Box<dyn Instance>,
        traits: Traits,
        outcomes: &'a RefCell<Outcomes>,
    ) -> Self {
        let mut start = Timestamp::now();
        start.seconds -= 1; // file systems may use a clock with a coarser grain
        let filesystem = instance.filesystem();
        let traits = Traits {
            file_bytes_max: filesystem.limits().file_bytes_max,
            ..traits
        };
        let who = superuser();
        let call = Call::new(&who, true);
        let root = filesystem.root();
        let seen = filesystem.attributes(&call, &root).unwrap();
        let free_at_start = filesystem.statistics(&call).unwrap().bytes_free;
        Self {
            ids: vec![root],
            model: Model::new(traits, seen.mode, seen.uid, seen.gid, start),
            instance,
            free_at_start,
            operation: String::new(),
            outcomes,
        }
    }

    pub(crate) fn run(&mut self, steps: &[Step]) {
        for (number, step) in steps.iter().enumerate() {
            let run = || self.step(step);
            if let Err(panic) = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)) {
                eprintln!("step {number} of {}: {step:?}", steps.len());
                std::panic::resume_unwind(panic);
            }
        }
        self.verify_all();
    }

    /// Makes a call first as a thread that may not wait, then as one that may; asks again when told
    /// to, as a client does.
    pub(crate) fn call<T: Debug>(
        &self,
        who: &Credentials,
        action: impl Fn(&dyn FileSystem, &Call<'_>) -> Result<T>,
    ) -> Result<T> {
        let filesystem = self.instance.filesystem();
        let mut call = Call::new(who, false);
        let mut result = action(filesystem, &call);
        if self.model.traits.never_blocks {
            return result;
        }
        call.may_block = true;
        if result.as_ref().err() == Some(&Error::WouldBlock) {
            result = action(filesystem, &call);
        }
        for _ in 0..1000 {
            if result.as_ref().err() != Some(&Error::TryLater) {
                break;
            }
            result = action(filesystem, &call);
        }
        result
    }

    /// Compares how both ended; gives the values when both succeeded.
    pub(crate) fn agree<T: Debug, M: Debug>(
        &self,
        actual: Result<T>,
        expected: Expected<M>,
    ) -> Option<(T, M)> {
        let outcome = match &actual {
            Ok(_) => "Ok".to_owned(),
            Err(error) => format!("{error:?}"),
        };
        let mut outcomes = self.outcomes.borrow_mut();
        let of_operation = outcomes.entry(self.operation.clone()).or_default();
        *of_operation.entry(outcome).or_default() += 1;
        match (actual, expected) {
            (Ok(actual), Ok(expected)) => Some((actual, expected)),
            (Err(error), Err(errors)) => {
                assert!(errors.contains(&error), "{error:?}, expected {errors:?}");
                None
            }
            (actual, expected) => panic!("{actual:?}\n  expected {expected:?}"),
        }
    }

    pub(crate) fn pick(&self, pick: Pick) -> Named {
        let objects = &self.model.objects;
        let among = |number: u16, wanted: &dyn Fn(usize) -> bool| {
            let all: Vec<usize> = (0..objects.len()).filter(|one| wanted(*one)).collect();
            let count = all.len().max(1);
            Some(all.get(usize::from(number) % count).copied().unwrap_or(0))
        };
        match pick {
            Pick::Directory(number) => among(number, &|one| {
                objects[one].alive() && objects[one].is_directory()
            }),
            Pick::File(number) => among(number, &|one| {
                objects[one].alive() && objects[one].file_type() == FileType::Regular
            }),
            Pick::Live(number) => among(number, &|one| objects[one].alive()),
            Pick::Gone(number) => among(number, &|one| !objects[one].alive()),
            Pick::Malformed => None,
        }
    }

    pub(crate) fn id(&self, named: Named) -> FileId {
        named.map_or_else(
            || FileId::new(&[0xff; 3]).unwrap(),
            |number| self.ids[number],
        )
    }

    pub(crate) fn before(&self, named: Named) -> Option<Before> {
        named.map(|number| self.model.objects[number].before())
    }

    /// A change report about the object, whose state before was `before`.
    pub(crate) fn meet_change(&mut self, number: usize, before: Option<Before>, change: &Change) {
        match (&change.before, before) {
            (Some(seen), Some(before)) => before.check(seen),
            (None, _) => assert!(!self.model.traits.before_always, "no attributes before"),
            (Some(_), None) => panic!("before of what was no object"),
        }
        if let Some(after) = &change.after {
            self.model.meet(number, after);
        } else {
            panic!("no attributes after");
        }
    }

    /// The object the model expects was found or made.
    pub(crate) fn meet_entry(&mut self, number: usize, entry: &Entry) {
        if number == self.ids.len() {
            assert!(!self.ids.contains(&entry.id), "identifier used again");
            self.ids.push(entry.id);
        }
        if self.model.traits.identifiers_stay {
            assert_eq!(entry.id, self.ids[number], "identifier");
        }
        self.model.meet(number, &entry.attributes);
    }

    pub(crate) fn meet_created(
        &mut self,
        parent: Named,
        before: Option<Before>,
        made: (Created, usize),
    ) {
        let (created, number) = made;
        self.meet_entry(number, &created.entry);
        let parent = parent.unwrap_or(0);
        self.meet_change(parent, before, &created.parent);
    }

    fn place(&self, place: Place) -> u64 {
        match place {
            Place::At(offset) => offset,
            Place::PastLimit(more) => self.model.traits.file_bytes_max.saturating_add(more),
        }
    }

    fn step(&mut self, step: &Step) {
        let who = step.who.credentials();
        let shown = format!("{:?}", step.operation);
        self.operation = shown.split('(').next().unwrap_or_default().to_owned();
        match &step.operation {
            Operation::Attributes(..)
            | Operation::SetAttributes(..)
            | Operation::Access(..)
            | Operation::ReadLink(..)
            | Operation::Read(..)
            | Operation::Write(..)
            | Operation::Commit(..) => self.step_on_object(&who, &step.operation),
            Operation::Create(..)
            | Operation::MakeDirectory(..)
            | Operation::MakeSymlink(..)
            | Operation::MakeNode(..) => self.step_making(&who, &step.operation),
            Operation::Lookup(..)
            | Operation::Link(..)
            | Operation::Remove(..)
            | Operation::RemoveDirectory(..)
            | Operation::Rename(..) => self.step_on_names(&who, &step.operation),
            Operation::ReadDirectory(pick, page, with_attributes) => {
                let named = self.pick(*pick);
                self.read_directory(&who, named, *page, *with_attributes);
            }
            Operation::Statistics => {
                let result = self.call(&who, |filesystem, call| filesystem.statistics(call));
                let found = result.unwrap();
                assert!(found.bytes_free <= found.bytes_total);
                assert!(found.files_available <= found.files_free);
            }
            Operation::Restart => {
                if self.instance.restart() {
                    let root = self.instance.filesystem().root();
                    assert_eq!(root, self.ids[0], "the root's identifier after a restart");
                }
            }
            Operation::VerifyAll => self.verify_all(),
        }
    }

    fn step_on_object(&mut self, who: &Credentials, operation: &Operation) {
        match *operation {
            Operation::Attributes(pick) => {
                let named = self.pick(pick);
                let id = self.id(named);
                let actual = self.call(who, |filesystem, call| filesystem.attributes(call, &id));
                if let Some((seen, number)) = self.agree(actual, self.model.live(named)) {
                    self.model.meet(number, &seen);
                }
            }
            Operation::SetAttributes(pick, mut request, size, guard) => {
                let named = self.pick(pick);
                request.size = size.map(|size| self.place(size));
                self.set_attributes(who, named, &request, guard);
            }
            Operation::Access(pick, wanted) => {
                let named = self.pick(pick);
                let id = self.id(named);
                let actual =
                    self.call(who, |filesystem, call| filesystem.access(call, &id, wanted));
                let expected = self.model.access(who, named, wanted);
                if let Some(((granted, seen), expected)) = self.agree(actual, expected) {
                    assert_eq!(granted, expected, "access");
                    self.model.meet(named.unwrap(), &seen);
                }
            }
            Operation::ReadLink(pick) => {
                let named = self.pick(pick);
                let id = self.id(named);
                let actual = self.call(who, |filesystem, call| filesystem.read_link(call, &id));
                if let Some(((target, seen), expected)) =
                    self.agree(actual, self.model.read_link(named))
                {
                    assert_eq!(target, expected, "target");
                    self.model.note_read(named.unwrap());
                    self.model.meet(named.unwrap(), &seen);
                }
            }
            Operation::Read(pick, place, count) => {
                let (named, offset) = (self.pick(pick), self.place(place));
                self.read(who, named, offset, count);
            }
            Operation::Write(pick, place, count, byte, stability) => {
                let (named, offset) = (self.pick(pick), self.place(place));
                let data = pattern(offset.min(1 << 50), count, byte);
                self.write(who, named, offset, &data, stability);
            }
            Operation::Commit(pick, offset, count) => {
                let named = self.pick(pick);
                let id = self.id(named);
                let before = self.before(named);
                let actual = self.call(who, |filesystem, call| {
                    filesystem.commit(call, &id, offset, count)
                });
                if let Some((done, number)) = self.agree(actual, self.model.commit(named)) {
                    assert_eq!(
                        done.verifier,
                        self.instance.filesystem().write_verifier(None)
                    );
                    self.meet_change(number, before, &done.change);
                }
            }
            _ => unreachable!("{operation:?}"),
        }
    }

    fn set_attributes(
        &mut self,
        who: &Credentials,
        named: Named,
        request: &SetAttributes,
        guard: Guard,
    ) {
        let id = self.id(named);
        let superuser = superuser();
        let current = self.call(&superuser, |filesystem, call| {
            filesystem.attributes(call, &id)
        });
        let changed = current.map(|seen| seen.changed).unwrap_or_default();
        let guard_time = match guard {
            Guard::None => None,
            Guard::Matching => Some(changed),
            Guard::Wrong => Some(Timestamp {
                seconds: changed.seconds - 1,
                ..changed
            }),
        };
        let before = self.before(named);
        let actual = self.call(who, |filesystem, call| {
            filesystem.set_attributes(call, &id, request, guard_time)
        });
        let matches = !matches!(guard, Guard::Wrong);
        let expected = self.model.set_attributes(who, named, request, matches);
        if let Some((change, ())) = self.agree(actual, expected) {
            self.meet_change(named.unwrap(), before, &change);
        } else if let Some(number) = named {
            self.verify(number); // nothing was changed
        }
    }

    fn read(&mut self, who: &Credentials, named: Named, offset: u64, count: u32) {
        let id = self.id(named);
        let actual = self.call(who, |filesystem, call| {
            filesystem.read(call, &id, offset, count)
        });
        let expected = self.model.read(who, named, offset, count);
        if let Some((reply, (bytes, end))) = self.agree(actual, expected) {
            let mut seen = vec![0; reply.payload.len()];
            assert_eq!(reply.payload.copy_to(&mut seen, true), Ok(bytes.len()));
            assert!(seen == bytes, "content at {offset}, {count} bytes");
            assert_eq!(reply.end_of_file, end, "end of file");
            self.model.meet(named.unwrap(), &reply.attributes);
            self.model.note_read(named.unwrap());
        }
    }

    fn write(
        &mut self,
        who: &Credentials,
        named: Named,
        offset: u64,
        data: &[u8],
        stability: Stability,
    ) {
        let id = self.id(named);
        let before = self.before(named);
        let actual = self.call(who, |filesystem, call| {
            filesystem.write(call, &id, offset, data, stability)
        });
        let expected = self.model.write(who, named, offset, data);
        if let Some((done, ())) = self.agree(actual, expected) {
            assert_eq!(done.count as usize, data.len(), "bytes written");
            assert!(done.committed >= stability, "less durable than asked for");
            assert_eq!(
                done.verifier,
                self.instance.filesystem().write_verifier(None)
            );
            self.meet_change(named.unwrap(), before, &done.change);
        }
    }

    /// Compares everything there is.
    pub(crate) fn verify_all(&mut self) {
        (0..self.ids.len()).for_each(|number| self.verify(number));
    }

    fn verify(&mut self, number: usize) {
        let id = self.ids[number];
        let who = superuser();
        let seen = self.call(&who, |filesystem, call| filesystem.attributes(call, &id));
        if !self.model.objects[number].alive() {
            assert_eq!(seen, Err(Error::Stale), "object {number} is gone");
            return;
        }
        self.model.meet(number, &seen.unwrap());
        match self.model.objects[number].body.clone() {
            Body::Regular(content) => {
                for place in content.places() {
                    self.read(&who, Some(number), place, 5000);
                }
                // The end of the file is told with its last byte, not before and not later.
                let tail = content.size.min(100);
                for count in [tail as u32, tail.saturating_sub(1) as u32, 0] {
                    self.read(&who, Some(number), content.size - tail, count);
                    self.read(&who, Some(number), content.size, count);
                }
            }
            Body::Symlink(target) => {
                let seen = self.call(&who, |filesystem, call| filesystem.read_link(call, &id));
                assert_eq!(seen.unwrap().0, target, "target");
                self.model.note_read(number);
            }
            Body::Directory { parent, entries } => {
                self.read_directory(&who, Some(number), 7, true);
                let dots = [(b"..".to_vec(), parent), (b".".to_vec(), number)];
                for (name, found) in entries.into_iter().chain(dots) {
                    let seen =
                        self.call(&who, |filesystem, call| filesystem.lookup(call, &id, &name));
                    self.meet_entry(found, &seen.unwrap());
                }
            }
            Body::Node(..) => {}
        }
    }

    /// Removes everything and says how many bytes fewer are free than at the start.
    pub(crate) fn remove_all(mut self) -> i128 {
        crate::tree::remove_all(self.instance.filesystem());
        self.model.objects.truncate(1);
        let who = superuser();
        let found = self.call(&who, |filesystem, call| filesystem.statistics(call));
        i128::from(self.free_at_start) - i128::from(found.unwrap().bytes_free)
    }
}

pub(crate) fn how_of(creation: Creation) -> How {
    match creation {
        Creation::Unchecked(request) => How::Unchecked(request),
        Creation::Guarded(request) => How::Guarded(request),
        Creation::Exclusive(byte) => How::Exclusive([byte, 0xff, 0, 0x80, 1, 2, 3, byte]),
    }
}

pub(crate) fn create_mode_of(creation: Creation) -> CreateMode {
    create_mode(how_of(creation))
}

pub(crate) fn create_mode(how: How) -> CreateMode {
    match how {
        How::Unchecked(request) => CreateMode::Unchecked(request),
        How::Guarded(request) => CreateMode::Guarded(request),
        How::Exclusive(verifier) => CreateMode::Exclusive(verifier),
    }
}
