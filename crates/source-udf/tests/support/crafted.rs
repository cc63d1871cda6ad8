//! Small images and what they must show.

use super::builder::{
    At, DELETED, Entry, Kind, Udf, descriptor, device, extended, folder, identifier,
    identifier_with, long, named, parent, short, unicode,
};
use super::{Bounds, Manifest, display};

/// Ends the walk of an image that should be small and is endless.
pub const SMALL: Bounds = Bounds {
    objects_max: 1000,
    depth_max: 100,
    file_bytes_max: 1 << 20,
};

/// The names and what is in them, `!` for an error.
pub fn shown(manifest: &Manifest) -> Vec<(String, String)> {
    let content = |found: &super::Found| match &found.content {
        Ok(bytes) if bytes.len() > 40 => format!("{} bytes", bytes.len()),
        Ok(bytes) => display(bytes),
        Err(_) => "!".to_owned(),
    };
    let all = manifest.iter().skip(1);
    all.map(|(path, found)| (display(path), content(found)))
        .collect()
}

/// Text whose every byte says where it is.
pub fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|index| (index * 31 % 253) as u8).collect()
}

/// The bytes of `everything`'s file "pieces".
pub fn pieces(block: usize) -> Vec<u8> {
    let mut bytes = pattern(4 * block);
    bytes.resize(6 * block, 0);
    bytes.extend(pattern(100));
    bytes
}

/// An image with one of everything that the reader knows.
pub fn everything(kind: Kind, block: usize) -> Vec<u8> {
    everything_in(&mut Udf::new(kind, block))
}

/// The same, for images whose structures are changed afterwards.
pub fn everything_in(udf: &mut Udf) -> Vec<u8> {
    let block = u32::try_from(udf.block).unwrap();
    let root = udf.icb();
    let sub = udf.icb();
    let plain = udf.file(b"in the entry");
    let linked = udf.add(&Entry {
        links: 2,
        flags: 3 | 1 << 6 | 1 << 8,
        is_extended: false,
        ..Entry::embedded(b"two names")
    });
    let identifiers = [
        named("plain", plain),
        named("name", linked),
        identifier(&unicode("gone"), DELETED, plain),
        identifier_with(&unicode("with use"), 0, plain, b"\x01writer's bytes!"),
        named("€ of 16 bits", plain),
        named("pieces", pieces_file(udf)),
        named("chained", chained_file(udf)),
        named("versions", versions(udf)),
        named("extended", {
            let at = udf.data(&pattern(700));
            let descriptors = [extended(0, 600, at), extended(0, 100, at)];
            udf.add(&Entry::extents(2, 700, &descriptors))
        }),
        named("link", {
            let components = b"\x02\0\0\0\x05\x04\0\0\x08usr\x03\0\0\0\x05\x02\0\0\x08x";
            udf.add(&Entry::embedded(components).of_type(12))
        }),
        named("pipe", udf.add(&Entry::embedded(b"").of_type(9))),
        named("socket", udf.add(&Entry::embedded(b"").of_type(10))),
        named("tty", {
            udf.add(&Entry {
                attributes: device(5, 70000),
                ..Entry::embedded(b"").of_type(7)
            })
        }),
        named("disk", {
            udf.add(&Entry {
                attributes: device(8, 1),
                is_extended: false,
                ..Entry::embedded(b"").of_type(6)
            })
        }),
        named("movie", {
            udf.add(&Entry {
                has_streams: true,
                uid: u32::MAX,
                gid: u32::MAX,
                ..Entry::embedded(b"real time").of_type(249)
            })
        }),
        folder("sub", sub),
    ];
    // Identifiers cross blocks and extents.
    let content = [vec![parent(root)], identifiers.to_vec()].concat().concat();
    let entry = directory_in_extents(udf, &content, block);
    udf.entry(root, &entry);
    udf.directory(sub, root, &[named("other name", linked)]);
    udf.finish(root)
}

fn directory_in_extents(udf: &mut Udf, content: &[u8], block: u32) -> Entry {
    let mut descriptors = Vec::new();
    for part in content.chunks(udf.block) {
        let length = u32::try_from(part.len()).unwrap();
        let at = udf.data(part);
        // No two of them lie together.
        udf.free(1);
        descriptors.push(long(0, length, at));
    }
    assert!(descriptors.len() > 1 || block > 512, "crosses blocks");
    Entry {
        permissions: 0b00111_00101_00000,
        ..Entry::extents(1, content.len() as u64, &descriptors).of_type(4)
    }
}

/// Recorded, allocated only, not allocated, recorded.
fn pieces_file(udf: &mut Udf) -> At {
    let block = u32::try_from(udf.block).unwrap();
    let content = pieces(udf.block);
    let first = udf.data(&content[..3 * udf.block]);
    udf.free(1);
    let second = udf.data(&content[3 * udf.block..4 * udf.block]);
    let third = udf.data(&content[6 * udf.block..]);
    let descriptors = [
        long(0, 3 * block, first),
        long(0, block, second),
        long(1, block, second),
        long(2, block, At(0, 0)),
        // Allocated for more than there is.
        long(0, block, third),
    ];
    udf.add(&Entry::extents(1, content.len() as u64, &descriptors))
}

/// Descriptors that go on in two further extents.
fn chained_file(udf: &mut Udf) -> At {
    let block = u32::try_from(udf.block).unwrap();
    let content = pattern(3 * udf.block);
    let parts: Vec<At> = content
        .chunks(udf.block)
        .map(|part| udf.data(part))
        .collect();
    let second = udf.free(1);
    let third = udf.free(1);
    let chain = |at: At, descriptors: &[Vec<u8>]| {
        let descriptors = descriptors.concat();
        let mut body = vec![0; 4];
        body.extend(u32::try_from(descriptors.len()).unwrap().to_le_bytes());
        body.extend(descriptors);
        descriptor(258, at.1, &body)
    };
    let bytes = chain(third, &[long(0, block, parts[2])]);
    udf.write(third, &bytes);
    let bytes = chain(second, &[long(0, block, parts[1]), long(3, block, third)]);
    udf.write(second, &bytes);
    let first = [long(0, block, parts[0]), long(3, block, second)];
    udf.add(&Entry::extents(1, 3 * u64::from(block), &first))
}

/// Strategy 4096: the second entry prevails, and after it nothing is recorded.
fn versions(udf: &mut Udf) -> At {
    let chained = |content: &[u8]| Entry {
        strategy: 4096,
        entries_max: 2,
        ..Entry::embedded(content)
    };
    // Neighbours, in whatever partition entries are.
    let (mut first, mut indirect) = (udf.icb(), udf.icb());
    while indirect != At(first.0, first.1 + 1) {
        match udf.kind {
            // There each has a packet or every second block.
            Kind::Sparable | Kind::Metadata => {
                first = udf.free(2);
                indirect = At(0, first.1 + 1);
            }
            _ => (first, indirect) = (indirect, udf.icb()),
        }
    }
    let last = udf.free(2);
    udf.entry(first, &chained(b"version 1"));
    let mut body = vec![0; 36];
    body[4..6].copy_from_slice(&4096u16.to_le_bytes());
    body[8] = 2;
    body[11] = 3;
    body[20..].copy_from_slice(&long(0, 2048, last));
    udf.write(indirect, &descriptor(259, indirect.1, &body));
    udf.entry(last, &chained(b"version 2"));
    first
}

/// An image with these names in its root, and "good".
pub fn with_root(udf: &mut Udf, root: At, identifiers: &[Vec<u8>]) -> Vec<u8> {
    let good = udf.file(b"good");
    let mut all = identifiers.to_vec();
    all.push(named("good", good));
    udf.directory(root, root, &all);
    udf.finish(root)
}

/// A file of one extent, by a short descriptor.
pub fn one_extent(udf: &mut Udf, content: &[u8]) -> Entry {
    let at = udf.data(content);
    let length = u32::try_from(content.len()).unwrap();
    Entry::extents(0, content.len() as u64, &[short(0, length, at.1)])
}
