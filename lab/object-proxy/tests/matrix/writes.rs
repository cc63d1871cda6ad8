//! Changing a bucket under conditions, in parts, and when replies are lost.

use pagewell_object_client::{Bytes, Condition, Copies, Error, Metadata, Result, Upload, Version};

use crate::bucket::{put, writable};
use crate::place::{Place, cell, is_azure, name};
use crate::support::{bytes, name_of, read};

/// Parts but the last have as many.
const PART_BYTES: usize = 5 << 20;

fn try_put(place: &Place, key: &str, content: &[u8], condition: &Condition) -> Result<Version> {
    let body = Bytes::copy_from_slice(content);
    writable(place).put(key, body, condition, &Metadata::new())
}

/// What a server did that should have refused: the client says the truth about it.
fn refused<T>(place: &Place, key: &str, kept: &[u8], result: &Result<T>) -> &'static str {
    let is_kept = read(place.remote.as_ref(), key).as_deref() == Ok(kept);
    match result {
        Ok(_) if is_kept => panic!("{key}: done, and nothing changed"),
        Ok(_) => "ignored",
        Err(Error::Changed | Error::Exists) if is_kept => "ok",
        Err(error) => panic!("{key}: {error}; kept: {is_kept}"),
    }
}

#[test]
#[ignore = "needs a server: tests/objects/run.sh"]
fn s3_conditions() {
    let place = Place::bucket("");
    let (one, two) = (bytes(1, 1_000), bytes(2, 1_000));
    try_put(&place, "if/one", &one, &Condition::Absent).unwrap();
    let again = try_put(&place, "if/one", &two, &Condition::Absent);
    cell("create, if absent", refused(&place, "if/one", &one, &again));

    let version = place.remote.head("if/one").unwrap().version;
    try_put(&place, "if/one", &two, &Condition::Is(version.clone())).unwrap();
    let stale = Condition::Is(version.clone());
    let again = try_put(&place, "if/one", &one, &stale);
    cell(
        "update of a version",
        refused(&place, "if/one", &two, &again),
    );
    let absent = try_put(&place, "if/absent", &one, &stale).unwrap_err();
    assert!(
        [Error::NotFound, Error::Changed].contains(&absent),
        "{absent}"
    );
    assert_eq!(place.remote.head("if/absent").unwrap_err(), Error::NotFound);

    let deleted = writable(&place).delete("if/one", &stale);
    let seen = refused(&place, "if/one", &two, &deleted);
    cell("delete of a version", seen);
    if seen == "ignored" {
        put(&place, "if/one", &two);
    }
    let version = place.remote.head("if/one").unwrap().version;
    writable(&place)
        .delete("if/one", &Condition::Is(version))
        .unwrap();
    assert_eq!(place.remote.head("if/one").unwrap_err(), Error::NotFound);
    writable(&place)
        .delete("if/one", &Condition::Always)
        .unwrap();

    let keys: Vec<String> = (0..3).map(|number| format!("if/many{number}")).collect();
    keys.iter().for_each(|key| put(&place, key, &one));
    assert_eq!(writable(&place).delete_many(&keys).unwrap(), []);
    assert_eq!(place.remote.head(&keys[1]).unwrap_err(), Error::NotFound);
}

#[test]
#[ignore = "needs a server: tests/objects/run.sh"]
fn s3_races() {
    let place = Place::bucket("");
    let mut most = 0;
    for round in 0..3 {
        let key = format!("race/{round}");
        let winners: Vec<usize> = std::thread::scope(|scope| {
            let create = |number: usize| {
                let (place, key) = (&place, &key);
                scope.spawn(move || {
                    let content = bytes(number as u64, 1_000);
                    match try_put(place, key, &content, &Condition::Absent) {
                        Ok(_) => Some(number),
                        Err(Error::Exists) => None,
                        Err(error) => panic!("{error}"),
                    }
                })
            };
            let threads: Vec<_> = (0..8).map(create).collect();
            let ended = threads.into_iter();
            ended.filter_map(|thread| thread.join().unwrap()).collect()
        });
        assert!(!winners.is_empty(), "all of them lost");
        let kept = read(place.remote.as_ref(), &key).unwrap();
        assert!(
            winners
                .iter()
                .any(|winner| kept == bytes(*winner as u64, 1_000))
        );
        most = most.max(winners.len());
    }
    // How many win is chance where more than one can.
    if name() == "s3mock" {
        return cell("eight create at once", "not atomic");
    }
    assert_eq!(most, 1);
    cell("eight create at once", "one wins");
}

fn parts(place: &Place, upload: &Upload) -> Vec<pagewell_object_client::Part> {
    let writable = writable(place);
    let part = |number: u32, length| {
        let body = Bytes::from(bytes(number.into(), length));
        writable.upload_part(upload, number, body).unwrap()
    };
    vec![part(1, PART_BYTES), part(2, 1_000)]
}

/// An upload of one key, with its parts.
fn begun(place: &Place, metadata: &Metadata) -> (Upload, Vec<pagewell_object_client::Part>) {
    let upload = writable(place).create_upload("parts/one", metadata);
    let upload = upload.unwrap();
    let made = parts(place, &upload);
    (upload, made)
}

#[test]
#[ignore = "needs a server: tests/objects/run.sh"]
fn s3_uploads() {
    let place = Place::bucket("");
    let writable = writable(&place);
    let metadata = Metadata::from([("mode".to_owned(), b"33188".to_vec())]);
    let whole = [bytes(1, PART_BYTES), bytes(2, 1_000)].concat();

    let (upload, made) = begun(&place, &metadata);
    let listed = match writable.uploads("parts/") {
        Ok(uploads) => uploads.iter().any(|listed| listed.id == upload.id),
        // Azure has no list of them.
        Err(Error::Unsupported(_)) => is_azure(),
        Err(error) => panic!("{error}"),
    };
    assert!(listed, "an upload is not listed");
    writable
        .complete(&upload, &made, &Condition::Absent)
        .unwrap();
    assert!(read(place.remote.as_ref(), "parts/one").unwrap() == whole);
    let info = place.remote.head("parts/one").unwrap();
    assert!(info.metadata.contains(&metadata[0]));
    cell("upload in parts", "ok");

    let other = bytes(4, 1_000);
    put(&place, "parts/one", &other);
    let (upload, made) = begun(&place, &metadata);
    let again = writable.complete(&upload, &made, &Condition::Absent);
    let seen = refused_parts(&place, &other, &again);
    cell("completion, if absent", seen);
    let _ = writable.abort(&upload);
    // s3mock deletes the object with the upload.
    put(&place, "parts/one", &whole);

    // Made of a part of itself and a new one, on the version that it is made of.
    let version = place.remote.head("parts/one").unwrap().version;
    let upload = writable.create_upload("parts/one", &metadata).unwrap();
    let range = match writable.copies() {
        Copies::Ranges => 0..PART_BYTES as u64,
        Copies::Objects => 0..version.length_bytes,
    };
    let copied = writable.copy_part(&upload, 1, "parts/one", &version, range.clone());
    let tail = writable.upload_part(&upload, 2, Bytes::from(bytes(3, 500)));
    let made = [copied.unwrap(), tail.unwrap()];
    let condition = Condition::Is(version.clone());
    writable.complete(&upload, &made, &condition).unwrap();
    let whole = [&whole[..range.end as usize], &bytes(3, 500)].concat();
    assert!(read(place.remote.as_ref(), "parts/one").unwrap() == whole);
    cell("a part copied from itself", "ok");

    // The same, based on what is no more.
    let upload = writable.create_upload("parts/one", &metadata).unwrap();
    let copied = writable.copy_part(&upload, 1, "parts/one", &version, range);
    let seen = match &copied {
        Ok(_) => "ignored",
        Err(Error::Changed) => "ok",
        Err(error) => name_of(error),
    };
    cell("a part copied from a version", seen);
    let made = parts(&place, &upload);
    let again = writable.complete(&upload, &made, &condition);
    let seen = refused_parts(&place, &whole, &again);
    cell("completion on a version", seen);
    writable.abort(&upload).unwrap();
    writable.abort(&upload).unwrap();
    let is_kept = read(place.remote.as_ref(), "parts/one").as_ref() == Ok(&whole);
    let seen = if is_kept { "kept" } else { "deleted" };
    cell("object whose next upload is given up", seen);
}

/// As `refused`; the parts of some servers are gone by then.
fn refused_parts(place: &Place, kept: &[u8], result: &Result<Version>) -> &'static str {
    let seen = refused(place, "parts/one", kept, result);
    if seen == "ignored" {
        put(place, "parts/one", kept);
    }
    seen
}

#[test]
#[ignore = "needs a server: tests/objects/run.sh"]
fn s3_lost_replies() {
    let place = Place::bucket("");
    let (one, two) = (bytes(1, 1_000), bytes(2, 1_000));
    for (number, fault) in ["lost-reply", "applied=500"].into_iter().enumerate() {
        let key = format!("lost/{number}");
        place.set_script(&format!(
            "put only=1 {fault}; complete-upload only=1 {fault}"
        ));
        let version = try_put(&place, &key, &one, &Condition::Absent).unwrap();
        place.set_script(&format!("put only=1 {fault}"));
        try_put(&place, &key, &two, &Condition::Is(version)).unwrap();
        assert!(read(place.remote.as_ref(), &key).unwrap() == two);

        place.set_script(&format!("complete-upload only=1 {fault}"));
        let key = format!("lost/parts{number}");
        let upload = writable(&place)
            .create_upload(&key, &Metadata::new())
            .unwrap();
        let made = parts(&place, &upload);
        let completed = writable(&place).complete(&upload, &made, &Condition::Absent);
        completed.unwrap();

        // Another's object is not taken for one's own.
        place.set_script(&format!("put only=1 {fault}"));
        let theirs = try_put(&place, "lost/0", &one, &Condition::Absent);
        assert_eq!(theirs.unwrap_err(), Error::Exists);
    }
    cell("a reply to a write is lost", "ok");
}

#[test]
#[ignore = "needs a server: tests/objects/run.sh"]
fn s3_broken_uploads() {
    let place = Place::impatient_bucket("put cut-upload=500000");
    let content = bytes(1, 1 << 20);
    assert!(try_put(&place, "broken/cut", &content, &Condition::Always).is_err());
    assert_eq!(
        place.remote.head("broken/cut").unwrap_err(),
        Error::NotFound
    );
    place.set_script("put only=1 cut-upload=500000");
    try_put(&place, "broken/cut", &content, &Condition::Always).unwrap();
    assert!(read(place.remote.as_ref(), "broken/cut").unwrap() == content);
    cell("an upload is cut", "ok");

    place.set_script("put flip-upload=500000");
    let changed = try_put(&place, "broken/flip", &content, &Condition::Always);
    let stored = read(place.remote.as_ref(), "broken/flip");
    cell(
        "bytes of an upload change on the way",
        match (changed, stored) {
            (Err(_), Err(Error::NotFound)) => "refused",
            (Err(_), Ok(_)) => "kept, error",
            (Ok(_), Ok(stored)) if stored != content => panic!("other bytes, and no error"),
            other => panic!("{other:?}"),
        },
    );
}

#[test]
#[ignore = "needs a server: tests/objects/run.sh"]
fn s3_broken_uploads_with_signed_hashes() {
    // More than a server looks at before it answers; what is wrong is near the end.
    const BYTES: usize = 20 << 20;
    let place = Place::impatient_bucket("");
    let writable = writable(&place);
    let upload = writable.create_upload("signed/asked", &Metadata::new());
    let upload = upload.unwrap();
    let is_enough = writable.signs_bodies()
        && match writable.compares_signed_hashes(&upload) {
            Err(Error::Unsupported(_)) => false,
            compares => compares.unwrap(),
        };
    if is_enough {
        writable.trust_signed_hashes(true);
        let content = bytes(1, BYTES);
        try_put(&place, "signed/whole", &content, &Condition::Always).unwrap();
        assert!(read(place.remote.as_ref(), "signed/whole").unwrap() == content);
        for fault in ["flip-upload=20000000", "cut-upload=20000000"] {
            place.set_script(&format!("put {fault}; upload-part {fault}"));
            try_put(&place, "signed/broken", &content, &Condition::Always).unwrap_err();
            let stored = read(place.remote.as_ref(), "signed/broken");
            assert_eq!(stored.unwrap_err(), Error::NotFound, "{fault}");
            let part = writable.upload_part(&upload, 1, content.clone().into());
            part.unwrap_err();
        }
    }
    writable.abort(&upload).unwrap();
    let seen = match is_enough {
        true => "refused",
        false => "MD5 goes along",
    };
    cell("the same, signed and without MD5", seen);
}
