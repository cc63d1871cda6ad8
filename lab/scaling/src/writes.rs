//! What threads wrote, and which of it they share.

use std::collections::HashMap;

/// Bytes of a cache line.
const LINE_BYTES: u64 = 64;

/// One thread among those that are watched.
pub(crate) type Thread = usize;

/// One write of a thread to memory.
#[derive(Clone, Copy, Debug)]
struct Write {
    thread: Thread,
    line: u64,
    instruction: u64,
    is_locked: bool,
}

/// All that was seen.
#[derive(Debug, Default)]
pub(crate) struct Writes {
    all: Vec<Write>,
    /// By number of the call.
    system_calls: HashMap<u64, u64>,
    instructions: u64,
}

/// How often an instruction wrote to lines that are shared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    /// Address of the instruction.
    pub(crate) instruction: u64,
    /// Writes.
    pub(crate) writes: u64,
    /// Atomic read-modify-writes.
    pub(crate) locked: u64,
}

impl Writes {
    /// A thread has written at `address`.
    pub(crate) fn wrote(
        &mut self,
        thread: Thread,
        address: u64,
        instruction: u64,
        is_locked: bool,
    ) {
        self.all.push(Write {
            thread,
            line: address / LINE_BYTES,
            instruction,
            is_locked,
        });
    }

    /// A thread has made a system call.
    pub(crate) fn called(&mut self, number: u64) {
        *self.system_calls.entry(number).or_default() += 1;
    }

    /// A thread has done an instruction.
    pub(crate) fn stepped(&mut self) {
        self.instructions += 1;
    }

    /// Instructions in all.
    pub(crate) fn instructions(&self) -> u64 {
        self.instructions
    }

    /// System calls in all, by number.
    pub(crate) fn system_calls(&self) -> &HashMap<u64, u64> {
        &self.system_calls
    }

    /// Atomic read-modify-writes, of whatever line.
    pub(crate) fn locked(&self) -> u64 {
        self.all.iter().filter(|write| write.is_locked).count() as u64
    }

    /// The instructions that wrote to lines to which more than one thread wrote, most writes
    /// first.
    pub(crate) fn shared(&self) -> Vec<Place> {
        // The only writer of each line; none where there are several.
        let mut writers: HashMap<u64, Option<Thread>> = HashMap::new();
        for write in &self.all {
            let writer = writers.entry(write.line).or_insert(Some(write.thread));
            if *writer != Some(write.thread) {
                *writer = None;
            }
        }
        let mut places: HashMap<u64, Place> = HashMap::new();
        for write in &self.all {
            if writers.get(&write.line) != Some(&None) {
                continue;
            }
            let place = places.entry(write.instruction).or_default();
            place.instruction = write.instruction;
            place.writes += 1;
            place.locked += u64::from(write.is_locked);
        }
        let mut places: Vec<_> = places.into_values().collect();
        places.sort_by_key(|place| (u64::MAX - place.writes, place.instruction));
        places
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lines_that_several_threads_write_are_shared() {
        let mut writes = Writes::default();
        writes.wrote(0, 640, 1, true);
        writes.wrote(0, 700, 1, true);
        writes.wrote(1, 703, 2, false);
        writes.wrote(1, 1000, 3, true);
        writes.wrote(1, 1001, 3, true);
        let place = |instruction, writes, locked| Place {
            instruction,
            writes,
            locked,
        };
        assert_eq!(writes.shared(), [place(1, 2, 2), place(2, 1, 0)]);
        assert_eq!(writes.locked(), 4);
    }
}
