//! Listings of directories.
//!
//! **Problem.** A front takes as many entries as fit into its own answer, and asks again after the
//! last; the server's page had more, with attributes and handles that will be asked for next.
//!
//! **Rule.** The pages of a directory are kept, in order, as long as nobody has changed it. A
//! listing goes on in a page that has the entry it goes on after. Entries come with attributes only
//! while these are as good as asked for: a listing that begins anew after a while asks anew. What a
//! page tells of objects and names is remembered like all else.
//!
//! A server without READDIRPLUS is asked with READDIR, and the front then asks for each object.
//!
//! How much is kept, [`super::pages`] says.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use pagewell_counters::names;
use pagewell_fs::{Access, Call, DirectoryEntry, DirectoryPage, Entry, Error, FileId, Result};
use pagewell_sunrpc::nfs3::{
    DecodeReply, FileAttributes, Procedure, ReaddirArguments, ReaddirOk, ReaddirPlusArguments,
    ReaddirPlusOk, ReaddirPlusReply, ReaddirReply, Status, Verifier,
};

use super::attributes::{Moment, Stamp};
use super::convert;
use super::filesystem::{Answered, Shared};
use super::node::Node;
use super::pages::{Listed, Page, Spot};

/// Pages that one call may ask for: of a directory with millions of names, and not without end.
const PAGES_MAX: usize = 1 << 16;
/// Largest page that is asked for, in bytes.
const PAGE_BYTES_MAX: u32 = 1 << 20;
/// A listing that goes on within this time shows attributes of its page.
const ONE_LOOK: Duration = Duration::from_secs(1);

/// An answer of READDIR or READDIRPLUS, without the record that it was in.
struct Answer {
    directory: Option<FileAttributes>,
    verifier: Verifier,
    entries: Vec<(Listed, Option<FileAttributes>)>,
    is_last: bool,
}

impl Shared {
    /// [`pagewell_fs::FileSystem::read_directory`].
    pub(super) fn read_directory(
        &self,
        call: &Call<'_>,
        directory: &FileId,
        cookie: u64,
        with_attributes: bool,
        visit: &mut dyn FnMut(&DirectoryEntry<'_>) -> bool,
    ) -> Result<DirectoryPage> {
        if let Some(attributes) = self.files.node(directory).lock().remains() {
            return Ok(DirectoryPage {
                attributes,
                end: true,
                unusable: 0,
            });
        }
        let node = self.directory(call, directory)?;
        self.check(call, &node, Access::READ)?;
        let mut cookie = cookie;
        let mut begun = HashSet::new();
        let mut unusable = 0;
        loop {
            if begun.len() == PAGES_MAX || !begun.insert(cookie) {
                return Err(Error::Io("the listing does not end".to_owned()));
            }
            let kept = self.kept(&node, cookie, with_attributes);
            let spot = match kept {
                Some(spot) => {
                    names::CLIENT_DIRECTORY_HITS.add(1);
                    names::CLIENT_ENTRY_HITS.add(u64::from(cookie != 0));
                    spot
                }
                None => {
                    names::CLIENT_DIRECTORY_MISSES.add(u64::from(call.may_block));
                    let page = self.ask_page(call, &node, cookie)?;
                    Spot { page, index: 0 }
                }
            };
            if spot.index == 0 {
                unusable += spot.page.unusable;
            }
            let all = self.show(&spot, &mut cookie, visit);
            let is_end = all && spot.page.is_last;
            if is_end || !all {
                let attributes = node.lock().known().ok_or(Error::Stale)?;
                return Ok(DirectoryPage {
                    attributes,
                    end: is_end,
                    unusable,
                });
            }
            cookie = spot.page.next;
        }
    }

    /// A page that was kept and may be shown.
    fn kept(&self, node: &Node, cookie: u64, with_attributes: bool) -> Option<Spot> {
        let stamp = node.stamp();
        let spot = self.listed.find(node, cookie)?;
        let is_new = cookie == 0;
        // One that has begun may show names that we have removed since.
        if is_new && spot.page.stamp != stamp {
            return None;
        }
        let least = if is_new { Duration::ZERO } else { ONE_LOOK };
        let good_for = self.calls.options.ages.file_min.max(least);
        let is_good =
            !with_attributes || spot.page.has_attributes && spot.page.came.elapsed() < good_for;
        is_good.then_some(spot)
    }

    /// Gives entries to the visitor; whether it took all.
    fn show(
        &self,
        spot: &Spot,
        cookie: &mut u64,
        visit: &mut dyn FnMut(&DirectoryEntry<'_>) -> bool,
    ) -> bool {
        for listed in spot.page.entries.iter().skip(spot.index) {
            let entry = listed.id().and_then(|id| {
                let attributes = self.files.node(&id).lock().known()?;
                Some(Entry { id, attributes })
            });
            let taken = visit(&DirectoryEntry {
                name: &listed.name,
                file_id: listed.file_id,
                cookie: listed.cookie,
                entry,
            });
            if !taken {
                return false;
            }
            *cookie = listed.cookie;
        }
        true
    }

    /// Asks for the page after `cookie`, and keeps it, unless it was overtaken.
    fn ask_page(&self, call: &Call<'_>, node: &Arc<Node>, cookie: u64) -> Result<Arc<Page>> {
        Self::may_wait(call)?;
        let mut bytes = self.directory_bytes;
        let mut verifier = if cookie == 0 {
            [0; 8]
        } else {
            node.lock().cookie_verifier
        };
        let before = node.stamp();
        let (answer, sent, has_attributes) = loop {
            // Also for names alone: a front tells the type of each, and then is asked for them.
            let plus = !self.lacks_plus.load(Ordering::Relaxed);
            let asked = self.send_readdir(call, node, (cookie, verifier), bytes, plus)?;
            match asked.value.map_err(|failure| failure.status) {
                Ok(answer) => break (answer, asked.sent, plus),
                Err(Status::NotSupported) if plus => self.lacks_plus.store(true, Ordering::Relaxed),
                Err(Status::TooSmall) if bytes < PAGE_BYTES_MAX => bytes *= 2,
                // Some servers take a cookie back only without its verifier.
                Err(Status::BadCookie) if verifier != [0; 8] => verifier = [0; 8],
                Err(status) => return Err(convert::error(status)),
            }
        };
        self.remote.look(node, answer.directory.as_ref(), sent)?;
        let cookies = answer.entries.iter().map(|(listed, _)| listed.cookie);
        if answer.entries.is_empty() && !answer.is_last || goes_back(cookie, cookies) {
            return Err(Error::Io("the listing does not go on".to_owned()));
        }
        let next = answer
            .entries
            .last()
            .map_or(cookie, |(last, _)| last.cookie);
        let mut entries = Vec::with_capacity(answer.entries.len());
        let mut unusable = 0;
        for (mut listed, attributes) in answer.entries {
            let directory = answer.directory.as_ref();
            listed.file_id = self.calls.listed_id(listed.file_id, directory);
            if pagewell_fs::name::check(&listed.name).is_ok() {
                self.remember(node, &listed, attributes.as_ref(), (sent, before));
                entries.push(listed);
            } else {
                unusable += 1;
            }
        }
        let page = Arc::new(Page {
            after: cookie,
            next,
            bytes: Page::bytes_with(&entries),
            entries,
            unusable,
            is_last: answer.is_last,
            has_attributes,
            came: Instant::now(),
            stamp: before,
        });
        node.lock().cookie_verifier = answer.verifier;
        self.listed.keep(node, &page);
        Ok(page)
    }

    /// Remembers what an entry tells of a name and an object.
    fn remember(
        &self,
        directory: &Node,
        listed: &Listed,
        attributes: Option<&FileAttributes>,
        (sent, before): (Moment, Stamp),
    ) {
        let (Some(id), Some(attributes)) = (listed.id(), attributes) else {
            return;
        };
        let node = self.files.node(&id);
        let is_right = self.remote.look(&node, Some(attributes), sent).is_ok();
        if is_right && !matches!(&*listed.name, b"." | b"..") {
            self.names.learn(directory, &listed.name, Some(id), before);
        }
    }

    /// Asks with READDIRPLUS where `plus`, else with READDIR.
    fn send_readdir(
        &self,
        call: &Call<'_>,
        node: &Node,
        (cookie, verifier): (u64, Verifier),
        bytes: u32,
        plus: bool,
    ) -> Result<Answered<Answer, Option<FileAttributes>>> {
        let directory = convert::handle(&node.id);
        if plus {
            let arguments = ReaddirPlusArguments {
                directory,
                cookie,
                verifier,
                directory_count: bytes,
                count_max: bytes,
            };
            self.ask(call, Procedure::ReaddirPlus, &arguments, |decoder| {
                Ok(ReaddirPlusReply::decode_reply(decoder)?.map(|page| with_attributes(&page)))
            })
        } else {
            let arguments = ReaddirArguments {
                directory,
                cookie,
                verifier,
                count: bytes,
            };
            self.ask(call, Procedure::Readdir, &arguments, |decoder| {
                Ok(ReaddirReply::decode_reply(decoder)?.map(|page| without_attributes(&page)))
            })
        }
    }
}

/// Whether a reader that goes on after some entry of a page would come to where it was. Neighbours
/// may share a cookie, as servers have that make them of hashes.
fn goes_back(after: u64, cookies: impl Iterator<Item = u64>) -> bool {
    // The first page comes after none.
    let mut seen = HashSet::from([0, after]);
    let mut last = None;
    for cookie in cookies {
        if last != Some(cookie) && !seen.insert(cookie) {
            return true;
        }
        last = Some(cookie);
    }
    false
}

fn with_attributes(page: &ReaddirPlusOk<'_>) -> Answer {
    let listed = page.entries.iter().map(|entry| {
        let id = entry.handle.and_then(|handle| convert::id(handle).ok());
        let id = id.filter(|_| entry.attributes.is_some());
        let listed = Listed::new(entry.name, entry.file_id, entry.cookie, id);
        (listed, entry.attributes)
    });
    Answer {
        directory: page.directory_attributes,
        verifier: page.verifier,
        is_last: page.end,
        entries: listed.collect(),
    }
}

fn without_attributes(page: &ReaddirOk<'_>) -> Answer {
    let listed = page.entries.iter().map(|entry| {
        let listed = Listed::new(entry.name, entry.file_id, entry.cookie, None);
        (listed, None)
    });
    Answer {
        directory: page.directory_attributes,
        verifier: page.verifier,
        is_last: page.end,
        entries: listed.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_leads_back_is_known() {
        for (after, cookies) in [(0, vec![]), (4, vec![5, 9, 2]), (4, vec![5, 5, 5, 6])] {
            assert!(!goes_back(after, cookies.into_iter()));
        }
        for cookies in [vec![4], vec![5, 4], vec![5, 0], vec![5, 6, 5]] {
            assert!(goes_back(4, cookies.into_iter()));
        }
    }
}
