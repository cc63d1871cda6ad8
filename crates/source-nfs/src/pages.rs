//! Pages of listings that are kept, and how much they take.
//!
//! Few directories have listings kept. All pages of a mount together have a bound in bytes: beyond
//! it the directories that were asked for longest ago lose theirs, and when one is left, its first
//! pages go. Each page counts itself from its making to its end, so what is dropped for another
//! reason, as when a directory has changed, needs no bookkeeping.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Instant;

use pagewell_fs::FileId;
use pagewell_sunrpc::nfs3::Verifier;

use super::names::Stamp;
use super::node::Node;

/// Bytes of all pages that are kept: some 40,000 names of usual length.
pub(super) const BYTES_MAX: usize = 6 << 20;
/// Directories with listings.
const LISTINGS_MAX: usize = 16;
/// What an allocation costs besides its bytes.
const ALLOCATION_BYTES: usize = 24;

/// One entry of a page.
#[derive(Debug)]
pub(super) struct Listed {
    pub(super) name: Box<[u8]>,
    pub(super) file_id: u64,
    pub(super) cookie: u64,
    /// As long as it is, not as it may be.
    id: Option<Box<[u8]>>,
}

impl Listed {
    pub(super) fn new(name: &[u8], file_id: u64, cookie: u64, id: Option<FileId>) -> Self {
        Self {
            name: name.into(),
            file_id,
            cookie,
            id: id.map(|id| id.as_bytes().into()),
        }
    }

    pub(super) fn id(&self) -> Option<FileId> {
        FileId::new(self.id.as_ref()?)
    }

    fn bytes(&self) -> usize {
        let id = self.id.as_ref().map_or(0, |id| id.len() + ALLOCATION_BYTES);
        size_of::<Self>() + self.name.len() + ALLOCATION_BYTES + id
    }
}

/// What one READDIR brought.
#[derive(Debug)]
pub(super) struct Page {
    /// The cookie that it was asked for with.
    pub(super) after: u64,
    /// The cookie of its last entry, also when that cannot be shown.
    pub(super) next: u64,
    pub(super) entries: Vec<Listed>,
    /// Entries that cannot be shown.
    pub(super) unusable: u64,
    pub(super) is_last: bool,
    pub(super) has_attributes: bool,
    pub(super) came: Instant,
    /// Of the directory, when it was asked for.
    pub(super) stamp: Stamp,
    /// Where its bytes are counted as long as it is there, and how many they are.
    pub(super) counted: Option<(Arc<AtomicUsize>, usize)>,
}

impl Drop for Page {
    fn drop(&mut self) {
        if let Some((total, bytes)) = &self.counted {
            total.fetch_sub(*bytes, Ordering::Relaxed);
        }
    }
}

/// Pages of one directory.
#[derive(Debug, Default)]
pub(super) struct Listing {
    pages: Vec<Arc<Page>>,
}

/// Where a listing goes on.
pub(super) struct Spot {
    pub(super) page: Arc<Page>,
    pub(super) index: usize,
}

impl Listing {
    /// Where the entry after `cookie` is.
    pub(super) fn find(&self, cookie: u64) -> Option<Spot> {
        self.pages.iter().rev().find_map(|page| {
            let index = if page.after == cookie {
                0
            } else {
                1 + page
                    .entries
                    .iter()
                    .position(|entry| entry.cookie == cookie)?
            };
            // After the last entry of a page the next page goes on.
            (index < page.entries.len() || page.is_last).then(|| Spot {
                page: page.clone(),
                index,
            })
        })
    }

    fn push(&mut self, page: Arc<Page>) {
        self.pages.retain(|other| other.after != page.after);
        self.pages.push(page);
    }
}

/// Which directories have listings.
#[derive(Default)]
pub(super) struct Listings {
    /// Of all pages that are there.
    bytes: Arc<AtomicUsize>,
    /// The one that was asked for last is the last.
    directories: Mutex<VecDeque<Weak<Node>>>,
}

impl Listings {
    /// A page whose bytes are counted.
    pub(super) fn page(&self, mut page: Page) -> Arc<Page> {
        let bytes = size_of::<Page>() + page.entries.iter().map(Listed::bytes).sum::<usize>();
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        page.counted = Some((self.bytes.clone(), bytes));
        Arc::new(page)
    }

    /// Keeps a page with its directory, and drops others when there are too many.
    pub(super) fn keep(&self, node: &Arc<Node>, page: &Arc<Page>, verifier: Verifier) {
        let mut state = node.lock();
        state.cookie_verifier = verifier;
        if page.after == 0 {
            state.listing = None;
        }
        state.listing.get_or_insert_default().push(page.clone());
        drop(state);
        let directories = self.directories.lock();
        let mut directories = directories.unwrap_or_else(PoisonError::into_inner);
        directories.retain(|other| !std::ptr::eq(other.as_ptr(), Arc::as_ptr(node)));
        directories.push_back(Arc::downgrade(node));
        while directories.len() > LISTINGS_MAX || directories.len() > 1 && self.is_full() {
            if let Some(oldest) = directories.pop_front().and_then(|oldest| oldest.upgrade()) {
                oldest.lock().listing = None;
            }
        }
        drop(directories);
        if let Some(listing) = &mut node.lock().listing {
            while listing.pages.len() > 1 && self.is_full() {
                listing.pages.remove(0);
            }
        }
    }

    fn is_full(&self) -> bool {
        self.bytes.load(Ordering::Relaxed) > BYTES_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(after: u64, cookies: std::ops::Range<u64>, is_last: bool) -> Arc<Page> {
        let listed = |cookie| Listed::new(b"x", cookie, cookie, None);
        Arc::new(Page {
            after,
            next: cookies.end - 1,
            entries: cookies.map(listed).collect(),
            unusable: 0,
            is_last,
            has_attributes: false,
            came: Instant::now(),
            stamp: node(1).stamp(),
            counted: None,
        })
    }

    #[test]
    fn a_listing_goes_on_where_a_page_has_its_entry() {
        let mut listing = Listing::default();
        listing.push(page(0, 1..5, false));
        listing.push(page(4, 5..9, true));
        let found = |cookie| {
            listing
                .find(cookie)
                .map(|spot| (spot.page.after, spot.index))
        };
        assert_eq!(found(0), Some((0, 0)));
        assert_eq!(found(2), Some((0, 2)));
        assert_eq!(found(4), Some((4, 0)));
        assert_eq!(found(8), Some((4, 4)));
        assert_eq!(found(99), None);
        let mut unfinished = Listing::default();
        unfinished.push(page(0, 1..5, false));
        assert!(unfinished.find(4).is_none());
    }

    fn node(number: u64) -> Arc<Node> {
        let id = FileId::new(&number.to_ne_bytes()).unwrap();
        Arc::new(Node::new(id, number))
    }

    /// Keeps a page of a thousand long names after `after`.
    fn list(listings: &Listings, node: &Arc<Node>, after: u64) {
        let id = FileId::new(&[7; 32]);
        let listed = |cookie| Listed::new(&[b'x'; 200], cookie, cookie, id);
        let page = Page {
            after,
            next: after + 1000,
            entries: (after + 1..=after + 1000).map(listed).collect(),
            unusable: 0,
            is_last: false,
            has_attributes: true,
            came: Instant::now(),
            stamp: node.stamp(),
            counted: None,
        };
        listings.keep(node, &listings.page(page), [0; 8]);
    }

    fn bytes(listings: &Listings) -> usize {
        listings.bytes.load(Ordering::Relaxed)
    }

    #[test]
    fn of_a_large_directory_the_last_pages_are_kept() {
        let (listings, node) = (Listings::default(), node(1));
        for number in 0..100 {
            list(&listings, &node, number * 1000);
            assert!(bytes(&listings) <= BYTES_MAX);
        }
        assert!(bytes(&listings) > BYTES_MAX / 2, "{}", bytes(&listings));
        let has = |cookie| node.lock().listing.as_ref().unwrap().find(cookie).is_some();
        assert!(has(98_500) && !has(5));
        node.lock().listing = None;
        assert_eq!(bytes(&listings), 0);
    }

    #[test]
    fn of_many_directories_the_last_listings_are_kept() {
        let listings = Listings::default();
        let nodes: Vec<_> = (0..30).map(node).collect();
        for node in &nodes {
            for number in 0..10 {
                list(&listings, node, number * 1000);
                assert!(bytes(&listings) <= BYTES_MAX);
            }
        }
        let has = |index: usize| nodes[index].lock().listing.is_some();
        assert!(has(29) && !has(0), "the oldest go first");
        let listings = Listings::default();
        for node in &nodes {
            list(&listings, node, 0);
        }
        let kept = nodes.iter().filter(|node| node.lock().listing.is_some());
        assert_eq!(kept.count(), LISTINGS_MAX);
    }
}
