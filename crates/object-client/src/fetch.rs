//! Bytes of one version, into a sink: a body that is cut goes on where it ended, on the same
//! version only.

use std::ops::Range;
use std::sync::Arc;

use hyper::header::{HeaderValue, RANGE};
use tokio::time::Instant;

use crate::error::{Error, Result};
use crate::range::{Verdict, check};
use crate::refusal::Refusal;
use crate::remote::Sink;
use crate::service::{Lessons, Service};
use crate::transport::{Call, Failure, Reply};
use crate::version::Version;

/// Bytes that give a new budget.
const PROGRESS_BYTES: u64 = 64 * 1024;
/// Wrong replies before the server counts as wrong.
const WRONG_MAX: u32 = 1;
const REFUSAL_BYTES_MAX: usize = 64 * 1024;

/// A sink, whose end is called once whatever happens.
pub(crate) struct End(Option<Box<dyn Sink>>);

impl End {
    pub(crate) fn new(sink: Box<dyn Sink>) -> Self {
        Self(Some(sink))
    }

    fn put(&mut self, bytes: &[u8]) {
        if let Some(sink) = &mut self.0 {
            sink.put(bytes);
        }
    }

    pub(crate) fn end(mut self, result: Result<()>) {
        if let Some(sink) = self.0.take() {
            sink.end(result);
        }
    }
}

impl Drop for End {
    fn drop(&mut self) {
        if let Some(sink) = self.0.take() {
            let text = "the fetch was given up by the runtime";
            sink.end(Err(Error::Unreachable(text.to_owned())));
        }
    }
}

struct Progress<'a> {
    version: &'a Version,
    range: Range<u64>,
    next: u64,
    sink: &'a mut End,
}

enum Stopped {
    Refused(Refusal),
    Wrong(String),
    Over(Error),
}

impl From<Failure> for Stopped {
    fn from(failure: Failure) -> Self {
        Self::Refused(Refusal::from(failure))
    }
}

pub(crate) async fn fetch<S: Service>(
    service: Arc<S>,
    call: Call,
    version: Version,
    range: Range<u64>,
    mut sink: End,
) {
    let mut progress = Progress {
        version: &version,
        next: range.start,
        range,
        sink: &mut sink,
    };
    let result = run(service.as_ref(), &call, &mut progress).await;
    sink.end(result);
}

async fn run<S: Service>(service: &S, call: &Call, progress: &mut Progress<'_>) -> Result<()> {
    let (range, length) = (&progress.range, progress.version.length_bytes);
    if range.start > range.end || range.end > length {
        let shown = call.target.shown();
        let text = format!("{shown}: no bytes {range:?} of {length}");
        return Err(Error::Invalid(text));
    }
    if range.is_empty() {
        return Ok(());
    }
    let transport = service.transport();
    let mut budget = transport.budget();
    let mut lessons = Lessons::default();
    let mut wrong = 0;
    let mut mark = progress.next;
    loop {
        let mut tried = call.clone();
        let refusal = match part(service, &mut tried, progress).await {
            Ok(()) => {
                service.answered(call, &tried);
                return Ok(());
            }
            Err(Stopped::Over(error)) => return Err(error),
            Err(Stopped::Wrong(reason)) => {
                wrong += 1;
                let text = format!("{}: {reason}", tried.target.shown());
                if wrong > WRONG_MAX {
                    return Err(Error::Protocol(text));
                }
                Refusal::from(Failure::lost(text))
            }
            // What ended after the last byte has brought all of them.
            Err(Stopped::Refused(_)) if progress.next == progress.range.end => return Ok(()),
            Err(Stopped::Refused(refusal)) => refusal,
        };
        if progress.next - mark >= PROGRESS_BYTES {
            mark = progress.next;
            budget.renew(Instant::now());
        }
        if !lessons.learn(service, call, &tried, &refusal) {
            let origin = &tried.target.origin;
            transport
                .again(origin, refusal.failure, &mut budget)
                .await?;
        }
    }
}

async fn part<S: Service>(
    service: &S,
    call: &mut Call,
    progress: &mut Progress<'_>,
) -> std::result::Result<(), Stopped> {
    let missing = progress.next..progress.range.end;
    let range = format!("bytes={}-{}", missing.start, missing.end - 1);
    let range = HeaderValue::try_from(range).map_err(|_| {
        let text = format!("{}: no range", call.target.shown());
        Stopped::Over(Error::Invalid(text))
    })?;
    call.headers.insert(RANGE, range);
    service.pin(call, progress.version).map_err(Stopped::Over)?;
    service.prepare(call).await.map_err(Failure::unready)?;
    let mut reply = service.transport().follow(call).await?;
    if !reply.head().status.is_success() {
        let body = reply.collect(REFUSAL_BYTES_MAX).await?.unwrap_or_default();
        return Err(Stopped::Refused(Refusal::of(call, reply.head(), &body)));
    }
    let mut head = reply.head().clone();
    S::name_version(&mut head);
    match check(&head, progress.version, &missing, S::IS_STORE) {
        Verdict::Right => receive(call, &mut reply, progress).await,
        Verdict::Changed => Err(Stopped::Over(Error::Changed)),
        Verdict::Wrong(reason) => Err(Stopped::Wrong(reason)),
        // Fails also when it comes after a cut: another try would get the same.
        Verdict::Ignored => Err(Stopped::Over(Error::Unsupported(format!(
            "{}: the server ignores ranges and sends all {} bytes",
            call.target.shown(),
            progress.version.length_bytes
        )))),
    }
}

async fn receive(
    call: &Call,
    reply: &mut Reply,
    progress: &mut Progress<'_>,
) -> std::result::Result<(), Stopped> {
    while let Some(bytes) = reply.next().await? {
        let missing = progress.range.end - progress.next;
        if bytes.len() as u64 > missing {
            let text = format!(
                "{}: more bytes came than were asked for",
                call.target.shown()
            );
            return Err(Stopped::Over(Error::Protocol(text)));
        }
        progress.sink.put(&bytes);
        progress.next += bytes.len() as u64;
    }
    if progress.next == progress.range.end {
        return Ok(());
    }
    let text = format!(
        "{}: fewer bytes came than were asked for",
        call.target.shown()
    );
    Err(Stopped::from(Failure::lost(text)))
}
