//! URLs of remotes.
//!
//! ```text
//!   s3://BUCKET[/PREFIX][?OPTION=VALUE&...]     what follows ? are options of ours
//!   s3://BUCKET[/PREFIX][?OPTION=VALUE&...]     what follows ? are Pagewell's options
//!   gs://BUCKET[/PREFIX][?OPTION=VALUE&...]     the same
//!   http(s)://HOST[:PORT]/PATH[?QUERY]          all of it is the server's
//! ```

use pagewell_base::line::one_line;

use crate::error::{Error, Result};
use crate::options::Options;
use crate::percent;

/// The beginnings of URLs of remotes.
pub const PROTOCOLS: [&str; 5] = ["s3://", "az://", "gs://", "http://", "https://"];
const OF_S3: [&str; 3] = ["region", "profile", "raw-listings"];
const OF_AZURE: [&str; 2] = ["account", "key-file"];
const NOT_OF_GOOGLE: [&str; 6] = [
    "region",
    "profile",
    "raw-listings",
    "path-style",
    "account",
    "key-file",
];
const URL_BYTES_MAX: usize = 8192;

/// A parsed URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// A bucket of a store that speaks S3.
    S3 {
        /// Its name.
        bucket: String,
        /// What the keys begin with: a key, a folder with or without its `/`, or nothing.
        prefix: String,
    },
    /// A container of Azure Blob Storage.
    Azure {
        /// Its name.
        bucket: String,
        /// As that of S3.
        prefix: String,
    },
    /// A bucket of Google Cloud Storage.
    Google {
        /// Its name.
        bucket: String,
        /// As that of S3.
        prefix: String,
    },
    /// A web server.
    Web {
        /// Where it is.
        origin: Origin,
        /// Path and query as given, from the slash on.
        path_and_query: String,
        /// The path without its first slash, decoded: a key, or a folder with its `/`.
        prefix: String,
    },
}

/// A server: scheme, host and port.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Origin {
    /// Whether TLS protects it.
    pub is_https: bool,
    /// Name or address, an IPv6 address in brackets, in lower case.
    pub host: String,
    /// The TCP port.
    pub port: u16,
}

fn invalid(url: &str, reason: &str) -> Error {
    // A query may hold a signature or a password.
    let shown = url.split('?').next().unwrap_or(url);
    Error::Invalid(one_line(&format!("{shown}: {reason}")))
}

impl Origin {
    /// Parses `http(s)://HOST[:PORT]`, and returns what follows.
    pub(crate) fn parse(url: &str) -> Result<(Self, &str)> {
        let lower = |prefix: &str| {
            let start = url.get(..prefix.len())?;
            start
                .eq_ignore_ascii_case(prefix)
                .then(|| &url[prefix.len()..])
        };
        let (is_https, rest) = match (lower("http://"), lower("https://")) {
            (Some(rest), _) => (false, rest),
            (None, Some(rest)) => (true, rest),
            _ => {
                return Err(invalid(
                    url,
                    "begins neither with http:// nor with https://",
                ));
            }
        };
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, behind) = rest.split_at(end);
        if authority.contains('@') {
            return Err(Error::Invalid(
                "a URL with a user and a password is not supported".to_owned(),
            ));
        }
        let bracket = authority.rfind(']').unwrap_or(0);
        let colon = authority[bracket..].find(':').map(|at| at + bracket);
        let (host, port) = match colon {
            Some(colon) => (&authority[..colon], &authority[colon + 1..]),
            None => (authority, ""),
        };
        let is_host = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        let is_address = host.starts_with('[')
            && host.ends_with(']')
            && host[1..host.len() - 1]
                .parse::<std::net::Ipv6Addr>()
                .is_ok();
        if host.is_empty() || host.len() > 255 || !(is_address || host.bytes().all(is_host)) {
            return Err(invalid(url, "this is no name of a host"));
        }
        let default = if is_https { 443 } else { 80 };
        let port = match port {
            "" => default,
            port => port
                .parse()
                .ok()
                .filter(|port| *port > 0)
                .ok_or_else(|| invalid(url, "this is no port"))?,
        };
        let origin = Self {
            is_https,
            host: host.to_ascii_lowercase(),
            port,
        };
        Ok((origin, behind))
    }

    /// As the header `Host` has it: without the default port.
    pub(crate) fn authority(&self) -> String {
        match (self.is_https, self.port) {
            (true, 443) | (false, 80) => self.host.clone(),
            _ => format!("{}:{}", self.host, self.port),
        }
    }

    pub(crate) fn url(&self) -> String {
        let scheme = if self.is_https { "https" } else { "http" };
        format!("{scheme}://{}", self.authority())
    }
}

/// The name of a bucket and a prefix; options go into `options`.
fn parse_bucket(
    url: &str,
    (scheme, what): (&str, &str),
    rest: &str,
    options: &mut Options,
) -> Result<(String, String)> {
    let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (bucket, prefix) = place.split_once('/').unwrap_or((place, ""));
    let is_azure = scheme == "az";
    // The service itself makes some containers: $root, $web, $logs.
    let plain = bucket.strip_prefix('$').filter(|_| is_azure);
    let plain = plain.unwrap_or(bucket);
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    if plain.is_empty()
        || plain.len() > 255
        || !plain.bytes().all(is_name)
        || plain.starts_with('.')
    {
        return Err(invalid(url, &format!("this is no name of a {what}")));
    }
    let wrong = || invalid(url, "% has no two hexadecimal digits of UTF-8 behind it");
    let prefix = percent::decode_text(prefix).ok_or_else(wrong)?;
    for option in query.split('&').filter(|option| !option.is_empty()) {
        let (name, value) = option.split_once('=').unwrap_or((option, ""));
        let value = percent::decode_text(value).ok_or_else(wrong)?;
        let others = match scheme {
            "az" => &OF_S3[..],
            "gs" => &NOT_OF_GOOGLE,
            _ => &OF_AZURE,
        };
        if others.contains(&name) {
            return Err(invalid(url, &format!("{name} is no option of {scheme}://")));
        }
        options.set(name, &value)?;
    }
    Ok((bucket.to_owned(), prefix))
}

impl Location {
    /// Parses a URL; its options go into `options`.
    ///
    /// # Errors
    /// [`Error::Invalid`] with what is wrong.
    pub fn parse(url: &str, options: &mut Options) -> Result<Self> {
        if url.len() > URL_BYTES_MAX {
            return Err(Error::Invalid(format!(
                "a URL has at most {URL_BYTES_MAX} bytes"
            )));
        }
        if url.bytes().any(|byte| byte.is_ascii_control()) {
            return Err(invalid(url, "a URL has no control characters (write %0A)"));
        }
        for scheme in ["s3", "az", "gs"] {
            let behind = url.strip_prefix(scheme);
            let Some(rest) = behind.and_then(|rest| rest.strip_prefix(':')) else {
                continue;
            };
            let what = if scheme == "az" {
                "container"
            } else {
                "bucket"
            };
            let written = format!("a {what} is written {scheme}://{}", what.to_uppercase());
            let rest = rest.strip_prefix("//");
            let rest = rest.ok_or_else(|| invalid(url, &written))?;
            let (bucket, prefix) = parse_bucket(url, (scheme, what), rest, options)?;
            return Ok(match scheme {
                "az" => Self::Azure { bucket, prefix },
                "gs" => Self::Google { bucket, prefix },
                _ => Self::S3 { bucket, prefix },
            });
        }
        Self::parse_web(url)
    }

    fn parse_web(url: &str) -> Result<Self> {
        let (origin, behind) = Origin::parse(url)?;
        let behind = behind.split('#').next().unwrap_or("");
        let slash = if behind.starts_with('/') { "" } else { "/" };
        let path_and_query = format!("{slash}{behind}");
        if !path_and_query.is_ascii()
            || path_and_query.contains([' ', '"', '<', '>', '\\', '^', '`', '{', '|', '}'])
        {
            return Err(invalid(url, "write characters that no URL has as %XX"));
        }
        let path = path_and_query.split('?').next().unwrap_or("/");
        let decoded = percent::decode(&path[1..])
            .ok_or_else(|| invalid(url, "% has no two hexadecimal digits behind it"))?;
        Ok(Self::Web {
            origin,
            prefix: String::from_utf8_lossy(&decoded).into_owned(),
            path_and_query,
        })
    }

    /// A bucket or container as a URL without a prefix; nothing for a web server.
    #[must_use]
    pub fn bucket(&self) -> Option<String> {
        match self {
            Self::S3 { bucket, .. } => Some(format!("s3://{bucket}")),
            Self::Azure { bucket, .. } => Some(format!("az://{bucket}")),
            Self::Google { bucket, .. } => Some(format!("gs://{bucket}")),
            Self::Web { .. } => None,
        }
    }

    /// What the keys begin with.
    #[must_use]
    pub fn prefix(&self) -> &str {
        match self {
            Self::S3 { prefix, .. }
            | Self::Azure { prefix, .. }
            | Self::Google { prefix, .. }
            | Self::Web { prefix, .. } => prefix,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> Result<Location> {
        Location::parse(url, &mut Options::default())
    }

    #[test]
    fn buckets_have_a_prefix_and_options() {
        let mut options = Options::default();
        let url =
            "s3://bucket-1/a//b%3F/?endpoint=http%3A%2F%2F127.0.0.1:9000&region=eu-1&anonymous";
        let location = Location::parse(url, &mut options).expect("a URL");
        let expected = Location::S3 {
            bucket: "bucket-1".to_owned(),
            prefix: "a//b?/".to_owned(),
        };
        assert_eq!(location, expected);
        assert_eq!(options.endpoint.as_deref(), Some("http://127.0.0.1:9000"));
        assert_eq!(options.region.as_deref(), Some("eu-1"));
        assert!(options.anonymous);
        assert_eq!(parse("s3://b").expect("a bucket").prefix(), "");
        let url = "az://$web/a%20b?account=one&key-file=%2Fetc%2Fkey&ca=x";
        let mut options = Options::default();
        let container = Location::parse(url, &mut options).expect("a URL");
        assert_eq!(container.bucket().as_deref(), Some("az://$web"));
        assert_eq!(container.prefix(), "a b");
        assert_eq!(options.account.as_deref(), Some("one"));
        let expected = Location::Google {
            bucket: "b_1.c".to_owned(),
            prefix: "a b".to_owned(),
        };
        let google = parse("gs://b_1.c/a%20b?anonymous=true").expect("a bucket");
        assert_eq!(google, expected);
        assert_eq!(google.bucket().as_deref(), Some("gs://b_1.c"));
        assert_eq!(parse("http://h/x").expect("a file").bucket(), None);
    }

    #[test]
    fn web_addresses_keep_their_path_and_query() {
        let Location::Web {
            origin,
            path_and_query,
            prefix,
        } = parse("HTTPS://Example.org:8443/a//./%41?x=%2f#part").expect("a URL")
        else {
            panic!("of the web");
        };
        assert_eq!(origin.url(), "https://example.org:8443");
        assert_eq!(path_and_query, "/a//./%41?x=%2f");
        assert_eq!(prefix, "a//./A");
        for (url, authority) in [
            ("http://h:80/", "h"),
            ("https://h:443", "h"),
            ("http://[::1]:8080/x", "[::1]:8080"),
        ] {
            let (origin, _) = Origin::parse(url).expect(url);
            assert_eq!(origin.authority(), authority);
        }
    }

    #[test]
    fn what_is_wrong_is_named_without_secrets() {
        for url in [
            "s3://",
            "s3://b/%zz",
            "s3://b/%ff",
            "s3://../x",
            "s3:/b",
            "s3://$web",
            "s3://b?account=one",
            "az://",
            "az:/c",
            "az://$",
            "az://c?region=eu-1",
            "s3://b?speed=9",
            "gs://",
            "gs:/b",
            "gs://b?speed=9",
            "gs://b?region=eu-1",
            "gs://b?path-style=true",
            "ftp://h/x",
            "http://",
            "http://h:0/",
            "http://h:99999/",
            "http://[::g]/",
            "http://h/a b",
            "http://h/%",
            "http://h/\u{e9}",
            "http://h/a\nb",
        ] {
            assert!(matches!(parse(url), Err(Error::Invalid(_))), "{url}");
        }
        let refused = parse("http://user:secret@h/").expect_err("a password");
        assert!(!refused.to_string().contains("secret"));
        let refused = parse("http://h:x/?token=secret").expect_err("a port");
        assert!(!refused.to_string().contains("secret"));
    }

    #[test]
    fn any_url_is_parsed_or_refused() {
        bolero::check!().for_each(|bytes: &[u8]| {
            let text = String::from_utf8_lossy(bytes);
            for protocol in PROTOCOLS {
                if let Ok(Location::Web { path_and_query, .. }) =
                    parse(&format!("{protocol}{text}"))
                {
                    assert!(path_and_query.starts_with('/') && path_and_query.is_ascii());
                }
            }
            let _ = parse(&text);
        });
    }
}
