//! Waiting requests and offers.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use pagewell_counters::names;

use crate::file::{Kind, Piece};
use crate::table::{
    Answer, FileKey, OFFERED_FOR, Offer, Offered, Outcome, Table, WAITED_FOR, WAITERS_MAX,
    WAITERS_PER_ADDRESS_MAX, Waiter, Wish,
};

/// Before the next of [`CALLS_MAX`] call-backs.
const CALL_AGAIN_AFTER: Duration = Duration::from_secs(15);
const CALLS_MAX: u32 = 3;

/// Few programs wait for each other.
const OWNERS_MAX: usize = 64;
const STEPS_MAX: usize = 4096;

impl<C: Clone> Table<C> {
    /// Takes a call-back's result.
    pub fn answered(&mut self, number: u64, answer: Answer, now: Instant) -> Vec<Offer<C>> {
        self.calls.remove(&number);
        let waiter = self.waiters.get_mut(&number);
        let Some(offered) = waiter.and_then(|waiter| waiter.offered.as_mut()) else {
            return Vec::new();
        };
        offered.is_called = false;
        offered.called_at = now;
        match answer {
            Answer::Taken => {
                let file = self.settle(number);
                return file.map_or_else(Vec::new, |file| self.offer(&file, now));
            }
            // Even if it took the lock at an earlier call: it waits no more.
            Answer::Refused => {}
            Answer::Unknown => offered.may_be_taken = true,
        }
        Vec::new()
    }

    /// Does what is overdue; call about once a second.
    pub fn tick(&mut self, now: Instant) -> Vec<Offer<C>> {
        let (mut silent, mut over, mut again) = (Vec::new(), Vec::new(), Vec::new());
        for (number, waiter) in &mut self.waiters {
            match &mut waiter.offered {
                None if now.duration_since(waiter.asked_at) >= WAITED_FOR => silent.push(*number),
                None => {}
                Some(offered) if offered.is_called => {}
                Some(offered) if now.duration_since(offered.at) >= OFFERED_FOR => {
                    over.push((*number, offered.may_be_taken));
                }
                Some(offered) => {
                    let due = now.duration_since(offered.called_at) >= CALL_AGAIN_AFTER;
                    if due && offered.calls < CALLS_MAX {
                        offered.calls += 1;
                        offered.is_called = true;
                        self.calls.insert(*number, waiter.wish.clone());
                        again.push(Offer {
                            number: *number,
                            wish: waiter.wish.clone(),
                            context: waiter.context.clone(),
                        });
                    }
                }
            }
        }
        for number in silent {
            self.forget_waiter(number);
        }
        for (number, may_be_taken) in over {
            if may_be_taken {
                if let Some(file) = self.settle(number) {
                    again.extend(self.offer(&file, now));
                }
            } else {
                again.extend(self.take_back(number, now));
            }
        }
        again
    }

    pub(super) fn waiter_of(&self, wish: &Wish) -> Option<u64> {
        let mut waiters = self.waiters.iter();
        waiters.find_map(|(number, waiter)| (waiter.wish == *wish).then_some(*number))
    }

    /// Whether an offer is pending.
    pub fn is_open(&self, number: u64) -> bool {
        let waiter = self.waiters.get(&number);
        waiter.is_some_and(|waiter| waiter.offered.is_some())
    }

    /// Whether a conflicting owner waits, perhaps through others, for this one; false at a bound.
    pub(super) fn would_wait_for_itself(&self, wish: &Wish) -> bool {
        let mut seen = HashSet::new();
        let mut open = vec![wish];
        let mut steps = 0;
        while let Some(wanted) = open.pop() {
            let Some(locks) = self.files.get(&wanted.file) else {
                continue;
            };
            for (holder, _) in locks.conflicts(&wanted.owner, wanted.range, wanted.kind) {
                steps += 1;
                if *holder == wish.owner {
                    return true;
                }
                if steps >= STEPS_MAX || seen.len() >= OWNERS_MAX {
                    return false;
                }
                if seen.insert(holder) {
                    let waits = self.waiters.values();
                    let waits = waits.filter(|waiter| waiter.offered.is_none());
                    let wishes = waits.map(|waiter| &waiter.wish);
                    open.extend(wishes.filter(|wish| wish.owner == *holder));
                }
            }
        }
        false
    }

    pub(super) fn add_waiter(
        &mut self,
        wish: &Wish,
        state: i32,
        context: C,
        now: Instant,
    ) -> Outcome {
        let load = self.loads.entry(wish.owner.client.address).or_default();
        if self.waiters.len() >= WAITERS_MAX || load.waiters >= WAITERS_PER_ADDRESS_MAX {
            self.drop_idle_load(wish.owner.client.address);
            return Outcome::Full;
        }
        load.waiters += 1;
        names::LOCKS_WAITING.add(1);
        let waiter = Waiter {
            wish: wish.clone(),
            state,
            context,
            asked_at: now,
            offered: None,
        };
        self.waiters.insert(self.next_number, waiter);
        self.next_number += 1;
        Outcome::Blocked
    }

    pub(super) fn forget_waiter(&mut self, number: u64) -> Option<Waiter<C>> {
        let waiter = self.waiters.remove(&number)?;
        names::LOCKS_WAITING.add(-1);
        let address = waiter.wish.owner.client.address;
        if let Some(load) = self.loads.get_mut(&address) {
            load.waiters -= 1;
        }
        if let Some(offered) = &waiter.offered {
            self.charge(&waiter.wish.owner, offered.before.len(), 0);
        }
        self.drop_idle_load(address);
        Some(waiter)
    }

    /// The owner keeps its offer and nothing beside: a write lock that became a read lock lets
    /// readers in. Returns the file for other offers.
    pub(super) fn settle(&mut self, number: u64) -> Option<FileKey> {
        let waiter = self.forget_waiter(number)?;
        let before = waiter.offered.map_or_else(Vec::new, |one| one.before);
        let wrote = before.iter().any(|piece| piece.kind == Kind::Write);
        if wrote && waiter.wish.kind == Kind::Read {
            let taken = waiter.wish.piece(waiter.state);
            // At a bound the stronger lock stays.
            let _ = self.change(&waiter.wish, &[taken]);
        }
        Some(waiter.wish.file)
    }

    /// Whether the owner has an offer in the range. With two, undoing one could undo the other.
    fn has_offer(&self, wish: &Wish) -> bool {
        let mut waiters = self.waiters.values();
        waiters.any(|waiter| waiter.is_offered_in(wish))
    }

    /// An owner that acts in its offer's range has taken it up.
    pub(super) fn settle_all_of(&mut self, wish: &Wish) {
        let offered =
            |(number, waiter): (&u64, &Waiter<C>)| waiter.is_offered_in(wish).then_some(*number);
        for number in self.waiters.iter().filter_map(offered).collect::<Vec<_>>() {
            self.settle(number);
        }
    }

    pub(super) fn take_back(&mut self, number: u64, now: Instant) -> Vec<Offer<C>> {
        let Some(waiter) = self.forget_waiter(number) else {
            return Vec::new();
        };
        let Wish {
            file, owner, range, ..
        } = &waiter.wish;
        let before = waiter
            .offered
            .map_or_else(Vec::new, |offered| offered.before);
        if let Some(locks) = self.files.get(file) {
            let pieces = locks.changed(owner, *range, &before);
            self.set(file, owner, pieces);
        }
        self.offer(file, now)
    }

    /// Offers free locks to waiters, oldest first.
    pub(super) fn offer(&mut self, file: &FileKey, now: Instant) -> Vec<Offer<C>> {
        let waiting = |(number, waiter): (&u64, &Waiter<C>)| {
            (waiter.wish.file == *file && waiter.offered.is_none()).then_some(*number)
        };
        let mut offers = Vec::new();
        for number in self.waiters.iter().filter_map(waiting).collect::<Vec<_>>() {
            let Some(waiter) = self.waiters.get(&number) else {
                continue;
            };
            let (wish, state) = (waiter.wish.clone(), waiter.state);
            if !self.is_free(&wish) || self.has_offer(&wish) {
                continue;
            }
            let held = self
                .files
                .get(file)
                .map_or(&[][..], |locks| locks.of(&wish.owner));
            let parts = held.iter().filter_map(|piece| {
                let range = piece.range.within(&wish.range)?;
                Some(Piece { range, ..*piece })
            });
            let before: Vec<Piece> = parts.collect();
            let added = offered(wish.piece(state), &before);
            // The next repetition is refused.
            if !self.change(&wish, &added) {
                self.forget_waiter(number);
                continue;
            }
            self.charge(&wish.owner, 0, before.len());
            let Some(waiter) = self.waiters.get_mut(&number) else {
                continue;
            };
            waiter.offered = Some(Offered {
                at: now,
                before,
                called_at: now,
                calls: 1,
                is_called: true,
                may_be_taken: false,
            });
            self.calls.insert(number, wish.clone());
            offers.push(Offer {
                number,
                wish,
                context: waiter.context.clone(),
            });
        }
        offers
    }
}

impl<C> Waiter<C> {
    fn is_offered_in(&self, wish: &Wish) -> bool {
        let mine = self.wish.file == wish.file && self.wish.owner == wish.owner;
        mine && self.offered.is_some() && self.wish.range.overlaps(&wish.range)
    }
}

/// An owner's pieces during its offer: the offer, but nothing weaker than before, or a third owner
/// could come between.
fn offered(wanted: Piece, before: &[Piece]) -> Vec<Piece> {
    let stronger = before
        .iter()
        .filter(|piece| piece.kind == Kind::Write && wanted.kind == Kind::Read);
    let mut rest = vec![wanted.range];
    for piece in stronger.clone() {
        let parts = rest.iter().flat_map(|range| range.without(&piece.range));
        rest = parts.flatten().collect();
    }
    let weaker = rest.into_iter().map(|range| Piece { range, ..wanted });
    weaker.chain(stronger.copied()).collect()
}
