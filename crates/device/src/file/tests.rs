//! Both engines, direct and buffered, against the same files.

mod writing;

use std::io::Write;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::mpsc;

use pagewell_counters::names::{DEVICE_FIXED_TRANSFERS, PANICS};
use rustix::fs::{FileType, Mode, inotify};

use super::*;
use crate::testing::{PATIENCE, pattern, read, request, write};
use crate::{Buffer, Issuer, Outcome, Segment, after_burst, read_exact};

const LENGTH: usize = (1 << 20) + 12_345;

fn file_of(bytes: &[u8]) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(bytes).unwrap();
    file
}

fn kinds() -> Vec<FileOptions> {
    let mut kinds = Vec::new();
    for direct in [true, false] {
        for (engine, rings) in [(Engine::Ring, 1), (Engine::Ring, 3), (Engine::Workers, 1)] {
            kinds.push(FileOptions {
                direct,
                engine,
                rings,
                writable: true,
                ..FileOptions::default()
            });
        }
    }
    kinds
}

fn open(path: &Path, options: &FileOptions) -> FileDevice {
    FileDevice::open_with(path, options.clone()).unwrap()
}

#[test]
fn every_kind_reads_the_same_and_the_tail_is_what_is_there() {
    let bytes = pattern(LENGTH);
    let file = file_of(&bytes);
    for options in kinds() {
        let device = open(file.path(), &options);
        println!(
            "{:?} {:?} {:?}",
            device.engine(),
            options.direct,
            device.geometry()
        );
        assert_eq!(device.length_bytes(), LENGTH as u64);
        let (outcome, buffer) = read(&device, 4096, 1 << 20);
        assert_eq!(outcome.result, Ok(()));
        assert_eq!(buffer[..], bytes[4096..4096 + (1 << 20)]);
        let mut target = vec![0; 9999];
        read_exact(&device, (LENGTH - 9999) as u64, &mut target).unwrap();
        assert_eq!(target, bytes[LENGTH - 9999..]);
        if !device.is_direct() {
            continue;
        }
        let block = device.geometry().logical_block_bytes as usize;
        let start = (1 << 20) / block * block;
        let covered = LENGTH.next_multiple_of(block) - start;
        let (outcome, buffer) = read(&device, start as u64, covered);
        assert_eq!(outcome.transferred_bytes, LENGTH - start);
        assert!(matches!(outcome.result, Err(Error::PastEnd { .. })));
        assert_eq!(buffer[..LENGTH - start], bytes[start..]);
        let (outcome, _) = read(&device, LENGTH.next_multiple_of(block) as u64, block);
        assert_eq!(outcome.transferred_bytes, 0);
        assert!(matches!(outcome.result, Err(Error::PastEnd { .. })));
    }
}

#[test]
fn every_kind_writes_and_never_makes_the_file_longer() {
    for options in kinds() {
        let file = file_of(&vec![0; LENGTH]);
        let device = open(file.path(), &options);
        let block = device.geometry().logical_block_bytes as usize;
        let bytes = pattern(LENGTH.next_multiple_of(block));
        let outcome = write(&device, 0, &bytes[..1 << 20]);
        assert_eq!(outcome.result, Ok(()));
        let outcome = write(&device, 1 << 20, &bytes[1 << 20..]);
        assert_eq!(outcome.transferred_bytes, LENGTH - (1 << 20));
        assert_eq!(outcome.result.is_ok(), block == 1);
        assert_eq!(std::fs::read(file.path()).unwrap(), bytes[..LENGTH]);
        let mut target = vec![0; LENGTH];
        read_exact(&device, 0, &mut target).unwrap();
        assert_eq!(target, bytes[..LENGTH]);
    }
}

#[test]
fn writes_need_permission_and_requests_their_alignment() {
    let file = file_of(&pattern(LENGTH));
    for options in kinds() {
        let only_read = FileOptions {
            writable: false,
            ..options.clone()
        };
        let device = open(file.path(), &only_read);
        let errno_of = |outcome: Outcome| match outcome.result {
            Err(Error::Failed { errno, .. }) => errno,
            other => panic!("{other:?}"),
        };
        assert_eq!(errno_of(write(&device, 0, &[1; 4096])), Errno::BADF);
        if device.is_direct() {
            assert_eq!(errno_of(read(&device, 1, 4096).0), Errno::INVAL);
            assert_eq!(errno_of(read(&device, 0, 4097).0), Errno::INVAL);
            let mut buffer = Buffer::new(8192, 4096);
            let one = NonNull::new(&raw mut buffer[1]).unwrap();
            let (sender, receiver) = mpsc::channel();
            // SAFETY: the buffer lives until the outcome is here.
            let askew = unsafe {
                let segments = vec![Segment::new(one, 4096)];
                Request::new(
                    Operation::Read,
                    0,
                    segments,
                    Issuer::Reader,
                    move |outcome| {
                        sender.send(outcome).unwrap();
                    },
                )
            };
            device.submit(askew);
            assert_eq!(
                errno_of(receiver.recv_timeout(PATIENCE).unwrap()),
                Errno::INVAL
            );
        }
    }
    assert_eq!(std::fs::read(file.path()).unwrap(), pattern(LENGTH));
}

#[test]
fn a_file_truncated_later_is_an_error_not_zeros() {
    for options in kinds() {
        for left in [0, 4096, 5000, 512 * 1024 + 1] {
            let bytes = pattern(1 << 20);
            let file = file_of(&bytes);
            let device = open(file.path(), &options);
            file.as_file().set_len(left as u64).unwrap();
            let (outcome, buffer) = read(&device, 0, 1 << 20);
            assert!(matches!(
                outcome.result,
                Err(Error::PastEnd { offset: 0, .. })
            ));
            assert_eq!(outcome.transferred_bytes, left);
            assert_eq!(buffer[..left], bytes[..left]);
        }
    }
}

/// Four threads, each with many scattered requests at once, longer than one transfer and deeper
/// than the queue.
#[test]
fn many_threads_at_once_get_their_own_bytes() {
    let bytes = pattern(8 << 20);
    let file = file_of(&bytes);
    for options in kinds() {
        let options = FileOptions {
            queue_depth: 3,
            workers: 3,
            ..options
        };
        let device = open(file.path(), &options);
        std::thread::scope(|scope| {
            for thread in 0..4usize {
                let (device, bytes) = (&device, &bytes);
                scope.spawn(move || {
                    let mut receivers = Vec::new();
                    let mut requests = Vec::new();
                    for index in 0..40usize {
                        let length = 4096 << (index % 11);
                        let offset = (index * 7919 + thread * 104_729) * 4096;
                        let offset = offset % ((8 << 20) - length + 1);
                        let offset = offset - offset % 4096;
                        let buffer = Buffer::new(length, 4096);
                        let (one, receiver) = request(Operation::Read, offset as u64, buffer);
                        requests.push(one);
                        receivers.push((offset, length, receiver));
                    }
                    if thread.is_multiple_of(2) {
                        device.submit_many(requests);
                    } else {
                        requests.into_iter().for_each(|one| device.submit(one));
                    }
                    for (offset, length, receiver) in receivers {
                        let (outcome, buffer) = receiver.recv_timeout(PATIENCE).unwrap();
                        assert_eq!(outcome.result, Ok(()));
                        assert!(buffer[..] == bytes[offset..offset + length]);
                    }
                });
            }
        });
    }
}

#[test]
fn a_device_dropped_with_requests_in_flight_answers_all() {
    let bytes = pattern(4 << 20);
    let file = file_of(&bytes);
    for options in kinds() {
        let device = open(file.path(), &options);
        let mut receivers = Vec::new();
        for index in 0..200u64 {
            let buffer = Buffer::new(65_536, 4096);
            let (one, receiver) = request(Operation::Read, index % 64 * 65_536, buffer);
            device.submit(one);
            receivers.push(receiver);
        }
        drop(device);
        for (index, receiver) in receivers.into_iter().enumerate() {
            // Already there: nothing is waited for.
            let (outcome, buffer) = receiver.try_recv().unwrap();
            let start = index % 64 * 65_536;
            assert_eq!(outcome.result, Ok(()));
            assert!(buffer[..] == bytes[start..start + 65_536]);
        }
    }
}

/// What completions put off is done when the device is gone, and what it submits too.
#[test]
fn work_put_off_is_done_and_may_submit() {
    let bytes = pattern(1 << 20);
    for options in kinds() {
        let file = file_of(&bytes);
        let device = Arc::new(open(file.path(), &options));
        let (sender, receiver) = mpsc::channel();
        for index in 0..32u64 {
            let (own, sender) = (device.clone(), sender.clone());
            let put_off = move |_, _| {
                after_burst(move || {
                    let (again, later) = request(Operation::Read, index * 4096, aligned());
                    own.submit(again);
                    sender.send((index, later)).unwrap();
                });
            };
            let (read, issuer) = (Operation::Read, Issuer::Reader);
            device.submit(Request::owned(read, 0, aligned(), issuer, put_off));
        }
        drop((device, sender));
        let mut seen = 0;
        while let Ok((index, later)) = receiver.recv_timeout(PATIENCE) {
            let (outcome, buffer) = later.recv_timeout(PATIENCE).unwrap();
            let start = index as usize * 4096;
            assert_eq!(outcome.result, Ok(()));
            assert_eq!(buffer[..], bytes[start..start + 4096]);
            seen += 1;
        }
        assert_eq!(seen, 32);
    }
}

fn aligned() -> Buffer {
    Buffer::new(4096, 4096)
}

#[test]
fn a_completion_may_submit_drop_the_device_and_panic() {
    for options in kinds() {
        // A file for each: the device of the last round may still be closing.
        let file = file_of(&pattern(1 << 20));
        let panics = PANICS.get();
        let device = Arc::new(open(file.path(), &options));
        let own = device.clone();
        let (sender, receiver) = mpsc::channel();
        let buffer = Buffer::new(4096, 4096);
        let first = move |_, _| panic!("expected in this test");
        let second = move |_, _| {
            let (again, later) = request(Operation::Read, 8192, Buffer::new(4096, 4096));
            own.submit(again);
            // The last reference, unless the test is slower.
            drop(own);
            sender.send(later).unwrap();
        };
        device.submit(Request::owned(
            Operation::Read,
            0,
            buffer,
            Issuer::Reader,
            first,
        ));
        let buffer = Buffer::new(4096, 4096);
        device.submit(Request::owned(
            Operation::Read,
            0,
            buffer,
            Issuer::Reader,
            second,
        ));
        drop(device);
        let later = receiver.recv_timeout(PATIENCE).unwrap();
        let (outcome, buffer) = later.recv_timeout(PATIENCE).unwrap();
        assert_eq!(outcome.result, Ok(()));
        assert_eq!(buffer[..], pattern(1 << 20)[8192..12_288]);
        // Counted after the panic, on another thread.
        let begun = std::time::Instant::now();
        while PANICS.get() == panics {
            assert!(begun.elapsed() < PATIENCE);
            std::thread::yield_now();
        }
    }
}

/// The kernel cancels what an ended thread had handed in and could not begin.
#[test]
fn requests_outlive_the_thread_that_submitted_them() {
    let bytes = pattern(4 << 20);
    let file = file_of(&bytes);
    for options in kinds() {
        let device = open(file.path(), &options);
        for round in 0..8 {
            // From storage, so that buffered reads have to wait.
            let advice = rustix::fs::Advice::DontNeed;
            rustix::fs::fsync(file.as_file()).unwrap();
            rustix::fs::fadvise(file.as_file(), 0, None, advice).unwrap();
            let submit = || {
                let mut receivers = Vec::new();
                for index in 0..64u64 {
                    let offset = (index * 37 + round) % 64 * 65_536;
                    let buffer = Buffer::new(65_536, 4096);
                    let (one, receiver) = request(Operation::Read, offset, buffer);
                    device.submit(one);
                    receivers.push((offset as usize, receiver));
                }
                receivers
            };
            let receivers = std::thread::scope(|scope| scope.spawn(submit).join().unwrap());
            for (start, receiver) in receivers {
                let (outcome, buffer) = receiver.recv_timeout(PATIENCE).unwrap();
                assert_eq!(outcome.result, Ok(()));
                assert!(buffer[..] == bytes[start..start + 65_536]);
            }
        }
    }
}

#[test]
fn registered_memory_is_used_for_one_piece_and_for_many() {
    let bytes = pattern(1 << 20);
    for options in kinds() {
        let file = file_of(&bytes);
        let device = open(file.path(), &options);
        // Leaked on purpose: what is registered has to stay, also when the test fails.
        let arena = Box::leak(Box::new(Buffer::new(1 << 20, 4096)));
        let start = arena.as_segment();
        // SAFETY: never freed.
        let memory = unsafe { Memory::new(start.start(), 1 << 20, Arc::new(())) };
        device.register_memory(&memory);
        let fixed = DEVICE_FIXED_TRANSFERS.get();
        let page = |index: usize| start.split_at(index * 4096).1.split_at(4096).0;
        for (operation, offset, pages) in [
            (Operation::Read, 0u64, vec![3]),
            (Operation::Read, 4096, vec![9, 7, 200, 8]),
            (Operation::Write, 65_536, vec![9, 200]),
            (Operation::Write, 131_072, vec![7]),
        ] {
            let (sender, receiver) = mpsc::channel();
            let segments = pages.iter().map(|index| page(*index)).collect();
            // SAFETY: the memory is never freed and used by one request at a time.
            let one = unsafe {
                Request::new(
                    operation,
                    offset,
                    segments,
                    Issuer::Reader,
                    move |outcome| {
                        sender.send(outcome).unwrap();
                    },
                )
            };
            device.submit(one);
            assert_eq!(receiver.recv_timeout(PATIENCE).unwrap().result, Ok(()));
            let now = std::fs::read(file.path()).unwrap();
            for (place, index) in pages.iter().enumerate() {
                let at = offset as usize + place * 4096;
                assert_eq!(now[at..at + 4096], arena[index * 4096..][..4096]);
            }
        }
        if device.engine() == Engine::Ring {
            assert!(DEVICE_FIXED_TRANSFERS.get() > fixed);
        }
    }
}

#[test]
fn without_a_ring_there_are_workers() {
    let file = file_of(&pattern(8192));
    let device = FileDevice::open(file.path()).unwrap();
    // More than the kernel's 32,768 entries.
    assert!(Rings::start(&device.target, 1 << 20, 1).is_err());
    assert!(Rings::start(&device.target, u32::MAX, 1).is_err());
    let few = FileOptions {
        queue_depth: 0,
        workers: 0,
        ..FileOptions::default()
    };
    for engine in [Engine::Workers, Engine::Ring] {
        let options = FileOptions {
            engine,
            ..few.clone()
        };
        let device = open(file.path(), &options);
        assert_eq!(read(&device, 0, 8192).1[..], pattern(8192));
    }
}

#[test]
fn what_is_no_storage_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let pipe = directory.path().join("pipe");
    let mode = Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, FileType::Fifo, mode, 0).unwrap();
    let opened = inotify::init(inotify::CreateFlags::NONBLOCK).unwrap();
    inotify::add_watch(&opened, &pipe, inotify::WatchFlags::OPEN).unwrap();
    for (path, expected) in [
        (directory.path().join("nothing"), Errno::NOENT),
        (directory.path().to_owned(), Errno::ISDIR),
        (pipe, Errno::INVAL),
        ("/dev/null".into(), Errno::INVAL),
    ] {
        match FileDevice::open(&path) {
            Err(Error::Open { errno, .. }) => assert_eq!(errno, expected),
            _ => panic!("{} was not refused", path.display()),
        }
    }
    let opened = rustix::io::read(&opened, &mut [0; 64][..]);
    assert_eq!(
        opened,
        Err(Errno::AGAIN),
        "a writer waits at the pipe still"
    );
}

/// A loop device over a file, when the system has one to give.
#[test]
fn a_block_device_is_read_and_written() {
    let bytes = pattern(4 << 20);
    let file = file_of(&bytes);
    let mut attach = std::process::Command::new("losetup");
    let attached = attach.args(["--find", "--show"]).arg(file.path()).output();
    let Some(attached) = attached.ok().filter(|output| output.status.success()) else {
        pagewell_skip::skip("no loop device");
        return;
    };
    let path = String::from_utf8(attached.stdout)
        .unwrap()
        .trim()
        .to_owned();
    let tried = std::panic::catch_unwind(|| {
        for options in kinds() {
            let device = open(Path::new(&path), &options);
            let geometry = device.geometry();
            assert!(geometry.logical_block_bytes >= 512, "{geometry:?}");
            assert_eq!(device.length_bytes(), 4 << 20);
            assert_eq!(
                read(&device, 65_536, 1 << 20).1[..],
                bytes[65_536..][..1 << 20]
            );
            let last = read(&device, (4 << 20) - 4096, 8192).0;
            assert!(
                matches!(last.result, Err(Error::PastEnd { .. })),
                "{last:?}"
            );
            assert_eq!(write(&device, 4096, &bytes[4096..8192]).result, Ok(()));
        }
    });
    let mut detach = std::process::Command::new("losetup");
    assert!(
        detach
            .arg("--detach")
            .arg(&path)
            .status()
            .unwrap()
            .success()
    );
    tried.unwrap();
}
