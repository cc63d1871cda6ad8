//! Files of a bucket that are written by two gateways, through `pagewell-source-object`.

use std::path::Path;

use pagewell_cache::{BYTES_MIN, Cache, CacheOptions};
use pagewell_fs::{
    Call, CreateMode, Created, Credentials, Error, FileId, FileSystem, Finish, RenameMode, Result,
    SetAttributes, Stability,
};
use pagewell_source_object::{ObjectFileSystem, Opened, Writing};
use tempfile::TempDir;

use crate::place::{AZURE_KEYS, Place, cell, is_azure, is_google, url_of};
use crate::support::{bytes, read};

const LARGE_BYTES: usize = 12 << 20;

/// A process that has the bucket open.
struct Gateway {
    files: ObjectFileSystem,
    root: Credentials,
}

impl Gateway {
    fn open(place: &Place, folder: &Path, options: &str) -> Self {
        let endpoint = place.proxy.address();
        // Of Azure the key comes by a file, which all gateways of a folder may have.
        let key = folder.join("key");
        std::fs::write(&key, AZURE_KEYS.1).unwrap();
        let azure = format!("account={}&key-file={}", AZURE_KEYS.0, key.display());
        let how = match (is_azure(), is_google()) {
            (true, _) => azure.as_str(),
            (_, true) => "anonymous=true",
            _ => "region=us-east-1",
        };
        let bucket = url_of("bucket");
        let url = format!("{bucket}?endpoint=http://{endpoint}&{how}&age=0s{options}");
        let cache = Cache::new(CacheOptions::new(16 * BYTES_MIN)).unwrap();
        let writing = Writing {
            staging_dir: folder.join("staging"),
            staging_bytes_max: 1 << 30,
            kept_probes: Some(folder.join("probes")),
            // Each server shows what it does, and how changes get lost in some stands elsewhere.
            unguarded: true,
            creates_at_once: false,
        };
        let Opened::Tree(files) =
            pagewell_source_object::open(&url, &cache, None, Some(writing)).unwrap()
        else {
            panic!("no bucket");
        };
        Self {
            files,
            root: Credentials::root(),
        }
    }

    fn call(&self) -> Call<'_> {
        Call::new(&self.root, true)
    }

    fn find(&self, path: &str) -> Result<FileId> {
        let mut id = self.files.root();
        for name in path.split('/') {
            id = self.files.lookup(&self.call(), &id, name.as_bytes())?.id;
        }
        Ok(id)
    }

    fn create(&self, directory: &FileId, name: &str) -> Result<Created> {
        let mode = CreateMode::Guarded(SetAttributes::default());
        self.files
            .create(&self.call(), directory, name.as_bytes(), &mode)
    }

    fn write(&self, id: &FileId, mut offset: u64, data: &[u8]) -> Result<()> {
        for part in data.chunks(1 << 20) {
            let stability = Stability::Unstable;
            self.files
                .write(&self.call(), id, offset, part, stability)?;
            offset += part.len() as u64;
        }
        Ok(())
    }

    fn commit(&self, id: &FileId) -> Result<()> {
        self.files.commit(&self.call(), id, 0, 0).map(drop)
    }

    fn cut(&self, id: &FileId, size: u64) -> Result<()> {
        let attributes = SetAttributes {
            size: Some(size),
            ..SetAttributes::default()
        };
        let set = self
            .files
            .set_attributes(&self.call(), id, &attributes, None);
        set.map(drop)
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        let root = self.files.root();
        let (from, to) = ((&root, from.as_bytes()), (&root, to.as_bytes()));
        let renamed = self
            .files
            .rename(&self.call(), from, to, RenameMode::Replace);
        renamed.map(drop)
    }
}

fn stored(place: &Place, key: &str) -> Vec<u8> {
    read(place.remote.as_ref(), key).unwrap()
}

#[test]
#[ignore = "needs a server: tests/objects/run.sh"]
fn s3_files_are_written() {
    let (place, folder) = (Place::bucket(""), TempDir::new().unwrap());
    let gateway = Gateway::open(&place, folder.path(), "");
    let root = gateway.files.root();
    let directory = gateway.files.make_directory(
        &gateway.call(),
        &root,
        b"written",
        &SetAttributes::default(),
    );
    let directory = directory.unwrap().entry.id;
    let id = gateway.create(&directory, "large").unwrap().entry.id;
    let mut content = bytes(1, LARGE_BYTES);
    gateway.write(&id, 0, &content).unwrap();
    gateway.commit(&id).unwrap();
    assert!(stored(&place, "written/large") == content);

    place.proxy.reset_counts();
    gateway.write(&id, LARGE_BYTES as u64, b"more").unwrap();
    gateway.commit(&id).unwrap();
    content.extend_from_slice(b"more");
    assert!(stored(&place, "written/large") == content);
    let sent = place.proxy.counts().all().bytes_up;
    let is_copied = sent < LARGE_BYTES as u64 / 2;
    cell(
        "4 bytes added to 12 MiB",
        if is_copied {
            "copied inside"
        } else {
            "all sent"
        },
    );

    gateway.cut(&id, 1_000_000).unwrap();
    gateway.write(&id, 2_000_000, b"behind a hole").unwrap();
    gateway.commit(&id).unwrap();
    content.truncate(1_000_000);
    content.resize(2_000_000, 0);
    content.extend_from_slice(b"behind a hole");
    assert!(stored(&place, "written/large") == content);
    cell("files are written, changed, cut", "ok");
}

#[test]
#[ignore = "needs a server: tests/objects/run.sh"]
fn s3_files_of_two() {
    let (place, folders) = (Place::bucket(""), [TempDir::new(), TempDir::new()]);
    let [one, two] = folders.map(Result::unwrap).map(|folder| {
        let gateway = Gateway::open(&place, folder.path(), "");
        (gateway, folder)
    });
    let root = one.0.files.root();
    let mine = one.0.create(&root, "of-two").unwrap().entry.id;
    let theirs = two.0.create(&root, "of-two").unwrap().entry.id;
    one.0.write(&mine, 0, b"one").unwrap();
    two.0.write(&theirs, 0, b"two, too late").unwrap();
    one.0.commit(&mine).unwrap();
    let Err(Error::Io(text)) = two.0.commit(&theirs) else {
        panic!("the second replaces what the first has made");
    };
    assert_eq!(stored(&place, "of-two"), b"one");
    let kept = text.rsplit("kept in ").next().unwrap();
    assert_eq!(std::fs::read(kept).unwrap(), b"two, too late");

    let same = two.0.find("of-two").unwrap();
    one.0.write(&mine, 3, b" again").unwrap();
    two.0.write(&same, 3, b" and lost").unwrap();
    one.0.commit(&mine).unwrap();
    assert!(matches!(two.0.commit(&same), Err(Error::Io(_))));
    assert_eq!(stored(&place, "of-two"), b"one again");
    cell("two gateways change one file", "the second learns it");
}

#[test]
#[ignore = "needs a server: tests/objects/run.sh"]
fn s3_files_get_other_names() {
    let (place, folder) = (Place::bucket(""), TempDir::new().unwrap());
    let gateway = Gateway::open(&place, folder.path(), "");
    let root = gateway.files.root();
    let (small, large) = (bytes(3, 1_000), bytes(4, LARGE_BYTES));
    for (name, content) in [("name-small", &small), ("name-large", &large)] {
        let id = gateway.create(&root, name).unwrap().entry.id;
        gateway.write(&id, 0, content).unwrap();
        gateway.commit(&id).unwrap();
        gateway.rename(name, &format!("{name}-new")).unwrap();
        assert!(stored(&place, &format!("{name}-new")) == *content);
        assert_eq!(gateway.find(name), Err(Error::NotFound));
    }
    let none = SetAttributes::default();
    let made = gateway
        .files
        .make_directory(&gateway.call(), &root, b"name-from", &none);
    let directory = made.unwrap().entry.id;
    for number in 0..5 {
        let created = gateway.create(&directory, &format!("f{number}"));
        gateway
            .write(&created.unwrap().entry.id, 0, &small)
            .unwrap();
    }
    gateway.rename("name-from", "name-to").unwrap();
    for number in 0..5 {
        assert!(stored(&place, &format!("name-to/f{number}")) == small);
    }
    assert_eq!(gateway.find("name-from"), Err(Error::NotFound));
    cell("files and directories are renamed", "ok");
}

#[test]
#[ignore = "needs a server: tests/objects/run.sh"]
fn s3_files_of_a_journal() {
    let (place, folder) = (Place::bucket(""), TempDir::new().unwrap());
    let gateway = Gateway::open(&place, folder.path(), "&ack=journal");
    let root = gateway.files.root();
    let content = bytes(5, 3_000_000);
    let id = gateway.create(&root, "journaled").unwrap().entry.id;
    gateway.write(&id, 0, &content).unwrap();
    // The store is away: what is durable here is acknowledged all the same.
    place.set_script("any status=503");
    gateway.commit(&id).unwrap();
    // A copy of the folder is what a kill leaves.
    let left = TempDir::new().unwrap();
    copy(folder.path(), left.path());
    std::mem::forget(gateway);
    place.set_script("");
    let gateway = Gateway::open(&place, left.path(), "&ack=journal");
    gateway.files.finish(Finish::Sync).unwrap();
    assert!(stored(&place, "journaled") == content);
    cell("a journal is sent after a kill", "ok");
}

fn copy(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            std::fs::create_dir(&target).unwrap();
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}
