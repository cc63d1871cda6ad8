//! Keys: given ones, or what the chain of the AWS tools finds (environment, files, SSO, web
//! identity, a program, ECS, IMDS), by the library reqsign.
//!
//! Weaknesses: the chain does not know `role_arn` with `source_profile`, renews no token of single
//! sign-on, and splits a command of `credential_process` at spaces. The AWS command line helps:
//! `credential_process = aws configure export-credentials --profile NAME --format process`.

use std::time::Duration;

use pagewell_base::line::one_line;
use reqsign_aws_core::{Credential, DefaultCredentialProvider, SSOCredentialProvider};
use reqsign_core::time::Timestamp;
use reqsign_core::{Context, Env, OsEnv, ProvideCredential, SigningCredential};

use super::config::Settings;
use crate::error::{Error, Result};
use crate::kept::{Ends, Kept};
use crate::lookup;
use crate::options::{Keys, Options};
use crate::transport::Transport;

pub(crate) struct Credentials {
    given: Option<Keys>,
    provider: DefaultCredentialProvider,
    context: Context,
    known: Kept<Credential>,
}

impl Credentials {
    pub(crate) fn new(options: &Options, settings: &Settings) -> Self {
        Self::with(options, settings, OsEnv, lookup::transport(options))
    }

    /// The same in this environment and over these connections.
    fn with(
        options: &Options,
        settings: &Settings,
        environment: impl Env,
        transport: Transport,
    ) -> Self {
        let mut builder = DefaultCredentialProvider::builder();
        if let Some(profile) = &settings.profile {
            builder = builder.with_profile(profile);
        }
        if let Some(session) = &settings.session {
            // The tools keep the token by this name, where reqsign expects an address.
            let provider = SSOCredentialProvider::new()
                .with_start_url(&session.name)
                .with_region(&session.region)
                .with_account_id(&session.account)
                .with_role_name(&session.role);
            builder = builder.sso(provider);
        }
        if options.profile.is_some() {
            // A profile that a URL names goes before the environment.
            builder = builder.no_env();
        }
        Self {
            given: options.keys.clone(),
            provider: builder.build(),
            context: lookup::context(environment, transport),
            known: Kept::default(),
        }
    }

    ///
    /// # Errors
    /// [`Error::Denied`] when there are none.
    pub(crate) async fn keys(&self) -> Result<Keys> {
        if let Some(keys) = &self.given {
            return Ok(keys.clone());
        }
        let credential = self.known.get(self.find()).await?;
        Ok(Keys {
            access_key_id: credential.access_key_id,
            secret_access_key: credential.secret_access_key,
            session_token: credential.session_token,
        })
    }

    async fn find(&self) -> Result<Credential> {
        let found = self.provider.provide_credential(&self.context).await;
        let found = found.map_err(|error| {
            let text = one_line(&format!("keys of S3: {error}"));
            Error::Denied(text)
        })?;
        found.ok_or_else(|| {
            let text = "no keys of S3: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile of \
                        the AWS tools, or ?anonymous=true";
            Error::Denied(text.to_owned())
        })
    }

    /// Forgets keys that a server calls expired; returns whether others may be found.
    pub(crate) fn forget(&self) -> bool {
        self.given.is_none() && self.known.forget()
    }
}

impl Ends for Credential {
    fn lasts(&self, time: Duration) -> bool {
        self.is_valid_at(Timestamp::now() + time)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::sync::Arc;

    use reqsign_core::StaticEnv;
    use tempfile::TempDir;

    use super::*;
    use crate::testing::{Script, Scripted, Step, reply};

    const NEVER: &str = "2999-01-01T00:00:00Z";

    fn answer(body: &str) -> Step {
        Step::Send(reply(200, &[], body.as_bytes()))
    }

    /// Keys as programs and servers give them.
    fn json(name: &str, expiration: &str) -> String {
        format!(
            r#"{{"Version": 1, "Code": "Success", "AccessKeyId": "{name}", "Token": "t",
            "SecretAccessKey": "secret", "SessionToken": "t", "Expiration": "{expiration}"}}"#
        )
    }

    /// A chain with nothing but `variables`, the files of a home folder, and a script for all
    /// servers.
    fn chain(variables: &[(&str, &str)], home: &TempDir, script: &Arc<Script>) -> Credentials {
        chain_of(&Options::default(), variables, home, script)
    }

    fn chain_of(
        options: &Options,
        variables: &[(&str, &str)],
        home: &TempDir,
        script: &Arc<Script>,
    ) -> Credentials {
        let variables = variables.iter();
        let envs = variables.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let environment = StaticEnv {
            home_dir: Some(home.path().to_owned()),
            envs: envs.collect::<HashMap<_, _>>(),
        };
        let settings = Settings {
            endpoint: None,
            region: "us-east-1".to_owned(),
            profile: options.profile.clone(),
            session: None,
        };
        of(options, &settings, environment, script)
    }

    fn of(
        options: &Options,
        settings: &Settings,
        environment: StaticEnv,
        script: &Arc<Script>,
    ) -> Credentials {
        let transport = Transport::over(Box::new(Scripted(Arc::clone(script))), options);
        Credentials::with(options, settings, environment, transport)
    }

    fn home(config: &str) -> TempDir {
        let home = TempDir::new().expect("a folder");
        std::fs::create_dir(home.path().join(".aws")).expect("a folder");
        std::fs::write(home.path().join(".aws/config"), config).expect("a file");
        home
    }

    async fn name(credentials: &Credentials) -> String {
        let keys = credentials.keys().await.expect("keys");
        assert_eq!(keys.secret_access_key, "secret");
        keys.access_key_id
    }

    const PROFILE: &str = "[profile own]\naws_access_key_id = file\n\
                           aws_secret_access_key = secret\n";
    const VARIABLES: [(&str, &str); 2] = [
        ("AWS_ACCESS_KEY_ID", "variable"),
        ("AWS_SECRET_ACCESS_KEY", "secret"),
    ];

    #[tokio::test(start_paused = true)]
    async fn keys_of_variables_and_files_are_found() {
        let (home, script) = (home(PROFILE), Script::new([]));
        assert_eq!(name(&chain(&VARIABLES, &home, &script)).await, "variable");
        let own = Options {
            profile: Some("own".to_owned()),
            ..Options::default()
        };
        let empty = [("AWS_ACCESS_KEY_ID", ""), ("AWS_SECRET_ACCESS_KEY", "")];
        let own_variable = [empty[0], empty[1], ("AWS_PROFILE", "own")];
        assert_eq!(name(&chain(&own_variable, &home, &script)).await, "file");
        let of_profile = chain_of(&own, &VARIABLES, &home, &script);
        assert_eq!(name(&of_profile).await, "file");
        let given = Options {
            keys: Some(Keys {
                access_key_id: "given".to_owned(),
                secret_access_key: "secret".to_owned(),
                session_token: None,
            }),
            ..own
        };
        let of_options = chain_of(&given, &VARIABLES, &home, &script);
        assert_eq!(name(&of_options).await, "given");
        assert!(!of_options.forget());
        assert!(script.seen().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_program_gives_keys() {
        let folder = TempDir::new().expect("a folder");
        let file = folder.path().join("keys");
        std::fs::write(&file, json("program", NEVER)).expect("a file");
        let config = format!("[default]\ncredential_process = cat {}\n", file.display());
        let home = home(&config);
        let credentials = chain(&[], &home, &Script::new([]));
        assert_eq!(name(&credentials).await, "program");
    }

    #[tokio::test(start_paused = true)]
    async fn servers_give_keys() {
        let home = home("");
        let script = Script::new([answer(&json("container", NEVER))]);
        let variables = [(
            "AWS_CONTAINER_CREDENTIALS_FULL_URI",
            "http://127.0.0.1:1/keys?x",
        )];
        let container = chain(&variables, &home, &script);
        assert_eq!(name(&container).await, "container");
        assert_eq!(script.lines(), ["GET /keys?x"]);
        assert_eq!(script.seen()[0].url, "http://127.0.0.1:1");

        let steps = [
            answer("token"),
            answer("role"),
            answer(&json("machine", NEVER)),
        ];
        let script = Script::new(steps);
        assert_eq!(name(&chain(&[], &home, &script)).await, "machine");
        let place = "/latest/meta-data/iam/security-credentials/";
        let expected = [
            "PUT /latest/api/token".to_owned(),
            format!("GET {place}"),
            format!("GET {place}role"),
        ];
        assert_eq!(script.lines(), expected);
        assert_eq!(
            script.seen()[2].header("x-aws-ec2-metadata-token"),
            Some("token")
        );

        let file = home.path().join("token");
        std::fs::write(&file, "web token").expect("a file");
        let answered = format!(
            "<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials>\
             <AccessKeyId>web</AccessKeyId><SecretAccessKey>secret</SecretAccessKey>\
             <SessionToken>t</SessionToken><Expiration>{NEVER}</Expiration></Credentials>\
             </AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>"
        );
        let script = Script::new([answer(&answered)]);
        let variables = [
            ("AWS_ROLE_ARN", "arn:aws:iam::1:role/r"),
            (
                "AWS_WEB_IDENTITY_TOKEN_FILE",
                file.to_str().expect("a path"),
            ),
        ];
        assert_eq!(name(&chain(&variables, &home, &script)).await, "web");
        assert_eq!(script.seen()[0].url, "https://sts.amazonaws.com");
    }

    /// A token of single sign-on, as the tools keep it.
    fn keep_token(home: &TempDir, key: &str) {
        let cache = home.path().join(".aws/sso/cache");
        std::fs::create_dir_all(&cache).expect("a folder");
        let name = reqsign_core::hash::hex_sha1(key.as_bytes());
        let token = format!(r#"{{"startUrl": "s", "accessToken": "a", "expiresAt": "{NEVER}"}}"#);
        std::fs::write(cache.join(format!("{name}.json")), token).expect("a file");
    }

    #[tokio::test(start_paused = true)]
    async fn a_session_of_single_sign_on_gives_keys() {
        let answered = || {
            answer(
                r#"{"roleCredentials": {"accessKeyId": "sso", "secretAccessKey": "secret",
                "sessionToken": "t", "expiration": 32472144000000}}"#,
            )
        };
        let start = "https://own.awsapps.com/start";
        let config = format!(
            "[default]\nsso_start_url = {start}\nsso_region = eu-1\nsso_account_id = 1\n\
             sso_role_name = r\n"
        );
        let home = home(&config);
        keep_token(&home, start);
        let script = Script::new([answered(), answered()]);
        assert_eq!(name(&chain(&[], &home, &script)).await, "sso");

        std::fs::write(home.path().join(".aws/config"), "").expect("a file");
        keep_token(&home, "own");
        let settings = Settings {
            endpoint: None,
            region: "us-east-1".to_owned(),
            profile: None,
            session: Some(crate::s3::config::Session {
                name: "own".to_owned(),
                region: "eu-1".to_owned(),
                account: "1".to_owned(),
                role: "r".to_owned(),
            }),
        };
        let environment = StaticEnv {
            home_dir: Some(home.path().to_owned()),
            envs: HashMap::new(),
        };
        let by_session = of(&Options::default(), &settings, environment, &script);
        assert_eq!(name(&by_session).await, "sso");
        for seen in script.seen() {
            assert_eq!(seen.url, "https://portal.sso.eu-1.amazonaws.com");
            assert_eq!(
                seen.target,
                "/federation/credentials?role_name=r&account_id=1"
            );
            assert_eq!(seen.header("x-amz-sso_bearer_token"), Some("a"));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn keys_are_kept_until_they_expire_or_are_refused() {
        let home = home("");
        let variables = [(
            "AWS_CONTAINER_CREDENTIALS_FULL_URI",
            "http://127.0.0.1:1/keys",
        )];
        let script = Script::new([
            answer(&json("short", "2000-01-01T00:00:00Z")),
            answer(&json("long", NEVER)),
            answer(&json("new", NEVER)),
        ]);
        let credentials = chain(&variables, &home, &script);
        assert_eq!(name(&credentials).await, "short");
        for _ in 0..3 {
            assert_eq!(name(&credentials).await, "long");
        }
        assert!(credentials.forget());
        assert_eq!(name(&credentials).await, "new");
        assert_eq!(script.seen().len(), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn without_keys_it_is_said_how_to_give_some() {
        let variables = [("AWS_EC2_METADATA_DISABLED", "true")];
        let script = Script::new([]);
        let error = chain(&variables, &home(""), &script).keys().await;
        let error = error.expect_err("no keys");
        assert!(matches!(&error, Error::Denied(text) if text.contains("AWS_ACCESS_KEY_ID")));
        assert!(script.seen().is_empty());
    }
}
