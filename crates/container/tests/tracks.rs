//! Images with several tracks of data: which one is read, what of the others belongs to it, and
//! sheets that are wrong.
#![allow(clippy::unwrap_used, reason = "for tests")]

mod support;

use std::sync::Arc;

use pagewell_container::{Depth, Sheet, Unwrapped, Wanted, unwrap_sheet};
use pagewell_device::testing::{Faulty, pattern, read};
use pagewell_device::{Device, Operation, RamDevice};
use support::{ROOT, SECTOR};

/// Where a second session begins whose first has 300 sectors.
const SECOND: usize = 300 + 11_400;

/// A volume whose first sector is `first` of its disc, with this many sectors.
fn volume(first: usize, sectors: usize) -> Vec<u8> {
    let mut data = support::volume(u32::try_from(first + ROOT).unwrap(), sectors);
    // Those of two volumes differ behind their roots.
    data[(ROOT + 1) * SECTOR..].rotate_left(first % 1000);
    data
}

/// Whole sectors of mode 1.
fn raw(data: &[u8]) -> Vec<u8> {
    let sector = |data: &[u8]| {
        let mut sector = vec![0];
        sector.extend([255; 10]);
        sector.extend([0, 0, 2, 0, 1]);
        sector.extend(data);
        sector.resize(2352, 0xaa);
        sector
    };
    data.chunks(SECTOR).flat_map(sector).collect()
}

type Files<'a> = &'a [(&'a str, &'a [u8])];

fn opened(
    (name, text): (&str, &str),
    files: Files<'_>,
    track: Option<usize>,
) -> Result<Unwrapped, String> {
    let sheet = Sheet::parse(name.as_bytes(), text.as_bytes()).map_err(str::to_owned)?;
    let open = |name: &[u8]| -> Result<Arc<dyn Device>, String> {
        let file = files.iter().find(|(file, _)| file.as_bytes() == name);
        let (name, bytes) = file.ok_or("No such file")?;
        Ok(Arc::new(RamDevice::holding(name, bytes)))
    };
    let wanted = Wanted {
        track,
        ..Wanted::default()
    };
    let found = unwrap_sheet(&sheet, &open, wanted, Depth::Open(&|_| {}));
    found.map_err(|error| error.to_string())
}

/// Sectors are those of `data` from `from` on.
#[track_caller]
fn expect(found: &Unwrapped, sector: usize, data: &[u8], from: usize, count: usize) {
    let (outcome, bytes) = read(&*found.device, (sector * SECTOR) as u64, count * SECTOR);
    assert_eq!(outcome.result, Ok(()), "{:?}", found.layers);
    assert!(bytes[..] == data[from * SECTOR..][..count * SECTOR]);
}

#[track_caller]
fn expect_hole(found: &Unwrapped, sector: usize) {
    let (outcome, _) = read(&*found.device, (sector * SECTOR) as u64, SECTOR);
    assert!(
        outcome.result.is_err() && outcome.transferred_bytes == 0,
        "{sector}"
    );
}

fn words(found: &Unwrapped) -> Vec<String> {
    found.layers.iter().map(ToString::to_string).collect()
}

/// Two sessions of data with music behind the first, each as a sheet writes it.
fn sessions() -> [(&'static str, &'static str); 3] {
    [
        (
            "x.cue",
            "REM SESSION 01\nFILE \"1.bin\" BINARY\nTRACK 01 MODE1/2352\nINDEX 01 00:00:00\n\
             FILE \"2.bin\" BINARY\nTRACK 02 AUDIO\nINDEX 01 00:00:00\nREM SESSION 02\n\
             FILE \"3.bin\" BINARY\nTRACK 03 MODE1/2352\nINDEX 01 00:00:00\n",
        ),
        // Nothing says where the second one begins, but its volume.
        (
            "x.cue",
            "FILE \"1.bin\" BINARY\nTRACK 01 MODE1/2352\nINDEX 01 00:00:00\nFILE \"2.mp3\" MP3\n\
             TRACK 02 AUDIO\nINDEX 01 00:00:00\nFILE \"3.bin\" BINARY\nTRACK 03 MODE1/2352\n\
             INDEX 01 00:00:00\n",
        ),
        (
            "x.ccd",
            "[Entry 0]\nSession=1\nPoint=0xa2\nPLBA=300\n[Entry 1]\nSession=1\nPoint=0x01\n\
             PLBA=0\n[Entry 2]\nSession=1\nPoint=0x02\nPLBA=200\n[Entry 3]\nSession=2\n\
             Point=0x03\nPLBA=11700\n[TRACK 1]\nMODE=1\nINDEX 1=0\n[TRACK 2]\nMODE=0\n\
             INDEX 1=200\n[TRACK 3]\nMODE=1\nINDEX 1=0\n",
        ),
    ]
}

#[test]
fn a_later_session_has_what_earlier_ones_hold() {
    let (first, second) = (volume(0, 200), volume(SECOND, 100));
    let music = vec![7; 100 * 2352];
    let tracks = [raw(&first), music.clone(), raw(&second)];
    let image = tracks.concat();
    let files: Files<'_> = &[
        ("1.bin", &tracks[0]),
        ("2.bin", &tracks[1]),
        ("3.bin", &tracks[2]),
        ("x.img", &image),
    ];
    for sheet in sessions() {
        let found = opened(sheet, files, Some(3)).unwrap();
        let start = format!("from sector {SECOND} of its disc on, raw sectors of 2352 bytes");
        assert!(words(&found)[0].contains(", track 3 (other tracks with a disc: 1)"));
        assert!(words(&found)[0].contains(&start), "{:?}", found.layers);
        assert!(found.troubles.is_empty(), "{:?}", found.troubles);
        assert_eq!(
            found.device.length_bytes(),
            ((SECOND + 100) * SECTOR) as u64
        );
        expect(&found, 0, &second, 0, 18);
        expect(&found, 18, &first, 18, 182);
        expect(&found, SECOND, &second, 0, 100);
        for hole in [200, 250, 299, 5000, SECOND - 1] {
            expect_hole(&found, hole);
        }
        // By itself the first is read, and the second is where it is on the disc.
        let found = opened(sheet, files, None).unwrap();
        expect(&found, 0, &first, 0, 200);
        expect(&found, SECOND, &second, 0, 100);
        expect_hole(&found, 200);
        assert_eq!(found.troubles, ["has another disc, which track=3 shows"]);
        assert_eq!(
            words(&opened(sheet, files, Some(1)).unwrap()),
            words(&found)
        );
    }
}

#[test]
fn a_track_that_needs_no_others_is_shown_alone() {
    let (first, second) = (volume(0, 100), volume(0, 60));
    let tracks = [raw(&first), raw(&second)];
    let cue = "FILE \"1.bin\" BINARY\nTRACK 01 MODE1/2352\nINDEX 01 00:00:00\n\
               FILE \"2.bin\" BINARY\nTRACK 02 MODE1/2352\nINDEX 01 00:00:00\n";
    let files: Files<'_> = &[("1.bin", &tracks[0]), ("2.bin", &tracks[1])];
    let found = opened(("x.cue", cue), files, Some(2)).unwrap();
    assert_eq!(found.device.length_bytes(), 60 * 2048);
    expect(&found, 0, &second, 0, 60);
    let found = opened(("x.cue", cue), files, None).unwrap();
    assert_eq!(found.device.length_bytes(), 160 * 2048);
    expect(&found, 100, &second, 0, 60);
}

const GDI: &str = "5\n1 0 4 2352 track01.bin 0\n2 450 0 2352 track02.raw 0\n\
                   3 45000 4 2352 \"track 03.bin\" 0\n4 45200 0 2352 track04.raw 0\n\
                   5 45300 4 2048 track05.iso 4096\n";

#[test]
fn the_outer_area_of_a_gd_rom_is_read() {
    let (label, game) = (volume(0, 40), volume(45_000, 150));
    let files_data = pattern(50 * SECTOR);
    let last = [vec![1; 4096], files_data.clone()].concat();
    let (one, three) = (raw(&label), raw(&game));
    // Files of music are not looked at.
    let files: Files<'_> = &[
        ("track01.bin", &one),
        ("track 03.bin", &three),
        ("track05.iso", &last),
    ];
    let found = opened(("x.gdi", GDI), files, None).unwrap();
    let said = "GD-ROM sheet, track 3 (other tracks with a disc: 1) from sector 45000 of its disc \
                on, raw sectors of 2352 bytes, mode 1";
    assert_eq!(words(&found), [said]);
    assert_eq!(found.troubles, ["has another disc, which track=1 shows"]);
    assert_eq!(found.device.length_bytes(), 45_350 * 2048);
    expect(&found, 45_000, &game, 0, 150);
    expect(&found, 45_300, &files_data, 0, 50);
    expect(&found, 16, &game, 16, 2);
    expect(&found, 20, &label, 20, 20);
    for hole in [40, 44_999, 45_150, 45_299] {
        expect_hole(&found, hole);
    }
    let found = opened(("x.gdi", GDI), files, Some(1)).unwrap();
    expect(&found, 0, &label, 0, 40);
    // The same with a cue sheet, as most are kept.
    let cue = "REM SINGLE-DENSITY AREA\nFILE \"track01.bin\" BINARY\nTRACK 01 MODE1/2352\n\
               INDEX 01 00:00:00\nREM HIGH-DENSITY AREA\nFILE \"track 03.bin\" BINARY\n\
               TRACK 03 MODE1/2352\nINDEX 01 00:00:00\n";
    let found = opened(("x.cue", cue), files, None).unwrap();
    assert!(words(&found)[0].contains("track 3"));
    expect(&found, 45_000, &game, 0, 150);
}

#[test]
fn tracks_that_are_not_there_are_errors_that_name_those_that_are() {
    let (one, three) = (raw(&volume(0, 40)), raw(&volume(45_000, 150)));
    let with_last: Files<'_> = &[
        ("track01.bin", &one),
        ("track 03.bin", &three),
        ("track05.iso", &[1; 500_000]),
    ];
    let files = &with_last[..2];
    let error = opened(("x.gdi", GDI), with_last, Some(5)).err().unwrap();
    let part = "a disc whose track 5 has no file system (tracks with one: 1, 3)";
    assert!(error.contains(part), "{error}");
    let error = |track| opened(("x.gdi", GDI), files, Some(track)).err().unwrap();
    let there = "(tracks of data: 1, 3, 5)";
    for number in [0, 6, usize::MAX] {
        let part = format!("a disc without a track {number} {there}");
        assert!(error(number).contains(&part), "{}", error(number));
    }
    let part = format!("a disc whose track 2 is none of data {there}");
    assert!(error(2).contains(&part), "{}", error(2));
    let part = "a disc that has its track 5 in a file that cannot be opened: No such file";
    assert!(error(5).contains(part), "{}", error(5));
    // What can be opened is, and the rest is said.
    let found = opened(("x.gdi", GDI), files, None).unwrap();
    let said = "has its track 5 in a file that cannot be opened: No such file";
    assert_eq!(found.troubles[0], said);
    expect_hole(&found, 45_300);
    let error = opened(("x.gdi", GDI), &[], None).err().unwrap();
    assert!(
        error.contains("whose file cannot be opened: No such file"),
        "{error}"
    );
}

/// The descriptors of a track cannot be read.
#[test]
fn a_track_that_cannot_be_read_costs_itself() {
    let disc = [raw(&volume(0, 40)), raw(&volume(40, 40))].concat();
    let cue = "FILE \"1.bin\" BINARY\nTRACK 01 MODE1/2352\nINDEX 01 00:00:00\n\
               TRACK 02 MODE1/2352\nINDEX 01 00:00:40\n";
    let sheet = Sheet::parse(b"x.cue", cue.as_bytes()).unwrap();
    let opened = |track| {
        let mut file = Faulty::new("1.bin", disc.len() as u64);
        file.ram = RamDevice::holding("1.bin", &disc);
        let at = 56 * 2352;
        *file.bad.lock().unwrap() = vec![(Operation::Read, at..at + 1)];
        let file: Arc<dyn Device> = Arc::new(file);
        let wanted = Wanted {
            track,
            ..Wanted::default()
        };
        unwrap_sheet(
            &sheet,
            &|_: &[u8]| Ok(file.clone()),
            wanted,
            Depth::Open(&|_| {}),
        )
    };
    let found = opened(None).unwrap();
    expect(&found, 0, &volume(0, 40), 0, 40);
    let [trouble] = &found.troubles[..] else {
        panic!("{:?}", found.troubles);
    };
    assert!(trouble.starts_with("has its track 2 in "), "{trouble}");
    assert!(opened(Some(1)).is_ok() && opened(Some(2)).is_err());
}

#[test]
fn sheets_that_lie_cost_what_they_lie_about() {
    let (first, second) = (volume(0, 100), volume(50, 100));
    let (one, two) = (raw(&first), raw(&second));
    let files: Files<'_> = &[("1.bin", &one), ("2.bin", &two)];
    // Overlapping: the one that is read counts.
    let gdi = "2\n1 0 4 2352 1.bin 0\n2 20 4 2352 2.bin 0\n";
    let found = opened(("x.gdi", gdi), files, Some(2)).unwrap();
    expect(&found, 50, &second, 0, 100);
    expect(&found, 18, &first, 18, 32);
    let found = opened(("x.gdi", gdi), files, Some(1)).unwrap();
    expect(&found, 0, &first, 0, 100);
    expect(&found, 100, &second, 50, 50);
    for (sector, offset) in [
        (u64::from(u32::MAX), 0),
        (1 << 27, 0),
        (20, u64::MAX),
        (20, u64::MAX - 2351),
        (20, 235_200),
    ] {
        let gdi = format!("2\n1 0 4 2352 1.bin 0\n2 {sector} 4 2352 2.bin {offset}\n");
        let found = opened(("x.gdi", &gdi), files, None).unwrap();
        expect(&found, 0, &first, 0, 100);
        assert!(found.device.length_bytes() <= (1 << 27) * 2048 + 100 * 2048);
        let _ = opened(("x.gdi", &gdi), files, Some(2));
    }
    // A track that has itself for its file, and names that lead elsewhere.
    for name in ["..", "/", "a/..", "\0"] {
        let gdi = format!("1\n1 0 4 2352 \"{name}\" 0\n");
        assert_eq!(
            opened(("x.gdi", &gdi), files, None).err().unwrap(),
            "names no file"
        );
    }
    let gdi = "1\n1 0 4 2352 \"../../1.bin\" 0\n";
    assert!(opened(("x.gdi", gdi), files, None).is_ok());
    let text = "2\n1 0 4 2352 x.gdi 0\n2 50 4 2352 x.gdi 0\n";
    assert!(
        opened(("x.gdi", text), &[("x.gdi", text.as_bytes())], None)
            .unwrap()
            .layers
            .is_empty()
    );
}

/// Any table with any files: no panic, and nothing that is longer than it may be.
#[test]
fn any_table_is_no_panic() {
    let tracks = [
        raw(&volume(0, 30)),
        raw(&volume(400, 30)),
        volume(500, 30),
        vec![3; 7],
    ];
    bolero::check!()
        .with_iterations(500)
        .with_type::<(Vec<(u32, u8, u16, u64)>, u8)>()
        .for_each(|(lines, wanted): &(Vec<(u32, u8, u16, u64)>, u8)| {
            let mut sector = 0u64;
            let mut text = format!("{}\n", lines.len().min(99));
            for (number, (step, kind, file, offset)) in lines.iter().take(99).enumerate() {
                let (is_data, size) = (
                    kind % 2 * 4,
                    [2048, 2352, 2336, 2448][usize::from(kind / 2 % 4)],
                );
                let offset = if kind % 16 < 12 { 0 } else { *offset };
                text += &format!(
                    "{} {sector} {is_data} {size} {} {offset}\n",
                    number + 1,
                    file % 5
                );
                sector = (sector + u64::from(step % 1000) + 1).min(u32::MAX.into());
            }
            let names = ["0", "1", "2", "3"];
            let files: Vec<_> = names
                .into_iter()
                .zip(tracks.iter().map(Vec::as_slice))
                .collect();
            let track = (*wanted < 100).then_some(usize::from(*wanted % 8));
            if let Ok(found) = opened(("x.gdi", &text), &files, track) {
                assert!(found.device.length_bytes() < 1 << 40);
                let _ = read(&*found.device, 0, 30 * SECTOR);
            }
        });
}
