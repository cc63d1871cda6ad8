use std::time::Duration;

use super::*;
use crate::location::Location;
use crate::options::Options;
use crate::testing::{Collected, Collector, Script, Scripted, Step, begin, part, reply};

const TAG: &str = "\"one\"";

fn body() -> Vec<u8> {
    (0..200_000_u32).map(|byte| (byte % 251) as u8).collect()
}

fn version() -> Version {
    Version {
        etag: Some(TAG.to_owned()),
        last_modified: None,
        length_bytes: 200_000,
    }
}

fn web(script: &Arc<Script>, url: &str) -> Arc<Web> {
    let options = Options::default();
    let transport = Transport::over(Box::new(Scripted(Arc::clone(script))), &options);
    let location = Location::parse(url, &mut options.clone()).expect("a URL");
    let Location::Web {
        origin,
        path_and_query,
        prefix,
    } = location
    else {
        panic!("of the web");
    };
    Arc::new(Web::new(transport, origin, path_and_query, prefix))
}

const URL: &str = "http://h/a//./%41?x=%2f";
const KEY: &str = "a//./A";

async fn fetched(web: &Arc<Web>, range: Range<u64>) -> Collected {
    let sink = Collector::default();
    let end = End::new(Box::new(sink.clone()));
    fetch(Arc::clone(web), web.get(KEY), version(), range, end).await;
    sink.collected()
}

/// Fetches 100 to 150,000 from a server that goes through `steps`.
async fn tried(steps: Vec<Step>) -> (Collected, Arc<Script>) {
    let script = Script::new(steps);
    let collected = fetched(&web(&script, URL), 100..150_000).await;
    assert!(script.is_over(), "steps are left");
    (collected, script)
}

fn right() -> Vec<u8> {
    part(&body(), 100..150_000, TAG)
}

fn assert_whole(collected: &Collected) {
    assert_eq!(collected.end, Some(Ok(())));
    assert!(collected.bytes == body()[100..150_000], "other bytes");
}

fn assert_none(collected: &Collected) -> Error {
    assert!(collected.bytes.is_empty(), "bytes came");
    let end = collected.end.clone().expect("an end");
    end.expect_err("an error")
}

#[tokio::test(start_paused = true)]
async fn a_range_is_asked_for_as_it_is() {
    let (collected, script) = tried(vec![Step::Send(right())]).await;
    assert_whole(&collected);
    let seen = &script.seen()[0];
    assert_eq!(seen.target, "/a//./%41?x=%2f");
    assert_eq!(seen.header("range"), Some("bytes=100-149999"));
    assert_eq!(seen.header("if-match"), Some(TAG));
    assert_eq!(seen.header("accept-encoding"), Some("identity"));
    assert_eq!(seen.header("host"), Some("h"));
    assert_eq!(seen.header("authorization"), None);
}

#[tokio::test(start_paused = true)]
async fn empty_ranges_and_those_past_the_end_ask_nothing() {
    let script = Script::new([]);
    let web = web(&script, URL);
    assert_eq!(fetched(&web, 7..7).await.end, Some(Ok(())));
    let past = fetched(&web, 199_999..200_001).await.end;
    assert!(matches!(past, Some(Err(Error::Invalid(_)))));
    assert!(script.seen().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_cut_body_goes_on_where_it_ended() {
    let rest = |from: usize| part(&body(), from..150_000, TAG);
    let (collected, script) = tried(vec![
        Step::Cut(begin(&right(), 50_000)),
        Step::Cut(Vec::new()),
        Step::Cut(begin(&rest(50_100), 1)),
        Step::Send(rest(50_101)),
    ])
    .await;
    assert_whole(&collected);
    let ranges: Vec<_> = script
        .seen()
        .iter()
        .map(|seen| seen.header("range").unwrap_or("").to_owned())
        .collect();
    let expected = [100, 50_100, 50_100, 50_101].map(|first| format!("bytes={first}-149999"));
    assert_eq!(ranges, expected);
}

#[tokio::test(start_paused = true)]
async fn versions_do_not_come_together() {
    let other = part(&body(), 50_100..150_000, "\"two\"");
    for second in [other, reply(412, &[], b""), reply(416, &[], b"")] {
        let first = Step::Cut(begin(&right(), 50_000));
        let (collected, _) = tried(vec![first, Step::Send(second)]).await;
        assert_eq!(collected.end, Some(Err(Error::Changed)));
        assert!(collected.bytes == body()[100..50_100]);
    }
    let other = part(&body(), 100..150_000, "\"two\"");
    let (collected, _) = tried(vec![Step::Send(other)]).await;
    assert_eq!(assert_none(&collected), Error::Changed);
    let (collected, _) = tried(vec![Step::Send(reply(404, &[], b""))]).await;
    assert_eq!(assert_none(&collected), Error::NotFound);
}

/// A lying answer is asked for once more, and not a byte of it is passed on.
#[tokio::test(start_paused = true)]
async fn lies_are_not_passed_on() {
    let lie =
        |headers: &[(&str, &str)], bytes: usize| reply(206, headers, &body()[100..100 + bytes]);
    let range = ("Content-Range", "bytes 100-149999/200000");
    let tag = ("ETag", TAG);
    let lies = [
        lie(&[tag, ("Content-Range", "bytes 0-149899/200000")], 149_900),
        lie(&[tag], 149_900),
        lie(&[range], 149_900),
        lie(&[range, tag], 149_899),
        lie(&[range, tag, ("Content-Encoding", "gzip")], 149_900),
        lie(
            &[tag, ("Content-Range", "bytes 100-149999/200001")],
            149_900,
        ),
    ];
    for lie in lies {
        let twice = vec![Step::Send(lie.clone()), Step::Send(lie.clone())];
        let (collected, _) = tried(twice).await;
        assert!(matches!(assert_none(&collected), Error::Protocol(_)));
        let (collected, _) = tried(vec![Step::Send(lie), Step::Send(right())]).await;
        assert_whole(&collected);
    }
}

#[tokio::test(start_paused = true)]
async fn more_or_fewer_bytes_than_a_chunked_answer_may_have_are_seen() {
    let chunked = |bytes: &[u8]| {
        let headers = [
            ("Content-Range", "bytes 100-149999/200000"),
            ("ETag", TAG),
            ("Transfer-Encoding", "chunked"),
        ];
        let chunk = [
            format!("{:x}\r\n", bytes.len()).as_bytes(),
            bytes,
            b"\r\n0\r\n\r\n",
        ]
        .concat();
        reply(206, &headers, &chunk)
    };
    let (collected, _) = tried(vec![
        Step::Send(chunked(&body()[100..90_000])),
        Step::Send(part(&body(), 90_000..150_000, TAG)),
    ])
    .await;
    assert_whole(&collected);
    let (collected, _) = tried(vec![Step::Send(chunked(&body()[100..150_001]))]).await;
    assert!(matches!(collected.end, Some(Err(Error::Protocol(_)))));
    assert!(collected.bytes.len() <= 149_900);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_ignores_ranges_is_refused_unless_all_is_wanted() {
    let whole = reply(200, &[("ETag", TAG)], &body());
    let (collected, _) = tried(vec![Step::Send(whole.clone())]).await;
    assert!(matches!(assert_none(&collected), Error::Unsupported(_)));
    let script = Script::new([Step::Send(whole)]);
    let collected = fetched(&web(&script, URL), 0..200_000).await;
    assert_eq!(collected.end, Some(Ok(())));
    assert!(collected.bytes == body());
}

#[tokio::test(start_paused = true)]
async fn silence_is_not_waited_for() {
    let began = Instant::now();
    let (collected, _) = tried(vec![
        Step::Stall(begin(&right(), 70_000)),
        Step::Stall(Vec::new()),
        Step::Send(part(&body(), 70_100..150_000, TAG)),
    ])
    .await;
    assert_whole(&collected);
    let waited = began.elapsed();
    assert!(
        waited >= Duration::from_secs(60) && waited < Duration::from_secs(65),
        "{waited:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_throttled_host_is_left_alone_as_long_as_it_wants() {
    for status in [429, 503] {
        let began = Instant::now();
        let busy = reply(status, &[("Retry-After", "7")], b"");
        let (collected, _) = tried(vec![Step::Send(busy), Step::Send(right())]).await;
        assert_whole(&collected);
        let waited = began.elapsed();
        assert!(
            waited >= Duration::from_secs(7) && waited < Duration::from_secs(8),
            "{waited:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn others_wait_too_where_a_host_is_throttled() {
    let busy = reply(503, &[("Retry-After", "7")], b"");
    let script = Script::new([Step::Send(busy), Step::Send(right()), Step::Send(right())]);
    let web = web(&script, URL);
    let first = tokio::spawn({
        let web = Arc::clone(&web);
        async move { fetched(&web, 100..150_000).await }
    });
    // The first one has its answer, and pauses.
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(script.seen().len(), 1);
    let began = Instant::now();
    assert_whole(&fetched(&web, 100..150_000).await);
    assert!(began.elapsed() >= Duration::from_secs(6));
    assert_whole(&first.await.expect("a fetch"));
}

#[tokio::test(start_paused = true)]
async fn the_budget_ends() {
    let busy = || Step::Send(reply(503, &[], b""));
    let script = Script::new((0..1000).map(|_| busy()));
    let began = Instant::now();
    let error = assert_none(&fetched(&web(&script, URL), 100..150_000).await);
    assert!(matches!(error, Error::TryLater(_)), "{error}");
    assert!(error.to_string().contains("http://h/a//./%41"), "{error}");
    let waited = began.elapsed();
    assert!(
        waited > Duration::from_secs(50) && waited <= Duration::from_secs(61),
        "{waited:?}"
    );
    assert!(script.seen().len() > 8 && script.seen().len() < 100);

    // A host that was never there is not waited for as long as one that has gone.
    let script = Script::new([Step::Send(right())]);
    let web = self::web(&script, URL);
    let waited = async || {
        script.refuse(1000);
        let began = Instant::now();
        let error = assert_none(&fetched(&web, 100..150_000).await);
        assert!(matches!(error, Error::Unreachable(_)), "{error}");
        began.elapsed().as_secs()
    };
    let stranger = waited().await;
    assert!((4..14).contains(&stranger), "{stranger}");
    script.refuse(0);
    assert_whole(&fetched(&web, 100..150_000).await);
    // Longer than a connection is kept.
    tokio::time::sleep(Duration::from_secs(26)).await;
    let known = waited().await;
    assert!((50..62).contains(&known), "{known}");
}

#[tokio::test(start_paused = true)]
async fn small_answers_do_not_wait_for_bodies() {
    let stalled = (0..64).map(|_| Step::Stall(begin(&right(), 1)));
    let script = Script::new(stalled.chain([Step::Send(reply(200, &[("ETag", TAG)], b""))]));
    let web = web(&script, URL);
    let fetches: Vec<_> = (0..70)
        .map(|_| {
            let web = Arc::clone(&web);
            tokio::spawn(async move { fetched(&web, 100..150_000).await })
        })
        .collect();
    tokio::time::sleep(Duration::from_secs(1)).await;
    // As many connections as there may be are waiting for bytes.
    assert_eq!(script.seen().len(), 64);
    let began = Instant::now();
    web.head(KEY).await.expect("a file");
    assert_eq!(began.elapsed(), Duration::ZERO);
    for fetch in fetches {
        fetch.abort();
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_is_kept_and_one_that_was_closed_is_replaced() {
    let script = Script::new([
        Step::Send(right()),
        Step::Send(right()),
        Step::Cut(right()),
        Step::Send(right()),
    ]);
    let web = web(&script, URL);
    let began = Instant::now();
    for _ in 0..4 {
        assert_whole(&fetched(&web, 100..150_000).await);
    }
    let connections: Vec<_> = script.seen().iter().map(|seen| seen.connection).collect();
    assert_eq!(connections, [1, 1, 1, 2]);
    // Nothing of this counts as a failure.
    assert_eq!(began.elapsed(), Duration::ZERO);
    let activity = web.transport.activity();
    assert_eq!(
        (activity.gets, activity.retries, activity.connections),
        (4, 0, 2)
    );
    // It may close while the request is on its way.
    let script = Script::new([
        Step::Send(right()),
        Step::Cut(Vec::new()),
        Step::Send(right()),
    ]);
    let web = self::web(&script, URL);
    assert_whole(&fetched(&web, 100..150_000).await);
    assert_whole(&fetched(&web, 100..150_000).await);
    assert_eq!(web.transport.activity().retries, 0);
    // A connection that was idle for long is not used again.
    let script = Script::new([Step::Send(right()), Step::Send(right())]);
    let web = self::web(&script, URL);
    assert_whole(&fetched(&web, 100..150_000).await);
    tokio::time::sleep(Duration::from_secs(26)).await;
    assert_whole(&fetched(&web, 100..150_000).await);
    assert_eq!(script.seen()[1].connection, 2);
}

#[tokio::test(start_paused = true)]
async fn a_folder_without_its_slash_is_named_as_one() {
    let page = || {
        let chunked = [("Transfer-Encoding", "chunked")];
        Step::Send(reply(200, &chunked, b"0\r\n\r\n"))
    };
    let moved = || Step::Send(reply(301, &[("Location", "http://h/a/b/")], b""));
    let script = Script::of(move |seen| {
        let is_folder = seen.last().is_some_and(|seen| seen.target == "/a/b/");
        if is_folder { page() } else { moved() }
    });
    let error = web(&script, "http://h/a/b").head("a/b").await;
    let text = error.expect_err("a folder").to_string();
    assert!(text.ends_with("ends with a slash: http://h/a/b/"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn redirects_are_followed_and_remembered() {
    let moved = |status, location| Step::Send(reply(status, &[("Location", location)], b"moved"));
    let script = Script::new([
        moved(302, "http://other/x//y"),
        moved(307, "z"),
        Step::Send(right()),
        Step::Send(right()),
        // The mirror has gone: the server is asked again.
        Step::Send(reply(404, &[], b"")),
        moved(301, "http://third/"),
        Step::Send(right()),
    ]);
    let web = web(&script, URL);
    for _ in 0..3 {
        assert_whole(&fetched(&web, 100..150_000).await);
    }
    let urls: Vec<_> = script
        .seen()
        .iter()
        .map(|seen| format!("{}{}", seen.url, seen.target))
        .collect();
    let (own, mirror) = ("http://h/a//./%41?x=%2f", "http://other/x//z");
    let expected = [
        own,
        "http://other/x//y",
        mirror,
        mirror,
        mirror,
        own,
        "http://third/",
    ];
    assert_eq!(urls, expected);
    let again = || moved(301, "http://h/a");
    let (collected, _) = tried((0..6).map(|_| again()).collect()).await;
    assert!(matches!(assert_none(&collected), Error::Protocol(_)));
}

#[tokio::test(start_paused = true)]
async fn what_speaks_no_http_is_not_asked_again() {
    let flood = format!("HTTP/1.1 206 OK\r\nX: {}\r\n\r\n", "x".repeat(300_000));
    let many = format!("HTTP/1.1 206 OK\r\n{}\r\n", "X: x\r\n".repeat(200));
    let bad_length = "HTTP/1.1 206 OK\r\nContent-Length: -1\r\n\r\n".to_owned();
    let other = "SSH-2.0-Some\r\n\r\n".to_owned();
    for bytes in [flood, many, bad_length, other] {
        let (collected, _) = tried(vec![Step::Cut(bytes.into_bytes())]).await;
        let error = assert_none(&collected);
        assert!(matches!(error, Error::Protocol(_)), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_end_comes_though_a_fetch_is_given_up() {
    let script = Script::new([Step::Stall(Vec::new())]);
    let web = web(&script, URL);
    let sink = Collector::default();
    let end = End::new(Box::new(sink.clone()));
    let task = tokio::spawn(fetch(Arc::clone(&web), web.get(KEY), version(), 0..1, end));
    tokio::time::sleep(Duration::from_secs(1)).await;
    task.abort();
    assert!(task.await.is_err());
    assert!(matches!(
        sink.collected().end,
        Some(Err(Error::Unreachable(_)))
    ));
}

async fn described(steps: Vec<Step>) -> (Result<ObjectInfo>, Vec<String>) {
    let script = Script::new(steps);
    let described = web(&script, "http://h/f").head("f").await;
    assert!(script.is_over(), "steps are left");
    let methods = script.seen().into_iter().map(|seen| seen.method);
    (described, methods.collect())
}

#[tokio::test(start_paused = true)]
async fn a_file_is_described_by_head_or_by_its_first_byte() {
    let modified = "Sat, 28 Nov 2026 03:21:43 GMT";
    let headers = [
        ("Content-Length", "5"),
        ("ETag", "\"e\""),
        ("Last-Modified", modified),
        ("Content-Type", "text/plain"),
    ];
    let (info, methods) = described(vec![Step::Send(reply(200, &headers, b""))]).await;
    let info = info.expect("a file");
    assert_eq!(info.version.etag.as_deref(), Some("\"e\""));
    assert_eq!(info.version.length_bytes, 5);
    assert!(info.version.last_modified.is_some() && info.metadata.is_empty());
    assert_eq!(info.content_type.as_deref(), Some("text/plain"));
    assert_eq!(methods, ["HEAD"]);

    for status in [405, 501, 403, 400] {
        let refused = Step::Send(reply(status, &[("Content-Length", "0")], b""));
        let first = reply(
            206,
            &[("Content-Range", "bytes 0-0/9"), ("ETag", "\"e\"")],
            b"x",
        );
        let (info, methods) = described(vec![refused, Step::Send(first)]).await;
        assert_eq!(info.expect("a file").version.length_bytes, 9);
        assert_eq!(methods, ["HEAD", "GET"]);
    }
    // An empty file, and one of a server that ignores ranges and has much to send.
    let refused = || Step::Send(reply(405, &[("Content-Length", "0")], b""));
    let nothing = Step::Send(reply(416, &[], b""));
    let empty = Step::Send(reply(200, &[], b""));
    let (info, _) = described(vec![refused(), nothing, empty]).await;
    assert_eq!(info.expect("a file").version.length_bytes, 0);
    let long = Step::Cut(begin(&reply(200, &[], &body()), 10));
    let (info, _) = described(vec![refused(), long]).await;
    assert_eq!(info.expect("a file").version.length_bytes, 200_000);

    let (info, methods) = described(vec![Step::Send(reply(404, &[], b""))]).await;
    assert_eq!(info, Err(Error::NotFound));
    assert_eq!(methods, ["HEAD"]);
    let gzip = || Step::Send(reply(200, &[("Content-Encoding", "gzip")], b""));
    let (info, _) = described(vec![gzip(), gzip()]).await;
    assert!(matches!(info, Err(Error::Unsupported(_))));
}

#[tokio::test(start_paused = true)]
async fn folders_are_listed_where_a_program_can_read_them() {
    let query = |prefix| ListQuery {
        prefix,
        delimiter: true,
        token: None,
        page_entries_max: 1000,
    };
    let html = || Step::Send(reply(200, &[("Content-Type", "text/html")], b"<html>"));
    let json = || {
        let list = br#"[{"name":"f","type":"file","size":3}]"#;
        Step::Send(reply(200, &[("Content-Type", "application/json")], list))
    };
    let script = Script::new([html(), json(), json(), html()]);
    let web = web(&script, "http://h/d/");
    for _ in 0..2 {
        let page = web.list(&query("d/")).await.expect("a page");
        assert_eq!(page.objects[0].key, "d/f");
        assert_eq!(page.next, None);
    }
    let refused = web.list(&query("d/")).await;
    assert!(matches!(refused, Err(Error::Unsupported(_))));
    assert_eq!(
        script.lines(),
        ["PROPFIND /d/", "GET /d/", "GET /d/", "GET /d/"]
    );
    assert_eq!(script.seen()[0].header("depth"), Some("1"));
    let refused = web.list(&query("d")).await;
    assert!(matches!(refused, Err(Error::Unsupported(_))));
}
