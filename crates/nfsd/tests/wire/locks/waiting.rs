//! Locks that are waited for.

use pagewell_sunrpc::nlm4::{self, Procedure, Reply, Status, TestArguments};
use pagewell_sunrpc::xdr::{Decode, Decoder};

use super::Served;
use super::peer::Peer;
use super::program::{Program, READ, WRITE};

#[test]
fn a_client_that_cannot_be_called_gets_its_lock_when_it_asks_again() {
    let served = Served::new(|_| {});
    let mut programs: Vec<Program> = (1..=4).map(|n| served.program("anna", n)).collect();
    assert_eq!(programs[0].lock(WRITE, (0, 10)), Status::Granted);
    for program in &mut programs[1..] {
        assert_eq!(program.lock_or_wait(WRITE, (0, 10)), Status::Blocked);
        assert_eq!(program.lock_or_wait(WRITE, (0, 10)), Status::Blocked);
    }
    for turn in 0..3 {
        assert_eq!(programs[turn].unlock((0, 10)), Status::Granted);
        // In the order of asking first, whatever the order of asking again.
        for later in (turn + 2..4).rev() {
            assert_eq!(
                programs[later].lock_or_wait(WRITE, (0, 10)),
                Status::Blocked
            );
        }
        let mut stranger = served.program("bert", 1);
        assert_eq!(stranger.lock(WRITE, (0, 10)), Status::Denied, "it is taken");
        assert_eq!(
            programs[turn + 1].lock_or_wait(WRITE, (0, 10)),
            Status::Granted
        );
    }
}

#[test]
fn a_client_is_called_when_its_turn_has_come() {
    let peer = Peer::new(Status::Granted);
    let served = Served::new(|config| config.locks.port_mapper = peer.port);
    let [mut one, mut two] = [served.program("anna", 1), served.program("bert", 2)];
    assert_eq!(one.lock(WRITE, (0, 0)), Status::Granted);
    assert_eq!(two.lock_or_wait(READ, (3, 4)), Status::Blocked);
    assert_eq!(one.unlock((0, 0)), Status::Granted);
    let (program, procedure, body) = peer.next();
    assert_eq!(
        (program, procedure),
        (nlm4::PROGRAM, Procedure::Granted.number())
    );
    let given = TestArguments::decode(&mut Decoder::new(&body)).unwrap();
    assert!(!given.exclusive);
    assert_eq!((given.lock.handle, given.lock.process), (&two.file[..], 2));
    assert_eq!((given.lock.offset, given.lock.length), (3, 4));
    assert_eq!(
        (given.lock.caller_name, given.lock.owner),
        (&b"bert"[..], &b"2@bert"[..])
    );
    assert_eq!(one.test(WRITE, (0, 0)), Err((2, false, 3, 4)));
}

#[test]
fn waiting_is_cancelled_and_never_goes_in_a_circle() {
    let served = Served::new(|_| {});
    let [mut one, mut two, mut three] = [1, 2, 3].map(|n| served.program("anna", n));
    assert_eq!(one.lock(WRITE, (0, 1)), Status::Granted);
    assert_eq!(two.lock(WRITE, (1, 1)), Status::Granted);
    assert_eq!(one.lock_or_wait(WRITE, (1, 1)), Status::Blocked);
    assert_eq!(two.lock_or_wait(WRITE, (0, 1)), Status::Deadlock);
    assert_eq!(one.cancel(WRITE, (1, 1)), Status::Granted);
    assert_eq!(one.cancel(WRITE, (1, 1)), Status::Denied);
    assert_eq!(two.lock_or_wait(WRITE, (0, 1)), Status::Blocked);
    assert_eq!(three.lock_or_wait(WRITE, (0, 1)), Status::Blocked);
    // What is waited for can be cancelled also when it has come.
    assert_eq!(one.unlock((0, 1)), Status::Granted);
    assert_eq!(two.cancel(WRITE, (0, 1)), Status::Granted);
    assert_eq!(three.lock_or_wait(WRITE, (0, 1)), Status::Granted);
}

#[test]
fn one_way_calls_are_answered_by_one_way_calls() {
    let peer = Peer::new(Status::Granted);
    let served = Served::new(|config| config.locks.port_mapper = peer.port);
    let [mut one, mut two] = [served.program("anna", 1), served.program("bert", 1)];
    let send = |program: &mut Program| {
        let arguments = program.lock_arguments(WRITE, (0, 5), (false, false));
        let procedure = Procedure::LockMessage.number();
        let target = (nlm4::PROGRAM, nlm4::VERSION, procedure);
        program.client.call(target, &arguments).decode::<()>();
        let (program, procedure, body) = peer.next();
        assert_eq!(
            (program, procedure),
            (nlm4::PROGRAM, Procedure::LockResult.number())
        );
        let reply = Reply::decode(&mut Decoder::new(&body)).unwrap();
        assert_eq!(reply.cookie, b"cookie");
        reply.status
    };
    assert_eq!(send(&mut one), Status::Granted);
    assert_eq!(send(&mut two), Status::Denied);
}
