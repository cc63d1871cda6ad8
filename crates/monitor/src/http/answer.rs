//! An answer: a status, fields and a body in memory.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::body::{Body, Bytes, Frame, SizeHint};
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{Response, StatusCode};

pub(super) const TEXT: &str = "text/plain; charset=utf-8";

/// Fields of every answer: no caching, sniffing, framing, or use by other sites.
const FIELDS: [(HeaderName, &str); 5] = [
    (header::CACHE_CONTROL, "no-store"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "no-referrer"),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    ),
];

/// A body of one piece.
pub(super) struct Whole(Option<Bytes>);

impl Body for Whole {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.take().map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.as_ref().map_or(0, |bytes| bytes.len() as u64))
    }
}

pub(super) fn answer(
    status: StatusCode,
    content_type: &'static str,
    body: impl Into<Bytes>,
) -> Response<Whole> {
    let mut answer = Response::new(Whole(Some(body.into())));
    *answer.status_mut() = status;
    let content_type = HeaderValue::from_static(content_type);
    answer
        .headers_mut()
        .insert(header::CONTENT_TYPE, content_type);
    for (name, value) in FIELDS {
        let value = HeaderValue::from_static(value);
        answer.headers_mut().insert(name, value);
    }
    answer
}

/// A refusal with a one-line reason.
pub(super) fn refusal(status: StatusCode, line: &'static str) -> Response<Whole> {
    answer(status, TEXT, format!("pagewell: {line}\n"))
}

impl Whole {
    /// The body.
    #[cfg(test)]
    pub(super) fn into_text(self) -> String {
        String::from_utf8(self.0.unwrap_or_default().to_vec()).unwrap_or_default()
    }
}
