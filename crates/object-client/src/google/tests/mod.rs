//! The client, before a server that does what the documentation says.

mod server;
mod tokens;
mod writing;

use super::*;
use crate::fetch::{End, fetch};
use crate::provoke;
use crate::store::{Uploads as _, WholeObjects as _};
use crate::testing::{Collector, Script, Scripted, Step, reply};
use crate::version::Version;
use crate::writable::{Condition, Part, Upload};
use bytes::Bytes;
use serde_json::json;
use server::{Fault, server};
use std::ops::Range;
use std::sync::Arc;

fn options() -> Options {
    Options {
        endpoint: Some("http://store:4443/base/".to_owned()),
        anonymous: true,
        ..Options::default()
    }
}

/// A bucket of which what is below a prefix is mounted.
fn bucket_of(script: &Arc<Script>, prefix: &str) -> Arc<Bucket> {
    let options = Options {
        endpoint: Some("http://store:4443".to_owned()),
        ..options()
    };
    let endpoint = Endpoint::find(&options, None).expect("an endpoint");
    let transport = Transport::over(Box::new(Scripted(Arc::clone(script))), &options);
    let place = ("bucket".to_owned(), prefix.to_owned());
    Arc::new(Bucket::with(place, endpoint, None, transport))
}

fn of_steps(steps: Vec<Step>) -> (Arc<Bucket>, Arc<Script>) {
    let script = Script::new(steps);
    (bucket_of(&script, ""), script)
}

fn answer(status: u16, body: &str) -> Step {
    Step::Send(reply(status, &[], body.as_bytes()))
}

async fn bytes_of(
    bucket: &Arc<Bucket>,
    key: &str,
    version: &Version,
    range: Range<u64>,
) -> Result<Vec<u8>> {
    let sink = Collector::default();
    let end = End::new(Box::new(sink.clone()));
    let call = bucket.get(key).expect("a call");
    fetch(Arc::clone(bucket), call, version.clone(), range, end).await;
    let collected = sink.collected();
    collected.end.expect("an end").map(|()| collected.bytes)
}

#[tokio::test(start_paused = true)]
async fn keys_travel_as_they_are() {
    let keys = [
        ("a//b", "a%2F%2Fb"),
        ("./y", ".%2Fy"),
        ("x ", "x%20"),
        ("dir/", "dir%2F"),
        ("a~b", "a~b"),
        ("a%41b", "a%2541b"),
        ("\u{e9}?#", "%C3%A9%3F%23"),
    ];
    let (server, script) = server();
    let bucket = bucket_of(&script, "");
    for (key, _) in keys {
        server.lock().place(key, key.as_bytes(), json!({}));
        let info = bucket.head(key).await.expect(key);
        let all = 0..info.version.length_bytes;
        let bytes = bytes_of(&bucket, key, &info.version, all).await;
        assert_eq!(bytes.as_deref(), Ok(key.as_bytes()));
    }
    let mut lines = script.lines().into_iter();
    for (_, path) in keys {
        let describes = format!("GET /storage/v1/b/bucket/o/{path}?fields=");
        assert!(
            lines
                .next()
                .is_some_and(|line| line.starts_with(&describes))
        );
        let reads = format!("GET /storage/v1/b/bucket/o/{path}?alt=media&ifGenerationMatch=");
        assert!(lines.next().is_some_and(|line| line.starts_with(&reads)));
    }
    let long = "k".repeat(1025);
    for key in ["", ".", "..", "a\nb", "a\rb", &long] {
        assert!(
            matches!(bucket.head(key).await, Err(Error::Invalid(_))),
            "{key}"
        );
    }
}

#[test]
fn places_are_found_by_options_and_by_the_environment() {
    let find = |endpoint: Option<&str>, is_anonymous, emulator| {
        let options = Options {
            endpoint: endpoint.map(str::to_owned),
            anonymous: is_anonymous,
            ..Options::default()
        };
        let found = Endpoint::find(&options, emulator)?;
        Ok((found.origin.url() + &found.base, found.is_anonymous))
    };
    let is = |url: &str, is_anonymous| Ok((url.to_owned(), is_anonymous));
    assert_eq!(find(None, false, None), is(ENDPOINT, false));
    assert_eq!(find(None, false, Some("")), is(ENDPOINT, false));
    assert_eq!(find(None, true, None), is(ENDPOINT, true));
    let emulated = is("http://localhost:4443", true);
    assert_eq!(find(None, false, Some("localhost:4443")), emulated);
    assert_eq!(
        find(None, false, Some("http://localhost:4443/storage/v1/")),
        emulated
    );
    let own = Some("https://h/base/");
    assert_eq!(
        find(own, false, Some("localhost:4443")),
        is("https://h/base", false)
    );
    assert_eq!(find(Some("http://h:1"), true, None), is("http://h:1", true));
    let refused: Error = find(Some("http://h:1"), false, None).expect_err("no TLS");
    assert!(refused.to_string().contains("anonymous=true"), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn a_base_stands_before_all_paths() {
    let endpoint = Endpoint::find(&options(), None).expect("an endpoint");
    let transport = Transport::over(Box::new(Scripted(Script::new([]))), &options());
    let place = ("b".to_owned(), "a/b".to_owned());
    let bucket = Bucket::with(place, endpoint, None, transport);
    assert_eq!(
        bucket.describe("a/b"),
        "gs://b/a/b at http://store:4443/base"
    );
    let target = bucket.object("k", &[]).expect("a target");
    assert_eq!(target.path_and_query, "/base/storage/v1/b/b/o/k");
    let target = bucket.upload("k", &[("name", "k")]).expect("a target");
    assert_eq!(
        target.path_and_query,
        "/base/upload/storage/v1/b/b/o?name=k"
    );
}

#[tokio::test(start_paused = true)]
async fn bytes_are_those_of_one_generation() {
    let (server, script) = server();
    let bucket = bucket_of(&script, "");
    server
        .lock()
        .place("k", b"the old one", json!({"Mode": "33188"}));
    let info = bucket.head("k").await.expect("an object");
    assert_eq!(info.version.etag.as_deref(), Some("\"1\""));
    assert_eq!(info.metadata, [("Mode".to_owned(), b"33188".to_vec())]);
    let some = bytes_of(&bucket, "k", &info.version, 4..7).await;
    assert_eq!(some.as_deref(), Ok(&b"old"[..]));
    // The same bytes again are another generation.
    server.lock().place("k", b"the old one", json!({}));
    let stale = bytes_of(&bucket, "k", &info.version, 4..7).await;
    assert_eq!(stale, Err(Error::Changed));
    server.lock().objects.clear();
    let gone = bytes_of(&bucket, "k", &info.version, 4..7).await;
    assert_eq!(gone, Err(Error::NotFound));
}

/// What a server sends that ignores the condition is compared.
#[tokio::test(start_paused = true)]
async fn bytes_of_another_generation_are_refused() {
    let version = Version {
        etag: Some("\"7\"".to_owned()),
        last_modified: None,
        length_bytes: 3,
    };
    let sent = |headers: &[(&str, &str)]| {
        let range = [("Content-Range", "bytes 0-2/3")];
        Step::Send(reply(206, &[headers, &range].concat(), b"abc"))
    };
    let etag = ("ETag", "\"7\"");
    for (headers, expected) in [
        (vec![("x-goog-generation", "7")], Some(Ok(b"abc".to_vec()))),
        (
            vec![("x-goog-generation", "8"), etag],
            Some(Err(Error::Changed)),
        ),
        // The tag of Google is no generation.
        (vec![etag], None),
        (
            vec![
                ("x-goog-generation", "7"),
                ("x-goog-stored-content-encoding", "gzip"),
            ],
            None,
        ),
    ] {
        let (bucket, _) = of_steps(vec![sent(&headers), sent(&headers)]);
        let bytes = bytes_of(&bucket, "k", &version, 0..3).await;
        match expected {
            Some(expected) => assert_eq!(bytes, expected, "{headers:?}"),
            None => assert!(matches!(bytes, Err(Error::Protocol(_))), "{headers:?}"),
        }
    }
}

/// Google unpacks what is stored so, unless it is asked not to.
#[tokio::test(start_paused = true)]
async fn bytes_that_are_stored_compressed_come_as_they_are() {
    let (server, script) = server();
    let bucket = bucket_of(&script, "");
    server.lock().place("k", b"compressed bytes", json!({}));
    server
        .lock()
        .objects
        .get_mut("k")
        .expect("an object")
        .is_gzip = true;
    let info = bucket.head("k").await.expect("an object");
    assert_eq!(info.version.etag.as_deref(), Some("\"1-gzip\""));
    let bytes = bytes_of(&bucket, "k", &info.version, 0..16).await;
    assert_eq!(bytes.as_deref(), Ok(&b"compressed bytes"[..]));
    let bytes = bytes_of(&bucket, "k", &info.version, 2..5).await;
    assert_eq!(bytes.as_deref(), Ok(&b"mpr"[..]));
    // One that becomes so while it is read is the same generation, and unpacked bytes are refused.
    let plain = Version {
        etag: Some("\"1\"".to_owned()),
        ..info.version
    };
    for range in [0..16, 2..5] {
        let refused = bytes_of(&bucket, "k", &plain, range).await;
        assert!(matches!(refused, Err(Error::Protocol(_))), "{refused:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_bucket_that_is_not_there_is_named() {
    let none = || {
        answer(
            404,
            r#"{"error": {"code": 404, "errors": [{"reason": "notFound"}]}}"#,
        )
    };
    let denied = || {
        answer(
            403,
            r#"{"error": {"code": 403, "errors": [{"reason": "forbidden"}]}}"#,
        )
    };
    let (bucket, script) = of_steps(vec![
        none(),
        none(),
        none(),
        denied(),
        none(),
        answer(200, "{}"),
        none(),
    ]);
    let missing = bucket.head("k").await.expect_err("no bucket");
    assert!(matches!(&missing, Error::Invalid(text) if text.contains("no bucket bucket")));
    // Where nothing may be listed, and where there is a bucket.
    assert_eq!(bucket.head("k").await, Err(Error::NotFound));
    assert_eq!(bucket.head("k").await, Err(Error::NotFound));
    assert_eq!(bucket.head("k").await, Err(Error::NotFound));
    assert!(script.is_over());
}

#[tokio::test(start_paused = true)]
async fn pages_are_asked_for_by_their_tokens() {
    let first = r#"{"nextPageToken": "t/=", "items": [{"name": "p/a", "size": "1",
        "generation": "1"}], "prefixes": ["p/d/"]}"#;
    let (bucket, script) = of_steps(vec![
        answer(200, first),
        answer(200, "{}"),
        answer(200, "<html>"),
    ]);
    let mut query = ListQuery {
        prefix: "p/",
        delimiter: true,
        token: None,
        page_entries_max: 5000,
    };
    let page = bucket.list(&query).await.expect("a page");
    assert_eq!((page.objects.len(), page.prefixes.len()), (1, 1));
    query.token = page.next;
    let page = bucket.list(&query).await.expect("a page");
    assert_eq!(page, ListPage::default());
    assert!(matches!(bucket.list(&query).await, Err(Error::Protocol(_))));
    let lines = script.lines();
    assert!(lines[0].starts_with("GET /storage/v1/b/bucket/o?delimiter=%2F&fields="));
    assert!(lines[0].ends_with("&maxResults=1000&prefix=p%2F&prettyPrint=false"));
    assert!(lines[1].contains("&pageToken=t%2F%3D&"));
}
