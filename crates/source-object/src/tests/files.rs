//! Files that are made, changed, removed, and changed by two at once.

use super::super::changed::FILES_MAX;
use super::super::testing::Fault;
use super::*;

fn store() -> Arc<Store> {
    Arc::new(Store::new(100, 1000))
}

#[test]
fn a_file_is_an_object_once_it_is_closed_and_not_before() {
    let (store, folder) = (store(), TempDir::new().unwrap());
    let gateway = Gateway::open(&store, &folder, MOUNT);
    let id = gateway.create("a").unwrap();
    gateway.write(&id, 0, b"hello").unwrap();
    assert_eq!(store.keys(), Vec::<String>::new());
    assert_eq!(gateway.names(""), ["a"]);
    assert_eq!(gateway.read(&id).unwrap(), b"hello");
    gateway.files.close(&gateway.call(), &id).unwrap();
    assert_eq!(store.bytes("a").unwrap(), b"hello");
    assert_eq!(changes(&store), [Asked::Put("a".to_owned(), 5)]);
    // A name, its attributes and its bytes cost nothing more.
    assert_eq!(gateway.names(""), ["a"]);
    assert_eq!(gateway.find("a").unwrap(), id);
    assert_eq!(gateway.read(&id).unwrap(), b"hello");
    gateway.commit(&id).unwrap();
    assert_eq!(store.asked(), []);
}

#[test]
fn a_server_makes_the_object_at_once() {
    let (store, folder) = (store(), TempDir::new().unwrap());
    let how = How {
        is_at_once: true,
        ..MOUNT
    };
    let gateway = Gateway::open(&store, &folder, how);
    let parent = gateway.files.root();
    let exclusive = CreateMode::Exclusive(*b"verifier");
    let create = |gateway: &Gateway, mode: &CreateMode| {
        let created = gateway.files.create(&gateway.call(), &parent, b"a", mode);
        created.map(|created| created.entry.id)
    };
    let id = create(&gateway, &exclusive).unwrap();
    assert_eq!(store.bytes("a").unwrap(), b"");
    // The same request once more, to this gateway and to another.
    let other = Gateway::open(&store, &TempDir::new().unwrap(), how);
    for gateway in [&gateway, &other] {
        assert_eq!(create(gateway, &exclusive), Ok(id));
        let another = CreateMode::Exclusive(*b"another.");
        assert_eq!(create(gateway, &another), Err(Error::Exists));
    }
    other.write(&id, 0, b"by the other").unwrap();
    other.commit(&id).unwrap();
    other.cut(&id, 6).unwrap();
    assert_eq!(store.bytes("a").unwrap(), b"by the");
}

#[test]
fn a_change_in_the_middle_sends_little_of_a_large_object() {
    let (store, folder) = (store(), TempDir::new().unwrap());
    let mut bytes: Vec<u8> = (0..20_000_u32).map(|at| at as u8).collect();
    store.place("a", &bytes, &vec![("kept".to_owned(), b"yes".to_vec())]);
    let gateway = Gateway::open(&store, &folder, MOUNT);
    let id = gateway.find("a").unwrap();
    gateway.write(&id, 10_000, b"new").unwrap();
    gateway.write(&id, 20_000, b"end").unwrap();
    gateway.commit(&id).unwrap();
    bytes[10_000..10_003].copy_from_slice(b"new");
    bytes.extend_from_slice(b"end");
    assert_eq!(store.bytes("a").unwrap(), bytes);
    assert_eq!(gateway.read(&id).unwrap(), bytes);
    let metadata = store.metadata("a").unwrap();
    assert!(
        metadata
            .iter()
            .any(|(name, value)| name == "kept" && value == b"yes")
    );
}

#[test]
fn what_a_change_leaves_comes_in_one_request() {
    const MIDDLE: usize = 1 << 20;
    let (store, folder) = (store(), TempDir::new().unwrap());
    let mut bytes: Vec<u8> = (0..2 << 20).map(|at| (at / 7) as u8).collect();
    store.place("a", &bytes, &Vec::new());
    let gateway = Gateway::open(&store, &folder, MOUNT);
    let id = gateway.find("a").unwrap();
    gateway.write(&id, MIDDLE as u64, b"change").unwrap();
    gateway.commit(&id).unwrap();
    let asked = changes(&store);
    let all = Asked::Get("a".to_owned(), 0..2 << 20);
    assert_eq!(asked, [all, Asked::Put("a".to_owned(), 2 << 20)]);
    bytes[MIDDLE..MIDDLE + 6].copy_from_slice(b"change");
    assert_eq!(store.bytes("a").unwrap(), bytes);
}

#[test]
fn bytes_behind_an_end_that_moved_are_zeros() {
    let (store, folder) = (store(), TempDir::new().unwrap());
    store.place("a", &[7; 200_000], &Vec::new());
    let gateway = Gateway::open(&store, &folder, MOUNT);
    let id = gateway.find("a").unwrap();
    assert_eq!(gateway.read(&id).unwrap(), [7; 200_000]);
    gateway.cut(&id, 100_001).unwrap();
    gateway.cut(&id, 150_000).unwrap();
    gateway.write(&id, 160_000, b"x").unwrap();
    let mut wanted = vec![0; 160_001];
    wanted[..100_001].fill(7);
    wanted[160_000] = b'x';
    assert_eq!(gateway.read(&id).unwrap(), wanted);
    gateway.commit(&id).unwrap();
    assert_eq!(store.bytes("a").unwrap(), wanted);
    assert_eq!(gateway.read(&id).unwrap(), wanted);
}

#[test]
fn the_second_of_two_writers_learns_of_it_and_its_bytes_are_kept() {
    let (store, folders) = (store(), [TempDir::new().unwrap(), TempDir::new().unwrap()]);
    store.place("a", b"before", &Vec::new());
    let [one, two] = [0, 1].map(|at| Gateway::open(&store, &folders[at], MOUNT));
    let id = one.find("a").unwrap();
    assert_eq!(two.find("a").unwrap(), id);
    one.write(&id, 0, b"ONE").unwrap();
    two.write(&id, 3, b"TWO").unwrap();
    one.commit(&id).unwrap();
    let Err(Error::Io(text)) = two.commit(&id) else {
        panic!("no error");
    };
    assert_eq!(store.bytes("a").unwrap(), b"ONEore");
    let path = text.rsplit("kept in ").next().unwrap();
    let kept = std::fs::read(path).unwrap();
    assert_eq!(&kept[3..], b"TWO");
    // It was said once, and the file is what the first has made of it.
    assert_eq!(two.commit(&id), Ok(()));
    assert_eq!(two.read(&id).unwrap(), b"ONEore");
    two.write(&id, 3, b"TWO").unwrap();
    two.commit(&id).unwrap();
    assert_eq!(store.bytes("a").unwrap(), b"ONETWO");
}

#[test]
fn a_new_file_does_not_replace_one_of_another() {
    let (store, folder) = (store(), TempDir::new().unwrap());
    let gateway = Gateway::open(&store, &folder, MOUNT);
    let id = gateway.create("a").unwrap();
    gateway.write(&id, 0, b"mine").unwrap();
    store.place("a", b"theirs", &Vec::new());
    assert!(matches!(gateway.commit(&id), Err(Error::Io(_))));
    assert_eq!(store.bytes("a").unwrap(), b"theirs");
    assert_eq!(
        gateway.read(&gateway.find("a").unwrap()).unwrap(),
        b"theirs"
    );
}

#[test]
fn a_removed_file_is_gone_and_its_directory_stays() {
    let (store, folder) = (store(), TempDir::new().unwrap());
    store.place("d/a", b"1", &Vec::new());
    let gateway = Gateway::open(&store, &folder, MOUNT);
    let waits = gateway.create("d/waits").unwrap();
    gateway.write(&waits, 0, b"never sent").unwrap();
    gateway.remove("d/waits").unwrap();
    assert_eq!(gateway.names("d"), ["a"]);
    gateway.remove("d/a").unwrap();
    assert_eq!(store.keys(), ["d/"]);
    assert_eq!(gateway.names("d"), Vec::<String>::new());
    assert_eq!(gateway.find("d/a"), Err(Error::NotFound));
    let root = gateway.files.root();
    let removed = gateway.files.remove_directory(&gateway.call(), &root, b"d");
    removed.unwrap();
    assert_eq!(store.keys(), Vec::<String>::new());
    assert_eq!(gateway.find("d"), Err(Error::NotFound));
}

#[test]
fn a_removed_file_that_a_program_has_open_is_read_and_written_on() {
    let (store, folder) = (store(), TempDir::new().unwrap());
    let gateway = Gateway::open(&store, &folder, MOUNT);
    let id = gateway.create("a").unwrap();
    gateway.write(&id, 0, b"before").unwrap();
    gateway.commit(&id).unwrap();
    let opened = gateway.files.open(&gateway.call(), &id).unwrap();
    gateway.remove("a").unwrap();
    gateway.write(&id, 6, b", after").unwrap();
    gateway.files.close(&gateway.call(), &id).unwrap();
    assert_eq!(gateway.read(&id).unwrap(), b"before, after");
    drop(opened);
    gateway.files.finish(Finish::Sync).unwrap();
    assert_eq!(store.keys(), Vec::<String>::new());
    assert!(gateway.read(&id).is_err());
}

#[test]
fn a_hundred_files_in_a_new_directory_cost_a_request_each() {
    let (store, folder) = (store(), TempDir::new().unwrap());
    let gateway = Gateway::open(&store, &folder, MOUNT);
    gateway.make_directory("d").unwrap();
    for number in 0..100 {
        let id = gateway.create(&format!("d/{number}")).unwrap();
        gateway.write(&id, 0, b"small").unwrap();
        gateway.files.close(&gateway.call(), &id).unwrap();
    }
    // One for the listing of the root, and one for the directory.
    assert_eq!(store.asked().len(), 102);
    assert_eq!(gateway.names("d").len(), 100);
    let other = Gateway::open(&store, &TempDir::new().unwrap(), MOUNT);
    assert_eq!(other.names("d").len(), 100);
}

#[test]
fn what_is_journaled_is_sent_by_the_next_run() {
    let (store, folder) = (store(), TempDir::new().unwrap());
    store.place("old", b"before", &Vec::new());
    let how = How {
        acknowledge: Acknowledge::Journal,
        ..MOUNT
    };
    let gateway = Gateway::open(&store, &folder, how);
    let new = gateway.create("new").unwrap();
    gateway.write(&new, 100_000, b"new").unwrap();
    let old = gateway.find("old").unwrap();
    gateway.write(&old, 2, b"FT").unwrap();
    for id in [&new, &old, &old] {
        gateway.commit(id).unwrap();
    }
    gateway.files.close(&gateway.call(), &new).unwrap();
    assert_eq!(store.keys(), ["old"]);
    // Killed: nothing of it runs any more.
    std::mem::forget(gateway);
    let copy = TempDir::new().unwrap();
    for entry in std::fs::read_dir(folder.path()).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), copy.path().join(entry.file_name())).unwrap();
    }
    let gateway = Gateway::open(&store, &copy, how);
    assert_eq!(gateway.read(&old).unwrap(), b"beFTre");
    gateway.files.finish(Finish::Sync).unwrap();
    assert_eq!(store.bytes("old").unwrap(), b"beFTre");
    assert_eq!(store.bytes("new").unwrap().len(), 100_003);
}

#[test]
fn a_file_larger_than_the_staging_folder_becomes_an_object_meanwhile() {
    const MIB: usize = 1 << 20;
    let (store, folder) = (store(), TempDir::new().unwrap());
    let how = How {
        staging_bytes_max: 24 << 20,
        ..MOUNT
    };
    let gateway = Gateway::open(&store, &folder, how);
    let (one, other) = (
        gateway.create("one").unwrap(),
        gateway.create("two").unwrap(),
    );
    gateway.write(&other, 0, b"little").unwrap();
    // The cache has room for a part of it.
    for number in 0..64 {
        let bytes = vec![u8::try_from(number).unwrap(); MIB];
        gateway.write(&one, (number * MIB) as u64, &bytes).unwrap();
    }
    assert!(store.bytes("one").is_some() && store.bytes("two").is_none());
    gateway.commit(&one).unwrap();
    let stored = store.bytes("one").unwrap();
    assert_eq!(stored.len(), 64 * MIB);
    assert!((0..64).all(|at| usize::from(stored[at * MIB + 7]) == at));
}

/// What memory writes to the folder at once, too. Nothing waits until the folder counts as failed.
#[test]
fn a_staging_folder_smaller_than_a_write_is_done_without() {
    const MIB: usize = 1 << 20;
    for staging_bytes_max in [1 << 20, 3 << 20] {
        let (store, folder) = (store(), TempDir::new().unwrap());
        let how = How {
            staging_bytes_max,
            ..MOUNT
        };
        let gateway = Gateway::open(&store, &folder, how);
        let write = |first: usize, name: &str| {
            let id = gateway.create(name).unwrap();
            for number in (first..24).step_by(2) {
                let bytes = vec![u8::try_from(number).unwrap(); MIB];
                let at = (number / 2 * MIB) as u64;
                gateway.write(&id, at, &bytes).unwrap();
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(|| write(0, "one"));
            scope.spawn(|| write(1, "two"));
        });
        gateway.files.finish(Finish::Sync).unwrap();
        for (number, name) in ["one", "two"].into_iter().enumerate() {
            let stored = store.bytes(name).unwrap();
            assert_eq!(stored.len(), 12 * MIB);
            assert!((0..12).all(|at| usize::from(stored[at * MIB + 7]) == 2 * at + number));
        }
    }
}

#[test]
fn a_journal_without_room_is_no_failure() {
    const MIB: usize = 1 << 20;
    let (store, folder) = (store(), TempDir::new().unwrap());
    let how = How {
        acknowledge: Acknowledge::Journal,
        staging_bytes_max: 4 << 20,
        ..MOUNT
    };
    let gateway = Gateway::open(&store, &folder, how);
    let (large, small) = (
        gateway.create("large").unwrap(),
        gateway.create("small").unwrap(),
    );
    for number in 0..6 {
        let bytes = vec![u8::try_from(number).unwrap(); MIB];
        gateway
            .write(&large, (number * MIB) as u64, &bytes)
            .unwrap();
    }
    gateway.commit(&large).unwrap();
    // There is room again.
    gateway.write(&small, 0, b"small").unwrap();
    gateway.commit(&small).unwrap();
    gateway.files.finish(Finish::Sync).unwrap();
    let stored = store.bytes("large").unwrap();
    assert!(stored.len() == 6 * MIB && (0..6).all(|at| usize::from(stored[at * MIB + 7]) == at));
    assert_eq!(store.bytes("small").unwrap(), b"small");
}

#[test]
fn a_file_does_not_grow_by_more_zeros_than_are_staged() {
    const GIB: u64 = 1 << 30;
    let (store, folder) = (store(), TempDir::new().unwrap());
    store.place("old", b"bytes", &Vec::new());
    let how = How {
        staging_bytes_max: 3 * GIB,
        ..MOUNT
    };
    let gateway = Gateway::open(&store, &folder, how);
    let id = gateway.find("old").unwrap();
    let too_far = 3 * GIB + 6;
    assert_eq!(gateway.cut(&id, too_far), Err(Error::FileTooLarge));
    assert_eq!(gateway.write(&id, too_far, b"x"), Err(Error::FileTooLarge));
    gateway.cut(&id, 3 * GIB).unwrap();
    gateway.write(&id, too_far, b"x").unwrap();
    gateway.cut(&id, 5).unwrap();
    gateway.commit(&id).unwrap();
    assert_eq!(store.bytes("old").unwrap(), b"bytes");
}

#[test]
fn what_the_staging_folder_has_no_room_for_is_named_so() {
    let (store, folder) = (store(), TempDir::new().unwrap());
    let how = How {
        staging_bytes_max: 4096,
        ..MOUNT
    };
    let gateway = Gateway::open(&store, &folder, how);
    let id = gateway.create("new").unwrap();
    gateway.write(&id, 0, &[7; 100_000]).unwrap();
    // The page with the new end goes to the folder first.
    let Err(Error::FullBelow(text)) = gateway.cut(&id, 50_001) else {
        panic!("the folder takes one page of the system");
    };
    assert!(text.contains("--staging-dir-size"), "{text}");
    gateway.commit(&id).unwrap();
    assert_eq!(store.bytes("new").unwrap(), [7; 100_000]);
}

/// All is bounded, also while the store is down.
#[test]
fn one_changed_file_too_many_waits_for_no_store_that_takes_none() {
    let (store, folder) = (store(), TempDir::new().unwrap());
    let gateway = Gateway::over(store.clone(), folder.path(), MOUNT, false);
    let made = |number: usize| gateway.create(&number.to_string());
    let first = made(0).unwrap();
    assert!((1..FILES_MAX).all(|number| made(number).is_ok()));
    assert_eq!(store.keys(), Vec::<String>::new());
    let down = || pagewell_object_client::Error::Unreachable("down".to_owned());
    store.hook(move |_, _| Fault::Before(down()));
    for _ in 0..2 {
        let Err(Error::FullBelow(text)) = gateway.create("more") else {
            panic!("no error");
        };
        assert!(text.contains("down"), "{text}");
    }
    gateway.write(&first, 0, b"changed more").unwrap();
    store.unhook();
    let more = gateway.create("more").unwrap();
    assert_eq!(store.keys().len(), 1, "one had to go");
    gateway.write(&more, 0, b"more").unwrap();
    gateway.commit(&more).unwrap();
    assert_eq!(store.bytes("more").unwrap(), b"more");
}
