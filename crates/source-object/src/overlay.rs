//! Names of a directory that were made or removed here, over a listing that may have begun before.
//!
//! A store that answers a change has it in each listing that begins later. So a name lies over the
//! listings that began before the answer; one that the store has not yet, over all.
//!
//! **Known weakness.** A reader of the directory gets these names behind those of the listing, in
//! order. When another reader brings a new listing meanwhile, which has them in their places, the
//! first may miss one that lies before its place.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::listing::Item;

/// Names, beyond which a new listing is asked for.
const NAMES_MAX: usize = 50_000;

#[derive(Default)]
pub(super) struct Overlay {
    names: BTreeMap<Box<[u8]>, Own>,
}

struct Own {
    item: Option<Item>,
    /// By which a reader goes on behind the name.
    cookie: u64,
    /// When the store answered; `None`: it has not been asked yet.
    at: Option<Instant>,
}

impl Own {
    fn is_over(&self, began: Option<Instant>) -> bool {
        match (self.at, began) {
            (Some(at), Some(began)) => began <= at,
            _ => true,
        }
    }
}

impl Overlay {
    /// Adds a name that was made; `at`: when the store answered.
    pub(super) fn put(&mut self, item: Item, at: Option<Instant>) {
        let own = Own {
            cookie: item.cookie,
            at,
            item: Some(item.clone()),
        };
        self.names.insert(item.name, own);
    }

    pub(super) fn remove(&mut self, name: &[u8], cookie: u64, at: Instant) {
        let own = Own {
            item: None,
            cookie,
            at: Some(at),
        };
        self.names.insert(name.into(), own);
    }

    /// What it says over a listing that began then: nothing, that the name is gone, or what it is.
    pub(super) fn find(&self, name: &[u8], began: Option<Instant>) -> Option<Option<&Item>> {
        let own = self.names.get(name)?;
        own.is_over(began).then_some(own.item.as_ref())
    }

    /// Whether it was put there, or removed, less than `age` ago, or waits for the store.
    pub(super) fn is_young(&self, name: &[u8], age: Duration) -> bool {
        let own = self.names.get(name);
        own.is_some_and(|own| own.at.is_none_or(|at| at.elapsed() < age))
    }

    pub(super) fn forget(&mut self, name: &[u8]) {
        self.names.remove(name);
    }

    pub(super) fn name_of(&self, cookie: u64) -> Option<&[u8]> {
        let mut names = self.names.iter();
        let (name, _) = names.find(|(_, own)| own.cookie == cookie)?;
        Some(name)
    }

    /// Names over a listing that began then, behind this one.
    pub(super) fn after(&self, name: Option<&[u8]>, began: Option<Instant>) -> Vec<Item> {
        let names = self.names.iter();
        let names = names.filter(|(own, _)| name.is_none_or(|name| &***own > name));
        let over = names.filter(|(_, own)| own.is_over(began));
        over.filter_map(|(_, own)| own.item.clone()).collect()
    }

    pub(super) fn settle(&mut self, began: Instant) {
        self.names.retain(|_, own| own.is_over(Some(began)));
    }

    pub(super) fn is_full(&self) -> bool {
        self.names.len() > NAMES_MAX
    }

    /// Whether any name is there, over a listing that began then.
    pub(super) fn has_any(&self, began: Option<Instant>) -> bool {
        let mut names = self.names.values();
        names.any(|own| own.item.is_some() && own.is_over(began))
    }

    pub(super) fn waits(&self, name: &[u8]) -> bool {
        self.names.get(name).is_some_and(|own| own.at.is_none())
    }

    pub(super) fn has_waiting(&self) -> bool {
        self.names.values().any(|own| own.at.is_none())
    }

    /// What it takes, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.names.len() * (size_of::<Own>() + 64)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::listing::Found;
    use super::*;

    #[test]
    fn a_name_lies_over_listings_that_began_before_the_store_had_it() {
        let mut overlay = Overlay::default();
        let start = Instant::now();
        let later = |seconds| start + Duration::from_secs(seconds);
        let item = |name: &str| Item::new(name.as_bytes(), Found::Directory);
        overlay.put(item("made"), Some(later(5)));
        overlay.put(item("waits"), None);
        overlay.remove(b"gone", item("gone").cookie, later(5));
        let names = |began| {
            let items = overlay.after(None, began).into_iter();
            items.map(|item| item.name).collect::<Vec<_>>()
        };
        assert_eq!(
            names(Some(later(5))),
            [(*b"made").into(), Box::from(*b"waits")] as [Box<[u8]>; 2]
        );
        assert_eq!(
            names(Some(later(6))),
            [Box::from(*b"waits")] as [Box<[u8]>; 1]
        );
        assert_eq!(overlay.find(b"gone", Some(later(4))), Some(None));
        assert_eq!(overlay.find(b"gone", Some(later(6))), None);
        assert!(overlay.find(b"made", None).is_some());
        assert_eq!(overlay.name_of(item("made").cookie), Some(&b"made"[..]));
        assert_eq!(overlay.after(Some(b"made"), None).len(), 1);
        overlay.settle(later(6));
        assert!(overlay.has_any(None) && overlay.find(b"made", None).is_none());
    }
}
