//! A web server that serves a folder, which the tests write to.

use std::fs::{self, File};
use std::time::{Duration, SystemTime};

use pagewell_object_client::Error;

use crate::place::{Place, cell, folder};
use crate::support::{
    DIRECTORIES, FILES, Fetch, HANGS, bytes, fetch, file, name_of, read, read_ranges, walk,
};

/// Writes a file as programs do that replace it, with a time of its own: not the present one, in
/// which a second change would not be seen, and which makes tags weak.
pub(crate) fn replace(name: &str, content: &[u8], seconds_ago: u64) {
    let (target, new) = (folder().join(name), folder().join(format!("{name}.new")));
    fs::write(&new, content).unwrap();
    let time = SystemTime::now() - Duration::from_secs(seconds_ago);
    File::open(&new).unwrap().set_modified(time).unwrap();
    fs::rename(new, target).unwrap();
}

#[test]
#[ignore = "needs a server: tests/objects/run.sh"]
fn web_read() {
    let content = bytes(1, (3 << 20) + 5);
    replace("big.bin", &content, 1_000);
    let place = Place::web("");
    cell(
        "read whole and in ranges",
        read_ranges(&place, "big.bin", &content),
    );
    let seen = place.proxy.seen();
    assert!(
        seen.iter()
            .all(|seen| seen.field("accept-encoding") == Some("identity"))
    );
    let version = place.remote.head("big.bin").unwrap().version;
    cell("strong tags", if version.is_weak() { "no" } else { "yes" });
    assert_eq!(place.remote.head("absent").unwrap_err(), Error::NotFound);
}

#[test]
#[ignore = "needs a server: tests/objects/run.sh"]
fn web_empty() {
    replace("empty", b"", 1_000);
    let place = Place::web("");
    let version = place.remote.head("empty").unwrap().version;
    assert_eq!(version.length_bytes, 0);
    place.proxy.reset_counts();
    let read = fetch(place.remote.as_ref(), "empty", &version, 0..0);
    assert_eq!(read, Ok(Vec::new()));
    assert_eq!(
        place.proxy.counts().all().requests,
        0,
        "a range of nothing was asked for"
    );
    cell("empty files", "ok");
}

#[test]
#[ignore = "needs a server: tests/objects/run.sh"]
fn web_list() {
    for directory in 0..DIRECTORIES {
        for number in 0..FILES {
            let (name, length) = file(directory, number);
            let path = folder().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes(1, length)).unwrap();
        }
    }
    let place = Place::web("");
    let seen = match walk(&place) {
        Ok(requests) => format!("{requests} requests"),
        Err(error) => name_of(&error).to_owned(),
    };
    cell("list 2,000 files in 20 directories", &seen);
}

#[test]
#[ignore = "needs a server: tests/objects/run.sh"]
fn web_odd_names() {
    let place = Place::web("");
    for name in [
        "x ",
        "a~b",
        "a%41b",
        "a+b",
        "hash#x?y",
        "\u{e9}\u{10000}",
        "'\"<&>",
    ] {
        let content = bytes(1, 1_000);
        fs::write(folder().join(name), &content).unwrap();
        let found = read(place.remote.as_ref(), name);
        assert!(found.as_ref() == Ok(&content), "{name}: {:?}", found.err());
    }
    cell("odd names", "ok");
}

#[test]
#[ignore = "needs a server: tests/objects/run.sh"]
fn web_versions() {
    let place = Place::web("");
    let remote = place.remote.as_ref();
    let (old, new) = (bytes(1, 8 << 20), bytes(2, 8 << 20));
    replace("versions.bin", &old, 2_000);
    let version = remote.head("versions.bin").unwrap().version;
    let all = 0..version.length_bytes;

    place.set_script("get only=1 hold=1m");
    let reading = Fetch::begin(remote, "versions.bin", &version, all.clone());
    assert!(place.proxy.wait_until_held(HANGS));
    replace("versions.bin", &new, 1_000);
    place.proxy.release();
    let (bytes, result) = reading.end();
    assert!(result != Ok(()) || bytes == old, "other bytes");
    assert!(old.starts_with(&bytes), "bytes of two versions");

    replace("versions.bin", &old, 500);
    let version = remote.head("versions.bin").unwrap().version;
    place.set_script("get only=1 reset=1m; get only=2 wait");
    let reading = Fetch::begin(remote, "versions.bin", &version, all.clone());
    assert!(place.proxy.wait_until_held(HANGS));
    replace("versions.bin", &new, 200);
    place.proxy.release();
    let (bytes, result) = reading.end();
    assert!(old.starts_with(&bytes), "bytes of two versions");
    cell("replaced while it is read", name_of(&result.unwrap_err()));

    place.set_script("");
    let (bytes, result) = Fetch::begin(remote, "versions.bin", &version, all).end();
    assert_eq!((bytes.len(), result), (0, Err(Error::Changed)));
    assert!(read(remote, "versions.bin").unwrap() == new);
    cell("a version that is gone", "changed");
}
