//! Pages of a listing, as READDIR brought them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use pagewell_fs::FileId;

use super::attributes::Stamp;

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

    pub(super) fn bytes(&self) -> usize {
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

    pub(super) fn push(&mut self, page: Arc<Page>) {
        self.pages.retain(|other| other.after != page.after);
        self.pages.push(page);
    }

    /// Drops the page that has been there longest, if another is left.
    pub(super) fn drop_first(&mut self) -> bool {
        let has_others = self.pages.len() > 1;
        if has_others {
            self.pages.remove(0);
        }
        has_others
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
            stamp: Stamp {
                changes: 0,
                own_changes: 0,
            },
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
}
