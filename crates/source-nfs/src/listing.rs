//! Listings of directories.
//!
//! **Problem.** A front takes as many entries as fit into its own answer; the server's page had
//! more, with attributes and handles that will be asked for next.
//!
//! **Rule.** The pages of a directory are kept while neither we nor others change it. A listing
//! goes on in a page that has its last entry. Entries come with attributes only while these are as
//! good as newly asked. Names and objects of a page are remembered like all others.
//!
//! A server without READDIRPLUS is asked with READDIR.
//!
//! Programs and clients expect "." and "..", and some servers list neither. They come first, from
//! the server's first page or our own; later ones are left out.
//!
//! **Cookies.** While pages are kept, only the cookie of a page's last entry returns to the server,
//! and it must be a new one. Fronts may go on after any entry. Some servers give "." or the last
//! entry the cookie 0, which begins the listing; some give several entries one cookie. An entry
//! that its cookie does not identify gets one of our own, its position in the listing; without its
//! page the directory is listed from the beginning up to there.
//!
//! After a server has refused its own cookie (BAD_COOKIE), each directory of it is asked for from
//! the beginning, for as much as fits into one answer. A larger directory cannot be listed.
//!
//! [`super::pages`] bounds what is kept.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use pagewell_fs::{Access, Call, DirectoryEntry, DirectoryPage, Entry, Error, FileId, Result};
use pagewell_sunrpc::nfs3::{
    DecodeReply, FileAttributes, Procedure, ReaddirArguments, ReaddirOk, ReaddirPlusArguments,
    ReaddirPlusOk, ReaddirPlusReply, ReaddirReply, Status, Verifier,
};

use super::attributes::{Moment, Stamp};
use super::calls::{Answered, may_wait};
use super::convert;
use super::lookup::Namespace;
use super::node::Node;
use super::objects::{Objects, refused};
use super::pages::{Listed, Listings, Page, Spot};

/// Of one call: enough for millions of names.
const PAGES_MAX: usize = 1 << 16;
const PAGE_BYTES_MAX: u32 = 1 << 20;
/// Cookies of our own: "Page" and the position, positive as programs' offsets.
const OWN_COOKIE: u64 = 0x5061_6765 << 32;
/// A listing that goes on within this time shows attributes of its page.
const ONE_LOOK: Duration = Duration::from_secs(1);

/// Of READDIR or READDIRPLUS, without its record.
struct Answer {
    directory: Option<FileAttributes>,
    verifier: Verifier,
    entries: Vec<(Listed, Option<FileAttributes>)>,
    is_last: bool,
}

pub(super) struct Lister {
    objects: Arc<Objects>,
    namespace: Arc<Namespace>,
    listed: Listings,
    /// Of a READDIR.
    directory_bytes: u32,
    /// The server has no READDIRPLUS.
    lacks_plus: AtomicBool,
    refuses_cookies: AtomicBool,
}

impl Lister {
    pub(super) fn new(objects: Arc<Objects>, namespace: Arc<Namespace>, bytes: u32) -> Self {
        Self {
            objects,
            namespace,
            listed: Listings::default(),
            directory_bytes: bytes,
            lacks_plus: AtomicBool::new(false),
            refuses_cookies: AtomicBool::new(false),
        }
    }

    /// [`pagewell_fs::FileSystem::read_directory`].
    pub(super) fn read_directory(
        &self,
        call: &Call<'_>,
        directory: &FileId,
        cookie: u64,
        with_attributes: bool,
        visit: &mut dyn FnMut(&DirectoryEntry<'_>) -> bool,
    ) -> Result<DirectoryPage> {
        if let Some(attributes) = self.objects.node(directory).lock().remains() {
            return Ok(DirectoryPage {
                attributes,
                end: true,
                unusable: 0,
            });
        }
        let node = self.objects.directory(call, directory)?;
        self.objects.check(call, &node, Access::READ)?;
        let mut cookie = cookie;
        let (mut position, mut skip) = (None, 0);
        if let Some(own) = own_position(cookie)
            && self.kept(&node, cookie, with_attributes).is_none()
        {
            (cookie, skip) = (0, own);
        }
        let mut begun = HashSet::new();
        let mut unusable = 0;
        loop {
            if begun.len() == PAGES_MAX || !begun.insert(cookie) {
                return Err(does_not_go_on());
            }
            let mut spot = match self.kept(&node, cookie, with_attributes) {
                Some(spot) => spot,
                None => self.ask_page(call, &node, cookie, position)?,
            };
            if spot.index == 0 {
                unusable += spot.page.unusable;
            }
            let skipped = skip.min(spot.page.entries.len() - spot.index);
            spot.index += skipped;
            skip -= skipped;
            let all = self.show(&spot, visit);
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
            position = spot.page.end_position();
        }
    }

    /// A page that may be shown.
    fn kept(&self, node: &Node, cookie: u64, with_attributes: bool) -> Option<Spot> {
        let stamp = node.stamp();
        let spot = self.listed.find(node, cookie)?;
        let is_new = cookie == 0;
        // One that has begun may show names that we have removed since.
        if is_new && spot.page.stamp != stamp {
            return None;
        }
        let least = if is_new { Duration::ZERO } else { ONE_LOOK };
        let good_for = self.objects.calls().options().ages.file_min.max(least);
        (!with_attributes || spot.page.came.elapsed() < good_for).then_some(spot)
    }

    /// Whether the visitor took all entries.
    fn show(&self, spot: &Spot, visit: &mut dyn FnMut(&DirectoryEntry<'_>) -> bool) -> bool {
        for listed in spot.page.entries.iter().skip(spot.index) {
            let entry = listed.id().and_then(|id| {
                let id = self.objects.root().object_of(id);
                let attributes = self.objects.node(&id).lock().known()?;
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
        }
        true
    }

    /// Asks for the page after `cookie`, at `position` if known, and keeps it, unless the directory
    /// has changed.
    fn ask_page(
        &self,
        call: &Call<'_>,
        node: &Arc<Node>,
        cookie: u64,
        position: Option<usize>,
    ) -> Result<Spot> {
        may_wait(call)?;
        let position = match cookie {
            0 => Some(0),
            _ => position.or_else(|| self.listed.position(node, cookie)),
        };
        let mut bytes = self.directory_bytes;
        if self.refuses_cookies.load(Ordering::Relaxed) {
            bytes = PAGE_BYTES_MAX;
        }
        let mut verifier = if cookie == 0 {
            [0; 8]
        } else {
            node.lock().cookie_verifier()
        };
        let before = node.stamp();
        loop {
            // Also for names alone: a front needs the type of each, and asks for them next.
            let plus = !self.lacks_plus.load(Ordering::Relaxed);
            let asked = self.send_readdir(call, node, (cookie, verifier), bytes, plus)?;
            match asked.value.map_err(|failure| failure.status) {
                Ok(answer) => {
                    let place = (cookie, position);
                    let page = self.take_page(call, node, place, answer, (asked.sent, before))?;
                    return Ok(Spot { page, index: 0 });
                }
                Err(Status::NotSupported) if plus => self.lacks_plus.store(true, Ordering::Relaxed),
                Err(Status::TooSmall) if bytes < PAGE_BYTES_MAX => {
                    bytes = (bytes * 2).min(PAGE_BYTES_MAX);
                }
                // Some servers take a cookie back only without its verifier.
                Err(Status::BadCookie) if verifier != [0; 8] => verifier = [0; 8],
                Err(Status::BadCookie) if cookie != 0 => {
                    self.refuses_cookies.store(true, Ordering::Relaxed);
                    let page = self.ask_whole(call, node)?;
                    let index = position.or_else(|| page.find(cookie));
                    let index = index.ok_or(Error::BadCookie)?.min(page.entries.len());
                    return Ok(Spot { page, index });
                }
                Err(status) => return Err(refused(node, status)),
            }
        }
    }

    /// Asks for a whole directory at once, without attributes when these are too much.
    fn ask_whole(&self, call: &Call<'_>, node: &Arc<Node>) -> Result<Arc<Page>> {
        let before = node.stamp();
        let has_plus = !self.lacks_plus.load(Ordering::Relaxed);
        for plus in [true, false] {
            if plus && !has_plus {
                continue;
            }
            let asked = self.send_readdir(call, node, (0, [0; 8]), PAGE_BYTES_MAX, plus)?;
            if let Ok(answer) = asked.value
                && answer.is_last
            {
                return self.take_page(call, node, (0, Some(0)), answer, (asked.sent, before));
            }
        }
        Err(Error::BadCookie)
    }

    /// Learns from an answer, and keeps it as a page.
    fn take_page(
        &self,
        call: &Call<'_>,
        node: &Arc<Node>,
        (cookie, position): (u64, Option<usize>),
        answer: Answer,
        (sent, before): (Moment, Stamp),
    ) -> Result<Arc<Page>> {
        self.objects
            .files()
            .look(node, answer.directory.as_ref(), sent)?;
        let last = answer.entries.last().map(|(last, _)| last.cookie);
        let next = last.filter(|last| *last != cookie && *last != 0 && !answer.is_last);
        if next.is_none() && !answer.is_last {
            return Err(does_not_go_on());
        }
        let mut entries = Vec::with_capacity(answer.entries.len());
        let mut unusable = 0;
        for (mut listed, attributes) in answer.entries {
            let directory = answer.directory.as_ref();
            listed.file_id = self.objects.calls().listed_id(&listed, directory);
            if pagewell_fs::name::check(&listed.name).is_ok() {
                self.remember(node, &listed, attributes.as_ref(), (sent, before));
                entries.push(listed);
            } else {
                unusable += 1;
            }
        }
        if cookie == 0 {
            self.put_dots_first(call, node, &mut entries);
        } else {
            entries.retain(|listed| !is_dot(listed));
        }
        let between = (cookie, next);
        let position = match position {
            None if unidentified(between, &entries).next().is_some() => {
                Some(self.count_up_to(call, node, cookie)?)
            }
            position => position,
        };
        give_own_cookies(between, position, &mut entries)?;
        let page = Arc::new(Page {
            after: cookie,
            position,
            next: next.unwrap_or(cookie),
            bytes: Page::bytes_with(&entries),
            entries,
            unusable,
            is_last: answer.is_last,
            came: Instant::now(),
            stamp: before,
        });
        node.lock().set_cookie_verifier(answer.verifier);
        self.listed.keep(node, &page);
        Ok(page)
    }

    /// Entries of the listing up to the one with this cookie of the server, from the beginning.
    fn count_up_to(&self, call: &Call<'_>, node: &Arc<Node>, cookie: u64) -> Result<usize> {
        let mut begun = HashSet::new();
        let (mut after, mut position) = (0, 0);
        while begun.len() < PAGES_MAX && begun.insert(after) {
            let Spot { page, index } = match self.kept(node, after, false) {
                Some(spot) => spot,
                None => self.ask_page(call, node, after, Some(position))?,
            };
            let found = page.find_end(cookie).filter(|end| *end >= index);
            if let Some(end) = found {
                return Ok(position + end - index);
            }
            if page.is_last {
                break;
            }
            position += page.entries.len() - index;
            after = page.next;
        }
        Err(does_not_go_on())
    }

    /// Puts "." and ".." first in a first page. Missing and moved ones get cookies of our own: see
    /// [`give_own_cookies`].
    fn put_dots_first(&self, call: &Call<'_>, node: &Node, entries: &mut Vec<Listed>) {
        let is_usual = |name: &[u8], index| {
            let listed: Option<&Listed> = entries.get(index);
            listed.is_some_and(|listed| *listed.name == *name)
        };
        if is_usual(b".", 0) && is_usual(b"..", 1) {
            return;
        }
        for name in [b"..".as_slice(), b"."] {
            let place = entries.iter().position(|listed| *listed.name == *name);
            let mut dot = match place {
                Some(index) => entries.remove(index),
                None => self.dot(call, node, name),
            };
            dot.cookie = 0;
            entries.insert(0, dot);
        }
    }

    /// Of a server that does not list it.
    fn dot(&self, call: &Call<'_>, node: &Node, name: &[u8]) -> Listed {
        let found = self.namespace.lookup(call, node.id(), name).ok();
        // A server may not know a parent.
        let known = node.lock().known();
        let attributes = found.as_ref().map(|entry| entry.attributes).or(known);
        let file_id = attributes.map_or(0, |attributes| attributes.file_id);
        let id = found.map(|entry| self.objects.root().on_wire(&entry.id));
        Listed::new(name, file_id, 0, id)
    }

    /// Learns from an entry about a name and an object.
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
        let id = self.objects.root().object_of(id);
        let node = self.objects.node(&id);
        let is_right = self
            .objects
            .files()
            .look(&node, Some(attributes), sent)
            .is_ok();
        if is_right && !is_dot(listed) {
            self.namespace
                .names()
                .learn(directory, &listed.name, Some(id), before);
        }
    }

    /// With READDIRPLUS where `plus`, else with READDIR.
    fn send_readdir(
        &self,
        call: &Call<'_>,
        node: &Node,
        (cookie, verifier): (u64, Verifier),
        bytes: u32,
        plus: bool,
    ) -> Result<Answered<Answer, Option<FileAttributes>>> {
        let directory = self.objects.root().on_wire(node.id());
        let directory = convert::handle(&directory);
        if plus {
            let arguments = ReaddirPlusArguments {
                directory,
                cookie,
                verifier,
                directory_count: bytes,
                count_max: bytes,
            };
            self.objects
                .calls()
                .ask(call, Procedure::ReaddirPlus, &arguments, |decoder| {
                    Ok(ReaddirPlusReply::decode_reply(decoder)?.map(|page| with_attributes(&page)))
                })
        } else {
            let arguments = ReaddirArguments {
                directory,
                cookie,
                verifier,
                count: bytes,
            };
            self.objects
                .calls()
                .ask(call, Procedure::Readdir, &arguments, |decoder| {
                    Ok(ReaddirReply::decode_reply(decoder)?.map(|page| without_attributes(&page)))
                })
        }
    }
}

fn is_dot(listed: &Listed) -> bool {
    matches!(&*listed.name, b"." | b"..")
}

fn does_not_go_on() -> Error {
    Error::Io("the listing does not go on".to_owned())
}

/// The entries of a listing up to a cookie of our own.
fn own_position(cookie: u64) -> Option<usize> {
    let position = cookie ^ OWN_COOKIE;
    usize::try_from(position)
        .ok()
        .filter(|_| position >> 32 == 0)
}

/// The places of entries that the server's cookies do not identify: 0, `after`, `next`, and all but
/// the first of equal ones.
fn unidentified(
    (after, next): (u64, Option<u64>),
    entries: &[Listed],
) -> impl Iterator<Item = usize> {
    let mut taken = HashSet::from([0, after]);
    taken.extend(next);
    let last = entries.len().checked_sub(1);
    let places = entries.iter().enumerate();
    let without = places.filter(move |(place, listed)| {
        let is_end = Some(*place) == last && next == Some(listed.cookie);
        let is_new = taken.insert(listed.cookie) || is_end;
        !is_new || own_position(listed.cookie).is_some()
    });
    without.map(|(place, _)| place)
}

/// Gives cookies of our own to [`unidentified`] entries. `position`: entries of the listing before
/// the page.
fn give_own_cookies(
    between: (u64, Option<u64>),
    position: Option<usize>,
    entries: &mut [Listed],
) -> Result<()> {
    let places: Vec<usize> = unidentified(between, entries).collect();
    for place in places {
        let position = position.map(|position| (position + place + 1) as u64);
        let position = position.filter(|position| position >> 32 == 0);
        entries[place].cookie = OWN_COOKIE | position.ok_or_else(does_not_go_on)?;
    }
    Ok(())
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

    /// The cookies that fronts see of entries with these.
    fn shown(
        between: (u64, Option<u64>),
        position: Option<usize>,
        cookies: &[u64],
    ) -> Result<Vec<u64>> {
        let listed = |cookie: &u64| Listed::new(b"x", 1, *cookie, None);
        let mut entries: Vec<_> = cookies.iter().map(listed).collect();
        give_own_cookies(between, position, &mut entries)?;
        Ok(entries.iter().map(|entry| entry.cookie).collect())
    }

    #[test]
    fn an_entry_that_cannot_be_found_again_by_its_cookie_has_one_of_our_own() {
        let own = |position| OWN_COOKIE | position;
        let last = |after| (after, None);
        assert_eq!(shown(last(0), Some(0), &[0, 1, 2]), Ok(vec![own(1), 1, 2]));
        assert_eq!(
            shown(last(4), Some(10), &[5, 5, 4, 6, 0, own(1)]),
            Ok(vec![5, own(12), own(13), 6, own(15), own(16)])
        );
        assert_eq!(
            shown((4, Some(5)), Some(10), &[5, 6, 5]),
            Ok(vec![own(11), 6, 5])
        );
        assert_eq!(shown(last(4), None, &[5, 9, 2]), Ok(vec![5, 9, 2]));
        assert!(shown(last(4), None, &[5, 0]).is_err());
        assert!(shown(last(4), Some(u32::MAX as usize), &[0]).is_err());
        assert_eq!(own_position(own(7)), Some(7));
        for foreign in [0, 7, u64::MAX, OWN_COOKIE << 1, 1 << 63] {
            assert_eq!(own_position(foreign), None);
        }
    }
}
