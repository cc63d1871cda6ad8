//! Small files that are read in the order of their directory.

use super::*;

/// Ten files of which one is large, listed.
fn listed(how: How) -> (Arc<Store>, Gateway, TempDir) {
    let (store, folder) = (Arc::new(Store::new(100, 1000)), TempDir::new().unwrap());
    for number in 0..10_usize {
        let bytes = vec![number as u8; if number == 4 { 200_000 } else { 10 + number }];
        store.place(&format!("f{number}"), &bytes, &Vec::new());
    }
    let gateway = Gateway::open(&store, &folder, how);
    assert_eq!(gateway.names("").len(), 10);
    store.asked();
    (store, gateway, folder)
}

/// The keys of requests for bytes, and whether there were others.
fn gets(store: &Store) -> (Vec<String>, bool) {
    let asked = store.asked();
    let gets = asked.iter().filter_map(|asked| match asked {
        Asked::Get(key, _) => Some(key.clone()),
        _ => None,
    });
    let gets: Vec<_> = gets.collect();
    let has_others = gets.len() < asked.len();
    (gets, has_others)
}

/// Reads the first three files, and returns the keys that were asked for.
fn fetched_with_three(store: &Store, gateway: &Gateway) -> Vec<String> {
    for number in 0..3 {
        let id = gateway.find(&format!("f{number}")).unwrap();
        gateway.read(&id).unwrap();
    }
    let mut fetched = gets(store).0;
    fetched.sort_unstable();
    fetched
}

#[test]
fn those_behind_the_third_have_come_when_they_are_read() {
    let (store, gateway, _folder) = listed(MOUNT);
    let read = |number: usize| {
        let id = gateway.find(&format!("f{number}")).unwrap();
        let bytes = gateway.read(&id).unwrap();
        assert_eq!(bytes[0], number as u8);
        gets(&store).0
    };
    assert_eq!(read(0), ["f0"]);
    assert_eq!(read(1), ["f1"]);
    let mut third = read(2);
    third.sort_unstable();
    // The large one comes when it is read.
    assert_eq!(third, ["f2", "f3", "f5", "f6"]);
    assert_eq!(read(3), Vec::<String>::new());
    let fifth = read(4);
    let ahead = |key: &str| fifth.iter().filter(|got| *got == key).count();
    assert_eq!(["f7", "f8", "f9"].map(ahead), [1; 3]);
    for number in [5, 6, 7, 8, 9, 0, 1, 2, 3] {
        assert_eq!(read(number), Vec::<String>::new(), "{number}");
    }
}

#[test]
fn an_open_file_brings_others_only_where_opens_believe_what_was_seen() {
    for believes_at_open in [false, true] {
        let (store, gateway, _folder) = listed(How {
            believes_at_open,
            ..MOUNT
        });
        let mut requests = 0;
        for number in 0..4 {
            let id = gateway.find(&format!("f{number}")).unwrap();
            let open = gateway.files.open(&gateway.call(), &id).unwrap();
            gateway.read(&id).unwrap();
            drop(open);
            requests = store.asked().len();
        }
        // The fourth has been there with the third, and was not asked about.
        assert_eq!(requests, usize::from(!believes_at_open));
    }
}

#[test]
fn an_open_that_believes_asks_when_what_was_seen_is_old() {
    let (store, gateway, _folder) = listed(How {
        believes_at_open: true,
        age: Duration::ZERO,
        ..MOUNT
    });
    let id = gateway.find("f0").unwrap();
    assert_eq!(gateway.read(&id).unwrap(), [0; 10]);
    store.place("f0", b"by another", &Vec::new());
    store.asked();
    let open = gateway.files.open(&gateway.call(), &id).unwrap();
    assert!(gets(&store).1);
    assert_eq!(gateway.read(&id).unwrap(), b"by another");
    drop(open);
}

#[test]
fn nothing_is_fetched_by_an_old_listing_or_for_a_name_that_is_gone() {
    let (store, gateway, _folder) = listed(How {
        age: Duration::from_millis(50),
        ..MOUNT
    });
    let ids: Vec<_> = (0..3)
        .map(|number| gateway.find(&format!("f{number}")).unwrap())
        .collect();
    std::thread::sleep(Duration::from_millis(60));
    store.asked();
    for id in &ids {
        gateway.read(id).unwrap();
    }
    assert_eq!(gets(&store).0, ["f0", "f1", "f2"]);

    let (store, gateway, _folder) = listed(MOUNT);
    let root = gateway.files.root();
    for name in [b"f3", b"f5"] {
        gateway.files.remove(&gateway.call(), &root, name).unwrap();
    }
    store.asked();
    assert_eq!(
        fetched_with_three(&store, &gateway),
        ["f0", "f1", "f2", "f6"]
    );
}

#[test]
fn what_has_become_large_since_it_was_listed_is_not_fetched() {
    let (store, gateway, _folder) = listed(MOUNT);
    store.place("f3", &vec![3; 200_000], &Vec::new());
    let id = gateway.find("f3").unwrap();
    let file = gateway.tree.resolve(&gateway.call(), &id).unwrap();
    let file = file.file().unwrap();
    file.ask("f3", gateway.tree.data()).unwrap();
    store.asked();
    let fetched = fetched_with_three(&store, &gateway);
    assert_eq!(fetched, ["f0", "f1", "f2", "f5", "f6"]);
}
