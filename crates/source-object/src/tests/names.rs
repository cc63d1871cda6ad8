//! Files and directories that get other names.

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
