//! Every operation once, as a client uses it.

use super::*;
use pagewell_fs::{Error, FileType, NodeKind, RenameMode, SetTime, Timestamp};
use std::os::unix::fs::MetadataExt;

#[test]
fn a_file_is_created_written_read_committed_and_removed() {
    with_both(|fixture| {
        let who = root_credentials();
        let call = waiting(&who);
        let (files, root) = (&fixture.files, fixture.root());
        let mode = CreateMode::Guarded(mode_of(0o640));
        let made = files.create(&call, &root, b"f", &mode).unwrap();
        assert_eq!(made.entry.attributes.mode, 0o640);
        assert_eq!(made.entry.attributes.file_type, FileType::Regular);
        let parent = made.parent;
        assert_ne!(parent.before.unwrap(), parent.after.unwrap().wcc());
        let id = made.entry.id;
        let written = files
            .write(&call, &id, 0, b"hello", Stability::Unstable)
            .unwrap();
        assert_eq!((written.count, written.committed), (5, Stability::Unstable));
        assert_eq!(written.change.before.unwrap().size, 0);
        assert_eq!(written.change.after.unwrap().size, 5);
        let committed = files.commit(&call, &id, 0, 0).unwrap();
        assert_eq!(committed.verifier, written.verifier);
        assert_eq!(fixture.get(&id).unwrap(), b"hello");
        assert_eq!(std::fs::read(fixture.path("f")).unwrap(), b"hello");
        assert_eq!(
            files.create(&call, &root, b"f", &mode).err(),
            Some(Error::Exists)
        );
        assert_eq!(fixture.id("f"), id);
        files.remove(&call, &root, b"f").unwrap();
        assert_eq!(fixture.walk("f"), Err(Error::NotFound));
        assert_eq!(files.attributes(&call, &id), Err(Error::Stale));
        assert_eq!(fixture.get(&id), Err(Error::Stale));
    });
}

#[test]
fn reads_end_where_the_file_ends() {
    with_both(|fixture| {
        let who = root_credentials();
        let id = fixture.make(&fixture.root(), "f", b"abc");
        for (offset, count, length, end) in [
            (0, 0, 0, false),
            (0, 2, 2, false),
            (0, 3, 3, true),
            (1, 9, 2, true),
            (3, 1, 0, true),
            (3, 0, 0, true),
            (9, 9, 0, true),
            (u64::MAX, u32::MAX, 0, true),
        ] {
            let reply = fixture
                .files
                .read(&waiting(&who), &id, offset, count)
                .unwrap();
            assert_eq!(reply.payload.len(), length, "{offset} {count}");
            assert_eq!(reply.end_of_file, end, "{offset} {count}");
        }
        let empty = fixture.make(&fixture.root(), "empty", b"");
        for (offset, count) in [(0, 0), (0, 9), (7, u32::MAX), (u64::MAX, 1)] {
            let files = &fixture.files;
            let reply = files.read(&waiting(&who), &empty, offset, count);
            let reply = reply.unwrap();
            assert!(reply.payload.is_empty() && reply.end_of_file, "{offset}");
        }
        let root = fixture.root();
        let read = |id| fixture.files.read(&waiting(&who), id, 0, 1).err();
        assert_eq!(read(&root), Some(Error::IsDirectory));
    });
}

#[test]
fn all_attributes_can_be_given_at_creation() {
    with_both(|fixture| {
        let who = root_credentials();
        let call = waiting(&who);
        let (files, root) = (&fixture.files, fixture.root());
        let owner = if is_root() { 1234 } else { files_uid() };
        let time = |seconds| {
            Some(SetTime::To(Timestamp {
                seconds,
                nanoseconds: 123_456_789,
            }))
        };
        let all = SetAttributes {
            mode: Some(0o6751),
            uid: Some(owner),
            gid: Some(owner),
            size: Some(10_000),
            accessed: time(1),
            modified: time(-5),
        };
        let made = files
            .create(&call, &root, b"f", &CreateMode::Unchecked(all))
            .unwrap();
        let got = made.entry.attributes;
        if is_root() {
            assert_eq!((got.mode, got.uid, got.gid), (0o6751, 1234, 1234));
        }
        assert_eq!((got.size, got.used), (10_000, 0));
        assert_eq!((got.accessed.seconds, got.modified.seconds), (1, -5));
        assert_eq!(got.modified.nanoseconds, 123_456_789);
        assert_eq!(files.attributes(&call, &made.entry.id), Ok(got));

        let not_sized = SetAttributes { size: None, ..all };
        let made = files
            .make_directory(&call, &root, b"d", &not_sized)
            .unwrap();
        let got = made.entry.attributes;
        assert_eq!(got.modified.seconds, -5);
        if is_root() {
            assert_eq!((got.mode, got.uid, got.gid), (0o6751, 1234, 1234));
        }
        let made = files
            .make_symlink(&call, &root, b"l", b"any\xfftarget", &not_sized)
            .unwrap();
        assert_eq!(made.entry.attributes.file_type, FileType::Symlink);
        assert_eq!(made.entry.attributes.modified.seconds, -5);
        let (target, _) = files.read_link(&call, &made.entry.id).unwrap();
        assert_eq!(target, b"any\xfftarget");
        let made = files
            .make_node(&call, &root, b"p", NodeKind::Fifo, &not_sized)
            .unwrap();
        assert_eq!(made.entry.attributes.file_type, FileType::Fifo);
        assert_eq!(made.entry.attributes.modified.seconds, -5);
    });
}

fn files_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

#[test]
fn nodes_of_each_kind_are_made_and_never_opened() {
    if !is_root() {
        return;
    }
    with_both(|fixture| {
        let who = root_credentials();
        let call = waiting(&who);
        let (files, root) = (&fixture.files, fixture.root());
        for (name, kind, file_type, device) in [
            (
                "c",
                NodeKind::CharacterDevice(1, 3),
                FileType::CharacterDevice,
                (1, 3),
            ),
            (
                "b",
                NodeKind::BlockDevice(7, 9),
                FileType::BlockDevice,
                (7, 9),
            ),
            ("s", NodeKind::Socket, FileType::Socket, (0, 0)),
            ("p", NodeKind::Fifo, FileType::Fifo, (0, 0)),
        ] {
            let made = files
                .make_node(&call, &root, name.as_bytes(), kind, &mode_of(0o604))
                .unwrap();
            let got = made.entry.attributes;
            assert_eq!(
                (got.file_type, got.device, got.mode),
                (file_type, device, 0o604)
            );
            let id = made.entry.id;
            assert_eq!(files.read(&call, &id, 0, 1).err(), Some(Error::Invalid));
            let write = files.write(&call, &id, 0, b"x", Stability::Unstable);
            assert_eq!(write.err(), Some(Error::Invalid));
            assert_eq!(files.read_link(&call, &id).err(), Some(Error::Invalid));
        }
    });
}

#[test]
fn names_are_linked_moved_and_removed() {
    with_both(|fixture| {
        let who = root_credentials();
        let call = waiting(&who);
        let (files, root) = (&fixture.files, fixture.root());
        let make = |name: &[u8]| files.make_directory(&call, &root, name, &mode_of(0o755));
        let a = make(b"a").unwrap().entry.id;
        let b = make(b"b").unwrap().entry.id;
        let f = fixture.make(&a, "f", b"data");
        let (attributes, change) = files.link(&call, &f, &b, b"g").unwrap();
        assert_eq!(attributes.link_count, 2);
        assert!(change.before.is_some());
        assert_eq!(fixture.id("b/g"), f);
        assert_eq!(files.link(&call, &f, &b, b"g").err(), Some(Error::Exists));
        assert_eq!(
            files.link(&call, &a, &b, b"h").err(),
            Some(Error::NotPermitted)
        );

        // a directory into itself, over a full one, a file over a directory and back
        let rename = |fd: &FileId, fname: &str, td: &FileId, tname: &str| {
            files.rename(
                &call,
                (fd, fname.as_bytes()),
                (td, tname.as_bytes()),
                RenameMode::Replace,
            )
        };
        assert_eq!(rename(&root, "a", &a, "x").err(), Some(Error::Invalid));
        assert_eq!(rename(&root, "a", &root, "b").err(), Some(Error::NotEmpty));
        assert_eq!(rename(&a, "f", &root, "b").err(), Some(Error::IsDirectory));
        assert_eq!(rename(&root, "a", &b, "g").err(), Some(Error::NotDirectory));
        assert_eq!(rename(&a, "none", &b, "x").err(), Some(Error::NotFound));
        assert_eq!(rename(&a, ".", &b, "x").err(), Some(Error::Invalid));

        let (from, to) = rename(&a, "f", &b, "f").unwrap();
        assert!(from.before.is_some() && to.before.is_some());
        assert_eq!(fixture.id("b/f"), f);
        assert_eq!(
            files.remove(&call, &root, b"b").err(),
            Some(Error::IsDirectory)
        );
        let rmdir = |name: &[u8]| files.remove_directory(&call, &root, name);
        assert_eq!(rmdir(b"b").err(), Some(Error::NotEmpty));
        assert_eq!(
            files.remove_directory(&call, &b, b"f").err(),
            Some(Error::NotDirectory)
        );
        rmdir(b"a").unwrap();
        assert_eq!(files.attributes(&call, &a), Err(Error::Stale));
        assert_eq!(
            files.lookup(&call, &a, b"f").err(),
            Some(Error::Stale),
            "a directory that is gone, not a name that is missing"
        );
        files.remove(&call, &b, b"f").unwrap();
        assert_eq!(fixture.get(&f).unwrap(), b"data", "one name is left");
        files.remove(&call, &b, b"g").unwrap();
        assert_eq!(fixture.get(&f), Err(Error::Stale));
        rmdir(b"b").unwrap();
    });
}

#[test]
fn any_bytes_are_names_and_bad_ones_are_refused() {
    with_both(|fixture| {
        let who = root_credentials();
        let call = waiting(&who);
        let (files, root) = (&fixture.files, fixture.root());
        let odd: Vec<u8> = (1..=255).filter(|byte| *byte != b'/').collect();
        let mode = CreateMode::Guarded(mode_of(0o600));
        let made = files.create(&call, &root, &odd, &mode).unwrap();
        assert_eq!(files.lookup(&call, &root, &odd).unwrap().id, made.entry.id);
        for (name, error) in [
            (&b""[..], Error::Invalid),
            (b"a/b", Error::Invalid),
            (b"a\0b", Error::Invalid),
            (&[b'x'; 256], Error::NameTooLong),
        ] {
            assert_eq!(files.lookup(&call, &root, name), Err(error.clone()));
            assert_eq!(files.create(&call, &root, name, &mode).err(), Some(error));
        }
        assert_eq!(
            files.create(&call, &root, b"..", &mode).err(),
            Some(Error::Exists)
        );
        assert_eq!(files.lookup(&call, &root, b".").unwrap().id, root);
        assert_eq!(files.lookup(&call, &root, b"..").unwrap().id, root);
        let dot = files
            .make_directory(&call, &root, b"d", &mode_of(0o700))
            .unwrap();
        let id = dot.entry.id;
        assert_eq!(files.lookup(&call, &id, b"..").unwrap().id, root);
        let below = files
            .make_directory(&call, &id, b"e", &mode_of(0o700))
            .unwrap();
        assert_eq!(files.lookup(&call, &below.entry.id, b"..").unwrap().id, id);
        let file = made.entry.id;
        assert_eq!(files.lookup(&call, &file, b"x"), Err(Error::NotDirectory));
    });
}

#[test]
fn links_are_never_followed() {
    with_both(|fixture| {
        let who = root_credentials();
        let call = waiting(&who);
        let (files, root) = (&fixture.files, fixture.root());
        std::fs::write(fixture.outside("secret"), b"secret").unwrap();
        let target = fixture
            .outside("secret")
            .into_os_string()
            .into_encoded_bytes();
        let made = files
            .make_symlink(&call, &root, b"l", &target, &SetAttributes::default())
            .unwrap();
        let link = made.entry.id;
        assert_eq!(fixture.id("l"), link);
        assert_eq!(files.read(&call, &link, 0, 9).err(), Some(Error::Invalid));
        let write = files.write(&call, &link, 0, b"x", Stability::Unstable);
        assert_eq!(write.err(), Some(Error::Invalid));
        let size = SetAttributes {
            size: Some(0),
            ..SetAttributes::default()
        };
        let set = files.set_attributes(&call, &link, &size, None);
        assert_eq!(set.err(), Some(Error::Invalid));
        for mode in [
            CreateMode::Unchecked(size),
            CreateMode::Guarded(size),
            CreateMode::Exclusive([7; 8]),
        ] {
            let create = files.create(&call, &root, b"l", &mode);
            assert_eq!(create.err(), Some(Error::Exists));
        }
        files.link(&call, &link, &root, b"m").unwrap();
        assert_eq!(
            fixture.walk("m").unwrap().attributes.file_type,
            FileType::Symlink
        );
        let times = SetAttributes {
            modified: Some(SetTime::To(Timestamp::default())),
            ..SetAttributes::default()
        };
        files.set_attributes(&call, &link, &times, None).unwrap();
        assert_eq!(std::fs::read(fixture.outside("secret")).unwrap(), b"secret");
        assert_ne!(
            std::fs::metadata(fixture.outside("secret"))
                .unwrap()
                .mtime(),
            0
        );
    });
}

#[test]
fn an_open_file_outlives_its_last_name() {
    with_both(|fixture| {
        let who = root_credentials();
        let call = waiting(&who);
        let (files, root) = (&fixture.files, fixture.root());
        let id = fixture.make(&root, "f", b"hello");
        let first = files.open(&call, &id).unwrap();
        let second = files.open(&call, &id).unwrap();
        assert!(second.keep_cache && second.hold.is_some());
        assert_eq!(second.file.is_some(), acts_as_caller(files));
        // Gone behind the back of the program.
        std::fs::remove_file(fixture.path("f")).unwrap();
        drop(first);
        files.tree().objects().sweep();
        fixture.put(&id, 5, b" world");
        assert_eq!(fixture.get(&id).unwrap(), b"hello world");
        let shorter = SetAttributes {
            size: Some(4),
            ..SetAttributes::default()
        };
        files.set_attributes(&call, &id, &shorter, None).unwrap();
        let attributes = files.attributes(&call, &id).unwrap();
        assert_eq!((attributes.size, attributes.link_count), (4, 0));
        files.commit(&call, &id, 0, 0).unwrap();
        files.commit_metadata(&call, &id).unwrap();
        files.commit_metadata(&call, &root).unwrap();
        drop(second);
        assert_eq!(files.attributes(&call, &id), Err(Error::Stale));
    });
}

#[test]
fn an_open_directory_outlives_its_name() {
    with_both(|fixture| {
        let who = root_credentials();
        let call = waiting(&who);
        let (files, root) = (&fixture.files, fixture.root());
        let make = |directory: &FileId, name: &[u8]| {
            let made = files.make_directory(&call, directory, name, &mode_of(0o755));
            made.map(|made| made.entry.id)
        };
        for removal in ["remove", "replace", "behind"] {
            let id = make(&root, b"d").unwrap();
            let first = files.hold(&call, &id).unwrap().unwrap();
            let second = files.hold(&call, &id).unwrap().unwrap();
            match removal {
                "remove" => drop(files.remove_directory(&call, &root, b"d").unwrap()),
                "replace" => {
                    make(&root, b"e").unwrap();
                    files
                        .rename(&call, (&root, b"e"), (&root, b"d"), RenameMode::Replace)
                        .unwrap();
                    files.remove_directory(&call, &root, b"d").unwrap();
                }
                _ => std::fs::remove_dir(fixture.path("d")).unwrap(),
            }
            drop(first);
            files.tree().objects().sweep();
            let attributes = files.attributes(&call, &id).unwrap();
            assert_eq!(attributes.link_count, 0, "{removal}");
            let status = files.set_attributes(&call, &id, &mode_of(0o700), None);
            assert_eq!(status.unwrap().after.unwrap().mode, 0o700, "{removal}");
            files.commit_metadata(&call, &id).unwrap();
            assert_eq!(make(&id, b"new").err(), Some(Error::NotFound), "{removal}");
            drop(second);
            let attributes = files.attributes(&call, &id);
            assert_eq!(attributes, Err(Error::Stale), "{removal}");
        }
    });
}

#[test]
fn what_was_let_go_of_is_not_opened_and_what_is_open_is_not_let_go_of() {
    with_both(|fixture| {
        let who = root_credentials();
        let objects = fixture.files.tree().objects();
        let id = fixture.make(&fixture.root(), "f", b"");
        let object = objects.object(&waiting(&who), &id).unwrap();
        let key = objects.key_of(&id);
        std::fs::remove_file(fixture.path("f")).unwrap();
        let hold = objects.table().hold(&key).unwrap();
        assert!(objects.look(&object, true).is_ok(), "it is open");
        assert!(hold.release());
        assert_eq!(objects.look(&object, true).err(), Some(Error::Stale));
        assert!(
            objects.table().hold(&key).is_none(),
            "no call would find it"
        );
    });
}

/// Not that of its file system, which a copy of the file system has, too.
#[test]
fn an_object_has_the_number_of_its_device() {
    with_both(|fixture| {
        std::fs::write(fixture.path("f"), b"").unwrap();
        for name in ["", "f"] {
            let metadata = std::fs::metadata(fixture.path(name)).unwrap();
            let found = fixture.walk(name).unwrap().attributes;
            assert_eq!(found.filesystem_id, metadata.dev());
        }
    });
}
