//! Images made by xorriso and genisoimage from a tree with everything in it.

#![allow(clippy::unwrap_used)]

mod support;

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use pagewell_fs::{FileSystem, FileType};
use pagewell_source_iso::TreeKind;
use support::{
    Manifest, WHOLE, check_parents, display, local, noise, open_bytes, open_file, tool, walk,
};

/// What a writer can do without damage to the image or to itself, and in time.
struct Bears {
    /// Names in one directory.
    names: u32,
    /// Names of 255 bytes in one directory; xorriso 1.5.4 writes a damaged image.
    long_names: u32,
    /// Components of a link; genisoimage 1.1.11 cuts a target of 500 bytes and
    /// never ends with one of 950.
    link_parts: usize,
}

/// Everything POSIX that a Rock Ridge image can hold.
fn make_tree(root: &Path, bears: &Bears) {
    fs::write(root.join("empty"), b"").unwrap();
    fs::write(root.join("one"), b"1").unwrap();
    fs::write(root.join("Mixed Case.txt"), noise(2048, 1)).unwrap();
    fs::write(root.join("large"), noise(3_000_001, 2)).unwrap();
    fs::write(root.join(OsStr::from_bytes(b"latin-\xe9")), noise(100, 3)).unwrap();
    fs::write(root.join("n".repeat(255)), noise(5000, 4)).unwrap();
    fs::write(root.join(format!("{}é", "é".repeat(126))), b"wide").unwrap();
    fs::set_permissions(root.join("one"), fs::Permissions::from_mode(0o4751)).unwrap();
    fs::hard_link(root.join("large"), root.join("another name of large")).unwrap();
    fs::hard_link(root.join("Mixed Case.txt"), root.join("again")).unwrap();
    symlink("one", root.join("link")).unwrap();
    symlink("/usr/../lib/./x/y", root.join("odd link")).unwrap();
    symlink("/", root.join("root link")).unwrap();
    symlink("../..", root.join("up link")).unwrap();
    // Both writers record an empty component as a root in the middle.
    for (index, target) in [
        "a//b",
        "/usr//lib",
        "//b",
        "///b",
        "a///b",
        "a//",
        "//",
        ".//x",
        "..//x",
        "a/./b/../c",
    ]
    .into_iter()
    .enumerate()
    {
        symlink(target, root.join(format!("slashes {index}"))).unwrap();
    }
    // genisoimage never ends with a quarter of this.
    if bears.link_parts > 100 {
        let long = vec!["abc"; bears.link_parts].join("//");
        symlink(long, root.join("slashes in many entries")).unwrap();
    }
    symlink(
        format!("{}/end", "component".repeat(20)),
        root.join("wide link"),
    )
    .unwrap();
    symlink(
        vec!["part"; bears.link_parts].join("/"),
        root.join("long link"),
    )
    .unwrap();
    let mut deep = root.to_owned();
    for level in 1..=12 {
        deep = deep.join(format!("level-{level}"));
        fs::create_dir(&deep).unwrap();
        fs::write(deep.join("here"), format!("level {level}")).unwrap();
    }
    fs::create_dir(root.join("empty directory")).unwrap();
    let many = root.join("many");
    fs::create_dir(&many).unwrap();
    for index in 0..bears.names {
        // Different in the first eight bytes: one writer never ends when they are not.
        let name = format!("{index:05} is one of the names in a directory with many");
        fs::write(many.join(name), index.to_string()).unwrap();
    }
    let long = root.join("long names");
    fs::create_dir(&long).unwrap();
    for index in 0..bears.long_names {
        let name = format!("{index:03}{}", "x".repeat(252));
        fs::write(long.join(name), index.to_string()).unwrap();
    }
    make_special(root);
}

fn make_special(root: &Path) {
    use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
    let mode = Mode::from_raw_mode(0o640);
    mknodat(CWD, root.join("pipe"), FileType::Fifo, mode, 0).unwrap();
    for (name, kind, device) in [
        ("null", FileType::CharacterDevice, makedev(1, 3)),
        ("disk", FileType::BlockDevice, makedev(259, 70000)),
    ] {
        if mknodat(CWD, root.join(name), kind, mode, device).is_err() {
            pagewell_skip::skip("device nodes need privilege");
        }
    }
}

fn os(arguments: &[&str]) -> Vec<OsString> {
    arguments.iter().map(OsString::from).collect()
}

fn make_image(program: &str, options: &[&str], source: &Path, image: &Path) -> Option<()> {
    let mut arguments = os(options);
    arguments.extend(["-o".into(), image.into(), source.into()]);
    let arguments: Vec<&OsStr> = arguments.iter().map(OsString::as_os_str).collect();
    tool(program, &arguments)
}

fn check_posix(image: &Path, source: &Path) -> Manifest {
    let fs = open_file(image);
    assert_eq!(fs.tree_kind(), TreeKind::RockRidge);
    let ours = walk(&fs, WHOLE);
    check_parents(&fs, &ours);
    let theirs = local(source);
    let names: BTreeSet<String> = ours.keys().skip(1).map(|path| display(path)).collect();
    assert_eq!(names, theirs.keys().map(|path| display(path)).collect());
    for (path, (metadata, content)) in &theirs {
        let found = &ours[path];
        let (attributes, kind) = (&found.attributes, metadata.file_type());
        let path = display(path);
        let same_kind = match attributes.file_type {
            FileType::Regular => kind.is_file(),
            FileType::Directory => kind.is_dir(),
            FileType::Symlink => kind.is_symlink(),
            FileType::Fifo => kind.is_fifo(),
            FileType::CharacterDevice => kind.is_char_device(),
            FileType::BlockDevice => kind.is_block_device(),
            FileType::Socket => kind.is_socket(),
        };
        assert!(same_kind, "{path}");
        if kind.is_file() || kind.is_symlink() {
            assert!(found.content.as_deref() == Ok(&content[..]), "{path}");
            assert_eq!(attributes.size, content.len() as u64, "{path}");
        }
        if kind.is_char_device() || kind.is_block_device() {
            let number = metadata.rdev();
            let expected = (rustix::fs::major(number), rustix::fs::minor(number));
            assert_eq!(attributes.device, expected, "{path}");
        }
        assert_eq!(attributes.mode, metadata.mode() & 0o7777, "{path}");
        assert_eq!(
            (attributes.uid, attributes.gid),
            (metadata.uid(), metadata.gid())
        );
        assert_eq!(attributes.modified.seconds, metadata.mtime(), "{path}");
    }
    ours
}

#[test]
fn genisoimage_rock_ridge_and_joliet() {
    let work = tempfile::tempdir().unwrap();
    let (source, image) = (work.path().join("tree"), work.path().join("image.iso"));
    fs::create_dir(&source).unwrap();
    make_tree(
        &source,
        &Bears {
            names: 3000,
            long_names: 60,
            link_parts: 50,
        },
    );
    let options = ["-quiet", "-l", "-R", "-J", "-joliet-long", "-cache-inodes"];
    if make_image("genisoimage", &options, &source, &image).is_none() {
        return;
    }
    let ours = check_posix(&image, &source);
    // Without serial numbers in the image the rest must say that two records are one object.
    let attributes = |name: &str| ours[name.as_bytes()].attributes;
    assert_eq!(attributes("large").link_count, 2);
    assert_eq!(
        attributes("large").file_id,
        attributes("another name of large").file_id
    );
    check_joliet(&image, &source);
}

/// Joliet cuts names at 103 units; what is not cut must be there with its content.
fn check_joliet(image: &Path, source: &Path) {
    // Without what announces Rock Ridge that tree is none.
    let announcement = b"SP\x07\x01\xbe\xef";
    let mut bytes = fs::read(image).unwrap();
    let is_there = |window: &[u8]| window == announcement;
    let at = bytes.windows(6).position(is_there).unwrap();
    bytes[at..at + 2].copy_from_slice(b"XX");
    let fs = open_bytes(bytes);
    assert_eq!(fs.tree_kind(), TreeKind::Joliet);
    let ours = walk(&fs, WHOLE);
    check_parents(&fs, &ours);
    let mut compared = 0;
    for (path, (metadata, content)) in local(source) {
        let Ok(text) = std::str::from_utf8(&path) else {
            continue;
        };
        let is_short = text.split('/').all(|part| part.chars().count() <= 64);
        if metadata.is_file() && is_short && path.is_ascii() {
            let found = ours.get(&path).unwrap_or_else(|| panic!("{text}"));
            assert!(found.content.as_deref() == Ok(&content[..]), "{text}");
            assert_eq!(found.attributes.mode, 0o444);
            compared += 1;
        }
    }
    assert!(compared > 3000, "{compared}");
}

#[test]
fn xorriso_rock_ridge_and_joliet_and_hard_links() {
    let work = tempfile::tempdir().unwrap();
    let (source, image) = (work.path().join("tree"), work.path().join("image.iso"));
    fs::create_dir(&source).unwrap();
    make_tree(
        &source,
        &Bears {
            names: 500,
            long_names: 0,
            link_parts: 190,
        },
    );
    let mut arguments = os(&["-hardlinks", "on", "-joliet", "on", "-outdev"]);
    arguments.extend([
        image.clone().into(),
        "-map".into(),
        source.clone().into(),
        "/".into(),
    ]);
    let arguments: Vec<&OsStr> = arguments.iter().map(OsString::as_os_str).collect();
    if tool("xorriso", &arguments).is_none() {
        return;
    }
    let ours = check_posix(&image, &source);
    for (left, right) in [
        ("large", "another name of large"),
        ("again", "Mixed Case.txt"),
    ] {
        let (left, right) = (&ours[left.as_bytes()], &ours[right.as_bytes()]);
        assert_eq!(left.attributes.file_id, right.attributes.file_id);
        assert_eq!(left.attributes.link_count, 2);
    }
    let ids: BTreeSet<u64> = ours
        .values()
        .map(|found| found.attributes.file_id)
        .collect();
    assert_eq!(
        ids.len(),
        ours.len() - 2,
        "all other objects have their own number"
    );
}

#[test]
fn xorriso_like_mkisofs_relocates_deep_directories() {
    let work = tempfile::tempdir().unwrap();
    let (source, image) = (work.path().join("tree"), work.path().join("image.iso"));
    fs::create_dir(&source).unwrap();
    make_tree(
        &source,
        &Bears {
            names: 500,
            long_names: 60,
            link_parts: 190,
        },
    );
    let options = ["-as", "mkisofs", "-quiet", "-R", "-hide-rr-moved"];
    if make_image("xorriso", &options, &source, &image).is_some() {
        check_posix(&image, &source);
    }
}

#[test]
fn plain_names_are_lower_case_and_found_in_any() {
    let work = tempfile::tempdir().unwrap();
    let (source, image) = (work.path().join("tree"), work.path().join("image.iso"));
    fs::create_dir_all(source.join("sub")).unwrap();
    fs::write(source.join("readme.txt"), b"read me").unwrap();
    fs::write(source.join("sub/noext"), b"no extension").unwrap();
    if make_image("genisoimage", &["-quiet"], &source, &image).is_none() {
        return;
    }
    let fs = open_file(&image);
    assert_eq!(fs.tree_kind(), TreeKind::Plain);
    let names: Vec<String> = walk(&fs, WHOLE).keys().map(|path| display(path)).collect();
    assert_eq!(names, ["", "readme.txt", "sub", "sub/noext"]);
    let credentials = pagewell_fs::Credentials::new(1000, 1000, &[]);
    let call = support::call(&credentials);
    let found = fs.lookup(&call, &fs.root(), b"README.TXT").unwrap();
    assert_eq!(found.attributes.mode, 0o444);
    assert_eq!(fs.read(&call, &found.id, 0, 100).unwrap().payload.len(), 7);
}

#[test]
fn plain_names_with_small_letters_stay_as_they_are() {
    let work = tempfile::tempdir().unwrap();
    let (source, image) = (work.path().join("tree"), work.path().join("image.iso"));
    fs::create_dir_all(source.join("Sub")).unwrap();
    for name in ["Makefile", "makefile", "README.TXT", "Sub/LICENSE"] {
        fs::write(source.join(name), name).unwrap();
    }
    let options = ["-quiet", "-allow-lowercase"];
    if make_image("genisoimage", &options, &source, &image).is_none() {
        return;
    }
    let ours = walk(&open_file(&image), WHOLE);
    let expected = local(&source);
    assert_eq!(ours.len(), expected.len() + 1);
    for (path, (_, content)) in expected {
        assert_eq!(ours[&path].content.as_deref(), Ok(&content[..]));
    }
}

#[test]
fn an_empty_directory_named_as_the_store_of_moved_ones_is_shown() {
    let work = tempfile::tempdir().unwrap();
    let (source, image) = (work.path().join("tree"), work.path().join("image.iso"));
    let deep: std::path::PathBuf = (1..=10).map(|level| level.to_string()).collect();
    fs::create_dir_all(source.join("rr_moved")).unwrap();
    if make_image("genisoimage", &["-quiet", "-R"], &source, &image).is_some() {
        check_posix(&image, &source);
    }
    fs::create_dir_all(source.join(deep)).unwrap();
    let options = ["-quiet", "-R", "-hide-rr-moved"];
    if make_image("genisoimage", &options, &source, &image).is_some() {
        check_posix(&image, &source);
    }
}

/// An image that xorriso makes with these words before `-outdev`.
fn by_xorriso(words: &[&str], source: &Path, image: &Path) -> Option<()> {
    let mut arguments = os(words);
    let _ = fs::remove_file(image);
    arguments.extend(["-outdev".into(), image.into()]);
    arguments.extend(["-map".into(), source.into(), "/".into()]);
    let arguments: Vec<&OsStr> = arguments.iter().map(OsString::as_os_str).collect();
    tool("xorriso", &arguments)
}

#[test]
fn plain_trees_of_xorriso_lose_no_file() {
    let work = tempfile::tempdir().unwrap();
    let (source, image) = (work.path().join("tree"), work.path().join("image.iso"));
    fs::create_dir_all(source.join("Sub/deep")).unwrap();
    let files = [
        "Makefile",
        "makefile",
        "README.TXT",
        "two.dots.txt",
        "a long name with spaces.text",
        "UPPER",
        "Sub/inner.C",
        "Sub/deep/noext",
    ];
    for name in files {
        fs::write(source.join(name), name).unwrap();
    }
    for (rules, are_names_kept) in [
        ("clear", false),
        ("omit_version", false),
        ("no_force_dots", false),
        ("iso_9660_level=1", false),
        ("iso_9660_level=2", false),
        ("7bit_ascii", false),
        ("lowercase:7bit_ascii:no_force_dots", true),
        ("lowercase:7bit_ascii:no_force_dots:omit_version", true),
        ("untranslated_names", true),
        ("long_names:allow_dir_id_ext", false),
        ("full_ascii", false),
    ] {
        let words = ["-compliance", rules, "-rockridge", "off"];
        if by_xorriso(&words, &source, &image).is_none() {
            return;
        }
        let iso = open_file(&image);
        assert_eq!(iso.tree_kind(), TreeKind::Plain, "{rules}");
        let ours = walk(&iso, WHOLE);
        let found = ours.iter().filter_map(|(path, found)| {
            let content = found.content.clone().ok()?;
            (!content.is_empty()).then(|| (display(path), display(&content)))
        });
        let found: Vec<(String, String)> = found.collect();
        let contents: BTreeSet<&str> = found.iter().map(|(_, content)| &**content).collect();
        assert_eq!(contents, files.into_iter().collect(), "{rules}");
        assert_eq!(found.len(), files.len(), "{rules}");
        for (path, content) in &found {
            assert!(!are_names_kept || path == content, "{rules}: {path}");
        }
    }
}

#[test]
fn rock_ridge_of_any_version_by_xorriso() {
    let work = tempfile::tempdir().unwrap();
    let (source, image) = (work.path().join("tree"), work.path().join("image.iso"));
    fs::create_dir(&source).unwrap();
    let bears = Bears {
        names: 50,
        long_names: 0,
        link_parts: 50,
    };
    make_tree(&source, &bears);
    for rules in [
        "clear:old_rr",
        "clear:new_rr",
        "clear:new_rr:aaip_susp_1_10",
        "clear:always_gmt",
        "default:deep_paths_off",
    ] {
        let words = ["-compliance", rules, "-hardlinks", "on"];
        if by_xorriso(&words, &source, &image).is_none() {
            return;
        }
        let ours = check_posix(&image, &source);
        let number = |path: &str| ours[path.as_bytes()].attributes.file_id;
        let names = ["large", "another name of large"];
        assert_eq!(number(names[0]), number(names[1]), "{rules}");
    }
}

#[test]
fn joliet_trees_of_xorriso_have_their_names() {
    let work = tempfile::tempdir().unwrap();
    let (source, image) = (work.path().join("tree"), work.path().join("image.iso"));
    fs::create_dir_all(source.join("Unter Ordner")).unwrap();
    let long = format!("{}.txt", "l".repeat(95));
    let names = [
        "Makefile",
        "makefile",
        "Größe 世界.txt",
        "no extension",
        "dots...in.it",
        &long,
    ];
    for name in names.into_iter().chain(["\u{1f600}.png", "Unter Ordner/x"]) {
        fs::write(source.join(name), name).unwrap();
    }
    for rules in [
        "clear:joliet_long_names:joliet_utf16",
        "clear:joliet_long_names:joliet_utf16:only_iso_version",
        "clear:joliet_long_names:joliet_utf16:no_j_force_dots",
        "clear:joliet_long_names:joliet_utf16:omit_version",
    ] {
        let words = ["-compliance", rules, "-rockridge", "off", "-joliet", "on"];
        if by_xorriso(&words, &source, &image).is_none() {
            return;
        }
        let iso = open_file(&image);
        assert_eq!(iso.tree_kind(), TreeKind::Joliet, "{rules}");
        let ours = walk(&iso, WHOLE);
        let expected = local(&source);
        assert_eq!(ours.len(), expected.len() + 1, "{rules}");
        for (path, (_, content)) in expected {
            let found = ours.get(&path).map(|found| found.content.as_deref());
            assert_eq!(found, Some(Ok(&content[..])), "{rules}: {}", display(&path));
        }
    }
}
