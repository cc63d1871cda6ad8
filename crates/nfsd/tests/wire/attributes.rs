//! Attributes before and after a change, the guard of SETATTR, times.

use std::collections::HashSet;

use pagewell_sunrpc::nfs3::{
    CreateHow, CreateReply, DirectoryOperation, FileAttributes, LinkArguments, LinkReply,
    MkdirArguments, Procedure, RemoveReply, SetAttributes, SetTime, StableHow, Status, Time,
    WccData, WriteArguments, WriteReply,
};

use crate::client::encoded;
use crate::every_call::status_of;
use crate::fixture::{Fixture, Kind, on_each_kind};
use crate::operations::{handle, mode};

const WRITERS: usize = 8;
const CHANGES: usize = 60;

fn in_parallel(
    fixture: &Fixture,
    work: impl Fn(usize, &Fixture) -> Vec<WccData> + Sync,
) -> Vec<WccData> {
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..WRITERS)
            .map(|number| {
                let work = &work;
                scope.spawn(move || work(number, fixture))
            })
            .collect();
        let results = threads.into_iter().map(|thread| thread.join().unwrap());
        results.flatten().collect()
    })
}

/// Every `before` is the state after another of the changes, or the state at the start.
fn check_chain(
    fixture: &Fixture,
    start: &pagewell_sunrpc::nfs3::FileAttributes,
    changes: &[WccData],
) {
    let mut states: HashSet<(u64, Time, Time)> = changes
        .iter()
        .map(|change| change.after.unwrap().wcc())
        .map(|wcc| (wcc.size, wcc.modified, wcc.changed))
        .collect();
    states.insert((start.size, start.modified, start.changed));
    let mut known = 0;
    for before in changes.iter().filter_map(|change| change.before) {
        known += 1;
        let state = (before.size, before.modified, before.changed);
        assert!(
            states.contains(&state),
            "a state that never was: {before:?}"
        );
    }
    assert!(fixture.kind != Kind::Ram || known == changes.len());
}

/// Attributes before a change belong to it atomically: with eight writers each is what
/// some other change left behind.
#[test]
fn attributes_before_a_write_are_those_after_another() {
    on_each_kind(|fixture| {
        let (mut client, root) = fixture.client();
        let file = client.make_file(&root, b"file", b"");
        let start = client.getattr(&file).unwrap();
        let changes = in_parallel(fixture, |number, fixture| {
            let (mut client, _) = fixture.client();
            let write = |turn: usize| {
                let offset = (turn * WRITERS + number) as u64 * 10;
                let written = client.write(&file, offset, &[1; 10], StableHow::Unstable);
                written.unwrap().file_wcc
            };
            (0..CHANGES).map(write).collect()
        });
        check_chain(fixture, &start, &changes);
        let end = client.getattr(&file).unwrap();
        assert_eq!(end.size, (WRITERS * CHANGES * 10) as u64);
    });
}

/// The same for a directory in which eight clients create and remove.
#[test]
fn attributes_before_a_creation_are_those_after_another() {
    on_each_kind(|fixture| {
        let (mut client, root) = fixture.client();
        let directory = client.make_directory(&root, b"directory");
        let start = client.getattr(&directory).unwrap();
        let changes = in_parallel(fixture, |number, fixture| {
            let (mut client, _) = fixture.client();
            let mut changes = Vec::new();
            for turn in 0..CHANGES / 2 {
                let name = format!("{number} {turn}");
                let how = CreateHow::Guarded(mode(0o600));
                let made = client.create(&directory, name.as_bytes(), how).unwrap();
                changes.push(made.wcc);
                if turn % 2 == 0 {
                    changes.push(client.remove(&directory, name.as_bytes()).unwrap());
                }
            }
            changes
        });
        check_chain(fixture, &start, &changes);
    });
}

/// A guard that does not match is NOT_SYNC, nothing is applied, and there is exactly
/// one reply.
#[test]
fn a_stale_guard_applies_nothing_and_is_answered_once() {
    on_each_kind(|fixture| {
        let (mut client, root) = fixture.client();
        let file = client.make_file(&root, b"file", b"content");
        let before = client.getattr(&file).unwrap();
        let wrong = Time {
            seconds: before.changed.seconds,
            nanoseconds: (before.changed.nanoseconds + 1) % 1_000_000_000,
        };
        let set = SetAttributes {
            size: Some(1),
            modified: SetTime::ToServerTime,
            ..mode(0o600)
        };
        let refused = client.setattr(&file, set, Some(wrong));
        assert_eq!(refused.unwrap_err(), Status::NotSynchronized);
        client.check_usable();
        assert!(!client.has_answer(), "a second reply");
        assert_eq!(client.getattr(&file).unwrap(), before);
        let wcc = client.setattr(&file, set, Some(before.changed)).unwrap();
        let after = wcc.after.unwrap();
        assert_eq!((after.size, after.mode), (1, 0o600));
        if let Some(found) = wcc.before {
            assert_eq!(found, before.wcc());
        }
        let refused = client.setattr(&file, mode(0o644), Some(before.changed));
        assert_eq!(refused.unwrap_err(), Status::NotSynchronized);
        client.setattr(&file, mode(0o644), None).unwrap();
    });
}

/// What is refused is refused as a whole.
#[test]
fn a_refused_setattr_applies_nothing() {
    on_each_kind(|fixture| {
        if !fixture.knows_users() {
            return;
        }
        let (mut client, root) = fixture.client();
        let file = client.make_file(&root, b"file", b"content");
        client.setattr(&file, mode(0o666), None).unwrap();
        let before = client.getattr(&file).unwrap();
        let mut user = fixture.client_of(1000);
        let set = SetAttributes {
            size: Some(1),
            ..mode(0o600)
        };
        let refused = user.setattr(&file, set, None).unwrap_err();
        assert!(matches!(
            refused,
            Status::NotPermitted | Status::AccessDenied
        ));
        assert_eq!(client.getattr(&file).unwrap(), before);
        user.setattr(
            &file,
            SetAttributes {
                modified: SetTime::ToServerTime,
                ..SetAttributes::default()
            },
            None,
        )
        .unwrap();
    });
}

/// Times keep their nanoseconds, from 1970 to the last second of 2105 and a bit.
#[test]
fn times_are_kept_to_the_nanosecond_and_to_the_last_second() {
    let seconds = [0, 1, 0x7fff_ffff, 0x8000_0000, 0xffff_fffe, u32::MAX];
    on_each_kind(|fixture| {
        let (mut client, root) = fixture.client();
        let file = client.make_file(&root, b"file", b"");
        for seconds in seconds {
            for nanoseconds in [0, 1, 999_999_999] {
                let accessed = Time {
                    seconds,
                    nanoseconds,
                };
                let modified = Time {
                    seconds,
                    nanoseconds: 999_999_999 - nanoseconds,
                };
                let set = SetAttributes {
                    accessed: SetTime::To(accessed),
                    modified: SetTime::To(modified),
                    ..SetAttributes::default()
                };
                client.setattr(&file, set, None).unwrap();
                let found = client.getattr(&file).unwrap();
                assert_eq!((found.accessed, found.modified), (accessed, modified));
            }
        }
    });
}

/// Nanoseconds that are none are refused, in a time and in a guard.
#[test]
fn nanoseconds_that_are_none_are_refused() {
    on_each_kind(|fixture| {
        let (mut client, root) = fixture.client();
        let file = client.make_file(&root, b"file", b"");
        let before = client.getattr(&file).unwrap();
        for nanoseconds in [1_000_000_000, u32::MAX] {
            let time = Time {
                seconds: 7,
                nanoseconds,
            };
            let set = SetAttributes {
                modified: SetTime::To(time),
                ..mode(0o600)
            };
            let refused = client.setattr(&file, set, None);
            assert_eq!(refused.unwrap_err(), Status::Invalid);
            let how = CreateHow::Guarded(set);
            let refused = client.create(&root, b"other", how);
            assert_eq!(refused.unwrap_err(), Status::Invalid);
            let mut arguments = encoded(&handle(&file));
            arguments.extend(encoded(&mode(0o600)));
            arguments.extend(encoded(&Some(time)));
            let answer = client.nfs_raw(Procedure::Setattr, &arguments);
            let refused = status_of(Procedure::Setattr, &answer);
            assert!(matches!(refused, Status::Invalid | Status::NotSynchronized));
        }
        assert_eq!(client.getattr(&file).unwrap(), before);
        assert_eq!(
            client.lookup(&root, b"other").unwrap_err(),
            Status::NotFound
        );
    });
}

/// Local times that the wire cannot say are cut to the nearest, not wrapped around;
/// and a read leaves the times of data alone.
#[test]
fn times_beyond_the_wire_are_cut_and_not_wrapped() {
    let fixture = Fixture::new(Kind::Directory);
    let (mut client, root) = fixture.client();
    let file = client.make_file(&root, b"file", b"content");
    let path = fixture.folder().join("exported/file");
    let earliest = Time::default();
    let latest = Time {
        seconds: u32::MAX,
        nanoseconds: 999_999_999,
    };
    for (seconds, expected) in [(-1_000_000, earliest), (i64::from(u32::MAX) + 1000, latest)] {
        let time = rustix::fs::Timespec {
            tv_sec: seconds,
            tv_nsec: 5,
        };
        let times = rustix::fs::Timestamps {
            last_access: time,
            last_modification: time,
        };
        let directory = rustix::fs::CWD;
        rustix::fs::utimensat(directory, &path, &times, rustix::fs::AtFlags::empty()).unwrap();
        let found = client.getattr(&file).unwrap();
        assert_eq!((found.accessed, found.modified), (expected, expected));
    }
    let before = client.getattr(&file).unwrap();
    client.read(&file, 0, 100).unwrap();
    let after = client.getattr(&file).unwrap();
    assert_eq!(
        (after.modified, after.changed),
        (before.modified, before.changed)
    );
}

/// A refused call says that nothing was changed: the object was before what it is after.
#[test]
fn refused_changes_say_that_the_object_is_what_it_was() {
    on_each_kind(|fixture| {
        let (mut client, root) = fixture.client();
        let file = client.make_file(&root, b"file", b"content");
        client.make_file(&root, b"other", b"");
        let directory = client.getattr(&root).unwrap();
        let of_file = client.getattr(&file).unwrap();
        let check = |status: Status, expected: Status, wcc: WccData, now: &FileAttributes| {
            assert_eq!(status, expected);
            assert_eq!(wcc.before, Some(now.wcc()), "{expected:?}");
            assert_eq!(wcc.after.map(|after| after.wcc()), Some(now.wcc()));
        };
        let object = |name| DirectoryOperation {
            directory: handle(&root),
            name,
        };
        let arguments = object(b"missing");
        let answer = client.nfs(Procedure::Remove, &arguments);
        let failure = answer.decode::<RemoveReply>().unwrap_err();
        let wcc = failure.body;
        check(failure.status, Status::NotFound, wcc, &directory);
        let arguments = MkdirArguments {
            what: object(b"file"),
            attributes: mode(0o755),
        };
        let answer = client.nfs(Procedure::Mkdir, &arguments);
        let failure = answer.decode::<CreateReply<'_>>();
        let failure = failure.unwrap_err();
        let wcc = failure.body;
        check(failure.status, Status::Exists, wcc, &directory);
        let arguments = LinkArguments {
            file: handle(&file),
            link: object(b"other"),
        };
        let answer = client.nfs(Procedure::Link, &arguments);
        let failure = answer.decode::<LinkReply>().unwrap_err();
        let wcc = failure.body.directory_wcc;
        check(failure.status, Status::Exists, wcc, &directory);
        let arguments = WriteArguments {
            file: handle(&file),
            offset: u64::MAX - 1,
            count: 1,
            stable: StableHow::Unstable,
            data: b"x",
        };
        let answer = client.nfs(Procedure::Write, &arguments);
        let failure = answer.decode::<WriteReply>().unwrap_err();
        let wcc = failure.body;
        check(failure.status, Status::FileTooLarge, wcc, &of_file);
    });
}

/// An owner and a group of -1 are what there is; so chown(2) has it, and other servers.
#[test]
fn an_owner_of_minus_one_changes_nothing() {
    on_each_kind(|fixture| {
        if !fixture.knows_users() {
            return;
        }
        let (mut client, root) = fixture.client();
        let file = client.make_file(&root, b"file", b"");
        let owner = |uid, gid| SetAttributes {
            uid: Some(uid),
            gid: Some(gid),
            ..SetAttributes::default()
        };
        let mut set = |new: SetAttributes| {
            client.setattr(&file, new, None).unwrap();
            let found = client.getattr(&file).unwrap();
            (found.uid, found.gid)
        };
        assert_eq!(set(owner(1, 2)), (1, 2));
        assert_eq!(set(owner(u32::MAX, u32::MAX)), (1, 2));
        assert_eq!(set(owner(3, u32::MAX)), (3, 2));
        assert_eq!(set(owner(u32::MAX, 4)), (3, 4));
    });
}
