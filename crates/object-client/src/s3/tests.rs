mod hashes;

use super::*;
use crate::fetch::{End, fetch};
use crate::options::Keys;
use crate::provoke;
use crate::store::{Uploads as _, WholeObjects as _};
use crate::testing::{Collector, Script, Scripted, Seen, Step, part, reply};
use crate::version::Version;
use crate::writable::{Condition, Metadata, Part, Upload};
use bytes::Bytes;
use std::sync::Arc;

const TAG: &str = "\"900150983cd24fb0d6963f7d28e17f72\"";

pub(crate) fn options() -> Options {
    Options {
        endpoint: Some("http://store:9000".to_owned()),
        keys: Some(Keys {
            access_key_id: "public".to_owned(),
            secret_access_key: "secret".to_owned(),
            session_token: None,
        }),
        ..Options::default()
    }
}

pub(crate) fn bucket_of(script: &Arc<Script>, options: &Options) -> Arc<Bucket> {
    let transport = Transport::over(Box::new(Scripted(Arc::clone(script))), options);
    let settings = Settings {
        endpoint: options.endpoint.clone(),
        region: "us-east-1".to_owned(),
        profile: None,
        session: None,
    };
    let bucket = Bucket::with("bucket".to_owned(), options, &settings, transport);
    Arc::new(bucket.expect("a bucket"))
}

fn bucket(steps: Vec<Step>) -> (Arc<Bucket>, Arc<Script>) {
    let script = Script::new(steps);
    (bucket_of(&script, &options()), script)
}

fn answer(status: u16, body: &str) -> Step {
    Step::Send(reply(status, &[], body.as_bytes()))
}

fn error(status: u16, code: &str) -> Step {
    let body = format!("<Error><Code>{code}</Code><Message>of a test</Message></Error>");
    answer(status, &body)
}

#[tokio::test(start_paused = true)]
async fn what_is_no_store_is_named_as_one() {
    let query = ListQuery {
        prefix: "",
        delimiter: true,
        token: None,
        page_entries_max: 1000,
    };
    let ways = [
        ("http://web:8080", "may be another server"),
        ("http://store:9000/bucket", "without the bucket"),
    ];
    for (endpoint, expected) in ways {
        let script = Script::new([answer(404, "<html>nothing</html>")]);
        let options = Options {
            endpoint: Some(endpoint.to_owned()),
            ..options()
        };
        let error = bucket_of(&script, &options).list(&query).await;
        let text = error.expect_err("a web server").to_string();
        assert!(text.contains(expected), "{text}");
        assert!(text.contains(endpoint), "{text}");
    }
}

fn done() -> Step {
    Step::Send(reply(200, &[("ETag", TAG)], b""))
}

/// HEAD of an object with the token of the first request.
fn own() -> Step {
    Step::Answer(Box::new(|seen: &[Seen]| {
        let token = seen[0].header("x-amz-meta-pagewell-write");
        let headers = [
            ("ETag", TAG),
            ("Content-Length", "3"),
            ("x-amz-meta-pagewell-write", token.unwrap_or("none")),
        ];
        Step::Send(reply(200, &headers, b""))
    }))
}

fn others() -> Step {
    let headers = [
        ("ETag", "\"other\""),
        ("Content-Length", "9"),
        ("x-amz-meta-pagewell-write", "another"),
    ];
    Step::Send(reply(200, &headers, b""))
}

fn lost() -> Step {
    Step::Cut(Vec::new())
}

fn version() -> Version {
    Version {
        etag: Some(TAG.to_owned()),
        last_modified: None,
        length_bytes: 3,
    }
}

async fn put(steps: Vec<Step>, condition: &Condition) -> (Result<Version>, Vec<Seen>) {
    let (bucket, script) = bucket(steps);
    let body = Bytes::from_static(b"abc");
    let metadata = vec![
        ("mode".to_owned(), b"33188".to_vec()),
        ("name".to_owned(), "\u{e9}".as_bytes().to_vec()),
        ("pagewell-write".to_owned(), b"that of before".to_vec()),
    ];
    let result = bucket.put("k", body, condition, &metadata).await;
    assert!(script.is_over(), "steps are left");
    (result, script.seen())
}

#[tokio::test(start_paused = true)]
async fn keys_travel_as_they_are_and_are_signed() {
    let keys = [
        ("a//b", "/bucket/a//b"),
        ("./y", "/bucket/./y"),
        ("../y", "/bucket/../y"),
        ("/y", "/bucket//y"),
        ("x ", "/bucket/x%20"),
        ("dir/", "/bucket/dir/"),
        ("a~b", "/bucket/a~b"),
        ("a%41b", "/bucket/a%2541b"),
        ("\u{e9}?#", "/bucket/%C3%A9%3F%23"),
    ];
    let heads = keys.iter().map(|_| others());
    let (bucket, script) = bucket(heads.collect());
    for (key, _) in keys {
        bucket.head(key).await.expect(key);
    }
    for (seen, (_, path)) in script.seen().iter().zip(keys) {
        assert_eq!(seen.target, path);
        let signature = seen.header("authorization").unwrap_or("");
        assert!(signature.contains("Credential=public/"), "{signature}");
        assert!(signature.contains("/us-east-1/s3/aws4_request"));
        assert!(!format!("{seen:?}").contains("secret"));
        assert_eq!(seen.header("host"), Some("store:9000"));
    }
    let long = "k".repeat(1025);
    for key in ["", &long] {
        assert!(matches!(bucket.head(key).await, Err(Error::Invalid(_))));
    }
}

#[tokio::test(start_paused = true)]
async fn places_are_in_the_path_or_in_the_host() {
    let target = |options: &Options, name: &str| {
        let transport = Transport::over(Box::new(Scripted(Script::new([]))), options);
        let settings = Settings {
            endpoint: options.endpoint.clone(),
            region: "eu-1".to_owned(),
            profile: None,
            session: None,
        };
        let bucket = Bucket::with(name.to_owned(), options, &settings, transport);
        let target = bucket
            .expect("a bucket")
            .target("k", &[])
            .expect("a target");
        target.origin.url() + &target.path_and_query
    };
    let of = |endpoint: Option<&str>, path_style| Options {
        endpoint: endpoint.map(str::to_owned),
        path_style,
        ..options()
    };
    let aws = of(None, None);
    assert_eq!(target(&aws, "b"), "https://b.s3.eu-1.amazonaws.com/k");
    assert_eq!(target(&aws, "b.c"), "https://s3.eu-1.amazonaws.com/b.c/k");
    let own = of(Some("http://h:1/base/"), None);
    assert_eq!(target(&own, "b"), "http://h:1/base/b/k");
    let virtual_host = of(Some("http://h:1"), Some(false));
    assert_eq!(target(&virtual_host, "b"), "http://b.h:1/k");
}

#[tokio::test(start_paused = true)]
async fn a_missing_object_is_looked_at_twice_until_the_server_is_known() {
    let (unknown, script) = bucket(vec![
        answer(404, ""),
        error(404, "NoSuchBucket"),
        answer(404, ""),
        error(404, "XAdminUserNotFound"),
        answer(404, ""),
        error(404, "NoSuchKey"),
        others(),
        answer(404, ""),
    ]);
    let found = unknown.head("k").await.expect_err("no bucket");
    assert!(
        matches!(&found, Error::Invalid(text) if text.contains("NoSuchBucket")),
        "{found}"
    );
    let found = unknown.head("k").await.expect_err("no key");
    assert!(matches!(found, Error::Denied(_)), "{found}");
    assert_eq!(unknown.head("k").await, Err(Error::NotFound));
    unknown.head("k").await.expect("an object");
    assert_eq!(unknown.head("k").await, Err(Error::NotFound));
    assert!(script.is_over());
}

#[tokio::test(start_paused = true)]
async fn an_object_is_described_with_its_metadata() {
    let headers = [
        ("ETag", TAG),
        ("Content-Length", "3"),
        ("Content-Encoding", "aws-chunked"),
        ("x-amz-meta-Mode", "33188"),
        ("x-amz-meta-name", "\u{e9}"),
    ];
    let (bucket, _) = bucket(vec![Step::Send(reply(200, &headers, b""))]);
    let info = bucket.head("k").await.expect("an object");
    assert_eq!(info.version, version());
    let expected = vec![
        ("mode".to_owned(), b"33188".to_vec()),
        ("name".to_owned(), "\u{e9}".as_bytes().to_vec()),
    ];
    assert_eq!(info.metadata, expected);
}

#[tokio::test(start_paused = true)]
async fn bytes_are_fetched() {
    let all = Step::Send(part(b"abc", 0..3, TAG));
    let (bucket, script) = bucket(vec![all]);
    let sink = Collector::default();
    let call = bucket.get("k").expect("a call");
    let end = End::new(Box::new(sink.clone()));
    fetch(Arc::clone(&bucket), call, version(), 0..3, end).await;
    assert_eq!(sink.collected().end, Some(Ok(())));
    assert_eq!(sink.collected().bytes, b"abc");
    assert_eq!(script.seen()[0].header("if-match"), Some(TAG));
}

#[tokio::test(start_paused = true)]
async fn a_small_object_comes_with_what_it_is() {
    let headers = [("ETag", TAG), ("x-amz-meta-mode", "33188")];
    let whole = || Step::Send(reply(200, &headers, b"abc"));
    let (small, script) = bucket(vec![whole()]);
    let both = small.at_once("k", 3).await.expect("an object");
    let (info, bytes) = both.expect("both");
    assert_eq!(info.version, version());
    assert_eq!(info.metadata, [("mode".to_owned(), b"33188".to_vec())]);
    assert_eq!(bytes.as_deref(), Some(&b"abc"[..]));
    assert_eq!(script.seen().len(), 1);
    // Of a larger one its head alone comes.
    let head = Step::Send(reply(200, &[("ETag", TAG), ("Content-Length", "3")], b""));
    let (large, script) = bucket(vec![whole(), head]);
    let both = large.at_once("k", 2).await.expect("an object");
    let (info, bytes) = both.expect("both");
    assert_eq!((info.version, bytes), (version(), None));
    assert_eq!(script.seen()[1].method, "HEAD");
    // Bytes that its tag does not name.
    let other = Step::Send(reply(200, &headers, b"abd"));
    let (wrong, _) = bucket(vec![other]);
    assert!(matches!(
        wrong.at_once("k", 3).await,
        Err(Error::Protocol(_))
    ));
    let (gone, _) = bucket(vec![error(404, "NoSuchKey")]);
    assert_eq!(gone.at_once("k", 3).await, Err(Error::NotFound));
}

#[tokio::test(start_paused = true)]
async fn anonymous_requests_are_not_signed() {
    let script = Script::new([others()]);
    let anonymous = Options {
        anonymous: true,
        ..options()
    };
    bucket_of(&script, &anonymous)
        .head("k")
        .await
        .expect("an object");
    assert_eq!(script.seen()[0].header("authorization"), None);
}

#[tokio::test(start_paused = true)]
async fn the_region_of_a_bucket_is_learned() {
    let body = "<Error><Code>AuthorizationHeaderMalformed</Code><Region>eu-9</Region></Error>";
    let list = answer(200, "<ListBucketResult></ListBucketResult>");
    let again = answer(200, "<ListBucketResult></ListBucketResult>");
    let (bucket, script) = bucket(vec![answer(400, body), list, again]);
    let query = ListQuery {
        prefix: "p/",
        delimiter: true,
        token: None,
        page_entries_max: 1000,
    };
    bucket.list(&query).await.expect("a page");
    let next = ListQuery {
        token: Some("t/=+".to_owned()),
        delimiter: false,
        ..query
    };
    bucket.list(&next).await.expect("a page");
    let seen = script.seen();
    let signed = |seen: &Seen| seen.header("authorization").unwrap_or("").to_owned();
    assert!(signed(&seen[0]).contains("/us-east-1/"));
    assert!(signed(&seen[1]).contains("/eu-9/"));
    assert!(signed(&seen[2]).contains("/eu-9/"));
    assert_eq!(
        seen[1].target,
        "/bucket/?delimiter=%2F&encoding-type=url&list-type=2&max-keys=1000&prefix=p%2F"
    );
    assert_eq!(
        seen[2].target,
        "/bucket/?continuation-token=t%2F%3D%2B&encoding-type=url&list-type=2&max-keys=1000\
         &prefix=p%2F"
    );
}

#[tokio::test(start_paused = true)]
async fn a_put_carries_hashes_condition_and_metadata() {
    let (made, seen) = put(vec![done()], &Condition::Absent).await;
    assert_eq!(made, Ok(version()));
    let header = |name: &str| seen[0].header(name).unwrap_or("").to_owned();
    assert_eq!(seen[0].body, b"abc");
    assert_eq!(header("if-none-match"), "*");
    assert_eq!(header("content-md5"), "kAFQmDzST7DWlj99KOF/cg==");
    assert_eq!(
        header("x-amz-content-sha256"),
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    );
    assert_eq!(header("x-amz-meta-mode"), "33188");
    assert_eq!(header("x-amz-meta-name"), "\u{e9}");
    let token = header("x-amz-meta-pagewell-write");
    assert_eq!(token.len(), 32);
    let (_, seen) = put(vec![done()], &Condition::Is(version())).await;
    assert_eq!(seen[0].header("if-match"), Some(TAG));
    assert_ne!(
        seen[0].header("x-amz-meta-pagewell-write"),
        Some(token.as_str())
    );
    let weak = Condition::Is(Version {
        etag: None,
        ..version()
    });
    let (refused, _) = put(vec![], &weak).await;
    assert!(matches!(refused, Err(Error::Unsupported(_))));
}

#[tokio::test(start_paused = true)]
async fn conditions_that_fail_say_what_is_there() {
    let is = Condition::Is(version());
    let failed = || error(412, "PreconditionFailed");
    assert_eq!(
        put(vec![failed()], &Condition::Absent).await.0,
        Err(Error::Exists)
    );
    assert_eq!(put(vec![failed()], &is).await.0, Err(Error::Changed));
    assert_eq!(
        put(vec![error(404, "NoSuchKey")], &is).await.0,
        Err(Error::NotFound)
    );
    let busy = || error(409, "ConditionalRequestConflict");
    let (made, seen) = put(vec![busy(), busy(), done()], &Condition::Absent).await;
    assert_eq!(made, Ok(version()));
    assert_eq!(seen.len(), 3);
    let (refused, _) = put(vec![error(409, "ObjectParentIsFile")], &Condition::Absent).await;
    assert!(matches!(refused, Err(Error::Invalid(_))));
}

/// The answer is lost, or a 500, after the object was made: the second try meets it.
#[tokio::test(start_paused = true)]
async fn a_write_knows_itself() {
    let failed = || error(412, "PreconditionFailed");
    for first in [lost(), error(500, "InternalError"), answer(502, "<html>")] {
        let (made, seen) = put(vec![first, failed(), own()], &Condition::Absent).await;
        assert_eq!(made, Ok(version()));
        let methods: Vec<_> = seen.iter().map(|seen| seen.method.as_str()).collect();
        assert_eq!(methods, ["PUT", "PUT", "HEAD"]);
    }
    let is = Condition::Is(version());
    assert_eq!(
        put(vec![lost(), failed(), own()], &is).await.0,
        Ok(version())
    );
    // Another's object is none of this write.
    let (other, _) = put(vec![lost(), failed(), others()], &Condition::Absent).await;
    assert_eq!(other, Err(Error::Exists));
    assert_eq!(
        put(vec![lost(), failed(), others()], &is).await.0,
        Err(Error::Changed)
    );
    // Where nothing tells whose the object is, it is not said that another has made it.
    let denied = || error(403, "AccessDenied");
    let (open, _) = put(
        vec![lost(), failed(), denied(), denied()],
        &Condition::Absent,
    )
    .await;
    assert!(matches!(open, Err(Error::Denied(_))), "{open:?}");
    let bad = || error(400, "InvalidArgument");
    let (refused, _) = put(vec![lost(), bad(), bad(), bad()], &Condition::Absent).await;
    assert!(matches!(&refused, Err(Error::Invalid(text)) if text.starts_with("PUT ")));
    // Without a doubt nothing is asked.
    let (made, seen) = put(vec![lost(), done()], &Condition::Always).await;
    assert_eq!((made, seen.len()), (Ok(version()), 2));
}

/// One server loses the metadata of a folder's marker, and the token with it.
#[tokio::test(start_paused = true)]
async fn a_marker_of_a_folder_is_as_good_as_any_other() {
    let bare = |length: &'static str| {
        Step::Send(reply(
            200,
            &[("ETag", TAG), ("Content-Length", length)],
            b"",
        ))
    };
    for (key, length, expected) in [("d/", "0", true), ("d/", "1", false), ("d", "0", false)] {
        let failed = error(412, "PreconditionFailed");
        let (bucket, _) = bucket(vec![lost(), failed, bare(length)]);
        let (absent, none) = (Condition::Absent, Metadata::new());
        let made = bucket.put(key, Bytes::new(), &absent, &none).await;
        assert_eq!(made.is_ok(), expected, "{key} {length}: {made:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn other_bytes_at_the_server_are_seen() {
    let other = "\"00000000000000000000000000000000\"";
    let (made, _) = put(
        vec![Step::Send(reply(200, &[("ETag", other)], b""))],
        &Condition::Always,
    )
    .await;
    assert!(matches!(made, Err(Error::Protocol(_))));
    for headers in [
        vec![("ETag", "\"00000000000000000000000000000000-1\"")],
        vec![("ETag", other), ("x-amz-server-side-encryption", "aws:kms")],
    ] {
        let (made, _) = put(
            vec![Step::Send(reply(200, &headers, b""))],
            &Condition::Always,
        )
        .await;
        assert_eq!(made.expect("an object").etag.as_deref(), Some(headers[0].1));
    }
    let (made, _) = put(vec![error(400, "BadDigest"), done()], &Condition::Always).await;
    assert_eq!(made, Ok(version()));
}

fn upload() -> Upload {
    Upload {
        key: "k".to_owned(),
        id: "id/+".to_owned(),
        token: "token".to_owned(),
        metadata: Metadata::new(),
    }
}

#[tokio::test(start_paused = true)]
async fn an_object_is_made_of_parts() {
    // One server calls it so, others InitiateMultipartUploadResult.
    let begun = "<InitiateMultipartUpload><UploadId>id/+</UploadId></InitiateMultipartUpload>";
    let copied = "<CopyPartResult><ETag>&quot;c&quot;</ETag></CopyPartResult>";
    let ended = "<CompleteMultipartUploadResult><ETag>\"e-2\"</ETag>\
                 </CompleteMultipartUploadResult>";
    let steps = vec![
        answer(200, begun),
        done(),
        answer(200, copied),
        answer(200, ended),
    ];
    let (bucket, script) = bucket(steps);
    let upload = bucket
        .create_upload("k", &Metadata::new())
        .await
        .expect("an upload");
    assert_eq!(upload.id, "id/+");
    let body = Bytes::from_static(b"abc");
    let first = bucket.upload_part(&upload, 1, body).await.expect("a part");
    let source = Version {
        length_bytes: 100,
        ..version()
    };
    let second = bucket
        .copy_part(&upload, 2, "a//b c", &source, 10..20)
        .await;
    let second = second.expect("a part");
    assert_eq!((second.etag.as_str(), second.length_bytes), ("\"c\"", 10));
    let is = Condition::Is(version());
    let made = bucket.complete(&upload, &[first, second], &is).await;
    let made = made.expect("an object");
    assert_eq!(
        (made.etag.as_deref(), made.length_bytes),
        (Some("\"e-2\""), 13)
    );
    let expected = [
        "POST /bucket/k?uploads=",
        "PUT /bucket/k?partNumber=1&uploadId=id%2F%2B",
        "PUT /bucket/k?partNumber=2&uploadId=id%2F%2B",
        "POST /bucket/k?uploadId=id%2F%2B",
    ];
    assert_eq!(script.lines(), expected);
    let seen = script.seen();
    assert_eq!(
        seen[0].header("x-amz-meta-pagewell-write"),
        Some(upload.token.as_str())
    );
    assert_eq!(
        seen[1].header("content-md5"),
        Some("kAFQmDzST7DWlj99KOF/cg==")
    );
    assert_eq!(
        seen[2].header("x-amz-copy-source"),
        Some("/bucket/a//b%20c")
    );
    assert_eq!(
        seen[2].header("x-amz-copy-source-range"),
        Some("bytes=10-19")
    );
    assert_eq!(seen[2].header("x-amz-copy-source-if-match"), Some(TAG));
    assert_eq!(seen[3].header("if-match"), Some(TAG));
    let body = String::from_utf8_lossy(&seen[3].body).into_owned();
    assert!(
        body.contains("<PartNumber>2</PartNumber><ETag>&quot;c&quot;</ETag>"),
        "{body}"
    );
}

#[tokio::test(start_paused = true)]
async fn nonsense_of_parts_is_refused() {
    let (bucket, script) = bucket(vec![]);
    let part = |number| Part {
        number,
        etag: "\"e\"".to_owned(),
        length_bytes: 1,
    };
    for number in [0, 10_001] {
        let refused = bucket.upload_part(&upload(), number, Bytes::new()).await;
        assert!(matches!(refused, Err(Error::Invalid(_))));
    }
    for parts in [[part(2), part(1)], [part(1), part(1)]] {
        let refused = bucket.complete(&upload(), &parts, &Condition::Always).await;
        assert!(matches!(refused, Err(Error::Invalid(_))));
    }
    for range in [0..0, 0..4, 3..4] {
        let refused = bucket.copy_part(&upload(), 1, "s", &version(), range).await;
        assert!(matches!(refused, Err(Error::Invalid(_))));
    }
    assert!(script.seen().is_empty());
}

async fn completed(steps: Vec<Step>, condition: &Condition) -> Result<Version> {
    let (bucket, script) = bucket(steps);
    let part = Part {
        number: 1,
        etag: TAG.to_owned(),
        length_bytes: 3,
    };
    let result = bucket.complete(&upload(), &[part], condition).await;
    assert!(script.is_over(), "steps are left");
    result
}

#[tokio::test(start_paused = true)]
async fn a_completion_knows_itself() {
    let own = || {
        let headers = [
            ("ETag", TAG),
            ("Content-Length", "3"),
            ("x-amz-meta-pagewell-write", "token"),
        ];
        Step::Send(reply(200, &headers, b""))
    };
    let absent = Condition::Absent;
    for second in [
        error(404, "NoSuchUpload"),
        error(403, "AccessDenied"),
        error(412, "PreconditionFailed"),
    ] {
        assert_eq!(
            completed(vec![lost(), second, own()], &absent).await,
            Ok(version())
        );
    }
    let gone = || error(404, "NoSuchUpload");
    let other = completed(vec![lost(), gone(), others()], &absent).await;
    assert_eq!(other, Err(Error::NotFound));
    let failed = error(412, "PreconditionFailed");
    assert_eq!(completed(vec![failed], &absent).await, Err(Error::Exists));
    // A server begins to answer before it knows how it ends.
    let late = "\n \n<Error><Code>InternalError</Code></Error>";
    let ended = "<CompleteMultipartUploadResult><ETag>x</ETag></CompleteMultipartUploadResult>";
    let made = completed(vec![answer(200, late), answer(200, ended)], &absent).await;
    assert_eq!(made.expect("an object").etag.as_deref(), Some("\"x\""));
    let late = "<Error><Code>PreconditionFailed</Code></Error>";
    assert_eq!(
        completed(vec![answer(200, late)], &absent).await,
        Err(Error::Exists)
    );
}

#[tokio::test(start_paused = true)]
async fn objects_and_uploads_go() {
    let (bucket, script) = bucket(vec![
        answer(204, ""),
        answer(404, ""),
        error(412, "PreconditionFailed"),
        lost(),
        answer(404, ""),
        answer(204, ""),
        error(404, "NoSuchUpload"),
        error(501, "NotImplemented"),
    ]);
    let (always, is) = (Condition::Always, Condition::Is(version()));
    assert_eq!(bucket.delete("k", &is).await, Ok(()));
    assert_eq!(bucket.delete("k", &always).await, Ok(()));
    assert_eq!(bucket.delete("k", &is).await, Err(Error::Changed));
    assert_eq!(bucket.delete("k", &is).await, Ok(()));
    assert_eq!(bucket.abort(&upload()).await, Ok(()));
    assert_eq!(bucket.abort(&upload()).await, Ok(()));
    let refused = bucket.uploads("").await;
    assert!(matches!(refused, Err(Error::Unsupported(_))));
    assert!(script.is_over());
    assert_eq!(script.seen()[0].header("if-match"), Some(TAG));
}

#[tokio::test(start_paused = true)]
async fn many_objects_go_by_a_thousand() {
    let result = "<DeleteResult><Error><Key>k7</Key><Code>AccessDenied</Code><Message>no</Message>\
                  </Error><Error><Key>k8</Key><Code>NoSuchKey</Code></Error></DeleteResult>";
    let (bucket, script) = bucket(vec![answer(200, result), answer(200, "<DeleteResult/>")]);
    let keys: Vec<String> = (0..1001).map(|number| format!("k{number}")).collect();
    let left = bucket.delete_many(&keys).await.expect("an answer");
    assert_eq!(left, [("k7".to_owned(), "AccessDenied: no".to_owned())]);
    let seen = script.seen();
    assert_eq!(seen[0].target, "/bucket/?delete=");
    assert!(seen[0].header("content-md5").is_some());
    let body = String::from_utf8_lossy(&seen[0].body).into_owned();
    assert_eq!(body.matches("<Key>").count(), 1000);
    assert!(String::from_utf8_lossy(&seen[1].body).contains("<Key>k1000</Key>"));
}

#[tokio::test(start_paused = true)]
async fn uploads_are_listed_to_their_end() {
    let page = |inner: &str| {
        answer(
            200,
            &format!("<ListMultipartUploadsResult>{inner}</ListMultipartUploadsResult>"),
        )
    };
    let upload = |key: &str| {
        format!(
            "<Upload><Key>{key}</Key><UploadId>u</UploadId>\
             <Initiated>2026-11-28T03:21:43.000Z</Initiated></Upload>"
        )
    };
    let more = "<IsTruncated>true</IsTruncated><NextKeyMarker>p/a</NextKeyMarker>\
                <NextUploadIdMarker>u</NextUploadIdMarker>";
    let (bucket, script) = bucket(vec![
        page(&format!("{}{more}", upload("p/a"))),
        page(&format!("{}{more}", upload("p/b"))),
    ]);
    let found = bucket.uploads("p/").await.expect("uploads");
    let keys: Vec<_> = found.iter().map(|upload| upload.key.as_str()).collect();
    assert_eq!(keys, ["p/a", "p/b"]);
    assert!(found[0].initiated.is_some());
    assert!(script.is_over());
    assert!(script.lines()[1].contains("key-marker=p%2Fa"));
}

#[tokio::test(start_paused = true)]
async fn signed_requests_are_not_led_elsewhere() {
    let moved = Step::Send(reply(
        307,
        &[("Location", "http://elsewhere/bucket/k")],
        b"",
    ));
    let (made, _) = put(vec![moved], &Condition::Always).await;
    assert!(matches!(made, Err(Error::Protocol(_))));
    let moved = Step::Send(reply(307, &[("Location", "/bucket/other")], b""));
    let (made, seen) = put(vec![moved, done()], &Condition::Always).await;
    assert_eq!(made, Ok(version()));
    assert_eq!(seen[1].target, "/bucket/other");
    assert_eq!(seen[1].body, b"abc");
    assert_ne!(
        seen[0].header("authorization"),
        seen[1].header("authorization")
    );
}

async fn compares_hashes(bucket: &Arc<Bucket>) -> Result<bool> {
    provoke::compares_hashes(bucket.as_ref(), bucket.damaged_put("k").expect("a call")).await
}

async fn honours_if_match(bucket: &Arc<Bucket>) -> Result<bool> {
    provoke::honours_if_match(bucket.as_ref(), bucket.get("k").expect("a call")).await
}

#[tokio::test(start_paused = true)]
async fn a_server_is_asked_what_it_refuses() {
    let (bucket, script) = bucket(vec![
        error(400, "BadDigest"),
        done(),
        error(403, "AccessDenied"),
        error(412, "PreconditionFailed"),
        done(),
    ]);
    assert_eq!(compares_hashes(&bucket).await, Ok(true));
    assert_eq!(compares_hashes(&bucket).await, Ok(false));
    let denied = compares_hashes(&bucket).await;
    assert!(matches!(denied, Err(Error::Denied(_))));
    assert_eq!(honours_if_match(&bucket).await, Ok(true));
    assert_eq!(honours_if_match(&bucket).await, Ok(false));
    assert_eq!(
        script.seen()[0].header("content-md5"),
        Some("AAAAAAAAAAAAAAAAAAAAAA==")
    );
    assert!(script.seen()[3].header("if-match").is_some());
}

/// An answer before the request was sent is an answer; the connection is not used again.
#[tokio::test(start_paused = true)]
async fn an_early_refusal_is_heard() {
    let script = Script::new([Step::Early(reply(403, &[], b"")), done()]);
    let began = tokio::time::Instant::now();
    let bucket = bucket_of(&script, &options());
    let body = Bytes::from(vec![7; 1_000_000]);
    let metadata = Metadata::new();
    let refused = bucket.put("k", body, &Condition::Always, &metadata).await;
    assert!(matches!(refused, Err(Error::Denied(_))), "{refused:?}");
    let body = Bytes::from_static(b"abc");
    let made = bucket.put("k", body, &Condition::Always, &metadata).await;
    assert_eq!(made, Ok(version()));
    assert_eq!(script.seen()[1].connection, 2);
    assert_eq!(began.elapsed(), std::time::Duration::ZERO);
}
