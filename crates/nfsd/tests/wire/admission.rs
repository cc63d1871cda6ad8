//! Who may come in: addresses, places for connections, descriptors. Clients differ by their
//! addresses of loopback.

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use pagewell_nfsd::refusals;
use pagewell_nfsd::{Export, Server};
use pagewell_sunrpc::mount3::Status;
use pagewell_sunrpc::nfs3::{Procedure, StableHow, WriteArguments};

use crate::client::{Client, User, marked, next_xid};
use crate::fixture::{connect, export, ram, serve, serve_with};
use crate::layer::{Layer, Stalls};
use crate::operations::{handle, written};
use crate::process::Process;

/// An export for these networks only.
fn export_for(name: &str, networks: &[&str]) -> Export {
    let mut export = export(name, ram());
    export.allow = networks.iter().map(|text| text.parse().unwrap()).collect();
    export
}

/// A client from `from` if the server lets it in.
fn let_in(from: [u8; 4], address: SocketAddr) -> Option<Client> {
    let mut client = Client::connect_from(from, address, User::root());
    let record = client.record(next_xid(), Procedure::Null, &[]);
    (client.try_send(&marked(&record)) && client.try_next_answer().is_some()).then_some(client)
}

fn server_of(places: usize) -> Server {
    let exports = vec![export_for("/", &["127.0.0.0/8"])];
    serve_with(exports, |config| config.connections_max = places)
}

/// Addresses that no export allows are closed before they take a place, and are counted.
#[test]
fn strangers_take_no_place() {
    let exports = vec![export_for("/", &["127.0.0.1"])];
    let server = serve_with(exports, |config| config.connections_max = 5);
    let stranger = [127, 77, 0, 2];
    let outside: Vec<Client> = (0..20)
        .map(|_| Client::connect_from(stranger, server.address(), User::root()))
        .collect();
    let (mut client, root) = connect(&server);
    for mut stranger in outside {
        assert!(stranger.try_next_answer().is_none(), "a stranger is closed");
        client.lookup(&root, b".").unwrap();
    }
    let refused = refusals::by_address();
    let counts = refused
        .iter()
        .find(|counts| counts.address == IpAddr::from(stranger));
    assert_eq!(counts.unwrap().not_allowed, 20);
}

/// Clients do not see what they may not use.
#[test]
fn exports_and_mounts_are_shown_to_those_that_may_use_them() {
    let for_all = export_for("/all", &["127.0.0.0/8"]);
    let for_one = export_for("/one", &["127.0.0.1"]);
    let server = serve(vec![for_all, for_one]);
    let mut one = Client::connect(server.address(), User::root());
    let mut other = Client::connect_from([127, 78, 0, 2], server.address(), User::root());
    one.mount(b"/all").unwrap();
    one.mount(b"/one").unwrap();
    assert_eq!(other.mount(b"/one").unwrap_err(), Status::AccessDenied);
    let names = |client: &mut Client| -> Vec<Vec<u8>> {
        let exports = client.exports().into_iter();
        exports.map(|(path, _)| path).collect()
    };
    assert_eq!(names(&mut one), [b"/all".to_vec(), b"/one".to_vec()]);
    assert_eq!(names(&mut other), [b"/all".to_vec()]);
    assert_eq!(one.mounted().len(), 2);
    let mounted = other.mounted();
    assert_eq!(mounted, [(b"127.0.0.1".to_vec(), b"/all".to_vec())]);
}

/// However many connections one address makes, another one gets in.
#[test]
fn an_address_leaves_places_for_others() {
    let server = server_of(20);
    let greedy: Vec<Option<Client>> = (0..30)
        .map(|_| let_in([127, 0, 0, 2], server.address()))
        .collect();
    let inside = greedy.iter().flatten().count();
    assert!((10..20).contains(&inside), "{inside} of 20");
    let mut others: Vec<Client> = (3..6)
        .map(|last| let_in([127, 0, 0, last], server.address()).expect("a place"))
        .collect();
    others.iter_mut().for_each(Client::check_usable);
    for client in greedy.into_iter().flatten() {
        let mut client = client;
        client.check_usable();
    }
}

/// When its address has no place left, a newcomer gets that of the connection that has been idle
/// for longest. One with a call under way stays, however long that takes.
#[test]
fn the_longest_idle_connection_leaves_for_a_newcomer() {
    let (layer, stalls) = Layer::new(ram(), Stalls::at(&["write"]));
    let server = serve_with(vec![export("/", layer)], |config| {
        config.connections_max = 5
    });
    let (mut waits, root) = connect(&server);
    let file = waits.make_file(&root, b"file", b"");
    let write = waits.start(
        Procedure::Write,
        &WriteArguments {
            file: handle(&file),
            offset: 0,
            count: 20_000,
            stable: StableHow::Unstable,
            data: &[7; 20_000],
        },
    );
    stalls.gate.wait_for(1);
    let mut idle = connect(&server).0;
    let mut busy = [connect(&server).0, connect(&server).0];
    assert!(let_in([127, 0, 0, 1], server.address()).is_none(), "full");
    let deadline = Instant::now() + Duration::from_secs(60);
    let mut newcomer = loop {
        busy.iter_mut().for_each(Client::check_usable);
        if let Some(newcomer) = let_in([127, 0, 0, 1], server.address()) {
            break newcomer;
        }
        assert!(Instant::now() < deadline, "nobody leaves");
        std::thread::sleep(Duration::from_millis(100));
    };
    newcomer.check_usable();
    assert!(idle.try_next_answer().is_none(), "it was asked to leave");
    busy.iter_mut().for_each(Client::check_usable);
    stalls.gate.open();
    written(&waits.finish(write), StableHow::Unstable).unwrap();
}

/// With few descriptors there are fewer connections, and admitted clients do not wait for others.
#[test]
fn connections_keep_within_the_descriptors() {
    let server = Process::of_few_descriptors(64);
    let (mut client, root) = server.client();
    let crowd: Vec<Client> = (0..200)
        .map(|_| Client::connect_from([127, 0, 0, 2], server.address, User::root()))
        .collect();
    for _ in 0..100 {
        client.lookup(&root, b".").unwrap();
    }
    let open = server.descriptors();
    assert!(open < 40, "{open} descriptors of 64");
    let mut other = let_in([127, 0, 0, 3], server.address).expect("a place is left");
    other.check_usable();
    drop(crowd);
    client.check_usable();
}

/// The system asks a client that says nothing whether it is there, long before the two hours after
/// which it would by default.
#[test]
fn clients_that_say_nothing_are_asked_whether_they_are_there() {
    let server = serve(vec![export("/", ram())]);
    let (_client, _) = connect(&server);
    // proc_pid_net(5): local address, state (01: established), and of the timer what it is for
    // (02: keepalive, if nothing is on its way) and when, in hundredths of a second.
    let local = format!("0100007F:{:04X}", server.address().port());
    let timer = || {
        let table = std::fs::read_to_string("/proc/self/net/tcp").unwrap();
        let lines = table.lines().map(|line| line.split_whitespace());
        let mut fields = lines.map(Iterator::collect::<Vec<_>>);
        let found = fields.find(|fields| fields[1] == local && fields[3] == "01");
        found.expect("a connection")[5].to_owned()
    };
    let deadline = Instant::now() + Duration::from_secs(60);
    while !timer().starts_with("02:") && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(20));
    }
    let timer = timer();
    let at = timer.strip_prefix("02:").expect("a timer of keepalive");
    let seconds = u32::from_str_radix(at, 16).unwrap() / 100;
    assert!((1..=300).contains(&seconds), "{seconds} seconds");
}
