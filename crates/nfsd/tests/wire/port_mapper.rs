//! The port mapper of the server itself, for clients that ask it at the port of NFS.

use pagewell_sunrpc::nfs3;
use pagewell_sunrpc::portmap::{self, DumpReply, Mapping, PROTOCOL_TCP, PROTOCOL_UDP, Procedure};
use pagewell_sunrpc::rpc::Refusal;

use crate::client::{Answer, Client, encoded};
use crate::fixture::{Fixture, Kind};

fn call(client: &mut Client, procedure: Procedure, arguments: &[u8]) -> Answer {
    let target = (portmap::PROGRAM, portmap::VERSION, procedure.number());
    client.call(target, arguments)
}

fn mapping(program: u32, version: u32, protocol: u32) -> Mapping {
    Mapping {
        program,
        version,
        protocol,
        port: 0,
    }
}

#[test]
fn what_is_served_has_the_port_that_was_asked_and_other_programs_have_none() {
    let fixture = Fixture::new(Kind::Ram);
    let (mut client, _) = fixture.client();
    let port = u32::from(fixture.address().port());
    call(&mut client, Procedure::Null, &[]).decode::<()>();
    for (program, version, protocol, expected) in [
        (nfs3::PROGRAM, 3, PROTOCOL_TCP, port),
        (100_005, 3, PROTOCOL_TCP, port),
        (100_005, 1, PROTOCOL_TCP, port),
        (100_021, 4, PROTOCOL_TCP, port),
        (100_024, 1, PROTOCOL_TCP, port),
        (portmap::PROGRAM, 2, PROTOCOL_TCP, port),
        // The program itself says which versions it has.
        (nfs3::PROGRAM, 4, PROTOCOL_TCP, port),
        (nfs3::PROGRAM, 3, PROTOCOL_UDP, 0),
        (100_011, 2, PROTOCOL_TCP, 0),
        (100_227, 3, PROTOCOL_TCP, 0),
        (0, 0, PROTOCOL_TCP, 0),
    ] {
        let wanted = mapping(program, version, protocol);
        let answer = call(&mut client, Procedure::Getport, &encoded(&wanted));
        assert_eq!(answer.decode::<u32>(), expected, "{wanted:?}");
    }
}

#[test]
fn the_list_has_each_version_that_answers_and_no_other() {
    let fixture = Fixture::new(Kind::Ram);
    let (mut client, _) = fixture.client();
    let port = u32::from(fixture.address().port());
    // Some clients send arguments, which DUMP has not.
    let answer = call(&mut client, Procedure::Dump, &[0, 0, 0, 2, 0, 0, 0, 4]);
    let list: DumpReply<'_> = answer.decode();
    let mut listed: Vec<Mapping> = list.iter().collect();
    assert!(listed.iter().all(|entry| entry.port == port));
    listed.iter_mut().for_each(|entry| entry.port = 0);
    for program in 100_000..100_030 {
        for version in 0..6 {
            let entry = mapping(program, version, PROTOCOL_TCP);
            let refusal = client.call((program, version, 0), &[]).refusal();
            assert_eq!(refusal.is_none(), listed.contains(&entry), "{entry:?}");
        }
    }
}

#[test]
fn nothing_can_be_entered_or_removed_and_no_call_is_passed_on() {
    let fixture = Fixture::new(Kind::Ram);
    let (mut client, _) = fixture.client();
    let entry = encoded(&Mapping {
        port: 1234,
        ..mapping(nfs3::PROGRAM, nfs3::VERSION, PROTOCOL_TCP)
    });
    let list = |client: &mut Client| call(client, Procedure::Dump, &[]).refusal();
    for procedure in [Procedure::Set, Procedure::Unset] {
        let answer = call(&mut client, procedure, &entry);
        assert!(!answer.decode::<bool>(), "{procedure:?}");
        assert_eq!(list(&mut client), None);
    }
    let forwarded = client.call((portmap::PROGRAM, portmap::VERSION, 5), &entry);
    assert_eq!(forwarded.refusal(), Some(Refusal::ProcedureUnavailable));
    let cut = call(&mut client, Procedure::Getport, &entry[..12]);
    assert_eq!(cut.refusal(), Some(Refusal::GarbageArguments));
    client.check_usable();
}
