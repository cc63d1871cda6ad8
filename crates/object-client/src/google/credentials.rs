//! Tokens by the chain of Application Default Credentials (the file that
//! `GOOGLE_APPLICATION_CREDENTIALS` names, that of gcloud, the metadata server), by the library
//! reqsign. A file may be of a service account, a user, a workload identity or an impersonation.
//!
//! A token goes to no server without TLS.
//!
//! Weaknesses: `token_uri` of a file is ignored; a damaged file of gcloud counts as none.

use std::time::Duration;

use hyper::header::HeaderValue;
use pagewell_base::line::one_line;
use reqsign_core::time::Timestamp;
use reqsign_core::{Context, Env, OsEnv, ProvideCredential, SigningCredential as _};
use reqsign_google::{
    DefaultCredentialProvider, EnvCredentialProvider, ServiceAccountTokenCredentialProvider, Token,
};

use crate::error::{Error, Result};
use crate::kept::{Ends, Kept};
use crate::lookup;
use crate::options::Options;
use crate::transport::Transport;

#[derive(Clone)]
struct Held(Token);

impl Ends for Held {
    fn lasts(&self, time: Duration) -> bool {
        self.0.is_valid_at(Timestamp::now() + time)
    }
}

pub(crate) struct Credentials {
    named: EnvCredentialProvider,
    others: DefaultCredentialProvider,
    context: Context,
    known: Kept<Held>,
}

impl Credentials {
    pub(crate) fn new(options: &Options) -> Self {
        Self::with(OsEnv, lookup::transport(options))
    }

    /// The same in this environment and over these connections.
    pub(crate) fn with(environment: impl Env, transport: Transport) -> Self {
        Self {
            named: EnvCredentialProvider::new(),
            others: DefaultCredentialProvider::builder().no_env().build(),
            context: lookup::context(environment, transport),
            known: Kept::default(),
        }
    }

    ///
    /// # Errors
    /// [`Error::Denied`] when there is none.
    pub(crate) async fn header(&self) -> Result<HeaderValue> {
        let token = self.known.get(self.find()).await?.0;
        let header = HeaderValue::try_from(format!("Bearer {}", token.access_token));
        let mut header =
            header.map_err(|_| Error::Denied("a token of Google is no text".to_owned()))?;
        header.set_sensitive(true);
        Ok(header)
    }

    async fn find(&self) -> Result<Held> {
        let how = "GOOGLE_APPLICATION_CREDENTIALS, `gcloud auth application-default login`, or \
                   ?anonymous=true";
        let refused = |error: reqsign_core::Error| {
            let text = format!("no token of Google: {error}; give {how}");
            Error::Denied(one_line(&text))
        };
        // A named file that is of no use is an error; the chain would skip it.
        let named = self.named.provide_credential(&self.context).await;
        let mut found = named.map_err(refused)?;
        if found.is_none() {
            let others = self.others.provide_credential(&self.context).await;
            found = others.map_err(refused)?;
        }
        if let Some(account) = found
            .as_ref()
            .and_then(|found| found.service_account.clone())
        {
            let exchange = ServiceAccountTokenCredentialProvider::new(account);
            found = exchange
                .provide_credential(&self.context)
                .await
                .map_err(refused)?;
        }
        let token = found.and_then(|found| found.token);
        token
            .map(Held)
            .ok_or_else(|| Error::Denied(format!("no token of Google: give {how}")))
    }

    /// Forgets a token that a server refuses; returns whether another may be found.
    pub(crate) fn forget(&self) -> bool {
        self.known.forget()
    }
}
