//! Listing directories.
//!
//! The crate `fuser` does not say how much room an answer has: it says when an entry did not fit.
//! So entries are collected first (a listing waits, and its caller may be let go meanwhile), about
//! as many as fitted the last time, and a few more.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use fuser::{Generation, INodeNo, ReplyDirectory, ReplyDirectoryPlus, Request};
use pagewell_counters::names;
use pagewell_fs::{Entry, Error, FileId, Result};

use crate::attributes::{kind, unknown};
use crate::caller::Caller;
use crate::front::Front;
use crate::nodes::ROOT;
use crate::reply::Refuse;

/// Entries that are collected at least, and at most.
const ENTRIES_MIN: usize = 16;
const ENTRIES_MAX: usize = 4096;

/// How many entries fitted lately, without and with attributes.
#[derive(Default)]
pub(crate) struct Sizes([AtomicUsize; 2]);

impl Sizes {
    fn to_collect(&self, with_attributes: bool) -> usize {
        let fitted = self.0[usize::from(with_attributes)].load(Ordering::Relaxed);
        (fitted + fitted / 8).clamp(ENTRIES_MIN, ENTRIES_MAX)
    }

    /// `fitted` of `collected` entries fitted. When all did, there may be room for more.
    fn learn(&self, with_attributes: bool, fitted: usize, collected: usize) {
        let next = if fitted == collected {
            (fitted * 2).min(ENTRIES_MAX)
        } else {
            fitted
        };
        self.0[usize::from(with_attributes)].store(next, Ordering::Relaxed);
    }
}

/// One name.
pub(crate) struct Named {
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

impl Front {
    /// Answers a request for what is in a directory after a cookie.
    pub(crate) fn answer_list<R: Refuse>(
        self: &Arc<Self>,
        request: &Request,
        (node, cookie): (INodeNo, u64),
        plus: bool,
        reply: R,
        finish: fn(&Self, R, Page),
    ) {
        self.answer(
            request,
            node,
            reply,
            move |front, caller, directory| front.list(caller, directory, cookie, plus),
            finish,
        );
    }

    /// Collects what comes after `cookie`, for an answer with attributes (`plus`) or without. They
    /// are asked for in any case, and where a listing does not have them by a lookup: an answer
    /// without them tells the type of each name all the same, and `rm -r` and `find` believe it.
    fn list(&self, caller: &Caller, directory: &FileId, cookie: u64, plus: bool) -> Result<Page> {
        let count = self.sizes.to_collect(plus);
        let files = &self.filesystem;
        caller.ask(|call| {
            let mut entries = Vec::with_capacity(count);
            let page = files.read_directory(call, directory, cookie, true, &mut |entry| {
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
            })?;
            for named in entries.iter_mut().filter(|named| named.entry.is_none()) {
                match files.lookup(call, directory, &named.name) {
                    Ok(entry) => named.entry = Some(entry),
                    Err(Error::WouldBlock) => return Err(Error::WouldBlock),
                    // It has gone since, or the caller may not know.
                    Err(_) => {}
                }
            }
            Ok(Page {
                entries,
                is_end: page.end,
            })
        })
    }

    /// Answers with names only.
    pub(crate) fn reply_names(&self, mut reply: ReplyDirectory, page: Page) {
        let mut fitted = 0;
        for named in &page.entries {
            let file_type = match &named.entry {
                Some(entry) => kind(entry.attributes.file_type),
                None => fuser::FileType::RegularFile,
            };
            let number = INodeNo(self.number_shown(named.file_id));
            if reply.add(number, named.cookie, file_type, name_of(named)) {
                break;
            }
            fitted += 1;
        }
        self.learn(false, fitted, &page);
        reply.ok();
    }

    /// Answers with names and what they mean.
    pub(crate) fn reply_entries(&self, mut reply: ReplyDirectoryPlus, page: Page) {
        let mut fitted = 0;
        for named in &page.entries {
            if self.add_entry(&mut reply, named) {
                break;
            }
            fitted += 1;
        }
        names::FUSE_ENTRIES_LISTED.add(fitted as u64);
        self.learn(true, fitted, &page);
        reply.ok();
        self.prune_if_crowded();
    }

    /// Adds an entry; true when it did not fit.
    fn add_entry(&self, reply: &mut ReplyDirectoryPlus, named: &Named) -> bool {
        // The kernel does not count what it is told of these two.
        let is_dot = named.name == b"." || named.name == b"..";
        let counted = named.entry.as_ref().filter(|_| !is_dot);
        let counted = counted.map(|it| (it, self.nodes.remember(&*self.filesystem, it)));
        let told = counted.map_or(0, |(_, node)| node);
        let shown = counted.map_or_else(|| self.number_shown(named.file_id), |(_, node)| node);
        let generation = counted.map_or(Generation(0), |(entry, node)| {
            self.generation(node, &entry.id)
        });
        let (attributes, keep_for) = match &named.entry {
            Some(entry) => (
                self.appearance.shown(&entry.attributes, shown),
                // One time for both.
                self.keep_for(&entry.attributes).min(self.coherence.names),
            ),
            None => (unknown(shown), Duration::ZERO),
        };
        let is_full = reply.add(
            INodeNo(told),
            named.cookie,
            name_of(named),
            &keep_for,
            &attributes,
            generation,
        );
        match counted {
            Some((_, node)) if is_full => {
                self.nodes.forget(&*self.filesystem, node, 1);
            }
            Some((entry, node)) => self.pushing.listed(node, entry),
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

    /// The inode number that a listing shows: the root has the kernel's, as in its attributes.
    fn number_shown(&self, file_id: u64) -> u64 {
        match self.root_file_id.get() {
            Some(root) if *root == file_id => ROOT,
            _ => file_id,
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
