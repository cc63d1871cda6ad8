use super::*;
use crate::RamDevice;
use LegState::{Clean, InUse, Resynchronising};

type Found = [Option<Standing>; 3];

const THERE: [Option<u64>; 3] = [Some(1); 3];

fn legs() -> [Arc<dyn Device>; 3] {
    ["a", "b", "c"].map(|name| Arc::new(RamDevice::new(name, 100)) as Arc<dyn Device>)
}

fn one(index: u8, generation: u64, state: LegState) -> Option<Standing> {
    Some(Standing {
        identity: [7; 16],
        index,
        count: 3,
        generation,
        state,
        length_bytes: 100,
        left_behind: 0,
        binding: 1,
    })
}

#[test]
fn generations_and_states_tell_what_may_be_read() {
    use Condition::{Current, Doubtful, Stale, Unfinished};
    for (found, expected, in_use) in [
        (
            [(0, 5, Clean), (1, 5, Clean), (2, 5, Clean)],
            [Current, Current, Current],
            false,
        ),
        (
            [(0, 5, InUse), (1, 5, InUse), (2, 4, InUse)],
            [Current, Doubtful, Stale],
            true,
        ),
        // The order on the command line changes nothing.
        (
            [(2, 5, InUse), (1, 5, InUse), (0, 5, InUse)],
            [Doubtful, Doubtful, Current],
            true,
        ),
        // While it was opened or closed: nothing was on its way.
        (
            [(0, 5, InUse), (1, 5, Clean), (2, 5, InUse)],
            [Current, Current, Current],
            false,
        ),
        // The newest leg was alone; that the others are clean says nothing.
        (
            [(0, 5, Clean), (1, 6, InUse), (2, 5, Clean)],
            [Stale, Current, Stale],
            true,
        ),
        // One that is being copied to is not taken for the newest.
        (
            [(0, 5, Clean), (1, 9, Resynchronising), (2, 5, InUse)],
            [Current, Unfinished, Current],
            false,
        ),
    ] {
        let found: Vec<_> = found.iter().map(|leg| one(leg.0, leg.1, leg.2)).collect();
        let assessment = judge(found.clone(), &legs(), &THERE).unwrap();
        assert_eq!(assessment.conditions, expected, "{found:?}");
        assert_eq!(assessment.is_in_use(), in_use, "{found:?}");
    }
    let unknown = judge(vec![None; 3], &legs(), &THERE).unwrap();
    assert!(unknown.is_unknown() && !unknown.is_in_use());
    assert_eq!(unknown.bad(), 0);
}

#[test]
fn contradictions_are_refused_by_name() {
    let good = [one(0, 5, Clean), one(1, 5, Clean), one(2, 5, Clean)];
    let with = |leg: usize, change: &dyn Fn(&mut Standing)| {
        let mut found = good.to_vec();
        change(found[leg].as_mut().unwrap());
        judge(found, &legs(), &THERE).unwrap_err().to_string()
    };
    for (text, part) in [
        (
            with(1, &|one| one.identity[3] = 0),
            "b and a are legs of different",
        ),
        (
            with(2, &|one| one.count = 2),
            "c is one of 2 legs, not of 3",
        ),
        (
            with(2, &|one| one.index = 1),
            "c and b have the record of the same",
        ),
        (
            with(1, &|one| one.length_bytes = 99),
            "b has 100 bytes; it had 99",
        ),
        (with(1, &|one| one.generation = 0), "b has an impossible"),
        (
            with(1, &|one| one.generation = u64::MAX),
            "b has an impossible",
        ),
        (with(1, &|one| one.index = 3), "b has an impossible"),
    ] {
        assert!(text.contains(part), "{text}");
    }
    let missing = judge(vec![None, good[1], good[2]], &legs(), &THERE);
    let text = missing.unwrap_err().to_string();
    assert!(
        text.contains("a has no record of the mirror, b has"),
        "{text}"
    );
    let copied = [0, 1, 2].map(|index| one(index, 3, Resynchronising));
    let nothing = judge(copied.to_vec(), &legs(), &THERE);
    assert_eq!(nothing, Err(Refusal::NoneComplete));
}

/// The same with another record of a leg.
fn with(mut all: Found, leg: usize, generation: u64, left_behind: u64) -> Found {
    let one = all[leg].as_mut().unwrap();
    (one.generation, one.left_behind) = (generation, left_behind);
    all
}

/// The same with a leg of which nothing is known.
fn without(mut all: Found, leg: usize) -> Found {
    all[leg] = None;
    all
}

#[test]
fn what_is_not_there_or_is_another_is_never_good() {
    use Condition::{Current, Doubtful, Missing, Replaced, Split, Stale, Unknown};
    let clean = [one(0, 5, Clean), one(1, 5, Clean), one(2, 5, Clean)];
    let in_use = clean.map(|leg| {
        Some(Standing {
            state: InUse,
            ..leg.unwrap()
        })
    });
    let (here, other, gone) = (Some(1), Some(2), None);
    for (found, bindings, expected) in [
        (clean, [other, here, here], [Replaced, Current, Current]),
        // The record of a leg that was replaced still tells what the others missed.
        (
            with(clean, 0, 6, 6),
            [other, here, here],
            [Replaced, Stale, Stale],
        ),
        (clean, [other; 3], [Replaced; 3]),
        // The first of those that are left is read.
        (in_use, [other, here, here], [Replaced, Current, Doubtful]),
        (in_use, [here, gone, here], [Current, Missing, Doubtful]),
        (
            without(clean, 1),
            [here, gone, here],
            [Current, Missing, Current],
        ),
        (
            with(clean, 1, 6, 5),
            [here, gone, here],
            [Stale, Missing, Stale],
        ),
        // It was missing when the others were written to, and is back.
        (
            with(with(clean, 0, 6, 4), 1, 6, 4),
            [here; 3],
            [Current, Current, Stale],
        ),
        // Its record was out of reach, so that nobody counted beyond it.
        (with(clean, 0, 5, 4), [here; 3], [Current, Current, Stale]),
        (
            with(with(clean, 0, 6, 2), 1, 9, 1),
            [here; 3],
            [Split, Split, Stale],
        ),
        ([None; 3], [here, gone, here], [Unknown, Missing, Unknown]),
    ] {
        let assessment = judge(found.to_vec(), &legs(), &bindings).unwrap();
        assert_eq!(assessment.conditions, expected, "{found:?}");
        let is_good = |one: &Condition| matches!(one, Current | Unknown);
        let is_any_good = expected.iter().any(is_good);
        assert_eq!(
            assessment.check_readable().is_ok(),
            is_any_good,
            "{found:?}"
        );
        let is_certain = assessment.certain(&legs()).is_ok();
        let is_doubt = |one: &Condition| matches!(one, Replaced | Split);
        assert_eq!(
            is_certain,
            is_any_good && !expected.iter().any(is_doubt),
            "{found:?}"
        );
    }
}
