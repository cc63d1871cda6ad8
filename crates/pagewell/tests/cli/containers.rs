//! Images inside other things, and images that cannot be opened: what is shown of them, and what is
//! said.

use std::fs;
use std::path::Path;

use crate::support::{Fixture, Serve, bytes, run_in, tool};

/// The sectors of an image as a drive reads them: of these many bytes, in this mode.
pub(crate) fn raw(image: &[u8], sector_bytes: usize, mode: u8) -> Vec<u8> {
    let mut raw = Vec::new();
    for data in image.chunks(2048) {
        let mut sector = Vec::new();
        if sector_bytes > 2336 {
            sector.push(0);
            sector.extend([255; 10]);
            sector.extend([0, 0, 2, 0, mode]);
        }
        if mode == 2 {
            sector.extend([0, 0, 8, 0, 0, 0, 8, 0]);
        }
        sector.extend(data);
        sector.resize(sector_bytes, 0xaa);
        raw.extend(sector);
    }
    raw
}

/// What `ls`, `sum` and `cp` make of a source: the tree of the fixture.
#[track_caller]
fn expect_tree(fixture: &Fixture, source: &str) {
    let run = |arguments: &[&str]| run_in(fixture.path(), arguments);
    let sums = |source: &str| {
        let text = run(&["sum", "-r", source]).text();
        text.replace(&format!("{source}::/"), "")
    };
    assert_eq!(sums(source), sums("tree.iso"), "{source}");
    let listed = |source: &str| run(&["ls", "-lR", source]).text().replace(source, "x");
    assert_eq!(listed(source), listed("tree.iso"), "{source}");
    let _ = fs::remove_dir_all(fixture.path().join("out"));
    run(&["cp", "-r", source, "out"]).done();
    let copied = fs::read(fixture.path().join("out/sub/deep/x y")).unwrap();
    assert!(copied == bytes(5000, 5000), "{source}");
}

#[test]
fn raw_sectors_are_read_with_and_without_a_sheet() {
    let fixture = Fixture::new();
    let image = fs::read(fixture.iso()).unwrap();
    let at = |name: &str| fixture.path().join(name);
    for (sector_bytes, mode) in [(2336, 2), (2352, 1), (2352, 2), (2448, 1), (2448, 2)] {
        let raw = raw(&image, sector_bytes, mode);
        fs::write(at("dump"), &raw).unwrap();
        expect_tree(&fixture, "dump");
        // Behind music, which a sheet knows of.
        let music = vec![7; 2352 * 75];
        fs::write(at("Game.BIN"), [music, raw].concat()).unwrap();
        let cue = format!(
            "FILE \"GAME.bin\" BINARY\n  TRACK 01 AUDIO\n    INDEX 01 00:00:00\n  TRACK 02 \
             MODE{mode}/{sector_bytes}\n    INDEX 01 00:01:00\n"
        );
        fs::write(at("game.cue"), cue).unwrap();
        expect_tree(&fixture, "game.cue");
        expect_tree(&fixture, "iso:game.cue");
    }
    fs::write(at("disc.img"), raw(&image, 2352, 1)).unwrap();
    let ccd = "[CloneCD]\nVersion=3\n[TRACK 1]\nMODE=1\nINDEX 1=0\n";
    fs::write(at("disc.ccd"), ccd).unwrap();
    expect_tree(&fixture, "disc.ccd");
    let whole = run_in(fixture.path(), &["cat", "image:disc.img"]).done();
    assert!(whole == raw(&image, 2352, 1), "its bytes as they are");
}

/// A session that was written behind music: its extents count from the beginning of the disc.
#[test]
fn the_session_of_data_of_a_disc_of_music_is_read() {
    let fixture = Fixture::new();
    fixture.iso();
    let at = |name: &str| fixture.path().join(name);
    let session = fixture.session("session.iso", 45_150);
    let raw = [vec![7; 2352 * 75], raw(&session, 2352, 2)].concat();
    fs::write(at("disc.bin"), raw).unwrap();
    let cue = "FILE \"disc.bin\" BINARY\n  TRACK 01 AUDIO\n    INDEX 01 00:00:00\n\
               REM SESSION 02\n  TRACK 02 MODE2/2352\n    INDEX 01 00:01:00\n";
    fs::write(at("disc.cue"), cue).unwrap();
    let run = |arguments: &[&str]| run_in(fixture.path(), arguments);
    let sums = |source: &str| run(&["sum", "-r", source]).text();
    for source in ["session.iso", "disc.bin", "disc.cue"] {
        assert_eq!(sums(source), sums("tree.iso"), "{source}");
        let stat = run(&["stat", source]).text();
        assert!(
            stat.contains("a session from sector 45150 of its disc on"),
            "{stat}"
        );
        assert_eq!(run(&["check", "--data", source]).code, Some(0));
    }
}

/// What the compressors of a distribution make, with and without an index.
#[test]
fn compressed_images_are_read() {
    let fixture = Fixture::new();
    fixture.iso();
    for (command, name) in [
        ("gzip -1 -c tree.iso", "tree.iso.gz"),
        ("xz -0 -T2 --block-size=1MiB -c tree.iso", "tree.iso.xz"),
        ("zstd -q -1 -c tree.iso", "tree.iso.zst"),
    ] {
        let script = format!("{command} > {name}");
        tool(fixture.path(), &["sh", "-c", &script]);
        expect_tree(&fixture, name);
    }
    for (name, part) in [
        ("tree.iso.gz", "part.iso.gz"),
        ("tree.iso.xz", "part.iso.xz"),
        ("tree.iso.zst", "part.iso.zst"),
    ] {
        let whole = fs::read(fixture.path().join(name)).unwrap();
        fs::write(fixture.path().join(part), &whole[..whole.len() / 2]).unwrap();
        let ran = run_in(fixture.path(), &["ls", part]);
        assert_eq!(ran.code, Some(0), "{}", ran.err);
        let lines: Vec<&str> = ran.err.lines().collect();
        let start = format!("pagewell: {part}: ends in the middle of its compressed data: ");
        assert!(lines[0].starts_with(&start), "{}", ran.err);
        assert!(lines[1].contains("bytes of its volume"), "{}", ran.err);
    }
    // A compressed file that is no image is one, and nothing is said.
    fs::write(fixture.path().join("notes"), "notes").unwrap();
    tool(fixture.path(), &["gzip", "notes"]);
    assert_eq!(
        run_in(fixture.path(), &["ls", "notes.gz"]).text(),
        "notes.gz\n"
    );
}

#[test]
fn an_image_in_a_partition_is_served_and_named() {
    let fixture = Fixture::new();
    let image = fs::read(fixture.iso()).unwrap();
    let mut disk = vec![0; 1 << 20];
    disk[446 + 4] = 0x17;
    disk[446 + 8..446 + 12].copy_from_slice(&2048u32.to_le_bytes());
    let sectors = u32::try_from(image.len() / 512).unwrap();
    disk[446 + 12..446 + 16].copy_from_slice(&sectors.to_le_bytes());
    disk[510..512].copy_from_slice(b"\x55\xaa");
    disk.extend(&image);
    fs::write(fixture.path().join("disk"), disk).unwrap();
    expect_tree(&fixture, "disk");
    let source = fixture.path().join("disk").display().to_string();
    let mut serve = Serve::start(&[&source]);
    let lines = serve.lines_until("partition 1").concat();
    assert!(
        lines.contains("partition 1 (MBR, at byte 1048576)"),
        "{lines}"
    );
    serve.signal("TERM");
    assert_eq!(serve.end().0, Some(0));
}

/// A disk with two discs, one of them in a logical partition.
#[test]
fn any_partition_can_be_named() {
    let fixture = Fixture::new();
    let image = fs::read(fixture.iso()).unwrap();
    let at = |name: &str| fixture.path().join(name);
    fs::create_dir(at("two")).unwrap();
    fs::write(at("two/second"), "second").unwrap();
    tool(
        fixture.path(),
        &["genisoimage", "-quiet", "-o", "two.iso", "two"],
    );
    let sectors = image.len().div_ceil(2048) * 4;
    let extended = 4096 + sectors;
    let script = format!(
        "label: dos\nstart=4096, size={sectors}, type=17\nstart={extended}, size=8192, type=5\n\
         start={}, size=4096, type=17\n",
        extended + 64
    );
    fs::write(at("disk"), vec![0; (extended + 8192) * 512]).unwrap();
    fs::write(at("layout"), script).unwrap();
    tool(
        fixture.path(),
        &[
            "sh",
            "-c",
            "PATH=$PATH:/usr/sbin:/sbin sfdisk -q disk < layout",
        ],
    );
    let mut disk = fs::read(at("disk")).unwrap();
    disk[4096 * 512..][..image.len()].copy_from_slice(&image);
    let second = fs::read(at("two.iso")).unwrap();
    disk[(extended + 64) * 512..][..second.len()].copy_from_slice(&second);
    fs::write(at("disk"), disk).unwrap();
    let run = |arguments: &[&str]| run_in(fixture.path(), arguments);
    let first = run(&["ls", "disk"]);
    assert_eq!(
        first.err,
        "pagewell: disk: has another disc, which partition=5 shows\n"
    );
    assert_eq!(first.out, run(&["ls", "iso:disk?partition=1"]).out);
    assert_eq!(run(&["ls", "iso:disk?partition=5"]).text(), "second\n");
    let refused = run(&["ls", "iso:disk?partition=3"]);
    assert_ne!(refused.code, Some(0));
    let part = "is a disk without a partition 3";
    assert!(refused.err.contains(part), "{}", refused.err);
}

/// What looks like the image of a disc, by its content or its name, and cannot be opened.
fn unreadable(folder: &Path) -> Vec<(&'static str, &'static str)> {
    let write = |name: &str, content: &[u8]| fs::write(folder.join(name), content).unwrap();
    let cue =
        |file: &str| format!("FILE \"{file}\" BINARY\nTRACK 01 MODE1/2352\nINDEX 01 00:00:00");
    write("lost.cue", cue("gone.bin").as_bytes());
    write(
        "music.cue",
        b"FILE \"a.wav\" WAVE\nTRACK 01 AUDIO\nINDEX 01 00:00:00",
    );
    write("empty.iso", b"");
    write("zeros.iso", &[0; 400_000]);
    write(
        "page.iso",
        b"<!DOCTYPE html>\n<title>404 Not Found</title>\n",
    );
    write(
        "lfs.iso",
        b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n",
    );
    write("odd.iso.gz", b"\x1f\x8b\x08garbage");
    write("bad.img", b"no tracks, END!\0\0\0\0NER5\0\0\0\0\0\0\0\x0b");
    vec![
        (
            "lost.cue",
            "a sheet whose file cannot be opened: ./gone.bin: No such",
        ),
        ("music.cue", "a sheet that has no data track"),
        ("empty.iso", "an empty file"),
        ("zeros.iso", "an empty disk"),
        ("page.iso", "a web page"),
        ("lfs.iso", "a pointer of Git LFS"),
        ("odd.iso.gz", "a gzip file"),
        ("bad.img", "a Nero image without a data track"),
    ]
}

#[test]
fn an_image_that_cannot_be_opened_is_a_file_and_each_command_says_why() {
    let fixture = Fixture::new();
    let run = |arguments: &[&str]| run_in(fixture.path(), arguments);
    for (name, why) in unreadable(fixture.path()) {
        for arguments in [
            &["ls", name][..],
            &["stat", name],
            &["sum", name],
            &["cp", name, "copy"],
        ] {
            let ran = run(arguments);
            assert_eq!(ran.code, Some(0), "{arguments:?}: {}", ran.err);
            let start = format!("pagewell: {name}: taken as a plain file: it ");
            assert!(ran.err.starts_with(&start), "{arguments:?}: {}", ran.err);
            assert!(ran.err.contains(why), "{arguments:?}: {}", ran.err);
            assert_eq!(ran.err.lines().count(), 1, "{}", ran.err);
            assert!(ran.err.len() <= 160, "{}", ran.err);
        }
        let copied = fs::read(fixture.path().join("copy")).unwrap();
        assert!(copied == fs::read(fixture.path().join(name)).unwrap());
        assert_eq!(run(&["ls", name]).out, format!("{name}\n").into_bytes());
    }
    let inside = run(&["ls", "page.iso::/"]);
    let said = "pagewell: page.iso: taken as one file: it looks like a web page";
    assert!(inside.err.starts_with(said), "{}", inside.err);
    assert_eq!(inside.out, b"page.iso\n");
    // Nothing is said of files that promise nothing, and of what is copied onto.
    fs::write(fixture.path().join("disk.img"), vec![0; 5000]).unwrap();
    assert_eq!(run(&["ls", "disk.img"]).text(), "disk.img\n");
    run(&["cp", "disk.img", "empty.iso"]).done();
}

#[test]
fn an_image_that_was_cut_off_says_so() {
    let fixture = Fixture::new();
    let image = fs::read(fixture.iso()).unwrap();
    let run = |arguments: &[&str]| run_in(fixture.path(), arguments);
    for (name, content) in [
        ("part.iso", image[..image.len() / 2].to_vec()),
        (
            "part.bin",
            raw(&image[..image.len() / 4 / 2048 * 2048], 2448, 2),
        ),
    ] {
        fs::write(fixture.path().join(name), content).unwrap();
        for arguments in [&["ls", name][..], &["stat", name], &["ls", "-R", name]] {
            let ran = run(arguments);
            assert_eq!(ran.code, Some(0), "{}", ran.err);
            let lines: Vec<&str> = ran.err.lines().collect();
            assert_eq!(lines.len(), 1, "{}", ran.err);
            let end = "of its volume, as after an interrupted download";
            assert!(lines[0].ends_with(end), "{}", ran.err);
        }
        let root = run(&["ls", name]).out;
        assert_eq!(root, run(&["ls", "tree.iso"]).out);
    }
}
