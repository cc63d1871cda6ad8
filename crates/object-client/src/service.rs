//! A call until it is done: tries, lessons of refusals, and the budget that bounds both.

use std::future::Future;

use hyper::StatusCode;
use hyper::header::{HeaderValue, IF_MATCH};

use crate::activity::Kind;
use crate::error::{Error, Result};
use crate::refusal::Refusal;
use crate::transport::{Call, Failure, Head, Transport};
use crate::version::Version;

const REFUSAL_BYTES_MAX: usize = 64 * 1024;
/// Bytes that are read to their end so that the connection can be kept.
const REST_BYTES_MAX: usize = 4 * 1024;
/// How often a call may be made again at once because a refusal taught something.
const LESSONS_MAX: u32 = 3;

/// The prefix of headers of metadata, unless a store has another.
const METADATA: &str = "x-amz-meta-";

pub(crate) trait Service: Send + Sync + 'static {
    /// Whether it keeps objects and their headers as they were put.
    const IS_STORE: bool;

    fn transport(&self) -> &Transport;

    fn metadata_header(name: &str) -> String {
        format!("{METADATA}{name}")
    }

    fn metadata_name(header: &str) -> Option<String> {
        header.strip_prefix(METADATA).map(str::to_owned)
    }

    /// Makes a call ready for a try: keys, and where it goes.
    fn prepare(&self, call: &mut Call) -> impl Future<Output = Result<()>> + Send;

    /// Whether a refusal taught something that makes another try right; `tried` is `call` behind
    /// its redirects.
    fn learn(&self, call: &Call, tried: &Call, refusal: &Refusal) -> bool;

    /// A call was answered; `tried` is `call` behind its redirects.
    fn answered(&self, call: &Call, tried: &Call);

    /// Makes a call for bytes conditional on this version.
    ///
    /// # Errors
    /// When no request can hold the version's name.
    fn pin(&self, call: &mut Call, version: &Version) -> Result<()> {
        if let Some(etag) = version.strong_etag() {
            let etag = HeaderValue::try_from(etag).map_err(|_| {
                let shown = call.target.shown();
                Error::Invalid(format!("{shown}: no ETag for a header"))
            })?;
            call.headers.insert(IF_MATCH, etag);
        }
        Ok(())
    }

    /// Sets the ETag of a reply with bytes, where a store has another name for versions.
    fn name_version(_head: &mut Head) {}
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub head: Head,
    pub body: Vec<u8>,
}

#[derive(Debug)]
pub(crate) struct Ended {
    pub result: Result<Answer>,
    /// Whether a try that seemed to fail may have changed something.
    pub is_unclear: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// Its body, up to so many bytes.
    Body(usize),
    Head,
}

/// Lessons of one call.
#[derive(Debug, Default)]
pub(crate) struct Lessons(u32);

impl Lessons {
    pub(crate) fn learn<S: Service>(
        &mut self,
        service: &S,
        call: &Call,
        tried: &Call,
        refusal: &Refusal,
    ) -> bool {
        let is_new = self.0 < LESSONS_MAX && service.learn(call, tried, refusal);
        self.0 += u32::from(is_new);
        is_new
    }
}

/// Makes a call until it is answered or another try is of no use.
pub(crate) async fn exchange<S: Service>(service: &S, call: &Call, wanted: Wanted) -> Ended {
    let transport = service.transport();
    let mut budget = transport.budget();
    let mut lessons = Lessons::default();
    let mut is_unclear = false;
    loop {
        let mut tried = call.clone();
        let refusal = match attempt(service, &mut tried, wanted).await {
            Ok(answer) => {
                service.answered(call, &tried);
                return Ended {
                    result: Ok(answer),
                    is_unclear,
                };
            }
            Err(refusal) => refusal,
        };
        if lessons.learn(service, call, &tried, &refusal) {
            continue;
        }
        is_unclear |= refusal.failure.is_unclear && !call.is_reading();
        let origin = &tried.target.origin;
        if let Err(error) = transport.again(origin, refusal.failure, &mut budget).await {
            return Ended {
                result: Err(error),
                is_unclear,
            };
        }
    }
}

pub(crate) async fn attempt<S: Service>(
    service: &S,
    tried: &mut Call,
    wanted: Wanted,
) -> std::result::Result<Answer, Refusal> {
    service
        .prepare(tried)
        .await
        .map_err(|error| Refusal::from(Failure::unready(error)))?;
    let mut reply = service.transport().follow(tried).await?;
    let head = reply.head().clone();
    let is_success = head.status.is_success();
    let limit = match (is_success, wanted) {
        (false, _) => REFUSAL_BYTES_MAX,
        (true, Wanted::Body(limit)) => limit,
        (true, Wanted::Head) => REST_BYTES_MAX,
    };
    let is_long = head
        .content_length()
        .is_some_and(|length| length > limit as u64);
    let body = match is_long && tried.method != hyper::Method::HEAD {
        true => None,
        false => reply.collect(limit).await?,
    };
    if !is_success {
        return Err(Refusal::of(tried, &head, &body.unwrap_or_default()));
    }
    let body = match (body, wanted) {
        (Some(body), _) => body,
        (None, Wanted::Head) => Vec::new(),
        (None, Wanted::Body(_)) => {
            let text = format!("{}: more than {limit} bytes", tried.target.shown());
            return Err(Refusal::from(Failure::lasting(Error::Protocol(text))));
        }
    };
    // Some calls begin to answer before they know how they end.
    if tried.kind == Kind::Put
        && head.status == StatusCode::OK
        && let Some(refusal) = Refusal::within(tried, &head, &body)
    {
        return Err(refusal);
    }
    Ok(Answer { head, body })
}
