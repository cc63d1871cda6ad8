//! An answer: its head, and its body as it comes.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use hyper::body::{Body as _, Incoming};
use hyper::header::{CONTENT_LENGTH, HeaderMap, HeaderName, RETRY_AFTER};
use hyper::{Response, StatusCode};

use crate::activity::Counts;
use crate::date;
use crate::transport::failure::{Failure, reason};
use crate::transport::payload::Progress;
use crate::transport::pool::Connection;

#[derive(Clone, Debug)]
pub(crate) struct Head {
    pub status: StatusCode,
    pub headers: HeaderMap,
}

impl Head {
    pub(crate) fn text(&self, name: &HeaderName) -> Option<&str> {
        self.headers.get(name)?.to_str().ok().map(str::trim)
    }

    pub(crate) fn named(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok().map(str::trim)
    }

    pub(crate) fn content_length(&self) -> Option<u64> {
        self.text(&CONTENT_LENGTH)?.parse().ok()
    }

    /// For how long the server wants no request: seconds or a date (RFC 9110, 10.2.3).
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        let text = self.text(&RETRY_AFTER)?;
        if let Ok(seconds) = text.parse() {
            return Some(Duration::from_secs(seconds));
        }
        let until = date::http(text)?;
        Some(until.duration_since(SystemTime::now()).unwrap_or_default())
    }
}

pub(crate) struct Reply {
    head: Head,
    body: Incoming,
    connection: Option<Connection>,
    request: Arc<Progress>,
    stall: Duration,
    url: String,
    counts: Arc<Counts>,
}

impl Reply {
    pub(crate) fn new(
        response: Response<Incoming>,
        connection: Connection,
        request: Arc<Progress>,
        stall: Duration,
        url: String,
        counts: Arc<Counts>,
    ) -> Self {
        let (parts, body) = response.into_parts();
        Self {
            head: Head {
                status: parts.status,
                headers: parts.headers,
            },
            body,
            connection: Some(connection),
            request,
            stall,
            url,
            counts,
        }
    }

    pub(crate) fn head(&self) -> &Head {
        &self.head
    }

    /// The next bytes of the body; `None` at its end.
    ///
    /// # Errors
    /// When the body is cut, or nothing comes for too long.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, Failure> {
        loop {
            let frame = poll_fn(|context| Pin::new(&mut self.body).poll_frame(context));
            let Ok(frame) = tokio::time::timeout(self.stall, frame).await else {
                self.connection = None;
                let text = format!("{}: nothing came for {:?}", self.url, self.stall);
                return Err(Failure::lost(text));
            };
            match frame {
                None => {
                    let connection = self.connection.take();
                    // A reply may come before the request is sent: the rest would follow.
                    if let Some(connection) = connection.filter(|_| self.request.is_whole()) {
                        connection.keep();
                    }
                    return Ok(None);
                }
                Some(Ok(frame)) => {
                    if let Ok(bytes) = frame.into_data() {
                        self.counts.received(bytes.len() as u64);
                        return Ok(Some(bytes));
                    }
                }
                Some(Err(error)) => {
                    self.connection = None;
                    let text = format!("{}: the answer is cut: {}", self.url, reason(&error));
                    return Err(Failure::lost(text));
                }
            }
        }
    }

    /// The whole body; `None` when it has more than `limit` bytes.
    ///
    /// # Errors
    /// As [`Reply::next`].
    pub(crate) async fn collect(&mut self, limit: usize) -> Result<Option<Vec<u8>>, Failure> {
        let mut collected = Vec::new();
        while let Some(bytes) = self.next().await? {
            if collected.len() + bytes.len() > limit {
                return Ok(None);
            }
            collected.extend_from_slice(&bytes);
        }
        Ok(Some(collected))
    }
}
