//! Files that are renamed while programs have them open.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, mpsc};
use std::thread::JoinHandle;

use pagewell_fs::{Opened, SetTime, Timestamp};

use super::super::testing::Fault;
use super::*;

/// Two ways in which `d/file` gets another name, and that.
const MOVES: [(&str, &str, &str); 2] = [("d/file", "d/new", "d/new"), ("d", "e", "e/file")];

/// A read on a thread, once it has begun.
type Reading = Mutex<Option<JoinHandle<Result<Vec<u8>>>>>;

fn begin(bytes: &[u8]) -> (Arc<Store>, TempDir, Arc<Gateway>, FileId) {
    let (store, folder) = (Arc::new(Store::new(100, 1000)), TempDir::new().unwrap());
    store.place("d/file", bytes, &Vec::new());
    let gateway = Arc::new(Gateway::open(&store, &folder, MOUNT));
    let id = gateway.find("d/file").unwrap();
    (store, folder, gateway, id)
}

fn open(gateway: &Gateway, id: &FileId) -> Opened {
    gateway.files.open(&gateway.call(), id).unwrap()
}

fn set_time(gateway: &Gateway, id: &FileId) -> Timestamp {
    let time = Timestamp {
        seconds: 1_700_000_000,
        nanoseconds: 5,
    };
    let attributes = SetAttributes {
        modified: Some(SetTime::To(time)),
        ..SetAttributes::default()
    };
    let files = &gateway.files;
    let set = files.set_attributes(&gateway.call(), id, &attributes, None);
    set.map(|_| time).unwrap()
}

fn modified(gateway: &Gateway, id: &FileId) -> Timestamp {
    let attributes = gateway.files.attributes(&gateway.call(), id);
    attributes.unwrap().modified
}

#[test]
fn a_renamed_file_stays_open_until_it_is_closed() {
    for (from, to, path) in MOVES {
        let (store, _folder, gateway, id) = begin(b"bytes");
        let opened = [open(&gateway, &id), open(&gateway, &id)];
        assert_eq!(gateway.read(&id).unwrap(), b"bytes");
        gateway.rename(from, to).unwrap();
        let late = open(&gateway, &gateway.find(path).unwrap());
        gateway.remove(path).unwrap();
        drop(opened);
        assert_eq!(gateway.read(&id).unwrap(), b"bytes", "{path}");
        gateway.write(&id, 0, b"B").unwrap();
        gateway.commit(&id).unwrap();
        assert_eq!(gateway.read(&id).unwrap(), b"Bytes");
        assert!(store.bytes(path).is_none());
        // The last one throws them away.
        drop(late);
        assert_eq!(gateway.read(&id), Err(Error::Stale));
    }
}

#[test]
fn a_rename_keeps_bytes_in_memory_and_times() {
    for (from, to, path) in MOVES {
        let (store, _folder, gateway, id) = begin(b"bytes");
        let time = set_time(&gateway, &id);
        drop(open(&gateway, &id));
        let opened = open(&gateway, &id);
        assert_eq!(gateway.read(&id).unwrap(), b"bytes");
        gateway.rename(from, to).unwrap();
        drop(opened);
        let new = gateway.find(path).unwrap();
        assert_eq!(modified(&gateway, &new), time);
        store.asked();
        // The kernel may keep its own as well.
        assert!(open(&gateway, &new).keep_cache, "{path}");
        for id in [id, new] {
            assert_eq!(gateway.read(&id).unwrap(), b"bytes");
        }
        let asked = store.asked();
        assert!(
            asked.iter().all(|asked| matches!(asked, Asked::Head(_))),
            "{asked:?}"
        );
    }
}

#[test]
fn what_replaces_a_renamed_file_is_not_given_to_its_programs() {
    for (from, to, path) in MOVES {
        let (store, _folder, gateway, id) = begin(b"bytes");
        let opened = open(&gateway, &id);
        assert_eq!(gateway.read(&id).unwrap(), b"bytes");
        gateway.rename(from, to).unwrap();
        store.place(path, b"other", &Vec::new());
        let seen = open(&gateway, &gateway.find(path).unwrap());
        let read = gateway.read(&id);
        let is_said = matches!(&read, Err(Error::Io(text)) if text.contains("was replaced"));
        assert!(is_said, "{path}: {read:?}");
        drop((opened, seen));
        assert_eq!(gateway.read(&id).unwrap(), b"other");
    }
}

/// The writer learns of it, wherever the file is by then.
#[test]
fn a_failure_that_was_not_reported_goes_with_a_rename() {
    for (from, to, _) in MOVES {
        let (store, _folder, gateway, id) = begin(b"bytes");
        gateway.write(&id, 0, b"B").unwrap();
        store.place("d/file", b"other", &Vec::new());
        assert!(gateway.files.finish(Finish::Sync).is_err());
        gateway.rename(from, to).unwrap();
        assert!(matches!(gateway.commit(&id), Err(Error::Io(_))), "{to}");
        assert_eq!(gateway.commit(&id), Ok(()));
    }
}

/// Has a read of `d/file` arrive at the store before that is moved and be answered afterwards, when
/// `is_due` is.
fn read_across(
    store: &Arc<Store>,
    gateway: &Arc<Gateway>,
    id: FileId,
    is_due: impl Fn(&Store) -> bool + Send + Sync + 'static,
) -> Arc<Reading> {
    let read: Arc<Reading> = Arc::default();
    let (arrived, arrives) = mpsc::channel();
    let (reader, arrives) = (gateway.clone(), Mutex::new(arrives));
    let (begun, there) = (read.clone(), Arc::downgrade(store));
    store.hook(move |_, asked| {
        match asked {
            Asked::Delete(key) if key == "d/file" => {
                let reader = reader.clone();
                *begun.lock().unwrap() = Some(std::thread::spawn(move || reader.read(&id)));
                arrives.lock().unwrap().recv().unwrap();
            }
            Asked::Get(key, _) if key == "d/file" => {
                arrived.send(()).unwrap();
                while !there.upgrade().is_none_or(|store| is_due(&store)) {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
            _ => {}
        }
        Fault::None
    });
    read
}

fn end(read: &Reading) -> Result<Vec<u8>> {
    let thread = read.lock().unwrap().take().expect("a read");
    thread.join().unwrap()
}

/// The rest of the rename is waited for, and what is there is read.
#[test]
fn what_is_read_while_it_is_renamed_is_there() {
    for (from, to, path) in MOVES {
        let (store, _folder, gateway, id) = begin(b"bytes");
        let time = set_time(&gateway, &id);
        let read = read_across(&store, &gateway, id, |store| {
            store.bytes("d/file").is_none()
        });
        gateway.rename(from, to).unwrap();
        assert_eq!(end(&read).unwrap(), b"bytes", "{to}");
        assert_eq!(modified(&gateway, &gateway.find(path).unwrap()), time);
        store.unhook();
    }
}

/// Nor does it where the file was renamed twice, and is changed.
#[test]
fn what_shares_a_request_with_one_before_a_rename_gets_its_bytes() {
    for (from, to, path) in MOVES {
        let (store, _folder, gateway, id) = begin(b"bytes");
        let is_due = Arc::new(AtomicBool::new(false));
        let due = is_due.clone();
        let first = read_across(&store, &gateway, id, move |_| due.load(Ordering::Acquire));
        gateway.rename(from, to).unwrap();
        gateway.rename(path, "last").unwrap();
        let new = gateway.find("last").unwrap();
        let [reader, writer] = [gateway.clone(), gateway.clone()];
        let read = std::thread::spawn(move || reader.read(&id));
        let commit = std::thread::spawn(move || {
            writer.write(&new, 1, b"Y")?;
            writer.commit(&new)
        });
        // Until they wait for what the first has asked for.
        std::thread::sleep(Duration::from_millis(100));
        is_due.store(true, Ordering::Release);
        assert_eq!(commit.join().unwrap(), Ok(()), "{to}");
        let read = read.join().unwrap().unwrap();
        assert!(read == b"bytes" || read == b"bYtes", "{to}: {read:?}");
        end(&first).unwrap();
        store.unhook();
        assert_eq!(store.bytes("last").unwrap(), b"bYtes");
    }
}

/// Another gateway has removed it, and its name is that of a moved file now.
#[test]
fn what_is_moved_over_a_file_that_is_gone_is_another_for_its_programs() {
    let (store, folder) = (Arc::new(Store::new(100, 1000)), TempDir::new().unwrap());
    store.place("d/file", b"bytes", &Vec::new());
    store.place("e/file", b"gone!", &Vec::new());
    let gateway = Gateway::open(&store, &folder, MOUNT);
    gateway.find("d/file").unwrap();
    let old = gateway.find("e/file").unwrap();
    let opened = open(&gateway, &old);
    assert_eq!(gateway.read(&old).unwrap(), b"gone!");
    store.remove("e/file");
    gateway.rename("d", "e").unwrap();
    assert_ne!(gateway.read(&old).ok(), Some(b"bytes".to_vec()));
    assert_eq!(
        gateway.read(&gateway.find("e/file").unwrap()).unwrap(),
        b"bytes"
    );
    drop(opened);
}

/// A program has bytes of what another has removed, and what is made under the new key is not that.
#[test]
fn what_was_gone_before_a_rename_is_not_what_is_made_in_its_place() {
    let (store, _folder, gateway, id) = begin(b"bytes");
    store.place("d/other", b"", &Vec::new());
    let opened = open(&gateway, &id);
    assert_eq!(gateway.read(&id).unwrap(), b"bytes");
    store.remove("d/file");
    gateway.rename("d", "e").unwrap();
    store.place("e/file", b"other", &Vec::new());
    assert!(matches!(gateway.read(&id), Err(Error::Io(_))));
    drop(opened);
}

#[test]
fn a_file_that_is_removed_while_it_is_renamed_stays_what_it_is() {
    let (store, _folder, gateway, id) = begin(b"bytes");
    let removed: Arc<Mutex<Option<JoinHandle<_>>>> = Arc::default();
    let (other, begun) = (gateway.clone(), removed.clone());
    store.hook(move |_, asked| {
        if matches!(asked, Asked::Delete(_)) {
            let other = other.clone();
            let remove = move || other.remove("d/file");
            *begun.lock().unwrap() = Some(std::thread::spawn(remove));
            // Until it waits for the rename.
            std::thread::sleep(Duration::from_millis(100));
        }
        Fault::None
    });
    gateway.rename("d/file", "d/new").unwrap();
    let thread = removed.lock().unwrap().take().unwrap();
    assert_eq!(thread.join().unwrap(), Err(Error::NotFound));
    store.unhook();
    assert_eq!(gateway.read(&id).unwrap(), b"bytes");
    assert_eq!(store.keys(), ["d/new"]);
}
