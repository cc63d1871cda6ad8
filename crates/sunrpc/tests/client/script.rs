//! A server that does what a test says, one connection after the other.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::ptr::NonNull;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use pagewell_sunrpc::client::{
    BorrowedSlice, CallError, Client, EncodedCredential, Log, Options, Outgoing, Sink,
};
use pagewell_sunrpc::record::LAST_FRAGMENT;
use pagewell_sunrpc::rpc::{encode_success, parse_call};
use pagewell_sunrpc::xdr::{self, Decoder, Encode, Encoder, padded};

/// What no test should take. A wait that ends by it is a failure, not a measurement.
pub(crate) const FAR: Duration = Duration::from_secs(120);

pub(crate) const PROGRAM: u32 = 0x2000_0001;
pub(crate) const VERSION: u32 = 4;

/// A call that has reached the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) xid: u32,
    pub(crate) procedure: u32,
    pub(crate) arguments: Vec<u8>,
}

/// The server's end of a connection.
pub(crate) struct Peer {
    pub(crate) stream: TcpStream,
}

impl Peer {
    /// The next call; none when the client has closed.
    pub(crate) fn call(&mut self) -> Option<Seen> {
        let mut marker = [0; 4];
        self.stream.read_exact(&mut marker).ok()?;
        let marker = u32::from_be_bytes(marker);
        assert!(marker & LAST_FRAGMENT != 0, "one fragment");
        let mut record = vec![0; (marker & !LAST_FRAGMENT) as usize];
        assert!(record.len().is_multiple_of(4));
        self.stream.read_exact(&mut record).ok()?;
        let (call, decoder) = parse_call(&record).expect("a call");
        assert_eq!((call.program, call.version), (PROGRAM, VERSION));
        Some(Seen {
            xid: call.xid,
            procedure: call.procedure,
            arguments: decoder.rest().to_vec(),
        })
    }

    /// Sends bytes; a client that does not want them any more is no failure.
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes);
    }

    /// Answers with these results.
    pub(crate) fn reply(&mut self, xid: u32, results: &[u8]) {
        self.send(&record(&success(xid, results)));
    }

    /// Answers calls with their own arguments until the client closes.
    pub(crate) fn echo(&mut self) {
        while let Some(call) = self.call() {
            self.reply(call.xid, &call.arguments);
        }
    }

    /// Waits until the client has closed, whatever it sends.
    pub(crate) fn until_closed(&mut self) {
        let mut sink = [0; 4096];
        while matches!(self.stream.read(&mut sink), Ok(1..)) {}
    }

    pub(crate) fn close(self) {
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

pub(crate) fn success(xid: u32, results: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    encode_success(&mut Encoder::new(&mut body), xid);
    body.extend_from_slice(results);
    body
}

pub(crate) fn record(body: &[u8]) -> Vec<u8> {
    fragment(body, true)
}

pub(crate) fn fragment(body: &[u8], last: bool) -> Vec<u8> {
    let marker = body.len() as u32 | if last { LAST_FRAGMENT } else { 0 };
    [&marker.to_be_bytes()[..], body].concat()
}

/// Opaque data as results: zero, a length, the bytes, padding.
pub(crate) fn data_results(data: &[u8]) -> Vec<u8> {
    let mut results = vec![0; 4];
    Encoder::new(&mut results).opaque(data);
    results
}

/// Finds the data of [`data_results`]; a first word other than zero: there is none.
pub(crate) fn locate_data(results: &mut Decoder<'_>) -> xdr::Result<Option<usize>> {
    if results.u32()? != 0 {
        return Ok(None);
    }
    results.u32().map(|length| Some(length as usize))
}

/// Starts a server whose connections are served, one after the other, by `script`; it is given
/// the number of the connection.
pub(crate) fn serve(script: impl Fn(usize, Peer) + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for (index, stream) in listener.incoming().enumerate() {
            let stream = stream.unwrap();
            stream.set_nodelay(true).unwrap();
            script(index, Peer { stream });
        }
    });
    address
}

/// Listens at an address of its own, so that no other test is given its port when it has gone.
pub(crate) fn listener_of_its_own(number: u8) -> TcpListener {
    TcpListener::bind(SocketAddr::from(([127, 9, 8, number], 0))).unwrap()
}

/// Messages for people.
#[derive(Clone, Default)]
pub(crate) struct Messages(Arc<Mutex<Vec<String>>>);

impl Messages {
    pub(crate) fn log(&self) -> Log {
        let messages = self.0.clone();
        Log::new(move |line| messages.lock().unwrap().push(line.to_owned()))
    }

    pub(crate) fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

pub(crate) fn options(address: SocketAddr) -> (Options, Messages) {
    let messages = Messages::default();
    let mut options = Options::new("script", vec![address]);
    options.log = messages.log();
    (options, messages)
}

pub(crate) fn connect(options: Options) -> Client {
    Client::connect(PROGRAM, VERSION, options).expect("a client")
}

/// Calls that were made.
pub(crate) fn requests(client: &Client) -> u64 {
    let procedures = client.statistics().procedures();
    procedures.iter().map(|procedure| procedure.calls).sum()
}

/// Sends a number and returns what comes back.
pub(crate) fn echo(client: &Client, number: u32) -> Result<(u32, bool), CallError> {
    let credential = EncodedCredential::of_process();
    let call = Outgoing::new(1, &credential, &number);
    let answer = client.call(call, |decoder| decoder.u32())?;
    Ok((answer.value, answer.resent))
}

/// What came of a submitted call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Came {
    pub(crate) results: Vec<u8>,
    pub(crate) data: Vec<u8>,
    pub(crate) resent: bool,
}

pub(crate) type Coming = Receiver<Result<Came, CallError>>;

/// Submits a call whose data goes to memory of `capacity` bytes, in some hundred uneven pieces.
pub(crate) fn submit_with_sink(
    client: &Client,
    arguments: &impl Encode,
    capacity: usize,
) -> Coming {
    let (sender, receiver) = channel();
    let mut memory = vec![0xee; capacity];
    let slices = memory
        .chunks_mut(capacity / 300 + 3)
        .map(|piece| BorrowedSlice::new(NonNull::from(&mut *piece).cast(), piece.len()));
    // SAFETY: the memory is owned by the completion, which touches it only when it is called.
    let sink = unsafe { Sink::new(slices.collect(), 0, locate_data) };
    let call = Outgoing::new(6, &EncodedCredential::of_process(), arguments).with_sink(sink);
    client.submit(call, complete(sender, memory));
    receiver
}

/// Submits a call without a sink.
pub(crate) fn submit(client: &Client, arguments: &impl Encode) -> Coming {
    let (sender, receiver) = channel();
    let call = Outgoing::new(1, &EncodedCredential::of_process(), arguments);
    client.submit(call, complete(sender, Vec::new()));
    receiver
}

pub(crate) fn complete(
    sender: Sender<Result<Came, CallError>>,
    memory: Vec<u8>,
) -> impl FnOnce(pagewell_sunrpc::client::Outcome<'_>) + Send + 'static {
    move |outcome| {
        let came = outcome.map(|reply| Came {
            results: reply.results.to_vec(),
            data: memory[..reply.data_bytes].to_vec(),
            resent: reply.resent,
        });
        // A test that has seen enough is gone.
        let _ = sender.send(came);
    }
}

pub(crate) fn outcome(coming: &Coming) -> Result<Came, CallError> {
    coming.recv_timeout(FAR).expect("a completion")
}

/// Waits until `condition` holds.
pub(crate) fn wait_until(condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < FAR, "it never happens");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Bytes of data that differ from place to place.
pub(crate) fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at * 31 + at / 256) as u8).collect()
}

/// A reply with data as a whole record.
pub(crate) fn data_record(xid: u32, data: &[u8]) -> Vec<u8> {
    let results = data_results(data);
    assert_eq!(results.len(), 8 + padded(data.len()));
    record(&success(xid, &results))
}
