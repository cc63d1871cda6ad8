//! The bare server under the load that it is for.
#![allow(clippy::unwrap_used, reason = "a test fails so")]

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use pagewell_load::limit::{Files, Limit, Way};
use pagewell_load::load::{Load, Target, Workload, pattern, remove, run, write_pattern_file};
use tempfile::TempDir;

/// Neither a multiple of the blocks that are used nor of four.
const FILE_BYTES: u64 = 3_000_003;

/// A server that serves until the test's process ends.
fn start(directory: &Path, way: Way) -> Target {
    let read = directory.join("read");
    write_pattern_file(&read, FILE_BYTES).unwrap();
    let files = Files::open(&read, &[directory.join("written")]).unwrap();
    let listen = SocketAddr::from(([127, 0, 0, 1], 0));
    let limit = Limit::bind(listen, files, way).unwrap();
    let address = limit.address().unwrap();
    std::thread::spawn(move || limit.serve());
    Target {
        nfs: address,
        mount: address,
        export: "/any".to_owned(),
    }
}

fn load(workload: Workload, path: &str) -> Load {
    let once = matches!(workload, Workload::Read | Workload::Write);
    Load {
        depth: 7,
        connections: 3,
        duration: (!once).then_some(Duration::from_millis(30)),
        ..Load::new(workload, path)
    }
}

fn read_verified(target: &Target, block_bytes: u32) {
    let load = Load {
        block_bytes,
        verify: true,
        ..load(Workload::Read, "read")
    };
    let result = run(target, &load, None).unwrap();
    assert_eq!((result.bytes, result.short_replies), (FILE_BYTES, 0));
}

#[test]
fn every_way_reads_every_byte() {
    for way in &Way::ALL {
        let directory = TempDir::new().unwrap();
        let target = start(directory.path(), *way);
        for block_bytes in [1001, 64 << 10, 1 << 20] {
            read_verified(&target, block_bytes);
        }
        assert_eq!(way.name().parse(), Ok(*way));
    }
    assert!("splice".parse::<Way>().is_err());
}

#[test]
fn small_calls_and_random_reads_go_on_until_the_deadline() {
    let directory = TempDir::new().unwrap();
    let target = start(directory.path(), Way::Mapping);
    for workload in [Workload::Getattr, Workload::Lookup, Workload::RandomRead] {
        let result = run(&target, &load(workload, "read"), None).unwrap();
        assert!(result.operations > 0, "{workload}");
    }
    let missing = run(&target, &load(Workload::Getattr, "missing"), None);
    assert_eq!(missing.unwrap_err().to_string(), "lookup: NFS3ERR_NOENT");
}

#[test]
fn what_is_written_is_in_the_file_until_it_is_removed() {
    let directory = TempDir::new().unwrap();
    let target = start(directory.path(), Way::Copy);
    let written = directory.path().join("written");
    let write = Load {
        file_bytes: Some(FILE_BYTES),
        block_bytes: 100_000,
        verify: true,
        ..load(Workload::Write, "written")
    };
    let result = run(&target, &write, None).unwrap();
    assert!(result.bytes == FILE_BYTES && result.commit.is_some());
    assert_eq!(pattern().check(0, &fs::read(&written).unwrap()), Ok(()));
    let random = Load {
        workload: Workload::RandomWrite,
        duration: Some(Duration::from_millis(30)),
        ..write
    };
    run(&target, &random, None).unwrap();
    assert_eq!(pattern().check(0, &fs::read(&written).unwrap()), Ok(()));
    remove(&target, "written").unwrap();
    assert_eq!(fs::metadata(&written).unwrap().len(), 0);
}

#[test]
fn a_record_that_never_becomes_whole_ends_its_connection_only() {
    let directory = TempDir::new().unwrap();
    let target = start(directory.path(), Way::Sendfile);
    // Far too long; not the last fragment; longer than any WRITE.
    for marker in [0xffff_ffff_u32, 0x0000_0010, 0x8000_0000 | 2 << 20] {
        let mut socket = TcpStream::connect(target.nfs).unwrap();
        socket.write_all(&marker.to_be_bytes()).unwrap();
        assert_eq!(socket.read(&mut [0; 16]).unwrap_or(0), 0, "{marker:x}");
    }
    // A record of no bytes is no call; what follows it is looked at.
    let mut socket = TcpStream::connect(target.nfs).unwrap();
    socket.write_all(&0x8000_0000_u32.to_be_bytes()).unwrap();
    socket.write_all(&u32::MAX.to_be_bytes()).unwrap();
    assert_eq!(socket.read(&mut [0; 16]).unwrap_or(0), 0);
    read_verified(&target, 64 << 10);
}
