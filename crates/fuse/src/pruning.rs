//! Asking the kernel to forget objects.
//!
//! Problem: the kernel keeps objects until memory is short, which on a large machine is never; as
//! long [`crate::nodes`] has to know its numbers.
//!
//! Rule: when there are more than the table may have, and then each time that a sixteenth of that
//! has come, the mount asks the kernel to give up one part of the table, a sixteenth of all objects
//! (`FUSE_NOTIFY_PRUNE`, Linux 6.18). The kernel keeps those in use: open, watched, a working
//! directory, or a directory above one that it keeps.
//!
//! ```text
//!   objects  ___/|/|/|/|/|/|   a part of all goes whenever as much has come
//!          _/                  as many as there may be
//! ```
//!
//! Weaknesses: with the object go the kernel's pages of it. The kernel also keeps a directory in
//! which a program looked for a missing name. Older kernels refuse: then the table grows with the
//! kernel's own.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use pagewell_counters::names;

use crate::nodes::{Nodes, PARTS};
use crate::notify::NoticeQueue;
use crate::reply::{Device, write_message};
use crate::writing::Writing;

const NOTIFY_PRUNE: i32 = 9;
/// Most objects that the kernel takes in one notification.
const BATCH: usize = 512;

pub(crate) struct Pruning {
    nodes: Arc<Nodes>,
    writing: Arc<Writing>,
    device: Arc<Device>,
    parts: Arc<NoticeQueue<usize>>,
    /// Parts chosen since the mount began: they take turns.
    chosen: AtomicUsize,
}

impl Pruning {
    pub(crate) fn new(nodes: &Arc<Nodes>, writing: &Arc<Writing>, device: &Arc<Device>) -> Self {
        Self {
            nodes: Arc::clone(nodes),
            writing: Arc::clone(writing),
            device: Arc::clone(device),
            parts: Arc::default(),
            chosen: AtomicUsize::new(0),
        }
    }

    /// Runs after each answer that named objects.
    pub(crate) fn prune_if_crowded(&self) {
        if self.nodes.is_crowded() {
            let chosen = self.chosen.fetch_add(1, Ordering::Relaxed);
            self.parts.add(chosen % PARTS);
        }
    }

    pub(crate) fn start(self: &Arc<Self>) -> std::io::Result<()> {
        let pruning = Arc::clone(self);
        let send = move |part| pruning.prune(part);
        self.parts.start("fuse-prune", send)
    }

    pub(crate) fn stop(&self) {
        self.parts.stop();
    }

    fn prune(&self, part: usize) {
        let Some(device) = self.device.descriptor() else {
            return;
        };
        for numbers in self.prunable(part).chunks(BATCH) {
            match ask(device, numbers) {
                Ok(()) => names::FUSE_NODES_PRUNED.add(numbers.len() as u64),
                Err(_) => names::FUSE_PRUNES_REFUSED.add(1),
            }
        }
    }

    /// What the kernel may forget of a part: not files with uncommitted writes, as their verifier
    /// would go with the node.
    pub(crate) fn prunable(&self, part: usize) -> Vec<u64> {
        let mut numbers = self.nodes.part(part);
        numbers.retain(|number| !self.writing.has_uncommitted(*number));
        numbers
    }
}

/// Writes `struct fuse_notify_prune_out` (how many, 12 unused bytes) and the numbers.
fn ask(device: BorrowedFd<'_>, numbers: &[u64]) -> rustix::io::Result<()> {
    let bytes: Vec<u8> = numbers
        .iter()
        .flat_map(|number| number.to_ne_bytes())
        .collect();
    let count = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
    let mut body = [0; 16];
    body[..4].copy_from_slice(&count.to_ne_bytes());
    let pieces = std::iter::once(&bytes[..]);
    write_message(device, NOTIFY_PRUNE, 0, &body, pieces, bytes.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::fd::AsFd;

    #[test]
    fn the_kernel_is_asked_in_its_own_words() {
        let (mut reader, writer) = std::io::pipe().unwrap();
        ask(writer.as_fd(), &[7, 9]).unwrap();
        drop(writer);
        let mut sent = Vec::new();
        reader.read_to_end(&mut sent).unwrap();
        let words = [48, 9, 0, 0, 2, 0, 0, 0u32].map(u32::to_ne_bytes);
        let mut expected = words.concat();
        expected.extend([7, 9u64].map(u64::to_ne_bytes).concat());
        assert_eq!(sent, expected);
    }
}
