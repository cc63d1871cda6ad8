//! The least file system that a database needs: a main file, a rollback journal and a write-ahead
//! log, each in an extent of its own, and a directory that survives a power cut.
//!
//! ```text
//!   0       4 KiB    64 KiB          8 MiB          12 MiB        16 MiB
//!   │ copy 0 │ copy 1 │ main          │ journal       │ log         │
//! ```
//!
//! **The directory** holds the length of each file or that there is none. It has two copies, each
//! in one sector with a generation and a checksum; a change overwrites the older one, and the
//! newest that is whole counts. So a torn change is no change.
//!
//! **What is promised**, and no more, is what the database asks of a file system:
//! - Bytes and length are durable when a sync after them has returned. The length becomes so
//!   after the bytes ("ordered"), so that what was in an extent before is never taken for data.
//! - Creating and removing a file is durable when it returns, as on NFS.
//!
//! Memory that the log's index is in (`-shm`) is the process's, and is gone with it.

use std::sync::Arc;

use pagewell_base::sync::Mutex;

use crate::random::Random;
use crate::store::{Result, Store};

/// Bytes that the store must have.
pub(crate) const STORE_BYTES: usize = 16 << 20;

const COPY_BYTES: u64 = 4096;
const MAGIC: u64 = u64::from_le_bytes(*b"pagewelv");
const ABSENT: u64 = u64::MAX;
/// Magic, generation, three lengths, checksum.
const WORDS: usize = 6;

/// One of the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum File {
    Main,
    Journal,
    Log,
}

impl File {
    /// First byte in the store, and bytes.
    fn extent(self) -> (u64, u64) {
        match self {
            Self::Main => (64 << 10, (8 << 20) - (64 << 10)),
            Self::Journal => (8 << 20, 4 << 20),
            Self::Log => (12 << 20, 4 << 20),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Directory {
    generation: u64,
    /// [`ABSENT`] when there is none.
    lengths: [u64; 3],
}

/// The files of one store while a process uses them.
pub(crate) struct Volume {
    store: Arc<dyn Store>,
    state: Mutex<State>,
}

struct State {
    current: Directory,
    durable: Directory,
    random: Random,
    shared: Vec<Box<[u8]>>,
    failure: Option<String>,
}

impl Directory {
    fn encode(&self) -> Vec<u8> {
        let mut words = vec![MAGIC, self.generation];
        words.extend(self.lengths);
        words.push(checksum(&words));
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (words, _) = bytes.as_chunks::<8>();
        let words: Vec<u64> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
        let (sum, rest) = words.split_last()?;
        let whole = rest.first() == Some(&MAGIC) && *sum == checksum(rest);
        whole.then(|| Self {
            generation: rest[1],
            lengths: [rest[2], rest[3], rest[4]],
        })
    }
}

fn checksum(words: &[u64]) -> u64 {
    words
        .iter()
        .fold(1, |sum, word| Random::new(sum ^ word).number())
}

impl Volume {
    /// Makes an empty volume.
    pub(crate) fn format(store: &dyn Store) -> Result<()> {
        let empty = Directory {
            generation: 0,
            lengths: [ABSENT; 3],
        };
        store.write(0, &empty.encode())?;
        store.sync()
    }

    /// Reads the directory of what survived.
    pub(crate) fn mount(store: Arc<dyn Store>, random: Random) -> Result<Self> {
        let mut newest: Option<Directory> = None;
        for copy in 0..2 {
            let mut bytes = [0; WORDS * 8];
            store.read(copy * COPY_BYTES, &mut bytes)?;
            let found = Directory::decode(&bytes);
            if found.map(|found| found.generation) >= newest.map(|newest| newest.generation) {
                newest = found;
            }
        }
        let Some(directory) = newest else {
            return Err("no copy of the directory is whole".to_owned());
        };
        let state = State {
            current: directory,
            durable: directory,
            random,
            shared: Vec::new(),
            failure: None,
        };
        Ok(Self {
            store,
            state: Mutex::new(state),
        })
    }

    pub(crate) fn is_cut(&self) -> bool {
        self.store.is_cut()
    }

    /// The first thing that went wrong below.
    pub(crate) fn failure(&self) -> Option<String> {
        self.state.lock().failure.clone()
    }

    /// Keeps the first failure for [`Volume::failure`].
    pub(crate) fn note<T>(&self, result: Result<T>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(error) => {
                self.state.lock().failure.get_or_insert(error);
                None
            }
        }
    }

    pub(crate) fn length(&self, file: File) -> Option<u64> {
        let length = self.state.lock().current.lengths[file as usize];
        (length != ABSENT).then_some(length)
    }

    /// Makes a file that is not there.
    pub(crate) fn create(&self, file: File) -> Result<()> {
        if self.length(file).is_some() {
            return Ok(());
        }
        self.state.lock().current.lengths[file as usize] = 0;
        self.save_directory()
    }

    pub(crate) fn remove(&self, file: File) -> Result<()> {
        self.state.lock().current.lengths[file as usize] = ABSENT;
        self.save_directory()
    }

    pub(crate) fn truncate(&self, file: File, length: u64) {
        self.state.lock().current.lengths[file as usize] = length;
    }

    /// Bytes that were there; the rest of `target` is zeros.
    pub(crate) fn read(&self, file: File, offset: u64, target: &mut [u8]) -> Result<usize> {
        let length = self.length(file).unwrap_or(0);
        let there = length.saturating_sub(offset).min(target.len() as u64);
        let (there, rest) = target.split_at_mut(usize::try_from(there).unwrap_or(0));
        rest.fill(0);
        if !there.is_empty() {
            self.store.read(file.extent().0 + offset, there)?;
        }
        Ok(there.len())
    }

    pub(crate) fn write(&self, file: File, offset: u64, data: &[u8]) -> Result<()> {
        let (start, most) = file.extent();
        let end = offset.saturating_add(data.len() as u64);
        if end > most {
            return Err(format!("{file:?} would need {end} bytes"));
        }
        // What lies between the old end and the new data reads as zeros.
        let length = self.length(file).unwrap_or(0);
        if offset > length {
            let gap = usize::try_from(offset - length).unwrap_or(0);
            self.store.write(start + length, &vec![0; gap])?;
        }
        self.store.write(start + offset, data)?;
        let lengths = &mut self.state.lock().current.lengths[file as usize];
        *lengths = end.max(length);
        Ok(())
    }

    /// All of a volume's bytes, then all of its lengths.
    pub(crate) fn sync(&self) -> Result<()> {
        self.store.sync()?;
        let state = self.state.lock();
        let changed = state.current.lengths != state.durable.lengths;
        drop(state);
        if changed {
            self.write_directory()
        } else {
            Ok(())
        }
    }

    /// What a file was made or removed for must not be on the medium before what came earlier.
    fn save_directory(&self) -> Result<()> {
        self.store.sync()?;
        self.write_directory()
    }

    fn write_directory(&self) -> Result<()> {
        let mut directory = self.state.lock().current;
        directory.generation += 1;
        let copy = directory.generation % 2;
        self.store.write(copy * COPY_BYTES, &directory.encode())?;
        self.store.sync()?;
        let mut state = self.state.lock();
        state.current = directory;
        state.durable = directory;
        Ok(())
    }

    pub(crate) fn randomness(&self, target: &mut [u8]) {
        self.state.lock().random.fill(target);
    }

    /// Region `index` of the memory that connections share, each of `length` bytes; null when
    /// there is none and none is wanted.
    pub(crate) fn shared(&self, index: usize, length: usize, extend: bool) -> *mut u8 {
        let shared = &mut self.state.lock().shared;
        while extend && shared.len() <= index {
            shared.push(vec![0; length].into_boxed_slice());
        }
        shared
            .get_mut(index)
            .map_or(std::ptr::null_mut(), |region| region.as_mut_ptr())
    }
}
