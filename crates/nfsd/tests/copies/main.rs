//! How often the bytes of a READ or a WRITE are copied: in a program of its own, because the
//! counters are of the whole program.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on fails"
)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use pagewell_cache::{Cache, CacheOptions};
use pagewell_counters::Counter;
use pagewell_counters::names::{
    CACHE_PINNED_PAGES, CACHE_PINS_REFUSED, COPIED_BYTES, RECEIVE_CALLS, SPLICED_BYTES,
};
use pagewell_device::{Device, RamDevice};
use pagewell_nfsd::Server;
use pagewell_source_image::{ImageFileSystem, Origin};
use pagewell_sunrpc::nfs3::{Procedure, ReadArguments, StableHow, WriteArguments};
use pagewell_wire::client::{Client, User, encoded, marked, next_xid};
use pagewell_wire::fixture;
use pagewell_wire::operations::{FileHandle, handle};

const MIB: usize = 1 << 20;

/// Counts while something is done.
fn counted<T>(counter: &Counter, what: impl FnOnce() -> T) -> u64 {
    let before = counter.get();
    what();
    counter.get() - before
}

struct Image {
    server: Server,
    bytes: Vec<u8>,
}

impl Image {
    /// Serves 16 MiB of numbers through a cache of so many bytes.
    fn serve(cache_bytes: usize) -> Self {
        // They repeat at no power of two.
        let number = |index: usize| (index / 251 * 7 + index % 251) as u8;
        let bytes: Vec<u8> = (0..16 << 20).map(number).collect();
        let device: Arc<dyn Device> = Arc::new(RamDevice::holding("numbers", &bytes));
        let cache = Cache::new(CacheOptions::new(cache_bytes as u64)).unwrap();
        let origin = Origin::of_memory(b"numbers.img");
        let image = ImageFileSystem::from_device(device, origin, &cache);
        let server = fixture::serve(vec![fixture::export("/", Arc::new(image))]);
        Self { server, bytes }
    }

    fn client(&self) -> (Client, FileHandle) {
        let (mut client, root) = fixture::connect(&self.server);
        let file = client.lookup(&root, b"numbers.img").expect("the image");
        (client, file.handle)
    }

    fn check(&self, client: &mut Client, file: &[u8], offset: usize, count: usize) {
        let length = u32::try_from(count).unwrap();
        let data = client.read(file, offset as u64, length).unwrap();
        assert!(data.bytes == self.bytes[offset..offset + count], "{offset}");
    }
}

#[test]
fn cached_pages_are_pinned_or_copied_once_and_writes_are_copied_once() {
    writes_are_copied_once();
    small_writes_are_received_together();
    large_reads_are_pinned();
    clients_that_do_not_read_do_not_stop_the_others();
}

fn large_reads_are_pinned() {
    const LARGE: usize = 128 << 10;
    let image = Image::serve(32 * MIB);
    let (mut client, file) = image.client();
    let large = |client: &mut Client| {
        for offset in (0..8 * MIB).step_by(LARGE) {
            image.check(client, &file, offset, LARGE);
        }
    };
    large(&mut client);
    let pinned = counted(&CACHE_PINNED_PAGES, || {
        assert_eq!(counted(&COPIED_BYTES, || large(&mut client)), 0);
    });
    assert_eq!(pinned, 8 * 16, "pages of 64 KiB");
    // Anywhere, and of any length above what is copied.
    let odd = counted(&COPIED_BYTES, || {
        image.check(&mut client, &file, 12_345, 32_769)
    });
    assert_eq!(odd, 0);
    let small = counted(&COPIED_BYTES, || {
        for offset in (0..8 * MIB).step_by(MIB) {
            image.check(&mut client, &file, offset + 7, 8192);
        }
    });
    assert_eq!(small, 8 * 8192, "into the block of replies");
    assert_eq!(SPLICED_BYTES.get(), 0);
}

/// An image of 8 MiB that can be written.
fn serve_writable() -> Server {
    let device: Arc<dyn Device> = Arc::new(RamDevice::new("ram", 8 << 20));
    let cache = Cache::new(CacheOptions::new(64 << 20)).unwrap();
    let origin = Origin::of_memory(b"numbers.img");
    let image = ImageFileSystem::from_device(device, origin, &cache).writable();
    fixture::serve(vec![fixture::export("/", Arc::new(image))])
}

/// From the memory that received it into the page, and nowhere else before it is answered.
fn writes_are_copied_once() {
    let server = serve_writable();
    let (mut client, root) = fixture::connect(&server);
    let file = client.lookup(&root, b"numbers.img").expect("the image");
    for (offset, length) in [
        (0, MIB),
        (2 * MIB + 5, MIB),
        (4 * MIB, 8192),
        (5 * MIB, 33_000),
    ] {
        let data = vec![7; length];
        let copied = counted(&COPIED_BYTES, || {
            let written = client.write(&file.handle, offset as u64, &data, StableHow::Unstable);
            assert_eq!(written.unwrap().count as usize, length);
        });
        assert_eq!(copied, length as u64, "{offset}");
    }
}

/// Also behind one of which only the beginning had come.
fn small_writes_are_received_together() {
    const CALLS: usize = 256;
    let server = serve_writable();
    let (mut client, root) = fixture::connect(&server);
    let file = client.lookup(&root, b"numbers.img").expect("the image");
    let data = [7; 4096];
    let mut stream = Vec::new();
    for offset in (0..CALLS as u64).map(|index| index * 4096) {
        let write = encoded(&WriteArguments {
            file: handle(&file.handle),
            offset,
            count: 4096,
            stable: StableHow::Unstable,
            data: &data,
        });
        stream.extend(marked(&client.record(next_xid(), Procedure::Write, &write)));
    }
    let receives = counted(&RECEIVE_CALLS, || {
        client.send(&stream);
        for _ in 0..CALLS {
            client.next_answer();
        }
    });
    assert!(receives < CALLS as u64 / 3, "{receives} for {CALLS} calls");
}

fn clients_that_do_not_read_do_not_stop_the_others() {
    let image = Image::serve(4 * MIB);
    let mut idle = Vec::new();
    let end = Instant::now() + Duration::from_secs(60);
    let refused = CACHE_PINS_REFUSED.get();
    let (mut busy, file) = image.client();
    // A refusal may pass: what the system still takes for the others makes place again.
    loop {
        let copied = counted(&COPIED_BYTES, || image.check(&mut busy, &file, 5, MIB));
        if copied >= MIB as u64 {
            break;
        }
        assert!(Instant::now() < end, "half of the pages are never pinned");
        let mut client = Client::connect(image.server.address(), User::root());
        for megabyte in 0..15u64 {
            let arguments = ReadArguments {
                file: handle(&file),
                offset: megabyte << 20,
                count: 1 << 20,
            };
            client.start(Procedure::Read, &arguments);
        }
        idle.push(client);
    }
    assert!(CACHE_PINS_REFUSED.get() > refused);
    for offset in (0..15 * MIB).step_by(MIB) {
        image.check(&mut busy, &file, offset, MIB);
    }
    drop(idle);
}
