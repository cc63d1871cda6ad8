//! What opens an account: its key, a signature in the query (SAS), or a token that is kept until
//! shortly before it expires.

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use hyper::header::HeaderValue;
use reqsign_core::{Context, Env, OsEnv};
use tokio::sync::Mutex;

use super::shared_key::SharedKey;
use super::tokens::{self, Token};
use crate::error::Result;
use crate::lookup;
use crate::options::Options;
use crate::transport::Transport;

/// What a request is opened by.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Access {
    /// Nothing: containers that all may read.
    Anonymous,
    /// The key of the account, by which the request is signed.
    Key(Arc<SharedKey>),
    /// A part of the query, without a question mark.
    Signature(Arc<str>),
    /// The header `Authorization`.
    Token(HeaderValue),
}

impl fmt::Debug for Access {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Anonymous => formatter.write_str("Anonymous"),
            Self::Key(key) => write!(formatter, "Key({key:?})"),
            Self::Signature(_) => formatter.write_str("Signature(..)"),
            Self::Token(_) => formatter.write_str("Token(..)"),
        }
    }
}

/// Where it comes from.
pub(crate) struct Credentials {
    given: Option<Access>,
    context: Context,
    known: Mutex<Option<Token>>,
}

impl Credentials {
    /// `given`, or tokens that are looked for.
    pub(crate) fn new(given: Option<Access>, options: &Options) -> Self {
        Self::with(given, OsEnv, lookup::transport(options))
    }

    /// The same with an environment and with connections that are given.
    pub(super) fn with(given: Option<Access>, environment: impl Env, transport: Transport) -> Self {
        Self {
            given,
            context: lookup::context(environment, transport),
            known: Mutex::new(None),
        }
    }

    /// What is good for a while.
    ///
    /// # Errors
    /// [`Error::Denied`](crate::Error::Denied) when there is nothing.
    pub(crate) async fn now(&self) -> Result<Access> {
        if let Some(access) = &self.given {
            return Ok(access.clone());
        }
        // Those that come at the same time wait for one look.
        let mut known = self.known.lock().await;
        let now = SystemTime::now();
        if let Some(token) = known.as_ref().filter(|token| token.is_good(now)) {
            return Ok(Access::Token(token.header()));
        }
        match tokens::find(&self.context).await {
            Ok(token) => {
                let header = token.header();
                *known = Some(token);
                Ok(Access::Token(header))
            }
            // The one before is good until its end.
            Err(error) => match known.as_ref().filter(|token| token.lives(now)) {
                Some(token) => Ok(Access::Token(token.header())),
                None => Err(error),
            },
        }
    }

    /// Forgets a token that a server refuses, and says whether another may be found.
    pub(crate) fn forget(&self) -> bool {
        if self.given.is_some() {
            return false;
        }
        // Where it is locked, another one is looked for already.
        self.known
            .try_lock()
            .map_or(true, |mut known| known.take().is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Script, Scripted, Step, reply};
    use reqsign_core::StaticEnv;

    #[tokio::test(start_paused = true)]
    async fn a_token_is_used_until_its_end_where_no_other_is_found() {
        let environment = StaticEnv {
            home_dir: None,
            envs: [
                ("IDENTITY_ENDPOINT", "http://127.0.0.1:1/msi"),
                ("IDENTITY_HEADER", "x"),
            ]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into(),
        };
        let answer = |status, body: &str| Step::Send(reply(status, &[], body.as_bytes()));
        let short = r#"{"access_token": "short", "expires_in": 60}"#;
        let script = Script::new([
            answer(200, short),
            answer(400, "not now"),
            answer(200, r#"{"access_token": "ended", "expires_in": 0}"#),
            answer(400, "not now"),
        ]);
        let connections = Box::new(Scripted(Arc::clone(&script)));
        let transport = Transport::over(connections, &Options::default());
        let credentials = Credentials::with(None, environment, transport);
        for _ in 0..2 {
            let Ok(Access::Token(header)) = credentials.now().await else {
                panic!("no token");
            };
            assert_eq!(header, "Bearer short");
        }
        assert!(credentials.now().await.is_ok());
        assert!(credentials.now().await.is_err());
        assert_eq!(script.seen().len(), 4);
    }
}
