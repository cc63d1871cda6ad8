//! Images made by genisoimage and mkudffs.

#![allow(clippy::unwrap_used)]

mod support;

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use pagewell_fs::{FileSystem, FileType};
use pagewell_source_udf::PartitionKind::{self, Physical, Sparable, Virtual};
use support::{WHOLE, check_parents, display, lines, local, open_file, tool, walk};

fn os(arguments: &[&str]) -> Vec<OsString> {
    arguments.iter().map(OsString::from).collect()
}

fn run(program: &str, arguments: &[OsString]) -> Option<()> {
    let arguments: Vec<&OsStr> = arguments.iter().map(OsString::as_os_str).collect();
    tool(program, &arguments)
}

fn bytes(length: usize) -> Vec<u8> {
    (0..length).map(|index| (index * 7 % 251) as u8).collect()
}

/// What genisoimage records in UDF: neither links nor special files.
fn make_tree(root: &Path) {
    fs::write(root.join("empty"), b"").unwrap();
    fs::write(root.join("Mixed Case.txt"), bytes(2048)).unwrap();
    fs::write(root.join("large"), bytes(3_000_001)).unwrap();
    fs::write(root.join("été €.txt"), b"wide").unwrap();
    fs::write(root.join("n".repeat(120)), bytes(5000)).unwrap();
    let mut deep = root.to_owned();
    // Deeper ones are left out with an ISO tree beside it.
    for level in 1..=6 {
        deep = deep.join(format!("level-{level}"));
        fs::create_dir(&deep).unwrap();
        fs::write(deep.join("here"), format!("level {level}")).unwrap();
    }
    fs::create_dir(root.join("empty directory")).unwrap();
    let many = root.join("many");
    fs::create_dir(&many).unwrap();
    for index in 0..2000 {
        let name = format!("{index:05} is one of the names in a directory with many");
        fs::write(many.join(name), index.to_string()).unwrap();
    }
}

#[test]
fn genisoimage_bridge() {
    let work = tempfile::tempdir().unwrap();
    let (source, image) = (work.path().join("tree"), work.path().join("image.iso"));
    fs::create_dir(&source).unwrap();
    make_tree(&source);
    let mut arguments = os(&["-quiet", "-udf", "-V", "BRIDGE", "-o"]);
    arguments.extend([image.clone().into(), source.clone().into()]);
    arguments.insert(0, "-input-charset".into());
    arguments.insert(1, "utf-8".into());
    if run("genisoimage", &arguments).is_none() {
        return;
    }
    let (fs, violations) = open_file(&image);
    let description = fs.description();
    assert_eq!(description.label, "BRIDGE");
    assert_eq!(description.revision_text(), "1.02");
    assert_eq!(description.partitions, [Physical]);
    let ours = walk(&fs, WHOLE);
    check_parents(&fs, &ours);
    let theirs = local(&source);
    let missing = theirs.keys().find(|path| !ours.contains_key(*path));
    assert_eq!(missing.map(|path| display(path)), None);
    assert_eq!(ours.len(), theirs.len() + 1);
    for (path, (metadata, content)) in &theirs {
        let (found, path) = (&ours[path], display(path));
        assert_eq!(
            found.attributes.file_type == FileType::Directory,
            metadata.is_dir(),
            "{path}"
        );
        assert!(found.content.as_deref() == Ok(&content[..]), "{path}");
        assert_eq!(
            found.attributes.modified.seconds,
            metadata.mtime(),
            "{path}"
        );
    }
    let entries = fs::read_dir(&source).unwrap().count();
    assert_eq!(fs.root_entries(), Ok(entries));
    assert_eq!(lines(&violations), Vec::<String>::new());
    assert_eq!(fs.describe(), format!("UDF 1.02 image {}", image.display()));
}

/// Every kind of medium: what it is made of, and what it holds.
#[test]
fn mkudffs_of_every_medium() {
    let work = tempfile::tempdir().unwrap();
    let cases: [(&str, &[&str], &[PartitionKind], u32); 11] = [
        ("hd", &["1.02", "1.50", "2.00", "2.01"], &[Physical], 512),
        ("hd", &["2.01", "-b", "1024"], &[Physical], 1024),
        ("hd", &["2.01", "-b", "4096"], &[Physical], 4096),
        ("hd", &["2.01", "-b", "16384"], &[Physical], 16_384),
        ("dvd", &["1.02", "2.01"], &[Physical], 2048),
        ("dvdram", &["1.02", "2.01"], &[Physical], 2048),
        ("dvdrw", &["1.50", "2.01"], &[Sparable], 2048),
        ("cdrw", &["1.50", "2.01"], &[Sparable], 2048),
        ("dvdr", &["1.50", "2.60"], &[Physical, Virtual], 2048),
        ("cdr", &["1.50", "2.00", "2.50"], &[Physical, Virtual], 2048),
        ("bdr", &["2.50", "2.60"], &[Physical, Virtual], 2048),
    ];
    for (number, (medium, options, partitions, block_bytes)) in cases.into_iter().enumerate() {
        let (revisions, more) = match options.iter().position(|option| option.starts_with('-')) {
            Some(at) => options.split_at(at),
            None => (options, &[][..]),
        };
        for revision in revisions {
            for closed in [false, true] {
                let is_open = partitions.contains(&Virtual);
                if closed && !is_open {
                    continue;
                }
                let image = work.path().join(format!("{number}-{revision}-{closed}"));
                let mut arguments = os(&["--new-file", "-l", "Ä €", "-m", medium, "-r", revision]);
                arguments.extend(os(more));
                arguments.extend(closed.then(|| "--closed".into()));
                arguments.extend([image.clone().into(), "4096".into()]);
                if run("mkudffs", &arguments).is_none() {
                    return;
                }
                let (fs, violations) = open_file(&image);
                let description = fs.description();
                let case = format!("{medium} {revision} {closed}");
                assert_eq!(description.label, "Ä €", "{case}");
                assert_eq!(description.revision_text(), *revision, "{case}");
                assert_eq!(description.partitions, partitions, "{case}");
                assert_eq!(description.block_bytes, block_bytes, "{case}");
                assert_eq!(fs.root_entries(), Ok(0), "{case}");
                assert_eq!(walk(&fs, WHOLE).len(), 1, "{case}");
                assert_eq!(lines(&violations), Vec::<String>::new(), "{case}");
            }
        }
    }
}
