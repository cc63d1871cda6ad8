//! Files and directories that get other names.

use std::time::Instant;

use pagewell_fs::DirectoryEntry;
use pagewell_object_client::{Error as RemoteError, ListQuery};

use super::super::testing::Fault;
use super::*;

#[test]
fn a_renamed_file_is_what_it_was_under_both_identifiers() {
    let (store, folder) = (Arc::new(Store::new(100, 1000)), TempDir::new().unwrap());
    store.place("to", b"replaced", &Vec::new());
    let gateway = Gateway::open(&store, &folder, MOUNT);
    let id = gateway.create("from").unwrap();
    gateway.write(&id, 0, b"bytes").unwrap();
    gateway.rename("from", "to").unwrap();
    assert_eq!(store.keys(), ["to"]);
    assert_eq!(store.bytes("to").unwrap(), b"bytes");
    assert_eq!(gateway.names(""), ["to"]);
    assert_eq!(gateway.find("from"), Err(Error::NotFound));
    let new = gateway.find("to").unwrap();
    let number = |id| {
        gateway
            .files
            .attributes(&gateway.call(), id)
            .unwrap()
            .file_id
    };
    assert_ne!(number(&id), number(&new));
    // A program that has it open writes on.
    gateway.write(&id, 5, b", more").unwrap();
    gateway.commit(&id).unwrap();
    assert_eq!(gateway.read(&new).unwrap(), b"bytes, more");
    assert_eq!(store.bytes("to").unwrap(), b"bytes, more");
    // What is made under the old name is another file.
    let again = gateway.create("from").unwrap();
    gateway.write(&again, 0, b"new").unwrap();
    gateway.commit(&again).unwrap();
    assert_eq!(gateway.read(&new).unwrap(), b"bytes, more");
    assert_eq!(store.keys(), ["from", "to"]);
}

/// A store that takes some keys for others says so before anything is made.
#[test]
fn what_a_store_cannot_hold_is_not_made() {
    let (store, folder) = (Arc::new(Store::new(100, 1000)), TempDir::new().unwrap());
    store.place("a", b"1", &Vec::new());
    let gateway = Gateway::open(&store, &folder, MOUNT);
    assert_eq!(gateway.create("b\\c").unwrap_err(), Error::Invalid);
    assert_eq!(gateway.make_directory("b\\c").unwrap_err(), Error::Invalid);
    assert_eq!(gateway.rename("a", "b\\c"), Err(Error::Invalid));
    assert_eq!(store.keys(), ["a"]);
}

#[test]
fn a_renamed_directory_takes_all_with_it_that_was_not_sent_too() {
    let (store, folder) = (Arc::new(Store::new(100, 1000)), TempDir::new().unwrap());
    store.place("d/sub/a", b"1", &Vec::new());
    let gateway = Gateway::open(&store, &folder, MOUNT);
    let id = gateway.create("d/waits").unwrap();
    gateway.write(&id, 0, b"2").unwrap();
    gateway.make_directory("full").unwrap();
    gateway.create("full/file").unwrap();
    gateway.files.finish(Finish::Sync).unwrap();
    assert_eq!(gateway.rename("d", "full"), Err(Error::NotEmpty));
    assert_eq!(gateway.rename("d", "d/sub/d"), Err(Error::Invalid));
    gateway.rename("d", "e").unwrap();
    assert_eq!(gateway.names(""), ["e", "full"]);
    assert_eq!(
        gateway.read(&gateway.find("e/waits").unwrap()).unwrap(),
        b"2"
    );
    assert_eq!(
        gateway.read(&gateway.find("e/sub/a").unwrap()).unwrap(),
        b"1"
    );
    let keys = ["e/sub/a", "e/waits", "full/", "full/file"];
    assert_eq!(store.keys(), keys);
    assert_eq!(gateway.find("d"), Err(Error::NotFound));
}

#[test]
fn what_pagewell_keeps_in_the_bucket_is_not_shown() {
    let (store, folder) = (Arc::new(Store::new(100, 1000)), TempDir::new().unwrap());
    store.place(".pagewell/moves/x", b"", &Vec::new());
    let gateway = Gateway::open(&store, &folder, MOUNT);
    assert_eq!(gateway.names(""), Vec::<String>::new());
    assert_eq!(gateway.find(".pagewell"), Err(Error::NotFound));
    assert!(matches!(
        gateway.make_directory(".pagewell"),
        Err(Error::NotPermitted)
    ));
}

/// A client whose gateway is gone goes on with what it has made, at another one that had listed all
/// of it before.
#[test]
fn handles_of_another_gateway_are_known_to_one_whose_listings_are_older() {
    let store = Arc::new(Store::new(100, 1000));
    let folders = [TempDir::new().unwrap(), TempDir::new().unwrap()];
    let how = How {
        is_at_once: true,
        ..MOUNT
    };
    let [one, two] = [0, 1].map(|number| Gateway::open(&store, &folders[number], how));
    one.make_directory("d").unwrap();
    assert_eq!(two.names(""), ["d"]);
    assert!(two.names("d").is_empty());
    one.make_directory("d/sub").unwrap();
    let id = one.create("d/sub/file").unwrap();
    one.write(&id, 0, b"bytes").unwrap();
    one.commit(&id).unwrap();
    assert_eq!(two.read(&id).unwrap(), b"bytes");
    two.write(&id, 5, b", more").unwrap();
    two.commit(&id).unwrap();
    assert_eq!(store.bytes("d/sub/file").unwrap(), b"bytes, more");
    // What is gone is gone.
    let gone = one.create("d/gone").unwrap();
    one.remove("d/gone").unwrap();
    let asked = two.files.attributes(&two.call(), &gone);
    assert_eq!(asked.map(|_| ()), Err(Error::Stale));
}

/// What a client sent to a gateway that was killed it sends again to the next, since that has
/// another verifier.
#[test]
fn gateways_have_verifiers_of_their_own() {
    let store = Arc::new(Store::new(100, 1000));
    let folders = [TempDir::new().unwrap(), TempDir::new().unwrap()];
    let [one, two] = [0, 1].map(|number| Gateway::open(&store, &folders[number], MOUNT));
    let id = one.create("file").unwrap();
    one.commit(&id).unwrap();
    let verifier = |gateway: &Gateway| {
        let committed = gateway.files.commit(&gateway.call(), &id, 0, 0);
        committed.unwrap().verifier
    };
    assert_eq!(verifier(&one), verifier(&one));
    assert_ne!(verifier(&one), verifier(&two));
}

#[test]
fn a_name_that_was_moved_or_removed_is_another_file_when_it_is_made_again() {
    let (store, folder) = (Arc::new(Store::new(100, 1000)), TempDir::new().unwrap());
    let gateway = Gateway::open(&store, &folder, MOUNT);
    let made = |path: &str, bytes: &[u8]| {
        let id = gateway.create(path).unwrap();
        gateway.write(&id, 0, bytes).unwrap();
        gateway.commit(&id).unwrap();
        id
    };
    let first = made("file.lock", b"first");
    gateway.rename("file.lock", "file").unwrap();
    // What knows the file by its old identifier has it still, when there is another lock.
    let second = made("file.lock", b"second");
    assert_ne!(first, second);
    assert_eq!(gateway.read(&first).unwrap(), b"first");
    gateway.write(&first, 0, b"FIRST").unwrap();
    gateway.commit(&first).unwrap();
    assert_eq!(store.bytes("file").unwrap(), b"FIRST");
    assert_eq!(store.bytes("file.lock").unwrap(), b"second");
    // It is replaced while a program reads it.
    let reader = gateway.files.open(&gateway.call(), &first).unwrap();
    let old = gateway.find("file").unwrap();
    gateway.rename("file.lock", "file").unwrap();
    let new = gateway.find("file").unwrap();
    assert_ne!(old, new);
    assert_eq!(gateway.read(&new).unwrap(), b"second");
    assert_eq!(gateway.read(&old).unwrap(), b"FIRST");
    drop(reader);
    // It is removed, and made by another writer.
    gateway.remove("file").unwrap();
    store.place("file", b"of another", &Vec::new());
    assert_eq!(gateway.read(&new), Err(Error::Stale));
    store.remove("file");
    let again = made("file", b"again");
    gateway.write(&again, 0, b"AGAIN").unwrap();
    gateway.commit(&again).unwrap();
    assert_eq!(store.bytes("file").unwrap(), b"AGAIN");
}

#[test]
fn a_directory_that_was_moved_takes_its_open_files_along() {
    let (store, folder) = (Arc::new(Store::new(100, 1000)), TempDir::new().unwrap());
    let gateway = Gateway::open(&store, &folder, MOUNT);
    gateway.make_directory("logs").unwrap();
    gateway.make_directory("logs/deep").unwrap();
    let old = gateway.create("logs/deep/log").unwrap();
    gateway.write(&old, 0, b"old").unwrap();
    gateway.rename("logs", "old-logs").unwrap();
    gateway.make_directory("logs").unwrap();
    gateway.make_directory("logs/deep").unwrap();
    let new = gateway.create("logs/deep/log").unwrap();
    gateway.write(&new, 0, b"new").unwrap();
    gateway.write(&old, 0, b"OLD").unwrap();
    gateway.commit(&new).unwrap();
    gateway.commit(&old).unwrap();
    assert_eq!(store.bytes("logs/deep/log").unwrap(), b"new");
    assert_eq!(store.bytes("old-logs/deep/log").unwrap(), b"OLD");
}

#[test]
fn a_log_that_is_rotated_over_another_gets_nothing_of_that_ones_writer() {
    let (store, folder) = (Arc::new(Store::new(100, 1000)), TempDir::new().unwrap());
    let gateway = Gateway::open(&store, &folder, MOUNT);
    let made = |bytes: &[u8]| {
        let id = gateway.create("log").unwrap();
        gateway.write(&id, 0, bytes).unwrap();
        gateway.commit(&id).unwrap();
        gateway.rename("log", "log.1").unwrap();
        id
    };
    let (first, second) = (made(b"first"), made(b"second"));
    assert_eq!(gateway.write(&first, 0, b"FIRST"), Err(Error::Stale));
    gateway.write(&second, 0, b"SECOND").unwrap();
    gateway.commit(&second).unwrap();
    assert_eq!(store.bytes("log.1").unwrap(), b"SECOND");
}

#[test]
fn what_was_moved_twice_is_what_it_was_under_all_its_identifiers() {
    let (store, folder) = (Arc::new(Store::new(100, 1000)), TempDir::new().unwrap());
    let gateway = Gateway::open(&store, &folder, MOUNT);
    for directory in ["a", "a/d"] {
        gateway.make_directory(directory).unwrap();
    }
    let directory = gateway.find("a/d").unwrap();
    let mut identifiers = vec![gateway.create("a/d/x").unwrap()];
    let mut length_bytes = 0;
    for (from, to, path) in [
        ("a", "b", "b/d/x"),
        ("b/d/x", "b/d/y", "b/d/y"),
        ("b", "c", "c/d/y"),
        ("c/d/y", "c/d/z", "c/d/z"),
        ("c", "a", "a/d/z"),
    ] {
        gateway.rename(from, to).unwrap();
        identifiers.push(gateway.find(path).unwrap());
        // It is used in each place.
        for id in &identifiers {
            gateway.write(id, length_bytes, b"+").unwrap();
            gateway.commit(id).unwrap();
            length_bytes += 1;
            let stored = store.bytes(path).unwrap();
            assert_eq!(stored.len() as u64, length_bytes, "{path}");
        }
    }
    // What is made through the first identifier of a directory is in it.
    let mode = CreateMode::Guarded(SetAttributes::default());
    let made = gateway
        .files
        .create(&gateway.call(), &directory, b"new", &mode);
    gateway.commit(&made.unwrap().entry.id).unwrap();
    assert_eq!(store.keys(), ["a/", "a/d/", "a/d/new", "a/d/z"]);
}

#[test]
fn a_directory_is_read_to_its_end_in_small_pieces_after_changes() {
    let store = Arc::new(Store::new(100, 1000));
    let folder = TempDir::new().unwrap();
    for name in ["a", "b", "c", "d"] {
        store.place(name, b"old", &Vec::new());
    }
    let gateway = Gateway::open(&store, &folder, MOUNT);
    assert_eq!(gateway.names("").len(), 4);
    // The listing has it, and what was done here lies over it.
    let changed = gateway.find("b").unwrap();
    gateway.write(&changed, 0, b"new").unwrap();
    gateway.commit(&changed).unwrap();
    gateway.create("e").unwrap();
    let (mut names, mut cookie) = (Vec::new(), 2);
    for _ in 0..20 {
        let mut next = None;
        let files = &gateway.files;
        let mut visit = |entry: &pagewell_fs::DirectoryEntry<'_>| {
            let is_first = next.is_none();
            if is_first {
                names.push(String::from_utf8(entry.name.to_vec()).unwrap());
                next = Some(entry.cookie);
            }
            is_first
        };
        let root = files.root();
        let read = files.read_directory(&gateway.call(), &root, cookie, false, &mut visit);
        read.unwrap();
        let Some(last) = next else { break };
        cookie = last;
    }
    names.sort();
    assert_eq!(names, ["a", "b", "c", "d", "e"]);
}

#[test]
fn the_page_that_shows_what_a_prefix_is_begins_its_listing() {
    let store = Arc::new(Store::default());
    for key in ["a", "d/b", ".pagewell/moves/1", "z"] {
        store.place(key, b"1", &Vec::new());
    }
    let query = ListQuery {
        prefix: "",
        delimiter: true,
        token: None,
        page_entries_max: 1000,
    };
    let (page, began) = (store.list(&query).unwrap(), Instant::now());
    let cache = Cache::new(CacheOptions::new(4 * BYTES_MIN)).unwrap();
    let data = Data::new(store.clone(), &cache, None, None);
    let tree = Tree::new(data, ("s3://bucket", ""), &MOUNT.handling());
    let files = ObjectFileSystem::of(tree.with_first_page(page, began));
    store.asked();
    let (root, mut names) = (Credentials::root(), Vec::new());
    let mut visit = |entry: &DirectoryEntry<'_>| {
        names.push(entry.name.to_vec());
        true
    };
    let call = Call::new(&root, true);
    let read = files.read_directory(&call, &files.root(), 2, true, &mut visit);
    assert!(read.unwrap().end);
    names.sort_unstable();
    assert_eq!(names, [b"a", b"d", b"z"]);
    assert_eq!(store.asked(), []);
}

#[test]
fn the_next_listing_shows_no_change_but_those_of_others() {
    let (store, folder) = (Arc::new(Store::new(100, 1000)), TempDir::new().unwrap());
    store.place("d/old", b"1", &Vec::new());
    let gateway = Gateway::open(&store, &folder, MOUNT);
    let make = |name: &str| {
        let id = gateway.create(name).unwrap();
        gateway.write(&id, 0, b"1").unwrap();
        gateway.commit(&id).unwrap();
    };
    let id = gateway.find("d").unwrap();
    let node = gateway.tree.directory(&gateway.call(), &id).unwrap();
    let changed = || node.directory().unwrap().changed();
    let listed = || {
        node.directory().unwrap().expire();
        gateway.names("d").len()
    };
    assert_eq!(listed(), 1);
    make("d/a");
    make("d/b");
    gateway.files.remove(&gateway.call(), &id, b"old").unwrap();
    gateway.rename("d/b", "d/c").unwrap();
    // Over itself, too.
    gateway.rename("d/c", "d/a").unwrap();
    let before = changed();
    assert_eq!((listed(), changed()), (1, before));
    store.place("d/by another", b"1", &Vec::new());
    assert_eq!(listed(), 2);
    assert!(changed() > before);
}

#[test]
fn a_move_under_way_is_no_leftover_of_its_own_process() {
    let (store, folder) = (Arc::new(Store::new(100, 1000)), TempDir::new().unwrap());
    store.place("from/a", b"bytes", &Vec::new());
    let gateway = Gateway::open(&store, &folder, MOUNT);
    let (found, is_found) = std::sync::mpsc::channel();
    let is_found = std::sync::Mutex::new(is_found);
    store.hook(move |_, asked| {
        match asked {
            // By the thread that looks for moves of processes that died.
            Asked::Whole(key) if key.starts_with(".pagewell/moves/") => {
                let _ = found.send(());
            }
            Asked::Put(key, _) if key == "to/a" => {
                let found = is_found
                    .lock()
                    .unwrap()
                    .recv_timeout(Duration::from_secs(60));
                found.unwrap();
            }
            _ => {}
        }
        Fault::None
    });
    gateway.rename("from", "to").unwrap();
    drop(gateway);
    let asked = store.asked();
    let listed = Asked::List("from/".to_owned());
    let lists = asked.iter().filter(|asked| **asked == listed).count();
    assert_eq!(lists, 2, "at the begin and at the end: {asked:?}");
}

#[test]
fn what_replaces_a_removed_directory_is_seen_at_once() {
    let (store, folder) = (Arc::new(Store::new(100, 1000)), TempDir::new().unwrap());
    for key in ["from/sub/y", "from/x", "to/sub/x", "to/x"] {
        store.place(key, b"1", &Vec::new());
    }
    let gateway = Gateway::open(&store, &folder, MOUNT);
    assert_eq!(gateway.names("to/sub"), ["x"]);
    for path in ["to/sub/x", "to/x"] {
        gateway.remove(path).unwrap();
    }
    let (call, to) = (gateway.call(), gateway.find("to").unwrap());
    gateway.files.remove_directory(&call, &to, b"sub").unwrap();
    gateway.rename("from", "to").unwrap();
    assert_eq!(gateway.names("to").len(), 2);
    for path in ["to/sub/y", "to/x"] {
        assert_eq!(gateway.read(&gateway.find(path).unwrap()).unwrap(), b"1");
    }
}

/// The call would wait for its own end.
#[test]
fn a_directory_does_not_replace_one_above_it() {
    let (store, folder) = (Arc::new(Store::new(100, 1000)), TempDir::new().unwrap());
    store.place("a/b/c/file", b"bytes", &Vec::new());
    let gateway = Gateway::open(&store, &folder, MOUNT);
    for (from, to) in [("a/b", "a"), ("a/b/c", "a"), ("a/b/c", "a/b")] {
        assert_eq!(gateway.rename(from, to), Err(Error::NotEmpty), "{from}");
    }
    assert_eq!(store.keys(), ["a/b/c/file"]);
}

#[test]
fn a_directory_with_a_file_that_is_not_sent_is_not_replaced() {
    let (store, folder) = (Arc::new(Store::new(100, 1000)), TempDir::new().unwrap());
    store.place("from/a", b"theirs", &Vec::new());
    let gateway = Gateway::open(&store, &folder, MOUNT);
    gateway.make_directory("to").unwrap();
    let id = gateway.create("to/a").unwrap();
    gateway.write(&id, 0, b"mine").unwrap();
    assert_eq!(gateway.rename("from", "to"), Err(Error::NotEmpty));
    gateway.commit(&id).unwrap();
    assert_eq!(store.bytes("to/a").unwrap(), b"mine");
    assert_eq!(store.bytes("from/a").unwrap(), b"theirs");
}

#[test]
fn a_move_that_fails_in_the_middle_shows_what_went() {
    let (store, folder) = (Arc::new(Store::new(100, 1000)), TempDir::new().unwrap());
    for key in ["from/a", "from/b"] {
        store.place(key, b"1", &Vec::new());
    }
    let gateway = Gateway::open(&store, &folder, MOUNT);
    assert_eq!(gateway.names("from"), ["a", "b"]);
    store.hook(|_, asked| match asked {
        Asked::Put(key, _) if key == "to/b" => Fault::Before(RemoteError::Denied("no".to_owned())),
        _ => Fault::None,
    });
    gateway.rename("from", "to").unwrap_err();
    store.unhook();
    assert_eq!(store.keys().len(), 3, "and what was intended");
    assert_eq!(
        (gateway.names("from"), gateway.names("to")),
        (vec!["b".to_owned()], vec!["a".to_owned()])
    );
    gateway.rename("from", "to").unwrap();
    assert_eq!(gateway.names("to"), ["a", "b"]);
}

#[test]
fn modes_that_were_set_here_go_with_a_directory() {
    let (store, folder) = (Arc::new(Store::new(100, 1000)), TempDir::new().unwrap());
    store.place("from/sub/run", b"1", &Vec::new());
    let gateway = Gateway::open(&store, &folder, MOUNT);
    let call = gateway.call();
    for (path, mode) in [("from/sub/run", 0o755), ("from/sub", 0o700)] {
        let attributes = SetAttributes {
            mode: Some(mode),
            ..SetAttributes::default()
        };
        let id = gateway.find(path).unwrap();
        gateway
            .files
            .set_attributes(&call, &id, &attributes, None)
            .unwrap();
    }
    gateway.rename("from", "to").unwrap();
    for (path, mode) in [("to/sub/run", 0o755), ("to/sub", 0o700)] {
        let id = gateway.find(path).unwrap();
        assert_eq!(
            gateway.files.attributes(&call, &id).unwrap().mode,
            mode,
            "{path}"
        );
    }
}
