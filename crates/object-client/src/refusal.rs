//! Answers of failure: what they mean by the code of their XML or JSON, then by their status.

use hyper::StatusCode;
use pagewell_base::line::one_line;

use crate::error::Error;
use crate::json;
use crate::transport::{Call, Failure, Head};
use crate::xml;

/// An answer of failure, or none.
#[derive(Clone, Debug)]
pub(crate) struct Refusal {
    /// What to do about it.
    pub failure: Failure,
    /// The code of the XML, or the reason of the JSON; empty without.
    pub code: String,
    /// The region that the server names.
    pub region: Option<String>,
}

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Self {
        Self {
            failure,
            code: String::new(),
            region: None,
        }
    }
}

/// Characters of a server's text that people are shown.
const SHOWN_MAX: usize = 200;

impl Refusal {
    /// What an answer means that is no success.
    pub(crate) fn of(call: &Call, head: &Head, body: &[u8]) -> Self {
        let said = xml::error(body).or_else(|| json::error(body));
        let said = said.unwrap_or_default();
        Self::from_said(call, head, head.status, said)
    }

    /// What is wrong with an answer of success that holds an error.
    pub(crate) fn within(call: &Call, head: &Head, body: &[u8]) -> Option<Self> {
        let said = xml::error(body)?;
        let status = StatusCode::INTERNAL_SERVER_ERROR;
        Some(Self::from_said(call, head, status, said))
    }

    fn from_said(call: &Call, head: &Head, status: StatusCode, said: xml::Said) -> Self {
        let code = said.code;
        let text = text(call, status, &code, &said.message);
        let region = head.named("x-amz-bucket-region").map(str::to_owned);
        Self {
            failure: Failure {
                retry_after: head.retry_after(),
                ..failure(status, &code, text)
            },
            code,
            region: region.or(said.region),
        }
    }
}

fn text(call: &Call, status: StatusCode, code: &str, message: &str) -> String {
    let number = status.as_u16();
    let message: String = message.chars().take(SHOWN_MAX).collect();
    let (method, shown) = (&call.method, call.target.shown());
    let text = match (code, message.as_str()) {
        ("", _) => format!("{method} {shown}: status {number}"),
        (code, "") => format!("{method} {shown}: {code} ({number})"),
        (code, message) => format!("{method} {shown}: {code} ({number}): {message}"),
    };
    one_line(&text)
}

/// What to do, by code, then by status.
fn failure(status: StatusCode, code: &str, text: String) -> Failure {
    let passing = |error: Error| Failure {
        is_passing: true,
        ..Failure::lasting(error)
    };
    let unclear = |error: Error| Failure {
        is_unclear: true,
        ..passing(error)
    };
    let throttled = |error: Error| Failure {
        is_throttled: true,
        ..unclear(error)
    };
    match code {
        "SlowDown"
        | "SlowDownRead"
        | "SlowDownWrite"
        | "ServiceUnavailable"
        | "Throttling"
        | "ThrottlingException"
        | "RequestLimitExceeded"
        | "TooManyRequests"
        | "rateLimitExceeded"
        | "userRateLimitExceeded" => {
            return throttled(Error::TryLater(text));
        }
        // The body was damaged or slow on its way, or another change came between.
        "RequestTimeout"
        | "IncompleteBody"
        | "BadDigest"
        | "XAmzContentSHA256Mismatch"
        | "ConditionalRequestConflict"
        | "OperationAborted" => {
            return passing(Error::TryLater(text));
        }
        "InternalError" | "backendError" | "internalError" => {
            return unclear(Error::TryLater(text));
        }
        "AccessDenied"
        | "InvalidAccessKeyId"
        | "SignatureDoesNotMatch"
        | "RequestTimeTooSkewed"
        | "NotSignedUp"
        | "ExpiredToken"
        | "InvalidToken"
        | "XAdminUserNotFound"
        | "AuthorizationHeaderMalformed"
        | "AccountProblem" => {
            return Failure::lasting(Error::Denied(text));
        }
        "NoSuchBucket" | "PermanentRedirect" => return Failure::lasting(Error::Invalid(text)),
        "NotImplemented" => return Failure::lasting(Error::Unsupported(text)),
        "PreconditionFailed" | "conditionNotMet" => return Failure::lasting(Error::Changed),
        _ => {}
    }
    match status.as_u16() {
        401 | 403 => Failure::lasting(Error::Denied(text)),
        404 | 410 => Failure::lasting(Error::NotFound),
        405 | 501 => Failure::lasting(Error::Unsupported(text)),
        412 | 416 => Failure::lasting(Error::Changed),
        429 | 503 => throttled(Error::TryLater(text)),
        408 | 425 | 500 | 502 | 504 | 509 => unclear(Error::TryLater(text)),
        400..=499 => Failure::lasting(Error::Invalid(text)),
        _ => Failure::lasting(Error::Protocol(text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::activity::Kind;
    use crate::location::Origin;
    use crate::transport::Target;
    use hyper::Method;
    use hyper::header::HeaderMap;

    fn refused(status: u16, body: &str) -> Refusal {
        let (origin, _) = Origin::parse("http://h").expect("an origin");
        let target = Target {
            origin,
            path_and_query: "/b/k?secret".to_owned(),
        };
        let head = Head {
            status: StatusCode::from_u16(status).expect("a status"),
            headers: HeaderMap::new(),
        };
        let call = Call::new(Kind::Put, Method::PUT, target);
        Refusal::of(&call, &head, body.as_bytes())
    }

    fn with_code(status: u16, code: &str) -> Failure {
        let body = format!("<?xml version=\"1.0\"?>\n<Error><Code>{code}</Code></Error>");
        refused(status, &body).failure
    }

    #[test]
    fn the_code_goes_before_the_status() {
        for (status, code) in [
            (404, "XAdminUserNotFound"),
            (400, "AccessDenied"),
            (403, "x"),
        ] {
            let failure = with_code(status, code);
            assert!(matches!(failure.error, Error::Denied(_)), "{status} {code}");
            assert!(!failure.is_passing);
        }
        assert_eq!(with_code(404, "NoSuchKey").error, Error::NotFound);
        assert!(matches!(
            with_code(404, "NoSuchBucket").error,
            Error::Invalid(_)
        ));
        assert_eq!(with_code(400, "PreconditionFailed").error, Error::Changed);
        assert!(with_code(409, "ConditionalRequestConflict").is_passing);
        assert!(!with_code(409, "ObjectParentIsFile").is_passing);
        assert!(with_code(400, "SlowDown").is_throttled);
        assert!(with_code(400, "RequestTimeout").is_passing);
    }

    #[test]
    fn reasons_of_json_are_codes() {
        let with_reason = |status, reason: &str| {
            let errors = format!("[{{\"reason\": \"{reason}\"}}]");
            let body =
                format!("{{\"error\": {{\"message\": \"of a test\", \"errors\": {errors}}}}}");
            refused(status, &body).failure
        };
        assert_eq!(with_reason(412, "conditionNotMet").error, Error::Changed);
        // A quota of requests is a refusal of a right by its status alone.
        assert!(with_reason(403, "rateLimitExceeded").is_throttled);
        assert!(with_reason(403, "userRateLimitExceeded").is_throttled);
        assert!(with_reason(429, "x").is_throttled);
        assert!(with_reason(503, "backendError").is_unclear);
        assert!(with_reason(410, "backendError").is_passing);
        assert_eq!(with_reason(404, "notFound").error, Error::NotFound);
        let denied = with_reason(403, "forbidden").error.to_string();
        assert_eq!(denied, "PUT http://h/b/k: forbidden (403): of a test");
        let lost = with_reason(401, "authError");
        assert!(!lost.is_passing && matches!(lost.error, Error::Denied(_)));
    }

    #[test]
    fn statuses_alone_mean_something() {
        let of = |status| refused(status, "<html>not XML").failure;
        for status in [429, 503] {
            assert!(of(status).is_throttled && of(status).is_passing);
        }
        for status in [408, 500, 502, 504] {
            assert!(of(status).is_passing && of(status).is_unclear);
        }
        for (status, expected) in [(404, Error::NotFound), (412, Error::Changed)] {
            assert_eq!(of(status).error, expected);
        }
        assert!(matches!(of(501).error, Error::Unsupported(_)));
        assert!(matches!(of(403).error, Error::Denied(_)));
        assert!(matches!(of(400).error, Error::Invalid(_)));
        assert!(matches!(of(304).error, Error::Protocol(_)));
    }

    #[test]
    fn texts_are_one_line_without_the_query() {
        let body = "<Error><Code>Strange</Code><Message>a\nb\u{1b}[2J</Message></Error>";
        let text = refused(400, body).failure.error.to_string();
        assert_eq!(text, "PUT http://h/b/k: Strange (400): a\\nb\\u{1b}[2J");
    }

    #[test]
    fn a_region_is_found() {
        let body = "<Error><Code>AuthorizationHeaderMalformed</Code><Region>eu-1</Region></Error>";
        assert_eq!(refused(400, body).region.as_deref(), Some("eu-1"));
    }
}
