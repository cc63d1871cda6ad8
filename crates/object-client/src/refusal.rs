//! Replies of failure: their code in XML or JSON, their text, and what to do.

use std::time::{Duration, SystemTime};

use hyper::StatusCode;
use hyper::header::DATE;
use pagewell_base::line::one_line;

use crate::codes::{self, Meaning};
use crate::date;
use crate::error::Error;
use crate::json;
use crate::transport::{Call, Failure, Head};
use crate::xml;

#[derive(Clone, Debug)]
pub(crate) struct Refusal {
    pub failure: Failure,
    /// The code of the XML, or the reason of the JSON; empty without.
    pub code: String,
    pub region: Option<String>,
    /// Whether the server takes no credentials, or wants others (401).
    pub is_unauthenticated: bool,
}

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Self {
        Self {
            failure,
            code: String::new(),
            region: None,
            is_unauthenticated: false,
        }
    }
}

const CODE: &str = "x-ms-error-code";
/// Codes behind which the signature or the clock may be wrong.
const SIGNATURE_CODES: [&str; 1] = ["AuthenticationFailed"];
/// The difference of clocks that servers allow.
const CLOCK_MAX: Duration = Duration::from_secs(15 * 60);
const SHOWN_MAX: usize = 200;

impl Refusal {
    pub(crate) fn of(call: &Call, head: &Head, body: &[u8]) -> Self {
        let said = xml::error(body).or_else(|| json::error(body));
        let mut said = said.unwrap_or_default();
        if said.code.is_empty() {
            // Where the reply has no body, as that of a HEAD.
            head.named(CODE).unwrap_or("").clone_into(&mut said.code);
        }
        Self::from_said(call, head, head.status, said)
    }

    /// The error inside a reply of success.
    pub(crate) fn within(call: &Call, head: &Head, body: &[u8]) -> Option<Self> {
        let said = xml::error(body)?;
        let status = StatusCode::INTERNAL_SERVER_ERROR;
        Some(Self::from_said(call, head, status, said))
    }

    fn from_said(call: &Call, head: &Head, status: StatusCode, said: xml::Said) -> Self {
        let code = said.code;
        let reason = reason(head, &code, SystemTime::now());
        let text = text(call, status, &code, &said.message) + &reason;
        let region = head.named("x-amz-bucket-region").map(str::to_owned);
        Self {
            failure: Failure {
                retry_after: head.retry_after(),
                ..failure(status, &code, text)
            },
            code,
            region: region.or(said.region),
            is_unauthenticated: status == StatusCode::UNAUTHORIZED,
        }
    }
}

fn reason(head: &Head, code: &str, now: SystemTime) -> String {
    if !SIGNATURE_CODES.contains(&code) {
        return String::new();
    }
    let server = head.text(&DATE).and_then(date::http).unwrap_or(now);
    let (apart, word) = match now.duration_since(server) {
        Ok(ahead) => (ahead, "ahead of"),
        Err(behind) => (behind.duration(), "behind"),
    };
    if apart < CLOCK_MAX {
        return "; the key, the token or the signature is not right".to_owned();
    }
    let minutes = apart.as_secs() / 60;
    format!("; the clock of this machine is {minutes} minutes {word} the server's")
}

fn text(call: &Call, status: StatusCode, code: &str, message: &str) -> String {
    let number = status.as_u16();
    // Azure adds number and time of the request, line by line.
    let message = message.split("\nRequestId:").next().unwrap_or("");
    let message: String = message.chars().take(SHOWN_MAX).collect();
    let (method, shown) = (&call.method, call.target.shown());
    let text = match (code, message.as_str()) {
        ("", _) => format!("{method} {shown}: status {number}"),
        (code, "") => format!("{method} {shown}: {code} ({number})"),
        (code, message) => format!("{method} {shown}: {code} ({number}): {message}"),
    };
    one_line(&text)
}

fn failure(status: StatusCode, code: &str, text: String) -> Failure {
    let meaning = codes::meaning(status.as_u16(), code);
    let error = match meaning {
        Meaning::Throttled | Meaning::Unclear | Meaning::Again => Error::TryLater(text),
        Meaning::Denied => Error::Denied(text),
        Meaning::NotFound => Error::NotFound,
        Meaning::Changed => Error::Changed,
        Meaning::Exists => Error::Exists,
        Meaning::Unsupported => Error::Unsupported(text),
        Meaning::Invalid => Error::Invalid(text),
        Meaning::Strange => Error::Protocol(text),
    };
    let is_throttled = meaning == Meaning::Throttled;
    let is_unclear = is_throttled || meaning == Meaning::Unclear;
    Failure {
        is_passing: is_unclear || meaning == Meaning::Again,
        is_unclear,
        is_throttled,
        ..Failure::lasting(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::activity::Kind;
    use crate::location::Origin;
    use crate::transport::Target;
    use hyper::Method;
    use hyper::header::{HeaderMap, HeaderName, HeaderValue};

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
        assert!(with_reason(503, "backendError").is_throttled);
        assert!(with_reason(500, "internalError").is_unclear);
        assert_eq!(with_reason(404, "notFound").error, Error::NotFound);
        let denied = with_reason(403, "forbidden").error.to_string();
        assert_eq!(denied, "PUT http://h/b/k: forbidden (403): of a test");
        let lost = with_reason(401, "authError");
        assert!(!lost.is_passing && matches!(lost.error, Error::Denied(_)));
    }

    #[test]
    fn a_signature_is_wrong_by_its_time_or_else() {
        let (server, minute) = (date::http("Sat, 28 Nov 2026 03:21:43 GMT"), 60);
        let server = server.expect("a time");
        let headers = [(
            DATE,
            HeaderValue::from_static("Sat, 28 Nov 2026 03:21:43 GMT"),
        )];
        let head = Head {
            status: StatusCode::FORBIDDEN,
            headers: headers.into_iter().collect(),
        };
        let at = |now| reason(&head, "AuthenticationFailed", now);
        let ahead = at(server + Duration::from_secs(20 * minute));
        assert_eq!(
            ahead,
            "; the clock of this machine is 20 minutes ahead of the server's"
        );
        let behind = at(server - Duration::from_secs(90 * minute));
        assert!(
            behind.ends_with("90 minutes behind the server's"),
            "{behind}"
        );
        assert!(at(server).contains("the key"));
        assert_eq!(reason(&head, "AccessDenied", server), "");
    }

    /// The answer to a HEAD has no body; a body may begin with a mark of its encoding.
    #[test]
    fn errors_of_azure_are_read() {
        let body = "\u{feff}<?xml version=\"1.0\"?><Error><Code>ServerBusy</Code><Message>Busy.\n\
                    RequestId:1-2\nTime:2026</Message></Error>";
        let busy = refused(503, body).failure;
        assert!(busy.is_throttled);
        assert_eq!(
            busy.error.to_string(),
            "PUT http://h/b/k: ServerBusy (503): Busy."
        );
        let (origin, _) = Origin::parse("http://h").expect("an origin");
        let target = Target {
            origin,
            path_and_query: "/c/k".to_owned(),
        };
        let call = Call::new(Kind::Head, Method::HEAD, target);
        let code = (
            HeaderName::from_static(CODE),
            HeaderValue::from_static("ContainerNotFound"),
        );
        let head = Head {
            status: StatusCode::NOT_FOUND,
            headers: [code].into_iter().collect(),
        };
        let failure = Refusal::of(&call, &head, b"").failure;
        assert_eq!(
            failure.error.to_string(),
            "HEAD http://h/c/k: ContainerNotFound (404)"
        );
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
