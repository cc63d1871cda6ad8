//! Writes to a disk image that find a part of their pages busy.

#![allow(clippy::unwrap_used)] // a failed check is a failed test

use std::sync::{Arc, Mutex};

use pagewell_cache::{BYTES_MIN, Cache, CacheOptions, PAGE_BYTES};
use pagewell_device::{Device, Geometry, Operation, RamDevice, Request, read_exact};
use pagewell_fs::{Call, Credentials, Error, FileSystem, Finish, Stability};
use pagewell_source_image::{ImageFileSystem, Origin};

/// A device of zeros whose reads do not end.
struct Silent {
    ram: RamDevice,
    reads: Mutex<Vec<Request>>,
}

impl Device for Silent {
    fn name(&self) -> &str {
        self.ram.name()
    }

    fn length_bytes(&self) -> u64 {
        self.ram.length_bytes()
    }

    fn geometry(&self) -> Geometry {
        self.ram.geometry()
    }

    fn submit(&self, request: Request) {
        if request.operation() == Operation::Read {
            self.reads.lock().unwrap().push(request);
        } else {
            self.ram.submit(request);
        }
    }
}

/// A write that finds its second page busy is to be made again; its connection may end before.
#[test]
fn times_move_with_the_first_byte_that_changes() {
    let device = Arc::new(Silent {
        ram: RamDevice::new("silent", 8 * PAGE_BYTES as u64),
        reads: Mutex::default(),
    });
    let cache = Cache::new(CacheOptions::new(BYTES_MIN)).unwrap();
    let origin = Origin::of_memory(b"disk.img");
    let image = ImageFileSystem::from_device(device.clone(), origin, &cache).writable();
    let root = Credentials::root();
    let call = Call::new(&root, false);
    let before = image.lookup(&call, &image.root(), b"disk.img").unwrap();
    let page = PAGE_BYTES as u64;
    let read = image.read(&call, &before.id, 4 * page, 512);
    assert_eq!(read.err(), Some(Error::WouldBlock));
    assert!(
        !device.reads.lock().unwrap().is_empty(),
        "a fetch is on its way"
    );
    let write = |offset| {
        let data = vec![7; PAGE_BYTES];
        let written = image.write(&call, &before.id, offset, &data, Stability::Unstable);
        assert_eq!(written.err(), Some(Error::WouldBlock));
    };
    let now = || image.attributes(&call, &before.id).unwrap();
    write(4 * page);
    assert_eq!(now(), before.attributes, "nothing was changed");
    write(4 * page - 512);
    let after = now();
    assert!(after.modified > before.attributes.modified);
    assert!(after.changed > before.attributes.changed);
    let reads = std::mem::take(&mut *device.reads.lock().unwrap());
    reads.into_iter().for_each(|read| device.ram.submit(read));
    image.finish(Finish::Sync).unwrap();
    let mut stored = vec![0; 1024];
    read_exact(&device.ram, 4 * page - 512, &mut stored).unwrap();
    assert_eq!(stored, [[7; 512], [0; 512]].concat());
}
