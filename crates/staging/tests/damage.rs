//! Whatever happens to the files of a staging folder, no other bytes than those that were journaled
//! are replayed.

#![allow(clippy::unwrap_used)] // a failed check is a failed test

use std::fs::OpenOptions;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use pagewell_base::mix::Random;
use pagewell_device::testing::{PATIENCE, request};
use pagewell_device::{Buffer, Operation};
use pagewell_staging::{NotedUpload, Opened, Record, StagedFile, Staging};

const ORIGIN: &str = "s3://bucket at http://127.0.0.1:9000";
const FILES: u64 = 3;

fn open(folder: &Path) -> Result<Opened, String> {
    Staging::open(folder, ORIGIN, 64 << 20).map_err(|error| error.to_string())
}

fn transfer(file: &StagedFile, operation: Operation, offset: u64, bytes: &mut [u8]) {
    let mut buffer = Buffer::new(bytes.len(), 512);
    buffer.copy_from_slice(bytes);
    let (request, pending) = request(operation, offset, buffer);
    file.submit(request);
    let (outcome, buffer) = pending.recv_timeout(PATIENCE).unwrap();
    outcome.result.unwrap();
    bytes.copy_from_slice(&buffer);
}

/// Three spans, the last behind the first MiB.
fn record(number: u64) -> Record {
    Record {
        key: format!("dir/file {number}"),
        base: None,
        base_bytes: 0,
        length_bytes: 3 << 20,
        dirty: vec![(0, 100 * number), (5000, 9000), (2_000_000, 2_004_096)],
        metadata: vec![("mtime".to_owned(), number.to_string().into_bytes())],
        token: format!("token-{number}"),
        journaled_at: UNIX_EPOCH,
    }
}

/// Bytes that no other file, and no other time, has there.
fn content(number: u64, time: u64, (start, end): (u64, u64)) -> Vec<u8> {
    let mut mix = Random(number << 40 | time << 32 | start);
    (start..end).map(|_| mix.number() as u8).collect()
}

fn fill(file: &StagedFile, number: u64, time: u64) {
    for span in record(number).dirty {
        transfer(
            file,
            Operation::Write,
            span.0,
            &mut content(number, time, span),
        );
    }
}

/// A folder with files that were journaled, of which some have newer bytes elsewhere.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let opened = open(folder.path()).unwrap();
    for number in 1..=FILES {
        let file = opened.staging.create(&record(number).key);
        fill(&file, number, 0);
        file.journal(&record(number)).unwrap();
        if number == 2 {
            fill(&file, number, 1);
            file.journal(&record(number)).unwrap();
        }
        fill(&file, number, 2);
    }
    folder
}

fn check(file: &StagedFile, number: u64) {
    for span in record(number).dirty {
        let mut bytes = vec![0; (span.1 - span.0) as usize];
        transfer(file, Operation::Read, span.0, &mut bytes);
        let time = u64::from(number == 2);
        assert!(bytes == content(number, time, span), "{number} {span:?}");
    }
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

fn damage(mix: &mut Random, folder: &Path) {
    let files = files(folder);
    let pick = |mix: &mut Random| &files[mix.below(files.len() as u64) as usize];
    let path = pick(mix);
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(path)
        .unwrap();
    let length = file.metadata().unwrap().len();
    match mix.below(20) {
        0 => std::fs::remove_file(path).unwrap(),
        1 => file.set_len(mix.below(length)).unwrap(),
        2 => drop(std::fs::copy(pick(mix), path)),
        3 => drop(std::fs::rename(pick(mix), path)),
        4..8 => {
            // A block of another file, or of another place.
            let mut block = [0; 512];
            let from = OpenOptions::new().read(true).open(pick(mix)).unwrap();
            let _ = from.read_at(&mut block, mix.below(20) * 512).unwrap();
            file.write_all_at(&block, mix.below(20) * 512).unwrap();
        }
        _ => {
            for _ in 0..=mix.below(3) {
                let at = mix.below(length.min(9000));
                let mut byte = [0];
                if file.read_at(&mut byte, at).unwrap() == 1 {
                    file.write_all_at(&[byte[0] ^ 1 << mix.below(8)], at)
                        .unwrap();
                }
            }
        }
    }
}

/// A thousand rounds of flipped bits, blocks in wrong places, files that are cut, missing, or in
/// the place of others.
#[test]
fn damage_is_set_aside() {
    let whole = folder();
    let mut mix = Random(17);
    let (mut replayed, mut refused) = (0, 0);
    for round in 0..1000 {
        let folder = tempfile::tempdir().unwrap();
        for path in files(whole.path()) {
            std::fs::copy(&path, folder.path().join(path.file_name().unwrap())).unwrap();
        }
        for _ in 0..=mix.below(2) {
            damage(&mut mix, folder.path());
        }
        let is_there = |ending: &str| {
            let is_one = |path: &PathBuf| path.to_str().unwrap().ends_with(ending);
            files(folder.path())
                .iter()
                .filter(|path| is_one(path))
                .count()
        };
        let records = is_there(".record");
        match open(folder.path()) {
            Ok(opened) => {
                for found in &opened.journaled {
                    let number = found.record.token.strip_prefix("token-").unwrap();
                    let number = number.parse().unwrap();
                    assert_eq!(found.record, record(number), "{round}");
                    check(&found.file, number);
                }
                let found = opened.journaled.len();
                assert_eq!(is_there(".record.damaged"), records - found, "{round}");
                assert_eq!(is_there(".record"), found);
                replayed += found;
                // What was set aside stays there.
                drop(opened);
                let again = open(folder.path()).unwrap();
                assert_eq!(again.journaled.len(), found);
                assert_eq!(is_there(".record.damaged"), records - found, "{round}");
            }
            Err(error) => {
                let is_clear = ["no staging folder", "is damaged"];
                assert!(is_clear.iter().any(|text| error.contains(text)), "{error}");
                assert_eq!(is_there(".record"), records, "nothing was changed");
                refused += 1;
            }
        }
    }
    assert!(
        replayed > 1500 && replayed < 2900 && refused > 20,
        "{replayed} {refused}"
    );
}

#[test]
fn folders_of_others_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("a/b");
    let opened = open(&place).unwrap();
    let mode = place.metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    let busy = open(&place).err().unwrap();
    assert!(busy.contains("in use"), "{busy}");
    drop(opened);
    for (mode, is_refused) in [(0o770, true), (0o707, true), (0o755, false)] {
        let permissions = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(&place, permissions).unwrap();
        let refused = open(&place).err().unwrap_or_default();
        let is_said = refused.contains("can be written by others");
        assert_eq!(is_said, is_refused, "{mode:o}: {refused}");
    }
    let other = Staging::open(&place, "s3://other", 100)
        .err()
        .unwrap()
        .to_string();
    let expected = format!("is the staging folder of {ORIGIN}, not of s3://other");
    assert!(other.contains(&expected), "{other}");
    std::fs::write(folder.path().join("letter"), "dear").unwrap();
    let foreign = open(folder.path()).err().unwrap();
    assert!(
        foreign.contains("is not empty and no staging folder"),
        "{foreign}"
    );
    let file = open(&folder.path().join("letter")).err().unwrap();
    assert!(file.contains("letter"), "{file}");
    std::fs::write(folder.path().join("bucket"), "of flowers").unwrap();
    let foreign = open(folder.path()).err().unwrap();
    assert!(
        foreign.contains("is not one of a staging folder"),
        "{foreign}"
    );
    assert_eq!(
        std::fs::read(folder.path().join("bucket")).unwrap(),
        b"of flowers"
    );
    // Files of others in a folder of our own are left alone.
    std::fs::write(place.join("notes.txt"), "mine").unwrap();
    drop(open(&place).unwrap());
    assert_eq!(std::fs::read(place.join("notes.txt")).unwrap(), b"mine");
    // No name can be made in a file system of the kernel's.
    let unwritable = open(Path::new("/proc/sys")).err().unwrap();
    assert!(unwritable.contains("/proc/sys"), "{unwritable}");
}

#[test]
fn uploads_that_did_not_end_are_found() {
    let folder = tempfile::tempdir().unwrap();
    let opened = open(folder.path()).unwrap();
    for (key, id) in [("a\nb", "1"), ("a\nb", "2"), ("c", "1"), ("c", "1")] {
        opened.staging.note_upload(key, id);
    }
    opened.staging.forget_upload("a\nb", "1");
    opened.staging.forget_upload("never", "1");
    drop(opened);
    let damaged = folder.path().join("00000000000000ff.upload");
    std::fs::write(&damaged, "pagewell upload 1\nkey x\nid y\nend 0\n").unwrap();
    let opened = open(folder.path()).unwrap();
    let mut uploads = opened.uploads.clone();
    uploads.sort_by(|one, other| one.key.cmp(&other.key));
    let of = |key: &str, id: &str| NotedUpload {
        key: key.to_owned(),
        upload_id: id.to_owned(),
    };
    assert_eq!(uploads, [of("a\nb", "2"), of("c", "1")]);
    assert!(!damaged.exists());
    for NotedUpload { key, upload_id } in &uploads {
        opened.staging.forget_upload(key, upload_id);
    }
    drop(opened);
    assert!(open(folder.path()).unwrap().uploads.is_empty());
    assert_eq!(files(folder.path()).len(), 1);
}
