//! `cp` between directories and images, against the tools of the system.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use crate::support::{Fixture, Run, bytes, is_root, run_in, tool};

/// Every object below `directory`: path, type, permissions, size and time of what is no link,
/// target of links; no size of directories.
fn describe(directory: &Path) -> String {
    let forms = [
        ("f", "%P f %m %s %T@\\n"),
        ("d", "%P d %m %T@\\n"),
        ("l", "%P l %l\\n"),
    ];
    let mut lines = Vec::new();
    for (kind, form) in forms {
        let words = [
            "find",
            ".",
            "-mindepth",
            "1",
            "-type",
            kind,
            "-printf",
            form,
        ];
        let listed = tool(directory, &words);
        let listed = String::from_utf8_lossy(&listed).into_owned();
        lines.extend(listed.lines().map(str::to_owned));
    }
    lines.sort();
    lines.join("\n")
}

#[test]
fn a_tree_is_copied_with_modes_and_times() {
    let fixture = Fixture::new();
    fixture.iso();
    run_in(fixture.path(), &["cp", "-rp", "tree", "copy"]).done();
    assert_eq!(
        describe(&fixture.path().join("copy")),
        describe(&fixture.tree())
    );
    tool(
        fixture.path(),
        &["diff", "-r", "--no-dereference", "tree", "copy"],
    );
    // Again, into what exists: as a directory in it.
    run_in(fixture.path(), &["cp", "-r", "tree", "copy"]).done();
    tool(
        fixture.path(),
        &["diff", "-r", "--no-dereference", "tree", "copy/tree"],
    );
    // The contents only.
    run_in(fixture.path(), &["cp", "-r", "tree/.", "copy"]).done();
    fs::remove_dir_all(fixture.path().join("copy/tree")).unwrap();
    tool(
        fixture.path(),
        &["diff", "-r", "--no-dereference", "tree", "copy"],
    );
}

#[test]
fn an_image_is_unpacked_as_xorriso_does() {
    let fixture = Fixture::new();
    fixture.iso();
    run_in(fixture.path(), &["cp", "-rp", "tree.iso", "ours"]).done();
    tool(
        fixture.path(),
        &[
            "xorriso", "-osirrox", "on", "-indev", "tree.iso", "-extract", "/", "theirs",
        ],
    );
    tool(
        fixture.path(),
        &["diff", "-r", "--no-dereference", "theirs", "ours"],
    );
    let in_seconds = |text: String| text.replace(".0000000000", "");
    let ours = in_seconds(describe(&fixture.path().join("ours")));
    let theirs = in_seconds(describe(&fixture.path().join("theirs")));
    assert_eq!(ours, theirs);
    fs::create_dir(fixture.path().join("here")).unwrap();
    run_in(
        fixture.path(),
        &["cp", "-r", "tree.iso::/sub", "tree.iso::/a", "here"],
    )
    .done();
    tool(fixture.path(), &["diff", "-r", "tree/sub", "here/sub"]);
    tool(fixture.path(), &["cmp", "tree/a", "here/a"]);
}

#[test]
fn extended_attributes_of_an_image_are_kept() {
    use rustix::fs::{XattrFlags, getxattr, setxattr};
    let fixture = Fixture::new();
    for name in ["a", "sub"] {
        let path = fixture.tree().join(name);
        setxattr(path, "user.note", name.as_bytes(), XattrFlags::empty()).unwrap();
    }
    tool(
        fixture.path(),
        &[
            "xorriso", "-xattr", "on", "-outdev", "x.iso", "-map", "tree", "/",
        ],
    );
    run_in(fixture.path(), &["cp", "-a", "x.iso", "all"]).done();
    run_in(fixture.path(), &["cp", "-rp", "x.iso", "usual"]).done();
    for name in ["a", "sub"] {
        let mut value = [0; 256];
        let path = fixture.path().join("all").join(name);
        let length = getxattr(path, "user.note", &mut value[..]).unwrap();
        assert_eq!(&value[..length], name.as_bytes());
        let path = fixture.path().join("usual").join(name);
        assert!(getxattr(path, "user.note", &mut value[..]).is_err());
    }
}

#[test]
fn single_files_take_the_name_they_are_given() {
    let fixture = Fixture::new();
    fixture.iso();
    let tree = fixture.tree();
    run_in(fixture.path(), &["cp", "tree.iso::/big", "./out"]).done();
    assert!(fs::read(fixture.path().join("out")).unwrap() == fs::read(tree.join("big")).unwrap());
    assert_eq!(
        fixture.path().join("out").metadata().unwrap().mode() & 0o7777,
        0o444
    );
    // Without -r a link is followed, and overwriting makes the file shorter.
    fs::write(fixture.path().join("over"), vec![7; 9000]).unwrap();
    run_in(fixture.path(), &["cp", "tree/link", "over"]).done();
    assert_eq!(
        fs::read(fixture.path().join("over")).unwrap(),
        bytes(100, 100)
    );
    let absolute = fixture.path().join("absolute");
    run_in(
        fixture.path(),
        &["cp", "tree/a", absolute.to_str().unwrap()],
    )
    .done();
    assert_eq!(fs::read(absolute).unwrap(), bytes(1, 1));
    // With -r it is copied as a link, also when it leads nowhere.
    run_in(
        fixture.path(),
        &["cp", "-r", "tree/dangling", "tree.iso::/link", "tree/empty"],
    )
    .done();
    let target = |name: &str| fs::read_link(tree.join("empty").join(name)).unwrap();
    assert_eq!(target("dangling"), Path::new("/nowhere/at all"));
    assert_eq!(target("link"), Path::new("sub/script"));
}

#[test]
fn holes_stay_holes() {
    let fixture = Fixture::new();
    let path = fixture.path().join("sparse");
    tool(fixture.path(), &["truncate", "-s", "64M", "sparse"]);
    tool(
        fixture.path(),
        &[
            "dd",
            "if=tree/a",
            "of=sparse",
            "bs=1",
            "seek=33554432",
            "conv=notrunc",
            "status=none",
        ],
    );
    run_in(fixture.path(), &["cp", "sparse", "copy"]).done();
    let copy = fixture.path().join("copy");
    tool(fixture.path(), &["cmp", "sparse", "copy"]);
    let used = |path: &Path| path.metadata().unwrap().blocks();
    assert!(
        used(&copy) <= used(&path) + 256,
        "{} {}",
        used(&copy),
        used(&path)
    );
}

#[test]
fn special_files_and_owners_need_root() {
    let fixture = Fixture::odd();
    let run = run_in(fixture.path(), &["cp", "-rp", "tree", "copy"]);
    let fifo = fixture.path().join("copy/fifo");
    if is_root() {
        run.done();
        let kind = fs::symlink_metadata(fifo).unwrap().file_type();
        assert!(std::os::unix::fs::FileTypeExt::is_fifo(&kind));
    } else {
        assert_eq!(run.code, Some(1));
        assert!(
            run.err.contains("tree/fifo") && run.err.contains("1 failed"),
            "{}",
            run.err
        );
    }
}

#[test]
fn nothing_is_copied_onto_itself() {
    let fixture = Fixture::new();
    let tree = fixture.tree();
    fs::hard_link(tree.join("big"), tree.join("same")).unwrap();
    let before = fs::read(tree.join("big")).unwrap();
    for target in [
        "tree/big",
        "tree/same",
        "tree",
        "./tree/../tree/big",
        "dir:tree::/same",
    ] {
        let line = run_in(fixture.path(), &["cp", "tree/big", target]).failed(1);
        assert!(line.contains("same file"), "{line}");
    }
    assert!(fs::read(tree.join("big")).unwrap() == before);
    let line = run_in(fixture.path(), &["cp", "-r", "tree", "tree/sub/deep/copy"]).failed(1);
    assert!(line.contains("into itself"), "{line}");
    assert!(!tree.join("sub/deep/copy").exists());
    let line = run_in(fixture.path(), &["cp", "-r", "tree/.", "tree"]).failed(1);
    assert!(line.contains("into itself"), "{line}");
}

#[test]
fn files_of_a_file_system_and_of_its_copy_are_two() {
    let fixture = Fixture::new();
    let script = "mkdir m1 m2 root root/d; echo one >root/f; ln root/f root/g; \
                  truncate -s 4M one; mkfs.ext4 -q -F -d root one; cp one two";
    tool(fixture.path(), &["sh", "-c", script]);
    let script = "mount -o loop one m1 && mount -o loop two m2 || exit 77; set -e; \
                  echo two >m2/f; $0 cp -a m1 m2 tree/empty; $0 cp -r m1/d/. m2/d; \
                  $0 cp m1/f m2/f; $0 cat m1/f >>m2/f; cat m2/f; umount m1 m2";
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", script, env!("CARGO_BIN_EXE_pagewell")]);
    let run: Run = command.current_dir(fixture.path()).output().unwrap().into();
    if !is_root() || run.code == Some(77) {
        pagewell_skip::skip("no ext4 on loop devices");
        return;
    }
    assert_eq!((run.code, &*run.err), (Some(0), ""));
    assert_eq!(run.out, b"one\none\n");
    for (name, content) in [("m1/f", "one\n"), ("m2/f", "two\n")] {
        let copy = fixture.tree().join("empty").join(name);
        assert_eq!(fs::read_to_string(copy).unwrap(), content);
    }
}

#[test]
fn nothing_replaces_a_directory_a_link_or_a_special_file() {
    let fixture = Fixture::new();
    let outside = fixture.path().join("outside");
    fs::write(&outside, "precious").unwrap();
    fs::create_dir(fixture.path().join("elsewhere")).unwrap();
    let copy = fixture.path().join("copy");
    fs::create_dir(&copy).unwrap();
    fs::create_dir(copy.join("tree")).unwrap();
    symlink(&outside, copy.join("tree/a")).unwrap();
    symlink(fixture.path().join("elsewhere"), copy.join("tree/sub")).unwrap();
    fs::create_dir(copy.join("tree/big")).unwrap();
    let run = run_in(fixture.path(), &["cp", "-r", "tree", "copy"]);
    assert_eq!(run.code, Some(1));
    for part in [
        "tree/a: exists",
        "tree/sub: exists",
        "tree/big: is a directory",
        "3 failed",
    ] {
        assert!(run.err.contains(part), "{} lacks {part}", run.err);
    }
    assert_eq!(fs::read_to_string(outside).unwrap(), "precious");
    assert_eq!(
        fs::read_dir(fixture.path().join("elsewhere"))
            .unwrap()
            .count(),
        0
    );
    assert_eq!(
        fs::read(copy.join("tree/.hidden")).unwrap(),
        bytes(10, 10),
        "the rest is there"
    );
}

#[test]
fn a_link_inside_an_image_does_not_lead_out_of_it() {
    let fixture = Fixture::new();
    symlink("/", fixture.tree().join("root")).unwrap();
    symlink("../../../../../..", fixture.tree().join("up")).unwrap();
    fixture.iso();
    for way in ["root", "up", "root/up", "../.."] {
        let text = run_in(fixture.path(), &["ls", &format!("tree.iso::/{way}/sub/")]).text();
        assert_eq!(text, "deep\nscript\n", "{way}");
        let location = format!("tree.iso::/{way}/etc/passwd");
        run_in(fixture.path(), &["cat", &location]).failed(1);
    }
}

#[test]
fn what_cannot_be_read_does_not_end_the_copy() {
    let fixture = Fixture::new();
    let tree = fixture.tree();
    fs::set_permissions(tree.join("a"), PermissionsExt::from_mode(0o000)).unwrap();
    let run = run_in(fixture.path(), &["cp", "-r", "tree", "copy"]);
    assert!(fixture.path().join("copy/sub/script").exists());
    if is_root() {
        assert_eq!(run.code, Some(0), "{}", run.err);
    }
}
