//! NLM and NSM over UDP: lock managers of the BSDs use it, and notices of restarts come by it.
//!
//! One thread receives and answers what need not wait; what may wait goes to a few others for each
//! export, and an export with many that wait leaves room for those of others. Calls of addresses
//! that no export allows are not answered at all, and neither are other programs: a sender with a
//! false address learns nothing and reaches no machine.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use pagewell_base::sync::Mutex;
use pagewell_counters::names;

use crate::dispatch::Dispatcher;
use crate::pool::{Flow, Pool};
use crate::service::locks::answer_datagram;
use crate::share::{Address, Shares};

/// The longest call: names and handles of the longest kind, with room to spare.
const CALL_BYTES_MAX: usize = 8192;
/// Threads for calls that wait, of each export.
const THREADS_MAX: usize = 4;
/// Calls that wait, of all exports; more are dropped, and asked again.
const WAITING_MAX: usize = 256;
/// How often the thread looks whether the server stops.
const TICK: Duration = Duration::from_millis(500);

struct Datagram {
    record: Vec<u8>,
    from: SocketAddr,
    /// The number of the export that it waits for.
    export: u32,
}

/// Answers until the server stops.
pub fn serve(dispatcher: &Arc<Dispatcher>, socket: UdpSocket) {
    let local = socket.local_addr().map(|address| address.ip());
    let local = local.ok().filter(|address| !address.is_unspecified());
    let socket = Arc::new(socket);
    let waiting = Arc::new(Mutex::new(Shares::new(WAITING_MAX)));
    let (answers, begun, service) = (socket.clone(), waiting.clone(), dispatcher.clone());
    let pool = Pool::new(THREADS_MAX, move |datagram: Datagram| {
        begun.lock().subtract(datagram.export, 1);
        let _ = answer(&service, &answers, &datagram, local, true);
    });
    let _ = socket.set_read_timeout(Some(TICK));
    let mut buffer = vec![0; CALL_BYTES_MAX];
    while !dispatcher.is_stopping() {
        let (length, from) = match socket.recv_from(&mut buffer) {
            Ok(received) => received,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                continue;
            }
            // Mostly that an earlier answer could not be delivered.
            Err(_) => {
                std::thread::sleep(Duration::from_millis(1));
                continue;
            }
        };
        // What fills the buffer may have been longer.
        if length == buffer.len() || !dispatcher.service.served.allows(from.ip()) {
            names::LOCK_DATAGRAMS_DROPPED.add(1);
            continue;
        }
        let mut datagram = Datagram {
            record: buffer.get(..length).unwrap_or(&[]).to_vec(),
            from,
            export: 0,
        };
        let Err(export) = answer(dispatcher, &socket, &datagram, local, false) else {
            continue;
        };
        if !waiting.lock().take_one(export) {
            names::LOCK_DATAGRAMS_DROPPED.add(1);
            continue;
        }
        datagram.export = export;
        let flow = Flow {
            export,
            address: Address::of(from.ip()),
            token: u64::from(from.port()),
        };
        pool.queue(&flow, datagram);
    }
    pool.stop();
}

/// An error when the call would wait for an export.
fn answer(
    dispatcher: &Dispatcher,
    socket: &UdpSocket,
    datagram: &Datagram,
    local: Option<IpAddr>,
    may_block: bool,
) -> Result<(), u32> {
    let (service, record) = (&dispatcher.service, &datagram.record);
    if let Some(reply) = answer_datagram(service, record, (datagram.from, local), may_block)? {
        // An answer that gets lost is asked for again.
        let _ = socket.send_to(&reply, datagram.from);
    }
    Ok(())
}
