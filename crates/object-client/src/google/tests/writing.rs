//! Changes, their conditions, and answers that are lost.

use super::*;
use crate::settle::TOKEN;

/// Small parts, so that a tree is seen.
const PARTS: u32 = 70;

fn is(generation: u64) -> Condition {
    Condition::Is(Version {
        etag: Some(resource::tag(generation, false)),
        last_modified: None,
        length_bytes: 0,
    })
}

async fn put(
    bucket: &Bucket,
    key: &str,
    body: &'static [u8],
    condition: &Condition,
) -> Result<Version> {
    let metadata = vec![
        ("mode".to_owned(), b"33188".to_vec()),
        (TOKEN.to_owned(), b"that of before".to_vec()),
    ];
    bucket
        .put(key, Bytes::from_static(body), condition, &metadata)
        .await
}

#[tokio::test(start_paused = true)]
async fn an_object_is_made_under_its_condition() {
    let (server, script) = server();
    let bucket = bucket_of(&script, "");
    let made = put(&bucket, "a b", b"one", &Condition::Absent).await;
    let made = made.expect("an object");
    assert_eq!(
        (made.etag.as_deref(), made.length_bytes),
        (Some("\"1\""), 3)
    );
    let object = server.lock().objects["a b"].clone();
    assert_eq!(
        (object.bytes.as_slice(), &object.metadata["mode"]),
        (&b"one"[..], &json!("33188"))
    );
    assert_eq!(object.metadata[TOKEN].as_str().map(str::len), Some(32));
    let again = put(&bucket, "a b", b"two", &Condition::Absent).await;
    assert_eq!(again, Err(Error::Exists));
    let stale = put(&bucket, "a b", b"two", &is(7)).await;
    assert_eq!(stale, Err(Error::Changed));
    put(&bucket, "a b", b"two", &is(1))
        .await
        .expect("the version");
    put(&bucket, "a b", b"", &Condition::Always)
        .await
        .expect("an object");
    let none = r#"{"error": {"code": 404, "errors": [{"reason": "notFound"}]}}"#;
    let (missing, _) = of_steps(vec![answer(404, none)]);
    let refused = put(&missing, "k", b"", &Condition::Always).await;
    assert!(matches!(refused, Err(Error::Invalid(text)) if text.contains("no bucket bucket")));
    let binary = vec![("x".to_owned(), vec![0xff])];
    let refused = bucket
        .put("k", Bytes::new(), &Condition::Always, &binary)
        .await;
    assert!(matches!(refused, Err(Error::Invalid(_))));
    assert_eq!(server.lock().objects["a b"].bytes, b"");
}

#[tokio::test(start_paused = true)]
async fn a_write_knows_itself() {
    let unclear = || Fault::Refused(503, "backendError");
    for fault in [Fault::Lost, unclear()] {
        let (server, script) = server();
        server.lock().faults.push_back(Some(fault));
        let bucket = bucket_of(&script, "");
        let made = put(&bucket, "k", b"one", &Condition::Absent).await;
        let generation = server.lock().objects["k"].generation;
        let etag = resource::tag(generation, false);
        assert_eq!(made.expect("an object").etag, Some(etag));
    }
    // Another's object is none of this write.
    let (server, script) = server();
    server.lock().place("k", b"other", json!({}));
    server.lock().faults.push_back(Some(unclear()));
    let bucket = bucket_of(&script, "");
    let made = put(&bucket, "k", b"one", &Condition::Absent).await;
    assert_eq!(made, Err(Error::Exists));
    assert_eq!(server.lock().objects["k"].bytes, b"other");
}

/// One change of an object in a second is what Google takes.
#[tokio::test(start_paused = true)]
async fn a_rate_limit_is_waited_for() {
    let (server, script) = server();
    let limited = [
        (429, "rateLimitExceeded"),
        (403, "rateLimitExceeded"),
        (503, "backendError"),
    ];
    let limited = limited.map(|(status, reason)| Some(Fault::Refused(status, reason)));
    server.lock().faults.extend(limited);
    let bucket = bucket_of(&script, "");
    put(&bucket, "k", b"one", &is(0))
        .await
        .expect_err("no generation");
    put(&bucket, "k", b"one", &Condition::Absent)
        .await
        .expect("an object");
    assert_eq!(script.seen().len(), 4);
    assert_eq!(bucket.transport.activity().throttled, 3);
}

#[tokio::test(start_paused = true)]
async fn other_bytes_at_the_server_are_seen() {
    for body in [
        r#"{"size": "4", "generation": "7"}"#,
        r#"{"size": "3", "generation": "7", "md5Hash": "AAAAAAAAAAAAAAAAAAAAAA=="}"#,
    ] {
        let (bucket, _) = of_steps(vec![answer(200, body)]);
        let made = put(&bucket, "k", b"abc", &Condition::Always).await;
        assert!(matches!(made, Err(Error::Protocol(_))), "{body}");
    }
}

#[tokio::test(start_paused = true)]
async fn objects_go_under_their_condition() {
    let (server, script) = server();
    let bucket = bucket_of(&script, "");
    let generation = server.lock().place("k", b"one", json!({}));
    assert_eq!(bucket.delete("k", &is(99)).await, Err(Error::Changed));
    server.lock().faults.push_back(Some(Fault::Lost));
    assert_eq!(bucket.delete("k", &is(generation)).await, Ok(()));
    assert_eq!(bucket.delete("k", &Condition::Always).await, Ok(()));
    assert_eq!(
        bucket.delete("k", &is(generation)).await,
        Err(Error::NotFound)
    );
}

#[tokio::test(start_paused = true)]
async fn many_objects_go_by_a_hundred() {
    let (server, script) = server();
    let bucket = bucket_of(&script, "");
    let keys: Vec<String> = (0..201)
        .map(|number| format!("d/{number} \u{e9}"))
        .collect();
    for key in &keys {
        server.lock().place(key, b"", json!({}));
    }
    server.lock().objects.remove(&keys[7]);
    assert_eq!(bucket.delete_many(&keys).await, Ok(Vec::new()));
    assert!(server.lock().objects.is_empty());
    let methods: Vec<_> = script
        .lines()
        .iter()
        .map(|line| line[..6].to_owned())
        .collect();
    assert_eq!(methods, ["POST /", "POST /", "DELETE"]);
    // What a batch leaves goes by itself, and a server that takes none is asked one by one.
    let keys = ["a stays".to_owned(), "b".to_owned()];
    for refuses in [false, true] {
        for key in &keys {
            server.lock().place(key, b"", json!({}));
        }
        let fault = refuses.then_some(Fault::Refused(404, "notFound"));
        server.lock().faults.push_back(fault);
        assert_eq!(bucket.delete_many(&keys).await, Ok(Vec::new()));
        assert!(server.lock().objects.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn deletes_of_many_objects_end_with_the_first_that_finds_no_server() {
    let (server, script) = server();
    let bucket = bucket_of(&script, "");
    let mut faults = vec![Some(Fault::Refused(404, "notFound"))];
    faults.resize_with(200, || Some(Fault::Refused(503, "backendError")));
    server.lock().faults.extend(faults);
    let keys: Vec<String> = (0..50).map(|number| number.to_string()).collect();
    let began = tokio::time::Instant::now();
    let ended = bucket.delete_many(&keys).await;
    assert!(matches!(ended, Err(Error::TryLater(_))), "{ended:?}");
    assert!(began.elapsed() < Duration::from_secs(100));
}

async fn parts_of(bucket: &Bucket, upload: &Upload, count: u32) -> Vec<Part> {
    let mut parts = Vec::new();
    for number in 1..=count {
        let body = Bytes::from(format!("part {number};"));
        let part = bucket.upload_part(upload, number, body).await;
        parts.push(part.expect("a part"));
    }
    parts
}

fn all(count: u32) -> Vec<u8> {
    let parts = (1..=count).map(|number| format!("part {number};"));
    parts.collect::<String>().into_bytes()
}

async fn begun(bucket: &Bucket, key: &str) -> Upload {
    let metadata = vec![("mode".to_owned(), b"33188".to_vec())];
    bucket
        .create_upload(key, &metadata)
        .await
        .expect("an upload")
}

#[tokio::test(start_paused = true)]
async fn an_object_is_composed_of_parts_in_a_tree() {
    for (count, keeps_sources) in [(1, false), (32, false), (PARTS, false), (PARTS, true)] {
        let (server, script) = server();
        server.lock().keeps_sources = keeps_sources;
        let bucket = bucket_of(&script, "root");
        let upload = begun(&bucket, "root/a/k").await;
        let parts = parts_of(&bucket, &upload, count).await;
        for key in server.lock().keys() {
            assert!(key.starts_with("root/.pagewell/parts/"), "{key}");
        }
        let listed = bucket.uploads("root/a/").await.expect("uploads");
        assert_eq!(
            (listed[0].key.as_str(), &listed[0].id),
            ("root/a/k", &upload.id)
        );
        assert!(listed.len() == 1 && listed[0].initiated.is_some());
        let made = bucket.complete(&upload, &parts, &Condition::Absent).await;
        let made = made.expect("an object");
        // Nothing else is left, whether the server has removed the parts or not.
        let server = server.lock();
        assert_eq!(server.keys(), ["root/a/k"]);
        let object = &server.objects["root/a/k"];
        assert_eq!(object.bytes, all(count));
        assert_eq!(object.metadata["mode"], "33188");
        assert_eq!(made.length_bytes, object.bytes.len() as u64);
        assert_eq!(made.etag, Some(resource::tag(object.generation, false)));
    }
}

#[tokio::test(start_paused = true)]
async fn an_end_has_a_condition_and_can_be_given_up() {
    let (server, script) = server();
    let bucket = bucket_of(&script, "");
    let generation = server.lock().place("k", b"another's", json!({}));
    for (condition, expected) in [(Condition::Absent, Error::Exists), (is(99), Error::Changed)] {
        let upload = begun(&bucket, "k").await;
        let parts = parts_of(&bucket, &upload, 40).await;
        let refused = bucket.complete(&upload, &parts, &condition).await;
        assert_eq!(refused, Err(expected));
        assert_eq!(server.lock().objects["k"].bytes, b"another's");
        assert_eq!(bucket.abort(&upload).await, Ok(()));
        assert_eq!(server.lock().keys(), ["k"]);
        assert_eq!(bucket.abort(&upload).await, Ok(()));
    }
    let upload = begun(&bucket, "k").await;
    let parts = parts_of(&bucket, &upload, 2).await;
    let made = bucket.complete(&upload, &parts, &is(generation)).await;
    assert!(made.is_ok() && server.lock().objects["k"].bytes == all(2));
}

/// Each answer of an upload is lost once, and the object is made once.
#[tokio::test(start_paused = true)]
async fn a_completion_knows_itself() {
    // Parts, two composes of them, and that of the object; then what removes what is left.
    for lost in 0..40 {
        let (server, script) = server();
        let bucket = bucket_of(&script, "");
        let upload = begun(&bucket, "k").await;
        let before = (0..lost).map(|_| None);
        server
            .lock()
            .faults
            .extend(before.chain([Some(Fault::Lost)]));
        let parts = parts_of(&bucket, &upload, 33).await;
        let made = bucket.complete(&upload, &parts, &Condition::Absent).await;
        let server = server.lock();
        assert_eq!(server.objects["k"].bytes, all(33), "{lost}");
        let etag = resource::tag(server.objects["k"].generation, false);
        assert_eq!(made.expect("an object").etag, Some(etag), "{lost}");
        assert_eq!(server.keys(), ["k"], "{lost}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_object_as_a_whole_is_a_part_without_bytes() {
    let (server, script) = server();
    let bucket = bucket_of(&script, "");
    let generation = server.lock().place("k", b"old;", json!({}));
    let version = bucket.head("k").await.expect("an object").version;
    // What is appended.
    let upload = begun(&bucket, "k").await;
    let copied = bucket.copy_part(&upload, 1, "k", &version, 0..4).await;
    let tail = bucket
        .upload_part(&upload, 2, Bytes::from_static(b"tail"))
        .await;
    let parts = [copied.expect("a part"), tail.expect("a part")];
    let made = bucket.complete(&upload, &parts, &is(generation)).await;
    let made = made.expect("an object");
    assert_eq!(server.lock().objects["k"].bytes, b"old;tail");
    assert_eq!(server.lock().keys(), ["k"]);
    // What gets another key, which may hold spaces.
    let upload = begun(&bucket, "other key").await;
    let copied = bucket
        .copy_part(&upload, 1, "k", &made, 0..8)
        .await
        .expect("a part");
    let copied = [copied];
    let moved = bucket.complete(&upload, &copied, &Condition::Absent).await;
    assert_eq!(server.lock().keys(), ["k", "other key"]);
    let again = bucket
        .copy_part(&upload, 1, "other key", &moved.expect("an object"), 0..8)
        .await;
    assert!(again.is_ok());
    // Neither another version nor a range.
    assert_eq!(
        bucket.copy_part(&upload, 1, "k", &version, 0..4).await,
        Err(Error::Changed)
    );
    let range = bucket.copy_part(&upload, 1, "k", &made, 1..8).await;
    assert!(matches!(range, Err(Error::Unsupported(_))));
    // The compose compares, too.
    server.lock().place("k", b"newer", json!({}));
    let stale = bucket.complete(&upload, &copied, &Condition::Always).await;
    assert_eq!(stale, Err(Error::Changed));
    assert_eq!(server.lock().objects["other key"].bytes, b"old;tail");
}

#[tokio::test(start_paused = true)]
async fn a_compose_that_is_refused_with_a_copy_says_so() {
    let described = r#"{"size": "4", "generation": "7"}"#;
    let refused = r#"{"error": {"code": 400, "errors": [{"reason": "invalid"}]}}"#;
    let (bucket, _) = of_steps(vec![answer(200, described), answer(400, refused)]);
    let version = Version {
        etag: Some("\"7\"".to_owned()),
        last_modified: None,
        length_bytes: 4,
    };
    let upload = begun(&bucket, "k").await;
    let copied = bucket
        .copy_part(&upload, 1, "k", &version, 0..4)
        .await
        .expect("a part");
    let made = bucket.complete(&upload, &[copied], &is(7)).await;
    assert!(matches!(made, Err(Error::Unsupported(_))), "{made:?}");
}

async fn compares_hashes(bucket: &Arc<Bucket>) -> Result<bool> {
    provoke::compares_hashes(bucket.as_ref(), bucket.damaged_put("k").expect("a call")).await
}

async fn honours_if_match(bucket: &Arc<Bucket>) -> Result<bool> {
    provoke::honours_if_match(bucket.as_ref(), bucket.get("k").expect("a call")).await
}

#[tokio::test(start_paused = true)]
async fn a_server_is_asked_what_it_refuses() {
    let (server, script) = server();
    let bucket = bucket_of(&script, "");
    assert_eq!(compares_hashes(&bucket).await, Ok(true));
    server.lock().place("k", b"x", json!({}));
    server.lock().place("k", b"x", json!({}));
    assert_eq!(honours_if_match(&bucket).await, Ok(true));
    let kept = r#"{"size": "22", "generation": "7"}"#;
    let (careless, _) = of_steps(vec![answer(200, kept), answer(200, "x")]);
    assert_eq!(compares_hashes(&careless).await, Ok(false));
    assert_eq!(honours_if_match(&careless).await, Ok(false));
}
