//! A directory: its listing, and when its names were seen to change.
//!
//! One thread at a time asks for pages of a listing; others wait for it, and find what it brought,
//! or fail as it did. Names that were made or removed here lie over the listing (`overlay.rs`). A
//! name is looked for in the listing when that has come whole, or comes whole with one page. In a
//! larger directory the object with that key is asked for, then what lies below it.

use std::time::{Duration, Instant};

use pagewell_base::sync::Mutex;
use pagewell_fs::{Error, Result, Timestamp};
use pagewell_object_client::{Error as RemoteError, ListPage, ListQuery, Remote};

use super::error;
use super::listing::{Found, Item, Listing, Place};
use super::name::{self, HIDDEN};
use super::overlay::Overlay;
use super::walk::Walk;

/// Names of a page.
pub(super) const PAGE_ENTRIES: u32 = 1000;
/// Marks cookies of names over the listing, which may have the name too, in another place.
const OWN: u64 = 1 << 62;

#[derive(Default)]
pub(super) struct Directory {
    state: Mutex<DirectoryState>,
    /// Held while a page is asked for.
    asking: Mutex<()>,
}

struct DirectoryState {
    listing: Option<Listing>,
    own: Overlay,
    digest: Option<u64>,
    changed: Timestamp,
    walk: Walk,
    /// What the listing took when it was counted.
    counted_bytes: usize,
    /// The last failure of a request for a page.
    failed: Option<(Instant, Error)>,
}

impl Default for DirectoryState {
    fn default() -> Self {
        Self {
            listing: None,
            own: Overlay::default(),
            walk: Walk::default(),
            digest: None,
            changed: Timestamp::now(),
            counted_bytes: 0,
            failed: None,
        }
    }
}

#[derive(Clone, Copy)]
pub(super) struct Asked<'a> {
    pub remote: &'a dyn Remote,
    pub key: &'a str,
    pub is_root: bool,
    pub age: Duration,
    pub since: Instant,
    pub may_block: bool,
}

impl Asked<'_> {
    fn page(&self, token: Option<String>) -> Result<ListPage> {
        let query = ListQuery {
            prefix: self.key,
            delimiter: true,
            token,
            page_entries_max: PAGE_ENTRIES,
        };
        let mut page = self.remote.list(&query).map_err(error::of_call)?;
        if self.is_root {
            hide(&mut page, self.key);
        }
        Ok(page)
    }

    /// Looks for a name by its key alone.
    fn single(&self, name: &[u8]) -> Result<Option<Found>> {
        let Some(plain) = std::str::from_utf8(name)
            .ok()
            .filter(|_| name::is_plain(name))
            .filter(|plain| self.key.len() + plain.len() < name::KEY_BYTES_MAX)
        else {
            return Ok(None);
        };
        let key = [self.key, plain].concat();
        match self.remote.head(&key) {
            Ok(found) => return Ok(Some(Found::File(found.version))),
            Err(RemoteError::NotFound) => {}
            Err(failure) => return Err(error::of_call(failure)),
        }
        let below = ListQuery {
            prefix: &[&key, "/"].concat(),
            delimiter: false,
            token: None,
            page_entries_max: 1,
        };
        let page = self.remote.list(&below).map_err(error::of_call)?;
        Ok((!page.objects.is_empty()).then_some(Found::Directory))
    }
}

/// Leaves out of a page of the root what Pagewell itself keeps in the bucket.
fn hide(page: &mut ListPage, root: &str) {
    let is_hidden = |prefix: &str| {
        let own = prefix.strip_prefix(root);
        own.and_then(|own| own.strip_suffix('/')) == Some(HIDDEN)
    };
    page.prefixes.retain(|prefix| !is_hidden(prefix));
}

impl Directory {
    /// Begins the root's listing with its first page, which was asked for at `began`.
    pub(super) fn begin_root(&self, key: &str, mut page: ListPage, began: Instant) {
        hide(&mut page, key);
        self.state.lock().begin(key, page, began);
    }

    /// When its names were seen to change.
    pub(super) fn changed(&self) -> Timestamp {
        self.state.lock().changed
    }

    /// What the listing took when it was counted last, and takes now.
    pub(super) fn count_bytes(&self) -> (usize, usize) {
        let mut state = self.state.lock();
        let now = state.listing.as_ref().map_or(0, Listing::bytes) + state.own.bytes();
        // Never 0 again, which would have it counted as new.
        let now = now.max(usize::from(state.counted_bytes > 0));
        (std::mem::replace(&mut state.counted_bytes, now), now)
    }

    pub(super) fn counted_bytes(&self) -> usize {
        self.state.lock().counted_bytes
    }

    pub(super) fn grown_at(&self) -> Option<Instant> {
        let state = self.state.lock();
        state.listing.as_ref().map(Listing::grown)
    }

    /// Forgets the listing. Returns what had been counted.
    pub(super) fn forget(&self) -> usize {
        let mut state = self.state.lock();
        let listing = state.listing.take();
        let counted_bytes = std::mem::take(&mut state.counted_bytes);
        drop(state);
        drop(listing);
        counted_bytes
    }

    /// A name, if a listing that is believed has it, and when that began.
    pub(super) fn remembered(&self, name: &[u8], age: Duration) -> Option<(Item, Instant)> {
        let state = self.state.lock();
        let listing = state.listing.as_ref()?;
        Error::NotFound
            .unless(listing.is_fresh(Instant::now(), age))
            .ok()?;
        let item = match state.own.find(name, Some(listing.began())) {
            Some(own) => own?.clone(),
            None => listing.find(name)?,
        };
        Some((item, listing.began()))
    }

    /// A file is read from its beginning, whose bytes memory `has` or has not. Returns the names to
    /// fetch ahead from a listing that is believed, and when they were there.
    pub(super) fn walk(
        &self,
        name: &[u8],
        has: bool,
        age: Duration,
    ) -> Option<(Vec<Item>, Instant)> {
        let mut state = self.state.lock();
        let DirectoryState {
            listing, own, walk, ..
        } = &mut *state;
        // Reads from memory alone need no help.
        if has && !walk.is_ahead() {
            return None;
        }
        let listing = listing.as_ref()?;
        if !listing.is_fresh(Instant::now(), age) {
            return None;
        }
        let (file, began) = (listing.find(name)?, listing.began());
        let mut names = walk.read(listing, &file);
        names.retain(|item| own.find(&item.name, Some(began)).is_none());
        Some((names, began))
    }

    #[cfg(test)]
    pub(super) fn listed_at(&self) -> Option<Instant> {
        let state = self.state.lock();
        state.listing.as_ref().map(Listing::began)
    }

    /// Looks for a name as the module says; one that may be made up for a key, in all of the
    /// listing. Returns it with the time at which it was so.
    pub(super) fn find(&self, asked: Asked<'_>, name: &[u8]) -> Result<(Item, Instant)> {
        let mut was_asked = false;
        let (mut was_single, mut is_last) = (false, false);
        loop {
            let mut is_listed = false;
            let state = self.state.lock();
            let began = state.listing.as_ref().map(Listing::began);
            let is_fresh = |listing: &Listing| listing.is_fresh(Instant::now(), asked.age);
            let is_fresh = state.listing.as_ref().is_some_and(is_fresh);
            if let Some(own) = state.own.find(name, began)
                && (is_fresh || state.own.is_young(name, asked.age))
            {
                let own = own.cloned().ok_or(Error::NotFound)?;
                return Ok((own, began.unwrap_or(asked.since)));
            }
            if let Some(listing) = &state.listing {
                let now = Instant::now();
                if was_asked || listing.is_fresh(now, asked.age) {
                    if let Some(item) = listing.find(name) {
                        return Ok((item, listing.began()));
                    }
                    Error::NotFound.when(listing.lacks(name))?;
                    is_listed = listing.has_begun();
                } else {
                    is_listed = listing.is_growing(now) && name::is_plain(name);
                }
            }
            drop(state);
            Error::WouldBlock.unless(asked.may_block)?;
            if is_listed {
                let now = Instant::now();
                if !was_single && let Some(found) = asked.single(name)? {
                    return Ok((Item::new(name, found), now));
                }
                was_single = true;
                // No page was left to ask for, and none that another thread brought had it.
                let is_over = is_last || !name::may_be_made(name);
                Error::NotFound.when(is_over)?;
                is_last = !self.ask(asked, &|| self.place_of(name))?;
                continue;
            }
            self.begin(asked)?;
            was_asked = true;
        }
    }

    /// A page of the listing, for the one thread that asks. A failure that came while this call
    /// waited is not tried again: callers would wait for a silent server in turn.
    fn page(&self, asked: Asked<'_>, token: Option<String>) -> Result<ListPage> {
        if let Some((at, error)) = &self.state.lock().failed
            && *at >= asked.since
        {
            return Err(error.clone());
        }
        let page = asked.page(token);
        if let Err(error) = &page {
            self.state.lock().failed = Some((Instant::now(), error.clone()));
        }
        page
    }

    fn begin(&self, asked: Asked<'_>) -> Result<()> {
        let _alone = self.asking.lock();
        let now = Instant::now();
        if let Some(listing) = &self.state.lock().listing
            && listing.has_begun()
            && listing.is_fresh(now, asked.age)
        {
            return Ok(());
        }
        let page = self.page(asked, None)?;
        self.state.lock().begin(asked.key, page, now);
        Ok(())
    }

    /// Gives the names behind this cookie to `visit`, with the time at which they were there, until
    /// it refuses one. Returns whether it took the last one, and how many names of the pages that
    /// were looked at cannot be shown.
    pub(super) fn read(
        &self,
        asked: Asked<'_>,
        mut cookie: u64,
        visit: &mut dyn FnMut(&Item, Instant) -> bool,
    ) -> Result<(bool, u64)> {
        let mut unusable = 0;
        if cookie & OWN != 0 {
            cookie &= !OWN;
            if let Some(name) = self.own_name(cookie) {
                return Ok((self.read_own(Some(&name), visit), unusable));
            }
        }
        let mut is_begin = cookie <= super::listing::DOTS;
        loop {
            match self.place(asked, cookie, is_begin) {
                Place::At(page, at) => {
                    unusable += page.unusable * u64::from(at == 0);
                    for item in page.items.iter().skip(at) {
                        let is_own = self.has_own(&item.name, page.began);
                        if !is_own && !visit(item, page.began) {
                            return Ok((false, unusable));
                        }
                        cookie = item.cookie;
                        is_begin = false;
                    }
                }
                Place::End => return Ok((self.read_own(None, visit), unusable)),
                Place::Unknown => {
                    let name = self.own_name(cookie).ok_or(Error::BadCookie)?;
                    return Ok((self.read_own(Some(&name), visit), unusable));
                }
                Place::Gone(..) | Place::Next(_) => {
                    Error::WouldBlock.unless(asked.may_block)?;
                    self.ask(asked, &|| self.place(asked, cookie, is_begin))?;
                    is_begin = false;
                }
            }
        }
    }

    /// Whether a change here overrules a listing that began then.
    fn has_own(&self, name: &[u8], began: Instant) -> bool {
        self.state.lock().own.find(name, Some(began)).is_some()
    }

    fn own_name(&self, cookie: u64) -> Option<Vec<u8>> {
        let state = self.state.lock();
        state.own.name_of(cookie).map(<[u8]>::to_vec)
    }

    /// Gives the names over the listing behind this one to `visit`. Whether it took the last.
    fn read_own(&self, name: Option<&[u8]>, visit: &mut dyn FnMut(&Item, Instant) -> bool) -> bool {
        let state = self.state.lock();
        let began = state.listing.as_ref().map(Listing::began);
        let items = state.own.after(name, began);
        drop(state);
        let at = began.unwrap_or_else(Instant::now);
        items.into_iter().all(|item| {
            let cookie = item.cookie | OWN;
            visit(&Item { cookie, ..item }, at)
        })
    }

    /// Notes that the store may have other names than it had.
    pub(super) fn expire(&self) {
        let mut state = self.state.lock();
        state.own.settle(Instant::now());
        state.listing = None;
    }

    /// Notes a name that was made here; `at`: since when the remote has it.
    pub(super) fn note_made(&self, item: Item, at: Option<Instant>) {
        self.note(|state| {
            state.expect(&item, false);
            state.own.put(item, at);
        });
    }

    /// Notes that the remote has a name that waited for it.
    pub(super) fn note_stored(&self, item: Item) {
        let mut state = self.state.lock();
        if state.own.waits(&item.name) {
            state.own.put(item, Some(Instant::now()));
        }
    }

    pub(super) fn note_removed(&self, item: &Item) {
        self.note(|state| {
            state.expect(item, true);
            state.own.remove(&item.name, item.cookie, Instant::now());
        });
    }

    /// Forgets what was done here with a name, and the listing: the remote knows better.
    pub(super) fn mistrust(&self, name: &[u8]) {
        self.note(|state| state.own.forget(name));
        let listing = self.state.lock().listing.take();
        drop(listing);
    }

    fn note(&self, change: impl FnOnce(&mut DirectoryState)) {
        let mut state = self.state.lock();
        change(&mut state);
        state.changed = state.changed.next().max(Timestamp::now());
        let listing = if state.own.is_full() {
            state.own.settle(Instant::now());
            state.listing.take()
        } else {
            None
        };
        drop(state);
        drop(listing);
    }

    /// Notes that the directory was made here, and so has no names.
    pub(super) fn begin_empty(&self) {
        let mut state = self.state.lock();
        state.own = Overlay::default();
        state.begin("", ListPage::default(), Instant::now());
    }

    pub(super) fn has_waiting(&self) -> bool {
        self.state.lock().own.has_waiting()
    }

    pub(super) fn is_empty(&self) -> bool {
        let state = self.state.lock();
        let Some(listing) = &state.listing else {
            return false;
        };
        let began = Some(listing.began());
        let is_gone = |name: &[u8]| state.own.find(name, began) == Some(None);
        !state.own.has_any(began) && listing.has_none_but(&is_gone)
    }

    /// Where a listing goes on; a reader that begins gets none that is too old.
    fn place(&self, asked: Asked<'_>, cookie: u64, is_begin: bool) -> Place {
        let state = self.state.lock();
        match &state.listing {
            Some(listing) if !is_begin || listing.is_fresh(Instant::now(), asked.age) => {
                listing.place_after(cookie)
            }
            _ => Place::Next(None),
        }
    }

    fn place_of(&self, name: &[u8]) -> Place {
        let state = self.state.lock();
        let listing = state.listing.as_ref();
        listing.map_or(Place::Next(None), |listing| listing.place_of(name))
    }

    /// Asks for the page at this place, looked up again once no other thread asks. Whether there
    /// was one to ask for.
    fn ask(&self, asked: Asked<'_>, place: &dyn Fn() -> Place) -> Result<bool> {
        let _alone = self.asking.lock();
        let place = place();
        let now = Instant::now();
        let (number, token) = match place {
            Place::Gone(number, token) => (Some(number), token),
            Place::Next(token) => (None, token),
            Place::At(..) | Place::End | Place::Unknown => return Ok(false),
        };
        let is_first = number.is_none() && token.is_none();
        let why_cut = |listing: &Listing| listing.why_cut();
        if number.is_none()
            && !is_first
            && let Some(why) = self.state.lock().listing.as_ref().and_then(why_cut)
        {
            return Err(Error::Io(format!("{}: {why}", asked.key)));
        }
        let page = self.page(asked, token.clone())?;
        let mut state = self.state.lock();
        if is_first {
            state.listing = None;
            state.own.settle(now);
        } else if !state.awaits(number, token.as_deref()) {
            // The listing was forgotten meanwhile: a page of it would pass for all of the next.
            return Ok(true);
        }
        let listing = state.listing.get_or_insert_with(|| Listing::new(now));
        match number {
            Some(number) => listing.put_back(number, asked.key, page),
            None => listing.add(asked.key, page),
        };
        state.note_whole();
        Ok(true)
    }
}

impl DirectoryState {
    fn begin(&mut self, key: &str, page: ListPage, began: Instant) {
        self.own.settle(began);
        let listing = self.listing.insert(Listing::new(began));
        listing.add(key, page);
        self.note_whole();
    }

    fn awaits(&self, number: Option<usize>, token: Option<&str>) -> bool {
        let listing = self.listing.as_ref();
        listing.is_some_and(|listing| listing.awaits(number, token))
    }

    /// A name that `was` there or not is made or removed here: the next listing is expected to
    /// differ by it, which is then no change by others.
    fn expect(&mut self, item: &Item, was: bool) {
        let began = self.listing.as_ref().map(Listing::began);
        let is_listed = |listing: &Listing| match listing.find(&item.name) {
            Some(_) => Some(true),
            None => listing.lacks(&item.name).then_some(false),
        };
        let is_there = match self.own.find(&item.name, began) {
            Some(own) => Some(own.is_some()),
            None => self.listing.as_ref().and_then(is_listed),
        };
        if is_there == Some(was)
            && let Some(digest) = &mut self.digest
        {
            *digest ^= item.cookie;
        }
    }

    /// A whole listing with other names than the last one shows a change.
    fn note_whole(&mut self) {
        let Some(digest) = self.listing.as_ref().and_then(Listing::digest) else {
            return;
        };
        if self
            .digest
            .replace(digest)
            .is_some_and(|before| before != digest)
        {
            self.changed = Timestamp::now();
        }
    }
}
