//! Held locks and their bounds.

use std::net::IpAddr;

use pagewell_counters::names;

use crate::file::{FileLocks, Piece};
use crate::owner::Owner;
use crate::table::{
    CLIENTS_MAX, CLIENTS_PER_ADDRESS_MAX, FileKey, LOCKS_MAX, LOCKS_PER_ADDRESS_MAX, Load, Table,
    Wish,
};

impl<C: Clone> Table<C> {
    /// Replaces pieces in the range. False: at a bound; nothing changed.
    #[must_use]
    pub(super) fn change(&mut self, wish: &Wish, added: &[Piece]) -> bool {
        let none = FileLocks::default();
        let locks = self.files.get(&wish.file).unwrap_or(&none);
        let pieces = locks.changed(&wish.owner, wish.range, added);
        let before = locks.of(&wish.owner).len();
        if pieces.len() > before && !self.is_within_limits(&wish.owner, pieces.len() - before) {
            return false;
        }
        self.set(&wish.file, &wish.owner, pieces);
        true
    }

    pub(super) fn is_within_limits(&self, owner: &Owner, count: usize) -> bool {
        let more = count * owner.weight();
        let none = Load::default();
        let load = self.loads.get(&owner.client.address).unwrap_or(&none);
        let known = load.clients.contains_key(&owner.client);
        let clients: usize = self.loads.values().map(|load| load.clients.len()).sum();
        self.weight + more <= LOCKS_MAX
            && load.weight + more <= LOCKS_PER_ADDRESS_MAX
            && (known || (load.clients.len() < CLIENTS_PER_ADDRESS_MAX && clients < CLIENTS_MAX))
    }

    pub(super) fn set(&mut self, file: &FileKey, owner: &Owner, pieces: Vec<Piece>) {
        let locks = self.files.entry(*file).or_default();
        let (before, after) = (locks.of(owner).len(), pieces.len());
        locks.set(owner, pieces);
        if locks.is_empty() {
            self.files.remove(file);
        }
        // At most LOCKS_MAX.
        names::LOCKS_HELD.add(after as i64 - before as i64);
        self.charge(owner, before, after);
        let address = owner.client.address;
        let load = self.loads.entry(address).or_default();
        if before == 0 && after > 0 {
            *load.clients.entry(owner.client.clone()).or_default() += 1;
        } else if before > 0
            && after == 0
            && let Some(count) = load.clients.get_mut(&owner.client)
        {
            *count -= 1;
            if *count == 0 {
                load.clients.remove(&owner.client);
            }
        }
        self.drop_idle_load(address);
    }

    /// Charges `after` pieces for `before`.
    pub(super) fn charge(&mut self, owner: &Owner, before: usize, after: usize) {
        let load = self.loads.entry(owner.client.address).or_default();
        let weight = owner.weight();
        load.weight = load.weight + after * weight - before * weight;
        self.weight = self.weight + after * weight - before * weight;
    }

    pub(super) fn drop_idle_load(&mut self, address: IpAddr) {
        if let Some(load) = self.loads.get(&address)
            && load.weight == 0
            && load.waiters == 0
        {
            self.loads.remove(&address);
        }
    }
}

impl<C> Drop for Table<C> {
    fn drop(&mut self) {
        let held = self.files.values().flat_map(FileLocks::owners);
        let held: usize = held.map(|(_, pieces)| pieces.len()).sum();
        // At most LOCKS_MAX, and WAITERS_MAX.
        names::LOCKS_HELD.add(-(held as i64));
        names::LOCKS_WAITING.add(-(self.waiters.len() as i64));
    }
}
