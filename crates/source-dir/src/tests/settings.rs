//! Setting attributes, guards, extremes, and kernels that lack what newer ones have.

use super::*;
use pagewell_fs::{Error, SetTime, Timestamp};
use std::sync::atomic::Ordering;

#[test]
fn a_guard_that_does_not_match_changes_nothing() {
    with_both(|fixture| {
        let who = root_credentials();
        let call = waiting(&who);
        let files = &fixture.files;
        let id = fixture.make(&fixture.root(), "f", b"x");
        let before = files.attributes(&call, &id).unwrap();
        let other = Timestamp {
            nanoseconds: before.changed.nanoseconds ^ 1,
            ..before.changed
        };
        let set = files.set_attributes(&call, &id, &mode_of(0o600), Some(other));
        assert_eq!(set.err(), Some(Error::NotSync));
        assert_eq!(files.attributes(&call, &id), Ok(before));
        let changed = Some(before.changed);
        let change = files
            .set_attributes(&call, &id, &mode_of(0o600), changed)
            .unwrap();
        assert_eq!(change.before, Some(before.wcc()));
        assert_eq!(change.after.unwrap().mode, 0o600);
        let set = files.set_attributes(&call, &id, &mode_of(0o644), changed);
        assert_eq!(set.err(), Some(Error::NotSync));
    });
}

#[test]
fn sizes_and_times_at_their_limits() {
    with_both(|fixture| {
        let who = root_credentials();
        let call = waiting(&who);
        let files = &fixture.files;
        let id = fixture.make(&fixture.root(), "f", b"x");
        let none = SetAttributes::default();
        let set = |wanted| files.set_attributes(&call, &id, &wanted, None);
        let most = files.limits().file_bytes_max;
        for size in [u64::MAX, most + 1] {
            let wanted = SetAttributes {
                size: Some(size),
                ..none
            };
            assert_eq!(set(wanted).err(), Some(Error::FileTooLarge));
        }
        for offset in [u64::MAX, most, i64::MAX.unsigned_abs()] {
            let write = files.write(&call, &id, offset, b"xx", Stability::Unstable);
            assert_eq!(write.err(), Some(Error::FileTooLarge));
        }
        let grown = SetAttributes {
            size: Some(1 << 40),
            ..none
        };
        let after = set(grown).unwrap().after.unwrap();
        assert_eq!(after.size, 1 << 40);
        assert!(after.used < 1 << 20, "a hole");
        let time = |seconds, nanoseconds| SetAttributes {
            modified: Some(SetTime::To(Timestamp {
                seconds,
                nanoseconds,
            })),
            ..none
        };
        let after = set(time(1 << 32, 999_999_999)).unwrap().after.unwrap();
        let wanted = Timestamp {
            seconds: 1 << 32,
            nanoseconds: 999_999_999,
        };
        assert_eq!(after.modified, wanted, "past 2106");
        assert_eq!(set(time(0, 1_000_000_000)).err(), Some(Error::Invalid));
        assert_eq!(set(time(0, u32::MAX)).err(), Some(Error::Invalid));
        set(time(i64::MAX, 0)).unwrap();
        set(time(i64::MIN, 0)).unwrap();
        let root = fixture.root();
        let wanted = SetAttributes {
            size: Some(0),
            ..none
        };
        let set = files.set_attributes(&call, &root, &wanted, None);
        assert_eq!(set.err(), Some(Error::IsDirectory));
    });
}

#[test]
fn an_older_kernel_does_the_same_without_openat2() {
    with_both(|fixture| {
        let bounds = fixture.files.tree().objects().bounds();
        bounds.resolver().pretend_old();
        let who = root_credentials();
        let call = waiting(&who);
        let (files, root) = (&fixture.files, fixture.root());
        let d = files
            .make_directory(&call, &root, b"d", &mode_of(0o755))
            .unwrap();
        let f = fixture.make(&d.entry.id, "f", b"data");
        assert_eq!(fixture.id("d/f"), f);
        assert_eq!(files.lookup(&call, &d.entry.id, b"..").unwrap().id, root);
        std::fs::create_dir(fixture.path("new")).unwrap();
        let hurried = files.lookup(&hasty(&who), &root, b"new");
        assert_eq!(hurried, Err(Error::WouldBlock));
        std::os::unix::fs::symlink("/", fixture.path("l")).unwrap();
        let mode = CreateMode::Unchecked(mode_of(0o644));
        assert_eq!(
            files.create(&call, &root, b"l", &mode).err(),
            Some(Error::Exists)
        );
        let link = fixture.walk("l").unwrap();
        assert_eq!(link.attributes.file_type, pagewell_fs::FileType::Symlink);
    });
}

#[test]
fn file_systems_without_positions_are_listed_in_order() {
    with_both(|fixture| {
        for number in 0..100 {
            std::fs::write(fixture.path(&format!("f{number}")), b"").unwrap();
        }
        let root = fixture.root();
        let mut normal = list(&fixture.files, &root, 13);
        let orders = fixture.files.tree().listings().are_ordered();
        orders.store(true, Ordering::Relaxed);
        let ordered = list(&fixture.files, &root, 13);
        assert_eq!(ordered, list(&fixture.files, &root, usize::MAX));
        let mut names: Vec<_> = ordered.into_iter().map(|(name, _)| name).collect();
        names.sort();
        normal.sort();
        let wanted: Vec<_> = normal.into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, wanted);
    });
}

#[test]
fn what_is_served_and_as_whom_is_told() {
    with_both(|fixture| {
        let text = fixture.files.describe();
        assert!(text.contains("/export ("), "{text}");
        assert_eq!(acts_as_caller(&fixture.files), is_root());
        let limits = fixture.files.limits();
        assert_eq!((limits.name_bytes_max, limits.read_only), (255, false));
        let who = root_credentials();
        let sizes = fixture.files.statistics(&hasty(&who)).unwrap();
        assert!(sizes.bytes_total >= sizes.bytes_free);
        assert!(sizes.bytes_free >= sizes.bytes_available);
    });
}
