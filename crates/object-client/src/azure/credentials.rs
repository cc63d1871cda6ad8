//! What opens an account: its key, a signature in the query (SAS), or a token.

use std::fmt;
use std::sync::Arc;

use hyper::header::HeaderValue;
use reqsign_core::{Context, Env, OsEnv};

use super::shared_key::SharedKey;
use super::tokens::{self, Token};
use crate::error::Result;
use crate::kept::Kept;
use crate::lookup;
use crate::options::Options;
use crate::transport::Transport;

#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Access {
    /// Nothing: for containers that all may read.
    Anonymous,
    /// The account's key, which signs requests.
    Key(Arc<SharedKey>),
    /// A part of the query, without a question mark.
    Signature(Arc<str>),
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

pub(crate) struct Credentials {
    given: Option<Access>,
    context: Context,
    known: Kept<Token>,
}

impl Credentials {
    pub(crate) fn new(given: Option<Access>, options: &Options) -> Self {
        Self::with(given, OsEnv, lookup::transport(options))
    }

    /// The same in this environment and over these connections.
    pub(super) fn with(given: Option<Access>, environment: impl Env, transport: Transport) -> Self {
        Self {
            given,
            context: lookup::context(environment, transport),
            known: Kept::default(),
        }
    }

    ///
    /// # Errors
    /// [`Error::Denied`](crate::Error::Denied) when there is nothing.
    pub(crate) async fn now(&self) -> Result<Access> {
        if let Some(access) = &self.given {
            return Ok(access.clone());
        }
        let token = self.known.get(tokens::find(&self.context)).await?;
        Ok(Access::Token(token.header()))
    }

    /// Forgets a token that a server refuses; returns whether another may be found.
    pub(crate) fn forget(&self) -> bool {
        self.given.is_none() && self.known.forget()
    }
}
