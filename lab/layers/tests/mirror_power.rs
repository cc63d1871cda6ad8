//! What is left of a mirror when its legs lose what they had not made durable: all at once, by
//! a power cut, or one by one, by a flush that fails.
#![allow(clippy::unwrap_used, reason = "what a test cannot do makes it fail")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use pagewell_base::mix::mix;
use rustix::io::Errno;

use pagewell_device::testing::world::{NEVER, World};
use pagewell_device::testing::{PATIENCE, flush, read, request, write, write_durable};
use pagewell_device::{
    Buffer, Condition, Device, Error, Geometry, Mirror, Operation, RamDevice, Request, read_exact,
};
use pagewell_layers::{PowerCut, PowerCutHandle};

const CELLS: u64 = 8;
/// One sector: it is never torn.
const CELL: usize = 512;

struct Random(u64);

impl Random {
    fn below(&mut self, count: u64) -> u64 {
        self.0 += 1;
        mix(self.0 ^ 0x0070_6f77_6572) % count
    }
}

/// What each cell may hold after a loss: what was durable, or what was written later, whether or
/// not anybody was told that it was.
struct Model {
    cells: BTreeMap<u64, Vec<u8>>,
    /// Cells whose writers were told that a flush failed, and who have not written again: a later
    /// flush says nothing of them.
    lost: BTreeSet<u64>,
}

impl Model {
    fn new() -> Self {
        Self {
            cells: (0..CELLS).map(|cell| (cell, vec![0])).collect(),
            lost: BTreeSet::new(),
        }
    }

    fn written(&mut self, cell: u64, byte: u8) {
        self.cells.get_mut(&cell).unwrap().push(byte);
        self.lost.remove(&cell);
    }

    /// The last write of this cell is durable.
    fn durable(&mut self, cell: u64) {
        let held = self.cells.get_mut(&cell).unwrap();
        held.drain(..held.len() - 1);
    }

    /// The last write of each cell is.
    fn flushed(&mut self) {
        let known = (0..CELLS).filter(|cell| !self.lost.contains(cell));
        let known: Vec<u64> = known.collect();
        known.into_iter().for_each(|cell| self.durable(cell));
    }

    /// A flush failed: what it was to make durable may be lost.
    fn not_flushed(&mut self) {
        let pending = self.cells.iter().filter(|(_, allowed)| allowed.len() > 1);
        self.lost.extend(pending.map(|(cell, _)| *cell));
    }

    /// Every cell holds something it may hold, and from then on nothing else.
    fn check(&mut self, mirror: &Mirror, what: &str) {
        self.lost.clear();
        for (cell, allowed) in &mut self.cells {
            let look = || {
                let (outcome, bytes) = read(mirror, cell * CELL as u64, CELL);
                assert_eq!(outcome.result, Ok(()), "{what}");
                assert!(bytes.iter().all(|byte| *byte == bytes[0]), "{what}");
                bytes[0]
            };
            let first = look();
            assert!(
                allowed.contains(&first),
                "{what}: cell {cell}: {first} of {allowed:?}"
            );
            (0..3).for_each(|_| assert_eq!(look(), first, "{what}: cell {cell}"));
            *allowed = vec![first];
        }
    }
}

/// A mirror in which every leg has a volatile cache.
struct Powered {
    mirror: Mirror,
    cuts: Vec<PowerCutHandle>,
}

impl Powered {
    fn new(world: &World) -> Self {
        let cache = |leg| PowerCut::new(leg, 2048).unwrap();
        let caches: Vec<PowerCut> = world.legs().into_iter().map(cache).collect();
        let cuts = caches.iter().map(PowerCut::handle).collect();
        let legs = caches.into_iter().map(|leg| Arc::new(leg) as _);
        let (mirror, _) = world.open_over(legs.collect(), true).unwrap();
        Self { mirror, cuts }
    }
}

/// Works until the power goes, which it does for all legs, some writes being on their way.
fn live(powered: Powered, world: &World, model: &mut Model, random: &mut Random) {
    let Powered { mirror, cuts } = powered;
    let mut byte = (random.below(200) + 1) as u8;
    let mut next = || {
        byte = byte.wrapping_add(1).max(1);
        byte
    };
    for _ in 0..random.below(20) {
        let (cell, value) = (random.below(CELLS), next());
        let offset = cell * CELL as u64;
        match random.below(5) {
            0 => {
                assert_eq!(flush(&mirror).result, Ok(()));
                model.flushed();
            }
            1 => {
                model.written(cell, value);
                assert_eq!(
                    write_durable(&mirror, offset, &[value; CELL]).result,
                    Ok(())
                );
                model.durable(cell);
            }
            _ => {
                model.written(cell, value);
                assert_eq!(write(&mirror, offset, &[value; CELL]).result, Ok(()));
            }
        }
    }
    // The machine, and with it the record, goes before the legs, between them, or after them.
    let machine = random.below(cuts.len() as u64 + 1) as usize;
    let mut outcomes = Vec::new();
    let first = random.below(2) as usize;
    for step in 0..=cuts.len() {
        if step == machine {
            world.life.steps.store(0, Ordering::SeqCst);
        }
        for _ in 0..random.below(3) {
            let (cell, value) = (random.below(CELLS), next());
            let mut buffer = Buffer::new(CELL, CELL);
            buffer.fill(value);
            let (mut one, outcome) = request(Operation::Write, cell * CELL as u64, buffer);
            let is_durable = random.below(2) == 0;
            if is_durable {
                one.set_durable();
            }
            model.written(cell, value);
            mirror.submit(one);
            // One after the other: of two on their way either may be the last.
            let (outcome, _) = outcome.recv_timeout(PATIENCE).unwrap();
            if outcome.result.is_ok() && is_durable {
                model.durable(cell);
            }
            outcomes.push(outcome);
        }
        if let Some(cut) = cuts
            .get((first + step) % cuts.len())
            .filter(|_| step < cuts.len())
        {
            let _ = cut.cut(random.below(u64::MAX));
        }
    }
    let last = flush(&mirror);
    assert!(last.result.is_err(), "all legs are gone");
}

#[test]
fn after_power_cuts_what_was_durable_is_read_and_nothing_changes_back() {
    let (mut resynchronised, mut left_behind) = (0, 0);
    for seed in 0..100 {
        let mut random = Random(seed << 32);
        let mut world = World::new(2, CELLS * CELL as u64);
        let mut model = Model::new();
        for life in 0..4 {
            let what = format!("seed {seed}, life {life}");
            world.live(NEVER, random.below(2) == 0);
            let powered = Powered::new(&world);
            model.check(&powered.mirror, &what);
            live(powered, &world, &mut model, &mut random);
            world.live(NEVER, false);
            let (mirror, assessment) = world.open(false).unwrap();
            model.check(&mirror, &what);
            drop(mirror);
            let is_current = |one: &Condition| *one == Condition::Current;
            left_behind += u32::from(!assessment.conditions.iter().all(is_current));
            if random.below(2) == 0 {
                world.resync(None).unwrap();
                assert_eq!(world.bytes(0), world.bytes(1), "{what}");
                model.check(&world.open(false).unwrap().0, &what);
                resynchronised += 1;
            }
        }
    }
    assert!(
        resynchronised > 130 && left_behind > 130,
        "{resynchronised} {left_behind}"
    );
}

/// A device that forgets what it had not made durable when a flush of it fails, and says of the
/// next one that all is well, as disks and kernels do.
struct Forgetful {
    ram: Arc<RamDevice>,
    state: Mutex<Cached>,
}

#[derive(Default)]
struct Cached {
    unflushed: Vec<(u64, Vec<u8>)>,
    next_flush_fails: bool,
}

impl Forgetful {
    fn new(ram: Arc<RamDevice>) -> Arc<Self> {
        Arc::new(Self {
            ram,
            state: Mutex::default(),
        })
    }

    fn fail_next_flush(&self) {
        self.state.lock().unwrap().next_flush_fails = true;
    }
}

impl Device for Forgetful {
    fn name(&self) -> &str {
        self.ram.name()
    }

    fn length_bytes(&self) -> u64 {
        self.ram.length_bytes()
    }

    fn geometry(&self) -> Geometry {
        self.ram.geometry()
    }

    fn submit(&self, mut request: Request) {
        let mut state = self.state.lock().unwrap();
        match request.operation() {
            Operation::Read => {
                let mut bytes = vec![0; CELL];
                read_exact(&*self.ram, request.offset(), &mut bytes).unwrap();
                let same = |(offset, _): &&(u64, Vec<u8>)| *offset == request.offset();
                if let Some((_, newer)) = state.unflushed.iter().rfind(same) {
                    bytes.clone_from(newer);
                }
                let target = request.slices_mut().flatten();
                target.zip(bytes).for_each(|(target, byte)| *target = byte);
            }
            Operation::Write => {
                let bytes: Vec<u8> = request.slices().flatten().copied().collect();
                if request.is_durable() {
                    state
                        .unflushed
                        .retain(|(offset, _)| *offset != request.offset());
                    write(&*self.ram, request.offset(), &bytes);
                } else {
                    state.unflushed.push((request.offset(), bytes));
                }
            }
            Operation::Flush => {
                let unflushed = std::mem::take(&mut state.unflushed);
                if std::mem::take(&mut state.next_flush_fails) {
                    drop(state);
                    let error = Error::Failed {
                        device: self.name().to_owned(),
                        offset: 0,
                        errno: Errno::IO,
                    };
                    return request.fail(0, error);
                }
                for (offset, bytes) in unflushed {
                    write(&*self.ram, offset, &bytes);
                }
            }
        }
        drop(state);
        request.succeed();
    }
}

/// A mirror of forgetful legs; when it ends without a flush, what is unflushed is lost.
fn forgetful(world: &World) -> (Mirror, Vec<Arc<Forgetful>>) {
    let legs: Vec<_> = world.rams.iter().cloned().map(Forgetful::new).collect();
    let devices = legs.iter().cloned().map(|leg| leg as Arc<dyn Device>);
    (world.open_over(devices.collect(), true).unwrap().0, legs)
}

#[test]
fn a_leg_whose_flush_failed_and_lost_data_is_not_read_again() {
    for bad in 0..2 {
        let world = World::new(2, CELLS * CELL as u64);
        let (mirror, legs) = forgetful(&world);
        assert_eq!(write(&mirror, 0, &[1; CELL]).result, Ok(()));
        legs[bad].fail_next_flush();
        assert_eq!(flush(&mirror).result, Ok(()), "the other leg has it");
        // It would say now that all is well.
        assert_eq!(flush(&*legs[bad]).result, Ok(()));
        assert_eq!(mirror.legs_in_service(), 1);
        (0..4).for_each(|_| assert_eq!(read(&mirror, 0, CELL).1[0], 1));
        drop(mirror);
        let conditions = world.assessment().conditions;
        assert_eq!(conditions[bad], Condition::Stale);
        assert_eq!(conditions[1 - bad], Condition::Current);
        assert_eq!(world.bytes(bad)[0], 0, "it was lost there");
        world.resync(None).unwrap();
        assert_eq!((world.bytes(0)[0], world.bytes(1)[0]), (1, 1));
    }
}

#[test]
fn when_every_flush_fails_the_writer_knows_and_the_mirror_is_not_clean() {
    let world = World::new(2, CELLS * CELL as u64);
    let (mirror, legs) = forgetful(&world);
    assert_eq!(write(&mirror, 0, &[1; CELL]).result, Ok(()));
    assert_eq!(flush(&mirror).result, Ok(()));
    assert_eq!(write(&mirror, 0, &[2; CELL]).result, Ok(()));
    legs.iter().for_each(|leg| leg.fail_next_flush());
    assert!(flush(&mirror).result.is_err());
    assert_eq!(mirror.legs_in_service(), 2);
    // What it lost is written again, as a writer does who was told.
    assert_eq!(write(&mirror, 0, &[2; CELL]).result, Ok(()));
    assert_eq!(flush(&mirror).result, Ok(()));
    (0..4).for_each(|_| assert_eq!(read(&mirror, 0, CELL).1[0], 2));
    drop(mirror);
    // Another writer may not have written again what it lost: the legs have to be compared.
    assert!(world.assessment().is_in_use());
    world.resync(None).unwrap();
    assert_eq!((world.bytes(0)[0], world.bytes(1)[0]), (2, 2));
    assert!(!world.assessment().is_in_use());
}

/// Flushes that fail on one leg, on both or on none, and ends without a flush.
#[test]
fn whichever_flush_fails_what_was_flushed_is_read() {
    let (mut both, mut one) = (0, 0);
    for seed in 0..300 {
        let mut random = Random(seed << 32 | 1 << 31);
        let mut world = World::new(2, CELLS * CELL as u64);
        let mut model = Model::new();
        for life in 0..3 {
            let what = format!("seed {seed}, life {life}");
            world.live(NEVER, false);
            let (mirror, legs) = forgetful(&world);
            for step in 1..random.below(16) {
                let (cell, value) = (random.below(CELLS), (life * 20 + step) as u8);
                model.written(cell, value);
                assert_eq!(
                    write(&mirror, cell * CELL as u64, &[value; CELL]).result,
                    Ok(())
                );
                if random.below(3) > 0 {
                    continue;
                }
                let before = mirror.legs_in_service();
                let failing = random.below(8);
                for (number, leg) in legs.iter().enumerate() {
                    if failing & 1 << number != 0 {
                        leg.fail_next_flush();
                    }
                }
                let flushed = flush(&mirror).result.is_ok();
                if flushed {
                    model.flushed();
                } else {
                    model.not_flushed();
                }
                both += u32::from(!flushed && before == 2);
                one += u32::from(flushed && mirror.legs_in_service() < before);
                legs.iter()
                    .for_each(|leg| leg.state.lock().unwrap().next_flush_fails = false);
            }
            drop((mirror, legs));
            model.check(&world.open(false).unwrap().0, &what);
            world.resync(None).unwrap();
            assert_eq!(world.bytes(0), world.bytes(1), "{what}");
            model.check(&world.open(false).unwrap().0, &what);
        }
    }
    assert!(both > 20 && one > 20, "{both} {one}");
}
