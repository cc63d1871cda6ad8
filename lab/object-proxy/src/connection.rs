//! One connection of a client: requests go to the server and replies come back, one at a time, and
//! what the script says happens to them.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use flate2::Compression;
use flate2::read::GzEncoder;

use crate::Fault;
use crate::body::{Body, Framing};
use crate::head::{Head, bad};
use crate::shared::{Request, Shared};

/// The header by which Google names a version of an object.
const GENERATION: &str = "x-goog-generation";
/// What is passed on at a time.
const PIECE_BYTES: usize = 64 << 10;
/// Of a reply that is compressed.
const GZIP_BYTES_MAX: u64 = 256 << 20;
/// A server that does not know `Expect` waits for the body instead of asking for it.
const CONTINUE_WAIT: Duration = Duration::from_secs(1);

pub(crate) struct Connection<'a> {
    shared: &'a Shared,
    number: u64,
    client: BufReader<TcpStream>,
    server: Option<BufReader<TcpStream>>,
    is_first: bool,
}

/// What a reply is sent as.
struct Reply {
    head: Head,
    /// Of what comes from the server.
    framing: Framing,
    /// Of the body, for the client; the rest is dropped.
    bytes_max: u64,
    /// Behind so many bytes the fault happens.
    fault_at: u64,
}

fn write_piece(to: &mut TcpStream, bytes: &[u8], framing: Framing) -> io::Result<()> {
    if framing != Framing::Chunked {
        return to.write_all(bytes);
    }
    let mut chunk = format!("{:x}\r\n", bytes.len()).into_bytes();
    chunk.extend_from_slice(bytes);
    chunk.extend_from_slice(b"\r\n");
    to.write_all(&chunk)
}

fn write_end(to: &mut TcpStream, framing: Framing) -> io::Result<()> {
    match framing {
        Framing::Chunked => to.write_all(b"0\r\n\r\n"),
        _ => Ok(()),
    }
}

/// Whether the server still listens; what came unasked ends a connection, too.
fn is_open(server: &BufReader<TcpStream>) -> bool {
    let socket = server.get_ref();
    let is_quiet = |socket: &TcpStream| {
        socket.set_nonblocking(true)?;
        let peeked = socket.peek(&mut [0]);
        socket.set_nonblocking(false)?;
        peeked
    };
    let quiet = is_quiet(socket).is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock);
    quiet && server.buffer().is_empty()
}

/// Both ends of a Content-Range, moved.
fn moved(range: &str, by: i64) -> Option<String> {
    let (ends, total) = range.strip_prefix("bytes ")?.split_once('/')?;
    let (first, last) = ends.split_once('-')?;
    let moved = |end: &str| end.parse::<u64>().ok()?.checked_add_signed(by);
    Some(format!("bytes {}-{}/{total}", moved(first)?, moved(last)?))
}

impl Reply {
    fn new(mut head: Head, method: &str, fault: Option<&Fault>) -> io::Result<Self> {
        let framing = Framing::of_reply(&head, method)?;
        let (mut bytes_max, mut fault_at) = (u64::MAX, u64::MAX);
        match fault {
            Some(Fault::NoEtag) => {
                head.remove("etag");
                head.remove(GENERATION);
            }
            Some(Fault::WeakEtag) => {
                // Beside it, no weak one can be said.
                head.remove(GENERATION);
                let etag = head.get("etag").unwrap_or_default();
                head.set("ETag", &format!("W/{}", etag.trim_start_matches("W/")));
            }
            Some(Fault::ContentRangeOffBy(by)) => {
                let range = head.get("content-range");
                if let Some(range) = range.and_then(|range| moved(&range, *by)) {
                    head.set("Content-Range", &range);
                }
            }
            Some(Fault::ShortBy(missing)) => {
                if let Framing::Length(length) = framing {
                    bytes_max = length.saturating_sub(*missing);
                    head.set("Content-Length", &bytes_max.to_string());
                }
            }
            Some(
                Fault::ResetAt(at) | Fault::CloseAt(at) | Fault::StallAt(at) | Fault::HoldAt(at),
            ) => fault_at = *at,
            _ => {}
        }
        Ok(Self {
            head,
            framing,
            bytes_max,
            fault_at,
        })
    }

    /// Whether more may come on the connection.
    fn keeps(&self) -> io::Result<bool> {
        let is_old = !self
            .head
            .lines()
            .first()
            .is_some_and(|line| line.starts_with("HTTP/1.1"));
        let keeps = !self.head.lists("connection", "close")
            && (!is_old || self.head.lists("connection", "keep-alive"));
        // A switch of protocols is none that is known here.
        Ok(keeps && self.framing != Framing::UntilClose && self.head.status()? != 101)
    }
}

impl<'a> Connection<'a> {
    /// Serves a client until it leaves, or something ends the connection.
    pub(crate) fn serve(shared: &'a Shared, number: u64, client: TcpStream) {
        let mut connection = Self {
            shared,
            number,
            client: BufReader::with_capacity(PIECE_BYTES, client),
            server: None,
            is_first: true,
        };
        while matches!(connection.exchange(), Ok(true)) {}
        shared.forget(number);
    }

    /// One request and its reply; whether there may be another.
    fn exchange(&mut self) -> io::Result<bool> {
        let Some(head) = Head::read(&mut self.client)? else {
            return Ok(false);
        };
        let request = self.shared.begin(&head)?;
        let latency = request.link.latency;
        self.shared.pause(latency)?;
        if std::mem::take(&mut self.is_first) {
            self.shared.pause(latency)?;
        }
        let is_client_done = head.lists("connection", "close");
        match &request.fault {
            Some(Fault::Delay(time)) => self.shared.pause(*time)?,
            Some(Fault::Wait) => self.shared.hold()?,
            Some(Fault::Hang) => return self.wait_for_end(),
            Some(Fault::Status {
                status,
                retry_after_seconds,
            }) => {
                let seconds = retry_after_seconds.map(|seconds| seconds.to_string());
                let field = seconds.as_deref().map(|seconds| ("Retry-After", seconds));
                return self.answer(&request, &head, *status, field);
            }
            Some(Fault::Redirect { status, location }) => {
                let location = location.replace("{target}", &request.target);
                let field = Some(("Location", location.as_str()));
                return self.answer(&request, &head, *status, field);
            }
            _ => {}
        }
        let early = self.send_request(&request, head)?;
        let is_whole = early.is_none();
        Ok(self.send_reply(&request, early)? && is_whole && !is_client_done)
    }

    /// Answers in the place of the server.
    fn answer(
        &mut self,
        request: &Request,
        head: &Head,
        status: u16,
        field: Option<(&str, &str)>,
    ) -> io::Result<bool> {
        // A client that waits to be asked for its body sends none now.
        let is_asked_for = head.lists("expect", "100-continue");
        if !is_asked_for {
            let framing = Framing::of_request(head)?;
            io::copy(&mut Body::new(&mut self.client, framing), &mut io::sink())?;
        }
        self.write_answer(request, status, field)?;
        Ok(!is_asked_for && !head.lists("connection", "close"))
    }

    fn write_answer(
        &mut self,
        request: &Request,
        status: u16,
        field: Option<(&str, &str)>,
    ) -> io::Result<()> {
        let code = match status {
            503 | 429 => "SlowDown",
            500 => "InternalError",
            _ => "Fault",
        };
        let body = format!("<?xml version=\"1.0\"?><Error><Code>{code}</Code></Error>");
        let length = body.len().to_string();
        let mut fields = vec![
            ("Content-Type", "application/xml"),
            ("Content-Length", length.as_str()),
        ];
        fields.extend(field);
        let mut bytes = Head::new(&format!("HTTP/1.1 {status} By the proxy"), &fields).to_bytes();
        self.shared.note_reply(request, status, bytes.len());
        if request.method != "HEAD" {
            bytes.extend_from_slice(body.as_bytes());
            self.shared.pass_down(request, body.len())?;
        }
        self.client.get_ref().write_all(&bytes)
    }

    fn wait_for_end(&mut self) -> io::Result<bool> {
        io::copy(&mut self.client, &mut io::sink())?;
        Ok(false)
    }

    /// Ends the connection so that the client gets an error, not an end.
    fn reset(&mut self) -> io::Result<bool> {
        self.shared.forget(self.number);
        rustix::net::sockopt::set_socket_linger(self.client.get_ref(), Some(Duration::ZERO))?;
        Ok(false)
    }

    fn connect(&mut self) -> io::Result<&mut BufReader<TcpStream>> {
        let server = match self.server.take().filter(is_open) {
            Some(server) => server,
            None => {
                let socket = TcpStream::connect(self.shared.upstream())?;
                socket.set_nodelay(true)?;
                self.shared.set_server(self.number, &socket)?;
                BufReader::with_capacity(PIECE_BYTES, socket)
            }
        };
        Ok(self.server.insert(server))
    }

    /// Sends a request on. The head of a reply that came instead of a wish for the body.
    fn send_request(&mut self, request: &Request, mut head: Head) -> io::Result<Option<Head>> {
        if request.fault == Some(Fault::IgnoreRange) {
            head.remove("range");
        }
        let framing = Framing::of_request(&head)?;
        let head_bytes = head.to_bytes();
        self.connect()?.get_ref().write_all(&head_bytes)?;
        if head.lists("expect", "100-continue")
            && let Some(early) = self.ask_for_body()?
        {
            return Ok(Some(early));
        }
        let (cut_at, flip_at) = match request.fault {
            Some(Fault::CutUploadAt(at)) => (at, u64::MAX),
            Some(Fault::FlipUploadAt(at)) => (u64::MAX, at),
            _ => (u64::MAX, u64::MAX),
        };
        let server = self.server.as_mut().ok_or_else(|| bad("no server"))?;
        let mut body = Body::new(&mut self.client, framing);
        let mut piece = vec![0; PIECE_BYTES];
        let mut passed = 0;
        while passed < cut_at {
            let most = usize::try_from(cut_at - passed).unwrap_or(usize::MAX);
            let count = body.read(&mut piece[..most.min(PIECE_BYTES)])?;
            if count == 0 {
                write_end(server.get_mut(), framing)?;
                return Ok(None);
            }
            let bytes = &mut piece[..count];
            let flipped = flip_at.checked_sub(passed).map(usize::try_from);
            if let Some(byte) = flipped.and_then(|at| bytes.get_mut(at.ok()?)) {
                *byte ^= 1;
            }
            self.shared.pass_up(request, count)?;
            if write_piece(server.get_mut(), bytes, framing).is_err() {
                // It has answered and does not want the rest.
                return Head::read(server)?.map(Some).ok_or_else(|| bad("no reply"));
            }
            passed += u64::try_from(count).unwrap_or(0);
        }
        self.reset()?;
        Err(io::ErrorKind::ConnectionAborted.into())
    }

    /// Waits until the server wants the body; its reply, where it does not.
    fn ask_for_body(&mut self) -> io::Result<Option<Head>> {
        let server = self.server.as_mut().ok_or_else(|| bad("no server"))?;
        server.get_ref().set_read_timeout(Some(CONTINUE_WAIT))?;
        let came = server.fill_buf().map(<[u8]>::is_empty);
        server.get_ref().set_read_timeout(None)?;
        if came.is_ok() {
            let head = Head::read(server)?.ok_or_else(|| bad("no reply"))?;
            if head.status()? != 100 {
                return Ok(Some(head));
            }
        }
        let go_on = Head::new("HTTP/1.1 100 Continue", &[]);
        self.client.get_ref().write_all(&go_on.to_bytes())?;
        Ok(None)
    }

    /// The head of the reply, behind those that only say that it comes.
    fn reply_head(&mut self) -> io::Result<Head> {
        let server = self.server.as_mut().ok_or_else(|| bad("no server"))?;
        loop {
            let head = Head::read(server)?.ok_or(io::ErrorKind::UnexpectedEof)?;
            if !(100..200).contains(&head.status()?) || head.status()? == 101 {
                return Ok(head);
            }
        }
    }

    /// Sends the reply back; whether the connection may be used again.
    fn send_reply(&mut self, request: &Request, early: Option<Head>) -> io::Result<bool> {
        let head = match early {
            Some(head) => head,
            None => self.reply_head()?,
        };
        let fault = request.fault.as_ref();
        let mut reply = Reply::new(head, &request.method, fault)?;
        let keeps = reply.keeps()?;
        match fault {
            Some(Fault::LostReply) => {
                self.drop_body(&reply)?;
                return self.reset();
            }
            Some(Fault::AppliedThen(status)) => {
                self.drop_body(&reply)?;
                self.write_answer(request, *status, None)?;
                return Ok(keeps);
            }
            Some(Fault::Gzip) if [200, 206].contains(&reply.head.status()?) => {
                self.send_compressed(request, &mut reply)?;
                return Ok(keeps);
            }
            _ => {}
        }
        self.send_head(request, &reply.head)?;
        Ok(self.send_body(request, &reply)? && keeps)
    }

    fn send_head(&self, request: &Request, head: &Head) -> io::Result<()> {
        let bytes = head.to_bytes();
        self.shared.note_reply(request, head.status()?, bytes.len());
        self.client.get_ref().write_all(&bytes)
    }

    fn drop_body(&mut self, reply: &Reply) -> io::Result<()> {
        let server = self.server.as_mut().ok_or_else(|| bad("no server"))?;
        io::copy(&mut Body::new(server, reply.framing), &mut io::sink()).map(drop)
    }

    fn send_compressed(&mut self, request: &Request, reply: &mut Reply) -> io::Result<()> {
        let server = self.server.as_mut().ok_or_else(|| bad("no server"))?;
        let mut bytes = Vec::new();
        let body = Body::new(server, reply.framing).take(GZIP_BYTES_MAX);
        GzEncoder::new(body, Compression::none()).read_to_end(&mut bytes)?;
        reply.head.remove("transfer-encoding");
        reply.head.set("Content-Encoding", "gzip");
        reply.head.set("Content-Length", &bytes.len().to_string());
        self.send_head(request, &reply.head)?;
        if reply.framing == Framing::None {
            return Ok(());
        }
        self.shared.pass_down(request, bytes.len())?;
        self.client.get_ref().write_all(&bytes)
    }

    /// Sends the body until it ends or the fault happens; whether it was sent in full.
    fn send_body(&mut self, request: &Request, reply: &Reply) -> io::Result<bool> {
        let mut piece = vec![0; PIECE_BYTES];
        let (mut sent, mut fault_at) = (0, reply.fault_at);
        let mut server = self.server.take().ok_or_else(|| bad("no server"))?;
        let mut body = Body::new(&mut server, reply.framing);
        loop {
            if sent == fault_at {
                if !self.break_off(request)? {
                    return Ok(false);
                }
                fault_at = u64::MAX;
            }
            let most = usize::try_from(fault_at - sent).unwrap_or(usize::MAX);
            let count = body.read(&mut piece[..most.min(PIECE_BYTES)])?;
            if count == 0 {
                break;
            }
            let most = usize::try_from(reply.bytes_max.saturating_sub(sent)).unwrap_or(usize::MAX);
            let bytes = &piece[..count.min(most)];
            sent += u64::try_from(count).unwrap_or(0);
            self.shared.pass_down(request, bytes.len())?;
            write_piece(self.client.get_mut(), bytes, reply.framing)?;
        }
        write_end(self.client.get_mut(), reply.framing)?;
        self.server = Some(server);
        Ok(true)
    }

    /// What happens in the middle of a reply; whether it goes on.
    fn break_off(&mut self, request: &Request) -> io::Result<bool> {
        match request.fault {
            Some(Fault::HoldAt(_)) => self.shared.hold().map(|()| true),
            Some(Fault::StallAt(_)) => self.wait_for_end(),
            Some(Fault::ResetAt(_)) => self.reset(),
            _ => Ok(false),
        }
    }
}
