//! The transport of a small client: records on a TCP socket, calls and their replies.

use std::collections::{HashMap, HashSet};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use pagewell_sunrpc::nfs3::{self, Failure, Procedure, Status};
use pagewell_sunrpc::record::{LAST_FRAGMENT, MARKER_BYTES, Marker};
use pagewell_sunrpc::rpc::{
    Call, Credential, Refusal, ReplyError, SystemCredential, encode_call, parse_reply,
};
use pagewell_sunrpc::xdr::{Decode, Decoder, Encode, Encoder, Words};
use rustix::net::{self, AddressFamily, SocketFlags, SocketType};

/// A reply that takes longer than this will never come.
const REPLY_WITHIN: Duration = Duration::from_secs(60);

/// No reply is longer: a READ of 1 MiB with its head.
const REPLY_BYTES_MAX: usize = (1 << 20) + 4096;

static NEXT_XID: AtomicU32 = AtomicU32::new(0x1000_0000);

/// An identifier that no other call of this process has.
pub fn next_xid() -> u32 {
    NEXT_XID.fetch_add(1, Ordering::Relaxed)
}

/// Credentials of a client's calls.
#[derive(Clone, Debug)]
pub enum User {
    /// AUTH_NONE.
    Nobody,
    /// AUTH_SYS: uid, gid and supplementary groups.
    System(u32, u32, Vec<u32>),
}

impl User {
    pub fn root() -> Self {
        Self::System(0, 0, Vec::new())
    }

    fn credential(&self) -> Credential<'_> {
        match self {
            Self::Nobody => Credential::None,
            Self::System(uid, gid, gids) => Credential::System(SystemCredential {
                stamp: 1,
                machine_name: b"wire",
                uid: *uid,
                gid: *gid,
                gids: Words::new(gids).expect("at most 16 groups"),
            }),
        }
    }
}

/// The body of a call record: head and arguments.
pub fn call_record(
    xid: u32,
    (program, version, procedure): (u32, u32, u32),
    user: &User,
    arguments: &[u8],
) -> Vec<u8> {
    let mut record = Vec::new();
    let call = Call {
        xid,
        program,
        version,
        procedure,
        credential: user.credential(),
    };
    encode_call(&mut Encoder::new(&mut record), &call);
    record.extend_from_slice(arguments);
    record
}

/// The wire form of a value.
pub fn encoded(value: &impl Encode) -> Vec<u8> {
    let mut bytes = Vec::new();
    value.encode(&mut Encoder::new(&mut bytes));
    bytes
}

/// A record in one fragment.
pub fn marked(body: &[u8]) -> Vec<u8> {
    let marker = u32::try_from(body.len()).unwrap() | LAST_FRAGMENT;
    [&marker.to_be_bytes(), body].concat()
}

/// A connection from `from`, an address of loopback.
pub fn stream_from(from: [u8; 4], address: SocketAddr) -> std::io::Result<TcpStream> {
    let flags = SocketFlags::CLOEXEC;
    let socket = net::socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)?;
    net::bind(&socket, &SocketAddr::from((from, 0)))?;
    net::connect(&socket, &address)?;
    Ok(socket.into())
}

/// One client on one connection.
pub struct Client {
    stream: TcpStream,
    pub user: User,
    /// Replies that came before they were asked for.
    early: HashMap<u32, Answer>,
    /// Calls whose reply was given to a test.
    finished: HashSet<u32>,
}

/// A reply record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer(pub(crate) Vec<u8>);

impl Client {
    pub fn connect(address: SocketAddr, user: User) -> Self {
        let stream = TcpStream::connect(address);
        Self::on(stream.expect("the server listens"), user)
    }

    /// A client whose address is `from`, one of loopback.
    pub fn connect_from(from: [u8; 4], address: SocketAddr, user: User) -> Self {
        let stream = stream_from(from, address);
        Self::on(stream.expect("the server listens"), user)
    }

    fn on(stream: TcpStream, user: User) -> Self {
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(REPLY_WITHIN)).unwrap();
        Self {
            stream,
            user,
            early: HashMap::new(),
            finished: HashSet::new(),
        }
    }

    /// The record of an NFS call by this client's user.
    pub fn record(&self, xid: u32, procedure: Procedure, arguments: &[u8]) -> Vec<u8> {
        let target = (nfs3::PROGRAM, nfs3::VERSION, procedure.number());
        call_record(xid, target, &self.user, arguments)
    }

    /// Sends an NFS call; [`Client::finish`] waits for its reply.
    pub fn start(&mut self, procedure: Procedure, arguments: &impl Encode) -> u32 {
        self.start_raw(procedure, &encoded(arguments))
    }

    /// [`Client::start`] with arguments in their wire form, right or wrong.
    pub fn start_raw(&mut self, procedure: Procedure, arguments: &[u8]) -> u32 {
        let xid = next_xid();
        let record = self.record(xid, procedure, arguments);
        self.send(&marked(&record));
        xid
    }

    /// Makes an NFS call.
    pub fn nfs(&mut self, procedure: Procedure, arguments: &impl Encode) -> Answer {
        let xid = self.start(procedure, arguments);
        self.finish(xid)
    }

    /// Makes an NFS call with arguments in their wire form.
    pub fn nfs_raw(&mut self, procedure: Procedure, arguments: &[u8]) -> Answer {
        let xid = self.start_raw(procedure, arguments);
        self.finish(xid)
    }

    /// Calls any procedure of any program.
    pub fn call(&mut self, target: (u32, u32, u32), arguments: &[u8]) -> Answer {
        let xid = self.start_call(target, arguments);
        self.finish(xid)
    }

    /// Sends a call of any procedure of any program; [`Client::finish`] waits for its reply.
    pub fn start_call(&mut self, target: (u32, u32, u32), arguments: &[u8]) -> u32 {
        let xid = next_xid();
        let record = call_record(xid, target, &self.user, arguments);
        self.send(&marked(&record));
        xid
    }

    /// Shows that the connection still works.
    pub fn check_usable(&mut self) {
        let answer = self.nfs(Procedure::Null, &());
        answer.decode::<()>();
    }

    /// Sends bytes as they are.
    pub fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("the server receives");
    }

    /// [`Client::send`] to a server that may have closed the connection.
    pub fn try_send(&mut self, bytes: &[u8]) -> bool {
        self.stream.write_all(bytes).is_ok()
    }

    /// The next reply, whichever call it is for.
    pub fn next_answer(&mut self) -> Answer {
        self.try_next_answer().expect("a reply")
    }

    /// [`Client::next_answer`]; `None` when the server has closed the connection.
    pub fn try_next_answer(&mut self) -> Option<Answer> {
        let mut marker = [0; MARKER_BYTES];
        if let Err(error) = self.stream.read_exact(&mut marker) {
            assert!(
                !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
                "no reply within {REPLY_WITHIN:?}"
            );
            return None;
        }
        let marker = Marker::parse(marker);
        assert!(marker.last, "replies are one fragment");
        assert!(marker.length <= REPLY_BYTES_MAX && marker.length.is_multiple_of(4));
        let mut body = vec![0; marker.length];
        // A server that is killed may have sent a part of it.
        self.stream.read_exact(&mut body).ok()?;
        Some(Answer(body))
    }

    /// Waits for the reply to a call.
    pub fn finish(&mut self, xid: u32) -> Answer {
        loop {
            if let Some(answer) = self.early.remove(&xid) {
                self.finished.insert(xid);
                return answer;
            }
            let answer = self.next_answer();
            // A test that waits for this number again has sent the call again.
            let is_twice = answer.xid() != xid && self.finished.contains(&answer.xid());
            let twice = self.early.insert(answer.xid(), answer);
            assert!(twice.is_none() && !is_twice, "two replies to one call");
        }
    }

    /// Whether a byte from the server is there, without waiting for one.
    pub fn has_answer(&mut self) -> bool {
        self.stream.set_nonblocking(true).unwrap();
        let peeked = self.stream.peek(&mut [0]);
        self.stream.set_nonblocking(false).unwrap();
        match peeked {
            Ok(count) => count > 0,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::WouldBlock);
                false
            }
        }
    }

    /// Nothing more will be sent; what was sent is answered still.
    pub fn end_sending(&mut self) {
        self.stream.shutdown(Shutdown::Write).unwrap();
    }

    /// Ends the connection as a machine does that knows nothing of it: with a reset.
    pub fn reset(self) {
        rustix::net::sockopt::set_socket_linger(&self.stream, Some(Duration::ZERO)).unwrap();
    }

    /// A second handle on the socket, for a thread that only sends.
    pub fn sender(&self) -> TcpStream {
        self.stream.try_clone().unwrap()
    }
}

/// The results of a procedure of NFS.
pub trait Reply {
    type Success;

    fn status(self) -> Result<Self::Success, Status>;
}

impl<S, F> Reply for Result<S, Failure<F>> {
    type Success = S;

    fn status(self) -> Result<S, Status> {
        self.map_err(|failure| failure.status)
    }
}

impl Answer {
    pub fn xid(&self) -> u32 {
        Decoder::new(&self.0).u32().expect("an xid")
    }

    /// Why the call was not carried out; `None` when it was.
    pub fn refusal(&self) -> Option<Refusal> {
        match parse_reply(&self.0) {
            Ok(_) => None,
            Err(ReplyError::Refused { refusal, .. }) => Some(refusal),
            Err(error) => panic!("not a reply: {error}"),
        }
    }

    /// The results, to their last byte.
    pub fn decode<'a, T: Decode<'a>>(&'a self) -> T {
        let (_, mut results) = parse_reply(&self.0).expect("a reply with results");
        let decoded = T::decode(&mut results).expect("results of this type");
        results.finish().expect("nothing behind the results");
        decoded
    }

    /// What a procedure gave, or the status of its failure.
    pub fn ok<'a, R: Reply + Decode<'a>>(&'a self) -> Result<R::Success, Status> {
        self.decode::<R>().status()
    }

    /// Bytes of the results behind the status.
    pub fn body_bytes(&self) -> usize {
        let (_, results) = parse_reply(&self.0).expect("a reply with results");
        results.remaining() - 4
    }
}
