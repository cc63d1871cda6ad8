//! Regions while threads read in them.

use std::sync::mpsc;
use std::time::Duration;

use super::*;
use crate::files::Files;

/// A read that goes on.
fn reading(node: &Node, region: Region) -> Reading<'_> {
    Reading {
        node,
        region,
        size: 5,
        ends: 0,
    }
}

/// A file with a region in which a thread reads.
fn read_in(files: &Files) -> (Arc<Node>, Region) {
    let node = files.node(&FileId::new(b"file").unwrap());
    let region = files.take_region(&node, 5).unwrap();
    node.lock().readers += 1;
    (node, region)
}

#[test]
fn a_region_stays_with_its_file_while_somebody_reads() {
    let files = Files::new(100, 4);
    let (node, region) = read_in(&files);
    assert_eq!(node.take_region(), None);
    assert_eq!(node.lock().region, Some(region));
    drop(reading(&node, region));
    assert_eq!(node.take_region(), Some(region));
    // Nobody else has it before it is given back, and nobody finds the file there.
    let other = files.node(&FileId::new(b"other").unwrap());
    assert_ne!(files.take_region(&other, 5), Some(region));
    files.give_back(region);
    assert!(files.at(region.start(), 1).is_none());
}

#[test]
fn a_move_waits_for_the_readers_and_new_readers_for_the_move() {
    let files = Files::new(100, 4);
    let (node, region) = read_in(&files);
    let (sender, receiver) = mpsc::channel();
    std::thread::scope(|scope| {
        let mover = node.clone();
        scope.spawn(move || sender.send(mover.begin_move()));
        while !node.lock().is_moving {
            std::thread::yield_now();
        }
        assert!(receiver.recv_timeout(Duration::from_millis(20)).is_err());
        drop(reading(&node, region));
        let taken = receiver.recv_timeout(Duration::from_secs(60));
        assert_eq!(taken, Ok(Some(region)));
    });
    assert!(node.lock().is_moving);
    node.end_move();
    assert!(!node.lock().is_moving);
}
