//! The load generator against a server that answers as told.
#![allow(clippy::unwrap_used, reason = "a test fails so")]

mod fake;

use std::time::Duration;

use fake::{ENTRIES, FakeServer, Manner};
use pagewell_load::load::{Load, LoadError, Measurement, Target, Workload, pattern, run};
use pagewell_sunrpc::nfs3::{Procedure, Status};

/// Not a multiple of the blocks that are used.
const FILE_BYTES: usize = 1_000_003;

fn patterned() -> Vec<u8> {
    let mut data = vec![0; FILE_BYTES];
    pattern().fill(0, &mut data);
    data
}

fn server(manner: Manner) -> FakeServer {
    let server = FakeServer::start(manner);
    server.put("file", patterned());
    server
}

/// A run that ends by itself where it can, and soon where it cannot.
fn load(workload: Workload) -> Load {
    let once = matches!(workload, Workload::Read | Workload::Write);
    Load {
        block_bytes: 10_000,
        depth: 7,
        connections: 2,
        duration: (!once).then_some(Duration::from_millis(30)),
        file_bytes: workload.writes().then_some(FILE_BYTES as u64),
        ..Load::new(workload, "file")
    }
}

fn done(manner: Manner, load: &Load) -> Measurement {
    let server = server(manner);
    run(server.target(), load, Some(std::process::id())).unwrap()
}

/// The error ends the run: no deadline may come before the calls that meet it.
fn failure(manner: Manner, load: &Load) -> LoadError {
    let load = Load {
        duration: load.duration.map(|_| Duration::from_secs(120)),
        ..load.clone()
    };
    run(server(manner).target(), &load, None).unwrap_err()
}

#[test]
fn every_byte_is_read_once_in_whatever_manner_it_comes() {
    for verify in [false, true] {
        for manner in [
            Manner::Right,
            Manner::Backwards,
            Manner::Fragments,
            Manner::ShortReads,
        ] {
            let result = done(
                manner,
                &Load {
                    verify,
                    ..load(Workload::Read)
                },
            );
            assert_eq!(result.bytes, FILE_BYTES as u64, "{manner:?}");
            assert_eq!(result.operations, 101);
            assert_eq!(result.latency.count(), 101);
            let short = if manner == Manner::ShortReads { 900 } else { 0 };
            assert_eq!(result.short_replies, short);
            assert_eq!(result.calls, 101 + short);
            assert!(result.server.is_some() && result.commit.is_none());
        }
    }
}

#[test]
fn only_verification_sees_wrong_data() {
    assert_eq!(
        done(Manner::WrongData, &load(Workload::Read)).operations,
        101
    );
    let verify = Load {
        connections: 1,
        depth: 1,
        verify: true,
        ..load(Workload::Read)
    };
    let error = failure(Manner::WrongData, &verify);
    assert!(
        matches!(error, LoadError::WrongData { offset: 77 }),
        "{error}"
    );
}

#[test]
fn what_was_written_can_be_verified() {
    let server = server(Manner::Backwards);
    let write = Load {
        path: "new".to_owned(),
        verify: true,
        ..load(Workload::Write)
    };
    let result = run(server.target(), &write, None).unwrap();
    assert_eq!((result.operations, result.bytes), (101, FILE_BYTES as u64));
    assert!(result.commit.is_some());
    assert_eq!(server.get("new"), Some(patterned()));
    let random = Load {
        verify: true,
        ..load(Workload::RandomWrite)
    };
    run(server.target(), &random, None).unwrap();
    assert_eq!(pattern().check(0, &server.get("file").unwrap()), Ok(()));
    let read = Load {
        path: "new".to_owned(),
        verify: true,
        ..load(Workload::Read)
    };
    run(server.target(), &read, None).unwrap();
}

#[test]
fn unverified_writes_have_the_right_length() {
    let server = server(Manner::Right);
    let load = Load {
        block_bytes: 9_999,
        ..load(Workload::Write)
    };
    let result = run(server.target(), &load, None).unwrap();
    let file = server.get("file").unwrap();
    assert_eq!((file.len(), result.bytes), (FILE_BYTES, FILE_BYTES as u64));
    let mut block = vec![0; 9_999];
    pattern().fill(0, &mut block);
    assert!(
        file.chunks(9_999)
            .all(|written| written == &block[..written.len()])
    );
}

#[test]
fn random_writes_make_a_missing_file() {
    let server = server(Manner::Right);
    let load = Load {
        path: "sparse".to_owned(),
        ..load(Workload::RandomWrite)
    };
    run(server.target(), &load, None).unwrap();
    assert_eq!(server.get("sparse").unwrap().len(), FILE_BYTES);
}

#[test]
fn a_listing_is_one_operation_of_several_calls() {
    let listing = Load {
        path: String::new(),
        ..load(Workload::ReaddirPlus)
    };
    let result = done(Manner::Right, &listing);
    assert_eq!(result.entries, Some(ENTRIES));
    assert_eq!(result.calls, 10 * result.operations);
    let error = failure(Manner::GrowingDirectory, &listing);
    assert!(matches!(error, LoadError::EntriesDiffer { .. }), "{error}");
}

#[test]
fn small_calls_and_mixes_go_on_until_the_deadline() {
    for workload in [
        Workload::Getattr,
        Workload::Lookup,
        Workload::Access,
        Workload::Mix,
    ] {
        let in_directory = Load {
            path: "directory/file".to_owned(),
            ..load(workload)
        };
        let result = done(Manner::Backwards, &in_directory);
        assert!(result.operations > 0 && result.elapsed >= Duration::from_millis(30));
        assert_eq!(result.commit.is_some(), workload == Workload::Mix);
    }
}

#[test]
fn an_error_status_fails_the_run_by_its_name() {
    for (procedure, workload) in [
        (Procedure::Read, Workload::RandomRead),
        (Procedure::Write, Workload::Write),
        (Procedure::Commit, Workload::Write),
        (Procedure::Create, Workload::Write),
        (Procedure::Access, Workload::Access),
        (Procedure::Lookup, Workload::Lookup),
        (Procedure::Getattr, Workload::Getattr),
        (Procedure::ReaddirPlus, Workload::ReaddirPlus),
    ] {
        let manner = Manner::Error(procedure, Status::QuotaExceeded);
        let error = failure(manner, &load(workload)).to_string();
        assert_eq!(error, format!("{}: NFS3ERR_DQUOT", procedure.name()));
    }
}

#[test]
fn replies_that_make_no_sense_fail_the_run() {
    let read = load(Workload::Read);
    let getattr = load(Workload::Getattr);
    let write = load(Workload::Write);
    for (manner, load, expected) in [
        (Manner::WrongXid, &getattr, "a reply to no call"),
        (Manner::Twice, &getattr, "a reply to no call"),
        (Manner::EmptyReads, &read, "gave nothing"),
        (Manner::ShortWrites, &write, "took 9999"),
        (Manner::ChangingVerifier, &write, "write verifier changed"),
        (
            Manner::OtherCommitVerifier,
            &write,
            "write verifier changed",
        ),
        (Manner::Refuses, &getattr, "SystemError"),
        (Manner::Closes, &read, "closed the connection"),
        (Manner::HugeRecord, &read, "longer than any right one"),
    ] {
        let error = failure(manner, load).to_string();
        assert!(error.contains(expected), "{manner:?}: {error}");
    }
}

#[test]
fn a_wrong_export_name_or_setting_is_said() {
    let server = server(Manner::Right);
    let other = Target {
        export: "/other".to_owned(),
        ..server.target().clone()
    };
    let error = run(&other, &load(Workload::Getattr), None).unwrap_err();
    assert!(matches!(error, LoadError::Mount { .. }), "{error}");
    let missing = Load {
        path: "missing".to_owned(),
        ..load(Workload::Read)
    };
    let error = run(server.target(), &missing, None).unwrap_err();
    assert_eq!(error.to_string(), "lookup: NFS3ERR_NOENT");
    let large = Load {
        block_bytes: 2 << 20,
        ..load(Workload::Read)
    };
    let error = run(server.target(), &large, None).unwrap_err();
    assert!(
        matches!(error, LoadError::FileTooSmall { bytes: 1_000_003 }),
        "{error}"
    );
    for wrong in [
        Load {
            depth: 0,
            ..load(Workload::Read)
        },
        Load {
            depth: 1025,
            ..load(Workload::Read)
        },
        Load {
            connections: 0,
            ..load(Workload::Read)
        },
        Load {
            block_bytes: 0,
            ..load(Workload::Read)
        },
        Load {
            duration: None,
            ..load(Workload::Getattr)
        },
        Load {
            file_bytes: None,
            ..load(Workload::Write)
        },
    ] {
        let error = run(server.target(), &wrong, None).unwrap_err();
        assert!(matches!(error, LoadError::Settings(_)), "{error}");
    }
}
