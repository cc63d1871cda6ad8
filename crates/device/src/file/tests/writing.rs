//! Writes, flushes and claims.

use std::process::Command;

use pagewell_counters::names::{DEVICE_DURABLE_WRITES, DEVICE_FLUSHES};
use proptest::prelude::*;

use super::*;
use crate::testing::{flush, flush_request, write_durable};

/// Four threads, each with many writes at once to its own blocks, every third one durable, and a
/// flush after every ten.
#[test]
fn writes_at_depth_land_and_flushes_are_made() {
    for options in kinds() {
        let file = file_of(&vec![0; 4 << 20]);
        let options = FileOptions {
            queue_depth: 16,
            workers: 4,
            ..options
        };
        let (flushes, durable) = (DEVICE_FLUSHES.get(), DEVICE_DURABLE_WRITES.get());
        let device = open(file.path(), &options);
        let bytes = pattern(4 << 20);
        std::thread::scope(|scope| {
            for thread in 0..4usize {
                let (device, bytes) = (&device, &bytes);
                scope.spawn(move || {
                    let (mut writes, mut flushed) = (Vec::new(), Vec::new());
                    for index in 0..64usize {
                        let start = ((index * 37 % 64) * 4 + thread) * 16_384;
                        let mut buffer = Buffer::new(16_384, 4096);
                        buffer.copy_from_slice(&bytes[start..start + 16_384]);
                        let (mut one, done) = request(Operation::Write, start as u64, buffer);
                        if index.is_multiple_of(3) {
                            one.set_durable();
                        }
                        device.submit(one);
                        writes.push(done);
                        if index % 10 == 9 {
                            let (one, done) = flush_request();
                            device.submit(one);
                            flushed.push(done);
                        }
                    }
                    for done in writes {
                        assert_eq!(done.recv_timeout(PATIENCE).unwrap().0.result, Ok(()));
                    }
                    for done in flushed {
                        assert_eq!(done.recv_timeout(PATIENCE).unwrap().result, Ok(()));
                    }
                });
            }
        });
        assert!(std::fs::read(file.path()).unwrap() == bytes);
        assert!(DEVICE_FLUSHES.get() >= flushes + 4 * 6);
        assert!(DEVICE_DURABLE_WRITES.get() >= durable + 4 * 22);
    }
}

#[test]
fn flushes_and_durable_writes_need_no_writer_and_keep_to_the_end() {
    for options in kinds() {
        let file = file_of(&pattern(10_000));
        let only_read = FileOptions {
            writable: false,
            ..options.clone()
        };
        let flushes = || DEVICE_FLUSHES.get();
        let before = flushes();
        assert_eq!(flush(&open(file.path(), &only_read)).result, Ok(()));
        let device = open(file.path(), &options);
        assert_eq!(flush(&device).result, Ok(()));
        assert!(flushes() > before);
        let start = 8192;
        let block = device.geometry().logical_block_bytes as usize;
        let outcome = write_durable(&device, start, &vec![9; 1808_usize.next_multiple_of(block)]);
        assert_eq!(outcome.transferred_bytes, 1808);
        let mut expected = pattern(10_000);
        expected[8192..].fill(9);
        assert_eq!(std::fs::read(file.path()).unwrap(), expected);
    }
}

fn is_kept_out_but_for_reading(path: &Path, options: FileOptions) {
    let error = FileDevice::open_with(path, options.clone()).err();
    let Some(error @ Error::InUse { .. }) = error else {
        panic!("{error:?}");
    };
    let text = error.to_string();
    let shown = path.display().to_string();
    assert!(text.contains(&shown) && text.contains("in use"), "{text}");
    let reader = FileOptions {
        writable: false,
        ..options
    };
    assert_eq!(read(&open(path, &reader), 0, 4096).0.result, Ok(()));
}

#[test]
fn one_writer_at_a_time_and_any_number_of_readers() {
    let file = file_of(&pattern(8192));
    let path = file.path();
    for options in kinds() {
        let device = open(path, &options);
        // All at once: each is refused only after it has tried for a while.
        std::thread::scope(|scope| {
            for second in kinds() {
                scope.spawn(move || is_kept_out_but_for_reading(path, second));
            }
        });
        drop(device);
    }
    // Whatever a child process that is just being started still holds.
    let device = open(path, &kinds()[0]);
    let inherited = rustix::io::dup(&device.target.buffered).unwrap();
    drop(device);
    drop(open(path, &kinds()[0]));
    drop(inherited);
}

/// Writes of single blocks to both sides of where the tail begins, all at once, again and again:
/// the page cache must not bring back old neighbours.
#[test]
fn writes_beside_the_tail_are_not_undone() {
    let length = 16_384 + 3000;
    for options in kinds() {
        let file = file_of(&vec![0; length]);
        let device = open(file.path(), &options);
        let block = device.geometry().logical_block_bytes.max(512) as usize;
        let first = 8192;
        for round in 1..40u8 {
            let mut pending = Vec::new();
            for start in (first..length).step_by(block) {
                let size = if device.is_direct() {
                    block
                } else {
                    block.min(length - start)
                };
                let mut buffer = Buffer::new(size, 4096);
                buffer.fill(round);
                let (one, done) = request(Operation::Write, start as u64, buffer);
                pending.push((one, done));
            }
            if round % 2 == 0 {
                pending.reverse();
            }
            let (requests, pending): (Vec<_>, Vec<_>) = pending.into_iter().unzip();
            device.submit_many(requests);
            for done in pending {
                let outcome = done.recv_timeout(PATIENCE).unwrap().0;
                assert!(outcome.transferred_bytes > 0, "{outcome:?}");
            }
            assert_eq!(flush(&device).result, Ok(()));
            let is = std::fs::read(file.path()).unwrap();
            assert_eq!(is.len(), length);
            assert!(is[first..].iter().all(|byte| *byte == round));
        }
    }
}

/// A small file system in memory, which ends with the test.
struct Small(tempfile::TempDir);

impl Small {
    fn mount() -> Option<Self> {
        let place = tempfile::tempdir().ok()?;
        let mut mount = Command::new("mount");
        let options = ["-t", "tmpfs", "-o", "size=1m", "pagewell-test"];
        let status = mount.args(options).arg(place.path()).output().ok()?.status;
        status.success().then_some(Self(place))
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

#[test]
fn a_full_device_refuses_at_the_byte_where_it_is_full() {
    let Some(small) = Small::mount() else {
        pagewell_skip::skip("nothing can be mounted");
        return;
    };
    let path = small.0.path().join("image");
    for options in kinds() {
        std::fs::File::create(&path)
            .unwrap()
            .set_len(4 << 20)
            .unwrap();
        let device = open(&path, &options);
        // Of a long write any piece may come first and take all there is.
        assert_eq!(write(&device, 0, &[6; 4096]).result, Ok(()));
        let outcome = write(&device, 0, &vec![7; 2 << 20]);
        let name = path.display().to_string();
        let Err(Error::Failed {
            device: told,
            offset,
            errno: Errno::NOSPC,
        }) = outcome.result
        else {
            panic!("{outcome:?}");
        };
        assert_eq!((told, offset), (name, outcome.transferred_bytes as u64));
        assert!(outcome.transferred_bytes <= 1 << 20);
        // Others go on, and what is there can be written again.
        let bytes = pattern(4096);
        assert_eq!(write(&device, 0, &bytes).result, Ok(()));
        assert_eq!(read(&device, 0, 4096).1[..], bytes);
        assert_eq!(flush(&device).result, Ok(()));
        drop(device);
        std::fs::remove_file(&path).unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Files that end anywhere, writes around their ends, some of them durable: the file is what
    /// was written and as long as it was.
    #[test]
    fn a_file_is_what_was_written_and_never_longer(
        length in 1usize..40_000,
        kind in 0usize..4,
        longest in prop_oneof![Just(4096u32), Just(1 << 20)],
        writes in proptest::collection::vec((0usize..80, 1usize..40, any::<bool>()), 1..8),
    ) {
        let file = file_of(&vec![0; length]);
        let mut device = open(file.path(), &kinds()[kind]);
        device.geometry.transfer_bytes_max = longest;
        let block = device.geometry().logical_block_bytes.max(512) as usize;
        let bytes = pattern(80_000);
        let mut model = vec![0; length];
        for (number, (first, count, durable)) in writes.into_iter().enumerate() {
            // Backwards from the end.
            let start = (length - length % block).saturating_sub(first % 20 * block);
            let end = (start + count * block).min(length.next_multiple_of(block));
            let end = if device.is_direct() { end } else { end.min(length) };
            let source = &bytes[number..number + end - start];
            let there = end.min(length) - start;
            let start_byte = start as u64;
            let outcome = if durable {
                write_durable(&device, start_byte, source)
            } else {
                write(&device, start_byte, source)
            };
            prop_assert_eq!(outcome.transferred_bytes, there);
            prop_assert_eq!(outcome.result.is_ok(), there == source.len());
            model[start..start + there].copy_from_slice(&source[..there]);
            let (_, now) = read(&device, start_byte, source.len());
            prop_assert!(now[..there] == model[start..start + there]);
        }
        prop_assert_eq!(flush(&device).result, Ok(()));
        prop_assert!(std::fs::read(file.path()).unwrap() == model);
    }
}
