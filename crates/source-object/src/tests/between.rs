//! What comes between a change and its end: another gateway, a kill, an answer that is lost, a call
//! of another program.

use std::sync::Mutex;

use pagewell_object_client::Error as RemoteError;

use super::super::testing::Fault;
use super::*;

const JOURNAL: How = How {
    acknowledge: Acknowledge::Journal,
    ..MOUNT
};

/// Believes no listing for long.
const WARY: How = How {
    age: Duration::ZERO,
    ..MOUNT
};

/// A request, and what came of a write meanwhile.
type Attempt = (Asked, Result<()>);

fn store() -> Arc<Store> {
    Arc::new(Store::new(100, 1000))
}

/// A gateway starts with what one that is killed now leaves.
fn restarted(gateway: Gateway, store: &Arc<Store>, folder: &TempDir) -> (Gateway, TempDir) {
    let copy = TempDir::new().unwrap();
    for entry in std::fs::read_dir(folder.path()).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), copy.path().join(entry.file_name())).unwrap();
    }
    // Nothing of it runs any more.
    std::mem::forget(gateway);
    (Gateway::open(store, &copy, JOURNAL), copy)
}

fn is_kept(failed: Result<()>) -> bool {
    matches!(failed, Err(Error::Io(text)) if text.contains("kept in "))
}

#[test]
fn a_name_that_was_removed_here_and_made_by_another_is_another_file() {
    let (store, folder) = (store(), TempDir::new().unwrap());
    let gateway = Gateway::open(&store, &folder, WARY);
    for has_it_open in [false, true] {
        store.place("a", b"old", &Vec::new());
        let id = gateway.find("a").unwrap();
        let opened = has_it_open.then(|| gateway.files.open(&gateway.call(), &id));
        gateway.write(&id, 0, b"lost with its name").unwrap();
        gateway.remove("a").unwrap();
        store.place("a", b"new", &Vec::new());
        let id = gateway.find("a").unwrap();
        drop(opened);
        assert_eq!(gateway.read(&id).unwrap(), b"new");
        gateway.write(&id, 3, b"er").unwrap();
        gateway.commit(&id).unwrap();
        assert_eq!(store.bytes("a").unwrap(), b"newer");
        gateway.remove("a").unwrap();
    }
}

#[test]
fn a_listing_that_is_forgotten_while_a_page_comes_begins_again() {
    let (store, folder) = (Arc::new(Store::new(100, 2)), TempDir::new().unwrap());
    for name in ["a", "b", "c"] {
        store.place(name, b"", &Vec::new());
    }
    let gateway = Gateway::open(&store, &folder, MOUNT);
    let tree = gateway.tree.clone();
    store.hook(move |number, _| {
        if number == 1 {
            tree.root().directory().unwrap().mistrust(b"d");
        }
        Fault::None
    });
    assert_eq!(gateway.names(""), ["a", "b", "c"]);
    gateway.find("a").unwrap();
}

#[test]
fn a_sync_that_gives_up_files_has_the_next_caller_of_each_learn_of_it() {
    let (store, folder) = (store(), TempDir::new().unwrap());
    let gateway = Gateway::open(&store, &folder, MOUNT);
    let ids = ["a", "b"].map(|name| gateway.create(name).unwrap());
    for (name, id) in ["a", "b"].iter().zip(&ids) {
        gateway.write(id, 0, b"mine").unwrap();
        store.place(name, b"theirs", &Vec::new());
    }
    assert!(is_kept(gateway.files.finish(Finish::Sync).map(drop)));
    assert!(is_kept(gateway.commit(&ids[0])));
    assert!(is_kept(gateway.cut(&ids[1], 1)));
    assert_eq!(gateway.read(&ids[1]).unwrap(), b"theirs");
}

#[test]
fn a_link_does_not_throw_changes_away_whose_object_another_has_removed() {
    let (store, folder) = (store(), TempDir::new().unwrap());
    let how = How {
        has_metadata: true,
        ..WARY
    };
    let gateway = Gateway::open(&store, &folder, how);
    store.place("a", b"old", &Vec::new());
    let id = gateway.find("a").unwrap();
    gateway.write(&id, 0, b"new").unwrap();
    store.remove("a");
    let (root, none) = (gateway.files.root(), SetAttributes::default());
    let link = || {
        let files = &gateway.files;
        files.make_symlink(&gateway.call(), &root, b"a", b"to", &none)
    };
    assert!(is_kept(link().map(drop)));
    link().unwrap();
    assert_eq!(store.bytes("a").unwrap(), b"to");
}

#[test]
fn a_create_does_not_throw_changes_away_whose_object_another_has_removed() {
    let (store, folder) = (store(), TempDir::new().unwrap());
    store.place("a", b"before", &Vec::new());
    let gateway = Gateway::open(&store, &folder, WARY);
    let id = gateway.find("a").unwrap();
    gateway.write(&id, 0, b"changed").unwrap();
    store.remove("a");
    assert!(is_kept(gateway.create("a").map(drop)));
    gateway.create("a").unwrap();
    gateway.commit(&id).unwrap();
    assert_eq!(store.bytes("a").unwrap(), b"");
}

#[test]
fn what_was_journaled_and_removed_while_it_was_open_does_not_come_back() {
    let (store, folder) = (store(), TempDir::new().unwrap());
    let gateway = Gateway::open(&store, &folder, JOURNAL);
    let id = gateway.create("a").unwrap();
    let opened = gateway.files.open(&gateway.call(), &id).unwrap();
    gateway.write(&id, 0, b"gone").unwrap();
    gateway.commit(&id).unwrap();
    gateway.remove("a").unwrap();
    assert_eq!(gateway.read(&id).unwrap(), b"gone");
    let (gateway, _folder) = restarted(gateway, &store, &folder);
    gateway.files.finish(Finish::Sync).unwrap();
    assert_eq!(store.keys(), Vec::<String>::new());
    drop(opened);
}

#[test]
fn a_commit_of_a_file_that_is_as_it_was_takes_its_record_away() {
    let (store, folder) = (store(), TempDir::new().unwrap());
    store.place("a", b"", &Vec::new());
    let gateway = Gateway::open(&store, &folder, JOURNAL);
    let id = gateway.find("a").unwrap();
    for size in [1000, 0] {
        gateway.cut(&id, size).unwrap();
        gateway.commit(&id).unwrap();
    }
    let (gateway, _folder) = restarted(gateway, &store, &folder);
    assert_eq!(gateway.read(&id).unwrap(), b"");
    gateway.files.finish(Finish::Sync).unwrap();
    assert_eq!(changes(&store), []);
}

#[test]
fn an_object_whose_answer_was_lost_is_known_once_it_is_found() {
    let (store, folder) = (store(), TempDir::new().unwrap());
    let gateway = Gateway::open(&store, &folder, JOURNAL);
    gateway.create("a").unwrap();
    store.hook(|_, asked| match asked {
        Asked::Put(..) => Fault::After(RemoteError::Unreachable("lost".to_owned())),
        _ => Fault::None,
    });
    gateway.files.finish(Finish::Sync).unwrap_err();
    store.unhook();
    gateway.files.finish(Finish::Sync).unwrap();
    // Its name is that of a listing again, and nothing is left to be done after a kill.
    store.place("a", b"by another", &Vec::new());
    gateway.tree.root().directory().unwrap().expire();
    let id = gateway.find("a").unwrap();
    assert_eq!(gateway.read(&id).unwrap(), b"by another");
    store.remove("a");
    let (gateway, _folder) = restarted(gateway, &store, &folder);
    gateway.files.finish(Finish::Sync).unwrap();
    assert_eq!(store.keys(), Vec::<String>::new());
}

#[test]
fn what_is_cut_off_behind_a_commit_is_sent() {
    let (store, folder) = (store(), TempDir::new().unwrap());
    let gateway = Arc::new(Gateway::open(&store, &folder, MOUNT));
    let id = gateway.create("a").unwrap();
    gateway.write(&id, 0, b"bytes").unwrap();
    let (cutter, cut) = (gateway.clone(), Arc::new(Mutex::new(None)));
    let begun = cut.clone();
    store.hook(move |number, _| {
        if number == 0 {
            let cutter = cutter.clone();
            let thread = std::thread::spawn(move || cutter.cut(&id, 1));
            *begun.lock().unwrap() = Some(thread);
            // Until it waits for the commit.
            std::thread::sleep(Duration::from_millis(200));
        }
        Fault::None
    });
    store.asked();
    gateway.commit(&id).unwrap();
    let thread = cut.lock().unwrap().take().unwrap();
    thread.join().unwrap().unwrap();
    store.unhook();
    gateway.files.finish(Finish::Sync).unwrap();
    assert_eq!(store.bytes("a").unwrap(), b"b");
}

#[test]
fn what_is_changed_below_a_directory_while_it_is_moved_is_not_lost() {
    let (store, folder) = (store(), TempDir::new().unwrap());
    store.place("from/a", b"before", &Vec::new());
    store.place("from/b", b"before", &Vec::new());
    let gateway = Arc::new(Gateway::open(&store, &folder, MOUNT));
    let (id, directory) = (
        gateway.find("from/a").unwrap(),
        gateway.find("from").unwrap(),
    );
    let threads: Arc<Mutex<Vec<std::thread::JoinHandle<()>>>> = Arc::default();
    let (other, begun) = (gateway.clone(), threads.clone());
    store.hook(move |_, asked| {
        let mut begun = begun.lock().unwrap();
        if matches!(asked, Asked::Delete(key) if key == "from/b") && begun.is_empty() {
            let call = Call::new(&other.root, false);
            let written = other.files.write(&call, &id, 0, b"BE", Stability::Unstable);
            assert_eq!(written.map(drop), Err(Error::WouldBlock));
            let mode = CreateMode::Guarded(SetAttributes::default());
            let (writer, maker) = (other.clone(), other.clone());
            begun.push(std::thread::spawn(move || {
                writer.write(&id, 0, b"BE").unwrap();
                writer.commit(&id).unwrap();
            }));
            begun.push(std::thread::spawn(move || {
                let call = maker.call();
                let made = maker
                    .files
                    .create(&call, &directory, b"new", &mode)
                    .unwrap();
                maker.write(&made.entry.id, 0, b"new").unwrap();
                maker.commit(&made.entry.id).unwrap();
            }));
        }
        Fault::None
    });
    gateway.rename("from", "to").unwrap();
    let threads = std::mem::take(&mut *threads.lock().unwrap());
    assert_eq!(threads.len(), 2);
    store.unhook();
    for thread in threads {
        thread.join().unwrap();
    }
    assert_eq!(store.keys(), ["to/a", "to/b", "to/new"]);
    assert_eq!(store.bytes("to/a").unwrap(), b"BEfore");
    assert_eq!(store.bytes("to/new").unwrap(), b"new");
}

/// Whoever sent its changes, and learnt of it, too.
#[test]
fn the_writer_of_a_file_learns_that_its_changes_were_given_up() {
    let how = How {
        has_metadata: true,
        ..MOUNT
    };
    let (store, folder) = (store(), TempDir::new().unwrap());
    let gateway = Gateway::open(&store, &folder, how);
    for path in ["d/a", "b", "c"] {
        store.place(path, b"before", &Vec::new());
    }
    let begin = |path: &str| {
        let id = gateway.find(path).unwrap();
        gateway.write(&id, 0, b"BE").unwrap();
        store.place(path, b"of another", &Vec::new());
        id
    };
    // A rename of its directory, or of itself, sends it, and a sync.
    let (below, itself, synced) = (begin("d/a"), begin("b"), begin("c"));
    for (from, to) in [("d", "e"), ("b", "f")] {
        assert!(
            matches!(gateway.rename(from, to), Err(Error::Io(_))),
            "{from}"
        );
    }
    assert!(gateway.files.finish(Finish::Sync).is_err());
    // Others may change it again, and send that.
    let attributes = SetAttributes {
        mode: Some(0o600),
        ..SetAttributes::default()
    };
    let set = gateway
        .files
        .set_attributes(&gateway.call(), &synced, &attributes, None);
    set.unwrap();
    gateway.files.finish(Finish::Sync).unwrap();
    for id in [below, itself, synced] {
        assert!(matches!(gateway.commit(&id), Err(Error::Io(_))));
        assert_eq!(gateway.commit(&id), Ok(()), "it was said");
    }
}

#[test]
fn a_mode_that_is_set_while_a_file_is_moved_is_not_lost() {
    let how = How {
        has_metadata: true,
        ..MOUNT
    };
    let (store, folder) = (store(), TempDir::new().unwrap());
    store.place("from", b"bytes", &Vec::new());
    let gateway = Arc::new(Gateway::open(&store, &folder, how));
    let id = gateway.find("from").unwrap();
    let set: Arc<Mutex<Option<std::thread::JoinHandle<_>>>> = Arc::default();
    let (other, begun) = (gateway.clone(), set.clone());
    store.hook(move |_, asked| {
        if matches!(asked, Asked::Delete(_)) {
            let attributes = SetAttributes {
                mode: Some(0o700),
                ..SetAttributes::default()
            };
            let other = other.clone();
            let set = move || {
                other
                    .files
                    .set_attributes(&other.call(), &id, &attributes, None)
                    .map(drop)
            };
            *begun.lock().unwrap() = Some(std::thread::spawn(set));
            // Until it waits for the move.
            std::thread::sleep(Duration::from_millis(200));
        }
        Fault::None
    });
    gateway.rename("from", "to").unwrap();
    let thread = set.lock().unwrap().take().unwrap();
    thread.join().unwrap().unwrap();
    store.unhook();
    let moved = gateway.find("to").unwrap();
    let attributes = gateway.files.attributes(&gateway.call(), &moved);
    assert_eq!(attributes.unwrap().mode, 0o700);
}

#[test]
fn what_is_written_while_a_file_is_moved_waits() {
    let (store, folder) = (store(), TempDir::new().unwrap());
    let gateway = Arc::new(Gateway::open(&store, &folder, MOUNT));
    let id = gateway.create("from").unwrap();
    gateway.write(&id, 0, b"bytes").unwrap();
    let written: Arc<Mutex<Vec<Attempt>>> = Arc::default();
    let (writer, seen) = (gateway.clone(), written.clone());
    store.hook(move |_, asked| {
        let mut seen = seen.lock().unwrap();
        if matches!(asked, Asked::Put(..) | Asked::Delete(_)) {
            let call = Call::new(&writer.root, false);
            let written = writer.files.write(&call, &id, 5, b"!", Stability::Unstable);
            seen.push((asked.clone(), written.map(drop)));
        }
        Fault::None
    });
    gateway.rename("from", "to").unwrap();
    store.unhook();
    assert_eq!(store.bytes("to").unwrap(), b"bytes");
    let waits = Err(Error::WouldBlock);
    let wanted = [
        Asked::Put("from".to_owned(), 5),
        Asked::Put("to".to_owned(), 5),
        Asked::Delete("from".to_owned()),
    ];
    let wanted = wanted.map(|asked| (asked, waits.clone()));
    assert_eq!(*written.lock().unwrap(), wanted);
    gateway.write(&id, 5, b"!").unwrap();
    gateway.commit(&id).unwrap();
    assert_eq!(store.bytes("to").unwrap(), b"bytes!");
    // The old name is that of another file from now on, which is sent.
    let id = gateway.create("from").unwrap();
    gateway.write(&id, 0, b"another").unwrap();
    gateway.files.finish(Finish::Sync).unwrap();
    assert_eq!(store.bytes("from").unwrap(), b"another");
}
