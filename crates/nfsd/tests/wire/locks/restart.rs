//! Restarts of clients, and of the server.

use std::net::SocketAddr;
use std::time::Duration;

use pagewell_nfsd::{Config, Error, Server};
use pagewell_sunrpc::nlm4::{Procedure, ShareAccess, ShareMode, Status};
use pagewell_sunrpc::nsm::{self, NotifyArguments};
use pagewell_sunrpc::xdr::{Decode, Decoder};

use super::peer::Peer;
use super::program::{READ, STATE, WRITE, notify};
use super::{ELSEWHERE, HERE, Served};
use crate::fixture::{HANDLE_KEY, export, ram};

#[test]
fn a_client_that_restarts_lets_go_of_its_locks() {
    let served = Served::new(|_| {});
    let [mut one, mut two] = [served.program("anna", 1), served.program("bert", 1)];
    assert_eq!(one.lock(WRITE, (0, 1)), Status::Granted);
    assert_eq!(two.lock(WRITE, (1, 1)), Status::Granted);
    notify(served.address, ELSEWHERE, "anna", STATE + 2);
    notify(served.address, HERE, "carl", STATE + 2);
    // The notice of the start that was before the locks comes late.
    notify(served.address, HERE, "bert", STATE);
    assert_eq!(two.test(WRITE, (0, 1)), Err((1, true, 0, 1)));
    assert_eq!(one.test(WRITE, (1, 1)), Err((1, true, 1, 1)));
    notify(served.address, HERE, "anna.example.org", STATE + 2);
    assert_eq!(two.lock(WRITE, (0, 1)), Status::Granted);
    assert_eq!(one.lock(WRITE, (1, 1)), Status::Denied, "bert is alive");
}

#[test]
fn the_only_client_of_an_address_needs_no_name() {
    let served = Served::new(|_| {});
    let [mut one, mut two] = [served.program("anna", 1), served.program("bert", 1)];
    assert_eq!(one.lock(WRITE, (0, 0)), Status::Granted);
    notify(served.address, HERE, "127.0.0.1", STATE + 2);
    assert_eq!(two.lock(WRITE, (0, 0)), Status::Granted);
    // Sent again, as notices are until they are answered: the locks of the new life stay.
    assert_eq!(one.lock(WRITE, (0, 0)), Status::Denied);
}

#[test]
fn a_client_that_restarts_lets_go_of_its_shares_also_without_locks() {
    let served = Served::new(|_| {});
    let [mut one, mut two] = [served.program("anna", 1), served.program("bert", 1)];
    let (share, none) = (Procedure::Share, ShareMode::DenyNone);
    let granted = one.share(share, ShareMode::DenyWrite, ShareAccess::Read);
    assert_eq!(granted, Status::Granted);
    assert_eq!(two.share(share, none, ShareAccess::Write), Status::Denied);
    notify(served.address, HERE, "anna", STATE + 2);
    assert_eq!(two.share(share, none, ShareAccess::Write), Status::Granted);
}

#[test]
fn after_a_restart_of_the_server_locks_are_taken_back_and_clients_notified() {
    let folder = tempfile::tempdir().unwrap();
    let peer = Peer::new(Status::Granted);
    let records = folder.path().join("locks");
    let grace = |config: &mut Config, seconds| {
        config.locks.records = Some(records.clone());
        config.locks.port_mapper = peer.port;
        config.locks.grace = Duration::from_secs(seconds);
    };
    // An address of its own, so that no other server takes the port meanwhile.
    let mut served = Served::new(|config| {
        config.listen = SocketAddr::from(([127, 9, 8, 6], 0));
        grace(config, 600);
    });
    let [mut one, mut two] = [served.program("anna", 1), served.program("bert", 1)];
    assert_eq!(
        one.lock(WRITE, (0, 10)),
        Status::Granted,
        "no grace at first"
    );
    assert_eq!(one.reclaim(WRITE, (0, 10)), Status::GracePeriod);

    served.restart(|config| grace(config, 600));
    let mut notices = Vec::new();
    for _ in 0..2 {
        let (program, procedure, body) = peer.next();
        let notify = nsm::Procedure::Notify.number();
        assert_eq!((program, procedure), (nsm::PROGRAM, notify));
        let notice = NotifyArguments::decode(&mut Decoder::new(&body)).unwrap();
        assert_eq!(notice.state % 2, 1);
        notices.push((notice.name.to_vec(), notice.state));
    }
    assert_eq!(notices[0].0, b"127.9.8.6", "as the client knows it");
    one = served.program("anna", 1);
    two.client = served.program("bert", 1).client;
    assert_eq!(two.lock(READ, (20, 1)), Status::GracePeriod);
    assert_eq!(two.test(READ, (20, 1)), Ok(Status::GracePeriod));
    assert_eq!(one.reclaim(WRITE, (0, 10)), Status::Granted);
    assert_eq!(two.reclaim(WRITE, (5, 1)), Status::Denied);

    // Another server that is started there by mistake does not touch the list.
    let listed = std::fs::read(&records).unwrap();
    let mut mistaken = Config::new(vec![export("/", ram())], HANDLE_KEY);
    mistaken.listen = served.address;
    grace(&mut mistaken, 600);
    let refused = Server::start(mistaken).err();
    assert!(matches!(refused, Some(Error::Listen { .. })), "{refused:?}");
    assert_eq!(std::fs::read(&records).unwrap(), listed);

    // Again, with a grace that ends at once.
    served.restart(|config| grace(config, 0));
    let (_, _, body) = peer.next();
    let notice = NotifyArguments::decode(&mut Decoder::new(&body)).unwrap();
    assert_eq!(notice.state, notices[0].1 + 2);
    two.client = served.program("bert", 1).client;
    assert_eq!(two.lock(WRITE, (0, 0)), Status::Granted);
    one.client = served.program("anna", 1).client;
    assert_eq!(one.reclaim(WRITE, (0, 10)), Status::GracePeriod, "too late");
}
