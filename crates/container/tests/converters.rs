//! Images of tracks beside what the converters of a distribution make of them: the same bytes.
#![allow(clippy::unwrap_used, reason = "for tests")]

mod support;

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use pagewell_container::{Depth, Sheet, Unwrapped, Wanted, unwrap, unwrap_sheet};
use pagewell_device::testing::{pattern, read};
use pagewell_device::{Device, RamDevice};
use support::ROOT;

const SECTORS: usize = 333;
/// Where the session of data begins on a disc of music.
const SESSION_START: u32 = 45_150;
const MUSIC_SECTORS: usize = 300;

/// A volume with its root at sector 20, which says that it is this one.
fn volume(root: u32) -> Vec<u8> {
    let mut data = support::volume(root, SECTORS);
    data[32768 + 80..][..4].copy_from_slice(&333u32.to_le_bytes());
    data[32768 + 84..][..4].copy_from_slice(&333u32.to_be_bytes());
    data
}

fn two_digits(number: usize) -> u8 {
    u8::try_from(number / 10 % 10 * 16 + number % 10).unwrap()
}

/// Whole sectors of a track that begins at `first` of its disc.
fn raw(data: &[u8], first: usize, mode: u8) -> Vec<u8> {
    let mut sectors = Vec::new();
    for (number, data) in data.chunks(2048).enumerate() {
        let frame = first + number + 150;
        let mut sector = vec![0];
        sector.extend([255; 10]);
        let time = [frame / 4500, frame / 75 % 60, frame % 75].map(two_digits);
        sector.extend([0, time[0], time[1], time[2], mode]);
        if mode == 2 {
            sector.extend([0, 0, 8, 0, 0, 0, 8, 0]);
        }
        sector.extend(data);
        sector.resize(2352, 0xaa);
        sectors.extend(sector);
    }
    sectors
}

/// A chunk of Nero.
fn chunk(name: &[u8; 4], contents: &[u8]) -> Vec<u8> {
    let length = u32::try_from(contents.len()).unwrap();
    [&name[..], &length.to_be_bytes(), contents].concat()
}

/// An image of Nero with one track behind its pregap.
fn nero(track: &[u8], sector_bytes: u16, mode: u16) -> Vec<u8> {
    let pregap = vec![0; 150 * usize::from(sector_bytes)];
    let end = pregap.len() + track.len();
    let mut table = 64u32.to_le_bytes().to_vec();
    table.resize(20, 0);
    table.extend([1, 1]);
    table.extend([0; 12]);
    for number in [sector_bytes, mode, 1] {
        table.extend(number.to_be_bytes());
    }
    for number in [0, pregap.len(), end] {
        table.extend((number as u64).to_be_bytes());
    }
    let sectors = u32::try_from(track.len() / usize::from(sector_bytes)).unwrap();
    let mut places = Vec::new();
    for (track, index, sector) in [(0, 0, -150i32), (1, 0, -150), (1, 1, 0)] {
        places.extend([0x41, track, index, 0]);
        places.extend(sector.to_be_bytes());
    }
    places.extend([0x41, 0xaa, 1, 0]);
    places.extend(sectors.to_be_bytes());
    let footer = [&b"NER5"[..], &(end as u64).to_be_bytes()].concat();
    let chunks = [
        chunk(b"CUEX", &places),
        chunk(b"DAOX", &table),
        chunk(b"SINF", &1u32.to_be_bytes()),
        chunk(b"END!", b""),
        footer,
    ];
    [pregap, track.to_vec(), chunks.concat()].concat()
}

/// What we show of an image, with the sheet of this name and text.
fn shown(image: &[u8], sheet: Option<(&str, &[u8])>) -> Unwrapped {
    let device: Arc<dyn Device> = Arc::new(RamDevice::holding("image", image));
    let (wanted, depth) = (Wanted::default(), Depth::Open(&|_| {}));
    let found = match sheet {
        Some((name, text)) => {
            let sheet = Sheet::parse(name.as_bytes(), text).unwrap();
            unwrap_sheet(&sheet, &|_| Ok(device.clone()), wanted, depth)
        }
        None => unwrap(device, wanted, depth),
    };
    found.unwrap()
}

#[track_caller]
fn expect(found: &Unwrapped, start: u64, data: &[u8]) {
    let length = found.device.length_bytes();
    assert_eq!(length, start + data.len() as u64, "{:?}", found.layers);
    let (outcome, bytes) = read(&*found.device, start, data.len());
    assert_eq!(outcome.result, Ok(()));
    assert!(bytes[..] == *data, "{:?}", found.layers);
}

/// Runs a program; whether it is there.
fn tool(directory: &Path, words: &[&str]) -> bool {
    let made = Command::new(words[0])
        .args(&words[1..])
        .current_dir(directory)
        .stdin(Stdio::null())
        .output();
    match made {
        Ok(output) => assert!(output.status.success(), "{words:?}: {output:?}"),
        Err(error) => {
            pagewell_skip::skip(format_args!("{}: {error}", words[0]));
            return false;
        }
    }
    true
}

const CUE_DATA_FIRST: &[u8] = b"FILE \"mixed.bin\" BINARY\n  TRACK 01 MODE1/2352\n    INDEX 01 \
    00:00:00\n  TRACK 02 AUDIO\n    INDEX 00 00:04:33\n    INDEX 01 00:06:33\n";
const CUE_MUSIC_FIRST: &[u8] = b"FILE \"extra.bin\" BINARY\n  TRACK 01 AUDIO\n    INDEX 01 \
    00:00:00\nREM SESSION 02\n  TRACK 02 MODE2/2352\n    INDEX 01 00:04:00\n";

#[test]
fn tracks_are_those_that_converters_extract() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let made = |name: &str| std::fs::read(at(name)).unwrap();
    let run = |words: &[&str]| tool(directory.path(), words);
    let data = volume(ROOT as u32);
    let music = pattern(MUSIC_SECTORS * 2352);

    let mixed = [raw(&data, 0, 1), music.clone()].concat();
    std::fs::write(at("mixed.bin"), &mixed).unwrap();
    std::fs::write(at("mixed.cue"), CUE_DATA_FIRST).unwrap();
    if run(&["bchunk", "mixed.bin", "mixed.cue", "mixed"]) {
        expect(
            &shown(&mixed, Some(("x.cue", CUE_DATA_FIRST))),
            0,
            &made("mixed01.iso"),
        );
    }

    let track = raw(&data, 0, 1);
    std::fs::write(at("x.img"), &track).unwrap();
    if run(&["ccd2iso", "x.img", "ccd.iso"]) {
        let sheet: &[u8] = b"[CloneCD]\r\n[TRACK 1]\r\nMODE=1\r\nINDEX 1=0\r\n";
        expect(&shown(&track, Some(("x.ccd", sheet))), 0, &made("ccd.iso"));
    }
    if run(&["mdf2iso", "x.img", "mdf.iso"]) {
        expect(&shown(&track, None), 0, &made("mdf.iso"));
    }
    let form_1 = |data: &[u8]| [&[0, 0, 8, 0, 0, 0, 8, 0], data, &[0xaa; 280]].concat();
    let headless: Vec<u8> = data.chunks(2048).flat_map(form_1).collect();
    let with_subchannels: Vec<u8> = track
        .chunks(2352)
        .flat_map(|sector| [sector, &[0; 96]].concat())
        .collect();
    for (name, image) in [
        ("cooked.nrg", nero(&data, 2048, 0)),
        ("headless.nrg", nero(&headless, 2336, 0x300)),
        ("raw.nrg", nero(&track, 2352, 0x500)),
        ("subchannels.mdf", with_subchannels),
    ] {
        std::fs::write(at(name), &image).unwrap();
        if run(&["iat", name, "iat.iso"]) {
            expect(&shown(&image, None), 0, &made("iat.iso"));
        }
    }
}

#[test]
fn a_session_behind_music_is_the_track_that_a_converter_extracts() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let start = SESSION_START as usize;
    let data = volume(SESSION_START + ROOT as u32);
    let music = pattern(MUSIC_SECTORS * 2352);
    let extra = [music, raw(&data, start, 2)].concat();
    std::fs::write(at("extra.bin"), &extra).unwrap();
    std::fs::write(at("extra.cue"), CUE_MUSIC_FIRST).unwrap();
    if !tool(
        directory.path(),
        &["bchunk", "extra.bin", "extra.cue", "extra"],
    ) {
        return;
    }
    let track = std::fs::read(at("extra02.iso")).unwrap();
    let start = start as u64 * 2048;
    // With its sheet, without one, and the track alone.
    expect(
        &shown(&extra, Some(("x.cue", CUE_MUSIC_FIRST))),
        start,
        &track,
    );
    expect(&shown(&extra, None), start, &track);
    expect(&shown(&track, None), start, &track);
}

/// What these programs make of an image is read, too.
#[test]
fn sheets_and_images_of_converters_are_read() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let data = volume(ROOT as u32);
    let mixed = [raw(&data, 0, 1), pattern(MUSIC_SECTORS * 2352)].concat();
    std::fs::write(at("mixed.bin"), &mixed).unwrap();
    std::fs::write(at("mixed.cue"), CUE_DATA_FIRST).unwrap();
    if tool(
        directory.path(),
        &[
            "cueconvert",
            "-i",
            "cue",
            "-o",
            "toc",
            "mixed.cue",
            "mixed.toc",
        ],
    ) {
        let sheet = std::fs::read(at("mixed.toc")).unwrap();
        expect(&shown(&mixed, Some(("mixed.toc", &sheet))), 0, &data);
    }
    std::fs::write(at("x.nrg"), nero(&data, 2048, 0)).unwrap();
    if tool(
        directory.path(),
        &["chdman", "createcd", "-i", "x.nrg", "-o", "x.chd"],
    ) {
        // It fills tracks up to four sectors.
        let found = shown(&std::fs::read(at("x.chd")).unwrap(), None);
        assert!(read(&*found.device, 0, data.len()).1[..] == data);
    }
}
