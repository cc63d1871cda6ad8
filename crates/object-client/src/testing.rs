//! A server of the tests that answers from a script, in memory: time can stand still.

use std::collections::VecDeque;
use std::sync::Arc;

use pagewell_base::sync::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

use crate::error::Result;
use crate::location::Origin;
use crate::remote::Sink;
use crate::transport::{Connect, Connecting, Failure, Stream};

/// A request that came.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    /// As on the wire.
    pub method: String,
    /// As on the wire.
    pub target: String,
    /// Lower-case names.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
    /// Which connection it came by, from 1.
    pub connection: usize,
    /// The host that the client has connected to.
    pub url: String,
}

impl Seen {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        let found = headers.find(|(known, _)| known == name)?;
        Some(&found.1)
    }
}

/// Makes a step of the requests so far, the last of which it is for.
pub(crate) type Answerer = Box<dyn FnMut(&[Seen]) -> Step + Send>;

/// What the server does with a request.
pub(crate) enum Step {
    /// Sends bytes, and waits for the next request.
    Send(Vec<u8>),
    /// What depends on the request.
    Answer(Answerer),
    /// Sends bytes, and closes.
    Cut(Vec<u8>),
    /// Sends bytes, and nothing more for ever.
    Stall(Vec<u8>),
    /// Sends bytes before it reads the body of a request, and never does.
    Early(Vec<u8>),
}

/// A script, and what has come of it.
#[derive(Default)]
pub(crate) struct Script {
    steps: Mutex<VecDeque<Step>>,
    always: Mutex<Option<Answerer>>,
    seen: Mutex<Vec<Seen>>,
    connections: Mutex<usize>,
    refusals: Mutex<usize>,
}

impl Script {
    pub(crate) fn new(steps: impl IntoIterator<Item = Step>) -> Arc<Self> {
        Arc::new(Self {
            steps: Mutex::new(steps.into_iter().collect()),
            ..Self::default()
        })
    }

    /// A server that answers all requests by one rule.
    pub(crate) fn of(rule: impl FnMut(&[Seen]) -> Step + Send + 'static) -> Arc<Self> {
        Arc::new(Self {
            always: Mutex::new(Some(Box::new(rule))),
            ..Self::default()
        })
    }

    /// So many connections are refused first.
    pub(crate) fn refuse(&self, connections: usize) {
        *self.refusals.lock() = connections;
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().clone()
    }

    /// Methods and targets of the requests so far.
    pub(crate) fn lines(&self) -> Vec<String> {
        let seen = self.seen.lock();
        seen.iter()
            .map(|seen| format!("{} {}", seen.method, seen.target))
            .collect()
    }

    pub(crate) fn is_over(&self) -> bool {
        self.steps.lock().is_empty()
    }

    fn step(&self, seen: Seen) -> Step {
        let mut all = self.seen.lock();
        all.push(seen);
        let next = self.steps.lock().pop_front();
        match (next, &mut *self.always.lock()) {
            (Some(Step::Answer(mut make)), _) => make(&all),
            (Some(step), _) => step,
            (None, Some(rule)) => rule(&all),
            // Nothing that a client takes for success or tries again.
            (None, None) => Step::Send(reply(418, &[], b"the script is over")),
        }
    }

    async fn serve(self: Arc<Self>, mut stream: DuplexStream, connection: usize, url: String) {
        while let Some(mut seen) = read_head(&mut stream).await {
            seen.connection = connection;
            seen.url.clone_from(&url);
            let is_early = matches!(self.steps.lock().front(), Some(Step::Early(_)));
            if !is_early && read_body(&mut stream, &mut seen).await.is_none() {
                return;
            }
            let step = self.step(seen);
            match step {
                Step::Send(bytes) => {
                    if stream.write_all(&bytes).await.is_err() {
                        return;
                    }
                }
                Step::Cut(bytes) => {
                    let _ = stream.write_all(&bytes).await;
                    return;
                }
                Step::Stall(bytes) | Step::Early(bytes) => {
                    let _ = stream.write_all(&bytes).await;
                    std::future::pending::<()>().await;
                }
                Step::Answer(_) => return,
            }
        }
    }
}

async fn read_head(stream: &mut DuplexStream) -> Option<Seen> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    let text = String::from_utf8_lossy(&head).into_owned();
    let mut lines = text.lines();
    let mut words = lines.next()?.split(' ');
    let mut seen = Seen {
        method: words.next()?.to_owned(),
        target: words.next()?.to_owned(),
        headers: Vec::new(),
        body: Vec::new(),
        connection: 0,
        url: String::new(),
    };
    for line in lines {
        if let Some((name, value)) = line.split_once(": ") {
            let name = name.to_ascii_lowercase();
            seen.headers.push((name, value.to_owned()));
        }
    }
    Some(seen)
}

async fn read_body(stream: &mut DuplexStream, seen: &mut Seen) -> Option<()> {
    let length = seen.header("content-length").unwrap_or("0");
    seen.body = vec![0; length.parse().ok()?];
    stream.read_exact(&mut seen.body).await.ok()?;
    Some(())
}

/// The connections to a script.
pub(crate) struct Scripted(pub Arc<Script>);

impl Connect for Scripted {
    fn connect<'a>(&'a self, origin: &'a Origin) -> Connecting<'a> {
        Box::pin(async move {
            let mut refusals = self.0.refusals.lock();
            if *refusals > 0 {
                *refusals -= 1;
                return Err(Failure::not_sent("refused".to_owned()));
            }
            let (client, server) = tokio::io::duplex(64 * 1024);
            let mut connections = self.0.connections.lock();
            *connections += 1;
            let script = Arc::clone(&self.0);
            tokio::spawn(script.serve(server, *connections, origin.url()));
            let client: Box<dyn Stream> = Box::new(client);
            Ok(client)
        })
    }
}

/// An answer whose length is right, unless `headers` have another one.
pub(crate) fn reply(status: u16, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut text = format!("HTTP/1.1 {status} Some\r\n");
    for (name, value) in headers {
        text += &format!("{name}: {value}\r\n");
    }
    let is_framed = headers.iter().any(|(name, _)| {
        ["content-length", "transfer-encoding"].contains(&name.to_ascii_lowercase().as_str())
    });
    if !is_framed {
        text += &format!("content-length: {}\r\n", body.len());
    }
    text += "\r\n";
    [text.as_bytes(), body].concat()
}

/// An answer of 206 with the bytes of `range` of `body`.
pub(crate) fn part(body: &[u8], range: std::ops::Range<usize>, etag: &str) -> Vec<u8> {
    let total = body.len();
    let range_text = format!("bytes {}-{}/{total}", range.start, range.end - 1);
    let headers = [("Content-Range", range_text.as_str()), ("ETag", etag)];
    reply(206, &headers, &body[range])
}

/// The first bytes of an answer: its head and so much of its body.
pub(crate) fn begin(answer: &[u8], body_bytes: usize) -> Vec<u8> {
    let end = answer
        .windows(4)
        .position(|bytes| bytes == b"\r\n\r\n")
        .expect("the end of a head");
    answer[..end + 4 + body_bytes].to_vec()
}

/// What has come into a sink.
#[derive(Clone, Debug, Default)]
pub(crate) struct Collected {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// The end.
    pub end: Option<Result<()>>,
}

/// A sink that keeps what comes.
#[derive(Clone, Default)]
pub(crate) struct Collector(Arc<Mutex<Collected>>);

impl Collector {
    pub(crate) fn collected(&self) -> Collected {
        self.0.lock().clone()
    }
}

impl Sink for Collector {
    fn put(&mut self, bytes: &[u8]) {
        self.0.lock().bytes.extend_from_slice(bytes);
    }

    fn end(self: Box<Self>, result: Result<()>) {
        let before = self.0.lock().end.replace(result);
        assert_eq!(before, None, "the end came twice");
    }
}
