//! A client's threads, and the submission of calls.

use super::call::{Answer, CallError, ClientShared, Outcome, Outgoing, complete};
use super::dial::ConnectError;
use super::options::Options;
use super::slot::{LOAD_STEP_BYTES, Slot};
use super::statistics::Statistics;
use super::watcher;
use crate::xdr::{self, Decoder};
use pagewell_base::waits;
use std::net::TcpStream;
use std::sync::{Arc, mpsc};

/// A call of this size makes all connections, as more are likely; so does [`LOAD_STEP_BYTES`] on
/// one connection.
const LARGE_BYTES: usize = 64 << 10;

/// A client of one program of one server. The drop of its last clone stops it.
#[derive(Clone)]
pub struct Client {
    handle: Arc<Handle>,
}

struct Handle {
    shared: Arc<ClientShared>,
    slots: Arc<[Slot]>,
}

impl Handle {
    fn stop(&self) {
        self.shared.stop();
        self.slots.iter().for_each(Slot::stop);
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Client {
    /// Makes the first connection; others follow on demand.
    pub fn connect(program: u32, version: u32, options: Options) -> Result<Self, ConnectError> {
        let first = super::dial::dial(&options, None, || true)?;
        let slots = (0..options.connections).map(|_| Slot::default()).collect();
        let shared = ClientShared::new(program, version, options).map_err(ConnectError::Thread)?;
        let shared = Arc::new(shared);
        // From here on a failure stops the started threads.
        let client = Self {
            handle: Arc::new(Handle { shared, slots }),
        };
        client.start(first).map_err(ConnectError::Thread)?;
        Ok(client)
    }

    fn start(&self, first: TcpStream) -> std::io::Result<()> {
        let mut first = Some(first);
        for index in 0..self.handle.slots.len() {
            let stream = first.take();
            self.spawn("rpc-receive", move |shared, slots| {
                if let Some(slot) = slots.get(index) {
                    slot.run(shared, slots, stream);
                }
            })?;
            self.spawn("rpc-send", move |_, slots| {
                if let Some(slot) = slots.get(index) {
                    slot.run_sender();
                }
            })?;
        }
        self.spawn("rpc-watch", watcher::run)?;
        Ok(())
    }

    fn spawn(
        &self,
        name: &str,
        work: impl FnOnce(&Arc<ClientShared>, &[Slot]) + Send + 'static,
    ) -> std::io::Result<()> {
        let (shared, slots) = (self.handle.shared.clone(), self.handle.slots.clone());
        let builder = std::thread::Builder::new().name(name.to_owned());
        builder.spawn(move || work(&shared, &slots)).map(drop)
    }

    /// Sends a call, or queues it, without waiting. `completion` runs exactly once, on a thread of
    /// the client or on this one. It must be short and must not wait; it may submit calls.
    pub fn submit(&self, call: Outgoing, completion: impl FnOnce(Outcome<'_>) + Send + 'static) {
        let shared = &self.handle.shared;
        let completion = Box::new(completion);
        // Established connections first, then the least load.
        let slots = self.handle.slots.iter();
        let Some(slot) = slots.min_by_key(|slot| slot.reluctance(shared)) else {
            return complete(completion, Err(CallError::Stopped));
        };
        let mut is_large = call.load_bytes() >= LARGE_BYTES;
        let mut call = call;
        let mut state = slot.state.lock();
        if state.stopped {
            drop(state);
            return complete(completion, Err(CallError::Stopped));
        }
        if state.table.is_full() {
            drop(state);
            return complete(completion, Err(CallError::QueueFull));
        }
        let mut xid = shared.next_xid();
        while state.table.contains(xid) {
            xid = shared.next_xid();
        }
        call.address(xid, shared.program, shared.version);
        shared.counted.called(call.procedure);
        state.table.insert(Arc::new(call), completion);
        slot.note_load(&state);
        is_large |= state.table.load_bytes >= LOAD_STEP_BYTES;
        if state.link.is_none() {
            slot.work.notify_one();
        }
        slot.send(state);
        if is_large {
            self.handle.slots.iter().for_each(|slot| slot.want(shared));
        }
    }

    /// Waits for the results of a call; ignores bytes behind them. Malformed ones are
    /// [`CallError::Garbage`]. Not for completions.
    pub fn call<T>(
        &self,
        call: Outgoing,
        decode: impl FnOnce(&mut Decoder<'_>) -> xdr::Result<T>,
    ) -> Result<Answer<T>, CallError> {
        let (sender, receiver) = mpsc::sync_channel(1);
        self.submit(call, move |outcome| {
            let kept = outcome.map(|reply| {
                let results = reply.results.to_vec();
                (results, reply.resent, reply.origin.clone())
            });
            // The receiver waits.
            let _ = sender.send(kept);
        });
        let answered = waits::timed(|| receiver.recv());
        let (results, resent, origin) = answered.map_err(|_| CallError::Stopped)??;
        match decode(&mut Decoder::new(&results)) {
            Ok(value) => Ok(Answer { value, resent }),
            Err(error) => Err(origin.garbage(error.to_string())),
        }
    }

    /// Fails all calls, also later ones, with [`CallError::Stopped`]. Completions may still run
    /// after it returns.
    pub fn stop(&self) {
        self.handle.stop();
    }

    /// Its counts.
    #[must_use]
    pub fn statistics(&self) -> &Statistics {
        &self.handle.shared.counted
    }
}
