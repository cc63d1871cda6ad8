//! Mode, owner, times and links, in the metadata of objects.

use pagewell_fs::{Attributes, FileType, SetTime, Timestamp};

use pagewell_object_client::Defaults;

use super::*;

const METADATA: How = How {
    has_metadata: true,
    ..MOUNT
};

fn attributes(gateway: &Gateway, path: &str) -> Attributes {
    let id = gateway.find(path).unwrap();
    gateway.files.attributes(&gateway.call(), &id).unwrap()
}

fn set(gateway: &Gateway, path: &str, attributes: &SetAttributes) -> Result<()> {
    let id = gateway.find(path)?;
    let files = &gateway.files;
    files
        .set_attributes(&gateway.call(), &id, attributes, None)
        .map(drop)
}

#[test]
fn what_was_set_is_there_for_another_gateway() {
    for is_at_once in [false, true] {
        let how = How {
            is_at_once,
            ..METADATA
        };
        let (store, folder) = (Arc::new(Store::new(100, 1000)), TempDir::new().unwrap());
        let gateway = Gateway::open(&store, &folder, how);
        let id = gateway.create("a").unwrap();
        gateway.write(&id, 0, &[1; 1000]).unwrap();
        gateway.commit(&id).unwrap();
        let time = Timestamp {
            seconds: 1_000_000_000,
            nanoseconds: 5_000_000,
        };
        let wanted = SetAttributes {
            mode: Some(0o4751),
            uid: Some(12),
            gid: Some(34),
            modified: Some(SetTime::To(time)),
            ..SetAttributes::default()
        };
        set(&gateway, "a", &wanted).unwrap();
        gateway.files.finish(Finish::Sync).unwrap();
        let other = Gateway::open(&store, &TempDir::new().unwrap(), how);
        for gateway in [&gateway, &other] {
            let shown = attributes(gateway, "a");
            assert_eq!((shown.mode, shown.uid, shown.gid), (0o4751, 12, 34));
            assert_eq!((shown.modified, shown.size), (time, 1000));
        }
        assert_eq!(store.bytes("a").unwrap(), [1; 1000]);
        // The bytes change, and the mode stays.
        let id = other.find("a").unwrap();
        other.write(&id, 5, b"x").unwrap();
        other.commit(&id).unwrap();
        let shown = attributes(&other, "a");
        assert_eq!(shown.mode, 0o4751);
        assert!(shown.modified > time);
    }
}

#[test]
fn links_and_devices_are_objects_that_metadata_tells_from_files() {
    let (store, folder) = (Arc::new(Store::new(100, 1000)), TempDir::new().unwrap());
    let gateway = Gateway::open(&store, &folder, METADATA);
    let (root, call) = (gateway.files.root(), gateway.call());
    let none = SetAttributes::default();
    let made = gateway
        .files
        .make_symlink(&call, &root, b"link", b"../to", &none);
    let id = made.unwrap().entry.id;
    let kind = pagewell_fs::NodeKind::BlockDevice(8, 300);
    gateway
        .files
        .make_node(&call, &root, b"disk", kind, &none)
        .unwrap();
    assert_eq!(store.bytes("link").unwrap(), b"../to");
    let other = Gateway::open(&store, &TempDir::new().unwrap(), METADATA);
    assert_eq!(other.names(""), ["disk", "link"]);
    for gateway in [&gateway, &other] {
        let (target, shown) = gateway.files.read_link(&gateway.call(), &id).unwrap();
        assert_eq!(
            (&target[..], shown.file_type),
            (&b"../to"[..], FileType::Symlink)
        );
        let disk = attributes(gateway, "disk");
        assert_eq!(
            (disk.file_type, disk.device),
            (FileType::BlockDevice, (8, 300))
        );
        assert_eq!(gateway.read(&id), Err(Error::Invalid));
    }
}

#[test]
fn a_target_of_others_that_is_too_long_is_refused_and_not_cut() {
    let (store, folder) = (Arc::new(Store::new(100, 1000)), TempDir::new().unwrap());
    let link = vec![("mode".to_owned(), b"41471".to_vec())];
    store.place("long", &[b'x'; 4095], &link);
    store.place("longer", &[b'x'; 4096], &link);
    let gateway = Gateway::open(&store, &folder, METADATA);
    let read = |name| {
        let id = gateway.find(name).unwrap();
        let read = gateway.files.read_link(&gateway.call(), &id);
        read.map(|(target, _)| target.len())
    };
    assert_eq!(read("long"), Ok(4095));
    assert_eq!(read("longer"), Err(Error::NameTooLong));
}

#[test]
fn without_metadata_a_mode_goes_with_the_bytes_and_is_shown_where_it_was_set() {
    let (store, folder) = (Arc::new(Store::new(100, 1000)), TempDir::new().unwrap());
    let gateway = Gateway::open(&store, &folder, MOUNT);
    let id = gateway.create("a").unwrap();
    gateway.make_directory("d").unwrap();
    let mode = |mode| SetAttributes {
        mode: Some(mode),
        ..SetAttributes::default()
    };
    // As rsync does, which copies nothing where it may not.
    set(&gateway, "a", &mode(0o640)).unwrap();
    gateway.write(&id, 0, b"bytes").unwrap();
    gateway.commit(&id).unwrap();
    gateway.rename("a", "b").unwrap();
    set(&gateway, "d", &mode(0o700)).unwrap();
    assert_eq!(attributes(&gateway, "b").mode, 0o640);
    assert_eq!(attributes(&gateway, "d").mode, 0o700);
    assert_eq!(changes(&store).len(), 5, "what the mode costs");
    let others = |how| Gateway::open(&store, &TempDir::new().unwrap(), how);
    assert_eq!(attributes(&others(MOUNT), "b").mode, 0o644);
    assert_eq!(attributes(&others(METADATA), "b").mode, 0o640);
    let (root, none) = (gateway.files.root(), SetAttributes::default());
    let files = &gateway.files;
    let link = files.make_symlink(&gateway.call(), &root, b"l", b"t", &none);
    assert_eq!(link.unwrap_err(), Error::NotPermitted);
}

#[test]
fn what_has_no_owner_and_mode_has_those_of_the_options() {
    let defaults = Defaults {
        uid: Some(7),
        gid: Some(8),
        mode: 0o640,
        directory_mode: 0o750,
    };
    for has_metadata in [false, true] {
        let how = How {
            has_metadata,
            defaults,
            ..MOUNT
        };
        let store = Arc::new(Store::new(100, 1000));
        store.place("d/f", b"of others", &Vec::new());
        let gateway = Gateway::open(&store, &TempDir::new().unwrap(), how);
        let shown = |path| {
            let of = attributes(&gateway, path);
            (of.mode, of.uid, of.gid)
        };
        assert_eq!(shown("d"), (0o750, 7, 8));
        assert_eq!(shown("d/f"), (0o640, 7, 8));
        // By them it is decided, too.
        let (directory, file) = (gateway.find("d").unwrap(), gateway.find("d/f").unwrap());
        for (uid, is_let) in [(7, true), (9, false)] {
            let user = Credentials::new(uid, uid, &[]);
            let call = Call::new(&user, true);
            let read = gateway.files.read(&call, &file, 0, 9);
            assert_eq!(read.is_ok(), is_let, "{:?}", read.err());
            let made = gateway.files.remove(&call, &directory, b"none");
            let wanted = if is_let {
                Error::NotFound
            } else {
                Error::AccessDenied
            };
            assert_eq!(made.unwrap_err(), wanted);
        }
    }
}
