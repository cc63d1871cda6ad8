//! Clients that announce much and send little.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use pagewell_sunrpc::nfs3::{Procedure, StableHow, WriteArguments};

use crate::{Neighbour, Slow, alone, watch_memory};
use pagewell_wire::client::{Client, User, encoded, marked, next_xid};
use pagewell_wire::fixture::{connect, export, ram, serve_with};
use pagewell_wire::layer::{Layer, Stalls};
use pagewell_wire::operations::{handle, written};
use pagewell_wire::process::{Process, Watched};

const MIB: usize = 1 << 20;

/// The time that a record has to be whole when others wait for its memory, the second that may
/// pass before this is looked at, and another for a busy machine.
const WHOLE_SOON: Duration = Duration::from_secs(7);

/// The stream of a WRITE of 1 MiB.
fn write_of_a_megabyte(client: &Client, file: &[u8], xid: u32) -> Vec<u8> {
    let data = vec![7; MIB];
    let arguments = encoded(&WriteArguments {
        file: handle(file),
        offset: 0,
        count: MIB as u32,
        stable: StableHow::Unstable,
        data: &data,
    });
    marked(&client.record(xid, Procedure::Write, &arguments))
}

/// Two hundred connections announce a record of 1 MiB each and go on with 340 bytes at a time:
/// they hold what they have sent and no more, and large WRITEs of others are not held up.
#[test]
fn records_that_never_come_hold_no_memory() {
    alone(|| {
        let server = Process::of_ram();
        let (mut client, root) = server.client();
        let file = client.make_file(&root, b"file", b"");
        let neighbour = Neighbour::new(server.address);
        let before = server.resident_bytes();
        let mut slow: Vec<(Client, Vec<u8>)> = (0..200)
            .map(|number| {
                let from = [127, 0, 1, 1 + (number % 2) as u8];
                let mut client = Client::connect_from(from, server.address, User::root());
                let record = write_of_a_megabyte(&client, &file, next_xid());
                client.send(&record[..3000]);
                (client, record[3000..].to_vec())
            })
            .collect();
        let mut most = 0;
        for _ in 0..10 {
            for (client, rest) in &mut slow {
                client.send(&rest[..340]);
                rest.drain(..340);
            }
            // Not one call: as many as a client in earnest has under way.
            let calls: Vec<u32> = (0..8)
                .map(|_| {
                    let xid = next_xid();
                    let record = write_of_a_megabyte(&client, &file, xid);
                    client.send(&record);
                    xid
                })
                .collect();
            for xid in calls {
                let answer = client.finish(xid);
                assert_eq!(
                    written(&answer, StableHow::Unstable).unwrap().count,
                    MIB as u32
                );
            }
            most = most.max(watch_memory(server.watched(), Duration::from_millis(100)));
        }
        neighbour.report("records that never come", server.watched(), most)?;
        // The file itself has a megabyte, written anew while readers may hold the old one.
        let grown = most.saturating_sub(before);
        assert!(grown < 64 << 20, "{grown} bytes");
        Ok(())
    });
}

/// Sends the first 512 KiB of a record of 1 MiB, then a byte now and then, until the server closes.
fn hold_incomplete(from: [u8; 4], address: SocketAddr, file: &[u8], stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        let mut client = Client::connect_from(from, address, User::root());
        let record = write_of_a_megabyte(&client, file, next_xid());
        let mut sent = client.try_send(&record[..MIB / 2]);
        let mut rest = record[MIB / 2..].chunks(1);
        while sent && !stop.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(50));
            sent = rest.next().is_some_and(|byte| client.try_send(byte));
        }
    }
}

/// Sixty clients of thirty addresses send 512 KiB each and then stop. They have all the
/// memory there is, but others wait for it, so they lose it within seconds; calls that need none do
/// not wait.
#[test]
fn records_that_others_wait_for_must_be_whole_soon() {
    alone(|| {
        let server = Process::of_ram();
        let (mut client, root) = server.client();
        let file = client.make_file(&root, b"file", b"");
        let stop = AtomicBool::new(false);
        let mut longest = Duration::ZERO;
        let mut most = 0;
        let neighbour = Neighbour::that_looks_up(server.address);
        std::thread::scope(|scope| {
            for number in 0..60u8 {
                let (stop, file, address) = (&stop, &file, server.address);
                scope.spawn(move || {
                    hold_incomplete([127, 0, 1, 1 + number % 30], address, file, stop)
                });
            }
            std::thread::sleep(Duration::from_secs(2));
            let until = Instant::now() + Duration::from_secs(10);
            while Instant::now() < until {
                let began = Instant::now();
                let xid = next_xid();
                let record = write_of_a_megabyte(&client, &file, xid);
                client.send(&record);
                written(&client.finish(xid), StableHow::Unstable).unwrap();
                longest = longest.max(began.elapsed());
                most = most.max(server.resident_bytes());
            }
            stop.store(true, Ordering::Relaxed);
        });
        println!("halves of records from thirty addresses: a WRITE waited {longest:?} at most");
        neighbour.report("halves of records", server.watched(), most)?;
        if longest > WHOLE_SOON {
            return Err(Slow(format!("a WRITE waited {longest:?}")));
        }
        Ok(())
    });
}

/// WRITEs that a hung export holds leave room for those of another one, on connections of their
/// own at once, and on the same connection as soon as the storage is known to be slow.
#[test]
fn a_hung_export_does_not_stop_the_writes_of_others() {
    alone(|| {
        let (layer, stalls) = Layer::new(ram(), Stalls::at(&["write"]));
        let exports = vec![export("/", layer), export("/good", ram())];
        let server = serve_with(exports, |config| {
            config.slow_after = Duration::from_millis(500);
        });
        let (mut hung, root) = connect(&server);
        let file = hung.make_file(&root, b"file", b"");
        let (mut other, _) = connect(&server);
        let good = other.mount(b"/good").unwrap();
        let good = other.make_file(&good, b"file", b"");
        let data = vec![7; MIB];
        let neighbour = Neighbour::at(server.address(), b"/good");
        let xids: Vec<u32> = (0..40).map(|_| next_xid()).collect();
        let records: Vec<Vec<u8>> = xids
            .iter()
            .map(|xid| write_of_a_megabyte(&hung, &file, *xid))
            .collect();
        let last = next_xid();
        let behind = write_of_a_megabyte(&hung, &good, last);
        let mut sender = hung.sender();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                for record in records.iter().chain([&behind]) {
                    std::io::Write::write_all(&mut sender, record).unwrap();
                }
            });
            stalls.gate.wait_for(8);
            for _ in 0..20 {
                let written = other.write(&good, 0, &data, StableHow::Unstable);
                assert_eq!(written.unwrap().count as usize, MIB);
            }
            let process = Watched::myself();
            let served = neighbour.report("a hung export", process, process.resident_bytes());
            let answer = hung.finish(last);
            written(&answer, StableHow::Unstable).expect("not held up by those before it");
            stalls.gate.open();
            let mut put_off = 0;
            for xid in xids {
                put_off += usize::from(written(&hung.finish(xid), StableHow::Unstable).is_err());
            }
            assert!(
                (10..40).contains(&put_off),
                "{put_off} of 40 to be asked for again"
            );
            served
        })
    });
}
