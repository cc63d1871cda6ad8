use super::*;
use crate::fetch::{End, fetch};
use crate::location::Origin;
use crate::provoke;
use crate::store::{Uploads as _, WholeObjects as _};
use crate::testing::{Collector, Script, Scripted, Seen, Step, part, reply};
use crate::version::Version;
use crate::writable::{Condition, Metadata, Part, Upload};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use reqsign_core::StaticEnv;
use std::sync::Arc;

use super::shared_key::SharedKey;

const TAG: &str = "\"0x8DE2\"";
/// Of "abc".
const DIGEST: &str = "kAFQmDzST7DWlj99KOF/cg==";

fn of(access: Option<Access>, script: &Arc<Script>) -> Arc<Container> {
    let options = Options::default();
    let connections = || Transport::over(Box::new(Scripted(Arc::clone(script))), &options);
    let (origin, _) = Origin::parse("https://store:10000").expect("an origin");
    let place = Place {
        origin,
        path: "/one".to_owned(),
    };
    let credentials = Credentials::with(access, StaticEnv::default(), connections());
    let name = "container".to_owned();
    Arc::new(Container::with(name, place, credentials, connections()))
}

fn key() -> Access {
    Access::Key(Arc::new(SharedKey::new("one", "c2VjcmV0").expect("a key")))
}

fn container(steps: Vec<Step>) -> (Arc<Container>, Arc<Script>) {
    let script = Script::new(steps);
    (of(Some(key()), &script), script)
}

fn answer(status: u16, body: &str) -> Step {
    Step::Send(reply(status, &[], body.as_bytes()))
}

fn error(status: u16, code: &str) -> Step {
    let body = format!(
        "\u{feff}<?xml version=\"1.0\" encoding=\"utf-8\"?><Error><Code>{code}</Code>\
         <Message>of a test\nRequestId:1\nTime:2</Message></Error>"
    );
    Step::Send(reply(status, &[("x-ms-error-code", code)], body.as_bytes()))
}

fn done() -> Step {
    Step::Send(reply(201, &[("ETag", TAG), ("Content-MD5", DIGEST)], b""))
}

fn lost() -> Step {
    Step::Cut(Vec::new())
}

/// HEAD of an object that the change with this token made.
fn made_by(token: &str) -> Step {
    let headers = [
        ("ETag", TAG),
        ("Content-Length", "3"),
        ("x-ms-meta-pagewell_2dwrite", token),
    ];
    Step::Send(reply(200, &headers, b""))
}

/// HEAD of an object with the token of the first request.
fn own() -> Step {
    Step::Answer(Box::new(|seen: &[Seen]| {
        let token = seen[0].header("x-ms-meta-pagewell_2dwrite");
        made_by(token.unwrap_or("none"))
    }))
}

fn version() -> Version {
    Version {
        etag: Some(TAG.to_owned()),
        last_modified: None,
        length_bytes: 3,
    }
}

fn metadata() -> Metadata {
    vec![
        ("mode".to_owned(), b"33188".to_vec()),
        ("pagewell-version".to_owned(), b"7".to_vec()),
        ("pagewell-write".to_owned(), b"that of before".to_vec()),
    ]
}

async fn put(steps: Vec<Step>, condition: &Condition) -> (Result<Version>, Vec<Seen>) {
    let (container, script) = container(steps);
    let body = Bytes::from_static(b"abc");
    let result = container.put("k", body, condition, &metadata()).await;
    assert!(script.is_over(), "steps are left");
    (result, script.seen())
}

#[tokio::test(start_paused = true)]
async fn keys_travel_as_they_are_and_are_signed() {
    let keys = [
        ("a//b", "/one/container/a//b"),
        ("/y", "/one/container//y"),
        ("x ", "/one/container/x%20"),
        ("dir/", "/one/container/dir/"),
        ("a%41b", "/one/container/a%2541b"),
        ("...", "/one/container/..."),
        ("\u{e9}?#", "/one/container/%C3%A9%3F%23"),
    ];
    let heads = keys.iter().map(|_| made_by("x"));
    let (container, script) = container(heads.collect());
    for (key, _) in keys {
        container.head(key).await.expect(key);
    }
    for (seen, (_, path)) in script.seen().iter().zip(keys) {
        assert_eq!(seen.target, path);
        let signature = seen.header("authorization").unwrap_or("");
        assert!(signature.starts_with("SharedKey one:"), "{signature}");
        assert_eq!(seen.header("x-ms-version"), Some(VERSION));
        assert!(seen.header("x-ms-date").is_some());
    }
    let (long, deep) = ("k".repeat(1025), "d/".repeat(254));
    for key in ["", &long, &deep, "./y", "a/../y", "a\\b"] {
        assert!(
            matches!(container.head(key).await, Err(Error::Invalid(_))),
            "{key}"
        );
    }
    // What may come out as another name is not made.
    let takes = |key| container.takes(key);
    assert!(takes("a/.b/c d/") && !takes("a./b") && !takes("a\\b"));
    let (absent, none) = (Condition::Absent, Metadata::new());
    for key in ["a.", "a./b", "..."] {
        let refused = container.put(key, Bytes::new(), &absent, &none).await;
        assert!(matches!(refused, Err(Error::Invalid(_))), "{key}");
        assert!(container.create_upload(key, &none).await.is_err());
    }
}

#[tokio::test(start_paused = true)]
async fn requests_are_opened_by_whatever_there_is() {
    let signature = Access::Signature("sv=1&sig=s%2B".into());
    let list = || answer(200, "<EnumerationResults><Blobs/></EnumerationResults>");
    let query = ListQuery {
        prefix: "p/",
        delimiter: true,
        token: Some("2!8".to_owned()),
        page_entries_max: 10_000,
    };
    let script = Script::new([made_by("x"), list()]);
    let signed = of(Some(signature), &script);
    signed.head("k").await.expect("an object");
    signed.list(&query).await.expect("a page");
    let lines = [
        "HEAD /one/container/k?sv=1&sig=s%2B",
        "GET /one/container?comp=list&delimiter=%2F&include=metadata&marker=2%218&maxresults=5000\
         &prefix=p%2F&restype=container&sv=1&sig=s%2B",
    ];
    assert_eq!(script.lines(), lines);
    assert_eq!(script.seen()[0].header("authorization"), None);

    let script = Script::new([made_by("x")]);
    of(Some(Access::Anonymous), &script)
        .head("k")
        .await
        .expect("an object");
    assert_eq!(script.seen()[0].header("authorization"), None);

    // A token that is refused is looked for again, once.
    let token = |name: &str| answer(200, &format!("{{\"access_token\": \"{name}\"}}"));
    let expired = || error(401, "InvalidAuthenticationInfo");
    let script = Script::new([
        token("t1"),
        made_by("x"),
        expired(),
        token("t2"),
        made_by("x"),
    ]);
    let by_token = of(None, &script);
    by_token.head("k").await.expect("an object");
    by_token.head("k").await.expect("an object");
    let shown: Vec<_> = script
        .seen()
        .iter()
        .map(|seen| seen.header("authorization").unwrap_or("-").to_owned())
        .collect();
    assert_eq!(shown, ["-", "Bearer t1", "Bearer t1", "-", "Bearer t2"]);
}

#[tokio::test(start_paused = true)]
async fn an_object_is_described_and_read() {
    let headers = [
        ("ETag", TAG),
        ("Content-Length", "3"),
        ("x-ms-meta-Mode", "33188"),
        ("x-ms-meta-pagewell_2dversion", "7"),
        ("x-ms-meta-my_name", "x"),
    ];
    let (container, script) = container(vec![
        Step::Send(reply(200, &headers, b"")),
        Step::Send(part(b"abc", 0..3, TAG)),
        Step::Send(reply(
            200,
            &[("ETag", TAG), ("Content-MD5", DIGEST)],
            b"abc",
        )),
        Step::Send(reply(
            200,
            &[("ETag", TAG), ("Content-MD5", DIGEST)],
            b"abd",
        )),
        error(404, "BlobNotFound"),
        error(404, "ContainerNotFound"),
        error(404, "ContainerNotFound"),
    ]);
    let info = container.head("k").await.expect("an object");
    assert_eq!(info.version, version());
    let pairs: Vec<_> = info
        .metadata
        .iter()
        .map(|(name, _)| name.as_str())
        .collect();
    assert_eq!(pairs, ["mode", "pagewell-version", "my_name"]);
    let sink = Collector::default();
    let end = End::new(Box::new(sink.clone()));
    let call = container.get("k").expect("a call");
    fetch(Arc::clone(&container), call, version(), 0..3, end).await;
    assert_eq!(sink.collected().bytes, b"abc");
    assert_eq!(script.seen()[1].header("if-match"), Some(TAG));
    let whole = container.at_once("k", 3).await.expect("an object");
    let (_, bytes) = whole.expect("both");
    assert_eq!(bytes.as_deref(), Some(&b"abc"[..]));
    // Bytes that are not those of the MD5 are none.
    let wrong = container.at_once("k", 3).await;
    assert!(matches!(wrong, Err(Error::Protocol(_))));
    // The answer to a HEAD says in a header which is missing.
    assert_eq!(container.head("k").await, Err(Error::NotFound));
    let text = container
        .head("k")
        .await
        .expect_err("no container")
        .to_string();
    assert!(
        text.ends_with("ContainerNotFound (404): of a test"),
        "{text}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_put_carries_its_hash_condition_and_metadata() {
    let (made, seen) = put(vec![done()], &Condition::Absent).await;
    assert_eq!(made, Ok(version()));
    let header = |name: &str| seen[0].header(name).unwrap_or("").to_owned();
    assert_eq!(seen[0].body, b"abc");
    assert_eq!(header("if-none-match"), "*");
    assert_eq!(header("content-md5"), DIGEST);
    assert_eq!(header("x-ms-blob-type"), "BlockBlob");
    assert_eq!(header("x-ms-meta-mode"), "33188");
    assert_eq!(header("x-ms-meta-pagewell_2dversion"), "7");
    assert_eq!(header("x-ms-meta-pagewell_2dwrite").len(), 32);
    let (_, seen) = put(vec![done()], &Condition::Is(version())).await;
    assert_eq!(seen[0].header("if-match"), Some(TAG));
    // Its answer is about other bytes.
    let digest = STANDARD.encode([0; 16]);
    let other = Step::Send(reply(201, &[("ETag", TAG), ("Content-MD5", &digest)], b""));
    let (wrong, _) = put(vec![other], &Condition::Always).await;
    assert!(matches!(wrong, Err(Error::Protocol(_))));
    let (container, _) = container(vec![]);
    let beyond = vec![("name".to_owned(), "\u{e9}".as_bytes().to_vec())];
    let refused = container
        .put("k", Bytes::new(), &Condition::Always, &beyond)
        .await;
    assert!(matches!(refused, Err(Error::Invalid(_))));
}

#[tokio::test(start_paused = true)]
async fn conditions_that_fail_say_what_is_there() {
    let is = Condition::Is(version());
    let (exists, _) = put(vec![error(409, "BlobAlreadyExists")], &Condition::Absent).await;
    assert_eq!(exists, Err(Error::Exists));
    let (changed, _) = put(vec![error(412, "ConditionNotMet")], &is).await;
    assert_eq!(changed, Err(Error::Changed));
    // A lease has the status of a condition, and is none.
    let (leased, _) = put(vec![error(412, "LeaseIdMissing")], &is).await;
    assert!(matches!(leased, Err(Error::Denied(_))), "{leased:?}");
    let (made, seen) = put(vec![error(503, "ServerBusy"), done()], &is).await;
    assert_eq!((made, seen.len()), (Ok(version()), 2));
    let (made, _) = put(vec![error(400, "Md5Mismatch"), done()], &is).await;
    assert_eq!(made, Ok(version()));
}

#[tokio::test(start_paused = true)]
async fn a_write_knows_itself() {
    let exists = || error(409, "BlobAlreadyExists");
    let (made, _) = put(vec![lost(), exists(), own()], &Condition::Absent).await;
    assert_eq!(made, Ok(version()));
    let is = Condition::Is(version());
    let unmet = || error(412, "ConditionNotMet");
    let (made, _) = put(vec![error(500, "InternalError"), unmet(), own()], &is).await;
    assert_eq!(made, Ok(version()));
    let others = || made_by("another");
    let (other, _) = put(vec![lost(), exists(), others()], &Condition::Absent).await;
    assert_eq!(other, Err(Error::Exists));
    let (other, _) = put(vec![lost(), unmet(), others()], &is).await;
    assert_eq!(other, Err(Error::Changed));
}

#[tokio::test(start_paused = true)]
async fn an_object_is_made_of_blocks() {
    let committed = || Step::Send(reply(201, &[("ETag", "\"0x2\"")], b""));
    let copied = || Step::Send(reply(201, &[("Content-MD5", "AAAA")], b""));
    let (container, script) = container(vec![done(), copied(), committed()]);
    let upload = container
        .create_upload("k", &metadata())
        .await
        .expect("an upload");
    let body = Bytes::from_static(b"abc");
    let first = container
        .upload_part(&upload, 1, body)
        .await
        .expect("a part");
    let source = Version {
        length_bytes: 100,
        ..version()
    };
    let second = container
        .copy_part(&upload, 2, "a//b c", &source, 10..20)
        .await;
    let empty = container.upload_part(&upload, 3, Bytes::new()).await;
    let parts = [first, second.expect("a part"), empty.expect("a part")];
    let is = Condition::Is(version());
    let made = container.complete(&upload, &parts, &is).await;
    let made = made.expect("an object");
    assert_eq!(
        (made.etag.as_deref(), made.length_bytes),
        (Some("\"0x2\""), 13)
    );
    let seen = script.seen();
    let name = |number: usize| {
        let name = &parts[number - 1].etag;
        let digits = STANDARD.decode(name).expect("base 64");
        assert!(digits.starts_with(format!("{}{number:08}", upload.id).as_bytes()));
        assert_eq!(digits.len(), 48);
        name.as_str()
    };
    let target = |name: &str| {
        let id = percent::component(name);
        format!("/one/container/k?blockid={id}&comp=block")
    };
    assert_eq!(seen[0].target, target(name(1)));
    assert_eq!(seen[0].header("content-md5"), Some(DIGEST));
    assert_eq!(seen[0].header("x-ms-meta-mode"), None);
    assert_eq!(seen[1].target, target(name(2)));
    let url = seen[1].header("x-ms-copy-source").unwrap_or("");
    assert!(
        url.starts_with("https://store:10000/one/container/a//b%20c?se="),
        "{url}"
    );
    assert_eq!(seen[1].header("x-ms-source-range"), Some("bytes=10-19"));
    assert_eq!(seen[1].header("x-ms-source-if-match"), Some(TAG));
    assert_eq!(seen[1].header("content-length"), Some("0"));
    assert_eq!(seen[2].target, "/one/container/k?comp=blocklist");
    assert_eq!(seen[2].header("if-match"), Some(TAG));
    assert_eq!(seen[2].header("x-ms-meta-mode"), Some("33188"));
    let token = seen[2].header("x-ms-meta-pagewell_2dwrite");
    assert_eq!(token, Some(upload.token.as_str()));
    let body = String::from_utf8_lossy(&seen[2].body).into_owned();
    let blocks = [1, 2].map(|number| format!("<Uncommitted>{}</Uncommitted>", name(number)));
    assert!(
        body.ends_with(&format!("<BlockList>{}</BlockList>", blocks.concat())),
        "{body}"
    );
    // What was completed or given up is not completed again.
    let again = container.complete(&upload, &parts, &is).await;
    assert!(matches!(again, Err(Error::Invalid(_))));
    assert!(script.is_over());
}

#[tokio::test(start_paused = true)]
async fn the_source_of_a_copy_is_opened_like_all_else() {
    let copied = || Step::Send(reply(201, &[], b""));
    let token = answer(200, "{\"access_token\": \"t\"}");
    let script = Script::new([copied(), token, copied(), copied()]);
    let url = "https://store:10000/one/container/s";
    for (access, source, authorization) in [
        (
            Some(Access::Signature("sig=x".into())),
            format!("{url}?sig=x"),
            None,
        ),
        (None, url.to_owned(), Some("Bearer t")),
        (Some(Access::Anonymous), url.to_owned(), None),
    ] {
        let container = of(access, &script);
        let upload = container
            .create_upload("k", &Metadata::new())
            .await
            .expect("an upload");
        let part = container.copy_part(&upload, 1, "s", &version(), 0..3).await;
        assert_eq!(part.expect("a part").length_bytes, 3);
        let seen = script.seen().pop().expect("a request");
        assert_eq!(seen.header("x-ms-copy-source"), Some(source.as_str()));
        assert_eq!(seen.header("x-ms-copy-source-authorization"), authorization);
    }
}

#[tokio::test(start_paused = true)]
async fn copies_that_cannot_be_made_say_so() {
    for (status, code, expected) in [
        (412, "SourceConditionNotMet", Some(Error::Changed)),
        (412, "CannotVerifyCopySource", Some(Error::Changed)),
        (404, "CannotVerifyCopySource", Some(Error::NotFound)),
        (403, "CannotVerifyCopySource", None),
        (501, "APINotImplemented", None),
    ] {
        let (container, _) = container(vec![error(status, code)]);
        let upload = container
            .create_upload("k", &Metadata::new())
            .await
            .expect("an upload");
        let failed = container.copy_part(&upload, 1, "s", &version(), 0..3).await;
        let failed = failed.expect_err("no copy");
        match expected {
            Some(expected) => assert_eq!(failed, expected, "{code}"),
            // Whoever wanted it sends the bytes.
            None => assert!(matches!(failed, Error::Unsupported(_)), "{failed}"),
        }
    }
    let (container, script) = container(vec![]);
    let upload = container
        .create_upload("k", &Metadata::new())
        .await
        .expect("an upload");
    for (number, range) in [(0, 0..1), (10_001, 0..1), (1, 0..0), (1, 0..4)] {
        let refused = container
            .copy_part(&upload, number, "s", &version(), range)
            .await;
        assert!(matches!(refused, Err(Error::Invalid(_))));
    }
    assert!(script.seen().is_empty());
}

async fn completed(steps: Vec<Step>, condition: &Condition) -> Result<Version> {
    let (container, script) = container(steps);
    let upload = container
        .create_upload("k", &Metadata::new())
        .await
        .expect("an upload");
    let part = Part {
        number: 1,
        etag: "bmFtZQ==".to_owned(),
        length_bytes: 3,
    };
    let result = container.complete(&upload, &[part], condition).await;
    assert!(script.is_over(), "steps are left");
    result
}

/// Blocks that are gone went with the first try of the same commit, or with another commit.
#[tokio::test(start_paused = true)]
async fn a_commit_knows_itself_and_others() {
    let (absent, is) = (Condition::Absent, Condition::Is(version()));
    let gone = || error(400, "InvalidBlockList");
    let exists = || error(409, "BlobAlreadyExists");
    assert_eq!(
        completed(vec![lost(), gone(), own()], &absent).await,
        Ok(version())
    );
    assert_eq!(
        completed(vec![lost(), exists(), own()], &absent).await,
        Ok(version())
    );
    assert_eq!(completed(vec![exists()], &absent).await, Err(Error::Exists));
    let others = |tag: &'static str| {
        let headers = [
            ("ETag", tag),
            ("Content-Length", "3"),
            ("x-ms-meta-pagewell_2dwrite", "another"),
        ];
        move || Step::Send(reply(200, &headers, b""))
    };
    let other = others("\"0x9\"");
    let made = completed(vec![gone(), other(), other()], &absent).await;
    assert_eq!(made, Err(Error::Exists));
    let made = completed(vec![gone(), other(), other()], &is).await;
    assert_eq!(made, Err(Error::Changed));
    // The object is as it was: as of an upload that is not there.
    let same = others(TAG);
    let made = completed(vec![gone(), same(), same()], &is).await;
    assert_eq!(made, Err(Error::NotFound));
    let none = || error(404, "BlobNotFound");
    let made = completed(vec![gone(), none(), none()], &is).await;
    assert_eq!(made, Err(Error::NotFound));
}

#[tokio::test(start_paused = true)]
async fn objects_go() {
    let accepted = || answer(202, "");
    let missing = || error(404, "BlobNotFound");
    let (container, script) = container(vec![
        accepted(),
        missing(),
        error(412, "ConditionNotMet"),
        made_by("x"),
        made_by("x"),
        error(412, "ConditionNotMet"),
        missing(),
        error(409, "SnapshotsPresent"),
    ]);
    let (always, is) = (Condition::Always, Condition::Is(version()));
    assert_eq!(container.delete("k", &is).await, Ok(()));
    assert_eq!(container.delete("k", &always).await, Ok(()));
    assert_eq!(container.delete("k", &is).await, Err(Error::Changed));
    let _ = container.head("k").await;
    assert_eq!(container.delete("k", &is).await, Err(Error::NotFound));
    let kept = container.delete("k", &always).await;
    assert!(matches!(kept, Err(Error::Invalid(_))), "{kept:?}");
    assert_eq!(script.seen()[0].header("if-match"), Some(TAG));
    assert!(script.is_over());
}

#[tokio::test(start_paused = true)]
async fn many_objects_go_side_by_side() {
    let script = Script::of(|seen: &[Seen]| match seen.last() {
        Some(seen) if seen.target.ends_with("/k7") => error(403, "AuthorizationFailure"),
        Some(seen) if seen.target.ends_with("/k8") => error(404, "BlobNotFound"),
        _ => answer(202, ""),
    });
    let many = of(Some(key()), &script);
    let keys: Vec<String> = (0..100).map(|number| format!("k{number}")).collect();
    let left = many.delete_many(&keys).await.expect("an answer");
    let [(key, reason)] = left.as_slice() else {
        panic!("{left:?}");
    };
    assert_eq!(key, "k7");
    assert!(reason.contains("AuthorizationFailure"), "{reason}");
    assert_eq!(script.seen().len(), 100);
}

#[tokio::test(start_paused = true)]
async fn a_server_is_asked_what_it_refuses() {
    let (container, script) = container(vec![
        error(400, "Md5Mismatch"),
        done(),
        error(412, "ConditionNotMet"),
        done(),
    ]);
    for expected in [true, false] {
        let put = container.damaged_put("k").expect("a call");
        let found = provoke::compares_hashes(container.as_ref(), put).await;
        assert_eq!(found, Ok(expected));
    }
    for expected in [true, false] {
        let get = container.get("k").expect("a call");
        let found = provoke::honours_if_match(container.as_ref(), get).await;
        assert_eq!(found, Ok(expected));
    }
    let wrong = script.seen()[0].header("content-md5").map(str::to_owned);
    assert_eq!(wrong.as_deref(), Some("AAAAAAAAAAAAAAAAAAAAAA=="));
}

#[tokio::test(start_paused = true)]
async fn a_directory_is_no_object() {
    let mark = [("Content-Length", "0"), ("x-ms-meta-hdi_isfolder", "true")];
    let directory = || Step::Send(reply(200, &mark, b""));
    let (container, _) = container(vec![directory(), directory(), directory()]);
    assert_eq!(container.head("d").await, Err(Error::NotFound));
    assert_eq!(container.at_once("d", 9).await, Err(Error::NotFound));
    // Where it is the object by which other programs keep an empty one, it is there.
    assert!(container.head("d/").await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_page_without_entries_is_not_the_end() {
    let page = |blobs: &str, next: &str| {
        let inner = format!("<Blobs>{blobs}</Blobs><NextMarker>{next}</NextMarker>");
        answer(
            200,
            &format!("<EnumerationResults>{inner}</EnumerationResults>"),
        )
    };
    let query = ListQuery {
        prefix: "",
        delimiter: true,
        token: None,
        page_entries_max: 9,
    };
    let found = "<BlobPrefix><Name>d/</Name></BlobPrefix>";
    let steps = vec![page("", "1"), page("", "2"), page(found, "3")];
    let (full, script) = container(steps);
    let listed = full.list(&query).await.expect("a page");
    assert_eq!(
        (listed.prefixes, listed.next),
        (vec!["d/".to_owned()], Some("3".to_owned()))
    );
    assert_eq!(script.seen().len(), 3);
    let steps = (0..EMPTY_PAGES_MAX).map(|number| page("", &number.to_string()));
    let (empty, _) = container(steps.collect());
    assert!(matches!(empty.list(&query).await, Err(Error::TryLater(_))));
}

#[tokio::test(start_paused = true)]
async fn a_long_address_is_no_source() {
    let upload = Upload {
        key: "k".to_owned(),
        id: "0".repeat(32),
        token: "t".to_owned(),
        metadata: Metadata::new(),
    };
    let (container, script) = container(Vec::new());
    let long = "\u{44f}".repeat(400);
    let copied = container
        .copy_part(&upload, 1, &long, &version(), 0..3)
        .await;
    assert!(matches!(copied, Err(Error::Unsupported(_))), "{copied:?}");
    assert!(script.seen().is_empty());
}
