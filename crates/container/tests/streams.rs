//! Compressed images of several writers: every place of them is read, and what is damaged is an
//! error.
#![allow(clippy::unwrap_used, reason = "for tests")]

use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pagewell_container::{Depth, Unwrapped, Wanted, unwrap};
use pagewell_device::testing::{Faulty, pattern, read};
use pagewell_device::{Device, Operation, RamDevice};

/// A volume, of which a part can be compressed.
fn volume(length: usize) -> Vec<u8> {
    let mut state = 7u64;
    let mut random = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(99);
        (state >> 56) as u8
    };
    let mut data: Vec<u8> = (0..length).map(|_| random()).collect();
    for (number, part) in data.chunks_mut(3000).enumerate() {
        if number % 2 == 0 {
            part.fill((number % 251) as u8);
        }
    }
    data[32768..32774].copy_from_slice(b"\x01CD001");
    data
}

fn opened(image: &[u8]) -> Unwrapped {
    let device = Arc::new(RamDevice::holding("x", image));
    unwrap(device, Wanted::default(), Depth::Open(&|_| {})).unwrap()
}

/// A member of gzip.
fn gzip(data: &[u8]) -> Vec<u8> {
    let mut member = b"\x1f\x8b\x08\x08\0\0\0\0\0\xffname\0".to_vec();
    member.extend(miniz_oxide::deflate::compress_to_vec(data, 1));
    let mut crc = flate2::Crc::new();
    crc.update(data);
    member.extend(crc.sum().to_le_bytes());
    member.extend((data.len() as u32).to_le_bytes());
    member
}

fn xz(data: &[u8], block_bytes: Option<u64>) -> Vec<u8> {
    let mut options = lzma_rust2::XzOptions::with_preset(0);
    options.set_block_size(block_bytes.and_then(std::num::NonZeroU64::new));
    let mut writer = lzma_rust2::XzWriter::new(Vec::new(), options).unwrap();
    writer.write_all(data).unwrap();
    writer.finish().unwrap()
}

fn zstd(data: &[u8]) -> Vec<u8> {
    let level = ruzstd::encoding::CompressionLevel::Fastest;
    ruzstd::encoding::compress_to_vec(data, level)
}

/// Frames of so many bytes each and the table of the seekable format.
fn seekable_zstd(data: &[u8], frame_bytes: usize) -> Vec<u8> {
    let mut image = Vec::new();
    let mut table = Vec::new();
    for part in data.chunks(frame_bytes) {
        let frame = zstd(part);
        table.extend((frame.len() as u32).to_le_bytes());
        table.extend((part.len() as u32).to_le_bytes());
        image.extend(frame);
    }
    let count = table.len() / 8;
    image.extend(0x184d_2a5e_u32.to_le_bytes());
    image.extend((table.len() as u32 + 9).to_le_bytes());
    image.extend(table);
    image.extend((count as u32).to_le_bytes());
    image.push(0);
    image.extend(b"\xb1\xea\x92\x8f");
    image
}

/// Each way in which these bytes can be compressed, and how it is called.
fn all(data: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
    let (front, back) = data.split_at(data.len() / 3);
    vec![
        ("gzip", gzip(data)),
        ("gzip", [gzip(front), gzip(back)].concat()),
        ("gzip", [gzip(data), vec![0; 5000]].concat()),
        ("xz, one block", xz(data, None)),
        ("xz, 3 blocks", xz(data, Some(1 << 20))),
        (
            "xz, 2 blocks",
            [xz(front, None), vec![0; 8], xz(back, None)].concat(),
        ),
        ("zstd, one frame", zstd(data)),
        ("zstd, 2 frames", [zstd(front), zstd(back)].concat()),
        ("zstd, 9 frames", seekable_zstd(data, 300_000)),
    ]
}

#[track_caller]
fn expect(device: &dyn Device, data: &[u8], words: &str) {
    assert_eq!(device.length_bytes(), data.len() as u64, "{words}");
    let last = data.len() - 1;
    for (offset, length) in [
        (0, 1),
        (last, 1),
        (data.len() / 2, 10),
        (data.len() / 3 - 5, 10),
        (131_070, 5),
        (1 << 20, 300_000),
        (5, 1 << 20),
        (0, data.len()),
    ] {
        let (outcome, buffer) = read(device, offset as u64, length);
        assert_eq!(outcome.result, Ok(()), "{words} {offset}");
        assert!(
            buffer[..] == data[offset..offset + length],
            "{words} {offset}"
        );
    }
    assert!(read(device, last as u64, 2).0.result.is_err());
}

#[test]
fn every_place_of_every_format_is_read() {
    let data = volume(2_600_000);
    for (words, image) in all(&data) {
        let found = opened(&image);
        assert_eq!(found.layers.len(), 1, "{words}");
        assert_eq!(found.layers[0].to_string(), words);
        assert!(found.troubles.is_empty(), "{words}: {:?}", found.troubles);
        expect(&*found.device, &data, words);
    }
}

#[test]
fn a_look_reads_little_and_opening_reads_all_at_most_twice() {
    let data = volume(6_000_000);
    for (words, image) in all(&data) {
        let mut below = Faulty::new("x", image.len() as u64);
        below.ram = RamDevice::holding("x", &image);
        let below = Arc::new(below);
        let read = |depth: Depth<'_>| -> usize {
            below.seen.lock().unwrap().clear();
            let found = unwrap(below.clone(), Wanted::default(), depth).unwrap();
            assert_eq!(found.layers.len(), 1, "{words}");
            let seen = below.seen.lock().unwrap();
            seen.iter().map(|(_, _, bytes, _)| bytes).sum()
        };
        let look = read(Depth::Look);
        assert!(look < 5 << 19, "{words}: {look}");
        // A frame of zstd that does not say its length: its blocks, then its contents.
        let passes = 1 + usize::from(words.starts_with("zstd"));
        let opening = read(Depth::Open(&|_| {}));
        let expected = look + passes * image.len();
        assert!(opening <= expected + (512 << 10), "{words}: {opening}");
    }
}

#[test]
fn what_is_no_image_is_left_alone() {
    let mut text = pattern(500_000);
    text[32768..32774].copy_from_slice(b"nothin");
    for image in [
        gzip(&text),
        xz(&text, None),
        zstd(&text),
        b"\x1f\x8b\x08junk".to_vec(),
        b"\xfd7zXZ\0junk and more of it".to_vec(),
        b"\x28\xb5\x2f\xfd".to_vec(),
    ] {
        let found = opened(&image);
        assert!(found.layers.is_empty());
        assert_eq!(found.device.length_bytes(), image.len() as u64);
    }
}

#[test]
fn wrappings_nest() {
    let data = volume(1_000_000 / 2048 * 2048);
    let mut raw = Vec::new();
    for sector in data.chunks(2048) {
        raw.extend([0]);
        raw.extend([255; 10]);
        raw.extend([0, 0, 2, 0, 1]);
        raw.extend(sector);
        raw.resize(raw.len().next_multiple_of(2352), 0);
    }
    // 2064 bytes behind the last multiple of 2352.
    let found = opened(&xz(&gzip(&raw), Some(100_000)));
    let words: Vec<String> = found.layers.iter().map(ToString::to_string).collect();
    assert_eq!(words.len(), 3, "{words:?}");
    assert_eq!(words[1..], ["gzip", "raw sectors of 2352 bytes, mode 1"]);
    assert!(read(&*found.device, 0, data.len()).1[..] == data);
    // Too many around each other.
    let mut image = data;
    for _ in 0..5 {
        image = gzip(&image);
    }
    assert!(opened(&image).layers.is_empty());
}

#[test]
fn what_is_cut_off_is_read_up_to_there() {
    let data = volume(400_000);
    for (words, image) in all(&data) {
        for length in (1000..image.len()).step_by(image.len() / 12) {
            let device = Arc::new(RamDevice::holding("x", &image[..length]));
            let Ok(found) = unwrap(device, Wanted::default(), Depth::Open(&|_| {})) else {
                continue;
            };
            let count = found.device.length_bytes();
            if found.layers.is_empty() {
                assert!(
                    length < 60_000 || count == length as u64,
                    "{words} {length}"
                );
                continue;
            }
            assert!(count <= data.len() as u64, "{words} {length}");
            if count < data.len() as u64 {
                let said = found.troubles.concat();
                assert!(
                    said.contains(&format!("{count} bytes")),
                    "{words} {length}: {said}"
                );
            }
            let count = usize::try_from(count).unwrap();
            let (outcome, buffer) = read(&*found.device, 0, count);
            let there = outcome.transferred_bytes;
            assert!(buffer[..there] == data[..there], "{words} {length}");
            // A frame or block that its index promises may be missing.
            assert!(
                outcome.result.is_ok() || count == data.len(),
                "{words} {length}"
            );
        }
    }
}

#[test]
fn changed_bytes_are_errors_or_are_said() {
    let data = volume(400_000);
    for (words, image) in all(&data) {
        if words.starts_with("zstd") {
            // The encoder of the tests writes no checksums.
            continue;
        }
        for place in 1..6 {
            let at = image.len() / 6 * place;
            let mut changed = image.clone();
            changed[at] ^= 0x55;
            let device = Arc::new(RamDevice::holding("x", &changed));
            let Ok(found) = unwrap(device, Wanted::default(), Depth::Open(&|_| {})) else {
                continue;
            };
            let length = usize::try_from(found.device.length_bytes()).unwrap();
            let (outcome, buffer) = read(&*found.device, 0, length);
            let is_same = outcome.result.is_ok() && buffer[..] == data[..];
            let is_said = !found.troubles.is_empty() || outcome.result.is_err();
            assert!(
                is_same || is_said || found.layers.is_empty(),
                "{words} {at}"
            );
        }
    }
}

#[test]
fn errors_below_cost_what_they_touch() {
    let data = volume(2_600_000);
    for (words, image) in all(&data) {
        let mut below = Faulty::new("x", image.len() as u64);
        below.ram = RamDevice::holding("x", &image);
        let below = Arc::new(below);
        let found = unwrap(below.clone(), Wanted::default(), Depth::Open(&|_| {})).unwrap();
        let middle = image.len() as u64 / 2;
        *below.bad.lock().unwrap() = vec![(Operation::Read, middle..middle + 1)];
        let (outcome, buffer) = read(&*found.device, 0, data.len());
        let count = outcome.transferred_bytes;
        assert!(outcome.result.is_err(), "{words}");
        assert!(buffer[..count] == data[..count], "{words}");
        let at = format!("x: at byte {middle}");
        let said = outcome.result.unwrap_err().to_string();
        assert!(said.starts_with(&at), "{words}: {said}");
        // It was the device: the next time may go well.
        below.bad.lock().unwrap().clear();
        assert_eq!(
            read(&*found.device, 0, data.len()).0.result,
            Ok(()),
            "{words}"
        );
    }
}

#[test]
fn a_bomb_is_refused_or_bounded() {
    // Zeros behind a volume: 1000 times as long as what is stored.
    let mut data = vec![0; 64 << 20];
    data[32768..32774].copy_from_slice(b"\x01CD001");
    let image = gzip(&data);
    assert!(image.len() < 400_000);
    let done = AtomicU64::new(0);
    let progress = |bytes: u64| done.store(bytes, Ordering::Relaxed);
    let device = Arc::new(RamDevice::holding("x", &image));
    let found = unwrap(device, Wanted::default(), Depth::Open(&progress)).unwrap();
    assert_eq!(found.device.length_bytes(), 64 << 20);
    assert!(done.load(Ordering::Relaxed) > image.len() as u64 / 2);
    // A table that promises more than there can be.
    let mut bomb = seekable_zstd(&volume(400_000), 100_000);
    let table = bomb.len() - 9 - 4 * 8;
    for entry in 1..4 {
        let at = table + 8 * entry + 4;
        bomb[at..at + 4].copy_from_slice(&u32::MAX.to_le_bytes());
    }
    let found = opened(&bomb);
    let (outcome, _) = read(&*found.device, 8 << 30, 10);
    assert!(outcome.result.is_err());
    assert_eq!(read(&*found.device, 0, 100_000).0.result, Ok(()));
}

/// What the tools of a distribution write, from standard input.
#[test]
fn what_the_tools_write_is_read() {
    let data = volume(5_000_000);
    for (words, command) in [
        ("gzip", &["gzip", "-9"][..]),
        ("xz, one block", &["xz", "-T1", "-1"]),
        ("xz, 5 blocks", &["xz", "-T2", "-0", "--block-size=1MiB"]),
        (
            "xz, one block",
            &["xz", "-1", "--x86", "--lzma2=preset=1", "-Csha256"],
        ),
        ("zstd, one frame", &["zstd", "-3"]),
        (
            "zstd, one frame",
            &["zstd", "-1", "--long=27", "--no-check"],
        ),
    ] {
        let Some(image) = run(command, &data) else {
            pagewell_skip::skip(format!("{} is not here", command[0]));
            continue;
        };
        let found = opened(&image);
        assert!(found.troubles.is_empty(), "{command:?}");
        assert_eq!(found.layers[0].to_string(), words, "{command:?}");
        expect(&*found.device, &data, words);
    }
}

fn run(command: &[&str], input: &[u8]) -> Option<Vec<u8>> {
    let mut child = Command::new(command[0])
        .args(&command[1..])
        .args(["-c"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .ok()?;
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    let writer = std::thread::spawn(move || stdin.write_all(&input).unwrap());
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    assert!(output.status.success(), "{command:?}");
    Some(output.stdout)
}

#[test]
fn any_bytes_are_no_panic() {
    let data = volume(40_000);
    let images: Vec<Vec<u8>> = all(&data).into_iter().map(|(_, image)| image).collect();
    bolero::check!()
        .with_iterations(200)
        .with_type::<(u8, Vec<(u16, u8)>)>()
        .for_each(|(which, changes): &(u8, Vec<(u16, u8)>)| {
            let mut image = images[usize::from(*which) % images.len()].clone();
            for (at, value) in changes {
                // The first and the last bytes hold the structure.
                let at = usize::from(*at) % image.len().min(600);
                let index = match at.is_multiple_of(2) {
                    true => at / 2,
                    false => image.len() - 1 - at / 2,
                };
                image[index] = *value;
            }
            let device = Arc::new(RamDevice::holding("x", &image));
            if let Ok(found) = unwrap(device, Wanted::default(), Depth::Open(&|_| {})) {
                let length = found.device.length_bytes().min(200_000);
                let _ = read(&*found.device, 0, usize::try_from(length).unwrap());
            }
        });
}
