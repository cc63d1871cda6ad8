//! What a directory has: the pages of one listing.
//!
//! Pages come one after another, as each has the token of the next, and are kept in the server's
//! order. A cookie is a hash of a name: a reader goes on behind a name also when others came and
//! went. Of pages beyond [`KEPT_BYTES_MAX`] only tokens and cookies are kept; such a page is asked
//! for again.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pagewell_object_client::{ListPage, Version};

use super::identifier::{Kind, hash_of};
use super::name;

/// Bytes of the pages of one listing, before the first of them are given up.
pub(super) const KEPT_BYTES_MAX: usize = 32 << 20;
/// Names and pages of one listing. A server that gives more, or never ends, is not listed on.
const NAMES_MAX: usize = 16 << 20;
const PAGES_MAX: usize = 1 << 16;
/// What a cookie takes, at the most.
const COOKIE_BYTES: usize = 40;
const ALLOCATION_BYTES: usize = 16;
/// How long a listing that has not come whole is not begun again for a name alone: a reader of it
/// would never reach its end.
const GROWS_FOR: Duration = Duration::from_secs(60);
/// The cookies of `.` and `..`; all others are above.
pub(super) const DOTS: u64 = 2;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// A prefix.
    Directory,
    /// An object.
    File(Version),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Item {
    pub name: Box<[u8]>,
    /// What the key has behind that of the directory, where the name does not say it.
    pub segment: Option<Box<str>>,
    pub found: Found,
    pub cookie: u64,
}

impl Item {
    /// A name from no listing, which its key has as it is.
    pub(super) fn new(name: &[u8], found: Found) -> Self {
        Self {
            cookie: cookie_of(name, found == Found::Directory),
            name: name.into(),
            segment: None,
            found,
        }
    }

    /// The key, of a directory with a slash at its end.
    pub(super) fn key(&self, directory: &str) -> String {
        let own = self.segment.as_deref();
        let own = own.or_else(|| std::str::from_utf8(&self.name).ok());
        let slash = if self.found == Found::Directory {
            "/"
        } else {
            ""
        };
        [directory, own.unwrap_or_default(), slash].concat()
    }

    pub(super) fn kind(&self) -> Kind {
        match self.found {
            Found::Directory => Kind::Directory,
            Found::File(_) => Kind::File,
        }
    }

    fn bytes(&self) -> usize {
        let segment = self
            .segment
            .as_ref()
            .map_or(0, |own| own.len() + ALLOCATION_BYTES);
        let tag = match &self.found {
            Found::File(version) => version
                .etag
                .as_ref()
                .map_or(0, |tag| tag.capacity() + ALLOCATION_BYTES),
            Found::Directory => 0,
        };
        size_of::<Self>() + self.name.len() + ALLOCATION_BYTES + segment + tag
    }
}

pub(super) struct Page {
    /// When its listing began.
    pub began: Instant,
    pub items: Vec<Item>,
    /// Objects and prefixes without a name: another entry has it, or the key cannot be shown.
    pub unusable: u64,
    pub bytes: usize,
}

struct Slot {
    /// Asks for the page; `None`: the first.
    token: Option<String>,
    items: usize,
    page: Option<Arc<Page>>,
}

pub(super) struct Listing {
    began: Instant,
    grown: Instant,
    slots: Vec<Slot>,
    /// Slot and place in its page by cookie.
    places: HashMap<u64, (u32, u32)>,
    /// The token of the next page; `None` after the last.
    next: Option<String>,
    /// That token was there before: the server does not say what else there is.
    is_endless: bool,
    is_whole: bool,
    kept_bytes: usize,
    /// Of all cookies: XOR.
    digest: u64,
}

pub(super) enum Place {
    /// In this page, at this item.
    At(Arc<Page>, usize),
    /// In a page that was given up: its number, and its token.
    Gone(usize, Option<String>),
    /// In a page that has not come yet, with its token.
    Next(Option<String>),
    End,
    /// Behind a name that is not there.
    Unknown,
}

impl Listing {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            began: now,
            grown: now,
            slots: Vec::new(),
            places: HashMap::new(),
            next: None,
            is_endless: false,
            is_whole: false,
            kept_bytes: 0,
            digest: 0,
        }
    }

    pub(super) fn began(&self) -> Instant {
        self.began
    }

    pub(super) fn is_fresh(&self, now: Instant, age: Duration) -> bool {
        now.saturating_duration_since(self.began) < age
    }

    /// Whether a reader may be on its way through it.
    pub(super) fn is_growing(&self, now: Instant) -> bool {
        let paused = now.saturating_duration_since(self.grown);
        self.slots.len() > 1 && !self.is_whole && paused < GROWS_FOR
    }

    pub(super) fn grown(&self) -> Instant {
        self.grown
    }

    /// Why its next page is not asked for.
    pub(super) fn why_cut(&self) -> Option<&'static str> {
        if self.is_endless {
            return Some("the server's listing leads back to a page that it gave before");
        }
        let is_too_long = self.places.len() >= NAMES_MAX || self.slots.len() >= PAGES_MAX;
        is_too_long.then_some("more names, or pages, than are listed")
    }

    pub(super) fn bytes(&self) -> usize {
        let tokens = self.slots.iter().filter_map(|slot| slot.token.as_ref());
        let tokens: usize = tokens.map(|token| token.len() + ALLOCATION_BYTES).sum();
        let slots = self.slots.len() * size_of::<Slot>() + tokens;
        size_of::<Self>() + self.kept_bytes + self.places.len() * COOKIE_BYTES + slots
    }

    pub(super) fn has_begun(&self) -> bool {
        !self.slots.is_empty()
    }

    /// Which names it has; `None` before all have come.
    pub(super) fn digest(&self) -> Option<u64> {
        self.is_whole.then_some(self.digest)
    }

    /// Whether the page with this token is the next one, or has the slot `number`.
    pub(super) fn awaits(&self, number: Option<usize>, token: Option<&str>) -> bool {
        let known = match number {
            Some(number) => self.slots.get(number).map(|slot| slot.token.as_deref()),
            None => Some(self.next.as_deref()),
        };
        known == Some(token)
    }

    pub(super) fn add(&mut self, directory: &str, listed: ListPage) -> Arc<Page> {
        let token = self.next.take();
        let next = listed.next.clone();
        let number = self.slots.len();
        self.slots.push(Slot {
            token,
            items: 0,
            page: None,
        });
        self.is_endless = next.is_some() && self.slots.iter().any(|slot| slot.token == next);
        self.next = next;
        self.is_whole = self.next.is_none();
        self.put_back(number, directory, listed)
    }

    pub(super) fn put_back(
        &mut self,
        number: usize,
        directory: &str,
        listed: ListPage,
    ) -> Arc<Page> {
        self.grown = Instant::now();
        let before = self.slots.get(number).map_or(0, |slot| slot.items);
        let (page, known) = self.page_of(number, directory, listed);
        let page = Arc::new(page);
        // Looks at all names of the directory: not for each page that comes again as it was.
        if known < before {
            self.leave_out(number, &page);
        }
        if let Some(slot) = self.slots.get_mut(number) {
            let before = slot.page.replace(page.clone());
            slot.items = page.items.len();
            self.kept_bytes += page.bytes;
            self.kept_bytes -= before.map_or(0, |before| before.bytes);
        }
        for (other, slot) in self.slots.iter_mut().enumerate() {
            if self.kept_bytes <= KEPT_BYTES_MAX {
                break;
            }
            if other != number
                && let Some(page) = slot.page.take()
            {
                self.kept_bytes -= page.bytes;
            }
        }
        page
    }

    /// Forgets the names that a page had and has no more: what stands in their places now is not
    /// what came behind them.
    fn leave_out(&mut self, number: usize, page: &Page) {
        let digest = &mut self.digest;
        self.places.retain(|cookie, (slot, at)| {
            let item = page.items.get(*at as usize);
            let stays = *slot as usize != number || item.is_some_and(|item| item.cookie == *cookie);
            if !stays {
                *digest ^= cookie;
            }
            stays
        });
    }

    /// The page, and how many of its names it had before.
    fn page_of(&mut self, number: usize, directory: &str, listed: ListPage) -> (Page, usize) {
        let mut known = 0;
        let mut page = Page {
            began: self.began,
            items: Vec::with_capacity(listed.objects.len() + listed.prefixes.len()),
            unusable: 0,
            bytes: size_of::<Page>(),
        };
        for object in listed.objects {
            match object.key.strip_prefix(directory) {
                None => page.unusable += 1,
                Some(_) if object.key.len() > name::KEY_BYTES_MAX => page.unusable += 1,
                // The marker of the directory itself.
                Some("") if object.version.length_bytes == 0 => {}
                Some(segment) => {
                    let found = Found::File(object.version);
                    known += usize::from(self.put(&mut page, number, segment, found));
                }
            }
        }
        for prefix in listed.prefixes {
            let segment = prefix.strip_prefix(directory);
            match segment.and_then(|rest| rest.strip_suffix('/')) {
                None => page.unusable += 1,
                Some(_) if prefix.len() > name::KEY_BYTES_MAX => page.unusable += 1,
                Some(segment) => {
                    known += usize::from(self.put(&mut page, number, segment, Found::Directory));
                }
            }
        }
        (page, known)
    }

    /// Adds a name to a page, unless another page has it: a prefix may come several times. Whether
    /// the page had it before.
    fn put(&mut self, page: &mut Page, number: usize, segment: &str, found: Found) -> bool {
        let mut name = name::of_segment(segment).into_owned();
        let mut is_itself = name == segment.as_bytes();
        if found == Found::Directory && self.places.contains_key(&cookie_of(&name, false)) {
            name = name::beside_file(&name);
            is_itself = false;
        }
        let cookie = cookie_of(&name, found == Found::Directory);
        // In the order of most servers the file comes first, and keeps the name.
        if found != Found::Directory && self.places.contains_key(&cookie_of(&name, true)) {
            page.unusable += 1;
            return false;
        }
        let slot = u32::try_from(number).unwrap_or(u32::MAX);
        let at = u32::try_from(page.items.len()).unwrap_or(u32::MAX);
        let before = self.places.get(&cookie);
        let is_known = before.is_some();
        if let Some((other, place)) = before {
            // A page that comes again has its own names.
            let there = page.items.get(*place as usize);
            if *other != slot || there.is_some_and(|item| item.cookie == cookie) {
                page.unusable += u64::from(found != Found::Directory);
                return false;
            }
        } else {
            self.digest ^= cookie;
        }
        self.places.insert(cookie, (slot, at));
        let item = Item {
            name: name.into(),
            segment: (!is_itself).then(|| segment.into()),
            found,
            cookie,
        };
        page.bytes += item.bytes();
        page.items.push(item);
        is_known
    }

    /// Where the listing goes on behind this cookie; up to [`DOTS`]: at its begin.
    pub(super) fn place_after(&self, cookie: u64) -> Place {
        if cookie <= DOTS {
            return self.place(0, 0);
        }
        match self.places.get(&cookie) {
            Some((slot, at)) => self.place(*slot as usize, *at as usize + 1),
            None if self.is_whole => Place::Unknown,
            // The cookie may be of an earlier listing.
            None => Place::Next(self.next.clone()),
        }
    }

    pub(super) fn place_of(&self, name: &[u8]) -> Place {
        let places = [false, true].map(|is_directory| cookie_of(name, is_directory));
        match places.iter().find_map(|cookie| self.places.get(cookie)) {
            Some((slot, at)) => self.place(*slot as usize, *at as usize),
            None if self.is_whole => Place::Unknown,
            None => Place::Next(self.next.clone()),
        }
    }

    fn place(&self, number: usize, at: usize) -> Place {
        let mut slots = self.slots.iter().enumerate().skip(number);
        // A page may have no name of its own.
        let found =
            slots.find(|(other, slot)| *other > number && slot.items > 0 || at < slot.items);
        match found {
            Some((other, slot)) => match &slot.page {
                Some(page) => Place::At(page.clone(), if other == number { at } else { 0 }),
                None => Place::Gone(other, slot.token.clone()),
            },
            None if self.is_whole => Place::End,
            None => Place::Next(self.next.clone()),
        }
    }

    /// A name, if its page is kept.
    pub(super) fn find(&self, name: &[u8]) -> Option<Item> {
        [false, true].into_iter().find_map(|is_directory| {
            let (slot, at) = self.places.get(&cookie_of(name, is_directory))?;
            let page = self.slots.get(*slot as usize)?.page.as_ref()?;
            let item = page.items.get(*at as usize)?;
            (*item.name == *name).then(|| item.clone())
        })
    }

    /// Whether all pages have come, are kept, and have no names but those.
    pub(super) fn has_none_but(&self, is_left_out: &dyn Fn(&[u8]) -> bool) -> bool {
        let has_none = |slot: &Slot| {
            let page = slot.page.as_ref();
            page.is_some_and(|page| page.items.iter().all(|item| is_left_out(&item.name)))
        };
        self.is_whole && self.slots.iter().all(has_none)
    }

    pub(super) fn lacks(&self, name: &[u8]) -> bool {
        let has = |is_directory| self.places.contains_key(&cookie_of(name, is_directory));
        self.is_whole && !has(false) && !has(true)
    }
}

fn cookie_of(name: &[u8], is_directory: bool) -> u64 {
    let kind = if is_directory { "/" } else { "" };
    let text = String::from_utf8_lossy(name);
    let (number, _) = hash_of(&[&text, kind].concat()).halves();
    // NFS clients may take it for a signed number, and one bit is for `directory.rs`.
    (number >> 2).max(DOTS + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(segments: &[&str], next: Option<&str>) -> ListPage {
        ListPage {
            prefixes: segments.iter().map(|one| format!("{one}/")).collect(),
            next: next.map(str::to_owned),
            ..ListPage::default()
        }
    }

    #[test]
    fn a_file_that_comes_behind_a_directory_of_its_name_does_not_share_it() {
        let mut listing = Listing::new(Instant::now());
        listing.add("", page(&["a"], Some("next")));
        let object = pagewell_object_client::ListedObject {
            key: "a".to_owned(),
            version: Version {
                etag: None,
                last_modified: None,
                length_bytes: 1,
            },
        };
        let last = ListPage {
            objects: vec![object],
            ..ListPage::default()
        };
        let page = listing.add("", last);
        assert_eq!((page.items.len(), page.unusable), (0, 1));
        assert_eq!(listing.find(b"a").unwrap().found, Found::Directory);
    }

    #[test]
    fn a_page_that_comes_again_without_a_name_skips_none() {
        let mut listing = Listing::new(Instant::now());
        listing.add("", page(&["a", "b", "c"], Some("c")));
        listing.add("", page(&["d"], None));
        let whole = listing.digest();
        let behind = |listing: &Listing, name: &str| match listing
            .place_after(cookie_of(name.as_bytes(), true))
        {
            Place::At(page, at) => Some(page.items[at].name.to_vec()),
            _ => None,
        };
        assert_eq!(behind(&listing, "a").unwrap(), b"b");
        let (_, known) = listing.page_of(0, "", page(&["c", "b", "a"], Some("c")));
        assert_eq!(known, 3, "no other name is looked at");
        let (_, known) = listing.page_of(0, "", page(&["b", "c"], Some("c")));
        assert_eq!(known, 2);
        listing.put_back(0, "", page(&["b", "c"], Some("c")));
        assert!(matches!(
            listing.place_after(cookie_of(b"a", true)),
            Place::Unknown
        ));
        assert_eq!(behind(&listing, "b").unwrap(), b"c");
        assert_eq!(behind(&listing, "c").unwrap(), b"d");
        assert!(listing.lacks(b"a"));
        listing.put_back(0, "", page(&["a", "b", "c"], Some("c")));
        assert_eq!(listing.digest(), whole);
        assert_eq!(behind(&listing, "a").unwrap(), b"b");
    }

    #[test]
    fn a_listing_that_leads_back_has_no_end() {
        for token in ["b", "c"] {
            let mut listing = Listing::new(Instant::now());
            listing.add("", page(&["a"], Some("b")));
            listing.add("", page(&["b"], Some("c")));
            assert_eq!(listing.why_cut(), None);
            listing.add("", page(&["c"], Some(token)));
            assert!(listing.find(b"c").is_some() && listing.why_cut().is_some());
            assert!(listing.digest().is_none() && !listing.lacks(b"d"));
            let end = listing.place_after(cookie_of(b"c", true));
            assert!(matches!(end, Place::Next(Some(next)) if next == token));
        }
    }
}
