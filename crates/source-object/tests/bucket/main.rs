//! A bucket as a file system: names, identifiers, versions, and how many requests they cost.

#![allow(clippy::unwrap_used)] // a failed check is a failed test

mod remote;

use std::sync::Arc;
use std::time::Duration;

use pagewell_cache::{BYTES_MIN, Cache, CacheOptions};
use pagewell_disk_tier::Tier;
use pagewell_fs::{Call, Credentials, Error, FileId, FileSystem, FileType, ReadReply};
use pagewell_source_object::ObjectFileSystem;
use remote::Bucket;

const LONG: Duration = Duration::from_secs(3600);

struct Mounted {
    bucket: Arc<Bucket>,
    files: ObjectFileSystem,
    root: Credentials,
}

impl Mounted {
    fn new(bucket: &Arc<Bucket>, prefix: &str, age: Duration) -> Self {
        Self::over(bucket, prefix, age, None)
    }

    fn over(bucket: &Arc<Bucket>, prefix: &str, age: Duration, tier: Option<Arc<Tier>>) -> Self {
        let cache = Cache::new(CacheOptions::new(4 * BYTES_MIN)).unwrap();
        let of = ("s3://bucket", prefix);
        let files = ObjectFileSystem::new(bucket.clone(), of, age, (&cache, tier));
        Self {
            bucket: bucket.clone(),
            files,
            root: Credentials::root(),
        }
    }

    fn call(&self) -> Call<'_> {
        Call::new(&self.root, true)
    }

    fn find(&self, path: &str) -> Result<FileId, Error> {
        let mut id = self.files.root();
        for name in path.split('/').filter(|name| !name.is_empty()) {
            id = self.files.lookup(&self.call(), &id, name.as_bytes())?.id;
        }
        Ok(id)
    }

    fn read(&self, id: &FileId, offset: u64, count: u32) -> Result<(Vec<u8>, ReadReply), Error> {
        let reply = self.files.read(&self.call(), id, offset, count)?;
        let mut bytes = vec![0; reply.payload.len()];
        let copied = reply.payload.copy_to(&mut bytes, true)?;
        bytes.truncate(copied);
        Ok((bytes, reply))
    }

    fn content(&self, path: &str) -> Vec<u8> {
        let id = self.find(path).unwrap();
        self.read(&id, 0, 1 << 20).unwrap().0
    }

    /// Names of a directory, page by page of so many.
    fn names(&self, id: &FileId, at_once: usize) -> Vec<String> {
        let (mut names, mut cookie) = (Vec::new(), 0);
        loop {
            let mut taken = 0;
            let page = self
                .files
                .read_directory(&self.call(), id, cookie, true, &mut |entry| {
                    if taken == at_once {
                        return false;
                    }
                    taken += 1;
                    cookie = entry.cookie;
                    names.push(String::from_utf8(entry.name.to_vec()).unwrap());
                    true
                });
            if page.unwrap().end {
                return names;
            }
        }
    }

    /// All files below a directory, by walking.
    fn walk(&self, id: &FileId) -> Vec<FileId> {
        let mut entries = Vec::new();
        let call = self.call();
        let visited = self.files.read_directory(&call, id, 0, true, &mut |entry| {
            if entry.name != b"." && entry.name != b".." {
                entries.push(entry.entry.unwrap());
            }
            true
        });
        assert!(visited.unwrap().end);
        let mut found = Vec::new();
        for entry in entries {
            match entry.attributes.file_type {
                FileType::Directory => found.extend(self.walk(&entry.id)),
                _ => found.push(entry.id),
            }
        }
        found
    }
}

#[test]
fn a_tree_costs_one_request_for_each_directory() {
    let bucket = Arc::new(Bucket::new(1000));
    for number in 0..2000 {
        bucket.put(
            &format!("top/d{:02}/f{number:04}", number % 20),
            format!("{number}"),
        );
    }
    let mounted = Mounted::new(&bucket, "top/", LONG);
    let files = mounted.walk(&mounted.files.root());
    assert_eq!(files.len(), 2000);
    for id in &files {
        let attributes = mounted.files.attributes(&mounted.call(), id).unwrap();
        assert!(attributes.size <= 4);
    }
    let asked = bucket.asked();
    assert_eq!((asked.lists, asked.heads), (21, 0));
    assert_eq!(mounted.content("d07/f0007"), b"7");
    mounted.walk(&mounted.files.root());
    assert_eq!(bucket.asked().lists, 21, "in its age");
}

#[test]
fn names_that_no_file_can_have_are_shown_under_others() {
    let bucket = Arc::new(Bucket::new(1000));
    for key in [
        "a", "a/b", "x//y", "./dot", "q/../up", "marked/", "full/", "a%", "plain ",
    ] {
        let bytes = if key == "marked/" { "" } else { key };
        bucket.put(key, bytes);
    }
    let long = "l".repeat(300);
    bucket.put(&long, "long");
    let mounted = Mounted::new(&bucket, "", LONG);
    let root = mounted.files.root();
    let names = mounted.names(&root, 3);
    for name in ["a", "x", "%2E", "q", "marked", "full", "plain "] {
        assert!(names.contains(&name.to_owned()), "{name} of {names:?}");
    }
    assert_eq!(mounted.content("a"), b"a");
    assert_eq!(mounted.content("x/%/y"), b"x//y");
    assert_eq!(mounted.content("%2E/dot"), b"./dot");
    assert_eq!(mounted.content("q/%2E%2E/up"), b"q/../up");
    assert_eq!(mounted.content("plain "), b"plain ");
    assert_eq!(mounted.content("full/%"), b"full/");
    assert_eq!(
        mounted.names(&mounted.find("marked").unwrap(), 9),
        [".", ".."]
    );
    let cut = names.iter().find(|name| name.starts_with("lll")).unwrap();
    assert!(cut.len() <= 255);
    assert_eq!(mounted.content(cut), b"long");
    // The key that has the name keeps it: what is below `a` cannot be shown then.
    assert_eq!(mounted.content("a%"), b"a%");
    bucket.remove("a%");
    let mounted = Mounted::new(&bucket, "", LONG);
    assert_eq!(mounted.content("a%/b"), b"a/b");
}

#[test]
fn the_object_of_a_folder_is_another_one_than_the_folder() {
    let bucket = Arc::new(Bucket::new(1000));
    bucket.put("full/", "own");
    bucket.put("full/inner/", "inner");
    let mounted = Mounted::new(&bucket, "full/", LONG);
    let (root, inner) = (mounted.files.root(), mounted.find("inner").unwrap());
    assert_eq!(mounted.content("%"), b"own");
    assert_eq!(mounted.content("inner/%"), b"inner");
    let number = |id: &FileId| {
        let attributes = mounted.files.attributes(&mounted.call(), id);
        attributes.unwrap().file_id
    };
    for (directory, path) in [(root, "%"), (inner, "inner/%")] {
        assert_ne!(number(&directory), number(&mounted.find(path).unwrap()));
    }
    let id = mounted.find("inner/%").unwrap();
    let again = Mounted::new(&bucket, "full/", LONG);
    assert_eq!(again.read(&id, 0, 10).unwrap().0, b"inner");
}

#[test]
fn a_lookup_does_not_begin_a_listing_again_that_is_on_its_way() {
    let bucket = Arc::new(Bucket::new(7));
    for number in 0..50 {
        bucket.put(&format!("f{number:02}"), "x");
    }
    // Every listing is too old at once.
    let mounted = Mounted::new(&bucket, "", Duration::ZERO);
    let root = mounted.files.root();
    let (mut names, mut cookie) = (0, 0);
    loop {
        let (mut taken, from) = (0, cookie);
        let read = &mut |entry: &pagewell_fs::DirectoryEntry<'_>| {
            taken += 1;
            if taken > 10 {
                return false;
            }
            cookie = entry.cookie;
            true
        };
        let page = mounted
            .files
            .read_directory(&mounted.call(), &root, from, false, read);
        let end = page.unwrap().end;
        names += taken.min(10);
        if end {
            break;
        }
        mounted.find("f33").unwrap();
    }
    assert_eq!(names, 52);
    let pages = 50_u64.div_ceil(7);
    assert_eq!(bucket.asked().lists, pages, "each page once");
    mounted.find("f33").unwrap();
    assert_eq!(
        bucket.asked().lists,
        pages + 1,
        "a listing that is whole and old"
    );
}

#[test]
fn identifiers_are_found_again_by_another_process() {
    let bucket = Arc::new(Bucket::new(10));
    let deep = "one/two/three/four/file";
    bucket.put(deep, "deep");
    for number in 0..100 {
        bucket.put(&format!("one/other{number}/file"), "other");
    }
    let first = Mounted::new(&bucket, "", LONG);
    let (file, directory) = (first.find(deep).unwrap(), first.find("one/two").unwrap());
    let second = Mounted::new(&bucket, "", LONG);
    assert_eq!(second.files.root(), first.files.root());
    assert_eq!(second.read(&file, 0, 10).unwrap().0, b"deep");
    assert_eq!(second.names(&directory, 9), [".", "..", "three"]);
    assert!(bucket.asked().lists < 60, "{:?}", bucket.asked());
    bucket.remove(deep);
    let third = Mounted::new(&bucket, "", LONG);
    assert_eq!(third.read(&file, 0, 10).unwrap_err(), Error::Stale);
    let other = ObjectFileSystem::new(
        bucket.clone(),
        ("s3://other", ""),
        LONG,
        (&Cache::new(CacheOptions::new(BYTES_MIN)).unwrap(), None),
    );
    let call = first.call();
    assert_eq!(
        other.attributes(&call, &directory).unwrap_err(),
        Error::Stale
    );
}

#[test]
fn a_name_of_a_large_directory_costs_no_whole_listing() {
    let bucket = Arc::new(Bucket::new(1000));
    for number in 0..5000 {
        bucket.put(&format!("f{number:05}"), "x");
    }
    bucket.put("zz/inside", "y");
    let mounted = Mounted::new(&bucket, "", LONG);
    mounted.find("f00007").unwrap();
    assert_eq!(bucket.asked().lists, 1);
    assert_eq!(bucket.asked().heads, 0);
    mounted.find("f04321").unwrap();
    assert_eq!((bucket.asked().lists, bucket.asked().heads), (1, 1));
    assert_eq!(mounted.content("zz/inside"), b"y");
    assert_eq!(mounted.find("absent").unwrap_err(), Error::NotFound);
    let names = mounted.names(&mounted.files.root(), 333);
    assert_eq!(names.len(), 5003);
    let lists = bucket.asked().lists;
    assert_eq!(mounted.find("absent").unwrap_err(), Error::NotFound);
    assert_eq!(bucket.asked().lists, lists, "the whole listing is there");
}

#[test]
fn a_lookup_and_what_follows_see_one_version() {
    for lists_tags in [true, false] {
        let bucket = Bucket::new(7);
        let bucket = Arc::new(if lists_tags {
            bucket
        } else {
            bucket.without_tags()
        });
        for number in 0..50 {
            bucket.put(&format!("f{number:02}"), "old");
        }
        let mounted = Mounted::new(&bucket, "", LONG);
        for name in ["f00", "f33"] {
            let id = mounted.find(name).unwrap();
            let opened = mounted.files.open(&mounted.call(), &id).unwrap();
            assert_eq!(mounted.read(&id, 0, 10).unwrap().0, b"old");
            drop(opened);
            drop(mounted.files.open(&mounted.call(), &id).unwrap());
            let call = mounted.call();
            let lookup = || {
                let found = mounted
                    .files
                    .lookup(&call, &mounted.files.root(), name.as_bytes());
                found.unwrap().attributes
            };
            let attributes = || mounted.files.attributes(&call, &id).unwrap();
            assert_eq!(
                lookup().changed,
                attributes().changed,
                "{name} {lists_tags}"
            );
            bucket.put(name, "newer");
            assert_eq!(lookup().size, attributes().size, "{name} {lists_tags}");
            let (bytes, reply) = mounted.read(&id, 0, 10).unwrap();
            assert_eq!(bytes.len() as u64, attributes().size);
            assert_eq!(reply.attributes.size, lookup().size);
        }
    }
}

#[test]
fn a_tree_without_a_bottom_ends() {
    let bucket = Arc::new(Bucket::new(1));
    let deep = "d/".repeat(20_000);
    bucket.put(&format!("{deep}file"), "");
    // So that no listing is whole, and names are asked for by their keys.
    bucket.put("zz", "");
    let mounted = Mounted::new(&bucket, "", LONG);
    let mut id = mounted.files.root();
    let mut depth = 0;
    while let Ok(found) = mounted.files.lookup(&mounted.call(), &id, b"d") {
        id = found.id;
        depth += 1;
    }
    assert_eq!(depth, 2048);
    assert_eq!(mounted.names(&id, 9), [".", ".."]);
}

#[test]
fn names_that_were_made_are_found_in_large_directories() {
    let bucket = Arc::new(Bucket::new(7));
    for number in 0..50 {
        bucket.put(&format!("f{number:02}"), "x");
    }
    bucket.put("zz", "file");
    bucket.put("zz/below", "below");
    bucket.put("a%41", "plain");
    for age in [LONG, Duration::ZERO] {
        let mounted = Mounted::new(&bucket, "", age);
        let before = bucket.asked().lists;
        assert_eq!(mounted.content("a%41"), b"plain");
        assert_eq!(bucket.asked().lists, before + 1);
        assert_eq!(mounted.content("zz"), b"file");
        assert_eq!(mounted.content("zz%/below"), b"below");
        assert_eq!(mounted.find("yy%").unwrap_err(), Error::NotFound);
        assert_eq!(mounted.find("yy").unwrap_err(), Error::NotFound);
    }
}

#[test]
fn a_walk_does_not_push_out_what_was_read() {
    let bucket = Arc::new(Bucket::new(1000));
    let names = 66_000;
    for number in 0..names {
        bucket.put(&format!("d{:02}/{number}", number % 70), "");
    }
    bucket.put("d00/read", "bytes");
    let mounted = Mounted::new(&bucket, "", LONG);
    assert_eq!(mounted.content("d00/read"), b"bytes");
    assert_eq!(mounted.walk(&mounted.files.root()).len(), names + 1);
    assert_eq!(mounted.content("d00/read"), b"bytes");
    assert_eq!(bucket.asked().ranges.len(), 1);
}

#[test]
fn a_listing_goes_on_behind_a_name_that_came_before_a_change() {
    let bucket = Arc::new(Bucket::new(7));
    for number in 0..50 {
        bucket.put(&format!("f{number:02}"), "x");
    }
    let mounted = Mounted::new(&bucket, "", Duration::ZERO);
    let root = mounted.files.root();
    let changed = |mounted: &Mounted| {
        mounted
            .files
            .attributes(&mounted.call(), &root)
            .unwrap()
            .changed
    };
    let mut cookie = 0;
    let mut some = Vec::new();
    let page = mounted
        .files
        .read_directory(&mounted.call(), &root, 0, false, &mut |entry| {
            some.push(entry.name.to_vec());
            cookie = entry.cookie;
            some.len() < 20
        });
    assert!(!page.unwrap().end);
    bucket.remove("f03");
    bucket.put("f00a", "new");
    assert_eq!(mounted.names(&root, 100).len(), 52);
    let before = changed(&mounted);
    let mut rest = Vec::new();
    let page = mounted
        .files
        .read_directory(&mounted.call(), &root, cookie, false, &mut |entry| {
            rest.push(String::from_utf8(entry.name.to_vec()).unwrap());
            true
        });
    assert!(page.unwrap().end);
    assert_eq!(rest.first().unwrap(), "f18");
    assert_eq!(rest.len(), 32);
    assert_eq!(changed(&mounted), before);
    bucket.put("g", "new");
    assert_eq!(mounted.names(&root, 100).len(), 53);
    assert!(
        changed(&mounted) > before,
        "a client that keeps names sees it"
    );
}

#[test]
fn bytes_are_of_one_version() {
    for is_open in [false, true] {
        let bucket = Arc::new(Bucket::new(1000));
        let length = 8 << 20;
        bucket.put("file", vec![1; length]);
        let mounted = Mounted::new(&bucket, "", LONG);
        let id = mounted.find("file").unwrap();
        let opened = is_open.then(|| mounted.files.open(&mounted.call(), &id).unwrap());
        let (bytes, before) = mounted.read(&id, 0, 1000).unwrap();
        assert_eq!(bytes, [1; 1000]);
        bucket.put("file", vec![2; length]);
        // Behind what may be in memory already.
        let next = mounted.read(&id, 7 << 20, 1000);
        match (&opened, next) {
            (Some(_), Err(Error::Io(text))) => assert!(text.contains("replaced"), "{text}"),
            (None, Ok((bytes, after))) => {
                assert_eq!(bytes, [2; 1000]);
                assert_ne!(after.attributes.changed, before.attributes.changed);
                assert_eq!(mounted.read(&id, 0, 1000).unwrap().0, [2; 1000]);
            }
            (_, other) => panic!("{other:?}"),
        }
        drop(opened);
        let again = mounted.files.open(&mounted.call(), &id).unwrap();
        assert!(!again.keep_cache);
        assert_eq!(mounted.read(&id, 0, 1000).unwrap().0, [2; 1000]);
    }
}

#[test]
fn an_open_sees_what_was_replaced_within_the_age() {
    let bucket = Arc::new(Bucket::new(1000));
    bucket.put("file", "old");
    let mounted = Mounted::new(&bucket, "", LONG);
    let id = mounted.find("file").unwrap();
    drop(mounted.files.open(&mounted.call(), &id).unwrap());
    assert_eq!(bucket.asked().heads, 0, "the first bytes tell");
    bucket.put("file", "newer");
    let opened = mounted.files.open(&mounted.call(), &id).unwrap();
    assert_eq!(mounted.read(&id, 0, 10).unwrap().0, b"newer");
    drop(opened);
}

#[test]
fn an_open_asks_though_the_one_before_has_just_asked() {
    let bucket = Arc::new(Bucket::new(1000));
    bucket.put("file", "old");
    let mounted = Mounted::new(&bucket, "", LONG);
    let id = mounted.find("file").unwrap();
    let open = || mounted.files.open(&mounted.call(), &id).unwrap();
    let opened = open();
    assert_eq!(mounted.read(&id, 0, 10).unwrap().0, b"old");
    drop(opened);
    assert!(open().keep_cache);
    bucket.put("file", "newer");
    let opened = open();
    assert!(!opened.keep_cache && opened.attributes.size == 5);
    assert_eq!(mounted.read(&id, 0, 10).unwrap().0, b"newer");
    // A refusal is an answer: what memory has is not opened for one that may not read it.
    bucket.refuse();
    let refused = mounted.files.open(&mounted.call(), &id).err();
    assert_eq!(refused, Some(Error::AccessDenied));
}

#[test]
fn an_open_file_that_is_removed_and_made_again_has_no_bytes_of_the_new_one() {
    let bucket = Arc::new(Bucket::new(1000));
    let length = 8 << 20;
    bucket.put("file", vec![1; length]);
    let mounted = Mounted::new(&bucket, "", LONG);
    let id = mounted.find("file").unwrap();
    let opened = mounted.files.open(&mounted.call(), &id).unwrap();
    assert_eq!(mounted.read(&id, 0, 1000).unwrap().0, [1; 1000]);
    bucket.remove("file");
    let gone = mounted.read(&id, 7 << 20, 1000);
    assert_eq!(gone.unwrap_err(), Error::Stale);
    bucket.put("file", vec![2; length]);
    let next = mounted.read(&id, 7 << 20, 1000);
    assert!(
        matches!(&next, Err(Error::Io(text)) if text.contains("replaced")),
        "{next:?}"
    );
    drop(opened);
    let _opened = mounted.files.open(&mounted.call(), &id).unwrap();
    assert_eq!(mounted.read(&id, 0, 1000).unwrap().0, [2; 1000]);
}

#[test]
fn what_the_kernel_kept_of_a_version_is_not_joined_with_the_next_one() {
    let bucket = Arc::new(Bucket::new(1000));
    let length = 8 << 20;
    bucket.put("file", vec![1; length]);
    let mounted = Mounted::new(&bucket, "", LONG);
    let id = mounted.find("file").unwrap();
    let open = || mounted.files.open(&mounted.call(), &id).unwrap();
    let opened = open();
    mounted.read(&id, 0, 1000).unwrap();
    drop(opened);
    let opened = open();
    assert!(opened.keep_cache, "its first bytes may be the kernel's");
    bucket.put("file", vec![2; length]);
    let next = mounted.read(&id, 7 << 20, 1000);
    assert!(
        matches!(&next, Err(Error::Io(text)) if text.contains("replaced")),
        "{next:?}"
    );
}

#[test]
fn a_bucket_without_answers_leaves_what_memory_has() {
    let bucket = Arc::new(Bucket::new(1000).without_tags());
    bucket.put("dir/file", "bytes");
    let mounted = Mounted::new(&bucket, "", Duration::ZERO);
    let id = mounted.find("dir/file").unwrap();
    assert_eq!(mounted.read(&id, 0, 10).unwrap().0, b"bytes");
    mounted.bucket.be_silent(true);
    assert_eq!(mounted.read(&id, 0, 10).unwrap().0, b"bytes");
    assert_eq!(
        mounted.files.attributes(&mounted.call(), &id).unwrap().size,
        5
    );
    let directory = mounted.find("dir");
    assert!(matches!(directory, Err(Error::Io(_))), "{directory:?}");
    mounted.bucket.be_silent(false);
    mounted.find("dir").unwrap();
    bucket.remove("dir/file");
    let gone = mounted.files.attributes(&mounted.call(), &id);
    assert_eq!(gone.unwrap_err(), Error::Stale);
}

#[test]
fn empty_and_odd_lengths_are_read_whole() {
    let bucket = Arc::new(Bucket::new(1000));
    let mounted = Mounted::new(&bucket, "", LONG);
    let lengths = [0, 1, 4095, 4096, 4097, 65_536, 65_537, 200_001];
    for length in lengths {
        let bytes: Vec<u8> = (0..length).map(|at: u32| (at % 251) as u8).collect();
        bucket.put(&format!("f{length}"), bytes);
    }
    for length in lengths {
        let id = mounted.find(&format!("f{length}")).unwrap();
        let (bytes, reply) = mounted.read(&id, 0, 1 << 20).unwrap();
        let right = bytes
            .iter()
            .zip(0_u32..)
            .all(|(byte, at)| u32::from(*byte) == at % 251);
        assert!(
            right && bytes.len() == length as usize && reply.end_of_file,
            "{length}"
        );
        let (bytes, reply) = mounted.read(&id, u64::from(length) + 5, 10).unwrap();
        assert!(bytes.is_empty() && reply.end_of_file);
    }
    let asked = bucket.asked();
    assert!(asked.ranges.iter().all(|range| !range.is_empty()));
}

#[test]
fn calls_that_may_not_wait_do_not() {
    let bucket = Arc::new(Bucket::new(1000));
    bucket.put("file", "bytes");
    let mounted = Mounted::new(&bucket, "", LONG);
    let quick = Call::new(&mounted.root, false);
    let root = mounted.files.root();
    let would = |result: Option<Error>| assert_eq!(result, Some(Error::WouldBlock));
    would(mounted.files.lookup(&quick, &root, b"file").err());
    let listed = mounted
        .files
        .read_directory(&quick, &root, 0, true, &mut |_| true);
    would(listed.err());
    let id = mounted.find("file").unwrap();
    bucket.hold(true);
    would(mounted.files.read(&quick, &id, 0, 10).err());
    bucket.hold(false);
    mounted.read(&id, 0, 10).unwrap();
    assert!(mounted.files.read(&quick, &id, 0, 10).is_ok());
    assert!(mounted.files.lookup(&quick, &root, b"file").is_ok());
    assert!(mounted.files.attributes(&quick, &id).is_ok());
}

#[test]
fn pages_on_the_disk_are_of_one_key() {
    let folder = tempfile::tempdir().unwrap();
    let bucket = Arc::new(Bucket::new(1000));
    // Both end what the bucket is called.
    bucket.put_as("et", "one", 7);
    bucket.put_as("ket", "two", 7);
    let tier = Tier::open(folder.path(), 8 << 20).unwrap();
    let mounted = Mounted::over(&bucket, "", LONG, Some(tier));
    assert_eq!(mounted.content("et"), b"one");
    drop(mounted);
    let tier = Tier::open(folder.path(), 8 << 20).unwrap();
    let mounted = Mounted::over(&bucket, "", LONG, Some(tier));
    assert_eq!(mounted.content("ket"), b"two");
}

#[test]
fn a_restart_finds_the_bytes_on_the_disk() {
    let folder = tempfile::tempdir().unwrap();
    let bucket = Arc::new(Bucket::new(1000));
    let length = 3 * (64 << 10) + 777;
    let bytes: Vec<u8> = (0..length).map(|at: u32| (at % 251) as u8).collect();
    bucket.put("file", bytes.clone());
    let tier = || Some(Tier::open(folder.path(), 8 << 20).unwrap());
    let mounted = Mounted::over(&bucket, "", LONG, tier());
    assert_eq!(mounted.content("file"), bytes);
    let ranges = bucket.asked().ranges.len();
    assert!(ranges > 0);
    // Dropping waits for what is on its way to the disk.
    drop(mounted);
    let again = Mounted::over(&bucket, "", LONG, tier());
    assert_eq!(again.content("file"), bytes);
    assert_eq!(
        bucket.asked().ranges.len(),
        ranges,
        "nothing was asked for again"
    );
    drop(again);
    bucket.put("file", vec![9; length as usize]);
    let replaced = Mounted::over(&bucket, "", LONG, tier());
    assert_eq!(replaced.content("file"), vec![9; length as usize]);
}
