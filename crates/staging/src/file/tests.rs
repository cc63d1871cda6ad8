use std::path::Path;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use pagewell_base::mix::Random;
use pagewell_base::spans::Span;
use pagewell_device::testing::{PATIENCE, request};
use pagewell_device::{Buffer, Error as DeviceError, Operation, Outcome};
use rustix::io::Errno;

use super::StagedFile;
use crate::folder::Folder;
use crate::{Base, Error, Journaled, Opened, Record, Staging};

const ORIGIN: &str = "s3://bucket at http://127.0.0.1:9000";
const ROOM: u64 = 64 << 20;

type Pending = mpsc::Receiver<(Outcome, Buffer)>;

fn open(folder: &Path) -> Opened {
    Staging::open(folder, ORIGIN, ROOM).unwrap()
}

fn submit(file: &StagedFile, offset: u64, bytes: &[u8]) -> Pending {
    let mut buffer = Buffer::new(bytes.len(), 512);
    buffer.copy_from_slice(bytes);
    let (request, pending) = request(Operation::Write, offset, buffer);
    file.submit(request);
    pending
}

fn write(file: &StagedFile, offset: u64, bytes: &[u8]) -> Result<(), DeviceError> {
    let pending = submit(file, offset, bytes);
    pending.recv_timeout(PATIENCE).unwrap().0.result
}

fn read(file: &StagedFile, offset: u64, length: usize) -> Result<Vec<u8>, DeviceError> {
    let (request, pending) = request(Operation::Read, offset, Buffer::new(length, 512));
    file.submit(request);
    let (outcome, buffer) = pending.recv_timeout(PATIENCE).unwrap();
    outcome.result.map(|()| buffer.to_vec())
}

fn record(length_bytes: u64, dirty: &[Span]) -> Record {
    Record {
        key: "key".to_owned(),
        base: Some(Base {
            etag: Some("\"etag\"".to_owned()),
            last_modified: Some(UNIX_EPOCH + Duration::from_secs(7)),
            length_bytes: 1000,
        }),
        base_bytes: 900,
        length_bytes,
        dirty: dirty.to_vec(),
        metadata: vec![("mode".to_owned(), b"33188".to_vec())],
        token: "token".to_owned(),
        journaled_at: SystemTime::now(),
    }
}

fn is_errno(result: Result<(), DeviceError>, expected: Errno) -> bool {
    matches!(result, Err(DeviceError::Failed { errno, .. }) if errno == expected)
}

/// Names in the folder, without their numbers.
fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let name = |entry: std::io::Result<std::fs::DirEntry>| {
        let name = entry.unwrap().file_name().into_string().unwrap();
        name.split_once('.')
            .map_or(name.clone(), |(_, kind)| kind.to_owned())
    };
    let mut names: Vec<String> = entries.map(name).collect();
    names.sort();
    names
}

/// Waits until nothing is left: the thread that has completed the last request of a file may be the
/// one that drops it.
fn until_empty(opened: &Opened) {
    let started = Instant::now();
    let folder = opened.staging.path();
    while names(folder) != ["bucket"] || opened.staging.used_bytes() > 0 {
        assert!(started.elapsed() < PATIENCE, "{:?}", names(folder));
        std::thread::yield_now();
    }
}

/// What a kill leaves, as another process finds it.
fn killed(folder: &Path) -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), copy.path().join(entry.file_name())).unwrap();
    }
    copy
}

/// Bytes that are there, or not.
type Model = Vec<Option<u8>>;

fn spans(model: &Model) -> Vec<Span> {
    let mut start = 0;
    let runs = model.chunk_by(|one, other| one.is_some() == other.is_some());
    let spans = runs.map(|run| {
        start += run.len() as u64;
        (start - run.len() as u64, start, run[0].is_some())
    });
    let stored = spans.filter(|(_, _, is_stored)| *is_stored);
    stored.map(|(start, end, _)| (start, end)).collect()
}

fn check(file: &StagedFile, model: &Model) {
    let spans = spans(model);
    assert_eq!(file.spans_within(0, u64::MAX), spans);
    for (start, end) in spans {
        let bytes = read(file, start, (end - start) as usize).unwrap();
        let expected = model[start as usize..end as usize].iter().flatten();
        assert!(bytes.iter().eq(expected), "{start} {end}");
    }
}

/// Writes, cuts, reads, records and kills in any order, requests at once with others. In units of
/// some KiB, so that chunks of checksums have several parts.
#[test]
fn it_is_what_was_written_and_a_kill_brings_back_the_last_record() {
    const UNIT: u64 = 97_003;
    const UNITS: u64 = 30;
    let mut mix = Random(3);
    for round in 0..12 {
        let folder = tempfile::tempdir().unwrap();
        let opened = open(folder.path());
        let mut file = opened.staging.create("key");
        let mut model: Model = vec![None; (UNIT * UNITS) as usize];
        let mut last: Option<(Record, Model)> = None;
        let mut pending = Vec::new();
        for _ in 0..60 {
            let start = mix.below(UNITS) * UNIT + mix.below(3);
            let end = (start + (1 + mix.below(5)) * UNIT - mix.below(5)).min(UNIT * UNITS);
            match mix.below(12) {
                0 => {
                    file.cut(start);
                    model[start as usize..].fill(None);
                }
                1..3 => {
                    let finished = |pending: Pending| pending.recv_timeout(PATIENCE).unwrap();
                    let all = pending.drain(..).map(finished);
                    assert!(all.into_iter().all(|(outcome, _)| outcome.result.is_ok()));
                    check(&file, &model);
                }
                3..5 => {
                    pending.drain(..).for_each(|one: Pending| drop(one.recv()));
                    let mut record = record(UNIT * UNITS, &spans(&model));
                    record.token = mix.number().to_string();
                    file.journal(&record).unwrap();
                    last = Some((record, model.clone()));
                }
                5 => {
                    let copy = killed(folder.path());
                    let mut found = open(copy.path()).journaled;
                    assert_eq!(found.len(), usize::from(last.is_some()), "{round}");
                    if let (Some(found), Some((record, model))) = (found.pop(), &last) {
                        assert_eq!(found.record, *record);
                        check(&found.file, model);
                        // It goes on there as it would have here.
                        write(&found.file, start, b"more").unwrap();
                        assert_eq!(read(&found.file, start, 4).unwrap(), b"more");
                    }
                }
                _ => {
                    let byte = mix.below(256) as u8;
                    let bytes = vec![byte; (end - start) as usize];
                    pending.push(submit(&file, start, &bytes));
                    model[start as usize..end as usize].fill(Some(byte));
                }
            }
        }
        pending.drain(..).for_each(|one: Pending| drop(one.recv()));
        check(&file, &model);
        let bytes = model.iter().flatten().count() as u64;
        assert_eq!(
            (file.stored_bytes(), opened.staging.used_bytes()),
            (bytes, bytes)
        );
        file.finish();
        file = opened.staging.create("other");
        assert_eq!(file.stored_bytes(), 0);
        until_empty(&opened);
        assert_eq!(opened.staging.journaled().files, 0);
    }
}

#[test]
fn what_is_not_journaled_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let opened = open(folder.path());
    let file = opened.staging.create("key");
    assert_eq!(names(folder.path()), ["bucket"], "nothing is made early");
    write(&file, 10, b"0123456789").unwrap();
    assert_eq!(read(&file, 12, 3).unwrap(), b"234");
    for (offset, length) in [(9, 2), (19, 2), (0, 100)] {
        assert!(is_errno(read(&file, offset, length).map(drop), Errno::IO));
    }
    assert!(is_errno(write(&file, i64::MAX as u64, b"01"), Errno::FBIG));
    assert_eq!(names(folder.path()), ["bucket", "data"]);
    let copy = killed(folder.path());
    assert!(open(copy.path()).journaled.is_empty());
    assert_eq!(names(copy.path()), ["bucket"]);
    let clone = file.clone();
    drop(file);
    assert_eq!(read(&clone, 10, 1).unwrap(), b"0");
    drop(clone);
    until_empty(&opened);
}

#[test]
fn a_record_promises_only_what_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let opened = open(folder.path());
    let file = opened.staging.create("key");
    write(&file, 0, &[1; 100]).unwrap();
    write(&file, 200, &[1; 100]).unwrap();
    for (dirty, missing) in [
        (&[(0, 300)][..], (100, 200)),
        (&[(0, 50), (250, 400)], (300, 400)),
        (&[(120, 150)], (120, 150)),
        (&[(120, 250)], (120, 200)),
    ] {
        match file.journal(&record(1000, dirty)) {
            Err(Error::NotStored { span, .. }) => assert_eq!(span, missing),
            other => panic!("{other:?}"),
        }
    }
    for wrong in [
        record(250, &[(200, 300)]),
        record(1000, &[(10, 20), (15, 30)]),
        record(1000, &[(20, 20)]),
        Record {
            base_bytes: 1001,
            ..record(1000, &[])
        },
    ] {
        assert!(matches!(file.journal(&wrong), Err(Error::Record { .. })));
    }
    assert_eq!(names(folder.path()), ["bucket", "data"]);
    // A file without bytes of its own is one, too.
    let empty = opened.staging.create("empty");
    let mut none = record(0, &[]);
    (none.base, none.base_bytes) = (None, 0);
    empty.journal(&none).unwrap();
    file.journal(&record(1000, &[(0, 100), (210, 220)]))
        .unwrap();
    assert_eq!(
        (
            opened.staging.journaled().files,
            opened.staging.journaled().bytes
        ),
        (2, 110)
    );
    // Journaled files stay when they are dropped.
    drop((file, empty, opened));
    let opened = open(folder.path());
    let lengths = |found: &Journaled| (found.record.length_bytes, found.file.stored_bytes());
    let found: Vec<_> = opened.journaled.iter().map(lengths).collect();
    assert_eq!(found, [(1000, 110), (0, 0)], "the oldest first");
    opened.journaled[1].file.finish();
    assert_eq!(names(folder.path()), ["bucket", "data", "record"]);
}

/// In their order: what a kill leaves after each step of a record, and of a second one.
#[test]
fn a_kill_at_any_step_leaves_the_old_or_the_new() {
    let folder = tempfile::tempdir().unwrap();
    let opened = open(folder.path());
    let file = opened.staging.create("key");
    let content = |copy: &tempfile::TempDir| {
        let opened = open(copy.path());
        let found = opened.journaled.first()?;
        let bytes = read(&found.file, 0, 10).unwrap();
        Some(String::from_utf8(bytes).unwrap())
    };
    let is = |text: &str| Some(text.to_owned());
    let number = "0000000000000001";
    write(&file, 0, b"first 7890").unwrap();
    let mut states = vec![(killed(folder.path()), None)];
    file.journal(&record(1000, &[(0, 10)])).unwrap();
    let first = killed(folder.path());
    // Half a record, and a whole one, before it has its name.
    for half in [2, 1] {
        let copy = killed(folder.path());
        let path = copy.path().join(format!("{number}.record"));
        let bytes = std::fs::read(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        std::fs::write(
            path.with_extension("record.new"),
            &bytes[..bytes.len() / half],
        )
        .unwrap();
        states.push((copy, None));
    }
    states.push((first, is("first 7890")));
    write(&file, 0, b"second").unwrap();
    states.push((killed(folder.path()), is("first 7890")));
    file.cut(3);
    write(&file, 3, b"ond 789").unwrap();
    states.push((killed(folder.path()), is("first 7890")));
    let before = killed(folder.path());
    file.journal(&record(1000, &[(0, 10)])).unwrap();
    let bytes = std::fs::read(folder.path().join(format!("{number}.record"))).unwrap();
    std::fs::write(before.path().join(format!("{number}.record.new")), bytes).unwrap();
    states.push((before, is("first 7890")));
    states.push((killed(folder.path()), is("second 789")));
    write(&file, 0, b"third").unwrap();
    write(&file, 0, b"third").unwrap();
    states.push((killed(folder.path()), is("second 789")));
    file.finish();
    states.push((killed(folder.path()), None));
    for (at, (copy, expected)) in states.iter().enumerate() {
        assert_eq!(content(copy), *expected, "state {at}");
        assert_eq!(content(copy), *expected, "state {at}, again");
        assert!(
            !names(copy.path())
                .iter()
                .any(|name| name.ends_with("damaged"))
        );
    }
}

#[test]
fn what_is_kept_is_for_people() {
    let folder = tempfile::tempdir().unwrap();
    let opened = open(folder.path());
    let file = opened.staging.create("key");
    write(&file, 0, &[b'a'; 20]).unwrap();
    file.journal(&record(40, &[(0, 20)])).unwrap();
    write(&file, 5, &[b'b'; 5]).unwrap();
    write(&file, 30, &[b'c'; 20]).unwrap();
    file.cut(35);
    let path = file
        .keep(&record(40, &[(0, 10), (30, 40)]), "others have changed it")
        .unwrap();
    let expected = [&b"aaaaabbbbb"[..], &[0; 20], b"ccccc", &[0; 5]].concat();
    assert_eq!(std::fs::read(&path).unwrap(), expected);
    assert_eq!(names(folder.path()), ["bucket", "kept", "kept.txt"]);
    let text = std::fs::read_to_string(path.with_extension("kept.txt")).unwrap();
    assert!(text.contains("state kept: others have changed it; 5 bytes of it are missing\n"));
    assert!(matches!(
        file.journal(&record(40, &[])),
        Err(Error::Closed { .. })
    ));
    assert!(is_errno(write(&file, 0, b"more"), Errno::IO));
    let counts = |staging: &Staging| (staging.kept().files, staging.journaled().files);
    assert_eq!(
        (counts(&opened.staging), opened.staging.used_bytes()),
        ((1, 0), 15)
    );
    drop((file, opened));
    // Kills between the names.
    for step in 0..3 {
        let copy = killed(folder.path());
        let name = |kind: &str| copy.path().join(format!("0000000000000001.{kind}"));
        std::fs::rename(name("kept.txt"), name("record")).unwrap();
        if step > 0 {
            std::fs::rename(name("kept"), name("data")).unwrap();
            std::fs::copy(&path, name("other")).unwrap();
        }
        if step == 2 {
            std::fs::write(name("data"), [&b"aaaaa"[..], &[9; 95]].concat()).unwrap();
            let text = text.replace("bytes 30 35 0", "bytes 30 35 1");
            let (body, _) = text.rsplit_once("end ").unwrap();
            std::fs::write(name("record"), crate::text::sealed(body.to_owned())).unwrap();
        }
        let opened = open(copy.path());
        assert!(opened.journaled.is_empty());
        assert_eq!(counts(&opened.staging), (1, 0), "{step}");
        assert_eq!(names(copy.path()), ["bucket", "kept", "kept.txt"]);
        assert_eq!(std::fs::read(name("kept")).unwrap(), expected, "{step}");
    }
    let opened = open(folder.path());
    assert!(opened.staging.used_bytes() > 0);
    // People take it away.
    std::fs::remove_file(&path).unwrap();
    assert_eq!(
        (counts(&opened.staging), opened.staging.used_bytes()),
        ((0, 0), 0)
    );
}

#[test]
fn a_full_folder_refuses_and_has_room_again() {
    let folder = tempfile::tempdir().unwrap();
    let staging = Staging::open(folder.path(), ORIGIN, 100).unwrap().staging;
    let (file, other) = (staging.create("one"), staging.create("two"));
    write(&file, 0, &[1; 60]).unwrap();
    assert!(!staging.is_nearly_full());
    assert!(is_errno(write(&other, 0, &[2; 41]), Errno::NOSPC));
    assert!(staging.is_nearly_full(), "for that");
    assert!(staging.forget_refusal() && !staging.is_nearly_full());
    write(&other, 0, &[2; 40]).unwrap();
    assert!(staging.is_nearly_full() && !staging.forget_refusal());
    write(&file, 10, &[3; 50]).unwrap();
    assert!(is_errno(write(&file, 10, &[3; 51]), Errno::NOSPC));
    assert_eq!(read(&file, 10, 50).unwrap(), [3; 50]);
    other.cut(10);
    write(&file, 60, &[4; 30]).unwrap();
    assert!(is_errno(write(&file, 90, &[4]), Errno::NOSPC));
    // People give room, too.
    let path = other.keep(&record(10, &[(0, 10)]), "a reason").unwrap();
    assert!(is_errno(write(&file, 90, &[4]), Errno::NOSPC));
    std::fs::remove_file(path).unwrap();
    write(&file, 90, &[4; 10]).unwrap();
    assert_eq!(staging.used_bytes(), 100);
}

#[test]
fn thousands_of_files_do_not_need_as_many_descriptors() {
    const FILES: u64 = 1000;
    let folder = tempfile::tempdir().unwrap();
    let opened = open(folder.path());
    let create = |number: u64| opened.staging.create(&number.to_string());
    let files: Vec<StagedFile> = (0..FILES).map(create).collect();
    let pending: Vec<Pending> = (0..FILES)
        .zip(&files)
        .map(|(number, file)| submit(file, number, &number.to_le_bytes()))
        .collect();
    for one in pending {
        assert_eq!(one.recv_timeout(PATIENCE).unwrap().0.result, Ok(()));
    }
    for (number, file) in (0..FILES).zip(&files) {
        assert_eq!(read(file, number, 8).unwrap(), number.to_le_bytes());
    }
    let open = files[0].0.folder.descriptors().count();
    assert!(open <= crate::DESCRIPTORS_MAX, "{open}");
    drop(files);
    until_empty(&opened);
}

/// Data files that vanish or shrink under it.
#[test]
fn a_file_that_others_change_fails() {
    let folder = tempfile::tempdir().unwrap();
    let opened = open(folder.path());
    let file = opened.staging.create("key");
    write(&file, 0, &[1; 100]).unwrap();
    let path = folder.path().join("0000000000000001.data");
    let data = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    data.set_len(50).unwrap();
    assert!(is_errno(read(&file, 0, 100).map(drop), Errno::IO));
    assert!(file.journal(&record(100, &[(0, 100)])).is_err());
    std::fs::remove_file(&path).unwrap();
    file.0.folder.descriptors().forget(1);
    assert!(is_errno(write(&file, 0, &[1; 10]), Errno::NOENT));
    assert_eq!(
        names(folder.path()),
        ["bucket"],
        "no record, and no other file"
    );
}

/// Clones on several threads, with records in between.
#[test]
fn threads_share_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let opened = open(folder.path());
    let file = Arc::new(opened.staging.create("key"));
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            let file = file.clone();
            scope.spawn(move || {
                for round in 0..50 {
                    let bytes = [thread as u8 * 50 + round; 1000];
                    write(&file, thread * 1000, &bytes).unwrap();
                    assert_eq!(read(&file, thread * 1000, 1000).unwrap(), bytes);
                    if round % 10 == 9 {
                        let dirty = [(thread * 1000, thread * 1000 + 1000)];
                        file.journal(&record(4000, &dirty)).unwrap();
                    }
                }
            });
        }
    });
    for thread in 0..4 {
        assert_eq!(
            read(&file, thread * 1000, 1000).unwrap(),
            [thread as u8 * 50 + 49; 1000]
        );
    }
}

/// A folder whose names cannot be made durable, as a pipe cannot.
fn unsynced(path: &Path) -> Arc<Folder> {
    drop(open(path));
    let (pipe, _) = std::io::pipe().unwrap();
    let handle = std::fs::File::from(std::os::fd::OwnedFd::from(pipe));
    Folder::new(path.to_owned(), ORIGIN, ROOM, handle, 1)
}

#[test]
fn a_record_that_may_be_there_has_its_bytes() {
    let top = tempfile::tempdir().unwrap();
    let folder = unsynced(top.path());
    let file = StagedFile::new(&folder, folder.number(), "key");
    write(&file, 0, &[1; 100]).unwrap();
    let journaled = file.journal(&record(1000, &[(0, 100)]));
    assert!(matches!(journaled, Err(Error::File { .. })));
    assert!(file.is_doubtful());
    write(&file, 0, &[2; 100]).unwrap();
    assert_eq!(read(&file, 0, 100).unwrap(), [2; 100]);
    drop((file, folder));
    let opened = open(top.path());
    let [found] = opened.journaled.as_slice() else {
        panic!("{:?}", names(top.path()));
    };
    assert_eq!(read(&found.file, 0, 100).unwrap(), [1; 100]);
    found.file.finish();
    drop(opened.journaled);
    assert_eq!(names(top.path()), ["bucket"]);
}

#[test]
fn what_may_be_kept_for_people_stays() {
    let top = tempfile::tempdir().unwrap();
    let folder = unsynced(top.path());
    let file = StagedFile::new(&folder, folder.number(), "key");
    write(&file, 0, &[1; 100]).unwrap();
    let kept = file.keep(&record(1000, &[(0, 100)]), "a conflict");
    assert!(matches!(kept, Err(Error::File { .. })));
    drop((file, folder));
    let opened = open(top.path());
    assert_eq!(opened.staging.kept().files, 1);
    let of_people = std::fs::read_dir(top.path()).unwrap();
    let kept = of_people.map(|entry| entry.unwrap().path());
    let kept = kept.filter(|path| path.extension().is_some_and(|kind| kind == "kept"));
    let bytes = kept.map(|path| std::fs::read(path).unwrap());
    assert!(bytes.map(|bytes| bytes[..100].to_vec()).eq([[1; 100]]));
}
