//! Where a bucket is, and by which profile: options, then the environment, then the AWS tools'
//! files.
//!
//! ```text
//!   [profile NAME]            `~/.aws/config`; in `~/.aws/credentials` without the word profile
//!   region = eu-central-1
//!   endpoint_url = http://127.0.0.1:9000
//!   services = local
//!
//!   [services local]
//!   s3 =
//!     endpoint_url = http://127.0.0.1:9001
//! ```
//!

use std::path::PathBuf;

use pagewell_base::files::home;

use crate::error::{Error, Result};
use crate::lookup::read;
use crate::options::Options;

const REGION: &str = "us-east-1";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    /// `None`: AWS.
    pub endpoint: Option<String>,
    pub region: String,
    pub profile: Option<String>,
    pub session: Option<Session>,
}

/// A session of single sign-on, and the account and role that it opens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Session {
    /// The name by which the tools keep its token.
    pub name: String,
    /// Region of the portal.
    pub region: String,
    pub account: String,
    pub role: String,
}

impl Settings {
    pub(crate) fn find(options: &Options) -> Result<Self> {
        let variable = |name: &str| {
            let value = std::env::var_os(name)?.into_string().ok()?;
            (!value.is_empty()).then_some(value)
        };
        let file = |name: &str, place: &str| {
            let below_home = || Some(home()?.join(".aws").join(place));
            let path = variable(name).map(PathBuf::from).or_else(below_home)?;
            let bytes = read(&path).ok()?;
            Some(String::from_utf8_lossy(&bytes).into_owned())
        };
        let config = file("AWS_CONFIG_FILE", "config").unwrap_or_default();
        let credentials = file("AWS_SHARED_CREDENTIALS_FILE", "credentials").unwrap_or_default();
        Self::of(options, variable, &config, &credentials)
    }

    fn of(
        options: &Options,
        variable: impl Fn(&str) -> Option<String>,
        config: &str,
        credentials: &str,
    ) -> Result<Self> {
        let profile = options.profile.clone().or_else(|| variable("AWS_PROFILE"));
        let name = profile.as_deref().unwrap_or("default");
        let config = Sections::parse(config);
        let credentials = Sections::parse(credentials);
        let long = format!("profile {name}");
        let found = |key: &str| {
            let short = config.get(name, key).filter(|_| name == "default");
            let short = short.or_else(|| credentials.get(name, key));
            config.get(&long, key).or(short).map(str::to_owned)
        };
        let is_known =
            config.has(&long) || (name == "default" && config.has(name)) || credentials.has(name);
        if profile.is_some() && !is_known {
            let text = format!("no profile '{name}' in the files of the AWS tools");
            return Err(Error::Invalid(text));
        }
        let of_service = || {
            let services = format!("services {}", found("services")?);
            config.get(&services, "s3.endpoint_url").map(str::to_owned)
        };
        let session = || {
            let name = found("sso_session")?;
            let section = format!("sso-session {name}");
            Some(Session {
                region: config.get(&section, "sso_region")?.to_owned(),
                account: found("sso_account_id")?,
                role: found("sso_role_name")?,
                name,
            })
        };
        let is_ignored = variable("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS").as_deref() == Some("true");
        let configured = || {
            let of_variable =
                variable("AWS_ENDPOINT_URL_S3").or_else(|| variable("AWS_ENDPOINT_URL"));
            of_variable
                .or_else(of_service)
                .or_else(|| found("endpoint_url"))
                .filter(|_| !is_ignored)
        };
        let region = options.region.clone();
        let region = region
            .or_else(|| variable("AWS_REGION"))
            .or_else(|| variable("AWS_DEFAULT_REGION"))
            .or_else(|| found("region"))
            .unwrap_or_else(|| REGION.to_owned());
        let is_right = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        if region.is_empty() || region.len() > 64 || !region.bytes().all(is_right) {
            return Err(Error::Invalid(format!("no region: {region:?}")));
        }
        Ok(Self {
            endpoint: options.endpoint.clone().or_else(configured),
            region,
            session: session(),
            profile,
        })
    }
}

/// The lines of a file: section, key, value. A key inside another has its name and a dot in front.
struct Sections<'a>(Vec<(String, String, &'a str)>);

impl<'a> Sections<'a> {
    fn parse(text: &'a str) -> Self {
        let mut lines = Vec::new();
        let (mut section, mut outer) = (String::new(), String::new());
        for line in text.lines() {
            let content = line.trim();
            if content.is_empty() || content.starts_with(['#', ';']) {
                continue;
            }
            if let Some(name) = content.strip_prefix('[') {
                let name = name.split(']').next().unwrap_or("");
                let words: Vec<&str> = name.split_whitespace().collect();
                section = words.join(" ");
                outer.clear();
                lines.push((section.clone(), String::new(), ""));
                continue;
            }
            let Some((key, value)) = content.split_once('=') else {
                continue;
            };
            let (key, value) = (key.trim().to_ascii_lowercase(), value.trim());
            let is_inner = line.starts_with([' ', '\t']) && !outer.is_empty();
            let key = if is_inner {
                format!("{outer}.{key}")
            } else {
                key
            };
            if !is_inner {
                outer = if value.is_empty() {
                    key.clone()
                } else {
                    String::new()
                };
            }
            lines.push((section.clone(), key, value));
        }
        Self(lines)
    }

    fn has(&self, section: &str) -> bool {
        self.0.iter().any(|(name, _, _)| name == section)
    }

    fn get(&self, section: &str, key: &str) -> Option<&'a str> {
        let mut found = self.0.iter();
        let found = found.find(|(name, found, _)| name == section && found == key)?;
        (!found.2.is_empty()).then_some(found.2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: &str = "# of the tests\n[default]\nregion = eu-1\nendpoint_url = http://d\n\
        [profile own]\nregion=eu-2\nservices = local\nendpoint_url = http://p\n\
        s3 =\n  addressing_style = path\n[profile  bare]\n[services local]\ns3 =\n\
        \x20 endpoint_url = http://s\ndynamodb =\n  endpoint_url = http://other\n";
    const CREDENTIALS: &str = "[old]\nregion = eu-3\naws_access_key_id = x\n";

    fn settings(options: &Options, variables: &[(&str, &str)]) -> Result<Settings> {
        let variable = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name)?;
            Some(found.1.to_owned())
        };
        Settings::of(options, variable, CONFIG, CREDENTIALS)
    }

    fn found(options: &Options, variables: &[(&str, &str)]) -> (String, Option<String>) {
        let settings = settings(options, variables).expect("settings");
        (settings.region, settings.endpoint)
    }

    fn is(region: &str, endpoint: Option<&str>) -> (String, Option<String>) {
        (region.to_owned(), endpoint.map(str::to_owned))
    }

    #[test]
    fn profiles_have_a_region_and_an_endpoint() {
        let none = Options::default();
        assert_eq!(found(&none, &[]), is("eu-1", Some("http://d")));
        let own = [("AWS_PROFILE", "own")];
        assert_eq!(found(&none, &own), is("eu-2", Some("http://s")));
        let old = [("AWS_PROFILE", "old")];
        assert_eq!(found(&none, &old), is("eu-3", None));
        let bare = Options {
            profile: Some("bare".to_owned()),
            ..Options::default()
        };
        assert_eq!(found(&bare, &own), is(REGION, None));
        let unknown = settings(&none, &[("AWS_PROFILE", "none")]);
        assert!(matches!(unknown, Err(Error::Invalid(_))));
    }

    #[test]
    fn sessions_of_single_sign_on_are_found() {
        let config = "[profile dev]\nsso_session = own\nsso_account_id = 12\n\
                      sso_role_name = reader\n[sso-session own]\nsso_region = eu-1\n";
        let dev = Options {
            profile: Some("dev".to_owned()),
            ..Options::default()
        };
        let found = Settings::of(&dev, |_| None, config, "").expect("settings");
        let expected = Session {
            name: "own".to_owned(),
            region: "eu-1".to_owned(),
            account: "12".to_owned(),
            role: "reader".to_owned(),
        };
        assert_eq!(found.session, Some(expected));
        let half = config.replace("sso_account_id", "other");
        let found = Settings::of(&dev, |_| None, &half, "").expect("settings");
        assert_eq!(found.session, None);
    }

    #[test]
    fn options_go_before_the_environment_and_that_before_files() {
        let none = Options::default();
        let variables = [("AWS_REGION", "us-2"), ("AWS_ENDPOINT_URL", "http://e")];
        assert_eq!(found(&none, &variables), is("us-2", Some("http://e")));
        let finer = [
            ("AWS_DEFAULT_REGION", "us-3"),
            ("AWS_ENDPOINT_URL", "http://e"),
            ("AWS_ENDPOINT_URL_S3", "http://f"),
        ];
        assert_eq!(found(&none, &finer), is("us-3", Some("http://f")));
        let ignored = [("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "true")];
        assert_eq!(found(&none, &ignored), is("eu-1", None));
        let given = Options {
            endpoint: Some("http://o".to_owned()),
            region: Some("r".to_owned()),
            ..Options::default()
        };
        assert_eq!(found(&given, &finer), is("r", Some("http://o")));
        let wrong = Options {
            region: Some("a/b".to_owned()),
            ..Options::default()
        };
        assert!(settings(&wrong, &[]).is_err());
    }

    #[test]
    fn any_file_is_read() {
        bolero::check!().for_each(|bytes: &[u8]| {
            let text = String::from_utf8_lossy(bytes);
            let config = format!("[default]\n{text}");
            let _ = Settings::of(&Options::default(), |_| None, &config, &text);
        });
    }
}
