//! With which hashes bodies go.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_signed_hash_is_asked_for_by_itself() {
    let (bucket, script) = bucket(vec![error(400, "XAmzContentSHA256Mismatch"), done()]);
    let compares = async |put| provoke::compares_hashes(bucket.as_ref(), put).await;
    let damaged = || bucket.damaged_put("k", BodyHash::Signed).expect("a call");
    assert_eq!(compares(damaged()).await, Ok(true));
    assert_eq!(compares(damaged()).await, Ok(false));
    let seen = script.seen();
    assert_eq!(seen[0].header("content-md5"), None);
    let wrong = seen[0].header("x-amz-content-sha256").expect("a hash");
    assert_ne!(wrong, crate::sign::hash(&seen[0].body));

    let (id, key, token) = ("u".to_owned(), "k".to_owned(), String::new());
    let upload = Upload {
        key,
        id,
        token,
        metadata: Metadata::new(),
    };
    let part = bucket.damaged_part(&upload).expect("a call");
    assert!(
        part.target
            .path_and_query
            .contains("partNumber=1&uploadId=u")
    );
    assert!(!part.headers.contains_key("content-md5") && !part.body_hash.is_empty());

    let anonymous = Options {
        anonymous: true,
        ..options()
    };
    let unsigned = bucket_of(&Script::new([]), &anonymous);
    assert!(bucket.signs_bodies() && !unsigned.signs_bodies());
    let refused = unsigned.damaged_put("k", BodyHash::Signed);
    assert!(matches!(refused, Err(Error::Unsupported(_))));
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
    bucket.trust_signed_hashes();
    let put = async || {
        let body = Bytes::from_static(b"abc");
        let metadata = Metadata::new();
        bucket.put("k", body, &Condition::Always, &metadata).await
    };
    assert_eq!(put().await, Ok(version()));
    // A bucket with object locks wants one, and has it from then on.
    assert_eq!(put().await, Ok(version()));
    bucket.trust_signed_hashes();
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
    bucket.trust_signed_hashes();
    bucket
        .delete_many(&["k".to_owned()])
        .await
        .expect("deleted");
    assert!(script.seen()[0].header("content-md5").is_some());
}
