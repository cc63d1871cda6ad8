//! A database on storage whose power is cut at random: SQLite, with its rollback journal and with
//! its write-ahead log, through a VFS on one flat run of bytes.
//!
//! After each cut the database is opened on what survived. It must be whole, every transaction
//! that had returned from its commit must be there, and none by half. A failure names the seed
//! and the plan that make it again.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on fails"
)]

mod cached;
mod database;
mod image;
mod lives;
mod memory;
mod model;
mod power;
mod remote;
mod sectors;
mod served;
mod store;
mod vfs;
mod volume;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cached::CachedMachine;
use database::Journal;
use image::{ImageMachine, RestartedMachine};
use lives::{Plan, Report};
use memory::{MemoryMachine, Sync};
use pagewell_wire::{client, random, writer};
use served::RamMachine;
use store::Machine;
use volume::STORE_BYTES;

/// Seeds from 0: so many, or as many as the environment says, for a longer search.
fn seeds(count: u64) -> std::ops::Range<u64> {
    let told = std::env::var("PAGEWELL_TORTURE_SEEDS");
    0..told.map_or(count, |told| told.parse().expect("a number of seeds"))
}

/// Does the same with each seed, and adds up what is reported.
fn with_seeds(count: u64, mut lives_of: impl FnMut(u64) -> Result<Report, String>) -> Report {
    let begin = std::time::Instant::now();
    let mut total = Report::default();
    for seed in seeds(count) {
        match lives_of(seed) {
            Ok(report) => total.add(&report),
            Err(what) => panic!("{what}"),
        }
    }
    println!("{total:?} in {:?}", begin.elapsed());
    total
}

/// Lives on several machines of a kind, with each journal.
fn live(
    count: u64,
    lives: u64,
    operations_max: u64,
    mut machine: impl FnMut() -> Box<dyn Machine>,
) -> Report {
    with_seeds(count, |seed| {
        let mut total = Report::default();
        for journal in Journal::ALL {
            let plan = Plan {
                seed,
                lives,
                journal,
                operations_max,
            };
            total.add(&plan.run(&mut *machine())?);
        }
        Ok(total)
    })
}

/// The harness itself: on memory with an honest sync nothing is lost.
#[test]
fn nothing_is_lost_on_memory_that_keeps_its_promise() {
    let total = live(3, 5, 600, || {
        Box::new(MemoryMachine::new(STORE_BYTES, Sync::Works))
    });
    assert!(
        total.cuts >= 60 && total.commits > 200 && total.cuts_inside > 20,
        "{total:?}"
    );
}

/// Sectors on machines of a kind.
fn live_by_sector(
    count: u64,
    lives: u64,
    operations_max: u64,
    mut machine: impl FnMut() -> Box<dyn Machine>,
) -> Report {
    with_seeds(count, |seed| {
        sectors::run(&mut *machine(), seed, lives, operations_max)
    })
}

/// The model of sectors itself.
#[test]
fn sectors_in_memory_are_what_they_may_be() {
    let total = live_by_sector(5, 10, 60, || {
        Box::new(MemoryMachine::new(STORE_BYTES, Sync::Works))
    });
    assert!(total.commits > 50 && total.cuts_inside > 20, "{total:?}");
    for sync in [Sync::Nothing, Sync::Skips(4)] {
        let mut machine = MemoryMachine::new(STORE_BYTES, sync);
        let found = sectors::run(&mut machine, 1, 40, 200).expect_err("a loss");
        println!("{sync:?}: {found}");
    }
}

/// The page cache on a device whose power fails.
#[test]
fn nothing_is_lost_behind_the_cache_when_the_power_fails() {
    let total = live(5, 5, 120, || Box::new(CachedMachine::new()));
    assert!(
        total.cuts >= 100 && total.commits > 200 && total.cuts_inside > 30,
        "{total:?}"
    );
}

/// It does matter what the cache does: on a device that takes flushes and does nothing there are
/// losses.
#[test]
fn losses_are_seen_behind_the_cache_on_a_device_that_does_not_flush() {
    for journal in Journal::ALL {
        let plan = Plan {
            seed: 1,
            lives: 60,
            journal,
            operations_max: 120,
        };
        let found = plan.run(&mut CachedMachine::without_flushes());
        let found = found.expect_err("a loss");
        println!("{}", found.lines().next().unwrap_or_default());
    }
}

/// The same by the sector.
#[test]
fn sectors_behind_the_cache_are_what_they_may_be_when_the_power_fails() {
    let total = live_by_sector(10, 10, 60, || Box::new(CachedMachine::new()));
    assert!(total.commits > 50 && total.cuts_inside > 20, "{total:?}");
}

/// An image on such a device, served over NFS: client and server lose their power together.
#[test]
fn nothing_is_lost_in_an_image_over_nfs_when_the_power_fails() {
    let total = live(3, 5, 120, || Box::new(ImageMachine::new()));
    assert!(
        total.cuts >= 60 && total.commits > 100 && total.cuts_inside > 15,
        "{total:?}"
    );
}

/// The same, but the client has power and sends again what a server has lost: it never learns
/// that there was more than one.
#[test]
fn nothing_is_lost_over_nfs_when_the_power_of_servers_fails_under_a_client() {
    let cuts = Arc::new(AtomicU64::new(0));
    let total = live(2, 3, 0, || Box::new(RestartedMachine::new(cuts.clone())));
    let cuts = cuts.load(Ordering::Relaxed);
    println!("{cuts} servers failed");
    assert!(total.commits > 100 && cuts > 40, "{total:?}, {cuts}");
}

/// The client dies, the server's memory stays.
#[test]
fn nothing_is_lost_in_ram_over_nfs_when_the_client_dies() {
    let total = live(2, 5, 600, || Box::new(RamMachine::new()));
    assert!(
        total.cuts >= 40 && total.commits > 100 && total.cuts_inside > 10,
        "{total:?}"
    );
}

/// The harness can fail: the same on memory that forgets to synchronise, always or at times.
#[test]
fn losses_are_seen_on_memory_that_does_not_synchronise() {
    for sync in [Sync::Nothing, Sync::Skips(4)] {
        for journal in Journal::ALL {
            let plan = Plan {
                seed: 1,
                lives: 40,
                journal,
                operations_max: 600,
            };
            let mut machine = MemoryMachine::new(STORE_BYTES, sync);
            let found = plan.run(&mut machine).expect_err("a loss");
            println!("{sync:?}: {}", found.lines().next().unwrap_or_default());
        }
    }
}
