use super::*;

/// A block of one READ that was sent.
fn block(meter: &mut Meter, ways: &Ways, length: usize, sent: usize) -> Way {
    let way = meter.choose(ways, length, true);
    meter.begin();
    if meter.is_measuring() {
        meter.ready();
        meter.sent(sent, length);
    }
    way
}

fn known(meter: &Meter) -> &Sending {
    &meter.known.as_ref().unwrap().classes[1].policy
}

#[test]
fn a_fixed_way_is_never_left() {
    let ways = Ways::new(Some(Way::Map));
    let mut meter = Meter::new(&ways, true);
    for _ in 0..100 {
        assert_eq!(block(&mut meter, &ways, 100_000, 100_000), Way::Map);
        assert!(!meter.is_measuring());
    }
}

#[test]
fn all_ways_are_tried_and_only_blocks_of_one_class_count() {
    let ways = Ways::new(None);
    let mut meter = Meter::new(&ways, true);
    block(&mut meter, &ways, 100_000, 0);
    block(&mut meter, &ways, 100_000, 10_000);
    meter.choose(&ways, 100_000, true);
    meter.choose(&ways, 1_000_000, false);
    meter.begin();
    meter.ready();
    meter.sent(1_100_000, 1_100_000);
    assert!(
        Way::ALL
            .into_iter()
            .all(|way| known(&meter).cost(way).is_none())
    );
    for _ in 0..36 {
        let way = meter.choose(&ways, 100_000, true);
        assert_eq!(meter.choose(&ways, 200_000, false), way, "one for a block");
        meter.begin();
        meter.ready();
        meter.sent(300_000, 300_000);
    }
    assert!(
        Way::ALL
            .into_iter()
            .all(|way| known(&meter).cost(way).is_some())
    );
}

#[test]
fn stretches_of_one_way_are_timed_from_behind_their_first_quarter() {
    let ways = Ways::new(None);
    let mut meter = Meter::new(&ways, false);
    let mut stretches = Vec::new();
    while Way::ALL
        .into_iter()
        .any(|way| known(&meter).time(way).is_none())
    {
        let way = block(&mut meter, &ways, 200_000, 200_000);
        match stretches.last_mut() {
            Some((last, bytes)) if *last == way => *bytes += 200_000,
            _ => stretches.push((way, 200_000)),
        }
        assert!(stretches.len() < 100, "{stretches:?}");
    }
    let long = stretches.iter().filter(|(_, bytes)| *bytes >= STRETCHES[1]);
    assert!(long.count() >= 2, "{stretches:?}");
    assert!(
        Way::ALL
            .into_iter()
            .all(|way| known(&meter).time(way) < Some(1_000_000))
    );
}

#[test]
fn reads_that_are_not_answered_are_no_samples() {
    let ways = Ways::new(None);
    let mut meter = Meter::new(&ways, true);
    for _ in 0..10 {
        meter.choose(&ways, 100_000, true);
        meter.begin();
        meter.take_back(100_000);
        assert!(!meter.is_measuring());
    }
    let is_known =
        |meter: &Meter, way| known(meter).cost(way).is_some() || known(meter).time(way).is_some();
    assert!(!Way::ALL.into_iter().any(|way| is_known(&meter, way)));
    let way = meter.choose(&ways, 100_000, true);
    meter.choose(&ways, 200_000, false);
    meter.take_back(200_000);
    meter.begin();
    meter.ready();
    meter.sent(100_000, 100_000);
    assert!(is_known(&meter, way), "what is left of the block counts");
}

#[test]
fn a_stretch_ends_where_reads_of_another_class_begin() {
    let ways = Ways::new(None);
    let mut meter = Meter::new(&ways, true);
    while !known(&meter).is_timing() {
        block(&mut meter, &ways, 100_000, 100_000);
    }
    block(&mut meter, &ways, 100_000, 100_000);
    assert!(meter.trial.is_some(), "a stretch");
    block(&mut meter, &ways, 1_000_000, 1_000_000);
    let large = &meter.known.as_ref().unwrap().classes[2].policy;
    assert!(Way::ALL.into_iter().any(|way| large.cost(way).is_some()));
}

#[test]
fn a_connection_begins_with_what_others_of_its_kind_have_found() {
    let ways = Ways::new(None);
    let first = |stays_here| {
        let mut meter = Meter::new(&ways, stays_here);
        meter.choose(&ways, 100_000, false)
    };
    assert_eq!(first(true), Way::Splice);
    let mut meter = Meter::new(&ways, true);
    for _ in 0..100 {
        meter.choose(&ways, 100_000, true);
        if let Some(trial) = &mut meter.trial {
            let dear = if trial.way == Way::Map {
                1
            } else {
                1_000_000_000
            };
            trial.block.began = Some(processor_nanoseconds().saturating_sub(dear));
            meter.ready();
            meter.sent(100_000, 100_000);
        }
    }
    assert_eq!((first(true), first(false)), (Way::Map, Way::Splice));
    assert_eq!(Meter::default().choose(&ways, 1 << 20, true), Way::Splice);
    assert!(!Meter::default().is_measuring());
}

#[test]
fn a_part_of_a_block_that_has_left_tells_what_all_of_it_costs() {
    let cost = |preparing, sent| {
        let mut trial = Trial::new(1, Way::Copy, 0, 100_000);
        let now = processor_nanoseconds();
        trial.block.began = Some(now.saturating_sub(preparing));
        trial.block.ready = now;
        assert!(trial.sent(sent, 100_000));
        trial.known_nanoseconds
    };
    assert!(
        cost(1_000_000, 25_000) > cost(0, 100_000),
        "what was prepared counts"
    );
}

#[test]
fn short_connections_try_as_often_together_as_one_that_is_long() {
    let ways = Ways::new(None);
    let trials = |meter: &mut Meter, bytes: usize| {
        let mut trials = 0;
        for _ in 0..bytes / 200_000 {
            block(meter, &ways, 200_000, 200_000);
            trials += usize::from(meter.trial.take().is_some());
        }
        trials
    };
    // Finds what is best for all, so that trials are rare.
    let mut first = Meter::new(&ways, true);
    while known(&first).interval() == 1 {
        block(&mut first, &ways, 200_000, 200_000);
    }
    let interval = known(&first).interval() as usize * STRETCHES[1];
    drop(first);
    let alone = trials(&mut Meter::new(&ways, true), 3 * interval);
    let together: usize = (0..30)
        .map(|_| trials(&mut Meter::new(&ways, true), interval / 10))
        .sum();
    assert!((2..=4).contains(&alone), "{alone}");
    assert!((2..=4).contains(&together), "{together}");
}
