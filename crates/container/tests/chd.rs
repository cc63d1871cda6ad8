//! CHD images: tracks of CDs, disks, what MAME's own tool writes, and damage.
#![allow(clippy::unwrap_used, reason = "for tests")]

use std::process::Command;
use std::sync::Arc;

use pagewell_container::{Depth, Error, Unwrapped, Wanted, unwrap};
use pagewell_device::testing::{Faulty, pattern, read};
use pagewell_device::{Device, Operation, RamDevice};

const FRAME_BYTES: usize = 2448;

fn volume() -> Vec<u8> {
    let mut data = pattern(60 * 2048);
    data[32768..32774].copy_from_slice(b"\x01CD001");
    data
}

/// A sector of mode 1 as it is on a disc, without its checks.
fn raw(data: &[u8]) -> Vec<u8> {
    let mut sector = vec![0];
    sector.extend([255; 10]);
    sector.extend([0, 0, 2, 0, 1]);
    sector.extend(data);
    sector.resize(2352, 0);
    sector
}

/// An image whose hunks are stored as they are, with these texts of tracks.
fn image(contents: &[u8], (hunk, unit): (usize, usize), tracks: &[String]) -> Vec<u8> {
    let count = contents.len().div_ceil(hunk);
    let map = 124;
    let metadata = map + 4 * count;
    let mut entries = Vec::new();
    for (number, text) in tracks.iter().enumerate() {
        let length = text.len() + 1;
        let next = match number + 1 < tracks.len() {
            true => metadata + entries.len() + 16 + length,
            false => 0,
        };
        entries.extend(b"CHT2\x01\0\0");
        entries.push(length as u8);
        entries.extend((next as u64).to_be_bytes());
        entries.extend(text.as_bytes());
        entries.push(0);
    }
    let first = (metadata + entries.len()).div_ceil(hunk);
    let mut image = b"MComprHD".to_vec();
    for number in [124u32, 5, 0, 0, 0, 0] {
        image.extend(number.to_be_bytes());
    }
    let metadata = if tracks.is_empty() { 0 } else { metadata };
    for number in [contents.len(), map, metadata] {
        image.extend((number as u64).to_be_bytes());
    }
    for number in [hunk, unit] {
        image.extend((number as u32).to_be_bytes());
    }
    image.resize(map, 0);
    for number in 0..count {
        image.extend(((first + number) as u32).to_be_bytes());
    }
    image.extend(entries);
    image.resize(first * hunk, 0);
    image.extend(contents);
    image.resize((first + count) * hunk, 0);
    image
}

fn opened(image: &[u8]) -> Unwrapped {
    let device = Arc::new(RamDevice::holding("x.chd", image));
    unwrap(device, Wanted::default(), Depth::Open(&|_| {})).unwrap()
}

#[track_caller]
fn expect(found: &Unwrapped, data: &[u8], words: &str) {
    assert_eq!(found.layers[0].to_string(), words);
    assert!(found.device.length_bytes() >= data.len() as u64);
    for (offset, length) in [(0, data.len()), (2047, 2), (100_000, 5000)] {
        let (outcome, buffer) = read(&*found.device, offset as u64, length);
        assert_eq!(outcome.result, Ok(()));
        assert!(buffer[..] == data[offset..offset + length], "{words}");
    }
}

/// A CD with music first, and the data track of this type.
fn disc(kind: &str, pregap: usize) -> Vec<u8> {
    let data = volume();
    let mut frames = vec![0x55; 6 * FRAME_BYTES];
    // Tracks begin at multiples of four.
    frames.resize(8 * FRAME_BYTES, 0);
    frames.resize((8 + pregap) * FRAME_BYTES, 0);
    for sector in data.chunks(2048) {
        let mut frame = match kind {
            "MODE1" => sector.to_vec(),
            "MODE2" => [&[0, 0, 8, 0, 0, 0, 8, 0], sector].concat(),
            _ => raw(sector),
        };
        frame.resize(FRAME_BYTES, 0xee);
        frames.extend(frame);
    }
    let count = pregap + data.len() / 2048;
    let tracks = [
        "TRACK:1 TYPE:AUDIO SUBTYPE:NONE FRAMES:6 PREGAP:0 PGTYPE:MODE1".to_owned(),
        format!("TRACK:2 TYPE:{kind} SUBTYPE:NONE FRAMES:{count} PREGAP:{pregap} PGTYPE:V{kind}"),
    ];
    image(&frames, (8 * FRAME_BYTES, FRAME_BYTES), &tracks)
}

#[test]
fn the_data_track_of_a_disc_is_found() {
    for (kind, pregap, sectors) in [
        ("MODE1", 0, "sectors of 2448 bytes"),
        ("MODE1_RAW", 0, "raw sectors of 2448 bytes, mode 1"),
        ("MODE1_RAW", 150, "raw sectors of 2448 bytes, mode 1"),
        ("MODE2", 0, "raw sectors of 2448 bytes, mode 2 form 1"),
    ] {
        let found = opened(&disc(kind, pregap));
        let words = format!("CHD, hunks of 19584 bytes, track 2, {sectors}");
        expect(&found, &volume(), &words);
    }
}

#[test]
fn gaps_that_are_not_stored_move_later_tracks() {
    let (first, second) = (volume(), vec![0x77; 20 * 2048]);
    let frame = |sector: &[u8]| {
        let mut frame = sector.to_vec();
        frame.resize(FRAME_BYTES, 0xee);
        frame
    };
    let sectors = first.chunks(2048).chain(second.chunks(2048));
    let frames: Vec<u8> = sectors.flat_map(frame).collect();
    let tracks = [
        "TRACK:1 TYPE:MODE1 SUBTYPE:NONE FRAMES:60 PREGAP:0 PGTYPE:MODE1 PGSUB:NONE POSTGAP:10",
        "TRACK:2 TYPE:MODE1 SUBTYPE:NONE FRAMES:20 PREGAP:5 PGTYPE:MODE1 PGSUB:NONE POSTGAP:0",
    ];
    let tracks = tracks.map(str::to_owned);
    let found = opened(&image(&frames, (8 * FRAME_BYTES, FRAME_BYTES), &tracks));
    assert_eq!(found.device.length_bytes(), 95 * 2048);
    assert!(read(&*found.device, 60 * 2048, 15 * 2048).0.result.is_err());
    assert!(read(&*found.device, 75 * 2048, 20 * 2048).1[..] == second);
}

#[test]
fn a_dvd_is_its_bytes() {
    let data = volume();
    let found = opened(&image(&data, (4096, 2048), &[]));
    expect(&found, &data, "CHD, hunks of 4096 bytes");
    let music = vec!["TRACK:1 TYPE:AUDIO SUBTYPE:NONE FRAMES:6 PREGAP:0".to_owned()];
    let only_music = image(
        &vec![9; 8 * FRAME_BYTES],
        (8 * FRAME_BYTES, FRAME_BYTES),
        &music,
    );
    assert!(opened(&only_music).layers.is_empty());
}

/// Without its table an image would be read as its sectors look.
#[test]
fn a_table_that_cannot_be_read_is_an_error() {
    let image = disc("MODE1_RAW", 0);
    let text = image.windows(8).position(|it| it == b"TRACK:1 ");
    let at = text.unwrap() as u64;
    let mut below = Faulty::new("x.chd", image.len() as u64);
    below.ram = RamDevice::holding("x.chd", &image);
    *below.bad.lock().unwrap() = vec![(Operation::Read, at..at + 1)];
    let found = unwrap(Arc::new(below), Wanted::default(), Depth::Open(&|_| {}));
    assert!(matches!(found.err(), Some(Error::Device(_))));
}

#[test]
fn what_claims_too_much_or_is_cut_off_is_refused_or_partly_read() {
    let good = disc("MODE1_RAW", 0);
    let refused = |image: &[u8]| {
        let device: Arc<dyn Device> = Arc::new(RamDevice::holding("x", image));
        let found = unwrap(device, Wanted::default(), Depth::Open(&|_| {}));
        found.err().map(|error| error.to_string())
    };
    let mut bomb = good.clone();
    bomb[32..40].copy_from_slice(&u64::MAX.to_be_bytes());
    assert_eq!(
        refused(&bomb).unwrap(),
        "x: a CHD image whose header is damaged"
    );
    let mut old = good.clone();
    old[15] = 3;
    assert_eq!(
        refused(&old).unwrap(),
        "x: a CHD image of version 3, which is not read"
    );
    let data = volume();
    for length in (0..good.len()).step_by(1000) {
        let device: Arc<dyn Device> = Arc::new(RamDevice::holding("x", &good[..length]));
        let Ok(found) = unwrap(device, Wanted::default(), Depth::Open(&|_| {})) else {
            continue;
        };
        if !found.layers.is_empty() {
            let (outcome, buffer) = read(&*found.device, 0, data.len());
            let count = outcome.transferred_bytes;
            assert!(buffer[..count] == data[..count] && outcome.result.is_err());
        }
    }
}

#[test]
fn what_chdman_writes_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let data = volume();
    let bin: Vec<u8> = data.chunks(2048).flat_map(raw).collect();
    let at = |name: &str| folder.path().join(name);
    std::fs::write(at("x.bin"), [bin, vec![0x33; 2352 * 100]].concat()).unwrap();
    let cue = "FILE \"x.bin\" BINARY\nTRACK 01 MODE1/2352\nINDEX 01 00:00:00\nTRACK 02 AUDIO\n\
               INDEX 01 00:00:60\n";
    std::fs::write(at("x.cue"), cue).unwrap();
    for codec in ["cdzl", "cdlz", "cdfl", "none"] {
        let arguments = ["createcd", "-f", "-c", codec, "-i", "x.cue", "-o", "x.chd"];
        let mut command = Command::new("chdman");
        let Ok(output) = command.current_dir(folder.path()).args(arguments).output() else {
            return pagewell_skip::skip("chdman is not here");
        };
        assert!(output.status.success(), "{output:?}");
        let found = opened(&std::fs::read(at("x.chd")).unwrap());
        let words = "CHD, hunks of 19584 bytes, track 1, raw sectors of 2448 bytes, mode 1";
        expect(&found, &data, words);
        assert_eq!(
            found.device.length_bytes(),
            data.len() as u64,
            "without music"
        );
    }
}

#[test]
fn any_bytes_are_no_panic() {
    let good = disc("MODE1_RAW", 0);
    bolero::check!()
        .with_iterations(300)
        .with_type::<Vec<(u16, u8)>>()
        .for_each(|changes: &Vec<(u16, u8)>| {
            let mut image = good.clone();
            for (at, value) in changes {
                let at = usize::from(*at) % 400;
                image[at] = *value;
            }
            let device = Arc::new(RamDevice::holding("x", &image));
            if let Ok(found) = unwrap(device, Wanted::default(), Depth::Open(&|_| {})) {
                let length = found.device.length_bytes().min(100_000);
                let _ = read(&*found.device, 0, usize::try_from(length).unwrap());
            }
        });
}
