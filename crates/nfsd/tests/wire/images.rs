//! A disk image that is written over the wire: verifiers, losses, ranges of COMMIT, and what an
//! image of fixed length answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use pagewell_counters::names::STORAGE_ERRORS;
use pagewell_device::{Device, Error as DeviceError, Geometry, Operation, RamDevice, Request};
use pagewell_nfsd::Server;
use pagewell_source_image::{ImageFileSystem, Origin};
use pagewell_sunrpc::nfs3::{CreateHow, SetAttributes, SetTime, StableHow, Status};
use rustix::io::Errno;

use crate::client::{Client, User};
use crate::fixture::{connect, export, image_cache, serve};
use crate::operations::FileHandle;
use crate::process::Process;

const LENGTH: u64 = 4 << 20;
const STABLE: [StableHow; 3] = [
    StableHow::Unstable,
    StableHow::DataSync,
    StableHow::FileSync,
];

/// Memory whose writes and flushes fail on demand.
struct Worn {
    ram: RamDevice,
    writes_fail: AtomicBool,
    flushes_fail: AtomicBool,
    /// How they fail.
    errno: AtomicI32,
}

impl Worn {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            ram: RamDevice::new("/dev/worn", LENGTH),
            writes_fail: AtomicBool::new(false),
            flushes_fail: AtomicBool::new(false),
            errno: AtomicI32::new(Errno::IO.raw_os_error()),
        })
    }

    fn bytes(&self, offset: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        pagewell_device::read_exact(&self.ram, offset, &mut bytes).unwrap();
        bytes
    }
}

impl Device for Worn {
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
        let fails = match request.operation() {
            Operation::Write => self.writes_fail.load(Ordering::SeqCst),
            Operation::Flush => self.flushes_fail.load(Ordering::SeqCst),
            Operation::Read => false,
        };
        if !fails {
            return self.ram.submit(request);
        }
        let error = DeviceError::Failed {
            device: self.name().to_owned(),
            offset: request.offset(),
            errno: Errno::from_raw_os_error(self.errno.load(Ordering::SeqCst)),
        };
        request.fail(0, error);
    }
}

/// An image of a device, writable by all.
fn image(device: Arc<dyn Device>) -> ImageFileSystem {
    let origin = Origin::of_memory(b"disk.img");
    ImageFileSystem::from_device(device, origin, &image_cache()).writable()
}

/// A server of an image on memory that can fail.
struct Fixture {
    device: Arc<Worn>,
    server: Server,
}

impl Fixture {
    fn new() -> Self {
        let device = Worn::new();
        let server = serve(vec![export("/", Arc::new(image(device.clone())))]);
        Self { device, server }
    }

    fn client(&self) -> (Client, FileHandle) {
        let (mut client, root) = connect(&self.server);
        let file = client.lookup(&root, b"disk.img").expect("the image");
        (client, file.handle)
    }
}

#[test]
fn the_verifier_is_the_same_in_all_replies_of_one_life() {
    let fixture = Fixture::new();
    let (mut client, file) = fixture.client();
    let first = client.commit(&file, 0, 0).unwrap().verifier;
    for stable in STABLE {
        let written = client.write(&file, 5, b"12345", stable).unwrap();
        assert_eq!((written.count, written.verifier), (5, first));
        let is_unstable = written.committed == StableHow::Unstable;
        assert_eq!(is_unstable, stable == StableHow::Unstable);
        assert_eq!(client.commit(&file, 0, 0).unwrap().verifier, first);
    }
}

#[test]
fn after_a_crash_the_verifier_differs_and_data_sent_again_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk.img");
    let content = vec![255; 1 << 20];
    std::fs::write(&path, &content).unwrap();
    let server = Process::of_image(&path);
    let (mut client, root) = server.client();
    let file = client.lookup(&root, b"disk.img").unwrap().handle;
    let stable = client.write(&file, 700_000, &[9; 5000], StableHow::DataSync);
    let committed = client.write(&file, 800_000, &[8; 5000], StableHow::Unstable);
    client.commit(&file, 800_000, 5000).unwrap();
    let pieces: Vec<Vec<u8>> = (0..8u8).map(|byte| vec![byte + 1; 10_000]).collect();
    let send = |client: &mut Client| -> Vec<[u8; 8]> {
        let offsets = (0..).step_by(10_000);
        let write = |(offset, piece): (u64, &Vec<u8>)| {
            let written = client.write(&file, offset, piece, StableHow::Unstable);
            written.unwrap().verifier
        };
        offsets.zip(&pieces).map(write).collect()
    };
    let verifiers = send(&mut client);
    let first = verifiers[0];
    assert!(verifiers.iter().all(|verifier| *verifier == first));
    assert_eq!(
        (stable.unwrap().verifier, committed.unwrap().verifier),
        (first, first)
    );
    server.kill();

    let on_disk = std::fs::read(&path).unwrap();
    assert!(
        on_disk[700_000..705_000] == [9; 5000],
        "stable means stable"
    );
    assert!(
        on_disk[800_000..805_000] == [8; 5000],
        "committed means stable"
    );
    let server = Process::of_image(&path);
    let (mut client, _) = server.client();
    let verifier = client.commit(&file, 0, 0).unwrap().verifier;
    assert_ne!(verifier, first, "the loss would go unseen");
    assert!(send(&mut client).iter().all(|again| *again == verifier));
    assert_eq!(client.commit(&file, 0, 0).unwrap().verifier, verifier);
    let read = client.read(&file, 0, 80_000).unwrap();
    assert!(read.bytes == pieces.concat());
    drop(server);
    let on_disk = std::fs::read(&path).unwrap();
    assert!(on_disk[..80_000] == pieces.concat() && on_disk.len() == content.len());
}

#[test]
fn a_failed_flush_changes_the_verifier_for_everybody() {
    let fixture = Fixture::new();
    let (mut client, file) = fixture.client();
    let (mut other, _) = fixture.client();
    let before = client
        .write(&file, 0, &[1; 8192], StableHow::Unstable)
        .unwrap();
    let of_other = other
        .write(&file, 1 << 20, &[2; 8192], StableHow::Unstable)
        .unwrap();
    // Two places, so that it takes a flush and not one write that is durable by itself.
    fixture.device.flushes_fail.store(true, Ordering::SeqCst);
    assert_eq!(client.commit(&file, 0, 0).err(), Some(Status::Io));
    fixture.device.flushes_fail.store(false, Ordering::SeqCst);
    // The other may have lost nothing, or all: its COMMIT must not seem to succeed.
    let committed = other.commit(&file, 1 << 20, 8192).unwrap();
    assert_ne!(committed.verifier, of_other.verifier);
    let again = client
        .write(&file, 0, &[1; 8192], StableHow::Unstable)
        .unwrap();
    assert_ne!(again.verifier, before.verifier);
    let committed = client.commit(&file, 0, 8192).unwrap();
    assert_eq!(committed.verifier, again.verifier);
    assert!(fixture.device.bytes(0, 8192) == [1; 8192]);
}

#[test]
fn a_failed_write_back_reaches_the_commit_and_is_made_again() {
    let fixture = Fixture::new();
    let (mut client, file) = fixture.client();
    fixture.device.writes_fail.store(true, Ordering::SeqCst);
    let written = client
        .write(&file, 100, &[7; 100_000], StableHow::Unstable)
        .unwrap();
    assert_eq!(written.committed, StableHow::Unstable);
    assert_eq!(client.commit(&file, 0, 0).err(), Some(Status::Io));
    let stable = client.write(&file, 0, &[6; 100], StableHow::FileSync);
    assert_eq!(stable.err(), Some(Status::Io));
    // Nothing is lost as long as memory holds it: it is read, and written when that works.
    let read = client.read(&file, 0, 100_100).unwrap();
    assert!(read.bytes == [vec![6; 100], vec![7; 100_000]].concat());
    fixture.device.writes_fail.store(false, Ordering::SeqCst);
    let committed = client.commit(&file, 0, 0).unwrap();
    assert_eq!(committed.verifier, written.verifier);
    assert!(fixture.device.bytes(100, 100_000) == [7; 100_000]);
}

/// The file system below the image is full: the client gets the error, the operator the place.
#[test]
fn no_space_below_is_reported_to_both() {
    let fixture = Fixture::new();
    let (mut client, file) = fixture.client();
    fixture.device.writes_fail.store(true, Ordering::SeqCst);
    for (errno, status) in [
        (Errno::NOSPC, Status::NoSpace),
        (Errno::DQUOT, Status::QuotaExceeded),
    ] {
        let raw = errno.raw_os_error();
        fixture.device.errno.store(raw, Ordering::SeqCst);
        let errors = STORAGE_ERRORS.get();
        let stable = client.write(&file, 8192, &[6; 100], StableHow::FileSync);
        assert_eq!(stable.err(), Some(status));
        assert_eq!(client.commit(&file, 0, 0).err(), Some(status));
        assert!(STORAGE_ERRORS.get() >= errors + 2, "on standard error");
    }
    fixture.device.writes_fail.store(false, Ordering::SeqCst);
    client.commit(&file, 0, 0).unwrap();
    assert!(fixture.device.bytes(8192, 100) == [6; 100]);
}

#[test]
fn a_commit_brings_its_range_to_the_device() {
    let fixture = Fixture::new();
    let (mut client, file) = fixture.client();
    for (number, (offset, count)) in [
        (0u64, 0u32),
        (1 << 20, 4096),
        (1 << 20, 0),
        ((1 << 20) - 10, 20_000),
        (0, u32::MAX),
    ]
    .into_iter()
    .enumerate()
    {
        let data = [u8::try_from(number).unwrap() + 1; 4096];
        client
            .write(&file, 1 << 20, &data, StableHow::Unstable)
            .unwrap();
        client.commit(&file, offset, count).unwrap();
        assert!(
            fixture.device.bytes(1 << 20, 4096) == data,
            "{offset} {count}"
        );
    }
    for (offset, count) in [(LENGTH, 0), (u64::MAX, u32::MAX), (LENGTH + 1, 5)] {
        client.commit(&file, offset, count).unwrap();
    }
}

#[test]
fn wcc_data_of_a_write_is_right() {
    let fixture = Fixture::new();
    let (mut client, file) = fixture.client();
    let mut last = client.getattr(&file).unwrap();
    for stable in STABLE {
        let wcc = client.write(&file, 0, b"x", stable).unwrap().file_wcc;
        let (before, after) = (wcc.before.unwrap(), wcc.after.unwrap());
        let seen = (last.size, last.modified, last.changed);
        assert_eq!((before.size, before.modified, before.changed), seen);
        assert!(after.modified > last.modified && after.size == LENGTH);
        let committed = client.commit(&file, 0, 0).unwrap().file_wcc.after;
        assert_eq!(
            committed,
            Some(after),
            "a commit changes nothing that clients see"
        );
        last = client.getattr(&file).unwrap();
        assert_eq!(last, after);
    }
}

#[test]
fn the_length_is_fixed() {
    let fixture = Fixture::new();
    let (mut client, file) = fixture.client();
    let (_, root) = connect(&fixture.server);
    for stable in STABLE {
        let cut = client.write(&file, LENGTH - 10, &[1; 100], stable).unwrap();
        assert_eq!((cut.count, cut.file_wcc.after.unwrap().size), (10, LENGTH));
        let past = client.write(&file, LENGTH, b"x", stable);
        assert_eq!(past.err(), Some(Status::NoSpace));
    }
    client
        .write(&file, 0, b"kept", StableHow::FileSync)
        .unwrap();
    for (size, expected) in [
        (0, None),
        (LENGTH, None),
        (LENGTH + 1, Some(Status::Invalid)),
        (5, Some(Status::Invalid)),
    ] {
        let wanted = SetAttributes {
            size: Some(size),
            ..SetAttributes::default()
        };
        assert_eq!(
            client.setattr(&file, wanted, None).err(),
            expected,
            "{size}"
        );
        let created = client.create(&root, b"disk.img", CreateHow::Unchecked(wanted));
        assert_eq!(created.as_ref().err(), expected.as_ref());
        if let Ok(created) = created {
            assert_eq!((&created.handle, created.attributes.size), (&file, LENGTH));
        }
    }
    let read = client.read(&file, 0, 4).unwrap();
    assert_eq!(
        (read.bytes, read.attributes.size),
        (b"kept".to_vec(), LENGTH)
    );
}

#[test]
fn what_clients_set_after_a_copy_is_taken_or_refused_as_it_should_be() {
    let fixture = Fixture::new();
    let (mut client, file) = fixture.client();
    let (_, root) = connect(&fixture.server);
    let none = SetAttributes::default();
    let touch = SetAttributes {
        accessed: SetTime::ToServerTime,
        modified: SetTime::ToServerTime,
        ..none
    };
    client.setattr(&file, touch, None).unwrap();
    let mode = client.getattr(&file).unwrap().mode;
    let same = SetAttributes {
        mode: Some(mode),
        ..none
    };
    client.setattr(&file, same, None).unwrap();
    let other = SetAttributes {
        mode: Some(0o600),
        ..none
    };
    assert_eq!(
        client.setattr(&file, other, None).err(),
        Some(Status::NotPermitted)
    );
    let new = client.create(&root, b"new", CreateHow::Unchecked(none));
    assert_eq!(new.err(), Some(Status::NotPermitted));
    assert_eq!(
        client.remove(&root, b"disk.img").err(),
        Some(Status::NotPermitted)
    );
    assert_eq!(
        client.access(&file, 0x3f).unwrap(),
        0x0d,
        "read, modify, extend"
    );
    assert_eq!(
        client.access(&root, 0x3f).unwrap(),
        0x03,
        "read and look up"
    );
}

#[test]
fn an_export_that_is_read_only_is_not_written() {
    let device = Worn::new();
    let read_only = pagewell_nfsd::Export {
        read_only: true,
        ..export("/", Arc::new(image(device.clone())))
    };
    let server = serve(vec![read_only]);
    let (mut client, root) = connect(&server);
    let file = client.lookup(&root, b"disk.img").unwrap().handle;
    let written = client.write(&file, 0, b"x", StableHow::Unstable);
    assert_eq!(written.err(), Some(Status::ReadOnly));
    assert_eq!(client.access(&file, 0x3f).unwrap(), 0x01);
}

#[test]
fn stopping_brings_everything_to_the_device_or_says_that_it_could_not() {
    let fixture = Fixture::new();
    let (mut client, file) = fixture.client();
    client
        .write(&file, 0, &[5; 9000], StableHow::Unstable)
        .unwrap();
    fixture.server.stop().unwrap();
    assert!(fixture.device.bytes(0, 9000) == [5; 9000]);
    let fixture = Fixture::new();
    let (mut client, file) = fixture.client();
    client
        .write(&file, 0, &[5; 9000], StableHow::Unstable)
        .unwrap();
    fixture.device.writes_fail.store(true, Ordering::SeqCst);
    let stopped = fixture.server.stop().unwrap_err().to_string();
    assert!(stopped.contains("/dev/worn"), "{stopped}");
}

/// Many clients with calls under way at once: every byte ends where it was sent, and readers see
/// only what some writer wrote.
#[test]
fn many_writers_and_readers_at_once() {
    const PIECE: usize = 10_000;
    let fixture = Fixture::new();
    let address = fixture.server.address();
    let (_, file) = fixture.client();
    std::thread::scope(|scope| {
        for writer in 0..4u64 {
            let file = &file;
            scope.spawn(move || {
                let mut client = Client::connect(address, User::root());
                for round in 1..30u8 {
                    // Pieces of four writers lie next to each other in every page.
                    let offset = |number: u64| (number * 4 + writer) * PIECE as u64;
                    let xids: Vec<u32> = (0..20)
                        .map(|number| {
                            let stable = STABLE[(number % 17 / 8) as usize];
                            client.start_write(file, offset(number), &[round; PIECE], stable)
                        })
                        .collect();
                    for xid in xids {
                        let answer = client.finish(xid);
                        let written = crate::operations::written(&answer, StableHow::Unstable);
                        assert_eq!(written.unwrap().count as usize, PIECE);
                    }
                    let at = offset(u64::from(round) % 20);
                    let read = client.read(file, at, PIECE as u32).unwrap();
                    assert!(read.bytes == [round; PIECE], "{writer} {round}");
                }
                client.commit(file, 0, 0).unwrap();
            });
        }
    });
    assert!(fixture.device.bytes(0, 80 * PIECE) == vec![29; 80 * PIECE]);
}
