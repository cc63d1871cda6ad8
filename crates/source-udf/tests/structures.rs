//! Every structure that the reader knows, in images written by hand.

#![allow(clippy::unwrap_used)]

mod support;

use pagewell_fs::{Attributes, Credentials, FileSystem, FileType, Timestamp};
use pagewell_source_udf::PartitionKind;
use pagewell_source_udf::UdfFileSystem;
use support::builder::{At, Entry, KINDS, Kind, SECONDS, Udf, folder, named};
use support::crafted::{SMALL, everything, pattern, pieces, shown, with_root};
use support::{WHOLE, call, check_parents, lines, list, open_bytes, open_checked, walk};

fn attributes(fs: &UdfFileSystem, name: &str) -> Attributes {
    let credentials = Credentials::root();
    let entry = fs.lookup(&call(&credentials), &fs.root(), name.as_bytes());
    entry.unwrap().attributes
}

fn expected(block: usize) -> Vec<(&'static str, String)> {
    vec![
        ("chained", format!("{} bytes", 3 * block)),
        ("disk", "!".into()),
        ("extended", "700 bytes".into()),
        ("link", "/usr/../x".into()),
        ("movie", "real time".into()),
        ("name", "two names".into()),
        ("pieces", format!("{} bytes", 6 * block + 100)),
        ("pipe", "!".into()),
        ("plain", "in the entry".into()),
        ("socket", "!".into()),
        ("sub", String::new()),
        ("sub/other name", "two names".into()),
        ("tty", "!".into()),
        ("versions", "version 2".into()),
        ("with use", "in the entry".into()),
        ("€ of 16 bits", "in the entry".into()),
    ]
}

#[test]
fn one_of_everything_in_every_kind_of_partition_and_size_of_block() {
    for kind in KINDS {
        for block in [512, 1024, 2048, 4096] {
            let (fs, violations) = open_checked(&everything(kind, block));
            let manifest = walk(&fs, WHOLE);
            let found = shown(&manifest);
            let case = format!("{kind:?} {block}");
            let expected: Vec<_> = expected(block)
                .into_iter()
                .map(|(name, content)| (name.to_owned(), content))
                .collect();
            assert_eq!(found, expected, "{case}");
            assert_eq!(lines(&violations), Vec::<String>::new(), "{case}");
            check_parents(&fs, &manifest);
            let content = |name: &str| manifest[name.as_bytes()].content.clone().unwrap();
            assert!(content("pieces") == pieces(block), "{case}");
            assert!(content("chained") == pattern(3 * block), "{case}");
            let twice = pattern(700);
            assert!(content("extended")[..600] == twice[..600], "{case}");
            assert!(content("extended")[600..] == twice[..100], "{case}");
            assert_eq!(fs.root_entries(), Ok(15), "{case}");
        }
    }
}

#[test]
fn attributes_are_those_of_the_entry() {
    let fs = open_bytes(&everything(Kind::Plain, 2048));
    let time = |microseconds: u32| Timestamp {
        seconds: SECONDS,
        nanoseconds: microseconds * 1000,
    };
    let plain = attributes(&fs, "plain");
    assert_eq!((plain.file_type, plain.mode), (FileType::Regular, 0o640));
    assert_eq!((plain.uid, plain.gid, plain.size), (1000, 100, 12));
    let times = [plain.accessed, plain.modified, plain.changed];
    assert_eq!(times, [time(1), time(2), time(3)]);
    let linked = attributes(&fs, "name");
    assert_eq!((linked.mode, linked.link_count), (0o5640, 2));
    assert_eq!(linked.modified, time(2), "in a file entry, too");
    let credentials = Credentials::root();
    let sub = fs.lookup(&call(&credentials), &fs.root(), b"sub").unwrap();
    let other = fs.lookup(&call(&credentials), &sub.id, b"other name");
    assert_eq!(other.unwrap().attributes, linked, "one object");
    assert_eq!(sub.attributes.link_count, 2, "its own is not recorded");
    assert_eq!(attributes(&fs, "tty").device, (5, 70000));
    let disk = attributes(&fs, "disk");
    assert_eq!(
        (disk.file_type, disk.device),
        (FileType::BlockDevice, (8, 1))
    );
    assert_eq!(attributes(&fs, "pipe").file_type, FileType::Fifo);
    assert_eq!(attributes(&fs, "socket").file_type, FileType::Socket);
    let link = attributes(&fs, "link");
    assert_eq!((link.file_type, link.size), (FileType::Symlink, 9));
    let movie = attributes(&fs, "movie");
    assert_eq!((movie.uid, movie.gid), (0, 0), "none is recorded");
    let skipped = |name: &[u8]| {
        let entry = fs.lookup(&call(&credentials), &fs.root(), name).unwrap();
        fs.skipped(&entry.id).unwrap()
    };
    assert!(skipped(b"movie").has_streams && !skipped(b"plain").has_streams);
    assert_eq!(skipped(b"tty").attribute_bytes, 48);
}

#[test]
fn the_volume_is_described() {
    let kinds = [
        (Kind::Plain, vec![PartitionKind::Physical]),
        (Kind::Sparable, vec![PartitionKind::Sparable]),
        (
            Kind::Virtual(true),
            vec![PartitionKind::Physical, PartitionKind::Virtual],
        ),
        (
            Kind::Metadata,
            vec![PartitionKind::Physical, PartitionKind::Metadata],
        ),
    ];
    for (kind, partitions) in kinds {
        let fs = open_bytes(&everything(kind, 1024));
        let description = fs.description();
        assert_eq!(description.label, "label");
        assert_eq!(description.revision_text(), "2.50");
        assert_eq!(description.block_bytes, 1024);
        assert_eq!(description.partitions, partitions);
        assert_eq!(description.created.unwrap().seconds, SECONDS);
    }
}

#[test]
fn a_large_directory_is_listed_in_its_order_and_names_are_found() {
    for kind in [Kind::Plain, Kind::Metadata] {
        let mut udf = Udf::new(kind, 512);
        let (root, sub) = (udf.icb(), udf.icb());
        let file = udf.file(b"same");
        let names: Vec<String> = (0..5000)
            .map(|index| format!("name {}", index * 7))
            .collect();
        let identifiers: Vec<Vec<u8>> = names.iter().map(|name| named(name, file)).collect();
        let content = [vec![support::builder::parent(root)], identifiers]
            .concat()
            .concat();
        let entry = support::crafted::one_extent(&mut udf, &content);
        let entry = match kind {
            Kind::Metadata => {
                let at = udf.data(&content);
                let length = u32::try_from(content.len()).unwrap();
                let descriptors = [support::builder::long(0, length, at)];
                Entry::extents(1, content.len() as u64, &descriptors)
            }
            _ => entry,
        };
        udf.entry(sub, &entry.of_type(4));
        let fs = open_bytes(&with_root(&mut udf, root, &[folder("sub", sub)]));
        let credentials = Credentials::root();
        let directory = fs
            .lookup(&call(&credentials), &fs.root(), b"sub")
            .unwrap()
            .id;
        let listed = list(&fs, &directory, 77).unwrap();
        let found: Vec<String> = listed[2..]
            .iter()
            .map(|(name, _, _)| support::display(name))
            .collect();
        assert_eq!(found, names);
        for name in &names {
            let entry = fs.lookup(&call(&credentials), &directory, name.as_bytes());
            assert_eq!(entry.unwrap().attributes.size, 4);
        }
    }
}

#[test]
fn names_that_are_none_are_changed_and_repeated_ones_are_numbered() {
    let mut udf = Udf::new(Kind::Plain, 2048);
    let root = udf.icb();
    let files: Vec<At> = (0..7).map(|index| udf.file(&[b'0' + index])).collect();
    let names = ["a/b", "..", ".", "same", "same", "a\0b", "a_b"];
    let identifiers: Vec<Vec<u8>> = names
        .iter()
        .zip(&files)
        .map(|(name, at)| named(name, *at))
        .collect();
    let fs = open_bytes(&with_root(&mut udf, root, &identifiers));
    let found = shown(&walk(&fs, SMALL));
    let expected = [
        ("_", "2"),
        ("__", "1"),
        ("a", "5"),
        ("a_b", "0"),
        ("a_b~2", "6"),
        ("good", "good"),
        ("same", "3"),
        ("same~2", "4"),
    ]
    .map(|(name, content)| (name.to_owned(), content.to_owned()));
    assert_eq!(found, expected);
}
