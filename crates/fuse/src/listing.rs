//! Listing directories.
//!
//! The crate `fuser` says only when an entry did not fit. So entries are collected first, a few
//! more than fitted the last time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use fuser::{Generation, INodeNo, ReplyDirectory, ReplyDirectoryPlus};
use pagewell_counters::names;
use pagewell_fs::{DirectoryEntry, Entry, Error, FileId, FileSystem, Result};

use crate::caller::Caller;
use crate::convert::{kind, unknown};
use crate::kernel_prefill::KernelPrefill;
use crate::kernel_view::KernelView;
use crate::nodes::Nodes;

const ENTRIES_MIN: usize = 16;
const ENTRIES_MAX: usize = 4096;

/// How many entries fitted the last time, without and with attributes.
#[derive(Default)]
struct Sizes([AtomicUsize; 2]);

impl Sizes {
    fn to_collect(&self, with_attributes: bool) -> usize {
        let fitted = self.0[usize::from(with_attributes)].load(Ordering::Relaxed);
        (fitted + fitted / 8).clamp(ENTRIES_MIN, ENTRIES_MAX)
    }

    /// When all fitted, there may be room for more.
    fn learn(&self, with_attributes: bool, fitted: usize, collected: usize) {
        let next = if fitted == collected {
            (fitted * 2).min(ENTRIES_MAX)
        } else {
            fitted
        };
        self.0[usize::from(with_attributes)].store(next, Ordering::Relaxed);
    }
}

struct Named {
    name: Vec<u8>,
    file_id: u64,
    cookie: u64,
    entry: Option<Entry>,
}

/// Entries after a cookie, and whether they are all.
pub(crate) struct Page {
    entries: Vec<Named>,
    is_end: bool,
}

pub(crate) struct Listing {
    files: Arc<dyn FileSystem>,
    nodes: Arc<Nodes>,
    view: KernelView,
    prefill: Arc<KernelPrefill>,
    sizes: Sizes,
}

impl Listing {
    pub(crate) fn new(
        files: &Arc<dyn FileSystem>,
        nodes: &Arc<Nodes>,
        view: KernelView,
        prefill: &Arc<KernelPrefill>,
    ) -> Self {
        Self {
            files: Arc::clone(files),
            nodes: Arc::clone(nodes),
            view,
            prefill: Arc::clone(prefill),
            sizes: Sizes::default(),
        }
    }

    /// Collects the entries after `cookie`. Each needs attributes, if need be by a lookup: `rm -r`
    /// and `find` rely on the type of each name.
    pub(crate) fn collect(
        &self,
        caller: &Caller,
        directory: &FileId,
        cookie: u64,
        plus: bool,
    ) -> Result<Page> {
        let count = self.sizes.to_collect(plus);
        caller.ask(|call| {
            let mut entries = Vec::with_capacity(count);
            let mut visit = |entry: &DirectoryEntry<'_>| {
                if entries.len() == count {
                    return false;
                }
                entries.push(Named {
                    name: entry.name.to_vec(),
                    file_id: entry.file_id,
                    cookie: entry.cookie,
                    entry: entry.entry,
                });
                true
            };
            let files = &self.files;
            let page = files.read_directory(call, directory, cookie, true, &mut visit)?;
            for named in entries.iter_mut().filter(|named| named.entry.is_none()) {
                match files.lookup(call, directory, &named.name) {
                    Ok(entry) => named.entry = Some(entry),
                    Err(Error::WouldBlock) => return Err(Error::WouldBlock),
                    // It has gone since, or the caller has no right to it.
                    Err(_) => {}
                }
            }
            Ok(Page {
                entries,
                is_end: page.end,
            })
        })
    }

    pub(crate) fn reply_names(&self, mut reply: ReplyDirectory, page: &Page) {
        let fitted = page.entries.iter().take_while(|named| {
            let file_type = match &named.entry {
                Some(entry) => kind(entry.attributes.file_type),
                None => fuser::FileType::RegularFile,
            };
            let number = INodeNo(self.nodes.number_shown(named.file_id));
            !reply.add(number, named.cookie, file_type, name_of(named))
        });
        let fitted = fitted.count();
        self.learn(false, fitted, page);
        reply.ok();
    }

    pub(crate) fn reply_entries(&self, mut reply: ReplyDirectoryPlus, page: &Page) {
        let entries = page.entries.iter();
        let fitted = entries.take_while(|named| !self.add_entry(&mut reply, named));
        let fitted = fitted.count();
        names::FUSE_ENTRIES_LISTED.add(fitted as u64);
        self.learn(true, fitted, page);
        reply.ok();
    }

    fn add_entry(&self, reply: &mut ReplyDirectoryPlus, named: &Named) -> bool {
        // The kernel does not count answers that name these two.
        let is_dot = named.name == b"." || named.name == b"..";
        let counted = named.entry.as_ref().filter(|_| !is_dot);
        let counted = counted.map(|entry| (entry, self.nodes.remember(entry)));
        let node = counted.map_or(0, |(_, node)| node);
        let shown =
            counted.map_or_else(|| self.nodes.number_shown(named.file_id), |(_, node)| node);
        let generation = counted.map_or(Generation(0), |(entry, node)| {
            self.nodes.generation(node, &entry.id)
        });
        let (attributes, lifetime) = match &named.entry {
            Some(Entry { attributes, .. }) => (
                self.view.shown(attributes, shown),
                self.view.entry_lifetime(attributes),
            ),
            None => (unknown(shown), Duration::ZERO),
        };
        let is_full = reply.add(
            INodeNo(node),
            named.cookie,
            name_of(named),
            &lifetime,
            &attributes,
            generation,
        );
        match counted {
            Some((_, node)) if is_full => {
                self.nodes.forget(node, 1);
            }
            Some((entry, node)) => self.prefill.listed(node, entry),
            None => {}
        }
        is_full
    }

    fn learn(&self, with_attributes: bool, fitted: usize, page: &Page) {
        if !page.is_end || fitted < page.entries.len() {
            let sizes = &self.sizes;
            sizes.learn(with_attributes, fitted, page.entries.len());
        }
    }
}

fn name_of(named: &Named) -> &std::ffi::OsStr {
    use std::os::unix::ffi::OsStrExt;
    std::ffi::OsStr::from_bytes(&named.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_are_collected_as_fitted_and_some_more() {
        let sizes = Sizes::default();
        assert_eq!(sizes.to_collect(true), ENTRIES_MIN);
        sizes.learn(true, 16, 16);
        sizes.learn(true, 32, 32);
        assert_eq!(sizes.to_collect(true), 72);
        sizes.learn(true, 50, 72);
        assert_eq!(sizes.to_collect(true), 56);
        assert_eq!(sizes.to_collect(false), ENTRIES_MIN);
        for _ in 0..20 {
            let all = sizes.to_collect(true);
            sizes.learn(true, all, all);
        }
        assert_eq!(sizes.to_collect(true), ENTRIES_MAX);
        sizes.learn(true, 0, 10);
        assert_eq!(sizes.to_collect(true), ENTRIES_MIN);
    }
}
