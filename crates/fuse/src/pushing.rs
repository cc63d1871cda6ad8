//! Reading ahead from file to file.
//!
//! Problem: a program that reads every file of a directory makes one request for each small file,
//! and waits for each. Copying 2 KiB takes a microsecond, asking for them twenty. The bytes are in
//! the page cache already: the device was read in large pieces.
//!
//! Rule: the order in which directories list their small files is remembered. When files are read
//! in that order, the next [`BATCH_FILES`] are put into the kernel's pages before they are asked
//! for, as far as they are in memory here. The next request is then for the first file after
//! those. Only in sources that never change, where what is pushed can be neither old nor unwanted
//! by a writer.
//!
//! ```text
//!   listed    a b c d e f g h i j ...
//!   asked     ^ ^ ^           ^             c follows b, which followed a
//!   pushed          d e f g h   j ...       (d is asked for at the same time as it is pushed)
//! ```
//!
//! It is done after the answer is sent: the kernel locks the page of a file that is being asked
//! for, so a thread that pushed before it answered could wait for another that does the same.
//!
//! Weaknesses: what is pushed and not read was work in vain (one batch for each time that a program
//! stops half-way); a program that reads in another order than that of the listing, as after
//! sorting, is not helped.

use std::collections::{HashMap, VecDeque};
use std::sync::OnceLock;

use fuser::{INodeNo, Notifier};
use pagewell_base::sync::Mutex;
use pagewell_counters::names;
use pagewell_fs::{Call, Credentials, Entry, FileType};

use crate::front::Front;
use crate::reply::Data;

/// Files that are pushed at a time, and bytes of them.
const BATCH_FILES: usize = 64;
const BATCH_BYTES: u64 = 512 << 10;
/// A file of this size takes about as long to copy as to ask for.
const FILE_BYTES_MAX: u64 = 64 << 10;
/// Files in a row that are asked for before any is pushed.
const RUN_MIN: u32 = 2;
/// Files whose place is remembered: some 6 MiB.
const LISTED_MAX: usize = 1 << 17;
/// Programs that are followed at once.
const STREAMS_MAX: usize = 8;

/// What was listed, and what reads along.
#[derive(Default)]
pub(crate) struct Pushing {
    notifier: OnceLock<Notifier>,
    order: Mutex<Order>,
}

#[derive(Default)]
struct Order {
    /// Nodes and sizes in the order of listing, the oldest first.
    listed: VecDeque<(u64, u64)>,
    /// Place of the first of them, counted from the beginning of the mount.
    first: u64,
    places: HashMap<u64, u64>,
    /// The one that moved last is the last.
    streams: Vec<Stream>,
}

#[derive(Clone, Copy)]
struct Stream {
    /// Place of the file that is asked for next if the program goes on.
    next: u64,
    run: u32,
}

impl Order {
    fn add(&mut self, node: u64, size: u64) {
        if self.places.contains_key(&node) {
            return;
        }
        if self.listed.len() == LISTED_MAX
            && let Some((oldest, _)) = self.listed.pop_front()
        {
            self.first += 1;
            self.places.remove(&oldest);
        }
        self.places
            .insert(node, self.first + self.listed.len() as u64);
        self.listed.push_back((node, size));
    }

    /// A file was asked for; returns the nodes that are to be pushed.
    fn asked(&mut self, node: u64) -> Vec<u64> {
        let Some(place) = self.places.get(&node).copied() else {
            return Vec::new();
        };
        let found = self.streams.iter().position(|stream| stream.next == place);
        let mut stream = match found {
            Some(index) => self.streams.remove(index),
            None => Stream {
                next: place,
                run: 0,
            },
        };
        stream.run = stream.run.saturating_add(1);
        stream.next = place + 1;
        let mut batch = Vec::new();
        if stream.run > RUN_MIN {
            // The very next one is being asked for already.
            let start = usize::try_from(place + 2 - self.first).unwrap_or(usize::MAX);
            let mut bytes = 0;
            for (node, size) in self.listed.iter().skip(start).take(BATCH_FILES) {
                bytes += size;
                if bytes > BATCH_BYTES {
                    break;
                }
                batch.push(*node);
            }
            // That one is not to begin another batch.
            stream.run = RUN_MIN;
        }
        if self.streams.len() == STREAMS_MAX {
            self.streams.remove(0);
        }
        if !batch.is_empty() {
            stream.next = place + 2 + batch.len() as u64;
        }
        self.streams.push(stream);
        batch
    }
}

impl Pushing {
    /// From here on files are pushed.
    pub(crate) fn start(&self, notifier: Notifier) {
        let _ = self.notifier.set(notifier);
    }

    /// A directory lists this object, which the kernel knows as `node` from now on.
    pub(crate) fn listed(&self, node: u64, entry: &Entry) {
        let attributes = &entry.attributes;
        let is_small = (1..=FILE_BYTES_MAX).contains(&attributes.size);
        if self.notifier.get().is_some() && is_small && attributes.file_type == FileType::Regular {
            self.order.lock().add(node, attributes.size);
        }
    }
}

impl Front {
    /// After the answer to a read of `node` from its start.
    pub(crate) fn push_after(&self, node: u64) {
        let Some(notifier) = self.pushing.notifier.get() else {
            return;
        };
        let batch = self.pushing.order.lock().asked(node);
        if batch.is_empty() {
            return;
        }
        // A page may have to be waited for: a program asks for it at this moment.
        let Some(_here) = self.dispatch.here() else {
            return;
        };
        for node in batch {
            if !self.push(notifier, node) {
                break;
            }
        }
    }

    /// Puts a whole small file into the kernel's pages; false when it is not in memory here.
    fn push(&self, notifier: &Notifier, node: u64) -> bool {
        let Some(id) = self.nodes.id(node) else {
            return true; // the kernel does not know it any more
        };
        let credentials = Credentials::root();
        let call = Call {
            credentials: &credentials,
            may_block: false,
        };
        #[allow(clippy::cast_possible_truncation)] // 64 KiB
        let most = FILE_BYTES_MAX as u32;
        let Ok(reply) = self.filesystem.read(&call, &id, 0, most) else {
            return false;
        };
        let mut data = Data::default();
        if !reply.end_of_file || data.add(reply.payload, false).is_err() {
            return false;
        }
        names::FUSE_FILES_PUSHED.add(1);
        let put = data.in_one_piece(|bytes| notifier.store(INodeNo(node), 0, bytes));
        put.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(count: u64) -> Order {
        let mut order = Order::default();
        for node in 0..count {
            order.add(node + 100, 2048);
        }
        order
    }

    #[test]
    fn files_read_in_order_are_pushed_in_batches_without_gaps() {
        let mut order = listed(1000);
        let mut there = std::collections::HashSet::new();
        let mut asked = 0;
        for node in 100..1100 {
            if there.contains(&node) {
                continue;
            }
            asked += 1;
            there.extend(order.asked(node));
        }
        // Of each batch one file is asked for that begins it, and the one after it.
        assert!(asked <= 2 * (1000 / BATCH_FILES as u64) + 8, "{asked}");
    }

    #[test]
    fn nothing_is_pushed_to_who_reads_here_and_there() {
        let mut order = listed(1000);
        for step in 0..500 {
            assert_eq!(order.asked(100 + step * 7 % 1000), [0; 0]);
        }
        assert_eq!(order.asked(5), [0; 0], "not listed");
        assert!(order.streams.len() <= STREAMS_MAX);
    }

    #[test]
    fn memory_is_bounded_and_the_oldest_goes() {
        let mut order = listed(LISTED_MAX as u64 + 10);
        assert_eq!((order.listed.len(), order.first), (LISTED_MAX, 10));
        assert_eq!(order.places.len(), LISTED_MAX);
        assert_eq!(order.asked(100), [0; 0]);
        for node in [110, 111] {
            assert_eq!(order.asked(node), [0; 0]);
        }
        let batch = order.asked(112);
        assert_eq!((batch[0], batch.len()), (114, BATCH_FILES));
    }

    #[test]
    fn large_files_fill_a_batch_sooner() {
        let mut order = Order::default();
        (0..100).for_each(|node| order.add(node, FILE_BYTES_MAX));
        let mut batch = Vec::new();
        for node in 0..3 {
            batch = order.asked(node);
        }
        assert_eq!(batch.len() as u64, BATCH_BYTES / FILE_BYTES_MAX);
    }
}
