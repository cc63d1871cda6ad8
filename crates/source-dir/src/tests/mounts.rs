//! Mounts inside exports, exports that are mounts, and other file systems. Needs root.

use super::*;
use pagewell_fs::{Error, Payload};
use std::os::fd::AsFd;
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
        pagewell_skip::skip("may not mount");
    }
    private
}

fn mount(arguments: &[&std::ffi::OsStr]) -> bool {
    pagewell_fs::identity::act_for_server();
    let done = Command::new("mount").args(arguments).status();
    done.is_ok_and(|status| status.success())
}

/// Lazily: another test may be starting a program, which briefly has all descriptors.
fn unmount(at: &Path) {
    pagewell_fs::identity::act_for_server();
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
        std::fs::write(fixture.path("m/beneath"), b"x").unwrap();
        assert!(mount_tmpfs(&fixture.path("m")));
        std::fs::write(fixture.path("m/inside"), b"x").unwrap();
        let again = fixture.restarted();
        let inside = again.mounts_inside();
        let inside: Vec<_> = inside.iter().filter_map(|at| at.file_name()).collect();
        assert_eq!(inside, ["m"]);
        if fixture.files.tree().objects().bounds().has_own_mount() {
            shows_what_is_beneath(fixture, &below);
            unmount(&fixture.path("m"));
            return;
        }
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

/// With a mount of its own the export has no mount points.
fn shows_what_is_beneath(fixture: &Fixture, below: &FileId) {
    let who = root_credentials();
    let call = waiting(&who);
    for files in [&fixture.files, &fixture.restarted()] {
        let root = files.root();
        assert_eq!(files.lookup(&call, &root, b"m").unwrap().id, *below);
        assert_eq!(files.lookup(&call, below, b"..").unwrap().id, root);
        assert!(files.lookup(&call, below, b"beneath").is_ok());
        assert_eq!(files.lookup(&call, below, b"inside"), Err(Error::NotFound));
        let mut listed = 0;
        files
            .read_directory(&call, &root, 0, true, &mut |entry| {
                if entry.name == b"m" {
                    listed += 1;
                    assert_eq!(entry.entry.unwrap().id, *below);
                }
                true
            })
            .unwrap();
        assert_eq!(listed, 1);
        let rmdir = files.remove_directory(&call, &root, b"m");
        assert_eq!(rmdir.err(), Some(Error::AccessDenied));
    }
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
    assert!(files.tree().objects().bounds().is_whole());
    let d = walk(&files, "in/d").unwrap();
    let who = root_credentials();
    assert_eq!(
        open(&whole).attributes(&waiting(&who), &d.id),
        Ok(d.attributes)
    );

    let files = open(&part);
    assert!(!files.tree().objects().bounds().is_whole());
    let (d, f) = (walk(&files, "d").unwrap(), walk(&files, "f").unwrap());
    for entry in [d, f] {
        let again = open(&part);
        assert_eq!(
            again.attributes(&waiting(&who), &entry.id),
            Ok(entry.attributes)
        );
    }
    pagewell_fs::identity::act_for_server();
    std::fs::rename(whole.join("in/d"), whole.join("out/d")).unwrap();
    let again = open(&part);
    assert_eq!(again.attributes(&waiting(&who), &d.id), Err(Error::Stale));
    drop((again, files));
    pagewell_fs::identity::act_for_server();
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

/// Where a filter forbids openat2, what leads into a mount is found out and refused; and a refusal
/// that comes later, whatever its reason, does not make lookups less careful.
#[test]
fn mounts_are_not_entered_where_openat2_is_refused() {
    if !own_mounts() {
        return;
    }
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let at = folder.path().join("m");
    std::fs::create_dir(&at).unwrap();
    // without a mount of its own, as where that cannot be had
    let open = || {
        let options = Options {
            force_trails: true,
            ..Options::default()
        };
        Directory::open(folder.path(), options).unwrap()
    };
    let careful = open();
    assert!(mount_tmpfs(&at));
    let child = |files: &Directory, name: &[u8]| {
        let bounds = files.tree().objects().bounds();
        let opened = bounds.resolver().child(bounds.root().as_fd(), name, true);
        opened.map(drop)
    };
    std::thread::scope(|scope| {
        let filtered = scope.spawn(|| {
            forbid_openat2();
            let without = open();
            assert_eq!(child(&without, b"m"), Err(Error::AccessDenied));
            assert_eq!(child(&without, b"none"), Err(Error::NotFound));
            assert_eq!(child(&careful, b"none"), Err(Error::NotPermitted));
        });
        filtered.join().unwrap();
    });
    assert_eq!(child(&careful, b"m"), Err(Error::AccessDenied));
    assert!(
        !careful.tree().objects().bounds().resolver().is_old(),
        "one refusal changes nothing"
    );
    drop(careful);
    unmount(&at);
}

/// From here on openat2 is "not permitted" in this thread, as some system call filters have it.
fn forbid_openat2() {
    let jump = |code: u32, jt, jf, k: u32| libc::sock_filter {
        code: code as u16,
        jt,
        jf,
        k,
    };
    let refuse = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
    let mut rules = [
        jump(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0), // number of the call
        jump(
            libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K,
            0,
            1,
            libc::SYS_openat2 as u32,
        ),
        jump(libc::BPF_RET | libc::BPF_K, 0, 0, refuse),
        jump(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog {
        len: rules.len() as u16,
        filter: rules.as_mut_ptr(),
    };
    // SAFETY: the kernel copies the rules, which live until the call returns; the filter is on
    // this thread alone.
    let set = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        libc::prctl(
            libc::PR_SET_SECCOMP,
            libc::SECCOMP_MODE_FILTER,
            &raw const program,
        )
    };
    assert_eq!(set, 0);
}

/// After a restart of the machine the kernel knows no names: a handle of a file does not tell where
/// the file is, that of a directory does.
#[test]
fn handles_of_directories_that_left_while_nothing_ran_are_stale() {
    if !own_mounts() {
        return;
    }
    let top = tempfile::tempdir_in("/var/tmp").unwrap();
    let (image, at) = (top.path().join("image"), top.path().join("at"));
    std::fs::create_dir(&at).unwrap();
    std::fs::File::create(&image)
        .unwrap()
        .set_len(16 << 20)
        .unwrap();
    let made = Command::new("mkfs.ext4")
        .args(["-q", "-F"])
        .arg(&image)
        .status();
    let mount_it = || mount(&["-o".as_ref(), "loop".as_ref(), image.as_ref(), at.as_ref()]);
    if !made.is_ok_and(|status| status.success()) || !mount_it() {
        pagewell_skip::skip("no ext4 on a loop device");
        return;
    }
    let (inside, outside) = (at.join("inside"), at.join("outside"));
    for directory in [&inside, &outside] {
        std::fs::create_dir(directory).unwrap();
    }
    for name in ["stays", "moved"] {
        std::fs::write(inside.join(name), name).unwrap();
        std::fs::create_dir(inside.join(format!("d-{name}"))).unwrap();
    }
    let open = || Directory::open(&inside, Options::default()).unwrap();
    let files = open();
    let id = |name| walk(&files, name).unwrap().id;
    let (stays, moved) = (id("stays"), id("moved"));
    let (d_stays, d_moved) = (id("d-stays"), id("d-moved"));
    drop(files);
    pagewell_fs::identity::act_for_server();
    for name in ["moved", "d-moved"] {
        std::fs::rename(inside.join(name), outside.join(name)).unwrap();
    }
    unmount(&at);
    assert!(mount_it());
    let files = open();
    let who = root_credentials();
    assert_eq!(read_as(&files, &who, &stays).unwrap(), b"stays");
    assert_eq!(read_as(&files, &who, &moved).unwrap(), b"moved");
    let call = waiting(&who);
    assert!(files.attributes(&call, &d_stays).is_ok());
    assert_eq!(files.attributes(&call, &d_moved), Err(Error::Stale));
    assert!(walk(&files, "d-stays").is_ok());
    drop(files);
    unmount(&at);
}

/// An overlay of two file systems has files on other devices than its directories, and maps a file
/// as it was when it was opened.
#[test]
fn files_of_other_devices_than_the_root_are_found_again() {
    if !own_mounts() {
        return;
    }
    let top = tempfile::tempdir_in("/var/tmp").unwrap();
    let [lower, upper, at] = ["lower", "upper", "at"].map(|name| top.path().join(name));
    for path in [&lower, &upper, &at] {
        std::fs::create_dir(path).unwrap();
    }
    assert!(mount_tmpfs(&lower) && mount_tmpfs(&upper));
    for path in [upper.join("data"), upper.join("work")] {
        std::fs::create_dir(path).unwrap();
    }
    std::fs::write(lower.join("f"), b"lower").unwrap();
    let layers = {
        let [lower, upper] = [&lower, &upper].map(|path| path.display());
        format!("lowerdir={lower},upperdir={upper}/data,workdir={upper}/work")
    };
    let options = ["-t", "overlay", "none", "-o", &layers].map(std::ffi::OsStr::new);
    if !mount(&[&options[..], &[at.as_os_str()]].concat()) {
        return pagewell_skip::skip("no overlay");
    }
    for force_trails in [false, true] {
        let options = Options {
            force_trails,
            ..Options::default()
        };
        let files = Directory::open(&at, options).unwrap();
        let who = root_credentials();
        let (call, root) = (waiting(&who), files.root());
        let mode = CreateMode::Unchecked(mode_of(0o644));
        let made = files.create(&call, &root, b"g", &mode).unwrap().entry.id;
        let found = walk(&files, "f").unwrap().id;
        for id in [made, found] {
            let before = files.attributes(&call, &id).unwrap();
            let objects = files.tree().objects();
            objects.table().remove(&objects.key_of(&id));
            assert_eq!(files.attributes(&call, &id), Ok(before));
        }
        let page = files.read_directory(&call, &root, 0, true, &mut |entry| {
            let id = entry.entry.unwrap().id;
            assert!(entry.name != b"f" || id == found);
            assert!(entry.name != b"g" || id == made);
            true
        });
        assert!(page.unwrap().end);
        let read = files.read(&call, &found, 0, 5).unwrap();
        assert!(matches!(read.payload, Payload::File { .. }));
    }
    for path in [&at, &upper, &lower] {
        unmount(path);
    }
}
