//! Listing directories.
//!
//! The crate `fuser` does not say how much room an answer has: it says when an entry did not fit.
//! So entries are collected first (a listing waits, and its caller may be let go meanwhile), about
//! as many as fitted the last time, and a few more.

use std::sync::Arc;
use std::time::Duration;

use fuser::{Generation, INodeNo, ReplyDirectory, ReplyDirectoryPlus, Request};
use pagewell_counters::names;
use pagewell_fs::{Call, Entry, Error, FileId, FileType, Result};

use crate::attributes::{Appearance, errno, kind, to_kernel};
use crate::caller::Caller;
use crate::front::Front;
use crate::nodes::ROOT;
use crate::reply::Refuse;

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
        finish: fn(&Self, R, Result<Page>),
    ) {
        self.answer(
            request,
            reply,
            move |front, caller, may_block| {
                let directory = front.id(node.0)?;
                front.list(caller, may_block, &directory, cookie, plus)
            },
            finish,
        );
    }

    /// Collects what comes after `cookie`, for an answer with attributes (`plus`) or without. They
    /// are asked for in any case, and where a listing does not have them by a lookup: an answer
    /// without them tells the type of each name all the same, and `rm -r` and `find` believe it.
    pub(crate) fn list(
        &self,
        caller: &Caller,
        may_block: bool,
        directory: &FileId,
        cookie: u64,
        plus: bool,
    ) -> Result<Page> {
        let count = self.sizes.to_collect(plus);
        caller.ask(may_block, |call: &Call<'_>| {
            let mut entries = Vec::with_capacity(count);
            let page =
                self.filesystem
                    .read_directory(call, directory, cookie, true, &mut |entry| {
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
                match self.filesystem.lookup(call, directory, &named.name) {
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
    pub(crate) fn reply_names(&self, mut reply: ReplyDirectory, page: Result<Page>) {
        let page = match page {
            Ok(page) => page,
            Err(error) => return reply.error(errno(&error)),
        };
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
    pub(crate) fn reply_entries(&self, mut reply: ReplyDirectoryPlus, page: Result<Page>) {
        let page = match page {
            Ok(page) => page,
            Err(error) => return reply.error(errno(&error)),
        };
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
        let (entry, is_counted) = match &named.entry {
            Some(entry) => (Some(entry), !is_dot),
            None => (None, false),
        };
        let Some(entry) = entry else {
            return reply.add(
                INodeNo(0),
                named.cookie,
                name_of(named),
                &Duration::ZERO,
                &unknown(self.number_shown(named.file_id)),
                Generation(0),
            );
        };
        let node = if is_counted {
            self.nodes.remember(&*self.filesystem, entry)
        } else {
            self.number_shown(named.file_id)
        };
        let attributes = self.shown(&entry.attributes, node);
        let told = if is_counted { node } else { 0 };
        // One time for both.
        let keep_for = self.keep_for(&entry.attributes).min(self.coherence.names);
        let is_full = reply.add(
            INodeNo(told),
            named.cookie,
            name_of(named),
            &keep_for,
            &attributes,
            Generation(0),
        );
        match (is_counted, is_full) {
            (true, true) => {
                self.nodes.forget(node, 1);
            }
            (true, false) => self.pushing.listed(node, entry),
            (false, _) => {}
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

/// Attributes of something that could not be examined: the kernel uses its number only.
pub(crate) fn unknown(number: u64) -> fuser::FileAttr {
    to_kernel(
        &Appearance::default(),
        &pagewell_fs::Attributes {
            file_type: FileType::Regular,
            mode: 0,
            link_count: 1,
            uid: 0,
            gid: 0,
            size: 0,
            used: 0,
            device: (0, 0),
            filesystem_id: 0,
            file_id: number,
            accessed: pagewell_fs::Timestamp::default(),
            modified: pagewell_fs::Timestamp::default(),
            changed: pagewell_fs::Timestamp::default(),
            may_be_kept: true,
        },
        number,
    )
}
