//! Clients that ask much at a time, on many connections.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use pagewell_sunrpc::nfs3::Procedure;

use crate::{Neighbour, alone};
use pagewell_wire::client::{Client, User, encoded, marked, next_xid};
use pagewell_wire::operations::handle;
use pagewell_wire::process::Process;

const CONNECTIONS: usize = 240;
const CALLS: usize = 600;
const ATTACK: Duration = Duration::from_secs(4);

/// Sends all calls and takes all replies, again and again: what a reader is never done with.
fn ask_all_the_time(streams: &mut [TcpStream], calls: &[u8]) {
    let mut replies = vec![0; 256 << 10];
    let mut left = vec![0; streams.len()];
    let end = Instant::now() + ATTACK;
    while Instant::now() < end {
        for (stream, left) in streams.iter_mut().zip(&mut left) {
            if *left == 0 {
                *left = calls.len();
            }
            // What does not fit now is sent in the next round.
            let begin = calls.len() - *left;
            *left -= stream.write(&calls[begin..]).unwrap_or(0);
            while stream.read(&mut replies).is_ok_and(|count| count > 0) {}
        }
    }
}

/// One address asks on 240 connections as much as it can; another asks one thing at a time.
#[test]
fn addresses_take_turns_however_many_connections_they_have() {
    alone(|| {
        let server = Process::of_ram();
        let (_, root) = server.client();
        let neighbour = Neighbour::new(server.address);
        let clients: Vec<Client> = (0..CONNECTIONS)
            .map(|_| Client::connect_from([127, 0, 1, 1], server.address, User::root()))
            .collect();
        let arguments = encoded(&handle(&root));
        let calls: Vec<u8> = (0..CALLS)
            .flat_map(|_| marked(&clients[0].record(next_xid(), Procedure::Getattr, &arguments)))
            .collect();
        let mut streams: Vec<TcpStream> = clients.iter().map(Client::sender).collect();
        for stream in &streams {
            stream.set_nonblocking(true).unwrap();
        }
        ask_all_the_time(&mut streams, &calls);
        let most = server.resident_bytes();
        neighbour.report("calls on 240 connections", server.watched(), most)
    });
}
