use std::sync::Arc;

use pagewell_nfsd::{Config, Export, Server, Squash};
use pagewell_source_nfs::ReadAhead;
use pagewell_source_ram::RamFileSystem;

use super::run::{Memory, Place, Setting};
use super::verdicts::exact_reads;
use super::workload::Workload;
use super::{Choice, FILE_BYTES_MAX, FILE_BYTES_QUICK};
use crate::experiment::Mode;

const FILE_BYTES: u64 = 2 << 20;

/// A server in this process, which other tests of this program do not count calls to.
fn server() -> (Server, Place) {
    let memory = RamFileSystem::new(32 << 20).unwrap();
    let export = Export {
        squash: Squash::None,
        ..Export::new("/", Arc::new(memory))
    };
    let mut config = Config::new(vec![export], [0; 16]);
    config.listen = "127.0.0.1:0".parse().unwrap();
    let server = Server::start(config).unwrap();
    let url = format!("nfs://{}/", server.address());
    let place = Place::foreign(&url, FILE_BYTES).unwrap();
    (server, place)
}

#[test]
fn counts_of_calls_are_arithmetic() {
    let (server, place) = server();
    let reads: u64 = place.layouts.iter().map(|layout| layout.calls.reads).sum();
    assert_eq!(reads, 0, "a file that is laid out is not read");
    for (pass, what) in exact_reads(&place).unwrap() {
        assert!(pass, "{what}");
    }
    drop(place);
    server.stop().unwrap();
}

#[test]
fn files_are_whole_megabytes_of_a_size_that_can_be() {
    let of = |file_bytes| {
        let choice = Choice {
            file_bytes,
            ..Choice::default()
        };
        assert_eq!(choice.file_bytes(true), choice.whole(FILE_BYTES_QUICK));
        choice.file_bytes(true)
    };
    assert_eq!(of(None), FILE_BYTES_QUICK);
    assert_eq!(of(Some(1)), 1 << 20);
    assert_eq!(of(Some((5 << 20) - 1)), 4 << 20);
    assert_eq!(of(Some(i64::MAX as u64)), FILE_BYTES_MAX);
}

#[test]
fn every_workload_runs_in_both_modes_and_random_writes_are_gathered() {
    let (server, place) = server();
    for workload in Workload::ALL {
        for mode in [Mode::Baseline, Mode::Enhanced] {
            let setting = Setting {
                mode,
                read_ahead: ReadAhead::Blocks(8),
                transfer_bytes: Some(64 << 10),
                round_trip: None,
                memory: Memory::Whole,
            };
            let run = if workload.writes {
                place.write(&setting, workload).unwrap()
            } else {
                place.read(&setting, workload, 1).unwrap().remove(0)
            };
            let name = workload.name();
            assert_eq!(run.bytes(), FILE_BYTES, "{name}");
            let calls = run.calls;
            let sum = calls.reads + calls.writes + calls.commits + calls.others;
            assert_eq!(sum, calls.requests, "{name}");
            let per = run.writes_per_operation();
            match (workload == Workload::RANDOM_WRITE_SMALL, mode) {
                (true, Mode::Enhanced) => assert!(per <= 0.11, "{calls:?}"),
                (true, Mode::Baseline) => assert!(per <= 1.0 && calls.reads == 0, "{calls:?}"),
                (false, _) => {}
            }
            if !workload.writes && !workload.random && workload.block_bytes > 64 << 10 {
                assert_eq!(
                    calls.reads,
                    FILE_BYTES >> 16,
                    "{name}: blocks of the report"
                );
            }
        }
    }
    drop(place);
    server.stop().unwrap();
}
