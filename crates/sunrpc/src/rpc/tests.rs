//! What the RFC says byte by byte, and what is not of it.

use super::*;

/// NFS version 3 GETATTR by user 1000 of machine "pc", its handle still to come.
const SYSTEM_CALL: [u8; 72] = [
    0x12, 0x34, 0x56, 0x78, 0, 0, 0, 0, 0, 0, 0, 2, // xid, CALL, RPC version
    0x00, 0x01, 0x86, 0xa3, 0, 0, 0, 3, 0, 0, 0, 1, // 100003, version 3, GETATTR
    0, 0, 0, 1, 0, 0, 0, 32, 0xaa, 0xbb, 0xcc, 0xdd, // AUTH_SYS, 32 bytes, stamp
    0, 0, 0, 2, b'p', b'c', 0, 0, // machine name
    0, 0, 3, 0xe8, 0, 0, 0, 100, // uid, gid
    0, 0, 0, 2, 0, 0, 0, 4, 0, 0, 0, 24, // two groups
    0, 0, 0, 0, 0, 0, 0, 0, // verifier
];

fn system_call() -> Call<'static> {
    Call {
        xid: 0x1234_5678,
        program: 100_003,
        version: 3,
        procedure: 1,
        credential: Credential::System(SystemCredential {
            stamp: 0xaabb_ccdd,
            machine_name: b"pc",
            uid: 1000,
            gid: 100,
            gids: Words::new(&[4, 24]).unwrap(),
        }),
    }
}

/// The call with the four bytes at `at` replaced.
fn with_word(at: usize, value: u32) -> Vec<u8> {
    let mut bytes = SYSTEM_CALL.to_vec();
    bytes[at..at + 4].copy_from_slice(&value.to_be_bytes());
    bytes
}

#[test]
fn a_call_has_the_bytes_of_the_rfc() {
    let (call, decoder) = parse_call(&SYSTEM_CALL).unwrap();
    assert_eq!(call, system_call());
    assert_eq!(decoder.remaining(), 0);
    let mut buffer = Vec::new();
    encode_call(&mut Encoder::new(&mut buffer), &call);
    assert_eq!(buffer, SYSTEM_CALL);
}

#[test]
fn arguments_follow_the_head() {
    let mut record = SYSTEM_CALL.to_vec();
    record.extend_from_slice(&[0, 0, 0, 9]);
    let (_, mut decoder) = parse_call(&record).unwrap();
    assert_eq!(decoder.u32(), Ok(9));
}

#[test]
fn a_record_that_ends_early_is_dropped_or_garbage() {
    for length in 0..SYSTEM_CALL.len() {
        let error = parse_call(&SYSTEM_CALL[..length]).unwrap_err();
        if length < 8 {
            assert_eq!(error, None);
        } else {
            assert_eq!(error, Some((0x1234_5678, Refusal::GarbageArguments)));
        }
    }
    assert_eq!(parse_call(&with_word(4, 1)), Err(None));
}

#[test]
fn each_fault_has_its_reply() {
    let refused = |refusal| Some((0x1234_5678, refusal));
    let authentication = |status| refused(Refusal::Authentication(status));
    let mismatch = refused(Refusal::RpcMismatch { low: 2, high: 2 });
    assert_eq!(parse_call(&with_word(8, 3)), Err(mismatch));
    let flavor = authentication(AuthenticationStatus::TooWeak);
    assert_eq!(parse_call(&with_word(24, 6)), Err(flavor));
    let credential = authentication(AuthenticationStatus::BadCredential);
    assert_eq!(parse_call(&with_word(28, 401)), Err(credential));
    assert_eq!(parse_call(&with_word(28, 28)), Err(credential));
    assert_eq!(parse_call(&with_word(36, 256)), Err(credential));
    assert_eq!(parse_call(&with_word(52, 17)), Err(credential));
    let verifier = authentication(AuthenticationStatus::BadVerifier);
    assert_eq!(parse_call(&with_word(68, 401)), Err(verifier));
    let mut buffer = Vec::new();
    let (xid, refusal) = credential.unwrap();
    encode_refusal(&mut Encoder::new(&mut buffer), xid, refusal);
    assert_eq!(
        buffer,
        [
            0x12, 0x34, 0x56, 0x78, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1
        ]
    );
}

#[test]
fn sixteen_groups_are_kept_and_seventeen_refused() {
    let gids: Vec<u32> = (0..17).collect();
    assert_eq!(Words::<16>::new(&gids), None);
    let call = Call {
        credential: Credential::System(SystemCredential {
            stamp: 0,
            machine_name: &[b'm'; 255],
            uid: u32::MAX,
            gid: 0,
            gids: Words::new(&gids[..16]).unwrap(),
        }),
        ..system_call()
    };
    let mut buffer = Vec::new();
    encode_call(&mut Encoder::new(&mut buffer), &call);
    assert_eq!(parse_call(&buffer).unwrap().0, call);
}

#[test]
fn nobody_may_call() {
    let call = Call {
        credential: Credential::None,
        ..system_call()
    };
    let mut buffer = Vec::new();
    encode_call(&mut Encoder::new(&mut buffer), &call);
    assert_eq!(buffer.len(), 40);
    assert_eq!(parse_call(&buffer).unwrap().0, call);
}

const HEAD: [u8; 8] = [0xde, 0xad, 0xbe, 0xef, 0, 0, 0, 1];

/// Every refusal with what follows xid and message type.
fn table() -> Vec<(Refusal, Vec<u8>)> {
    let accepted = |status: u8| vec![0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, status];
    let mut mismatch = accepted(2);
    mismatch.extend_from_slice(&[0, 0, 0, 3, 0, 0, 0, 4]);
    vec![
        (Refusal::ProgramUnavailable, accepted(1)),
        (Refusal::ProgramMismatch { low: 3, high: 4 }, mismatch),
        (Refusal::ProcedureUnavailable, accepted(3)),
        (Refusal::GarbageArguments, accepted(4)),
        (Refusal::SystemError, accepted(5)),
        (
            Refusal::RpcMismatch {
                low: RPC_VERSION,
                high: RPC_VERSION,
            },
            vec![0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 2],
        ),
        (
            Refusal::Authentication(AuthenticationStatus::TooWeak),
            vec![0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 5],
        ),
        (
            Refusal::Authentication(AuthenticationStatus::GssCredentialProblem),
            vec![0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 13],
        ),
    ]
}

#[test]
fn each_refusal_has_the_bytes_of_the_rfc() {
    for (refusal, tail) in table() {
        let mut buffer = Vec::new();
        encode_refusal(&mut Encoder::new(&mut buffer), 0xdead_beef, refusal);
        assert_eq!(buffer, [&HEAD[..], &tail].concat());
        let xid = 0xdead_beef;
        let error = ReplyError::Refused { xid, refusal };
        assert_eq!(parse_reply(&buffer), Err(error));
        // The last word of the status: what comes behind it is not needed.
        let status_end = if tail[3] == 0 { 24 } else { 16 };
        for length in 0..status_end {
            let error = parse_reply(&buffer[..length]).unwrap_err();
            assert!(!matches!(error, ReplyError::Refused { .. }), "{length}");
        }
    }
}

#[test]
fn a_refusal_that_ends_with_its_status_is_that_refusal() {
    let (low, high) = (0, 0);
    let failed = AuthenticationStatus::Failed;
    for (number, refusal) in [
        (1, Refusal::ProgramMismatch { low, high }),
        (5, Refusal::RpcMismatch { low, high }),
        (6, Refusal::Authentication(failed)),
    ] {
        let (_, tail) = table()[number].clone();
        let status_end = if tail[3] == 0 { 16 } else { 8 };
        for length in [status_end, status_end + 2] {
            let record = [&HEAD[..], &tail[..length]].concat();
            let xid = 0xdead_beef;
            let refused = ReplyError::Refused { xid, refusal };
            assert_eq!(parse_reply(&record), Err(refused));
        }
    }
}

#[test]
fn a_server_lacks_a_procedure_when_it_says_so_or_denies_a_version_that_it_has() {
    for (refusal, lacks) in [
        (Refusal::ProcedureUnavailable, true),
        (Refusal::ProgramMismatch { low: 0, high: 0 }, true),
        (Refusal::ProgramMismatch { low: 3, high: 3 }, true),
        (Refusal::ProgramMismatch { low: 2, high: 4 }, true),
        (Refusal::ProgramMismatch { low: 4, high: 4 }, false),
        (Refusal::ProgramUnavailable, false),
        (Refusal::GarbageArguments, false),
        (Refusal::SystemError, false),
    ] {
        assert_eq!(refusal.lacks_procedure(3), lacks, "{refusal:?}");
    }
}

#[test]
fn a_success_is_followed_by_the_results() {
    let mut buffer = Vec::new();
    let mut encoder = Encoder::new(&mut buffer);
    encode_success(&mut encoder, 0xdead_beef);
    encoder.u32(7);
    let expected = [&HEAD[..], &[0; 16], &[0, 0, 0, 7]].concat();
    assert_eq!(buffer, expected);
    assert_eq!(buffer.len(), SUCCESS_SIZE + 4);
    let (xid, mut decoder) = parse_reply(&buffer).unwrap();
    assert_eq!((xid, decoder.u32()), (0xdead_beef, Ok(7)));
}

#[test]
fn strange_numbers_are_no_reply() {
    let mut buffer = HEAD.to_vec();
    buffer.extend_from_slice(&[0, 0, 0, 2]);
    let malformed = ReplyError::Malformed {
        xid: 0xdead_beef,
        error: Error::BadValue,
    };
    assert_eq!(parse_reply(&buffer), Err(malformed));
    assert_eq!(parse_reply(&[0; 24]), Err(ReplyError::NotReply));
}
