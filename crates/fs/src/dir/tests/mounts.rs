//! Mounts inside exports, exports that are mounts, and other file systems. Needs root.

use super::*;
use crate::Error;
use std::process::Command;

/// Gives the calling thread mounts of its own; false (and says so) when it may not.
fn own_mounts() -> bool {
    if !is_root() {
        return false;
    }
    // SAFETY: no descriptor table is unshared.
    let own = unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWNS) };
    let private = own.is_ok() && mount(&["--make-rprivate".as_ref(), "/".as_ref()]);
    if !private {
        eprintln!("SKIPPED: may not mount");
    }
    private
}

fn mount(arguments: &[&std::ffi::OsStr]) -> bool {
    super::super::identity::restore_thread().unwrap();
    let done = Command::new("mount").args(arguments).status();
    done.is_ok_and(|status| status.success())
}

/// Lazily: another test may be starting a program, which briefly has all descriptors.
fn unmount(at: &Path) {
    super::super::identity::restore_thread().unwrap();
    let done = Command::new("umount").arg("-l").arg(at).status().unwrap();
    assert!(done.success());
}

fn mount_tmpfs(at: &Path) -> bool {
    mount(&[
        "-t".as_ref(),
        "tmpfs".as_ref(),
        "none".as_ref(),
        at.as_os_str(),
    ])
}

#[test]
fn mount_points_are_listed_and_not_entered() {
    if !own_mounts() {
        return;
    }
    with_both(|fixture| {
        let who = root_credentials();
        let call = waiting(&who);
        let (files, root) = (&fixture.files, fixture.root());
        std::fs::create_dir(fixture.path("m")).unwrap();
        let below = fixture.id("m");
        assert!(mount_tmpfs(&fixture.path("m")));
        std::fs::write(fixture.path("m/inside"), b"x").unwrap();
        assert_eq!(files.lookup(&call, &root, b"m"), Err(Error::AccessDenied));
        let up = files.lookup(&call, &below, b"..").unwrap();
        assert_eq!(up.id, root, "the directory under the mount is still ours");
        assert_eq!(files.lookup(&call, &below, b"inside"), Err(Error::NotFound));
        let mut listed = 0;
        files
            .read_directory(&call, &root, 0, true, &mut |entry| {
                if entry.name == b"m" {
                    listed += 1;
                    assert!(entry.entry.is_none());
                }
                true
            })
            .unwrap();
        assert_eq!(listed, 1);
        // the same file system, mounted a second time
        std::fs::create_dir(fixture.path("b")).unwrap();
        let (outside, inside) = (fixture.outside(""), fixture.path("b"));
        assert!(mount(&[
            "--bind".as_ref(),
            outside.as_os_str(),
            inside.as_os_str()
        ]));
        assert_eq!(files.lookup(&call, &root, b"b"), Err(Error::AccessDenied));
        let rmdir = files.remove_directory(&call, &root, b"b");
        assert_eq!(rmdir.err(), Some(Error::AccessDenied));
        for name in ["m", "b"] {
            let path = fixture.path(name);
            unmount(&path);
        }
        assert_eq!(fixture.id("m"), below);
    });
}

#[test]
fn whole_file_systems_and_parts_of_them_are_told_apart() {
    if !own_mounts() {
        return;
    }
    let top = tempfile::tempdir_in("/var/tmp").unwrap();
    let (whole, part) = (top.path().join("whole"), top.path().join("part"));
    std::fs::create_dir(&whole).unwrap();
    std::fs::create_dir(&part).unwrap();
    assert!(mount_tmpfs(&whole));
    for name in ["in", "in/d", "out"] {
        std::fs::create_dir(whole.join(name)).unwrap();
    }
    std::fs::write(whole.join("in/f"), b"x").unwrap();
    let inside = whole.join("in");
    assert!(mount(&[
        "--bind".as_ref(),
        inside.as_os_str(),
        part.as_os_str()
    ]));
    let open = |path: &Path| Directory::open(path, Options::default()).unwrap();
    let files = open(&whole);
    assert!(files.tree.whole_mount);
    let d = walk(&files, "in/d").unwrap();
    let who = root_credentials();
    assert_eq!(
        open(&whole).attributes(&waiting(&who), &d.id),
        Ok(d.attributes)
    );

    let files = open(&part);
    assert!(!files.tree.whole_mount);
    let (d, f) = (walk(&files, "d").unwrap(), walk(&files, "f").unwrap());
    for entry in [d, f] {
        let again = open(&part);
        assert_eq!(
            again.attributes(&waiting(&who), &entry.id),
            Ok(entry.attributes)
        );
    }
    super::super::identity::restore_thread().unwrap();
    std::fs::rename(whole.join("in/d"), whole.join("out/d")).unwrap();
    let again = open(&part);
    assert_eq!(again.attributes(&waiting(&who), &d.id), Err(Error::Stale));
    drop((again, files));
    super::super::identity::restore_thread().unwrap();
    for path in [&part, &whole] {
        unmount(path);
    }
}

#[test]
fn a_full_file_system_counts_what_was_written() {
    if !own_mounts() {
        return;
    }
    let top = tempfile::tempdir_in("/var/tmp").unwrap();
    let options = ["-t", "tmpfs", "-o", "size=64k", "none"].map(std::ffi::OsStr::new);
    let mut arguments = options.to_vec();
    arguments.push(top.path().as_os_str());
    assert!(mount(&arguments));
    let files = Directory::open(top.path(), Options::default()).unwrap();
    let who = root_credentials();
    let call = waiting(&who);
    let mode = CreateMode::Guarded(mode_of(0o600));
    let id = files
        .create(&call, &files.root(), b"f", &mode)
        .unwrap()
        .entry
        .id;
    let data = vec![7; 1 << 20];
    let written = files
        .write(&call, &id, 0, &data, Stability::Unstable)
        .unwrap();
    assert!(
        written.count > 0 && written.count <= 64 * 1024,
        "{}",
        written.count
    );
    let more = files.write(&call, &id, 1 << 20, &data, Stability::Unstable);
    assert_eq!(more.err(), Some(Error::NoSpace));
    assert_eq!(
        read_as(&files, &who, &id).unwrap().len(),
        written.count as usize
    );
    drop(files);
    unmount(top.path());
}
