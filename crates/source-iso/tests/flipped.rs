//! Images of real writers in which bytes were changed: whatever they show, every walk ends, each
//! listed name can be looked up, and each identifier means one object.
//!
//! `FLIPPED_IMAGES` is how many of each, for a long run.

#![allow(clippy::unwrap_used)]

mod support;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use pagewell_base::mix::Random;
use pagewell_fs::{Credentials, FileSystem};
use pagewell_source_iso::{Charset, IsoOptions, TreeKind};
use support::{Bounds, SECTOR, call, open_with, tool, walk};

const ROUNDS: u64 = 150;
/// The one that is chosen, and those beside Rock Ridge.
const TREES: [Option<TreeKind>; 4] = [
    None,
    Some(TreeKind::Enhanced),
    Some(TreeKind::Joliet),
    Some(TreeKind::Plain),
];
/// Sectors that are not zero and are changed: descriptors and directories come first.
const SECTORS_MAX: usize = 150;
const BOUNDS: Bounds = Bounds {
    objects_max: 400,
    depth_max: 14,
    file_bytes_max: 1 << 20,
};

/// Something of all that an image can hold.
fn make_tree(root: &Path) {
    let deep = root.join("1/2/3/4/5/6/7/8/9");
    fs::create_dir_all(&deep).unwrap();
    for number in 0..60 {
        let name = format!("file number {number} with a long name");
        fs::write(root.join("1").join(name), number.to_string()).unwrap();
    }
    fs::write(deep.join("deep"), b"deep").unwrap();
    fs::write(root.join("long".repeat(60)), vec![7; 5000]).unwrap();
    fs::hard_link(
        root.join("1/file number 1 with a long name"),
        root.join("again"),
    )
    .unwrap();
    symlink("a//b/../c", root.join("link")).unwrap();
    symlink(vec!["part"; 40].join("/"), root.join("long link")).unwrap();
    fs::create_dir(root.join("empty")).unwrap();
}

/// One, or up to 64, bytes in what is not zero.
fn change(image: &mut [u8], sectors: &[usize], random: &mut Random) {
    let mut below = |limit: usize| usize::try_from(random.below(limit as u64)).unwrap();
    let count = [1, 2, 4, 16, 64][below(5)];
    for _ in 0..count {
        let end = (sectors[below(sectors.len())] + 1) * SECTOR;
        let mut at = end - 1 - below(SECTOR);
        // Most of a sector is often zeros, which mean nothing.
        if below(2) == 0 {
            at = (at..end).find(|at| image[*at] != 0).unwrap_or(at);
        }
        image[at] = match below(4) {
            0 => 0,
            1 => 255,
            2 => image[at] ^ (1 << below(8)),
            _ => below(256).to_le_bytes()[0],
        };
    }
}

fn survive(image: &Path) {
    let rounds = std::env::var("FLIPPED_IMAGES").map_or(ROUNDS, |count| count.parse().unwrap());
    let whole = fs::read(image).unwrap();
    let is_used = |sector: &usize| {
        let bytes = &whole[sector * SECTOR..(sector + 1) * SECTOR];
        bytes.iter().any(|byte| *byte != 0)
    };
    let used = (16..whole.len() / SECTOR).filter(is_used);
    let sectors: Vec<usize> = used.take(SECTORS_MAX).collect();
    let mut random = Random(1);
    let mut opened = 0;
    for _ in 0..rounds {
        let mut changed = whole.clone();
        change(&mut changed, &sectors, &mut random);
        for tree in TREES {
            let options = IsoOptions {
                tree,
                all_versions: tree.is_some(),
                charset: tree.and_then(|_| Charset::named("shift_jis")),
                ..IsoOptions::default()
            };
            let Ok(fs) = open_with(&changed, &options) else {
                continue;
            };
            // A tree that is asked for is opened even when nothing of it can be read.
            let credentials = Credentials::root();
            if fs.attributes(&call(&credentials), &fs.root()).is_ok() {
                opened += 1;
                assert!(walk(&fs, BOUNDS).len() <= BOUNDS.objects_max);
            }
        }
    }
    assert!(opened > rounds / 2, "{opened} of {rounds} opened");
}

#[test]
fn images_of_real_writers_with_changed_bytes() {
    let work = tempfile::tempdir().unwrap();
    let (source, image) = (work.path().join("tree"), work.path().join("image.iso"));
    fs::create_dir(&source).unwrap();
    make_tree(&source);
    let writers: [(&str, &[&str]); 4] = [
        ("genisoimage", &["-quiet", "-R", "-J"]),
        (
            "xorriso",
            &["-as", "mkisofs", "-quiet", "-R", "-J", "-hide-rr-moved"],
        ),
        (
            "xorriso",
            &[
                "-compliance",
                "new_rr:iso_9660_1999",
                "-as",
                "mkisofs",
                "-quiet",
                "-R",
                "--hardlinks",
            ],
        ),
        ("genisoimage", &["-quiet", "-allow-lowercase", "-l"]),
    ];
    for (program, options) in writers {
        let mut arguments: Vec<&std::ffi::OsStr> = options.iter().map(AsRef::as_ref).collect();
        arguments.extend(["-o".as_ref(), image.as_os_str(), source.as_os_str()]);
        if tool(program, &arguments).is_some() {
            survive(&image);
        }
    }
}
