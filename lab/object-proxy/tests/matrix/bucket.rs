//! Reading and listing a bucket.

use std::time::UNIX_EPOCH;

use pagewell_object_client::{Bytes, Condition, Error, Metadata, Options, WritableRemote};
use pagewell_object_proxy::Kind;

use crate::place::{Place, cell};
use crate::support::{
    DIRECTORIES, FILES, Fetch, HANGS, bytes, fetch, file, list, list_all, name_of, read,
    read_ranges, walk,
};

pub(crate) fn writable(place: &Place) -> &dyn WritableRemote {
    place.remote.as_writable().expect("a bucket can be written")
}

pub(crate) fn put(place: &Place, key: &str, content: &[u8]) {
    let body = Bytes::copy_from_slice(content);
    let written = writable(place).put(key, body, &Condition::Always, &Metadata::new());
    written.unwrap();
}

#[test]
#[ignore = "needs a server: tests/objects/run.sh"]
fn s3_read() {
    let place = Place::bucket("");
    let content = bytes(1, (3 << 20) + 5);
    put(&place, "read/big", &content);
    place.proxy.reset_counts();
    cell(
        "read whole and in ranges",
        read_ranges(&place, "read/big", &content),
    );
    let counts = place.proxy.counts();
    assert_eq!(
        (
            counts.of(Kind::Head).requests,
            counts.of(Kind::Get).requests
        ),
        (1, 21)
    );
    let seen = place.proxy.seen();
    assert!(
        seen.iter()
            .all(|seen| seen.field("accept-encoding") == Some("identity"))
    );
}

#[test]
#[ignore = "needs a server: tests/objects/run.sh"]
fn s3_list() {
    let place = Place::bucket("");
    std::thread::scope(|scope| {
        for worker in 0..4 {
            let place = &place;
            scope.spawn(move || {
                for directory in (worker..DIRECTORIES).step_by(4) {
                    for number in 0..FILES {
                        let (key, length) = file(directory, number);
                        put(place, &key, &bytes(1, length));
                    }
                }
            });
        }
    });
    let requests = walk(&place).unwrap();
    assert_eq!(place.proxy.counts().of(Kind::List).requests, requests);
    cell(
        "list 2,000 keys in 20 directories",
        &format!("{requests} requests"),
    );
    // In pages of odd lengths: each object once, and each prefix.
    let remote = place.remote.as_ref();
    assert_eq!(
        list_all(remote, "walk/", 3).unwrap().prefixes.len(),
        DIRECTORIES
    );
    let page = list_all(remote, "walk/d07/", 7).unwrap();
    let found: Vec<_> = page
        .objects
        .iter()
        .map(|object| object.key.clone())
        .collect();
    let expected: Vec<_> = (0..FILES).map(|number| file(7, number).0).collect();
    assert_eq!(found, expected);
    let head = remote.head("walk/d07/f001").unwrap();
    let listed = &page.objects[1];
    let same = listed.version.etag == head.version.etag;
    cell(
        "tag of the list is that of the object",
        if same { "yes" } else { "no" },
    );
}

/// Puts an object beside another that some servers take for the same; what comes of it.
fn odd(place: &Place, key: &str, content: &[u8]) -> String {
    let remote = place.remote.as_ref();
    let body = Bytes::copy_from_slice(content);
    let metadata = Metadata::new();
    if let Err(error) = writable(place).put(key, body, &Condition::Absent, &metadata) {
        return match error {
            Error::Exists => "taken for another".to_owned(),
            error => name_of(&error).to_owned(),
        };
    }
    let is_same = read(remote, key).as_deref() == Ok(content);
    let page = list(remote, "odd/", false, None, 1000).unwrap();
    let is_listed = page.objects.iter().any(|object| object.key == key);
    match (is_same, is_listed) {
        (true, true) => "ok".to_owned(),
        (true, false) => "not listed".to_owned(),
        (false, _) => "not read".to_owned(),
    }
}

#[test]
#[ignore = "needs a server: tests/objects/run.sh"]
fn s3_odd_keys() {
    let place = Place::bucket("");
    let plain = bytes(1, 1_000);
    put(&place, "odd/a/b", &plain);
    for (number, key) in [
        "a//b",
        "x ",
        "a~b",
        "a%41b",
        "a+b",
        "\u{e9}\u{10000}",
        "dir/",
    ]
    .into_iter()
    .enumerate()
    {
        let content = if key == "dir/" {
            Vec::new()
        } else {
            bytes(2, 100 + number)
        };
        let seen = odd(&place, &format!("odd/{key}"), &content);
        let shown = if number == 5 {
            "letters beyond ASCII"
        } else {
            &format!("`{key}`")
        };
        cell(&format!("key {shown}"), &seen);
        // Whatever the server makes of a key, nothing else is overwritten.
        assert!(
            read(place.remote.as_ref(), "odd/a/b").unwrap() == plain,
            "{key}"
        );
    }
}

#[test]
#[ignore = "needs a server: tests/objects/run.sh"]
fn s3_empty() {
    let place = Place::bucket("");
    let remote = place.remote.as_ref();
    put(&place, "empty/none", b"");
    let version = remote.head("empty/none").unwrap().version;
    assert_eq!(version.length_bytes, 0);
    place.proxy.reset_counts();
    assert_eq!(fetch(remote, "empty/none", &version, 0..0), Ok(Vec::new()));
    assert_eq!(
        place.proxy.counts().all().requests,
        0,
        "a range of nothing was asked for"
    );
    let page = list(remote, "empty/", true, None, 1000).unwrap();
    assert_eq!(page.objects.len(), 1);
    assert_eq!(page.objects[0].version.length_bytes, 0);
    assert_eq!(remote.head("empty/absent").unwrap_err(), Error::NotFound);
    cell("empty objects", "ok");
}

#[test]
#[ignore = "needs a server: tests/objects/run.sh"]
fn s3_metadata() {
    let place = Place::bucket("");
    let pairs = [("mtime", &b"1700000000.123456789"[..]), ("mode", b"33188")];
    let pairs = pairs.map(|(name, value)| (name.to_owned(), value.to_vec()));
    let metadata = Metadata::from(pairs);
    let written = writable(&place).put(
        "metadata/one",
        Bytes::from_static(b"one"),
        &Condition::Always,
        &metadata,
    );
    let written = written.unwrap();
    let info = place.remote.head("metadata/one").unwrap();
    assert_eq!(info.version.etag, written.etag);
    for pair in &metadata {
        assert!(
            info.metadata.contains(pair),
            "{pair:?} of {:?}",
            info.metadata
        );
    }
    let time = info.version.last_modified.unwrap();
    let is_own = time.duration_since(UNIX_EPOCH).unwrap().as_secs() == 1_700_000_000;
    cell("metadata", "ok");
    let shown = if is_own {
        "what a client wrote"
    } else {
        "of the change"
    };
    cell("time of the last change", shown);
}

#[test]
#[ignore = "needs a server: tests/objects/run.sh"]
fn s3_versions() {
    let place = Place::bucket("");
    let remote = place.remote.as_ref();
    let (old, new) = (bytes(1, 8 << 20), bytes(2, 8 << 20));
    put(&place, "versions/one", &old);
    let version = remote.head("versions/one").unwrap().version;
    let all = 0..version.length_bytes;

    // It is replaced while its bytes come.
    place.set_script("get only=1 hold=1m");
    let reading = Fetch::begin(remote, "versions/one", &version, all.clone());
    assert!(place.proxy.wait_until_held(HANGS));
    put(&place, "versions/one", &new);
    place.proxy.release();
    let (bytes, result) = reading.end();
    assert!(result != Ok(()) || bytes == old, "other bytes");
    assert!(old.starts_with(&bytes), "bytes of two versions");

    // The rest is asked for when it has been replaced.
    put(&place, "versions/one", &old);
    let version = remote.head("versions/one").unwrap().version;
    place.set_script("get only=1 reset=1m; get only=2 wait");
    let reading = Fetch::begin(remote, "versions/one", &version, all.clone());
    assert!(place.proxy.wait_until_held(HANGS));
    put(&place, "versions/one", &new);
    place.proxy.release();
    let (bytes, result) = reading.end();
    assert_eq!(result, Err(Error::Changed));
    assert!(old.starts_with(&bytes), "bytes of two versions");
    cell("replaced while it is read", "changed");

    place.set_script("");
    let (bytes, result) = Fetch::begin(remote, "versions/one", &version, 5..5_000).end();
    assert_eq!((bytes.len(), result), (0, Err(Error::Changed)));
    assert!(read(remote, "versions/one").unwrap() == new);
    cell("a version that is gone", "changed");
}

#[test]
#[ignore = "needs a server: tests/objects/run.sh"]
fn s3_file_and_prefix() {
    let place = Place::bucket("");
    let (file, below) = (bytes(1, 1_000), bytes(2, 1_000));
    put(&place, "both/a", &file);
    let body = Bytes::copy_from_slice(&below);
    let metadata = Metadata::new();
    let second = writable(&place).put("both/a/b", body, &Condition::Absent, &metadata);
    let remote = place.remote.as_ref();
    assert!(read(remote, "both/a").unwrap() == file);
    let seen = match second {
        Ok(_) => {
            assert!(read(remote, "both/a/b").unwrap() == below);
            let page = list_all(remote, "both/", 1000).unwrap();
            assert_eq!((page.objects.len(), page.prefixes.len()), (1, 1));
            "ok"
        }
        Err(error) => {
            assert_eq!(remote.head("both/a/b").unwrap_err(), Error::NotFound);
            name_of(&error)
        }
    };
    cell("key `a/b` beside `a`", seen);
}

/// How a mistake in the options ends.
fn mistake(row: &str, bucket: &str, change: impl FnOnce(&mut Options)) {
    let place = Place::wrong(bucket, change);
    let remote = place.remote.as_ref();
    let listed = list(remote, "", true, None, 10).map(drop);
    let body = Bytes::from_static(b"x");
    let metadata = Metadata::new();
    let written = writable(&place).put("mistake", body, &Condition::Always, &metadata);
    let written = written.map(drop);
    // A HEAD has no text that says why.
    let looked_at = remote.head("mistake").map(drop);
    assert_eq!(
        looked_at.is_ok(),
        written.is_ok(),
        "{row}: {looked_at:?}, {written:?}"
    );
    for error in [&listed, &written, &looked_at]
        .into_iter()
        .filter_map(|it| it.as_ref().err())
    {
        assert!(!error.to_string().contains("secret"), "{error}");
    }
    let name = |result: &Result<(), Error>| result.as_ref().err().map_or("accepted", name_of);
    cell(
        row,
        &match (name(&listed), name(&written)) {
            (list, write) if list == write => list.to_owned(),
            (list, write) => format!("list {list}, write {write}"),
        },
    );
}

#[test]
#[ignore = "needs a server: tests/objects/run.sh"]
fn s3_mistakes() {
    mistake("wrong secret key", "bucket", |options| {
        if let Some(keys) = &mut options.keys {
            keys.secret_access_key = "YW5vdGhlcg==".to_owned();
        }
    });
    mistake("wrong access key", "bucket", |options| {
        if let Some(keys) = &mut options.keys {
            keys.access_key_id = "another".to_owned();
        }
    });
    mistake("another region", "bucket", |options| {
        options.region = Some("eu-central-1".to_owned());
    });
    mistake("no keys", "bucket", |options| {
        // An account of Azure has a name all the same.
        let keys = options.keys.take();
        options.account = keys.map(|keys| keys.access_key_id);
        options.anonymous = true;
    });
    mistake("no such bucket", "absent", |_| {});
}
