//! Requests and replies over kept connections: tries, redirects, pauses.

mod budget;
mod call;
mod connect;
mod failure;
mod payload;
mod pool;
mod redirect;
mod reply;

pub(crate) use budget::Budget;
pub(crate) use call::{Call, Sign, Target};
pub(crate) use connect::{Connect, Network};
#[cfg(test)]
pub(crate) use connect::{Connecting, Stream};
pub(crate) use failure::Failure;
pub(crate) use reply::{Head, Reply};

use std::collections::HashMap;
use std::future::{Future as _, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::{Duration, SystemTime};

use hyper::header::{ACCEPT_ENCODING, CONTENT_LENGTH, HOST, HeaderValue, USER_AGENT};
use hyper::http::uri::PathAndQuery;
use hyper::{Request, Uri};
use pagewell_base::mix::{STEP, mix};
use pagewell_base::sync::Mutex;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use crate::activity::{Activity, Counts};
use crate::error::Error;
use crate::location::Origin;
use crate::options::Options;
use payload::{Payload, Progress};
use pool::{Connection, Host};

const HOSTS_MAX: usize = 32;
const REDIRECTS_MAX: usize = 5;
/// How long an unreached host is tried: its name or port may be wrong.
const STRANGER_PATIENCE: Duration = Duration::from_secs(5);
/// Kept connections that may turn out closed, one after the other.
const CLOSED_MAX: usize = 8;
const AGENT: &str = concat!("pagewell/", env!("CARGO_PKG_VERSION"));

pub(crate) struct Transport {
    connect: Box<dyn Connect>,
    hosts: Mutex<HashMap<Origin, Arc<Host>>>,
    connections_max: usize,
    stall: Duration,
    retry: Duration,
    counts: Arc<Counts>,
    seed: AtomicU64,
}

enum Sent {
    Answered(Box<Reply>),
    /// The server had closed the connection, and has not done the request.
    Closed(OwnedSemaphorePermit),
}

impl Transport {
    pub(crate) fn new(options: &Options) -> Self {
        let network = Network::new(options.connect, options.certificates.clone());
        Self::over(Box::new(network), options)
    }

    pub(crate) fn over(connect: Box<dyn Connect>, options: &Options) -> Self {
        // Clients that fail together come back apart.
        let mut seed = [0; 8];
        let drawn = rustix::rand::getrandom(&mut seed[..], rustix::rand::GetRandomFlags::NONBLOCK);
        let seed = drawn.map_or(STEP, |_| u64::from_ne_bytes(seed));
        Self {
            connect,
            hosts: Mutex::new(HashMap::new()),
            connections_max: options.connections_max,
            stall: options.stall,
            retry: options.retry,
            counts: Arc::new(Counts::default()),
            seed: AtomicU64::new(seed),
        }
    }

    pub(crate) fn of_web(self) -> Self {
        let counts = Arc::new(Counts::of_web());
        Self { counts, ..self }
    }

    pub(crate) fn activity(&self) -> Activity {
        self.counts.now()
    }

    pub(crate) fn budget(&self) -> Budget {
        let seed = mix(self.seed.fetch_add(STEP, Ordering::Relaxed));
        Budget::new(self.retry, seed, Instant::now())
    }

    fn host(&self, origin: &Origin) -> Result<Arc<Host>, Failure> {
        let mut hosts = self.hosts.lock();
        if let Some(host) = hosts.get(origin) {
            return Ok(Arc::clone(host));
        }
        if hosts.len() >= HOSTS_MAX {
            // After redirects to ever other hosts those not in use go.
            hosts.retain(|_, host| Arc::strong_count(host) > 1);
        }
        if hosts.len() >= HOSTS_MAX {
            let text = format!("{}: redirects lead to too many hosts", origin.url());
            return Err(Failure::lasting(Error::Protocol(text)));
        }
        let host = Host::new(origin.clone(), self.connections_max);
        hosts.insert(origin.clone(), Arc::clone(&host));
        Ok(host)
    }

    ///
    /// # Errors
    /// The failure's, when no other try helps or none is left.
    pub(crate) async fn again(
        &self,
        origin: &Origin,
        failure: Failure,
        budget: &mut Budget,
    ) -> Result<(), Error> {
        if failure.is_throttled {
            self.counts.throttled();
        }
        if !failure.is_passing {
            return Err(failure.error);
        }
        let now = Instant::now();
        let Some(pause) = budget.pause(failure.retry_after, now) else {
            return Err(failure.error);
        };
        let host = self.host(origin).map_err(|failure| failure.error)?;
        if !host.was_reached() && budget.used(now) > STRANGER_PATIENCE {
            return Err(failure.error);
        }
        self.counts.retry();
        if failure.is_throttled {
            host.pause(pause);
        }
        tokio::time::sleep(pause).await;
        Ok(())
    }

    /// One try, behind its redirects. `call` has the last target afterwards.
    pub(crate) async fn follow(&self, call: &mut Call) -> Result<Reply, Failure> {
        for _ in 0..=REDIRECTS_MAX {
            let mut reply = self.attempt(call).await?;
            let Some(target) = redirect::target(call, reply.head()).map_err(Failure::lasting)?
            else {
                return Ok(reply);
            };
            // Read to its end, the connection can be kept.
            reply.collect(redirect::BODY_BYTES_MAX).await?;
            call.target = target;
        }
        let text = format!(
            "{}: more than {REDIRECTS_MAX} redirects",
            call.target.shown()
        );
        Err(Failure::lasting(Error::Protocol(text)))
    }

    async fn attempt(&self, call: &Call) -> Result<Reply, Failure> {
        let host = self.host(&call.target.origin)?;
        host.wait_pause().await;
        let mut slot = host.slot(call.has_body()).await?;
        self.counts.request(call.kind, call.body_bytes() as u64);
        for _ in 0..CLOSED_MAX {
            let connection = host
                .connection(slot, self.connect.as_ref(), &self.counts)
                .await?;
            match self.send(call, connection).await? {
                Sent::Answered(reply) => return Ok(*reply),
                Sent::Closed(free) => slot = free,
            }
        }
        Err(call.failed("the server closes each connection"))
    }

    async fn send(&self, call: &Call, mut connection: Connection) -> Result<Sent, Failure> {
        let progress = Progress::new();
        let payload = Payload::new(call.pieces(), Arc::clone(&progress));
        let request = request(call, payload)?;
        let began = Instant::now();
        let stall = self.stall.max(call.patience);
        let mut sent = pin!(connection.sender().try_send_request(request));
        let mut stalled = pin!(progress.stalled(stall));
        let answered = poll_fn(|context| match sent.as_mut().poll(context) {
            Poll::Ready(answered) => Poll::Ready(Some(answered)),
            Poll::Pending => stalled.as_mut().poll(context).map(|()| None),
        });
        let Some(answered) = answered.await else {
            let text = format!("{}: no answer for {stall:?}", call.target.shown());
            return Err(Failure::lost(text));
        };
        let is_reused = connection.is_reused();
        match answered {
            Ok(response) => {
                Counts::answered(began.elapsed());
                let (url, counts) = (call.target.shown(), Arc::clone(&self.counts));
                let request = Arc::clone(&progress);
                let reply = Reply::new(response, connection, request, stall, url, counts);
                Ok(Sent::Answered(Box::new(reply)))
            }
            Err(mut error) => {
                let is_unsent = error.take_message().is_some();
                let error = error.into_error();
                let is_closed = error.is_closed() || error.is_incomplete_message();
                if is_reused && (is_unsent || (is_closed && call.is_reading())) {
                    return Ok(Sent::Closed(connection.close()));
                }
                let text = format!("{}: {}", call.target.shown(), failure::reason(&error));
                Err(match (is_unsent, error.is_parse()) {
                    (true, _) => Failure::not_sent(text),
                    // A server that speaks no HTTP will not do so the next time.
                    (false, true) => Failure {
                        is_unclear: true,
                        ..Failure::lasting(Error::Protocol(text))
                    },
                    (false, false) => Failure::lost(text),
                })
            }
        }
    }
}

/// The request of one try, signed now.
fn request(call: &Call, payload: Payload) -> Result<Request<Payload>, Failure> {
    let invalid = |text: &str| {
        let text = format!("{}: {text}", call.target.shown());
        Failure::lasting(Error::Invalid(text))
    };
    let path = PathAndQuery::try_from(call.target.path_and_query.as_str())
        .map_err(|_| invalid("no path of a request, or too long"))?;
    let mut headers = call.headers.clone();
    if let Some(signing) = &call.signing {
        signing.sign(call, &mut headers, SystemTime::now());
    }
    let host = HeaderValue::try_from(call.target.origin.authority());
    headers.insert(HOST, host.map_err(|_| invalid("no name of a host"))?);
    let identity = HeaderValue::from_static("identity");
    headers.entry(ACCEPT_ENCODING).or_insert(identity);
    headers.insert(USER_AGENT, HeaderValue::from_static(AGENT));
    if !call.is_reading() {
        // By itself hyper sends none for an empty body, which some servers refuse.
        headers.insert(CONTENT_LENGTH, HeaderValue::from(call.body_bytes()));
    }
    let mut request = Request::new(payload);
    *request.method_mut() = call.method.clone();
    *request.uri_mut() = Uri::from(path);
    *request.headers_mut() = headers;
    Ok(request)
}
