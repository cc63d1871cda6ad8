//! Images of discs with several tracks of data, and disks in compressed files.

use std::fs;

use crate::containers::raw;
use crate::support::{Fixture, Serve, bytes, run_in, tool};

const SECTOR: usize = 2048;
/// Sectors between the first session and the second one, as discs have them.
const BETWEEN_SESSIONS: usize = 11_400;
const MUSIC_SECTORS: usize = 75;

/// Two sessions that genisoimage wrote, the second with what the first has, and where it begins.
struct Sessions {
    first: Vec<u8>,
    second: Vec<u8>,
    start: usize,
}

impl Sessions {
    fn new(fixture: &Fixture) -> Self {
        let at = |name: &str| fixture.path().join(name);
        for (name, file) in [("one", "first"), ("two", "second")] {
            fs::create_dir(at(name)).unwrap();
            fs::write(at(name).join(file), bytes(50_000, file.len() as u64)).unwrap();
        }
        let writer = ["genisoimage", "-quiet", "-R"];
        tool(
            fixture.path(),
            &[&writer[..], &["-o", "one.iso", "one"]].concat(),
        );
        let first = fs::read(at("one.iso")).unwrap();
        let start = first.len() / SECTOR + BETWEEN_SESSIONS;
        let place = format!("0,{start}");
        let more = ["-C", &place, "-M", "one.iso", "-o", "two.iso", "two"];
        tool(fixture.path(), &[&writer[..], &more].concat());
        let second = fs::read(at("two.iso")).unwrap();
        Self {
            first,
            second,
            start,
        }
    }

    /// The two as tracks of a disc, with music behind them, described by sheets.
    fn write(&self, fixture: &Fixture) -> [&'static str; 5] {
        let write = |name: &str, content: &[u8]| {
            fs::write(fixture.path().join(name), content).unwrap();
        };
        let first = raw(&self.first, 2352, 1);
        let second = raw(&self.second, 2352, 1);
        let music = vec![7; MUSIC_SECTORS * 2352];
        write("1.bin", &first);
        write("2.bin", &second);
        write("3.bin", &music);
        let whole = [first, second, music].concat();
        write("disc.img", &whole);
        write("disc.mdf", &whole);
        write(
            "disc.cue",
            b"REM SESSION 01\nFILE \"1.bin\" BINARY\n  TRACK 01 MODE1/2352\n    INDEX 01 00:00:00\n\
              REM SESSION 02\nFILE \"2.bin\" BINARY\n  TRACK 02 MODE1/2352\n    INDEX 01 00:00:00\n\
              FILE \"3.bin\" BINARY\n  TRACK 03 AUDIO\n    INDEX 01 00:00:00\n",
        );
        write(
            "disc.toc",
            b"CD_ROM\nTRACK MODE1_RAW\nDATAFILE \"1.bin\"\nTRACK MODE1_RAW\nDATAFILE \"2.bin\"\n\
              TRACK AUDIO\nFILE \"3.bin\" 0 00:01:00\n",
        );
        let middle = self.first.len() / SECTOR;
        let end = middle + self.second.len() / SECTOR;
        let sectors = [0, self.start, end + BETWEEN_SESSIONS];
        let mut ccd = format!("[Entry 0]\nSession=1\nPoint=0xa2\nPLBA={middle}\n");
        for (number, sector) in (1..).zip(sectors) {
            let session = if number == 1 { 1 } else { 2 };
            let index = if number == 3 { end - middle } else { 0 };
            let mode = usize::from(number != 3);
            ccd += &format!(
                "[Entry {number}]\nSession={session}\nPoint={number}\nPLBA={sector}\n\
                 [TRACK {number}]\nMODE={mode}\nINDEX 1={index}\n"
            );
        }
        write("disc.ccd", ccd.as_bytes());
        let offsets = [0, middle, end].map(|sector| sector * 2352);
        write("disc.mds", &alcohol(sectors, offsets));
        write("disc.nrg", &nero(&whole, sectors, offsets));
        ["disc.cue", "disc.ccd", "disc.toc", "disc.mds", "disc.nrg"]
    }
}

/// A sheet of Alcohol 120% with three tracks, the last of music.
fn alcohol(sectors: [usize; 3], offsets: [usize; 3]) -> Vec<u8> {
    let mut sheet = vec![0; 0x58 + 24];
    sheet[..17].copy_from_slice(b"MEDIA DESCRIPTOR\x01");
    sheet[0x14] = 1;
    sheet[0x50] = 0x58;
    sheet[0x58 + 0x0a] = 3;
    sheet[0x58 + 0x14] = 0x58 + 24;
    for (index, (sector, offset)) in sectors.into_iter().zip(offsets).enumerate() {
        let mut block = vec![0; 80];
        block[0] = if index == 2 { 0xa9 } else { 0xaa };
        block[4] = u8::try_from(index + 1).unwrap();
        block[0x10..0x12].copy_from_slice(&2352u16.to_le_bytes());
        block[0x24..0x28].copy_from_slice(&u32::try_from(sector).unwrap().to_le_bytes());
        block[0x28..0x30].copy_from_slice(&(offset as u64).to_le_bytes());
        sheet.extend(block);
    }
    sheet
}

/// An image of Nero with these tracks, burnt track by track in two sessions.
fn nero(tracks: &[u8], sectors: [usize; 3], offsets: [usize; 3]) -> Vec<u8> {
    let ends = [offsets[1], offsets[2], tracks.len()];
    let entry = |index: usize| {
        let mode = if index == 2 { 7u32 } else { 5 };
        let numbers = [offsets[index] as u64, (ends[index] - offsets[index]) as u64];
        let mut entry = numbers.map(u64::to_be_bytes).concat();
        entry.extend(mode.to_be_bytes());
        entry.extend(u32::try_from(sectors[index]).unwrap().to_be_bytes());
        entry.extend([0; 8]);
        entry
    };
    let chunk = |name: &[u8], contents: &[u8]| {
        let length = u32::try_from(contents.len()).unwrap();
        [name, &length.to_be_bytes(), contents].concat()
    };
    [
        tracks,
        &chunk(b"ETN2", &entry(0)),
        &chunk(b"SINF", &1u32.to_be_bytes()),
        &chunk(b"ETN2", &[entry(1), entry(2)].concat()),
        &chunk(b"SINF", &2u32.to_be_bytes()),
        b"END!\0\0\0\0NER5",
        &(tracks.len() as u64).to_be_bytes(),
    ]
    .concat()
}

#[test]
fn a_later_session_in_a_track_of_its_own_is_read_whole() {
    let fixture = Fixture::new();
    let sessions = Sessions::new(&fixture);
    let run = |arguments: &[&str]| run_in(fixture.path(), arguments);
    for disc in sessions.write(&fixture) {
        let first = run(&["ls", disc]);
        assert_eq!(first.out, b"first\n", "{disc}");
        let said = format!("pagewell: {disc}: has another disc, which track=2 shows\n");
        assert_eq!(first.err, said);
        for options in ["track=2", "session=last"] {
            let source = format!("iso:{disc}?{options}");
            assert_eq!(run(&["ls", &source]).out, b"first\nsecond\n", "{source}");
            for file in ["first", "second"] {
                let shown = run(&["cat", &format!("{source}::/{file}")]).out;
                assert!(shown == bytes(50_000, file.len() as u64), "{source} {file}");
            }
            let checked = run(&["check", "--data", &source]);
            let text = String::from_utf8_lossy(&checked.out).into_owned();
            assert_eq!(checked.code, Some(0), "{source}: {text}{}", checked.err);
        }
        let second = format!("iso:{disc}?track=2");
        let place = format!(
            "track 2 (other tracks with a disc: 1) from sector {}",
            sessions.start
        );
        let stat = run(&["stat", &second]).text();
        assert!(stat.contains(&place), "{stat}");
        let other = run(&["stat", &format!("iso:{disc}?track=1")]).text();
        assert!(
            other.contains("track 1 (other tracks with a disc: 2), raw"),
            "{other}"
        );
        for (track, what) in [
            ("3", "whose track 3 is none of data"),
            ("9", "without a track 9"),
        ] {
            let refused = run(&["ls", &format!("iso:{disc}?track={track}")]);
            assert_eq!(refused.code, Some(1), "{}", refused.err);
            let line = format!("{disc}: is a disc {what} (tracks of data: 1, 2)\n");
            assert!(refused.err.ends_with(&line), "{}", refused.err);
            assert_eq!(refused.err.lines().count(), 1);
        }
    }
    for image in ["one.iso", "disc.img"] {
        let refused = run(&["ls", &format!("iso:{image}?track=1")]).failed(1);
        assert!(
            refused.ends_with("is an image without a table of tracks\n"),
            "{refused}"
        );
    }
    // A file of one session that is gone costs what is in it.
    fs::remove_file(fixture.path().join("1.bin")).unwrap();
    let left = "iso:disc.cue?track=2";
    let names = run(&["ls", left]);
    assert_eq!(names.out, b"first\nsecond\n", "{}", names.err);
    assert!(
        names
            .err
            .contains("has its track 1 in a file that cannot be opened")
    );
    assert_ne!(run(&["cat", &format!("{left}::/first")]).code, Some(0));
    assert_eq!(run(&["cat", &format!("{left}::/second")]).out.len(), 50_000);
}

/// Behind the last sector of a track nothing can be read, wherever that is.
#[test]
fn the_last_sector_of_a_track_is_read() {
    let fixture = Fixture::new();
    let at = |name: &str| fixture.path().join(name);
    let run = |arguments: &[&str]| run_in(fixture.path(), arguments);
    fs::create_dir(at("one")).unwrap();
    for sectors in [25, 26] {
        let content = bytes(sectors * SECTOR, 1);
        fs::write(at("one/file"), &content).unwrap();
        let writer = [
            "genisoimage",
            "-quiet",
            "-R",
            "-no-pad",
            "-o",
            "one.iso",
            "one",
        ];
        tool(fixture.path(), &writer);
        let image = fs::read(at("one.iso")).unwrap();
        assert!(image.ends_with(&content[content.len() - SECTOR..]));
        fs::write(at("1.bin"), raw(&image, 2352, 1)).unwrap();
        let gdi = "2\n1 0 4 2352 1.bin 0\n2 9001 4 2352 1.bin 0\n";
        fs::write(at("disc.gdi"), gdi).unwrap();
        let shown = run(&["cat", "iso:disc.gdi?track=1::/file"]).done();
        assert!(shown == content, "{sectors}");
    }
}

/// A server is confined to the files that it was given, which are all of a sheet.
#[test]
fn all_files_of_a_sheet_are_served() {
    let fixture = Fixture::new();
    Sessions::new(&fixture).write(&fixture);
    let sheet = fixture.path().join("disc.cue");
    let source = format!("/disc=iso:{}?track=2", sheet.display());
    let serve = Serve::start(&[&source]);
    let url = serve.urls()[0].to_owned();
    let run = |arguments: &[&str]| run_in(fixture.path(), arguments);
    for file in ["first", "second"] {
        let shown = run(&["cat", &format!("{url}::/{file}")]).done();
        assert!(shown == bytes(50_000, file.len() as u64), "{file}");
    }
    serve.signal("TERM");
    assert_eq!(serve.end().0, Some(0));
}

#[test]
fn a_gd_rom_is_read_from_its_sheet_and_from_what_chdman_makes_of_it() {
    let fixture = Fixture::new();
    fixture.iso();
    let at = |name: &str| fixture.path().join(name);
    let game = fixture.session("game.iso", 45_000);
    // Its files begin in one track and end in another, music between them.
    let (before, behind) = game.split_at(game.len() / SECTOR / 2 * SECTOR);
    fs::write(
        at("track01.bin"),
        raw(&fs::read(fixture.iso()).unwrap(), 2352, 1),
    )
    .unwrap();
    fs::write(at("track02.raw"), vec![7; 300 * 2352]).unwrap();
    fs::write(at("track03.bin"), raw(before, 2352, 1)).unwrap();
    fs::write(at("track04.bin"), raw(behind, 2352, 1)).unwrap();
    let last = 45_000 + before.len() / SECTOR;
    let gdi = format!(
        "4\n1 0 4 2352 track01.bin 0\n2 20000 0 2352 track02.raw 0\n\
         3 45000 4 2352 track03.bin 0\n4 {last} 4 2352 track04.bin 0\n"
    );
    fs::write(at("disc.gdi"), gdi).unwrap();
    let run = |arguments: &[&str]| run_in(fixture.path(), arguments);
    let sums = |source: &str| {
        let text = run(&["sum", "-r", source]).text();
        text.replace(&format!("{source}::/"), "")
    };
    tool(
        fixture.path(),
        &[
            "chdman", "createcd", "-c", "cdzl", "-i", "disc.gdi", "-o", "disc.chd",
        ],
    );
    for disc in ["disc.gdi", "disc.chd"] {
        let first = run(&["ls", disc]);
        let said = format!("pagewell: {disc}: has another disc, which track=1 shows\n");
        assert_eq!(first.err, said);
        assert_eq!(first.out, run(&["ls", "tree.iso"]).out);
        let source = &format!("iso:{disc}?track=3");
        assert_eq!(sums(source), sums("tree.iso"), "{source}");
        let stat = run(&["stat", source]).text();
        let part = "track 3 (other tracks with a disc: 1) from sector 45000 of its disc on";
        assert!(stat.contains(part), "{stat}");
    }
    assert_eq!(sums("iso:disc.chd?track=1"), sums("tree.iso"));
    let refused = run(&["ls", "iso:disc.chd?track=2"]).failed(1);
    assert!(refused.contains("(tracks of data: 1, 3, 4)"), "{refused}");
}

#[test]
fn partitions_of_compressed_disks_are_read() {
    let fixture = Fixture::new();
    let image = fs::read(fixture.iso()).unwrap();
    let at = |name: &str| fixture.path().join(name);
    let sectors = u32::try_from(image.len().div_ceil(SECTOR) * 4).unwrap();
    let mut disk = vec![0; 1 << 20];
    for (index, start, length) in [(0, 64u32, 1024u32), (2, 2048, sectors)] {
        let entry = &mut disk[446 + 16 * index..][..16];
        entry[4] = 0x83;
        entry[8..12].copy_from_slice(&start.to_le_bytes());
        entry[12..16].copy_from_slice(&length.to_le_bytes());
    }
    disk[510..512].copy_from_slice(b"\x55\xaa");
    disk.extend(&image);
    disk.resize((2048 + sectors as usize) * 512, 0);
    fs::write(at("disk"), &disk).unwrap();
    for script in [
        "gzip -1 -c disk > disk.gz",
        "xz -0 -c disk > disk.xz",
        "zstd -q -1 -c disk > disk.zst",
        "chdman createraw -us 512 -hs 4096 -i disk -o raw.chd > log",
        "chdman createhd -i disk -o hard.chd > log",
    ] {
        tool(fixture.path(), &["sh", "-c", script]);
    }
    let run = |arguments: &[&str]| run_in(fixture.path(), arguments);
    let sums = |source: &str| {
        let text = run(&["sum", "-r", source]).text();
        text.replace(&format!("{source}::/"), "")
    };
    for disk in [
        "disk", "disk.gz", "disk.xz", "disk.zst", "raw.chd", "hard.chd",
    ] {
        let source = format!("iso:{disk}?partition=3");
        assert_eq!(sums(&source), sums("tree.iso"), "{source}");
        assert_eq!(sums(disk), sums("tree.iso"), "{disk}");
        let refused = run(&["ls", &format!("iso:{disk}?partition=2")]).failed(1);
        let part = "is a disk without a partition 2 (it has 1, 3)\n";
        assert!(refused.ends_with(part), "{refused}");
        let refused = run(&["ls", &format!("iso:{disk}?partition=1")]).failed(1);
        assert_eq!(refused.lines().count(), 1, "{refused}");
    }
    let refused = run(&["ls", "iso:tree.iso?partition=1"]).failed(1);
    assert!(
        refused.ends_with("is an image without partitions\n"),
        "{refused}"
    );
}
