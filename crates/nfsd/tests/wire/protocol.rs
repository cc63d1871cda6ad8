//! RFC 5531: records in fragments, programs and versions that are not served, garbage.

use pagewell_sunrpc::mount3;
use pagewell_sunrpc::nfs3::{self, CreateHow, Procedure, Status};
use pagewell_sunrpc::portmap;
use pagewell_sunrpc::record::LAST_FRAGMENT;
use pagewell_sunrpc::rpc::{AuthenticationStatus, Refusal};

use crate::client::{Client, User, call_record, encoded, marked, next_xid};
use crate::every_call::{AnyCall, every_call, status_of};
use crate::fixture::{Fixture, Kind, on_each_kind};
use crate::operations::{data, entry, handle, mode, written as written_by};
use crate::process::Process;

/// Cuts a record into fragments of these lengths; the last one takes what is left.
fn in_fragments(record: &[u8], lengths: &[usize]) -> Vec<u8> {
    let mut stream = Vec::new();
    let mut rest = record;
    for length in lengths {
        let (fragment, left) = rest.split_at((*length).min(rest.len()));
        stream.extend((fragment.len() as u32).to_be_bytes());
        stream.extend(fragment);
        rest = left;
    }
    stream.extend(marked(rest));
    stream
}

/// All that is in a file.
fn whole(client: &mut Client, file: &[u8]) -> Vec<u8> {
    let mut content = Vec::new();
    loop {
        let read = client.read(file, content.len() as u64, 1 << 20).unwrap();
        content.extend(&read.bytes);
        if read.end {
            return content;
        }
    }
}

/// A record may come in any number of fragments, of any lengths, also empty ones.
#[test]
fn records_may_come_in_fragments_of_any_length() {
    let fixture = Fixture::new(Kind::Ram);
    let (mut client, root) = fixture.client();
    let content: Vec<u8> = (0..50_000u32).map(|number| number as u8).collect();
    let file = client.make_file(&root, b"file", &content);
    let read = nfs3::ReadArguments {
        file: handle(&file),
        offset: 0,
        count: 50_000,
    };
    let write = nfs3::WriteArguments {
        file: handle(&file),
        offset: 0,
        count: 50_000,
        stable: nfs3::StableHow::Unstable,
        data: &content,
    };
    let cuts: [&[usize]; 8] = [
        &[0],
        &[1],
        &[4, 4, 4],
        &[0, 0, 7, 0, 1, 0],
        &[39],
        &[40],
        &[1; 100],
        &[13; 5],
    ];
    for cut in cuts {
        let mut expected = Vec::new();
        for (procedure, arguments) in [
            (Procedure::Null, Vec::new()),
            (Procedure::Read, encoded(&read)),
            (Procedure::Write, encoded(&write)),
            (Procedure::Getattr, encoded(&handle(&file))),
        ] {
            let xid = next_xid();
            let record = client.record(xid, procedure, &arguments);
            client.send(&in_fragments(&record, cut));
            expected.push((procedure, xid));
        }
        for (procedure, xid) in expected {
            let answer = client.finish(xid);
            assert_eq!(status_of(procedure, &answer), Status::Ok, "{cut:?}");
            if procedure == Procedure::Read {
                assert!(data(&answer).unwrap().bytes == content);
            }
        }
    }
}

/// Fragments however the stream is cut into packets.
#[test]
fn fragments_may_be_cut_anywhere_by_the_network() {
    let fixture = Fixture::new(Kind::Ram);
    let (mut client, root) = fixture.client();
    let xids = [next_xid(), next_xid()];
    let mut stream = Vec::new();
    for xid in xids {
        let record = client.record(xid, Procedure::Getattr, &encoded(&handle(&root)));
        stream.extend(in_fragments(&record, &[10, 0, 20]));
    }
    for cut in 1..stream.len() {
        let (first, second) = stream.split_at(cut);
        client.send(first);
        client.send(second);
        for xid in xids {
            assert_eq!(
                status_of(Procedure::Getattr, &client.finish(xid)),
                Status::Ok
            );
        }
    }
}

/// A claim of 2 GiB takes no memory, and a record over the cap that does come is
/// refused while the connection stays.
#[test]
fn a_claim_of_two_gib_takes_no_memory() {
    let server = Process::of_ram();
    let (mut client, _) = server.client();
    client.check_usable();
    let before = server.resident_bytes();
    let mut claims: Vec<Client> = Vec::new();
    for last in [0, LAST_FRAGMENT] {
        for body in [0, 100, 100_000] {
            let mut claim = Client::connect(server.address, User::root());
            let record = claim.record(next_xid(), Procedure::Null, &vec![0; body]);
            claim.send(&(0x7fff_ffff | last).to_be_bytes());
            claim.send(&record);
            claims.push(claim);
        }
    }
    client.check_usable();
    let grown = server.resident_bytes().saturating_sub(before);
    assert!(grown < 4 << 20, "{grown} bytes for claims");
    for fragments in [&[3 << 20][..], &[1 << 20, 1 << 20], &[500_000; 5]] {
        let xid = next_xid();
        let record = client.record(xid, Procedure::Null, &vec![1; 3 << 20]);
        client.send(&in_fragments(&record, fragments));
        let refusal = client.finish(xid).refusal();
        assert_eq!(refusal, Some(Refusal::GarbageArguments));
        client.check_usable();
    }
    let grown = server.resident_bytes().saturating_sub(before);
    assert!(grown < 8 << 20, "{grown} bytes for oversized records");
}

/// Unknown programs, versions and procedures get different refusals, and the
/// connection stays.
#[test]
fn unknown_programs_versions_and_procedures_are_refused() {
    let fixture = Fixture::new(Kind::Ram);
    let (mut client, _) = fixture.client();
    for program in [0, 1, 100_001, 100_002, 100_004, 100_227, 400_122, u32::MAX] {
        let answer = client.call((program, 3, 0), &[]);
        assert_eq!(
            answer.refusal(),
            Some(Refusal::ProgramUnavailable),
            "{program}"
        );
    }
    for (program, low, high, others) in [
        (nfs3::PROGRAM, 3, 3, &[0, 1, 2, 4, u32::MAX][..]),
        (mount3::PROGRAM, 1, 3, &[0, 4, u32::MAX]),
        (portmap::PROGRAM, 2, 2, &[0, 1, 3, 4, u32::MAX]),
    ] {
        for version in others {
            let answer = client.call((program, *version, 0), &[]);
            let mismatch = Refusal::ProgramMismatch { low, high };
            assert_eq!(answer.refusal(), Some(mismatch), "{program} {version}");
        }
    }
    for procedure in [22, 23, 1000, u32::MAX] {
        let answer = client.call((nfs3::PROGRAM, nfs3::VERSION, procedure), &[]);
        assert_eq!(answer.refusal(), Some(Refusal::ProcedureUnavailable));
    }
    client.check_usable();
}

/// Each procedure with its arguments cut at every length is refused, or fails as NFS
/// calls fail; nothing is done, and the connection stays.
#[test]
fn arguments_cut_at_every_length_are_garbage() {
    let fixture = Fixture::new(Kind::Ram);
    let (mut client, root) = fixture.client();
    client.make_file(&root, b"name", b"content");
    let before = client.getattr(&root).unwrap();
    for call in every_call(&root) {
        let whole = call.arguments.len();
        let xids: Vec<u32> = (0..whole)
            .map(|length| client.start_raw(call.procedure, &call.arguments[..length]))
            .collect();
        for (length, xid) in xids.into_iter().enumerate() {
            let refusal = client.finish(xid).refusal();
            let expected = Some(Refusal::GarbageArguments);
            assert_eq!(refusal, expected, "{} {length}", call.procedure.name());
        }
    }
    assert_eq!(client.getattr(&root).unwrap(), before);
}

/// Bytes behind the arguments, which some clients send, change nothing.
#[test]
fn bytes_behind_the_arguments_are_ignored() {
    let statuses = |behind: &[u8]| -> Vec<Status> {
        let fixture = Fixture::new(Kind::Ram);
        let (mut client, root) = fixture.client();
        client.make_file(&root, b"name", b"content");
        let answer = |call: AnyCall| {
            let arguments = [&call.arguments[..], behind].concat();
            status_of(call.procedure, &client.nfs_raw(call.procedure, &arguments))
        };
        every_call(&root).into_iter().map(answer).collect()
    };
    let plain = statuses(&[]);
    assert!(plain.contains(&Status::Ok));
    for behind in [&[0; 4][..], &[0xff; 1], &[1; 3000]] {
        assert_eq!(statuses(behind), plain, "{} bytes", behind.len());
    }
}

/// WRITEs that adjoin, each with bytes behind its arguments, are made as those without.
#[test]
fn adjoining_writes_may_have_bytes_behind_their_arguments() {
    let fixture = Fixture::new(Kind::Ram);
    let (mut client, root) = fixture.client();
    let file = client.make_file(&root, b"file", b"");
    let content: Vec<u8> = (0..40_000u32).map(|number| number as u8).collect();
    let (mut stream, mut xids) = (Vec::new(), Vec::new());
    for (at, piece) in content.chunks(1000).enumerate() {
        let write = nfs3::WriteArguments {
            file: handle(&file),
            offset: at as u64 * 1000,
            count: 1000,
            stable: nfs3::StableHow::Unstable,
            data: piece,
        };
        let xid = next_xid();
        let arguments = [encoded(&write), vec![0; at % 3 * 4]].concat();
        stream.extend(marked(&client.record(xid, Procedure::Write, &arguments)));
        xids.push(xid);
    }
    client.send(&stream);
    for xid in xids {
        let reply = written_by(&client.finish(xid), nfs3::StableHow::Unstable);
        assert_eq!(reply.unwrap().count, 1000);
    }
    assert!(whole(&mut client, &file) == content);
}

/// A WRITE of more than the server takes at once is written as far as it takes, and the client
/// goes on from there; so it is also when the record is longer than any that is kept.
#[test]
fn a_write_longer_than_wtmax_is_short() {
    on_each_kind(|fixture| {
        let (mut client, root) = fixture.client();
        let most = client.fsinfo(&root).unwrap().write_bytes_max as usize;
        let content: Vec<u8> = (0..4 * most as u32 + 3)
            .map(|number| (number / 7) as u8)
            .collect();
        for (case, length) in [most + 1, most + 3000, 2 * most, content.len()]
            .into_iter()
            .enumerate()
        {
            let file = client.make_file(&root, format!("file-{case}").as_bytes(), b"");
            let mut written = 0;
            let mut counts = Vec::new();
            while written < length {
                let data = &content[written..length];
                let write = nfs3::WriteArguments {
                    file: handle(&file),
                    offset: written as u64,
                    count: data.len() as u32,
                    stable: [nfs3::StableHow::Unstable, nfs3::StableHow::FileSync][case % 2],
                    data,
                };
                let xid = next_xid();
                let record = client.record(xid, Procedure::Write, &encoded(&write));
                let cuts = [vec![], vec![40, 100_000], vec![most, most]];
                client.send(&in_fragments(&record, &cuts[case % 3]));
                let reply = written_by(&client.finish(xid), write.stable).unwrap();
                counts.push(reply.count as usize);
                written += reply.count as usize;
            }
            let full = length / most;
            assert_eq!(counts[..full], vec![most; full], "{length}");
            assert!(whole(&mut client, &file) == content[..length], "{length}");
        }
    });
}

/// Each word of the arguments replaced by what has no meaning: the reply is one that
/// can be decoded, whatever it says.
#[test]
fn arguments_with_senseless_words_are_answered_properly() {
    let fixture = Fixture::new(Kind::Ram);
    let (mut client, root) = fixture.client();
    let directory = client.make_directory(&root, b"directory");
    for call in every_call(&directory) {
        for at in (0..call.arguments.len() / 4 * 4).step_by(4) {
            for word in [0, 1, 2, 3, 255, 4097, 0x7fff_ffff, 0x8000_0000, u32::MAX] {
                let mut arguments = call.arguments.clone();
                arguments[at..at + 4].copy_from_slice(&u32::to_be_bytes(word));
                let answer = client.nfs_raw(call.procedure, &arguments);
                match answer.refusal() {
                    Some(refusal) => assert_eq!(refusal, Refusal::GarbageArguments),
                    None => {
                        status_of(call.procedure, &answer);
                    }
                }
            }
        }
    }
    client.check_usable();
}

/// Where the parts of a call's head are.
const RPC_VERSION_AT: usize = 8;
const FLAVOR_AT: usize = 24;

/// Another version of RPC, and credentials that cannot be read, are denied; the
/// connection stays.
#[test]
fn wrong_rpc_versions_and_credentials_are_denied() {
    let fixture = Fixture::new(Kind::Ram);
    let (mut client, _) = fixture.client();
    let record = |xid| {
        let target = (nfs3::PROGRAM, nfs3::VERSION, 0);
        call_record(xid, target, &User::System(1, 1, vec![1, 2]), &[])
    };
    let mut denied = |at: usize, bytes: &[u8]| {
        let xid = next_xid();
        let mut record = record(xid);
        record[at..at + bytes.len()].copy_from_slice(bytes);
        client.send(&marked(&record));
        let refusal = client.finish(xid).refusal();
        client.check_usable();
        refusal
    };
    for version in [0u32, 1, 3, u32::MAX] {
        let refusal = denied(RPC_VERSION_AT, &version.to_be_bytes());
        assert_eq!(refusal, Some(Refusal::RpcMismatch { low: 2, high: 2 }));
    }
    for flavor in [2u32, 3, 6, 7, 390_003, u32::MAX] {
        let refusal = denied(FLAVOR_AT, &flavor.to_be_bytes());
        let expected = Refusal::Authentication(AuthenticationStatus::TooWeak);
        assert_eq!(refusal, Some(expected), "{flavor}");
    }
    let bad = Some(Refusal::Authentication(AuthenticationStatus::BadCredential));
    let machine_name_length_at = FLAVOR_AT + 12;
    for length in [256u32, 400, u32::MAX] {
        let refusal = denied(machine_name_length_at, &length.to_be_bytes());
        assert_eq!(refusal, bad);
    }
    let groups_at = FLAVOR_AT + 28;
    for groups in [3u32, 17, u32::MAX] {
        assert_eq!(denied(groups_at, &groups.to_be_bytes()), bad, "{groups}");
    }
    let garbage = denied(FLAVOR_AT + 4, &u32::MAX.to_be_bytes());
    assert!(garbage == bad || garbage == Some(Refusal::GarbageArguments));
}

/// What is no call at all is not answered, and the next call is.
#[test]
fn records_that_are_no_calls_are_ignored() {
    let fixture = Fixture::new(Kind::Ram);
    let (mut client, _) = fixture.client();
    for length in 0..8 {
        client.send(&marked(&vec![0; length]));
    }
    let reply = [7u32.to_be_bytes(), 1u32.to_be_bytes(), [0; 4], [0; 4]].concat();
    client.send(&marked(&reply));
    client.send(&marked(&[0xff; 5000]));
    client.check_usable();
    for length in 8..40 {
        let xid = next_xid();
        let record = client.record(xid, Procedure::Null, &[]);
        client.send(&marked(&record[..length]));
        let refusal = client.finish(xid).refusal();
        assert_eq!(refusal, Some(Refusal::GarbageArguments), "{length}");
    }
    assert!(!client.has_answer());
}

/// Thousands of empty fragments end the connection, and only that one.
#[test]
fn an_endless_row_of_empty_fragments_ends_the_connection() {
    let fixture = Fixture::new(Kind::Ram);
    let (mut client, _) = fixture.client();
    let (mut other, _) = fixture.client();
    client.try_send(&0u32.to_be_bytes().repeat(10_000));
    assert!(client.try_next_answer().is_none());
    other.check_usable();
}

/// Replies of calls sent together come back each to its call.
#[test]
fn calls_sent_together_are_all_answered() {
    let fixture = Fixture::new(Kind::Ram);
    let (mut client, root) = fixture.client();
    let mut stream = Vec::new();
    let mut xids = Vec::new();
    for number in 0..300 {
        let name = format!("file-{number}");
        let what = entry(&root, name.as_bytes());
        let how = CreateHow::Guarded(mode(0o600));
        let create = encoded(&nfs3::CreateArguments { what, how });
        for (procedure, arguments) in [
            (Procedure::Create, create),
            (Procedure::Getattr, encoded(&handle(&root))),
            (Procedure::Fsinfo, encoded(&handle(&root))),
        ] {
            let xid = next_xid();
            xids.push((procedure, xid));
            stream.extend(marked(&client.record(xid, procedure, &arguments)));
        }
    }
    client.send(&stream);
    for (procedure, xid) in xids {
        assert_eq!(status_of(procedure, &client.finish(xid)), Status::Ok);
    }
    assert_eq!(client.list(&root).len(), 302);
}
