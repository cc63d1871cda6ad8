//! A server that does what Google's documentation says of the JSON API: generations, conditions,
//! compose, and deletes of many.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use md5::{Digest as _, Md5};
use pagewell_base::sync::Mutex;
use serde_json::{Value, json};

use crate::percent;
use crate::testing::{Script, Seen, Step, part, reply};

/// An object.
#[derive(Clone, Default)]
pub(super) struct Object {
    pub bytes: Vec<u8>,
    pub generation: u64,
    pub metadata: Value,
    /// Stored with `Content-Encoding: gzip`.
    pub is_gzip: bool,
}

/// What happens to a request.
pub(super) enum Fault {
    /// It is done, and the answer is lost.
    Lost,
    /// It is not done.
    Refused(u16, &'static str),
}

/// See the module's text.
#[derive(Default)]
pub(super) struct Server {
    pub objects: BTreeMap<String, Object>,
    last: u64,
    /// Of requests that change something, in order; behind them all is well.
    pub faults: VecDeque<Option<Fault>>,
    /// `deleteSourceObjects` is not known here.
    pub keeps_sources: bool,
}

type Shared = Arc<Mutex<Server>>;

/// A server and what speaks to it.
pub(super) fn server() -> (Shared, Arc<Script>) {
    let shared = Shared::default();
    let own = Arc::clone(&shared);
    let script = Script::of(move |seen| {
        let mut server = own.lock();
        server.answer(seen.last().expect("a request"))
    });
    (shared, script)
}

fn refused(status: u16, reason: &str) -> Vec<u8> {
    let errors = json!([{"domain": "global", "reason": reason, "message": "of a test"}]);
    let body = json!({"error": {"code": status, "message": "of a test", "errors": errors}});
    reply(status, &[], body.to_string().as_bytes())
}

fn text(value: &str) -> String {
    percent::decode_text(value).expect("text")
}

impl Server {
    pub(super) fn place(&mut self, key: &str, bytes: &[u8], metadata: Value) -> u64 {
        self.last += 1;
        let object = Object {
            bytes: bytes.to_vec(),
            generation: self.last,
            metadata,
            is_gzip: false,
        };
        self.objects.insert(key.to_owned(), object);
        self.last
    }

    pub(super) fn keys(&self) -> Vec<&str> {
        self.objects.keys().map(String::as_str).collect()
    }

    fn answer(&mut self, seen: &Seen) -> Step {
        let is_reading = seen.method == "GET";
        let fault = (!is_reading).then(|| self.faults.pop_front()).flatten();
        if let Some(Some(Fault::Refused(status, reason))) = fault {
            return Step::Send(refused(status, reason));
        }
        let answer = self.done(seen);
        match fault {
            Some(Some(Fault::Lost)) => Step::Cut(Vec::new()),
            _ => Step::Send(answer),
        }
    }

    fn done(&mut self, seen: &Seen) -> Vec<u8> {
        let (path, query) = seen.target.split_once('?').unwrap_or((&seen.target, ""));
        let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        let query: BTreeMap<String, String> = pairs
            .map(|(name, value)| (text(name), text(value)))
            .collect();
        let wanted = query.get("ifGenerationMatch");
        let wanted = wanted.map(|number| number.parse().expect("a generation"));
        let key = path.strip_prefix("/storage/v1/b/bucket/o/");
        let method = seen.method.as_str();
        match (method, path, key) {
            ("POST", "/upload/storage/v1/b/bucket/o", _) => self.insert(seen, wanted),
            ("POST", "/batch/storage/v1", _) => self.batch(&seen.body),
            ("GET", "/storage/v1/b/bucket/o", _) => self.list(&query),
            ("GET", _, Some(key)) if query.contains_key("alt") => {
                self.media(&text(key), wanted, seen)
            }
            ("GET", _, Some(key)) => self.describe(&text(key)),
            ("DELETE", _, Some(key)) => self.delete(&text(key), wanted),
            ("POST", _, Some(key)) => {
                let key = key.strip_suffix("/compose").expect("a compose");
                self.compose(&text(key), &seen.body, wanted)
            }
            _ => refused(404, "notFound"),
        }
    }

    fn is_met(&self, key: &str, wanted: Option<u64>) -> bool {
        let found = self.objects.get(key).map_or(0, |object| object.generation);
        wanted.is_none_or(|wanted| wanted == found)
    }

    fn describe(&self, key: &str) -> Vec<u8> {
        match self.objects.get(key) {
            None => refused(404, "notFound"),
            Some(object) => {
                let body = description(key, object).to_string();
                reply(200, &[], body.as_bytes())
            }
        }
    }

    fn insert(&mut self, seen: &Seen, wanted: Option<u64>) -> Vec<u8> {
        let media_type = seen.header("content-type").expect("a media type");
        let (_, boundary) = media_type.split_once("boundary=").expect("a boundary");
        let end = format!("\r\n--{boundary}--\r\n");
        let body = seen.body.strip_suffix(end.as_bytes()).expect("an end");
        let mut parts = Vec::new();
        let mut rest = body;
        for _ in 0..2 {
            let start = rest.windows(4).position(|bytes| bytes == b"\r\n\r\n");
            rest = &rest[start.expect("a part") + 4..];
            parts.push(rest);
        }
        let mut documents = serde_json::Deserializer::from_slice(parts[0]).into_iter::<Value>();
        let document = documents.next().expect("a description").expect("JSON");
        let (key, bytes) = (document["name"].as_str().expect("a name"), parts[1]);
        if document["md5Hash"] != STANDARD.encode(Md5::digest(bytes)) {
            return refused(400, "invalid");
        }
        if !self.is_met(key, wanted) {
            return refused(412, "conditionNotMet");
        }
        self.place(key, bytes, document["metadata"].clone());
        self.describe(key)
    }

    fn media(&self, key: &str, wanted: Option<u64>, seen: &Seen) -> Vec<u8> {
        let Some(object) = self.objects.get(key) else {
            return reply(404, &[], b"No such object");
        };
        if !self.is_met(key, wanted) {
            return reply(412, &[], b"Precondition Failed");
        }
        let takes_gzip = seen.header("accept-encoding") == Some("gzip");
        let generation = object.generation.to_string();
        if object.is_gzip && !takes_gzip {
            // Google unpacks, whatever range is asked.
            let headers = [
                ("x-goog-generation", generation.as_str()),
                ("x-goog-stored-content-encoding", "gzip"),
                ("Transfer-Encoding", "chunked"),
            ];
            return reply(200, &headers, b"8\r\nunpacked\r\n0\r\n\r\n");
        }
        let range = seen.header("range").expect("a range");
        let (first, last) = range["bytes=".len()..].split_once('-').expect("a range");
        let (first, last): (usize, usize) = (first.parse().unwrap(), last.parse().unwrap());
        let bytes = &object.bytes;
        let mut answer = String::from_utf8(part(bytes, first..last + 1, "\"of Google\"")).unwrap();
        let encoding = if object.is_gzip { "gzip" } else { "identity" };
        let mut headers = format!("x-goog-generation: {generation}\r\n");
        headers += &format!("x-goog-stored-content-encoding: {encoding}\r\n");
        if object.is_gzip {
            headers += "Content-Encoding: gzip\r\n";
        }
        let head = answer.find("\r\n").expect("a line") + 2;
        answer.insert_str(head, &headers);
        answer.into_bytes()
    }

    fn list(&self, query: &BTreeMap<String, String>) -> Vec<u8> {
        let prefix = query.get("prefix").map_or("", String::as_str);
        let items: Vec<Value> = self
            .objects
            .iter()
            .filter(|(key, _)| key.starts_with(prefix))
            .map(|(key, object)| description(key, object))
            .collect();
        reply(200, &[], json!({"items": items}).to_string().as_bytes())
    }

    fn delete(&mut self, key: &str, wanted: Option<u64>) -> Vec<u8> {
        if !self.objects.contains_key(key) {
            return refused(404, "notFound");
        }
        if !self.is_met(key, wanted) {
            return refused(412, "conditionNotMet");
        }
        self.objects.remove(key);
        reply(204, &[], b"")
    }

    fn batch(&mut self, body: &[u8]) -> Vec<u8> {
        let body = std::str::from_utf8(body).expect("text").to_owned();
        let requests = body.lines().filter_map(|line| {
            let path = line.strip_prefix("DELETE /storage/v1/b/bucket/o/")?;
            path.strip_suffix(" HTTP/1.1").map(text)
        });
        let mut answers = String::new();
        for (number, key) in requests.enumerate() {
            let status = match self.objects.remove(&key) {
                Some(_) if key.ends_with("stays") => "503 Service Unavailable",
                Some(_) => "204 No Content",
                None => "404 Not Found",
            };
            answers +=
                &format!("--x\r\nContent-ID: <response-{number}>\r\n\r\nHTTP/1.1 {status}\r\n");
        }
        answers += "--x--\r\n";
        reply(200, &[], answers.as_bytes())
    }

    fn compose(&mut self, key: &str, body: &[u8], wanted: Option<u64>) -> Vec<u8> {
        let document: Value = serde_json::from_slice(body).expect("JSON");
        let sources = document["sourceObjects"].as_array().expect("sources");
        if sources.len() > 32 {
            return refused(400, "invalid");
        }
        let mut bytes = Vec::new();
        for source in sources {
            let name = source["name"].as_str().expect("a name");
            let condition = source["objectPreconditions"]["ifGenerationMatch"].as_str();
            let condition = condition.map(|number| number.parse().expect("a generation"));
            let Some(object) = self.objects.get(name) else {
                return refused(404, "notFound");
            };
            if !self.is_met(name, condition) {
                return refused(412, "conditionNotMet");
            }
            bytes.extend_from_slice(&object.bytes);
        }
        if !self.is_met(key, wanted) {
            return refused(412, "conditionNotMet");
        }
        if document["deleteSourceObjects"] == true && !self.keeps_sources {
            for source in sources {
                self.objects
                    .remove(source["name"].as_str().expect("a name"));
            }
        }
        self.place(key, &bytes, document["destination"]["metadata"].clone());
        self.describe(key)
    }
}

fn description(key: &str, object: &Object) -> Value {
    let mut description = json!({
        "name": key,
        "size": object.bytes.len().to_string(),
        "generation": object.generation.to_string(),
        "updated": "2026-11-28T03:21:43.500Z",
        "timeCreated": "2026-11-28T03:21:43.500Z",
        "metadata": object.metadata,
    });
    if object.is_gzip {
        description["contentEncoding"] = "gzip".into();
    }
    description
}
