//! Reading ahead from file to file.
//!
//! Problem: a program that reads every file of a directory waits for one request for each small
//! file. To copy 2 KiB takes a microsecond, a request twenty.
//!
//! Rule: the order in which directories list their small files is remembered. While a program reads
//! in that order, the mount puts the next [`BATCH_FILES`], as far as they are in memory here, into
//! the kernel's pages. Only in sources that never change, where such data is neither old nor in the
//! way of a writer.
//!
//! ```text
//!   listed    a b c d e f g h i j ...
//!   asked     ^ ^ ^           ^             c follows b, which followed a
//!   put             d e f g h   j ...       (the request for d comes while d is put)
//! ```
//!
//! After the answer: the kernel locks the page that it asks for, so threads that put pages before
//! they answered could wait for each other.
//!
//! Weaknesses: one batch is copied in vain for each program that stops early; one that reads in
//! another order gains nothing.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use pagewell_base::sync::Mutex;
use pagewell_counters::names;
use pagewell_fs::{Entry, FileId, FileSystem, FileType};

use crate::caller::as_root;
use crate::dispatch::{Dispatch, Memory};
use crate::nodes::Nodes;
use crate::read_around::{PIECE_BYTES, ReadAround};
use crate::reply::{Data, Device};

/// Most files of a batch, and bytes of them.
const BATCH_FILES: usize = 64;
const BATCH_BYTES: u64 = 512 << 10;
/// A file of this size takes about as long to copy as to ask for.
const FILE_BYTES_MAX: u64 = 64 << 10;
/// Files that a program reads in a row before a batch.
const RUN_MIN: u32 = 2;
/// Files in the remembered order: some 6 MiB.
const LISTED_MAX: usize = 1 << 17;
const STREAMS_MAX: usize = 8;

pub(crate) struct KernelPrefill {
    is_on: bool,
    files: Arc<dyn FileSystem>,
    nodes: Arc<Nodes>,
    dispatch: Arc<Dispatch>,
    device: Arc<Device>,
    order: Mutex<Order>,
    around: ReadAround,
}

#[derive(Default)]
struct Order {
    listed: VecDeque<(u64, u64)>,
    /// Place of the first of them, counted from the beginning of the mount.
    first: u64,
    places: HashMap<u64, u64>,
    /// The one that moved last comes last.
    streams: Vec<Stream>,
}

#[derive(Clone, Copy)]
struct Stream {
    /// Place of the next file if the program goes on.
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

    /// Notes a read of a file's beginning; returns the nodes of the batch to put, if any.
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
            // The program asks for the very next one at this moment.
            let start = usize::try_from(place + 2 - self.first).unwrap_or(usize::MAX);
            let mut bytes = 0;
            for (node, size) in self.listed.iter().skip(start).take(BATCH_FILES) {
                bytes += size;
                if bytes > BATCH_BYTES {
                    break;
                }
                batch.push(*node);
            }
            // The request for that one must not begin another batch.
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

impl KernelPrefill {
    pub(crate) fn new(
        is_on: bool,
        files: &Arc<dyn FileSystem>,
        nodes: &Arc<Nodes>,
        dispatch: &Arc<Dispatch>,
        device: &Arc<Device>,
    ) -> Self {
        Self {
            is_on,
            files: Arc::clone(files),
            nodes: Arc::clone(nodes),
            dispatch: Arc::clone(dispatch),
            device: Arc::clone(device),
            order: Mutex::default(),
            around: ReadAround::default(),
        }
    }

    /// A directory lists this object, which the kernel knows as `node` from now on.
    pub(crate) fn listed(&self, node: u64, entry: &Entry) {
        let attributes = &entry.attributes;
        let is_small = (1..=FILE_BYTES_MAX).contains(&attributes.size);
        if self.is_on && is_small && attributes.file_type == FileType::Regular {
            self.order.lock().add(node, attributes.size);
        }
    }

    /// Runs after the answer to a read: puts what may be read next into the kernel's pages, on a
    /// thread that may wait for locked ones.
    pub(crate) fn after_read(&self, node: u64, offset: u64, size: u32) {
        if !self.is_on {
            return;
        }
        let batch = match offset {
            0 => self.order.lock().asked(node),
            _ => Vec::new(),
        };
        if !batch.is_empty()
            && let Some(_here) = self.dispatch.here(Memory::None)
        {
            batch.into_iter().all(|node| self.put_file(node));
        }
        self.put_around(node, offset, size);
    }

    fn put_file(&self, node: u64) -> bool {
        let Some(id) = self.nodes.known(node) else {
            return true; // the kernel has forgotten it
        };
        let Some(data) = self.in_memory(&id, 0, FILE_BYTES_MAX) else {
            return false;
        };
        names::FUSE_FILES_PUSHED.add(1);
        self.device.store(node, 0, &data)
    }

    fn put_around(&self, node: u64, offset: u64, size: u32) {
        let mut pieces = self.around.asked(node, offset, size).peekable();
        let (Some(_), Some(id)) = (pieces.peek(), self.nodes.known(node)) else {
            return;
        };
        let Some(_here) = self.dispatch.here(Memory::None) else {
            return;
        };
        for piece in pieces {
            // This read has fetched the rest from storage, and it can follow later.
            let Some(data) = self.in_memory(&id, piece, PIECE_BYTES) else {
                return;
            };
            if data.len() > 0 && !self.device.store(node, piece, &data) {
                return;
            }
            names::FUSE_AROUND_BYTES.add(data.len() as u64);
            self.around.put(node, piece);
        }
    }

    /// The bytes of a range, if all of it is in memory. Else the source begins to fetch it.
    fn in_memory(&self, id: &FileId, offset: u64, length: u64) -> Option<Data> {
        let wanted = u32::try_from(length).ok()?;
        let reply = self.files.read(&as_root(false), id, offset, wanted).ok()?;
        let is_all = reply.end_of_file || reply.payload.len() as u64 == length;
        let mut data = Data::default();
        (is_all && data.add(reply.payload, false).is_ok()).then_some(data)
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
    fn files_read_in_order_are_put_in_batches_without_gaps() {
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
    fn a_program_that_reads_here_and_there_gets_no_batch() {
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
