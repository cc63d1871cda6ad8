//! Random changes of a few files, beside the same in memory: what is read is what was written, and
//! what is committed is in the store, whatever was written back or evicted meanwhile, and whatever
//! answers were lost.

use pagewell_base::mix::Random;
use pagewell_object_client::Error as RemoteError;

use super::super::testing::Fault;
use super::*;

const FILES: u64 = 4;
const FILE_BYTES_MAX: u64 = 3 << 20;

/// One answer in so many is lost, or one request not made.
const FAULTS: u64 = 5;

fn fault(random: &mut Random) -> Fault {
    let error = RemoteError::Unreachable("lost".to_owned());
    match random.below(2 * FAULTS) {
        0 => Fault::Before(error),
        1 => Fault::After(error),
        _ => Fault::None,
    }
}

fn bytes(random: &mut Random, most: u64) -> Vec<u8> {
    let length = 1 + random.below(most);
    let first = random.below(256);
    (first..first + length)
        .map(|at| (at * 7 % 251) as u8 + 1)
        .collect()
}

/// One history.
struct History {
    store: Arc<Store>,
    gateway: Gateway,
    random: Random,
    is_faulty: bool,
    /// What stands before the text of a failed check.
    at: String,
    files: Vec<Option<(FileId, Vec<u8>)>>,
}

impl History {
    fn step(&mut self) {
        let number = self.random.below(FILES) as usize;
        let name = format!("file {number}");
        let Some((id, mut model)) = self.files[number].take() else {
            let made = self.gateway.create(&name);
            self.files[number] = made.ok().map(|id| (id, Vec::new()));
            return;
        };
        let what = self.random.below(20);
        match what {
            0..9 => self.write(&id, &mut model),
            9..12 => {
                let size = self.random.below(FILE_BYTES_MAX) * self.random.below(2);
                self.gateway.cut(&id, size).unwrap();
                model.resize(size as usize, 0);
            }
            12..15 => match self.gateway.commit(&id) {
                Ok(()) => {
                    let stored = self.store.bytes(&name);
                    assert!(
                        stored.as_ref() == Some(&model),
                        "{}: {name}: store",
                        self.at
                    );
                }
                Err(error) => assert!(self.is_faulty, "{}: {error}", self.at),
            },
            15 if !self.is_faulty => {
                self.gateway.remove(&name).unwrap();
                assert_eq!(self.store.bytes(&name), None);
                return;
            }
            _ => match self.gateway.read(&id) {
                Ok(read) => {
                    let pairs = read.iter().zip(&model);
                    let differs = pairs.clone().position(|(one, other)| one != other);
                    let lengths = (read.len(), model.len());
                    assert!(
                        read == model,
                        "{}: {name}: {differs:?} of {lengths:?}",
                        self.at
                    );
                }
                Err(error) => assert!(self.is_faulty, "{}: {error}", self.at),
            },
        }
        self.files[number] = Some((id, model));
    }

    fn write(&mut self, id: &FileId, model: &mut Vec<u8>) {
        let offset = match self.random.below(2) {
            0 => self.random.below(FILE_BYTES_MAX),
            // What is written in order is sent before it is committed.
            _ => (model.len() as u64).min(FILE_BYTES_MAX),
        };
        let data = bytes(&mut self.random, 100_000);
        self.gateway.write(id, offset, &data).unwrap();
        let (start, end) = (offset as usize, offset as usize + data.len());
        model.resize(model.len().max(end), 0);
        model[start..end].copy_from_slice(&data);
    }
}

/// Small enough that most files are sent while they are written.
const PART_BYTES: u64 = 16 << 10;

fn history(seed: u64, steps: usize, is_faulty: bool) {
    let store = Arc::new(Store::new(100, 1000));
    let folder = TempDir::new().unwrap();
    let how = How {
        part_bytes: PART_BYTES * (seed % 2),
        ..MOUNT
    };
    let mut history = History {
        gateway: Gateway::open(&store, &folder, how),
        store,
        random: Random(seed),
        is_faulty,
        at: String::new(),
        files: vec![None; FILES as usize],
    };
    if is_faulty {
        let faults = pagewell_base::sync::Mutex::new(Random(seed + 1));
        history.store.hook(move |_, _| fault(&mut faults.lock()));
    }
    for step in 0..steps {
        history.at = format!("seed {seed}, step {step}");
        history.step();
    }
    history.store.hook(|_, _| Fault::None);
    history.gateway.files.finish(Finish::Sync).unwrap();
    for (number, file) in history.files.iter().enumerate() {
        let Some((_, model)) = file else { continue };
        let stored = history.store.bytes(&format!("file {number}"));
        let differs = stored
            .iter()
            .flatten()
            .zip(model)
            .position(|(one, other)| one != other);
        let lengths = (stored.as_ref().map(Vec::len), model.len());
        assert!(
            stored.as_ref() == Some(model),
            "seed {seed}: file {number} at the end: {differs:?} of {lengths:?}"
        );
    }
    // The last thread of a removed file may be about to leave; what a lost answer leaves behind is
    // swept later.
    while !is_faulty && history.store.uploads_left() > 0 {
        std::thread::yield_now();
    }
}

#[test]
fn files_are_what_was_written() {
    for seed in 0..20 {
        history(seed, 150, false);
    }
}

#[test]
fn lost_answers_lose_nothing() {
    for seed in 0..20 {
        history(1000 + seed, 150, true);
    }
}
