//! Several threads at once: nobody can predict the results, but some things stay true.

use std::collections::HashSet;
use std::sync::Mutex;

use pagewell_fs::{
    Access, Attributes, Call, Change, CreateMode, Credentials, Error, FileId, FileSystem,
    RenameMode, SetAttributes, Stability, WccAttributes,
};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngSeed, TestRunner};

use crate::driver::create_mode_of;
use crate::operation::{Operation, Pick, Place, Step, shared_steps};
use crate::tree;

/// Identifiers that any thread got to know.
struct Shared<'a> {
    filesystem: &'a dyn FileSystem,
    known: Mutex<Vec<FileId>>,
    never_blocks: bool,
}

impl Shared<'_> {
    fn id(&self, pick: Pick) -> FileId {
        let known = self.known.lock().unwrap();
        match pick {
            // Mostly the root and the objects made last, which live.
            Pick::Directory(number) | Pick::File(number) | Pick::Live(number) => {
                let recent = known.len().min(24);
                let place = usize::from(number) % (recent + 4);
                let back = known.len().wrapping_sub(1).wrapping_sub(place);
                known.get(back).copied().unwrap_or(known[0])
            }
            Pick::Gone(number) => known[usize::from(number) % known.len()],
            Pick::Malformed => FileId::new(&[1]).unwrap(),
        }
    }

    fn learn(&self, id: FileId) {
        let mut known = self.known.lock().unwrap();
        if !known.contains(&id) {
            known.push(id);
        }
    }

    fn run(&self, step: &Step) {
        let credentials = step.who.credentials();
        let call = |may_block| Call::new(&credentials, may_block);
        let result = match self.run_once(&call(false), &step.operation) {
            Err(Error::WouldBlock) if !self.never_blocks => {
                self.run_once(&call(true), &step.operation)
            }
            result => result,
        };
        if let Err(error) = result {
            let strange = matches!(error, Error::Io(_) | Error::WouldBlock);
            let late = error == Error::TryLater && self.never_blocks;
            assert!(!strange && !late, "{error:?} of {step:?}");
        }
    }

    fn run_once(&self, call: &Call<'_>, operation: &Operation) -> Result<(), Error> {
        let filesystem = self.filesystem;
        match operation {
            Operation::Lookup(pick, name) => {
                self.learn(filesystem.lookup(call, &self.id(*pick), &name.bytes())?.id);
            }
            Operation::Create(pick, name, how) => {
                let how = create_mode_of(*how);
                let created = filesystem.create(call, &self.id(*pick), &name.bytes(), &how)?;
                self.learn(created.entry.id);
            }
            Operation::MakeDirectory(pick, name, request) => {
                let made =
                    filesystem.make_directory(call, &self.id(*pick), &name.bytes(), request)?;
                self.learn(made.entry.id);
            }
            Operation::MakeSymlink(pick, name, target, request) => {
                let (id, name, target) = (self.id(*pick), name.bytes(), target.bytes());
                let made = filesystem.make_symlink(call, &id, &name, &target, request)?;
                self.learn(made.entry.id);
            }
            Operation::MakeNode(pick, name, kind, request) => {
                let id = self.id(*pick);
                let made = filesystem.make_node(call, &id, &name.bytes(), *kind, request)?;
                self.learn(made.entry.id);
            }
            Operation::Link(object, pick, name) => {
                let (object, id) = (self.id(*object), self.id(*pick));
                filesystem.link(call, &object, &id, &name.bytes())?;
            }
            Operation::Remove(pick, name) => {
                filesystem.remove(call, &self.id(*pick), &name.bytes())?;
            }
            Operation::RemoveDirectory(pick, name) => {
                filesystem.remove_directory(call, &self.id(*pick), &name.bytes())?;
            }
            Operation::Rename(from, old, to, new) => {
                let (from, to) = (self.id(*from), self.id(*to));
                filesystem.rename(
                    call,
                    (&from, &old.bytes()),
                    (&to, &new.bytes()),
                    RenameMode::Replace,
                )?;
            }
            other => self.run_on_object(call, other)?,
        }
        Ok(())
    }

    fn run_on_object(&self, call: &Call<'_>, operation: &Operation) -> Result<(), Error> {
        let filesystem = self.filesystem;
        let place = |place: Place| match place {
            Place::At(offset) => offset,
            Place::PastLimit(more) => {
                let limit = filesystem.limits().file_bytes_max;
                limit.saturating_add(more)
            }
        };
        match operation {
            Operation::Attributes(pick) => {
                filesystem.attributes(call, &self.id(*pick))?;
            }
            Operation::SetAttributes(pick, request, size, _) => {
                let request = SetAttributes {
                    size: size.map(place),
                    ..*request
                };
                filesystem.set_attributes(call, &self.id(*pick), &request, None)?;
            }
            Operation::Access(pick, wanted) => {
                let (granted, _) = filesystem.access(call, &self.id(*pick), *wanted)?;
                assert_eq!(granted & *wanted, granted, "more than asked for");
                assert_eq!(granted & Access::ALL, granted);
            }
            Operation::ReadLink(pick) => {
                filesystem.read_link(call, &self.id(*pick))?;
            }
            Operation::Read(pick, at, count) => {
                let reply = filesystem.read(call, &self.id(*pick), place(*at), *count)?;
                assert!(reply.payload.len() <= *count as usize);
                let mut bytes = vec![0; reply.payload.len()];
                reply.payload.copy_to(&mut bytes, true)?;
            }
            Operation::Write(pick, at, count, byte, stability) => {
                let data = vec![*byte; *count];
                filesystem.write(call, &self.id(*pick), place(*at), &data, *stability)?;
            }
            Operation::Commit(pick, offset, count) => {
                filesystem.commit(call, &self.id(*pick), *offset, *count)?;
            }
            Operation::ReadDirectory(pick, _, with_attributes) => {
                let mut seen = HashSet::new();
                let id = self.id(*pick);
                filesystem.read_directory(call, &id, 0, *with_attributes, &mut |entry| {
                    seen.insert(entry.cookie)
                })?;
            }
            other => unreachable!("{other:?}"),
        }
        Ok(())
    }
}

/// Random operations of several threads; then the tree must be whole.
pub(crate) fn random_operations(filesystem: &dyn FileSystem, never_blocks: bool, seed: u64) {
    const THREADS: usize = 4;
    const STEPS: usize = 1500;
    let mut runner = TestRunner::new(Config {
        rng_seed: RngSeed::Fixed(seed),
        failure_persistence: None,
        ..Config::default()
    });
    let scripts: Vec<Vec<Step>> = (0..THREADS)
        .map(|_| shared_steps(STEPS).new_tree(&mut runner).unwrap().current())
        .collect();
    let shared = Shared {
        filesystem,
        known: Mutex::new(vec![filesystem.root()]),
        never_blocks,
    };
    std::thread::scope(|scope| {
        for script in &scripts {
            scope.spawn(|| script.iter().for_each(|step| shared.run(step)));
        }
    });
    let alive = tree::check(filesystem);
    let credentials = Credentials::root();
    let call = Call::new(&credentials, true);
    let known = shared.known.into_inner().unwrap();
    assert!(known.len() > 20, "only {} objects were made", known.len());
    for id in known {
        match filesystem.attributes(&call, &id) {
            Ok(_) => assert!(alive.contains(&id), "{id:?} lives without a name"),
            Err(error) => assert_eq!(error, Error::Stale),
        }
    }
}

/// Many changes of one file and one directory at once: what a change reports as before is what
/// an earlier change reported as after.
pub(crate) fn consistent_changes(filesystem: &dyn FileSystem) {
    const ROUNDS: u32 = 300;
    let credentials = Credentials::root();
    let call = Call::new(&credentials, true);
    let root = filesystem.root();
    let plain = SetAttributes::default();
    let file = filesystem.create(&call, &root, b"file", &CreateMode::Guarded(plain));
    let file = file.unwrap().entry;
    let directory = filesystem.make_directory(&call, &root, b"directory", &plain);
    let directory = directory.unwrap().entry;
    let on_file = |worker: u32, round: u32| {
        if (worker + round).is_multiple_of(3) {
            let request = SetAttributes {
                mode: Some(round & 0o777),
                ..plain
            };
            filesystem
                .set_attributes(&Call::new(&credentials, true), &file.id, &request, None)
                .unwrap()
        } else {
            let data = vec![1; 1 + round as usize];
            let offset = u64::from(worker * 100);
            let written = filesystem.write(
                &Call::new(&credentials, true),
                &file.id,
                offset,
                &data,
                Stability::Unstable,
            );
            written.unwrap().change
        }
    };
    let on_directory = |worker: u32, round: u32| {
        let name = format!("{worker}");
        if round.is_multiple_of(2) {
            let made = filesystem.make_directory(
                &Call::new(&credentials, true),
                &directory.id,
                name.as_bytes(),
                &plain,
            );
            made.unwrap().parent
        } else {
            let removed = filesystem.remove_directory(
                &Call::new(&credentials, true),
                &directory.id,
                name.as_bytes(),
            );
            removed.unwrap()
        }
    };
    check_changes(&file.attributes, &in_threads(ROUNDS, &on_file));
    check_changes(&directory.attributes, &in_threads(ROUNDS, &on_directory));
}

fn in_threads(rounds: u32, change: &(impl Fn(u32, u32) -> Change + Sync)) -> Vec<Change> {
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|worker| {
                let changes = move |round| change(worker, round);
                scope.spawn(move || (0..rounds).map(changes).collect::<Vec<_>>())
            })
            .collect();
        let parts = threads.into_iter().map(|thread| thread.join().unwrap());
        parts.flatten().collect()
    })
}

fn check_changes(start: &Attributes, changes: &[Change]) {
    let key = |wcc: WccAttributes| (wcc.size, wcc.modified, wcc.changed);
    let mut afters: HashSet<_> = changes
        .iter()
        .filter_map(|change| change.after.map(|after| key(after.wcc())))
        .collect();
    afters.insert(key(start.wcc()));
    for before in changes.iter().filter_map(|change| change.before) {
        assert!(afters.contains(&key(before)), "{before:?} was never after");
    }
}
