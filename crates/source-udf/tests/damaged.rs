//! Images written by hand: what is wrong in one place costs that place only, or nothing where there
//! is a copy.

#![allow(clippy::unwrap_used)]

mod support;

use std::sync::Arc;

use pagewell_base::mix::Random;
use pagewell_device::testing::Faulty;
use pagewell_device::{Operation, RamDevice};
use pagewell_fs::{Credentials, Error, FileSystem};
use pagewell_source_udf::{NotUdf, UdfFileSystem};
use support::builder::{
    At, DIRECTORY, Entry, KINDS, Kind, START, Udf, descriptor, folder, identifier, long, named,
    parent, seal, short, unicode,
};
use support::crafted::{SMALL, everything, everything_in, one_extent, pattern, shown, with_root};
use support::{Bounds, call, lines, list, open_bytes, open_checked, try_open, walk};

const BLOCK: usize = 2048;

type Shown = Vec<(String, String)>;

fn owned(expected: &[(&str, &str)]) -> Shown {
    expected
        .iter()
        .map(|(name, content)| ((*name).to_owned(), (*content).to_owned()))
        .collect()
}

/// Walks an image and compares; content `!` means an error. Something was noted.
fn check(image: &[u8], expected: &[(&str, &str)]) -> UdfFileSystem {
    let (fs, violations) = open_checked(image);
    assert_eq!(shown(&walk(&fs, SMALL)), owned(expected));
    assert!(!violations.is_empty());
    fs
}

/// An image with these names beside "good" in its root.
fn image(kind: Kind, make: impl FnOnce(&mut Udf, At) -> Vec<Vec<u8>>) -> Vec<u8> {
    let mut udf = Udf::new(kind, BLOCK);
    let root = udf.icb();
    let identifiers = make(&mut udf, root);
    with_root(&mut udf, root, &identifiers)
}

const GOOD: (&str, &str) = ("good", "good");

#[test]
fn copies_stand_in_for_damaged_descriptors_of_the_volume() {
    let sound = everything(Kind::Plain, BLOCK);
    let expected = shown(&walk(&open_bytes(&sound), SMALL));
    let same = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut image = sound.clone();
        change(&mut image);
        assert_eq!(shown(&walk(&open_bytes(&image), SMALL)), expected);
        let (fs, violations) = open_checked(&image);
        assert_eq!(shown(&walk(&fs, SMALL)), expected);
        lines(&violations)
    };
    // An anchor at the end, then the one at 256.
    let last = sound.len() - BLOCK;
    assert_eq!(same(&|image| image[last] = 0).len(), 1);
    assert_eq!(same(&|image| image[256 * BLOCK + 20] ^= 1).len(), 1);
    // The main sequence: one descriptor, all of it, and one that leads to itself.
    for index in 100..103 {
        let notes = same(&|image| image[index * BLOCK + 30] ^= 1);
        assert!(!notes.is_empty() && notes.len() <= 2, "{notes:?}");
    }
    assert_eq!(
        same(&|image| image[100 * BLOCK..104 * BLOCK].fill(0)).len(),
        1
    );
    let circle = |image: &mut Vec<u8>| {
        let extent = [16 * 2048u32, 100].map(u32::to_le_bytes).concat();
        let pointer = descriptor(3, 100, &[&[1, 0, 0, 0], &extent[..]].concat());
        image[100 * BLOCK..100 * BLOCK + pointer.len()].copy_from_slice(&pointer);
    };
    assert_eq!(same(&circle).len(), 2);
    // An anchor that leads to itself.
    let itself = |image: &mut Vec<u8>| {
        let anchor = &mut image[256 * BLOCK..];
        anchor[20..24].copy_from_slice(&256u32.to_le_bytes());
        anchor[28..32].copy_from_slice(&256u32.to_le_bytes());
        seal(anchor);
    };
    same(&itself);
    // Only that of a disc that is not closed.
    let only_at_512 = |image: &mut Vec<u8>| {
        image.resize(700 * BLOCK, 0);
        let body = image[256 * BLOCK + 16..257 * BLOCK].to_vec();
        let anchor = descriptor(2, 512, &body[..496]);
        image[512 * BLOCK..512 * BLOCK + 512].copy_from_slice(&anchor);
        image[256 * BLOCK] = 0;
        image[last] = 0;
    };
    assert_eq!(same(&only_at_512).len(), 1);
    // Nothing names UDF, as after a partial overwrite.
    assert_eq!(
        same(&|image| image[16 * BLOCK..19 * BLOCK].fill(0)).len(),
        1
    );
}

#[test]
fn unreadable_blocks_cost_what_is_in_them() {
    const BLOCK: usize = 4096;
    let mut udf = Udf::new(Kind::Plain, BLOCK);
    let root = udf.icb();
    let data = udf.data(&pattern(3 * BLOCK));
    let length = 3 * u32::try_from(BLOCK).unwrap();
    let files: Vec<At> = (0..20).map(|index| udf.file(&[b'a' + index])).collect();
    let large = udf.add(&Entry::extents(
        0,
        length.into(),
        &[short(0, length, data.1)],
    ));
    let names = files.iter().zip(b'a'..);
    let identifiers: Vec<Vec<u8>> = names
        .map(|(at, letter)| named(&char::from(letter).to_string(), *at))
        .chain([named("large", large)])
        .collect();
    let image = with_root(&mut udf, root, &identifiers);
    let positions: Vec<usize> = vec![
        256 * BLOCK,
        101 * BLOCK,
        udf.positions(files[7])[0],
        udf.positions(data)[0] + BLOCK,
    ];
    let mut device = Faulty::new("bad", 0);
    device.ram = RamDevice::holding("bad", &image);
    for position in positions {
        let start = position as u64;
        device
            .bad
            .lock()
            .unwrap()
            .push((Operation::Read, start..start + BLOCK as u64));
    }
    let fs = UdfFileSystem::from_device(Arc::new(device), support::cache()).unwrap();
    let found = shown(&walk(&fs, SMALL));
    let content = |name: &str| {
        let object = found.iter().find(|(path, _)| path == name);
        object.map(|(_, content)| content.as_str())
    };
    assert_eq!(found.len(), 21);
    assert_eq!(
        (content("g"), content("h"), content("i")),
        (Some("g"), None, Some("i"))
    );
    assert_eq!(content("large"), Some("!"));
    let credentials = Credentials::root();
    let id = fs
        .lookup(&call(&credentials), &fs.root(), b"large")
        .unwrap()
        .id;
    let read = |offset: usize| {
        let reply = fs.read(&call(&credentials), &id, offset as u64, 1 << 20);
        reply.map(|reply| reply.payload.len())
    };
    assert_eq!(read(0), Ok(BLOCK), "what comes before");
    assert!(matches!(read(BLOCK), Err(Error::Io(_))));
    assert_eq!(read(2 * BLOCK), Ok(BLOCK));
}

#[test]
fn a_sequence_goes_on_where_a_pointer_leads() {
    let mut image = everything(Kind::Plain, BLOCK);
    let expected = shown(&walk(&open_bytes(&image), SMALL));
    let (head, tail) = (101 * BLOCK, 103 * BLOCK);
    let moved = image[head..tail].to_vec();
    image[head..tail].fill(0);
    image[120 * BLOCK..124 * BLOCK].fill(0);
    let at = 170 * BLOCK;
    image[at..at + moved.len()].copy_from_slice(&moved);
    let extent = [16 * 2048u32, 170].map(u32::to_le_bytes).concat();
    let pointer = descriptor(3, 101, &[&[1, 0, 0, 0], &extent[..]].concat());
    image[head..head + pointer.len()].copy_from_slice(&pointer);
    assert_eq!(shown(&walk(&open_bytes(&image), SMALL)), expected);
}

#[test]
fn the_newest_file_set_counts() {
    let mut udf = Udf::new(Kind::Plain, BLOCK);
    let (root, new_root) = (udf.icb(), udf.icb());
    let file = udf.file(b"new");
    udf.directory(new_root, new_root, &[named("new", file)]);
    let next = udf.free(2);
    let image = with_root(&mut udf, root, &[]);
    let first = udf.positions(udf.file_set())[0];
    let newest = |number: u32, at: At, root: At| {
        let mut bytes = image[first..first + 512].to_vec();
        bytes[12..16].copy_from_slice(&at.1.to_le_bytes());
        bytes[44..48].copy_from_slice(&number.to_le_bytes());
        bytes[400..416].copy_from_slice(&long(0, 2048, root));
        seal(&mut bytes);
        bytes
    };
    let names = |sets: [Vec<u8>; 2], leads: bool| {
        let mut image = image.clone();
        for (index, set) in sets.iter().enumerate() {
            let at = udf.positions(next)[0] + index * BLOCK;
            image[at..at + 512].copy_from_slice(set);
        }
        if leads {
            let set = &mut image[first..];
            set[448..464].copy_from_slice(&long(0, 2 * 2048, next));
            seal(set);
        }
        shown(&walk(&open_bytes(&image), SMALL))
    };
    let second = At(0, next.1 + 1);
    let sets = || [newest(1, next, root), newest(2, second, new_root)];
    assert_eq!(names(sets(), false), owned(&[GOOD]), "nothing leads there");
    assert_eq!(names(sets(), true), owned(&[("new", "new")]));
    let sets = [newest(2, next, root), newest(1, second, new_root)];
    assert_eq!(
        names(sets, true),
        owned(&[GOOD]),
        "an older one comes later"
    );
}

#[test]
fn what_cannot_be_opened_says_why() {
    let sound = everything(Kind::Plain, BLOCK);
    let refused = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut image = sound.clone();
        change(&mut image);
        try_open(&image).err().unwrap().to_string()
    };
    let last = sound.len() - BLOCK;
    let no_anchor = |image: &mut Vec<u8>| {
        image[256 * BLOCK] = 0;
        image[last] = 0;
    };
    let text = refused(&no_anchor);
    assert_eq!(
        text,
        "image: not a UDF image: none of its anchors is readable"
    );
    let text = refused(&|image| image[100 * BLOCK..140 * BLOCK].fill(0));
    assert_eq!(text, "image: not a UDF image: no logical volume descriptor");
    let text = refused(&|image| image.clear());
    assert!(text.contains("anchors"), "{text}");
    // Both descriptors of the partition.
    let no_partition = |image: &mut Vec<u8>| {
        image[101 * BLOCK] = 9;
        image[121 * BLOCK] = 9;
    };
    let text = refused(&no_partition);
    assert!(text.contains("partition descriptor is missing"), "{text}");
    let other_blocks = |image: &mut Vec<u8>| {
        for first in [102, 122] {
            let bytes = &mut image[first * BLOCK..];
            bytes[212..216].copy_from_slice(&512u32.to_le_bytes());
            seal(bytes);
        }
    };
    let text = refused(&other_blocks);
    assert!(
        text.contains("blocks of 512 bytes on sectors of 2048"),
        "{text}"
    );
    let mut virtual_disc = everything(Kind::Virtual(false), BLOCK);
    let at = virtual_disc.len() - BLOCK;
    virtual_disc[at] = 0;
    let text = try_open(&virtual_disc).err().unwrap().to_string();
    assert!(text.contains("no virtual allocation table"), "{text}");
}

#[test]
fn recognition_wants_a_name_and_an_anchor() {
    let recognise = |image: &[u8]| {
        let device = pagewell_device::RamDevice::holding("image", image);
        pagewell_source_udf::recognise(&device).unwrap()
    };
    let sound = everything(Kind::Plain, BLOCK);
    assert_eq!(recognise(&sound), Ok(()));
    for (kind, block) in [(Kind::Virtual(true), 512), (Kind::Metadata, 4096)] {
        assert_eq!(recognise(&everything(kind, block)), Ok(()));
    }
    assert_eq!(recognise(&sound[..300 * BLOCK]), Ok(()), "cut");
    assert_eq!(recognise(&sound[..200 * BLOCK]), Err(NotUdf::NoAnchor));
    assert_eq!(recognise(&sound[..100]), Err(NotUdf::NotNamed));
    assert_eq!(recognise(&[]), Err(NotUdf::NotNamed));
    let mut other = sound;
    other[17 * BLOCK + 5] = b'9';
    assert_eq!(recognise(&other), Err(NotUdf::NotNamed));
}

#[test]
fn the_mirror_stands_in_for_damaged_metadata() {
    let mut udf = Udf::new(Kind::Metadata, BLOCK);
    let sound = everything_in(&mut udf);
    let expected = shown(&walk(&open_bytes(&sound), SMALL));
    let main = START as usize * BLOCK;
    let first_extent = udf.positions(At(1, 0))[0];
    // The entry of the file, then all of its first extent, then single bytes there.
    for (at, length) in [
        (main, 1),
        (first_extent, 40 * BLOCK),
        (first_extent + 300, 1),
    ] {
        let mut image = sound.clone();
        image[at..at + length].fill(0x55);
        let (fs, violations) = open_checked(&image);
        assert_eq!(shown(&walk(&fs, SMALL)), expected, "{at}");
        assert!(!violations.is_empty());
    }
    // A damaged mirror costs nothing.
    let mut image = sound.clone();
    image[main + BLOCK] ^= 1;
    let (fs, violations) = open_checked(&image);
    assert_eq!(shown(&walk(&fs, SMALL)), expected);
    assert_eq!(lines(&violations).len(), 2);
    image[main] ^= 1;
    let text = try_open(&image).err().unwrap().to_string();
    assert!(text.contains("neither the metadata file"), "{text}");
}

/// A mirror has the number behind the last partition; what an image says is there is nowhere.
#[test]
fn no_place_of_an_image_is_in_a_mirror() {
    let mut udf = Udf::new(Kind::Metadata, BLOCK);
    let root = udf.icb();
    let file = udf.file(b"x");
    let names = [named("x", file), named("in the mirror", At(2, file.1))];
    let image = with_root(&mut udf, root, &names);
    let fs = open_bytes(&image);
    let expected = owned(&[("good", "good"), ("x", "x")]);
    assert_eq!(shown(&walk(&fs, SMALL)), expected);
    let root_user = Credentials::root();
    let lookup = fs.lookup(&call(&root_user), &fs.root(), b"in the mirror");
    assert!(matches!(lookup, Err(Error::Io(_))), "{lookup:?}");
    let text = try_open(&udf.finish(At(2, root.1)))
        .err()
        .unwrap()
        .to_string();
    assert!(text.contains("no file entry there"), "{text}");
}

#[test]
fn metadata_that_ends_within_a_block_ends_there() {
    let mut udf = Udf::new(Kind::Metadata, BLOCK);
    let (root, sub) = (udf.icb(), udf.icb());
    // In the last block of the first extent.
    let entry = Entry::extents(0, 2000, &[short(0, 2000, 39)]);
    udf.entry(sub, &entry.of_type(4));
    let file = udf.add(&Entry::extents(0, 2000, &[short(0, 2000, 39)]));
    let identifiers = [folder("sub", sub), named("file", file)];
    let mut image = with_root(&mut udf, root, &identifiers);
    let size = 40 * 2048 - 1000u32;
    for block in [0, 1] {
        let entry = &mut image[(START as usize + block) * BLOCK..];
        entry[56..60].copy_from_slice(&size.to_le_bytes());
        entry[216..220].copy_from_slice(&size.to_le_bytes());
        seal(entry);
    }
    let fs = open_bytes(&image);
    let found = shown(&walk(&fs, SMALL));
    assert_eq!(found, owned(&[("file", "!"), GOOD, ("sub", "")]));
    let credentials = Credentials::root();
    let id = fs
        .lookup(&call(&credentials), &fs.root(), b"file")
        .unwrap()
        .id;
    let read = |offset| {
        let reply = fs.read(&call(&credentials), &id, offset, 4096);
        reply.map(|reply| reply.payload.len())
    };
    assert_eq!(read(0), Ok(1048));
    assert!(matches!(read(1048), Err(Error::Io(_))));
}

#[test]
fn a_directory_in_metadata_is_read_from_its_mirror() {
    let mut udf = Udf::new(Kind::Metadata, BLOCK);
    let (root, sub, data) = (udf.icb(), udf.icb(), udf.icb());
    let file = udf.file(b"content");
    let content = [parent(root), named("below", file), named("last", file)].concat();
    udf.write(data, &content);
    let length = u32::try_from(content.len()).unwrap();
    let entry = Entry::extents(0, content.len() as u64, &[short(0, length, data.1)]);
    udf.entry(sub, &entry.of_type(4));
    let mut image = with_root(&mut udf, root, &[folder("sub", sub)]);
    image[udf.positions(data)[0] + 50] ^= 1;
    let (below, last) = (("sub/below", "content"), ("sub/last", "content"));
    check(&image, &[GOOD, ("sub", ""), below, last]);
    // With a damaged entry in the mirror, the sound names.
    image[udf.positions(sub)[1] + 60] ^= 1;
    check(&image, &[GOOD, ("sub", ""), last]);
}

#[test]
fn damaged_identifiers_cost_themselves_only() {
    let mut udf = Udf::new(Kind::Plain, BLOCK);
    let root = udf.icb();
    let (file, other) = (udf.file(b"content"), udf.file(b"other"));
    let names: Vec<Vec<u8>> = ["first", "second", "third"]
        .iter()
        .map(|name| named(name, file))
        .collect();
    let content = [
        vec![parent(root)],
        names.clone(),
        vec![named("last", other)],
    ]
    .concat()
    .concat();
    let second = 40 + names[0].len();
    let entry = one_extent(&mut udf, &content).of_type(4);
    let data = udf.positions(At(0, file.1 + 2))[0];
    udf.entry(root, &entry);
    let image = udf.finish(root);
    let with = |change: &dyn Fn(&mut [u8])| {
        let mut image = image.clone();
        change(&mut image[data + second..]);
        image
    };
    // The tag, and with it the length: the next sound one is found.
    let rest = [
        ("first", "content"),
        ("last", "other"),
        ("third", "content"),
    ];
    check(&with(&|bytes| bytes[0] ^= 1), &rest);
    check(&with(&|bytes| bytes[..40].fill(0xff)), &rest);
    // A length of 0xff leads past the next ones; they are lost, and no more.
    let lost = with(&|bytes| {
        bytes[19] = 0xff;
        bytes[10] = 0xff;
        bytes[4] = bytes[4].wrapping_add(0xff).wrapping_sub(30);
    });
    let (fs, _) = open_checked(&lost);
    assert!(walk(&fs, SMALL).contains_key(&b"first"[..]));
    // A wrong CRC: listed, but not followed.
    let fs = {
        let image = with(&|bytes| bytes[24] ^= 1);
        let (fs, violations) = open_checked(&image);
        let found = shown(&walk(&fs, SMALL));
        assert_eq!(found, owned(&rest));
        assert!(!violations.is_empty());
        fs
    };
    let listed = list(&fs, &fs.root(), 10).unwrap();
    assert_eq!(listed.len(), 2 + 4);
    let damaged = &listed[3];
    assert_eq!((&damaged.0[..], damaged.2), (&b"second"[..], None));
    let credentials = Credentials::root();
    let result = fs.lookup(&call(&credentials), &fs.root(), b"second");
    assert!(matches!(result, Err(Error::Io(_))), "{result:?}");
}

#[test]
fn names_of_no_bytes_and_of_the_most() {
    let image = image(Kind::Plain, |udf, _| {
        let file = udf.file(b"x");
        let long = [&[8][..], &[b'n'; 254]].concat();
        vec![
            identifier(b"", 0, file),
            identifier(&long, 0, file),
            identifier(b"\x09ab", 0, file),
        ]
    });
    let long = "n".repeat(254);
    check(&image, &[("\tab", "x"), ("_", "x"), GOOD, (&long, "x")]);
}

#[test]
fn circles_of_directories_are_refused_where_they_close() {
    for kind in KINDS {
        let mut udf = Udf::new(kind, BLOCK);
        let (root, a, b) = (udf.icb(), udf.icb(), udf.icb());
        udf.directory(a, root, &[folder("b", b)]);
        udf.directory(b, a, &[folder("back", a), folder("top", root)]);
        let image = with_root(&mut udf, root, &[folder("a", a), folder("self", root)]);
        let fs = open_bytes(&image);
        let found = shown(&walk(&fs, SMALL));
        assert_eq!(found, owned(&[("a", ""), ("a/b", ""), GOOD]));
        let credentials = Credentials::root();
        let result = fs.lookup(&call(&credentials), &fs.root(), b"self");
        assert!(matches!(result, Err(Error::Io(_))), "{result:?}");
    }
}

#[test]
fn parents_that_lie_do_not_hang_anything() {
    let mut udf = Udf::new(Kind::Plain, BLOCK);
    let (root, a, b) = (udf.icb(), udf.icb(), udf.icb());
    udf.directory(a, b, &[folder("b", b)]);
    udf.directory(b, a, &[folder("a", a)]);
    let image = with_root(&mut udf, root, &[folder("a", a)]);
    let bounds = Bounds {
        objects_max: 100,
        ..SMALL
    };
    let (fs, violations) = open_checked(&image);
    assert!(walk(&fs, bounds).contains_key(&b"good"[..]));
    let notes = lines(&violations);
    assert_eq!(notes.len(), 1, "a is b's parent, too: {notes:?}");
    assert!(notes[0].contains("ECMA-167 4/8.6"), "{notes:?}");
}

#[test]
fn a_maze_of_directories_is_walked_only_as_far_as_asked() {
    let mut udf = Udf::new(Kind::Plain, 512);
    let levels: Vec<At> = (0..25).map(|_| udf.icb()).collect();
    for pair in levels.windows(2) {
        let next: Vec<Vec<u8>> = (0..5)
            .map(|index| folder(&index.to_string(), pair[1]))
            .collect();
        udf.directory(pair[0], levels[0], &next);
    }
    udf.directory(levels[24], levels[0], &[]);
    let image = udf.finish(levels[0]);
    let bounds = Bounds {
        objects_max: 2000,
        ..SMALL
    };
    assert_eq!(walk(&open_bytes(&image), bounds).len(), 2000);
}

#[test]
fn chains_that_do_not_end_cost_their_file_only() {
    let image = image(Kind::Plain, |udf, _| {
        let block = u32::try_from(BLOCK).unwrap();
        // Strategy 4096: an indirect entry that leads back.
        let entry = udf.free(2);
        udf.entry(
            entry,
            &Entry {
                strategy: 4096,
                entries_max: 2,
                ..Entry::embedded(b"never")
            },
        );
        let mut body = vec![0; 36];
        body[8] = 2;
        body[20..].copy_from_slice(&long(0, 2048, entry));
        udf.write(At(0, entry.1 + 1), &descriptor(259, entry.1 + 1, &body));
        // Extents of descriptors: to itself, to nothing, past its block.
        let chain = |udf: &mut Udf, at: At, length: u32, descriptors: &[u8]| {
            let body = [&[0; 4], &length.to_le_bytes()[..], descriptors].concat();
            udf.write(at, &descriptor(258, at.1, &body));
        };
        let file = |udf: &mut Udf, next: At| {
            let data = udf.data(b"first block");
            let descriptors = [short(0, block, data.1), short(3, block, next.1)];
            udf.add(&Entry::extents(0, 3 * u64::from(block), &descriptors))
        };
        let (own, past) = (udf.free(1), udf.free(1));
        chain(udf, own, 8, &short(3, block, own.1));
        chain(udf, past, 5000, &short(0, block, own.1));
        let empty = udf.free(1);
        vec![
            named("chain", entry),
            named("own", file(udf, own)),
            named("past", file(udf, past)),
            named("empty", file(udf, empty)),
            named("far", file(udf, At(0, u32::MAX))),
        ]
    });
    let fs = check(
        &image,
        &[
            ("empty", "!"),
            ("far", "!"),
            GOOD,
            ("own", "!"),
            ("past", "!"),
        ],
    );
    let credentials = Credentials::root();
    let read = |name: &[u8], offset| {
        let id = fs.lookup(&call(&credentials), &fs.root(), name).unwrap().id;
        let reply = fs.read(&call(&credentials), &id, offset, 8192);
        reply.map(|reply| (reply.payload.len(), reply.end_of_file))
    };
    let lookup = fs.lookup(&call(&credentials), &fs.root(), b"chain");
    let text = lookup.unwrap_err().to_string();
    assert_eq!(text.matches("I/O error").count(), 1, "{text}");
    for name in [&b"own"[..], b"past", b"empty", b"far"] {
        assert_eq!(read(name, 0), Ok((BLOCK, false)), "what comes before");
        assert!(matches!(read(name, BLOCK as u64), Err(Error::Io(_))));
    }
}

#[test]
fn what_the_image_does_not_have_is_an_error_and_never_zeros() {
    let image = image(Kind::Plain, |udf, _| {
        let block = u32::try_from(BLOCK).unwrap();
        let data = udf.data(&pattern(BLOCK));
        let file = |udf: &mut Udf, form, size, descriptors: &[Vec<u8>]| {
            udf.add(&Entry::extents(form, size, descriptors))
        };
        let largest = (1 << 30) - 1;
        let mut huge = vec![short(0, block, data.1)];
        huge.extend(vec![short(2, largest, 0); 100]);
        let cut = Entry {
            size: 100,
            ..Entry::embedded(b"less than a hundred")
        };
        let unknown = Entry {
            flags: 4,
            ..Entry::embedded(b"x")
        };
        vec![
            named("outside", file(udf, 0, 10, &[short(0, 10, 1 << 30)])),
            named("last", file(udf, 0, 10, &[short(0, 10, u32::MAX)])),
            named("partition", file(udf, 1, 10, &[long(0, 10, At(9, 0))])),
            named("none", file(udf, 0, 10, &[])),
            named("size", file(udf, 0, u64::MAX, &huge)),
            named("cut", udf.add(&cut)),
            named("unknown", udf.add(&unknown)),
            named("nothing", file(udf, 0, 0, &[short(0, 10, 1 << 30)])),
        ]
    });
    let fs = check(
        &image,
        &[
            ("cut", "!"),
            GOOD,
            ("last", "!"),
            ("none", "!"),
            ("nothing", ""),
            ("outside", "!"),
            ("partition", "!"),
            ("size", "!"),
            ("unknown", "!"),
        ],
    );
    let credentials = Credentials::root();
    let id = |name: &[u8]| fs.lookup(&call(&credentials), &fs.root(), name).unwrap().id;
    let read = |offset| {
        let reply = fs
            .read(&call(&credentials), &id(b"size"), offset, 4096)
            .unwrap();
        let mut bytes = vec![1; reply.payload.len()];
        reply.payload.copy_to(&mut bytes, true).unwrap();
        bytes
    };
    let start = read(0);
    assert!(start[..BLOCK] == pattern(BLOCK) && start[BLOCK..] == [0; 2048]);
    assert!(read(50 << 30) == [0; 4096]);
    let result = fs.read(&call(&credentials), &id(b"size"), (1 << 63) - 5, 4096);
    assert!(matches!(result, Err(Error::Io(_))));
}

#[test]
fn entries_that_contradict_themselves_cost_themselves_only() {
    let mut udf = Udf::new(Kind::Plain, BLOCK);
    let root = udf.icb();
    let names = ["attributes", "descriptors", "crc", "tag", "kind", "full"];
    let files: Vec<At> = names.iter().map(|_| udf.file(b"content")).collect();
    let full = Entry::embedded(&pattern(BLOCK - 216));
    udf.entry(files[5], &full);
    let directory = udf.file(b"no directory");
    let identifiers: Vec<Vec<u8>> = names
        .iter()
        .zip(&files)
        .map(|(name, at)| named(name, *at))
        .chain([
            identifier(&unicode("file"), DIRECTORY, directory),
            named("gone", At(0, 1 << 20)),
            named("other partition", At(7, 1)),
        ])
        .collect();
    let mut image = with_root(&mut udf, root, &identifiers);
    let mut change = |index: usize, change: &dyn Fn(&mut [u8])| {
        let at = udf.positions(files[index])[0];
        change(&mut image[at..at + BLOCK]);
    };
    change(0, &|bytes| {
        bytes[208..212].fill(0xff);
        seal(bytes);
    });
    change(1, &|bytes| {
        bytes[212..216].copy_from_slice(&1833u32.to_le_bytes());
        seal(bytes);
    });
    change(2, &|bytes| bytes[60] ^= 1);
    change(3, &|bytes| bytes[0] = 0);
    change(4, &|bytes| {
        bytes[0] = 5;
        bytes[1] = 0;
        seal(bytes);
    });
    let full = format!("{} bytes", BLOCK - 216);
    check(&image, &[("file", "no directory"), ("full", &full), GOOD]);
}

#[test]
fn tables_that_lie_cost_what_they_map() {
    // An entry past the table, an unused one, and one outside the image.
    let mut udf = Udf::new(Kind::Virtual(false), BLOCK);
    let root = udf.icb();
    let (unused, far) = (udf.file(b"x"), udf.file(b"y"));
    let identifiers = [
        named("far", far),
        named("past", At(1, 1000)),
        named("unused", unused),
    ];
    let mut image = with_root(&mut udf, root, &identifiers);
    let table = image.len() - 2 * BLOCK + 152;
    let mut set = |index: u32, block: u32| {
        let at = table + 4 * index as usize;
        image[at..at + 4].copy_from_slice(&block.to_le_bytes());
    };
    set(unused.1, u32::MAX);
    set(far.1, u32::MAX - 1);
    check(&image, &[GOOD]);
    // A sparing table that moves packets out of the image.
    let mut udf = Udf::new(Kind::Sparable, BLOCK);
    let root = udf.icb();
    // Every second entry is in a moved packet.
    let (kept, moved) = (udf.file(b"kept"), udf.file(b"moved"));
    let identifiers = [named("kept", kept), named("moved", moved)];
    let mut image = with_root(&mut udf, root, &identifiers);
    let table = &mut image[150 * BLOCK..];
    table[68..72].fill(0xee);
    seal(table);
    let fs = open_bytes(&image);
    assert_eq!(shown(&walk(&fs, SMALL)), owned(&[GOOD, ("kept", "kept")]));
}

#[test]
fn blocks_behind_the_table_of_a_virtual_partition_do_no_harm() {
    for kind in [Kind::Virtual(true), Kind::Virtual(false)] {
        let mut image = everything(kind, BLOCK);
        let expected = shown(&walk(&open_bytes(&image), SMALL));
        // Padding, and data of any kind.
        image.extend(pattern(150 * BLOCK + 77));
        image.resize(image.len() + 150 * BLOCK, 0);
        let (fs, violations) = open_checked(&image);
        assert_eq!(shown(&walk(&fs, SMALL)), expected);
        assert_eq!(lines(&violations), Vec::<String>::new());
    }
}

#[test]
fn an_image_that_is_cut_shows_what_it_has() {
    for kind in KINDS {
        let image = everything(kind, 512);
        let fs = open_bytes(&image);
        assert_eq!(fs.description().missing_bytes, 0);
        let sound = shown(&walk(&fs, SMALL));
        let mut opened = 0;
        for length in (0..image.len()).step_by(1000) {
            let Ok(fs) = try_open(&image[..length]) else {
                continue;
            };
            opened += 1;
            let missing = fs.description().missing_bytes;
            let lacks = image.len() - length;
            // The anchor behind the partition is not of it.
            assert!(missing as usize >= lacks.saturating_sub(512) && missing as usize <= lacks);
            for (path, content) in shown(&walk(&fs, SMALL)) {
                let is_true = sound
                    .iter()
                    .any(|(known, whole)| *known == path && (*whole == content || content == "!"));
                assert!(is_true, "{kind:?} {length}: {path} {content}");
            }
        }
        // The last block of a virtual disc is its table's.
        let opens_cut = !matches!(kind, Kind::Virtual(_));
        assert_eq!(opened > 10, opens_cut, "{kind:?} {opened}");
    }
}

#[test]
fn flipped_bits_end_no_walk() {
    let mut random = Random(33);
    let bounds = Bounds {
        objects_max: 300,
        depth_max: 12,
        file_bytes_max: 1 << 20,
    };
    let mut opened = 0;
    for kind in KINDS {
        let image = everything(kind, 512);
        // Where something is recorded.
        let places: Vec<usize> = (0..image.len()).filter(|at| image[*at] != 0).collect();
        for _ in 0..600 {
            let mut changed = image.clone();
            for _ in 0..1 << random.below(7) {
                let at = places[random.below(places.len() as u64) as usize];
                changed[at] ^= 1 << random.below(8);
            }
            let Ok(fs) = try_open(&changed) else {
                continue;
            };
            opened += 1;
            assert!(walk(&fs, bounds).len() <= 300);
        }
    }
    assert!(opened > 2000, "{opened}");
}
