//! How a remote is reached: endpoint, keys, patience.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use pagewell_base::{duration, likeness};

use crate::error::{Error, Result};
use crate::handling::Handling;

/// Keys of S3. They are never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Keys {
    /// The public part.
    pub access_key_id: String,
    /// The secret part.
    pub secret_access_key: String,
    /// Of temporary keys.
    pub session_token: Option<String>,
}

impl fmt::Debug for Keys {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Keys(..)")
    }
}

/// How to reach a remote. Options of a URL come first; what is not given comes from the environment
/// and, for S3, from the files of the AWS tools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// `http(s)://HOST[:PORT]` of a server that speaks S3, or takes the place of Google's.
    pub endpoint: Option<String>,
    /// Region, for which requests are signed.
    pub region: Option<String>,
    /// Profile of the AWS files. One given here goes before keys of the environment.
    pub profile: Option<String>,
    /// Account of Azure.
    pub account: Option<String>,
    /// A file with that account's key, a signature (SAS) or a connection string.
    pub key_file: Option<PathBuf>,
    /// Requests are not signed, and have no token.
    pub anonymous: bool,
    /// The bucket is in the path, not in the host's name; by default where the endpoint is not
    /// AWS's.
    pub path_style: Option<bool>,
    /// Keys; no others are looked for.
    pub keys: Option<Keys>,
    /// A file with certificates (PEM) of authorities to trust beside the system's.
    pub certificates: Option<PathBuf>,
    /// How long a call tries again before it gives up.
    pub retry: Duration,
    /// How long a server may send and take nothing.
    pub stall: Duration,
    /// How long a connection may take.
    pub connect: Duration,
    /// Connections to each host.
    pub connections_max: usize,
    /// Keys of listings are taken as they are although the server says that it encodes them.
    pub raw_listings: bool,
    /// Options for a remote's callers.
    pub handling: Handling,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            endpoint: None,
            region: None,
            profile: None,
            account: None,
            key_file: None,
            anonymous: false,
            path_style: None,
            keys: None,
            certificates: None,
            retry: Duration::from_secs(60),
            stall: Duration::from_secs(30),
            connect: Duration::from_secs(10),
            connections_max: 64,
            raw_listings: false,
            handling: Handling::default(),
        }
    }
}

const NAMES: &str = "endpoint=URL, region=NAME, profile=NAME, account=NAME, \
                     key-file=FILE, anonymous=true, path-style=BOOLEAN, \
                     ca=FILE, retry=TIME, stall=TIME, connect=TIME, connections=NUMBER, \
                     raw-listings=true";
const TIME: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(1)..=Duration::from_secs(3600);

fn invalid(text: String) -> Error {
    Error::Invalid(text)
}

/// The error of an unknown option. All options are named where none is like it.
fn unknown(name: &str) -> Error {
    let forms: Vec<_> = NAMES
        .split(", ")
        .chain(Handling::NAMES.split(", "))
        .collect();
    let name_of = |form: &&'static str| form.split('=').next().unwrap_or(form);
    let names: Vec<_> = forms.iter().map(name_of).collect();
    let meant = likeness::nearest(name, &names);
    let form = forms.iter().find(|form| Some(name_of(form)) == meant);
    let hint = form.map_or_else(
        || format!("; there are {}", forms.join(", ")),
        |form| format!(", did you mean '{form}'?"),
    );
    invalid(format!("no option '{name}'{hint}"))
}

fn boolean(name: &str, value: &str) -> Result<bool> {
    match value {
        "true" | "1" | "yes" | "" => Ok(true),
        "false" | "0" | "no" => Ok(false),
        _ => Err(invalid(format!("{name}={value}: true or false"))),
    }
}

impl Options {
    /// Sets an option of a URL.
    ///
    /// # Errors
    /// [`Error::Invalid`] with what is not known or not right.
    pub fn set(&mut self, name: &str, value: &str) -> Result<()> {
        let time = || {
            let time = duration::within(value, TIME);
            time.map_err(|reason| invalid(format!("{name}: {reason}")))
        };
        let text = || match value {
            "" => Err(invalid(format!("{name} has no value"))),
            value => Ok(Some(value.to_owned())),
        };
        match name {
            "endpoint" => self.endpoint = text()?,
            "region" => self.region = text()?,
            "profile" => self.profile = text()?,
            "account" => self.account = text()?,
            "key-file" => self.key_file = text()?.map(PathBuf::from),
            "anonymous" => self.anonymous = boolean(name, value)?,
            "path-style" => self.path_style = Some(boolean(name, value)?),
            "ca" => self.certificates = text()?.map(PathBuf::from),
            "retry" => self.retry = time()?,
            "stall" => self.stall = time()?,
            "connect" => self.connect = time()?,
            "connections" => {
                let number = value
                    .parse()
                    .ok()
                    .filter(|number| (1..=1024).contains(number));
                self.connections_max =
                    number.ok_or_else(|| invalid(format!("{name}={value}: 1 to 1024")))?;
            }
            "raw-listings" => self.raw_listings = boolean(name, value)?,
            _ if self.handling.set(name, value)? => {}
            _ => return Err(unknown(name)),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handling::Acknowledge;

    #[test]
    fn options_are_set_and_wrong_ones_named() {
        let mut options = Options::default();
        for (name, value) in [
            ("endpoint", "http://127.0.0.1:9"),
            ("anonymous", "true"),
            ("path-style", "no"),
            ("retry", "5s"),
            ("connections", "3"),
            ("ack", "journal"),
        ] {
            options.set(name, value).expect(name);
        }
        assert_eq!(options.endpoint.as_deref(), Some("http://127.0.0.1:9"));
        assert!(options.anonymous);
        assert_eq!(options.path_style, Some(false));
        assert_eq!(options.retry, Duration::from_secs(5));
        assert_eq!(options.connections_max, 3);
        assert_eq!(options.handling.acknowledge, Acknowledge::Journal);
        for (name, value) in [
            ("endpoint", ""),
            ("anonymous", "perhaps"),
            ("connections", "0"),
            ("connections", "100000"),
            ("retry", "soon"),
            ("age", "25h"),
            ("speed", "9"),
        ] {
            let refused = options.set(name, value).expect_err(name);
            assert!(refused.to_string().contains(name), "{refused}");
        }
    }

    #[test]
    fn keys_are_not_shown() {
        let keys = Keys {
            access_key_id: "public".to_owned(),
            secret_access_key: "secret".to_owned(),
            session_token: None,
        };
        assert_eq!(format!("{keys:?}"), "Keys(..)");
    }

    #[test]
    fn a_misspelt_option_is_answered_with_the_one_that_is_meant() {
        for (name, end) in [
            ("opne", "no option 'opne', did you mean 'open=ask|believe'?"),
            (
                "endpont",
                "no option 'endpont', did you mean 'endpoint=URL'?",
            ),
            (
                "acks",
                "no option 'acks', did you mean 'ack=store|journal'?",
            ),
        ] {
            let refused = Options::default().set(name, "x").unwrap_err();
            assert!(refused.to_string().ends_with(end), "{refused}");
        }
        let refused = Options::default().set("zzz", "x").unwrap_err().to_string();
        for form in ["endpoint=URL", "rename-files=NUMBER"] {
            assert!(refused.contains(form), "{refused}");
        }
    }
}
