//! Remotes as programs use them: from threads that wait, over sockets and TLS of this machine.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on fails"
)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::thread;

use pagewell_object_client::{
    Bytes, Condition, Error, Keys, ListQuery, Metadata, Options, Remote, Result, Sink, Version,
    open,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

const BODY: &[u8] = b"the bytes of a file";
const HEAD: &str = "ETag: \"one\"\r\nLast-Modified: Sat, 28 Nov 2026 03:21:43 GMT\r\n";

/// Answers requests for one file until the client goes.
fn answer(stream: impl Read + Write) {
    let mut stream = BufReader::new(stream);
    loop {
        let (mut line, mut range, mut length) = (String::new(), None, 0);
        stream.read_line(&mut line).unwrap_or(0);
        let (method, path) = line.split_once(' ').unwrap_or(("", ""));
        let (method, path) = (
            method.to_owned(),
            path.split(' ').next().unwrap_or("").to_owned(),
        );
        if method.is_empty() {
            return;
        }
        loop {
            let mut line = String::new();
            stream.read_line(&mut line).unwrap_or(0);
            if line.trim().is_empty() {
                break;
            }
            let lower = line.trim().to_ascii_lowercase();
            if let Some(value) = lower.strip_prefix("range: bytes=") {
                let (first, last) = value.split_once('-').unwrap();
                range = Some(first.parse().unwrap()..last.parse::<usize>().unwrap() + 1);
            }
            if let Some(value) = lower.strip_prefix("content-length: ") {
                length = value.parse().unwrap();
            }
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body).unwrap();
        let all = BODY.len();
        let (status, extra, body) = match (method.as_str(), range) {
            ("GET", Some(range)) => {
                let Range { start, end } = range;
                let extra = format!("Content-Range: bytes {start}-{}/{all}\r\n", end - 1);
                (206, extra, &BODY[start..end])
            }
            ("GET", None) if path.contains("list-type=2") => (200, String::new(), LIST),
            _ => (200, String::new(), BODY),
        };
        let length = body.len();
        let mut text =
            format!("HTTP/1.1 {status} OK\r\n{HEAD}{extra}Content-Length: {length}\r\n\r\n");
        if method == "PUT" {
            text = "HTTP/1.1 412 No\r\nContent-Length: 0\r\n\r\n".to_owned();
        }
        stream.get_mut().write_all(text.as_bytes()).unwrap();
        if method == "GET" {
            stream.get_mut().write_all(body).unwrap();
        }
        stream.get_mut().flush().unwrap();
    }
}

const LIST: &[u8] = b"<ListBucketResult><Contents><Key>f</Key><Size>19</Size>\
    <ETag>\"one\"</ETag></Contents></ListBucketResult>";

/// A server on a port of its own, which it returns.
fn serve(tls: Option<Arc<ServerConfig>>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (stream, tls) = (stream.unwrap(), tls.clone());
            thread::spawn(move || match tls {
                None => answer(stream),
                Some(tls) => {
                    let connection = ServerConnection::new(tls).unwrap();
                    answer(StreamOwned::new(connection, stream));
                }
            });
        }
    });
    port
}

fn certificates() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/certificates")
}

fn tls() -> Arc<ServerConfig> {
    let chain = CertificateDer::pem_file_iter(certificates().join("certificate.pem")).unwrap();
    let chain = chain.map(|certificate| certificate.unwrap()).collect();
    let key = PrivateKeyDer::from_pem_file(certificates().join("key.pem")).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider);
    let builder = builder.with_safe_default_protocol_versions().unwrap();
    let configuration = builder.with_no_client_auth().with_single_cert(chain, key);
    Arc::new(configuration.unwrap())
}

struct Sent {
    bytes: Vec<u8>,
    end: mpsc::Sender<(Vec<u8>, Result<()>)>,
}

impl Sink for Sent {
    fn put(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    fn end(self: Box<Self>, result: Result<()>) {
        let Self { bytes, end } = *self;
        end.send((bytes, result)).unwrap();
    }
}

fn fetched(remote: &dyn Remote, key: &str, version: &Version, range: Range<u64>) -> Vec<u8> {
    let (end, ended) = mpsc::channel();
    let bytes = Vec::new();
    remote.fetch(key, version, range, Box::new(Sent { bytes, end }));
    let (bytes, result) = ended.recv().unwrap();
    result.unwrap();
    bytes
}

#[test]
fn a_file_of_a_web_server_is_read_by_many_threads() {
    let url = format!("http://127.0.0.1:{}/folder/f", serve(None));
    let remote = open(&url, &Options::default()).unwrap();
    assert_eq!(remote.describe(), url);
    assert!(remote.as_writable().is_none());
    let info = remote.head("folder/f").unwrap();
    assert_eq!(info.version.length_bytes, BODY.len() as u64);
    thread::scope(|scope| {
        for first in 0..BODY.len() as u64 {
            let (remote, version) = (&remote, &info.version);
            scope.spawn(move || {
                let bytes = fetched(remote.as_ref(), "folder/f", version, first..19);
                assert_eq!(bytes, BODY[first as usize..]);
            });
        }
    });
    assert_eq!(remote.activity().gets, BODY.len() as u64);
    // Small enough, it comes at once.
    let whole = (info.clone(), Some(Bytes::from_static(BODY)));
    assert_eq!(remote.get("folder/f", 19).unwrap(), whole);
    assert_eq!(remote.get("folder/f", 18).unwrap(), (info, None));
}

#[test]
fn a_bucket_is_read_and_written() {
    let options = Options {
        keys: Some(Keys {
            access_key_id: "public".to_owned(),
            secret_access_key: "secret".to_owned(),
            session_token: None,
        }),
        ..Options::default()
    };
    let url = format!("s3://bucket/p?endpoint=http://127.0.0.1:{}", serve(None));
    let remote = open(&url, &options).unwrap();
    assert!(
        remote
            .describe()
            .starts_with("s3://bucket/p at http://127.0.0.1:")
    );
    let query = ListQuery {
        prefix: "",
        delimiter: true,
        token: None,
        page_entries_max: 1000,
    };
    let page = remote.list(&query).unwrap();
    let listed = &page.objects[0];
    assert_eq!(
        fetched(remote.as_ref(), &listed.key, &listed.version, 4..9),
        b"bytes"
    );
    let (info, bytes) = remote.get("f", 19).unwrap();
    assert!(info.version.is_same(&listed.version));
    assert_eq!(bytes.as_deref(), Some(BODY));
    let writable = remote.as_writable().unwrap();
    let body = Bytes::from_static(b"other");
    let made = writable.put("f", body, &Condition::Absent, &Metadata::new());
    assert_eq!(made, Err(Error::Exists));
}

#[test]
fn tls_needs_a_certificate_that_is_trusted() {
    let port = serve(Some(tls()));
    let url = |host: &str| format!("https://{host}:{port}/f");
    let trusting = Options {
        certificates: Some(certificates().join("certificate.pem")),
        ..Options::default()
    };
    for host in ["127.0.0.1", "localhost"] {
        let remote = open(&url(host), &trusting).unwrap();
        let info = remote.head("f").unwrap();
        assert_eq!(fetched(remote.as_ref(), "f", &info.version, 0..19), BODY);
    }
    let refused = |options: &Options| {
        let remote = open(&url("127.0.0.1"), options).unwrap();
        remote.head("f").unwrap_err()
    };
    // Without it nothing is tried again; where the system has no authorities, that is said.
    let error = refused(&Options::default());
    assert!(
        matches!(&error, Error::Unreachable(text) if text.contains("TLS fails"))
            || matches!(&error, Error::Invalid(text) if text.contains("ca-certificates")),
        "{error}"
    );
    let missing = Options {
        certificates: Some("nowhere.pem".into()),
        ..Options::default()
    };
    assert!(matches!(refused(&missing), Error::Invalid(_)));
}

#[test]
fn a_server_without_tls_is_named_as_one() {
    let url = format!("https://127.0.0.1:{}/f", serve(None));
    let trusting = Options {
        certificates: Some(certificates().join("certificate.pem")),
        ..Options::default()
    };
    let error = open(&url, &trusting).unwrap().head("f").unwrap_err();
    assert!(error.to_string().contains("http:// instead"), "{error}");
}

/// A sink must not wait for a request: it would hold up the thread that it waits for.
#[test]
fn a_sink_that_asks_is_refused() {
    struct Asking(Arc<dyn Remote>, mpsc::Sender<Error>);
    impl Sink for Asking {
        fn put(&mut self, _bytes: &[u8]) {}

        fn end(self: Box<Self>, _result: Result<()>) {
            self.1.send(self.0.head("f").unwrap_err()).unwrap();
        }
    }
    let url = format!("http://127.0.0.1:{}/f", serve(None));
    let remote = open(&url, &Options::default()).unwrap();
    let version = remote.head("f").unwrap().version;
    let (sender, received) = mpsc::channel();
    let sink = Asking(Arc::clone(&remote), sender);
    remote.fetch("f", &version, 0..5, Box::new(sink));
    assert!(matches!(received.recv().unwrap(), Error::Invalid(_)));
}
