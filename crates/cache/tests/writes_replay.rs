//! A server that forgets what was not flushed, and says so: no byte is lost, whatever else happens.

#![allow(clippy::unwrap_used)] // tests

mod support;

use std::sync::Arc;
use std::time::Duration;

use pagewell_cache::{
    BYTES_MIN, Cache, CacheOptions, CachedDevice, Error, OpenOptions, PagePin, ReadAheadRule,
    ReadMode, WriteMode,
};
use support::Random;
use support::disk::Disk;

const MIB: u64 = 1 << 20;
const PAGE: u64 = 65_536;

struct Model {
    random: Random,
    cache: Cache,
    device: CachedDevice,
    server: Arc<Disk>,
    /// What reads see.
    bytes: Vec<u8>,
    pinned: Vec<(Vec<PagePin>, Vec<Vec<u8>>)>,
    /// Of a thousand steps, so many begin with a restart.
    restarts: u64,
    steps: u64,
}

fn range(offset: u64, count: usize) -> std::ops::Range<usize> {
    let offset = usize::try_from(offset).unwrap();
    offset..offset + count
}

impl Model {
    fn new(seed: u64, length: u64, change: impl FnOnce(&mut OpenOptions)) -> Self {
        let bytes: Vec<u8> = (0..length).map(|at| at as u8 ^ 0x55).collect();
        let server = Disk::server(bytes.clone());
        let cache = Cache::new(CacheOptions::new(BYTES_MIN)).unwrap();
        let mut options = OpenOptions {
            read_ahead: ReadAheadRule::Server {
                request_bytes: PAGE,
            },
            ..cache.open_options()
        };
        change(&mut options);
        let device = cache.open_with(server.clone(), options);
        Self {
            random: Random(seed),
            cache,
            device,
            server,
            bytes,
            pinned: Vec::new(),
            restarts: 0,
            steps: 0,
        }
    }

    fn place(&mut self) -> (u64, usize) {
        let length = self.bytes.len() as u64;
        let around = match self.random.below(3) {
            0 => self.random.below(length),
            1 => self.random.below(16) * PAGE % length,
            _ => self.random.below(128) * 4096 % length,
        };
        let offset = around.saturating_sub(self.random.below(64)).min(length - 1);
        let most = [200_000, 20_000, 4096, 40][usize::try_from(self.random.below(4)).unwrap()];
        let count = (1 + self.random.below(most)).min(length - offset);
        (offset, usize::try_from(count).unwrap())
    }

    fn write_to(&mut self, offset: u64, count: usize) {
        let byte = self.random.below(256) as u8;
        let source: Vec<u8> = (0..count).map(|at| byte.wrapping_add(at as u8)).collect();
        self.device
            .write_at(offset, &source, WriteMode::WAIT)
            .unwrap();
        self.bytes[range(offset, count)].copy_from_slice(&source);
    }

    fn read(&mut self) {
        let (offset, count) = self.place();
        let mut target = vec![0; count];
        self.device
            .read_at(offset, &mut target, ReadMode::WAIT)
            .unwrap();
        let expected = &self.bytes[range(offset, count)];
        let wrong = target.iter().zip(expected).position(|(a, b)| a != b);
        assert_eq!(wrong, None, "step {}: {count} at {offset}", self.steps);
    }

    fn commit(&mut self, offset: u64, count: usize) {
        match self.device.commit(offset, count as u64) {
            Ok(()) => assert!(
                self.server.durable()[range(offset, count)] == self.bytes[range(offset, count)],
                "step {}",
                self.steps
            ),
            Err(Error::Device(_) | Error::Lost { .. }) => {}
            Err(other) => panic!("{other}"),
        }
    }

    /// Another client changes what we have, and we are told.
    fn change(&mut self) {
        let (offset, count) = self.place();
        if self.device.commit(offset, count as u64).is_err() {
            return;
        }
        let byte = self.random.below(256) as u8;
        self.server.change(range(offset, count), byte);
        self.device.discard(offset, count as u64);
        self.bytes[range(offset, count)].fill(byte);
    }

    /// What is dirty goes, and is written anew.
    fn drop_dirty(&mut self) {
        let (offset, count) = self.place();
        self.device.discard(offset, count as u64);
        self.write_to(offset, count);
    }

    fn pin(&mut self) {
        let (offset, count) = self.place();
        let pinned = self.device.pin_all(offset, count, ReadMode::WAIT).unwrap();
        if let Some(pinned) = pinned {
            let copies = pinned.iter().map(|page| page.as_ref().to_vec()).collect();
            self.pinned.push((pinned, copies));
        }
        if self.pinned.len() > 3 {
            let (pinned, copies) = self.pinned.remove(0);
            let pages = pinned.iter().zip(&copies);
            pages.for_each(|(page, copy)| assert!(page.as_ref() == copy));
        }
    }

    fn step(&mut self) {
        self.steps += 1;
        if self.random.below(1000) < self.restarts {
            self.server.restart();
        }
        let (offset, count) = self.place();
        match self.random.below(20) {
            0..8 => self.write_to(offset, count),
            8..13 => self.read(),
            13 => self.commit(offset, count),
            14 => drop(self.device.write_out(offset, count as u64)),
            15 => self.device.prefetch(offset, count as u64 * 4),
            16 => self.pin(),
            17 => self.change(),
            18 => self.drop_dirty(),
            _ => self.server.restart(),
        }
    }

    fn end(mut self) {
        self.server.fail(0, 0);
        let mut tries = 0;
        while self.device.sync().is_err() {
            tries += 1;
            assert!(tries < 3);
        }
        self.read();
        assert!(self.server.durable() == self.bytes, "not all is durable");
        let device = &self.device;
        assert_eq!((device.dirty_bytes(), device.dirty_pages()), (0, 0));
        assert!(!device.has_unflushed(0, self.bytes.len() as u64));
    }
}

#[test]
fn restarts_at_random_lose_nothing_and_nobody_is_told() {
    for seed in 0..8 {
        let mut model = Model::new(seed, 700_000 + seed * 1111, |_| {});
        model.restarts = 30;
        (0..1500).for_each(|_| model.step());
        assert_eq!(model.device.loss_epoch(), 0);
        model.device.sync().unwrap();
        assert!(model.server.replays() > 0);
        model.end();
    }
}

#[test]
fn more_data_than_memory_and_little_of_it_dirty() {
    for (seed, pages) in [(1, 1), (2, 3), (3, 16), (4, 30)] {
        let mut model = Model::new(seed, 9 * MIB + 333, |options| {
            options.dirty_bytes_max = Some(pages * PAGE);
        });
        model.restarts = 20;
        (0..1500).for_each(|_| {
            model.step();
            assert!(model.device.dirty_pages() <= pages);
        });
        model.end();
    }
}

#[test]
fn writes_and_flushes_fail_besides() {
    for seed in 0..6 {
        let mut model = Model::new(100 + seed, 2 * MIB, |options| {
            options.dirty_bytes_max = Some(2 * MIB);
        });
        model.restarts = 20;
        for _ in 0..10 {
            model.server.fail(seed % 3 * 100, seed % 2 * 200);
            (0..40).for_each(|_| model.step());
            model.server.fail(0, 0);
            let _ = model.device.sync();
            // The bytes stayed in memory: what was told once is made good.
            model.device.sync().unwrap();
            assert!(model.server.durable() == model.bytes);
        }
        model.end();
    }
}

#[test]
fn what_is_kept_is_not_evicted_and_is_let_go_by_a_flush() {
    let mut model = Model::new(1, 12 * MIB, |options| {
        options.dirty_bytes_max = Some(2 * MIB);
    });
    for page in 0..8 {
        model.write_to(page * PAGE + 100, 5000);
    }
    model.device.write_out(0, MIB).unwrap();
    assert!(model.device.has_unflushed(0, MIB) && !model.device.has_dirty(0, MIB));
    assert_eq!(
        (model.device.dirty_bytes(), model.device.dirty_pages()),
        (0, 8)
    );
    // Twice as much as memory.
    let mut all = vec![0; 8 << 20];
    model
        .device
        .read_at(4 * MIB, &mut all, ReadMode::WAIT)
        .unwrap();
    model.server.restart();
    let before = model.server.counts().reads;
    let mut one = vec![0; 5000];
    model.device.read_at(100, &mut one, ReadMode::WAIT).unwrap();
    // Of the first unit only a part is in memory: the rest is asked for, and nothing comes over it.
    assert!(one == model.bytes[100..5100]);
    assert!(model.server.counts().reads <= before + 1);
    model.device.sync().unwrap();
    assert_eq!(model.device.dirty_pages(), 0);
    assert_eq!(model.device.loss_epoch(), 0);
    let writes = model.device.write_back_counts();
    assert_eq!(writes.replayed_bytes, 40_000);
    model.end();
}

#[test]
fn a_server_that_is_started_again_and_again_ends_a_commit_at_last() {
    let mut model = Model::new(1, MIB, |_| {});
    model.write_to(0, 9000);
    // One write alone would be durable by itself.
    model.write_to(PAGE, 90);
    model.server.restart_at_flushes(5);
    model.device.sync().unwrap();
    assert_eq!(model.server.replays(), 5);
    assert_eq!(model.device.write_back_counts().replayed_bytes, 5 * 9090);
    assert_eq!(model.device.loss_epoch(), 0);
    model.write_to(0, 9000);
    model.write_to(PAGE, 90);
    model.server.restart_at_flushes(1);
    assert_eq!(model.device.close_within(Duration::MAX), 0);
    assert!(model.server.durable() == model.bytes);
    let refused = model.device.write_at(0, &[1], WriteMode::WAIT);
    assert!(matches!(refused, Err(Error::Device(_))), "{refused:?}");
    drop(model.cache);
}
