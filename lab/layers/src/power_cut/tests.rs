use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::{Delay, Fault, Rule, Stats};
use pagewell_device::testing::{
    Faulty, PATIENCE, flush, flush_request, read, request, write, write_durable,
};
use pagewell_device::{Buffer, RamDevice, read_exact};

const SECTOR: usize = SECTOR_BYTES;
/// The last sector is a part.
const LENGTH: usize = 64 * SECTOR - 100;
const SECTORS: usize = 64;

fn over_ram(log_bytes_max: usize) -> (PowerCut, Arc<RamDevice>) {
    let ram = Arc::new(RamDevice::new("ram", LENGTH as u64));
    (PowerCut::new(ram.clone(), log_bytes_max).unwrap(), ram)
}

fn bytes_of(device: &dyn Device) -> Vec<u8> {
    let mut bytes = vec![0; LENGTH];
    read_exact(device, 0, &mut bytes).unwrap();
    bytes
}

fn is_gone(outcome: &Outcome) -> bool {
    matches!(
        outcome.result,
        Err(Error::Failed {
            errno: Errno::NODEV,
            ..
        })
    ) && outcome.transferred_bytes == 0
}

#[test]
fn writes_are_seen_at_once_and_below_after_a_flush() {
    let (cut, ram) = over_ram(1 << 20);
    assert_eq!(write(&cut, 512, &[1; 2048]).result, Ok(()));
    assert_eq!(write(&cut, 1024, &[2; 512]).result, Ok(()));
    let (outcome, seen) = read(&cut, 0, 4096);
    assert_eq!(outcome.result, Ok(()));
    for (at, byte) in [(0, 0), (512, 1), (1024, 2), (1536, 1), (2560, 0)] {
        assert_eq!(seen[at..at + 512], [byte; 512]);
    }
    assert!(bytes_of(&*ram).iter().all(|byte| *byte == 0));
    assert_eq!(cut.handle().unflushed_bytes(), 2560);
    assert_eq!(flush(&cut).result, Ok(()));
    assert_eq!(cut.handle().unflushed_bytes(), 0);
    assert_eq!(bytes_of(&*ram)[..4096], seen[..]);
    assert_eq!(read(&cut, 0, 4096).1[..], seen[..]);
}

#[test]
fn a_durable_write_goes_below_alone() {
    let (cut, ram) = over_ram(1 << 20);
    assert_eq!(write(&cut, 0, &[1; 2048]).result, Ok(()));
    assert_eq!(write_durable(&cut, 512, &[2; 512]).result, Ok(()));
    let below = bytes_of(&*ram);
    assert_eq!((below[0], below[512], below[1024]), (0, 2, 0));
    let seen = read(&cut, 0, 2048).1;
    assert_eq!((seen[0], seen[512], seen[1024]), (1, 2, 1));
    assert_eq!(cut.handle().unflushed_bytes(), 1536);
    // The older write does not come back over it.
    assert_eq!(flush(&cut).result, Ok(()));
    let below = bytes_of(&*ram);
    assert_eq!((below[0], below[512], below[1024]), (1, 2, 1));
}

#[test]
fn durable_writes_and_flushes_are_passed_on() {
    let stats = Arc::new(Stats::new(Arc::new(RamDevice::new("ram", 1 << 20))));
    let cut = PowerCut::new(stats.clone(), 1 << 20).unwrap();
    assert_eq!(write(&cut, 0, &[1; 512]).result, Ok(()));
    assert_eq!(stats.snapshot().requests(), 0);
    assert_eq!(write_durable(&cut, 512, &[1; 512]).result, Ok(()));
    assert_eq!(
        (stats.snapshot().requests(), stats.snapshot().durable()),
        (1, 1)
    );
    assert_eq!(flush(&cut).result, Ok(()));
    let counted = stats.snapshot();
    assert_eq!(
        (counted.requests(), counted.count(Operation::Flush)),
        (2, 1)
    );
}

#[test]
fn memory_is_bounded_by_writing_the_oldest() {
    let (cut, ram) = over_ram(2048);
    for index in 0..16u8 {
        let start = u64::from(index) * 512;
        assert_eq!(write(&cut, start, &[index + 1; 512]).result, Ok(()));
        assert!(cut.handle().unflushed_bytes() <= 2048);
    }
    let below = bytes_of(&*ram);
    assert_eq!((below[0], below[11 * 512], below[12 * 512]), (1, 12, 0));
    // Longer than all the room.
    assert_eq!(write(&cut, 0, &[99; 8192]).result, Ok(()));
    assert_eq!(cut.handle().unflushed_bytes(), 8192);
    assert!(read(&cut, 0, 8192).1.iter().all(|byte| *byte == 99));
}

#[test]
fn a_device_that_fails_below_is_heard_of_at_the_flush() {
    let ram = Arc::new(RamDevice::new("ram", 1 << 20));
    let full = Rule::error(Errno::NOSPC).of(Operation::Write);
    let rules = [
        full.clone().within(4096..u64::MAX).once(),
        Rule::error(Errno::IO).of(Operation::Flush).once(),
    ];
    let fault = Fault::new(ram.clone(), rules).unwrap();
    let cut = PowerCut::new(Arc::new(fault), 1 << 20).unwrap();
    assert_eq!(write(&cut, 4096, &[1; 512]).result, Ok(()));
    let error = flush(&cut).result.unwrap_err().to_string();
    assert!(error.contains("ram: at byte 4096"), "{error}");
    let error = flush(&cut).result.unwrap_err().to_string();
    assert!(error.contains("ram: at byte 0"), "{error}");
    // What was not written is still there.
    assert_eq!(flush(&cut).result, Ok(()));
    let mut byte = [0];
    read_exact(&*ram, 4096, &mut byte).unwrap();
    assert_eq!(byte, [1]);
    let fault = Fault::new(ram, [full]).unwrap();
    let cut = PowerCut::new(Arc::new(fault), 512).unwrap();
    assert_eq!(write(&cut, 0, &[1; 512]).result, Ok(()));
    assert!(write(&cut, 512, &[1; 512]).result.is_err());
    assert!(write_durable(&cut, 0, &[2; 512]).result.is_err());
}

#[test]
fn after_a_cut_everything_fails_and_a_second_one_changes_nothing() {
    let (cut, ram) = over_ram(1 << 20);
    (0..8).for_each(|index| assert_eq!(write(&cut, index * 512, &[1; 512]).result, Ok(())));
    let handle = cut.handle();
    assert!(!handle.is_cut());
    let damage = handle.cut(5);
    assert!(handle.is_cut());
    assert_eq!(damage.lost + damage.torn + damage.whole, 8);
    assert_eq!(handle.unflushed_bytes(), 0);
    let below = bytes_of(&*ram);
    assert_eq!(
        below.iter().filter(|byte| **byte == 1).count() as u64,
        damage.whole * 512
    );
    for outcome in [
        read(&cut, 0, 512).0,
        write(&cut, 0, &[3; 512]),
        write_durable(&cut, 0, &[3; 512]),
        flush(&cut),
    ] {
        assert!(is_gone(&outcome), "{outcome:?}");
    }
    let text = write(&cut, 512, &[3; 512]).result.unwrap_err().to_string();
    assert!(text.contains("ram: at byte 512"), "{text}");
    assert_eq!(handle.cut(6), damage);
    drop(cut);
    assert_eq!(handle.cut(7), damage);
    assert!(bytes_of(&*ram) == below);
}

#[test]
fn dropped_with_the_power_on_all_goes_below() {
    let (cut, ram) = over_ram(1 << 20);
    assert_eq!(write(&cut, 512, &[1; 512]).result, Ok(()));
    let handle = cut.handle();
    drop(cut);
    assert_eq!(bytes_of(&*ram)[512..1024], [1; 512]);
    assert_eq!(handle.cut(1), Damage::default());
}

#[test]
fn what_is_on_its_way_fails_and_reads_too() {
    let ram = Arc::new(RamDevice::new("ram", 1 << 20));
    let fault = Arc::new(Fault::new(ram, [Rule::stall()]).unwrap());
    let cut = PowerCut::new(fault.clone(), 512).unwrap();
    assert_eq!(write(&cut, 0, &[1; 512]).result, Ok(()));
    let (flushing, flushed) = flush_request();
    let (reading, was_read) = request(Operation::Read, 0, Buffer::new(512, 512));
    let (waiting, written) = request(Operation::Write, 512, Buffer::new(512, 512));
    for one in [flushing, reading, waiting] {
        cut.submit(one);
    }
    let handle = cut.handle();
    let cutter = std::thread::spawn(move || handle.cut(1));
    let begun = std::time::Instant::now();
    while !cut.handle().is_cut() {
        assert!(begun.elapsed() < PATIENCE);
        std::thread::yield_now();
    }
    assert!(is_gone(&write(&cut, 0, &[2; 512])));
    fault.handle().set_rules([]);
    fault.handle().release();
    cutter.join().unwrap();
    assert!(is_gone(&flushed.recv_timeout(PATIENCE).unwrap()));
    assert!(is_gone(&was_read.recv_timeout(PATIENCE).unwrap().0));
    assert!(is_gone(&written.recv_timeout(PATIENCE).unwrap().0));
}

#[test]
fn blocks_are_no_smaller_than_sectors_and_the_end_is_the_end() {
    let (cut, _) = over_ram(1 << 20);
    assert_eq!(cut.geometry().logical_block_bytes, 512);
    assert!(write(&cut, 1, &[1; 512]).result.is_err());
    let last = (SECTORS as u64 - 1) * 512;
    let outcome = write(&cut, last, &[1; 512]);
    assert_eq!(outcome.transferred_bytes, 412);
    assert!(matches!(outcome.result, Err(Error::PastEnd { .. })));
    let (outcome, seen) = read(&cut, last, 512);
    assert_eq!(outcome.transferred_bytes, 412);
    assert!(matches!(outcome.result, Err(Error::PastEnd { .. })));
    assert_eq!(seen[..412], [1; 412]);
    assert!(read(&cut, last + 512, 512).0.result.is_err());
}

/// What every sector may hold after a cut: the number of the write that made it durable last, and
/// of all later ones.
struct Possible {
    versions: Vec<Vec<u16>>,
}

impl Possible {
    fn new() -> Self {
        Self {
            versions: vec![vec![0]; SECTORS],
        }
    }

    fn written(&mut self, first: usize, count: usize, number: u16) {
        self.versions[first..first + count]
            .iter_mut()
            .for_each(|versions| versions.push(number));
    }

    fn durable(&mut self, first: usize, count: usize) {
        for versions in &mut self.versions[first..first + count] {
            versions.drain(..versions.len() - 1);
        }
    }

    fn check(&self, below: &[u8]) {
        for (sector, bytes) in below.chunks(SECTOR).enumerate() {
            let number = number_of(bytes);
            let versions = &self.versions[sector];
            assert!(
                versions.contains(&number),
                "{sector}: {number} {versions:?}"
            );
        }
    }
}

/// Sectors filled with the number of a write.
fn filled(sectors: usize, number: u16) -> Vec<u8> {
    number.to_le_bytes().repeat(sectors * SECTOR / 2)
}

/// The number of the write whose sector this is; it must be of one write.
fn number_of(sector: &[u8]) -> u16 {
    let number = u16::from_le_bytes([sector[0], sector[1]]);
    assert!(
        sector.chunks(2).all(|pair| pair == number.to_le_bytes()),
        "two writes in a sector"
    );
    number
}

/// Memory with blocks of 4096 bytes, of which a sector is a part.
fn coarse() -> Arc<Faulty> {
    let mut device = Faulty::new("coarse", LENGTH as u64);
    device.geometry.logical_block_bytes = 4096;
    // As a file does: the last block is what there is.
    let end = LENGTH as u64;
    device.bad.lock().unwrap().extend([
        (Operation::Write, end..end + 4096),
        (Operation::Read, end..end + 4096),
    ]);
    Arc::new(device)
}

/// A device that does what it is told until something fails.
struct Writer<'a> {
    cut: &'a PowerCut,
    possible: Possible,
    number: u16,
}

impl Writer<'_> {
    /// One step; false when the power is gone.
    fn step(&mut self, what: usize, first: usize, count: usize) -> bool {
        let block = self.cut.geometry().logical_block_bytes as usize / SECTOR;
        let first = first - first % block;
        let count = count.next_multiple_of(block).min(SECTORS - first);
        let offset = (first * SECTOR) as u64;
        let there = (count * SECTOR).min(LENGTH - first * SECTOR);
        match what {
            0 => {
                let result = flush(self.cut).result;
                if result.is_ok() {
                    self.possible.durable(0, SECTORS);
                }
                result.is_ok()
            }
            1 => {
                let (outcome, seen) = read(self.cut, offset, count * SECTOR);
                if outcome.transferred_bytes == 0 {
                    return false;
                }
                assert_eq!(outcome.transferred_bytes, there);
                for (sector, bytes) in seen[..there].chunks(SECTOR).enumerate() {
                    let latest = self.possible.versions[first + sector].last().unwrap();
                    assert_eq!(number_of(bytes), *latest);
                }
                true
            }
            _ => {
                self.number += 1;
                let bytes = filled(count, self.number);
                let outcome = if what == 2 {
                    write_durable(self.cut, offset, &bytes)
                } else {
                    write(self.cut, offset, &bytes)
                };
                self.possible.written(first, count, self.number);
                let made = outcome.transferred_bytes == there;
                if made && what == 2 {
                    self.possible.durable(first, count);
                }
                made
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    /// One writer: after the cut every sector is as one of the writes since the last one that was
    /// made durable left it, or as that one did.
    #[test]
    fn nothing_durable_is_lost_and_no_sector_is_torn(
        steps in proptest::collection::vec((0usize..8, 0usize..SECTORS, 1usize..20), 1..40),
        log_bytes_max in prop_oneof![Just(0usize), Just(8192), Just(1 << 20)],
        is_coarse in any::<bool>(),
        after in proptest::option::of(0u64..30),
        seed in any::<u64>(),
    ) {
        let below: Arc<dyn Device> = if is_coarse {
            coarse()
        } else {
            Arc::new(RamDevice::new("ram", LENGTH as u64))
        };
        let cut = PowerCut::new(below.clone(), log_bytes_max).unwrap();
        let handle = cut.handle();
        if let Some(after) = after {
            handle.cut_after(after, seed);
        }
        let mut writer = Writer { cut: &cut, possible: Possible::new(), number: 0 };
        for (what, first, count) in steps {
            if !writer.step(what, first, count) {
                prop_assert!(after.is_some() && handle.is_cut());
                break;
            }
        }
        handle.cut(seed);
        writer.possible.check(&bytes_of(&*below));
    }

    /// The same steps and the same seed leave the same bytes.
    #[test]
    fn a_cut_can_be_made_again(
        steps in proptest::collection::vec((0usize..8, 0usize..SECTORS, 1usize..20), 1..20),
        after in 0u64..20,
        seed in any::<u64>(),
    ) {
        let run = || {
            let (cut, ram) = over_ram(8192);
            cut.handle().cut_after(after, seed);
            let mut writer = Writer { cut: &cut, possible: Possible::new(), number: 0 };
            let mut steps = steps.iter();
            while steps.next().is_some_and(|step| writer.step(step.0, step.1, step.2)) {}
            let damage = cut.handle().cut(seed);
            (bytes_of(&*ram), damage)
        };
        prop_assert!(run() == run());
    }
}

/// Four writers, each with several writes on their way, to sectors of their own; the device below
/// takes its time, so that the cut meets flushes and durable writes half done.
#[test]
fn many_writers_lose_nothing_that_was_acknowledged() {
    for seed in 0..120u64 {
        let ram = Arc::new(RamDevice::new("ram", LENGTH as u64));
        let below: Arc<dyn Device> = if seed % 2 == 0 {
            let time = Duration::from_micros(seed % 50);
            Arc::new(Delay::new(ram.clone(), time).unwrap())
        } else {
            ram.clone()
        };
        let room = [0, 4096, 1 << 20][seed as usize % 3];
        let cut = PowerCut::new(below, room).unwrap();
        let handle = cut.handle();
        handle.cut_after(seed * 7 % 300, seed);
        let possible = std::thread::scope(|scope| {
            let writers: Vec<_> = (0..4)
                .map(|own| {
                    let cut = &cut;
                    scope.spawn(move || write_own_sectors(cut, own))
                })
                .collect();
            writers
                .into_iter()
                .map(|writer| writer.join().unwrap())
                .collect::<Vec<_>>()
        });
        handle.cut(seed);
        let below = bytes_of(&*ram);
        let mut all = Possible::new();
        for (sector, versions) in all.versions.iter_mut().enumerate() {
            versions.clone_from(&possible[sector % 4].versions[sector]);
        }
        all.check(&below);
    }
}

/// Writes sectors `own`, `own` + 4, ... three at a time, until the power is gone.
fn write_own_sectors(cut: &PowerCut, own: usize) -> Possible {
    let mut possible = Possible::new();
    for number in 1..1000u16 {
        let durable = number % 5 == 0;
        let sectors = [0, 5, 11].map(|step| (usize::from(number) + step) % 16 * 4 + own);
        let pending = sectors.map(|sector| {
            let mut buffer = Buffer::new(SECTOR, 512);
            buffer.copy_from_slice(&filled(1, number));
            let (mut one, done) = request(Operation::Write, (sector * SECTOR) as u64, buffer);
            if durable {
                one.set_durable();
            }
            possible.written(sector, 1, number);
            cut.submit(one);
            (sector, done)
        });
        let mut gone = false;
        for (sector, done) in pending {
            let made = done.recv_timeout(PATIENCE).unwrap().0.transferred_bytes > 0;
            if made && durable {
                possible.durable(sector, 1);
            }
            gone |= !made;
        }
        if !gone && number % 7 == 0 {
            if flush(cut).result.is_ok() {
                possible.durable(0, SECTORS);
            } else {
                gone = true;
            }
        }
        if gone {
            return possible;
        }
    }
    possible
}
