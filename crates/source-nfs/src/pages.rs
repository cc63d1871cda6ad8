//! Pages of listings, as READDIR brought them, and which of them are kept.
//!
//! Beyond a bound for all pages of a mount, the directories that were asked for longest ago lose
//! theirs; of the last one the first pages go.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use pagewell_base::sync::Mutex;
use pagewell_fs::FileId;

use super::attributes::Stamp;
use super::node::Node;

/// Of all kept pages: some 40,000 names of usual length.
pub(super) const BYTES_MAX: usize = 6 << 20;
/// Directories with listings.
const LISTINGS_MAX: usize = 16;
/// The cost of an allocation besides its bytes.
const ALLOCATION_BYTES: usize = 24;

#[derive(Debug)]
pub(super) struct Listed {
    pub name: Box<[u8]>,
    pub file_id: u64,
    /// A front goes on behind the entry with it.
    pub cookie: u64,
    /// No longer than its bytes.
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

/// Of one READDIR.
#[derive(Debug)]
pub(super) struct Page {
    /// That of the request.
    pub after: u64,
    /// Entries of the listing before it, if known.
    pub position: Option<usize>,
    /// The server's cookie of its last entry, shown or not; of a last page that of the request.
    pub next: u64,
    pub entries: Vec<Listed>,
    /// In memory.
    pub bytes: usize,
    /// Entries that cannot be shown.
    pub unusable: u64,
    pub is_last: bool,
    pub came: Instant,
    /// Of the directory, at the request.
    pub stamp: Stamp,
}

impl Page {
    /// Of a page with these entries, in memory.
    pub(super) fn bytes_with(entries: &[Listed]) -> usize {
        size_of::<Self>() + entries.iter().map(Listed::bytes).sum::<usize>()
    }

    /// Entries of the listing up to its end, if known.
    pub(super) fn end_position(&self) -> Option<usize> {
        Some(self.position? + self.entries.len())
    }

    /// The place of the entry after `cookie`, which may be that of its end.
    pub(super) fn find_end(&self, cookie: u64) -> Option<usize> {
        let is_end = self.next == cookie && !self.is_last;
        is_end
            .then_some(self.entries.len())
            .or_else(|| self.find(cookie))
    }

    /// The place of the entry after `cookie`.
    pub(super) fn find(&self, cookie: u64) -> Option<usize> {
        if self.after == cookie {
            return Some(0);
        }
        let mut entries = self.entries.iter();
        let index = 1 + entries.position(|entry| entry.cookie == cookie)?;
        // The next page goes on behind the last entry, whose cookie it has.
        let is_next = index == self.entries.len() && cookie == self.next;
        (!is_next || self.is_last).then_some(index)
    }
}

pub(super) struct Spot {
    pub page: Arc<Page>,
    pub index: usize,
}

struct Listing {
    directory: u64,
    pages: VecDeque<Arc<Page>>,
}

impl Listing {
    fn bytes(&self) -> usize {
        self.pages.iter().map(|page| page.bytes).sum()
    }
}

/// The directory that was asked for last is the last.
#[derive(Default)]
pub(super) struct Listings(Mutex<VecDeque<Listing>>);

impl Listings {
    /// The place of the entry after `cookie`, unless others have changed the directory since.
    pub(super) fn find(&self, directory: &Node, cookie: u64) -> Option<Spot> {
        let changes = directory.stamp().changes;
        let listings = self.0.lock();
        let mut listings = listings.iter();
        let listing = listings.find(|listing| listing.directory == directory.number())?;
        listing.pages.iter().rev().find_map(|page| {
            let index = page
                .find(cookie)
                .filter(|_| page.stamp.changes == changes)?;
            let page = page.clone();
            Some(Spot { page, index })
        })
    }

    /// The entries of the listing up to this cookie, if its page is kept.
    pub(super) fn position(&self, directory: &Node, cookie: u64) -> Option<usize> {
        let listings = self.0.lock();
        let mut listings = listings.iter();
        let listing = listings.find(|listing| listing.directory == directory.number())?;
        listing
            .pages
            .iter()
            .rev()
            .find_map(|page| Some(page.position? + page.find_end(cookie)?))
    }

    /// Keeps a page of a directory in which nothing has happened since its request. A first page
    /// begins a new listing.
    pub(super) fn keep(&self, directory: &Node, page: &Arc<Page>) {
        let mut listings = self.0.lock();
        if directory.stamp() != page.stamp {
            // It may lack a new name, which listings begun since are to show.
            return;
        }
        let mut others = listings.iter();
        let place = others.position(|listing| listing.directory == directory.number());
        let known = place.and_then(|index| listings.remove(index));
        let mut pages = known.map_or_else(VecDeque::new, |listing| listing.pages);
        pages.retain(|other| {
            let is_of_now = other.stamp.changes == page.stamp.changes;
            page.after != 0 && other.after != page.after && is_of_now
        });
        pages.push_back(page.clone());
        listings.push_back(Listing {
            directory: directory.number(),
            pages,
        });
        let mut bytes: usize = listings.iter().map(Listing::bytes).sum();
        while listings.len() > LISTINGS_MAX || listings.len() > 1 && bytes > BYTES_MAX {
            bytes -= listings.pop_front().map_or(0, |oldest| oldest.bytes());
        }
        if let Some(Listing { pages, .. }) = listings.back_mut() {
            while pages.len() > 1 && bytes > BYTES_MAX {
                bytes -= pages.pop_front().map_or(0, |first| first.bytes);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(number: u64) -> Node {
        Node::new(FileId::new(&number.to_ne_bytes()).unwrap(), number)
    }

    /// Keeps a page with these cookies, all of one name.
    fn list(
        listings: &Listings,
        node: &Node,
        name: &[u8],
        cookies: std::ops::Range<u64>,
        is_last: bool,
    ) {
        list_at(listings, (node, node.stamp()), name, cookies, is_last);
    }

    /// [`list`] of a page that was asked for then.
    fn list_at(
        listings: &Listings,
        (node, stamp): (&Node, Stamp),
        name: &[u8],
        cookies: std::ops::Range<u64>,
        is_last: bool,
    ) {
        let (after, next) = (cookies.start - 1, cookies.end - 1);
        let id = FileId::new(&[7; 32]);
        let listed = |cookie| Listed::new(name, cookie, cookie, id);
        let entries: Vec<Listed> = cookies.map(listed).collect();
        let page = Page {
            after,
            position: None,
            next,
            bytes: Page::bytes_with(&entries),
            entries,
            unusable: 0,
            is_last,
            came: Instant::now(),
            stamp,
        };
        listings.keep(node, &Arc::new(page));
    }

    /// Keeps a page of a thousand long names after `after`.
    fn list_many(listings: &Listings, node: &Node, after: u64) {
        list(listings, node, &[b'x'; 200], after + 1..after + 1001, false);
    }

    fn bytes(listings: &Listings) -> usize {
        listings.0.lock().iter().map(Listing::bytes).sum()
    }

    #[test]
    fn a_listing_goes_on_where_a_page_has_its_entry() {
        let (listings, directory) = (Listings::default(), node(1));
        list(&listings, &directory, b"x", 1..5, false);
        assert!(listings.find(&directory, 4).is_none());
        list(&listings, &directory, b"x", 5..9, true);
        let found = |cookie| {
            let spot = listings.find(&directory, cookie);
            spot.map(|spot| (spot.page.after, spot.index))
        };
        assert_eq!(found(0), Some((0, 0)));
        assert_eq!(found(2), Some((0, 2)));
        assert_eq!(found(4), Some((4, 0)));
        assert_eq!(found(8), Some((4, 4)));
        assert_eq!(found(99), None);
        assert!(listings.find(&node(2), 0).is_none());
        directory.lock().changed_by_others();
        assert_eq!(found(2), None);
        list(&listings, &directory, b"x", 3..5, false);
        assert_eq!((found(2), found(0)), (Some((2, 0)), None));
    }

    #[test]
    fn a_last_page_begins_where_the_one_before_it_ends() {
        let (listings, directory) = (Listings::default(), node(1));
        let page = |after, position, next, is_last| Page {
            after,
            position: Some(position),
            next,
            entries: (after + 1..after + 5)
                .map(|cookie| Listed::new(b"x", cookie, cookie, None))
                .collect(),
            bytes: 0,
            unusable: 0,
            is_last,
            came: Instant::now(),
            stamp: directory.stamp(),
        };
        listings.keep(&directory, &Arc::new(page(0, 0, 4, false)));
        assert_eq!(listings.position(&directory, 4), Some(4));
        listings.keep(&directory, &Arc::new(page(4, 4, 4, true)));
        assert_eq!(listings.position(&directory, 4), Some(4));
        assert_eq!(listings.position(&directory, 6), Some(6));
    }

    #[test]
    fn a_page_that_was_overtaken_is_not_kept_and_leaves_newer_ones() {
        let (listings, directory) = (Listings::default(), node(1));
        let asked = directory.stamp();
        directory.begin_change();
        let has = |cookie| listings.find(&directory, cookie).is_some();
        list(&listings, &directory, b"x", 1..5, false);
        list_at(&listings, (&directory, asked), b"x", 5..9, true);
        assert!(has(2) && !has(5));
        list_at(&listings, (&directory, asked), b"y", 1..3, false);
        assert!(has(3), "those of now");
        list(&listings, &directory, b"x", 1..3, false);
        assert!(!has(3), "a first page begins anew");
    }

    #[test]
    fn of_a_large_directory_the_last_pages_are_kept() {
        let (listings, node) = (Listings::default(), node(1));
        for number in 0..100 {
            list_many(&listings, &node, number * 1000);
            assert!(bytes(&listings) <= BYTES_MAX);
        }
        assert!(bytes(&listings) > BYTES_MAX / 2, "{}", bytes(&listings));
        let has = |cookie| listings.find(&node, cookie).is_some();
        assert!(has(98_500) && !has(5));
        list(&listings, &node, b"x", 1..5, true);
        assert!(bytes(&listings) < 1000, "what was listed before is dropped");
    }

    #[test]
    fn of_many_directories_the_last_listings_are_kept() {
        let listings = Listings::default();
        let nodes: Vec<_> = (0..30).map(node).collect();
        for node in &nodes {
            for number in 0..10 {
                list_many(&listings, node, number * 1000);
                assert!(bytes(&listings) <= BYTES_MAX);
            }
        }
        let has = |index: usize| listings.find(&nodes[index], 0).is_some();
        assert!(has(29) && !has(0), "the oldest go first");
        let listings = Listings::default();
        for node in &nodes {
            list_many(&listings, node, 0);
        }
        let kept = nodes.iter().filter(|node| listings.find(node, 0).is_some());
        assert_eq!(kept.count(), LISTINGS_MAX);
    }
}
