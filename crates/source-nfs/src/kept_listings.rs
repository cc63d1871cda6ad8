//! Which listings are kept, and how much they take.
//!
//! Few directories have listings kept. All pages of a mount together have a bound in bytes: beyond
//! it the directories that were asked for longest ago lose theirs, and when one is left, its first
//! pages go. Each page counts itself from its making to its end, so what is dropped for another
//! reason, as when a directory has changed, needs no bookkeeping.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use pagewell_base::sync::Mutex;
use pagewell_sunrpc::nfs3::Verifier;

use super::node::Node;
use super::pages::{Listed, Page};

/// Bytes of all pages that are kept: some 40,000 names of usual length.
pub(super) const BYTES_MAX: usize = 6 << 20;
/// Directories with listings.
const LISTINGS_MAX: usize = 16;

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
        let mut directories = self.directories.lock();
        directories.retain(|other| !std::ptr::eq(other.as_ptr(), Arc::as_ptr(node)));
        directories.push_back(Arc::downgrade(node));
        while directories.len() > LISTINGS_MAX || directories.len() > 1 && self.is_full() {
            if let Some(oldest) = directories.pop_front().and_then(|oldest| oldest.upgrade()) {
                oldest.lock().listing = None;
            }
        }
        drop(directories);
        if let Some(listing) = &mut node.lock().listing {
            while self.is_full() && listing.drop_first() {}
        }
    }

    fn is_full(&self) -> bool {
        self.bytes.load(Ordering::Relaxed) > BYTES_MAX
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use pagewell_fs::FileId;

    use super::*;

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
