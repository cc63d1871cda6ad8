//! With which hashes bodies go.

use super::*;

fn upload() -> Upload {
    let (id, key, token) = ("u".to_owned(), "k".to_owned(), String::new());
    Upload {
        key,
        id,
        token,
        metadata: Metadata::new(),
    }
}

#[tokio::test(start_paused = true)]
async fn a_signed_hash_is_asked_for_by_itself() {
    let mismatch = || error(400, "XAmzContentSHA256Mismatch");
    let asked = async |steps| {
        let (bucket, script) = bucket(steps);
        let [put, _] = bucket.signed_calls(&upload()).expect("calls");
        let compares = provoke::compares_signed_hash(bucket.as_ref(), put).await;
        (compares, script.seen())
    };
    let (compares, seen) = asked(vec![done(), mismatch()]).await;
    assert_eq!(compares, Ok(true));
    let hash_of = |seen: &Seen| seen.header("x-amz-content-sha256").map(str::to_owned);
    assert!(seen.iter().all(|seen| seen.header("content-md5").is_none()));
    assert_eq!(hash_of(&seen[0]), Some(crate::sign::hash(&seen[0].body)));
    assert_ne!(hash_of(&seen[1]), hash_of(&seen[0]));

    assert_eq!(asked(vec![done(), done()]).await.0, Ok(false));
    // Where an MD5 is wanted nothing was compared, nor where something else is wrong.
    let (wanted, seen) = asked(vec![error(400, "InvalidRequest")]).await;
    assert!(matches!(wanted, Err(Error::Unsupported(_))) && seen.len() == 1);
    for code in ["InvalidRequest", "RequestTimeout", "QuotaExceeded"] {
        let (other, _) = asked(vec![done(), error(400, code)]).await;
        assert!(other.is_err(), "{code}");
    }
}

#[test]
fn a_signed_hash_is_asked_of_an_object_and_a_part_with_keys() {
    let calls = bucket_of(&Script::new([]), &options()).signed_calls(&upload());
    let [put, part] = calls.expect("calls");
    assert!(put.target.path_and_query.ends_with("/k"));
    assert!(
        part.target
            .path_and_query
            .contains("partNumber=1&uploadId=u")
    );
    let anonymous = Options {
        anonymous: true,
        ..options()
    };
    let unsigned = bucket_of(&Script::new([]), &anonymous);
    assert!(!unsigned.signs_bodies());
    let refused = unsigned.signed_calls(&upload());
    assert!(matches!(refused, Err(Error::Unsupported(_))));
}

#[tokio::test(start_paused = true)]
async fn a_body_without_a_signature_has_its_md5() {
    let anonymous = Options {
        anonymous: true,
        ..options()
    };
    let script = Script::new([done()]);
    let bucket = bucket_of(&script, &anonymous);
    bucket.trust_signed_hashes(true);
    let (body, metadata) = (Bytes::from_static(b"abc"), Metadata::new());
    let made = bucket.put("k", body, &Condition::Always, &metadata).await;
    assert_eq!(made, Ok(version()));
    assert!(script.seen()[0].header("content-md5").is_some());
}

#[tokio::test(start_paused = true)]
async fn an_empty_body_and_distrust_have_their_md5() {
    let empty = "d41d8cd98f00b204e9800998ecf8427e";
    let made = || Step::Send(reply(200, &[("ETag", &format!("\"{empty}\""))], b""));
    let (bucket, script) = bucket(vec![made(), done()]);
    bucket.trust_signed_hashes(true);
    let metadata = Metadata::new();
    let put = async |body| bucket.put("k", body, &Condition::Always, &metadata).await;
    put(Bytes::new()).await.expect("made");
    bucket.trust_signed_hashes(false);
    put(Bytes::from_static(b"abc")).await.expect("made");
    let seen = script.seen();
    assert_eq!(
        seen[0].header("content-md5"),
        Some("1B2M2Y8AsgTpgAmY7PhCfg==")
    );
    assert!(seen[1].header("content-md5").is_some());
}

#[tokio::test(start_paused = true)]
async fn bodies_go_without_md5_where_the_signed_hash_is_compared() {
    let (bucket, script) = bucket(vec![
        done(),
        error(400, "InvalidRequest"),
        done(),
        done(),
        error(400, "InvalidRequest"),
    ]);
    bucket.trust_signed_hashes(true);
    let put = async || {
        let body = Bytes::from_static(b"abc");
        let metadata = Metadata::new();
        bucket.put("k", body, &Condition::Always, &metadata).await
    };
    assert_eq!(put().await, Ok(version()));
    // A bucket with object locks wants one, and has it from then on.
    assert_eq!(put().await, Ok(version()));
    bucket.trust_signed_hashes(true);
    assert_eq!(put().await, Ok(version()));
    assert!(matches!(put().await, Err(Error::Invalid(_))), "asked once");
    let seen = script.seen();
    let md5 = seen.iter().map(|seen| seen.header("content-md5"));
    let own = Some("kAFQmDzST7DWlj99KOF/cg==");
    assert_eq!(Vec::from_iter(md5), [None, None, own, own, own]);
}

#[tokio::test(start_paused = true)]
async fn a_delete_of_many_has_its_md5_always() {
    let (bucket, script) = bucket(vec![Step::Send(reply(200, &[], b"<DeleteResult/>"))]);
    bucket.trust_signed_hashes(true);
    bucket
        .delete_many(&["k".to_owned()])
        .await
        .expect("deleted");
    assert!(script.seen()[0].header("content-md5").is_some());
}
