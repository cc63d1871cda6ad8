//! Disk images that are written: by `cp`, and by clients of `serve`.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;

use pagewell_sunrpc::nfs3::{StableHow, Status};

use crate::client::{Client, User};
use crate::operations::FileHandle;
use crate::support::{Fixture, Serve, bytes, is_root, program, run_in, tool};

const LENGTH: usize = (2 << 20) + 4096;

/// A disk image `disk.img` of bytes, which it returns.
fn disk(fixture: &Fixture) -> Vec<u8> {
    let content = bytes(LENGTH, 3);
    fs::write(fixture.path().join("disk.img"), &content).unwrap();
    content
}

fn stored(fixture: &Fixture) -> Vec<u8> {
    fs::read(fixture.path().join("disk.img")).unwrap()
}

/// A client that is root, and the handle of an image.
fn client_of(serve: &Serve, name: &[u8]) -> (Client, FileHandle) {
    let mut client = Client::connect(serve.address(), User::root());
    let root = client.mount(b"/").expect("mounted");
    let file = client.lookup(&root, name).expect("the image");
    (client, file.handle)
}

fn write(serve: &Serve, content: &[u8]) -> Result<(), Status> {
    write_to(serve, b"disk.img", content)
}

/// Writes these bytes at the beginning, and commits nothing.
pub(crate) fn write_to(serve: &Serve, name: &[u8], content: &[u8]) -> Result<(), Status> {
    let (mut client, file) = client_of(serve, name);
    for (number, piece) in (0u64..).zip(content.chunks(1 << 20)) {
        let written = client.write(&file, number << 20, piece, StableHow::Unstable)?;
        assert_eq!(written.count as usize, piece.len());
    }
    Ok(())
}

#[test]
fn cp_writes_over_an_image_and_keeps_its_length() {
    let fixture = Fixture::new();
    let before = disk(&fixture);
    let run = |arguments: &[&str]| run_in(fixture.path(), arguments);
    let whole = bytes(LENGTH, 4);
    fs::write(fixture.path().join("new.img"), &whole).unwrap();
    assert_eq!(run(&["cp", "new.img", "image:disk.img"]).text(), "");
    assert!(stored(&fixture) == whole);
    // A shorter file leaves the rest, and that is said.
    let short = bytes(100_001, 5);
    fs::write(fixture.path().join("short"), &short).unwrap();
    let copied = run(&["cp", "short", "image:disk.img"]);
    assert_eq!(copied.code, Some(0), "{}", copied.err);
    let rest = (LENGTH - 100_001).to_string();
    let said = ["image:disk.img", "100001", &rest];
    assert!(
        said.iter().all(|part| copied.err.contains(part)),
        "{}",
        copied.err
    );
    assert!(stored(&fixture) == [&short, &whole[100_001..]].concat());
    // Holes are zeros.
    let sparse = fixture.path().join("sparse");
    fs::File::create(&sparse)
        .unwrap()
        .set_len(LENGTH as u64)
        .unwrap();
    run(&["cp", "sparse", "disk.img::/disk.img"]).done();
    assert!(stored(&fixture) == vec![0; LENGTH]);
    // A longer one is refused before anything is written.
    fs::write(fixture.path().join("long"), bytes(LENGTH + 1, 6)).unwrap();
    let line = run(&["cp", "long", "image:disk.img"]).failed(1);
    let (length, room) = ((LENGTH + 1).to_string(), LENGTH.to_string());
    assert!(line.contains(&length) && line.contains(&room), "{line}");
    assert!(stored(&fixture) == vec![0; LENGTH]);
    // From one image to another, and with the permissions as they were.
    fs::write(fixture.path().join("other.img"), &before).unwrap();
    let mode = || {
        fs::metadata(fixture.path().join("disk.img"))
            .unwrap()
            .permissions()
    };
    let mode_before = mode();
    run(&["cp", "-p", "image:other.img", "image:disk.img"]).done();
    assert!(stored(&fixture) == before && mode() == mode_before);
}

#[test]
fn cp_leaves_an_image_alone_when_it_is_to_leave_what_is_there() {
    let fixture = Fixture::new();
    let content = disk(&fixture);
    let run = |arguments: &[&str]| run_in(fixture.path(), arguments);
    fs::write(fixture.path().join("new"), bytes(LENGTH, 4)).unwrap();
    run(&["cp", "-n", "new", "image:disk.img"]).done();
    assert!(stored(&fixture) == content);
    tool(fixture.path(), &["touch", "-d", "2030-01-01", "disk.img"]);
    run(&["cp", "-u", "new", "image:disk.img"]).done();
    assert!(stored(&fixture) == content);
    tool(fixture.path(), &["touch", "-d", "2001-01-01", "disk.img"]);
    run(&["cp", "-u", "new", "image:disk.img"]).done();
    assert!(stored(&fixture) == bytes(LENGTH, 4));
}

#[test]
fn a_copy_of_an_image_can_be_written_as_the_image_can() {
    let fixture = Fixture::new();
    disk(&fixture);
    let image = fixture.path().join("disk.img");
    fs::set_permissions(&image, Permissions::from_mode(0o640)).unwrap();
    let run = |arguments: &[&str]| run_in(fixture.path(), arguments);
    for option in ["-v", "-p"] {
        run(&["cp", option, "image:disk.img", "copy"]).done();
        let mode = fs::metadata(fixture.path().join("copy")).unwrap().mode();
        assert_eq!(mode & 0o7777, 0o640, "{option}");
        run(&["cp", "copy", "image:disk.img"]).done();
        fs::remove_file(fixture.path().join("copy")).unwrap();
    }
    let shown = run(&["stat", "image:disk.img"]).text();
    assert!(shown.contains("0640 -rw-r-----"), "{shown}");
}

#[test]
fn cp_writes_through_a_model() {
    let fixture = Fixture::new();
    let content = bytes(LENGTH, 8);
    fs::write(fixture.path().join("new.img"), &content).unwrap();
    fs::write(fixture.path().join("a"), vec![0; LENGTH]).unwrap();
    let run = |arguments: &[&str]| run_in(fixture.path(), arguments);
    run(&["cp", "new.img", "image:image:a"]).done();
    assert!(fs::read(fixture.path().join("a")).unwrap() == content);
}

/// What is read must not be what is written over: neither a part of the target nor a target that
/// is a part of the source, by whatever name.
#[test]
fn cp_refuses_what_the_target_is_made_of() {
    let fixture = Fixture::new();
    let folder = fixture.path();
    let files = ["a.img", "b.img"];
    for (number, file) in (1..).zip(files) {
        fs::write(folder.join(file), bytes(LENGTH, number)).unwrap();
    }
    let before = files.map(|file| fs::read(folder.join(file)).unwrap());
    fs::hard_link(folder.join("a.img"), folder.join("hard")).unwrap();
    std::os::unix::fs::symlink("b.img", folder.join("soft")).unwrap();
    for (from, to) in [
        ("hard", "image:a.img"),
        ("soft", "image:b.img"),
        ("dir:.::/a.img", "image:image:a.img"),
        ("image:image:b.img", "image:soft"),
        ("a.img", "image:a.img"),
        ("image:a.img", "a.img"),
        ("image:b.img", "soft"),
        ("image:a.img", "dir:.::/hard"),
    ] {
        let line = run_in(folder, &["cp", from, to]).failed(1);
        assert!(line.contains("over what is being read"), "{from}: {line}");
        let after = files.map(|file| fs::read(folder.join(file)).unwrap());
        assert!(after == before, "{from} to {to}");
    }
    // A copy of one is no part of it.
    run_in(folder, &["cp", "a.img", "c.img"]).done();
    run_in(folder, &["cp", "c.img", "image:a.img"]).done();
    // The other leg of a mirror that version 0.2 kept would differ.
    fs::write(folder.join("b.img.pagewell-mirror"), "").unwrap();
    let line = run_in(folder, &["cp", "c.img", "image:b.img"]).failed(1);
    assert!(line.contains("was a leg of a mirror"), "{line}");
}

#[test]
fn cp_to_a_plain_path_replaces_the_file() {
    let fixture = Fixture::new();
    disk(&fixture);
    let run = |arguments: &[&str]| run_in(fixture.path(), arguments);
    fs::write(fixture.path().join("short"), b"short").unwrap();
    run(&["cp", "short", "disk.img"]).done();
    assert_eq!(stored(&fixture), b"short", "a file, not an image");
    if is_root() {
        tool(fixture.path(), &["mknod", "block", "b", "7", "77"]);
        let line = run(&["cp", "short", "block"]).failed(1);
        assert!(line.contains("image:PATH"), "{line}");
    }
}

#[test]
fn what_an_image_cannot_take_is_refused() {
    let fixture = Fixture::new();
    let content = disk(&fixture);
    let run = |arguments: &[&str]| run_in(fixture.path(), arguments);
    for (arguments, part) in [
        (
            &["cp", "-r", "tree", "image:disk.img"][..],
            "nothing can be added",
        ),
        (
            &["cp", "tree/a", "image:disk.img::/new"],
            "nothing can be added",
        ),
        (
            &["cp", "tree/a", "image:nothing.img"],
            "nothing.img: No such file",
        ),
        (
            &["cp", "tree/a", "tree/big", "image:disk.img"],
            "not a directory",
        ),
    ] {
        let run = run(arguments);
        assert_eq!(run.code, Some(1), "{arguments:?}: {}", run.err);
        assert!(run.err.contains(part), "{} lacks {part}", run.err);
    }
    let path = fixture.path().join("disk.img");
    fs::set_permissions(&path, Permissions::from_mode(0o444)).unwrap();
    let line = run(&["cp", "tree/a", "image:disk.img"]).failed(1);
    assert!(
        line.contains("cannot be written: disk.img: its permissions"),
        "{line}"
    );
    assert!(stored(&fixture) == content);
    for command in ["cat", "sum", "stat"] {
        run(&[command, "image:disk.img"]).done();
    }
}

#[test]
fn a_failure_to_reach_the_device_is_one_of_cp() {
    let fixture = Fixture::new();
    disk(&fixture);
    fs::write(fixture.path().join("new.img"), bytes(LENGTH, 4)).unwrap();
    let mut command = Command::new("sh");
    let script = "trap '' XFSZ; ulimit -f 2048; exec \"$@\"";
    command
        .args(["-c", script, "sh"])
        .arg(program().get_program());
    command.args(["cp", "new.img", "image:disk.img"]);
    let output = command.current_dir(fixture.path()).output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(
        error.contains("image:disk.img") && error.contains("File too large"),
        "{error}"
    );
}

#[test]
fn what_clients_wrote_is_in_the_file_after_a_stop() {
    let fixture = Fixture::new();
    let before = disk(&fixture);
    let image = fixture.path().join("disk.img");
    let content = bytes(LENGTH, 9);
    for length in [LENGTH, 300] {
        fs::write(&image, &before).unwrap();
        let source = format!("image:{}", image.display());
        let mut serve = Serve::start(&["--squash", "none", &source]);
        let lines = serve.lines_until("image ").concat();
        assert!(lines.contains("disk.img: read and written "), "{lines}");
        let url = serve.libnfs_url("/disk.img");
        write(&serve, &content[..length]).unwrap();
        let read = tool(fixture.path(), &["nfs-cat", &url]);
        assert!(read[..] == [&content[..length], &before[length..]].concat());
        serve.signal("TERM");
        let (code, _, err) = serve.end();
        assert_eq!(code, Some(0), "{err}");
        assert!(stored(&fixture) == read);
    }
}

#[test]
fn an_image_that_may_not_be_written_is_served_to_be_read() {
    let fixture = Fixture::new();
    let content = disk(&fixture);
    let image = fixture.path().join("disk.img");
    let source = format!("image:{}", image.display());
    for (mode, options, note) in [
        (0o444, &[][..], Some("read-only: ")),
        (0o644, &["--read-only"], None),
    ] {
        fs::set_permissions(&image, Permissions::from_mode(mode)).unwrap();
        let arguments = [&["--squash", "none"], options, &[&source]].concat();
        let mut serve = Serve::start(&arguments);
        let lines = serve.lines_until("image ").concat();
        assert!(lines.contains("disk.img: read past") || lines.contains("disk.img: read through"));
        let reason = "its permissions let nobody write";
        assert_eq!(note.is_some(), lines.contains(reason), "{lines}");
        let url = serve.libnfs_url("/disk.img");
        assert_eq!(write(&serve, b"x"), Err(Status::ReadOnly), "{mode:o}");
        assert!(tool(fixture.path(), &["nfs-cat", &url]) == content);
        serve.signal("TERM");
        assert_eq!(serve.end().0, Some(0));
    }
    assert!(stored(&fixture) == content);
}

#[test]
fn an_image_is_written_by_one_program_at_a_time() {
    let fixture = Fixture::new();
    let content = disk(&fixture);
    let image = format!("image:{}", fixture.path().join("disk.img").display());
    let serve = Serve::start(&[&image]);
    let run = |arguments: &[&str]| run_in(Path::new(fixture.path()), arguments);
    let state = fixture.path().join("state").display().to_string();
    let other = ["--listen", "127.0.0.1:0", "--state-dir", &state, &image];
    let line = run(&[&["serve"], &other[..]].concat()).failed(1);
    assert!(
        line.contains("disk.img: in use") && line.contains("--read-only"),
        "{line}"
    );
    assert_eq!(line.matches("disk.img").count(), 1, "{line}");
    let line = run(&["cp", "tree/a", "image:disk.img"]).failed(1);
    assert!(line.contains("disk.img: in use"), "{line}");
    // Reading stays free, also by a server.
    assert!(run(&["cat", "image:disk.img"]).done() == content);
    let reader = Serve::start(&["--read-only", &image]);
    drop((serve, reader));
    let cut = run(&["cp", "tree/a", "image:disk.img"]);
    assert_eq!(cut.code, Some(0), "{}", cut.err);
}

#[test]
fn a_stop_that_cannot_write_everything_says_so() {
    let fixture = Fixture::new();
    disk(&fixture);
    let image = format!("image:{}", fixture.path().join("disk.img").display());
    let serve = Serve::start_limited(&["--squash", "none", &image], 1 << 20);
    write(&serve, &bytes(LENGTH, 9)).unwrap();
    serve.signal("TERM");
    let (code, _, err) = serve.end();
    assert_eq!(code, Some(1), "{err}");
    assert!(err.contains("written data is not on the device"), "{err}");
    assert!(
        err.contains("bytes could not be written and are lost"),
        "{err}"
    );
}
