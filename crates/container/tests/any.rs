//! Bytes of any kind, with the marks of each wrapping somewhere in them: no panic, no hang, and no
//! device that is longer than its bytes allow.
#![allow(clippy::unwrap_used, reason = "for tests")]

use std::sync::Arc;

use pagewell_container::{Depth, Sheet, Wanted, unwrap, unwrap_sheet};
use pagewell_device::testing::read;
use pagewell_device::{Device, RamDevice};

const SYNC: &[u8] = &[0, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 0];

/// What a wrapping is recognised by, and where.
const MARKS: [(usize, &[u8]); 17] = [
    (510, b"\x55\xaa"),
    (512, b"EFI PART"),
    (4096, b"EFI PART"),
    (0, b"ER\x02\x00"),
    (512, b"PM\0\0\0\0\0\x04"),
    (2048, b"PM\0\0\0\0\0\x04"),
    (0, SYNC),
    (16 * 2352, SYNC),
    (16 * 2448, SYNC),
    (16 * 2352 + 16, b"\x01CD001"),
    (16 * 2352 + 24, b"\x01CD001"),
    (16 * 2336 + 8, b"\x01CD001"),
    (32768 + 51200, b"\x01CD001"),
    (8, b"\x02\0\0\0\0\0\0\0\x80\0\0\0\x80\0\0\0"),
    (446 + 8, b"\x64\0\0\0\x64\0\0\0"),
    (72, b"DAOX\0\0\0\x40"),
    (0, b"CISO"),
];

#[test]
fn any_bytes_are_no_panic() {
    let sheets = [
        (
            &b"a.cue"[..],
            &b"FILE \"a\" BINARY\nTRACK 01 MODE1/2352\nINDEX 01 00:00:01"[..],
        ),
        (
            b"a.cue",
            b"FILE \"a\" BINARY\nTRACK 01 MODE2/2336\nINDEX 01 99:59:74",
        ),
        (
            b"a.gdi",
            b"3\n1 0 4 2048 a 0\n2 30 4 2048 a 32768\n3 45 4 2352 a 0",
        ),
    ];
    let sheets = sheets.map(|(name, text)| Sheet::parse(name, text).unwrap());
    bolero::check!()
        .with_iterations(1000)
        .with_type::<(u8, Vec<u8>, Vec<(u32, u8)>)>()
        .for_each(|(kind, marks, changes): &(u8, Vec<u8>, Vec<(u32, u8)>)| {
            let mut image = vec![0; 90_000 + usize::from(*kind) * 17];
            for mark in marks.iter().take(6) {
                let (at, bytes) = MARKS[usize::from(*mark) % MARKS.len()];
                image[at..at + bytes.len()].copy_from_slice(bytes);
            }
            for (at, value) in changes.iter().take(64) {
                let at = *at as usize;
                // Tables are at the beginning.
                let range = if at.is_multiple_of(2) {
                    image.len()
                } else {
                    700
                };
                image[at / 2 % range] = *value;
            }
            if *kind >= 128 {
                // Chunks of Nero, from one of the first bytes on.
                let footer = [&b"NER5\0\0\0\0\0\0\0"[..], &[*kind]].concat();
                image.extend(footer);
            }
            let device: Arc<dyn Device> = Arc::new(RamDevice::holding("x", &image));
            let wanted = Wanted {
                track: (kind % 5 == 0).then(|| usize::from(*kind % 4)),
                partition: (kind % 7 == 0).then(|| usize::from(*kind % 6)),
            };
            let depth = Depth::Open(&|_| {});
            let found = match sheets.get(usize::from(*kind) % 4) {
                Some(sheet) => unwrap_sheet(sheet, &|_| Ok(device.clone()), wanted, depth),
                None => unwrap(device, wanted, depth),
            };
            if let Ok(found) = found {
                let length = found.device.length_bytes();
                assert!(length <= image.len() as u64 * 512, "{length}");
                let _ = read(&*found.device, 0, length.min(200_000) as usize);
            }
        });
}
