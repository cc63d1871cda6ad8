//! Extended attributes: of AAIP, as xorriso writes them, and those of Mac OS.

#![allow(clippy::unwrap_used)]

mod support;

use std::collections::BTreeMap;
use std::ffi::{CStr, OsStr};
use std::fs;
use std::path::Path;

use pagewell_fs::extended::Presence;
use pagewell_fs::{Credentials, Error, FileId, FileSystem};
use pagewell_source_iso::IsoFileSystem;
use rustix::fs::{XattrFlags, setxattr};
use support::builder::{ASSOCIATED, Image, ROOT, Record, al, nm, px, sp};
use support::{WHOLE, call, check_parents, open_bytes, open_file, tool, walk};

fn find(fs: &IsoFileSystem, path: &str) -> FileId {
    let credentials = Credentials::root();
    let parts = path.split('/').filter(|part| !part.is_empty());
    parts.fold(fs.root(), |directory, name| {
        let found = fs.lookup(&call(&credentials), &directory, name.as_bytes());
        found.unwrap().id
    })
}

/// All attributes of an object that a user sees.
fn shown(fs: &IsoFileSystem, path: &str, uid: u32) -> BTreeMap<String, Vec<u8>> {
    let credentials = Credentials::new(uid, uid, &[]);
    let extended = fs.extended_attributes().unwrap();
    let all = extended.all(&call(&credentials), &find(fs, path)).unwrap();
    let all = all.into_iter();
    all.map(|(name, value)| (name.into_string().unwrap(), value))
        .collect()
}

/// A list as acl(5) has it in an attribute.
fn list(entries: &[(u16, u16, u32)]) -> Vec<u8> {
    let mut value = 2u32.to_le_bytes().to_vec();
    for (tag, permissions, number) in entries {
        value.extend(tag.to_le_bytes());
        value.extend(permissions.to_le_bytes());
        value.extend(number.to_le_bytes());
    }
    value
}

/// Of an entry without a user or group.
const NO_NUMBER: u32 = u32::MAX;

/// Objects with attributes; false, with a note, where the file system has none.
fn make_tree(root: &Path) -> bool {
    fs::create_dir_all(root.join("sub/deeper")).unwrap();
    fs::write(root.join("file"), "file").unwrap();
    fs::write(root.join("none"), "none").unwrap();
    let set = |path: &str, name: &str, value: &[u8]| {
        let set = setxattr(root.join(path), name, value, XattrFlags::empty());
        match set {
            Ok(()) => true,
            Err(errno) => {
                pagewell_skip::skip(format_args!("extended attributes: {name}: {errno}"));
                false
            }
        }
    };
    set("file", "user.one", b"value one")
        && set("file", "user.long", &[b'l'; 3000])
        && set("file", "user.empty", b"")
        && set("", "user.root", b"of the root")
        && set("sub", "user.dir", b"of a directory")
        && set("sub/deeper", "user.deep", b"of another")
        && set("file", "system.posix_acl_access", &access_list())
        && set("sub", "system.posix_acl_default", &default_list())
}

fn access_list() -> Vec<u8> {
    let group = (8, 6, 65534);
    list(&[
        (1, 6, NO_NUMBER),
        (2, 6, 123),
        (4, 4, NO_NUMBER),
        group,
        (0x10, 6, NO_NUMBER),
        (0x20, 4, NO_NUMBER),
    ])
}

fn default_list() -> Vec<u8> {
    list(&[
        (1, 7, NO_NUMBER),
        (2, 5, 70_000),
        (4, 5, NO_NUMBER),
        (0x10, 5, NO_NUMBER),
        (0x20, 5, NO_NUMBER),
    ])
}

#[test]
fn attributes_and_lists_come_back_from_xorriso() {
    let work = tempfile::tempdir().unwrap();
    let (tree, image) = (work.path().join("tree"), work.path().join("image.iso"));
    if !make_tree(&tree) {
        return;
    }
    // The form of lists is AAIP's own in the first, and an attribute like others in the second.
    for attributes in ["user", "any"] {
        let _ = fs::remove_file(&image);
        let how = ["-xattr", attributes, "-acl", "on", "-outdev"].map(OsStr::new);
        let paths = [image.as_os_str(), OsStr::new("-map"), tree.as_os_str()];
        if tool("xorriso", &[&how[..], &paths, &[OsStr::new("/")]].concat()).is_none() {
            return;
        }
        let fs = open_file(&image);
        check_parents(&fs, &walk(&fs, WHOLE));
        let file = shown(&fs, "file", 0);
        let expected: BTreeMap<String, Vec<u8>> = [
            ("user.one", b"value one".to_vec()),
            ("user.long", vec![b'l'; 3000]),
            ("user.empty", Vec::new()),
            ("system.posix_acl_access", access_list()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into();
        assert_eq!(file, expected, "{attributes}");
        let of_one = |path: &str, name: &str| shown(&fs, path, 0)[name].clone();
        assert_eq!(of_one("", "user.root"), b"of the root");
        assert_eq!(of_one("sub", "user.dir"), b"of a directory");
        assert_eq!(of_one("sub", "system.posix_acl_default"), default_list());
        assert_eq!(of_one("sub/deeper", "user.deep"), b"of another");
        assert_eq!(shown(&fs, "none", 0).len(), 0);
    }
}

#[test]
fn attributes_of_a_file_need_the_right_to_read_it() {
    let attributes = [nm(b"file"), px(0o100_600, 1, 0)];
    let mut image = Image::new();
    let entry = al(&[b"\x03a", b"user", b"\x05a", b"trusted"]);
    let file = Record::file("F.;1", 40, 4).with(&attributes).with(&[entry]);
    image.rock_ridge_root(&[file]);
    image.put(40, b"good");
    let fs = open_bytes(image.bytes);
    let all = shown(&fs, "file", 0);
    assert_eq!(all["user.a"], b"user");
    assert_eq!(all["trusted.a"], b"trusted");
    let extended = fs.extended_attributes().unwrap();
    let (root, other) = (Credentials::root(), Credentials::new(1000, 1000, &[]));
    let id = find(&fs, "file");
    let names = extended.names(&call(&other), &id).unwrap();
    assert_eq!(names, b"user.a\0", "the other is the superuser's");
    let get = |name: &CStr| extended.get(&call(&other), &id, name);
    assert_eq!(get(c"user.a"), Err(Error::AccessDenied));
    assert_eq!(get(c"trusted.a"), Err(Error::NoData));
    let missing = extended.get(&call(&root), &id, c"user.b");
    assert_eq!(missing, Err(Error::NoData));
    let set = extended.set(&call(&root), &id, c"user.b", b"", Presence::Any);
    assert_eq!(set, Err(Error::ReadOnly));
    let removed = extended.remove(&call(&root), &id, c"user.a");
    assert_eq!(removed, Err(Error::ReadOnly));
}

#[test]
fn images_without_attributes_say_so_once() {
    let mut image = Image::new();
    let own = [sp(0), px(0o040_755, 2, 0)];
    let file = Record::file("F.;1", 40, 4).with(&[nm(b"file"), px(0o100_644, 1, 0)]);
    image.directory_with(ROOT, ROOT, (&own, &[]), &[file]);
    assert!(open_bytes(image.bytes).extended_attributes().is_none());
}

/// An AppleDouble file with the Finder's information and a resource fork.
fn apple_double(finder_info: &[u8; 32], fork: &[u8]) -> Vec<u8> {
    let mut bytes = 0x0005_1607u32.to_be_bytes().to_vec();
    bytes.extend(0x0002_0000u32.to_be_bytes());
    bytes.extend(b"Mac OS X        ");
    bytes.extend(2u16.to_be_bytes());
    let start = 26 + 24;
    let length = u32::try_from(fork.len()).unwrap();
    for number in [9, start, 32, 2, start + 32, length] {
        bytes.extend(number.to_be_bytes());
    }
    [bytes, finder_info.to_vec(), fork.to_vec()].concat()
}

#[test]
fn forks_and_types_of_mac_os_come_back_from_genisoimage() {
    let work = tempfile::tempdir().unwrap();
    let (tree, image) = (work.path().join("tree"), work.path().join("image.iso"));
    fs::create_dir(&tree).unwrap();
    let fork = b"RESOURCES".repeat(1000);
    let mut info = [0; 32];
    info[..10].copy_from_slice(b"TEXTttxt\x04\0");
    fs::write(tree.join("hello.txt"), "data fork").unwrap();
    fs::write(tree.join("%hello.txt"), apple_double(&info, &fork)).unwrap();
    fs::write(tree.join("plain.txt"), "no forks").unwrap();
    let options = ["-quiet", "-R", "-apple", "--double", "-o"].map(OsStr::new);
    let paths = [image.as_os_str(), tree.as_os_str()];
    if tool("genisoimage", &[&options[..], &paths].concat()).is_none() {
        return;
    }
    let fs = open_file(&image);
    let all = walk(&fs, WHOLE);
    let content = |name: &str| all[name.as_bytes()].content.clone().unwrap();
    assert_eq!(content("hello.txt"), b"data fork");
    let hello = shown(&fs, "hello.txt", 1000);
    assert_eq!(hello["user.com.apple.ResourceFork"], fork);
    assert_eq!(hello["user.com.apple.FinderInfo"], info);
    let plain = shown(&fs, "plain.txt", 1000);
    assert!(!plain.contains_key("user.com.apple.ResourceFork"));
}

#[test]
fn a_fork_belongs_to_the_file_behind_it_and_has_a_bound() {
    let associated =
        |name: &str, extent: u32, length: u32| Record::file(name, extent, length).flags(ASSOCIATED);
    let mut image = Image::new();
    image.directory(
        ROOT,
        ROOT,
        &[
            associated("A.;1", 41, 4),
            Record::file("A.;1", 40, 4),
            Record::file("B.;1", 40, 4),
            associated("C.;1", 41, 70_000),
            Record::file("C.;1", 40, 4),
            associated("D.;1", 41, 4),
            Record::file("E.;1", 40, 4),
            associated("F.;1", 900, 4),
            Record::file("F.;1", 40, 4),
        ],
    );
    image.put(40, b"good");
    image.put(41, b"fork");
    let fs = open_bytes(image.bytes);
    let fork = ("user.com.apple.ResourceFork".to_owned(), b"fork".to_vec());
    assert_eq!(shown(&fs, "a", 0), [fork].into());
    for name in ["b", "c", "e"] {
        assert!(shown(&fs, name, 0).is_empty(), "{name}");
    }
    let credentials = Credentials::root();
    let extended = fs.extended_attributes().unwrap();
    let lost = extended.all(&call(&credentials), &find(&fs, "f"));
    assert!(matches!(lost, Err(Error::Io(_))), "{lost:?}");
}
