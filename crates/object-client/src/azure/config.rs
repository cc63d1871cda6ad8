//! Where an account is, and what opens it: options, then the environment, as Azure's tools have it.
//!
//! ```text
//!   ?account= ?endpoint= ?key-file=      a key, a signature (SAS) or a connection string
//!   AZURE_STORAGE_ACCOUNT, _SERVICE_ENDPOINT, _KEY, _SAS_TOKEN
//!   AZURE_STORAGE_CONNECTION_STRING      unless it is of another account
//!   tokens                               of whatever the environment gives (`tokens`)
//! ```

use std::sync::Arc;

use super::credentials::Access;
use super::shared_key::SharedKey;
use crate::error::{Error, Result};
use crate::location::Origin;
use crate::lookup;
use crate::options::Options;

/// The account of the emulator, the same everywhere and no secret.
const EMULATED: [(&str, &str); 3] = [
    ("AccountName", "devstoreaccount1"),
    (
        "AccountKey",
        "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==",
    ),
    ("BlobEndpoint", "http://127.0.0.1:10000/devstoreaccount1"),
];
const SUFFIX: &str = "core.windows.net";
const ACCOUNT_BYTES_MAX: usize = 64;

/// Where the containers of an account are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub origin: Origin,
    /// What stands before the container: nothing, or a path without a slash at its end.
    pub path: String,
}

/// What is settled before the first request.
#[derive(Debug)]
pub(crate) struct Settings {
    pub place: Place,
    /// What opens it; `None`: a token is looked for.
    pub access: Option<Access>,
}

fn invalid(text: &str) -> Error {
    Error::Invalid(text.to_owned())
}

/// `Name=value;...`
#[derive(Default)]
struct Connection(Vec<(String, String)>);

impl Connection {
    fn parse(text: &str) -> Self {
        let pairs = text
            .trim()
            .split(';')
            .filter_map(|pair| pair.split_once('='));
        let mut pairs: Vec<_> = pairs
            .map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned()))
            .collect();
        let of_emulator = ("UseDevelopmentStorage".to_owned(), "true".to_owned());
        if pairs.contains(&of_emulator) {
            let emulated = EMULATED.iter();
            pairs.extend(emulated.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        }
        Self(pairs)
    }

    fn get(&self, name: &str) -> Option<String> {
        let mut pairs = self.0.iter();
        let found = pairs.find(|(known, _)| known.eq_ignore_ascii_case(name))?;
        (!found.1.is_empty()).then(|| found.1.clone())
    }

    fn account(&self) -> Option<String> {
        let named = self.get("AccountName");
        named.or_else(|| account_of(&self.get("BlobEndpoint")?))
    }

    fn held(&self) -> Option<Held> {
        let signature = || self.get("SharedAccessSignature").map(Held::Signature);
        self.get("AccountKey").map(Held::Key).or_else(signature)
    }

    fn endpoint(&self) -> Option<String> {
        let built = || {
            let account = self.get("AccountName")?;
            let scheme = self.get("DefaultEndpointsProtocol");
            let scheme = scheme.unwrap_or_else(|| "https".to_owned());
            let suffix = self.get("EndpointSuffix");
            let suffix = suffix.unwrap_or_else(|| SUFFIX.to_owned());
            Some(format!("{scheme}://{account}.blob.{suffix}"))
        };
        self.get("BlobEndpoint").or_else(built)
    }
}

/// The account that an endpoint names: before `.blob.`, or in the path.
fn account_of(endpoint: &str) -> Option<String> {
    let (origin, path) = Origin::parse(endpoint).ok()?;
    let path = path.split(['?', '#']).next().unwrap_or("");
    let (name, rest) = origin.host.split_once('.').unwrap_or((&origin.host, ""));
    let in_path = path.trim_matches('/').rsplit('/').next().unwrap_or("");
    let found = if rest.starts_with("blob.") {
        name
    } else {
        in_path
    };
    (!found.is_empty()).then(|| found.to_owned())
}

enum Held {
    Key(String),
    Signature(String),
    Connection(Connection),
}

impl Held {
    fn parse(text: &str) -> Self {
        let text = text.trim();
        let is_connection = [
            "AccountKey=",
            "SharedAccessSignature=",
            "UseDevelopmentStorage=",
        ]
        .iter()
        .any(|name| text.contains(name));
        match text {
            _ if is_connection => Self::Connection(Connection::parse(text)),
            _ if is_signature(text) => Self::Signature(text.to_owned()),
            _ => Self::Key(text.to_owned()),
        }
    }
}

/// A key may have `sig=` within or at its end.
fn is_signature(text: &str) -> bool {
    let mut pairs = text.trim_start_matches('?').split('&');
    pairs.any(|pair| pair.starts_with("sig="))
}

fn signature(text: &str) -> Result<Access> {
    let query = text.trim().trim_start_matches('?');
    let is_query = query
        .bytes()
        .all(|byte| byte.is_ascii_graphic() && !b"\"<>#".contains(&byte));
    if query.is_empty() || !is_query {
        return Err(invalid("the signature (SAS) is no query of a URL"));
    }
    Ok(Access::Signature(query.into()))
}

fn key(account: Option<&str>, text: &str) -> Result<Access> {
    let account = account.ok_or_else(|| invalid(NO_ACCOUNT))?;
    let key = SharedKey::new(account, text);
    let key = key.ok_or_else(|| invalid("the key of the account is not of base 64"))?;
    Ok(Access::Key(Arc::new(key)))
}

const NO_ACCOUNT: &str = "no account of Azure: AZURE_STORAGE_ACCOUNT, a connection string, \
                          ?account=NAME or ?endpoint=URL";

impl Settings {
    pub(crate) fn find(options: &Options) -> Result<Self> {
        let variable = |name: &str| {
            let value = std::env::var_os(name)?.into_string().ok()?;
            (!value.is_empty()).then_some(value)
        };
        Self::of(options, variable)
    }

    fn of(options: &Options, variable: impl Fn(&str) -> Option<String>) -> Result<Self> {
        let storage = |name: &str| variable(&format!("AZURE_STORAGE_{name}"));
        let held = options.key_file.as_ref().map(|path| {
            let shown = path.display();
            let bytes =
                lookup::read(path).map_err(|error| Error::Invalid(format!("{shown}: {error}")))?;
            Ok::<_, Error>(Held::parse(&String::from_utf8_lossy(&bytes)))
        });
        let held = held.transpose()?;
        let given = options.account.clone();
        let given = given.or_else(|| options.keys.as_ref().map(|keys| keys.access_key_id.clone()));
        let given = given.or_else(|| account_of(options.endpoint.as_deref()?));
        let named = given.or_else(|| storage("ACCOUNT"));
        // What opens one account is not shown to another.
        let of_other = storage("ACCOUNT").is_some_and(|account| Some(account) != named);
        let own = |name: &str| storage(name).filter(|_| !of_other);
        let (held, connection) = match held {
            Some(Held::Connection(connection)) => (None, connection),
            Some(held) => (Some(held), Connection::default()),
            None => {
                let text = storage("CONNECTION_STRING");
                (
                    of_variables(own),
                    Connection::parse(&text.unwrap_or_default()),
                )
            }
        };
        let is_own = named.is_none() || connection.account() == named;
        let connection = if is_own {
            connection
        } else {
            Connection::default()
        };
        let account = named.or_else(|| connection.account());
        if account.as_deref().is_some_and(|name| !is_account(name)) {
            return Err(invalid("this is no name of an account of Azure"));
        }
        let endpoint = options.endpoint.clone();
        let endpoint = endpoint
            .or_else(|| own("SERVICE_ENDPOINT"))
            .or_else(|| connection.endpoint())
            .or_else(|| Some(format!("https://{}.blob.{SUFFIX}", account.as_ref()?)));
        let endpoint = endpoint.ok_or_else(|| invalid(NO_ACCOUNT))?;
        let place = place(&endpoint, account.as_deref(), options.path_style)?;
        let account = account.as_deref();
        let held = held.or_else(|| connection.held());
        let access = match (&options.keys, held) {
            _ if options.anonymous => Some(Access::Anonymous),
            (Some(keys), _) => Some(key(account, &keys.secret_access_key)?),
            (None, Some(Held::Key(text))) => Some(key(account, &text)?),
            (None, Some(Held::Signature(text))) => Some(signature(&text)?),
            (None, Some(Held::Connection(_)) | None) => None,
        };
        Ok(Self { place, access })
    }
}

fn of_variables(storage: impl Fn(&str) -> Option<String>) -> Option<Held> {
    let signature = || storage("SAS_TOKEN").map(Held::Signature);
    storage("KEY").map(Held::Key).or_else(signature)
}

fn is_account(name: &str) -> bool {
    let is_right = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !name.is_empty() && name.len() <= ACCOUNT_BYTES_MAX && name.bytes().all(is_right)
}

/// An endpoint, with the account in its path where the host's name does not have it, as with an
/// emulator.
fn place(endpoint: &str, account: Option<&str>, in_path: Option<bool>) -> Result<Place> {
    let (origin, path) = Origin::parse(endpoint)?;
    let path = path.split(['?', '#']).next().unwrap_or("");
    let mut path = path.trim_end_matches('/').to_owned();
    let of_host = origin.host.split('.').next().unwrap_or("");
    let in_path = in_path.unwrap_or(path.is_empty() && Some(of_host) != account);
    if let Some(account) = account.filter(|_| in_path && path.is_empty()) {
        path = format!("/{account}");
    }
    Ok(Place { origin, path })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Keys;

    fn settings(options: &Options, variables: &[(&str, &str)]) -> Result<Settings> {
        let variable = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name)?;
            Some(found.1.to_owned())
        };
        Settings::of(options, variable)
    }

    fn found(options: &Options, variables: &[(&str, &str)]) -> (String, String) {
        let Settings { place, access } = settings(options, variables).expect("settings");
        (place.origin.url() + &place.path, format!("{access:?}"))
    }

    fn is(url: &str, access: &str) -> (String, String) {
        (url.to_owned(), access.to_owned())
    }

    const KEY: &str = "Some(Key(SharedKey(one, ..)))";

    #[test]
    fn accounts_come_from_variables() {
        let none = Options::default();
        let url = "https://one.blob.core.windows.net";
        let account = ("AZURE_STORAGE_ACCOUNT", "one");
        assert_eq!(found(&none, &[account]), is(url, "None"));
        let with_key = [account, ("AZURE_STORAGE_KEY", "a2V5")];
        assert_eq!(found(&none, &with_key), is(url, KEY));
        let with_signature = [account, ("AZURE_STORAGE_SAS_TOKEN", "?sv=1&sig=secret")];
        assert_eq!(
            found(&none, &with_signature),
            is(url, "Some(Signature(..))")
        );
        let own = (
            "AZURE_STORAGE_SERVICE_ENDPOINT",
            "https://blobs.example.org/one/",
        );
        assert_eq!(
            found(&none, &[account, own]).0,
            "https://blobs.example.org/one"
        );
        // What opens one account is not shown to another.
        let other = Options {
            account: Some("two".to_owned()),
            ..Options::default()
        };
        let all = [account, own, with_key[1], with_signature[1]];
        let expected = is("https://two.blob.core.windows.net", "None");
        assert_eq!(found(&other, &all), expected);
        let text = settings(&none, &[]).expect_err("no account").to_string();
        assert!(text.contains("AZURE_STORAGE_ACCOUNT"), "{text}");
    }

    #[test]
    fn connection_strings_are_read() {
        let of = |text: &str| {
            let none = Options::default();
            found(&none, &[("AZURE_STORAGE_CONNECTION_STRING", text)])
        };
        let usual = "DefaultEndpointsProtocol=https;AccountName=one;AccountKey=a2V5;\
                     EndpointSuffix=core.chinacloudapi.cn";
        assert_eq!(of(usual), is("https://one.blob.core.chinacloudapi.cn", KEY));
        let emulator = "Some(Key(SharedKey(devstoreaccount1, ..)))";
        let at = "http://127.0.0.1:10000/devstoreaccount1";
        assert_eq!(of("UseDevelopmentStorage=true"), is(at, emulator));
        let signed = "BlobEndpoint=https://one.blob.core.windows.net/;\
                      SharedAccessSignature=sv=1&sig=secret";
        let expected = is("https://one.blob.core.windows.net", "Some(Signature(..))");
        assert_eq!(of(signed), expected);
        // That of another account is none.
        let other = [
            ("AZURE_STORAGE_ACCOUNT", "two"),
            ("AZURE_STORAGE_CONNECTION_STRING", usual),
        ];
        let expected = is("https://two.blob.core.windows.net", "None");
        assert_eq!(found(&Options::default(), &other), expected);
    }

    #[test]
    fn options_go_before_the_environment() {
        let variables = [
            ("AZURE_STORAGE_ACCOUNT", "two"),
            ("AZURE_STORAGE_KEY", "a2V5"),
        ];
        let given = Options {
            endpoint: Some("http://127.0.0.1:9/".to_owned()),
            keys: Some(Keys {
                access_key_id: "one".to_owned(),
                secret_access_key: "a2V5".to_owned(),
                session_token: None,
            }),
            ..Options::default()
        };
        assert_eq!(found(&given, &variables), is("http://127.0.0.1:9/one", KEY));
        let own_domain = Options {
            path_style: Some(false),
            ..given.clone()
        };
        assert_eq!(found(&own_domain, &variables).0, "http://127.0.0.1:9");
        let public = Options {
            account: Some("one".to_owned()),
            anonymous: true,
            ..Options::default()
        };
        let expected = is("https://one.blob.core.windows.net", "Some(Anonymous)");
        assert_eq!(found(&public, &variables), expected);
    }

    #[test]
    fn files_hold_keys_signatures_or_connections() {
        let folder = tempfile::TempDir::new().expect("a folder");
        let path = folder.path().join("key");
        for (text, access) in [
            ("a2V5\n", KEY),
            ("AAAAsig=\n", KEY),
            ("sv=1&sig=secret\n", "Some(Signature(..))"),
            ("AccountName=one;AccountKey=a2V5\n", KEY),
        ] {
            std::fs::write(&path, text).expect("a file");
            let given = Options {
                account: Some("one".to_owned()),
                key_file: Some(path.clone()),
                ..Options::default()
            };
            let variables = [("AZURE_STORAGE_SAS_TOKEN", "sig=other")];
            assert_eq!(found(&given, &variables).1, access);
        }
        let missing = Options {
            key_file: Some(folder.path().join("none")),
            ..Options::default()
        };
        assert!(settings(&missing, &[]).is_err());
    }

    #[test]
    fn what_is_wrong_is_named_without_secrets() {
        let none = Options::default();
        for variables in [
            [
                ("AZURE_STORAGE_ACCOUNT", "one"),
                ("AZURE_STORAGE_KEY", "secret!"),
            ],
            [
                ("AZURE_STORAGE_ACCOUNT", "one"),
                ("AZURE_STORAGE_SAS_TOKEN", "sig=sec ret"),
            ],
            [
                ("AZURE_STORAGE_ACCOUNT", "one/x"),
                ("AZURE_STORAGE_KEY", "a2V5"),
            ],
        ] {
            let text = settings(&none, &variables).expect_err("wrong").to_string();
            assert!(!text.contains("sec"), "{text}");
        }
    }
}
