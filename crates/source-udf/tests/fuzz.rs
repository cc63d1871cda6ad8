//! Damaged images: whatever is in them, opening, walking and reading come to an end without a
//! panic, and within the bounds of the walk.
//!
//! These run as ordinary tests, a bounded number of rounds each, and under a fuzzer with
//! `cargo bolero test`.

#![allow(clippy::unwrap_used)]

mod support;

use std::sync::Arc;

use pagewell_device::RamDevice;
use pagewell_fs::FileSystem;
use pagewell_source_bytes::{VIOLATIONS_MAX, Violations};
use pagewell_source_udf::UdfFileSystem;
use support::builder::{Entry, KINDS, Kind, Udf, descriptor, long, named, parent, seal};
use support::crafted::{everything, everything_in, one_extent};
use support::{Bounds, cache, open_checked, walk};

const BLOCK: usize = 512;
const BOUNDS: Bounds = Bounds {
    objects_max: 300,
    depth_max: 12,
    file_bytes_max: 1 << 20,
};

/// With all that is wrong noted; the tests of damage do without.
fn survive(image: &[u8]) {
    let device = Arc::new(RamDevice::holding("image", image));
    let _ = pagewell_source_udf::recognise(&*device);
    let violations = Arc::new(Violations::default());
    if let Ok(fs) = UdfFileSystem::checked(device, cache(), violations.clone()) {
        assert!(walk(&fs, BOUNDS).len() <= BOUNDS.objects_max);
    }
    assert!(violations.list().0.len() <= VIOLATIONS_MAX);
}

/// Blocks that begin with a descriptor's tag.
fn descriptors(image: &[u8]) -> Vec<usize> {
    let is_tag = |bytes: &[u8]| {
        let kind = u16::from_le_bytes([bytes[0], bytes[1]]);
        bytes[2] == 2 && matches!(kind, 1..=9 | 256..=266)
    };
    let starts = (0..image.len()).step_by(BLOCK);
    starts.filter(|at| is_tag(&image[*at..])).collect()
}

#[test]
fn the_seeds_are_sound() {
    for kind in KINDS {
        let image = everything(kind, BLOCK);
        assert!(descriptors(&image).len() > 20);
        let (fs, violations) = open_checked(&image);
        assert_eq!(walk(&fs, BOUNDS).len(), 17, "{kind:?}");
        assert!(violations.is_empty());
        assert!(fs.limits().read_only);
    }
}

/// Each four bytes of input change one byte of a descriptor, whose tag is made sound again.
#[test]
fn changed_descriptors() {
    let seeds: Vec<(Vec<u8>, Vec<usize>)> = KINDS
        .into_iter()
        .map(|kind| {
            let image = everything(kind, BLOCK);
            let places = descriptors(&image);
            (image, places)
        })
        .collect();
    bolero::check!()
        .with_iterations(1500)
        .for_each(|input: &[u8]| {
            let Some((first, changes)) = input.split_first() else {
                return;
            };
            let (seed, places) = &seeds[usize::from(*first) % seeds.len()];
            let mut image = seed.clone();
            for change in changes.chunks_exact(4).take(32) {
                let start = places[usize::from(change[0]) % places.len()];
                let offset = (usize::from(change[1]) << 8 | usize::from(change[2])) % BLOCK;
                image[start + offset] = change[3];
                let length = u16::from_le_bytes([image[start + 10], image[start + 11]]);
                if usize::from(length) <= BLOCK - 16 {
                    seal(&mut image[start..]);
                }
            }
            survive(&image);
        });
}

/// Each three bytes of input change one byte anywhere in a recorded block.
#[test]
fn changed_bytes() {
    let seed = everything(Kind::Metadata, BLOCK);
    let places: Vec<usize> = (0..seed.len()).filter(|at| seed[*at] != 0).collect();
    bolero::check!()
        .with_iterations(1000)
        .for_each(|input: &[u8]| {
            let mut image = seed.clone();
            for change in input.chunks_exact(3).take(64) {
                let place = usize::from(change[0]) << 8 | usize::from(change[1]);
                image[places[place % places.len()]] = change[2];
            }
            survive(&image);
        });
}

/// The input is the content of the root directory, between two sound identifiers.
#[test]
fn arbitrary_identifiers() {
    bolero::check!()
        .with_iterations(1500)
        .for_each(|input: &[u8]| {
            let mut udf = Udf::new(Kind::Plain, BLOCK);
            let root = udf.icb();
            let file = udf.file(b"x");
            let mut content = [parent(root), named("a", file)].concat();
            let start = content.len();
            content.extend(input);
            // Input that has tags gets further than noise.
            let mut at = start;
            while at + 40 <= content.len() {
                content[at..at + 2].copy_from_slice(&257u16.to_le_bytes());
                content[at + 10..at + 12].copy_from_slice(&[20, 0]);
                seal(&mut content[at..]);
                at += 40 + usize::from(content[at + 39] % 4) * 4;
            }
            content.extend(named("b", file));
            let entry = one_extent(&mut udf, &content).of_type(4);
            udf.entry(root, &entry);
            survive(&udf.finish(root));
        });
}

/// The input is the allocation descriptors of a file and of their continuation.
#[test]
fn arbitrary_descriptors() {
    bolero::check!()
        .with_iterations(1500)
        .for_each(|input: &[u8]| {
            let Some((form, input)) = input.split_first() else {
                return;
            };
            let mut udf = Udf::new(Kind::Plain, BLOCK);
            let root = udf.icb();
            let next = udf.free(1);
            let length = input.len().min(200) / 4 * 4;
            let (own, rest) = input.split_at(length);
            let mut body = vec![0; 4];
            body.extend(u32::try_from(rest.len().min(400)).unwrap().to_le_bytes());
            body.extend(&rest[..rest.len().min(400)]);
            udf.write(next, &descriptor(258, next.1, &body));
            let entry = Entry::extents(
                u16::from(*form),
                u64::from(u32::MAX),
                &[own.to_vec(), long(3, 512, next)],
            );
            let file = udf.add(&entry);
            let link = udf.add(&Entry {
                size: input.len() as u64 % 4096,
                ..entry
            });
            udf.entry(
                link,
                &Entry::embedded(&input[..input.len().min(200)]).of_type(12),
            );
            udf.directory(root, root, &[named("file", file), named("link", link)]);
            survive(&udf.finish(root));
        });
}

/// The input is what the maps of partitions say, in both sequences.
#[test]
fn arbitrary_maps() {
    let mut udf = Udf::new(Kind::Metadata, BLOCK);
    let seed = everything_in(&mut udf);
    bolero::check!()
        .with_iterations(1000)
        .for_each(|input: &[u8]| {
            let mut image = seed.clone();
            for first in [102, 122] {
                let bytes = &mut image[first * BLOCK..];
                let taken = input.len().min(70);
                bytes[440..440 + taken].copy_from_slice(&input[..taken]);
                seal(bytes);
            }
            survive(&image);
        });
}
