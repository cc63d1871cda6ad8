//! Tokens of Microsoft Entra, from the same places as the tools of Azure:
//!
//! ```text
//!   AZURE_CLIENT_ID, _TENANT_ID, _CLIENT_SECRET          an application
//!   AZURE_CLIENT_ID, _TENANT_ID, _FEDERATED_TOKEN_FILE   a workload, as in Kubernetes
//!   IDENTITY_ENDPOINT, IDENTITY_HEADER                   an application in App Service
//!   169.254.169.254                                      a machine of Azure
//!   az account get-access-token                          a person
//! ```
//!
//! The first place that is set up gives the token. The library reqsign-azure-storage does the same,
//! but brings a second implementation of each hash and of RSA, for applications that prove
//! themselves by a certificate: those are not known here.

use std::fmt::Write as _;
use std::pin::Pin;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::http::Request;
use pagewell_base::line::one_line;
use reqsign_core::Context;
use serde_json::Value;

use crate::error::{Error, Result};
use crate::kept::Ends;
use crate::percent;

const RESOURCE: &str = "https://storage.azure.com/";
const SCOPE: &str = "https://storage.azure.com/.default";
const AUTHORITY: &str = "https://login.microsoftonline.com";
const MACHINE: &str = "http://169.254.169.254/metadata/identity/oauth2/token";
const ASSERTION: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
/// How long a token without an end is believed.
const UNSAID: Duration = Duration::from_secs(420);
const SHOWN_MAX: usize = 200;

#[derive(Clone)]
pub(crate) struct Token {
    header: HeaderValue,
    until: SystemTime,
}

impl Ends for Token {
    fn lasts(&self, time: Duration) -> bool {
        SystemTime::now() + time < self.until
    }
}

impl Token {
    pub(crate) fn header(&self) -> HeaderValue {
        self.header.clone()
    }

    /// Of a reply, in which times are numbers or texts of digits.
    fn of(answer: &[u8], now: SystemTime) -> Option<Self> {
        let answer: Value = serde_json::from_slice(answer).ok()?;
        let token = answer
            .get("access_token")
            .or_else(|| answer.get("accessToken"));
        let header = format!(
            "Bearer {}",
            token?.as_str().filter(|text| !text.is_empty())?
        );
        let mut header = HeaderValue::try_from(header).ok()?;
        header.set_sensitive(true);
        let seconds = |name: &str| {
            let value = answer.get(name)?;
            let number = value.as_u64().or_else(|| value.as_str()?.parse().ok());
            // Bounded, as sums of times may overflow.
            number.map(|number| Duration::from_secs(number.min(1 << 40)))
        };
        let at = seconds("expires_on").map(|since| UNIX_EPOCH + since);
        let until = at.or_else(|| Some(now + seconds("expires_in")?));
        Some(Self {
            header,
            until: until.unwrap_or(now + UNSAID),
        })
    }
}

/// What a place gave: a token, or nothing where there is no such place.
type Found = std::result::Result<Option<Token>, String>;
/// A place that is asked once this is awaited.
type Asking<'a> = Pin<Box<dyn Future<Output = Found> + Send + 'a>>;

///
/// # Errors
/// [`Error::Denied`] when there is none, with the reasons of all places.
pub(crate) async fn find(context: &Context) -> Result<Token> {
    let mut reasons = String::new();
    let mut refused = |place: &str, reason: &str| {
        let _ = write!(reasons, "; {place}: {reason}");
    };
    let set_up: [(_, Asking<'_>); 3] = [
        ("application", Box::pin(of_application(context))),
        ("workload", Box::pin(of_workload(context))),
        ("service", Box::pin(of_service(context))),
    ];
    for (place, found) in set_up {
        match found.await {
            Ok(Some(token)) => return Ok(token),
            Ok(None) => {}
            Err(reason) => {
                refused(place, &reason);
                // A place that was set up and fails is not replaced by another.
                return Err(Error::Denied(denied(&reasons)));
            }
        }
    }
    let there: [(_, Asking<'_>); 2] = [
        ("machine", Box::pin(of_machine(context))),
        ("az", Box::pin(of_tool(context))),
    ];
    for (place, found) in there {
        match found.await {
            Ok(Some(token)) => return Ok(token),
            Ok(None) => {}
            Err(reason) => refused(place, &reason),
        }
    }
    Err(Error::Denied(denied(&reasons)))
}

fn denied(reasons: &str) -> String {
    let text = "nothing opens the account of Azure: AZURE_STORAGE_KEY, AZURE_STORAGE_SAS_TOKEN, \
                ?key-file=FILE, a token, or ?anonymous=true";
    one_line(&format!("{text}{reasons}"))
}

async fn of_application(context: &Context) -> Found {
    let Some(secret) = context.env_var("AZURE_CLIENT_SECRET") else {
        return Ok(None);
    };
    of_authority(context, &[("client_secret", &secret)]).await
}

async fn of_workload(context: &Context) -> Found {
    let Some(path) = context.env_var("AZURE_FEDERATED_TOKEN_FILE") else {
        return Ok(None);
    };
    let assertion = context.file_read_as_string(&path).await;
    let assertion = assertion.map_err(|_| format!("{path}: cannot be read"))?;
    let pairs = [
        ("client_assertion", assertion.trim()),
        ("client_assertion_type", ASSERTION),
    ];
    of_authority(context, &pairs).await
}

/// Shows the authority an application's proof.
async fn of_authority(context: &Context, proof: &[(&str, &str)]) -> Found {
    let (tenant, client) = (
        context.env_var("AZURE_TENANT_ID"),
        context.env_var("AZURE_CLIENT_ID"),
    );
    let (Some(tenant), Some(client)) = (tenant, client) else {
        return Err("AZURE_TENANT_ID and AZURE_CLIENT_ID are needed, too".to_owned());
    };
    let authority = context.env_var("AZURE_AUTHORITY_HOST");
    let authority = authority.unwrap_or_else(|| AUTHORITY.to_owned());
    let authority = authority.trim_end_matches('/');
    let mut pairs = vec![
        ("client_id", client.as_str()),
        ("grant_type", "client_credentials"),
        ("scope", SCOPE),
    ];
    pairs.extend_from_slice(proof);
    let url = format!(
        "{authority}/{}/oauth2/v2.0/token",
        percent::component(&tenant)
    );
    let request = Request::post(url)
        .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
        .body(Bytes::from(percent::query(&pairs)));
    asked(context, request).await.map(Some)
}

async fn of_service(context: &Context) -> Found {
    let (url, secret) = (
        context.env_var("IDENTITY_ENDPOINT"),
        context.env_var("IDENTITY_HEADER"),
    );
    let (Some(url), Some(secret)) = (url, secret) else {
        return Ok(None);
    };
    let query = query_of_identity(context, "2019-08-01");
    let request = Request::get(format!("{url}?{query}"))
        .header("x-identity-header", secret)
        .body(Bytes::new());
    asked(context, request).await.map(Some)
}

async fn of_machine(context: &Context) -> Found {
    let query = query_of_identity(context, "2018-02-01");
    let request = Request::get(format!("{MACHINE}?{query}"))
        .header("metadata", "true")
        .body(Bytes::new());
    asked(context, request).await.map(Some)
}

fn query_of_identity(context: &Context, version: &str) -> String {
    let client = context.env_var("AZURE_CLIENT_ID");
    let mut pairs = vec![("api-version", version), ("resource", RESOURCE)];
    pairs.extend(client.as_deref().map(|client| ("client_id", client)));
    percent::query(&pairs)
}

async fn of_tool(context: &Context) -> Found {
    let arguments = [
        "account",
        "get-access-token",
        "--resource",
        RESOURCE,
        "--output",
        "json",
    ];
    let Ok(output) = context.command_execute("az", &arguments).await else {
        return Ok(None);
    };
    if output.status != 0 {
        let text = String::from_utf8_lossy(&output.stderr);
        return Err(text.trim().chars().take(SHOWN_MAX).collect());
    }
    let token = Token::of(&output.stdout, SystemTime::now());
    token.map(Some).ok_or_else(|| "it gave no token".to_owned())
}

/// The token of a reply, or the server's reason.
async fn asked(
    context: &Context,
    request: std::result::Result<Request<Bytes>, hyper::http::Error>,
) -> std::result::Result<Token, String> {
    let request = request.map_err(|_| "this is no URL".to_owned())?;
    let answer = context.http_send(request).await;
    let answer = answer.map_err(|error| error.to_string())?;
    let status = answer.status();
    if status.is_success() {
        let token = Token::of(answer.body(), SystemTime::now());
        return token.ok_or_else(|| "the answer has no token".to_owned());
    }
    let said: Value = serde_json::from_slice(answer.body()).unwrap_or_default();
    let text = said.get("error_description").or_else(|| said.get("error"));
    let text = text.and_then(Value::as_str).unwrap_or("");
    // Numbers of the request and times follow, line by line.
    let text = text.lines().next().unwrap_or("");
    let text: String = text.chars().take(SHOWN_MAX).collect();
    Err(format!("status {} {text}", status.as_u16())
        .trim_end()
        .to_owned())
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::sync::Arc;

    use reqsign_core::StaticEnv;

    use super::*;
    use crate::lookup;
    use crate::options::Options;
    use crate::testing::{Script, Scripted, Step, reply};
    use crate::transport::Transport;

    /// Nothing but `variables`, and a script for all servers.
    fn context(variables: &[(&str, &str)], script: &Arc<Script>) -> Context {
        let variables = variables.iter();
        let envs = variables.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let environment = StaticEnv {
            home_dir: None,
            envs: envs.collect::<HashMap<_, _>>(),
        };
        let connections = Box::new(Scripted(Arc::clone(script)));
        lookup::context(
            environment,
            Transport::over(connections, &Options::default()),
        )
    }

    fn answer(status: u16, body: &str) -> Step {
        Step::Send(reply(status, &[], body.as_bytes()))
    }

    async fn found(variables: &[(&str, &str)], script: &Arc<Script>) -> String {
        let token = find(&context(variables, script)).await.expect("a token");
        assert!(token.lasts(Duration::from_secs(120)));
        token.header().to_str().expect("text").to_owned()
    }

    const APPLICATION: [(&str, &str); 3] = [
        ("AZURE_TENANT_ID", "tenant"),
        ("AZURE_CLIENT_ID", "client"),
        ("AZURE_CLIENT_SECRET", "se&cret"),
    ];

    #[tokio::test(start_paused = true)]
    async fn an_application_shows_its_secret() {
        let body = r#"{"access_token": "t1", "expires_in": 3600}"#;
        let script = Script::new([answer(200, body)]);
        assert_eq!(found(&APPLICATION, &script).await, "Bearer t1");
        assert_eq!(script.lines(), ["POST /tenant/oauth2/v2.0/token"]);
        let seen = &script.seen()[0];
        assert_eq!(seen.url, "https://login.microsoftonline.com");
        assert_eq!(
            String::from_utf8_lossy(&seen.body),
            "client_id=client&client_secret=se%26cret&grant_type=client_credentials\
             &scope=https%3A%2F%2Fstorage.azure.com%2F.default"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn no_place_is_asked_behind_the_one_that_gave_a_token() {
        let identity = [
            ("IDENTITY_ENDPOINT", "http://127.0.0.1:1/msi"),
            ("IDENTITY_HEADER", "header"),
        ];
        let variables = [&APPLICATION[..], &identity].concat();
        let body = r#"{"access_token": "t1", "expires_in": 3600}"#;
        let script = Script::new([answer(200, body)]);
        assert_eq!(found(&variables, &script).await, "Bearer t1");
        assert_eq!(script.lines(), ["POST /tenant/oauth2/v2.0/token"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_workload_shows_its_file() {
        let folder = tempfile::TempDir::new().expect("a folder");
        let path = folder.path().join("token");
        std::fs::write(&path, "of the cluster\n").expect("a file");
        let variables = [
            APPLICATION[0],
            APPLICATION[1],
            ("AZURE_FEDERATED_TOKEN_FILE", path.to_str().expect("text")),
            ("AZURE_AUTHORITY_HOST", "https://login.example.org/"),
        ];
        let body = r#"{"access_token": "t2", "expires_in": "3600"}"#;
        let script = Script::new([answer(200, body)]);
        assert_eq!(found(&variables, &script).await, "Bearer t2");
        let seen = &script.seen()[0];
        assert_eq!(seen.url, "https://login.example.org");
        let body = String::from_utf8_lossy(&seen.body).into_owned();
        assert!(
            body.starts_with("client_assertion=of%20the%20cluster&"),
            "{body}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_service_and_a_machine_have_an_identity() {
        let body = r#"{"access_token": "t3", "expires_on": "32472144000"}"#;
        let script = Script::new([answer(200, body), answer(200, body)]);
        let variables = [
            ("IDENTITY_ENDPOINT", "http://127.0.0.1:1/msi"),
            ("IDENTITY_HEADER", "header"),
        ];
        assert_eq!(found(&variables, &script).await, "Bearer t3");
        let client = [("AZURE_CLIENT_ID", "client")];
        assert_eq!(found(&client, &script).await, "Bearer t3");
        let resource = "resource=https%3A%2F%2Fstorage.azure.com%2F";
        let machine = "/metadata/identity/oauth2/token?api-version=2018-02-01&client_id=client";
        let expected = [
            format!("GET /msi?api-version=2019-08-01&{resource}"),
            format!("GET {machine}&{resource}"),
        ];
        assert_eq!(script.lines(), expected);
        assert_eq!(script.seen()[0].header("x-identity-header"), Some("header"));
        assert_eq!(script.seen()[1].header("metadata"), Some("true"));
    }

    #[tokio::test(start_paused = true)]
    async fn what_fails_is_told_without_secrets() {
        let body = r#"{"error": "x", "error_description": "AADSTS7000215: Invalid.\r\nTrace: 1"}"#;
        let script = Script::new([answer(401, body)]);
        let refused = find(&context(&APPLICATION, &script)).await;
        let text = refused.err().expect("an error").to_string();
        assert!(
            text.ends_with("; application: status 401 AADSTS7000215: Invalid."),
            "{text}"
        );
        assert!(!text.contains("se&cret"), "{text}");
        let half = [("AZURE_CLIENT_SECRET", "secret")];
        let refused = find(&context(&half, &Script::new([]))).await;
        let text = refused.err().expect("an error").to_string();
        assert!(text.contains("AZURE_TENANT_ID"), "{text}");
    }

    #[test]
    fn tokens_have_a_time() {
        let now = UNIX_EPOCH + Duration::from_secs(1_000_000);
        let of = |text: &str| Token::of(text.as_bytes(), now);
        let later = |seconds| now + Duration::from_secs(seconds);
        let token = of(r#"{"accessToken": "a", "expires_on": 1000300, "expiresOn": "x"}"#);
        let token = token.expect("a token");
        assert_eq!(token.until, later(300));
        let unsaid = of(r#"{"access_token": "a"}"#).expect("a token");
        assert_eq!(unsaid.until, later(420));
        for wrong in [
            "",
            "[]",
            "{}",
            r#"{"access_token": ""}"#,
            r#"{"access_token": "a\nb"}"#,
        ] {
            assert!(of(wrong).is_none(), "{wrong}");
        }
        bolero::check!().for_each(|bytes: &[u8]| {
            let _ = Token::of(bytes, UNIX_EPOCH);
        });
    }
}
