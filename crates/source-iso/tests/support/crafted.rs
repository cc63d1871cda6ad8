//! Small images and what they must show.

use super::builder::{Image, ROOT, Record, nm, px};
use super::{Bounds, Manifest, display, open_with, walk};
use pagewell_source_iso::{IsoFileSystem, IsoOptions};

/// The names and what is in them, `!` for an error.
fn shown(manifest: &Manifest) -> Vec<(String, String)> {
    manifest
        .iter()
        .skip(1)
        .map(|(path, found)| {
            let content = found.content.as_ref();
            (
                display(path),
                content.map_or("!".to_owned(), |bytes| display(bytes)),
            )
        })
        .collect()
}

/// Ends the walk of an image that should be small and is endless.
const SMALL: Bounds = Bounds {
    objects_max: 1000,
    depth_max: 100,
    file_bytes_max: 1 << 20,
};

/// Walks the image and compares; content `!` means an error.
pub fn check(image: &Image, expected: &[(&str, &str)]) -> IsoFileSystem {
    check_with(image, &IsoOptions::default(), expected)
}

/// The same with options.
pub fn check_with(image: &Image, options: &IsoOptions, expected: &[(&str, &str)]) -> IsoFileSystem {
    let fs = open_with(&image.bytes, options).unwrap();
    let found = shown(&walk(&fs, SMALL));
    let expected: Vec<(String, String)> = expected
        .iter()
        .map(|(path, content)| ((*path).to_owned(), (*content).to_owned()))
        .collect();
    assert_eq!(found, expected);
    fs
}

/// A root directory of these records, and "good" at sector 40.
pub fn plain(records: &[Record]) -> Image {
    let mut image = Image::new();
    let mut all = records.to_vec();
    all.push(Record::file("GOOD.TXT;1", 40, 4));
    image.directory(ROOT, ROOT, &all);
    image.put(40, b"good");
    image.put(50, b"");
    image
}

/// The same with Rock Ridge.
pub fn rock_ridge(records: &[Record]) -> Image {
    let mut image = plain(&[]);
    let mut all = records.to_vec();
    all.push(Record::file("GOOD.TXT;1", 40, 4).with(&[nm(b"good.txt"), px(0o100_644, 1, 0)]));
    image.rock_ridge_root(&all);
    image
}

/// What [`plain`] and [`rock_ridge`] always hold.
pub const GOOD: (&str, &str) = ("good.txt", "good");
