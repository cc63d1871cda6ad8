//! Damaged images, opened and walked whole: nothing panics, and every walk ends.
//!
//! `PAGEWELL_DAMAGED_IMAGES` says how many are made of each image; few by default.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use pagewell_cache::{BYTES_MIN, Cache, CacheOptions};
use pagewell_device::RamDevice;
use pagewell_disc::{Depth, Disc, DiscOptions};
use pagewell_source_bytes::{Bytes, Violations};

const SECTOR: usize = 2048;
const DESCRIPTORS: usize = 16;
/// Of each image.
const DAMAGED: u64 = 60;

/// The writers, with what makes all that their formats hold.
const WRITERS: [&str; 4] = [
    "genisoimage -quiet -R -J -udf -hide only-udf -o image tree",
    "genisoimage -quiet -R -apple -iso-level 4 -o image tree",
    "xorriso -as mkisofs -quiet -R -J -no-pad -o image tree",
    "xorriso -outdev image -padding 0 -map tree / -set_filter_r --zisofs / -- -commit",
];

fn tree(root: &Path) {
    let mut deep = root.to_owned();
    for level in 0..10 {
        deep.push(format!("level {level}"));
        fs::create_dir_all(&deep).unwrap();
        fs::write(deep.join("text"), "a line of text\n".repeat(3000)).unwrap();
        std::os::unix::fs::symlink("../text", deep.join("link")).unwrap();
    }
    fs::write(root.join("only-udf"), [7; 5000]).unwrap();
    fs::write(root.join("n".repeat(200)), [1; 2049]).unwrap();
    fs::hard_link(root.join("only-udf"), root.join("again")).unwrap();
}

/// Reproducible bytes (xorshift64).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % limit
    }
}

/// The image with 1 to 64 bytes changed in sectors that hold something.
fn damaged(image: &[u8], random: &mut Random) -> Vec<u8> {
    let mut image = image.to_vec();
    let sectors = image.len() / SECTOR;
    for _ in 0..1 << random.below(7) {
        let sector = DESCRIPTORS + random.below(sectors - DESCRIPTORS);
        let start = sector * SECTOR;
        if image[start..start + SECTOR].iter().all(|byte| *byte == 0) {
            continue;
        }
        image[start + random.below(SECTOR)] = random.below(256) as u8;
    }
    image
}

/// Whether it opened.
fn walk(image: &[u8], cache: &Cache) -> bool {
    let device = Arc::new(RamDevice::holding("image", image));
    let bytes = Bytes::new(cache.open(device));
    let violations = Arc::new(Violations::default());
    let options = DiscOptions::default();
    let Ok(disc) = Disc::noting((&bytes, cache), &options, Some(violations)) else {
        return false;
    };
    let mut read = 0;
    let checked = disc.check(Depth::Data, &mut |bytes| read += bytes);
    let names: u64 = checked.iter().map(|tree| tree.walked.counts.files).sum();
    // Each name may show all of the image, uncompressed at most 255 times as much.
    assert!(read <= names * 256 * image.len() as u64, "{read} bytes");
    true
}

/// The image that a writer makes of the tree in this directory; nothing where there is no writer.
fn written(writer: &str, directory: &Path) -> Option<Vec<u8>> {
    let image = directory.join("image");
    let _ = fs::remove_file(&image);
    let words: Vec<&str> = writer.split(' ').collect();
    let made = Command::new(words[0])
        .args(&words[1..])
        .current_dir(directory)
        .output();
    match made {
        Ok(made) => assert!(made.status.success(), "{writer}: {made:?}"),
        Err(error) => {
            pagewell_skip::skip(format_args!("{writer}: {error}"));
            return None;
        }
    }
    Some(fs::read(image).unwrap())
}

#[test]
fn a_tree_that_cannot_be_opened_costs_none_of_the_others() {
    const ANCHOR: [u8; 2] = [2, 0];
    let directory = tempfile::tempdir().unwrap();
    fs::create_dir(directory.path().join("tree")).unwrap();
    fs::write(directory.path().join("tree/file"), "file").unwrap();
    let Some(mut image) = written("genisoimage -quiet -R -udf -o image tree", directory.path())
    else {
        return;
    };
    let cache = Cache::new(CacheOptions::new(BYTES_MIN)).unwrap();
    let open = |image: &[u8]| {
        let device = Arc::new(RamDevice::holding("image", image));
        Disc::open(
            &Bytes::new(cache.open(device)),
            &cache,
            &DiscOptions::default(),
        )
        .unwrap()
    };
    let whole = open(&image);
    assert!(whole.is_whole() && whole.udf().is_some());
    assert_eq!(whole.notes("iso:x"), [""; 0]);
    for sector in image.chunks_exact_mut(SECTOR) {
        if sector.starts_with(&ANCHOR) {
            sector.fill(0);
        }
    }
    let damaged = open(&image);
    assert!(!damaged.is_whole() && damaged.udf().is_none());
    let notes = damaged.notes("iso:x");
    assert!(
        notes[0].starts_with("its UDF tree cannot be read: "),
        "{notes:?}"
    );
}

#[test]
fn an_image_that_ends_before_its_directories_says_so() {
    let directory = tempfile::tempdir().unwrap();
    fs::create_dir(directory.path().join("tree")).unwrap();
    fs::write(directory.path().join("tree/file"), "file").unwrap();
    let Some(image) = written("genisoimage -quiet -udf -o image tree", directory.path()) else {
        return;
    };
    let cache = Cache::new(CacheOptions::new(BYTES_MIN)).unwrap();
    // Behind the descriptors of both formats, and the anchor.
    let part = &image[..258 * SECTOR];
    let device = Arc::new(RamDevice::holding("image", part));
    let bytes = Bytes::new(cache.open(device));
    let error = Disc::open(&bytes, &cache, &DiscOptions::default()).err();
    let error = error.unwrap().to_string();
    let length = part.len();
    assert!(
        error.contains(&format!("it has {length} of the ")),
        "{error}"
    );
    assert!(error.contains("interrupted download"), "{error}");
    assert!(!error.contains("stale"), "{error}");
}

#[test]
fn every_walk_ends_without_a_panic() {
    let directory = tempfile::tempdir().unwrap();
    let place = |name: &str| directory.path().join(name);
    fs::create_dir(place("tree")).unwrap();
    tree(&place("tree"));
    let count = std::env::var("PAGEWELL_DAMAGED_IMAGES");
    let count = count.map_or(DAMAGED, |count| count.parse().unwrap());
    let cache = Cache::new(CacheOptions::new(BYTES_MIN)).unwrap();
    for writer in WRITERS {
        let Some(image) = written(writer, directory.path()) else {
            continue;
        };
        assert!(walk(&image, &cache), "{writer}");
        let mut random = Random(0x9e37_79b9_7f4a_7c15);
        let opened = (0..count).filter(|_| walk(&damaged(&image, &mut random), &cache));
        assert!(opened.count() as u64 > count / 2, "{writer}");
    }
}
