//! Many deletes by one request: its body is of parts that are requests, and its reply of parts that
//! are replies.
//!
//! An unclear reply is not believed: the caller deletes the rest one by one, and so gets the
//! reasons.

use std::collections::HashSet;

use bytes::Bytes;
use hyper::Method;
use hyper::header::{CONTENT_TYPE, HeaderValue};

use super::{ANSWER_BYTES_MAX, Bucket};
use crate::activity::Kind;
use crate::error::{Error, Result};
use crate::service::{Wanted, exchange};
use crate::settle::token;
use crate::transport::Call;

pub(crate) const CALLS_MAX: usize = 100;

pub(crate) async fn delete(bucket: &Bucket, keys: &[String]) -> Result<Vec<String>> {
    let boundary = token()?;
    let mut body = String::new();
    for (number, key) in keys.iter().enumerate() {
        let path = bucket.object(key, &[])?.path_and_query;
        let path = path.strip_prefix(bucket.base()).unwrap_or(&path).to_owned();
        body += &format!(
            "--{boundary}\r\nContent-Type: application/http\r\nContent-ID: <{number}>\r\n\r\n\
             DELETE {path} HTTP/1.1\r\n\r\n\r\n"
        );
    }
    body += &format!("--{boundary}--\r\n");
    let mut call = Call::new(Kind::Delete, Method::POST, bucket.batch());
    let media_type = HeaderValue::try_from(format!("multipart/mixed; boundary={boundary}"))
        .map_err(|error| Error::Invalid(error.to_string()))?;
    call.headers.insert(CONTENT_TYPE, media_type);
    call.body = Bytes::from(body);
    let ended = exchange(bucket, &call, Wanted::Body(ANSWER_BYTES_MAX)).await;
    let answer = match ended.result {
        Ok(answer) => answer,
        Err(error @ (Error::Unreachable(_) | Error::TryLater(_) | Error::Denied(_))) => {
            return Err(error);
        }
        // It takes no such requests.
        Err(_) => return Ok(Vec::new()),
    };
    let gone = done(&answer.body);
    let keys = keys.iter().enumerate();
    let keys = keys.filter(|(number, _)| gone.contains(number));
    Ok(keys.map(|(_, key)| key.clone()).collect())
}

/// The numbers of those that are gone: each part has its number, and then its status.
fn done(body: &[u8]) -> HashSet<usize> {
    let text = String::from_utf8_lossy(body);
    let mut gone = HashSet::new();
    let mut number: Option<usize> = None;
    for line in text.lines() {
        if line.starts_with("--") {
            number = None;
        }
        let lower = line.to_ascii_lowercase();
        if let Some(name) = lower.strip_prefix("content-id: <response-") {
            number = name.strip_suffix('>').and_then(|name| name.parse().ok());
        } else if let Some(rest) = line.strip_prefix("HTTP/1.1 ") {
            let status: Option<u16> = rest.get(..3).and_then(|status| status.parse().ok());
            let is_gone = matches!(status, Some(200..=299 | 404));
            gone.extend(number.take().filter(|_| is_gone));
        }
    }
    gone
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_gone_is_known_by_its_number() {
        let part = |number: &str, status: &str| {
            format!(
                "--b\r\nContent-Type: application/http\r\nContent-ID: <response-{number}>\r\n\r\n\
                 HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n\r\n"
            )
        };
        let body = [
            part("0", "204 No Content"),
            part("1", "404 Not Found"),
            part("2", "503 Service Unavailable"),
            part("x", "204 No Content"),
            "--b\r\n\r\nHTTP/1.1 204 No Content\r\n".to_owned(),
            part("7", "20"),
            part("4", "200 OK\r\n\r\nHTTP/1.1 503 said the body"),
            "--b--".to_owned(),
        ]
        .concat();
        assert_eq!(done(body.as_bytes()), HashSet::from([0, 1, 4]));
    }

    #[test]
    fn any_answer_is_read() {
        bolero::check!().for_each(|bytes: &[u8]| {
            let _ = done(bytes);
        });
    }
}
