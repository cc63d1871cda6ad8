//! The kernel and the mode bits judge the caller, not the server. Needs root.

use super::*;
use pagewell_fs::{Access, Error, RenameMode, SetTime, Timestamp};
use std::os::unix::fs::{MetadataExt, chown};

fn user(uid: u32) -> Credentials {
    Credentials::new(uid, uid, &[])
}

/// A file of user 1000 with this mode.
fn file_of_1000(fixture: &Fixture, name: &str, mode: u32) -> FileId {
    std::fs::write(fixture.path(name), b"data").unwrap();
    chown(fixture.path(name), Some(1000), Some(1000)).unwrap();
    chmod(&fixture.path(name), mode);
    fixture.id(name)
}

fn write_as(fixture: &Fixture, who: &Credentials, id: &FileId) -> Result<()> {
    let call = waiting(who);
    let written = fixture
        .files
        .write(&call, id, 0, b"DATA", Stability::Unstable)?;
    assert_eq!(written.count, 4);
    Ok(())
}

#[test]
fn objects_belong_to_who_made_them() {
    if !is_root() {
        return;
    }
    with_both(|fixture| {
        let who = Credentials::new(1000, 1001, &[1002]);
        let call = waiting(&who);
        let (files, root) = (&fixture.files, fixture.root());
        let mode = CreateMode::Guarded(mode_of(0o666));
        let made = files.create(&call, &root, b"f", &mode).unwrap();
        let got = made.entry.attributes;
        assert_eq!((got.uid, got.gid, got.mode), (1000, 1001, 0o666));
        let made = files.make_directory(&call, &root, b"d", &mode_of(0o777));
        let got = made.unwrap().entry.attributes;
        assert_eq!((got.uid, got.gid, got.mode), (1000, 1001, 0o777));
        let wanted = SetAttributes {
            gid: Some(1002),
            ..mode_of(0o644)
        };
        let made = files.make_symlink(&call, &root, b"l", b"t", &wanted);
        let got = made.unwrap().entry.attributes;
        assert_eq!(
            (got.uid, got.gid),
            (1000, 1002),
            "one of the caller's groups"
        );
        // what only root may give is left out at creation
        let wanted = SetAttributes {
            uid: Some(0),
            gid: Some(0),
            ..mode_of(0o600)
        };
        let made = files.create(&call, &root, b"g", &CreateMode::Guarded(wanted));
        let got = made.unwrap().entry.attributes;
        assert_eq!((got.uid, got.gid), (1000, 1001));
        let device = pagewell_fs::NodeKind::CharacterDevice(1, 3);
        let made = files.make_node(&call, &root, b"n", device, &mode_of(0o600));
        assert_eq!(made.err(), Some(Error::NotPermitted));
    });
}

#[test]
fn the_kernel_is_told_of_more_groups_than_nfs_has() {
    if !is_root() {
        return;
    }
    with_both(|fixture| {
        let groups: Vec<u32> = (2000..2100).collect();
        let (place, who) = (fixture.path("d"), Credentials::new(7, 8, &groups));
        std::fs::create_dir(&place).unwrap();
        chown(&place, Some(1000), Some(2099)).unwrap();
        chmod(&place, 0o770);
        let (id, mode) = (fixture.id("d"), CreateMode::Guarded(mode_of(0o600)));
        let made = fixture.files.create(&waiting(&who), &id, b"f", &mode);
        assert_eq!(made.unwrap().entry.attributes.uid, 7);
    });
}

#[test]
fn mode_bits_decide_with_the_liberties_of_nfs() {
    if !is_root() {
        return;
    }
    with_both(|fixture| {
        let (owner, member, other) = (user(1000), Credentials::new(7, 8, &[1000]), user(2000));
        for (mode, readers, writers) in [
            (0o444, [true, true, true], [true, false, false]),
            (0o000, [true, false, false], [true, false, false]),
            (0o640, [true, true, false], [true, false, false]),
            (0o606, [true, false, true], [true, false, true]),
            (0o711, [true, true, true], [true, false, false]), // execute lets read
            (0o660, [true, true, false], [true, true, false]),
        ] {
            let id = file_of_1000(fixture, "f", mode);
            for (index, who) in [&owner, &member, &other].into_iter().enumerate() {
                let read = read_as(&fixture.files, who, &id);
                assert_eq!(read.is_ok(), readers[index], "{mode:o} {who:?}");
                let write = write_as(fixture, who, &id);
                assert_eq!(write.is_ok(), writers[index], "{mode:o} {who:?}");
                if let Err(error) = write {
                    assert_eq!(error, Error::AccessDenied);
                }
            }
            assert!(read_as(&fixture.files, &Credentials::root(), &id).is_ok());
            assert!(write_as(fixture, &Credentials::root(), &id).is_ok());
        }
    });
}

#[test]
fn a_change_of_mode_takes_effect_at_once() {
    if !is_root() {
        return;
    }
    with_both(|fixture| {
        let other = user(2000);
        let id = file_of_1000(fixture, "f", 0o666);
        write_as(fixture, &other, &id).unwrap();
        chmod(&fixture.path("f"), 0o600);
        assert_eq!(write_as(fixture, &other, &id), Err(Error::AccessDenied));
        let read = read_as(&fixture.files, &other, &id);
        assert_eq!(read, Err(Error::AccessDenied), "although it is open");
    });
}

#[test]
fn directories_are_judged_by_the_kernel() {
    if !is_root() {
        return;
    }
    with_both(|fixture| {
        let (owner, other) = (user(1000), user(2000));
        let files = &fixture.files;
        std::fs::create_dir(fixture.path("d")).unwrap();
        chown(fixture.path("d"), Some(1000), Some(1000)).unwrap();
        file_of_1000(fixture, "d/f", 0o666);
        chmod(&fixture.path("d"), 0o700);
        let d = fixture.id("d");
        let denied = Some(Error::AccessDenied);
        let call = waiting(&other);
        assert_eq!(files.lookup(&call, &d, b"f").err(), denied);
        assert!(files.lookup(&hasty(&other), &d, b"f").is_err());
        let mode = CreateMode::Unchecked(mode_of(0o666));
        assert_eq!(files.create(&call, &d, b"n", &mode).err(), denied);
        assert_eq!(files.remove(&call, &d, b"f").err(), denied);
        let rename = files.rename(
            &call,
            (&d, b"f"),
            (&fixture.root(), b"f"),
            RenameMode::Replace,
        );
        assert_eq!(rename.err(), denied);
        let listed = files.read_directory(&call, &d, 0, false, &mut |_| true);
        assert_eq!(listed.err(), denied);
        assert_eq!(files.lookup(&call, &d, b".").err(), denied);

        // readable but not searchable: names without attributes
        chmod(&fixture.path("d"), 0o704);
        let mut seen = 0;
        files
            .read_directory(&call, &d, 0, true, &mut |entry| {
                assert!(entry.entry.is_none() || entry.name == b".");
                seen += 1;
                true
            })
            .unwrap();
        assert_eq!(seen, 3);
        // a caller that may not list does not continue the listing of another
        chmod(&fixture.path("d"), 0o700);
        let mut cookie = 0;
        let mine = waiting(&owner);
        files
            .read_directory(&mine, &d, 0, false, &mut |entry| {
                let first = cookie == 0;
                if first {
                    cookie = entry.cookie;
                }
                first
            })
            .unwrap();
        let listed = files.read_directory(&call, &d, cookie, false, &mut |_| true);
        assert_eq!(listed.err(), denied);
        files.lookup(&mine, &d, b"f").unwrap();

        // the sticky bit
        chmod(&fixture.path("d"), 0o1777);
        let remove = files.remove(&call, &d, b"f");
        assert_eq!(remove.err(), Some(Error::NotPermitted));
        files.remove(&mine, &d, b"f").unwrap();
    });
}

#[test]
fn access_tells_what_the_bits_say() {
    if !is_root() {
        return;
    }
    with_both(|fixture| {
        let access = |who: &Credentials, id: &FileId| {
            let (granted, _) = fixture.files.access(&hasty(who), id, Access::ALL).unwrap();
            granted
        };
        let (owner, other) = (user(1000), user(2000));
        let id = file_of_1000(fixture, "f", 0o464);
        let change = Access::MODIFY | Access::EXTEND;
        assert_eq!(access(&owner, &id), Access::READ, "no liberty here");
        assert_eq!(access(&other, &id), Access::READ);
        let member = Credentials::new(7, 1000, &[]);
        assert_eq!(access(&member, &id), Access::READ | change);
        assert_eq!(access(&Credentials::root(), &id), Access::READ | change);
        chmod(&fixture.path("f"), 0o461);
        assert_eq!(access(&other, &id), Access::EXECUTE);
        let all = Access::READ | change | Access::EXECUTE;
        assert_eq!(access(&Credentials::root(), &id), all);

        std::fs::create_dir(fixture.path("d")).unwrap();
        chmod(&fixture.path("d"), 0o751);
        let d = fixture.id("d");
        assert_eq!(access(&other, &d), Access::LOOKUP);
        let all = Access::READ | Access::LOOKUP | change | Access::DELETE;
        assert_eq!(access(&Credentials::root(), &d), all);
    });
}

#[test]
fn access_control_lists_are_respected() {
    if !is_root() {
        return;
    }
    with_both(|fixture| {
        let id = file_of_1000(fixture, "f", 0o640);
        let (listed, member, other) = (user(3000), user(1000 + 500), user(2000));
        let member = Credentials::new(member.uid, 1000, &[]);
        assert!(read_as(&fixture.files, &listed, &id).is_err());
        assert!(read_as(&fixture.files, &member, &id).is_ok());
        // user:3000:rw-, the owning group nothing, mask rw-
        let list = acl(&[
            (0x01, 6, u32::MAX),
            (0x02, 6, 3000),
            (0x04, 0, u32::MAX),
            (0x10, 6, u32::MAX),
            (0x20, 0, u32::MAX),
        ]);
        let path = fixture.path("f");
        let flags = rustix::fs::XattrFlags::empty();
        if rustix::fs::setxattr(&path, c"system.posix_acl_access", &list, flags).is_err() {
            pagewell_skip::skip("no access control lists on this file system");
            return;
        }
        assert_eq!(read_as(&fixture.files, &listed, &id).unwrap(), b"data");
        write_as(fixture, &listed, &id).unwrap();
        let read = read_as(&fixture.files, &member, &id);
        assert_eq!(
            read,
            Err(Error::AccessDenied),
            "bits say rw-, the list says ---"
        );
        assert!(read_as(&fixture.files, &other, &id).is_err());
        assert!(read_as(&fixture.files, &user(1000), &id).is_ok());
        let (granted, _) = fixture
            .files
            .access(&waiting(&listed), &id, Access::ALL)
            .unwrap();
        assert_eq!(granted, Access::READ | Access::MODIFY | Access::EXTEND);
        let path = fixture.path("f");
        // removed again: noticed, because the changed time moved
        rustix::fs::removexattr(&path, c"system.posix_acl_access").unwrap();
        chmod(&path, 0o640);
        assert!(read_as(&fixture.files, &listed, &id).is_err());
        assert!(read_as(&fixture.files, &member, &id).is_ok());
    });
}

fn acl(entries: &[(u16, u16, u32)]) -> Vec<u8> {
    let mut bytes = 2u32.to_le_bytes().to_vec();
    for (tag, permission, id) in entries {
        bytes.extend(tag.to_le_bytes());
        bytes.extend(permission.to_le_bytes());
        bytes.extend(id.to_le_bytes());
    }
    bytes
}

const NONE: SetAttributes = SetAttributes {
    mode: None,
    uid: None,
    gid: None,
    size: None,
    accessed: None,
    modified: None,
};

fn sized(size: u64) -> SetAttributes {
    SetAttributes {
        size: Some(size),
        ..NONE
    }
}

fn owned(uid: Option<u32>, gid: Option<u32>, mode: Option<u32>) -> SetAttributes {
    SetAttributes {
        uid,
        gid,
        mode,
        ..NONE
    }
}

fn timed(accessed: Option<SetTime>, modified: Option<SetTime>) -> SetAttributes {
    SetAttributes {
        accessed,
        modified,
        ..NONE
    }
}

/// Sets, and checks that what is refused changes nothing.
fn set(
    fixture: &Fixture,
    who: &Credentials,
    id: &FileId,
    wanted: SetAttributes,
) -> Result<pagewell_fs::Attributes> {
    let (files, call) = (&fixture.files, waiting(who));
    let before = files.attributes(&call, id).unwrap();
    let result = files.set_attributes(&call, id, &wanted, None);
    let after = files.attributes(&call, id).unwrap();
    if result.is_err() {
        assert_eq!(before, after, "refused means unchanged");
    }
    result.map(|_| after)
}

const PAST: Option<SetTime> = Some(SetTime::To(Timestamp {
    seconds: 0,
    nanoseconds: 0,
}));
const NOW: Option<SetTime> = Some(SetTime::ToServerTime);

#[test]
fn what_a_caller_may_not_set_is_refused_whole() {
    if !is_root() {
        return;
    }
    with_both(|fixture| {
        let (owner, other) = (Credentials::new(1000, 1000, &[1005]), user(2000));
        let id = file_of_1000(fixture, "f", 0o664);
        for (who, wanted, error) in [
            (&other, mode_of(0o777), Error::NotPermitted),
            (&owner, owned(Some(2000), None, None), Error::NotPermitted),
            (&owner, owned(None, Some(2000), None), Error::NotPermitted),
            // the mode alone would be allowed
            (
                &owner,
                owned(None, Some(2000), Some(0o600)),
                Error::NotPermitted,
            ),
            (&other, timed(None, PAST), Error::NotPermitted),
            (&other, timed(NOW, PAST), Error::NotPermitted),
            (&other, timed(None, NOW), Error::AccessDenied),
            (&other, sized(1), Error::AccessDenied),
        ] {
            assert_eq!(set(fixture, who, &id, wanted), Err(error), "{wanted:?}");
        }
    });
}

#[test]
fn attributes_are_set_by_owners_and_times_by_writers() {
    if !is_root() {
        return;
    }
    with_both(|fixture| {
        let (owner, other) = (Credentials::new(1000, 1000, &[1005]), user(2000));
        let id = file_of_1000(fixture, "f", 0o664);
        let set = |who, wanted| set(fixture, who, &id, wanted).unwrap();
        let got = set(&owner, owned(None, Some(1005), Some(0o2755)));
        assert_eq!((got.gid, got.mode), (1005, 0o2755), "bits survive as asked");
        assert_eq!(set(&owner, mode_of(0o400)).mode, 0o400);
        assert_eq!(set(&owner, sized(1)).size, 1, "whatever the mode");
        assert_eq!(set(&owner, timed(None, PAST)).modified.seconds, 0);
        set(&owner, mode_of(0o666));
        for wanted in [timed(NOW, None), timed(None, NOW), timed(NOW, NOW), NONE] {
            set(&other, wanted);
        }
        let all = SetAttributes {
            size: Some(7),
            ..owned(Some(5), Some(6), Some(0o6755))
        };
        let got = set(&Credentials::root(), all);
        assert_eq!((got.uid, got.gid, got.size, got.mode), (5, 6, 7, 0o6755));
    });
}

#[test]
fn writing_takes_set_user_id_away_unless_root_writes() {
    if !is_root() {
        return;
    }
    with_both(|fixture| {
        let id = file_of_1000(fixture, "f", 0o6777);
        write_as(fixture, &Credentials::root(), &id).unwrap();
        assert_eq!(
            std::fs::metadata(fixture.path("f")).unwrap().mode() & 0o7777,
            0o6777
        );
        write_as(fixture, &user(2000), &id).unwrap();
        assert_eq!(
            std::fs::metadata(fixture.path("f")).unwrap().mode() & 0o7777,
            0o777
        );
    });
}

#[test]
fn links_and_new_threads_act_as_their_caller() {
    if !is_root() {
        return;
    }
    with_both(|fixture| {
        let id = file_of_1000(fixture, "f", 0o600);
        let (owner, files) = (user(1000), &fixture.files);
        files
            .link(&waiting(&owner), &id, &fixture.root(), b"g")
            .unwrap();
        // a thread inherits the identity of the thread that made it, and must not trust it
        let owned = std::thread::scope(|scope| {
            files
                .lookup(&waiting(&owner), &fixture.root(), b"f")
                .unwrap();
            let thread = scope.spawn(|| {
                let mode = CreateMode::Guarded(mode_of(0o600));
                let call = waiting(&owner);
                let made = files.create(&call, &fixture.root(), b"n", &mode).unwrap();
                let root = Credentials::root();
                let read = read_as(files, &root, &id).unwrap();
                assert_eq!(read, b"data");
                made.entry.attributes.uid
            });
            thread.join().unwrap()
        });
        assert_eq!(owned, 1000);
        let nobody = Credentials::new(u32::MAX, 0, &[]);
        let mode = CreateMode::Guarded(mode_of(0o600));
        let made = files.create(&waiting(&nobody), &fixture.root(), b"x", &mode);
        assert_eq!(made.err(), Some(Error::AccessDenied));
        pagewell_fs::identity::act_for_server();
        let made = std::fs::File::create(fixture.path("mine")).unwrap();
        assert_eq!(made.metadata().unwrap().uid(), 0);
    });
}

/// A list that is set in the tick of the clock in which another look was taken moves no time.
#[test]
fn whether_there_is_a_list_is_remembered_when_the_change_time_has_settled() {
    if !is_root() {
        return;
    }
    with_both(|fixture| {
        let id = file_of_1000(fixture, "f", 0o640);
        let member = Credentials::new(7, 1000, &[]);
        let known = || {
            assert!(read_as(&fixture.files, &member, &id).is_ok());
            let tree = fixture.files.tree();
            let object = tree.objects().object(&waiting(&member), &id).unwrap();
            let status = object.status().unwrap();
            tree.access()
                .has_lists()
                .then(|| object.known_acl(status.attributes.changed))
        };
        // A busy machine may take as long as that itself.
        let began = std::time::Instant::now();
        chmod(&fixture.path("f"), 0o640);
        let at_once = known();
        assert!(at_once != Some(Some(false)) || began.elapsed().as_millis() > 15);
        std::thread::sleep(std::time::Duration::from_millis(50));
        assert_ne!(known(), Some(None));
    });
}
