//! What a mount leaves behind in the process that made it: nothing.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use pagewell_fuse::{Options, mount, unmount};
use pagewell_source_ram::RamFileSystem;

/// Tests count what the whole process has open.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

const FILE_BYTES: usize = 4 << 20;

/// Descriptors of this process that are FUSE devices.
fn devices() -> usize {
    let open = std::fs::read_dir("/proc/self/fd").unwrap();
    open.filter_map(|entry| std::fs::read_link(entry.unwrap().path()).ok())
        .filter(|target| target == Path::new("/dev/fuse"))
        .count()
}

fn use_and_unmount(place: &Path) {
    let files = Arc::new(RamFileSystem::new(64 << 20).unwrap());
    let mounted = match mount(files, place, &Options::new("test")) {
        Ok(mounted) => mounted,
        // The scenarios of `make test-clients` say why.
        Err(error) => return pagewell_skip::skip(format_args!("cannot mount here: {error}")),
    };
    let path: PathBuf = place.join("file");
    let bytes: Vec<u8> = (0..FILE_BYTES).map(|index| (index % 251) as u8).collect();
    std::fs::write(&path, &bytes).unwrap();
    for _ in 0..8 {
        // Opened anew, so that the kernel asks for all of it, in pieces of many pages.
        let file = File::open(&path).unwrap();
        let _ = rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed);
        let mut read = vec![0; FILE_BYTES];
        file.read_exact_at(&mut read, 0).unwrap();
        assert!(read == bytes);
    }
    unmount(place, false).unwrap();
    mounted.wait().unwrap();
}

#[test]
fn a_mount_that_has_ended_keeps_no_device_open() {
    let _alone = ONE_AT_A_TIME.lock();
    let place = tempfile::tempdir().unwrap();
    use_and_unmount(place.path());
    // Its threads close it one after the other.
    let mut looks = 0;
    while devices() > 0 {
        looks += 1;
        assert!(looks < 6000, "{} are open", devices());
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

#[test]
fn unmounting_leaves_what_lies_beneath() {
    let _alone = ONE_AT_A_TIME.lock();
    let place = tempfile::tempdir().unwrap();
    let files = || Arc::new(RamFileSystem::new(16 << 20).unwrap());
    let below = match mount(files(), place.path(), &Options::new("below")) {
        Ok(mounted) => mounted,
        Err(error) => return pagewell_skip::skip(format_args!("cannot mount here: {error}")),
    };
    std::fs::write(place.path().join("below"), "").unwrap();
    for _ in 0..10 {
        let above = mount(files(), place.path(), &Options::new("above")).unwrap();
        assert!(!place.path().join("below").exists());
        unmount(place.path(), false).unwrap();
        above.wait().unwrap();
        drop(above);
        assert!(place.path().join("below").exists());
    }
    unmount(place.path(), false).unwrap();
    below.wait().unwrap();
}

#[test]
fn a_dropped_mount_leaves_its_place() {
    let _alone = ONE_AT_A_TIME.lock();
    let place = tempfile::tempdir().unwrap();
    let files = Arc::new(RamFileSystem::new(16 << 20).unwrap());
    match mount(files, place.path(), &Options::new("short")) {
        Ok(mounted) => drop(mounted),
        Err(error) => return pagewell_skip::skip(format_args!("cannot mount here: {error}")),
    }
    assert_eq!(pagewell_fuse::mounted_on(place.path()), None);
}
