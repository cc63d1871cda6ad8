//! `cp` beside that of GNU: the same command lines in two equal directories.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;

use crate::support::{Fixture, Run, Serve, bytes, is_root, run, run_in, tool};

/// What the commands are run on. Names that begin with a digit are old.
const SETUP: &str = r#"
umask 022
mkdir -p m1 m2 d/sub dir other empty
echo first >m1/f; echo second >m2/f; echo a >a; echo b >b
echo longer >existing; chmod 640 existing
head -c 300000 /dev/urandom >big; chmod 4755 big
echo x >d/x; chmod 666 d/x; echo deep >d/sub/deep; chmod 500 d/sub/deep
chmod 777 d/sub; ln -s x d/link; ln -s nowhere d/dangling; mkfifo d/pipe
ln a d/hard1; ln a d/hard2; echo other >other/sub
mkdir other/d; echo new >other/d/x; echo more >other/d/more
ln -s a link; echo old >0old; echo newer >1newer
touch -d 2001-02-03T04:05:06 a b d/x d/sub d 0old big existing; touch -d 2031-02-03 1newer
touch -h -d 2001-01-01 d/link
mkdir l l/in; ln -s ../a l/a1; ln -s a1 l/a2; ln -s ../other l/dir; ln -s ../../d/sub l/in/sub
ln -s "$PWD/b" l/away; ln -s .. l/in/up; ln -s . l/in/here; ln -s gone l/gone; ln -s ../d/x l/in/x
ln -s d ld; echo low >l/low; ln l/low l/low2; ln -s low l/in2
"#;

/// Command lines, and whether the times of what comes out are those of GNU, too.
const LINES: &[(&str, bool)] = &[
    ("a backup/", false),
    ("-r d backup/", false),
    ("a b/", false),
    ("a/ c", false),
    ("m1/f m2/f dir", false),
    ("a a dir", false),
    ("-r d d dir", false),
    ("-r d other/d dir", false),
    ("a existing", false),
    ("-p a existing", true),
    ("big c", false),
    ("-p big c", true),
    ("--preserve=mode big c", false),
    ("--preserve=timestamps big c", true),
    ("--preserve big c", true),
    ("-r d c", false),
    ("-R d c", false),
    ("-r d/. empty", false),
    ("-a d c", true),
    ("-rp d c", true),
    ("-a d/. empty", true),
    ("-r --preserve=links d c", false),
    ("-d a d/hard1 link dir", false),
    ("-P link c", false),
    ("link c", false),
    ("-n a existing", false),
    ("-rn d other/d dir", false),
    ("-u 0old existing", false),
    ("-u 0old 1newer", false),
    ("-u 1newer existing", false),
    ("-v a c", false),
    ("-rv m1 m2 dir", false),
    ("-nv a existing", false),
    ("-uv 0old 1newer", false),
    ("d c", false),
    ("a nowhere/c", false),
    ("nothing c", false),
    ("a b existing", false),
    ("-r d a", false),
    ("a d", false),
    ("-a existing a", false),
    ("-rL l c", false),
    ("-RL l c", false),
    ("-aL l c", true),
    ("-La l c", true),
    ("-rL --preserve=links l c", false),
    ("-rL d c", false),
    ("-rLv l/in c", false),
    ("-rH ld link dir", false),
    ("-r ld link dir", false),
    ("-aH ld c", false),
    ("-aH a link dir", false),
    ("-Ha link c", false),
    ("-H link c", false),
    ("-L link c", false),
    ("-LP link c", false),
    ("-PL link c", false),
    ("-dL link c", false),
    ("-Ld link c", false),
    ("-rPH ld c", false),
    ("-rHP ld c", false),
    ("--preserve=links a link dir", false),
    ("-f a existing", false),
    ("-nf a existing", false),
    ("-f a link", false),
];

/// Everything below a directory: paths, types, modes, links, sizes and contents, and times.
pub(crate) fn describe(directory: &Path, times: bool) -> String {
    let form = if times {
        "%P %y %m %n %U %G %l %T@\\n"
    } else {
        "%P %y %m %n %U %G %l\\n"
    };
    let script = format!(
        "find . -mindepth 1 ! -type d -printf '{form}' -o -mindepth 1 -printf '{form}' | sort; \
         find . -type f -exec sha256sum {{}} + | sort"
    );
    let listed = tool(directory, &["sh", "-c", &script]);
    String::from_utf8(listed).unwrap()
}

fn shell(directory: &Path, script: &str) -> Run {
    let output = Command::new("sh")
        .args(["-c", script])
        .current_dir(directory)
        .env("LC_ALL", "C")
        .env("OURS", env!("CARGO_BIN_EXE_pagewell"))
        .output();
    output.unwrap().into()
}

#[test]
fn command_lines_do_what_those_of_gnu_do() {
    let base = tempfile::tempdir().unwrap();
    let model = base.path().join("model");
    fs::create_dir(&model).unwrap();
    assert_eq!(shell(&model, SETUP).err, "");
    compare(base.path(), LINES, &["022", "077"], &shell);
}

/// Runs lines by this program and by that of GNU, each in a copy of `model`.
pub(crate) fn compare(
    base: &Path,
    lines: &[(&str, bool)],
    umasks: &[&str],
    shell: &dyn Fn(&Path, &str) -> Run,
) {
    for (line, times) in lines {
        for umask in umasks {
            let [ours, theirs] = ["$OURS cp", "cp"].map(|program| {
                let place = base.join("place");
                tool(base, &["cp", "-a", "model", "place"]);
                let ran = shell(&place, &format!("umask {umask}; {program} {line}"));
                let left = describe(&place, *times);
                fs::remove_dir_all(&place).unwrap();
                (ran, left)
            });
            let said = format!("cp {line}: {} / {}", ours.0.err, theirs.0.err);
            assert_eq!(ours.1, theirs.1, "{said}");
            assert_eq!(ours.0.code, theirs.0.code, "{said}");
            // What is told of each copy is told in the order of the names; GNU's is the system's.
            let lines = |run: &Run| {
                let text = String::from_utf8(run.out.clone()).unwrap();
                let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
                lines.sort();
                lines
            };
            assert_eq!(lines(&ours.0), lines(&theirs.0), "{said}");
        }
    }
}

#[test]
fn memory_of_the_command_is_no_target() {
    let fixture = Fixture::new();
    for target in ["ram:1m", "ram:1m::/x", "image:ram:16m"] {
        let line = run_in(fixture.path(), &["cp", "tree/big", target]).failed(1);
        assert!(line.contains("keeps nothing"), "{line}");
    }
}

#[test]
fn a_directory_is_not_copied_into_itself_and_nothing_is_left() {
    let fixture = Fixture::new();
    let before = describe(fixture.path(), false);
    let absolute = fixture.tree().join("sub/deep/new");
    let absolute = absolute.to_str().unwrap();
    for (source, target) in [
        ("tree", "tree/sub"),
        ("tree", "tree/new"),
        ("tree", "tree/sub/deep/new"),
        ("tree", absolute),
        ("dir:tree::/", "tree/sub"),
        ("tree/.", "tree/sub"),
        ("tree/sub", "dir:tree/sub/deep::/new"),
        ("tree", "tree/to-sub/new"),
    ] {
        let line = run_in(fixture.path(), &["cp", "-r", source, target]).failed(1);
        assert!(line.contains("into itself"), "{line}");
        assert_eq!(describe(fixture.path(), false), before, "{source} {target}");
    }
    let serve = Serve::start(&["--squash", "none", fixture.tree().to_str().unwrap()]);
    let url = serve.urls()[0];
    let (from, to) = (
        format!("{url}::/sub"),
        format!("{url}?rsize=64k::/sub/deep/x"),
    );
    let line = run(&["cp", "-r", &from, &to]).failed(1);
    assert!(line.contains("into itself"), "{line}");
    assert_eq!(describe(fixture.path(), false), before);
}

#[test]
fn links_are_kept_between_images_servers_and_directories() {
    let fixture = Fixture::new();
    fs::hard_link(fixture.tree().join("big"), fixture.tree().join("sub/big")).unwrap();
    let image = [
        "xorriso",
        "-as",
        "mkisofs",
        "-quiet",
        "-R",
        "--hardlinks",
        "-o",
        "x.iso",
        "tree",
    ];
    tool(fixture.path(), &image);
    fs::create_dir(fixture.path().join("exported")).unwrap();
    let exported = fixture.path().join("exported");
    let serve = Serve::start(&["--squash", "none", exported.to_str().unwrap()]);
    let target = format!("{}::/copy", serve.urls()[0]);
    run_in(fixture.path(), &["cp", "-a", "tree", &target]).done();
    run_in(fixture.path(), &["cp", "-a", "tree", "copy"]).done();
    run_in(fixture.path(), &["cp", "-a", "x.iso", "unpacked"]).done();
    for copy in ["exported/copy", "copy", "unpacked"] {
        let number = |name: &str| {
            fixture
                .path()
                .join(copy)
                .join(name)
                .metadata()
                .unwrap()
                .ino()
        };
        assert_eq!(number("big"), number("sub/big"), "{copy}");
        tool(
            fixture.path(),
            &["diff", "-r", "--no-dereference", "tree", copy],
        );
    }
    // Without being asked to, no.
    run_in(fixture.path(), &["cp", "-r", "tree", "plain"]).done();
    let number = |name: &str| {
        fixture
            .path()
            .join("plain")
            .join(name)
            .metadata()
            .unwrap()
            .ino()
    };
    assert_ne!(number("big"), number("sub/big"));
}

/// An access control list that lets user 4321 read (posix_acl_xattr of the kernel, version 2).
fn access_list() -> Vec<u8> {
    let mut list = 2u32.to_le_bytes().to_vec();
    for (tag, permissions, id) in [
        (1u16, 6u16, u32::MAX),
        (2, 4, 4321),
        (4, 4, u32::MAX),
        (16, 4, u32::MAX),
        (32, 0, u32::MAX),
    ] {
        list.extend(tag.to_le_bytes());
        list.extend(permissions.to_le_bytes());
        list.extend(id.to_le_bytes());
    }
    list
}

#[test]
fn extended_attributes_and_access_lists_are_kept_or_their_loss_is_told() {
    use rustix::fs::{XattrFlags, getxattr, setxattr};
    const LIST: &str = "system.posix_acl_access";
    let fixture = Fixture::new();
    let tree = fixture.tree();
    let set = |name: &str, attribute: &str, value: &[u8]| {
        setxattr(tree.join(name), attribute, value, XattrFlags::empty())
    };
    set("a", "user.note", b"of a").unwrap();
    set("sub", "user.note", b"of sub").unwrap();
    let has_lists = set("a", LIST, &access_list()).is_ok();
    let get = |path: &str, name: &str| {
        let mut value = [0; 256];
        let length = getxattr(fixture.path().join(path), name, &mut value[..]).unwrap_or(0);
        value[..length].to_vec()
    };
    run_in(fixture.path(), &["cp", "-a", "tree", "all"]).done();
    assert_eq!(get("all/a", "user.note"), b"of a");
    assert_eq!(get("all/sub", "user.note"), b"of sub");
    run_in(fixture.path(), &["cp", "-rp", "tree", "usual"]).done();
    assert_eq!(get("usual/a", "user.note"), b"");
    for copy in ["all/a", "usual/a"] {
        assert_eq!(!get(copy, LIST).is_empty(), has_lists, "{copy}");
        assert_eq!(get(copy, LIST), get("tree/a", LIST));
    }
    run_in(fixture.path(), &["cp", "--preserve=xattr", "tree/a", "one"]).done();
    assert_eq!(get("one", "user.note"), b"of a");
    // A server has no place for them, and does not tell them: once, however many there are.
    let exported = fixture.path().join("exported");
    fs::create_dir(&exported).unwrap();
    let serve = Serve::start(&["--squash", "none", exported.to_str().unwrap()]);
    let url = serve.urls()[0];
    for (from, to) in [
        ("tree", format!("{url}::/copy")),
        (&*format!("{url}::/copy"), "back".into()),
    ] {
        let run = run_in(fixture.path(), &["cp", "-a", from, &to]);
        assert_eq!(
            (run.code, run.err.lines().count()),
            (Some(0), 1),
            "{}",
            run.err
        );
        assert!(run.err.contains("extended attributes"), "{}", run.err);
    }
    let line = run_in(
        fixture.path(),
        &["cp", "--preserve=xattr", "tree/a", &format!("{url}::/one")],
    );
    assert_eq!(line.failed(1).lines().count(), 1);
    // The bytes are there, as after cp(1).
    assert_eq!(fs::read(exported.join("one")).unwrap(), bytes(1, 1));
}

/// In a namespace with a full file system of its own.
fn on_a_small_filesystem(fixture: &Fixture, kib: u32, script: &str) -> Option<Run> {
    let mounted =
        format!("mkdir -p full && mount -t tmpfs -o size={kib}k none full || exit 77; {script}");
    let run: Run = Command::new("unshare")
        .args(["-m", "sh", "-c", &mounted])
        .current_dir(fixture.path())
        .env("OURS", env!("CARGO_BIN_EXE_pagewell"))
        .env("LC_ALL", "C")
        .output()
        .unwrap()
        .into();
    if !is_root() && run.code != Some(0) {
        pagewell_skip::skip("needs root to mount a small file system");
        return None;
    }
    assert_ne!(run.code, Some(77), "{}", run.err);
    Some(run)
}

#[test]
fn a_full_target_ends_the_copy_with_one_message_and_no_empty_files() {
    let fixture = Fixture::new();
    let many = fixture.path().join("many");
    fs::create_dir(&many).unwrap();
    for number in 0..100 {
        fs::write(many.join(format!("file{number:03}")), bytes(50_000, number)).unwrap();
    }
    tool(
        fixture.path(),
        &[
            "xorriso", "-as", "mkisofs", "-quiet", "-R", "-o", "x.iso", "many",
        ],
    );
    for source in ["many", "x.iso"] {
        let script = format!("$OURS cp -r {source} full/copy; echo $?; find full/copy -size -97");
        let Some(run) = on_a_small_filesystem(&fixture, 2048, &script) else {
            return;
        };
        let out = String::from_utf8(run.out).unwrap();
        assert_eq!(out, "1\nfull/copy\n", "{}", run.err);
        let lines: Vec<&str> = run.err.lines().collect();
        assert_eq!(lines.len(), 2, "{}", run.err);
        assert!(lines[0].contains("full/copy/file0"), "{}", run.err);
        assert!(
            lines[0].contains("no space left: the copy ends"),
            "{}",
            run.err
        );
        assert!(lines[1].contains(" copied, 1 failed"), "{}", run.err);
    }
}

#[test]
fn the_message_names_the_side_that_failed() {
    let fixture = Fixture::new();
    fixture.iso();
    let script = "$OURS cp tree.iso::/big full; echo $?; ls full";
    if let Some(run) = on_a_small_filesystem(&fixture, 512, script) {
        assert_eq!(run.out, b"1\n");
        assert_eq!(
            run.err,
            "pagewell: full/big: no space left: the copy ends here\n"
        );
    }
    fs::set_permissions(fixture.tree().join("a"), PermissionsExt::from_mode(0o000)).unwrap();
    if !is_root() {
        let line = run_in(fixture.path(), &["cp", "tree/a", "copy"]).failed(1);
        assert!(
            line.starts_with("pagewell: tree/a: permission denied"),
            "{line}"
        );
        assert!(!fixture.path().join("copy").exists());
    }
}

#[test]
fn what_a_server_says_gets_neither_devices_nor_permissions() {
    if !is_root() {
        pagewell_skip::skip("needs root to make devices");
        return;
    }
    let fixture = Fixture::new();
    let script = "cd tree && mknod disk b 7 200 && mknod null c 1 3 && chmod 666 disk null a && \
                  chmod 777 sub && chmod 6777 sub/script";
    assert_eq!(shell(fixture.path(), script).err, "");
    let serve = Serve::start(&["--squash", "none", fixture.tree().to_str().unwrap()]);
    let from = format!("{}::/", serve.urls()[0]);
    let command = format!("umask 022; $OURS cp -r {from} copy");
    let run = shell(fixture.path(), &command);
    assert_eq!(run.code, Some(1), "{}", run.err);
    assert_eq!(run.err.lines().count(), 3, "{}", run.err);
    assert!(run.err.contains("/disk: is a device"), "{}", run.err);
    let copy = fixture.path().join("copy");
    assert!(!copy.join("disk").exists() && !copy.join("null").exists());
    let mode = |name: &str| copy.join(name).metadata().unwrap().mode() & 0o7777;
    assert_eq!(
        (mode("a"), mode("sub"), mode("sub/script")),
        (0o644, 0o755, 0o755)
    );
    // Asked for, they are made.
    let run = run_in(fixture.path(), &["cp", "-a", &from, "all"]);
    assert_eq!(run.code, Some(0), "{}", run.err);
    assert!(fs::symlink_metadata(fixture.path().join("all/disk")).is_ok());
}

/// The number of calls of a system call in a summary of strace.
fn calls(summary: &str, name: &str) -> u64 {
    let line = summary
        .lines()
        .find(|line| line.split_whitespace().last() == Some(name));
    let words: Vec<&str> = line.map_or(Vec::new(), |line| line.split_whitespace().collect());
    words.get(3).map_or(0, |count| count.parse().unwrap())
}

#[test]
fn a_copy_is_synchronised_once_and_looks_seldom() {
    let fixture = Fixture::new();
    let many = fixture.path().join("many");
    fs::create_dir(&many).unwrap();
    for number in 0..1000 {
        fs::write(many.join(format!("{number}")), bytes(3000, number)).unwrap();
    }
    let large = fs::File::create(many.join("large")).unwrap();
    for _ in 0..16 {
        std::io::Write::write_all(&mut &large, &bytes(1 << 20, 5)).unwrap();
    }
    let image = [
        "xorriso", "-as", "mkisofs", "-quiet", "-R", "-o", "x.iso", "many",
    ];
    tool(fixture.path(), &image);
    let trace = |line: &str| {
        let script = format!("strace -f -c -o summary $OURS cp {line}");
        let run = shell(fixture.path(), &script);
        assert_eq!(run.code, Some(0), "{}", run.err);
        fs::read_to_string(fixture.path().join("summary")).unwrap()
    };
    for (line, statx_max) in [
        ("-r many/. copy", 8000),
        ("-r x.iso unpacked", 6000),
        ("-r many/. copy", 9000),
        ("x.iso::/large one", 60),
        ("many/large two", 60),
    ] {
        let summary = trace(line);
        assert_eq!(calls(&summary, "fdatasync"), 0, "{line}\n{summary}");
        let synchronised = calls(&summary, "syncfs");
        if line.starts_with("-r") {
            assert_eq!(
                (synchronised, calls(&summary, "fsync")),
                (1, 0),
                "{line}\n{summary}"
            );
        } else {
            assert_eq!(
                (synchronised, calls(&summary, "fsync")),
                (0, 2),
                "{line}\n{summary}"
            );
        }
        let looks = calls(&summary, "statx");
        assert!(looks <= statx_max, "{line}: {looks} statx\n{summary}");
        let never = trace(&format!("--sync never {line}"));
        let all: u64 = ["fdatasync", "fsync", "syncfs"]
            .iter()
            .map(|name| calls(&never, name))
            .sum();
        assert_eq!(all, 0, "{line}\n{never}");
    }
    tool(fixture.path(), &["diff", "-r", "many", "copy"]);
    tool(fixture.path(), &["diff", "-r", "many", "unpacked"]);
}
