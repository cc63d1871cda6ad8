//! Real images from other writers: listed and extracted as xorriso does.

#![allow(clippy::unwrap_used)]

mod support;

use std::collections::BTreeSet;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use pagewell_device::FileDevice;
use pagewell_fs::FileType;
use pagewell_source_iso::{TreeKind, recognise};
use support::{WHOLE, check_parents, display, local, open_file, tool, walk};

fn check(image: &str) {
    let image = Path::new(image);
    if !image.exists() {
        pagewell_skip::skip(format_args!("{} is not installed", image.display()));
        return;
    }
    let target = tempfile::tempdir().unwrap();
    let extracted = target.path().join("tree");
    let arguments = [
        "-osirrox".as_ref(),
        "on".as_ref(),
        "-indev".as_ref(),
        image.as_os_str(),
        "-extract".as_ref(),
        "/".as_ref(),
        extracted.as_os_str(),
    ];
    if tool("xorriso", &arguments).is_none() {
        return;
    }
    let device = FileDevice::open(image).unwrap();
    assert_eq!(recognise(&device).unwrap(), Ok(()));
    let fs = open_file(image);
    let ours = walk(&fs, WHOLE);
    check_parents(&fs, &ours);
    let theirs = local(&extracted);
    let names: BTreeSet<String> = ours.keys().skip(1).map(|path| display(path)).collect();
    // xorriso shows the names of a tree without extensions as they are recorded.
    let plain = fs.tree_kind() == TreeKind::Plain;
    let shown = |path: &[u8]| {
        let path = display(path);
        if plain { path.to_lowercase() } else { path }
    };
    assert_eq!(names, theirs.keys().map(|path| shown(path)).collect());
    for (path, (metadata, content)) in &theirs {
        let path = shown(path);
        let found = &ours[path.as_bytes()];
        assert_eq!(found.content.as_deref(), Ok(&content[..]), "{path}");
        let kind = metadata.file_type();
        match found.attributes.file_type {
            FileType::Regular => assert!(kind.is_file(), "{path}"),
            FileType::Directory => assert!(kind.is_dir(), "{path}"),
            FileType::Symlink => assert!(kind.is_symlink(), "{path}"),
            _ => assert!(kind.is_block_device() || kind.is_char_device(), "{path}"),
        }
        if fs.tree_kind() == TreeKind::RockRidge && !kind.is_symlink() {
            assert_eq!(found.attributes.mode, metadata.mode() & 0o7777, "{path}");
            assert_eq!(
                found.attributes.modified.seconds,
                metadata.mtime(),
                "{path}"
            );
        }
    }
    eprintln!(
        "{}: {} objects in {}",
        image.display(),
        theirs.len(),
        fs.tree_kind()
    );
}

#[test]
fn grub_rescue() {
    check("/usr/lib/grub-rescue/grub-rescue-cdrom.iso");
}

#[test]
fn ipxe() {
    check("/usr/lib/ipxe/ipxe.iso");
}

#[test]
fn memtest_32() {
    check("/usr/lib/memtest86+/memtest86+ia32.iso");
}

#[test]
fn memtest_64() {
    check("/usr/lib/memtest86+/memtest86+x64.iso");
}
