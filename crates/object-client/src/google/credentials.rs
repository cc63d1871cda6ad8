//! Tokens: by the chain of Application Default Credentials (the file that
//! `GOOGLE_APPLICATION_CREDENTIALS` names, that of gcloud, the metadata server), by the library
//! reqsign. A file may be that of a service account, of a user, of a workload identity or of an
//! impersonation.
//!
//! A token is kept until shortly before it expires, and goes to no server without TLS.
//!
//! Weaknesses: `token_uri` of a file is not looked at; a file of gcloud that is damaged counts as
//! none.

use hyper::header::HeaderValue;
use pagewell_base::line::one_line;
use reqsign_core::{Context, Env, OsEnv, ProvideCredential};
use reqsign_google::{
    Credential, DefaultCredentialProvider, EnvCredentialProvider,
    ServiceAccountTokenCredentialProvider,
};
use tokio::sync::Mutex;

use crate::error::{Error, Result};
use crate::lookup;
use crate::options::Options;
use crate::transport::Transport;

/// Where tokens come from.
pub(crate) struct Credentials {
    /// The file that a variable names.
    named: EnvCredentialProvider,
    /// What is looked at without one.
    others: DefaultCredentialProvider,
    context: Context,
    known: Mutex<Option<Credential>>,
}

impl Credentials {
    pub(crate) fn new(options: &Options) -> Self {
        Self::with(OsEnv, lookup::transport(options))
    }

    /// The same with an environment and with connections that are given.
    pub(crate) fn with(environment: impl Env, transport: Transport) -> Self {
        Self {
            named: EnvCredentialProvider::new(),
            others: DefaultCredentialProvider::builder().no_env().build(),
            context: lookup::context(environment, transport),
            known: Mutex::new(None),
        }
    }

    /// The header of a token that is good for a while.
    ///
    /// # Errors
    /// [`Error::Denied`] when there is none.
    pub(crate) async fn header(&self) -> Result<HeaderValue> {
        // Those that come at the same time wait for one look.
        let mut known = self.known.lock().await;
        let fresh = known.take().filter(Credential::has_valid_token);
        let credential = match fresh {
            Some(credential) => credential,
            None => self.find().await?,
        };
        let token = credential.token.as_ref();
        let token = token.map_or("", |token| token.access_token.as_str());
        let header = HeaderValue::try_from(format!("Bearer {token}"));
        let mut header =
            header.map_err(|_| Error::Denied("a token of Google is no text".to_owned()))?;
        header.set_sensitive(true);
        *known = Some(credential);
        Ok(header)
    }

    async fn find(&self) -> Result<Credential> {
        let how = "GOOGLE_APPLICATION_CREDENTIALS, `gcloud auth application-default login`, or \
                   ?anonymous=true";
        let refused = |error: reqsign_core::Error| {
            let text = format!("no token of Google: {error}; give {how}");
            Error::Denied(one_line(&text))
        };
        // A file that is named and of no use is not passed over, as the chain would.
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
        found
            .filter(Credential::has_token)
            .ok_or_else(|| Error::Denied(format!("no token of Google: give {how}")))
    }

    /// Forgets a token that a server refuses, and says whether another may be found.
    pub(crate) fn forget(&self) -> bool {
        // Where it is locked, a new one is looked for already.
        self.known
            .try_lock()
            .map_or(true, |mut known| known.take().is_some())
    }
}
