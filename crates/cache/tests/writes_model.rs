//! Random writes, reads, commits and failures against plain bytes.

#![allow(clippy::unwrap_used)] // tests

mod support;

use std::sync::Arc;

use pagewell_cache::{BYTES_MIN, Cache, CacheOptions, CachedDevice, Error, ReadMode, WriteMode};
use pagewell_device::Geometry;
use support::Random;
use support::disk::Disk;

const MIB: u64 = 1 << 20;

struct Model {
    random: Random,
    device: CachedDevice,
    disk: Arc<Disk>,
    /// What reads see.
    bytes: Vec<u8>,
    steps: u64,
}

impl Model {
    fn new(seed: u64, options: CacheOptions, geometry: Geometry, length: u64) -> Self {
        let mut random = Random(seed);
        let bytes: Vec<u8> = (0..length).map(|_| random.0 as u8 ^ 0x55).collect();
        let disk = Disk::new("disk", bytes.clone(), geometry);
        let device = Cache::new(options).unwrap().open(disk.clone());
        random.below(2);
        Self {
            random,
            device,
            disk,
            bytes,
            steps: 0,
        }
    }

    /// Mostly near each other, so that writes meet; often at the ends of units and pages.
    fn place(&mut self) -> (usize, usize) {
        let length = self.bytes.len() as u64;
        let around = match self.random.below(4) {
            0 => self.random.below(length),
            1 => self.random.below(8) * 65_536 % length,
            2 => self.random.below(64) * 4096 % length,
            _ => length - 1 - self.random.below(20_000.min(length)),
        };
        let offset = around.saturating_sub(self.random.below(64)).min(length - 1);
        let most = match self.random.below(8) {
            0 => 200_000,
            1 | 2 => 20_000,
            3 | 4 => 4096,
            _ => 40,
        };
        let count = (1 + self.random.below(most)).min(length - offset);
        (
            usize::try_from(offset).unwrap(),
            usize::try_from(count).unwrap(),
        )
    }

    fn write(&mut self) {
        let (offset, count) = self.place();
        let byte = self.random.below(256) as u8;
        let source: Vec<u8> = (0..count).map(|at| byte.wrapping_add(at as u8)).collect();
        let mode = WriteMode::WAIT;
        self.device.write_at(offset as u64, &source, mode).unwrap();
        self.bytes[offset..offset + count].copy_from_slice(&source);
    }

    fn read(&mut self) {
        let (offset, count) = self.place();
        let mut target = vec![0; count];
        let mode = ReadMode::WAIT;
        self.device
            .read_at(offset as u64, &mut target, mode)
            .unwrap();
        let expected = &self.bytes[offset..offset + count];
        let wrong = target.iter().zip(expected).position(|(a, b)| a != b);
        assert_eq!(wrong, None, "step {}: {count} at {offset}", self.steps);
    }

    /// True when it succeeded: then the device has at least these bytes.
    fn commit(&mut self) -> bool {
        let (offset, count) = self.place();
        match self.device.commit(offset as u64, count as u64) {
            Ok(()) => {
                let on_disk = &self.disk.bytes()[offset..offset + count];
                assert!(
                    on_disk == &self.bytes[offset..offset + count],
                    "step {}",
                    self.steps
                );
                true
            }
            Err(Error::Device(_) | Error::Lost { .. }) => false,
            Err(other) => panic!("{other}"),
        }
    }

    fn step(&mut self) {
        self.steps += 1;
        match self.random.below(16) {
            0..8 => self.write(),
            8..14 => self.read(),
            14 => {
                self.commit();
            }
            _ => {
                let (offset, count) = self.place();
                self.device.prefetch(offset as u64, count as u64 * 4);
            }
        }
    }

    fn end(mut self) {
        self.disk.fail(0, 0);
        // What a flush lost is told once; a write that failed was tried again.
        let mut tries = 0;
        while self.device.sync().is_err() {
            tries += 1;
            assert!(tries < 3);
        }
        self.read();
        assert!(self.disk.bytes() == self.bytes, "not all is on the device");
        assert_eq!(
            (self.device.dirty_bytes(), self.device.dirty_pages()),
            (0, 0)
        );
        drop(self.device);
        let cache = Cache::new(CacheOptions::new(BYTES_MIN)).unwrap();
        let again = cache.open(self.disk.clone());
        let mut target = vec![0; self.bytes.len()];
        again.read_at(0, &mut target, ReadMode::WAIT).unwrap();
        assert!(target == self.bytes);
    }
}

fn geometries() -> Vec<Geometry> {
    let blocks = |logical_block_bytes, memory_alignment_bytes| Geometry {
        logical_block_bytes,
        memory_alignment_bytes,
        ..Geometry::MEMORY
    };
    vec![
        Geometry::MEMORY,
        blocks(512, 512),
        blocks(512, 1),
        blocks(4096, 4096),
        blocks(16_384, 4096),
        blocks(65_536, 512),
        Geometry {
            rotational: true,
            queue_depth: 1,
            ..blocks(2048, 512)
        },
    ]
}

fn every_mode() -> Vec<CacheOptions> {
    let base = CacheOptions::new(BYTES_MIN);
    vec![
        base,
        support::baseline(BYTES_MIN),
        CacheOptions {
            elevator: false,
            ..base
        },
        CacheOptions {
            unit_bytes: 2048,
            memory_is_file: true,
            ..base
        },
        CacheOptions {
            dirty_bytes_max: Some(65_536),
            ..base
        },
    ]
}

#[test]
fn small_devices_in_every_geometry_and_mode() {
    for (seed, geometry) in (1..).zip(geometries()) {
        for options in every_mode() {
            let length = 300_000 + seed * 1237;
            // The last block of the alignment must be whole where memory has to be.
            let length = if geometry.logical_block_bytes == 1 {
                length
            } else {
                length / 512 * 512 + 100
            };
            let mut model = Model::new(seed, options, geometry, length);
            (0..400).for_each(|_| model.step());
            model.end();
        }
    }
}

#[test]
fn more_data_than_memory() {
    for (seed, geometry) in (100..).zip([Geometry::MEMORY, geometries()[3]]) {
        let options = CacheOptions::new(BYTES_MIN);
        let mut model = Model::new(seed, options, geometry, 12 * MIB + 777);
        (0..3000).for_each(|_| model.step());
        model.end();
    }
}

#[test]
fn writes_and_flushes_that_fail_at_random() {
    for seed in 0..12 {
        let geometry = geometries()[usize::try_from(seed % 4).unwrap()];
        let options = CacheOptions::new(BYTES_MIN);
        let mut model = Model::new(1000 + seed, options, geometry, 2 * MIB + 100);
        for _ in 0..10 {
            model.disk.fail(seed % 3 * 100, seed % 2 * 200);
            (0..30).for_each(|_| model.step());
            model.disk.fail(0, 0);
            // Nothing was forgotten: with a device that is well, at most what a flush lost is
            // told, once.
            if !model.commit() {
                let _ = model.device.sync();
            }
            (0..10).for_each(|_| model.step());
        }
        model.end();
    }
}
