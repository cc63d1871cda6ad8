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
