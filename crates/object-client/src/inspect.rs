//! An object as it is now: by HEAD, and where that fails by a GET of the first byte.

use hyper::header::{CONTENT_ENCODING, CONTENT_RANGE, CONTENT_TYPE, HeaderValue, RANGE};
use hyper::{Method, StatusCode};

use crate::activity::Kind;
use crate::error::{Error, Result};
use crate::range::{content_range, version};
use crate::remote::ObjectInfo;
use crate::service::{Service, Wanted, exchange};
use crate::transport::{Call, Head, Target};
use crate::writable::Metadata;

/// Describes the object of `target`. A failure of HEAD that `is_sure` does not settle has no
/// reason: a GET brings it.
pub(crate) async fn inspect<S: Service>(
    service: &S,
    target: Target,
    is_sure: impl Fn(&Error) -> bool + Send,
) -> Result<ObjectInfo> {
    let call = Call::new(Kind::Head, Method::HEAD, target);
    match exchange(service, &call, Wanted::Head).await.result {
        Ok(answer) => {
            if let Some(info) = described::<S>(&answer.head) {
                return Ok(info);
            }
        }
        Err(error @ (Error::Unreachable(_) | Error::TryLater(_))) => return Err(error),
        Err(error) if is_sure(&error) => return Err(error),
        Err(_) => {}
    }
    by_get(service, call).await
}

async fn by_get<S: Service>(service: &S, head: Call) -> Result<ObjectInfo> {
    let mut call = Call {
        kind: Kind::Get,
        method: Method::GET,
        ..head
    };
    call.headers
        .insert(RANGE, HeaderValue::from_static("bytes=0-0"));
    let mut ended = exchange(service, &call, Wanted::Head).await.result;
    if ended.as_ref().err() == Some(&Error::Changed) {
        // An empty object has no first byte.
        call.headers.remove(RANGE);
        ended = exchange(service, &call, Wanted::Head).await.result;
    }
    described::<S>(&ended?.head).ok_or_else(|| {
        let text = "the server does not say how long it is, or sends it encoded";
        Error::Unsupported(format!("{}: {text}", call.target.shown()))
    })
}

/// What a head says of an object; `None` without its length.
pub(crate) fn described<S: Service>(head: &Head) -> Option<ObjectInfo> {
    let encoding = head.text(&CONTENT_ENCODING).unwrap_or("identity");
    if !S::IS_STORE && !encoding.eq_ignore_ascii_case("identity") {
        return None;
    }
    let length_bytes = if head.status == StatusCode::PARTIAL_CONTENT {
        content_range(head.text(&CONTENT_RANGE)?)?.1?
    } else {
        head.content_length()?
    };
    Some(ObjectInfo {
        version: version(head, length_bytes),
        metadata: metadata::<S>(head),
        content_type: head.text(&CONTENT_TYPE).map(str::to_owned),
    })
}

fn metadata<S: Service>(head: &Head) -> Metadata {
    let found = head.headers.iter().filter_map(|(name, value)| {
        let name = S::metadata_name(name.as_str())?;
        Some((name, value.as_bytes().to_vec()))
    });
    found.collect()
}
