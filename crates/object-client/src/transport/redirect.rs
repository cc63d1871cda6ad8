//! Where a redirect leads: absolute or relative, never from https to http, and never with a
//! signature or a secret to another host, but where that may be signed for.

use hyper::StatusCode;
use hyper::header::{AUTHORIZATION, LOCATION};

use crate::error::Error;
use crate::location::Origin;
use crate::transport::call::{Call, Target};
use crate::transport::reply::Head;

/// Bytes of a body that are read so that the connection can be kept.
pub(crate) const BODY_BYTES_MAX: usize = 64 * 1024;

/// The new target; `None` for no redirect that a client follows.
///
/// # Errors
/// [`Error::Protocol`] for a redirect to where a client must not go.
pub(crate) fn target(call: &Call, head: &Head) -> Result<Option<Target>, Error> {
    let is_followed = match head.status {
        StatusCode::MOVED_PERMANENTLY | StatusCode::FOUND => call.is_reading(),
        StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT => true,
        _ => false,
    };
    let Some(location) = head.text(&LOCATION).filter(|_| is_followed) else {
        return Ok(None);
    };
    let refused = |reason: &str| {
        let shown = location.split('?').next().unwrap_or("");
        let from = call.target.shown();
        Error::Protocol(format!(
            "{from}: redirected to {}: {reason}",
            shown.escape_debug()
        ))
    };
    let target = resolve(&call.target, location).ok_or_else(|| refused("this is no URL"))?;
    if call.target.origin.is_https && !target.origin.is_https {
        return Err(refused("this would give up TLS"));
    }
    let is_same = target.origin.host == call.target.origin.host;
    let host = &target.origin.host;
    let is_refused = call.signing.as_ref().is_some_and(|sign| !sign.is_for(host));
    if is_refused && !is_same {
        return Err(refused("requests are not signed for other hosts"));
    }
    let mut headers = call.headers.iter();
    if headers.any(|(name, value)| name == AUTHORIZATION || value.is_sensitive()) && !is_same {
        return Err(refused("no other host gets a token"));
    }
    Ok(Some(target))
}

/// A reference of RFC 3986, 4.2, without resolving dots: paths go as they are.
fn resolve(base: &Target, location: &str) -> Option<Target> {
    let location = location.split('#').next().unwrap_or("");
    let lower = location.to_ascii_lowercase();
    let (origin, path_and_query) = if lower.starts_with("http://") || lower.starts_with("https://")
    {
        let (origin, behind) = Origin::parse(location).ok()?;
        (origin, behind.to_owned())
    } else if location.starts_with("//") {
        let scheme = if base.origin.is_https {
            "https:"
        } else {
            "http:"
        };
        let whole = format!("{scheme}{location}");
        let (origin, behind) = Origin::parse(&whole).ok()?;
        (origin, behind.to_owned())
    } else if location.split(['/', '?']).next()?.contains(':') || location.is_empty() {
        return None;
    } else {
        let path = base.path_and_query.split('?').next().unwrap_or("/");
        let path_and_query = match location.as_bytes().first()? {
            b'/' => location.to_owned(),
            b'?' => format!("{path}{location}"),
            _ => format!("{}{location}", &path[..=path.rfind('/')?]),
        };
        (base.origin.clone(), path_and_query)
    };
    let slash = if path_and_query.starts_with('/') {
        ""
    } else {
        "/"
    };
    Some(Target {
        origin,
        path_and_query: format!("{slash}{path_and_query}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::activity::Kind;
    use crate::transport::call::Sign;
    use hyper::Method;
    use hyper::header::{HeaderMap, HeaderValue};
    use std::sync::Arc;
    use std::time::SystemTime;

    #[derive(Debug)]
    struct Signed;

    impl Sign for Signed {
        fn sign(&self, _call: &Call, _headers: &mut HeaderMap, _now: SystemTime) {}

        fn is_for(&self, host: &str) -> bool {
            host.ends_with(".of.us")
        }
    }

    fn call(url: &str, kind: Kind) -> Call {
        let (origin, path) = Origin::parse(url).expect("a URL");
        let target = Target {
            origin,
            path_and_query: path.to_owned(),
        };
        Call::new(kind, Method::GET, target)
    }

    fn led(call: &Call, status: u16, location: &'static str) -> Result<Option<String>, Error> {
        let mut headers = HeaderMap::new();
        headers.insert(LOCATION, HeaderValue::from_static(location));
        let head = Head {
            status: StatusCode::from_u16(status).expect("a status"),
            headers,
        };
        let url = |target: Target| target.origin.url() + &target.path_and_query;
        Ok(target(call, &head)?.map(url))
    }

    #[test]
    fn redirects_are_absolute_or_relative() {
        let call = call("http://h:81/a/b?q", Kind::Get);
        for (location, expected) in [
            ("http://other/x//y?z=1", "http://other/x//y?z=1"),
            ("https://other", "https://other/"),
            ("//other:9/x", "http://other:9/x"),
            ("/x/./y", "http://h:81/x/./y"),
            ("c", "http://h:81/a/c"),
            ("?r", "http://h:81/a/b?r"),
        ] {
            for status in [301, 302, 307, 308] {
                let led = led(&call, status, location).expect(location);
                assert_eq!(led.as_deref(), Some(expected));
            }
            assert_eq!(led(&call, 200, location), Ok(None));
            assert_eq!(led(&call, 304, location), Ok(None));
        }
        for location in ["ftp://h/x", "javascript:x", "http://"] {
            assert!(led(&call, 302, location).is_err(), "{location}");
        }
    }

    #[test]
    fn neither_tls_nor_signatures_are_given_away() {
        let mut call = call("https://h/a", Kind::Put);
        assert!(led(&call, 307, "http://h/a").is_err());
        assert_eq!(led(&call, 301, "https://h/b"), Ok(None));
        call.signing = Some(Arc::new(Signed));
        assert!(led(&call, 307, "https://elsewhere/a").is_err());
        assert!(led(&call, 307, "https://h/b").is_ok());
        assert!(led(&call, 307, "https://b.of.us/b").is_ok());
        call.signing = None;
        assert!(led(&call, 307, "https://elsewhere/a").is_ok());
        let token = HeaderValue::from_static("Bearer token");
        call.headers.insert(AUTHORIZATION, token);
        assert!(led(&call, 307, "https://elsewhere/a").is_err());
        assert!(led(&call, 307, "https://h/b").is_ok());
        call.headers.remove(AUTHORIZATION);
        let mut source = HeaderValue::from_static("https://h/b?sig=secret");
        source.set_sensitive(true);
        call.headers.insert("x-source", source);
        assert!(led(&call, 307, "https://elsewhere/a").is_err());
        assert!(led(&call, 307, "https://h/b").is_ok());
    }
}
