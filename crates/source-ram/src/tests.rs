//! What the parts do together. The rules of POSIX are tested against a model, in `lab/model`.

use pagewell_fs::{
    Change, CreateMode, Credentials, FileType, NodeKind, ReadReply, RenameMode, SetAttributes,
    Stability,
};

use super::quota::INODE_BYTES;
use super::*;

fn call(credentials: &Credentials) -> Call<'_> {
    Call::new(credentials, false)
}

fn with_mode(mode: u32) -> SetAttributes {
    SetAttributes {
        mode: Some(mode),
        ..SetAttributes::default()
    }
}

fn make(filesystem: &RamFileSystem, user: &Credentials, name: &[u8]) -> FileId {
    let mode = CreateMode::Guarded(SetAttributes::default());
    let root = filesystem.root();
    let created = filesystem.create(&call(user), &root, name, &mode);
    created.unwrap().entry.id
}

fn bytes_of(reply: &ReadReply) -> Vec<u8> {
    let mut bytes = vec![0; reply.payload.len()];
    reply.payload.copy_to(&mut bytes, false).unwrap();
    bytes
}

#[test]
fn a_size_that_holds_nothing_is_refused() {
    assert_eq!(RamFileSystem::new(0).err(), Some(Error::Invalid));
    assert_eq!(
        RamFileSystem::new(INODE_BYTES - 1).err(),
        Some(Error::Invalid)
    );
    assert!(RamFileSystem::new(INODE_BYTES).is_ok());
}

#[test]
fn it_says_what_it_is() {
    let describe = |bytes| RamFileSystem::new(bytes).unwrap().describe();
    assert_eq!(describe(512 << 20), "ram, 512 MiB");
    assert_eq!(describe(3 << 29), "ram, 1.5 GiB");
    assert_eq!(describe(2 << 30), "ram, 2.0 GiB");
    assert_eq!(describe(1000), "ram, 1000 B");
}

#[test]
fn identifiers_of_another_life_are_stale_and_malformed_ones_are_bad() {
    let user = Credentials::root();
    let first = RamFileSystem::new(1 << 20).unwrap();
    let second = RamFileSystem::new(1 << 20).unwrap();
    let attributes = |id| first.attributes(&call(&user), &id).err();
    assert_eq!(attributes(first.root()), None);
    assert_eq!(attributes(second.root()), Some(Error::Stale));
    assert_ne!(first.write_verifier(None), second.write_verifier(None));
    let root = first.root();
    for length in (0..=48).filter(|length| *length != 16) {
        let mut bytes = root.as_bytes().to_vec();
        bytes.resize(length, 0);
        let id = FileId::new(&bytes).unwrap();
        assert_eq!(attributes(id), Some(Error::BadId));
    }
    let mut bytes = root.as_bytes().to_vec();
    bytes[15] = 0xff;
    assert_eq!(attributes(FileId::new(&bytes).unwrap()), Some(Error::Stale));
}

#[test]
fn a_read_pins_its_bytes_over_writes_and_removal() {
    let user = Credentials::root();
    let filesystem = RamFileSystem::new(1 << 20).unwrap();
    let id = make(&filesystem, &user, b"file");
    let call = call(&user);
    let write = |byte: u8| {
        filesystem
            .write(&call, &id, 0, &[byte; 70_000], Stability::FileSync)
            .unwrap()
    };
    assert_eq!(write(1).committed, Stability::FileSync);
    let reply = filesystem.read(&call, &id, 1, u32::MAX).unwrap();
    assert!(reply.end_of_file);
    write(2);
    let root = filesystem.root();
    filesystem.remove(&call, &root, b"file").unwrap();
    assert_eq!(bytes_of(&reply), [1; 69_999]);
    let gone = filesystem.read(&call, &id, 0, 1);
    assert_eq!(gone.err(), Some(Error::Stale));
}

#[test]
fn an_open_file_outlives_its_last_name() {
    let user = Credentials::root();
    let filesystem = RamFileSystem::new(8 << 20).unwrap();
    let call = call(&user);
    let (root, empty) = (filesystem.root(), filesystem.used_bytes());
    let id = make(&filesystem, &user, b"file");
    let first = filesystem.open(&call, &id).unwrap();
    let second = filesystem.open(&call, &id).unwrap();
    make(&filesystem, &user, b"other");
    filesystem
        .rename(
            &call,
            (&root, b"other"),
            (&root, b"file"),
            RenameMode::Replace,
        )
        .unwrap();
    drop(first);
    filesystem
        .write(&call, &id, 0, &[1; 100_000], Stability::Unstable)
        .unwrap();
    let reply = filesystem.read(&call, &id, 99_999, 10).unwrap();
    assert_eq!(bytes_of(&reply), [1]);
    assert_eq!(filesystem.attributes(&call, &id).unwrap().link_count, 0);
    let again = filesystem.link(&call, &id, &root, b"again");
    assert_eq!(again.err(), Some(Error::NotFound));
    drop((second, reply));
    assert_eq!(filesystem.attributes(&call, &id), Err(Error::Stale));
    filesystem.remove(&call, &root, b"file").unwrap();
    assert_eq!(filesystem.used_bytes(), empty);

    // The name goes after the last hold as ever.
    let id = make(&filesystem, &user, b"file");
    drop(filesystem.open(&call, &id).unwrap());
    filesystem.remove(&call, &root, b"file").unwrap();
    assert_eq!(filesystem.attributes(&call, &id), Err(Error::Stale));
    assert_eq!(filesystem.used_bytes(), empty);
}

#[test]
fn every_byte_comes_back_to_the_quota() {
    let user = Credentials::root();
    let filesystem = RamFileSystem::new(8 << 20).unwrap();
    let call = call(&user);
    let empty = filesystem.used_bytes();
    let root = filesystem.root();
    let id = make(&filesystem, &user, b"file");
    filesystem
        .write(&call, &id, 0, &[1; 1_000_000], Stability::Unstable)
        .unwrap();
    filesystem.link(&call, &id, &root, b"other name").unwrap();
    filesystem
        .make_symlink(&call, &root, b"link", &[b'x'; 1000], &with_mode(0o777))
        .unwrap();
    let kind = NodeKind::Fifo;
    filesystem
        .make_node(&call, &root, b"pipe", kind, &with_mode(0o600))
        .unwrap();
    let directory = filesystem
        .make_directory(&call, &root, b"directory", &with_mode(0o700))
        .unwrap();
    let inside = directory.entry.id;
    assert!(filesystem.used_bytes() > empty + 1_000_000);
    filesystem
        .rename(
            &call,
            (&root, b"file"),
            (&inside, b"a much longer name"),
            RenameMode::Replace,
        )
        .unwrap();
    filesystem
        .rename(
            &call,
            (&root, b"pipe"),
            (&root, b"link"),
            RenameMode::Replace,
        )
        .unwrap();
    filesystem.remove(&call, &root, b"link").unwrap();
    filesystem
        .rename(
            &call,
            (&inside, b"a much longer name"),
            (&root, b"f"),
            RenameMode::Replace,
        )
        .unwrap();
    filesystem.remove(&call, &root, b"f").unwrap();
    filesystem
        .remove_directory(&call, &root, b"directory")
        .unwrap();
    let attributes = filesystem.attributes(&call, &id).unwrap();
    assert_eq!((attributes.link_count, attributes.size), (1, 1_000_000));
    filesystem.remove(&call, &root, b"other name").unwrap();
    assert_eq!(filesystem.used_bytes(), empty);
    let statistics = filesystem.statistics(&call).unwrap();
    assert_eq!(statistics.bytes_free, statistics.bytes_total - empty);
}

#[test]
fn a_full_file_system_refuses_names_and_objects_and_lets_remove() {
    let user = Credentials::root();
    // Ten files of one-digit names fit, exactly.
    let filesystem = RamFileSystem::new(INODE_BYTES + 10 * (INODE_BYTES + 161)).unwrap();
    let call = call(&user);
    let root = filesystem.root();
    let mode = CreateMode::Guarded(SetAttributes::default());
    for number in 0..10 {
        make(&filesystem, &user, format!("{number}").as_bytes());
    }
    let one_more = filesystem.create(&call, &root, b"x", &mode);
    assert_eq!(one_more.err(), Some(Error::NoSpace));
    assert_eq!(filesystem.statistics(&call).unwrap().bytes_free, 0);
    let before = filesystem.attributes(&call, &root).unwrap();
    let failed = [
        filesystem
            .rename(
                &call,
                (&root, b"0"),
                (&root, &[b'n'; 255]),
                RenameMode::Replace,
            )
            .err(),
        filesystem
            .make_directory(&call, &root, b"d", &with_mode(0o777))
            .err(),
        filesystem
            .make_symlink(&call, &root, b"s", &[b't'; 3000], &with_mode(0o777))
            .err(),
    ];
    assert_eq!(failed, [const { Some(Error::NoSpace) }; 3]);
    assert_eq!(filesystem.attributes(&call, &root).unwrap(), before);
    for number in 0..10 {
        let name = format!("{number}");
        filesystem.remove(&call, &root, name.as_bytes()).unwrap();
    }
    assert_eq!(filesystem.used_bytes(), INODE_BYTES);
}

#[test]
fn a_refused_write_changes_nothing() {
    let root_user = Credentials::root();
    let filesystem = RamFileSystem::new(70_000).unwrap();
    let id = make(&filesystem, &root_user, b"file");
    let mode = with_mode(0o4777);
    let root_call = call(&root_user);
    filesystem
        .set_attributes(&root_call, &id, &mode, None)
        .unwrap();
    let before = filesystem.attributes(&root_call, &id).unwrap();
    let user = Credentials::new(1000, 1000, &[]);
    let call = call(&user);
    let full = filesystem.write(&call, &id, 1 << 30, &[1; 65_536], Stability::Unstable);
    assert!(full.is_ok());
    let mode_after = filesystem.attributes(&call, &id).unwrap().mode;
    assert_eq!(mode_after, 0o777, "set-user-id goes with a write");
    let after = filesystem.attributes(&call, &id).unwrap();
    let full = filesystem.write(&call, &id, 0, &[1; 65_536], Stability::Unstable);
    assert_eq!(full.err(), Some(Error::NoSpace));
    assert_eq!(filesystem.attributes(&call, &id).unwrap(), after);
    assert!(after.changed > before.changed);
}

#[test]
fn writes_end_at_the_largest_size() {
    let user = Credentials::root();
    let filesystem = RamFileSystem::new(1 << 20).unwrap();
    let id = make(&filesystem, &user, b"file");
    let call = call(&user);
    let huge = filesystem.write(&call, &id, u64::MAX, b"x", Stability::Unstable);
    assert_eq!(huge.err(), Some(Error::FileTooLarge));
    let cut = filesystem.write(&call, &id, FILE_BYTES_MAX - 1, b"xyz", Stability::Unstable);
    assert_eq!(cut.unwrap().count, 1);
}

#[test]
fn too_many_links_are_refused() {
    let user = Credentials::root();
    let filesystem = RamFileSystem::new(1 << 20).unwrap();
    let call = call(&user);
    let root = filesystem.root();
    let id = make(&filesystem, &user, b"file");
    filesystem
        .make_directory(&call, &root, b"d", &with_mode(0o777))
        .unwrap();
    let inode = filesystem.tree.inode(&id).unwrap();
    inode.write().unwrap().metadata.link_count = LINKS_MAX;
    let linked = filesystem.link(&call, &id, &root, b"one more");
    assert_eq!(linked.err(), Some(Error::TooManyLinks));
    let directory = filesystem.lookup(&call, &root, b"d").unwrap();
    let inside = filesystem
        .make_directory(&call, &directory.id, b"e", &with_mode(0o777))
        .unwrap();
    assert_eq!(inside.entry.attributes.file_type, FileType::Directory);
    let inode = filesystem.tree.inode(&root).unwrap();
    inode.write().unwrap().metadata.link_count = LINKS_MAX;
    let made = filesystem.make_directory(&call, &root, b"x", &with_mode(0o777));
    assert_eq!(made.err(), Some(Error::TooManyLinks));
    let moved = filesystem.rename(
        &call,
        (&directory.id, b"e"),
        (&root, b"e"),
        RenameMode::Replace,
    );
    assert_eq!(moved.err(), Some(Error::TooManyLinks));
}

#[test]
fn a_deep_tree_needs_no_deep_stack() {
    let user = Credentials::root();
    let filesystem = RamFileSystem::new(1 << 30).unwrap();
    let call = call(&user);
    let mut at = filesystem.root();
    for _ in 0..100_000 {
        let made = filesystem.make_directory(&call, &at, b"d", &with_mode(0o755));
        at = made.unwrap().entry.id;
    }
    let root = filesystem.root();
    let moved = filesystem.rename(&call, (&root, b"d"), (&at, b"loop"), RenameMode::Replace);
    assert_eq!(moved.err(), Some(Error::Invalid));
    drop(filesystem);
}

#[test]
fn a_listing_shows_every_name_that_stays_once() {
    let user = Credentials::root();
    let filesystem = RamFileSystem::new(1 << 24).unwrap();
    let call = call(&user);
    let root = filesystem.root();
    (0..1000).for_each(|number| {
        make(&filesystem, &user, format!("stays {number}").as_bytes());
    });
    let mut seen = Vec::new();
    let mut cookie = 0;
    let mut round = 0;
    loop {
        make(&filesystem, &user, format!("comes {round}").as_bytes());
        if round % 2 == 1 {
            let name = format!("comes {}", round - 1);
            filesystem.remove(&call, &root, name.as_bytes()).unwrap();
        }
        let mut left = 7;
        let page = filesystem.read_directory(&call, &root, cookie, true, &mut |entry| {
            if left == 0 {
                return false;
            }
            left -= 1;
            cookie = entry.cookie;
            seen.push(entry.name.to_vec());
            entry
                .entry
                .is_some_and(|found| found.attributes.file_id == entry.file_id)
        });
        round += 1;
        assert!(round < 1000);
        if page.unwrap().end {
            break;
        }
    }
    let stayed = seen.iter().filter(|name| name.starts_with(b"stays"));
    assert_eq!(stayed.count(), 1000);
    let all = seen.len();
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), all, "a name twice");
    assert_eq!(&seen[..2], &[b".".to_vec(), b"..".to_vec()]);
}

#[test]
fn before_is_always_an_earlier_after() {
    let user = Credentials::root();
    let filesystem = RamFileSystem::new(1 << 24).unwrap();
    let call = call(&user);
    let id = make(&filesystem, &user, b"file");
    let start = filesystem.attributes(&call, &id).unwrap();
    let changes: Vec<Change> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..4_u32)
            .map(|worker| {
                let (filesystem, user) = (&filesystem, &user);
                scope.spawn(move || {
                    let call = super::tests::call(user);
                    let change = |round: u32| {
                        if (worker + round).is_multiple_of(3) {
                            let mode = with_mode(round & 0o777);
                            filesystem.set_attributes(&call, &id, &mode, None).unwrap()
                        } else {
                            let offset = u64::from(worker * 1000 + round);
                            let written =
                                filesystem.write(&call, &id, offset, b"x", Stability::Unstable);
                            written.unwrap().change
                        }
                    };
                    (0..500).map(change).collect::<Vec<_>>()
                })
            })
            .collect();
        let parts = workers.into_iter().map(|worker| worker.join().unwrap());
        parts.flatten().collect()
    });
    let mut afters: Vec<_> = changes.iter().map(|one| one.after.unwrap().wcc()).collect();
    afters.push(start.wcc());
    let mut befores: Vec<_> = changes.iter().map(|one| one.before.unwrap()).collect();
    befores.push(filesystem.attributes(&call, &id).unwrap().wcc());
    afters.sort_unstable_by_key(|wcc| wcc.changed);
    befores.sort_unstable_by_key(|wcc| wcc.changed);
    assert_eq!(
        befores, afters,
        "every state was seen once as before and once as after"
    );
}

#[test]
fn an_open_directory_outlives_its_name_and_nothing_is_made_in_it() {
    let user = Credentials::root();
    let filesystem = RamFileSystem::new(1 << 20).unwrap();
    let call = call(&user);
    let (root, empty) = (filesystem.root(), filesystem.used_bytes());
    let make = |directory: &FileId, name: &[u8]| {
        let made = filesystem.make_directory(&call, directory, name, &with_mode(0o755));
        made.map(|made| made.entry.id)
    };
    let list = |id: &FileId| {
        let mut names = Vec::new();
        let page = filesystem.read_directory(&call, id, 0, true, &mut |entry| {
            names.push(entry.name.to_vec());
            true
        });
        page.map(|_| names)
    };
    let outer = make(&root, b"outer").unwrap();
    for replaced in [false, true] {
        let id = make(&outer, b"inner").unwrap();
        let first = filesystem.hold(&call, &id).unwrap().unwrap();
        let second = filesystem.hold(&call, &id).unwrap().unwrap();
        if replaced {
            make(&outer, b"other").unwrap();
            filesystem
                .rename(
                    &call,
                    (&outer, b"other"),
                    (&outer, b"inner"),
                    RenameMode::Replace,
                )
                .unwrap();
        }
        filesystem
            .remove_directory(&call, &outer, b"inner")
            .unwrap();
        if replaced {
            filesystem.remove_directory(&call, &root, b"outer").unwrap();
        }
        drop(first);
        let attributes = filesystem.attributes(&call, &id).unwrap();
        assert_eq!(attributes.link_count, 0);
        assert_eq!(list(&id).unwrap(), [&b"."[..], b".."]);
        assert_eq!(make(&id, b"new").err(), Some(Error::NotFound));
        let file = CreateMode::Guarded(SetAttributes::default());
        let made = filesystem.create(&call, &id, b"new", &file);
        assert_eq!(made.err(), Some(Error::NotFound));
        for name in [&b".."[..], b"new"] {
            let found = filesystem.lookup(&call, &id, name);
            assert_eq!(found.err(), Some(Error::NotFound));
        }
        let moved = filesystem.rename(&call, (&root, b"outer"), (&id, b"new"), RenameMode::Replace);
        assert_eq!(moved.err(), Some(Error::NotFound));
        drop(second);
        assert_eq!(filesystem.attributes(&call, &id), Err(Error::Stale));
    }
    assert_eq!(filesystem.used_bytes(), empty);
}
