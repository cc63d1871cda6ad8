//! The documents by path, and access to them.

use std::sync::Arc;

use hyper::header::{self, HeaderValue};
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use serde::Serialize;

use super::answer::{TEXT, Whole, answer, refusal};
use super::host::is_own;
use super::page;
use super::token::Token;
use crate::history::{History, Span};
use crate::metrics::{Snapshot, prometheus};
use crate::status::{Status, View};

const JSON: &str = "application/json";

const MISDIRECTED: &str =
    "ask for this server by its address, as localhost, or by the machine's own name";

/// The documents of a server.
pub(super) struct Site {
    /// Requests need it, except those of supervisors.
    pub(super) token: Option<Token>,
    /// The process' description of itself.
    pub(super) status: Arc<Status>,
    pub(super) history: Arc<History>,
    /// Checks the `Host` field against foreign names.
    pub(super) checks_host: bool,
}

/// The document of `/stat.json`.
#[derive(Serialize)]
struct Document {
    #[serde(flatten)]
    snapshot: Snapshot,
    #[serde(flatten)]
    status: View,
}

impl Site {
    /// Answers a request without looking at its body.
    pub(super) fn answer<B>(&self, request: &Request<B>) -> Response<Whole> {
        // Only requests to proxies have a full URL; this is none.
        if request.uri().authority().is_some() || !request.uri().path().starts_with('/') {
            return refusal(StatusCode::BAD_REQUEST, "not a path");
        }
        if self.checks_host && !is_for_this_machine(request.headers()) {
            return refusal(StatusCode::MISDIRECTED_REQUEST, MISDIRECTED);
        }
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            let mut refused = refusal(StatusCode::METHOD_NOT_ALLOWED, "GET and HEAD only");
            let allowed = HeaderValue::from_static("GET, HEAD");
            refused.headers_mut().insert(header::ALLOW, allowed);
            return refused;
        }
        // Without secrets, so supervisors need no token.
        match request.uri().path() {
            "/healthz" => return answer(StatusCode::OK, TEXT, "alive\n"),
            "/readyz" => return self.readiness(),
            _ => {}
        }
        if !self.is_admitted(request.headers()) {
            let mut refused = refusal(StatusCode::UNAUTHORIZED, "a token is needed");
            let scheme = HeaderValue::from_static("Basic realm=\"pagewell\", charset=\"UTF-8\"");
            let fields = refused.headers_mut();
            fields.append(header::WWW_AUTHENTICATE, scheme);
            let scheme = HeaderValue::from_static("Bearer realm=\"pagewell\"");
            fields.append(header::WWW_AUTHENTICATE, scheme);
            return refused;
        }
        self.document(request.uri().path(), request.uri().query())
    }

    fn readiness(&self) -> Response<Whole> {
        match self.status.is_ready() {
            true => answer(StatusCode::OK, TEXT, "ready\n"),
            false => answer(StatusCode::SERVICE_UNAVAILABLE, TEXT, "not ready\n"),
        }
    }

    fn is_admitted(&self, fields: &HeaderMap) -> bool {
        let Some(token) = &self.token else {
            return true;
        };
        let field = fields.get(header::AUTHORIZATION);
        field.is_some_and(|field| token.is_in(field))
    }

    fn document(&self, path: &str, query: Option<&str>) -> Response<Whole> {
        match path {
            "/" => page::answer_with_page(),
            "/metrics" => {
                let text = prometheus::render(&Snapshot::take());
                answer(StatusCode::OK, prometheus::CONTENT_TYPE, text)
            }
            "/stat.json" => json(&Document {
                snapshot: Snapshot::take(),
                status: self.status.view(),
            }),
            "/history.json" => match asked(query.unwrap_or_default()) {
                Some((span, since)) => json(&self.history.since(span, since)),
                None => refusal(
                    StatusCode::BAD_REQUEST,
                    "range=minute, hour or day, and since=SECONDS are known",
                ),
            },
            _ => refusal(
                StatusCode::NOT_FOUND,
                "there are /, /metrics, /stat.json, /history.json, /healthz and /readyz",
            ),
        }
    }
}

fn json(document: &impl Serialize) -> Response<Whole> {
    match serde_json::to_vec(document) {
        Ok(bytes) => answer(StatusCode::OK, JSON, bytes),
        Err(_) => refusal(StatusCode::INTERNAL_SERVER_ERROR, "cannot be JSON"),
    }
}

/// Programs without the field are not misled.
fn is_for_this_machine(fields: &HeaderMap) -> bool {
    let mut hosts = fields.get_all(header::HOST).iter();
    match (hosts.next(), hosts.next()) {
        (None, _) => true,
        (Some(host), None) => host.to_str().is_ok_and(is_own),
        (Some(_), Some(_)) => false,
    }
}

/// The span and start time (seconds since 1970) of a query.
fn asked(query: &str) -> Option<(Span, f64)> {
    let (mut span, mut since) = (Span::Minute, 0.0);
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        match pair.split_once('=')? {
            ("range", name) => span = Span::of(name)?,
            ("since", text) => since = text.parse().ok().filter(|time: &f64| time.is_finite())?,
            _ => return None,
        }
    }
    Some((span, since))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(token: Option<Token>) -> Site {
        Site {
            token,
            status: Arc::new(Status::new("serve")),
            history: Arc::new(History::new()),
            checks_host: true,
        }
    }

    fn token() -> Token {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "0123456789abcdef").unwrap();
        Token::read(file.path()).unwrap()
    }

    fn ask(site: &Site, uri: &str, fields: &[(&str, &str)]) -> (u16, String) {
        let mut request = Request::builder().uri(uri);
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        let answer = site.answer(&request.body(()).unwrap());
        (answer.status().as_u16(), answer.into_body().into_text())
    }

    #[test]
    fn each_path_has_its_document() {
        let site = site(None);
        for (path, status, part) in [
            ("/", 200, "<!doctype html>"),
            ("/metrics", 200, "pagewell_build_info"),
            ("/stat.json", 200, "\"procedures\":["),
            ("/stat.json?a=b", 200, "\"process\":\"serve\""),
            ("/history.json", 200, "\"interval_seconds\":1,"),
            ("/history.json?range=day&since=7.5", 200, "\"times\":[]"),
            ("/history.json?range=year", 400, "minute, hour or day"),
            ("/history.json?since=NaN", 400, "since=SECONDS"),
            ("/history.json?other", 400, "range="),
            ("/healthz", 200, "alive"),
            ("/readyz", 503, "not ready"),
            ("/other", 404, "/metrics"),
            ("http://127.0.0.1/metrics", 400, "not a path"),
            ("*", 400, "not a path"),
        ] {
            let (found, text) = ask(&site, path, &[]);
            assert!(
                found == status && text.contains(part),
                "{path}: {found} {text}"
            );
        }
        site.status.set_ready(true);
        assert_eq!(ask(&site, "/readyz", &[]).0, 200);
    }

    #[test]
    fn only_own_names_are_answered_at_an_address() {
        let mut site = site(None);
        let foreign: &[(&str, &str)] = &[("host", "evil.example")];
        let two: &[(&str, &str)] = &[("host", "localhost"), ("host", "evil.example")];
        for (fields, status) in [
            (&[("host", "localhost:1")][..], 200),
            (&[("host", "127.0.0.1:1")][..], 200),
            (foreign, 421),
            (two, 421),
        ] {
            assert_eq!(ask(&site, "/healthz", fields).0, status, "{fields:?}");
        }
        site.checks_host = false;
        assert_eq!(ask(&site, "/healthz", foreign).0, 200);
    }

    #[test]
    fn who_has_no_token_learns_only_whether_it_is_alive() {
        let site = site(Some(token()));
        for path in ["/", "/metrics", "/stat.json", "/history.json", "/other"] {
            let (status, text) = ask(&site, path, &[("authorization", "Bearer wrong-token-here")]);
            assert_eq!(
                (status, text.as_str()),
                (401, "pagewell: a token is needed\n")
            );
            let right = [("authorization", "Bearer 0123456789abcdef")];
            assert_ne!(ask(&site, path, &right).0, 401, "{path}");
        }
        assert_eq!(ask(&site, "/healthz", &[]).0, 200);
        assert_eq!(ask(&site, "/readyz", &[]).0, 503);
    }

    #[test]
    fn changes_are_refused() {
        let request = Request::post("/stat.json").body(()).unwrap();
        let answer = site(None).answer(&request);
        assert_eq!(answer.status().as_u16(), 405);
        assert_eq!(answer.headers()["allow"], "GET, HEAD");
    }
}
