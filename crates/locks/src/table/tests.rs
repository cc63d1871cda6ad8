use std::time::{Duration, Instant};

use pagewell_fs::FileId;
use proptest::prelude::*;

use super::{
    Answer, FileKey, LOCKS_PER_ADDRESS_MAX, OFFERED_FOR, Offer, Outcome, Owner, Table, WAITED_FOR,
    WAITERS_PER_ADDRESS_MAX, Wish,
};
use crate::file::Kind;
use crate::range::Range;
use crate::testing::{owner, owner_on};

struct Test {
    table: Table<()>,
    now: Instant,
}

fn file(number: u8) -> FileKey {
    FileKey {
        export: 1,
        id: FileId::new(&[number]).unwrap(),
    }
}

fn wish(owner: &Owner, kind: Kind, offset: u64, length: u64) -> Wish {
    Wish {
        file: file(1),
        owner: owner.clone(),
        range: Range::new(offset, length).unwrap(),
        kind,
    }
}

fn write(owner: &Owner, offset: u64, length: u64) -> Wish {
    wish(owner, Kind::Write, offset, length)
}

fn read(owner: &Owner, offset: u64, length: u64) -> Wish {
    wish(owner, Kind::Read, offset, length)
}

impl Test {
    fn new() -> Self {
        Self {
            table: Table::new(None),
            now: Instant::now(),
        }
    }

    /// Asks without waiting.
    fn try_lock(&mut self, wish: &Wish) -> Outcome {
        self.table.lock(wish, (false, 1), None, self.now).0
    }

    /// Asks and waits.
    fn lock(&mut self, wish: &Wish) -> Outcome {
        self.table.lock(wish, (false, 1), Some(()), self.now).0
    }

    fn unlock(&mut self, wish: &Wish) -> Vec<Offer<()>> {
        let (unlocked, offers) = self.table.unlock(wish, self.now);
        assert!(unlocked);
        offers
    }

    fn tick_after(&mut self, time: Duration) -> Vec<Offer<()>> {
        self.now += time;
        self.table.tick(self.now)
    }

    fn holds(&self, wish: &Wish) -> bool {
        let other = write(&owner_on(99, 99), wish.range.start(), wish.range.length());
        self.table
            .test(&other)
            .is_some_and(|(holder, _)| holder == wish.owner)
    }
}

/// The numbers of the processes that are offered something.
fn owners(offers: &[Offer<()>]) -> Vec<i32> {
    let process = |offer: &Offer<()>| offer.wish.owner.process;
    offers.iter().map(process).collect()
}

#[test]
fn waiters_get_it_in_the_order_of_asking() {
    let mut test = Test::new();
    let [one, two, three, four] = [1, 2, 3, 4].map(owner);
    assert_eq!(test.lock(&write(&one, 0, 10)), Outcome::Granted);
    assert_eq!(test.try_lock(&write(&two, 5, 1)), Outcome::Denied);
    assert_eq!(test.lock(&write(&two, 5, 1)), Outcome::Blocked);
    assert_eq!(test.lock(&read(&three, 0, 0)), Outcome::Blocked);
    assert_eq!(test.lock(&read(&four, 6, 2)), Outcome::Blocked);
    // The one at 5 first; the reader of everything is then in its way, the one of 6 is not.
    let offers = test.unlock(&write(&one, 0, 0));
    assert_eq!(owners(&offers), [2, 4]);
    test.table
        .answered(offers[0].number, Answer::Taken, test.now);
    assert!(test.holds(&write(&two, 5, 1)));
    assert_eq!(owners(&test.unlock(&write(&two, 5, 1))), [3]);
}

#[test]
fn an_offer_is_taken_up_by_asking_again() {
    let mut test = Test::new();
    let [one, two, three] = [1, 2, 3].map(owner);
    test.lock(&write(&one, 0, 0));
    test.lock(&write(&two, 0, 0));
    test.lock(&write(&three, 0, 0));
    let offers = test.unlock(&write(&one, 0, 0));
    assert_eq!(owners(&offers), [2]);
    test.table
        .answered(offers[0].number, Answer::Refused, test.now);
    test.now += OFFERED_FOR / 2;
    assert_eq!(test.lock(&write(&two, 0, 0)), Outcome::Granted);
    assert!(test.tick_after(2 * OFFERED_FOR).is_empty());
    assert!(test.holds(&write(&two, 0, 0)));
}

#[test]
fn an_offer_not_taken_up_goes_to_the_next_and_leaves_what_was_there() {
    let mut test = Test::new();
    let [one, two, three] = [1, 2, 3].map(owner);
    test.lock(&read(&one, 0, 10));
    test.lock(&read(&two, 2, 2));
    assert_eq!(
        test.lock(&write(&two, 0, 10)),
        Outcome::Blocked,
        "an upgrade"
    );
    assert_eq!(test.lock(&write(&three, 8, 1)), Outcome::Blocked);
    let offers = test.unlock(&read(&one, 0, 10));
    assert_eq!(owners(&offers), [2]);
    test.table
        .answered(offers[0].number, Answer::Refused, test.now);
    assert!(test.tick_after(OFFERED_FOR / 8).is_empty());
    let offers = test.tick_after(OFFERED_FOR);
    assert_eq!(owners(&offers), [3]);
    let (holder, piece) = test.table.test(&write(&one, 0, 5)).unwrap();
    assert_eq!((holder, piece.kind), (two, Kind::Read));
    assert_eq!(piece.range, Range::new(2, 2).unwrap());
}

/// Found by the property below: while the reader has not taken up its offer, no other may read what
/// it could have to be given back to write.
#[test]
fn an_offer_never_takes_anything_away() {
    let mut test = Test::new();
    let [one, two, three] = [1, 2, 3].map(owner);
    test.lock(&write(&one, 0, 3));
    test.lock(&write(&two, 5, 1));
    assert_eq!(test.lock(&read(&one, 0, 8)), Outcome::Blocked);
    let offers = test.unlock(&write(&two, 5, 1));
    assert_eq!(owners(&offers), [1]);
    assert_eq!(test.lock(&read(&three, 0, 1)), Outcome::Blocked);
    assert_eq!(test.try_lock(&read(&three, 4, 1)), Outcome::Granted);
    // Taken up, it is a read lock from end to end, and the other gets its turn.
    let offers = test
        .table
        .answered(offers[0].number, Answer::Taken, test.now);
    assert_eq!(owners(&offers), [3]);
}

/// Found by the property, too: two offers to one owner must not undo each other.
#[test]
fn an_owner_gets_one_offer_in_a_place_at_a_time() {
    let mut test = Test::new();
    let [one, two, three] = [1, 2, 3].map(owner);
    test.lock(&write(&one, 0, 0));
    test.lock(&write(&two, 3, 3));
    test.lock(&read(&two, 3, 0));
    test.lock(&read(&two, 3, 2));
    test.lock(&read(&three, 3, 0));
    let first = test.unlock(&write(&one, 0, 0));
    assert_eq!(owners(&first), [2]);
    let second = test
        .table
        .answered(first[0].number, Answer::Taken, test.now);
    assert_eq!(owners(&second), [2]);
    // Taken up, it has made a read lock of the write lock: others may read.
    let third = test
        .table
        .answered(second[0].number, Answer::Taken, test.now);
    assert_eq!(owners(&third), [2, 3]);
    test.table
        .answered(third[0].number, Answer::Refused, test.now);
    test.tick_after(OFFERED_FOR);
    let (_, piece) = test.table.test(&write(&one, 4, 1)).unwrap();
    assert_eq!(piece.kind, Kind::Read);
}

#[test]
fn a_client_that_may_have_taken_a_lock_keeps_it() {
    let mut test = Test::new();
    let [one, two, three] = [1, 2, 3].map(owner);
    test.lock(&write(&one, 0, 0));
    test.lock(&write(&two, 0, 0));
    test.lock(&write(&three, 0, 0));
    let offers = test.unlock(&write(&one, 0, 0));
    test.table
        .answered(offers[0].number, Answer::Unknown, test.now);
    let again = test.tick_after(OFFERED_FOR / 3);
    assert_eq!(again.len(), 1, "it is called once more");
    // While a call is under way nothing is taken back.
    assert!(test.tick_after(OFFERED_FOR).is_empty());
    test.table
        .answered(again[0].number, Answer::Refused, test.now);
    assert!(test.tick_after(OFFERED_FOR).is_empty());
    assert!(test.holds(&write(&two, 0, 0)));
}

/// The call for a lock that came by asking again must not be taken for that of a later request.
#[test]
fn no_client_waits_while_an_older_call_for_the_same_is_under_way() {
    let mut test = Test::new();
    let [one, two] = [1, 2].map(owner);
    test.lock(&write(&one, 0, 0));
    test.lock(&write(&two, 0, 0));
    let offers = test.unlock(&write(&one, 0, 0));
    assert!(test.table.is_open(offers[0].number));
    assert_eq!(test.lock(&write(&two, 0, 0)), Outcome::Granted);
    assert!(!test.table.is_open(offers[0].number));
    test.unlock(&write(&two, 0, 0));
    test.lock(&write(&one, 0, 0));
    assert_eq!(test.lock(&write(&two, 0, 0)), Outcome::Grace);
    assert_eq!(test.lock(&write(&two, 0, 1)), Outcome::Blocked, "another");
    let answered = test
        .table
        .answered(offers[0].number, Answer::Refused, test.now);
    assert!(answered.is_empty());
    assert_eq!(test.lock(&write(&two, 0, 0)), Outcome::Blocked);
}

#[test]
fn waiting_ends_when_it_is_cancelled_or_not_asked_for() {
    let mut test = Test::new();
    let [one, two, three] = [1, 2, 3].map(owner);
    test.lock(&write(&one, 0, 0));
    test.lock(&write(&two, 0, 0));
    test.lock(&write(&three, 0, 0));
    assert!(test.table.cancel(&write(&two, 0, 0), test.now).0);
    assert!(!test.table.cancel(&write(&two, 0, 0), test.now).0, "once");
    test.tick_after(WAITED_FOR);
    assert!(test.unlock(&write(&one, 0, 0)).is_empty(), "none waits");
    test.lock(&write(&one, 0, 0));
    test.lock(&write(&two, 0, 0));
    test.lock(&write(&three, 0, 0));
    assert_eq!(owners(&test.unlock(&write(&one, 0, 0))), [2]);
    let (cancelled, offers) = test.table.cancel(&write(&two, 0, 0), test.now);
    assert!(cancelled, "an offer is cancelled too");
    assert_eq!(owners(&offers), [3]);
}

#[test]
fn a_downgrade_lets_readers_in_and_unlocking_a_part_lets_go_of_that_part() {
    let mut test = Test::new();
    let [one, two, three] = [1, 2, 3].map(owner);
    test.lock(&write(&one, 0, 100));
    test.lock(&read(&two, 0, 10));
    test.lock(&write(&three, 50, 10));
    let (outcome, offers) = test
        .table
        .lock(&read(&one, 0, 100), (false, 1), Some(()), test.now);
    assert_eq!(outcome, Outcome::Granted);
    assert_eq!(owners(&offers), [2]);
    assert_eq!(owners(&test.unlock(&read(&one, 50, 10))), [3]);
    assert!(test.holds(&read(&one, 20, 30)) && test.holds(&read(&one, 60, 40)));
}

#[test]
fn a_circle_of_waits_is_refused() {
    let mut test = Test::new();
    let [one, two, three] = [1, 2, 3].map(owner);
    for (at, owner) in [&one, &two, &three].into_iter().enumerate() {
        assert_eq!(test.lock(&write(owner, at as u64, 1)), Outcome::Granted);
    }
    assert_eq!(test.lock(&write(&one, 1, 1)), Outcome::Blocked);
    assert_eq!(test.lock(&write(&two, 2, 1)), Outcome::Blocked);
    assert_eq!(test.lock(&write(&three, 0, 1)), Outcome::Deadlock);
    // Two readers that both want to write.
    let mut test = Test::new();
    test.lock(&read(&one, 0, 0));
    test.lock(&read(&two, 0, 0));
    assert_eq!(test.lock(&write(&one, 0, 0)), Outcome::Blocked);
    assert_eq!(test.lock(&write(&two, 0, 0)), Outcome::Deadlock);
    assert_eq!(owners(&test.unlock(&read(&two, 0, 0))), [1]);
}

#[test]
fn after_a_restart_only_old_locks_are_taken_for_a_while() {
    let now = Instant::now();
    let mut table = Table::new(Some(now + Duration::from_secs(45)));
    let [one, two] = [1, 2].map(owner);
    let mut lock = |owner, reclaim, at| {
        table
            .lock(&write(owner, 0, 0), (reclaim, 1), None::<()>, now + at)
            .0
    };
    assert_eq!(lock(&one, false, Duration::ZERO), Outcome::Grace);
    assert_eq!(lock(&two, true, Duration::ZERO), Outcome::Granted);
    assert_eq!(lock(&one, true, Duration::ZERO), Outcome::Denied);
    let late = Duration::from_secs(45);
    assert_eq!(lock(&two, true, late), Outcome::Grace, "too late");
    assert_eq!(lock(&one, false, late), Outcome::Denied);
    assert_eq!(lock(&two, false, late), Outcome::Granted);
}

#[test]
fn a_client_that_restarted_loses_its_old_locks_and_no_others() {
    let mut test = Test::new();
    let (old, new, other) = (owner_on(1, 1), owner_on(1, 2), owner_on(2, 1));
    test.lock(&write(&old, 0, 1));
    test.lock(&write(&other, 1, 1));
    assert_eq!(test.lock(&write(&other, 0, 1)), Outcome::Blocked);
    let (outcome, _) = test
        .table
        .lock(&write(&new, 2, 1), (false, 3), None, test.now);
    assert_eq!(outcome, Outcome::Granted);
    let offers = test.table.free(&old.client, Some(3), test.now);
    assert_eq!(owners(&offers), [1]);
    assert!(test.holds(&write(&new, 2, 1)) && test.holds(&write(&other, 1, 1)));
    test.table.free(&new.client, None, test.now);
    assert!(!test.holds(&write(&new, 2, 1)) && test.holds(&write(&other, 1, 1)));
    assert!(!test.table.holds(&new.client) && test.table.holds(&other.client));
}

#[test]
fn one_address_can_take_its_share_only() {
    let mut test = Test::new();
    let (greedy, other) = (owner_on(1, 1), owner_on(2, 1));
    let mut taken = 0;
    while test.try_lock(&write(&greedy, 2 * taken, 1)) == Outcome::Granted {
        taken += 1;
    }
    assert!((taken as usize) <= LOCKS_PER_ADDRESS_MAX);
    assert!(taken as usize > LOCKS_PER_ADDRESS_MAX / 2);
    assert_eq!(test.try_lock(&write(&greedy, 2 * taken, 1)), Outcome::Full);
    assert_eq!(
        test.try_lock(&write(&other, 2 * taken, 0)),
        Outcome::Granted
    );
    // Splitting is refused, letting go and joining are not.
    let whole = write(&greedy, 0, 2 * taken);
    assert_eq!(test.try_lock(&whole), Outcome::Granted);
    assert_eq!(test.try_lock(&write(&other, 0, 1)), Outcome::Denied);
    for number in 0..2 * WAITERS_PER_ADDRESS_MAX as u64 {
        let expected = if number < WAITERS_PER_ADDRESS_MAX as u64 {
            Outcome::Blocked
        } else {
            Outcome::Full
        };
        assert_eq!(test.lock(&write(&other, number, 1)), expected);
    }
    test.unlock(&whole);
    test.table.free(&greedy.client, None, test.now);
    test.table.free(&other.client, None, test.now);
    assert!(test.table.loads.is_empty() && test.table.files.is_empty());
    assert!(test.table.waiters.is_empty() && test.table.weight == 0);
}

proptest! {
    /// Whatever is asked in whatever order: no two owners hold what excludes the other, what
    /// waits has another in the way, the accounts are right, and nothing is left at the end.
    #[test]
    fn locks_and_waits_always_fit(
        steps in prop::collection::vec((0..7u8, 0..4i32, 0..8u64, 0..6u64, any::<bool>()), 1..80)
    ) {
        let mut test = Test::new();
        let mut open: Vec<u64> = Vec::new();
        for (what, who, offset, length, exclusive) in steps {
            let kind = if exclusive { Kind::Write } else { Kind::Read };
            let wanted = wish(&owner_on(who as u8 % 2, who), kind, offset, length);
            let offers = match what {
                0..=2 => test.table.lock(&wanted, (false, 1), Some(()), test.now).1,
                3 => test.unlock(&wanted),
                4 => test.table.cancel(&wanted, test.now).1,
                5 => {
                    let answers = [Answer::Taken, Answer::Refused, Answer::Unknown];
                    let answer = answers[length as usize % answers.len()];
                    let number = open.pop();
                    number.map_or_else(Vec::new, |number| {
                        test.table.answered(number, answer, test.now)
                    })
                }
                _ => test.tick_after(OFFERED_FOR / 4),
            };
            open.extend(offers.iter().map(|offer| offer.number));
            check(&test.table)?;
        }
        for who in 0..2 {
            test.table.free(&owner_on(who, 0).client, None, test.now);
        }
        prop_assert!(test.table.files.is_empty() && test.table.waiters.is_empty());
        prop_assert!(test.table.loads.is_empty() && test.table.weight == 0);
    }
}

fn check(table: &Table<()>) -> Result<(), TestCaseError> {
    let mut pieces = 0;
    for locks in table.files.values() {
        for (owner, held) in locks.owners() {
            pieces += held.len() * owner.weight();
            for piece in held {
                prop_assert!(locks.conflict(owner, piece.range, piece.kind).is_none());
            }
        }
    }
    for waiter in table.waiters.values() {
        match &waiter.offered {
            Some(offered) => pieces += offered.before.len() * waiter.wish.owner.weight(),
            None => {
                let mine = |other: &&super::Waiter<()>| {
                    let same = other.wish.owner == waiter.wish.owner;
                    let there = other.wish.range.overlaps(&waiter.wish.range);
                    other.offered.is_some() && same && there
                };
                let waits_for_itself = table.waiters.values().any(|other| mine(&other));
                prop_assert!(waits_for_itself || table.test(&waiter.wish).is_some());
            }
        }
    }
    prop_assert_eq!(table.weight, pieces);
    let waiters: usize = table.loads.values().map(|load| load.waiters).sum();
    prop_assert_eq!(waiters, table.waiters.len());
    Ok(())
}
